"""Elementary functions: exponentials, logarithms, roots, trigonometric and hyperbolic ones, rounding.

Not for: functions of ``scipy.special`` (``special.py``) or powers with a variable exponent (``arithmetic.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..core.aval import Aval
from ..core.primitive import Primitive
from ..errors import RuleMissingError
from .choice import nowhere, where
from .kinds import (
    add_tangents,
    batch_elementwise,
    broadcast_tangent,
    elementwise,
    elementwise_shape,
    linear,
    of_every_order,
    predicate,
    stacked,
    strong,
    unary,
    unbroadcast,
)
from .kinks import chosen
from .samples import anywhere, away_from, between, complex_plane, elementwise_samples, integers, positive

__all__ = ["cos", "derivative_of_sinc", "exp", "i0", "log", "logistic", "sin", "sinc", "sqrt", "tanh"]

# ── exponentials, logarithms, the square root ────────────────────────────────────────────────────────────────────

exp = unary(np.exp, anywhere(), lambda x, out: out)
log = unary(np.log, positive(), lambda x, out: 1 / x, singular=True)
sqrt = unary(np.sqrt, positive(), lambda x, out: 0.5 / out, singular=True)

_LOG_2, _LOG_10 = math.log(2), math.log(10)

exp2 = unary(np.exp2, anywhere(), lambda x, out: out * _LOG_2)
# Not out + 1, which has lost the digits of e^x where x ≪ 0.
expm1 = unary(np.expm1, anywhere(), lambda x, out: np.exp(x))
log2 = unary(np.log2, positive(), lambda x, out: (1 / _LOG_2) / x, singular=True)
log10 = unary(np.log10, positive(), lambda x, out: (1 / _LOG_10) / x, singular=True)
log1p = unary(np.log1p, positive(), lambda x, out: 1 / (1 + x), singular=True)

# ── trigonometric functions ──────────────────────────────────────────────────────────────────────────────────────

sin = unary(np.sin, anywhere(), lambda x, out: np.cos(x))
cos = unary(np.cos, anywhere(), lambda x, out: -np.sin(x))
tan = unary(np.tan, between(-1.2, 1.2), lambda x, out: 1 + out * out)

# The inverses are written with products of roots of linear factors where those have the branch cuts of the function
# itself, and where 1 − x² would lose the digits of 1 − |x|.
_inside = between(-0.9, 0.9)

# On a branch cut the sign of a zero imaginary part says on which side. z + 1 and 1 - z lose it (0j + -0j is 0j), where
# z - (-1) and -(z - 1) keep it.


def _cosine_of_arcsin(x):
    """√(1 − x²)."""
    return np.sqrt(-(x - 1)) * np.sqrt(x - (-1)) if np.iscomplexobj(x) else np.sqrt((1 - x) * (1 + x))


arcsin = unary(np.arcsin, _inside, lambda x, out: 1 / _cosine_of_arcsin(x), singular=True)
arccos = unary(np.arccos, _inside, lambda x, out: -1 / _cosine_of_arcsin(x), singular=True)
arctan = unary(np.arctan, anywhere(), lambda x, out: 1 / (1 + x * x))

# ── hyperbolic functions ─────────────────────────────────────────────────────────────────────────────────────────

sinh = unary(np.sinh, anywhere(), lambda x, out: np.cosh(x))
cosh = unary(np.cosh, anywhere(), lambda x, out: np.sinh(x))
tanh = unary(np.tanh, anywhere(), lambda x, out: 1 - out * out)
arcsinh = unary(np.arcsinh, anywhere(), lambda x, out: 1 / np.sqrt(x * x - (-1)))
arccosh = unary(np.arccosh, between(1.2, 3.0), lambda x, out: 1 / (np.sqrt(x - 1) * np.sqrt(x - (-1))), singular=True)
arctanh = unary(np.arctanh, _inside, lambda x, out: 1 / ((1 - x) * (1 + x)), singular=True)

# ── two arguments ────────────────────────────────────────────────────────────────────────────────────────────────


def _arctan2_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    """∂ arctan2(y, x) = (x ∂y − y ∂x)/r², in two steps of r so that r² can't overflow; 0 at the origin."""
    y, x = primals
    ty, tx = tangents
    out = np.arctan2(y, x)
    r = np.hypot(x, y)
    origin = r == 0
    if not nowhere(origin):
        r = where(origin, 1, r)
    t = None if ty is None else ty * (x / r / r)
    if tx is not None:
        s = tx * (y / r / r)
        t = -s if t is None else t - s
    return out, chosen(broadcast_tangent(t, out), lambda: origin, "arctan2")


