"""What is left to NumPy and Python in a compiled program: which equations, why, and what would change it.

Not for: what is machine code (``groups.py``), or the report that this is a part of (``lowered.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...program.variable import Step, aval_of_atom
from .groups import is_known
from .loops import bodies, carried_in_memory, changes_of, check_loop
from .lowering import SMALL, check
from .nests import with_nests
from .operators import TYPES, Refused
from .table import Way, lowering_of

__all__ = ["Remaining", "remaining"]

#: what to do about a reason, by words in it
_ADVICE = (
    ("runs Python", "write it in NumPy's functions; a function under checkpoint or with a rule of its own is one call"),
    ("dtype", f"use {', '.join([t.name for t in TYPES])}"),
    ("no machine code", "compute it outside of a loop, or by operators that have machine code"),
    ("entries", "leave the array out of the loop's body, or read a part of it"),
)


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
        advice = next((f"; {text}" for word, text in _ADVICE if word in self.reason), "")
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
    if "call" in params or op.effect:
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
    return f"{most:,} entries, with these parameters" if most > SMALL else "these types or parameters are not known"
