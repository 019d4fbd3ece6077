"""Indices that are computed, on numbers and small arrays: reading anywhere in memory, writing to small arrays.

Not for: which entries an index means (``positions.py``), large arrays that a loop changes here and there
(``carries.py``), or indices of large arrays (``scatters.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval, is_weak
from ...core.tables import OPS
from ...ops.indexing import INDEXED
from ...program.ir import Program
from ...program.variable import Step, Variable, aval_of_atom
from .code import WIDTH, Code, Lanes
from .operators import DOUBLE, LONG, SINGLE, Refused, convert
from .positions import OUT_OF_BOUNDS, Places, normalize_positions, places_of
from .values import (
    Values,
    at,
    chunks,
    gather,
    in_chunks,
    is_uniform,
    load_lanes,
    parts_of,
    places,
    store,
    store_lanes,
    take,
    width_of,
)

__all__ = [
    "added_up", "check_index", "check_known_index", "copied", "each_entry", "entries_of", "in_memory", "is_table",
    "place_of", "read", "sums_in_double", "turns", "weight_of_index", "written_to",
]  # fmt: skip

#: entries that are read one by one
_READ = 512
#: rows of any length that are written one by one
_RUNS = 16
#: entries times vectors of a small array that they are added to
_ADDED = 256


# ── which are known ──────────────────────────────────────────────────────────────────────────────────────────────


def check_index(step: Step, small: int) -> None:
    """Raise ``Refused`` for an equation with an index that is not known here; the array read may be of any length."""
    op, args, params, (out,) = step
    places = places_of(op.name, args, params)
    if any([aval_of_atom(a).size > small for a in args[INDEXED[op.name] :]]):
        raise Refused(op.name)
    if op.name == "index_set" and places.is_apart(args[2:]) and math.prod(places.out) <= _RUNS * _run_of(places):
        return
    if out.aval.size > small:
        raise Refused("many entries")
    if is_weak(out.aval) or out.aval.dtype != aval_of_atom(args[0]).dtype:
        raise Refused(op.name)
    if op.name == "index":
        if out.aval.size > _READ:
            raise Refused("many entries")
        return
    if math.prod(places.out) > _READ:
        raise Refused("many entries")
    if op.name == "index_set" and not places.is_apart(args[2:]):
        raise Refused("entries that are written twice")


def check_known_index(op: Any, args: Sequence[Any], params: dict, out: Aval) -> None:
    """Raise ``Refused`` for an equation on small arrays, of which all index arrays are known, that is no move here."""
    where, arrays = places_of(op.name, args, params), args[INDEXED[op.name] :]
    if op.name == "index_set" and not where.is_apart(arrays):
        raise Refused("entries that are written twice")
    limits = [n for n, e in zip(where.shape, where.axes, strict=True) if type(e) is tuple and len(e) == 2]
    if any([np.min(a) < -n or np.max(a) >= n for a, n in zip(arrays, limits, strict=True)]):
        raise Refused("an index that is none")
    if op.name == "index_add":
        layers = np.bincount(_targets(arrays, params["template"], out)).max()
        if layers * chunks(out) > _ADDED:
            raise Refused("many entries")


def _targets(arrays: Sequence[Any], template: tuple, out: Aval) -> np.ndarray:
    """Return the flat position that each entry is added at."""
    return np.ravel(OPS["index"].impl(places(out), *arrays, template=template))


def _run_of(where: Places) -> int:
    """The number of entries that follow each other in memory, wherever the index is."""
    run, last = 1, len(where.out)
    for n, e in zip(reversed(where.shape), reversed(where.axes), strict=True):
        if type(e) is int or len(e) != 3 or e[1] != 1 or e[2] != last - 1:
            break
        last -= 1
        run *= where.out[last]
        if where.out[last] != n:
            break
    return run


def weight_of_index(step: Step) -> int:
    """Return about how many instructions an equation with an index becomes."""
    op, args, _, (out,) = step
    if op.name == "index":
        return 4 * out.aval.size
    count, vectors = aval_of_atom(args[INDEXED[op.name] - 1]).size, -(-out.aval.size // WIDTH)
    return 4 * (count * vectors if count * vectors <= _ADDED else count + vectors)


def is_table(program: Program, v: Variable) -> bool:
    """Whether a program reads an array by indices alone, and hands it on to loops that do."""
    if any([o is v for o in program.outputs]):
        return False
    for op, args, params, _ in program.steps:
        if not any([a is v for a in args]):
            continue
        if op.name == "index":
            if args[0] is not v or any([a is v for a in args[1:]]):
                return False
        elif op.name == "scan":
            for i, a in enumerate(args):
                if a is v and (i >= params["counts"][0] or not is_table(params["body"], params["body"].inputs[i])):
                    return False
        else:
            return False
    return True


# ── positions ────────────────────────────────────────────────────────────────────────────────────────────────────


def _leave(code: Code, bad: str) -> None:
    """End the function if an index is none."""
    with code.when(bad):
        code.effect(f"ret i32 {OUT_OF_BOUNDS}")


def entries_of(code: Code, where: Places, arrays: Sequence[Values]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return of each entry of a result the known part of its place and the number of the computed part, and those."""
    numbers = np.indices(where.out).reshape(len(where.out), math.prod(where.out))
    block = numbers[where.place : where.place + len(where.advanced)]
    which = (
        np.ravel_multi_index(tuple(block), where.advanced) if where.advanced else np.zeros(math.prod(where.out), int)
    )
    static, base = np.zeros(math.prod(where.out), np.int64), np.zeros(math.prod(where.advanced), np.int64)
    asked: list[tuple[Lanes, str, int]] = []
    computed: list[tuple[int, Values]] = []
    one = Lanes(code, LONG, 1)
    for n, stride, e in zip(where.shape, where.strides, where.axes, strict=True):
        if isinstance(e, int):
            static = static + e * stride
        elif len(e) == 3:
            static = static + stride * (e[0] + e[1] * numbers[e[2]])
        elif (a := arrays[e[1]]).constant is not None:
            x = np.broadcast_to(np.asarray(a.constant, np.int64), where.advanced).reshape(-1)
            x = np.where(x < 0, x + n, x)
            if (x < 0).any() or (x >= n).any():
                raise Refused("an index that is none")
            base = base + stride * x
        else:
            b = Lanes(code, a.aval.dtype, width_of(a.aval))
            asked += [(b, part, n) for part in parts_of(code, a)]
            computed.append((stride, a))
    inside = normalize_positions(code, asked, lambda bad: _leave(code, bad)) if asked else []
    moves = [str(p) for p in base.tolist()]
    for stride, a in computed:
        count = chunks(a.aval)
        own, inside = Values(Aval(a.aval.shape, LONG), inside[:count]), inside[count:]
        for k, p in enumerate(np.broadcast_to(places(a.aval), where.advanced).reshape(-1)):
            move = take(code, own, np.array([p]), 1)
            move = one.mul(move, str(stride)) if stride != 1 else move
            moves[k] = move if moves[k] == "0" else one.add(move, moves[k])
    return static, which, moves


