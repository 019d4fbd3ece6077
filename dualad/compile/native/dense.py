"""Small matrices, eight of a stack at a time: products and factorizations as loops whose lanes are matrices.

A matrix is so many vectors of eight lanes, row by row, in scratch memory. Factorizations note in ``bad`` the lanes
whose pivots are too small, next to the largest entry, to be sure that LAPACK would not meet a zero there; whoever runs
this asks NumPy then. Not for: which equations come here, or where their arguments are (``stacks.py``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .code import WIDTH, Code, Lanes

__all__ = ["Dense"]

_DOUBLE, _LONG = np.dtype(float), np.dtype(np.int64)
#: a pivot is sure if it is larger than this, next to the largest entry
_SURE = 1e-10
#: columns that a product is computed for together
_TOGETHER = 5


class Dense:
    """Writes routines on matrices in scratch memory into the code of one function."""

    def __init__(self, code: Code, bad: str) -> None:
        self.code, self.bad = code, bad
        self.b, self.one, self.whole = Lanes(code, _DOUBLE, WIDTH), Lanes(code, _LONG, 1), Lanes(code, _LONG, WIDTH)

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _place(self, pointer: str, i: str, j: str, columns: int) -> str:
        k = self.one.add(self.one.do("mul", i, str(columns)) if columns != 1 else i, j)
        return self.code.value(f"getelementptr <8 x double>, ptr {pointer}, i64 {k}")

    def load(self, pointer: str, i: str, j: str = "0", columns: int = 1, b: Lanes | None = None) -> str:
        kind = (b or self.b).type
        return self.code.new(f"load {kind}, ptr {self._place(pointer, i, j, columns)}, align 64")

    def store(self, x: str, pointer: str, i: str, j: str = "0", columns: int = 1, b: Lanes | None = None) -> None:
        kind = (b or self.b).type
        self.code.effect(f"store {kind} {x}, ptr {self._place(pointer, i, j, columns)}, align 64")

    def suspect(self, mask: str) -> None:
        """Note lanes about which NumPy is to be asked."""
        kind = "<8 x i64>"
        before = self.code.new(f"load {kind}, ptr {self.bad}, align 64")
        wide = self.code.value(f"sext <8 x i1> {mask} to {kind}")
        self.code.effect(f"store {kind} {self.code.new(f'or {kind} {before}, {wide}')}, ptr {self.bad}, align 64")

    def finite(self, pointer: str, size: int) -> None:
        """Note the lanes in which an array has an entry that is not finite."""
        with self.code.fold("0", size, 1, [(self.b, self.b.constant(0.0))]) as turn:
            x = self.load(pointer, turn.counter)
            turn.next = [self.b.add(turn.carried[0], self.b.sub(x, x))]
        self.suspect(self.b.is_nan(turn.carried[0]))

    # ── products ─────────────────────────────────────────────────────────────────────────────────────────────────

    def product(self, x: str, y: str, out: str, sizes: tuple[int, int, int]) -> None:
        """Multiply: entries of a row are sums of products in order, without rounding in between."""
        rows, inner, columns = sizes
        code, b = self.code, self.b

        def part(i: str, first: str, count: int) -> None:
            places = [first if not u else self.one.add(first, str(u)) for u in range(count)]
            with code.fold("0", inner, 1, [(b, b.constant(-0.0))] * count) as turn:
                left = self.load(x, i, turn.counter, inner)
                turn.next = [
                    b.fma(left, self.load(y, turn.counter, p, columns), t)
                    for p, t in zip(places, turn.carried, strict=True)
                ]
            for p, t in zip(places, turn.carried, strict=True):
                self.store(b.add(t, 0.0), out, i, p, columns)

        count = min(_TOGETHER, columns)
        whole = columns - columns % count
        with code.each("0", rows) as i:
            with code.each("0", whole, count) as j:
                part(i, j, count)
            if columns % count:
                part(i, str(whole), columns % count)

    def _less_products(
        self, start: str, first: str, end: str | int, x: Callable[[str], str], y: Callable[[str], str]
    ) -> str:
        """Return a number less the products of entries, which are loaded by a number between two."""
        with self.code.fold(first, end, 1, [(self.b, start)]) as turn:
            turn.next = [self.b.fma(self.b.neg(x(turn.counter)), y(turn.counter), turn.carried[0])]
        return turn.carried[0]

    # ── A = P L U ────────────────────────────────────────────────────────────────────────────────────────────────

    def largest(self, a: str, size: int) -> str:
        with self.code.fold("0", size, 1, [(self.b, self.b.constant(0.0))]) as turn:
            x, (most,) = self.b.call("fabs", self.load(a, turn.counter)), turn.carried
            turn.next = [self.b.select(self.b.compare("ule", x, most), most, x)]
        return turn.carried[0]

    def factorize(self, a: str, n: int, pivots: str) -> None:
        """Replace a matrix by its factors, with the largest pivot of each column; note which rows were exchanged."""
        code, b, one = self.code, self.b, self.one
        least = b.mul(self.largest(a, n * n), _SURE)
        with code.each("0", n) as k:
            after = one.add(k, "1")
            here = self.whole.splat(k)
            first = b.call("fabs", self.load(a, k, k, n))
            with code.fold(after, n, 1, [(b, first), (self.whole, here)]) as turn:
                most, place = turn.carried
                x = b.call("fabs", self.load(a, turn.counter, k, n))
                more = b.compare("ogt", x, most)
                turn.next = [b.select(more, x, most), self.whole.select(more, self.whole.splat(turn.counter), place)]
            self.store(place, pivots, k, b=self.whole)
            self.suspect(b.invert(b.compare("ogt", most, least)))
            self._exchange(a, n, n, k, place)
            pivot = self.load(a, k, k, n)
            with code.each(after, n) as i:
                factor = b.div(self.load(a, i, k, n), pivot)
                self.store(factor, a, i, k, n)
                minus = b.neg(factor)
                with code.each(after, n) as j:
                    self.store(b.fma(minus, self.load(a, k, j, n), self.load(a, i, j, n)), a, i, j, n)

    def _exchange(self, a: str, rows: int, columns: int, k: str, place: str) -> None:
        """Exchange a row with another one of each lane."""
        code, b = self.code, self.b
        other = b.of(_LONG).compare("ne", place, self.whole.splat(k))
        with code.when(b.any(other)), code.each("0", columns) as j:
            mine = self.load(a, k, j, columns)
            with code.fold(self.one.add(k, "1"), rows, 1, [(b, mine)]) as turn:
                hit = self.whole.compare("eq", place, self.whole.splat(turn.counter))
                x = self.load(a, turn.counter, j, columns)
                self.store(b.select(hit, mine, x), a, turn.counter, j, columns)
                turn.next = [b.select(hit, x, turn.carried[0])]
            self.store(turn.carried[0], a, k, j, columns)

    def substitute(self, a: str, n: int, pivots: str, x: str, columns: int) -> None:
        """Replace right-hand sides by solutions, given the factors of a matrix."""
        code, b, one = self.code, self.b, self.one
        with code.each("0", n) as k:
            self._exchange(x, n, columns, k, self.load(pivots, k, b=self.whole))
        self._each(columns, lambda j: self._forward(a, n, x, columns, j, False))

        def back(j: str) -> None:
            with code.each("0", n) as up:
                i = one.sub(str(n - 1), up)
                start, after = self.load(x, i, j, columns), one.add(i, "1")
                load_a, load_x = lambda k: self.load(a, i, k, n), lambda k: self.load(x, k, j, columns)
                left = self._less_products(start, after, n, load_a, load_x)
                self.store(b.div(left, self.load(a, i, i, n)), x, i, j, columns)

        self._each(columns, back)

    def _each(self, columns: int, write: Callable[[str], None]) -> None:
        if columns == 1:
            write("0")
            return
        with self.code.each("0", columns) as j:
            write(j)

    def _forward(self, a: str, n: int, x: str, columns: int, j: str, divided: bool, first: str = "0") -> None:
        """Solve with a lower triangle, whose diagonal is one unless it is ``divided`` by."""
        with self.code.each(first, n) as i:
            load_a, load_x = lambda k: self.load(a, i, k, n), lambda k: self.load(x, k, j, columns)
            left = self._less_products(self.load(x, i, j, columns), first, i, load_a, load_x)
            self.store(self.b.div(left, self.load(a, i, i, n)) if divided else left, x, i, j, columns)

    def identity(self, x: str, n: int) -> None:
        b = self.b
        with self.code.each("0", n) as i, self.code.each("0", n) as j:
            on = self.one.compare("eq", i, j)
            self.store(
                self.code.value(f"select i1 {on}, {b.type} {b.constant(1.0)}, {b.type} {b.constant(0.0)}"), x, i, j, n
            )

    def triangular_inverse(self, a: str, n: int, x: str) -> None:
        """Write the inverse of a lower triangle."""
        self.identity(x, n)
        self._each(n, lambda j: self._forward(a, n, x, n, j, True, j))

    # ── A = L Lᵀ ─────────────────────────────────────────────────────────────────────────────────────────────────

    def cholesky(self, a: str, n: int, out: str) -> None:
        """Write the factor of a matrix of which the lower triangle is read."""
        code, b = self.code, self.b
        with code.each("0", n) as j:
            with code.each("0", j) as i:
                self.store(b.constant(0.0), out, i, j, n)
            entry = self.load(a, j, j, n)
            with code.fold("0", j, 1, [(b, entry)]) as turn:
                x = self.load(out, j, turn.counter, n)
                turn.next = [b.fma(b.neg(x), x, turn.carried[0])]
            (left,) = turn.carried
            self.suspect(b.invert(b.compare("ogt", left, b.mul(b.call("fabs", entry), _SURE))))
            root = b.call("sqrt", left)
            self.store(root, out, j, j, n)
            with code.each(self.one.add(j, "1"), n) as i:
                mine, other = lambda k: self.load(out, i, k, n), lambda k: self.load(out, j, k, n)
                left = self._less_products(self.load(a, i, j, n), "0", j, mine, other)
                self.store(b.div(left, root), out, i, j, n)

    def copy(self, x: str, out: str, size: int) -> None:
        with self.code.each("0", size) as i:
            self.store(self.load(x, i), out, i)
