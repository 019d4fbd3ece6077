"""Sums, extrema, their places and running totals along one long axis: loops that compute what they add up as they go.

Along the last axis a sum has NumPy's order: halves down to 128 entries, and of those eight sums side by side. So the
order depends on lengths alone: neither on threads nor on blocks. Along another axis, and in running totals, one entry
joins after the other. A single long row is cut where its halves are, for threads. Not for: the summands
(``kernels.py``), short sums (there too), or which equations come here (``passes.py``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ...core.aval import Aval
from ...program.variable import Step, Variable, aval_of_atom
from .code import WIDTH, Code, Lanes
from .kernels import Kernel, Writer, clamp, find_cuts
from .maths import FUNCTIONS
from .operators import BOOL, LONG, Refused, convert
from .table import RUNNING, Way, lowering_of
from .totals import ACCUMULATORS, Accumulator
from .values import at, load_lanes, store_lanes
from .views import Index

__all__ = ["Reduction", "SHORT", "is_long", "is_reduced", "long_axes"]

#: entries of a sum that is added up where it is read
SHORT = 7
#: entries that NumPy adds in eight sums side by side, and as many of products, for which it has no order
_LEAF, _FREE_LEAF = 128, 4096
#: vectors of columns, and rows, that are added up together
_COLUMNS, _ROWS = 4, 4


def long_axes(aval: Aval, params: dict) -> tuple[int, ...]:
    """Return the axes along which something is added up, but for those of one entry."""
    axis = params["axis"]
    return tuple([i for i in ((axis,) if isinstance(axis, int) else sorted(axis)) if aval.shape[i] != 1])


def is_long(step: Step) -> bool:
    """Whether an equation is a loop of this kind."""
    op, args, params, _ = step
    if lowering_of(op).entry is not Way.TOTAL:
        return False
    if op.name in ("argmax", "argmin", *RUNNING):
        return True
    shape = aval_of_atom(args[0]).shape
    return math.prod([shape[i] for i in params["axis"]]) > SHORT


def is_reduced(step: Step) -> bool:
    """Whether an equation of these operators is known here, as a loop or as a short sum."""
    op, args, params, (out,) = step
    if not set(params) <= {"axis", "keepdims", "reverse"} or params["axis"] in (None, ()):
        return False
    aval = aval_of_atom(args[0])
    counts = op.name == "sum" and aval.dtype == BOOL and is_long(step)
    others = map(aval_of_atom, args[1:])
    if op.name == "recurrence" and any([(a.shape, a.dtype) != (aval.shape, aval.dtype) for a in others]):
        return False
    if type(args[0]) is not Variable or (aval.dtype == BOOL) != (counts or op.name in ("any", "all")):
        return False
    dtype = LONG if counts or op.name in ("argmax", "argmin") else aval.dtype
    if out.aval.dtype != dtype:
        return False
    if not is_long(step):
        return True
    axes, last = long_axes(aval, params), len(aval.shape) - 1
    if not axes or math.prod([aval.shape[i] for i in axes]) <= SHORT:
        return False
    if op.name in RUNNING:
        return axes[0] != last or aval.shape[last] >= WIDTH
    if out.aval.size == 1:
        return True
    return len(axes) == 1 and (axes[0] == last or op.name not in ("argmax", "argmin"))


class Reduction(Kernel):
    """Results of equations that go along the same axis of arrays of one shape, written in one loop nest.

    With ``free`` they are sums of a product of matrices, which have no order of NumPy's.
    """

    def __init__(self, steps: Sequence[Step], flat: bool, block: int, free: bool = False) -> None:
        self.steps, self.free = list(steps), free
        op, args, params, _ = steps[0]
        aval = aval_of_atom(args[0])
        super().__init__([s.out for s in steps], flat)
        self.running, self.backward = op.name in RUNNING, bool(params.get("reverse"))
        self.shape = (aval.size,) if flat else aval.shape
        along = {(aval_of_atom(s.args[0]).shape, long_axes(aval_of_atom(s.args[0]), s.params)) for s in steps}
        axes = long_axes(aval, params)
        if len(along) > 1 or (len(axes) != 1 and not flat):
            raise Refused("totals along several axes")
        self.axis = 0 if flat else axes[0]
        self.in_rows = self.axis == len(self.shape) - 1
        self.states = [ACCUMULATORS[s.op.name](aval_of_atom(s.args[0]).dtype) for s in steps]
        kept = [n for i, n in enumerate(self.shape) if i != self.axis]
        if not self.in_rows and any([len(s.dtypes) > 1 for s in self.states]):
            raise Refused("places of extrema along columns")
        self.pieces: list[int] = []
        most = max(block, _LEAF)
        if self.in_rows and not self.running and math.prod(kept) == 1 and self.shape[self.axis] > 2 * most:
            self.pieces, self.most = [*_starts(0, self.shape[self.axis], most), self.shape[self.axis]], most
        #: rows of a piece of columns, where nobody asks for NumPy's order and they are too many for a thread alone
        self.stretch = 0
        if free and not self.in_rows and self.axis == 0 and len(self.shape) == 2 and self.shape[1] >= WIDTH:
            stretch = -(-max(1, 2 * block // self.shape[1]) // WIDTH) * WIDTH
            if self.shape[0] > 8 * stretch:
                self.stretch = stretch
                self.pieces = list(range(0, self.shape[0], stretch)) + [self.shape[0]]
        first = 1 if self.axis == 0 else 0
        #: how many rows threads share, and how many of them are a block
        self.rows, self.step = (self.shape[first], 1) if first < len(self.shape) else (1, 1)
        if self.pieces:
            self.rows = len(self.pieces) - 1
        else:
            self.step = max(1, block * self.rows // math.prod(self.shape))
            if first == len(self.shape) - 1:  # columns side by side, as many as lie next to each other in memory
                self.step = -(-self.step // 64) * 64
        #: what pieces come to, where there are any
        one = (self.rows, *self.shape[1:]) if self.stretch else (self.rows,)
        self.partial = [Variable(Aval(one, d)) for s in self.states for d in s.dtypes] if self.pieces else []

    @property
    def work(self) -> int:
        """Sums of products, of which nothing is written, take little."""
        return math.prod(self.shape) // (8 if self.free else 1)

    def piece(self, code: Code, number: str) -> tuple[str, str]:
        """Return from which row to which a piece of columns goes."""
        one = Lanes(code, LONG, 1)
        low = one.mul(number, str(self.stretch))
        return low, one.at_most(one.add(low, str(self.stretch)), str(self.shape[0]))

    def write(self, name: str) -> tuple[str, list[str]]:
        roots = [(a, self.index) for s in self.steps for a in s.args]
        if any([len(c) > 1 for c in find_cuts(self, self.number, roots)]):
            raise Refused("a total over parts")
        writes = _Loops(name, self)
        if self.running and self.in_rows:
            return writes.running(), [name]
        if self.stretch:
            return f"{writes.columns()}\n{writes.columns_joined()}", [name, f"{name}_joined"]
        if not self.in_rows:
            return writes.columns(), [name]
        if self.pieces:
            return f"{writes.tree()}\n{writes.in_pieces()}\n{writes.joined()}", [name, f"{name}_joined"]
        return f"{writes.tree()}\n{writes.every_row()}", [name]

    def homes(self, v: Variable) -> list[Index]:
        raise Refused("a total is written where its loop ends")

    def is_home(self, v: Variable, index: Index) -> bool:
        return False


def _starts(first: int, n: int, most: int) -> list[int]:
    """The first entries of a row's pieces: its halves' halves."""
    if n <= most:
        return [first]
    half = n // 2 - n // 2 % 8
    return [*_starts(first, half, most), *_starts(first + half, n - half, most)]


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Product(NamedTuple):
    """A product that joins a total; with ``strong``, zeros of the first factor are no part of it."""

    strong: bool
    x: str
    y: str

    def at(self, b: Lanes, lane: int) -> _Product:
        return _Product(self.strong, b.at(self.x, lane), b.at(self.y, lane))


class _Turn(NamedTuple):
    """A turn of a recurrence: the total times a factor, plus a term. The first factor is zero, the start is −0."""

    factor: str
    term: str


def _join(s: Accumulator, b: Lanes, total: tuple[str, ...], x: str | _Product | _Turn, at: str) -> tuple[str, ...]:
    """Write how an entry, a product or a turn joins a total."""
    if isinstance(x, _Turn):
        return (b.add(b.mul(x.factor, total[0]), x.term),)
    if not isinstance(x, _Product):
        return s.step(b, total, x, at)
    (before,) = total
    new = b.fma(x.x, x.y, before)
    return (b.select(b.compare("oeq", x.x, 0.0), before, new) if x.strong else new,)


class _Loops:
    """The functions of one kernel."""

    def __init__(self, name: str, kernel: Reduction) -> None:
        self.name, self.kernel, self.maker, self.number = name, kernel, kernel.maker, kernel.number
        self.n = kernel.shape[kernel.axis]
        self.outer = [i for i in range(len(kernel.shape)) if i != kernel.axis]
        #: rows that are added up together: a sum waits for the one before
        self.together = 1
        rows = kernel.in_rows and not kernel.running and not kernel.pieces
        if rows and self.outer and kernel.shape[self.outer[-1]] >= _ROWS and not self._is_long_winded():
            self.together = _ROWS
        self.states = kernel.states * self.together
        self.products = [self._as_product(s.args[0]) for s in kernel.steps]

    def _as_product(self, v: Variable) -> tuple | None:
        """Return the equation of a product that is added up without rounding in between, as BLAS does."""
        if not self.kernel.free or v in self.number or v not in self.maker:
            return None
        step = self.maker[v]
        floats = all([aval_of_atom(a).dtype == v.aval.dtype for a in step.args]) and v.aval.dtype.kind == "f"
        return step if floats and step.op.name in ("multiply", "scale") else None

    def _is_long_winded(self) -> bool:
        """Whether a summand takes many instructions."""
        pending, count = [s.args[0] for s in self.kernel.steps], 0
        while pending and count < 12:
            v = pending.pop()
            if type(v) is Variable and v not in self.number and v in self.maker:
                op, args = self.maker[v][:2]
                count += 12 if op.name in FUNCTIONS else 1
                pending += args
        return count >= 12

    def open(self) -> Code:
        self.code = Code()
        self.buffers = self.kernel.buffers(self.code)
        return self.code

    def every_entry(self, rows: list[str], counter: str) -> tuple[list[Any], list[Lanes]]:
        """Write the entries of rows that are added up together."""
        names, lanes = [], []
        for row in self._rows(rows):
            some, kinds = self.entries([*row, counter])
            names += some
            lanes += kinds
        return names, lanes

    def _rows(self, rows: list[str]) -> list[list[str]]:
        """Return the counters of rows that are added up together: behind the last one, it is done again."""
        found, one = [rows], Lanes(self.code, LONG, 1)
        for u in range(1, self.together):
            most = str(self.kernel.shape[self.outer[-1]] - 1)
            found.append([*rows[:-1], one.at_most(one.add(rows[-1], str(u)), most)])
        return found

    def entries(self, counters: list[str]) -> tuple[list[Any], list[Lanes]]:
        """Write what joins totals, at one place: entries, products or turns; vectors where the last axis is one."""
        kernel = self.kernel
        writer = self._writer(counters)
        width = 1 if writer.axis is None else WIDTH
        names: list[Any] = []
        lanes = []
        for (_, args, _, _), state, product in zip(kernel.steps, kernel.states, self.products, strict=True):
            b = Lanes(self.code, aval_of_atom(args[0]).dtype, width)
            if len(args) > 1:
                return [self._turn(args, counters, b)], [b]
            factors = [args[0]] if product is None else product[1]
            found = [writer.operand(a, kernel.below(aval_of_atom(a).shape, kernel.index)) for a in factors]
            wide = [b.splat(x) if w < width else x for x, w in found]
            if b.dtype == BOOL:
                b, wide = b.of(state.dtypes[0]), [convert(b, x, state.dtypes[0]) for x in wide]
            names.append(wide[0] if product is None else _Product(product[0].name == "scale", *wide))
            lanes.append(b)
        return names, lanes

    def _writer(self, counters: list[str]) -> Writer:
        box = {i: (0, n) for i, n in enumerate(self.kernel.shape)}
        return Writer(self.code, self.kernel, self.buffers, box, counters)

    def _turn(self, args: Sequence, counters: list[str], b: Lanes) -> _Turn:
        """Write a turn of recurrences side by side, or factors and terms at places next to each other on one."""
        kernel, one, here = self.kernel, Lanes(self.code, LONG, 1), counters[self.kernel.axis]
        at_factor = list(counters)
        if not kernel.in_rows and kernel.backward:  # the factor of the entry before, which is the one behind
            at_factor[kernel.axis] = one.at_most(one.add(here, "1"), str(self.n - 1))
        places = zip(args, (at_factor, counters), strict=True)
        found = [self._writer(c).operand(a, kernel.below(kernel.shape, kernel.index)) for a, c in places]
        factor, term = [b.splat(x) if w < b.width else x for x, w in found]
        return _Turn(factor if kernel.in_rows else self._unless_first(here, b, factor), term)

    def _unless_first(self, here: str, b: Lanes, factor: str) -> str:
        first = self.code.new(f"icmp eq i64 {here}, {self.n - 1 if self.kernel.backward else 0}")
        return self.code.value(f"select i1 {first}, {b.type} {b.constant(0)}, {b.type} {factor}")

    def nest(
        self, axes: Sequence[int], inner: Callable[[dict[int, str]], None], counters: dict[int, str] | None = None
    ):
        """Write loops over axes, the first of which is shared out among threads."""
        counters = counters or {}
        if not axes:
            inner(counters)
            return
        axis, high = axes[0], self.kernel.shape[axes[0]]
        first, end = ("0", str(high)) if counters else clamp(self.code, 0, high)
        by = self.together if axis == self.outer[-1] else 1
        with self.code.each(first, end, by) as turn:
            self.nest(axes[1:], inner, {**counters, axis: turn})

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _slots(self, pointer: str) -> list[tuple[Lanes, str]]:
        """The addresses of totals, and their types."""
        kinds = [Lanes(self.code, d, 1) for s in self.states for d in s.dtypes]
        move = lambda i: self.code.value(f"getelementptr i64, ptr {pointer}, i64 {i}") if i else pointer
        return [(b, move(i)) for i, b in enumerate(kinds)]

    def _room(self) -> str:
        """Return the address of memory for totals."""
        return self.code.new(f"alloca [{sum([len(s.dtypes) for s in self.states])} x i64]")

    def _totals(self, pointer: str) -> list[tuple[str, ...]]:
        """Load totals from memory."""
        return self._by_state([self.code.new(f"load {b.type}, ptr {p}, align 8") for b, p in self._slots(pointer)])

    def _put(self, totals: Sequence[tuple[str, ...]], pointer: str) -> None:
        for (b, slot), x in zip(self._slots(pointer), itertools.chain(*totals), strict=True):
            store_lanes(b, x, slot)

    def _halved(self, most: int, leaf: Callable[[], None], part: Callable[[str, str, str], None]) -> None:
        """Put the totals of ``%n`` entries to ``%totals``: those of a leaf, or of two halves.

        ``part(before, count, room)`` writes the totals of ``count`` entries, behind ``before``, into room of their own.
        """
        code, done = self.code, self.code.label()
        with code.when(code.new(f"icmp sle i64 %n, {most}")):
            leaf()
            code.jump(done)
        left, right = self._room(), self._room()
        half = code.new(f"and i64 {code.new('lshr i64 %n, 1')}, -8")
        part("0", half, left)
        part(half, code.new(f"sub i64 %n, {half}"), right)
        pairs = zip(self.states, self._totals(left), self._totals(right), strict=True)
        self._put([s.combine(self._one(s), x, y) for s, x, y in pairs], "%totals")
        code.begin(done)

    def _by_state(self, flat: Iterable[str]) -> list[tuple[str, ...]]:
        """Return numbers as those of each total."""
        left = iter(flat)
        return [tuple([next(left) for _ in s.dtypes]) for s in self.states]

    def _places(self, counter: str) -> str:
        """Return the places of a vector's entries, which are numbers of the second of two states."""
        b = Lanes(self.code, LONG, WIDTH)
        return b.add(b.splat(counter), f"<{', '.join([f'i64 {i}' for i in range(WIDTH)])}>")

    def _one(self, state: Accumulator) -> Lanes:
        return Lanes(self.code, state.dtypes[0], 1)

    def tree(self) -> str:
        """Return the function ``@…_tree(arrays, counters…, from, n, totals)``: totals of a part of a row."""
        code = self.open()
        rows = [f"%c{i}" for i in self.outer]
        given = ", ".join(["ptr %arrays", *[f"i64 {c}" for c in rows]])

        def part(before: str, count: str, room: str) -> None:
            first = code.new(f"add i64 %from, {before}")
            code.effect(f"call void @{self.name}_tree({given}, i64 {first}, i64 {count}, ptr {room})")

        self._halved(_FREE_LEAF if self.kernel.free else _LEAF, lambda: self._leaf(rows), part)
        return code.function(f"internal void @{self.name}_tree({given}, i64 %from, i64 %n, ptr %totals)")

    def _leaf(self, rows: list[str]) -> None:
        code, states = self.code, self.states
        whole = code.new("and i64 %n, -8")
        end = code.new(f"add i64 %from, {whole}")
        here = self._places("%from")
        starts = [
            (Lanes(code, d, WIDTH), x)
            for s in states
            for d, x in zip(s.dtypes, s.start(Lanes(code, s.dtypes[0], WIDTH), here), strict=True)
        ]

        with code.fold("%from", end, WIDTH, starts) as turn:
            names, kinds = self.every_entry(rows, turn.counter)
            new: list[str] = []
            for s, acc, x, b in zip(states, self._by_state(turn.carried), names, kinds, strict=True):
                new += _join(s, b, acc, x, self._places(turn.counter) if len(s.dtypes) > 1 else "")
            turn.next = new
        totals: list[tuple[str, ...]] = []
        for k, (s, acc) in enumerate(zip(states, self._by_state(turn.carried), strict=True)):
            if self.kernel.steps[k % len(self.kernel.steps)].op.name == "sum":
                totals.append((Lanes(code, s.dtypes[0], WIDTH).across(acc[0]),))
                continue
            lanes = [
                tuple([Lanes(code, d, WIDTH).at(x, i) for d, x in zip(s.dtypes, acc, strict=True)])
                for i in range(WIDTH)
            ]
            while len(lanes) > 1:
                lanes = [s.combine(self._one(s), lanes[i], lanes[i + 1]) for i in range(0, len(lanes), 2)]
            totals.append(lanes[0])
        self._put(totals, "%totals")
        if self.n % WIDTH:  # only the end of a row has a rest, and it is always the same
            with code.when(code.new(f"icmp ne i64 {whole}, %n")):
                last = str(self.n - WIDTH)
                names, wide = self.every_entry(rows, last)
                for lane in range(WIDTH - self.n % WIDTH, WIDTH):
                    at = str(self.n - WIDTH + lane)
                    totals = [
                        _join(s, self._one(s), t, x.at(b, lane), at)
                        if isinstance(x, _Product)
                        else s.combine(self._one(s), t, (b.at(x, lane), at)[: len(s.dtypes)])
                        for s, t, x, b in zip(states, totals, names, wide, strict=True)
                    ]
                self._put(totals, "%totals")

    def _finish(self, totals: Sequence[tuple[str, ...]], counters: dict[int, str]) -> None:
        """Write results of rows."""
        left = iter(totals)
        for row in self._rows(list(counters.values())):
            for s, v in zip(self.kernel.states, self.kernel.outs, strict=True):
                x = s.finish(self._one(s), next(left))
                self._store(v, x, Lanes(self.code, v.aval.dtype, 1), dict(zip(counters, row, strict=True)))

    def every_row(self) -> str:
        code = self.open()
        room = self._room()

        def row(counters: dict[int, str]) -> None:
            given = ", ".join(["ptr %arrays", *[f"i64 {c}" for c in counters.values()]])
            code.effect(f"call void @{self.name}_tree({given}, i64 0, i64 {self.n}, ptr {room})")
            self._finish(self._totals(room), counters)

        self.nest(self.outer, row)
        return code.over_rows(self.name)

    def in_pieces(self) -> str:
        """Return the function that writes totals of pieces between two numbers."""
        code, kernel = self.open(), self.kernel
        starts, listed = f"@{self.name}_starts", ", ".join([f"i64 {p}" for p in kernel.pieces])
        code.declare(starts, f"{starts} = private constant [{len(kernel.pieces)} x i64] [{listed}]")
        room = self._room()

        with code.each("%from", "%to") as turn:
            b = Lanes(code, LONG, 1)
            first = code.new(f"load i64, ptr {at(code, starts, LONG, turn)}")
            end = code.new(f"load i64, ptr {at(code, starts, LONG, b.add(turn, '1'))}")
            given = ", ".join(["ptr %arrays", *["i64 0" for _ in self.outer]])
            code.effect(f"call void @{self.name}_tree({given}, i64 {first}, i64 {b.sub(end, first)}, ptr {room})")
            flat = [x for total in self._totals(room) for x in total]
            for v, x in zip(kernel.partial, flat, strict=True):
                store_lanes(Lanes(code, v.aval.dtype, 1), x, at(code, self.buffers[v], v.aval.dtype, turn))
        return code.over_rows(self.name)

    def joined(self) -> str:
        """Return the functions that make one of the totals of pieces: halves are joined as they were cut."""
        code, kernel = self.open(), self.kernel
        join = f"@{self.name}_join(ptr %arrays"

        def leaf() -> None:
            # The leaves count themselves: that there are as many as pieces is not seen from the text, but this is.
            number = Lanes(code, LONG, 1).call("umin", code.new("load i64, ptr %next"), str(kernel.rows - 1))
            flat = [
                load_lanes(Lanes(code, v.aval.dtype, 1), at(code, self.buffers[v], v.aval.dtype, number))
                for v in kernel.partial
            ]
            code.effect(f"store i64 {code.new(f'add i64 {number}, 1')}, ptr %next")
            self._put(self._by_state(flat), "%totals")

        def part(before: str, count: str, room: str) -> None:
            code.effect(f"call void {join}, i64 {count}, ptr %next, ptr {room})")

        self._halved(kernel.most, leaf, part)
        recursive = code.function(f"internal void {join}, i64 %n, ptr %next, ptr %totals)")
        code = self.open()
        room, following = self._room(), code.new("alloca i64")
        code.effect(f"store i64 0, ptr {following}")
        code.effect(f"call void {join}, i64 {self.n}, ptr {following}, ptr {room})")
        self._finish(self._totals(room), {})
        return f"{recursive}\n{code.over_rows(f'{self.name}_joined')}"

    # ── columns ──────────────────────────────────────────────────────────────────────────────────────────────────

    def columns(self) -> str:
        """Return the function that goes along an axis that is not the last, in vectors of the last."""
        code, kernel = self.open(), self.kernel
        last, m = len(kernel.shape) - 1, kernel.shape[-1]
        width = WIDTH if m >= WIDTH else 1
        together = min(_COLUMNS, -(-m // width))
        states = kernel.states

        def strip(
            counters: dict[int, str], first: str, span: tuple[str, str] = ("0", str(self.n)), to: str = ""
        ) -> None:
            b = Lanes(code, LONG, 1)
            # A vector that would end behind the axis is the last one, which is written again.
            places = [first if not u else b.add(first, str(u * width)) for u in range(together)]
            places = [b.at_most(p, str(m - width)) for p in places]
            wide = [Lanes(code, s.dtypes[0], width) for s in states for _ in places]
            starts = [(w, s.start(w, "")[0]) for w, s in zip(wide, [s for s in states for _ in places], strict=True)]

            with code.fold(*span, 1, starts) as turn:
                here = b.sub(str(self.n - 1), turn.counter) if kernel.backward else turn.counter
                new: list[list[str]] = [[] for _ in states]
                for u, p in enumerate(places):
                    every = {**counters, kernel.axis: here, last: p}
                    names, lanes = self.entries([every[i] for i in range(len(kernel.shape))])
                    for k, (s, x, w) in enumerate(zip(states, names, lanes, strict=True)):
                        new[k] += _join(s, w, (turn.carried[k * together + u],), x, "")
                        if kernel.running:
                            self._store(kernel.outs[k], new[k][-1], w, every)
                turn.next = [x for row in new for x in row]
            for k, (s, v) in enumerate(zip(states, kernel.outs, strict=True)):
                for u, p in enumerate(places):
                    x, w = turn.carried[k * together + u], wide[k * together]
                    if to:
                        self._store(kernel.partial[k], x, w, {0: to, 1: p})
                    elif not kernel.running:
                        self._store(v, s.finish(w, (x,)), w.of(v.aval.dtype), {**counters, last: p})

        outer = [i for i in self.outer if i != last]

        def row(counters: dict[int, str]) -> None:
            first, end = ("0", str(m)) if counters else clamp(code, 0, m)
            with code.each(first, end, width * together) as turn:
                strip(counters, turn)

        if kernel.stretch:
            with code.each("%from", "%to") as turn:
                span = kernel.piece(code, turn)
                with code.each("0", m, width * together) as j:
                    strip({}, j, span, turn)
        else:
            self.nest(outer, row)
        return code.over_rows(self.name)

    def columns_joined(self) -> str:
        """Return the function that adds up what pieces of columns come to, one after the other."""
        code, kernel, m = self.open(), self.kernel, self.kernel.shape[-1]
        one = Lanes(code, LONG, 1)

        with code.each("0", m, WIDTH) as j:
            p = one.at_most(j, str(m - WIDTH))
            for s, v, part in zip(kernel.states, kernel.outs, kernel.partial, strict=True):
                b = Lanes(code, v.aval.dtype, WIDTH)
                with code.fold("0", kernel.rows, 1, [(b, s.start(b, "")[0])]) as turn:
                    place = one.add(one.do("mul", turn.counter, str(m)), p)
                    x = load_lanes(b, at(code, self.buffers[part], b.dtype, place))
                    turn.next = [b.add(turn.carried[0], x)]
                self._store(v, s.finish(b, (turn.carried[0],)), b, {1: p})
        return code.over_rows(f"{self.name}_joined")

    def _store(self, v: Variable, x: str, b: Lanes, counters: dict[int, str]) -> None:
        """Write entries of a result at the counters of its axes."""
        offset, one = "0", Lanes(self.code, LONG, 1)
        for i in sorted(counters):
            scaled = one.do("mul", offset, str(self.kernel.shape[i])) if offset != "0" else "0"
            offset = one.add(scaled, counters[i])
        store_lanes(b, x, at(self.code, self.buffers[v], v.aval.dtype, offset))

    # ── running totals along the last axis ─────────────────────────────────────────────────────────────────────────

    def running(self) -> str:
        code, kernel, n = self.open(), self.kernel, self.n
        last, back = len(kernel.shape) - 1, kernel.backward
        (state, v), b = (kernel.states[0], kernel.outs[0]), Lanes(code, LONG, 1)
        one, wide = Lanes(code, v.aval.dtype, 1), Lanes(code, v.aval.dtype, WIDTH)
        order = list(range(WIDTH))[:: -1 if back else 1]
        rest, turns = n % WIDTH, kernel.steps[0].op.name == "recurrence"
        starts = [state.start(one, "")[0], *([one.constant(0)] if turns and back else [])]

        def entry(x: Any, i: int, place: str, before: Sequence[str] = ()) -> Any:
            """Return what joins the total in lane ``i``; ``before`` is the factor of the entry of the turn before."""
            if not turns:
                return wide.at(x, i)
            if back:
                return _Turn(wide.at(x.factor, i + 1) if i + 1 < WIDTH else before[0], wide.at(x.term, i))
            factor = wide.at(x.factor, i)
            return _Turn(factor if i else self._unless_first(place, one, factor), wide.at(x.term, i))

        def row(counters: dict[int, str]) -> None:
            every = lambda place: [{**counters, last: place}[i] for i in range(len(kernel.shape))]

            with code.fold("0", n - rest, WIDTH, [(one, x) for x in starts]) as turn:
                place = b.sub(str(n - WIDTH), turn.counter) if back else turn.counter
                (x,), _ = self.entries(every(place))
                lanes, (total, *before) = [""] * WIDTH, turn.carried
                for i in order:
                    total = lanes[i] = _join(state, one, (total,), entry(x, i, place, before), "")[0]
                self._store(v, wide.joined(lanes), wide, {**counters, last: place})
                turn.next = [total, *[wide.at(x.factor, 0) for _ in before]]
            if rest:  # the last entries, or from the end the first
                first, (total, *_) = 0 if back else n - WIDTH, turn.carried
                (x,), _ = self.entries(every(str(first)))
                for i in order[WIDTH - rest :]:
                    total = _join(state, one, (total,), entry(x, i, str(first)), "")[0]
                    self._store(v, total, one, {**counters, last: str(first + i)})

        self.nest(self.outer, row)
        return code.over_rows(self.name)
