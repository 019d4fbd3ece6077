"""Values without a colouring: the entries of every intermediate Jacobian, pushed through the linear program.

The walk over patterns is done once, with tags for data; what remains is a list of operations on the data of sparse
matrices, whose index arrays are known. It is carried out for the constants of each new linearization, as long as its
program has the same form. So nothing depends on a colouring, or on the number of colours: for meshes and other
irregular patterns it is the faster way, and it is an independent check of the other.
Not for: patterns (``walk.py``), or choosing (``prepared.py``).
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ..core.aval import Aval
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..ops.indexing import ARRAY, index, index_add
from ..program.ir import Program
from ..program.variable import Step, Variable
from . import rows
from .maps import ELEMENTWISE, positions_of
from .needs import scipy_sparse
from .walk import Walk, full_tags

__all__ = ["NoValues", "Plan", "are_alike", "outline_of"]


class NoValues(Exception):
    """An operator has a rule for patterns only: values have to go by products."""


class _Data(NamedTuple):
    """The rows of a followed variable: their pattern, and the number of the vector that will hold their data."""

    matrix: Any
    slot: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def nnz(self) -> int:
        return self.matrix.nnz


class _Planner(Walk):
    """A walk that writes down how data move."""

    # Another linearization may have other zeros, and the plan is for all of them.
    sparse_factors = False

    def __init__(self, program: Program, n: int, limit: int) -> None:
        super().__init__(n, False, limit)
        self.numbers = {id(step): k for k, step in enumerate(program.steps)}
        self.actions: list[tuple] = []
        self.slots = 0
        #: data that are the same at every point
        self.known: dict[int, np.ndarray] = {}

    def new(self, matrix: Any, action: tuple, sources: list[int], foldable: bool = True) -> _Data:
        """Add a vector of data: known now if its sources are, and nothing else is needed."""
        slot = self.slots
        self.slots += 1
        if foldable and all([s in self.known for s in sources]):
            self.known[slot] = _carry_out(action, self.known, None)
        else:
            self.actions.append((slot, action, tuple(sources)))
        return _Data(matrix, slot)

    def seed(self, matrix: Any, dtype: np.dtype) -> _Data:
        """Return the data of an identity."""
        self.known[self.slots] = np.ones(matrix.nnz, dtype)
        self.slots += 1
        return _Data(matrix, self.slots - 1)

    def results(self, step: Step) -> list:
        if step.op.kind == "control":
            raise NoValues  # where values are known, loops are Python's, and programs hold their steps one by one
        return super().results(step)

    def gather(self, p: _Data, positions: np.ndarray, aval: Aval | None, values: bool = True) -> _Data:
        if not values:
            raise NoValues
        tags = rows.with_entry_numbers(p.matrix)
        moved = rows.gather(tags, positions)
        matrix = rows.pattern(moved.indices, moved.indptr, moved.shape)
        if moved is tags or (moved.nnz == tags.nnz and bool((moved.data == tags.data).all())):
            out = _Data(matrix, p.slot)
        else:
            out = self.new(matrix, (_take, p.slot, moved.data), [p.slot])
        return self.new(matrix, (_cast, out.slot, aval.dtype), [out.slot]) if aval is not None else out

    def join(self, parts: list) -> _Data:
        if len(parts) == 1:
            return parts[0]
        slots = [p.slot for p in parts]
        return self.new(rows.join([p.matrix for p in parts]), (_concatenate, slots), slots)

    def collect(self, p: _Data, targets: np.ndarray, aval: Aval) -> _Data:
        union, arrived, starts = rows.collect(rows.with_entry_numbers(p.matrix), targets, aval.size)
        matrix = rows.pattern(union.indices, union.indptr, union.shape)
        if starts is not None:
            into = np.empty(p.nnz, np.intp)
            into[arrived] = np.repeat(np.arange(len(starts)), np.diff(starts, append=p.nnz))
            return self.new(matrix, (_collect, p.slot, into, len(starts)), [p.slot])
        if bool((arrived == np.arange(p.nnz)).all()):
            return _Data(matrix, p.slot)
        return self.new(matrix, (_take, p.slot, arrived), [p.slot])

    def spread(self, p: Any, targets: np.ndarray, groups: np.ndarray, m: int) -> Any:
        raise NoValues

    def merge(self, parts: list) -> Any:
        raise NoValues

    def multiply(self, p: _Data, matrix: Any, factor: int | None, aval: Aval) -> _Data:
        if factor is None:
            raise NoValues
        matrix = full_tags(matrix)
        moved = self.gather(p, matrix.indices, None)
        of_row = np.repeat(matrix.data - 1, np.diff(moved.matrix.indptr))
        step = self.numbers[id(self.step)]
        scaled = self.new(moved.matrix, (_weigh, moved.slot, step, factor, of_row), [moved.slot], False)
        return self.collect(scaled, np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), aval)

    def elementwise(self, step: Step) -> _Data:
        op, args, params, outs = step
        out = outs[0].aval
        parts = {}
        for i in self.followed(args):
            p = self.rows[args[i]]
            if args[i].aval.shape != out.shape:
                p = self.gather(p, np.broadcast_to(positions_of(args[i].aval.shape), out.shape).reshape(-1), None)
            parts[i] = p
        matrix, places = _unite([p.matrix for p in parts.values()])
        counts = np.diff(matrix.indptr)
        each = int(counts[0]) if len(counts) and bool((counts == counts[0]).all()) else None
        of_row = None if each is not None else np.repeat(np.arange(len(counts)), counts)
        given = {i: (p.slot, place) for (i, p), place in zip(parts.items(), places, strict=True)}
        constant = len(given) < len(args)
        action = (_apply, op, params, self.numbers[id(step)], given, each, of_row, out.shape)
        return self.new(matrix, action, [p.slot for p in parts.values()], not constant)


def _unite(matrices: list) -> tuple[Any, list[tuple | None]]:
    """Return the union of one or two patterns, and for each where its entries come from; nnz is a zero."""
    first = matrices[0]
    if len(matrices) == 1 or rows.same(*matrices):
        return first, [None] * len(matrices)
    second = matrices[1]
    ss = scipy_sparse()
    low = ss.csr_array((np.arange(1, first.nnz + 1), first.indices, first.indptr), shape=first.shape)
    high = ss.csr_array((np.arange(1, second.nnz + 1) << 32, second.indices, second.indptr), shape=first.shape)
    both = low + high
    matrix = rows.pattern(both.indices, both.indptr, both.shape)
    places: list[tuple | None] = []
    for tags, nnz in (((both.data & 0xFFFFFFFF), first.nnz), (both.data >> 32, second.nnz)):
        at = tags - 1
        missing = np.flatnonzero(at < 0)
        at[missing] = nnz
        places.append((at, missing) if len(missing) or len(at) != nnz else None)
    return matrix, places


# ── actions: (function, ...) on the vectors that are there and the steps of the program ──────────────────────────


def _carry_out(action: tuple, data: Any, steps: Any) -> Any:
    return action[0](data, steps, *action[1:])


def _pick(v: Any, at: np.ndarray) -> Any:
    # Clipping is not needed, and faster than checking.
    return v.take(at, mode="clip") if type(v) is np.ndarray else index(v, at, template=(ARRAY,))


def _expand_to_pattern(v: Any, at: np.ndarray, missing: np.ndarray) -> Any:
    """Put data where a larger pattern has them, and zeros where it has others."""
    if type(v) is not np.ndarray or not len(v):
        return _pick(np.concatenate([v, np.zeros(1, v.dtype)]), at)
    out = v.take(at, mode="clip")
    out[missing] = 0
    return out


def _take(data, steps, slot, at):
    return _pick(data[slot], at)


def _cast(data, steps, slot, dtype):
    v = data[slot]
    return v if v.dtype == dtype else v.astype(dtype)


def _concatenate(data, steps, slots):
    return np.concatenate([data[s] for s in slots])


def _collect(data, steps, slot, into, size):
    return bind(index_add, (data[slot], into), {"template": (ARRAY,), "shape": (size,)})


def _weigh(data, steps, slot, step, factor, of_row):
    c = steps[step].args[factor]
    return data[slot] * _pick(np.reshape(c, -1), of_row)


@functools.lru_cache(maxsize=16)
def _repeated(rows: int, each: int) -> np.ndarray:
    """Return the row of each entry where all rows have as many, one array for all who ask."""
    return _frozen(np.repeat(np.arange(rows), each), {})


def _apply(data, steps, op, params, step, given, each, of_row, shape):
    """Run an elementwise operator on data: constants are repeated for the entries of their row."""
    args, made = (), []
    if steps is not None:
        args = steps[step].args
    if each not in (None, 0, 1) and any(
        [isinstance(a, Tracer) for a in (*args, *[data[s] for s, _ in given.values()])]
    ):
        of_row, each = _repeated(math.prod(shape), each), None  # loops over all entries beat those over a few columns
    for i in range(max(len(args), len(given))):
        if i in given:
            slot, at = given[i]
            v = data[slot]
            if at is not None:
                v = _expand_to_pattern(v, *at)
            made.append(v if each is None else v.reshape((-1, each)) if each else v.reshape((-1, 1)))
            continue
        c: Any = args[i]
        if not np.ndim(c):
            made.append(c)
            continue
        flat: np.ndarray = np.broadcast_to(c, shape).reshape(-1)
        if each is not None:
            made.append(flat.reshape((-1, 1)) if each else flat[:0].reshape((-1, 1)))
        else:
            made.append(_pick(flat, of_row))
    out = bind(op, made, params) if any([isinstance(a, Tracer) for a in made]) else op.impl(*made, **params)
    return out.reshape(-1)


class Plan:
    """How the entries of a matrix, at most ``limit``, are accumulated, for linear programs of one form."""

    def __init__(self, program: Program, avals: list[Aval], limit: int) -> None:
        sizes = [a.size for a in avals]
        planner = _Planner(program, n := sum(sizes), limit)
        seeds = [planner.seed(p, a.dtype) for p, a in zip(rows.identities(sizes), avals, strict=True)]
        found = planner.run(program, seeds)
        outs = []
        for p, o in zip(found, program.outputs, strict=True):
            size = o.aval.size if type(o) is Variable else np.size(o)
            outs.append(planner.seed(rows.empty_rows(size, n), np.dtype(float)) if p is None else p)
        whole = planner.join(outs) if outs else planner.seed(rows.empty_rows(0, n), np.dtype(float))
        #: the pattern of what comes out
        self.matrix = whole.matrix
        self.work = planner.work
        self._result, actions = whole.slot, _needed_actions(planner.actions, whole.slot, planner.known)
        self._outline = outline_of(program)
        self._known, self._actions = _frozen((planner.known, actions), {})

    def fits(self, program: Program) -> bool:
        """Whether a program has the form that the plan was made for."""
        return are_alike(self._outline, outline_of(program))

    def values(self, program: Program) -> Any:
        """Return the entries of the matrix, in the order of the plan's pattern, for a program of the plan's form."""
        data, steps = dict(self._known), program.steps
        for slot, action, dead in self._actions:
            data[slot] = _carry_out(action, data, steps)
            for s in dead:
                del data[s]
        out = data[self._result]
        return out.copy() if self._result in self._known else out


def _frozen(x: Any, memo: dict[int, np.ndarray]) -> Any:
    """Return arrays, or containers of them, that nobody can write to: to a program that is compiled they are constants.

    ``memo`` has the arrays that were frozen before, by id. A view is copied, since what it shows could be written to.
    """
    if isinstance(x, np.ndarray):
        if id(x) not in memo:
            memo[id(x)] = x if x.base is None else x.copy()
            memo[id(x)].setflags(write=False)
        return memo[id(x)]
    if type(x) in (list, tuple):
        return type(x)([_frozen(part, memo) for part in x])
    return {k: _frozen(v, memo) for k, v in x.items()} if type(x) is dict else x


def _needed_actions(actions: list[tuple], result: int, known: dict) -> list[tuple]:
    """Return the actions that the result needs, each with the vectors that nothing reads after it."""
    needed, out = {result}, []
    for slot, action, sources in reversed(actions):
        if slot in needed:
            dead = [s for s in set(sources) if s not in needed]
            needed.update(sources)
            out.append((slot, action, dead))
    for slot in set(known) - needed:
        del known[slot]
    return out[::-1]


def outline_of(program: Program, whole: bool = False) -> tuple[list, list]:
    """Return a plan's key: operators, parameters, wiring, shapes, and positions that move entries.

    Of the ``whole`` program, all of its constants; which numbers are unknown is part of the wiring then.
    """
    numbers = {v: i for i, v in enumerate(program.inputs)}
    form: list = []
    arrays: list = []
    for op, args, params, outs in program.recorded:
        wiring: list = []
        linear = None if op.name in ELEMENTWISE else op.linear_positions(len(args), params)
        for i, a in enumerate(args):
            if type(a) is Variable:
                wiring.append(numbers[a])
                continue
            wiring.append(np.shape(a))
            if whole:
                is_unknown = isinstance(a, Tracer)
                wiring.append(is_unknown)
                arrays += [] if is_unknown else [a]
            elif linear is not None and i not in linear:
                arrays.append(a)
        for v in outs:
            numbers[v] = len(numbers)
        form.append((op, params, wiring, [v.aval for v in outs]))
    form.append([numbers[o] if type(o) is Variable else np.shape(o) for o in program.outputs])
    return form, arrays


def are_alike(one: tuple[list, list], other: tuple[list, list]) -> bool:
    """Whether a plan for the program of one outline is one for that of the other."""
    (known, held), (form, arrays) = one, other
    try:
        is_same = known == form and len(held) == len(arrays)
    except ValueError:  # there are arrays among the parameters
        return False
    return is_same and all([
        a is b or (type(a) is type(b) and not isinstance(a, Tracer) and np.array_equal(a, b))
        for a, b in zip(held, arrays, strict=True)
    ])  # fmt: skip
