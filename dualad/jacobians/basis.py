"""The standard basis, and a function mapped over it, some vectors at a time: here, or by the workers of an executor.

For: columns, rows and products of Jacobians and Hessians. Not for: what is made of them (``jacobian.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import optree

from ..core.aval import Aval
from ..tensors.chunks import Chunking, Plan
from ..vmap import vmap

__all__ = ["OverBasis", "join", "over_basis", "slices_of", "split_last", "standard_basis"]

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


def slices_of(spaces: Sequence[Aval | np.ndarray]) -> list[slice]:
    """Return where each of these spaces (or arrays) is in their product."""
    ends = accumulate([space.size for space in spaces])
    return [slice(end - space.size, end) for space, end in zip(spaces, ends, strict=True)]


def split_last(block: Any, avals: Sequence[Aval | np.ndarray]) -> list:
    """Cut the last axis into pieces of the avals' (or arrays') sizes and give each its aval's shape."""
    outer = block.shape[:-1]
    if len(avals) == 1:
        return [block.reshape(outer + avals[0].shape)]
    return [block[..., at].reshape(outer + a.shape) for a, at in zip(avals, slices_of(avals), strict=True)]


def over_basis(
    function: Callable, avals: Sequence[Aval], options: Chunking, unit: str = "columns", likes: Sequence | None = None,
    f: Any = None, other: Callable[[], Callable] | None = None,
) -> Any:  # fmt: skip
    """Map ``function`` over the standard basis, some vectors at a time, and join what it returns.

    For workers ``function`` can be pickled; ``other()`` makes one that does the same and is small, ``f`` is the user's.
    ``likes`` are arrays of other libraries that the vectors are to be of, each ``None`` where they are NumPy's.
    """
    small = None if other is None else lambda: OverBasis(other(), avals, likes)
    job = OverBasis(function, avals, likes)
    plan = Plan(job, sum([a.size for a in avals]), None, options.where, unit, f or function, other=small)
    return join(options.run(plan))


def join(parts: list) -> Any:
    """Put blocks of columns one after the other."""
    if len(parts) == 1:
        return parts[0]
    return optree.tree_map(lambda *blocks: np.concatenate(blocks), *parts, namespace="dualad")


class OverBasis:
    """A function mapped over some vectors of the standard basis of these spaces."""

    def __init__(self, function: Callable, avals: Sequence[Aval], likes: Sequence | None) -> None:
        self.function, self.avals = function, list(avals)
        self.likes = likes if likes is not None and any([like is not None for like in likes]) else None

    def __call__(self, start: int, stop: int) -> Any:
        """Map it over vectors ``start`` to ``stop``."""
        return vmap(self.function, randomness="same")(*standard_basis(self.avals, start, stop, self.likes))