def place_of(code: Code, move: str, static: int) -> str:
    """Return the place of an entry from its computed and its static part."""
    if not static:
        return move
    return Lanes(code, LONG, 1).add(move, str(static)) if move.startswith("%") else str(int(move) + static)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


def in_memory(lowering: Any, value: Values) -> str:
    """Return the address of an array, which is written to memory if it is in registers."""
    code = lowering.code
    if value.constant is not None:
        if value.aval.size > WIDTH and is_uniform(value.constant):
            pointer = lowering.room(value.aval)
            copied(code, value, pointer)
            return pointer
        return code.table(value.constant)
    if value.pointer or value.parts is None:
        return value.pointer
    pointer = lowering.room(value.aval)
    store(code, value, pointer)
    return pointer


def read(lowering: Any, step: Step, args: Sequence[Values]) -> Values:
    """Read the entries that an index means."""
    code, x, params, out = lowering.code, args[0], step.params, step.out.aval
    where = Places(params["template"], x.aval.shape, [a.aval.shape for a in args[1:]])
    pointer = in_memory(lowering, x)
    static, which, moves = entries_of(code, where, args[1:])
    b, one = Lanes(code, out.dtype, width_of(out)), Lanes(code, out.dtype, 1)
    entry = lambda w, k: load_lanes(w, at(code, pointer, w.dtype, place_of(code, moves[which[k]], int(static[k]))))
    parts = []
    for row in in_chunks(np.arange(out.size), b.width):
        together = (which[row] == which[row[0]]).all() and (np.diff(static[row]) == 1).all()
        parts.append(entry(b, row[0]) if together else b.joined([entry(one, k) for k in row]))
    return Values(out, parts)


# ── writing to small arrays ──────────────────────────────────────────────────────────────────────────────────────


