"""What scans are made of for arrays of other libraries, which know no ufunc's ``accumulate``.

For: ``stepped``. Not for: scans of NumPy's arrays (``scans.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

__all__ = ["stepped"]


def stepped(step: Callable, block: Callable, axis: int, x, *more):
    """Run a recurrence sₖ = step(sₖ₋₁, …, xₖ) from s₀ = x₀, along an axis of arrays of one shape.

    An array in blocks is run block by block, each of them by NumPy: ``block(x, *more, before)`` is given the entries
    of a block, with the axis first, and the last result before it (none, for the first block). Others go step by step.
    """
    moved = [np.moveaxis(a, axis, 0) for a in (x, *more)]
    n = moved[0].shape[0]
    if not n:
        return x
    if not hasattr(x, "map_blocks"):
        rows = [moved[0][0]]
        for k in range(1, n):
            rows.append(step(rows[-1], *[a[k] for a in moved[1:]], moved[0][k]))
        return np.moveaxis(np.stack(rows), 0, axis)
    first, *rest = moved
    rest = [a.rechunk(first.chunks) for a in rest]
    ends = list(itertools.accumulate(first.chunks[0]))
    done, before = [], first[:0]
    for start, stop in zip([0, *ends], ends, strict=False):
        parts = [a[start:stop] for a in (first, *rest)]
        done.append(parts[0].map_blocks(block, *parts[1:], before, dtype=first.dtype))
        before = done[-1][-1:]
    return np.moveaxis(np.concatenate(done, axis=0), 0, axis)
