"""Equations of a program put together: those that belong together become one, others that do not depend go first.

For: what runs several equations at once (``blocks.py``, ``native/groups.py``, ``native/passes.py``). Not for: which
equations belong together, or how they are run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from ..program.ir import Program
from ..program.variable import Variable

__all__ = ["Place", "count_readers", "gather", "written"]


class Place(Enum):
    """Where an equation goes: to the group, to a new one, or to none."""

    HERE = 1
    NEXT = 2
    NOWHERE = 3


def count_readers(readers: Sequence[Sequence]) -> dict[Variable, int]:
    """Return how many of these lists of atoms each variable is in."""
    counts: dict[Variable, int] = {}
    for atoms in readers:
        for v in {a for a in atoms if type(a) is Variable}:
            counts[v] = counts.get(v, 0) + 1
    return counts


def written(steps: Sequence[tuple], readers: dict[Variable, int]) -> list[Variable]:
    """Return the results of equations that others read as well, by how often each variable of the program is read."""
    inside = count_readers([step[1] for step in steps])
    return [v for step in steps for v in step[3] if readers.get(v, 0) > inside.get(v, 0)]


def gather(
    program: Program,
    place: Callable[[tuple, list[tuple], bool], Place],
    join: Callable[[list[tuple], list[Variable]], list[tuple]],
) -> list[tuple]:
    """Return a program's equations, those that belong together as ``join`` writes them.

    Parameters
    ----------
    program : Program
        The program.
    place : callable
        ``place(step, group, depends)`` says where an equation goes, given the group so far and whether the equation
        reads anything of it.
    join : callable
        ``join(steps, writes)`` returns the equations that stand for a group, of which others read ``writes``.

    Returns
    -------
    list of tuple
        The equations, each after those that it reads.
    """
    readers = count_readers([*[step[1] for step in program.steps], program.outputs])
    out: list[tuple] = []
    group: list[tuple] = []
    inside: set[Variable] = set()

    def close() -> None:
        if group:
            out.extend(join(list(group), written(group, readers)))
        group.clear()
        inside.clear()

    for step in program.steps:
        depends = any([type(a) is Variable and a in inside for a in step[1]])
        where = place(step, group, depends)
        if where is Place.NEXT or (where is Place.NOWHERE and depends):
            close()
        if where is Place.NOWHERE:
            out.append(step)
        else:
            group.append(step)
            inside.update(step[3])
    close()
    return out
