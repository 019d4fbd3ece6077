"""The second trace of a function, compared with the first as it is written: whether they are the same.

Compared are operators, parameters, constants and avals, equation by equation; variables correspond as they are made. A
walk back through the same linear program, from the same cotangents, gives the same equations: those of the first trace
are taken in its place, unless it calls users' functions. Not for: the answer to a difference (``tracing.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..memory.memory import snapshot
from ..program.ir import Program, mentions
from ..program.variable import Variable
from ..tensors.staged import Staged, StagedLevel
from .simplify import hashable, structure
from .validate import has_effect

__all__ = ["Again", "Record", "content_key", "first_difference", "same_bytes"]

#: bytes of arrays that are compared at a time
_BLOCK = 1 << 18


def same_bytes(a: np.ndarray | np.generic, b: np.ndarray | np.generic) -> bool:
    """Whether two arrays are the same, NaN and signs of zeros included."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.flags.f_contiguous and b.flags.f_contiguous:
        a, b = a.T, b.T
    if a.nbytes <= _BLOCK or a.dtype.hasobject or not (a.flags.c_contiguous and b.flags.c_contiguous):
        return a.tobytes() == b.tobytes()
    kind = np.int64 if a.dtype.itemsize % 8 == 0 else np.uint8  # large ones part by part, without a copy
    a, b, count = a.reshape(-1).view(kind), b.reshape(-1).view(kind), _BLOCK // np.dtype(kind).itemsize
    return all([np.array_equal(a[i : i + count], b[i : i + count]) for i in range(0, a.size, count)])


class _Content:
    """An array, equal to those of the same bytes."""

    def __init__(self, array: np.ndarray | np.generic) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and (self.array is other.array or same_bytes(self.array, other.array))

    def __hash__(self) -> int:
        return hash(self.array.shape)


def content_key(x: Any) -> Any:
    """The key of a constant or a parameter that is data; functions are new objects each time."""
    if isinstance(x, (np.ndarray, np.generic)):
        return _Content(x)
    key = hashable(x)
    return type(x) if key[0] == "id" else key


class _Correspondence:
    """Which variables of one program are those of another; constants and parameters are compared by their ``leaf``."""

    def __init__(self, leaf: Callable[[Any], Any] = content_key) -> None:
        self.same: dict[Variable, Variable] = {}
        self.leaf = leaf

    def are_atoms(self, xs: Sequence, ys: Sequence) -> bool:
        """Whether the arguments of two equations correspond."""
        for x, y in zip(xs, ys, strict=False):
            if type(x) is Variable:
                if self.same.get(x, x) is not y:
                    return False
            elif x is not y and (type(x) is not type(y) or self.leaf(x) != self.leaf(y)):
                return False
        return len(xs) == len(ys)

    def are_made(self, xs: Sequence[Variable], ys: Sequence[Variable]) -> bool:
        """Let variables correspond, if they can."""
        for x, y in zip(xs, ys, strict=False):
            one, other = x.aval, y.aval
            if one is not other:
                if one.shape != other.shape or one.weak != other.weak:
                    return False
                if one.dtype is not other.dtype and one.dtype != other.dtype:
                    return False
            self.same[x] = y
        return len(xs) == len(ys)

    def is_step(self, step: tuple, again: tuple) -> bool:
        """Whether two equations are the same; then their results correspond."""
        (op, args, params, outs), (other, given, more, made) = step, again
        if op is not other or not self.are_atoms(args, given) or not self.are_made(outs, made):
            return False
        return params is more or not (params or more) or structure(params, self.leaf) == structure(more, self.leaf)

    def are_steps(self, steps: Sequence[tuple], again: Sequence[tuple]) -> bool:
        """Whether all equations are the same."""
        return len(steps) == len(again) and all(map(self.is_step, steps, again))


def first_difference(a: Program, b: Program) -> int | None:
    """Return the first equation in which two programs differ, their number if the results do, None if nothing does."""
    found, count = _Correspondence(), min(len(a.recorded), len(b.recorded))
    if not found.are_made(a.inputs, b.inputs):
        return count
    for i, (step, again) in enumerate(zip(a.recorded, b.recorded, strict=False)):
        if not found.is_step(step, again):
            return i
    return None if len(a.recorded) == len(b.recorded) and found.are_atoms(a.outputs, b.outputs) else count


# ── the first trace ──────────────────────────────────────────────────────────────────────────────────────────────


class _Walk(NamedTuple):
    """A walk back through a linear program, and which equations of the trace it made."""

    program: Program
    cotangents: list
    seeds: str
    results: list
    start: int
    stop: int


