"""Orders of short rows: sorted values, the permutations that sort, and means over runs of equal values, in memory.

An entry's rank is the number of entries that are smaller, or equal and before it. That has no branches, is stable, and
its comparisons are vectors; up to 64 entries it is quicker than exchanging them. Small arrays do so in straight code
and in the bodies of loops. Where NumPy chooses an order of equal floats (``kind=None`` of ``argsort``), it is asked if
there are any. Not for: large arrays, which are loops over rows (``rows.py``), longer rows, or partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval, is_weak
from .code import WIDTH, Code, Lanes
from .indices import copied
from .operators import BOOL, DOUBLE, LONG, TYPES, convert
from .positions import OUT_OF_BOUNDS, normalize_positions
from .values import Values, at, gather, places

__all__ = ["Row", "has_rows", "sorted_rows"]

#: entries of a row
_MOST = 64
#: what a NaN is compared as: it is behind all numbers
_LAST = np.iinfo(np.int64).max


def has_rows(name: str, avals: Sequence[Aval], params: dict, out: Aval) -> bool:
    """Whether an operator on rows is known here."""
    if set(params) - {"axis", "kind"} or is_weak(out):
        return False
    if params.get("kind", "stable") != "stable" and (params["kind"] is not None or avals[0].dtype.kind != "f"):
        return False
    if any([not a.shape or a.dtype not in TYPES or is_weak(a) for a in avals]) or out.shape[params["axis"]] > _MOST:
        return False
    if name == "permute":
        return avals[1].dtype == LONG and avals[0].dtype == out.dtype
    if name == "average_groups":
        return out.dtype == avals[0].dtype == DOUBLE and avals[1].dtype == BOOL
    return avals[0].shape == out.shape and (name == "argsort" or avals[0].dtype == out.dtype)


def sorted_rows(lowering: Any, name: str, args: Sequence[Values], params: dict, out: Aval) -> Values:
    """Write an operator on the rows of a small array; return its result."""
    code, axis = lowering.code, params["axis"]
    ordered = np.moveaxis(places(out), axis, -1)  # rows, one after the other
    n, given = ordered.shape[-1], []
    for x in args:
        where = np.moveaxis(np.broadcast_to(places(x.aval), out.shape), axis, -1)
        given.append(pointer := lowering.room(Aval(where.shape, x.aval.dtype)))
        copied(code, gather(code, [x], where, Aval(where.shape, x.aval.dtype)), pointer)
    made = Values(Aval(ordered.shape, out.dtype), pointer=lowering.room(out))
    room = lambda count: lowering.room(Aval((count,), LONG))

    def leave(bad: str) -> None:
        with code.when(bad):
            code.effect(f"ret i32 {OUT_OF_BOUNDS}")

    row = Row(code, n, [x.aval.dtype for x in args], out.dtype, room, leave)
    row.write(name, params, given, made.pointer, "0", str(out.size // n))
    return gather(code, [made], np.argsort(ordered.reshape(-1)).reshape(out.shape), out) if out.ndim > 1 else made


class Row:
    """Writes the work on one row of ``n`` entries.

    ``room(count)`` is memory for ``count`` whole numbers, ``leave(bad)`` leaves the function where that is true.
    """

    def __init__(
        self, code: Code, n: int, dtypes: Sequence[np.dtype], out: np.dtype,
        room: Callable[[int], str], leave: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.code, self.n, self.dtypes, self.out, self.room, self.leave = code, n, dtypes, out, room, leave
        self.one, self.many = Lanes(code, LONG, 1), Lanes(code, LONG, WIDTH)

    def write(self, name: str, params: dict, given: Sequence[str], out: str, first: str, end: str) -> None:
        """Write a loop over rows."""
        self.gives_places, self.asks = name == "argsort", params.get("kind", "stable") is None
        rooms = [self.room(-(-self.n // WIDTH) * WIDTH) for _ in range(2)] if name not in _READ else []
        with self.code.each(first, end) as row:
            start = self.one.mul(row, str(self.n))
            begin = lambda pointer, dtype: at(self.code, pointer, dtype, start)
            places = [begin(p, d) for p, d in zip(given, self.dtypes, strict=True)]
            _READ.get(name, Row.sort)(self, *places, begin(out, self.out), *rooms)

    def load(self, b: Lanes, pointer: str, i: str) -> str:
        """Return an entry of memory that changes; of truth values the byte."""
        kind = "i8" if b.dtype == BOOL else b.type
        return self.code.new(f"load {kind}, ptr {at(self.code, pointer, b.dtype, i)}, align {b.dtype.itemsize}")

    def store(self, b: Lanes, x: str, pointer: str, i: str) -> None:
        kind = "i8" if b.dtype == BOOL else b.type
        self.code.effect(f"store {kind} {x}, ptr {at(self.code, pointer, b.dtype, i)}, align {b.dtype.itemsize}")

    # ── orders ───────────────────────────────────────────────────────────────────────────────────────────────────

    def sort(self, x: str, out: str, keys: str, ranks: str) -> None:
        """Write a row's entries, or their places, in their order."""
        b = Lanes(self.code, self.dtypes[0], 1)
        with self.code.each("0", self.n) as i:
            self.store(self.one, self._key(b, self.load(b, x, i)), keys, i)
        self._rank(keys, ranks)
        with self.code.each("0", self.n) as i:
            rank = self.one.call("umin", self.load(self.one, ranks, i), str(self.n - 1))  # which it is
            if self.gives_places:
                self.store(self.one, i, out, rank)
            else:
                self.store(b, self.load(b, x, i), out, rank)

    def _key(self, b: Lanes, entry: str) -> str:
        """Return a whole number that is ordered as the entries are: equal zeros have the same, and so have NaNs."""
        if b.dtype == BOOL:
            return self.code.value(f"zext i8 {entry} to i64")
        if b.dtype.kind == "i":
            return convert(b, entry, LONG)
        wide = b.of(DOUBLE)
        x = wide.add(convert(b, entry, DOUBLE), 0.0)
        bits = wide.as_bits(x)
        # Negative ones are larger the farther they are from zero: all their bits but the sign are turned over.
        turned = self.one.do("lshr", self.one.do("ashr", bits, "63"), "1")
        return self.one.select(wide.is_nan(x), str(_LAST), self.one.do("xor", bits, turned))

    def _rank(self, keys: str, ranks: str) -> None:
        """Count for eight entries at a time those that are before them."""
        code, b = self.code, self.many
        with code.each("0", self.n, WIDTH) as first:
            mine = self.load(b, keys, first)
            own = b.add(b.splat(first), f"<{', '.join([f'i64 {i}' for i in range(WIDTH)])}>")
            with code.fold("0", self.n, 1, [(b, b.constant(0))] * (1 + self.asks)) as turn:
                other = b.splat(self.load(self.one, keys, turn.counter))
                tied = b.both(b.compare("eq", other, mine), b.compare("slt", b.splat(turn.counter), own))
                before = [b.either(b.compare("slt", other, mine), tied), tied]
                counted = [code.value(f"sext {b.mask} {x} to {b.type}") for x in before]
                turn.next = [b.sub(x, y) for x, y in zip(turn.carried, counted, strict=False)]
            self.store(b, turn.carried[0], ranks, first)
            if self.asks:  # of entries, not of the padding behind them
                tied = b.both(b.compare("ne", turn.carried[1], 0), b.compare("slt", own, self.n))
                self.leave(b.any(tied))

    # ── operators on sorted rows ─────────────────────────────────────────────────────────────────────────────────

    def permute(self, x: str, order: str, out: str) -> None:
        """Write the entries at the places that an order says, all of which have to be places."""
        b = Lanes(self.code, self.out, 1)
        with self.code.each("0", self.n) as i:
            (place,) = normalize_positions(self.code, [(self.one, self.load(self.one, order, i), self.n)], self.leave)
            self.store(b, self.load(b, x, place), out, i)

    def average(self, x: str, joined: str, out: str) -> None:
        """Write the mean of each run of entries that are joined with the one before, in NumPy's order of adding up."""
        code, b, truth = self.code, Lanes(self.code, DOUBLE, 1), Lanes(self.code, BOOL, 1)
        is_joined = lambda i: code.value(f"icmp ne i8 {self.load(truth, joined, i)}, 0")
        with code.fold("0", self.n, 1, [(b, b.constant(0.0)), (b, b.constant(0.0))]) as turn:
            goes_on = truth.both(is_joined(turn.counter), self.one.compare("sgt", turn.counter, "0"))
            total, count = [b.select(goes_on, t, 0.0) for t in turn.carried]
            total, count = b.add(total, self.load(b, x, turn.counter)), b.add(count, 1.0)
            self.store(b, b.div(total, count), out, turn.counter)
            turn.next = [total, count]
        last = str(self.n - 1)
        with code.fold("0", last, 1, [(b, self.load(b, out, last))]) as turn:  # the last entry of a run knows its mean
            i = self.one.sub(str(self.n - 2), turn.counter)
            mean = b.select(is_joined(self.one.add(i, "1")), turn.carried[0], self.load(b, out, i))
            self.store(b, mean, out, i)
            turn.next = [mean]


#: by operator, the work on a row other than to sort it
_READ: dict[str, Callable] = {"permute": Row.permute, "average_groups": Row.average}
