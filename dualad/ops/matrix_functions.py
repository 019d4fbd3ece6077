"""Functions of matrices that SciPy has: exponential, logarithm, square root, the Sylvester equation.

Loaded with ``dualad.scipy.linalg``, for SciPy is optional. Matrices stand in the last two axes. None of the rules
diagonalizes, so all hold at matrices with repeated eigenvalues, defective ones too.
Not for: functions composed of these (sines, fractional powers; ``dualad/scipy/linalg``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg as sl

from ..core.aval import Array, Aval, result_dtype
from ..core.primitive import Primitive
from ..errors import DtypeError
from .factorization import adjoint, directional_shape, floating, matrix, over_stack, square, transposed
from .kinds import directional, of_matrices, solution
from .samples import Domain, complex_matrix, definite

__all__ = ["expm", "logm", "sqrtm", "sylvester"]

_complex_definite = complex_matrix(definite)
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
        return over_stack(lambda *m: _derivative(function, *m), matrices, matrices[0].shape[-2:])

    def back(ct: Array, a: Array, *others: Array) -> Array:
        return op(transposed(a), ct, *map(transposed, others))

    op = directional(name, impl=impl, abstract_eval=directional_shape, back=back, samples=samples)
    return op


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
    # SciPy estimates norms with vectors from NumPy's global generator: that is no business of the caller's.
    before = np.random.get_state()  # noqa: NPY002
    try:
        out = sl.logm(a.astype(np.result_type(a, np.float64), copy=False))
    finally:
        np.random.set_state(before)  # noqa: NPY002
    return _real_if_real("logm", a, out)


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
        (definite(3, 3),), (definite(1, 1),), (definite(2, 2, 2),), (definite(0, 2, 2),),
        (_complex_definite(2, 2),), (np.array([[2.0, 1.0], [0.0, 2.0]]),), (definite(2, 2), (2, 2, 2)),
    ],
)  # fmt: skip


# ── the Sylvester equation A X + X B = Q ─────────────────────────────────────────────────────────────────────────
#
# A ∂X + ∂X B = ∂Q − ∂A X − X ∂B, linear in Q; the transpose solves Aᵀ Y + Y Bᵀ = C.


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
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    return Aval((*stack, m, n), floating(result_dtype(a, b, q)))


sylvester = solution(
    "sylvester",
    lambda ta, x: ta @ x,
    lambda tb, x: x @ tb,
    impl=lambda a, b, q: over_stack(_one_sylvester, (a, b, q), q.shape[-2:]),
    abstract_eval=_sylvester_shape,
    back=lambda ct, a, b: sylvester(transposed(a), transposed(b), ct),
    raises=True,
    samples=[
        (definite(3, 3), definite(2, 2), (3, 2)), (definite(1, 1), definite(1, 1), (1, 1)),
        (definite(2, 3, 3), definite(2, 2), (3, 2)), (definite(2, 2), definite(2, 2), (3, 2, 2)),
        (definite(2, 2), definite(1, 1), (0, 2, 1)), (_complex_definite(2, 2), definite(2, 2), (2, 2)),
    ],
    blocks="stack",
)  # fmt: skip


# ── the principal square root: S S = A, so S ∂S + ∂S S = ∂A ──────────────────────────────────────────────────────


def _sqrtm_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    s = sqrtm(primals[0])
    return s, sylvester(s, s, tangents[0])


sqrtm = of_matrices(
    "sqrtm",
    impl=lambda a: over_stack(lambda a: _real_if_real("sqrtm", a, sl.sqrtm(a)), (a,), a.shape[-2:]),
    abstract_eval=lambda a: Aval(square(a).shape, floating(a.dtype)),
    jvp=_sqrtm_jvp,
    samples=[
        definite(3, 3), definite(1, 1), definite(2, 3, 3), definite(0, 2, 2), np.array([[2.0, 1.0], [0.0, 2.0]]),
        _complex_definite(2, 2),
    ],
)  # fmt: skip
