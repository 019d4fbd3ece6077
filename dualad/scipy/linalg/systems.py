"""Linear systems: general and structured ones, least squares, Sylvester's and Lyapunov's equations.

Derivatives are those of the function that LAPACK computes, which reads one triangle of a symmetric or triangular
matrix: the gradient is zero in the other. Not for: rules (``ops/``).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sl

from ...errors import UnsupportedError
from ...jvp import jvp, stop_gradient
from ...ops import banded, factorization, triangular
from ...ops.factorization import adjoint, transposed
from ...ops.matrix_functions import sylvester
from ...rules.custom_jvp import custom_jvp
from ...rules.wrap import wrap
from ...surface.arguments import operand, operands
from ..mirror import mirrors
from .constructions import circulant, toeplitz

__all__ = [
    "cho_factor", "cho_solve", "det", "inv", "lstsq", "lu_solve", "matmul_toeplitz", "norm", "pinv", "pinvh", "solve",
    "solve_banded", "solve_circulant", "solve_continuous_are", "solve_continuous_lyapunov", "solve_discrete_are",
    "solve_discrete_lyapunov", "solve_lyapunov", "solve_sylvester", "solve_toeplitz", "solve_triangular",
    "solveh_banded",
]  # fmt: skip


def square(a):
    """Return a square matrix, or a stack of them."""
    a = np.atleast_2d(operand(a))
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(f"expected square matrix, got one of shape {a.shape}")
    return a


def from_triangle(a, lower: bool, conjugate: bool = True):
    """Return the Hermitian (or complex symmetric) matrix of which one triangle of ``a`` is given."""
    if conjugate:
        return factorization.hermitian(a if lower else adjoint(a))
    part = triangular.triangle(a, lower, True)
    return part + transposed(part) + np.where(np.eye(a.shape[-1], dtype=bool), a, np.zeros((), a.dtype))


def _columns(function, b):
    """Solve for a matrix of right-hand sides, or for one vector."""
    b = operand(b)
    return function(np.expand_dims(b, -1))[..., 0] if np.ndim(b) == 1 else function(np.atleast_1d(b))


def _triangular(a, b, lower: bool, unit: bool = False):
    return triangular.triangular_solve(a, b, lower=bool(lower), unit=bool(unit))


_STRUCTURES = {"gen": "general", "sym": "symmetric", "her": "hermitian", "pos": "positive definite"}
_GENERAL = (None, "general", "banded")


def _structure(a, assume_a: str | None, lower: bool, name: str):
    """Return the matrix that SciPy solves with under an assumption, and whether it is triangular (which one)."""
    kind = _STRUCTURES.get(assume_a, assume_a)
    if kind in _GENERAL:
        return a, None
    if kind in ("upper triangular", "lower triangular"):
        return a, kind
    if kind in ("symmetric", "hermitian", "positive definite"):
        return from_triangle(a, lower, conjugate=kind != "symmetric"), None
    if kind in ("diagonal", "tridiagonal"):
        i = np.arange(a.shape[-1])
        inside = abs(i[:, None] - i) <= (kind == "tridiagonal")
        return np.where(inside, a, np.zeros((), a.dtype)), None
    raise ValueError(f"scipy.linalg.{name}: {assume_a} is not a recognized matrix structure")


@mirrors(sl.solve)
def solve(a, b, lower=False, overwrite_a=False, overwrite_b=False, check_finite=True, assume_a=None, transposed=False):
    """Solve a x = b.

    On tensors no structure is looked for, and a matrix assumed to be positive definite is not checked to be.
    """
    a = square(a)
    if transposed and a.dtype.kind == "c":
        raise NotImplementedError("scipy.linalg.solve can currently not solve a^T x = b for complex matrices.")
    a, triangle = _structure(a, assume_a, lower, "solve")
    below = triangle == "lower triangular"
    if transposed:
        a, below = np.swapaxes(a, -1, -2), triangle == "upper triangular"
    if triangle:
        return _columns(lambda b: _triangular(a, b, below), b)
    return _columns(lambda b: factorization.solve(a, b), b)


@mirrors(sl.inv)
def inv(a, overwrite_a=False, check_finite=True, *, assume_a=None, lower=False):
    """Invert matrices."""
    a, triangle = _structure(square(a), assume_a, lower, "inv")
    if triangle:
        return _triangular(a, np.eye(a.shape[-1], dtype=a.dtype), triangle == "lower triangular")
    return np.linalg.inv(a)


@mirrors(sl.det)
def det(a, overwrite_a=False, check_finite=True):
    """Compute determinants."""
    return np.linalg.det(square(a))


@mirrors(sl.norm)
def norm(a, ord=None, axis=None, keepdims=False, check_finite=True):
    """Compute a norm of vectors or matrices."""
    return np.linalg.norm(a, ord, axis, keepdims)


# ── triangular systems and factorizations as solvers ─────────────────────────────────────────────────────────────


def _which(trans) -> int:
    found = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}.get(trans)
    if found is None:
        raise ValueError(f"trans must be 0, 1, 2, 'N', 'T' or 'C', not {trans!r}")
    return found


@mirrors(sl.solve_triangular, "op")
def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, check_finite=True):
    """Solve a x = b, aᵀ x = b or aᴴ x = b with one triangle of a."""
    a, trans = square(a), _which(trans)
    if trans:
        a, lower = transposed(a) if trans == 1 else adjoint(a), not lower
    return _columns(lambda b: _triangular(a, b, lower, unit_diagonal), b)


@mirrors(sl.cho_factor)
def cho_factor(a, lower=False, overwrite_a=False, check_finite=True):
    """Factorize a positive definite matrix for ``cho_solve``; what SciPy leaves in the other triangle is zero here."""
    factor = np.linalg.cholesky(from_triangle(square(a), lower))
    return (factor if lower else adjoint(factor)), lower


@mirrors(sl.cho_solve)
def cho_solve(c_and_lower, b, overwrite_b=False, check_finite=True):
    """Solve a x = b, given the Cholesky factor of a."""
    c, lower = c_and_lower
    c = square(c)
    ch = adjoint(c)
    if lower:
        return _columns(lambda b: _triangular(ch, _triangular(c, b, True), False), b)
    return _columns(lambda b: _triangular(c, _triangular(ch, b, True), False), b)


@mirrors(sl.lu_solve)
def lu_solve(lu_and_piv, b, trans=0, overwrite_b=False, check_finite=True):
    """Solve a x = b, aᵀ x = b or aᴴ x = b, given the LU factorization of a."""
    factors, pivots = lu_and_piv
    factors, trans = square(factors), _which(trans)
    order = triangular.permutation(operand(pivots), rows=factors.shape[-1])

    def rows(b, order):
        stack = np.broadcast_shapes(order.shape[:-1], b.shape[:-2])
        b = np.broadcast_to(b, (*stack, *b.shape[-2:]))
        index = np.broadcast_to(order, (*stack, order.shape[-1]))
        return np.take_along_axis(b, np.expand_dims(index, -1), axis=-2)

    def forward(b):
        return _triangular(factors, _triangular(factors, rows(b, order), True, True), False)

    def backward(b):
        flipped = transposed(factors) if trans == 1 else adjoint(factors)
        x = _triangular(flipped, _triangular(flipped, b, True), False, True)
        return rows(x, np.argsort(order, axis=-1))

    return _columns(backward if trans else forward, b)


# ── Toeplitz and circulant systems ───────────────────────────────────────────────────────────────────────────────


def _toeplitz(c_or_cr):
    return toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else toeplitz(c_or_cr)


@mirrors(sl.solve_toeplitz)
def solve_toeplitz(c_or_cr, b, check_finite=True):
    """Solve a Toeplitz system; on tensors as a general one, in n³ steps instead of n²."""
    t = _toeplitz(c_or_cr)
    return _columns(lambda b: factorization.solve(t, b), b)


@mirrors(sl.matmul_toeplitz)
def matmul_toeplitz(c_or_cr, x, check_finite=False, workers=None):
    """Multiply by a Toeplitz matrix."""
    return _toeplitz(c_or_cr) @ operand(x)


@mirrors(sl.solve_circulant)
def solve_circulant(c, b, singular="raise", tol=None, caxis=-1, baxis=0, outaxis=0):
    """Solve a circulant system; on tensors as a general one, in n³ steps."""
    if singular != "raise" or (caxis, baxis, outaxis) != (-1, 0, 0):
        raise UnsupportedError(
            "scipy.linalg.solve_circulant with singular='lstsq' or other axes is not supported on tensors.",
            "the number of terms that are dropped depends on values",
            "use scipy.linalg.circulant(c) with dualad.scipy.linalg.lstsq or pinv",
        )
    return _columns(lambda b: factorization.solve(circulant(c), b), b)


# ── banded matrices ──────────────────────────────────────────────────────────────────────────────────────────────


@mirrors(sl.solve_banded, "op")
def solve_banded(l_and_u, ab, b, overwrite_ab=False, overwrite_b=False, check_finite=True):
    """Solve a system whose matrix is given by its diagonals."""
    lower, upper = l_and_u
    ab = np.atleast_2d(operand(ab))
    return _columns(lambda b: banded.banded_solve(ab, b, lower=int(lower), upper=int(upper)), b)


@mirrors(sl.solveh_banded)
def solveh_banded(ab, b, overwrite_ab=False, overwrite_b=False, lower=False, check_finite=True):
    """Solve a system whose Hermitian matrix is given by the diagonals on one side.

    That the matrix is positive definite is not checked on tensors.
    """
    ab = np.atleast_2d(operand(ab))
    width = ab.shape[-2] - 1
    if ab.dtype.kind == "c":
        main = np.arange(width + 1)[:, None] == (0 if lower else width)
        ab = np.where(main, np.real(ab), ab)
    if lower:
        ab = np.concatenate([np.conj(banded.transpose_bands(ab, width, 0)), ab[..., 1:, :]], axis=-2)
    else:
        ab = np.concatenate([ab, np.conj(banded.transpose_bands(ab, 0, width))[..., 1:, :]], axis=-2)
    return _columns(lambda b: banded.banded_solve(ab, b, lower=width, upper=width), b)


# ── least squares ────────────────────────────────────────────────────────────────────────────────────────────────


def _cutoff(a, atol, rtol):
    """Return the relative cutoff of singular values that SciPy's two tolerances amount to, and the absolute one."""
    eps = float(np.finfo(factorization.floating(a.dtype)).eps)
    rtol = max(a.shape[-2:]) * eps if rtol is None else rtol
    values = stop_gradient(np.linalg.svdvals(a))
    largest = np.max(values, axis=-1, initial=0)
    value = (0.0 if atol is None else atol) + largest * rtol
    rank = np.sum(values > np.expand_dims(value, -1), axis=-1)
    return (rtol if not atol else value / np.where(largest == 0, np.ones((), values.dtype), largest)), rank


