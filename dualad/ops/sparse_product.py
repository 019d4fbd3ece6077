"""Products with sparse matrices and solutions of sparse systems, by SciPy.

A matrix is its entries ``data`` and a :class:`Pattern`, the places where they stand in compressed rows. The entries may
be traced like everything else; the pattern is constant. With ``transposed`` the operator is that of the transposed
matrix, for which nothing is rearranged.
Loaded with ``dualad.scipy.sparse``, for SciPy is optional. Not for: SciPy's classes (``dualad/scipy/sparse/``).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as ss
from scipy.sparse.linalg import LinearOperator, onenormest, splu

from ..core.aval import Array, Aval, result_dtype
from ..core.contexts import compiling
from .factorization import floating
from .indexing import ARRAY, index, index_add
from .kinds import bilinear, repeat_lanes, solution, unbroadcast
from .samples import anywhere, complex_normal

__all__ = ["Pattern", "condition", "csr_product", "csr_solve", "product"]

#: entries of a matrix whose product is written out when it is compiled
_FEW = 1 << 12
#: a pivot of this part of the largest is looked at more closely
_SMALL = 1e-8


@dataclass(slots=True, eq=False, repr=False)
class Pattern:
    """The places of the entries of a sparse matrix with ``columns`` columns.

    ``indices`` are their columns, row by row; row i begins at ``indptr[i]``, and the last one ends at ``indptr[-1]``.
    """

    indices: np.ndarray
    indptr: np.ndarray
    columns: int

    def __repr__(self) -> str:
        return f"<pattern of {len(self.indices)} entries, shape {self.shape}>"

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.indptr) - 1, self.columns

    @property
    def rows(self) -> np.ndarray:
        """The row of every entry."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def matrix(self, data: np.ndarray, transposed: bool):
        """Return SciPy's matrix."""
        shape = self.shape
        out = (ss.csc_array if transposed else ss.csr_array)(shape[::-1] if transposed else shape, dtype=data.dtype)
        # Set without the constructor's checks, which cost more than a small product.
        out.data, out.indices, out.indptr = data, self.indices, self.indptr
        return out

    def repeated(self, size: int) -> Pattern:
        """Return the pattern of a block-diagonal matrix of ``size`` copies."""
        lane = np.arange(size).reshape((size, 1))
        starts = (self.indptr[:-1] + lane * len(self.indices)).ravel()
        indices = (self.indices + lane * self.columns).ravel()
        return Pattern(indices, np.append(starts, len(indices)), size * self.columns)


def _dimensions(pattern: Pattern, transposed: bool) -> tuple[int, int]:
    return pattern.shape[::-1] if transposed else pattern.shape


# ── lanes ────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Where only x is mapped, its lanes are columns of one product. Where the matrix is, the lanes are the blocks of one
# block-diagonal matrix.


def _batch(size: int, values: Sequence, mapped: Sequence[bool], op, pattern: Pattern, transposed: bool) -> Array:
    data, x = values
    if not mapped[0]:
        n, k = x.shape[1:]
        flat = np.moveaxis(x, 0, 1).reshape((n, size * k))
        out = op(data, flat, pattern=pattern, transposed=transposed)
        return np.moveaxis(out.reshape((out.shape[0], size, k)), 1, 0)
    x = x if mapped[1] else repeat_lanes(x, size)
    n, k = x.shape[1:]
    data, x = data.reshape((size * data.shape[1],)), x.reshape((size * n, k))
    out = op(data, x, pattern=pattern.repeated(size), transposed=transposed)
    return out.reshape((size, _dimensions(pattern, transposed)[0], k))


# ── products: y = A x for x of shape (n, k) ──────────────────────────────────────────────────────────────────────
#
# Entry e stands in row r and column c: y[r] = Σ data[e] x[c]. The cotangent of x is Aᵀ ct; that of data[e] is
# Σ ct[r] x[c] over the columns of x.


def _product(data, x, *, pattern, transposed):
    return np.asarray(pattern.matrix(data, transposed) @ x)


def _product_shape(data, x, *, pattern, transposed) -> Aval:
    rows, inner = _dimensions(pattern, transposed)
    if len(x.shape) != 2 or x.shape[0] != inner:
        raise ValueError(f"a sparse matrix of shape {(rows, inner)} can't be multiplied by an array of shape {x.shape}")
    return Aval((rows, x.shape[1]), result_dtype(data, x))


def _product_transpose(ct: Array, data: Array, x: Array, *, pattern, transposed: bool) -> tuple:
    if type(x) is Aval:
        return None, unbroadcast(csr_product(data, ct, pattern=pattern, transposed=not transposed), x)
    left, right = (x, ct) if transposed else (ct, x)
    back = (np.take(left, pattern.rows, 0) * np.take(right, pattern.indices, 0)).sum(1)
    return unbroadcast(back, data), None


def _example(rows: int, columns: int) -> Pattern:
    """Return a pattern with an empty row, or with a full diagonal if it is square."""
    mask = np.add.outer(np.arange(rows), 2 * np.arange(columns)) % 3 == 0
    if rows == columns:
        mask |= np.eye(rows, dtype=bool)
    else:
        mask[1] = False
    matrix = ss.csr_array(mask)
    return Pattern(matrix.indices, matrix.indptr, columns)


def _product_samples():
    for rows, columns, k, transposed, make in (
        (3, 4, 2, False, anywhere()), (3, 4, 1, True, anywhere()), (1, 1, 1, False, anywhere()),
        (2, 3, 0, False, anywhere()), (3, 4, 2, False, complex_normal),
    ):  # fmt: skip
        pattern = _example(rows, columns)
        x = make(rows if transposed else columns, k)
        yield (len(pattern.indices),), x, {"pattern": pattern, "transposed": transposed}


