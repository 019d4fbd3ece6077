"""Functions of matrices that SciPy has: exponential, logarithm, square root, the Sylvester equation, polar factor.

Loaded with ``dualad.scipy.linalg``, for SciPy is optional. Matrices stand in the last two axes. None of the rules
diagonalizes, so all hold at matrices with repeated eigenvalues, defective ones too.
Not for: functions composed of these (sines, fractional powers; ``dualad/scipy/linalg``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg as sl

from ..core.aval import Aval, broadcast_shapes, result_dtype
from ..core.primitive import Primitive
from ..errors import DtypeError
from .factorization import adjoint, complex_matrix, floating, inv, matrix, square, transposed
from .kinds import add_tangents, align_ranks, broadcast_tangent, unbroadcast
from .samples import Domain, well_conditioned
from .triangular import over_stack

__all__ = ["expm", "logm", "polar_factor", "sqrtm", "sylvester"]

_regular = well_conditioned()
_definite = well_conditioned(positive_definite=True)
_complex_regular = complex_matrix(_regular)
_complex_definite = complex_matrix(_definite)
_small = Domain(lambda rng, shape: 0.5 * rng.normal(size=shape))


# ── analytic functions and their derivatives of all orders ───────────────────────────────────────────────────────
#
# f(A, X₁, …, Xₖ) stands for Dᵏf(A)[X₁, …, Xₖ], a symmetric multilinear form. With B₀ = A and
#
#     Bᵢ = ( Bᵢ₋₁  1⊗Xᵢ )
#          (   0   Bᵢ₋₁ ),
#
# it is the block on the top right of f(Bₖ) (Mathias 1996). The directions are brought to the size of A first, so that
# scaling and squaring see a matrix as large as A. In the trace tr(Cᵀ f(A, X₁, …)) the matrices of each term may be
# moved around cyclically, so that in a direction the transpose is f(Aᵀ, C, …) with the other directions transposed.


def _analytic(name: str, function: Callable, samples: list) -> Primitive:
    """Declare f(A, X₁, …, Xₖ) of a function of one matrix."""

    def impl(*matrices):
        dtype = floating(np.result_type(*matrices))
        n = matrices[0].shape[-1]
        matrices = [m.astype(dtype, copy=False) for m in matrices]
        return over_stack(lambda *m: _derivative(function, *m), matrices, (n, n), dtype)

    def jvp(primals, tangents):
        out = op(*primals)
        total = None if tangents[0] is None else op(*primals, tangents[0])
        for i, t in enumerate(tangents):
            if i and t is not None:
                total = add_tangents(total, op(*primals[:i], t, *primals[i + 1 :]))
        return out, broadcast_tangent(total, out)

    def transpose(ct, a, *directions):
        i = next(i for i, x in enumerate(directions) if type(x) is Aval)
        others = [transposed(x) for j, x in enumerate(directions) if j != i]
        cotangent = unbroadcast(op(transposed(a), ct, *others), directions[i])
        return (None, *[cotangent if j == i else None for j in range(len(directions))])

    def batch(size, values, mapped):
        ndim = max(np.ndim(v) - m for v, m in zip(values, mapped, strict=True))
        return op(*[align_ranks(v, ndim) if m else v for v, m in zip(values, mapped, strict=True)])

    op = Primitive(
        name,
        impl=impl,
        abstract_eval=_analytic_shape,
        jvp=jvp,
        linear_in=lambda count, params: range(1, count),  # in every direction, not in A
        transpose=transpose,
        batch=batch,
        samples=samples,
        kind="multilinear",
    )
    return op


def _analytic_shape(a: Aval, *directions: Aval) -> Aval:
    square(a)
    return Aval(broadcast_shapes(a, *directions), floating(result_dtype(a, *directions)))


def _derivative(function: Callable, a: np.ndarray, *directions: np.ndarray) -> np.ndarray:
    n = a.shape[-1]
    size = abs(a).sum(0).max() or 1.0
    block, factor = a, 1.0
    for x in directions:
        own = abs(x).sum(0).max()
        if not own:
            return np.zeros_like(a)
        factor *= own / size
        block = np.kron(np.eye(2), block)
        half = block.shape[0] // 2
        block[:half, half:] = np.kron(np.eye(half // n), x * (size / own))
    out = function(block)
    return out[:n, -n:] * factor if directions else out


expm = _analytic(
    "expm",
    sl.expm,
    [
        (_small(3, 3),), (_small(1, 1),), (_small(2, 2, 2),), (_small(0, 2, 2),), (complex_matrix(_small)(2, 2),),
        (np.array([[1.0, 1.0], [0.0, 1.0]]),), (_small(2, 2), (2, 2, 2)),
        (complex_matrix(_small)(2, 2), (2, 2)),
    ],
)  # fmt: skip


def _logarithm(a: np.ndarray) -> np.ndarray:
    return _real_if_real("logm", a, sl.logm(a.astype(np.result_type(a, np.float64), copy=False)))


def _real_if_real(name: str, a: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Refuse a complex value at a real matrix: a program or a batch must have one dtype."""
    if out.dtype.kind == "c" and a.dtype.kind != "c":
        raise DtypeError(
            f"scipy.linalg.{name} of a real matrix of shape {a.shape} is complex here.",
            "it has a negative eigenvalue; on tensors a real matrix has a real result, whatever its values are",
            f"write {name}(a + 0j), which is complex everywhere",
        )
    return out


