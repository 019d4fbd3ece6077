"""Random numbers under ``vmap``: what lanes share, what they don't, and which generators a function can reach.

For: ``Draws``, which one call of ``vmap`` keeps, so that lanes that run again in groups meet the numbers they met
before; ``Watched``, which says whether a generator has moved though nobody saw a draw. Draws are seen by
``numpy/random.py``. Not for: any distribution.
"""

from __future__ import annotations

import ctypes
import sys
import types
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..base.reach import ATOMS, SHALLOW, reachable
from ..base.tree import KINDS

__all__ = [
    "DIFFERENT", "Draws", "RandomnessWarning", "Run", "States", "Watched", "drawing", "is_generator", "runs",
]  # fmt: skip

DIFFERENT = "different"


class RandomnessWarning(UserWarning):
    """Lanes of ``vmap`` shared random numbers that a loop would have drawn for each.

    Examples
    --------
    >>> import warnings
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

    Each is kept under its place in that order and its kind: groups of lanes that went different ways may draw
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

    __slots__ = ("draws", "lanes", "level", "position", "seeded")

    def __init__(self, draws: Draws, level: Any, lanes: np.ndarray | None) -> None:
        self.draws, self.level, self.lanes, self.position = draws, level, lanes, 0
        #: the bit generators that the function itself has seeded, by their ids
        self.seeded: dict[int, Any] = {}

    def number(self, what: tuple, draw: Callable[[], Any]) -> Any:
        """Return the draw at this position, for all lanes: kept from a run before, or new."""
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


# ── generators among arguments ───────────────────────────────────────────────────────────────────────────────────


def is_generator(x: Any) -> bool:
    """Whether a value is a generator of NumPy's."""
    random = sys.modules.get("numpy.random")  # where it is not loaded there are none
    return random is not None and isinstance(x, (random.Generator, random.RandomState))


def _state_of(x: Any) -> Any:
    # A RandomState keeps the second of each two normal numbers beside its bits.
    return x.get_state(legacy=False) if hasattr(x, "get_state") else x.bit_generator.state


class States:
    """The states of the generators among some values.

    A generator whose draws are noted has a ``note``, which tells how many there are, and forgets some.
    """

    __slots__ = ("counts", "generators", "states")

    def __init__(self, values: Iterable) -> None:
        self.generators = [x for x in values if type(x) not in KINDS and is_generator(x)]
        if not self.generators:
            self.states = self.counts = []
            return
        self.states = [_state_of(x) for x in self.generators]
        self.counts = [0 if getattr(x, "note", None) is None else len(x.note) for x in self.generators]

    def restore(self) -> None:
        """Put the generators back where they were."""
        for x, state, count in zip(self.generators, self.states, self.counts, strict=True):
            if (note := getattr(x, "note", None)) is not None:
                note.forget(count)
            if hasattr(x, "set_state"):
                x.set_state(state)
            else:
                x.bit_generator.state = state

    def same(self, other: States) -> bool:
        """Whether other generators are where these were."""
        return repr(self.states) == repr(other.states)


# ── generators that nobody looks at ──────────────────────────────────────────────────────────────────────────────

#: containers are data
_ATOMS = ATOMS | {dict, list, tuple, set, frozenset}


class Watched:
    """The generators that a function can reach, and the states they had: NumPy's, Python's, and those of its own."""

    __slots__ = ("found",)

    def __init__(self, f: Callable, leaves: Iterable) -> None:
        self.found: dict[int, tuple[Any, Any]] = {}
        legacy = sys.modules.get("numpy.random.mtrand")
        if legacy is not None:  # otherwise nobody has drawn anything
            bits = legacy._rand._bit_generator
            self.found[id(bits)] = bits, _state(bits)
            for x in leaves:
                self._add(x)
        for _, _, _, x in reachable(f, SHALLOW, _ATOMS):
            if isinstance(x, types.BuiltinMethodType):
                self._add(x.__self__)  # random.random, imported by name
            elif isinstance(x, types.ModuleType):
                if x.__name__ == "random":
                    self._add(x._inst)
            else:
                self._add(x)

    def _add(self, x: Any) -> None:
        kind = type(x)
        if not (
            kind.__module__.startswith(("numpy.random", "random")) or kind.__name__ in ("Generator", "RandomState")
        ):
            return  # most of what a function reaches
        bits = getattr(x, "bit_generator", None) or getattr(x, "_bit_generator", None) or x
        if hasattr(bits, "getstate") or hasattr(bits, "state"):
            self.found.setdefault(id(bits), (bits, _state(bits)))

    def moved(self, seen: set[int]) -> list[Any]:
        """Return the generators that have moved, but for those whose draws were seen."""
        return [bits for bits, before in self.found.values() if id(bits) not in seen and _state(bits) != before]


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