def written_to(lowering: Any, step: Step, args: Sequence[Values]) -> Values:
    """Add entries to zeros, or put them in the place of others, one after the other, as NumPy does."""
    name, params, out = step.op.name, step.params, step.out.aval
    code, added, first = lowering.code, name == "index_add", INDEXED[name]
    given = args[first - 1]
    where = Places(params["template"], out.shape, [a.aval.shape for a in args[first:]])
    static, which, moves = entries_of(code, where, args[first:])
    wide = added and sums_in_double(out.dtype, given.aval.size, out.size)
    dtype = DOUBLE if wide else out.dtype
    b = Lanes(code, dtype, width_of(out))
    run = _run_of(where)
    if not added and given.aval.size * chunks(out) > _ADDED and given.aval.size <= _RUNS * run:
        pointer, source, one = lowering.room(out), in_memory(lowering, given), Lanes(code, LONG, 1)
        copied(code, args[0], pointer)
        for k in range(0, given.aval.size, run):
            row = at(code, pointer, dtype, place_of(code, moves[which[k]], int(static[k])))
            entry = lambda w, i, k=k: load_lanes(w, at(code, source, w.dtype, one.add(i, str(k))))
            each_entry(code, Aval((run,), dtype), entry, row)
        return Values(out, pointer=pointer)
    if given.aval.size * chunks(out) > _ADDED:
        value = Values(Aval(out.shape, dtype), constant=np.zeros(out.shape, dtype)) if added else args[0]
        spots = [place_of(code, moves[which[k]], int(static[k])) for k in range(given.aval.size)]
        parts = parts_of(code, _in_memory_written(lowering, value, given, spots, added))
        return Values(out, [convert(b, x, out.dtype) for x in parts])
    numbers = Lanes(code, LONG, b.width)
    old = [b.constant(0)] * -(-out.size // b.width) if added else list(parts_of(code, args[0]))
    one = Lanes(code, out.dtype, 1)
    for k in range(given.aval.size):
        x = take(code, given, np.array([k]), 1)
        x = b.splat(convert(one, x, DOUBLE) if wide else x)
        place = numbers.splat(place_of(code, moves[which[k]], int(static[k])))
        for i, row in enumerate(in_chunks(np.arange(out.size), b.width)):
            here = str(row[0]) if b.width == 1 else f"<{', '.join([f'i64 {p}' for p in row])}>"
            same = numbers.compare("eq", here, place)
            old[i] = b.add(old[i], b.select(same, x, 0)) if added else b.select(same, x, old[i])
    return Values(out, [convert(b, x, out.dtype) for x in old])


def added_up(code: Code, given: Values, arrays: Sequence[Any], template: tuple, out: Aval) -> Values:
    """Add entries at known places to zeros: of each place the first ones together, then the second ones."""
    targets = _targets(arrays, template, out)
    order = np.argsort(targets, kind="stable")
    _, firsts = np.unique(targets[order], return_index=True)
    layer = np.empty(targets.size, int)
    layer[order] = np.arange(targets.size) - np.repeat(firsts, np.diff([*firsts, targets.size]))
    wide = sums_in_double(out.dtype, given.aval.size, out.size)
    b = Lanes(code, out.dtype, width_of(out))
    total = [b.of(DOUBLE if wide else out.dtype).constant(0)] * chunks(out)
    for k in range(layer.max() + 1):
        moves = np.full(out.size, -1)
        moves[targets[layer == k]] = np.flatnonzero(layer == k)
        parts = parts_of(code, gather(code, [given], moves, out))
        both = zip(total, parts, strict=True)
        total = [b.of(DOUBLE).add(t, convert(b, x, DOUBLE)) if wide else b.add(t, x) for t, x in both]
    return Values(out, [convert(b.of(DOUBLE), x, out.dtype) if wide else x for x in total])


def _in_memory_written(lowering: Any, value: Values, given: Values, spots: Sequence[str], added: bool) -> Values:
    """Write a copy of an array to memory, and there entries one after the other."""
    code, pointer = lowering.code, lowering.room(value.aval)
    copied(code, value, pointer)
    b, one = Lanes(code, value.aval.dtype, 1), Lanes(code, given.aval.dtype, 1)
    for k, spot in enumerate(spots):
        x, place = convert(one, take(code, given, np.array([k]), 1), b.dtype), at(code, pointer, b.dtype, spot)
        if added:  # entries change meanwhile, so each is read for itself
            x = b.add(code.new(f"load {b.type}, ptr {place}, align {b.dtype.itemsize}"), x)
        store_lanes(b, x, place)
    return Values(value.aval, pointer=pointer)


def sums_in_double(dtype: np.dtype, count: int, size: int) -> bool:
    """Whether NumPy adds up float32 numbers in double precision (``ops/indexing.py``)."""
    return dtype == SINGLE and 8 * count >= size


def copied(code: Code, value: Values, pointer: str) -> None:
    """Write an array of any length to memory."""
    x = value.constant
    if value.parts is not None:
        store(code, value, pointer)
    elif x is None or not is_uniform(x):
        source = value.pointer if x is None else code.table(x)
        each_entry(code, value.aval, lambda b, i: load_lanes(b, at(code, source, b.dtype, i)), pointer)
    else:
        each_entry(code, value.aval, lambda b, i: b.constant(x[(0,) * x.ndim]), pointer)


def each_entry(code: Code, aval: Aval, entry: Callable[[Lanes, int | str], str], pointer: str) -> None:
    """Write every entry of an array."""
    whole = aval.size - aval.size % WIDTH
    for width, first, end in ((WIDTH, 0, whole), (1, whole, aval.size)):
        b = Lanes(code, aval.dtype, width)
        for i in turns(code, first, end, width):
            store_lanes(b, entry(b, i), at(code, pointer, aval.dtype, i))


def turns(code: Code, first: int | str, end: int, by: int = 1, most: int = 8) -> Iterator[int | str]:
    """Yield the iterations, each written out, or of many the counter of a loop."""
    if isinstance(first, int) and end - first <= most * by:
        yield from range(first, end, by)  # LLVM takes as long for a loop as for some thirty instructions
    else:
        with code.each(str(first), end, by) as i:
            yield i
