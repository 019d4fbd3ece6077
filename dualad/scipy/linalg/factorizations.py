"""Factorizations: Cholesky, LU, QR, polar, eigenvalues (generalized too), singular values.

Factors that are determined only up to a choice of basis are refused, with the reason. Not for: rules (``ops/``).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sl

from ...errors import UnsupportedError
from ...ops import factorization, spectral, triangular
from ...ops.factorization import adjoint
from ...surface.arguments import operand
from ..mirror import mirrors, refuses
from .systems import from_triangle, square

__all__ = [
    "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "hessenberg", "ldl", "lu", "lu_factor", "null_space", "ordqz",
    "orth", "polar", "qr", "qz", "schur", "svd", "svdvals",
]  # fmt: skip


def _matrix(a):
    a = operand(a)
    if np.ndim(a) < 2:
        raise ValueError("The input array must be at least two-dimensional.")
    return a


def _square(a):
    return square(_matrix(a))


@mirrors(sl.cholesky)
def cholesky(a, lower=False, overwrite_a=False, check_finite=True):
    """Factorize a = Uᴴ U, or L Lᴴ, reading one triangle of a; the derivative is with respect to that triangle."""
    factor = np.linalg.cholesky(from_triangle(_square(a), lower))
    return factor if lower else adjoint(factor)


# ── LU ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@mirrors(sl.lu_factor, "op")
def lu_factor(a, overwrite_a=False, check_finite=True):
    """Factorize a = P L U; both factors in one matrix, and LAPACK's interchanges of rows."""
    return triangular.lu(_matrix(a))


@mirrors(sl.lu)
def lu(a, permute_l=False, overwrite_a=False, check_finite=True, p_indices=False):
    """Factorize a = P L U."""
    factors, pivots = triangular.lu(_matrix(a))
    m, n = factors.shape[-2:]
    k = min(m, n)
    zero = np.zeros((), factors.dtype)
    below = factorization.strictly_lower(m, k)
    lower = np.where(below, factors[..., :k], zero) + np.eye(m, k, dtype=factors.dtype)
    upper = np.where(factorization.strictly_lower(k, n), zero, factors[..., :k, :])
    order = triangular.permutation(pivots, rows=m)
    if permute_l or p_indices:
        back = np.argsort(order, axis=-1)
        if permute_l:
            return np.take_along_axis(lower, np.expand_dims(back, -1), axis=-2), upper
        return back.astype(np.int32), lower, upper
    real = np.zeros((), factors.dtype).real.dtype
    ones = np.expand_dims(order, -2) == np.arange(m)[:, None]
    return ones.astype(real), lower, upper


# ── QR and polar ─────────────────────────────────────────────────────────────────────────────────────────────────


