"""Finding the bodies that an unrolled Python loop has left in a program, on arrays of integers.

Equations are numbered by what they are (operator, parameters, avals), their arguments by who makes them. A repeat is a
stretch in which the same equations come back at a fixed distance, and every argument is one of four things: made in the
same iteration, made a fixed number of iterations before (carried), made before the stretch (the same value in all
iterations, or one for each), or a constant. Not for: writing the loop (``reroll.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.aval import Aval, aval_of
from ..program.ir import Program
from ..program.variable import Step, Variable, aval_of_atom
from .simplify import hashable, is_elementwise, is_pure, structure

__all__ = ["Numbered", "Repeat", "find_repeats"]

#: iterations, and equations saved, that make a loop worth it
_LEAST, _SAVED = 8, 64
#: equations on arrays of so many entries that combine those at one place are one loop over them, in which what lies
#: between is never stored; a longer program than this takes LLVM too long
_LARGE, _FUSED = 1 << 15, 1 << 14
#: iterations that a carried value may be old
_OLDEST = 4
#: how many neighbours of a kind are looked at for distances; periods and stretches that are tried
_NEIGHBOURS, _PERIODS, _TRIED = 12, 400, 64
#: entries of a constant that may differ from iteration to iteration
_ROW = 1 << 15
#: operators that read or write at places given by whole numbers
_PLACED = frozenset({"index", "index_add", "index_set"})


class Numbered:
    """A program as arrays of integers.

    ``kinds[i]`` says what equation ``i`` is. ``refs`` has the arguments of all equations, those of equation ``i`` from
    ``first_ref[i]`` on: the number of a value, or ``-1 - k`` for constant ``k``. Inputs are the first values, then
    results in order, those of equation ``i`` from ``first_value[i]`` on. ``places[i]`` has the whole numbers of the
    template by which it indexes.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: list[Variable] = list(program.inputs)
        self.constants: list[Any] = []
        self.places: dict[int, tuple[int, ...]] = {}
        self.number = {v: i for i, v in enumerate(self.values)}
        self._constant_kinds: list[int] = []
        self._constant_keys: dict[Any, int] = {}
        self._constant_ids: dict[int, int] = {}
        self._avals: dict[tuple, int] = {}
        #: of equations that no loop is made of: those with effects, of weak results
        self.alone: list[int] = []
        #: how many results are large arrays
        self.large = 0
        refs: list[int] = []
        kinds: list[int] = []
        first_ref: list[int] = [0]
        first_value: list[int] = []
        values, number = self.values, self.number
        aval_ids: dict[int, int] = {}  # of avals that variables keep alive
        known: dict[tuple, int] = {}

        def kind_of(aval: Aval) -> int:
            kind = aval_ids.get(id(aval))
            if kind is None:
                kind = aval_ids[id(aval)] = self._kind(aval)
            return kind

        shapes = [kind_of(v.aval) for v in values]
        for i, (op, args, params, outs) in enumerate(program.steps):
            first_value.append(len(values))
            key: list[Any] = [op]
            for a in args:
                if type(a) is Variable:
                    ref = number[a]
                    key.append(shapes[ref])
                else:
                    ref = self.ref(a)
                    key.append(-1 - self._constant_kinds[-1 - ref])
                refs.append(ref)
            single = not is_pure(op, params)
            if params:
                if op.name in _PLACED:
                    template = params["template"]
                    self.places[i] = tuple([e for e in template if type(e) is int])
                    key.append(tuple(["place" if type(e) is int else e for e in template]))
                else:
                    key.append(tuple([(k, structure(v)) for k, v in params.items()]))
            for v in outs:
                kind = kind_of(v.aval)
                number[v] = len(values)
                values.append(v)
                shapes.append(kind)
                key.append(kind)
                single = single or v.aval.weak
                self.large += v.aval.size >= _LARGE
            if single:
                self.alone.append(i)
            first_ref.append(len(refs))
            kinds.append(known.setdefault(tuple(key), len(known)))
        first_value.append(len(values))
        self.kinds, self.refs = np.array(kinds), np.array(refs, dtype=np.int64)
        self.first_ref, self.first_value = np.array(first_ref), np.array(first_value)

    def _kind(self, aval: Aval) -> int:
        return self._avals.setdefault((aval.shape, aval.dtype, aval.weak), len(self._avals))

    def ref(self, a: Any) -> int:
        """Return the number of an atom; equal constants have the same."""
        if type(a) is Variable:
            return self.number[a]
        k = self._constant_ids.get(id(a))
        if k is None:
            k = self._constant_keys.setdefault(hashable(a), len(self.constants))
            if k == len(self.constants):
                self.constants.append(a)
                self._constant_kinds.append(self._kind(aval_of(a)))
            self._constant_ids[id(a)] = k
        return -1 - k

    def can_differ(self, ref: int) -> bool:
        """Whether a constant may be another one in each iteration."""
        c = self.constants[-1 - ref]
        if isinstance(c, (np.ndarray, np.generic)):
            return c.dtype.kind in "biufc" and c.size <= _ROW
        return type(c) is float or (type(c) is int and abs(c) < 1 << 62)