logm = _analytic(
    "logm",
    _logarithm,
    [
        (_definite(3, 3),), (_definite(1, 1),), (_definite(2, 2, 2),), (_definite(0, 2, 2),),
        (_complex_definite(2, 2),), (np.array([[2.0, 1.0], [0.0, 2.0]]),), (_definite(2, 2), (2, 2, 2)),
    ],
)  # fmt: skip


# ── the Sylvester equation A X + X B = Q ─────────────────────────────────────────────────────────────────────────
#
# A ∂X + ∂X B = ∂Q − ∂A X − X ∂B, linear in Q; the transpose solves Aᵀ Y + Y Bᵀ = C.


def _sylvester(a, b, q):
    dtype = floating(np.result_type(a, b, q))
    a, b, q = [x.astype(dtype, copy=False) for x in (a, b, q)]
    return over_stack(_one_sylvester, (a, b, q), q.shape[-2:], dtype)


def _one_sylvester(a, b, q):
    """Bartels and Stewart's algorithm, as SciPy's, which does not tell when the equation is singular."""
    r, u = sl.schur(a)
    s, v = sl.schur(adjoint(b))
    (trsyl,) = sl.get_lapack_funcs(("trsyl",), (r, s, q))
    y, scale, info = trsyl(r, s, adjoint(u) @ q @ v, tranb="C")
    if info:
        raise np.linalg.LinAlgError("the Sylvester equation is singular: A and -B have an eigenvalue in common")
    return u @ (scale * y) @ adjoint(v)


def _sylvester_shape(a: Aval, b: Aval, q: Aval) -> Aval:
    m, n = square(a).shape[-1], square(b).shape[-1]
    if matrix(q).shape[-2:] != (m, n):
        raise ValueError(f"a is {m}×{m} and b {n}×{n}, so q must be {m}×{n}; its shape is {q.shape}")
    dtype = floating(result_dtype(a, b, q))
    return Aval((*broadcast_shapes(*[Aval(x.shape[:-2], dtype) for x in (a, b, q)]), m, n), dtype)


def _sylvester_jvp(primals, tangents):
    a, b, q = primals
    ta, tb, right = tangents
    x = sylvester(a, b, q)
    if ta is not None:
        right = add_tangents(right, -(ta @ x))
    if tb is not None:
        right = add_tangents(right, -(x @ tb))
    return x, sylvester(a, b, right)


