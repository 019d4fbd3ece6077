"""Memory between guard zones: machine code that writes where it must not is seen at its first run.

Copies of the arguments, the results and the memory that it works in lie in one piece of memory, a zone of a pattern
before and behind each. After the run the zones and the arguments have to be what they were. Not for: writes that are
further off than the whole piece is long, or memory that the code asks the allocator for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["Guarded", "StrayWrite"]

#: of every zone and every result before the run: a signalling NaN, whose halves are no numbers that anyone computes
_PATTERN = np.uint64(0x7FF4_DEAD_7FA5_BEEF)
#: bytes of a zone at least and at most; between these it is as long as the array before it
_SHORT, _LONG = 256, 4096
_LINE = 64


class StrayWrite(Exception):
    """Machine code has written outside of its results."""


class Guarded:
    """Arrays between guard zones: copies of those ``given``, and new ones of the shapes and dtypes in ``wanted``."""

    def __init__(self, given: Sequence[np.ndarray], wanted: Sequence[tuple[tuple[int, ...], np.dtype]]) -> None:
        shapes = [*[(a.shape, a.dtype) for a in given], *wanted]
        sizes = [int(np.prod(shape, dtype=np.int64)) * dtype.itemsize for shape, dtype in shapes]
        starts, end = [], _LONG
        for size in sizes:
            starts.append(end)
            end += size + -size % _LINE + min(max(_SHORT, size - size % _LINE), _LONG)
        words = np.full(end // 8 + _LINE // 8, _PATTERN)
        first = -words.ctypes.data % _LINE // 8
        self._memory = words[first : first + end // 8].view(np.uint8)
        arrays = [
            self._memory[start : start + size].view(dtype).reshape(shape)
            for start, size, (shape, dtype) in zip(starts, sizes, shapes, strict=True)
        ]
        self._originals = given
        self.given, self.made = arrays[: len(given)], arrays[len(given) :]
        for a, b in zip(self.given, given, strict=True):
            a[...] = b
        edges = zip([0, *[s + n for s, n in zip(starts, sizes, strict=True)]], [*starts, end], strict=True)
        self._zones = [(i, low, high) for i, (low, high) in enumerate(edges)]

    def verify(self) -> None:
        """Raise ``StrayWrite`` where a zone or an argument is not what it was."""
        found = []
        pattern = _PATTERN.tobytes()
        for i, low, high in self._zones:
            # A zone begins in the middle of a word where an array ends there.
            whole = np.frombuffer(pattern * 2, np.uint8)[low % 8 : low % 8 + 8]
            cut = high - (high - low) % 8
            same = np.array_equal(self._memory[low:cut].reshape(-1, 8), np.broadcast_to(whole, ((cut - low) // 8, 8)))
            if not same or not np.array_equal(self._memory[cut:high], whole[: high - cut]):
                found.append(f"behind {self._name(i - 1)}" if i else f"before {self._name(0)}")
        for i, (a, b) in enumerate(zip(self.given, self._originals, strict=True)):
            if a.tobytes() != b.tobytes():
                found.append(f"into {self._name(i)}")
        if found:
            raise StrayWrite(f"machine code wrote {', '.join(found)}")

    def _name(self, i: int) -> str:
        count = len(self.given)
        return f"argument {i} of its function" if i < count else f"array {i - count} that it makes"
