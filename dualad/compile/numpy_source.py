"""A program as NumPy source: readable, and run without dualad between its operations.

Equations are calls of what their operators are in NumPy, loops are Python loops with their bodies in place; groups that
are machine code are called. Not for: the lines (``source_block.py``), simplification.
"""

from __future__ import annotations

import functools
import linecache
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.aval import is_weak
from ..program.ir import Program
from ..program.variable import Step, Variable
from .first_call import FirstCall
from .native.engine import Tally, note_once, tally
from .native.equations import Equations
from .native.groups import Group, find_groups, moves_mostly
from .native.passes import Pass, find_passes
from .native.stacks import find_stacks
from .reference import interpreted, work_of
from .regrouped import regroup
from .source_block import Block, Value, identifier
from .trust import attempt

__all__ = ["Compiled", "compile_program"]


@dataclass(slots=True)
class Compiled:
    """A compiled program: ``run(*arrays)`` returns a tuple; ``source`` is its text.

    ``calls`` counts equations by what became of them: "library", "loop", "callback", "native"; ``machine`` says what
    was compiled to machine code for it, and the code read from the disk. ``variant(entry)`` is the same with
    ``entry(group)`` in place of the entry of each group that is machine code.
    """

    program: Program
    source: str
    variant: Callable[[Callable[[Equations], Callable]], Callable]
    calls: Mapping[str, int]
    groups: Sequence[Equations] = ()
    machine: Tally = field(default_factory=Tally)
    #: where all is groups: each with what it reads, constants and numbers of values (inputs first, then results), and
    #: the number of the first result of all
    parts: tuple[Sequence[tuple[Equations, Sequence]], int] | None = None
    #: whether there is one group, which returns what all is to return
    is_one: bool = False
    #: ``run`` without the check at the first call
    direct: Callable = field(init=False)
    run: Callable = field(init=False)
    #: what has become of the check, in words
    checked: str = "not compared with anything"
    #: the program as it was before any pass
    plain: Program = field(init=False)

    def __post_init__(self) -> None:
        self.run = self.direct = self.variant(lambda group: group.run)
        if self.parts is not None:  # for callers in C
            parts, out = self.parts
            self.direct.parts = tuple([(g.run, tuple(sources)) for g, sources in parts]), out  # type: ignore[attr-defined]
        self.source = "\n\n".join([self.source, *[f"; native code\n{g.text}" for g in self.groups]])

    def check(self, plain: Program, most: float) -> None:
        """Let the first run be compared with the program as it was, if that is no more than ``most`` entries."""
        self.plain, work = plain, work_of(plain)
        if "interpreted" in self.calls:
            return
        if work <= most:
            self.run, self.checked = FirstCall(self, plain, most), "to be compared with NumPy"
        else:
            self.checked = f"not compared with NumPy, which would read and compute {work:,} entries"

    def accept(self, checked: str) -> None:
        """Run without the check from now on."""
        self.run, self.checked = self.direct, checked

    def withdraw(self, fault: str) -> None:
        """Run the program as it was before any pass from now on, equation by equation."""
        self.calls, self.checked = {"interpreted": len(self.plain.steps)}, f"the code was wrong: {fault}"
        self.run = self.direct = interpreted(self.plain)


def compile_program(program: Program) -> Compiled:
    """Write a (simplified) program as source and compile it."""
    before = tally()
    compiled = attempt("writing source", lambda: _compile(program), None) or _interpreter(program)
    compiled.machine = tally().since(before)
    return compiled


def _interpreter(program: Program) -> Compiled:
    """Return a program run equation by equation."""
    run = interpreted(program)
    return Compiled(program, "", lambda entry: run, {"interpreted": len(program.steps)})


def _compile(program: Program) -> Compiled:
    name = identifier(program.name)
    note_once()
    grouped = program
    for find in (find_groups,) if moves_mostly(program) else (find_stacks, find_passes, find_groups):
        whole: Sequence[Step] = grouped.steps
        steps = attempt(find.__name__, functools.partial(regroup, find, grouped), whole)
        grouped = Program(program.inputs, steps, program.outputs, program.name)
    is_one = False
    if len(grouped.steps) == 1 and isinstance(group := grouped.steps[0].op, (Group, Pass)):
        is_one = list(map(id, program.outputs)) == list(map(id, group.writes))
        is_one = is_one and (type(group) is Group or all([v.aval.shape for v in group.writes]))
        if is_one and list(map(id, program.inputs)) == list(map(id, group.reads)):
            return Compiled(program, "", lambda entry: entry(group), {"native": 1}, groups=[group])
    writer = _Writer()
    return _finish(program, name, writer, writer.function(grouped), _parts_of(grouped), is_one)


def _parts_of(grouped: Program) -> tuple | None:
    """Return the groups of a program that is nothing else (``Compiled.parts``)."""
    number = {v: i for i, v in enumerate([*grouped.inputs, *[v for s in grouped.steps for v in s.outs]])}
    first = grouped.outputs[0] if grouped.outputs else None
    if type(first) is not Variable or not all([isinstance(s.op, (Group, Pass)) for s in grouped.steps]):
        return None
    parts = [(s.op, [number[a] if type(a) is Variable else a for a in s.args]) for s in grouped.steps]
    return parts, number[first]


_count = [0]


def _finish(
    program: Program, name: str, writer: _Writer, body: list[str], parts: tuple | None, is_one: bool
) -> Compiled:  # fmt: skip
    while name in writer.names:  # a function called as an operator is, np.linalg.cholesky itself: it would call itself
        name += "_"
    given = ", ".join([f"x{i}" for i in range(len(program.inputs))])
    source = "\n".join([f"def {name}({given}):", *body, ""])
    _count[0] += 1
    file = f"<dualad.jit {name} {_count[0]}>"
    code = compile(source, file, "exec")
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)  # so that tracebacks show the lines

    def variant(entry: Callable) -> Callable:
        namespace = {**writer.names, **{known: make(entry) for known, make in writer.entries.items()}}
        exec(code, namespace)
        quiet = np.errstate(all="ignore")  # what the eager program would have silenced may be computed here
        return namespace[name] if set(writer.calls) <= {"native"} else quiet(namespace[name])

    return Compiled(
        program, source, variant, writer.calls, groups=writer.groups, parts=parts, is_one=is_one
    )  # fmt: skip


class _Writer:
    """Writes a function, and keeps the names in it."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"array": np.array, "empty": np.empty}
        self._known: dict[int, str] = {id(v): k for k, v in self.names.items()}
        #: names of what runs a group, each with what makes it of an entry
        self.entries: dict[str, Callable[[Callable[[Equations], Callable]], Callable]] = {}
        self.calls: Counter[str] = Counter()
        self.groups: list[Equations] = []
        self._names = 0

    def function(self, program: Program) -> list[str]:
        """Return the lines of a function's body."""
        block = Block(self)
        out = block.program(program, [Value(f"x{i}", v.aval, is_weak(v.aval)) for i, v in enumerate(program.inputs)])
        taken: set[str] = set()
        texts = [block.returned(v, taken) for v in out]
        return [*block.lines, f"    return ({', '.join(texts)}{',' if len(texts) == 1 else ''})"]

    def name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def bind(self, hint: str, thing: Any) -> str:
        """Return a global name for a thing."""
        known = self._known.get(id(thing))
        if known is None:
            known, number = hint, 1
            while known in self.names:
                number += 1
                known = f"{hint}_{number}"
            self.names[known] = thing
            self._known[id(thing)] = known
        return known