@mirrors(sl.qr)
def qr(a, overwrite_a=False, lwork=None, mode="full", pivoting=False, check_finite=True):
    """Factorize a = Q R; with ``pivoting`` the columns of a in the order that is returned last.

    The columns that ``mode="full"`` adds to Q move as little as keeps Q unitary.
    """
    a = _matrix(a)
    m, n = a.shape[-2:]
    if mode == "raw":
        raise UnsupportedError(
            "scipy.linalg.qr(mode='raw') is not supported on tensors.",
            "it gives LAPACK's Householder reflectors, which no rule is declared for",
            "use mode='economic' or mode='r'",
        )
    if mode not in ("full", "qr", "r", "economic"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    rest = ()
    if pivoting:
        order = triangular.column_order(a)
        a, rest = np.take_along_axis(a, np.expand_dims(order, -2), axis=-1), (order,)
    q, r = np.linalg.qr(a, "complete" if mode in ("full", "qr") else "reduced")
    if mode == "r":
        if m > n:
            r = np.concatenate([r, np.zeros((*r.shape[:-2], m - n, n), r.dtype)], axis=-2)
        return r, *rest
    return q, r, *rest


@mirrors(sl.polar)
def polar(a, side="right"):
    """Factorize a = U P (or P U); derivatives exist where a has full rank."""
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    a = _matrix(a)
    u = spectral.unitary_factor(a, polar=True)
    p = adjoint(u) @ a if side == "right" else a @ adjoint(u)
    return u, 0.5 * (p + adjoint(p))


# ── eigenvalues ──────────────────────────────────────────────────────────────────────────────────────────────────


def _select(subset_by_index, subset_by_value) -> slice:
    if subset_by_value is not None:
        raise UnsupportedError(
            "scipy.linalg.eigh: subset_by_value was given with tensors.",
            "how many eigenvalues lie in an interval depends on values",
            "use subset_by_index",
        )
    return slice(None) if subset_by_index is None else slice(int(subset_by_index[0]), int(subset_by_index[1]) + 1)


def _reduce(a, b, lower: bool, type: int):
    """Return the Hermitian matrix of the standard problem, and what takes its eigenvectors back."""
    a = from_triangle(_square(a), lower)
    if b is None:
        return a, lambda y: y
    if type not in (1, 2, 3):
        raise ValueError('"type" keyword only accepts 1, 2, and 3.')
    factor = np.linalg.cholesky(from_triangle(_square(b), lower))
    if type == 1:  # a v = w b v

        def inverse(x):
            return triangular.triangular_solve(factor, x, lower=True, unit=False)

        standard = inverse(adjoint(inverse(a)))
    else:  # a b v = w v, b a v = w v
        standard = adjoint(factor) @ a @ factor
    if type == 3:
        return standard, lambda y: factor @ y
    return standard, lambda y: triangular.triangular_solve(adjoint(factor), y, lower=False, unit=False)


@mirrors(sl.eigh)
def eigh(
    a, b=None, *, lower=True, eigvals_only=False, overwrite_a=False, overwrite_b=False, type=1, check_finite=True,
    subset_by_index=None, subset_by_value=None, driver=None,
):  # fmt: skip
    """Compute eigenvalues and eigenvectors of Hermitian matrices, also of a generalized problem.

    Signs and phases of eigenvectors are those of ``driver="evd"``, where SciPy's default is ``"evr"``.
    """
    chosen = _select(subset_by_index, subset_by_value)
    standard, back = _reduce(a, b, lower, type)
    if eigvals_only:
        return np.linalg.eigvalsh(standard)[..., chosen]
    w, y = np.linalg.eigh(standard)
    return w[..., chosen], back(y)[..., chosen]


@mirrors(sl.eigvalsh)
def eigvalsh(
    a, b=None, *, lower=True, overwrite_a=False, overwrite_b=False, type=1, check_finite=True, subset_by_index=None,
    subset_by_value=None, driver=None,
):  # fmt: skip
    """Compute eigenvalues of Hermitian matrices, also of a generalized problem."""
    standard, _ = _reduce(a, b, lower, type)
    return np.linalg.eigvalsh(standard)[..., _select(subset_by_index, subset_by_value)]


@mirrors(sl.eig)
def eig(
    a, b=None, left=False, right=True, overwrite_a=False, overwrite_b=False, check_finite=True,
    homogeneous_eigvals=False,
):  # fmt: skip
    """Compute eigenvalues and right eigenvectors, all of complex dtype."""
    if left or homogeneous_eigvals or (right and b is not None):
        raise UnsupportedError(
            "scipy.linalg.eig was asked for left, generalized or homogeneous eigenvectors of tensors.",
            "no rule is declared for how LAPACK normalizes them",
            "take right eigenvectors of a (or of solve(b, a)); left ones are the columns of np.linalg.inv(v).conj().T",
        )
    if not right:
        return eigvals(a, b)
    return tuple(np.linalg.eig(_square(a)))


@mirrors(sl.eigvals)
def eigvals(a, b=None, overwrite_a=False, check_finite=True, homogeneous_eigvals=False, *, overwrite_b=False):
    """Compute eigenvalues, of complex dtype; of a generalized problem those of b⁻¹ a, so b must be regular."""
    if homogeneous_eigvals:
        raise UnsupportedError(
            "scipy.linalg.eigvals(homogeneous_eigvals=True) was called on tensors.",
            "pairs (alpha, beta) are determined up to a factor",
            "use their quotients: homogeneous_eigvals=False",
        )
    a = _square(a)
    return np.linalg.eigvals(a if b is None else np.linalg.solve(_square(b), a))


# ── singular values ──────────────────────────────────────────────────────────────────────────────────────────────


@mirrors(sl.svd)
def svd(a, full_matrices=True, compute_uv=True, overwrite_a=False, check_finite=True, lapack_driver="gesdd"):
    """Compute singular values and vectors; those ``full_matrices`` adds move as little as keeps U and V unitary."""
    if not compute_uv:
        return np.linalg.svdvals(_matrix(a))
    return tuple(np.linalg.svd(_matrix(a), full_matrices))


@mirrors(sl.svdvals)
def svdvals(a, overwrite_a=False, check_finite=True):
    """Compute singular values."""
    return np.linalg.svdvals(_matrix(a))


# ── indeterminate factors ────────────────────────────────────────────────────────────────────────────────────────

_ANY_BASIS = "its columns are any basis of a space whose dimension depends on values, so they have no derivative"

null_space = refuses(
    sl.null_space, "scipy.linalg.null_space", _ANY_BASIS,
    "use the projector onto the space, np.eye(n) - np.linalg.pinv(a) @ a, which has one",
)  # fmt: skip
orth = refuses(
    sl.orth, "scipy.linalg.orth", _ANY_BASIS,
    "use the projector onto the space, a @ np.linalg.pinv(a), or Q of np.linalg.qr(a) at full column rank",
)  # fmt: skip
schur = refuses(
    sl.schur, "scipy.linalg.schur", "the order of eigenvalues and the signs of vectors are not determined",
    "use np.linalg.eig or eigh, or a matrix function (expm, logm, sqrtm)",
)  # fmt: skip
_NO_FORM = "the reduced form is determined up to signs and an order, and no rule is declared for LAPACK's choice"
hessenberg = refuses(sl.hessenberg, "scipy.linalg.hessenberg", _NO_FORM, "use np.linalg.eig or eigh")
ldl = refuses(sl.ldl, "scipy.linalg.ldl", "its blocks depend on values", "use cholesky, lu or solve(assume_a='sym')")
qz = refuses(sl.qz, "scipy.linalg.qz", _NO_FORM, "use eigvals(a, b) or eigh(a, b)")
ordqz = refuses(sl.ordqz, "scipy.linalg.ordqz", _NO_FORM, "use eigvals(a, b) or eigh(a, b)")
