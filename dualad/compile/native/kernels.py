"""Loops over large arrays: elementwise operators, moves and short sums in one pass, what lies between never stored.

A result is written by asking for its entry at an index; what it is computed from is asked for in turn, down to arrays
in memory. Where a join or a border changes the answer, an axis is cut, so bodies have no branches. Entries are computed
in vectors along the last axis; each by the same operations, whatever the cut and the number of threads. Not for: the
loops around entries (``domains.py``), which equations come here, or running the loops (``passes.py``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval
from ...program.variable import Step, Variable, aval_of_atom
from .bands import Bands, Meeting, met_at
from .code import WIDTH, Code, Lanes, literal
from .equations import Call
from .lowering import trailing
from .narrow import Multiples
from .operators import BOOL, INT, LONG, Refused, computed_in, convert, of_operands, short_total
from .positions import STATUS, Places, entry_way, normalize_positions
from .table import VIEWS, Way
from .values import is_uniform, load_lanes, storage_type, store_lanes
from .views import Box, Index, affine, broadcast_index, pieces, reshape_index, same_but_ones, source, splits

__all__ = ["Kernel", "Writer", "clamp", "find_cuts", "in_memory_as", "is_counted"]

#: operators whose results have the numbers of their arguments, in the same order
_SAME = frozenset({"copy", "reshape", "stop_gradient"})
#: entries of constants that are looked at at a time
_BLOCK = 1 << 15
#: equations behind each other that an entry is computed from, where some move entries: others recompute them
_DEEP = 150


def is_counted(x: Any) -> bool:
    """Whether a constant is the places of its own entries, from some number on."""
    return (
        isinstance(x, np.ndarray)
        and x.ndim == 1
        and x.dtype == LONG
        and x.dtype.isnative
        and x.size > 1
        and x[-1] - x[0] == x.size - 1
        and all([(np.diff(x[i : i + _BLOCK + 1]) == 1).all() for i in range(0, x.size - 1, _BLOCK)])
    )


def in_memory_as(v: Any, maker: dict, held: Container) -> Any:
    """Return the array whose numbers are those of another, in the same order: it is not copied to be read anywhere."""
    while type(v) is Variable and v in maker and v not in held and maker[v][0].name in _SAME:
        v = maker[v][1][0]
    return v


class Kernel:
    """Arrays of one shape that are written in one loop nest.

    With ``flat`` they are taken as they lie in memory, along one axis. With ``lanes`` the first axis is the only loop,
    and entries of the others are written one by one: of arrays that have nothing in common but that axis.
    """

    def __init__(self, outs: Sequence[Variable], flat: bool, lanes: bool = False) -> None:
        self.outs, self.flat, self.lanes = list(outs), flat, lanes
        aval = outs[0].aval
        self.shape = (aval.size,) if flat else aval.shape[:1] if lanes else aval.shape
        #: of the group: the equation of each variable, the number of each array in memory, constants that are known by
        #: their diagonals (by id); and whether mathematics is written in place
        self.maker: dict[Variable, Step] = {}
        self.number: dict[Any, int] = {}
        self.bands: dict[int, Bands] = {}
        self.narrow: dict[int, np.ndarray | Multiples] = {}
        self.inline = False
        self._equations: dict[int, tuple] = {}
        #: arrays that it has read, and the indices, if they are known
        self.loaded: set[tuple[Variable, Index]] = set()
        #: whether the entries of each row are all computed for that row
        self.whole = True
        #: how many rows threads share, and how many of them are a block
        self.rows = self.step = 1
        #: in memory until it is whole
        self.partial: list[Variable] = []

    def write(self, name: str) -> tuple[str, list[str]]:
        """Return functions ``(arrays, from, to)`` as text, and the names of those that are called, in order.

        The first one has the given name, and is called for all rows; others are called once.
        """
        raise NotImplementedError

    def buffers(self, code: Code) -> dict[Any, str]:
        """Return the addresses of arrays in memory."""
        return {key: code.pointer_in("%arrays", i) for key, i in self.number.items()}

    def calls(self, names: Sequence[str]) -> list[Call]:
        return [(name, 1 if i else self.rows, self.step) for i, name in enumerate(names)]

    @property
    def work(self) -> int:
        """About how long it takes, in entries of elementwise operators."""
        return math.prod(self.shape)

    @property
    def index(self) -> Index:
        """The index of the entry that the counters say."""
        return tuple([0 if n == 1 else (i, 1, 0) for i, n in enumerate(self.shape)])

    def homes(self, v: Variable) -> list[Index]:
        """Return the indices at which an array is written in the innermost loop."""
        if not self.lanes:
            return [self.index]
        return [((0, 1, 0), *at) for at in itertools.product(*[range(n) for n in v.aval.shape[1:]])]

    def is_home(self, v: Variable, index: Index) -> bool:
        """Whether an entry of the array written here is known in the innermost loop."""
        return bool(index) and index[0] == (0, 1, 0) if self.lanes else index == self.homes(v)[0]

    def below(self, shape: tuple[int, ...], index: Index) -> Index:
        """Return the index of an operand of an elementwise operator."""
        if not self.flat:
            return broadcast_index(shape, index)
        return index if math.prod(shape) == self.shape[0] else (0,) * len(shape)

    def laid_out(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of an array in memory, as indices mean it."""
        return self.shape if self.flat and math.prod(shape) == self.shape[0] else shape

    def about(self, a: Variable) -> tuple[Any, Sequence, dict, list[Aval]]:
        """Return the equation that computes an array, with what its arguments are: asked for at each entry."""
        found = self._equations.get(id(a))
        if found is None:
            op, args, params, _ = self.maker[a]
            found = self._equations[id(a)] = (op, args, params, [aval_of_atom(x) for x in args])
        return found

    def operands(self, a: Variable, index: Index) -> list[tuple[Any, Index]]:
        """Return the operands of an entry and their indices; entries moved have none of their own."""
        op, args, params, avals = self.about(a)
        if op.name == "reshape" and self.lanes:
            return [(args[0], reshape_index(avals[0].shape, a.aval.shape, index))]
        way = entry_way(op, args)
        if way is Way.GATHER:
            where = Places(params["template"], avals[0].shape, [x.shape for x in avals[1:]])
            return [(x, where.array_index(j, index)) for j, x in enumerate(args[1:])]
        if way is Way.TOTAL:
            return [(args[0], inner) for inner in _added_up(avals[0].shape, params, index)]
        return [(x, self.below(aval.shape, index)) for x, aval in zip(args, avals, strict=True)]

    def is_folded(self, op: Any, avals: Sequence[Aval], out: Aval) -> bool:
        """Whether it shows an array in another shape, which is in memory and so has this shape as well."""
        return op.name == "reshape" and not self.lanes and not same_but_ones(avals[0].shape, out.shape)

    def is_moved(self, op: Any, args: Sequence) -> bool:
        """Whether its entries are those of others, each from a place that is known."""
        return entry_way(op, args) in VIEWS and not (op.name == "reshape" and self.lanes)