class Repeat(NamedTuple):
    """``iterations`` of ``period`` equations, from equation ``start`` on.

    ``refs`` has a row for each iteration and a column for each argument, ``ages`` the iterations since a column's value
    was made: 0 in the same one, more if it is carried, -1 if it was made before the loop or is a constant. ``first`` is
    the number of the first value, ``made`` the number of values of an iteration. ``places`` has, for an
    equation of the body that indexes at other places each time, what differs: a position in its template, and the whole
    number there in each iteration.
    """

    start: int
    period: int
    iterations: int
    refs: np.ndarray
    ages: np.ndarray
    first: int
    made: int
    places: dict[int, dict[int, list[int]]]

    @property
    def stop(self) -> int:
        return self.start + self.period * self.iterations


def find_repeats(code: Numbered) -> list[Repeat]:
    """Return repeats that do not overlap, in order; the widest first, each with the shortest body that will do."""
    runs = _runs(code.kinds, code.alone)
    tried: dict[tuple, Repeat | None] = {}
    found: list[Repeat] = []

    def refined(run: tuple[int, int, int]) -> Repeat | None:
        if run not in tried:
            tried[run] = None if len(tried) > 4 * _TRIED else _refine(code, *run)
        return tried[run]

    for start, length, period in runs:
        best: Repeat | None = None
        for other in sorted([r for r in runs if r[2] <= period], key=lambda r: r[2]):
            shared = min(start + length, other[0] + other[1]) - max(start, other[0])
            if shared < 0.75 * length:
                continue
            repeat = refined(other)
            if repeat is None or any([r.start < repeat.stop and repeat.start < r.stop for r in found]):
                continue
            if best is None or repeat.stop - repeat.start > 1.3 * (best.stop - best.start):
                best = repeat
        if best is not None:
            found.append(best)
    return sorted(found, key=lambda r: r.start)


def _runs(kinds: np.ndarray, alone: list[int]) -> list[tuple[int, int, int]]:
    """Return stretches of equations that come back at a distance: (start, length, distance), the longest first."""
    kinds = kinds.astype(np.int64)
    kinds[alone] = -1 - np.arange(len(alone))
    distances = np.zeros(len(kinds) + 1, dtype=np.int64)
    words = kinds
    for width in (1, 2, 4, 8, 16, 32):
        # The kinds of one equation alone may come several times in a body; those of many in a row come once.
        if width in (1, 8, 32):
            order = np.argsort(words, kind="stable")
            for m in range(1, min(_NEIGHBOURS + 1, len(order))):
                apart = order[m:] - order[:-m]
                distances += np.bincount(apart[words[order[m:]] == words[order[:-m]]], minlength=len(distances))
        words = words.copy()
        words[:-width] = np.unique(words[:-width] * (1 << 31) + words[width:], return_inverse=True)[1]
        words[-width:] = -1 - np.arange(min(width, len(words)))
    periods = np.flatnonzero(distances >= _LEAST - 1)
    periods = periods[np.argsort(-distances[periods], kind="stable")][:_PERIODS]
    runs = []
    for p in periods.tolist():
        breaks = np.flatnonzero(kinds[p:] != kinds[:-p])
        starts = np.concatenate(([0], breaks + 1))
        lengths = np.concatenate((breaks, [len(kinds) - p])) - starts
        for k in np.flatnonzero(lengths >= max((_LEAST - 1) * p, _SAVED)).tolist():
            runs.append((int(starts[k]), int(lengths[k]) + p, p))
    runs.sort(key=lambda r: (-r[1], r[2]))
    return runs[:_TRIED]


