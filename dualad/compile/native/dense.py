"""Small matrices, eight of a stack at a time: products and factorizations as loops whose lanes are matrices.

A matrix is so many vectors of eight lanes, row by row, in scratch memory. Factorizations note in ``bad`` the lanes
whose pivots are too small, next to the largest entry, to be sure that LAPACK would not meet a zero there; whoever runs
this asks NumPy then. Not for: which equations come here, or where their arguments are (``stacks.py``).
"""

from __future__ import annotations

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

        def turn(i: str, total: str) -> list[str]:
            x = self.load(pointer, i)
            return [self.b.add(total, self.b.sub(x, x))]

        (total,) = self.code.loop("0", str(size), 1, turn, [(self.b, self.b.constant(0.0))])
        self.suspect(self.b.is_nan(total))

    # ── products ─────────────────────────────────────────────────────────────────────────────────────────────────

    def product(self, x: str, y: str, out: str, sizes: tuple[int, int, int]) -> None:
        """Multiply: entries of a row are sums of products in order, without rounding in between."""
        rows, inner, columns = sizes
        code, b = self.code, self.b

        def part(i: str, first: str, count: int) -> None:
            places = [first if not u else self.one.add(first, str(u)) for u in range(count)]

            def turn(k: str, *totals: str) -> list[str]:
                left = self.load(x, i, k, inner)
                return [b.fma(left, self.load(y, k, p, columns), t) for p, t in zip(places, totals, strict=True)]

            totals = code.loop("0", str(inner), 1, turn, [(b, b.constant(-0.0))] * count)
            for p, t in zip(places, totals, strict=True):
                self.store(b.add(t, 0.0), out, i, p, columns)

        count = min(_TOGETHER, columns)
        whole = columns - columns % count

        def row(i: str) -> None:
            code.loop("0", str(whole), count, lambda j: part(i, j, count))
            if columns % count:
                part(i, str(whole), columns % count)

        code.loop("0", str(rows), 1, row)

    # ── A = P L U ────────────────────────────────────────────────────────────────────────────────────────────────

    def largest(self, a: str, size: int) -> str:
        def turn(i: str, most: str) -> list[str]:
            x = self.b.call("fabs", self.load(a, i))
            return [self.b.select(self.b.compare("ule", x, most), most, x)]

        return self.code.loop("0", str(size), 1, turn, [(self.b, self.b.constant(0.0))])[0]

    def factorize(self, a: str, n: int, pivots: str) -> None:
        """Replace a matrix by its factors, with the largest pivot of each column; note which rows were exchanged."""
        code, b, one = self.code, self.b, self.one
        least = b.mul(self.largest(a, n * n), _SURE)

        def step(k: str) -> None:
            after = one.add(k, "1")
            here = self.whole.splat(k)

            def seek(i: str, most: str, place: str) -> list[str]:
                x = b.call("fabs", self.load(a, i, k, n))
                more = b.compare("ogt", x, most)
                return [b.select(more, x, most), self.whole.select(more, self.whole.splat(i), place)]

            first = b.call("fabs", self.load(a, k, k, n))
            most, place = code.loop(after, str(n), 1, seek, [(b, first), (self.whole, here)])
            self.store(place, pivots, k, b=self.whole)
            self.suspect(b.invert(b.compare("ogt", most, least)))
            self._exchange(a, n, n, k, place)
            pivot = self.load(a, k, k, n)

            def eliminate(i: str) -> None:
                factor = b.div(self.load(a, i, k, n), pivot)
                self.store(factor, a, i, k, n)
                minus = b.neg(factor)

                def column(j: str) -> None:
                    self.store(b.fma(minus, self.load(a, k, j, n), self.load(a, i, j, n)), a, i, j, n)

                code.loop(after, str(n), 1, column)

            code.loop(after, str(n), 1, eliminate)

        code.loop("0", str(n), 1, step)

    def _exchange(self, a: str, rows: int, columns: int, k: str, place: str) -> None:
        """Exchange a row with another one of each lane."""
        code, b = self.code, self.b
        other = b.of(_LONG).compare("ne", place, self.whole.splat(k))
        some, done = code.label(), code.label()
        code.branch(b.any(other), some, done)
        code.begin(some)
        with code.scope():

            def column(j: str) -> None:
                mine = self.load(a, k, j, columns)

                def row(i: str, found: str) -> list[str]:
                    hit = self.whole.compare("eq", place, self.whole.splat(i))
                    x = self.load(a, i, j, columns)
                    self.store(b.select(hit, mine, x), a, i, j, columns)
                    return [b.select(hit, x, found)]

                (found,) = code.loop(self.one.add(k, "1"), str(rows), 1, row, [(b, mine)])
                self.store(found, a, k, j, columns)

            code.loop("0", str(columns), 1, column)
            code.jump(done)
        code.begin(done)

    def substitute(self, a: str, n: int, pivots: str, x: str, columns: int) -> None:
        """Replace right-hand sides by solutions, given the factors of a matrix."""
        code, b, one = self.code, self.b, self.one

        def exchange(k: str) -> None:
            self._exchange(x, n, columns, k, self.load(pivots, k, b=self.whole))

        code.loop("0", str(n), 1, exchange)
        self._each(columns, lambda j: self._forward(a, n, x, columns, j, False))

        def back(j: str) -> None:
            def row(up: str) -> None:
                i = one.sub(str(n - 1), up)
                minus = lambda k, t: b.fma(b.neg(self.load(a, i, k, n)), self.load(x, k, j, columns), t)
                start = [(b, self.load(x, i, j, columns))]
                (t,) = code.loop(one.add(i, "1"), str(n), 1, lambda k, t: [minus(k, t)], start)
                self.store(b.div(t, self.load(a, i, i, n)), x, i, j, columns)

            code.loop("0", str(n), 1, row)

        self._each(columns, back)

    def _each(self, columns: int, write) -> None:
        if columns == 1:
            write("0")
        else:
            self.code.loop("0", str(columns), 1, write)

    def _forward(self, a: str, n: int, x: str, columns: int, j: str, divided: bool, first: str = "0") -> None:
        """Solve with a lower triangle, whose diagonal is one unless it is ``divided`` by."""
        code, b = self.code, self.b

        def row(i: str) -> None:
            minus = lambda k, t: b.fma(b.neg(self.load(a, i, k, n)), self.load(x, k, j, columns), t)
            start = [(b, self.load(x, i, j, columns))]
            (t,) = code.loop(first, i, 1, lambda k, t: [minus(k, t)], start)
            self.store(b.div(t, self.load(a, i, i, n)) if divided else t, x, i, j, columns)

        code.loop(first, str(n), 1, row)

    def identity(self, x: str, n: int) -> None:
        b = self.b

        def row(i: str) -> None:
            def column(j: str) -> None:
                on = self.one.compare("eq", i, j)
                self.store(self.code.value(f"select i1 {on}, {b.type} {b.constant(1.0)}, {b.type} {b.constant(0.0)}"),
                           x, i, j, n)  # fmt: skip

            self.code.loop("0", str(n), 1, column)

        self.code.loop("0", str(n), 1, row)

    def triangular_inverse(self, a: str, n: int, x: str) -> None:
        """Write the inverse of a lower triangle."""
        self.identity(x, n)
        self._each(n, lambda j: self._forward(a, n, x, n, j, True, j))

    # ── A = L Lᵀ ─────────────────────────────────────────────────────────────────────────────────────────────────

    def cholesky(self, a: str, n: int, out: str) -> None:
        """Write the factor of a matrix of which the lower triangle is read."""
        code, b = self.code, self.b

        def column(j: str) -> None:
            def above(i: str) -> None:
                self.store(b.constant(0.0), out, i, j, n)

            code.loop("0", j, 1, above)
            entry = self.load(a, j, j, n)

            def squared(k: str, t: str) -> list[str]:
                x = self.load(out, j, k, n)
                return [b.fma(b.neg(x), x, t)]

            (left,) = code.loop("0", j, 1, squared, [(b, entry)])
            self.suspect(b.invert(b.compare("ogt", left, b.mul(b.call("fabs", entry), _SURE))))
            root = b.call("sqrt", left)
            self.store(root, out, j, j, n)

            def below(i: str) -> None:
                minus = lambda k, t: [b.fma(b.neg(self.load(out, i, k, n)), self.load(out, j, k, n), t)]
                (t,) = code.loop("0", j, 1, minus, [(b, self.load(a, i, j, n))])
                self.store(b.div(t, root), out, i, j, n)

            code.loop(self.one.add(j, "1"), str(n), 1, below)

        code.loop("0", str(n), 1, column)

    def copy(self, x: str, out: str, size: int) -> None:
        self.code.loop("0", str(size), 1, lambda i: self.store(self.load(x, i), out, i))
