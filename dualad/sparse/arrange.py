"""Entries arranged as users want them: a matrix of some format, or the blocks of a tree.

For: ``arrange``, once for a pattern; a call then copies index arrays and moves data. Index arrays are copied because
SciPy's in-place methods write to them. Not for: computing entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Aval
from ..core.contexts import compiling
from ..core.tracer import Tracer
from ..jacobians.call import slices_of
from ..ops.indexing import ARRAY, index
from .needs import scipy_module, scipy_sparse, traced_sparse
from .rows import with_entry_numbers
from .structure import Sparsity

__all__ = ["Block", "FORMATS", "arrange"]

FORMATS = ("csr", "csc", "coo", "dense", "operator", "triplets")


class Block:
    """A matrix to be: which entries it has, and its index arrays."""

    def __init__(self, indices, indptr, shape: tuple[int, int], entries: np.ndarray | None, format: str) -> None:
        self.indices, self.indptr, self.shape, self.entries, self.format = indices, indptr, shape, entries, format
        if format == "csc":
            tags = scipy_sparse().csr_array((np.arange(len(indices)), indices, indptr), shape=shape).tocsc()
            self.by_column = tags.indices, tags.indptr, tags.data

    def of(self, data: Any) -> Any:
        """Return the matrix with these data."""
        # A matrix of constants is one of arrays that a program returns, too.
        traced, form = isinstance(data, Tracer) or compiling.get() is not None, self.format
        if self.entries is not None:
            data = index(data, self.entries, template=(ARRAY,)) if traced else data.take(self.entries)
        if form == "triplets":
            return (*self._coordinates(), data)
        if traced:  # products with the matrix are differentiated and batched
            out = traced_sparse(data, self.indices, self.indptr, self.shape[1])
            return out.toarray() if form == "dense" else out.asformat(form) if form in ("csc", "coo") else out
        ss = scipy_sparse()
        if form == "csc":
            indices, indptr, order = self.by_column
            out = ss.csc_array((data.take(order), indices.copy(), indptr.copy()), shape=self.shape)
            out.has_canonical_format = True
            return out
        if form == "coo":
            return ss.coo_array((data, self._coordinates()), shape=self.shape)
        out = ss.csr_array((data, self.indices.copy(), self.indptr.copy()), shape=self.shape)
        out.has_canonical_format = True
        if form == "dense":
            return out.toarray()
        return scipy_module("scipy.sparse.linalg").aslinearoperator(out) if form == "operator" else out

    def _coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        return np.repeat(np.arange(self.shape[0], dtype=self.indices.dtype), np.diff(self.indptr)), self.indices.copy()


def arrange(S: Sparsity, format: str, kept: Any, leaves: tuple[list[Aval], list[Aval]] | None) -> list[list[Block]]:
    """Return the matrices to be made of the entries of a pattern, or of those of them that are ``kept``.

    There is one, or one for each leaf of the results and leaf of the arguments, whose avals are given then: of each
    result the list of those of the arguments.
    """
    if leaves is None:
        before = np.zeros(S.shape[0] + 1, S.indptr.dtype)
        np.cumsum(np.bincount(S.rows[kept], minlength=S.shape[0]), out=before[1:])
        return [[Block(S.indices[kept], before, S.shape, None if type(kept) is slice else kept, format)]]
    whole = with_entry_numbers(S._matrix)

    def cut(rows: slice, columns: slice) -> Block:
        part = whole[rows, columns]
        return Block(part.indices, part.indptr, part.shape, part.data, format)

    down, across = map(slices_of, leaves)
    return [[cut(rows, columns) for columns in across] for rows in down]
