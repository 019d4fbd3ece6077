"""Small matrices in memory, whose rows are vectors: what elimination and reflections do with them.

Not for: what these compute (``systems.py``, ``householder.py``), or stacks of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...core.aval import Aval
from .code import WIDTH, Lanes
from .indices import copied, turns
from .operators import DOUBLE, LONG
from .positions import OUT_OF_BOUNDS
from .values import Values, at, store_lanes

__all__ = ["Matrix"]

#: rows of a matrix whose loops are written out
_WRITTEN = 4


class Matrix:
    """Rows of matrices side by side in memory, in vectors of eight lanes; memory behind their ends is never read."""

    def __init__(self, lowering: Any, parts: Sequence[Values]) -> None:
        self.code, self.lowering, self.n = lowering.code, lowering, parts[0].aval.shape[0]
        counts = [x.aval.size // self.n for x in parts]
        self.width = -(-sum(counts) // WIDTH) * WIDTH
        self.b, self.vector, self.whole = [Lanes(self.code, d, w) for d, w in ((DOUBLE, 1), (DOUBLE, WIDTH), (LONG, 1))]
        self.pointer = lowering.room(Aval((self.n * self.width + WIDTH,), DOUBLE))
        pointers = [lowering.room(Aval((x.aval.size + WIDTH,), DOUBLE)) for x in parts]
        for x, pointer in zip(parts, pointers, strict=True):
            copied(self.code, x, pointer)
        for i in self.rows():  # in order: the end of a row is written over the next one's beginning
            first = 0
            for pointer, count in zip(pointers, counts, strict=True):
                for j in range(0, count, WIDTH):
                    offset = self.place(i, count, j)
                    store_lanes(
                        self.vector, read(self.vector, at(self.code, pointer, DOUBLE, offset)), self.at(i, first + j)
                    )
                first += count

    def rows(self, first: int | str = 0) -> Iterator[int | str]:
        """Yield rows, of which those of small matrices are written out."""
        return turns(self.code, first, self.n, 1, _WRITTEN)

    def place(self, i: int | str, width: int, j: int | str) -> int | str:
        """Return the number of an entry of rows of this width."""
        if isinstance(i, int) and isinstance(j, int):
            return i * width + j
        return self.whole.add(self.whole.mul(str(i), str(width)), str(j))

    def next(self, i: int | str) -> int | str:
        return i + 1 if isinstance(i, int) else self.whole.add(i, "1")

    def taken(self, first: int, count: int, out: Aval) -> Values:
        """Return columns, in memory of their own."""
        pointer = self.lowering.room(Aval((self.n * count + WIDTH,), DOUBLE))
        for i in self.rows():
            for j in range(0, count, WIDTH):
                address = at(self.code, pointer, DOUBLE, self.place(i, count, j))
                store_lanes(self.vector, self.load(i, first + j), address)
        return Values(out, pointer=pointer)

    def at(self, i: int | str, j: int | str) -> str:
        """Return the address of an entry."""
        return at(self.code, self.pointer, DOUBLE, self.place(i, self.width, j))

    def __getitem__(self, place: tuple[int | str, int | str]) -> str:
        return self.code.new(f"load double, ptr {self.at(*place)}, align 8")

    def load(self, i: int | str, j: int) -> str:
        """Return eight entries of a row."""
        return read(self.vector, self.at(i, j))

    def exchange(self, i: int | str, k: int | str) -> None:
        """Exchange two rows."""
        for j in range(0, self.width, WIDTH):
            x, y = self.load(i, j), self.load(k, j)
            store_lanes(self.vector, y, self.at(i, j))
            store_lanes(self.vector, x, self.at(k, j))

    def subtract(self, factor: str, k: int | str, i: int | str, first: int = 0) -> None:
        """Subtract a multiple of row k from row i."""
        minus = self.vector.splat(self.b.neg(factor))
        for j in range(first, self.width, WIDTH):
            store_lanes(self.vector, self.vector.fma(minus, self.load(k, j), self.load(i, j)), self.at(i, j))

    def divide(self, i: int | str, pivot: str, first: int) -> None:
        """Divide a row."""
        for j in range(first, self.width, WIDTH):
            store_lanes(self.vector, self.vector.div(self.load(i, j), self.vector.splat(pivot)), self.at(i, j))

    def ask(self, condition: str) -> None:
        """Ask NumPy where something holds."""
        with self.code.when(condition):
            self.code.effect(f"ret i32 {OUT_OF_BOUNDS}")


def read(b: Lanes, address: str) -> str:
    """Return lanes of memory that changes."""
    return b.code.new(f"load {b.type}, ptr {address}, align 8")
