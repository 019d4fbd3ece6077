"""Equations on large arrays in the body of a loop: loop nests over memory, which the loop's function calls.

What registers do not hold is written as outside of loops (``passes.py``), in functions of the same module: each turn
hands them a table of addresses. Not for: the loop itself, or what it carries (``loops.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.aval import Aval
from ...program.ir import Program
from ...program.variable import Step, Variable, aval_of_atom
from ..regrouped import regroup
from .engine import Engine
from .equations import Call
from .indices import in_memory
from .lowering import SMALL, is_indexed
from .operators import LONG
from .passes import Pass, find_loops
from .positions import OUT_OF_BOUNDS
from .table import Way, lowering_of
from .values import Values, chunks

__all__ = ["HELD", "Nests", "held_in", "with_nests"]

#: arrays of more entries are in memory: in registers they take LLVM long, and leave them anyway
HELD = 256
#: vectors of larger arrays in a body that are straight code all the same
_STRAIGHT = 1000


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
        if not all([stays(step) for step in steps]) and not _is_short(steps):
            steps = regroup(lambda program: find_loops(program, Nests, stays, apart), body)
        known[key] = body if steps is body.steps else Program(body.inputs, steps, body.outputs, body.name)
    return known[key]


def held_in(body: Program) -> int:
    """Return the most entries of an array that registers hold in the body of a loop."""
    return HELD if any([step.op.kind == "native" for step in body.steps]) else SMALL


def _is_short(steps: Sequence[Step]) -> bool:
    """Whether straight code for all equations on arrays that registers can hold is soon compiled, and quicker."""
    large = [a for step in steps for a in _avals(step) if a.size > HELD]
    return max([a.size for a in large]) <= SMALL and sum(map(chunks, large)) <= _STRAIGHT


def _avals(step: Step) -> list[Aval]:
    return [aval_of_atom(a) for a in (*step.args, *step.outs)]


def _is_held(step: Step) -> bool:
    """Whether an equation is for registers: it is on small arrays, or reads a few entries."""
    way = lowering_of(step.op).registers
    is_product = way in (Way.FACTOR, Way.ROWS) or (way is Way.PRODUCT and step.out.aval.size <= HELD)
    if is_indexed(step) and step.op.name == "index" and step.out.aval.size <= HELD:
        return True
    return all([a.size <= (SMALL if is_product else HELD) for a in _avals(step)])
