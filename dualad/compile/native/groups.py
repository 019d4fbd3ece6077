"""Groups of equations that become one function of machine code each: which ones, and the function.

An equation belongs to a group if everything about it is known here; the others stay where they are. Not for: how an
equation is written (``lowering.py``, ``loops.py``), or how its function is entered (``stub.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.aval import aval_of
from ...program.ir import Program
from ...program.variable import Variable
from .code import Code
from .engine import Engine, engine
from .loops import LOOPS, check_loop, weight_of_loop
from .lowering import SMALL, Lowering, check, weight
from .operators import TYPES, Refused
from .stub import entered
from .values import Values, store

__all__ = ["Group", "find_groups"]

#: instructions of one function, about; what is longer is cut
_LONGEST = 30_000
#: longer functions are compiled in a hurry
_HURRY = 2_000
#: a function that does more than so many instructions lets other threads of Python run meanwhile
_PATIENT = 20_000
#: what makes a group stay with the other backend
_FAILURES: tuple[type[Exception], ...] = (Refused, RuntimeError)
#: about so many instructions are worth a call with these arguments and results
_WORTH = 12


class Group:
    """Equations with their function: what it reads and writes, and ``run(*reads)``, which returns a tuple."""

    kind = "native"
    name = "native"
    impl = None
    multiple_results = True

    def __init__(self, steps: list[tuple], writes: list[Variable], inputs: Sequence[Variable] = ()) -> None:
        self.steps, self.writes = steps, writes
        made = {v for step in steps for v in step[3]}
        reads: dict[Any, Any] = {v: v for v in inputs}
        for step in steps:
            for a in step[1]:
                if type(a) is Variable:
                    if a not in made:
                        reads.setdefault(a, a)
                elif _is_large(a):
                    reads.setdefault(id(a), a)
        self.reads = list(reads.values())
        self._used = {a for step in steps for a in step[1] if type(a) is Variable}
        self._keys = list(reads)
        self.text, self.about = "", "registers"
        self.run: Callable = _not_compiled

    def compile(self, made: Engine) -> None:
        """Write and compile the function; raise ``Refused`` where that turns out to be impossible."""
        code = Code()
        lowering = Lowering(code, LOOPS)
        env: dict[Any, Values] = {}
        avals = [a.aval if type(a) is Variable else aval_of(a) for a in self.reads]
        for i, (key, aval) in enumerate(zip(self._keys, avals, strict=True)):
            pointer = code.value(f"load ptr, ptr {code.value(f'getelementptr ptr, ptr %in, i64 {i}')}")
            env[key] = Values(aval, pointer=pointer)
        targets: dict[Any, str] = {}
        for i, v in enumerate(self.writes):
            targets[v] = code.value(f"load ptr, ptr {code.value(f'getelementptr ptr, ptr %out, i64 {i}')}")
        lowering.steps(self.steps, env, targets)
        for v in self.writes:
            value = env[v]
            if value.pointer != targets[v]:
                store(code, value, targets[v])
        body = [
            *code.declared.values(),
            "define i32 @body(ptr %in, ptr %out, ptr %scratch) {",
            "start:",
            *code.lines,
            "  ret i32 0",
            "}",
        ]
        self.text = "\n".join(body)
        level = 0 if len(code.lines) > _HURRY else 1
        writes = [v.aval for v in self.writes]
        releases = _turns(self.steps) > _PATIENT and not lowering.needs_python
        looked_at = [
            None if type(a) is Variable and a not in self._used else v for a, v in zip(self.reads, avals, strict=True)
        ]
        self.run = entered(
            made, self.text, (looked_at, writes), lowering.scratch, level, lowering.needs_python, releases
        )


def _not_compiled(*args: Any) -> Any:
    raise RuntimeError("this group has not been compiled")


def _is_large(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.size > SMALL


def _is_known(step: tuple) -> bool:
    op, args, params, outs = step
    try:
        if op.name in LOOPS:
            check_loop(op, args, params, outs)
        else:
            check(op, args, params, outs)
    except (Refused, TypeError, ValueError, OverflowError, KeyError):
        return False
    return True


def _weigh(steps: Sequence[tuple]) -> int:
    return sum([
        weight_of_loop(op, params, _weigh) if op.name in LOOPS else weight(op, args, outs)
        for op, args, params, outs in steps
    ])  # fmt: skip


def _turns(steps: Sequence[tuple]) -> int:
    """Return about how many instructions a call does, as far as that is known."""
    total = 0
    for op, args, params, outs in steps:
        if op.name == "scan":
            total += params["length"] * _turns(params["body"].steps)
        elif op.name == "switch":
            total += max([_turns(b.steps) for b in params["branches"]])
        elif op.name not in LOOPS:
            total += weight(op, args, outs)
    return total


def find_groups(program: Program) -> list[tuple]:
    """Return a program's equations, with those that are known here as equations of a ``Group`` each."""
    made = engine()
    if made is None or not program.steps:
        return program.steps
    readers: dict[Variable, int] = {}
    for args in [*[s[1] for s in program.steps], program.outputs]:
        for v in {a for a in args if type(a) is Variable}:
            readers[v] = readers.get(v, 0) + 1
    out: list[tuple] = []
    steps: list[tuple] = []
    inside: set[Variable] = set()
    total = 0

    def close() -> None:
        nonlocal total
        out.extend(_grouped(steps, readers, program, made))
        steps.clear()
        inside.clear()
        total = 0

    for step in program.steps:
        if _is_known(step):
            size = _weigh([step])
            if total + size > _LONGEST:
                close()
            steps.append(step)
            inside.update(step[3])
            total += size
        else:
            if any([type(a) is Variable and a in inside for a in step[1]]):
                close()
            out.append(step)
    close()
    return out


def _grouped(steps: list[tuple], readers: dict, program: Program, made: Engine) -> list[tuple]:
    """Return equations as one, if that is worth it and can be done."""
    if not steps:
        return []
    uses: dict[Variable, int] = {}
    for step in steps:
        for v in {a for a in step[1] if type(a) is Variable}:
            uses[v] = uses.get(v, 0) + 1
    writes = [v for step in steps for v in step[3] if readers.get(v, 0) > uses.get(v, 0)]
    inputs: Sequence[Variable] = ()
    if len(steps) == len(program.steps):  # the function of the whole program is called as the program is
        if all([v.aval.dtype in TYPES for v in program.inputs]):
            inputs = program.inputs
        if len(program.outputs) == len(writes) and all([type(o) is Variable for o in program.outputs]):
            writes = list(program.outputs)
    group = Group(list(steps), writes, inputs)
    loops = any([step[0].name in LOOPS for step in steps])
    worth = sum([1 if s[3][0].aval.shape == () else 8 for s in steps]) - 3 * len(writes) - len(group.reads)
    if not writes or (worth < _WORTH and not loops):
        return list(steps)
    try:
        group.compile(made)
    except _FAILURES:
        return list(steps)
    return [(group, group.reads, {}, tuple(writes))]
