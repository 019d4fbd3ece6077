"""Linear systems and triangular factorizations: solve, inv, pinv, Cholesky, QR.

Matrices stand in the last two axes, stacks of them in the axes before, and NumPy does the stacking: a batching rule is
the same call with one more leading axis. Derivatives are products of matrices that are at hand, so those of higher
order follow by themselves. Aᵀ is the transpose, Aᴴ the conjugate transpose.
Not for: eigenvalues and singular values (``spectral.py``), determinants (``determinant.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.aval import Array, Aval, broadcast_shapes, result_dtype
from ..core.primitive import Primitive
from .kinds import align_ranks, of_matrices, repeat_lanes, solution
from .samples import complex_normal, complex_regular, definite, regular, well_conditioned

__all__ = [
    "adjoint", "cholesky", "complex_floating", "directional_shape", "floating", "hermitian", "inv",
    "least_motion", "matrix", "matrix_rank", "over_stack", "pinv", "qr", "solution_batch", "solution_shape", "solve",
    "square", "strictly_lower", "transposed",
]  # fmt: skip


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────────────


def floating(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which NumPy's linear algebra answers: integers become float64."""
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        raise TypeError(f"array type {dtype} is unsupported in linalg")
    return dtype


def complex_floating(dtype: np.dtype) -> np.dtype:
    """Return the complex dtype of that precision."""
    return np.result_type(floating(dtype), np.complex64)


def directional_shape(a: Aval, *directions: Aval) -> Aval:
    """Return the aval of a derivative of square matrices along directions."""
    square(a)
    return Aval(broadcast_shapes(a, *directions), floating(result_dtype(a, *directions)))


def matrix(a: Aval) -> Aval:
    """Check that there are at least two axes."""
    if len(a.shape) < 2:
        raise np.linalg.LinAlgError(f"{len(a.shape)}-dimensional array given. Array must be at least two-dimensional")
    return a


def square(a: Aval) -> Aval:
    """Check that the last two axes are of one size."""
    if matrix(a).shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return a


def transposed(a):
    return a.T if a.ndim == 2 else np.swapaxes(a, -1, -2)


def adjoint(a):
    """Return Aᴴ."""
    return np.conj(transposed(a)) if a.dtype.kind == "c" else transposed(a)


def strictly_lower(n: int, m: int | None = None) -> np.ndarray:
    """Mark what lies below the diagonal."""
    return np.tri(n, m, -1, dtype=bool)


def hermitian(a):
    """Return the Hermitian matrix whose lower triangle is that of ``a``: all that LAPACK reads of it."""
    n = a.shape[-1]
    zero = a.dtype.type(0)
    below = np.where(strictly_lower(n), a, zero)
    return below + adjoint(below) + np.where(np.eye(n, dtype=bool), np.real(a), zero)


def over_stack(function: Callable, arrays, core: tuple[int, ...], dtype=None, ndim: int = 2) -> np.ndarray:
    """Call a function of matrices (or of arrays with ``ndim`` axes) once per member of a broadcast stack.

    ``core`` is the shape of one result, ``dtype`` that of all; without it, arrays and result have the one that NumPy's
    linear algebra answers in.
    """
    if dtype is None:
        dtype = floating(np.result_type(*arrays))
        arrays = [a.astype(dtype, copy=False) for a in arrays]
    stack = np.broadcast_shapes(*[a.shape[:-ndim] for a in arrays])
    out = np.empty((*stack, *core), dtype)
    if out.size:
        arrays = [np.broadcast_to(a, (*stack, *a.shape[-ndim:])) for a in arrays]
        for index in np.ndindex(*stack):
            out[index] = function(*[a[index] for a in arrays])
    return out


# ── solve: A x = b ───────────────────────────────────────────────────────────────────────────────────────────────
#
# ∂x = A⁻¹ (∂b − ∂A x), linear in b, with transpose A⁻ᵀ. Right-hand sides are matrices; a vector is one column.


def solution_shape(a: Aval, b: Aval, **_: Any) -> Aval:
    """Return the aval of the solutions of (a stack of) systems."""
    square(a)
    if len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(f"solve: a matrix of size {a.shape[-1]} and a right-hand side of shape {b.shape} do not match")
    dtype = floating(result_dtype(a, b))
    stack = broadcast_shapes(Aval(a.shape[:-2], dtype), Aval(b.shape[:-2], dtype))
    return Aval((*stack, *b.shape[-2:]), dtype)


