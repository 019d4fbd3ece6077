"""A long function in parts: LLVM's time for one function grows faster than the function.

The equations of a group are written into functions of a bounded length, one after the other. What a later one reads is
in memory: results where they belong, the rest in scratch memory; constants are written down again. Each part is a
module of its own, so between two of them Python can do something else. Not for: how an equation is written
(``lowering.py``), or which equations are a group (``groups.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.aval import Aval
from ...program.variable import Step, Variable
from .code import Code
from .indices import copied
from .loops import LOOPS
from .lowering import Registers
from .values import Values

__all__ = ["Written", "in_parts"]

#: lines of text after which a function ends, from about twice as many on LLVM's time is no longer linear; shuffles are
#: not counted: mostly they bring a matrix in order, which each part does anew
_LINES = 1_000
#: bytes of scratch memory that a number takes which crosses from one part to another
_ALIGNED = 8
_TABLES = "ptr %in, ptr %out, ptr %scratch"


class Written(NamedTuple):
    """The functions of a group: their texts, ``@body`` or ``@part0``, ``@part1``, ..., and what they need."""

    texts: list[str]
    scratch: int
    needs_python: bool


class _Places(dict):
    """The values of a part by variable; what earlier parts computed is found where they have left it."""

    def __init__(self, code: Code, known: dict[Any, Any]) -> None:
        super().__init__()
        self.code, self.known = code, known

    def __missing__(self, key: Any) -> Values:
        aval, table, where = self.known[key]
        if table == "constant":
            value = Values(aval, constant=where)
        elif table == "scratch":
            value = Values(aval, pointer=self.code.value(f"getelementptr i8, ptr %scratch, i64 {where}"))
        else:
            value = Values(aval, pointer=self.code.pointer_in(table, where))
        self[key] = value
        return value


class _Part:
    """One function while it is written."""

    def __init__(
        self, known: dict[Any, Any], targets: dict[Variable, int], scratch: int, read: set[Variable], constants: list
    ) -> None:
        self.code = Code()
        self.lowering = Registers(self.code, LOOPS)
        self.lowering.scratch, self.lowering.read_later = scratch, read
        self.known, self.targets = known, targets
        self.env = _Places(self.code, known)
        self.lowering.constants = {key: self.env[key] for key in constants}  # it is asked whether one is there
        self.made: list[Variable] = []
        self.lines = self._seen = 0

    def write(self, step: Step) -> None:
        pointers = {v: self._target(v) for v in step.outs if v in self.targets}
        self.lowering.steps([step], self.env, pointers)
        self.made += step.outs
        fresh, self._seen = self.code.lines[self._seen :], len(self.code.lines)
        self.lines += len(fresh) - sum([" = shufflevector " in line for line in fresh])

    def finish(self, name: str, later: set[Variable]) -> str:
        """Store the values that are results or read by others; return the function."""
        for v in self.made:
            value = self.env[v]
            if v in self.targets:
                if value.pointer != self._target(v):
                    copied(self.code, value, self._target(v))
                self.known[v] = value.aval, "%out", self.targets[v]
            elif v not in later:
                continue
            elif value.constant is not None:
                self.known[v] = value.aval, "constant", value.constant
            else:
                self.known[v] = value.aval, "scratch", self._offset(value)
        texts = [*self.lowering.functions, self.code.function(f"i32 @{name}({_TABLES})", "i32 0")]
        lines = [line for text in texts for line in text.split("\n")]
        heads = dict.fromkeys([x for x in lines if x.startswith(("declare", "@"))])
        return "\n".join([*heads, *[x for x in lines if x not in heads]])

    def _target(self, v: Variable) -> str:
        return self.code.pointer_in("%out", self.targets[v])

    def _offset(self, value: Values) -> int:
        """The offset of a value in scratch memory, where it is stored first if need be."""
        lowering = self.lowering
        if value.pointer in lowering.rooms:
            return lowering.rooms[value.pointer]
        offset, size = lowering.scratch, value.aval.size * value.aval.dtype.itemsize
        pointer = self.code.value(f"getelementptr i8, ptr %scratch, i64 {offset}")
        lowering.scratch += -(-size // _ALIGNED) * _ALIGNED
        copied(self.code, value, pointer)
        return offset


def in_parts(steps: Sequence[Step], reads: Sequence[tuple[Any, Aval]], writes: Sequence[Variable]) -> Written:
    """Write the functions of a group of equations.

    ``reads`` are in the table ``%in``, by variable or identity, with their avals; ``writes`` in the table ``%out``.
    """
    known: dict[Any, Any] = {key: (aval, "%in", i) for i, (key, aval) in enumerate(reads)}
    targets = {v: i for i, v in enumerate(writes)}
    last = {a: k for k, step in enumerate(steps) for a in step.args if type(a) is Variable}
    #: what all parts share, or the time would grow with the square of the length
    read, constants = {*last, *writes}, [key for key in known if type(key) is int]
    part = _Part(known, targets, 0, read, constants)
    texts: list[str] = []
    needs_python = False
    for k, step in enumerate(steps):
        part.write(step)
        if part.lines > _LINES and k + 1 < len(steps):
            texts.append(part.finish(f"part{len(texts)}", {v for v in part.made if last.get(v, 0) > k}))
            needs_python = needs_python or part.lowering.needs_python
            part = _Part(known, targets, part.lowering.scratch, read, constants)
    texts.append(part.finish(f"part{len(texts)}" if texts else "body", set()))
    return Written(texts, part.lowering.scratch, needs_python or part.lowering.needs_python)
