"""Random numbers under ``vmap``: what lanes share, what they don't, and which generators a function can reach.

For: ``Draws``, which one call of ``vmap`` keeps, so that lanes that run again in groups meet the numbers they met
before; ``Watched``, which says whether a generator has moved though nobody saw a draw. Draws are seen by
``numpy/random.py``. Not for: any distribution.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..base.frames import PACKAGE
from .transformed import Transformed

__all__ = ["DIFFERENT", "Draws", "RandomnessWarning", "Run", "Watched", "drawing", "runs"]

DIFFERENT = "different"


class RandomnessWarning(UserWarning):
    """Lanes of ``vmap`` shared random numbers that a loop would have drawn for each.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import dualad as da
    >>> from dualad.boundary.randomness import RandomnessWarning
    >>> rng = np.random.default_rng(0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", RandomnessWarning)
    ...     try:
    ...         da.vmap(lambda x: x + rng.normal())(np.zeros(3))
    ...     except RandomnessWarning as warning:
    ...         print("say randomness=" in str(warning))
    True
    """


class Draws:
    """The random numbers of one call of ``vmap``, in the order of the draws of a run.

    Each is kept under its place in that order and what was drawn: groups of lanes that went different ways may draw
    different things next.
    """

    __slots__ = ("kept", "mode", "name", "seen", "size")

    def __init__(self, mode: str, size: int, name: str) -> None:
        self.mode, self.size, self.name = mode, size, name
        self.kept: dict[tuple, Any] = {}
        #: ids of the bit generators whose draws were seen
        self.seen: set[int] = set()


class Run:
    """One run of the function, by some of the lanes (``None`` for all)."""

    __slots__ = ("draws", "lanes", "level", "position")

    def __init__(self, draws: Draws, level: Any, lanes: np.ndarray | None) -> None:
        self.draws, self.level, self.lanes, self.position = draws, level, lanes, 0

    def number(self, what: tuple, draw: Callable[[], Any]) -> Any:
        """Return what is drawn here: kept from a run before, or drawn now, for all lanes."""
        key = (self.position, *what)
        self.position += 1
        if key not in self.draws.kept:
            self.draws.kept[key] = draw()
        return self.draws.kept[key]


#: the runs that are going on here, outermost first; per thread and asynchronous task
runs: ContextVar[tuple[Run, ...]] = ContextVar("dualad_runs", default=())


class drawing:
    """Let the draws inside be those of a level's lanes."""

    __slots__ = ("run", "token")

    def __init__(self, draws: Draws, level: Any, lanes: np.ndarray | None) -> None:
        self.run = Run(draws, level, lanes)

    def __enter__(self) -> None:
        self.token = runs.set((*runs.get(), self.run))

    def __exit__(self, *exc_info) -> None:
        runs.reset(self.token)


# ── generators that nobody looks at ──────────────────────────────────────────────────────────────────────────────

_DEEP = 3


class Watched:
    """The generators that a function can reach, and the states they had: NumPy's, Python's, and those of its own."""

    __slots__ = ("found",)

    def __init__(self, f: Callable, leaves: Iterable) -> None:
        self.found: list[tuple[Any, Any]] = []
        legacy = sys.modules.get("numpy.random.mtrand")
        if legacy is not None:  # otherwise nobody has drawn anything
            bits = legacy._rand._bit_generator
            self.found.append((bits, _state(bits)))
            for x in leaves:
                self._add(x)
        for x in _reachable(f):
            self._add(x)

    def _add(self, x: Any) -> None:
        kind = type(x)
        if not (
            kind.__module__.startswith(("numpy.random", "random")) or kind.__name__ in ("Generator", "RandomState")
        ):
            return  # most of what a function reaches
        bits = getattr(x, "bit_generator", None) or getattr(x, "_bit_generator", None) or x
        if hasattr(bits, "getstate") or hasattr(bits, "state"):
            self.found.append((bits, _state(bits)))

    def moved(self, seen: set[int]) -> list[Any]:
        """Return the generators that have moved, but for those whose draws were seen."""
        return [bits for bits, before in self.found if id(bits) not in seen and _state(bits) != before]


#: the bit generator whose memory was looked up last (the global one's), and its numbers
_block: tuple[Any, Any] = (None, None)


def _state(bits: Any) -> Any:
    """Return something that changes whenever a bit generator draws."""
    global _block
    if type(bits).__name__ != "MT19937":
        return bits.getstate() if hasattr(bits, "getstate") else repr(bits.state)
    # 624 numbers: to copy them all takes longer than many a function does.
    known, numbers = _block
    if known is not bits:
        numbers = (ctypes.c_uint32 * 625).from_address(bits.ctypes.state_address)
        _block = bits, numbers
    return numbers[624], numbers[0], numbers[1], numbers[623]


def _reachable(f: Any) -> Iterator[Any]:
    """Yield what a function could take a generator from: its object, closure, defaults, and the globals it names."""
    pending, seen = [(f, 0)], set()
    while pending:
        x, deep = pending.pop()
        if id(x) in seen or deep > _DEEP:
            continue
        seen.add(id(x))
        if isinstance(x, functools.partial):
            pending += [(part, deep + 1) for part in (x.func, *x.args, *x.keywords.values())]
        elif isinstance(x, types.MethodType):
            pending += [(x.__func__, deep), (x.__self__, deep)]
        elif isinstance(x, types.FunctionType):
            pending += [(part, deep + 1) for part in (x.__defaults__ or ())]
            pending += [(part, deep + 1) for part in (x.__kwdefaults__ or {}).values()]
            for cell in x.__closure__ or ():
                try:
                    pending.append((cell.cell_contents, deep + 1))
                except ValueError:  # not yet filled
                    continue
            names = x.__globals__
            if not x.__code__.co_filename.startswith(PACKAGE):  # no module of the package has a generator
                pending += [(names[name], deep + 1) for name in x.__code__.co_names if name in names]
            if hasattr(x, "__wrapped__"):
                pending.append((x.__wrapped__, deep))
        elif isinstance(x, Transformed):
            pending.append((x.__wrapped__, deep))
        elif isinstance(x, types.BuiltinMethodType):
            yield x.__self__  # random.random, imported by name
        elif isinstance(x, types.ModuleType):
            if x.__name__ == "random":
                yield x._inst
        elif not isinstance(x, (type, np.ndarray, str, bytes, int, float, complex, type(None))):
            yield x
            attributes = getattr(x, "__dict__", None)  # or anything else that its class has for a name
            if not isinstance(x, (list, tuple, dict, set)) and deep < _DEEP and isinstance(attributes, dict):
                pending += [(part, _DEEP) for part in attributes.values()]