@mirrors(sl.pinv)
def pinv(a, *, atol=None, rtol=None, return_rank=False, check_finite=True):
    """Compute pseudoinverses; derivatives are along perturbations that keep the rank."""
    a = np.atleast_2d(operand(a))
    relative, rank = _cutoff(a, atol, rtol)
    out = np.linalg.pinv(a, relative)
    return (out, rank) if return_rank else out


@mirrors(sl.pinvh)
def pinvh(a, atol=None, rtol=None, lower=True, return_rank=False, check_finite=True):
    """Compute pseudoinverses of Hermitian matrices, of which one triangle is read."""
    return pinv(from_triangle(square(a), lower), atol=atol, rtol=rtol, return_rank=return_rank)


@mirrors(sl.lstsq)
def lstsq(a, b, cond=None, overwrite_a=False, overwrite_b=False, check_finite=True, lapack_driver=None):
    """Solve in the sense of least squares and of minimal norm.

    Derivatives are along perturbations that keep the rank; residuals are given also where the rank is deficient.
    """
    a, b = operands(a, b)
    if cond is None:
        cond = float(np.finfo(factorization.floating(np.result_type(a.dtype, b.dtype))).eps)
    x, residuals, rank, values = np.linalg.lstsq(a, b, cond)
    if np.ndim(b) == 1 and residuals.shape == (1,):
        residuals = residuals[0]
    return x, residuals, rank, values