class Writer:
    """Writes the body of one loop nest for one part of its domain."""

    def __init__(self, code: Code, kernel: Kernel, buffers: dict, box: Box, counters: list[str]) -> None:
        self.code, self.kernel, self.maker, self.buffers = code, kernel, kernel.maker, buffers
        self.box, self.counters = box, counters
        last = len(kernel.shape) - 1
        low, high = box.get(last, (0, 0))
        self.axis = last if high - low >= WIDTH else None
        #: axes along which the counter of a vector's first lane goes on
        self.moving = {self.axis}
        #: of the entries that are written: how far apart two counters are, or that they meet no diagonal
        self.apart: int | None = None
        self.off = False
        #: where diagonals of constants are met; None stands for places that are not known by two counters
        self.meetings: list[tuple[Meeting, Bands] | None] = []
        self.known: dict[tuple[int, Index], tuple[str, int]] = {}
        self.own = set(kernel.outs)
        #: entries of eight lanes that were loaded together, by their array, the first of them, and how many a lane has
        self.tiles: dict[tuple[str, np.dtype, int, int], list[str]] = {}
        self.computed: dict[int, np.dtype] = {}

    # ── values: a name and its number of lanes ───────────────────────────────────────────────────────────────────

    def entry(self, a: Any, index: Index, computed: bool = False) -> tuple[str, int]:
        """Return the entry of an atom at an index, as one lane if it is the same along the vector."""
        found = self.at_hand(a, index, computed)
        if found is not None:
            return found
        # A chain of equations may be longer than Python's stack: for each entry that is being computed, what it is
        # computed from, and as much of that as is known.
        pending: list[tuple[Variable, Index, list, list]] = [(a, index, self.operands(a, index), [])]
        while True:
            a, index, operands, given = pending[-1]
            if len(given) < len(operands):
                x, place = operands[len(given)]
                found = self.at_hand(x, place, self.is_computed_here(x, place))
                if found is None:
                    pending.append((x, place, self.operands(x, place), []))
                    if len(pending) > _DEEP and not self.kernel.flat:
                        raise Refused("a long chain of equations that move entries")
                else:
                    given.append(found)
                continue
            pending.pop()
            found = self.known[id(a), index] = self.compute(a, index, given)
            if not pending:
                return found
            pending[-1][-1].append(found)

    def at_hand(self, a: Any, index: Index, computed: bool) -> tuple[str, int] | None:
        """Return an entry that is a constant, is in memory, or has been computed here."""
        if type(a) is not Variable:
            if is_uniform(a):
                x = np.asarray(a)
                return literal(x[(0,) * x.ndim], x.dtype), 1
            if all([isinstance(i, int) for i in index]):
                return literal(a[index], a.dtype), 1
            if id(a) not in self.buffers:
                return self.counted(int(a[0]), index[0]) if a.ndim == 1 else self.banded(a, index)
            if id(a) in self.kernel.narrow:
                return self.widened(a, index)
            return self.load(self.buffers[id(a)], self.kernel.laid_out(a.shape), a.dtype, index)
        if a in self.buffers and not computed:
            if a in self.own:
                raise Refused("an array that is read where it may not be written yet")
            self.kernel.loaded.add((a, index))
            return self.load(self.buffers[a], self.kernel.laid_out(a.aval.shape), a.aval.dtype, index)
        return self.known.get((id(a), index))

    def widened(self, a: np.ndarray, index: Index) -> tuple[str, int]:
        """Return an entry of a constant that is in memory as something shorter."""
        narrow, shape = self.kernel.narrow[id(a)], self.kernel.laid_out(a.shape)
        short, unit = narrow if isinstance(narrow, Multiples) else (narrow, 1)
        x, width = self.load(self.buffers[id(a)], shape, short.dtype, index)
        x, b = convert(Lanes(self.code, short.dtype, width), x, a.dtype), Lanes(self.code, a.dtype, width)
        return x if unit == 1 else b.mul(x, b.constant(unit)), width

    def counted(self, first: int, x: tuple[int, int, int]) -> tuple[str, int]:
        """Return an entry of a constant that counts."""
        axis, step, offset = x
        one = Lanes(self.code, LONG, 1)
        here = one.add(one.mul(self.counters[axis], str(step)), str(offset + first))
        if axis not in self.moving:
            return here, 1
        b = Lanes(self.code, LONG, WIDTH)
        return b.add(b.splat(here), f"<{', '.join([f'i64 {step * i}' for i in range(WIDTH)])}>"), WIDTH

    def banded(self, a: np.ndarray, index: Index) -> tuple[str, int]:
        """Return an entry of a constant that is one number but for some diagonals."""
        off, on = bands = self.kernel.bands[id(a)]
        meeting = met_at(*index)
        self.meetings.append((meeting, bands) if meeting else None)
        if meeting and (self.off or self.apart is not None):
            k = meeting.diagonal(self.apart) if self.apart is not None else None
            return self.on_diagonal(a, k, index[0]) if k in on else (literal(off, a.dtype), 1)
        (row, left), (column, right) = [(str(i), 1) if isinstance(i, int) else self.counted(0, i) for i in index]
        width = max(left, right)
        column = Lanes(self.code, LONG, width).splat(column) if right < width else column
        b, numbers = Lanes(self.code, LONG, width), Lanes(self.code, a.dtype, width)
        entry = numbers.constant(off)
        for k in on:
            here = Lanes(self.code, LONG, left).add(row, k)
            x, lanes = self.on_diagonal(a, k, index[0])
            mask = b.compare("eq", b.splat(here) if left < width else here, column)
            entry = numbers.select(mask, numbers.splat(x) if lanes < width else x, entry)
        return entry, width

    def on_diagonal(self, a: np.ndarray, k: int, row: Any) -> tuple[str, int]:
        """Return the number of a row on a diagonal."""
        on = self.kernel.bands[id(a)].on[k]
        if not isinstance(on, np.ndarray):
            return literal(on, a.dtype), 1
        if isinstance(row, int):
            return literal(on[row], a.dtype), 1
        return self.load(self.buffers[id(a), k], on.shape, on.dtype, (row,))

    def operands(self, a: Variable, index: Index) -> list[tuple[Any, Index]]:
        """Return the operands of an entry."""
        op, args, params, avals = self.kernel.about(a)
        if self.kernel.is_folded(op, avals, a.aval):
            return []
        if self.kernel.is_moved(op, args):
            place = source(op.name, [v.shape for v in avals], params, a.aval.shape, index, self.box)
            return [] if place is None else [(args[place[0]], place[1])]
        return self.kernel.operands(a, index)

    def compute(self, a: Variable, index: Index, given: list[tuple[str, int]]) -> tuple[str, int]:
        """Return an entry, from its operands."""
        op, args, params, avals = self.kernel.about(a)
        if self.kernel.is_folded(op, avals, a.aval):
            key = args[0] if type(args[0]) is Variable else id(args[0])
            self.kernel.loaded.add((args[0], ()))
            return self.load(self.buffers[key], a.aval.shape, a.aval.dtype, index)
        way = entry_way(op, args)
        if way is Way.GATHER:
            return self.gathered(args, params, a.aval, index, given)
        if way in VIEWS:
            return given[0] if given else (literal(0, a.aval.dtype), 1)
        if way is Way.TOTAL:
            return self.short_sum(a, op.name, avals[0], params, given)
        return self.elementwise(a, op, args, avals, params, given)

    def gathered(
        self, args: Sequence, params: dict, out: Aval, index: Index, given: list[tuple[str, int]]
    ) -> tuple[str, int]:
        """Read the entry that an index means, which is computed."""
        x, *arrays = args
        shape = aval_of_atom(x).shape
        where = Places(params["template"], shape, [aval_of_atom(a).shape for a in arrays])
        x = in_memory_as(x, self.maker, self.buffers)
        if type(x) is Variable:
            self.kernel.loaded.add((x, ()))
        pointer = self.buffers[x if type(x) is Variable else id(x)]
        at, move = self.address(pointer, shape, out.dtype, self.known_axes(where, index))
        offset, width = self.offset(where, arrays, given)
        kind, code = storage_type(out.dtype), self.code
        if width == 1:
            return self.load_from(code.value(f"getelementptr {kind}, ptr {at}, i64 {offset}"), move, out.dtype)
        b, one = Lanes(code, LONG, WIDTH), Lanes(code, out.dtype, 1)
        if move:
            offset = b.add(offset, f"<{', '.join([f'i64 {move * i}' for i in range(WIDTH)])}>")
        offsets = (not move and self.one_by_one(where, arrays, index)) or [b.at(offset, i) for i in range(WIDTH)]
        places = [code.value(f"getelementptr {kind}, ptr {at}, i64 {i}") for i in offsets]
        return Lanes(code, out.dtype, WIDTH).joined([load_lanes(one, p) for p in places]), WIDTH

    def one_by_one(self, where: Places, arrays: Sequence, index: Index) -> list[str]:
        """Return the offsets that known positions say, each loaded as a number, where they lie side by side.

        To take them out of a vector costs as much again as to read what they mean.
        """
        if len(arrays) > 1 or id(arrays[0]) not in self.kernel.narrow:
            return []
        (stride,) = [s for s, e in zip(where.strides, where.axes, strict=True) if type(e) is tuple and len(e) == 2]
        key, shape = id(arrays[0]), self.kernel.laid_out(arrays[0].shape)
        at, move = self.address(self.buffers[key], shape, INT, where.array_index(0, index))
        if move != 1:
            return []
        short, one = Lanes(self.code, INT, 1), Lanes(self.code, LONG, 1)
        found = [self.code.value(f"getelementptr {short.type}, ptr {at}, i64 {i}") for i in range(WIDTH)]
        wide = [convert(short, load_lanes(short, place), LONG) for place in found]
        return wide if stride == 1 else [one.mul(x, str(stride)) for x in wide]

    def known_axes(self, where: Places, index: Index) -> Index:
        """Return the part of a place that is known."""
        return tuple(
            [e if type(e) is int else 0 if len(e) == 2 else affine(index[e[2]], e[0], e[1]) for e in where.axes]
        )

    def offset(self, where: Places, arrays: Sequence, given: Sequence[tuple[str, int]]) -> tuple[str, int]:
        """Return the part of a place that entries of index arrays say; an index that is none ends the function."""
        strides = {
            e[1]: (n, s)
            for n, s, e in zip(where.shape, where.strides, where.axes, strict=True)
            if type(e) is tuple and len(e) == 2
        }
        kinds = [Lanes(self.code, aval_of_atom(a).dtype, w) for a, (_, w) in zip(arrays, given, strict=True)]
        asked = [(b, x, strides[j][0]) for j, (b, (x, _)) in enumerate(zip(kinds, given, strict=True))]
        width, total = max([w for _, w in given]), ""
        wide = Lanes(self.code, LONG, width)
        known = [id(a) in self.kernel.narrow for a in arrays]
        checked = iter(
            normalize_positions(self.code, list(itertools.compress(asked, np.logical_not(known))), self._leave)
        )
        for j, (_, x, _) in enumerate(asked):
            x = x if known[j] else next(checked)
            x = wide.splat(x) if kinds[j].width < width else x
            x = wide.mul(x, strides[j][1]) if strides[j][1] != 1 else x
            total = wide.add(total, x) if total else x
        return total, width

    def _leave(self, bad: str) -> None:
        with self.code.when(bad):
            self.code.effect(f"store i64 1, ptr {self.buffers[STATUS]}")
            self.code.effect("ret void")

    def operand(self, x: Any, index: Index) -> tuple[str, int]:
        return self.entry(x, index, self.is_computed_here(x, index))

    def is_computed_here(self, x: Any, index: Index) -> bool:
        """Whether this loop nest writes an entry: it is known at the index that it is written at, and nowhere else."""
        return type(x) is Variable and x in self.own and self.kernel.is_home(x, index)

    def elementwise(self, a: Variable, op: Any, args: Sequence, avals: list[Aval], params: dict, given: list):
        dtype = self.computed.get(id(a))
        if dtype is None:
            dtype = self.computed[id(a)] = computed_in(op.name, avals, params, a.aval)
        operands = [(*x, v.dtype) for x, v in zip(given, avals, strict=True)]
        exponent = None
        if op.name == "power" and type(args[1]) is not Variable and is_uniform(args[1]):
            exponent = float(np.asarray(args[1]).flat[0])
        return of_operands(self.code, op.name, operands, dtype, a.aval.dtype, exponent, self.kernel.inline)

    def short_sum(self, a: Variable, name: str, aval: Aval, params: dict, terms: list) -> tuple[str, int]:
        """Add a few entries one after the other, as NumPy does, or find the extremum of a few."""
        width = max([w for _, w in terms])
        b = Lanes(self.code, a.aval.dtype, width)
        names = [b.splat(n) if w < width else n for n, w in terms]
        return short_total(b, name, names.__getitem__, len(names), trailing(params["axis"], aval.shape)), width

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────

    def address(
        self, pointer: str, shape: tuple[int, ...], dtype: np.dtype, index: Index, kind: str = ""
    ) -> tuple[str, int]:
        """Return an address, and how far it moves from lane to lane; ``kind`` is another type of the entries there."""
        code, offset, move = self.code, 0, 0
        moving: list[tuple[int, str]] = []
        for i, x in enumerate(index):
            stride = math.prod(shape[i + 1 :])
            if isinstance(x, int):
                offset += stride * x
                continue
            axis, step, start = x
            offset += stride * start
            moving.append((stride * step, self.counters[axis]))
            if axis in self.moving:
                move += stride * step
        kind, at = kind or storage_type(dtype), pointer
        for factor, counter in moving:
            by = counter if factor == 1 else code.value(f"mul i64 {counter}, {factor}")
            at = code.value(f"getelementptr {kind}, ptr {at}, i64 {by}")
        if offset:
            at = code.value(f"getelementptr {kind}, ptr {at}, i64 {offset}")
        return at, move

    def load(self, pointer: str, shape: tuple[int, ...], dtype: np.dtype, index: Index) -> tuple[str, int]:
        if self.kernel.lanes and self.axis is not None and dtype != BOOL and index and index[0] == (0, 1, 0):
            place, row = _place_in_row(shape, index)
            first = place - place % WIDTH
            if first + WIDTH <= row:
                return self.tile(pointer, dtype, first, row)[place - first], WIDTH
        return self.load_from(*self.address(pointer, shape, dtype, index), dtype)

    def load_from(self, at: str, move: int, dtype: np.dtype) -> tuple[str, int]:
        """Load an entry, or a vector of those that lie so far apart."""
        if self.axis is None or move == 0:
            return load_lanes(Lanes(self.code, dtype, 1), at), 1
        b = Lanes(self.code, dtype, WIDTH)
        if move == 1:
            return load_lanes(b, at), WIDTH
        kind = storage_type(dtype)
        if move == -1:
            x = load_lanes(b, self.code.value(f"getelementptr {kind}, ptr {at}, i64 {1 - WIDTH}"))
            return b.shuffled(x, x, list(range(WIDTH - 1, -1, -1))), WIDTH
        one = Lanes(self.code, dtype, 1)
        lanes = [
            load_lanes(one, self.code.value(f"getelementptr {kind}, ptr {at}, i64 {move * i}")) for i in range(WIDTH)
        ]
        return b.joined(lanes), WIDTH

    def tile(self, pointer: str, dtype: np.dtype, first: int, row: int) -> list[str]:
        """Return eight entries that follow each other, in eight lanes each: their rows are loaded and transposed."""
        found = self.tiles.get((pointer, dtype, first, row))
        if found is None:
            b = Lanes(self.code, dtype, WIDTH)
            rows = [load_lanes(b, self.in_row(pointer, dtype, row, i, first)) for i in range(WIDTH)]
            found = self.tiles[pointer, dtype, first, row] = _transposed(b, rows)
        return found

    def in_row(self, pointer: str, dtype: np.dtype, row: int, lane: int, place: int) -> str:
        """Return the address of an entry of a lane, of arrays with that many in each lane."""
        code, kind = self.code, storage_type(dtype)
        begin = code.value(f"mul i64 {self.counters[0]}, {row}")
        at = code.value(f"getelementptr {kind}, ptr {pointer}, i64 {begin}")
        return code.value(f"getelementptr {kind}, ptr {at}, i64 {lane * row + place}")

    def write_rows(self, pointer: str, v: Variable, values: Sequence[tuple[str, int]], index: Index) -> bool:
        """Write eight entries of each lane from an index on together; return whether that could be done."""
        dtype = v.aval.dtype
        if not self.kernel.lanes or self.axis is None or dtype == BOOL or len(values) < WIDTH:
            return False
        b, (first, row) = Lanes(self.code, dtype, WIDTH), _place_in_row(v.aval.shape, index)
        part = [b.splat(x) if width < WIDTH else x for x, width in values]
        for lane, x in enumerate(_transposed(b, part)):
            store_lanes(b, x, self.in_row(pointer, dtype, row, lane, first))
        return True

    def write(self, pointer: str, v: Variable, value: tuple[str, int], index: Index) -> None:
        at, move = self.address(pointer, self.kernel.laid_out(v.aval.shape), v.aval.dtype, index)
        if self.axis is not None and move != 1:
            one, kind = Lanes(self.code, v.aval.dtype, 1), storage_type(v.aval.dtype)
            for i in range(WIDTH):
                x = value[0] if value[1] == 1 else Lanes(self.code, v.aval.dtype, WIDTH).at(value[0], i)
                store_lanes(one, x, self.code.value(f"getelementptr {kind}, ptr {at}, i64 {move * i}"))
            return
        b = Lanes(self.code, v.aval.dtype, WIDTH if self.axis is not None else 1)
        store_lanes(b, b.splat(value[0]) if value[1] < b.width else value[0], at)