def solution_batch(solver: Callable) -> Callable:
    """Return the batching rule of the operator ``solver()``, which takes stacks of matrices."""

    def batch(size: int, values: Sequence, mapped: Sequence[bool], **params: Any) -> Array:
        (a, b), solve = values, solver()
        if not mapped[0] and np.ndim(a) == 2:
            # One matrix for all lanes: all their right-hand sides are columns of one, and it is factorized once.
            rows = np.moveaxis(b, -2, 0)
            x = solve(a, rows.reshape((rows.shape[0], math.prod(rows.shape[1:]))), **params)
            return np.moveaxis(x.reshape(rows.shape), 0, -2)
        ndim = max(np.ndim(v) - m for v, m in zip(values, mapped, strict=True))
        return solve(*[align_ranks(v, ndim) if m else v for v, m in zip(values, mapped, strict=True)], **params)

    return batch


solve = solution(
    "solve",
    lambda ta, x: ta @ x,
    impl=np.linalg.solve,
    abstract_eval=solution_shape,
    back=lambda ct, a: solve(transposed(a), ct),
    batch=solution_batch(lambda: solve),
    raises=True,
    samples=[
        (regular(3, 3), (3, 2)), (regular(3, 3), (3, 1)), (regular(1, 1), (1, 1)), (regular(2, 3, 3), (3, 2)),
        (regular(3, 3), (2, 3, 2)), (regular(4, 1, 2, 2), (3, 2, 2)), (regular(0, 2, 2), (2, 1)),
        (complex_regular(3, 3), (3, 2)), (regular(3, 3), complex_regular(3, 3)),
    ],
    blocks="matrices",
)  # fmt: skip


# ── inv: ∂A⁻¹ = −A⁻¹ ∂A A⁻¹ ──────────────────────────────────────────────────────────────────────────────────────


def _inv_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    out = inv(primals[0])
    return out, -(out @ tangents[0] @ out)


inv = of_matrices(
    "inv",
    impl=np.linalg.inv,
    abstract_eval=lambda a: Aval(square(a).shape, floating(a.dtype)),
    jvp=_inv_jvp,
    samples=[regular(3, 3), regular(1, 1), regular(2, 3, 3), regular(0, 2, 2), complex_regular(2, 3, 3)],
    blocks="matrices",
)


# ── pinv ─────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Along perturbations that keep the rank (Golub and Pereyra), with P = A⁺:
#
#     ∂P = −P ∂A P + P Pᴴ ∂Aᴴ (1 − A P) + (1 − P A) ∂Aᴴ Pᴴ P.
#
# Where the rank changes, A⁺ jumps and has no derivative.


def _pinv_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    a, rcond = primals
    p, t = pinv(a, rcond), tangents[0]
    if t is None:
        return p, None
    ph, th = adjoint(p), adjoint(t)
    left, right = th - (th @ a) @ p, th - p @ (a @ th)
    return p, (p @ ph) @ left + (right @ ph) @ p - p @ t @ p


def _pinv_batch(size: int, values: Sequence, mapped: Sequence[bool]) -> Array:
    a, rcond = values
    if not mapped[0]:
        a = repeat_lanes(a, size)
    return pinv(a, align_ranks(rcond, np.ndim(a) - 3) if mapped[1] else rcond)


_CUTOFF = np.array(1e-15)

pinv = Primitive(
    "pinv",
    impl=np.linalg.pinv,
    abstract_eval=lambda a, rcond: Aval((*matrix(a).shape[:-2], a.shape[-1], a.shape[-2]), floating(a.dtype)),
    jvp=_pinv_jvp,
    batch=_pinv_batch,
    raises=True,
    samples=[
        ((3, 2), _CUTOFF), ((2, 3), _CUTOFF), (regular(3, 3), _CUTOFF), ((2, 3, 2), _CUTOFF), ((0, 2), _CUTOFF),
        (complex_regular(3, 3), _CUTOFF),
    ],
    blocks="stack",
)  # fmt: skip


# ── rank ─────────────────────────────────────────────────────────────────────────────────────────────────────────

matrix_rank = of_matrices(
    "matrix_rank",
    impl=lambda a, *, tol, rtol, hermitian: np.linalg.matrix_rank(a, tol, hermitian, rtol=rtol),
    abstract_eval=lambda a, *, tol, rtol, hermitian: Aval(matrix(a).shape[:-2], np.dtype(np.intp)),
    jvp=None,
    samples=[
        ((3, 2), {"tol": None, "rtol": None, "hermitian": False}),
        ((2, 3, 3), {"tol": 0.1, "rtol": None, "hermitian": False}),
        (well_conditioned(symmetric=True)(3, 3), {"tol": None, "rtol": 1e-9, "hermitian": True}),
    ],
    kind="predicate",
)


