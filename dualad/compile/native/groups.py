"""Groups of equations that become one function of machine code each: which ones, and the function.

An equation belongs to a group if everything about it is known here; the others stay where they are. Not for: how an
equation is written (``lowering.py``, ``loops.py``), or how its function is entered (``stub.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...program.ir import Program, programs_in
from ...program.variable import Step, Variable, aval_of_atom
from .engine import Engine, engine
from .equations import Equations
from .gather import Place, gather
from .loops import check_loop, weight_of_loop
from .lowering import SMALL, check, is_indexed, weight
from .operators import TYPES, Refused
from .parts import in_parts
from .positions import is_computed
from .stub import compile_entry
from .table import Way, lowering_of
from .values import is_uniform

__all__ = ["Group", "find_groups", "is_known", "moves_mostly"]

#: instructions of one group, about; longer ones are cut
_LONGEST = 1_000_000
#: a function that runs more instructions than this lets other threads of Python run meanwhile
_PATIENT = 20_000
#: arguments that cost as much as a call of NumPy, and the saving has to be worth as much as this
_CALL, _WORTH = 8, 12
#: the instructions of a call of loop nests
_NEST = 50
#: entries and instructions of programs not worth loops, and the share of equations there that only move entries
_ENTRIES, _SHORT, _MOVED = 512, 8192, 0.25


class Group(Equations):
    """Equations on numbers and small arrays, which are computed in registers."""

    def __init__(self, steps: list[Step], writes: list[Variable], inputs: Sequence[Variable] = ()) -> None:
        super().__init__(steps, writes, inputs)
        for a in _in_bodies(steps):
            if self.is_read(a) and id(a) not in self._keys:
                self.reads.append(a)
                self._keys.append(id(a))
        self._used = {a for step in steps for a in step.args if type(a) is Variable}
        self.about = "registers"

    def is_read(self, constant: Any) -> bool:
        return isinstance(constant, np.ndarray) and constant.size > SMALL and not is_uniform(constant)

    def compile(self, made: Engine) -> None:
        avals = [aval_of_atom(a) for a in self.reads]
        written = in_parts(self.steps, list(zip(self._keys, avals, strict=True)), self.writes)
        self.text = "\n\n".join(written.texts)
        releases = _turns(self.steps) > _PATIENT
        read = [
            None if type(a) is Variable and a not in self._used else v for a, v in zip(self.reads, avals, strict=True)
        ]
        declared = read, [v.aval for v in self.writes]
        self.run, self.guarded = compile_entry(
            made, written.texts, declared, written.scratch, 1, self.ask_numpy, written.needs_python, releases
        )


def _in_bodies(steps: Sequence[Step]) -> Iterator[Any]:
    """Yield the constants of the bodies of loops and branches."""
    for program in [p for step in steps for p in programs_in(step.params)]:
        for atoms in (*[step.args for step in program.steps], program.outputs):
            yield from [a for a in atoms if type(a) is not Variable]
        yield from _in_bodies(program.steps)


def _is_loop(op: Any) -> bool:
    return lowering_of(op).registers is Way.LOOP


def is_known(step: Step) -> bool:
    """Whether an equation can be computed in registers."""
    op, args, params, outs = step
    try:
        if _is_loop(op):
            check_loop(op, args, params, outs)
        else:
            check(op, args, params, outs)
    except (Refused, TypeError, ValueError, OverflowError, KeyError):
        return False
    return True


def _weigh(steps: Sequence[Step]) -> int:
    total = 0
    for op, args, params, outs in steps:
        if op.kind == "native":
            total += _NEST
        else:
            total += weight_of_loop(op, params, _weigh) if _is_loop(op) else weight(op, args, params, outs)
    return total


def _turns(steps: Sequence[Step]) -> int:
    """Return about how many instructions a call does, as far as that is known."""
    total = 0
    for op, args, params, outs in steps:
        if op.name == "scan":
            total += params["length"] * _turns(params["body"].steps)
        elif op.name == "switch":
            total += max([_turns(b.steps) for b in params["branches"]])
        elif op.name == "while_loop":
            total += 1 + _PATIENT  # who knows
        elif not _is_loop(op):
            total += weight(op, args, params, outs)
    return total


def moves_mostly(program: Program) -> bool:
    """Whether a program is short and for a large part moves entries between places that are known.

    In registers a move is nothing; between loops it is a table of places, and memory that is written and read again.
    """
    steps = program.steps
    moves = [s.op.name == "concatenate" or (is_computed(s) and not is_indexed(s)) for s in steps]
    if sum(moves) < max(1, _MOVED * len(steps)):
        return False
    if any([aval_of_atom(a).size > _ENTRIES for s in steps for a in (*s.args, *s.outs)]):
        return False
    return all(map(is_known, steps)) and _weigh(steps) <= _SHORT


def find_groups(program: Program) -> Sequence[Step]:
    """Return a program's equations, with those that are known here as equations of a ``Group`` each."""
    made = engine()
    if made is None or not program.steps:
        return program.steps
    total = 0
    #: operator without parameters, avals (which the program keeps alive) -> its weight, -1 if it is not known here
    sizes: dict[tuple, int] = {}

    def size_of(step: Step) -> int:
        op, args, params, outs = step
        if params or not all([type(a) is Variable or type(a) is float for a in args]):
            return _weigh([step]) if is_known(step) else -1
        key = (op, *[id(a.aval) if type(a) is Variable else 0 for a in args], *[id(v.aval) for v in outs])
        size = sizes.get(key)
        if size is None:
            size = sizes[key] = _weigh([step]) if is_known(step) else -1
        return size

    def place(step: Step, group: list[Step], depends: bool) -> Place:
        nonlocal total
        size = size_of(step)
        if size < 0:
            return Place.NOWHERE
        full = bool(group) and total + size > _LONGEST
        total = size if full or not group else total + size
        return Place.NEXT if full else Place.HERE

    return gather(program, place, lambda steps, writes: _join(steps, writes, program, made))


def _join(steps: list[Step], writes: list[Variable], program: Program, made: Engine) -> list[Step]:
    """Return equations as one, if that is worth it and can be done."""
    inputs: Sequence[Variable] = ()
    whole = len(steps) == len(program.steps)
    if whole:  # the function of the whole program is called as the program is
        if all([v.aval.dtype in TYPES for v in program.inputs]):
            inputs = program.inputs
        if len(program.outputs) == len(writes) and all([type(o) is Variable for o in program.outputs]):
            writes = list(program.outputs)
    group = Group(steps, writes, inputs)
    dear = any([lowering_of(step.op).registers in (Way.LOOP, Way.FACTOR, Way.ROWS) for step in steps])
    worth = _CALL * len(steps) - 3 * len(writes) - len(group.reads)
    of_numbers = whole and not any([v.aval.shape for s in steps for v in s.outs])
    if not writes or (worth < _WORTH and not dear and not of_numbers):
        return steps
    return group.as_one(made)
