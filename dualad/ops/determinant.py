"""Determinants, with derivatives of every order that hold for singular matrices too.

The derivative of the determinant is the matrix of cofactors. It is a polynomial in the entries, as all its
derivatives are, so none of them needs an inverse; the operator ``cofactors`` stands for the whole family.
Not for: linear systems (``factorization.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..core.aval import Aval
from ..errors import SingularMatrixError
from .factorization import directional_shape, floating, inv, square, transposed
from .kinds import directional, of_matrices
from .samples import complex_regular, regular

__all__ = ["LOSS", "adjugate", "cofactors", "det", "slogdet"]

# ── the adjugate and its derivatives ─────────────────────────────────────────────────────────────────────────────
#
# adj(A) A = det(A)·1. Let adjₖ = Dᵏadj(A)[X₁, …, Xₖ], a symmetric multilinear form. Leibniz' rule gives
#
#     adjₖ A + Σᵢ adjₖ₋₁(without Xᵢ) Xᵢ = Dᵏdet(A)[X₁, …, Xₖ]·1,    Dᵏdet(A)[X₁, …, Xₖ] = tr(adjₖ₋₁(without Xₖ) Xₖ),
#
# which, times A⁻¹, is a recursion: good while A is well-conditioned, and the less so the higher k, as A⁻¹ enters k + 1
# times. For the others, in coordinates of the singular value decomposition A = U S V,
#
#     adj(A + X) = det(U) det(V) Vᴴ adj(S + M) Uᴴ,     M = Uᴴ X Vᴴ,
#
# and with Pᵢⱼ = the product of all singular values but the i-th and the j-th,
#
#     adj(S)ᵢᵢ = Pᵢᵢ,     adj₁(S)ᵢⱼ = −Mᵢⱼ Pᵢⱼ (i ≠ j),     adj₁(S)ᵢᵢ = Σ_{j≠i} Pᵢⱼ Mⱼⱼ.
#
# For k ≥ 2 the small entries of S are moved along a circle, s → s + ρω with ω running through the N-th roots of unity:
# the polynomial's mean over them is its value at the centre exactly, once N exceeds its degree, which is at most the
# number of small entries. On the circle the recursion is well-conditioned.

#: the precision that the recursion may lose: condition numbers up to the (k+1)-th root of this are fine
LOSS = 1e6


def adjugate(determinant, inverse, directions: list):
    """Return adjₖ by the recursion; ``determinant`` has two axes of size one at its end."""
    if not directions:
        return determinant * inverse
    *others, last = directions
    trace = np.trace(adjugate(determinant, inverse, others) @ last, axis1=-2, axis2=-1)[..., None, None]
    total = trace * np.eye(inverse.shape[-1])
    for i, x in enumerate(directions):
        total = total - adjugate(determinant, inverse, directions[:i] + directions[i + 1 :]) @ x
    return total @ inverse


def _adjugate_of_singular(a: np.ndarray, directions: list) -> np.ndarray:
    """Return adjₖ of one matrix in coordinates of its singular value decomposition."""
    u, s, v = np.linalg.svd(a)
    uh, vh = u.conj().T, v.conj().T
    moves = [uh @ x @ vh for x in directions]
    if len(directions) < 2:
        inner = _adjugate_of_diagonal(s, *moves)
    else:
        small = s <= s.max() / LOSS ** (1 / (len(directions) + 1))
        inner = _mean_over_circle(s, small, moves)
    out = np.linalg.det(u) * np.linalg.det(v) * (vh @ inner @ uh)
    return out if np.iscomplexobj(a) or any(np.iscomplexobj(x) for x in directions) else out.real


def _adjugate_of_diagonal(s: np.ndarray, m: np.ndarray | None = None) -> np.ndarray:
    """Return adj, or adj₁, of a diagonal matrix."""
    others = np.where(np.eye(len(s), dtype=bool), 1, s)
    one = np.ones((len(s), 1))
    before = np.cumprod(np.hstack([one, others[:, :-1]]), axis=1)
    after = np.cumprod(np.hstack([one, others[:, :0:-1]]), axis=1)[:, ::-1]
    products = before * after
    all_but_one = np.diag(products)
    if m is None:
        return np.diag(all_but_one)
    np.fill_diagonal(products, 0)
    return np.diag(products @ np.diag(m)) - m * products


def _mean_over_circle(s: np.ndarray, small: np.ndarray, moves: list) -> np.ndarray:
    """Return adjₖ of a diagonal matrix by the mean value of a polynomial."""
    radius = max(2 * s[small].max(initial=0), s[~small].min(initial=math.inf))
    radius = radius if 0 < radius < math.inf else 1.0
    nodes = np.exp(2j * np.pi * np.arange(small.sum() + 1) / (small.sum() + 1))
    moved = s + radius * nodes[:, None] * small
    inverses = np.eye(len(s)) / moved[:, None, :]
    return adjugate(moved.prod(-1)[:, None, None], inverses, moves).mean(0)


def _cofactors(a, *directions):
    a, *directions = np.broadcast_arrays(a, *directions)
    dtype = floating(np.result_type(a, *directions))
    n = a.shape[-1]
    if a.size == 0 or len(directions) >= n:  # the determinant's derivatives of order above n vanish
        return np.zeros(a.shape, dtype)
    wide = np.result_type(dtype, np.float64)
    a, directions = a.astype(wide), [x.astype(wide) for x in directions]
    try:
        inverse = np.linalg.inv(a)
        with np.errstate(invalid="ignore", over="ignore"):
            condition = abs(a).sum(-2).max(-1) * abs(inverse).sum(-2).max(-1)
            good = condition < LOSS ** (1 / (len(directions) + 1))
            good |= ~np.isfinite(a).all((-2, -1))
    except np.linalg.LinAlgError:
        inverse, good = a, np.zeros(a.shape[:-2], bool)
    out = adjugate(np.linalg.det(a)[..., None, None], inverse, directions) if good.any() else np.empty(a.shape, wide)
    for index in np.argwhere(~good):
        i = tuple(index)
        out[i] = _adjugate_of_singular(a[i], [x[i] for x in directions])
    return np.swapaxes(out, -1, -2).astype(dtype)


# ⟨c, cof(A; X, …)⟩ = D det(A)[X, …, c] is symmetric in its directions, so c takes the place of X.
cofactors = directional(
    "cofactors",
    impl=_cofactors,
    abstract_eval=directional_shape,
    back=lambda ct, a, *others: cofactors(a, *others, ct),
    raises=False,
    samples=[
        (regular(3, 3),), (regular(3, 3), (3, 3)), (regular(4, 4), (4, 4), (4, 4)), (regular(2, 3, 3), (2, 3, 3)),
        (regular(1, 1),), (regular(0, 2, 2),), (np.zeros((3, 3)), (3, 3)),
        (np.diag([2.0, 1.0, 0.0, 0.0]), (4, 4), (4, 4)),
        (complex_regular(3, 3), (3, 3)),
    ],
)  # fmt: skip


# ── det ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _det_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    a = primals[0]
    return det(a), np.sum(cofactors(a) * tangents[0], axis=(-2, -1))


det = of_matrices(
    "det",
    impl=np.linalg.det,
    abstract_eval=lambda a: Aval(square(a).shape[:-2], floating(a.dtype)),
    jvp=_det_jvp,
    samples=[
        (regular(3, 3),), (regular(1, 1),), (regular(2, 3, 3),), (regular(0, 2, 2),), (regular(2, 2, 2, 2),),
        (np.ones((3, 3)),), (complex_regular(3, 3),),
    ],
    raises=False,
)  # fmt: skip


# ── slogdet: det A = sign · exp(log) ─────────────────────────────────────────────────────────────────────────────
#
# ∂log det A = tr(A⁻¹ ∂A) = ∂log + ∂sign/sign, a real and an imaginary number. The sign of a real matrix is constant.
# At a singular matrix the logarithm is −∞ and has no derivative.


def _slogdet_shape(a: Aval):
    dtype = floating(square(a).dtype)
    return Aval(a.shape[:-2], dtype), Aval(a.shape[:-2], np.zeros((), dtype).real.dtype)


def _slogdet_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    sign, log = slogdet(primals[0])
    try:
        inverse = inv(primals[0])
    except np.linalg.LinAlgError:
        raise SingularMatrixError(
            "np.linalg.slogdet was differentiated at a singular matrix.",
            "the logarithm of its determinant is −∞ there, and tr(A⁻¹ ∂A) does not exist",
            "use np.linalg.det(a), which has derivatives everywhere, or make the matrix regular (a + 1e-9 * np.eye(n))",
        ) from None
    t = np.sum(transposed(inverse) * tangents[0], axis=(-2, -1))
    if t.dtype.kind != "c":
        return (sign, log), (None, t)
    return (sign, log), (sign * 1j * np.imag(t), np.real(t))


slogdet = of_matrices(
    "slogdet",
    impl=lambda a: tuple(np.linalg.slogdet(a)),
    abstract_eval=_slogdet_shape,
    jvp=_slogdet_jvp,
    samples=[
        (regular(3, 3),), (regular(1, 1),), (regular(2, 3, 3),), (regular(0, 2, 2),), (complex_regular(2, 3, 3),),
    ],
    multiple_results=True,
    raises=False,
)  # fmt: skip