class Record:
    """The record of a level: equations, those of results and dead ones too, and the walks back on the way."""

    def __init__(self, level: StagedLevel) -> None:
        self.level, self.inputs = level, level.inputs
        self.steps: Sequence[tuple] = ()
        self.outputs: Sequence = ()
        #: variables that stand for arrays of others -> the array as it was
        self.contents: dict[Variable, np.ndarray] = {}
        #: each walk, None for one whose equations can't be taken again
        self.walks: list[_Walk | None] = []

    def walk(self, program: Program, cotangents: list, seeds: str, walk: Callable[[], list]) -> list:
        """Note a walk back."""
        level, start = self.level, len(self.level.steps)
        given, results = [*cotangents], walk()
        known = all([r is None or (type(r) is Staged and r.level is level) for r in results])
        known = known and level.open and not mentions(program, has_effect)
        self.walks.append(_Walk(program, given, seeds, results, start, len(level.steps)) if known else None)
        return results


# ── the second ───────────────────────────────────────────────────────────────────────────────────────────────────


class Again(list):
    """The steps of a trace, compared with a ``Record`` as they are appended.

    ``is_same`` is false from the first difference on.
    """

    def __init__(self, first: Record, level: Any) -> None:
        super().__init__()
        self.first, self.level, self.is_same = first, level, True
        self.found = _Correspondence()
        self._walks: Iterator[_Walk | None] = iter(first.walks)
        self._contents: Iterator[np.ndarray] = iter(first.contents.values())

    def begin(self) -> None:
        """Compare the inputs."""
        self.is_same = self.found.are_made(self.level.inputs, self.first.inputs)

    def append(self, step: tuple) -> None:
        """Record a step."""
        i, steps = len(self), self.first.steps
        list.append(self, step)
        if self.is_same and not (i < len(steps) and self.found.is_step(step, steps[i])):
            compare = lambda: self.found.is_step(step, steps[i])
            self.is_same = i < len(steps) and self._with_arrays(step[1], steps[i][1], compare)

    def snapshot(self, a: np.ndarray) -> np.ndarray:
        """Return an array as it is now: the first trace's, if the same comes next there."""
        known = next(self._contents, None)
        return known if known is not None and same_bytes(a, known) else snapshot(a)

    def finish(self, outputs: Sequence) -> None:
        """Compare the results."""
        given = outputs, self.first.outputs
        compare = lambda: self.found.are_atoms(*given)
        same = self.is_same and len(self) == len(self.first.steps)
        self.is_same = same and (compare() or self._with_arrays(*given, compare))

    def _with_arrays(self, atoms: Sequence, first: Sequence, compare: Callable[[], bool]) -> bool:
        """Compare again, when variables that stand for equal arrays of others' correspond."""
        contents = {variable: content for _, content, variable in self.level.held.values()}
        for x, y in zip(atoms, first, strict=False):
            if type(x) is type(y) is Variable and x in contents and y in self.first.contents:
                if same_bytes(contents[x], self.first.contents[y]):
                    self.found.same[x] = y
        return compare()

    # ── walks back ───────────────────────────────────────────────────────────────────────────────────────────────

    def walk(self, program: Program, cotangents: list, seeds: str, walk: Callable[[], list]) -> list:
        """Return the results of a walk back: those of the first trace where it has made the same one."""
        known, level = next(self._walks, None), self.level
        if known is None or not self.is_same or known.start != len(self) or level.steps is not self:
            return walk()
        found = _Correspondence(self._leaf)
        of_linear = (program.inputs, known.program.inputs), (program.recorded, known.program.recorded)
        if known.seeds != seeds or not found.are_atoms(cotangents, known.cotangents):
            return walk()
        if not (found.are_made(*of_linear[0]) and found.are_steps(*of_linear[1])):
            return walk()
        if not found.are_atoms(program.outputs, known.program.outputs):
            return walk()
        self.extend(self.first.steps[known.start : known.stop])  # whose results are their own counterparts
        if level.numbers is not None and self.first.level.numbers:
            level.numbers |= self.first.level.numbers
        return [None if r is None else Staged(r.variable, level) for r in known.results]

    def _leaf(self, x: Any) -> Any:
        """The key of a constant of a linear program: of a tensor of this level, the variable of the first trace."""
        if type(x) is not Staged:
            return content_key(x)
        if x.level is self.level:
            return self.found.same.get(x.variable, x.variable)
        return x.variable if x.level is self.first.level else id(x)
