"""The atoms of a program: variables and equations.

For: the program (``ir.py``) and its printer, which both need them. Not for: anything that holds more than one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.aval import Aval, aval_of

__all__ = ["Equation", "Variable", "aval_of_atom"]


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


class Equation(NamedTuple):
    """``outs = op(*args, **params)``; an argument is a Variable or a constant (array, scalar, outer tensor).

    ``line`` is ``file:line`` of the user's code that made it, where the program was written inside ``debug``.
    """

    op: Any
    args: Sequence[Any]
    params: dict
    outs: tuple[Variable, ...]
    line: str = ""
