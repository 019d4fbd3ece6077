"""Indices that a program computes: which entry of an array each entry of a result stands for, and whether it is one.

An index is a template with arrays of integers (``ops/indexing.py``). Negative ones count from the end. A position
outside the array ends the function, and NumPy is asked for all of it instead: it raises what it raises. Not for: code
that moves entries whose places are known (``views.py``), or where positions are used (``indices.py``, ``scatters.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval, is_weak
from ...core.tables import OPS
from ...ops.indexing import ARRAY, INDEXED, _find_advanced_place
from ...program.variable import Step, Variable, aval_of_atom
from .code import Code, Lanes
from .operators import INT, LONG, TYPES, Refused, convert
from .table import Way, lowering_of
from .views import Index, broadcast_index

__all__ = [
    "OUT_OF_BOUNDS", "Places", "STATUS", "entry_way", "in_long", "is_computed", "normalize_positions",
    "places_of",
]  # fmt: skip

#: status code: an index is out of bounds
OUT_OF_BOUNDS = 2
#: of loops over large arrays, the key of the number that is 1 then
STATUS = "status"
#: what those with arrays do in loops over large arrays
_BY_VALUE = {"index": Way.GATHER, "index_add": Way.SCATTER}
#: other integers, which are made int64 first: all their values are the same there
_SHORTER = frozenset(np.dtype(t) for t in (np.int8, np.uint8, np.int16, np.uint16, np.uint32))


def is_computed(step: Step) -> bool:
    """Whether an equation has an index with arrays."""
    op, args = step[:2]
    return op.name in INDEXED and len(args) > INDEXED[op.name]


def entry_way(op: Any, args: Sequence[Any]) -> Way | None:
    """An equation's action on entries in loops over large arrays, which for an index its arrays decide."""
    if op.name in INDEXED and len(args) > INDEXED[op.name]:
        return _BY_VALUE.get(op.name)
    return lowering_of(op).entry


class Places:
    """The axes of an indexed array, each as a number, (start, step, axis of the result), or (array, its place)."""

    def __init__(self, template: tuple, shape: tuple[int, ...], arrays: Sequence[tuple[int, ...]]) -> None:
        if any([type(e) is str and e != ARRAY for e in template]):
            raise Refused("a mask without axes")
        self.shape, self.arrays = shape, list(arrays)
        self.advanced = np.broadcast_shapes(*arrays)
        self.place = _find_advanced_place(template) if arrays else 0
        count, found, kept = len(self.advanced), 0, 0
        self.axes: list[Any] = []
        out: list[int] = []
        for e in (*template, *[(0, n, 1) for n in shape[sum([e is not None for e in template]) :]]):
            if type(e) is int:
                self.axes.append(e)
            elif e == ARRAY:
                self.axes.append((ARRAY, found))
                found += 1
            else:
                if e is not None:
                    self.axes.append((e[0], e[2], kept if kept < self.place else kept + count))
                out.append(1 if e is None else len(range(e[0], -1 if e[1] is None else e[1], e[2])))
                kept += 1
        #: the shape of the result
        self.out = (*out[: self.place], *self.advanced, *out[self.place :])
        self.strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        if 0 in self.out or 0 in shape:
            raise Refused("nothing that is indexed")

    def array_index(self, j: int, index: Index) -> Index:
        """The index, in an array of positions, of the one for an entry of the result."""
        return broadcast_index(self.arrays[j], index[self.place : self.place + len(self.advanced)])

    def is_apart(self, arrays: Sequence[Any]) -> bool:
        """Whether no entry is meant twice, whatever the positions: one position, or an array of different ones."""
        if math.prod(self.advanced) == 1:
            return True
        for n, e in zip(self.shape, self.axes, strict=True):
            a = arrays[e[1]] if type(e) is tuple and e[0] == ARRAY else None
            if isinstance(a, np.ndarray) and a.shape == self.advanced:
                if len(np.unique(np.where(a < 0, a + n, a))) == a.size:
                    return True
        return False


def places_of(name: str, args: Sequence[Any], params: dict) -> Places:
    """Return the places that an equation is about, or raise ``Refused``."""
    arrays = args[INDEXED[name] :]
    for a in arrays:
        aval = aval_of_atom(a)
        if aval.dtype not in (LONG, INT) or not aval.dtype.isnative:
            raise Refused("an index of another type")
    avals = [aval_of_atom(a) for a in args[: INDEXED[name]]]
    if is_weak(avals[0]) or any([a.dtype not in TYPES or a.dtype != avals[0].dtype for a in avals]):
        raise Refused(name)
    shape = params["shape"] if name == "index_add" else avals[0].shape
    places = Places(params["template"], shape, [aval_of_atom(a).shape for a in arrays])
    if name != "index" and avals[-1].shape != places.out:
        raise Refused("values of another shape")
    if name == "index_add" and avals[0].dtype.kind == "b":
        raise Refused("truth values that add up")
    return places


def from_the_end(b: Lanes, x: str, n: int) -> str:
    """Return positions of which negative ones count from the end of an axis."""
    return b.select(b.compare("slt", x, 0), b.add(x, n), x)


def normalize_positions(
    code: Code, positions: Sequence[tuple[Lanes, str, int]], leave: Callable[[str], None]
) -> list[str]:
    """Return positions as counted from the front, once it is known that each is inside.

    Each position is integers and the length of its axis; ``leave(bad)`` writes the exit taken if that is true.
    """
    found, bad = [], []
    for b, x, n in positions:
        wide = b.of(LONG)
        x = convert(b, x, LONG)
        x = from_the_end(wide, x, n)
        bad.append(wide.any(wide.compare("uge", x, n)))
        found.append(x)
    if not bad:
        return found
    one = Lanes(code, np.dtype(bool), 1)
    total = bad[0]
    for other in bad[1:]:
        total = one.either(total, other)
    leave(total)
    return found


def in_long(step: Step) -> list[Step]:
    """Return an equation with an index of short integers as two, of which the first makes them int64."""
    op, args, params, outs = step
    if not is_computed(step):
        return [step]
    first, made, given = INDEXED[op.name], [], list(args)
    for i, a in enumerate(args[first:], first):
        aval = aval_of_atom(a)
        if aval.dtype not in _SHORTER or is_weak(aval):
            continue
        if type(a) is Variable:
            given[i] = Variable(Aval(aval.shape, LONG))
            made.append(Step(OPS["astype"], (a,), {"dtype": LONG}, (given[i],)))
        else:
            given[i] = np.asarray(a, LONG)
    return [*made, Step(op, tuple(given), params, outs)]
