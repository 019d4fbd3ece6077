"""Polynomials: roots from coefficients, and the characteristic polynomial of a matrix. Highest power first.

Not for: sums and products of polynomials, which are arithmetic (``surface/polynomial.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.aval import Aval
from .factorization import complex_floating, floating, over_stack, square
from .kinds import stacked, strong_product
from .samples import complex_plane, complex_regular, regular

__all__ = ["characteristic", "roots"]

# ── roots: p(r) = 0, so ṗ(r) + p′(r) ṙ = 0 ───────────────────────────────────────────────────────────────────────
#
# The sum runs over all coefficients, those in front that are zero now too: when one of them moves the roots move with
# it, and another root comes in from infinity. At a multiple root p′(r) = 0, and the derivative is infinite.


def _value(p, r):
    """Evaluate polynomials, coefficients in the last axis, at their own points."""
    total = p[..., :1] + 0 * r
    for k in range(1, p.shape[-1]):
        total = total * r + p[..., k : k + 1]
    return total


def _roots(p, *, degree):
    def one(p):
        r = np.roots(p)
        if r.shape != (degree,):
            raise np.linalg.LinAlgError(f"a polynomial of degree {degree} was expected, but one has {r.size} roots")
        return r

    return over_stack(one, (p,), (degree,), complex_floating(p.dtype), 1)


def _roots_jvp(primals: Sequence, tangents: Sequence, *, degree: int) -> tuple:
    p, t = primals[0], tangents[0]
    r = roots(p, degree=degree)
    n = p.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = _value(p[..., : n - 1] * np.arange(n - 1, 0, -1, dtype=np.zeros((), p.dtype).real.dtype), r)
        return r, strong_product(_value(t, r), -1 / slope)


roots = stacked(
    "roots",
    impl=_roots,
    abstract_eval=lambda p, *, degree: Aval((*p.shape[:-1], degree), complex_floating(p.dtype)),
    jvp=_roots_jvp,
    raises=True,
    samples=[
        (np.array([1.0, -6.0, 11.0, -6.1]), {"degree": 3}), (np.array([2.0, 0.3, 1.5]), {"degree": 2}),
        (np.array([[1.0, -3.0, 0.0], [2.0, 1.0, -4.0]]), {"degree": 2}),
        (complex_plane()(3), {"degree": 2}), (np.array([3.0, 2.0]), {"degree": 1}), (np.ones((0, 3)), {"degree": 2}),
    ],
    blocks="one",
)  # fmt: skip


# ── det(λ − A) = Σ cₖ λⁿ⁻ᵏ ───────────────────────────────────────────────────────────────────────────────────────
#
# adj(λ − A) = Σ Bₖ λⁿ⁻¹⁻ᵏ with B₀ = 1 and Bₖ = A Bₖ₋₁ + cₖ (Faddeev and LeVerrier), so ∂cₖ₊₁ = −tr(Bₖ ∂A): a polynomial
# in the entries, smooth where eigenvalues coincide too.


def _characteristic_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    a, t = primals[0], tangents[0]
    c = characteristic(a)
    n = a.shape[-1]
    identity = np.eye(n, dtype=c.dtype)
    b = np.broadcast_to(identity, a.shape)
    parts = [0 * c[..., 0]]
    for k in range(n):
        parts.append(-np.einsum("...ij,...ji->...", b, t))
        if k < n - 1:
            b = a @ b + c[..., k + 1, None, None] * identity
    return c, np.stack(parts, axis=-1)


characteristic = stacked(
    "characteristic",
    impl=lambda a: over_stack(np.poly, (a,), (a.shape[-1] + 1,)),
    abstract_eval=lambda a: Aval((*square(a).shape[:-2], a.shape[-1] + 1), floating(a.dtype)),
    jvp=_characteristic_jvp,
    samples=[
        regular(3, 3), regular(1, 1), regular(2, 3, 3), regular(0, 2, 2), 2 * np.eye(3),
        np.array([[2.0, 1.0], [0.0, 2.0]]), complex_regular(3, 3),
    ],
    blocks="one",
)  # fmt: skip