def _sylvester_batch(size, values, mapped):
    ndim = max(np.ndim(v) - m for v, m in zip(values, mapped, strict=True))
    return sylvester(*[align_ranks(v, ndim) if m else v for v, m in zip(values, mapped, strict=True)])


sylvester = Primitive(
    "sylvester",
    impl=_sylvester,
    abstract_eval=_sylvester_shape,
    jvp=_sylvester_jvp,
    linear_in=(2,),
    transpose=lambda ct, a, b, q: (None, None, unbroadcast(sylvester(transposed(a), transposed(b), ct), q)),
    batch=_sylvester_batch,
    samples=[
        (_definite(3, 3), _definite(2, 2), (3, 2)), (_definite(1, 1), _definite(1, 1), (1, 1)),
        (_definite(2, 3, 3), _definite(2, 2), (3, 2)), (_definite(2, 2), _definite(2, 2), (3, 2, 2)),
        (_definite(2, 2), _definite(1, 1), (0, 2, 1)), (_complex_definite(2, 2), _definite(2, 2), (2, 2)),
    ],
)  # fmt: skip


# ── the principal square root: S S = A, so S ∂S + ∂S S = ∂A ──────────────────────────────────────────────────────


def _sqrtm(a):
    a = a.astype(floating(a.dtype), copy=False)
    return over_stack(lambda a: _real_if_real("sqrtm", a, sl.sqrtm(a)), (a,), a.shape[-2:], a.dtype)


def _sqrtm_jvp(primals, tangents):
    s = sqrtm(primals[0])
    return s, sylvester(s, s, tangents[0])


sqrtm = Primitive(
    "sqrtm",
    impl=_sqrtm,
    abstract_eval=lambda a: Aval(square(a).shape, floating(a.dtype)),
    jvp=_sqrtm_jvp,
    batch=lambda size, values, mapped: sqrtm(values[0]),
    samples=[
        _definite(3, 3), _definite(1, 1), _definite(2, 3, 3), _definite(0, 2, 2), np.array([[2.0, 1.0], [0.0, 2.0]]),
        _complex_definite(2, 2),
    ],
)  # fmt: skip


# ── the polar factor: A = U P, U of orthonormal columns, P Hermitian and positive definite; A has m ≥ n ──────────
#
# K = Uᴴ ∂A = Ω P + ∂P with Ω = Uᴴ ∂U skew-Hermitian, so Ω P + P Ω = K − Kᴴ, and ∂U = U Ω + (1 − U Uᴴ) ∂A P⁻¹. Unlike
# singular vectors, U has derivatives where singular values coincide; none where one of them is zero.


def _polar_factor(a):
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return u @ vh


def _polar_jvp(primals, tangents):
    a, t = primals[0], tangents[0]
    u = polar_factor(a)
    uh = adjoint(u)
    p = uh @ a
    p = 0.5 * (p + adjoint(p))
    k = uh @ t
    out = u @ sylvester(p, p, k - adjoint(k))
    if a.shape[-2] > a.shape[-1]:
        out = out + (t - u @ k) @ inv(p)
    return u, out


def _polar_shape(a: Aval) -> Aval:
    m, n = matrix(a).shape[-2:]
    if m < n:
        raise ValueError(f"the polar factor is of matrices with at least as many rows as columns, not {m}×{n}")
    return Aval(a.shape, floating(a.dtype))


polar_factor = Primitive(
    "polar_factor",
    impl=_polar_factor,
    abstract_eval=_polar_shape,
    jvp=_polar_jvp,
    batch=lambda size, values, mapped: polar_factor(values[0]),
    samples=[
        (_regular(3, 3),), ((4, 2),), (_regular(1, 1),), (_regular(2, 3, 3),), ((0, 3, 2),), (_complex_regular(3, 3),),
        (2 * np.eye(2),),
    ],
)  # fmt: skip
