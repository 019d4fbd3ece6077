"""Sums, extrema, their places and running sums along one long axis: loops that compute what they add up as they go.

Along the last axis a sum has NumPy's order: halves down to 128 entries, and of those eight sums side by side. So the
order depends on lengths alone: neither on threads nor on blocks. Along another axis, and in running sums, one entry is
added after the other. A single long row is cut where its halves are, for threads. Not for: what is added
(``kernels.py``), short sums (there too), or which equations come here (``passes.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.aval import Aval
from ...program.variable import Variable, aval_of_atom
from .code import WIDTH, Code, Lanes
from .kernels import Kernel, Writer, clipped, find_cuts
from .operators import BOOL, LONG, Refused, elementwise
from .values import at, load_lanes, store_lanes
from .views import Index

__all__ = ["REDUCED", "Reduction", "SHORT", "is_long", "is_reduced", "write_reduction"]

#: operators that make one entry of many along an axis, or add up along it
REDUCED = frozenset({"sum", "max", "min", "argmax", "argmin", "cumsum"})
#: entries of a sum that is added up where it is read
SHORT = 7
#: entries that NumPy adds in eight sums side by side
_LEAF = 128
#: vectors of columns that are added up together
_COLUMNS = 4


def _axes(op: Any, aval: Aval, params: dict) -> tuple[int, ...]:
    """Return the axes along which something is added up, but for those of one entry."""
    axis = params["axis"]
    return tuple([i for i in ((axis,) if isinstance(axis, int) else sorted(axis)) if aval.shape[i] != 1])


def is_long(step: tuple) -> bool:
    """Say whether an equation is a loop of this kind."""
    op, args, params, _ = step
    if op.name not in REDUCED:
        return False
    if op.name in ("argmax", "argmin", "cumsum"):
        return True
    shape = aval_of_atom(args[0]).shape
    return math.prod([shape[i] for i in params["axis"]]) > SHORT


def is_reduced(step: tuple) -> bool:
    """Say whether an equation of these operators is known here, as a loop or as a short sum."""
    op, args, params, (out,) = step
    if not set(params) <= {"axis", "keepdims", "reverse"} or params["axis"] in (None, ()):
        return False
    aval = aval_of_atom(args[0])
    if type(args[0]) is not Variable or aval.dtype == BOOL:
        return False
    dtype = LONG if op.name in ("argmax", "argmin") else aval.dtype
    if out.aval.dtype != dtype:
        return False
    if not is_long(step):
        return True
    axes, last = _axes(op, aval, params), len(aval.shape) - 1
    if not axes or math.prod([aval.shape[i] for i in axes]) <= SHORT:
        return False
    if op.name == "cumsum":
        return axes[0] != last or aval.shape[last] >= WIDTH
    if out.aval.size == 1:
        return True
    return len(axes) == 1 and (axes[0] == last or op.name not in ("argmax", "argmin"))


class Reduction(Kernel):
    """Results of equations that go along the same axis of arrays of one shape, written in one loop nest."""

    def __init__(self, steps: Sequence[tuple], flat: bool, block: int) -> None:
        self.steps = list(steps)
        op, args, params, _ = steps[0]
        aval = aval_of_atom(args[0])
        super().__init__([s[3][0] for s in steps], flat)
        self.running, self.backward = op.name == "cumsum", bool(params.get("reverse"))
        self.shape = (aval.size,) if flat else aval.shape
        self.axis = 0 if flat else _axes(op, aval, params)[0]
        self.in_rows = self.axis == len(self.shape) - 1
        self.states = [_ACCUMULATORS[s[0].name](aval_of_atom(s[1][0]).dtype) for s in steps]
        kept = [n for i, n in enumerate(self.shape) if i != self.axis]
        self.pieces: list[int] = []
        most = max(block, _LEAF)
        if self.in_rows and not self.running and math.prod(kept) == 1 and self.shape[self.axis] > 2 * most:
            self.pieces, self.most = [*_starts(0, self.shape[self.axis], most), self.shape[self.axis]], most
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
        self.partial = [Variable(Aval((self.rows,), d)) for s in self.states for d in s.dtypes] if self.pieces else []

    @property
    def index(self) -> Index:
        return tuple([0 if n == 1 else (i, 1, 0) for i, n in enumerate(self.shape)])

    def homes(self, v: Variable) -> list[Index]:
        raise Refused("a total is written where its loop ends")

    def is_home(self, v: Variable, index: Index) -> bool:
        return False


def _starts(first: int, n: int, most: int) -> list[int]:
    """Return where the pieces of a row begin: its halves' halves."""
    if n <= most:
        return [first]
    half = n // 2 - n // 2 % 8
    return [*_starts(first, half, most), *_starts(first + half, n - half, most)]


