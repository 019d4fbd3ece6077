"""Constants that are one number but for a few diagonals: bases of Jacobians and Hessians, and arrays made of them.

What a program makes of such a constant is, off these diagonals, what it makes of that one number: ``Bands`` says which
numbers there are, ``met_at`` which entries of a result meet which diagonals. Zeros are not skipped: what they become,
a zero of either sign or a NaN, is computed. Not for: the loops that do so (``domains.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .operators import BOOL, DOUBLE, SINGLE

__all__ = ["Bands", "Meeting", "bands_of", "met_at", "offsets_met"]

#: diagonals of one constant, at most
_MOST = 5
#: of a constant with several diagonals, at least so many entries are off them for one that is not
_SPARSE = 4


class Bands(NamedTuple):
    """A constant by its diagonals: the number off them, and by column minus row those on one: a number, or by row."""

    off: Any
    on: dict[int, Any]


class Meeting(NamedTuple):
    """Where an index meets diagonals.

    Column minus row is ``sign`` times the counter of axis ``high`` minus that of axis ``low``, plus ``start``.
    """

    low: int
    high: int
    sign: int
    start: int

    def apart(self, k: int) -> int:
        """Return how far the two counters are apart where diagonal k is met."""
        return self.sign * (k - self.start)

    def diagonal(self, apart: int) -> int:
        """Return the diagonal that is met where the counters are so far apart."""
        return self.sign * apart + self.start


def bands_of(x: Any) -> Bands | None:
    """Return a constant as its diagonals, to the bit; None if it is not one number off a few of them."""
    if not isinstance(x, np.ndarray) or x.ndim != 2 or min(x.shape) < 2:
        return None
    if x.dtype not in (DOUBLE, SINGLE, BOOL) or not x.dtype.isnative:
        return None
    bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}")
    values, counts = np.unique(bits[0], return_counts=True)
    for off in values[np.argsort(-counts)][:2]:
        # Most constants are seen to be none by their first row.
        if np.count_nonzero(bits[0] != off) <= _MOST and (found := _off(x, bits, off)):
            return found
    return None


def _off(x: np.ndarray, bits: np.ndarray, off: Any) -> Bands | None:
    """Return a constant by the diagonals on which its bits are others than these."""
    others = bits != off
    count, columns = np.count_nonzero(others), x.shape[1]
    if not 0 < count <= _MOST * min(x.shape):
        return None
    places = np.flatnonzero(others)
    offsets = np.unique(places % columns - places // columns).tolist()
    if len(offsets) > _MOST:
        return None
    on: dict[int, Any] = {}
    for k in offsets:
        values, own = x.diagonal(k), bits.diagonal(k)
        if (own == own[0]).all():
            on[k] = values[0]
        else:
            by_row = on[k] = np.zeros(len(x), x.dtype)
            by_row[max(0, -k) : max(0, -k) + len(values)] = values
            by_row.setflags(write=False)
    uniform = len(on) == 1 and not isinstance(on[offsets[0]], np.ndarray)
    return Bands(off.view(x.dtype), on) if uniform or _SPARSE * count <= x.size else None


def met_at(row: Any, column: Any) -> Meeting | None:
    """Return where an index meets a constant's diagonals, if that is where two counters are so far apart."""
    if isinstance(row, int) or isinstance(column, int) or row[0] == column[0]:
        return None
    if row[1] != column[1] or abs(row[1]) != 1:
        return None
    step, start = row[1], column[2] - row[2]
    return Meeting(row[0], column[0], step, start) if row[0] < column[0] else Meeting(column[0], row[0], -step, start)


def offsets_met(meetings: Sequence[tuple[Meeting, Bands]]) -> tuple[tuple[int, int], list[int]] | None:
    """Return the two axes whose counters say which diagonals are met, and all distances at which one is."""
    pairs = {(m.low, m.high) for m, _ in meetings}
    if len(pairs) != 1:
        return None
    return pairs.pop(), sorted({m.apart(k) for m, bands in meetings for k in bands.on})
