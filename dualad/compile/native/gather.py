"""Equations of a program put together: those that belong together become one, others that do not depend go first.

For: what runs several equations at once (``groups.py``, ``passes.py``, ``stacks.py``). Not for: which
equations belong together, or how they are run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum

from ...program.ir import Program
from ...program.variable import Step, Variable
from ..simplify import is_pure

__all__ = ["Place", "count_readers", "gather", "shared_results"]


class Place(Enum):
    """Where an equation goes: to the group, to a new one, or to none."""

    HERE = 1
    NEXT = 2
    NOWHERE = 3


def count_readers(readers: Sequence[Sequence]) -> dict[Variable, int]:
    """The number of these lists of atoms that each variable is in."""
    return Counter([v for atoms in readers for v in {a for a in atoms if type(a) is Variable}])


def shared_results(steps: Sequence[Step], readers: dict[Variable, int]) -> list[Variable]:
    """Return the results of equations that others read as well, by how often each variable of the program is read."""
    inside = count_readers([step.args for step in steps])
    return [v for step in steps for v in step.outs if readers.get(v, 0) > inside.get(v, 0)]


def gather(
    program: Program,
    place: Callable[[Step, list[Step], bool], Place],
    join: Callable[[list[Step], list[Variable]], list[Step]],
) -> list[Step]:
    """Return a program's equations, those that belong together as ``join`` writes them, each after those it reads.

    ``place(step, group, depends)`` says where an equation goes, given the group so far and whether the equation reads
    anything of it; ``join(steps, writes)`` returns the equations that stand for a group, of which others read
    ``writes``.
    """
    readers = count_readers([*[step.args for step in program.steps], program.outputs])
    out: list[Step] = []
    group: list[Step] = []
    #: equations that belong to no group and read what the group writes, or what these write
    behind: list[Step] = []
    inside: set[Variable] = set()
    after: set[Variable] = set()
    ordered = False

    def close() -> None:
        nonlocal ordered
        if group:
            out.extend(join(list(group), shared_results(group, readers)))
        out.extend(behind)
        for kept in (group, behind, inside, after):
            kept.clear()
        ordered = False

    for step in program.steps:
        reads = [a for a in step.args if type(a) is Variable]
        depends = any([a in inside for a in reads])
        late = any([a in after for a in reads])
        where = place(step, group, depends)
        if where is Place.NOWHERE:
            pure = is_pure(step.op, step.params) and not step.op.raises
            if depends or late or (ordered and not pure):
                behind.append(step)
                after.update(step.outs)
                ordered = ordered or not pure  # what does more than return does it in its turn
            else:
                out.append(step)
            continue
        if where is Place.NEXT or late:
            close()
        group.append(step)
        inside.update(step.outs)
    close()
    return out
