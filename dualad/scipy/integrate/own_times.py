"""Solutions at a solver's own times where their number is not known: in lanes, and in a program.

The first and the last exist all the same: ``sol.y[:, -1]``. Not for: numbers of times that are known.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...errors import UnsupportedError

__all__ = ["OwnTimes"]


class OwnTimes:
    """An array along the times that a solver chose, of which only the ends can be asked for.

    ``at(0)`` returns the value at the first time, ``at(-1)`` at the last one; it is ``None`` where neither is defined.
    ``words`` are the three parts of an error: the call, the reason, the remedy. ``times`` is the axis of the times,
    and ``ndim`` 1, or 2 for an array of states.
    """

    __slots__ = ("_at", "_known", "_ndim", "_times", "_words")

    def __init__(self, at: Callable[[int], Any] | None, words: tuple[str, str, str], times: int, ndim: int) -> None:
        self._at, self._words, self._times, self._ndim = at, words, times, ndim
        self._known: dict[int, Any] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._words[0]}>"

    def _end(self, place: int) -> Any:
        if place not in self._known:
            self._known[place] = self._at(place)
        return self._known[place]

    def __getitem__(self, key: Any) -> Any:
        key = key if isinstance(key, tuple) else (key,)
        if Ellipsis in [k for k in key if k is Ellipsis]:
            cut = key.index(Ellipsis)
            key = (*key[:cut], *[slice(None)] * (self._ndim - len(key) + 1), *key[cut + 1 :])
        if self._at is None or len(key) > self._ndim:
            self._refuse()
        key = (*key, *[slice(None)] * (self._ndim - len(key)))
        when, rest = key[self._times], key[: self._times] + key[self._times + 1 :]
        if isinstance(when, slice):
            if when != slice(None):
                self._refuse()
            if not rest:
                return self
            chosen, whole = rest[0], isinstance(rest[0], slice)
            return OwnTimes(lambda place: self._end(place)[chosen], self._words, self._times * whole, 1 + whole)
        try:
            place = operator.index(when)
        except TypeError:
            self._refuse()
        if place not in (0, -1):
            self._refuse()
        return self._end(place)[rest] if rest else self._end(place)

    @property
    def T(self) -> OwnTimes:
        """The same with the axes exchanged."""
        return OwnTimes(self._at, self._words, self._ndim - 1 - self._times, self._ndim)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._refuse()

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(*self._words)


for _name in (
    "__array__", "__array_ufunc__", "__array_function__", "__len__", "__iter__", "__bool__", "__float__", "__int__",
    "__neg__", "__abs__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__setitem__",
    *[f"__{side}{name}__" for side in ("", "r") for name in ("add", "sub", "mul", "truediv", "pow", "matmul")],
):  # fmt: skip
    setattr(OwnTimes, _name, OwnTimes._refuse)