# ── Sylvester's and Lyapunov's equations ─────────────────────────────────────────────────────────────────────────


@mirrors(sl.solve_sylvester, "op")
def solve_sylvester(a, b, q):
    """Solve a x + x b = q."""
    return sylvester(*operands(a, b, q))


@mirrors(sl.solve_continuous_lyapunov)
def solve_continuous_lyapunov(a, q):
    """Solve a x + x aᴴ = q."""
    a, q = operands(a, q)
    return sylvester(a, adjoint(a), q)


@mirrors(sl.solve_lyapunov)
def solve_lyapunov(a, q):
    """Solve a x + x aᴴ = q."""
    return solve_continuous_lyapunov(a, q)


@mirrors(sl.solve_discrete_lyapunov)
def solve_discrete_lyapunov(a, q, method=None):
    """Solve a x aᴴ − x + q = 0."""
    a, q = square(a), operand(q)
    n = a.shape[-1]
    method = ("direct" if n < 10 else "bilinear") if method is None else method.lower()
    if method == "direct":
        # In rows of x: (1 − a ⊗ a̅) x = q.
        left = np.reshape(np.einsum("...ij,...kl->...ikjl", a, np.conj(a)), (*a.shape[:-2], n * n, n * n))
        right = np.reshape(q, (*q.shape[:-2], n * n, 1))
        return np.reshape(x := factorization.solve(np.eye(n * n) - left, right), (*x.shape[:-2], n, n))
    if method != "bilinear":
        raise ValueError(f"Unknown solver {method}")
    # Cayley's transform b of aᴴ turns it into bᴴ x + x b = −c.
    one, ah = np.eye(n), adjoint(a)
    right = np.linalg.inv(ah + one)
    b = (ah - one) @ right
    c = 2 * np.linalg.inv(a + one) @ q @ right
    return sylvester(adjoint(b), b, -c)


