"""A function compiled for one signature: its program and code, what it has captured, and which path it is.

Not for: which of them a call is run by (``jit.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..boundary.randomness import States
from ..core.tracer import Tracer
from ..errors import DualadError
from ..guards.reach import Reach
from ..program.ir import Program, distinct_calls, programs_in
from .call import CallProgram
from .captures import Captures
from .signature import has_nan
from .tracing import Arguments, Traced

__all__ = ["LeftToFunction", "Specialisation", "errors_left"]


class Specialisation:
    """A function compiled for one signature (and, with ``specialise=True``, one path through its branches)."""

    __slots__ = ("captures", "has_entry", "program", "results", "retraced", "traced")

    def __init__(self, traced: Traced, reach: Reach, most: float) -> None:
        self.traced = traced
        self.program = CallProgram(traced.program, most)
        self.results = len(traced.returned)
        hidden = {id(a) for a in traced.hidden}
        derived = bool(traced.draws) or any(
            [isinstance(c, (np.ndarray, np.generic)) and id(c) not in hidden for c in _constants(traced.program)]
        )
        self.captures = Captures(reach, traced.hidden, derived)
        self.retraced, self.has_entry = 0, False

    def inputs(self, given: Arguments) -> list:
        """Return the arrays of a call, and what it draws."""
        return [*given.arrays, *[draw.again(given.leaves) for draw in self.traced.draws]]

    def run(self, arrays: Sequence) -> tuple:
        """Run it on plain arrays."""
        return self.entered(*arrays, *self.traced.hidden)

    @property
    def entered(self) -> Callable:
        """The function that runs it, on arrays and its captures."""
        run, check = self.program.compiled.run, self.traced.check
        if check is None:
            return run

        def checked(*args: Any) -> tuple:
            check(*args)
            return run(*args)

        return checked

    def check_integers(self, arrays: Sequence) -> None:
        """Raise where Python's integers are not those of the program; a transform's tensors are none."""
        if self.traced.check and not any([isinstance(x, Tracer) and x.aval.dtype.kind in "iu" for x in arrays]):
            self.traced.check(*arrays)

    def check(self, out: Sequence) -> None:
        """Raise where a result is NaN and may be a number.

        Beside a pole, reverse mode walks back again with other zeros (``backward.py``); whether it has to is seen only
        from numbers, which a program does not have when it is written.
        """
        if any([has_nan(x) for x in out[: self.results]]):
            raise LeftToFunction

    def agrees(self, out: Sequence) -> bool:
        """Whether the branches that the program was written along are those of this call."""
        found = out[len(out) - len(self.traced.decisions) :]
        return all([np.array_equal(x, d.value) for x, d in zip(found, self.traced.decisions, strict=True)])


class LeftToFunction(Exception):
    """Only the function itself can tell: a reverse pass came out NaN, or there was an error, which it may catch."""


@contextmanager
def errors_left(states: States) -> Iterator[None]:
    """Leave what NumPy raises in compiled code to the function, with generators as they were."""
    try:
        yield
    except (DualadError, MemoryError):
        raise
    except Exception:
        states.restore()
        raise LeftToFunction from None


def _constants(program: Program) -> list:
    inside = [c for _, params in distinct_calls(program) for part in programs_in(params) for c in _constants(part)]
    return [*program.constants, *inside]
