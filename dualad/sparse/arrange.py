"""Entries arranged as users want them: a matrix of some format, or the blocks of a tree.

For: ``Arrangement``, prepared once; a call then copies index arrays and moves data. Index arrays are copied because
SciPy's in-place methods write to them. Not for: computing entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Aval
from ..core.tracer import Tracer
from ..ops.indexing import ARRAY, index
from .needs import scipy_module, scipy_sparse, traced_sparse
from .prepared import Prepared

__all__ = ["Arrangement", "FORMATS"]

FORMATS = ("csr", "csc", "coo", "dense", "operator", "triplets")


class _Block:
    """A matrix to be: which entries it has, and its index arrays."""

    def __init__(self, indices, indptr, shape: tuple[int, int], entries: np.ndarray | None, format: str) -> None:
        self.indices, self.indptr, self.shape, self.entries, self.format = indices, indptr, shape, entries, format
        if format == "csc":
            tags = scipy_sparse().csr_array((np.arange(len(indices)), indices, indptr), shape=shape).tocsc()
            self.by_column = tags.indices, tags.indptr, tags.data

    def of(self, data: Any) -> Any:
        """Return the matrix with these data."""
        if self.entries is not None:
            data = _pick(data, self.entries)
        if isinstance(data, Tracer):
            return self._trace(data)
        ss, form = scipy_sparse(), self.format
        if form == "csc":
            indices, indptr, order = self.by_column
            out = ss.csc_array((data.take(order), indices.copy(), indptr.copy()), shape=self.shape)
            out.has_canonical_format = True
            return out
        if form == "triplets":
            return (*self._coordinates(), data)
        if form == "coo":
            return ss.coo_array((data, self._coordinates()), shape=self.shape)
        out = ss.csr_array((data, self.indices.copy(), self.indptr.copy()), shape=self.shape)
        out.has_canonical_format = True
        if form == "dense":
            return out.toarray()
        return scipy_module("scipy.sparse.linalg").aslinearoperator(out) if form == "operator" else out

    def _coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        return np.repeat(np.arange(self.shape[0], dtype=self.indices.dtype), np.diff(self.indptr)), self.indices.copy()

    def _trace(self, data: Any) -> Any:
        """Return a matrix of tensors: products with it are differentiated and batched."""
        if self.format == "triplets":
            return (*self._coordinates(), data)
        out = traced_sparse(data, self.indices, self.indptr, self.shape[1])
        return out.toarray() if self.format == "dense" else out


def _pick(data: Any, at: np.ndarray) -> Any:
    return index(data, at, template=(ARRAY,)) if isinstance(data, Tracer) else data.take(at)


class Arrangement:
    """How the entries of a pattern become matrices.

    Parameters
    ----------
    prepared : Prepared
        Whose entries.
    format : str
        One of ``FORMATS``.
    kept : slice or int array
        Which entries are shown.
    ins, outs : list of Aval
        Of the leaves of arguments and results.
    blocks : bool
        Whether there is a matrix for each leaf and leaf.
    """

    def __init__(
        self, prepared: Prepared, format: str, kept: Any, ins: list[Aval], outs: list[Aval], blocks: bool
    ) -> None:
        self.prepared, self.blocks = prepared, blocks
        S = prepared.sparsity
        whole = scipy_sparse().csr_array((np.arange(S.nnz), S.indices, S.indptr), shape=S.shape)
        if blocks:
            self._blocks = []
            row = 0
            for o in outs:
                line, column = [], 0
                for a in ins:
                    part = whole[row : row + o.size, column : column + a.size]
                    line.append(_Block(part.indices, part.indptr, part.shape, part.data, format))
                    column += a.size
                self._blocks.append(line)
                row += o.size
        elif type(kept) is slice:
            self._block = _Block(S.indices, S.indptr, S.shape, None, format)
        else:
            before = np.zeros(S.shape[0] + 1, S.indptr.dtype)
            np.cumsum(np.bincount(S.rows[kept], minlength=S.shape[0]), out=before[1:])
            self._block = _Block(S.indices[kept], before, S.shape, kept, format)

    def matrix(self, data: Any) -> Any:
        """Return one matrix."""
        return self._block.of(data)

    def matrices(self, data: Any) -> list[list]:
        """Return the matrices of the leaves: of each result the list of those of the arguments."""
        return [[block.of(data) for block in line] for line in self._blocks]
