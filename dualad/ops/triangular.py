"""Triangular systems and LU with pivots, by SciPy's LAPACK.

Loaded with ``dualad.scipy.linalg``, for SciPy is optional. Matrices stand in the last two axes; stacks of them are
looped over, as SciPy does. Not for: general systems and Cholesky (``factorization.py``), which NumPy has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular

from ..core.aval import Aval
from .factorization import floating, matrix, over_stack, solution_batch, solution_shape, strictly_lower, transposed
from .kinds import of_matrices, solution, stacked
from .samples import Domain, complex_normal, complex_regular, regular
from .sorting import permute

__all__ = ["column_order", "lu", "permutation", "triangle", "triangular_solve"]


def triangle(a, lower: bool, unit: bool):
    """Return the entries of ``a`` that a triangular system reads, zeros elsewhere (also on a unit diagonal)."""
    n = a.shape[-1]
    keep = strictly_lower(n) if lower else strictly_lower(n).T
    return np.where(keep if unit else keep | np.eye(n, dtype=bool), a, a.dtype.type(0))


# ── T x = b ──────────────────────────────────────────────────────────────────────────────────────────────────────
#
# ∂x = T⁻¹ (∂b − ∂T x), linear in b, with transpose T⁻ᵀ, whose triangle is the other one. T is one triangle of the
# matrix given, without its diagonal if that counts as ones; ∂T is the same part of its tangent.


#: LAPACK's substitution wakes threads also for systems of a few rows, and may wait for them a thousand times as long
_FEW = 3
#: rows that are few for more systems than these, which LAPACK would be called for one by one
_FEW_IN_LANES, _FEW_LANES = 32, 32


def _substituted(a, b, *, lower, unit):
    """Solve row by row, all systems of a stack at once."""
    dtype = floating(np.result_type(a, b))
    n = a.shape[-1]
    diagonal = np.diagonal(a, axis1=-2, axis2=-1)
    if not unit and not np.all(diagonal):
        first = np.argwhere(diagonal == 0)[0, -1]
        raise np.linalg.LinAlgError(f"singular matrix: resolution failed at diagonal {first}")
    x = np.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), dtype)
    for i in range(n) if lower else range(n - 1, -1, -1):
        done = slice(0, i) if lower else slice(i + 1, n)
        row = b[..., i, :] - np.sum(a[..., i, done, None] * x[..., done, :], axis=-2)
        x[..., i, :] = row if unit else row / diagonal[..., i, None]
    return x


def _solve(a, b, *, lower, unit):
    lanes = math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    if a.shape[-1] <= (_FEW if lanes <= _FEW_LANES else _FEW_IN_LANES) and b.shape[-1]:
        return _substituted(a, b, lower=lower, unit=unit)

    def one(a, b):
        return solve_triangular(a, b, lower=lower, unit_diagonal=unit, check_finite=False)

    return over_stack(one, (a, b), b.shape[-2:])


_lower, _upper = {"lower": True, "unit": False}, {"lower": False, "unit": False}

triangular_solve = solution(
    "triangular_solve",
    lambda ta, x, *, lower, unit: triangle(ta, lower, unit) @ x,
    impl=_solve,
    abstract_eval=solution_shape,
    back=lambda ct, a, *, lower, unit: triangular_solve(transposed(a), ct, lower=not lower, unit=unit),
    batch=solution_batch(lambda: triangular_solve),
    raises=True,
    samples=[
        (regular(3, 3), (3, 2), _lower), (regular(3, 3), (3, 1), _upper), (regular(1, 1), (1, 1), _lower),
        (regular(3, 3), (3, 2), {"lower": True, "unit": True}), (regular(2, 3, 3), (3, 2), _upper),
        (regular(3, 3), (2, 3, 2), _lower), (regular(0, 2, 2), (2, 1), _lower), (regular(2, 2), (2, 0), _lower),
        (complex_regular(3, 3), (3, 2), {"lower": False, "unit": True}),
        (regular(3, 3), complex_regular(3, 3), _upper),
    ],
    blocks="stack",
)  # fmt: skip


# ── LU: the rows of A, interchanged, are L U; both in one matrix, without the ones on the diagonal of L ──────────
#
# Let k = min(m, n), L₁ and U₁ the square blocks, X = P ∂A, F = L₁⁻¹ X₁₁ U₁⁻¹ = L₁⁻¹ ∂L₁ + ∂U₁ U₁⁻¹: strictly lower
# plus upper triangular. So ∂L₁ = L₁ low(F), ∂U₁ = up(F) U₁; below, X₂₁ = ∂L₂ U₁ + L₂ ∂U₁; on the right,
# X₁₂ = ∂L₁ U₂ + L₁ ∂U₂. The interchanges are constant wherever the derivative exists.


def _lu(a):
    a = a.astype(floating(a.dtype), copy=False)
    *stack, m, n = a.shape
    factors, pivots = np.array(a), np.empty((*stack, min(m, n)), np.int32)
    if a.size:
        (getrf,) = get_lapack_funcs(("getrf",), (a,))
        for index in np.ndindex(*stack):
            factors[index], pivots[index], _ = getrf(a[index])
    return factors, pivots


def _lu_shape(a: Aval):
    *stack, m, n = matrix(a).shape
    return Aval(a.shape, floating(a.dtype)), Aval((*stack, min(m, n)), np.dtype(np.int32))


def _lu_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    factors, pivots = lu(primals[0])
    m, n = factors.shape[-2:]
    k = min(m, n)
    order = permutation(pivots, rows=m)
    x = permute(tangents[0], order.reshape((*order.shape, 1)), axis=len(tangents[0].shape) - 2)
    f = factors[..., :k, :k]
    lower = triangle(f, True, True) + np.eye(k, dtype=f.dtype)
    upper = triangle(f, False, False)
    moved = triangular_solve(lower, x[..., :k, :k], lower=True, unit=True)
    moved = _right_solve(moved, upper)
    low, up = triangle(moved, True, True), triangle(moved, False, False)
    t = lower @ low + up @ upper
    if m > k:
        below = _right_solve(x[..., k:, :], upper) - factors[..., k:, :] @ up
        t = np.concatenate([t, below], axis=-2)
    elif n > k:
        right = triangular_solve(lower, x[..., k:], lower=True, unit=True) - low @ factors[..., k:]
        t = np.concatenate([t, right], axis=-1)
    return (factors, pivots), (t, None)


def _right_solve(b, upper):
    """Return b U⁻¹."""
    return transposed(triangular_solve(transposed(upper), transposed(b), lower=True, unit=False))


lu = of_matrices(
    "lu",
    impl=_lu,
    abstract_eval=_lu_shape,
    jvp=_lu_jvp,
    samples=[
        (regular(3, 3),), ((4, 2),), ((2, 4),), (regular(1, 1),), ((2, 3, 3),), ((0, 2, 2),), ((2, 4, 2),),
        (complex_regular(3, 3),), (complex_normal(2, 3),),
    ],
    multiple_results=True,
    raises=False,
)  # fmt: skip


# ── the order of rows that LAPACK's interchanges make ────────────────────────────────────────────────────────────


def _permutation(pivots, *, rows):
    order = np.broadcast_to(np.arange(rows), (*pivots.shape[:-1], rows)).copy()
    for i in range(pivots.shape[-1]):
        j = pivots[..., i : i + 1]
        other = np.take_along_axis(order, j, axis=-1)
        np.put_along_axis(order, j, order[..., i : i + 1].copy(), axis=-1)
        order[..., i : i + 1] = other
    return order


def _pivots(rng, shape):
    return np.arange(shape[-1]) + rng.integers(0, 2, shape)


permutation = stacked(
    "permutation",
    impl=_permutation,
    abstract_eval=lambda pivots, *, rows: Aval((*pivots.shape[:-1], rows), np.dtype(np.intp)),
    blocks="one",
    jvp=None,
    samples=[
        (Domain(_pivots)(3), {"rows": 4}),
        (Domain(_pivots)(2, 3), {"rows": 4}),
        (Domain(_pivots)(0, 2), {"rows": 3}),
    ],
    kind="predicate",
)


# ── the order in which QR with pivots takes columns ──────────────────────────────────────────────────────────────


def _column_order(a):
    *stack, _, n = a.shape
    out = np.broadcast_to(np.arange(n, dtype=np.int32), (*stack, n)).copy()
    if a.size:
        (geqp3,) = get_lapack_funcs(("geqp3",), (a,))
        for index in np.ndindex(*stack):
            out[index] = geqp3(a[index])[1] - 1
    return out


column_order = stacked(
    "column_order",
    impl=_column_order,
    abstract_eval=lambda a: Aval((*matrix(a).shape[:-2], a.shape[-1]), np.dtype(np.int32)),
    jvp=None,
    samples=[((3, 3),), ((2, 4),), ((2, 4, 2),), ((0, 2, 2),)],
    kind="predicate",
    blocks="one",
)
