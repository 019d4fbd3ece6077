"""Linear operators on the rows of a pattern: which entries of a result depend on which of an argument.

For: one rule per *kind* of operator. Most need none of their own: an elementwise operator unites the rows of its
arguments; one that ``moves`` entries is run on their positions; one that ``collects`` them is transposed on the
positions of its result. Contractions, and operators that mix all entries of some axes, are described by axes. An
operator without a rule makes everything depend on everything, which is safe. Not for: going through a program
(``walk.py``), or what operators with programs inside do (``loops.py``).

A rule is given the walk and a step; the walk knows the rows of the followed variables, and offers

- ``gather(rows, positions)``: rows that moved, −1 for a constant;
- ``collect(rows, targets, m)``: rows that were added up;
- ``spread(rows, targets, groups, m)``: of m results, number i depends on all rows whose target is ``groups[i]``;
- ``elementwise(step)``: what ``op`` does, entry by entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.aval import Aval
from ..core.tracer import Tracer
from ..ops.indexing import ARRAY, index
from ..program.variable import Variable

__all__ = [
    "ELEMENTWISE", "MIXING", "RULES", "along", "collects", "dense_rule", "elementwise", "moves", "positions_of",
    "shape_of",
]  # fmt: skip

#: rules of operators that need one of their own, by name; ``contractions.py`` and ``loops.py`` add theirs
RULES: dict[str, Callable] = {}

#: operators whose result at an entry depends on the arguments at that entry, as NumPy broadcasts them
ELEMENTWISE = frozenset({
    "add", "conjugate", "deg2rad", "divide", "imag", "ldexp", "multiply", "negative", "positive", "rad2deg", "real",
    "scale", "subtract", "where",
})  # fmt: skip


def shape_of(a: Any) -> tuple[int, ...]:
    """Return the shape of an argument, a variable or a constant."""
    return a.aval.shape if type(a) is Variable else np.shape(a)


def positions_of(shape: tuple[int, ...], first: int = 0) -> np.ndarray:
    """Return the positions ``first``, ``first + 1``, ... as an array of a shape."""
    size = math.prod(shape)
    dtype = np.int32 if first + size < 2**31 else np.int64
    return np.arange(first, first + size, dtype=dtype).reshape(shape)


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────────────────────


def elementwise(walk, step) -> list:
    """Unite the rows of the arguments."""
    return [walk.elementwise(step)]


def _unknown(walk, op, args, params) -> bool:
    """Whether an argument of positions (an index, an order) is unknown: a variable, or a tensor."""
    linear = op.linear_positions(len(args), params)
    return any([i not in linear and isinstance(a, (Variable, Tracer)) for i, a in enumerate(args)])


def moves(walk, step) -> list:
    """Run the operator on positions, counted from one: constants come out as zero."""
    op, args, params, outs = step
    if _unknown(walk, op, args, params):
        return _moves_somewhere(walk, step)
    first, given, parts = 1, [], []
    linear = op.linear_positions(len(args), params)
    for i, a in enumerate(args):
        if type(a) is Variable and a in walk.rows:
            given.append(positions_of(a.aval.shape, first))
            parts.append(walk.rows[a])
            first += a.aval.size
        else:
            given.append(np.zeros(shape_of(a), np.int32) if i in linear else a)
    if "dtype" in params:
        params = {**params, "dtype": np.dtype(int)}
    moved = op.impl(*given, **params)
    rows = walk.join(parts)
    return [
        walk.gather(rows, np.reshape(m, -1) - 1, v.aval)
        for m, v in zip(moved if op.multiple_results else (moved,), outs, strict=True)
    ]


def collects(walk, step) -> list:
    """Transpose the operator on the positions of its result: they arrive where the entries came from."""
    op, args, params, outs = step
    if _unknown(walk, op, args, params):
        return dense_rule(walk, step)
    x = args[0]
    given = [Aval(x.aval.shape, np.dtype(np.int64)), *args[1:]]
    targets = op.transpose(positions_of(outs[0].aval.shape), *given, **params)[0]
    return [walk.collect(walk.rows[x], np.reshape(targets, -1), outs[0].aval)]


def dense_rule(walk, step) -> list:
    """Let every entry of every result depend on every entry of every followed argument."""
    _, args, _, outs = step
    walk.note(step)
    rows = walk.join([walk.rows[a] for a in args if type(a) is Variable and a in walk.rows])
    targets = np.zeros(rows.shape[0], np.int32)
    return [walk.spread(rows, targets, np.zeros(v.aval.size, np.int32), 1) for v in outs]


# ── along some axes everything from everything ───────────────────────────────────────────────────────────────────


def along(walk, x: Variable, axes: tuple[int, ...], out: Aval, out_axes: tuple[int, ...]) -> Any:
    """Let an entry of the result depend on all entries of ``x`` along ``axes``, the other axes being broadcast.

    The axes that are left, counted from the last one, are common to both.
    """
    shape = x.aval.shape
    lanes = tuple([1 if i in axes else n for i, n in enumerate(shape)])
    groups = positions_of(lanes)
    targets = np.broadcast_to(groups, shape).reshape(-1)
    kept = tuple([n for i, n in enumerate(shape) if i not in axes])
    out_lanes = tuple([n for i, n in enumerate(out.shape) if i not in out_axes])
    there = np.expand_dims(np.broadcast_to(groups.reshape(kept), out_lanes), out_axes)
    return walk.spread(walk.rows[x], targets, np.broadcast_to(there, out.shape).reshape(-1), math.prod(lanes))


def _mixes(position: int, axes: Callable) -> Callable:
    """Make the rule of an operator that mixes the last axes of one argument; ``axes(ndim, params)`` says which."""

    def rule(walk, step):
        _, args, params, outs = step
        x = args[position]
        inside = tuple([a % x.aval.ndim for a in axes(x.aval.ndim, params)])
        shift = outs[0].aval.ndim - x.aval.ndim
        return [along(walk, x, inside, v.aval, tuple([a + shift for a in inside])) for v in outs]

    return rule


def _one_axis(ndim: int, params: dict) -> tuple[int, ...]:
    return (params["axis"],)


#: position of the argument, and which of its axes are mixed
MIXING: dict[str, tuple[int, Callable]] = {
    "all_pole": (1, lambda ndim, params: (-1,)),
    "average_groups": (0, _one_axis),
    "csr_solve": (1, lambda ndim, params: (0,)),
    "cumsum": (0, _one_axis),
    "dct": (0, _one_axis),
    "dst": (0, _one_axis),
    "factored_solve": (1, lambda ndim, params: (0,)),
    "fft": (0, _one_axis),
    "ifft": (0, _one_axis),
    "irfft": (0, _one_axis),
    "lyapunov": (1, lambda ndim, params: (-2, -1)),
    "recurrence": (1, _one_axis),
    "rfft": (0, _one_axis),
    "solve": (1, lambda ndim, params: (-2,)),
    "sylvester": (2, lambda ndim, params: (-2, -1)),
    "triangular_solve": (1, lambda ndim, params: (-2,)),
}
RULES.update({name: _mixes(*how) for name, how in MIXING.items()})


def _moves_somewhere(walk, step) -> list:
    """Move by indices that are not known: dense along the axes they run over."""
    op, args, params, outs = step
    out = outs[0].aval
    if op.name == "permute" and type(args[0]) is Variable and args[0] in walk.rows:
        return [along(walk, args[0], (params["axis"],), out, (params["axis"],))]
    if op.name not in ("index", "index_add", "index_set"):
        return dense_rule(walk, step)
    return [_index_somewhere(walk, op, args, params, out)]


def _index_somewhere(walk, op, args, params, out: Aval) -> Any:
    """Let the axes that an unknown index runs over be one entry: all of theirs, or any of theirs."""
    whole = params.get("shape", shape_of(args[0]) if op.name != "index_add" else None)
    template, count = params["template"], 2 if op.name == "index_set" else 1
    zeros = [np.zeros(shape_of(a), int) for a in args[count:]]
    axes, axis = [], 0
    for e in template:
        if e == ARRAY:
            axes.append(axis)
        axis += e is not None and e not in ("true", "false")
    lanes = tuple([1 if i in axes else n for i, n in enumerate(whole)])
    groups = np.broadcast_to(positions_of(lanes), whole)
    read = index.impl(groups, *zeros, template=template)  # of each indexed entry the group it is somewhere in
    x = args[0]
    if op.name == "index":
        return walk.spread(walk.rows[x], groups.reshape(-1), np.reshape(read, -1), math.prod(lanes))
    parts = []
    if op.name == "index_add":
        return walk.spread(walk.rows[x], np.reshape(read, -1), groups.reshape(-1), math.prod(lanes))
    if type(x) is Variable and x in walk.rows:
        parts.append(walk.rows[x])
    v = args[1]
    if type(v) is Variable and v in walk.rows:
        parts.append(walk.spread(walk.rows[v], np.reshape(read, -1), groups.reshape(-1), math.prod(lanes)))
    return walk.merge(parts)