csr_product = bilinear(
    "csr_product",
    impl=_product,
    abstract_eval=_product_shape,
    transpose=_product_transpose,
    batch=lambda size, values, mapped, **params: _batch(size, values, mapped, csr_product, **params),
    samples=list(_product_samples()),
    blocks="one",
)


@functools.lru_cache(maxsize=16)
def _places(pattern: Pattern) -> list[np.ndarray]:
    """Return the rows and the columns of all entries, which nobody writes to: constants of compiled programs."""
    found = [np.array(a, np.int64) for a in (pattern.rows, pattern.indices)]
    for a in found:
        a.setflags(write=False)
    return found


def product(data: Array, x: Array, *, pattern: Pattern, transposed: bool) -> Array:
    """Return A x, in the same order of additions; a small one that is compiled as equations that machine code knows."""
    real = {np.dtype(v.dtype).kind for v in (data, x)} == {"f"}
    if compiling.get() is None or not real or not 0 < len(pattern.indices) <= _FEW or x.shape[1] != 1:
        return csr_product(data, x, pattern=pattern, transposed=transposed)
    into, inner = _places(pattern)[:: -1 if transposed else 1]
    terms = data * index(x.reshape((-1,)), inner, template=(ARRAY,))
    rows = _dimensions(pattern, transposed)[0]
    return index_add(terms, into, template=(ARRAY,), shape=(rows,)).reshape((rows, 1))


# ── solutions: A x = b for b of shape (n, k) ─────────────────────────────────────────────────────────────────────
#
# ∂x = A⁻¹ (∂b − ∂A x), linear in b, with transpose A⁻ᵀ. Aᵀ is solved with the factors of A.


@functools.lru_cache(maxsize=4)
def _factors(data: bytes, dtype: str, pattern: Pattern):
    """Factorize a matrix given by the bytes of its entries: value, derivative and transpose need the same factors."""
    matrix = pattern.matrix(np.frombuffer(data, dtype), False)
    try:
        return splu(matrix.tocsc())
    except RuntimeError as error:  # "Factor is exactly singular"
        raise np.linalg.LinAlgError(f"the sparse matrix of shape {matrix.shape} is singular") from error


def condition(data: np.ndarray, pattern: Pattern) -> float:
    """Return the condition number of a matrix, its rows and columns scaled, estimated; 1 where all pivots are large."""
    own = floating(data.dtype)
    return _condition(np.asarray(data, own).tobytes(), own.str, pattern)


@functools.lru_cache(maxsize=4)
def _condition(given: bytes, dtype: str, pattern: Pattern) -> float:
    data = np.frombuffer(given, dtype)
    try:
        factors = _factors(given, dtype, pattern)
    except np.linalg.LinAlgError:
        return np.inf
    pivots = np.abs(factors.U.diagonal())
    if pivots.min() > _SMALL * pivots.max():
        return 1.0
    rows = np.maximum.reduceat(np.abs(data), pattern.indptr[:-1])  # none is empty: it would be singular
    scaled = np.abs(pattern.matrix(data / rows[pattern.rows], False))
    columns = scaled.max(axis=0).toarray().ravel()
    inverse = LinearOperator(
        pattern.shape, dtype=data.dtype, matvec=lambda v: columns * factors.solve(rows * v.ravel()),
        rmatvec=lambda v: rows * factors.solve(columns * v.ravel(), "H"),
    )  # fmt: skip
    return float((scaled / columns[None]).sum(0).max() * onenormest(inverse))


def _solve(data, b, *, pattern, transposed):
    own = floating(data.dtype)
    dtype = np.result_type(own, floating(b.dtype))
    if not b.size:
        return np.zeros(b.shape, dtype)
    factors = _factors(np.asarray(data, own).tobytes(), own.str, pattern)
    way = "T" if transposed else "N"
    if dtype.kind == "c" and own.kind != "c":
        real, imaginary = [factors.solve(np.ascontiguousarray(part, own), way) for part in (b.real, b.imag)]
        return (real + 1j * imaginary).astype(dtype)
    return factors.solve(np.ascontiguousarray(b, own), way).astype(dtype)


def _solve_shape(data, b, *, pattern, transposed) -> Aval:
    rows, columns = pattern.shape
    if rows != columns or len(b.shape) != 2 or b.shape[0] != rows:
        raise ValueError(f"a sparse system of shape {pattern.shape} can't have a right-hand side of shape {b.shape}")
    return Aval(b.shape, np.result_type(floating(data.dtype), floating(b.dtype)))


def _solve_samples():
    for n, k, transposed, imaginary, make in (
        (4, 2, False, 0, anywhere()), (4, 1, True, 0, anywhere()), (1, 1, False, 0, anywhere()),
        (3, 0, False, 0, anywhere()), (3, 2, True, 0, complex_normal), (3, 1, False, 0.5j, anywhere()),
    ):  # fmt: skip
        pattern = _example(n, n)
        yield _dominant(pattern, imaginary), make(n, k), {"pattern": pattern, "transposed": transposed}


def _dominant(pattern: Pattern, imaginary: complex):
    diagonal = np.where(pattern.indices == pattern.rows, 4.0, 0.0)
    return lambda rng: diagonal + rng.normal(size=diagonal.shape) * (1 + imaginary)


csr_solve = solution(
    "csr_solve",
    csr_product,
    impl=_solve,
    abstract_eval=_solve_shape,
    back=lambda ct, data, *, pattern, transposed: csr_solve(data, ct, pattern=pattern, transposed=not transposed),
    batch=lambda size, values, mapped, **params: _batch(size, values, mapped, csr_solve, **params),
    samples=list(_solve_samples()),
    blocks="one",
)
