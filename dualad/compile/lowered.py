"""A compiled function, for reading: the program, its simplified form, the source, a count of its cost.

Not for: making any of it (``call.py``, ``numpy_source.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.watch import Watch
from ..program.ir import Program
from ..program.variable import Step, Variable, aval_of_atom
from .native.engine import Tally, engine
from .native.groups import is_known
from .native.loops import bodies, carried_in_memory, changes_of, check_loop
from .native.lowering import check
from .native.nests import with_nests
from .native.operators import TYPES, Refused
from .native.table import Way, lowering_of
from .numpy_source import Compiled
from .reroll import reroll, rolled_loops
from .simplify import is_pure, simplify
from .tracing import Arguments, write_down
from .verdicts import verdict

__all__ = ["Cost", "Lowered", "explain_report"]

#: what to do about a reason, by words in it
_ADVICE = (
    ("prints", "take it out where speed matters"),
    ("runs Python", "write it in NumPy's functions; a function under checkpoint or with a rule of its own is one call"),
    ("dtype", f"use {', '.join([t.name for t in TYPES])}"),
    ("for the operator", "compute it outside of the loop, or by operators that have machine code"),
    ("entries", "leave the array out of the loop's body, or read a part of it"),
)
#: which of them are about loops: elsewhere the call costs what it does without `jit`
_IN_LOOPS = ("for the operator", "entries")


class Remaining(NamedTuple):
    """An equation that is not machine code, by its place in the program; ``inside`` names the loops around it."""

    place: int
    step: Step
    inside: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        op, args = self.step[:2]
        given = ", ".join([repr(aval_of_atom(a)) for a in args[:3]]) + ", ..." * (len(args) > 3)
        where = "".join([f", in a {name}" for name in reversed(self.inside)])
        line = f" ({self.step.line})" if getattr(self.step, "line", None) else ""
        word, advice = next(((word, f"; {text}") for word, text in _ADVICE if word in self.reason), ("", ""))
        if word in _IN_LOOPS and not self.inside:
            advice = "; NumPy's call serves it"
        return f"{op.name} of {given}{where}{line}: {self.reason}{advice}"


def remaining(
    steps: Sequence[Step], compiled: set[int] | None = None, inside: tuple[str, ...] = ()
) -> Iterator[Remaining]:
    """Yield the equations that are not machine code, those of bodies in place of the loops around them.

    ``compiled`` are the places of those that are.
    """
    for place, step in enumerate(steps):
        if place in (compiled or ()) or step.op.kind == "native" or (compiled is None and is_known(step)):
            continue
        found: list[Remaining] = []
        if lowering_of(step.op).registers is Way.LOOP:
            changes = changes_of(carried_in_memory(step.params) if step.op.name == "scan" else {})
            for body in bodies(step.op.name, step.params):
                rest = [s for s in with_nests(body, changes).steps if s.out not in changes] if body.steps else []
                found += remaining(rest, None, (*inside, step.op.name))
        yield from [r._replace(place=place) for r in found] or [Remaining(place, step, inside, _reason(step))]


def _reason(step: Step) -> str:
    op, args, params, outs = step
    if op.kept:
        return "it prints"
    if not is_pure(op, params):
        return "it runs Python code"
    avals = [*[aval_of_atom(a) for a in args], *[v.aval for v in outs]]
    row = lowering_of(op)
    if odd := [a.dtype for a in avals if a.dtype not in TYPES or not a.dtype.isnative]:
        return f"the dtype {odd[0]}"
    if row.registers is None and row.entry is None:
        return "there is no machine code for the operator" + " but for stacks of 16 or more" * (row.stack is not None)
    if is_known(step):
        return "a function for it alone would cost as much as NumPy's"
    if any([not a.size for a in avals]):
        return "an array without entries"
    try:
        (check_loop if row.registers is Way.LOOP else check)(op, args, params, outs)
    except Refused as error:
        if str(error) != op.name:
            return str(error)
    except (TypeError, ValueError, OverflowError, KeyError):
        pass
    most = max([a.size for a in avals])
    given = ", ".join([f"{k}={v!r}" for k, v in params.items() if type(v) in (bool, int, str, tuple)])
    return f"no machine code for {most:,} entries" + f" with {given}" * bool(given)


class Cost(NamedTuple):
    """The cost of one call: equations, entries computed, and bytes of arguments, results and intermediates."""

    equations: int
    entries: int
    argument_bytes: int
    result_bytes: int
    intermediate_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.equations} equations, {self.entries:,} entries computed; {self.argument_bytes:,} bytes of"
            f" arguments, {self.result_bytes:,} of results, {self.intermediate_bytes:,} in between"
        )


class Lowered:
    """A function compiled for one signature.

    Attributes
    ----------
    program : Program
        As it was traced.
    optimised : Program
        As it was simplified: what the source was written from.
    source : str
        The Python and NumPy code that runs.
    """

    def __init__(self, program: Any) -> None:
        self.program = Program(program.inputs, program.steps, program.outputs, program.name)
        self._compiled: Compiled = program.compiled
        self.optimised = self._compiled.program
        self.source = self._compiled.source

    @property
    def kernels(self) -> str:
        """The fate of the equations, in words."""
        words = {
            "library": "calls of NumPy and SciPy",
            "loop": "loops and branches of the source",
            "callback": "callbacks into Python code",
            "native": "functions of machine code",
            "interpreted": "one by one by the interpreter",
        }
        lines = [f"{n:5d} {words[k]}" for k, n in sorted(self._compiled.calls.items())]
        lines += [f"      {len(g.steps)} equations in {g.about}: {summary(g.steps)}" for g in self._compiled.groups]
        for count, body in rolled_loops(self.optimised):
            lines.append(f"      a loop of {count} times {len(body.steps)} equations, unrolled by Python, found again")
        return "\n".join(lines)

    @property
    def cost(self) -> Cost:
        """The cost of one call."""
        outs = [v for step in self.optimised.steps for v in step.outs]
        results = {id(o) for o in self.optimised.outputs}
        size = lambda v: v.aval.size * v.aval.dtype.itemsize
        return Cost(
            len(self.optimised.steps),
            sum([v.aval.size for v in outs]),
            sum([size(v) for v in self.optimised.inputs]),
            sum([size(o) if type(o) is Variable else np.asarray(o).nbytes for o in self.optimised.outputs]),
            sum([size(v) for v in outs if id(v) not in results]),
        )

    def __str__(self) -> str:
        return self.source


def summary(steps: Sequence[Step]) -> str:
    """Return the operators of equations with their numbers, the most frequent first."""
    counts = Counter([s.op.name for s in steps])
    return ", ".join([f"{name} ×{n}" if n > 1 else name for name, n in counts.most_common()])


def _about_machine_code(made: Tally) -> list[str]:
    """Say how many functions LLVM has compiled, and how many it had compiled before, for another process."""
    used = engine()
    if used is None or not made.compiled + made.read:
        return []
    where = used.store.directory()
    kept = f"kept in {where}" if where else "kept nowhere"
    return [f"machine code: {made.compiled} compiled, {made.read} read, in {1e3 * made.seconds:.1f} ms; {kept}"]


def explain_report(spec: Any, function: Callable, given: Arguments) -> str:
    """Return the report of ``Jitted.explain``."""
    low = Lowered(spec.program)
    before, after = len(low.program.steps), len(low.optimised.steps)
    lines = [
        f"{low.program.name}: {before} equations traced in {1e3 * spec.traced.seconds:.1f} ms, {after} simplified",
        f"cost: {low.cost}",
        "equations:",
        low.kernels,
        *_about_machine_code(spec.program.compiled.machine),
        f"first call: {spec.program.compiled.checked}",
    ]
    if spec.traced.hidden:
        lines.append(f"reads {len(spec.traced.hidden)} captured arrays at each call:")
        lines += [f"      shape {a.shape}, dtype {a.dtype}" for a in spec.traced.hidden]
    for i in spec.traced.written:
        lines.append(f"writes into argument leaf {i}")
    for d in spec.traced.decisions:
        lines.append(f"guard: {d.value.tolist()!r} at {d.line}")
    made = {v for group in spec.program.compiled.groups for s in group.steps for v in s.outs}
    compiled = {i for i, s in enumerate(low.optimised.steps) if s.outs and made.issuperset(s.outs)}
    if len(compiled) == after:
        return "\n".join(lines)
    with Watch().on():  # equations remember the user's line
        program = simplify(write_down(function, given, bool(spec.traced.decisions)).program)
    if engine() is not None:
        alike = [p.steps for p in (program, reroll(program), low.optimised) if len(p.steps) == after]
        left = Counter([str(r) for r in remaining(alike[0], compiled)])
        lines += ["left to NumPy and Python:", *[f"      {r}" + f", {n} times" * (n > 1) for r, n in left.items()]]
    callbacks = [e for e in program.equations if not is_pure(e.op, e.params)]
    if callbacks:
        lines.append("callbacks:")
        lines += [f"      {e.op.name}: {verdict(e.op).reason}{f' ({e.line})' if e.line else ''}" for e in callbacks]
    return "\n".join(lines)
