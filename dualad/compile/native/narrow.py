"""Large constants kept in fewer bytes, to the bit: numbers as small multiples of one, known positions as int32.

What a loop over large arrays costs is mostly memory, and seeds of sparse derivatives are ones and zeros. The copies are
nobody else's, so facts about positions when the code is written hold whenever it runs, and they need no check.
Not for: constants that are one number (``values.py``), or one but for some diagonals (``bands.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .operators import DOUBLE, INT, LONG, SINGLE

__all__ = ["Multiples", "multiples_of", "short_positions"]

#: entries that are worth it
_LARGE = 1 << 12
#: the greatest count
_MOST = 127
#: entries that are tried first
_FEW = 1 << 10


class Multiples(NamedTuple):
    """A constant as ``counts`` of a ``unit``."""

    counts: np.ndarray
    unit: Any


def multiples_of(x: Any) -> Multiples | None:
    """Return floats as multiples of one of them, if each is, to the bit, a product with at most seven bits."""
    if not isinstance(x, np.ndarray) or x.size < _LARGE or x.dtype not in (DOUBLE, SINGLE) or not x.dtype.isnative:
        return None
    flat = np.ascontiguousarray(x).reshape(-1)
    with np.errstate(all="ignore"):
        size = np.abs(flat)
        unit = np.min(size, where=size > 0, initial=np.inf)
        for part in (flat[:_FEW], flat):
            counts = np.rint(part / unit)
            small = np.where(np.abs(counts) <= _MOST, counts, 0).astype(np.int8)
            if (small * unit).tobytes() != part.tobytes():
                return None
    small.setflags(write=False)
    return Multiples(small.reshape(x.shape), unit)


def short_positions(x: Any, length: int) -> np.ndarray | None:
    """Return known positions on an axis of this length as int32, if all are on it, counted from the front."""
    if not isinstance(x, np.ndarray) or x.dtype != LONG or not x.dtype.isnative or x.size < _LARGE:
        return None
    if x.min() < 0 or x.max() >= min(length, np.iinfo(np.int32).max):
        return None
    short = np.ascontiguousarray(x).astype(INT)
    short.setflags(write=False)
    return short
