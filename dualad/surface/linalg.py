"""The functions of ``numpy.linalg``.

Not for: their rules (``ops/factorization.py``, ``ops/determinant.py``, ``ops/spectral.py``, ``ops/reductions.py``).
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from ..core.aval import Array, Axis
from ..errors import UnsupportedError
from ..memory.order import in_order
from ..ops import determinant, factorization, reductions, spectral
from .arguments import (
    UNSET,
    array_operand,
    function,
    inexact_operand,
    normalize_axes,
    numpys_own,
    operand,
    operands,
)

# The named tuples that NumPy answers with, which have no public name.
_EighResult = type(np.linalg.eigh(np.eye(1)))
_EigResult = type(np.linalg.eig(np.eye(1)))
_QRResult = type(np.linalg.qr(np.eye(1)))
_SlogdetResult = type(np.linalg.slogdet(np.eye(1)))
_SVDResult = type(np.linalg.svd(np.eye(1)))


def _matrix(a):
    return factorization.matrix(array_operand(a))


def _square(a):
    return factorization.square(array_operand(a))


# ── products: NumPy's other names for them ───────────────────────────────────────────────────────────────────────


numpys_own(
    np.linalg.cross, np.linalg.diagonal, np.linalg.matmul, np.linalg.matrix_power, np.linalg.multi_dot, np.linalg.outer,
    np.linalg.tensordot, np.linalg.tensorinv, np.linalg.trace, np.linalg.vecdot, kind="composite",
)  # fmt: skip


# ── systems ──────────────────────────────────────────────────────────────────────────────────────────────────────


@function(np.linalg.solve)
def solve(a: Array, b: Array) -> Array:
    a, b = operands(a, b)
    if np.ndim(b) == 1:
        return np.reshape(x := factorization.solve(a, np.reshape(b, (-1, 1))), x.shape[:-1])
    return factorization.solve(a, b)


@function(np.linalg.inv)
def inv(a: Array) -> Array:
    return factorization.inv(_square(a))


@function(np.linalg.tensorsolve, kind="composite")
def tensorsolve(a: Array, b: Array, axes: Any = None) -> Array:
    a, b = array_operand(a), operand(b)
    if axes is not None:
        order = [i for i in range(a.ndim) if i not in [k % a.ndim for k in axes]]
        a = np.transpose(a, order + [k % a.ndim for k in axes])
    shape = a.shape[np.ndim(b) :]
    size = math.prod(shape)
    if a.size != size**2:
        raise LinAlgError("Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])")
    return np.reshape(np.linalg.solve(np.reshape(a, (size, size)), np.reshape(b, -1)), shape)


@function(np.linalg.pinv)
def pinv(a: Array, rcond: Array = None, hermitian: bool = False, *, rtol: Any = UNSET) -> Array:
    a = _square(a) if hermitian else _matrix(a)
    if rcond is not None and rtol is not UNSET:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if rcond is None:
        rcond = 1e-15 if rtol is UNSET else rtol
    if rcond is None:
        rcond = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)
    return factorization.pinv(factorization.hermitian(a) if hermitian else a, operand(rcond))


@function(np.linalg.lstsq, kind="composite")
def lstsq(a: Array, b: Array, rcond: Array = None) -> tuple:
    """Least squares of minimal norm, by the pseudoinverse.

    Derivatives are along perturbations that keep the rank. The residuals are empty where NumPy's are because a has
    no more rows than columns; where NumPy's would be empty because the rank is deficient they are given, since a
    program or a batch must have one shape.
    """
    a, b = operands(a, b)
    for x in (a, b if np.ndim(b) != 1 else a):
        if np.ndim(x) != 2:
            raise LinAlgError(f"{np.ndim(x)}-dimensional array given. Array must be two-dimensional")
    m, n = a.shape
    if m != b.shape[0]:
        raise LinAlgError("Incompatible dimensions")
    dtype = np.result_type(a.dtype, b.dtype, np.float32)
    eps = float(np.finfo(dtype).eps)
    a = a if a.dtype == dtype else a.astype(dtype)
    rcond = eps * max(m, n) if rcond is None else eps if rcond == -1 else rcond
    x = np.linalg.pinv(a, rcond) @ b
    values = np.linalg.svdvals(a)
    if m > n:
        rest = b - a @ x
        squares = np.real(rest) ** 2 + np.imag(rest) ** 2 if rest.dtype.kind == "c" else rest * rest
        residuals = np.reshape(np.sum(squares, axis=0), (-1,))
    else:
        residuals = np.zeros(0, values.dtype)
    return x, residuals, np.linalg.matrix_rank(a, rtol=rcond).astype(np.int32), values


@function(np.linalg.matrix_rank)
def matrix_rank(A: Array, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    A = operand(A)
    if np.ndim(A) < 2:
        return np.any(A != 0).astype(int)
    return factorization.matrix_rank(A, tol=tol, rtol=rtol, hermitian=bool(hermitian))


@function(np.linalg.cholesky)
def cholesky(a: Array, /, *, upper: bool = False) -> Array:
    """Factorize A = L Lᴴ, reading one triangle of A; the derivative is with respect to that triangle."""
    a = _square(a)
    adjoint, factor = factorization.adjoint, factorization.cholesky
    return in_order(adjoint(factor(adjoint(a))), "C") if upper else factor(a)


@function(np.linalg.qr)
def qr(a: Array, mode: str = "reduced") -> Array:
    """Factorize A = Q R; the columns that ``mode="complete"`` adds to Q move as little as keeps Q unitary."""
    a = _matrix(a)
    if mode == "r":
        return factorization.qr(a)[1]
    if mode not in ("reduced", "complete"):
        raise UnsupportedError(
            f"np.linalg.qr(a, {mode!r}) is not supported on tensors.",
            "it gives LAPACK's Householder reflectors, which no rule is declared for",
            "use mode='reduced' or mode='r'",
        )
    complete = mode == "complete" and a.shape[-2] > a.shape[-1]
    return _QRResult(*factorization.qr(a, **({"complete": True} if complete else {})))


# ── determinants ─────────────────────────────────────────────────────────────────────────────────────────────────


@function(np.linalg.det)
def det(a: Array) -> Array:
    return determinant.det(_square(a))


@function(np.linalg.slogdet)
def slogdet(a: Array) -> Array:
    return _SlogdetResult(*determinant.slogdet(_square(a)))


# ── eigenvalues and singular values ──────────────────────────────────────────────────────────────────────────────


def _triangle(UPLO: str) -> str:
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return UPLO.upper()


@function(np.linalg.eigh)
def eigh(a: Array, UPLO: str = "L") -> Array:
    return _EighResult(*spectral.eigh(_square(a), uplo=_triangle(UPLO)))


@function(np.linalg.eigvalsh)
def eigvalsh(a: Array, UPLO: str = "L") -> Array:
    return spectral.eigvalsh(_square(a), uplo=_triangle(UPLO))


@function(np.linalg.eig)
def eig(a: Array) -> Array:
    """Eigenvalues and eigenvectors; of complex dtype even where NumPy, finding them all real, returns floats."""
    return _EigResult(*spectral.eig(_square(a)))


@function(np.linalg.eigvals)
def eigvals(a: Array) -> Array:
    """Eigenvalues; of complex dtype even where NumPy, finding them all real, returns floats."""
    return spectral.eigvals(_square(a))


@function(np.linalg.svd)
def svd(a: Array, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Array:
    """Factorize A = U S Vᴴ; the vectors that ``full_matrices`` adds move as little as keeps U and V unitary."""
    a = _matrix(a)
    if hermitian:
        return _svd_of_hermitian(a, compute_uv)
    if not compute_uv:
        return spectral.svdvals(a)
    full = full_matrices and a.shape[-1] != a.shape[-2]
    return _SVDResult(*spectral.svd(a, **({"full": True} if full else {})))


def _svd_of_hermitian(a, compute_uv: bool):
    if not compute_uv:
        return np.flip(np.sort(np.abs(np.linalg.eigvalsh(a)), axis=-1), axis=-1)
    values, u = np.linalg.eigh(a)
    order = np.flip(np.argsort(np.abs(values), axis=-1), axis=-1)
    values = np.take_along_axis(values, order, axis=-1)
    u = np.take_along_axis(u, np.expand_dims(order, -2), axis=-1)
    sign = np.where(np.signbit(values), -np.ones((), values.dtype), np.ones((), values.dtype))
    return _SVDResult(u, np.abs(values), factorization.adjoint(u * np.expand_dims(sign, -2)))


@function(np.linalg.svdvals)
def svdvals(x: Array, /) -> Array:
    return spectral.svdvals(_matrix(x))


@function(np.linalg.cond, kind="composite")
def cond(x: Array, p: Array = None) -> Array:
    x = _matrix(x)
    if 0 in x.shape[-2:]:
        raise LinAlgError("cond is not defined on empty arrays")
    if p is None or p in (2, -2):
        s = np.linalg.svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return np.linalg.norm(x, p, axis=(-2, -1)) * np.linalg.norm(np.linalg.inv(x), p, axis=(-2, -1))


# ── norms ────────────────────────────────────────────────────────────────────────────────────────────────────────


@function(np.linalg.norm)
def norm(x: Array, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    x = inexact_operand(x)
    ndim = np.ndim(x)
    if axis is None and (ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1)):
        return _vector_norm(x, 2, tuple(range(ndim)), keepdims)
    if axis is not None and not isinstance(axis, tuple):
        try:
            axis = operator.index(axis)
        except TypeError:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from None
    axes = normalize_axes(axis, ndim, "np.linalg.norm")
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


@function(np.linalg.vector_norm)
def vector_norm(x: Array, /, *, axis: Axis = None, keepdims: bool = False, ord: int = 2) -> Array:
    x = inexact_operand(x)
    return _vector_norm(x, ord, normalize_axes(axis, np.ndim(x), "np.linalg.vector_norm"), keepdims)


@function(np.linalg.matrix_norm)
def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: str = "fro") -> Array:
    x = inexact_operand(_matrix(x))
    return _matrix_norm(x, ord, (x.ndim - 2, x.ndim - 1), keepdims)


def _vector_norm(x, ord, axes: tuple[int, ...], keepdims: bool):
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord == math.inf:
        return np.max(np.abs(x), axis=axes, keepdims=keepdims, initial=0)
    if ord == -math.inf:
        return np.min(np.abs(x), axis=axes, keepdims=keepdims)
    if ord == 0:
        return np.sum((x != 0).astype(np.zeros((), x.dtype).real.dtype), axis=axes, keepdims=keepdims)
    if ord == 1:
        return np.sum(np.abs(x), axis=axes, keepdims=keepdims)
    return _restore_axes(reductions.vector_norm(x, ord=ord, axes=axes), x, axes, keepdims)


def _matrix_norm(x, ord, axes: tuple[int, int], keepdims: bool):
    if ord in (None, "fro", "f"):
        return _restore_axes(reductions.vector_norm(x, ord=2, axes=axes), x, axes, keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        row, column = axes if abs(ord) == 1 else axes[::-1]
        sums = np.sum(np.abs(x), axis=row, keepdims=True)
        out = (
            np.max(sums, axis=column, keepdims=True, initial=0) if ord > 0 else np.min(sums, axis=column, keepdims=True)
        )
        return out if keepdims else np.reshape(out, [n for i, n in enumerate(x.shape) if i not in axes])
    if ord not in (2, -2, "nuc"):
        raise ValueError("Invalid norm order for matrices.")
    x_last = np.moveaxis(x, axes, (-2, -1))
    if ord == "nuc":
        return _restore_axes(spectral.nuclear_norm(x_last), x, axes, keepdims)
    values = np.linalg.svdvals(x_last)
    return _restore_axes(np.max(values, axis=-1, initial=0) if ord == 2 else np.min(values, axis=-1), x, axes, keepdims)


def _restore_axes(out, x, axes: tuple[int, ...], keepdims: bool):
    """Give a reduced result its axes back, of size one."""
    return np.reshape(out, [1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdims else out
