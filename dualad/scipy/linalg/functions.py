"""Functions of matrices: exponential, logarithm, square root and their compositions.

Not for: their rules (``ops/matrix_functions.py``).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sl

from ...errors import DtypeError
from ...ops import matrix_functions
from ...ops.factorization import floating
from ...surface.arguments import operand, operands
from ..mirror import mirrors, refuses

__all__ = [
    "coshm", "cosm", "expm", "expm_frechet", "fractional_matrix_power", "funm", "logm", "signm", "sinhm", "sinm",
    "sqrtm", "tanhm", "tanm",
]  # fmt: skip


def _square(a):
    a = operand(a)
    if np.ndim(a) < 2:
        raise np.linalg.LinAlgError("The input array must be at least two-dimensional")
    if a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return a.astype(floating(a.dtype), copy=False)


def _check_disp(disp) -> None:
    """Refuse the estimate of an error that ``disp=False`` asks for."""
    if disp is False:
        raise ValueError("disp=False asks for an estimate of the error, which tensors have none of; leave it out")


def _complex_where_needed(function, a):
    """Call a function of real matrices whose values may turn out to be complex; the lanes of a batch share a dtype."""
    try:
        return function(a)
    except DtypeError:
        return function(a + 0j)


@mirrors(sl.expm, "op")
def expm(A):
    """Compute the exponential of matrices."""
    A = operand(A)
    return matrix_functions.expm(_square(np.reshape(A, (1, 1)) if np.size(A) == 1 and np.ndim(A) < 2 else A))


@mirrors(sl.expm_frechet, "op")
def expm_frechet(A, E, method=None, compute_expm=True, check_finite=True):
    """Compute the exponential of A and its derivative along E."""
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"Unknown implementation {method}")
    A, E = _square(A), _square(E)
    if A.shape != E.shape:
        raise ValueError("expected A and E to be the same shape")
    moved = matrix_functions.expm(A, E)
    return (matrix_functions.expm(A), moved) if compute_expm else moved


@mirrors(sl.logm, "op")
def logm(A, disp=True):
    """Compute the principal logarithm; of a real matrix with a negative eigenvalue it is complex.

    In a traced program, where that is not known, the logarithm of a real matrix must be real.
    """
    _check_disp(disp)
    return _complex_where_needed(matrix_functions.logm, _square(A))


@mirrors(sl.sqrtm, "op")
def sqrtm(A, disp=True, blocksize=64):
    """Compute the principal square root; of a real matrix with a negative eigenvalue it is complex.

    In a traced program, where that is not known, the root of a real matrix must be real. At a singular matrix the
    derivative does not exist.
    """
    _check_disp(disp)
    return _complex_where_needed(matrix_functions.sqrtm, _square(A))


@mirrors(sl.fractional_matrix_power)
def fractional_matrix_power(A, t):
    """Compute exp(t log A), differentiable in t too; for an integer t, which is no tensor, a product."""
    A, t = operands(_square(A), t)
    if isinstance(t, (int, np.integer)):
        return np.linalg.matrix_power(A, t)
    return matrix_functions.expm(t * matrix_functions.logm(A))


def _exponentials(a):
    return matrix_functions.expm(a), matrix_functions.expm(-a)


@mirrors(sl.cosm)
def cosm(A):
    """Compute the cosine of matrices."""
    A = _square(A)
    if A.dtype.kind != "c":
        return np.real(matrix_functions.expm(1j * A))
    plus, minus = _exponentials(1j * A)
    return 0.5 * (plus + minus)


@mirrors(sl.sinm)
def sinm(A):
    """Compute the sine of matrices."""
    A = _square(A)
    if A.dtype.kind != "c":
        return np.imag(matrix_functions.expm(1j * A))
    plus, minus = _exponentials(1j * A)
    return -0.5j * (plus - minus)


@mirrors(sl.tanm)
def tanm(A):
    """Compute the tangent of matrices."""
    return np.linalg.solve(cosm(A), sinm(A))


@mirrors(sl.coshm)
def coshm(A):
    """Compute the hyperbolic cosine of matrices."""
    plus, minus = _exponentials(_square(A))
    return 0.5 * (plus + minus)


@mirrors(sl.sinhm)
def sinhm(A):
    """Compute the hyperbolic sine of matrices."""
    plus, minus = _exponentials(_square(A))
    return 0.5 * (plus - minus)


@mirrors(sl.tanhm)
def tanhm(A):
    """Compute the hyperbolic tangent of matrices."""
    plus, minus = _exponentials(_square(A))
    return np.linalg.solve(plus + minus, plus - minus)


@mirrors(sl.signm)
def signm(A, disp=True):
    """Compute the sign of matrices, A (A²)^(−1/2)."""
    _check_disp(disp)
    A = _square(A)
    return A @ np.linalg.inv(matrix_functions.sqrtm(A @ A))


funm = refuses(
    sl.funm, "scipy.linalg.funm", "the function is applied to eigenvalues inside a Schur form, which is not unique",
    "use expm, logm, sqrtm, cosm and the like, or an eigendecomposition: w, v = np.linalg.eigh(a); (v * f(w)) @ v.T",
)  # fmt: skip
