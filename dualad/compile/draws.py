"""Draws of generators that are arguments of a compiled function: made at each call, before the code that reads them.

While a function is traced a copy of each generator draws in its place, and notes the draws; the results are inputs
of the program. Not for: what ``vmap`` makes of draws (``numpy/random.py``), or generators that are no arguments, which
are refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.tree import KINDS
from ..boundary.randomness import States, is_generator
from ..core.above import ABOVE
from ..core.aval import Aval, aval_of
from ..core.contexts import StartAgain
from ..errors import NotRepeatableError
from .repeated import content_key
from .simplify import structure

__all__ = ["Draw", "DrawnInside", "Note", "check_draws", "copied", "places"]


class Draw(NamedTuple):
    """A call of a method of the generator that is leaf ``leaf`` of the arguments: an input of the program.

    Where the run that drew was given up, it has no ``name``: nothing is drawn, and nothing reads it.
    """

    leaf: int
    name: str
    args: tuple
    kwargs: dict
    aval: Aval

    @classmethod
    def of(cls, leaf: int, name: str, args: tuple, kwargs: dict, value: Any) -> Draw:
        """Note what has been drawn; arrays among the arguments may be written to later."""
        return cls(leaf, name, *copy.deepcopy((args, kwargs)), aval_of(value))

    def again(self, leaves: Sequence) -> Any:
        """Draw from a generator among the leaves."""
        if not self.name:
            unread = np.zeros(self.aval.shape, self.aval.dtype)[()]
            return unread.item() if self.aval.weak else unread
        return getattr(leaves[self.leaf], self.name)(*self.args, **self.kwargs)

    @property
    def key(self) -> Any:
        """A key of a draw, equal exactly for the same draw."""
        return structure((self.leaf, self.name, self.args, self.kwargs), content_key)


class Note:
    """The state of a generator whose draws are noted."""

    def __init__(self, level: Any, leaf: int) -> None:
        self.level, self.leaf = level, leaf

    def __call__(self, name: str, args: tuple, kwargs: dict, value: Any) -> Any:
        """Note a draw, and return what stands for it."""
        return self.level.drawn(self.leaf, name, args, kwargs, value)

    def __len__(self) -> int:
        return len(self.level.draws)

    def forget(self, start: int) -> None:
        """Undo draws from the ``start``-th on: they are made again."""
        draws = self.level.draws
        draws[start:] = [d._replace(name="") if d.leaf == self.leaf else d for d in draws[start:]]


class DrawnInside(StartAgain):
    """A generator among the arguments was drawn from where one draw stands for several: in the body of a loop."""


def places(leaves: Sequence) -> list[int]:
    """Return which leaves are generators."""
    return [i for i, x in enumerate(leaves) if type(x) not in KINDS and is_generator(x)]


def copied(given: Sequence, leaves: list, note: Callable[[int], Any]) -> list:
    """Put copies in the places of the generators among leaves, each with its own note, and return them."""
    copies: dict[int, Any] = {}
    made: dict[int, Any] = {}
    for i in places(given):
        x = given[i]
        made[id(x)] = leaves[i] = made.get(id(x)) or ABOVE.noting(x, note(i), copies)
    return list(made.values())


def check_draws(given: Sequence, draws: Sequence[Draw], noting: Sequence) -> None:
    """Raise if copies of the generators among the arguments are not where the noted draws bring them."""
    leaves = [*given]
    again = copied(given, leaves, lambda i: None)
    for draw in draws:
        draw.again(leaves)
    if not States(again).same(States(noting)):
        raise NotRepeatableError(
            "jit: a generator of random numbers that is an argument was moved by something else than its draws.",
            "each call of the compiled function makes the draws that were made when it was traced",
            "draw by the methods of the generator itself (rng.normal(size=n)), seed it outside, and don't make another"
            " one of its bits",
        )
