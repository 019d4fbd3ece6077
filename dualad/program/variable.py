"""The parts of a program: variables, and the steps that are its equations.

For: the program (``ir.py``) and its printer, which both need them. Not for: anything that holds more than one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base.frames import user_line
from ..core.aval import Aval, aval_of
from ..core.contexts import active
from ..errors import UnsupportedError

__all__ = ["BoundedSteps", "Step", "Variable", "WatchedStep", "WatchedSteps", "aval_of_atom"]


#: most equations of a program of entries one by one
MOST = 500_000


class Variable:
    """A value of a program, known by its aval; identity is the name."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"<variable {self.aval}>"


def aval_of_atom(a: Any) -> Aval:
    """Return the aval of an argument of an equation: a variable or a constant."""
    return a.aval if type(a) is Variable else aval_of(a)


class Step(NamedTuple):
    """An equation ``outs = op(*args, **params)``; an argument is a Variable or a constant (array, number, tensor)."""

    op: Any
    args: Sequence[Any]
    params: dict[str, Any]
    outs: tuple[Variable, ...]

    @property
    def out(self) -> Variable:
        """The result of an operator that has one."""
        return self.outs[0]

    @property
    def line(self) -> str:
        """``file:line`` of the user's code that made it, if the program was written inside ``debug``."""
        return ""

    @property
    def cause(self) -> Any:
        """The forward operation that made it, as the watch describes it, if the program was written under one."""
        return None

    def rewritten(self, *parts: Any) -> Step:
        """A step of other ``parts`` (op, args, params, outs) in the place of this one, with its line and its cause."""
        return Step(*parts)


class WatchedStep(Step):
    """A step that was recorded under a watch."""

    line: str = ""
    cause: Any = None

    def rewritten(self, *parts: Any) -> Step:
        """A step of other ``parts`` (op, args, params, outs) in the place of this one, with its line and its cause."""
        step = WatchedStep(*parts)
        step.line, step.cause = self.line, self.cause
        return step


class BoundedSteps(list):
    """The steps of a program of entries one by one, which ends where it could not be compiled any more."""

    __slots__ = ()

    def append(self, step: tuple) -> None:
        """Record a step, if they are not too many."""
        self.refuse(1)
        super().append(step)

    def refuse(self, count: int) -> None:
        """Refuse more steps than can be compiled."""
        if len(self) + count > MOST:
            raise UnsupportedError(
                f"a program has more than {MOST:,} equations, of arrays that were taken apart into their entries.",
                "x.tolist() and np.asarray of a traced array give numbers, each with equations of its own; as many"
                " would take hours to compile",
                "compute with the arrays as they are (np.asarray and its like can be left out, or taken from"
                " dualad.numpy), or loop with dualad.scan",
            )


class WatchedSteps(list):
    """The steps of a program that is written under a watch."""

    __slots__ = ()

    def append(self, step: tuple) -> None:
        """Record a step with the user's line."""
        watch = active()
        if watch is not None:
            step = WatchedStep(*step)
            step.line, step.cause = user_line(), watch.cause()
        super().append(step)