# ── Riccati's equations ──────────────────────────────────────────────────────────────────────────────────────────
#
# The stabilizing solution x of F(x; a, b, q, r) = 0 moves by what keeps F at zero. With the closed loop c = a − b k,
#
#   continuous   F = aᴴx + xa − xb r⁻¹ bᴴx + q                   k = r⁻¹ bᴴx                ∂F/∂x dx = cᴴ dx + dx c
#   discrete     F = aᴴxa − x − aᴴxb (r + bᴴxb)⁻¹ bᴴxa + q       k = (r + bᴴxb)⁻¹ bᴴxa      ∂F/∂x dx = cᴴ dx c − dx
#
# so dx solves an equation of Lyapunov's, whose right-hand side is F differentiated in a, b, q and r. A matrix e beside
# the derivative of the state, and the cross term s, are taken away first, by x-free changes of a, b and q.


def _continuous_residual(x, a, b, q, r):
    ah, bh = adjoint(a), adjoint(b)
    return ah @ x + x @ a - x @ b @ factorization.solve(r, bh @ x) + q


def _discrete_residual(x, a, b, q, r):
    xa, xb = x @ a, x @ b
    return adjoint(a) @ xa - x - adjoint(a) @ xb @ factorization.solve(r + adjoint(b) @ xb, adjoint(b) @ xa) + q


def _continuous_change(x, moved, a, b, q, r):
    closed = a - b @ factorization.solve(r, adjoint(b) @ x)
    return sylvester(adjoint(closed), closed, -moved)


def _discrete_change(x, moved, a, b, q, r):
    closed = a - b @ factorization.solve(r + adjoint(b) @ x @ b, adjoint(b) @ x @ a)
    return solve_discrete_lyapunov(adjoint(closed), moved)


def _riccati(original, residual, change, words: str):
    def stabilizing(*parts):
        like = np.zeros(np.shape(parts[0]), np.result_type(*parts))
        return wrap(original, like=like)(*parts)

    solve_it = custom_jvp(stabilizing)

    @solve_it.defjvp
    def rule(primals, tangents):
        x = solve_it(*primals)
        moved = jvp(lambda *parts: residual(x, *parts), primals, tangents)[1]
        return x, change(x, moved, *primals)

    def function(a, b, q, r, e=None, s=None, balanced=True):
        a, b, q, r = [np.atleast_2d(operand(part)) for part in (a, b, q, r)]
        if e is not None:
            over = lambda part: adjoint(factorization.solve(adjoint(operand(e)), adjoint(part)))  # part e⁻¹
            a, q = over(a), over(adjoint(over(adjoint(q))))
            s = None if s is None else adjoint(over(adjoint(operand(s))))
        if s is not None:
            inner = factorization.solve(r, adjoint(operand(s)))
            a, q = a - b @ inner, q - operand(s) @ inner
        dtype = np.result_type(a, b, q, r, np.float64)
        return solve_it(*[part.astype(dtype) for part in (a, b, q, r)])

    return mirrors(original, "composite", words)(function)


solve_continuous_are = _riccati(
    sl.solve_continuous_are, _continuous_residual, _continuous_change,
    "Solve Riccati's equation eᴴ x a + aᴴ x e − (eᴴ x b + s) r⁻¹ (bᴴ x e + sᴴ) + q = 0.",
)  # fmt: skip
solve_discrete_are = _riccati(
    sl.solve_discrete_are, _discrete_residual, _discrete_change,
    "Solve Riccati's equation aᴴxa − eᴴxe − (aᴴxb + s) (r + bᴴxb)⁻¹ (bᴴxa + sᴴ) + q = 0.",
)  # fmt: skip
