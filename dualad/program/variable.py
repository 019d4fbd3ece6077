"""The atoms of a program: variables and equations.

For: the program (``ir.py``) and its printer, which both need them. Not for: anything that holds more than one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.aval import Aval

__all__ = ["Equation", "Variable"]


class Variable:
    """A value of a program, known by its aval; identity is the name."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"<variable {self.aval}>"


class Equation(NamedTuple):
    """``outs = op(*args, **params)``; an argument is a Variable or a constant (array, scalar, outer tensor).

    ``line`` is ``file:line`` of the user's code that made it, where the program was written inside ``debug``.
    """

    op: Any
    args: Sequence[Any]
    params: dict
    outs: tuple[Variable, ...]
    line: str = ""
