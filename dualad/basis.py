"""Vectors of the standard basis, of the spaces that a function's arguments or results are in.

For: the columns and rows of a Jacobian. Not for: mapping a function over them (``jacobian.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .core.aval import Aval

__all__ = ["split_last", "standard_basis"]

#: how many entries a block of a lazy basis has at most: 128 MB of them
_BLOCK = 2**24


def standard_basis(
    avals: Sequence[Aval], start: int = 0, stop: int | None = None, likes: Sequence | None = None
) -> list:
    """Return vectors ``start`` to ``stop`` of the standard basis of the product of these spaces.

    Row i of all arrays together is a unit vector; array k has shape ``(stop - start, *avals[k].shape)``. ``stop`` is
    the total size by default. ``likes`` are arrays of other libraries that the vectors are to be of, each ``None``
    where they are NumPy's.
    """
    stop = sum(a.size for a in avals) if stop is None else stop
    basis, first = [], 0
    for a, like in zip(avals, likes or [None] * len(avals), strict=True):
        if like is None:
            block = np.zeros((stop - start, a.size), a.dtype)
            low, high = max(start, first), min(stop, first + a.size)
            if low < high:
                rows = np.arange(low, high)
                block[rows - start, rows - first] = 1
        else:
            block = _elsewhere(start, stop, first, first + a.size, like).astype(a.dtype)
        basis.append(block.reshape((stop - start, *a.shape)))
        first += a.size
    return basis


def _elsewhere(start: int, stop: int, first: int, last: int, like: Any) -> Any:
    """Say of each number from ``start`` on which of those from ``first`` on it is, in a matrix of another library's."""
    rows: Any = np.arange(start, stop, like=like)
    entries: Any = np.arange(first, last, like=like)
    if hasattr(like, "chunksize"):  # in blocks, or the matrix would be one
        width = max(1, math.prod(like.chunksize))
        rows, entries = rows.rechunk(max(1, _BLOCK // width)), entries.rechunk(width)
    return rows[:, None] == entries


def split_last(block: Any, avals: Sequence[Aval]) -> list:
    """Cut the last axis into pieces of the avals' sizes and give each its aval's shape."""
    if len(avals) == 1:
        return [block.reshape(block.shape[:-1] + avals[0].shape)]
    parts, start = [], 0
    for a in avals:
        parts.append(block[..., start : start + a.size].reshape(block.shape[:-1] + a.shape))
        start += a.size
    return parts
