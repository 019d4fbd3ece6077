"""Small matrices in registers: linear systems, triangular ones, determinants, Cholesky's factor, in memory.

The largest entry of a column is its pivot, as LAPACK chooses it. Where a pivot is zero, or a matrix is not definite,
the function ends, and NumPy is asked instead: it raises what it raises. Also: which operators on one matrix are known,
those of ``lapack.py`` and ``householder.py`` among them. Not for: stacks of matrices (``stacks.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval
from ...ops.determinant import LOSS, adjugate
from ...program.ir import Program
from ...transforms.trace import trace
from .code import WIDTH, Lanes
from .householder import has_reflections, reflected
from .indices import copied
from .lapack import SPECTRAL, decomposed, has_loop
from .operators import BOOL, DOUBLE
from .positions import OUT_OF_BOUNDS
from .rowwise import Matrix
from .values import Values, at, gather, parts_of, places, store_lanes

__all__ = ["has_system", "solved", "weight_of_system"]

#: rows and columns of a matrix; of one whose cofactors are moved in some directions
_MOST, _MOVED, _DIRECTIONS = 32, 16, 2
#: a pivot of Cholesky's is sure if it is larger than this, next to the entry it is left of
_SURE = 1e-14


def has_system(name: str, avals: Sequence[Aval], params: dict, out: Aval) -> bool:
    """Whether an operator on a matrix is known here: one matrix of float64, and its right-hand sides."""
    if name in SPECTRAL:
        return has_loop(name, avals, params)
    if name == "qr":
        return has_reflections(avals[0])
    matrix = avals[0].shape
    if name == "cofactors" and (matrix[0] > _MOVED or len(avals) > min(1 + _DIRECTIONS, matrix[0])):
        return False
    return (
        len(matrix) == 2
        and matrix[0] <= _MOST
        and all([a.dtype == DOUBLE and len(a.shape) < 3 for a in (*avals, out)])
        and (name in ("solve", "triangular_solve") or all([a.shape == matrix for a in avals]))
    )


def weight_of_system(name: str, out: Aval) -> int:
    """Return about how many instructions an operator on a matrix becomes."""
    return (360 if name == "cofactors" else 120) + out.size // 4


class _System(Matrix):
    """A matrix with right-hand sides."""

    def eliminate(self, pivots: str = "") -> None:
        """Make the first matrix an upper triangle, and write the pivots down, negative for an exchange of rows."""
        code, b, whole = self.code, self.b, self.whole
        for k in self.rows():
            after = self.next(k)
            most, place = b.call("fabs", self[k, k]), str(k)
            if isinstance(after, int):
                for i in range(after, self.n):
                    most, place = self.larger(i, k, most, place)
                self.ask(b.compare("oeq", most, 0.0))
                if after < self.n:
                    self.exchange(place, k)
            else:
                with code.fold(after, self.n, 1, [(b, most), (whole, place)]) as turn:
                    turn.next = self.larger(turn.counter, k, *turn.carried)
                most, place = turn.carried
                self.ask(b.compare("oeq", most, 0.0))
                with code.each(after, self.n) as i, code.when(whole.compare("eq", i, place)):
                    self.exchange(i, k)
            pivot = self[k, k]
            if pivots:
                signed = b.select(whole.compare("eq", place, str(k)), pivot, b.neg(pivot))
                store_lanes(b, signed, at(code, pivots, DOUBLE, k))
            for row in self.rows(after):
                self.subtract(b.div(self[row, k], pivot), k, row)

    def larger(self, i: int | str, k: int | str, most: str, place: str) -> list[str]:
        """Return the larger of the size so far and that of an entry of column k, and its row."""
        size = self.b.call("fabs", self[i, k])
        more = self.b.compare("ogt", size, most)
        return [self.b.select(more, size, most), self.whole.select(more, str(i), place)]

    def substitute(self, sure: bool) -> None:
        """Make an upper triangle the identity; what the other columns are then solves the system.

        Its pivots are ``sure`` not to be zero where it was made by elimination.
        """
        first = self.n // WIDTH * WIDTH
        for up in self.rows():
            i = self.n - 1 - up if isinstance(up, int) else self.whole.sub(str(self.n - 1), up)
            pivot = self[i, i]
            if not sure:
                self.ask(self.b.compare("oeq", pivot, 0.0))
            for k in self.rows(self.next(i)):  # whose rows are reduced: the rest of A in them is zero
                self.subtract(self[i, k], k, i, first)
            self.divide(i, pivot, first)


def solved(lowering: Any, name: str, args: Sequence[Values], params: dict, outs: Sequence[Aval]) -> list[Values]:
    """Write an operator on a matrix; return its results."""
    if name in SPECTRAL:
        return decomposed(lowering, name, args[0], params, outs)
    if name == "qr":
        return reflected(lowering, args[0], outs)
    if name in ("det", "slogdet"):
        return _determinant(lowering, name, args[0], outs)
    if name == "cholesky":
        return [_cholesky(lowering, args[0], outs[0])]
    if name == "cofactors":
        out, good = lowering.program(_cofactors(*args[0].aval.shape, len(args) - 1), args)
        with lowering.code.when(Lanes(lowering.code, BOOL, 1).invert(parts_of(lowering.code, good)[0])):
            lowering.code.effect(f"ret i32 {OUT_OF_BOUNDS}")
        return [out]
    if name == "triangular_solve":
        return [_triangular(lowering, args, params["lower"], params["unit"], outs[0])]
    n, out = args[0].aval.shape[0], outs[0]
    a = _System(lowering, [args[0], args[1] if len(args) > 1 else Values(out, constant=np.eye(n))])
    a.eliminate()
    a.substitute(True)
    return [a.taken(n, out.size // n, out)]


def _determinant(lowering: Any, name: str, x: Values, outs: Sequence[Aval]) -> list[Values]:
    """Write the determinant as NumPy has it: the exponential of its logarithm, with its sign."""
    row, number = Aval((x.aval.shape[0],), DOUBLE), Aval((), DOUBLE)
    pivots = Values(row, pointer=lowering.room(row))
    _System(lowering, [x]).eliminate(pivots.pointer)
    map_entries = lambda name, *args: lowering.elementwise(name, args, {}, args[0].aval)
    sign = lowering.reduction("prod", map_entries("sign", pivots), {"axis": (0,)}, number)
    log = lowering.reduction("sum", map_entries("log", map_entries("absolute", pivots)), {"axis": (0,)}, number)
    return [sign, log] if name == "slogdet" else [map_entries("multiply", sign, map_entries("exp", log))]


def _cholesky(lowering: Any, x: Values, out: Aval) -> Values:
    """Write L of A = L Lᵀ: the rows of Lᵀ are those of an elimination without exchanges, by the roots of its pivots."""
    code, n, where = lowering.code, x.aval.shape[0], places(x.aval)
    a = _System(lowering, [gather(code, [x], where.T, x.aval)])  # whose upper triangle alone is read
    diagonal = gather(code, [x], np.diagonal(where), Aval((n,), DOUBLE))
    before = lowering.room(diagonal.aval)
    copied(code, diagonal, before)
    for k in a.rows():
        pivot, entry = a[k, k], code.new(f"load double, ptr {at(code, before, DOUBLE, k)}, align 8")
        a.ask(a.b.invert(a.b.compare("ogt", pivot, a.b.mul(a.b.call("fabs", entry), _SURE))))
        for i in a.rows(a.next(k)):
            a.subtract(a.b.div(a[k, i], pivot), k, i)
        a.divide(k, a.b.call("sqrt", pivot), 0)
    return gather(code, [a.taken(0, n, out)], np.where(np.tri(n, dtype=bool), where.T, -1), out)


def _triangular(lowering: Any, args: Sequence[Values], lower: bool, unit: bool, out: Aval) -> Values:
    """Write the solution of a triangular system; a lower triangle is an upper one from the other end."""
    (x, b), code, n = args, lowering.code, out.shape[0]
    order = np.arange(n)[:: -1 if lower else 1]
    where = np.where(np.tri(n, dtype=bool).T, places(x.aval)[np.ix_(order, order)], -1)
    one = Values(Aval((), DOUBLE), constant=np.ones(()))
    triangle = gather(code, [x, one], np.where(np.eye(n, dtype=bool) & unit, x.aval.size, where), x.aval)
    turned = lambda v: gather(code, [v], places(v.aval)[order], v.aval)
    a = _System(lowering, [triangle, turned(b)])
    a.substitute(False)
    return turned(a.taken(n, out.size // n, out))


@functools.cache
def _cofactors(n: int, _: int, directions: int) -> Program:
    """Return a program for cofactors by the inverse, and whether the matrix is far enough from singular ones."""

    def cofactors(a, *directions):
        inverse = np.linalg.inv(a)
        norm = lambda x: np.max(np.sum(abs(x), axis=0))
        out = adjugate(np.linalg.det(a), inverse, list(directions))
        return np.transpose(out), norm(a) * norm(inverse) < LOSS ** (1 / (len(directions) + 1))

    return trace(cofactors, *[np.ones((n, n))] * (1 + directions))