# ── Cholesky: A = L Lᴴ ───────────────────────────────────────────────────────────────────────────────────────────
#
# With ∂A Hermitian, L⁻¹ ∂A L⁻ᴴ = L⁻¹ ∂L + (L⁻¹ ∂L)ᴴ, whose first term is lower triangular with a real diagonal: it is
# the lower triangle of the left-hand side, its diagonal halved. NumPy reads only the lower triangle of A, and so
# does the derivative: it is that of the function NumPy computes, and the gradient is zero above the diagonal. For a
# symmetrised gradient, differentiate cholesky((A + Aᴴ)/2).


def _cholesky_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    lower = cholesky(primals[0])
    n = lower.shape[-1]
    inverse = inv(lower)
    m = inverse @ hermitian(tangents[0]) @ adjoint(inverse)
    zero = m.dtype.type(0)
    half = np.where(strictly_lower(n), m, np.where(np.eye(n, dtype=bool), 0.5 * m, zero))
    return lower, lower @ half


cholesky = of_matrices(
    "cholesky",
    impl=np.linalg.cholesky,
    abstract_eval=lambda a: Aval(square(a).shape, floating(a.dtype)),
    jvp=_cholesky_jvp,
    samples=[
        definite(3, 3), definite(1, 1), definite(2, 3, 3), definite(0, 2, 2),
        lambda rng: definite.make(rng, (2, 3, 3)) + 0.2j * rng.normal(size=(2, 3, 3)),
    ],
    blocks="matrices",
)  # fmt: skip


# ── QR: A = Q R, Q of orthonormal columns, R upper triangular ────────────────────────────────────────────────────
#
# Let M be the first k = min(m, n) columns, M = Q R₁, and N = Qᴴ ∂M R₁⁻¹ = Qᴴ ∂Q + ∂R₁ R₁⁻¹: skew-Hermitian plus upper
# triangular with a real diagonal. So the skew part S has N's strictly lower triangle, minus its adjoint above, and
# the imaginary part of N's diagonal:
#
#     ∂Q = Q (S − N) + ∂M R₁⁻¹,     ∂R = Qᴴ ∂A + ∂Qᴴ A.


def least_motion(t, q):
    """Return the tangent of all columns of a square unitary Q from the tangent of the first ones.

    The further columns W are any orthonormal basis of what Q₁ leaves. Of all motions that keep Q unitary,
    ∂W = −Q₁ ∂Q₁ᴴ W is the smallest: W turns with the space that it spans and not within it. What does not depend on the
    choice of W has its true derivatives by it, of every order; what does depend on it has none.
    """
    k = t.shape[-1]
    if q.shape[-1] == k:
        return t
    return np.concatenate([t, -(q[..., :k] @ (adjoint(t) @ q[..., k:]))], axis=-1)


def _qr_shape(a: Aval, *, complete: bool = False):
    m, n = matrix(a).shape[-2:]
    k, stack, dtype = m if complete else min(m, n), a.shape[:-2], floating(a.dtype)
    return Aval((*stack, m, k), dtype), Aval((*stack, k, n), dtype)


def _qr_jvp(primals: Sequence, tangents: Sequence, *, complete: bool = False) -> tuple:
    a, t = primals[0], tangents[0]
    out = all_q, all_r = qr(a, complete=complete)
    k = min(a.shape[-2:])
    q, r = all_q[..., :k], all_r[..., :k, :]
    qh = adjoint(q)
    tm, r1 = (t, r) if a.shape[-1] == k else (t[..., :k], r[..., :k])
    tm_r = tm @ inv(r1)
    n = qh @ tm_r
    zero = n.dtype.type(0)
    below = np.where(strictly_lower(k), n, zero)
    skew = below - adjoint(below)
    if n.dtype.kind == "c":
        skew = skew + np.where(np.eye(k, dtype=bool), n - np.real(n), zero)
    tq = q @ (skew - n) + tm_r
    tr = np.where(strictly_lower(*r.shape[-2:]), zero, qh @ t + adjoint(tq) @ a)
    if complete:
        below = np.zeros((*tr.shape[:-2], all_r.shape[-2] - k, tr.shape[-1]), tr.dtype)
        tq, tr = least_motion(tq, all_q), np.concatenate([tr, below], axis=-2)
    return out, (tq, tr)


qr = of_matrices(
    "qr",
    impl=lambda a, *, complete=False: tuple(np.linalg.qr(a, "complete" if complete else "reduced")),
    abstract_eval=_qr_shape,
    jvp=_qr_jvp,
    samples=[
        (regular(3, 3),), ((4, 2),), (regular(1, 1),), ((2, 3, 2),), ((2, 4),), ((0, 3, 2),),
        (complex_regular(2, 3, 3),), (complex_normal(4, 2),),
        # One further column of a real matrix is determined up to its sign, so that its least motion is its motion.
        ((3, 2), {"complete": True}), ((2, 3, 2), {"complete": True}), ((2, 3), {"complete": True}),
    ],
    multiple_results=True,
    raises=False,
)  # fmt: skip
