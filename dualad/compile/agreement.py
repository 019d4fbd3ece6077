"""Whether results of compiled code are those of the plain program: bit for bit, or as near as noise says they can be.

Where bits are promised, they are compared; NaN is NaN. Elsewhere an entry may differ by a few units in the last place,
or by so many times what noise of that size does to it (``reference.py``): that is little for a sum, much for a sum that
cancels or a chaotic loop, and everything for the position of the largest of equal entries. Not for: who is compared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["difference"]

#: units in the last place that need no explanation where bits are not promised
_NEAR = 32
#: how many times what noise does to an entry it may differ
_TIMES = 32.0
#: runs with noise at most, and without an entry more that they explain
_RUNS, _IN_VAIN = 48, 5


def difference(
    got: Sequence,
    plain: Sequence,
    exact: Callable[[], Sequence[bool]],
    again: Callable[[], Sequence],
    noisy: Callable[[int], Sequence],
) -> str:
    """Say in which entry results differ; nothing if they do not.

    ``exact()`` says of each whether it is promised bit for bit; ``again()`` are the plain results once more, and
    ``noisy(seed)`` with noise. These are asked for where it matters.
    """
    pairs = [_Pair(i, *both) for i, both in enumerate(zip(got, plain, strict=True))]
    for pair in pairs:
        if pair.kinds:
            return pair.kinds
    if all([pair.got.tobytes() == pair.plain.tobytes() for pair in pairs]):
        return ""
    promised = exact()
    for pair, bits in zip(pairs, promised, strict=True):
        pair.compare(bits)
    if not any([pair.unlike.any() for pair in pairs]):
        return ""
    count = lambda: sum([np.count_nonzero(pair.unlike) for pair in pairs])
    seed, in_vain = 0, _IN_VAIN if all(promised) else 0
    while in_vain < _IN_VAIN and seed < _RUNS and (before := count()):
        with contextlib.suppress(ArithmeticError, ValueError):  # a matrix that noise makes singular
            for pair, x in zip(pairs, noisy(seed), strict=True):
                pair.explain(x)
        seed, in_vain = seed + 1, in_vain + 1 if count() == before else 0
    if (
        count()
    ):  # arguments that another thread writes to, or an operator that is not the same twice, are no fault of ours
        with contextlib.suppress(ArithmeticError, ValueError):
            for pair, x in zip(pairs, again(), strict=True):
                pair.explain(x)
    return "; ".join([pair.words() for pair in pairs if pair.unlike.any()][:3])


class _Pair:
    """One result of compiled code, and the same of the plain program."""

    def __init__(self, number: int, got: Any, plain: Any) -> None:
        self.number, self.got, self.plain = number, np.asarray(got), np.asarray(plain)
        self.kinds = ""
        if (self.got.shape, self.got.dtype) != (self.plain.shape, self.plain.dtype):
            as_text = lambda a: f"{a.dtype}{list(a.shape)}"
            self.kinds = f"result {number} is {as_text(self.got)} for {as_text(self.plain)}"
        self._moved: np.ndarray | None = None

    def compare(self, exact: bool) -> None:
        """Find the entries that are ``unlike``."""
        a, b = self.got, self.plain
        same = (a == b) | ((a != a) & (b != b))
        if a.dtype.kind in "fc" and exact:
            same &= (np.signbit(a.real) == np.signbit(b.real)) | (a != a)
            same &= (np.signbit(a.imag) == np.signbit(b.imag)) | (a != a)
        elif a.dtype.kind in "fc":
            with np.errstate(all="ignore"):
                same |= np.abs(a - b) <= _NEAR * np.finfo(a.dtype).eps * np.abs(b)
        self.unlike = ~same

    def explain(self, other: Any) -> None:
        """Take what another run of the plain program gives into account."""
        with np.errstate(all="ignore"):
            moved = _distance(np.asarray(other), self.plain)
            self._moved = moved if self._moved is None else np.maximum(self._moved, moved)
            self.unlike = self.unlike & ~(_distance(self.got, self.plain) <= _TIMES * self._moved)

    def words(self) -> str:
        count = np.count_nonzero(self.unlike)
        index = tuple([int(i) for i in np.argwhere(self.unlike)[0]])
        where = f"entry {index} of result {self.number}" if index else f"result {self.number}"
        more = f", and {count - 1} more of {self.got.size} entries" if count > 1 else ""
        return f"{where} is {self.got[index]!r} for {self.plain[index]!r}{more}"


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return how far numbers are from each other: infinitely far where only one is finite, or the infinities differ."""
    if a.dtype.kind not in "fc":
        return np.abs(a.astype(float) - b.astype(float))
    same = (a == b) | ((a != a) & (b != b))
    far = np.abs(a - b).astype(float)
    return np.where(same, 0.0, np.where(np.isfinite(a) & np.isfinite(b), far, np.inf))
