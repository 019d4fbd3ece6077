"""Eigenvalues and singular values, with their vectors.

Vectors are determined up to a sign or a phase, and, where values coincide, up to a rotation among themselves. A sign
does not matter to a derivative. Phases are those of LAPACK's algorithms, which keep one entry of every vector real, so
that the derivative is that of the function NumPy computes; what depends on a phase has no meaning beyond that. Where
values coincide the derivative of the vectors does not exist and comes out as NaN, while that of the values stays
finite. Not for: factorizations without an iteration (``factorization.py``).

The nuclear norm and the unitary factor that is its gradient have rules of their own, which stay finite where singular
values coincide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.aval import Array, Aval, broadcast_shapes, result_dtype
from ..core.constants import match_library
from .equal_values import coincided, spread, tolerance
from .factorization import (
    adjoint,
    complex_floating,
    floating,
    hermitian,
    least_motion,
    matrix,
    solve,
    square,
    transposed,
)
from .kinds import known_value, of_matrices, solution, strong_product
from .samples import complex_plane

__all__ = ["eig", "eigh", "eigvals", "eigvalsh", "nuclear_norm", "svd", "svdvals", "unitary_factor"]


def _real(dtype: np.dtype) -> np.dtype:
    return np.zeros((), dtype).real.dtype


def _spaced(*stack: int, n: int, m: int | None = None, imaginary: float = 0.0, symmetric: bool = False):
    """Make matrices whose eigenvalues and singular values lie apart."""

    def make(rng):
        shape = (*stack, n, m or n)
        a = 0.4 * rng.normal(size=shape)
        if imaginary:
            a = a + 1j * imaginary * rng.normal(size=shape)
        if symmetric:
            a = a + np.conj(np.swapaxes(a, -1, -2))
        k = min(shape[-2:])
        a[..., :k, :k] += np.diag(2.0 * np.arange(1, k + 1))
        return a

    return make


def _largest(sizes, *axes: int):
    """Return the largest of numbers that are not negative, along axes that stay; zero where there are none."""
    nothing = 0 in [sizes.shape[a] for a in axes]
    return (np.sum if nothing else np.max)(sizes, axis=axes, keepdims=True)


def _reciprocal_gaps(values):
    """Return F with Fᵢⱼ = 1/(λⱼ − λᵢ), 0 on the diagonal, NaN between values that coincide."""
    n = values.shape[-1]
    gaps = values.reshape((*values.shape[:-1], 1, n)) - values.reshape((*values.shape[:-1], n, 1))
    diagonal = np.eye(n, dtype=bool)
    scale = _largest(np.abs(values), -1).reshape((*values.shape[:-1], 1, 1))
    together = np.logical_and(np.abs(gaps) <= tolerance(values) * scale, np.logical_not(diagonal))
    equal = known_value(together)
    if isinstance(equal, np.ndarray) and equal.any():
        coincided()
    apart = np.where(np.logical_or(together, diagonal), values.dtype.type(1), gaps)
    return np.where(diagonal, 0.0, np.where(together, np.nan, 1 / apart))


def _diagonal(m):
    return np.einsum("...ii->...i", m)


# ── Hermitian matrices: A = V diag(w) Vᴴ ─────────────────────────────────────────────────────────────────────────
#
# With T = Vᴴ ∂A V:  ∂wᵢ = Tᵢᵢ,  ∂V = V (F ∘ T),  Fᵢⱼ = 1/(wⱼ − wᵢ). LAPACK reads one triangle of A, and so does the
# derivative. It reduces A to a real tridiagonal matrix by reflections that leave the first coordinate alone (with the
# upper triangle: the last), so that row of V is real.


def _from_triangle(a, uplo: str):
    return hermitian(a if uplo == "L" else adjoint(a))


def _eigh_jvp(primals: Sequence, tangents: Sequence, *, uplo: str) -> tuple:
    w, v = eigh(primals[0], uplo=uplo)
    t = adjoint(v) @ _from_triangle(tangents[0], uplo) @ v
    tv = v @ strong_product(t, _reciprocal_gaps(w))
    if v.dtype.kind == "c":
        tv = tv + v * _turn(tv, v, 0 if uplo == "L" else -1)
    return (w, v), (np.real(_diagonal(t)), tv)


def _eigvalsh_jvp(primals: Sequence, tangents: Sequence, *, uplo: str) -> tuple:
    w, v = eigh(primals[0], uplo=uplo)
    return w, np.real(np.sum(np.conj(v) * (_from_triangle(tangents[0], uplo) @ v), axis=-2))


def _turn(tv, v, row: int):
    """Return the imaginary number per column by which vectors turn so that the entries of a real row stay real."""
    entry, moved = v[..., row, :], tv[..., row, :]
    zero = entry == 0
    angle = np.where(zero, 0.0, np.imag(moved / np.where(zero, v.dtype.type(1), entry)))
    return -1j * angle.reshape((*angle.shape[:-1], 1, angle.shape[-1]))


def _eigh(a, *, uplo: str):
    w, v = np.linalg.eigh(a, uplo)
    moved = spread(w)
    if moved is w:
        return w, v
    order = np.argsort(moved, axis=-1)
    return np.take_along_axis(moved, order, axis=-1), np.take_along_axis(v, order[..., None, :], axis=-1)


def _eigvalsh(a, *, uplo: str):
    w = np.linalg.eigvalsh(a, UPLO=uplo)
    moved = spread(w)
    return w if moved is w else np.sort(moved, axis=-1)


def _values_shape(a: Aval, *, uplo: str) -> Aval:
    return Aval(square(a).shape[:-1], _real(floating(a.dtype)))


_lower, _upper = {"uplo": "L"}, {"uplo": "U"}
_hermitian_samples = [
    (_spaced(n=3, symmetric=True), _lower), (_spaced(n=1), _lower), (_spaced(2, n=3, symmetric=True), _upper),
    (_spaced(0, n=2), _lower), (_spaced(n=3), _lower), (_spaced(n=3), _upper),
    (_spaced(2, n=3, imaginary=0.3, symmetric=True), _lower), (_spaced(n=3, imaginary=0.3, symmetric=True), _upper),
]  # fmt: skip

eigh = of_matrices(
    "eigh",
    impl=_eigh,
    abstract_eval=lambda a, *, uplo: (_values_shape(a, uplo=uplo), Aval(a.shape, floating(a.dtype))),
    jvp=_eigh_jvp,
    samples=_hermitian_samples,
    multiple_results=True,
)

eigvalsh = of_matrices(
    "eigvalsh",
    impl=_eigvalsh,
    abstract_eval=_values_shape,
    jvp=_eigvalsh_jvp,
    samples=_hermitian_samples,
)


# ── general matrices: A V = V diag(w) ────────────────────────────────────────────────────────────────────────────
#
# With T = V⁻¹ ∂A V:  ∂wᵢ = Tᵢᵢ,  ∂V = V (F ∘ T) + V diag(c), where c keeps LAPACK's normalization: columns of length
# one whose largest entry is real.
#
# The results are complex, always: whether all eigenvalues happen to be real is a question about numbers, and a
# program or a batch must have one dtype.


def _eig(a):
    w, v = np.linalg.eig(a)
    dtype = complex_floating(a.dtype)
    return spread(w.astype(dtype)), v.astype(dtype)


def _eig_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    w, v = eig(primals[0])
    t = solve(v, tangents[0] @ v)
    tv = v @ strong_product(t, _reciprocal_gaps(w))
    if not w.shape[-1]:
        return (w, v), (_diagonal(t), tv)
    tv = tv - v * np.real(np.sum(np.conj(v) * tv, axis=-2, keepdims=True))
    largest = np.argmax(np.abs(v), axis=-2)
    largest = largest.reshape((*largest.shape[:-1], 1, largest.shape[-1]))
    there = match_library(np.arange(v.shape[-2]).reshape((-1, 1)), largest) == largest
    moved, entry = (np.sum(np.where(there, x, x.dtype.type(0)), axis=-2, keepdims=True) for x in (tv, v))
    turn = moved / entry
    return (w, v), (_diagonal(t), tv - 1j * v * np.imag(turn))


def _eigvals_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    w, v = eig(primals[0])
    return w, _diagonal(solve(v, tangents[0] @ v))


_general_samples = [
    _spaced(n=3), _spaced(n=1), _spaced(2, n=3), _spaced(0, n=2), _spaced(2, n=3, imaginary=0.3),
    np.array([[1.0, -2.0, 0.3], [1.5, 0.8, 0.1], [0.2, 0.4, 3.0]]),
]  # fmt: skip

eig = of_matrices(
    "eig",
    impl=_eig,
    abstract_eval=lambda a: (
        Aval(square(a).shape[:-1], complex_floating(a.dtype)),
        Aval(a.shape, complex_floating(a.dtype)),
    ),
    jvp=_eig_jvp,
    samples=_general_samples,
    multiple_results=True,
)

eigvals = of_matrices(
    "eigvals",
    impl=lambda a: spread(np.linalg.eigvals(a).astype(complex_floating(a.dtype))),
    abstract_eval=lambda a: Aval(square(a).shape[:-1], complex_floating(a.dtype)),
    jvp=_eigvals_jvp,
    samples=_general_samples,
)


# ── singular values: A = U diag(s) Vᴴ, with k = min(m, n) columns ────────────────────────────────────────────────
#
# With T = Uᴴ ∂A V and S = diag(s):  ∂sᵢ = Re Tᵢᵢ. With Fᵢⱼ = 1/(sⱼ² − sᵢ²), zero on the diagonal,
#
#     ∂U = U (F ∘ (T S + S Tᴴ) + D) + (1 − U Uᴴ) ∂A V S⁻¹,    D = i diag(Im Tᵢᵢ / sᵢ),
#     ∂V = V (F ∘ (S T + Tᴴ S)) + (1 − V Vᴴ) ∂Aᴴ U S⁻¹,
#
# up to a phase that U and V share: LAPACK's bidiagonal form is real, by reflections that leave the first coordinate
# alone on the right if m ≥ n, on the left otherwise, so the first row of V, or of U, is real. The terms with S⁻¹ are
# absent where U, or V, is square. With ``full`` U and V are square, and their further columns, any basis of the space
# that is left, move as little as keeps them orthogonal (``factorization.least_motion``).
# A singular value is |·| of something, with a kink at zero: there its derivative is the subgradient zero.


def _svd(a, *, full: bool = False):
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    moved = spread(s, singular=True)
    if moved is s:
        return u, s, vh
    order = np.argsort(-moved, axis=-1)
    k = s.shape[-1]
    u = np.concatenate([np.take_along_axis(u[..., :k], order[..., None, :], axis=-1), u[..., k:]], axis=-1)
    vh = np.concatenate([np.take_along_axis(vh[..., :k, :], order[..., None], axis=-2), vh[..., k:, :]], axis=-2)
    return u, np.take_along_axis(moved, order, axis=-1), vh


def _svdvals(a):
    s = np.linalg.svd(a, compute_uv=False)
    moved = spread(s, singular=True)
    return s if moved is s else -np.sort(-moved, axis=-1)


def _svd_jvp(primals: Sequence, tangents: Sequence, *, full: bool = False) -> tuple:
    a, ta = primals[0], tangents[0]
    out = all_u, s, all_vh = svd(a, full=full)
    k = s.shape[-1]
    u, vh = all_u[..., :k], all_vh[..., :k, :]
    v, uh = adjoint(vh), adjoint(u)
    row = s.reshape((*s.shape[:-1], 1, k))
    column = s.reshape((*s.shape[:-1], k, 1))
    av = ta @ v
    t = uh @ av
    th = adjoint(t)
    # sⱼ² − sᵢ² = (sⱼ − sᵢ)(sⱼ + sᵢ): the difference of near squares would cancel.
    f = _reciprocal_gaps(s) / np.where(row + column == 0, s.dtype.type(1), row + column)
    tu = strong_product(t * row + column * th, f)
    if t.dtype.kind == "c":
        tu = tu + 1j * np.where(np.eye(k, dtype=bool), np.imag(t), 0.0) / row
    tu = u @ tu
    tv = v @ strong_product(column * t + th * row, f)
    if a.shape[-2] > k:
        tu = tu + (av - u @ t) / row
    if a.shape[-1] > k:
        tv = tv + (adjoint(ta) @ u - v @ th) / row
    if t.dtype.kind == "c":
        turn = _turn(tv, v, 0) if a.shape[-2] >= a.shape[-1] else _turn(tu, u, 0)
        tu, tv = tu + u * turn, tv + v * turn
    if full:
        tu, tv = least_motion(tu, all_u), least_motion(tv, adjoint(all_vh))
    return out, (tu, _svdvals_tangent(s, np.real(_diagonal(t)), a), adjoint(tv))


def _svdvals_tangent(s, t, a):
    largest = _largest(s, -1)
    return np.where(s <= max(a.shape[-2:]) * np.finfo(s.dtype).eps * largest, t.dtype.type(0), t)


def _svdvals_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    u, s, vh = svd(primals[0])
    t = np.real(np.sum(np.conj(u) * (tangents[0] @ adjoint(vh)), axis=-2))
    return s, _svdvals_tangent(s, t, primals[0])


def _svd_shape(a: Aval, *, full: bool = False):
    m, n = matrix(a).shape[-2:]
    k, stack, dtype = min(m, n), a.shape[:-2], floating(a.dtype)
    columns, rows = (m, n) if full else (k, k)
    return Aval((*stack, m, columns), dtype), Aval((*stack, k), _real(dtype)), Aval((*stack, rows, n), dtype)


_svd_samples = [
    _spaced(n=3), _spaced(n=4, m=2), _spaced(n=2, m=4), _spaced(n=1), _spaced(2, n=3), _spaced(0, n=2),
    _spaced(n=3, imaginary=0.3), _spaced(2, n=4, m=2, imaginary=0.3), _spaced(n=2, m=3, imaginary=0.3),
]  # fmt: skip

svd = of_matrices(
    "svd",
    impl=_svd,
    abstract_eval=_svd_shape,
    jvp=_svd_jvp,
    # One further column of a real matrix is determined up to its sign, so that its least motion is its motion.
    samples=[
        *_svd_samples,
        *[(a, {"full": True}) for a in (_spaced(2, n=3, m=2), _spaced(n=3, m=4), _spaced(n=2))],
    ],
    multiple_results=True,
)

svdvals = of_matrices(
    "svdvals",
    impl=_svdvals,
    abstract_eval=lambda a: Aval((*matrix(a).shape[:-2], min(a.shape[-2:])), _real(floating(a.dtype))),
    jvp=_svdvals_jvp,
    samples=_svd_samples,
)


# ── the nuclear norm Σ sᵢ and its gradient ───────────────────────────────────────────────────────────────────────
#
# ∂ Σ sᵢ = Re tr(Qᴴ ∂A) with Q = U Vᴴ. For m ≥ n and A = Q P, P Hermitian, ∂Q = Q Ω + (1 − Q Qᴴ) ∂A P⁻¹, where the
# skew-Hermitian Ω solves P Ω + Ω P = K − Kᴴ with K = Qᴴ ∂A: that divides by sums of singular values, never by
# differences. A singular value of zero is a kink: its vectors are left out of Q, and what would be divided by zero is
# zero, so that every order has the subgradient of minimal norm. As the polar factor of A, Q has all its vectors, and
# where a singular value is zero no derivative: it comes out as NaN.


def _hermitian_part(p):
    return 0.5 * (p + adjoint(p))


def _lyapunov(p, c, *, pole):
    w, v = np.linalg.eigh(_hermitian_part(p))
    n = w.shape[-1]
    total = w[..., :, None] + w[..., None, :]
    kept = total > n * np.finfo(w.dtype).eps * _largest(np.abs(total), -2, -1)
    factor = np.where(kept, 1 / np.where(kept, total, 1), pole).astype(w.dtype)
    return v @ (factor * (adjoint(v) @ c @ v)) @ adjoint(v)


def _lyapunov_product(tp: Array, x: Array, *, pole: float) -> Array:
    tp = _hermitian_part(tp)
    return tp @ x + x @ tp


# X with P X + X P = C, where P ≥ 0 is the Hermitian part of the argument; ``pole`` stands for 1/0.
lyapunov = solution(
    "lyapunov",
    _lyapunov_product,
    impl=_lyapunov,
    abstract_eval=lambda p, c, *, pole: Aval(
        (*broadcast_shapes(p, c)[:-2], *square(c).shape[-2:]), floating(result_dtype(p, c))
    ),
    back=lambda ct, p, *, pole: lyapunov(transposed(p), ct, pole=pole),
    samples=[
        (np.array([[2.0, 0.3], [0.3, 1.0]]), (2, 2), {"pole": 0.0}),
        (np.diag([1.0, 1.0, 3.0]), (2, 3, 3), {"pole": np.nan}),
        (np.eye(1), (1, 1), {"pole": 0.0}),
        (np.eye(2), (0, 2, 2), {"pole": 0.0}),
        (np.array([[2.0, 0.3j], [-0.3j, 1.0]]), complex_plane()(2, 2), {"pole": 0.0}),
    ],
    blocks="stack",
)


def _unitary_factor(a, *, polar):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    if polar:
        return u @ vh
    limit = max(a.shape[-2:]) * np.finfo(s.dtype).eps * _largest(s, -1)
    return (u * (s > limit)[..., None, :]) @ vh


def _unitary_factor_jvp(primals: Sequence, tangents: Sequence, *, polar: bool) -> tuple:
    a, t = primals[0], tangents[0]
    if a.shape[-2] < a.shape[-1]:
        q, tq = _unitary_factor_jvp((adjoint(a),), (adjoint(t),), polar=polar)
        return adjoint(q), adjoint(tq)
    pole = np.nan if polar else 0.0
    q = unitary_factor(a, polar=polar)
    p = adjoint(q) @ a
    k = adjoint(q) @ t
    tq = q @ lyapunov(p, k - adjoint(k), pole=pole)
    if a.shape[-2] > a.shape[-1]:
        inverse = 2 * lyapunov(p, np.eye(a.shape[-1], dtype=p.dtype), pole=pole)
        tq = tq + (t - q @ k) @ inverse
    return q, tq


unitary_factor = of_matrices(
    "unitary_factor",
    impl=_unitary_factor,
    abstract_eval=lambda a, *, polar: Aval(matrix(a).shape, floating(a.dtype)),
    jvp=_unitary_factor_jvp,
    samples=[(a, {"polar": polar}) for polar in (False, True) for a in (*_svd_samples, 2 * np.eye(3))],
)


def _nuclear_norm_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    q, t = unitary_factor(primals[0], polar=False), tangents[0]
    total = np.sum(np.real(np.conj(q) * t) if q.dtype.kind == "c" else q * t, axis=(-2, -1))
    return nuclear_norm(primals[0]), total


nuclear_norm = of_matrices(
    "nuclear_norm",
    impl=lambda a: np.sum(np.linalg.svd(a, compute_uv=False), axis=-1),
    abstract_eval=lambda a: Aval(matrix(a).shape[:-2], _real(floating(a.dtype))),
    jvp=_nuclear_norm_jvp,
    samples=[*_svd_samples, 2 * np.eye(3)],
)
