"""The program form: variables, equations, programs; what ``linearize`` writes down and ``trace`` returns.

For: the data. A program is a flat list of equations in the order they ran, each result assigned once, so that
evaluation, transposition and destruction are loops, never recursions. Not for: printing (``show.py``), checking
(``check.py``), running (``evaluate.py``) or changing one (``rewrite.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.aval import Aval

__all__ = ["Equation", "Program", "Variable", "live_equations"]


class Variable:
    """A value of a program, known by its aval; identity is the name."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"<variable {self.aval}>"


class Equation:
    """``outs = op(*args, **params)``; an argument is a Variable or a constant (array, scalar, outer tensor)."""

    __slots__ = ("args", "op", "outs", "params")

    def __init__(self, op, args: Sequence[Any], params: dict, outs: tuple[Variable, ...]) -> None:
        self.op, self.args, self.params, self.outs = op, args, params, outs

    def __repr__(self) -> str:
        return f"<equation {self.op.name}>"


class Program:
    """A straight-line program.

    Parameters
    ----------
    inputs : sequence of Variable
        What it is called with.
    equations : sequence of Equation
        In the order they run.
    outputs : sequence of Variable or constant
        What it returns; a constant output does not depend on the inputs.
    name : str
        For printing.
    in_tree, out_tree : PyTreeSpec, optional
        The structure of ``(args, kwargs)`` and of the result of the function it was traced from; without them the
        program takes and returns flat lists.
    """

    __slots__ = ("equations", "in_tree", "inputs", "name", "out_tree", "outputs")

    def __init__(self, inputs, equations, outputs, name: str = "program", in_tree=None, out_tree=None) -> None:
        self.inputs, self.equations, self.outputs = tuple(inputs), tuple(equations), tuple(outputs)
        self.name, self.in_tree, self.out_tree = name, in_tree, out_tree

    @property
    def constants(self) -> list:
        """The constants its equations read, in order of appearance, each object once: of a linear program, the residuals."""
        seen: dict[int, Any] = {}
        for equation in self.equations:
            for a in equation.args:
                if not isinstance(a, Variable) and hasattr(a, "shape"):
                    seen.setdefault(id(a), a)
        for a in self.outputs:
            if not isinstance(a, Variable) and hasattr(a, "shape"):
                seen.setdefault(id(a), a)
        return list(seen.values())


def live_equations(equations: Sequence[Equation], outputs: Sequence[Any]) -> list[Equation]:
    """Return the equations the outputs depend on, in order: dead code eliminated in one backward pass."""
    needed = {v for v in outputs if isinstance(v, Variable)}
    live = []
    for equation in reversed(equations):
        for out in equation.outs:
            if out in needed:
                live.append(equation)
                needed.update(a for a in equation.args if isinstance(a, Variable))
                break
    live.reverse()
    return live
