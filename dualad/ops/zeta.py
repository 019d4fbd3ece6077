"""Hurwitz' and Riemann's zeta functions with derivatives in all arguments, and polygamma, which is made of them.

Loaded with ``special.py``. Not for: the gamma function and its logarithm (``special.py``).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special._ufuncs as sp
from scipy.special import bernoulli as sp_bernoulli

from ..core.aval import aval_of
from .choice import nowhere, where
from .kinds import of_every_order, strong
from .samples import between, complex_plane, elementwise_samples, positive
from .shape_parameters import of_shapes
from .special_kinds import no_rule, special

__all__ = ["polygamma", "zeta_derivative"]

_BERNOULLI = sp_bernoulli(28)[2::2].tolist()


# ── ζ⁽ᵏ⁾(x, q) = Σ (−log(n + q))ᵏ (n + q)⁻ˣ, the derivative of order k in x ───────────────────────────────────────
#
# By Euler and Maclaurin's formula, with a = q + N:
#
#     ζ(x, q) = Σ_{n<N} (n + q)⁻ˣ + a¹⁻ˣ/(x − 1) + a⁻ˣ/2 + Σ_j B₂ⱼ/(2j)! x(x+1)…(x+2j−2) a⁻ˣ⁻²ʲ⁺¹,
#
# differentiated k times in x, as polynomials in δ of x + δ up to δᵏ. Then ∂/∂x ζ⁽ᵏ⁾ = ζ⁽ᵏ⁺¹⁾ and
# ∂/∂q ζ⁽ᵏ⁾(x, q) = −x ζ⁽ᵏ⁾(x + 1, q) − k ζ⁽ᵏ⁻¹⁾(x + 1, q).

_STEPS = 14
_LOG_2PI = math.log(2 * math.pi)


def _zeta_derivative(x, q, *, order: int):
    x, q = (np.asarray(v, np.float64) for v in (x, q))
    with np.errstate(all="ignore"):
        n = np.arange(_STEPS).reshape((_STEPS,) + (1,) * max(x.ndim, q.ndim)) + q
        total = np.sum((-np.log(n)) ** order * n**-x, axis=0)
        a = q + _STEPS
        power = [a**-x * (-np.log(a)) ** i / math.factorial(i) for i in range(order + 1)]
        tail = [(-1.0) ** i / (x - 1) ** (i + 1) * a for i in range(order + 1)]
        tail[0] = tail[0] + 0.5
        rising = [x, np.ones_like(x), *[np.zeros_like(x)] * order][: order + 1]
        for j, bernoulli in enumerate(_BERNOULLI, start=1):
            factor = bernoulli / math.factorial(2 * j) / a ** (2 * j - 1)
            tail = [t + r * factor for t, r in zip(tail, rising, strict=True)]
            for m in (2 * j - 1, 2 * j):
                rising = [r * (x + m) + (rising[i - 1] if i else 0.0) for i, r in enumerate(rising)]
        total = total + math.factorial(order) * sum(power[i] * tail[order - i] for i in range(order + 1))
        return np.where(q > 0, total, np.nan)


def _zeta_derivative_rule(x, q, *, order: int):
    def along_q():
        lower = zeta_derivative(x + 1, q, order=order - 1) if order > 1 else sp._zeta(x + 1, q)
        return -x * zeta_derivative(x + 1, q, order=order) - order * lower

    return lambda: zeta_derivative(x, q, order=order + 1), along_q


zeta_derivative = of_shapes(
    "zeta_derivative", _zeta_derivative, _zeta_derivative_rule, (between(1.5, 4.0), positive()),
    [{"order": 1}, {"order": 2}],
)  # fmt: skip


def _real(name: str, x) -> None:
    if aval_of(x).dtype.kind == "c":
        raise no_rule(name, "x", "it is complex here, and the series that is used converges near the real axis only")


def _hurwitz_derivative(x, q, out):
    _real("zeta", x)
    return where(x > 1, zeta_derivative(x, q, order=1), np.nan)  # SciPy's function ends at the pole


special(
    sp._zeta, "x q", between(1.5, 4.0), positive(),
    x=_hurwitz_derivative, q=lambda x, q, out: -x * sp._zeta(x + 1, q),
)  # fmt: skip


def _riemann_derivative(x, out):
    """ζ′, left of 0 by reflection: ζ(x) = 2 (2π)ˣ⁻¹ sin(πx/2) Γ(1 − x) ζ(1 − x)."""
    _real("zeta", x)
    left = x < 0
    right = zeta_derivative(where(left, 2.0, x), 1.0, order=1)
    if nowhere(left):
        return right
    x = where(left, x, -1.0)
    sine, cosine, mirrored = np.sin(math.pi / 2 * x), np.cos(math.pi / 2 * x), sp._riemann_zeta(1 - x)
    turned = ((_LOG_2PI - sp.psi(1 - x)) * sine + math.pi / 2 * cosine) * mirrored
    turned = turned - sine * zeta_derivative(1 - x, 1.0, order=1)
    return where(left, 2 * np.power(2 * math.pi, x - 1) * sp.gamma(1 - x) * turned, right)


special(sp._riemann_zeta, "x", between(1.5, 4.0), x=_riemann_derivative)


# ── polygamma ────────────────────────────────────────────────────────────────────────────────────────────────────


def _polygamma(x, *, order):
    """Compute the derivative of order n ≥ 1 of digamma: (−1)ⁿ⁺¹ n! ζ(n+1, x) for x ≥ 0.

    For x < 0 by reflection, ψₙ(x) = (−1)ⁿ ψₙ(1−x) − π dⁿ/dxⁿ cot πx, where each derivative of c = cot πx is a
    polynomial in c: P₀ = c, Pₖ₊₁ = −π Pₖ′ (1 + c²).
    """
    x = strong(x)
    if x.dtype.kind == "c":
        return _complex_polygamma(np.asarray(x, np.complex128), order).astype(x.dtype)[()]
    wide = np.asarray(x, np.float64)
    left = wide < 0
    out = (-1.0) ** (order + 1) * math.factorial(order) * sp._zeta(order + 1.0, np.where(left, 1 - wide, wide))
    if left.any():
        out = np.where(left, _reflect(wide, out, order), out)
    return np.asarray(out, x.dtype)[()]


def _reflect(x, mirrored, order: int):
    """Return ψₙ(x), given ψₙ(1 − x)."""
    cot = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(order - 1):
        cot = cot.deriv() * np.polynomial.Polynomial([-math.pi, 0.0, -math.pi])
    # The last 1 + c² is 1/sin² πx, which vanishes far from the real axis without the difference of near numbers.
    with np.errstate(all="ignore"):
        turn = -math.pi * cot.deriv()(1 / np.tan(math.pi * x)) / np.sin(math.pi * x) ** 2
        return (-1.0) ** order * mirrored - math.pi * np.where(np.abs(np.imag(x)) > 100, 0.0, turn)


def _complex_polygamma(z, order: int):
    """Compute (−1)ⁿ⁺¹ ψₙ(z) = n! Σ_{k<N} (z+k)⁻ⁿ⁻¹ + asymptotic series at z + N, for Re z ≥ ½; else by reflection.

    The series is (n−1)!/yⁿ + n!/(2yⁿ⁺¹) + Σ B₂ₖ (2k+n−1)!/((2k)! y²ᵏ⁺ⁿ) (Abramowitz and Stegun 6.4.11).
    """
    left = np.real(z) < 0.5
    w = np.where(left, 1 - z, z)
    steps = 16 + 2 * order
    total = sum(1 / (w + k) ** (order + 1) for k in range(steps)) * math.factorial(order)
    y = w + steps
    total = total + math.factorial(order - 1) / y**order + math.factorial(order) / (2 * y ** (order + 1))
    for k, bernoulli in enumerate(_BERNOULLI, start=1):
        total = total + bernoulli * math.factorial(2 * k + order - 1) / math.factorial(2 * k) / y ** (2 * k + order)
    out = (-1.0) ** (order + 1) * total
    return np.where(left, _reflect(z, out, order), out) if left.any() else out


polygamma = of_every_order(
    "polygamma",
    _polygamma,
    (1, 2),
    [*elementwise_samples(positive()), (between(-2.8, -2.2)(3),), (complex_plane()(4),)],
    kind="special",
)