def _refine(code: Numbered, start: int, length: int, period: int) -> Repeat | None:
    """Return the iterations of a stretch, around its middle, whose arguments behave alike."""
    count = length // period
    low, width = code.first_ref[start], code.first_ref[start + period] - code.first_ref[start]
    refs = code.refs[low : low + count * width].reshape(count, width)
    first, made = int(code.first_value[start]), int(code.first_value[start + period] - code.first_value[start])
    base = first + made * np.arange(count)
    behind = refs - base[:, None]
    middle = count // 2
    relative = (behind[middle] == behind[middle - 1]) & (refs[middle] >= first) & (behind[middle] >= -_OLDEST * made)
    ages = np.where(relative, np.maximum(-(behind[middle] // made), 0), -1)
    places, elsewhere = _places(code, start, period, count)
    bad = elsewhere | (relative & (behind != behind[middle])).any(1)
    # Before the middle and after it, up to the first difference.
    a = int(np.flatnonzero(bad[:middle])[-1]) + 1 if bad[:middle].any() else 0
    b = middle + int(np.argmax(bad[middle:])) if bad[middle:].any() else count
    a = _extend_start(a, behind, refs, base, relative, ages, elsewhere)
    outside = refs[:, ~relative & (refs[middle] >= 0)]
    newest = outside.max(1) if outside.shape[1] else np.full(count, -1)
    while b - a >= _LEAST and newest[a:b].max() >= base[a]:
        k = a + int(np.argmax(newest[a:b] >= base[a]))
        if k > middle:  # something was read that the loop itself has made
            b = k
        else:
            a = max(int((newest[k] - first) // made) + 1, a + 1)
    if b - a < _LEAST or (b - a - 1) * period < _SAVED or not a <= middle < b:
        return None
    if code.large <= _FUSED and _is_one_loop(code.program.steps[start : start + period]):
        return None
    refs = refs[a:b]
    for column in np.flatnonzero(refs[0] < 0).tolist():
        used = set(refs[:, column].tolist())
        if len(used) > 1 and not all([code.can_differ(r) for r in used]):
            return None
    places = {j: {where: x[a:b] for where, x in moving.items()} for j, moving in places.items()}
    return Repeat(start + a * period, period, b - a, refs, ages, first + a * made, made, places)


def _is_one_loop(steps: Sequence[Step]) -> bool:
    """Whether what a turn computes of large arrays is part of one loop over their entries anyway."""
    sizes = [max([aval_of_atom(a).size for a in (*step.args, *step.outs)]) for step in steps]
    large = [step.op for step, size in zip(steps, sizes, strict=True) if size >= _LARGE]
    return bool(large) and all([is_elementwise(op) for op in large])


def _extend_start(
    a: int, behind: np.ndarray, refs: np.ndarray, base: np.ndarray, relative: np.ndarray, ages: np.ndarray,
    elsewhere: np.ndarray,
) -> int:  # fmt: skip
    """Return where the loop can begin: in its first iterations, what it carries comes from elsewhere.

    An iteration that indexes ``elsewhere`` is another body.
    """
    middle = len(refs) // 2
    for start in range(max(0, a - _OLDEST), a):
        for k in range(start, a):
            if elsewhere[k]:
                break
            ok = ~relative | (behind[k] == behind[middle]) | ((k - start < ages) & (refs[k] < base[start]))
            if not ok.all():
                break
        else:
            return start
    return a


def _places(code: Numbered, start: int, period: int, count: int) -> tuple[dict[int, dict[int, list[int]]], np.ndarray]:
    """Return the equations of the body with another place in each iteration, and which iterations index elsewhere."""
    found: dict[int, dict[int, list[int]]] = {}
    elsewhere = np.zeros(count, dtype=bool)
    middle = count // 2
    for j in range(period):
        if start + j not in code.places:
            continue
        numbers = [code.places[start + k * period + j] for k in range(count)]
        now, before = numbers[middle], numbers[middle - 1]
        moving = [q for q, (x, y) in enumerate(zip(now, before, strict=True)) if x != y]
        template = code.program.steps[start + j].params["template"]
        fixed = [[e for q, e in enumerate(x) if q not in moving] for x in numbers]
        elsewhere |= np.array([x != fixed[middle] for x in fixed], dtype=bool)
        if moving and any([type(e) is str for e in template]):
            elsewhere[:] = True
        elif moving:
            where = [i for i, e in enumerate(template) if type(e) is int]
            found[j] = {where[q]: [x[q] for x in numbers] for q in moving}
    return found, elsewhere