def _added_up(shape: tuple[int, ...], params: dict, index: Index) -> Iterator[Index]:
    """Yield the indices of what an entry of a short sum is made of, as they lie in memory."""
    axes = sorted(params["axis"])
    kept = [x for i, x in enumerate(index) if not (params.get("keepdims") and i in axes)]
    for at in itertools.product(*[range(shape[i]) for i in axes]):
        left, chosen = iter(kept), dict(zip(axes, at, strict=True))
        yield tuple([chosen[i] if i in chosen else next(left) for i in range(len(shape))])


def _place_in_row(shape: tuple[int, ...], index: Index) -> tuple[int, int]:
    """The flat position of an index behind the first axis, and the number of positions."""
    place, row = 0, 1
    for n, x in zip(shape[:0:-1], index[:0:-1], strict=True):
        place, row = place + row * x, row * n
    return place, row


def _transposed(b: Lanes, rows: Sequence[str]) -> list[str]:
    """Return eight vectors of eight as the columns of what they are the rows of."""
    out = list(rows)
    for bit in (1, 2, 4):  # rows and columns exchange one bit of their numbers
        low = [i - bit + WIDTH if i & bit else i for i in range(WIDTH)]
        for i in range(WIDTH):
            if not i & bit:
                x, y = out[i], out[i + bit]
                out[i], out[i + bit] = b.shuffled(x, y, low), b.shuffled(x, y, [k + bit for k in low])
    return out


