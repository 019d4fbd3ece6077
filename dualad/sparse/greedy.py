"""Greedy colourings of columns, and of the vertices of a symmetric pattern.

For: ``color_columns``, by SciPy's compiled kernel where it is there; ``star`` and ``acyclic``, by Numba where it is
there, and in Python for small patterns. Not for: choosing among them (``coloring.py``).
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .needs import scipy_module

__all__ = ["AFFORDABLE", "acyclic", "color_columns", "has_compiler", "is_compiled", "largest_first", "star"]

#: vertices coloured in plain Python in about a second
AFFORDABLE = 20_000
#: below this number of vertices compiling takes longer than colouring in Python
_COMPILED = 5_000


def color_columns(pattern: Any, order: np.ndarray | None = None) -> np.ndarray:
    """Colour the columns of a pattern, in an order, so that no two columns of one colour meet in a row.

    Colours are counted from 0 without gaps.
    """
    m, n = pattern.shape
    if not n:
        return np.zeros(0, np.int32)
    columns = pattern.tocsc()
    if order is not None:
        columns = columns[:, order]
    kernel = _compiled_kernel()
    if kernel is not None and columns.indices.dtype == np.int32:
        colors = np.asarray(kernel(m, n, columns.indices, columns.indptr)).astype(np.int32)
    else:
        colors = _greedy(columns)
    if order is None:
        return colors
    out = np.empty_like(colors)
    out[order] = colors
    return out


@functools.cache
def _compiled_kernel() -> Callable | None:
    """Return the kernel of SciPy's finite differences, which is private: ``None`` where a release lacks it."""
    try:
        return scipy_module("scipy.optimize._group_columns").group_sparse
    except Exception:
        return None


def _greedy(columns: Any) -> np.ndarray:
    """Colour one column after the other, in Python: each row remembers the colours that have been seen in it."""
    seen: list[set[int]] = [set() for _ in range(columns.shape[0])]
    indices, indptr = columns.indices.tolist(), columns.indptr.tolist()
    colors = np.empty(columns.shape[1], np.int32)
    for j in range(columns.shape[1]):
        rows = [seen[i] for i in indices[indptr[j] : indptr[j + 1]]]
        taken = set().union(*rows)
        c = next(c for c in range(len(taken) + 1) if c not in taken)
        colors[j] = c
        for row in rows:
            row.add(c)
    return colors


def largest_first(pattern: Any) -> np.ndarray:
    """Return the columns of a pattern, those with the most entries first."""
    counts = np.bincount(pattern.indices, minlength=pattern.shape[1])
    if counts.size and counts.min() == counts.max():
        return np.arange(counts.size)
    return np.argsort(-counts, kind="stable")


# ── symmetric patterns ───────────────────────────────────────────────────────────────────────────────────────────
#
# In a star colouring no path of four vertices has two colours: every entry off the diagonal can be read from the
# product of one of its two colours. In an acyclic one no cycle has two colours: the entries between two colours form
# trees, and are found by substitution. (Gebremedhin, Manne, Pothen 2005, 2007.)


@functools.cache
def has_compiler() -> bool:
    """Whether Numba can be imported."""
    try:
        importlib.import_module("numba")
    except Exception:
        return False
    return True


def is_compiled(vertices: int) -> bool:
    """Whether colouring this many vertices is machine code."""
    return vertices >= _COMPILED and has_compiler()


def _compile(function: Callable, plain: Callable | None = None) -> Callable:
    """Compile a kernel when it is first called for many vertices, if Numba is there; few are left to a plain one."""

    @functools.cache
    def compiled() -> Callable:
        return importlib.import_module("numba").njit(function)

    @functools.wraps(function)
    def call(indptr, *arrays):
        if is_compiled(len(indptr) - 1):
            return np.asarray(compiled()(indptr, *arrays), np.int32)
        return np.asarray((plain or function)(indptr.tolist(), *[a.tolist() for a in arrays]), np.int32)

    return call


