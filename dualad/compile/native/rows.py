"""Large arrays that are made row by row: orders of their entries, and operators on sorted rows.

Threads share the rows. Not for: the work on a row (``sorting.py``).
"""

from __future__ import annotations

import math

from ...program.variable import Step, Variable, aval_of_atom
from .code import WIDTH, Code
from .kernels import Kernel, clamp
from .positions import STATUS
from .sorting import Row, has_rows

__all__ = ["Rows", "is_by_rows"]


def is_by_rows(step: Step) -> bool:
    """Whether an equation can be a loop over rows that lie in memory one after the other."""
    op, args, params, (out,) = step
    avals = [aval_of_atom(a) for a in args]
    along_rows = params["axis"] == len(out.aval.shape) - 1 and all([a.shape == out.aval.shape for a in avals])
    return along_rows and has_rows(op.name, avals, params, out.aval)


class Rows(Kernel):
    """A large array that is made row by row."""

    def __init__(self, step: Step, block: int) -> None:
        super().__init__([step.out], False)
        self.step_, self.whole = step, False
        self.n = self.shape[-1]
        self.rows = math.prod(self.shape[:-1])
        self.step = max(1, block // (self.n * self.n))

    @property
    def work(self) -> int:
        return self.rows * self.n * (self.n if "sort" in self.step_.op.name else WIDTH) // WIDTH

    def write(self, name: str) -> tuple[str, list[str]]:
        code, (op, args, params, (out,)) = Code(), self.step_
        buffers = self.buffers(code)
        given = [buffers[a if type(a) is Variable else id(a)] for a in args]

        def room(count: int) -> str:
            code.tables.append(f"  {(memory := code.name())} = alloca [{count} x i64]")
            return memory

        def leave(bad: str) -> None:
            with code.when(bad):
                code.effect(f"store i64 1, ptr {buffers[STATUS]}")
                code.effect("ret void")

        row = Row(code, self.n, [aval_of_atom(a).dtype for a in args], out.aval.dtype, room, leave)
        row.write(op.name, params, given, buffers[out], *clamp(code, 0, self.rows))
        return code.over_rows(name), [name]
