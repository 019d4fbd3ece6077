"""Systems with banded matrices, as ``scipy.linalg.solve_banded`` stores them: diagonal by diagonal.

A matrix with ``lower`` diagonals below the main one and ``upper`` above is an array ``ab`` of lower + upper + 1 rows,
ab[upper + i − j, j] = Aᵢⱼ; corners outside of the matrix are ignored. Loaded with ``dualad.scipy.linalg``, for SciPy is
optional. Not for: dense and triangular systems (``factorization.py``, ``triangular.py``).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sl

from ..core.aval import Aval, result_dtype
from .factorization import floating, over_stack
from .kinds import add_tangents, solution
from .samples import Domain

__all__ = ["banded_solve", "transpose_bands"]


def _shift(x, k: int):
    """Return x moved by k rows towards the end (towards the start if k < 0), zeros coming in."""
    n = x.shape[-2]
    if k == 0:
        return x
    zeros = np.zeros((*x.shape[:-2], min(abs(k), n), x.shape[-1]), x.dtype)
    kept = x[..., : max(n - k, 0), :] if k > 0 else x[..., -k:, :]
    return np.concatenate([zeros, kept] if k > 0 else [kept, zeros], axis=-2)


def _banded_product(ab, x, lower: int, upper: int):
    """Multiply a banded matrix with the columns of x: diagonal by diagonal."""
    total = None
    for row in range(lower + upper + 1):
        total = add_tangents(total, _shift(ab[..., row, :, None] * x, row - upper))
    return total


def transpose_bands(ab, lower: int, upper: int):
    """Return the bands of the transposed matrix, which has ``upper`` diagonals below the main one."""
    rows = [_shift(ab[..., row, :, None], row - upper)[..., 0] for row in range(lower + upper, -1, -1)]
    return np.stack(rows, axis=-2)


def _solve(ab, b, *, lower, upper):
    return over_stack(lambda ab, b: sl.solve_banded((lower, upper), ab, b), (ab, b), b.shape[-2:])


def _solve_shape(ab: Aval, b: Aval, *, lower: int, upper: int) -> Aval:
    if lower + upper + 1 != ab.shape[-2]:
        raise ValueError(
            f"invalid values for the number of lower and upper diagonals: l+u+1 ({lower + upper + 1}) does not equal"
            f" ab.shape[0] ({ab.shape[-2]})"
        )
    if ab.shape[-1] != b.shape[-2]:
        raise ValueError("shapes of ab and b are not compatible.")
    stack = np.broadcast_shapes(ab.shape[:-2], b.shape[:-2])
    return Aval((*stack, *b.shape[-2:]), floating(result_dtype(ab, b)))


def _dominant(lower: int, upper: int, imaginary: float = 0.0) -> Domain:
    """Bands of matrices far from singular."""

    def make(rng, shape):
        ab = 0.5 * rng.normal(size=shape)
        if imaginary:
            ab = ab + imaginary * 1j * rng.normal(size=shape)
        ab[..., upper, :] += 3.0
        return ab

    return Domain(make)


_tridiagonal = {"lower": 1, "upper": 1}

banded_solve = solution(
    "banded_solve",
    _banded_product,
    impl=_solve,
    abstract_eval=_solve_shape,
    back=lambda ct, ab, *, lower, upper: banded_solve(transpose_bands(ab, lower, upper), ct, lower=upper, upper=lower),
    raises=True,
    samples=[
        (_dominant(1, 1)(3, 4), (4, 2), _tridiagonal),
        (_dominant(2, 0)(3, 5), (5, 1), {"lower": 2, "upper": 0}),
        (_dominant(0, 2)(3, 4), (4, 1), {"lower": 0, "upper": 2}),
        (_dominant(0, 0)(1, 3), (3, 1), {"lower": 0, "upper": 0}),
        (_dominant(1, 1)(2, 3, 4), (4, 2), _tridiagonal),
        (_dominant(1, 1)(0, 3, 4), (4, 2), _tridiagonal),
        (_dominant(1, 2, 0.2)(4, 4), (4, 1), {"lower": 1, "upper": 2}),
        (_dominant(1, 1)(3, 1), (1, 1), _tridiagonal),
    ],
    blocks="one",
)
