"""Linear systems with a small matrix in the body of a loop: ``solve`` and ``inv`` by elimination, in memory.

The largest entry of a column is its pivot, as LAPACK chooses it. Where that is zero the function ends, and NumPy is
asked instead: it raises what it raises. Not for: stacks of matrices (``stacks.py``), or systems outside of loops, which
are calls of LAPACK.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval
from .code import WIDTH, Lanes
from .indices import copied
from .operators import DOUBLE, LONG
from .positions import OUT_OF_BOUNDS
from .values import Values, at, store_lanes

__all__ = ["has_system", "solved", "weight_of_system"]

#: rows and columns of a matrix
_MOST = 32


def has_system(avals: Sequence[Aval], out: Aval) -> bool:
    """Whether a linear system is known here: one matrix of float64, and its right-hand sides."""
    matrix = avals[0].shape
    return (
        len(matrix) == 2 and matrix[0] <= _MOST and all([a.dtype == DOUBLE and len(a.shape) < 3 for a in (*avals, out)])
    )


def weight_of_system(out: Aval) -> int:
    """Return about how many instructions a linear system becomes."""
    return 120 + out.size // 4


class _Rows:
    """The rows of (A | B) in memory, as vectors of eight lanes; what is behind their ends is never read."""

    def __init__(self, lowering: Any, rows: int, columns: int) -> None:
        self.code, self.width = lowering.code, -(-columns // WIDTH) * WIDTH
        self.b, self.vector, self.whole = [Lanes(self.code, d, w) for d, w in ((DOUBLE, 1), (DOUBLE, WIDTH), (LONG, 1))]
        self.pointer = lowering.room(Aval((rows * self.width + WIDTH,), DOUBLE))

    def at(self, i: str, j: str | int) -> str:
        """Return the address of an entry."""
        return at(self.code, self.pointer, DOUBLE, self.whole.add(self.whole.mul(i, str(self.width)), str(j)))

    def __getitem__(self, place: tuple[str, str]) -> str:
        return self.code.new(f"load double, ptr {self.at(*place)}, align 8")

    def load(self, i: str, j: int) -> str:
        """Return eight entries of a row."""
        return read(self.vector, self.at(i, j))

    def exchange(self, i: str, k: str) -> None:
        """Exchange two rows."""
        for j in range(0, self.width, WIDTH):
            x, y = self.load(i, j), self.load(k, j)
            store_lanes(self.vector, y, self.at(i, j))
            store_lanes(self.vector, x, self.at(k, j))

    def subtract(self, factor: str, k: str, i: str, first: int = 0) -> None:
        """Subtract a multiple of row k from row i."""
        minus = self.vector.splat(self.b.neg(factor))
        for j in range(first, self.width, WIDTH):
            store_lanes(self.vector, self.vector.fma(minus, self.load(k, j), self.load(i, j)), self.at(i, j))

    def divide(self, i: str, pivot: str, first: int) -> None:
        """Divide a row."""
        for j in range(first, self.width, WIDTH):
            store_lanes(self.vector, self.vector.div(self.load(i, j), self.vector.splat(pivot)), self.at(i, j))


def read(b: Lanes, address: str) -> str:
    """Return lanes of memory that changes."""
    return b.code.new(f"load {b.type}, ptr {address}, align 8")


def solved(lowering: Any, args: Sequence[Values], out: Aval) -> Values:
    """Write A⁻¹ B, or A⁻¹, and return it, in memory."""
    code, n = lowering.code, args[0].aval.shape[0]
    columns = out.size // n
    a = _Rows(lowering, n, n + columns)
    b, whole = a.b, a.whole
    parts = []
    for x, first in ((args[0], 0), (args[1] if len(args) > 1 else Values(out, constant=np.eye(n)), n)):
        parts.append((lowering.room(Aval((x.aval.size + WIDTH,), DOUBLE)), first, x.aval.size // n))
        copied(code, x, parts[-1][0])
    with code.each("0", n) as i:  # in order: the end of a row is written over the beginning of the next one
        for pointer, first, count in parts:
            for j in range(0, count, WIDTH):
                offset = whole.add(whole.mul(i, str(count)), str(j))
                store_lanes(a.vector, read(a.vector, at(code, pointer, DOUBLE, offset)), a.at(i, first + j))
    with code.each("0", n) as k:
        after = whole.add(k, "1")
        with code.fold(after, n, 1, [(b, b.call("fabs", a[k, k])), (whole, k)]) as turn:
            size, (most, place) = b.call("fabs", a[turn.counter, k]), turn.carried
            more = b.compare("ogt", size, most)
            turn.next = [b.select(more, size, most), whole.select(more, turn.counter, place)]
        with code.when(b.compare("oeq", most, 0.0)):
            code.effect(f"ret i32 {OUT_OF_BOUNDS}")
        with code.each(after, n) as i, code.when(whole.compare("eq", i, place)):
            a.exchange(i, k)
        pivot = a[k, k]
        with code.each(after, n) as i:
            a.subtract(b.div(a[i, k], pivot), k, i)
    first = n // WIDTH * WIDTH
    with code.each("0", n) as up:
        i = whole.sub(str(n - 1), up)
        pivot = a[i, i]
        with code.each(whole.add(i, "1"), n) as k:  # whose rows are reduced: what is left of A in them is zero
            a.subtract(a[i, k], k, i, first)
        a.divide(i, pivot, first)
    pointer = parts[1][0]
    with code.each("0", n) as i:
        for j in range(0, columns, WIDTH):
            offset = whole.add(whole.mul(i, str(columns)), str(j))
            store_lanes(a.vector, a.load(i, n + j), at(code, pointer, DOUBLE, offset))
    return Values(out, pointer=pointer)
