"""Q and R of small matrices by reflections, as LAPACK has them: the same vectors, and so the same signs.

Column j of the rest, (α, x), is reflected to (β, 0) by H = 1 − τ v vᵀ with β = −sign(α) ‖(α, x)‖,
v = (1, x / (α − β)) and τ = (β − α) / β; where x is zero, nothing is. So a sign depends on that of α, and on whether x
is zero. Where rounding may have decided that, which it has not where no reflection has touched the entries, NumPy is
asked. Not for: larger matrices, or stacks, which are calls of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval
from .code import WIDTH, Lanes
from .operators import BOOL, DOUBLE
from .rowwise import Matrix
from .values import Values, at, store_lanes

__all__ = ["has_reflections", "reflected"]

#: rows and columns
_MOST = 16
#: squares whose root is sure to be one; and parts of a column that are not sure to be more than rounding, squared
_LEAST, _GREATEST, _SURE = 1e-280, 1e280, 1e-20


def has_reflections(a: Aval) -> bool:
    """Whether the factors of a matrix are known here."""
    return len(a.shape) == 2 and a.dtype == DOUBLE and min(a.shape) > 0 and max(a.shape) <= _MOST


def reflected(lowering: Any, x: Values, outs: Sequence[Aval]) -> list[Values]:
    """Write Q and R."""
    (m, n), columns = x.aval.shape, outs[0].shape[1]
    right = Matrix(lowering, [x])
    left = Matrix(lowering, [Values(Aval((m, columns), DOUBLE), constant=np.eye(m, columns))])
    reflections = _Reflections(lowering, m, min(m, n))
    with lowering.code.each("0", reflections.count) as j:
        reflections.find(right, j)
    with lowering.code.each("0", reflections.count) as up:
        reflections.apply(left, right.whole.sub(str(reflections.count - 1), up))
    return [left.taken(0, columns, outs[0]), right.taken(0, n, outs[1])]


class _Reflections:
    """The vectors v of reflections, one after the other in memory, each with all entries, and their numbers τ."""

    def __init__(self, lowering: Any, m: int, count: int) -> None:
        self.code, self.m, self.count = lowering.code, m, count
        self.b = Lanes(self.code, DOUBLE, 1)
        self.vectors, self.numbers = [lowering.room(Aval((k,), DOUBLE)) for k in (m * count, count)]

    def place(self, a: Matrix, j: str, i: str) -> str:
        """Return the address of an entry of vector j."""
        return at(self.code, self.vectors, DOUBLE, a.whole.add(a.whole.mul(j, str(self.m)), i))

    def load(self, address: str) -> str:
        return self.code.new(f"load double, ptr {address}, align 8")

    def find(self, a: Matrix, j: str) -> None:
        """Find the reflection of column j, and apply it to the matrix."""
        code, b, whole, zero = self.code, self.b, a.whole, (self.b, self.b.constant(0.0))
        with code.fold("0", j, 1, [zero]) as turn:
            turn.next = [b.fma(y := a[turn.counter, j], y, turn.carried[0])]
        (above,) = turn.carried
        after, alpha = whole.add(j, "1"), a[j, j]
        with code.fold(after, self.m, 1, [zero, zero]) as turn:
            size = b.call("fabs", a[turn.counter, j])
            square, most = turn.carried
            turn.next = [b.fma(size, size, square), b.select(b.compare("ule", size, most), most, size)]
        below, most = turn.carried
        square = b.fma(alpha, alpha, below)
        a.ask(b.invert(b.compare("olt", b.add(above, square), _GREATEST)))  # NaN, too
        moves, truth = b.compare("ogt", most, 0.0), b.of(BOOL)
        a.ask(truth.both(moves, b.compare("olt", square, _LEAST)))
        # The sign of a zero counts, and sums have lost it.
        a.ask(truth.both(moves, truth.both(b.compare("oeq", alpha, 0.0), whole.compare("sgt", j, 0))))
        small = [b.mul(square, _SURE)] * 2 + [b.mul(above, _SURE)]
        less = [b.compare("ole", x, y) for x, y in zip((b.mul(alpha, alpha), below, square), small, strict=True)]
        with code.when(truth.both(truth.either(truth.either(*less[:2]), less[2]), whole.compare("slt", after, self.m))):
            self._ask_if_touched(a, j)
        beta = b.select(moves, b.neg(b.call("copysign", b.call("sqrt", square), alpha)), alpha)
        scale = b.select(moves, b.div(1.0, b.sub(alpha, beta)), 0.0)
        store_lanes(b, b.select(moves, b.div(b.sub(beta, alpha), beta), 0.0), at(code, self.numbers, DOUBLE, j))
        with code.each("0", after) as i:
            on = whole.compare("eq", i, j)
            store_lanes(
                b,
                code.value(f"select i1 {on}, double {b.constant(1.0)}, double {b.constant(0.0)}"),
                self.place(a, j, i),
            )
        with code.each(after, self.m) as i:
            store_lanes(b, b.mul(a[i, j], scale), self.place(a, j, i))
        self.apply(a, j)
        store_lanes(b, beta, a.at(j, j))
        with code.each(after, self.m) as i:
            store_lanes(b, b.constant(0.0), a.at(i, j))

    def _ask_if_touched(self, a: Matrix, j: str) -> None:
        """Ask NumPy if a reflection before has touched rows from j on."""
        code, b = self.code, self.b
        with code.fold("0", j, 1, [(b, b.constant(0.0))]) as before:
            with code.fold(j, self.m, 1, [(b, before.carried[0])]) as row:
                y = self.load(self.place(a, before.counter, row.counter))
                row.next = [b.add(row.carried[0], b.call("fabs", y))]
            before.next = row.carried
        a.ask(b.compare("ogt", before.carried[0], 0.0))

    def apply(self, a: Matrix, j: str) -> None:
        """Apply reflection j to the rows from j on."""
        code, wide, after = self.code, a.vector, a.whole.add(j, "1")
        tau = wide.splat(self.load(at(code, self.numbers, DOUBLE, j)))
        entry = lambda i: wide.splat(self.load(self.place(a, j, i)))
        for column in range(0, a.width, WIDTH):
            first = a.load(j, column)
            with code.fold(after, self.m, 1, [(wide, first)]) as turn:
                turn.next = [wide.fma(entry(turn.counter), a.load(turn.counter, column), turn.carried[0])]
            less = wide.neg(wide.mul(tau, turn.carried[0]))
            store_lanes(wide, wide.add(first, less), a.at(j, column))
            with code.each(after, self.m) as i:
                store_lanes(wide, wide.fma(entry(i), less, a.load(i, column)), a.at(i, column))
