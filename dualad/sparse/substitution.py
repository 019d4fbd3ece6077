"""Entries of a symmetric matrix by substitution, where an acyclic colouring has made fewer products than entries apart.

The number that vertex i gets from the product of colour c is the sum of its entries towards vertices of that colour.
These sums are the vertices of a graph, in which each entry joins two: (i, colour of j) and (j, colour of i). The
colouring being acyclic, it is a forest; hung up by any root, an entry is what its lower end has, less the entries
below. Not for: colourings from which every entry can be read directly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import SparsityError
from .needs import scipy_module, scipy_sparse

__all__ = ["Substitution"]


class Substitution:
    """The forest of a symmetric pattern and an acyclic colouring, and its triangular system, factorized once.

    ``transposed`` has, for every entry (i, j), the position of (j, i).
    """

    def __init__(self, S: Any, colors: np.ndarray, transposed: np.ndarray) -> None:
        n = S.shape[0]
        i, j = S.rows.astype(np.intp), S.indices.astype(np.intp)
        key = colors[j].astype(np.intp) * n + i
        #: the places, in all products, of the sums that the entries are found from
        self.sums, group = np.unique(key, return_inverse=True)
        upper = np.flatnonzero(i < j)
        a, b = group[upper], group[transposed[upper]]
        size = len(self.sums)
        graph = scipy_sparse().csr_array((np.ones(len(upper), np.int8), (a, b)), shape=(size, size))
        csgraph = scipy_module("scipy.sparse.csgraph")
        count, member = csgraph.connected_components(graph, directed=False)
        if len(upper) != size - count:
            raise SparsityError(
                "a colouring is not acyclic: it can't be substituted.", "two colours make a cycle",
                "pass a colouring made by dualad.color of this very pattern",
            )  # fmt: skip
        # One more vertex that holds all trees by a root each makes a single tree of them.
        roots = np.full(count, -1)
        roots[member[::-1]] = np.arange(size)[::-1]
        ends = np.concatenate([np.ones(len(upper), np.int8), np.ones(count, np.int8)])
        whole = scipy_sparse().csr_array(
            (ends, (np.concatenate([a, roots]), np.concatenate([b, np.full(count, size)]))), shape=(size + 1, size + 1)
        )
        order, above = csgraph.breadth_first_order(whole, size, directed=False)
        rank = np.empty(size + 1, np.intp)
        rank[order] = np.arange(size, -1, -1)  # leaves first
        lower = np.where(above[a] == b, a, b)
        parent = np.where(above[a] == b, b, a)
        # The sum at the lower end is the entry, and the entries that hang below it.
        place = np.full(size + 1, -1)
        by_rank = np.argsort(rank[lower], kind="stable")
        place[lower[by_rank]] = np.arange(len(upper))
        hangs = place[parent[by_rank]]
        below = np.flatnonzero(hangs >= 0)
        m = len(upper)
        system = scipy_sparse().csc_array(
            (
                np.ones(m + len(below)),
                (np.concatenate([np.arange(m), hangs[below]]), np.concatenate([np.arange(m), below])),
            ),
            shape=(m, m),
        )
        self._factors = None
        if m:
            splu = scipy_module("scipy.sparse.linalg").splu
            self._factors = splu(system, permc_spec="NATURAL", diag_pivot_thresh=0.0)
        self._read = lower[by_rank]
        self._diagonal = np.flatnonzero(i == j)
        self._diagonal_at = group[self._diagonal]
        self._upper, self._lower = upper[by_rank], transposed[upper[by_rank]]
        self._nnz = S.nnz

    def entries(self, sums: np.ndarray) -> np.ndarray:
        """Return the entries of the pattern from the sums."""
        out = np.empty(self._nnz, sums.dtype)
        out[self._diagonal] = sums[self._diagonal_at]
        if self._factors is not None:
            right = sums[self._read]
            if right.dtype.kind == "c":
                found = self._factors.solve(right.real.astype(float)) + 1j * self._factors.solve(
                    right.imag.astype(float)
                )
            else:
                found = self._factors.solve(right.astype(float))
            out[self._upper] = out[self._lower] = found
        return out