def _star_by_sets(indptr, indices, order):
    """The same colours as ``star``, by sets: in Python its loops over paths would take seconds beside a few hubs."""
    n = len(indptr) - 1
    beside = [[w for w in indices[a:b] if w != v] for v, (a, b) in enumerate(itertools.pairwise(indptr))]
    colors = [-1] * n
    #: of each vertex: the colours beside it; those that two have; and those of vertices beside it which have its own
    #: colour twice beside them: another one beside it would end a path of four in two colours
    around, twice, closed = ([set[int]() for _ in range(n)] for _ in range(3))
    for v in order:
        taken = set[int]()
        for w in beside[v]:
            if colors[w] < 0:
                taken |= around[w]
            else:
                taken.add(colors[w])
                taken |= closed[w]
        c = next(c for c in range(len(taken) + 1) if c not in taken)
        colors[v] = c
        for x in beside[v]:
            d = colors[x]
            if d >= 0 and d in twice[v]:
                closed[x].add(c)
            if c not in around[x]:
                around[x].add(c)
            elif c not in twice[x]:
                twice[x].add(c)
                for y in beside[x] if d >= 0 else ():
                    if colors[y] == c:
                        closed[y].add(d)
            elif d >= 0:
                closed[v].add(d)
    return colors


@functools.partial(_compile, plain=_star_by_sets)
def star(indptr, indices, order):
    """Star-colour the vertices of a symmetric pattern, in the given order."""
    n = len(indptr) - 1
    colors, forbidden = [-1] * n, [0] * (n + 1)
    for stamp in range(1, n + 1):
        v = order[stamp - 1]
        for a in range(indptr[v], indptr[v + 1]):
            w = indices[a]
            if w == v:
                continue
            c = colors[w]
            if c >= 0:
                forbidden[c] = stamp
            for b in range(indptr[w], indptr[w + 1]):
                x = indices[b]
                d = colors[x]
                if x in (v, w) or d < 0 or forbidden[d] == stamp:
                    continue
                if c < 0:
                    forbidden[d] = stamp
                    continue
                for e in range(indptr[x], indptr[x + 1]):
                    y = indices[e]
                    if y != w and y != x and colors[y] == c:
                        forbidden[d] = stamp
                        break
        c = 0
        while forbidden[c] == stamp:
            c += 1
        colors[v] = c
    return colors


@_compile
def acyclic(indptr, indices, edges, order):
    """Colour the vertices of a symmetric pattern so that no cycle has two colours; ``edges`` numbers each pair once."""
    n, m = len(indptr) - 1, 0
    for e in edges:
        m = max(m, e + 1)
    colors, forbidden = [-1] * n, [0] * (n + 1)
    tree = list(range(m))
    visited_by, visited_from = [-1] * m, [-1] * m
    first, stamped = [0] * (n + 1), [0] * (n + 1)
    for stamp in range(1, n + 1):
        v = order[stamp - 1]
        for a in range(indptr[v], indptr[v + 1]):
            w = indices[a]
            if w != v and colors[w] >= 0:
                forbidden[colors[w]] = stamp
        for a in range(indptr[v], indptr[v + 1]):
            w = indices[a]
            if w == v or colors[w] < 0:
                continue
            for b in range(indptr[w], indptr[w + 1]):
                x = indices[b]
                if x in (v, w) or colors[x] < 0 or forbidden[colors[x]] == stamp:
                    continue
                t = edges[b]
                while tree[t] != t:
                    tree[t] = tree[tree[t]]
                    t = tree[t]
                if visited_by[t] == v and visited_from[t] != w:
                    forbidden[colors[x]] = stamp
                else:
                    visited_by[t], visited_from[t] = v, w
        c = 0
        while forbidden[c] == stamp:
            c += 1
        colors[v] = c
        for a in range(indptr[v], indptr[v + 1]):
            w = indices[a]
            if w == v or colors[w] < 0:
                continue
            s = edges[a]
            while tree[s] != s:
                tree[s] = tree[tree[s]]
                s = tree[s]
            d = colors[w]
            if stamped[d] == stamp:
                t = first[d]
                while tree[t] != t:
                    t = tree[t]
                tree[s] = t
            else:
                stamped[d], first[d] = stamp, s
            for b in range(indptr[w], indptr[w + 1]):
                x = indices[b]
                if x != v and x != w and colors[x] == c:
                    t = edges[b]
                    while tree[t] != t:
                        tree[t] = tree[tree[t]]
                        t = tree[t]
                    r = edges[a]
                    while tree[r] != r:
                        r = tree[r]
                    tree[r] = t
    return colors