# ── what is added up ─────────────────────────────────────────────────────────────────────────────────────────────


class _Accumulator(NamedTuple):
    """A total: what it starts from, how an entry joins, how two become one, the first being that of earlier entries."""

    dtypes: tuple[np.dtype, ...]
    start: Callable[[Lanes, str], tuple[str, ...]]
    step: Callable[[Lanes, tuple[str, ...], str, str], tuple[str, ...]]
    combine: Callable[[Lanes, tuple[str, ...], tuple[str, ...]], tuple[str, ...]]
    finish: Callable[[Lanes, tuple[str, ...]], str]


def _sum(dtype: np.dtype) -> _Accumulator:
    zero = -0.0 if dtype.kind == "f" else 0  # -0.0 + x is x, whatever x is
    return _Accumulator(
        (dtype,),
        lambda b, at: (b.constant(zero),),
        lambda b, acc, x, at: (b.add(acc[0], x),),
        lambda b, x, y: (b.add(x[0], y[0]),),
        lambda b, acc: b.add(acc[0], 0.0 if dtype.kind == "f" else 0),  # NumPy starts from zero: never -0.0
    )


def _lowest(dtype: np.dtype, sign: int) -> Any:
    if dtype.kind == "f":
        return sign * math.inf
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


def _extremum(name: str, sign: int) -> Callable[[np.dtype], _Accumulator]:
    def make(dtype: np.dtype) -> _Accumulator:
        join = lambda b, x, y: elementwise(b, name, [x, y], dtype)
        return _Accumulator(
            (dtype,),
            lambda b, at: (b.constant(_lowest(dtype, sign)),),
            lambda b, acc, x, at: (join(b, acc[0], x),),
            lambda b, x, y: (join(b, x[0], y[0]),),
            lambda b, acc: acc[0],
        )

    return make


def _place(beyond: str, sign: int) -> Callable[[np.dtype], _Accumulator]:
    """Return the total that is the place of an extremum: of equal ones, or of NaNs (beyond all else), the first."""

    def make(dtype: np.dtype) -> _Accumulator:
        def better(b: Lanes, x: str, y: str) -> str:
            if dtype.kind != "f":
                return b.compare(f"s{beyond}", y, x)
            new = b.code.value(f"and {b.mask} {b.is_nan(y)}, {b.invert(b.is_nan(x))}")
            return b.either(b.compare(f"o{beyond}", y, x), new)

        def step(b: Lanes, acc: tuple[str, ...], x: str, at: str) -> tuple[str, ...]:
            yes = better(b, acc[0], x)
            return b.select(yes, x, acc[0]), b.of(LONG).select(yes, at, acc[1])

        def combine(b: Lanes, x: tuple[str, ...], y: tuple[str, ...]) -> tuple[str, ...]:
            more, less = better(b, x[0], y[0]), better(b, y[0], x[0])
            earlier = b.both(b.invert(less), b.of(LONG).compare("slt", y[1], x[1]))
            yes = b.either(more, earlier)
            return b.select(yes, y[0], x[0]), b.of(LONG).select(yes, y[1], x[1])

        return _Accumulator(
            (dtype, LONG), lambda b, at: (b.constant(_lowest(dtype, sign)), at), step, combine, lambda b, acc: acc[1]
        )

    return make


_ACCUMULATORS: dict[str, Callable[[np.dtype], _Accumulator]] = {
    "sum": _sum, "cumsum": _sum, "max": _extremum("maximum", -1), "min": _extremum("minimum", 1),
    "argmax": _place("gt", -1), "argmin": _place("lt", 1),
}  # fmt: skip


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_reduction(
    name: str, kernel: Reduction, maker: dict, number: dict[Any, int], inline: bool
) -> tuple[str, list[str]]:
    """Return functions ``(arrays, from, to)`` as text, and the names of those that are called, in order."""
    roots = [(s[1][0], kernel.index) for s in kernel.steps]
    if any([len(c) > 1 for c in find_cuts(kernel, maker, number, roots)]):
        raise Refused("a total over parts")
    writes = _Loops(name, kernel, maker, number, inline)
    if kernel.running and kernel.in_rows:
        return writes.running(), [name]
    if not kernel.in_rows:
        return writes.columns(), [name]
    if kernel.pieces:
        return f"{writes.tree()}\n{writes.in_pieces()}\n{writes.joined()}", [name, f"{name}_joined"]
    return f"{writes.tree()}\n{writes.every_row()}", [name]


