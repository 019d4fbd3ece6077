"""Rows of column numbers: the compressed patterns that are pushed through a program, and what can be done to them.

A pattern of m rows is a SciPy CSR array whose indices are sorted and unique. Its data are ``True``, or *tags*: the
place of every entry in the data it came from, so that the arithmetic on patterns tells how data must move. Patterns are
never counted in small integers: 256 shared indices are 0 in int8. Not for: what an operator does (``maps.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from .needs import scipy_sparse

__all__ = ["collect", "empty_rows", "gather", "identities", "join", "merge", "pattern", "same", "with_entry_numbers"]


def pattern(indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> Any:
    """Make a pattern of sorted, unique column numbers."""
    return _canonical(np.ones(len(indices), bool), indices, indptr, shape)


def _canonical(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> Any:
    matrix = scipy_sparse().csr_array((data, indices, indptr), shape=shape)
    matrix.has_canonical_format = True
    return matrix


def identity(size: int, first: int, n: int) -> Any:
    """Return the pattern of ``size`` entries that are themselves the columns ``first``, ``first + 1``, ... of n."""
    dtype = scipy_sparse().get_index_dtype(maxval=max(n, size))
    return pattern(np.arange(first, first + size, dtype=dtype), np.arange(size + 1, dtype=dtype), (size, n))


def identities(sizes: Sequence[int]) -> list:
    """Return the patterns of arrays of these sizes, whose entries are the columns one after the other."""
    n = sum(sizes)
    return [identity(size, end - size, n) for size, end in zip(sizes, accumulate(sizes), strict=True)]


def empty_rows(m: int, n: int) -> Any:
    """Return the pattern of m rows that depend on nothing."""
    dtype = scipy_sparse().get_index_dtype(maxval=max(n, m))
    return pattern(np.zeros(0, dtype), np.zeros(m + 1, dtype), (m, n))


def with_entry_numbers(p: Any) -> Any:
    """Return a pattern with the place of each entry as its data."""
    return _canonical(np.arange(p.nnz), p.indices, p.indptr, p.shape)


def same(p: Any, q: Any) -> bool:
    """Whether two patterns are equal."""
    return p is q or (
        p.shape == q.shape
        and p.nnz == q.nnz
        and np.array_equal(p.indptr, q.indptr)
        and np.array_equal(p.indices, q.indices)
    )


def gather(p: Any, rows: np.ndarray) -> Any:
    """Return the given rows of a pattern, in that order; row −1 is empty."""
    m, n = p.shape
    count = len(rows)
    if not count or not p.nnz:
        return _canonical(p.data[:0], p.indices[:0], np.zeros(count + 1, p.indptr.dtype), (count, n))
    low, high = int(rows[0]), int(rows[-1])
    if low >= 0 and high - low == count - 1 and (count == 1 or bool((rows[1:] - rows[:-1] == 1).all())):
        if count == m:
            return p
        start, stop = p.indptr[low], p.indptr[high + 1]
        return _canonical(p.data[start:stop], p.indices[start:stop], p.indptr[low : high + 2] - start, (count, n))
    if int(rows.min()) < 0:
        p = _canonical(p.data, p.indices, np.append(p.indptr, p.indptr[-1]), (m + 1, n))
        rows = np.where(rows < 0, m, rows)
    out = p[rows]
    out.has_canonical_format = True
    return out


def join(parts: list, n: int = 0) -> Any:
    """Return patterns stacked, one below the other; of no patterns, one of n columns."""
    if not parts:
        return empty_rows(0, n)
    return parts[0] if len(parts) == 1 else scipy_sparse().vstack(parts, format="csr")


def merge(p: Any, q: Any) -> Any:
    """Return the union of two patterns of one shape."""
    if same(p, q):
        return p
    out = p + q
    out.has_canonical_format = True
    return out


def collect(p: Any, targets: np.ndarray, m: int) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Send row i to row ``targets[i]`` of m rows, uniting the rows that meet.

    Returns the union; the data of ``p``, in the order of the entries of the union that they arrive at; and where in
    these those of each entry begin, ``None`` where no two of them meet.
    """
    n = p.shape[1]
    if len(targets) and not bool((targets[1:] >= targets[:-1]).all()):
        order = np.argsort(targets, kind="stable")
        targets, p = targets[order], gather(p, order)
    ends = np.zeros(m + 1, np.intp)
    np.cumsum(np.bincount(targets, minlength=m), out=ends[1:])
    indptr = p.indptr[ends]
    if not len(targets) or int((ends[1:] - ends[:-1]).max()) == 1:
        return _canonical(p.data, p.indices, indptr, (m, n)), p.data, None
    arrived = scipy_sparse().csr_array((p.data, p.indices, indptr), shape=(m, n), copy=True)
    arrived.sort_indices()
    indices = arrived.indices
    first = np.ones(len(indices), bool)
    np.not_equal(indices[1:], indices[:-1], out=first[1:])
    first[indptr[:-1][indptr[1:] > indptr[:-1]]] = True
    starts = np.flatnonzero(first)
    if len(starts) == len(indices):
        return _canonical(arrived.data, indices, indptr, (m, n)), arrived.data, None
    before = np.zeros(len(indices) + 1, p.indptr.dtype)
    np.cumsum(first, out=before[1:])
    return pattern(indices[starts], before[indptr], (m, n)), arrived.data, starts