arctan2 = elementwise(np.arctan2, jvp=_arctan2_jvp, samples=away_from(0.0))


def _logistic(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


# σ(x) = 1/(1 + e⁻ˣ), with σ′(x) = σ(x) σ(−x): no order of derivative has a factor that overflows.
logistic = elementwise(
    _logistic,
    name="logistic",
    abstract_eval=elementwise_shape(np.exp),
    jvp=lambda primals, tangents: ((out := logistic(primals[0])), tangents[0] * (out * logistic(-primals[0]))),
    samples=anywhere(),
)


def _log_add_exp(ufunc: np.ufunc, unit: float) -> Primitive:
    """Declare log(bˣ + bʸ): the weights are bˣ/(bˣ + bʸ) = σ((x − y) log b) and its mirror image.

    Where x = y = ±∞ their difference is not defined and is taken to be 0: the two share the weight.
    """

    def jvp(primals: Sequence, tangents: Sequence) -> tuple:
        x, y = primals
        tx, ty = tangents
        out = ufunc(x, y)
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.subtract(x, y)
            equal = gap != gap
            if not nowhere(equal):
                gap = where(equal, 0, gap)
            if unit != 1:
                gap = unit * gap
            t = None if tx is None else tx * logistic(gap)
            t = t if ty is None else add_tangents(t, ty * logistic(-gap))
        return out, broadcast_tangent(t, out)

    return elementwise(ufunc, jvp=jvp, samples=anywhere())


logaddexp = _log_add_exp(np.logaddexp, 1.0)
logaddexp2 = _log_add_exp(np.logaddexp2, _LOG_2)


# ── functions whose derivatives of every order are one formula ───────────────────────────────────────────────────


def derivative_of_sinc(x, order):
    """Return the n-th derivative of sin(πx)/(πx).

    With u = πx and f(u) = sin(u)/u: from (u f)⁽ⁿ⁾ = u f⁽ⁿ⁾ + n f⁽ⁿ⁻¹⁾ = sin⁽ⁿ⁾ follows the recurrence
    f⁽ⁿ⁾ = (sin⁽ⁿ⁾(u) − n f⁽ⁿ⁻¹⁾)/u, stable for |u| > n/2; nearer to 0 the series
    Σ (−1)ᵏ u²ᵏ⁻ⁿ / ((2k+1) (2k−n)!) over 2k ≥ n is.
    """
    u = np.pi * (np.where(x == 0, 1e-20, x) if order == 0 else x)
    if order == 0:
        return np.sin(u) / u
    near = abs(u) <= max(2.0, order / 2)
    far_u = np.where(near, 1.0, u)
    far = np.sin(far_u) / far_u
    for n in range(1, order + 1):
        far = (np.sin(far_u + n * (np.pi / 2)) - n * far) / far_u
    near_u, first, series = np.where(near, u, 0.0), (order + 1) // 2, 0.0
    for k in range(first + 13 + order, first - 1, -1):
        series = series * near_u**2 + (-1) ** k / ((2 * k + 1) * math.factorial(2 * k - order))
    return np.pi**order * np.where(near, series * near_u if order % 2 else series, far)


def _sinc(x, *, order):
    x = strong(x)
    if order == 0:
        return np.sinc(x)
    return derivative_of_sinc(np.asarray(x, np.result_type(x, np.float64)), order).astype(x.dtype)[()]


def _i0(x, *, order):
    """Compute the n-th derivative of the modified Bessel function I₀(x) = (1/π) ∫₀^π exp(x cos θ) dθ.

    Differentiated under the integral sign; on a periodic integrand the trapezoidal rule converges geometrically, and
    its error, I₂ₘ(x) for m intervals, is below rounding for every x whose I₀ does not overflow. Summed in pairs of
    opposite nodes, so that an odd order is odd.
    """
    x = strong(x)
    if order == 0:
        return np.i0(x)[()]
    intervals = 128 + 2 * order
    total = np.zeros(x.shape, np.result_type(x, np.float64))
    for k in range(intervals + 1):
        c = math.cos(math.pi * k / intervals) if 2 * k != intervals else 0.0
        total = total + (0.5 if k in (0, intervals) else 1.0) * c**order * np.exp(x * c, dtype=total.dtype)
    return (total / intervals).astype(x.dtype)[()]


_reals = elementwise_samples(anywhere())
sinc = of_every_order("sinc", _sinc, (0, 1), [*_reals, (np.array([0.0, 1e-9, 0.5, -3.0]),), (complex_plane()(3),)])
i0 = of_every_order("i0", _i0, (0, 1), [*_reals, (np.array([0.0, 1e-9, 12.0, -30.0]),)])


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────

# Samples keep away from the jumps, so that differences see the derivative too.
_between_jumps = elementwise_samples(between(0.55, 0.95)) + elementwise_samples(between(-2.45, -2.05))[1:3]

for _ufunc in (np.floor, np.ceil, np.trunc, np.rint):
    predicate(_ufunc, samples=_between_jumps)

predicate(
    np.floor_divide,
    samples=elementwise_samples(between(5.2, 5.6), between(1.5, 1.7))
    + elementwise_samples(integers(-9, 9), integers(1, 4))[1:3],
)

round_ = stacked(
    "round",
    impl=lambda x, *, decimals: np.round(x, decimals),
    abstract_eval=lambda x, *, decimals: Aval(x.shape, np.round(np.empty(0, x.dtype), decimals).dtype),
    jvp=None,
    samples=[
        ((), {"decimals": 0}),
        (between(1.26, 1.34)(3), {"decimals": 1}),
        (between(1210.0, 1230.0)(2, 3), {"decimals": -2}),
        ((0, 2), {"decimals": 3}),
        (integers(3, 40)(4), {"decimals": -1}),
    ],
    kind="predicate",
)


# ── a number taken apart ─────────────────────────────────────────────────────────────────────────────────────────


def _modf_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    """Give the fraction the tangent of x: the whole part is a step."""
    return np.modf(primals[0]), (tangents[0], None)


modf = elementwise(np.modf, jvp=_modf_jvp, samples=_between_jumps)


def _frexp_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    """Scale the tangent as the mantissa: x = m 2^e, where e is a step, so ∂m = 2^(−e) ∂x."""
    mantissa, exponent = np.frexp(primals[0])
    return (mantissa, exponent), (np.ldexp(tangents[0], -exponent), None)


frexp = elementwise(
    np.frexp,
    jvp=_frexp_jvp,
    samples=elementwise_samples(between(1.1, 1.9)) + elementwise_samples(between(-0.45, -0.3))[1:3],
)

ldexp = linear(
    "ldexp",
    impl=np.ldexp,
    abstract_eval=elementwise_shape(np.ldexp),
    transpose=lambda ct, x, n: (unbroadcast(np.ldexp(ct, n), x), None),
    batch=batch_elementwise(np.ldexp),
    samples=elementwise_samples(away_from(0.0), integers(-3, 4)),
    numpy=[np.ldexp],
)


# ── the grid of floating-point numbers ───────────────────────────────────────────────────────────────────────────


def _refused(ufunc: np.ufunc) -> Primitive:
    name = ufunc.__name__

    def jvp(primals: Sequence, tangents: Sequence) -> None:
        raise RuleMissingError(
            f"np.{name} was differentiated.",
            "it steps along the grid of floating-point numbers, which no infinitesimal amount can be compared with",
            f"use np.{name}(dualad.stop_gradient(x), ...) if its value is a constant to you",
        )

    return elementwise(ufunc, jvp=jvp, samples=away_from(0.0), kind="refused")


nextafter, spacing = _refused(np.nextafter), _refused(np.spacing)