def find_cuts(kernel: Kernel, held: Container, roots: Sequence[tuple[Any, Index]]) -> list[list[tuple[int, int]]]:
    """Return for each axis the parts in which the entries of some arrays come from the same places."""
    if not any([entry_way(s.op, s.args) is Way.JOIN for s in kernel.maker.values()]):
        return [[(0, n)] for n in kernel.shape]
    places: list[set[int]] = [{0, n} for n in kernel.shape]
    seen: set[tuple[int, Index]] = set()
    own = set(kernel.outs)

    pending = list(roots)
    while pending:
        a, index = pending.pop()
        if type(a) is not Variable or (id(a), index) in seen:
            continue
        if a in held and not (a in own and kernel.is_home(a, index)):
            continue
        seen.add((id(a), index))
        op, args, params, avals = kernel.about(a)
        if kernel.is_folded(op, avals, a.aval):
            continue
        if not kernel.is_moved(op, args):
            pending += kernel.operands(a, index)
            continue
        for limits, there in pieces(op.name, [x.shape for x in avals], params, a.aval.shape, index):
            for loop, place in splits(limits):
                if 0 < place < kernel.shape[loop]:
                    places[loop].add(place)
            if there and all([low <= x < high for x, low, high in limits if isinstance(x, int)]):
                pending.append((args[there[0]], there[1]))
    ordered = [sorted(p) for p in places]
    return [list(itertools.pairwise(p)) for p in ordered]


def clamp(code: Code, low: int, high: int) -> tuple[str, str]:
    above = code.value(f"icmp sgt i64 %from, {low}")
    below = code.value(f"icmp slt i64 %to, {high}")
    return code.value(f"select i1 {above}, i64 %from, i64 {low}"), code.value(f"select i1 {below}, i64 %to, i64 {high}")
