"""Equations on large arrays in the body of a loop: loop nests over memory, which the loop's function calls.

What registers do not hold is written as outside of loops (``passes.py``), in functions of the same module: each turn
hands them a table of addresses. Not for: the loop itself, or what it carries (``loops.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval
from ...program.ir import Program
from ...program.variable import Step, Variable
from ..regrouped import regroup
from .engine import Engine
from .equations import Call
from .indices import in_memory
from .lowering import is_indexed
from .operators import LONG
from .passes import Pass, find_loops
from .positions import OUT_OF_BOUNDS
from .table import Way, lowering_of
from .values import Values, is_uniform

__all__ = ["HELD", "Nests", "with_nests"]

#: arrays of more entries are in memory: in registers they take LLVM long, and leave them anyway
HELD = 256
#: entries of a constant in a body, which is written into the module's text
_CONSTANT = 4096


class Nests(Pass):
    """Equations on large arrays in a loop's body, with their loops."""

    least = 0

    def _enter(self, made: Engine, held: list[Variable], calls: list[Call], work: int) -> None:
        self.held, self.calls = held, calls

    def write(self, lowering: Any, args: Sequence[Values], targets: dict[Any, str]) -> list[Values]:
        """Write the calls of the functions into the code of the loop's; return the results, which are in memory.

        ``targets`` says of results where they are written.
        """
        code, names = lowering.code, lowering.take_over(self.text)
        made = {v: targets.get(v) or lowering.room(v.aval) for v in self.held}
        status = lowering.room(Aval((1,), LONG))
        code.effect(f"store i64 0, ptr {status}")
        table = code.table_of([*[in_memory(lowering, x) for x in args], *[made[v] for v in self.held], status])
        for name, rows, _ in self.calls:
            code.effect(f"call void @{names[name]}(ptr {table}, i64 0, i64 {rows})")
        if self._is_asked:
            with code.when(code.new(f"icmp ne i64 {code.new(f'load i64, ptr {status}')}, 0")):
                code.effect(f"ret i32 {OUT_OF_BOUNDS}")
        return [Values(v.aval, pointer=made[v]) for v in self.writes]


def with_nests(body: Program, apart: set[Variable]) -> Program:
    """Return the body of a loop, with what registers do not hold as equations of ``Nests``.

    ``apart`` are changes of what the loop carries in memory, which are written when a turn is over.
    """
    known = body.answers = {} if body.answers is None else body.answers
    key = (with_nests, frozenset(apart))
    if key not in known:
        is_loop = lambda op: lowering_of(op).registers is Way.LOOP
        stays = lambda step: is_loop(step.op) or _is_held(step)
        steps: Sequence[Step] = body.steps
        if not all([stays(step) for step in steps]):
            steps = regroup(lambda program: find_loops(program, Nests, stays, apart), body)
        known[key] = body if steps is body.steps else Program(body.inputs, steps, body.outputs, body.name)
    return known[key]


def _variables(step: Step) -> list[Variable]:
    return [a for a in (*step.args, *step.outs) if type(a) is Variable]


def _is_held(step: Step) -> bool:
    """Whether an equation is for registers: it is on small arrays, or reads a few entries."""
    if is_indexed(step) and step.op.name == "index" and step.out.aval.size <= HELD:
        return True
    constants = [np.asarray(a) for a in step.args if type(a) is not Variable]
    written = all([a.size <= _CONSTANT or is_uniform(a) for a in constants])
    return not written or all([v.aval.size <= HELD for v in _variables(step)])