class _Loops:
    """The functions of one kernel."""

    def __init__(self, name: str, kernel: Reduction, maker: dict, number: dict[Any, int], inline: bool) -> None:
        self.name, self.kernel, self.maker, self.number, self.inline = name, kernel, maker, number, inline
        self.n = kernel.shape[kernel.axis]
        self.outer = [i for i in range(len(kernel.shape)) if i != kernel.axis]

    def open(self) -> Code:
        self.code = Code()
        self.buffers = {key: self.code.pointer_in("%arrays", i) for key, i in self.number.items()}
        return self.code

    def entries(self, counters: list[str]) -> tuple[list[str], list[Lanes]]:
        """Write the entries that join the totals, at one place; vectors where the last axis is one."""
        kernel = self.kernel
        box = {i: (0, n) for i, n in enumerate(kernel.shape)}
        writer = Writer(self.code, kernel, self.maker, self.buffers, box, counters)
        writer.inline = self.inline
        width = 1 if writer.axis is None else WIDTH
        names, lanes = [], []
        for _, args, _, _ in kernel.steps:
            b = Lanes(self.code, aval_of_atom(args[0]).dtype, width)
            x, w = writer.entry(args[0], kernel.index)
            names.append(b.splat(x) if w < width else x)
            lanes.append(b)
        return names, lanes

    def closed(self, head: str) -> str:
        code = self.code
        return "\n".join([*code.declared.values(), f"{head} {{", "start:", *code.lines, "  ret void", "}"])

    def nest(
        self, axes: Sequence[int], inner: Callable[[dict[int, str]], None], counters: dict[int, str] | None = None
    ):
        """Write loops over axes, the first of which is shared out among threads."""
        counters = counters or {}
        if not axes:
            inner(counters)
            return
        axis, high = axes[0], self.kernel.shape[axes[0]]
        first, end = ("0", str(high)) if counters else clipped(self.code, 0, high)
        self.code.loop(first, end, 1, lambda turn: self.nest(axes[1:], inner, {**counters, axis: turn}))

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _slots(self, pointer: str) -> list[str]:
        count = sum([len(s.dtypes) for s in self.kernel.states])
        return [
            pointer if not i else self.code.value(f"getelementptr i64, ptr {pointer}, i64 {i}") for i in range(count)
        ]

    def _totals(self, pointer: str) -> list[tuple[str, ...]]:
        """Load totals from memory."""
        slots, found = iter(self._slots(pointer)), []
        for s in self.kernel.states:
            kinds = [Lanes(self.code, d, 1) for d in s.dtypes]
            found.append(tuple([self.code.new(f"load {b.type}, ptr {next(slots)}, align 8") for b in kinds]))
        return found

    def _put(self, totals: Sequence[tuple[str, ...]], pointer: str) -> None:
        slots = iter(self._slots(pointer))
        for s, total in zip(self.kernel.states, totals, strict=True):
            for d, x in zip(s.dtypes, total, strict=True):
                store_lanes(Lanes(self.code, d, 1), x, next(slots))

    def _places(self, counter: str) -> str:
        """Return the places of a vector's entries, which are numbers of the second of two states."""
        b = Lanes(self.code, LONG, WIDTH)
        return b.add(b.splat(counter), f"<{', '.join([f'i64 {i}' for i in range(WIDTH)])}>")

    def _one(self, state: _Accumulator) -> Lanes:
        return Lanes(self.code, state.dtypes[0], 1)

    def tree(self) -> str:
        """Return the function ``@…_tree(arrays, counters…, from, n, totals)``: totals of a part of a row."""
        code, kernel = self.open(), self.kernel
        rows = [f"%c{i}" for i in self.outer]
        whole, small, split = code.label(), code.label(), code.label()
        code.branch(code.new(f"icmp sle i64 %n, {_LEAF}"), small, split)
        code.begin(split)
        with code.scope():
            given = ", ".join(["ptr %arrays", *[f"i64 {c}" for c in rows]])
            size = sum([len(s.dtypes) for s in kernel.states])
            left, right = code.new(f"alloca [{size} x i64]"), code.new(f"alloca [{size} x i64]")
            half = code.new(f"and i64 {code.new('lshr i64 %n, 1')}, -8")
            code.effect(f"call void @{self.name}_tree({given}, i64 %from, i64 {half}, ptr {left})")
            middle, rest = code.new(f"add i64 %from, {half}"), code.new(f"sub i64 %n, {half}")
            code.effect(f"call void @{self.name}_tree({given}, i64 {middle}, i64 {rest}, ptr {right})")
            pairs = zip(kernel.states, self._totals(left), self._totals(right), strict=True)
            self._put([s.combine(self._one(s), x, y) for s, x, y in pairs], "%totals")
            code.jump(whole)
        code.begin(small)
        with code.scope():
            self._leaf(rows)
            code.jump(whole)
        code.begin(whole)
        given = ", ".join(["ptr %arrays", *[f"i64 {c}" for c in rows], "i64 %from", "i64 %n", "ptr %totals"])
        return self.closed(f"define internal void @{self.name}_tree({given})")

    def _leaf(self, rows: list[str]) -> None:
        code, states = self.code, self.kernel.states
        whole = code.new("and i64 %n, -8")
        end = code.new(f"add i64 %from, {whole}")
        here = self._places("%from")
        starts = [
            (Lanes(code, d, WIDTH), x)
            for s in states
            for d, x in zip(s.dtypes, s.start(Lanes(code, s.dtypes[0], WIDTH), here), strict=True)
        ]

        def turn(counter: str, *carried: str) -> list[str]:
            names, lanes = self.entries([*rows, counter])
            new: list[str] = []
            left = list(carried)
            for s, x, b in zip(states, names, lanes, strict=True):
                acc, left = tuple(left[: len(s.dtypes)]), left[len(s.dtypes) :]
                new += s.step(b, acc, x, self._places(counter) if len(s.dtypes) > 1 else "")
            return new

        left = self.code.loop("%from", end, WIDTH, turn, starts)
        totals = []
        for s in states:
            acc, left = left[: len(s.dtypes)], left[len(s.dtypes) :]
            lanes = [tuple([Lanes(code, d, WIDTH).at(x, i) for d, x in zip(s.dtypes, acc, strict=True)])
                     for i in range(WIDTH)]  # fmt: skip
            while len(lanes) > 1:
                lanes = [s.combine(self._one(s), lanes[i], lanes[i + 1]) for i in range(0, len(lanes), 2)]
            totals.append(lanes[0])
        self._put(totals, "%totals")
        if self.n % WIDTH:  # only the end of a row has a rest, and it is always the same
            rest, done = code.label(), code.label()
            code.branch(code.new(f"icmp ne i64 {whole}, %n"), rest, done)
            code.begin(rest)
            with code.scope():
                last = str(self.n - WIDTH)
                names, wide = self.entries([*rows, last])
                for lane in range(WIDTH - self.n % WIDTH, WIDTH):
                    at = str(self.n - WIDTH + lane)
                    totals = [
                        s.combine(self._one(s), t, (b.at(x, lane), at)[: len(s.dtypes)])
                        for s, t, x, b in zip(states, totals, names, wide, strict=True)
                    ]
                self._put(totals, "%totals")
                code.jump(done)
            code.begin(done)

    def _finish(self, totals: Sequence[tuple[str, ...]], counters: dict[int, str]) -> None:
        """Write results of a row."""
        for s, v, total in zip(self.kernel.states, self.kernel.outs, totals, strict=True):
            offset, b = "0", Lanes(self.code, v.aval.dtype, 1)
            for i, counter in counters.items():
                scaled = self.code.value(f"mul i64 {offset}, {self.kernel.shape[i]}") if offset != "0" else "0"
                offset = self.code.value(f"add i64 {scaled}, {counter}")
            store_lanes(b, s.finish(self._one(s), total), at(self.code, self.buffers[v], v.aval.dtype, offset))

    def every_row(self) -> str:
        code = self.open()
        size = sum([len(s.dtypes) for s in self.kernel.states])
        room = code.new(f"alloca [{size} x i64]")

        def row(counters: dict[int, str]) -> None:
            given = ", ".join(["ptr %arrays", *[f"i64 {c}" for c in counters.values()]])
            code.effect(f"call void @{self.name}_tree({given}, i64 0, i64 {self.n}, ptr {room})")
            self._finish(self._totals(room), counters)

        self.nest(self.outer, row)
        return self.closed(f"define void @{self.name}(ptr %arrays, i64 %from, i64 %to)")

    def in_pieces(self) -> str:
        """Return the function that writes totals of pieces between two numbers."""
        code, kernel = self.open(), self.kernel
        starts, listed = f"@{self.name}_starts", ", ".join([f"i64 {p}" for p in kernel.pieces])
        code.declare(starts, f"{starts} = private constant [{len(kernel.pieces)} x i64] [{listed}]")
        size = sum([len(s.dtypes) for s in kernel.states])
        room = code.new(f"alloca [{size} x i64]")

        def piece(turn: str) -> None:
            b = Lanes(code, LONG, 1)
            first = code.new(f"load i64, ptr {at(code, starts, LONG, turn)}")
            end = code.new(f"load i64, ptr {at(code, starts, LONG, b.add(turn, '1'))}")
            given = ", ".join(["ptr %arrays", *["i64 0" for _ in self.outer]])
            code.effect(f"call void @{self.name}_tree({given}, i64 {first}, i64 {b.sub(end, first)}, ptr {room})")
            flat = [x for total in self._totals(room) for x in total]
            for v, x in zip(kernel.partial, flat, strict=True):
                store_lanes(Lanes(code, v.aval.dtype, 1), x, at(code, self.buffers[v], v.aval.dtype, turn))

        self.code.loop("%from", "%to", 1, piece)
        return self.closed(f"define void @{self.name}(ptr %arrays, i64 %from, i64 %to)")

    def joined(self) -> str:
        """Return the functions that make one of the totals of pieces: halves are joined as they were cut."""
        code, kernel = self.open(), self.kernel
        leaf, split, done = code.label(), code.label(), code.label()
        code.branch(code.new(f"icmp sle i64 %n, {kernel.most}"), leaf, split)
        code.begin(leaf)
        with code.scope():
            number = code.new("load i64, ptr %next")
            flat = [load_lanes(Lanes(code, v.aval.dtype, 1), at(code, self.buffers[v], v.aval.dtype, number))
                    for v in kernel.partial]  # fmt: skip
            code.effect(f"store i64 {code.new(f'add i64 {number}, 1')}, ptr %next")
            self._put([tuple([flat.pop(0) for _ in s.dtypes]) for s in kernel.states], "%totals")
            code.jump(done)
        code.begin(split)
        with code.scope():
            size = sum([len(s.dtypes) for s in kernel.states])
            left, right = code.new(f"alloca [{size} x i64]"), code.new(f"alloca [{size} x i64]")
            half = code.new(f"and i64 {code.new('lshr i64 %n, 1')}, -8")
            rest = code.new(f"sub i64 %n, {half}")
            for count, room in ((half, left), (rest, right)):
                code.effect(f"call void @{self.name}_join(ptr %arrays, i64 {count}, ptr %next, ptr {room})")
            pairs = zip(kernel.states, self._totals(left), self._totals(right), strict=True)
            self._put([s.combine(self._one(s), x, y) for s, x, y in pairs], "%totals")
            code.jump(done)
        code.begin(done)
        recursive = self.closed(f"define internal void @{self.name}_join(ptr %arrays, i64 %n, ptr %next, ptr %totals)")
        code = self.open()
        room, following = code.new(f"alloca [{size} x i64]"), code.new("alloca i64")
        code.effect(f"store i64 0, ptr {following}")
        code.effect(f"call void @{self.name}_join(ptr %arrays, i64 {self.n}, ptr {following}, ptr {room})")
        self._finish(self._totals(room), {})
        return recursive + "\n" + self.closed(f"define void @{self.name}_joined(ptr %arrays, i64 %from, i64 %to)")

    # ── columns ──────────────────────────────────────────────────────────────────────────────────────────────────

    def columns(self) -> str:
        """Return the function that goes along an axis that is not the last, in vectors of the last."""
        code, kernel = self.open(), self.kernel
        last, m = len(kernel.shape) - 1, kernel.shape[-1]
        width = WIDTH if m >= WIDTH else 1
        together = min(_COLUMNS, -(-m // width))
        states = kernel.states

        def strip(counters: dict[int, str], first: str) -> None:
            b = Lanes(code, LONG, 1)
            # A vector that would end behind the axis is the last one, which is written again.
            places = [first if not u else b.add(first, str(u * width)) for u in range(together)]
            places = [b.select(b.compare("sgt", p, str(m - width)), str(m - width), p) for p in places]
            wide = [Lanes(code, s.dtypes[0], width) for s in states for _ in places]
            starts = [(w, s.start(w, "")[0]) for w, s in zip(wide, [s for s in states for _ in places], strict=True)]

            def turn(counter: str, *carried: str) -> list[str]:
                here = b.sub(str(self.n - 1), counter) if kernel.backward else counter
                new: list[list[str]] = [[] for _ in states]
                for u, p in enumerate(places):
                    every = {**counters, kernel.axis: here, last: p}
                    names, lanes = self.entries([every[i] for i in range(len(kernel.shape))])
                    for k, (s, x, w) in enumerate(zip(states, names, lanes, strict=True)):
                        new[k] += s.step(w, (carried[k * together + u],), x, "")
                        if kernel.running:
                            self._store(kernel.outs[k], new[k][-1], w, every)
                return [x for row in new for x in row]

            left = self.code.loop("0", str(self.n), 1, turn, starts)
            if not kernel.running:
                for k, (s, v) in enumerate(zip(states, kernel.outs, strict=True)):
                    for u, p in enumerate(places):
                        x = s.finish(wide[k * together], (left[k * together + u],))
                        self._store(v, x, wide[k * together], {**counters, last: p})

        outer = [i for i in self.outer if i != last]

        def row(counters: dict[int, str]) -> None:
            first, end = ("0", str(m)) if counters else clipped(code, 0, m)
            self.code.loop(first, end, width * together, lambda turn: strip(counters, turn))

        self.nest(outer, row)
        return self.closed(f"define void @{self.name}(ptr %arrays, i64 %from, i64 %to)")

    def _store(self, v: Variable, x: str, b: Lanes, counters: dict[int, str]) -> None:
        """Write entries of a result at the counters of its axes."""
        offset, one = "0", Lanes(self.code, LONG, 1)
        for i in sorted(counters):
            scaled = one.do("mul", offset, str(self.kernel.shape[i])) if offset != "0" else "0"
            offset = one.add(scaled, counters[i])
        store_lanes(b, x, at(self.code, self.buffers[v], v.aval.dtype, offset))

    # ── running sums along the last axis ─────────────────────────────────────────────────────────────────────────

    def running(self) -> str:
        code, kernel, n = self.open(), self.kernel, self.n
        last, back = len(kernel.shape) - 1, kernel.backward
        (state, v), b = (kernel.states[0], kernel.outs[0]), Lanes(code, LONG, 1)
        one, wide = Lanes(code, v.aval.dtype, 1), Lanes(code, v.aval.dtype, WIDTH)
        order = list(range(WIDTH))[:: -1 if back else 1]
        rest = n % WIDTH

        def row(counters: dict[int, str]) -> None:
            every = lambda place: [{**counters, last: place}[i] for i in range(len(kernel.shape))]

            def turn(counter: str, total: str) -> list[str]:
                place = b.sub(str(n - WIDTH), counter) if back else counter
                (x,), _ = self.entries(every(place))
                lanes = [""] * WIDTH
                for i in order:
                    total = lanes[i] = one.add(total, wide.at(x, i))
                self._store(v, wide.joined(lanes), wide, {**counters, last: place})
                return [total]

            (total,) = self.code.loop("0", str(n - rest), WIDTH, turn, [(one, state.start(one, "")[0])])
            if rest:  # the last entries, or from the end the first
                place = 0 if back else n - WIDTH
                (x,), _ = self.entries(every(str(place)))
                for i in order[WIDTH - rest :]:
                    total = one.add(total, wide.at(x, i))
                    self._store(v, total, one, {**counters, last: str(place + i)})

        self.nest(self.outer, row)
        return self.closed(f"define void @{self.name}(ptr %arrays, i64 %from, i64 %to)")
