"""Derivatives of Struve functions in their order, of any order: series, and integrals where these cancel.

Loaded with ``special.py``. Not for: the ufuncs (``special.py``), or complex arguments.

The derivation
--------------
The series is a hypergeometric one, of Taylor polynomials in the order (``hypergeometric.py``):

    H(x), L(x) = Σ (∓1)ⁿ (x/2)^(2n+ν+1) / (Γ(n + 3/2) Γ(n + ν + 3/2)).

From the first term whose Γ has an argument above 1 it goes up by division and down by multiplication, so that no pole
of Γ is met. Its terms are positive for L and ν > −3/2; but the derivative of L vanishes beside it near ν = 0, as that
of I does. Where terms cancel,

    H(x) = Y(x) + C ∫₀^∞ e^(−xt) (1 + t²)^(ν−½) dt,             C = 2 (x/2)^ν / (√π Γ(ν + ½)),
    H(x) = C Im ∫₀¹ e^(ixt) (1 − t²)^(ν−½) dt                   for x < 0.8 ν, where Y and the integral would cancel,

    L(x) = I(x) − C ∫₀¹ e^(−xt) (1 − t²)^(ν−½) dt         for small ν,

the second by way of the saddle point t = iτ, where xτ² − (2ν − 1) τ + x = 0, on two straight lines on which it falls.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special._ufuncs as sp

from .bessel_orders import order_derivative
from .hypergeometric import Polynomials, lost_digits, series
from .incomplete import derivative_of_psi, flat_doubles, gauss_legendre, weights_of_exponential
from .samples import between, positive
from .shape_parameters import of_shapes

__all__ = ["struve_order"]

_NODES, _WEIGHTS = gauss_legendre(48)
_DEPTH = 41.0


def _reciprocal_gamma(ring: Polynomials, s):
    """Return the Taylor polynomial of Γ(s)/Γ(s + α), for s > 0."""
    order = ring.exponents[-1][0]
    slopes = [derivative_of_psi(n, s) for n in range(1, order)]
    weights = weights_of_exponential((order, 0), lambda k: -sp.psi(s) if k[0] == 1 else -slopes[k[0] - 2])
    return {(k,): weights[k, 0] / math.factorial(k) + 0 * s for k in range(order + 1)}


def _by_series(ring: Polynomials, v, x, first, sign: int):
    """Return the sum and that of the absolute values; ``first`` is the term that it begins with."""
    half, s = np.log(0.5 * x), v + first + 1.5
    scale = np.exp((v + 2 * first + 1) * half - sp.gammaln(first + 1.5) - sp.gammaln(s))
    term = ring.product(_reciprocal_gamma(ring, s), ring.exponential(half, (1.0,)))
    term = {k: sign**first * scale * t for k, t in term.items()}
    z = sign * 0.25 * x * x
    found, size = series(ring, [(np.ones_like(v), (0.0,))], [(first + 1.5, (0.0,)), (s, (1.0,))], z, 20000)
    found, size = ring.product(found, term), ring.product(size, {k: np.abs(t) for k, t in term.items()})
    for n in range(int(np.max(first, initial=0)), 0, -1):
        before = ring.times(term, (v, (1.0,)), n + 0.5)
        term = {k: np.where(n <= first, before[k] * ((n + 0.5) / z), t) for k, t in term.items()}
        for k, t in term.items():
            found[k], size[k] = found[k] + np.where(n <= first, t, 0.0), size[k] + np.where(n <= first, np.abs(t), 0.0)
    return found, size


def _by_integral(ring: Polynomials, v, x, first):
    """Return H where its series cancels."""
    half, p = np.log(0.5 * x)[:, None], (v - 0.5)[:, None]
    factor, shift = _reciprocal_gamma(ring, v + first + 1.5), np.exp(v * half[:, 0] - sp.gammaln(v + first + 1.5))
    for n in range(int(np.max(first, initial=0)) + 1):
        factor = {k: np.where(n <= first, t, factor[k]) for k, t in ring.times(factor, (v, (1.0,)), n + 0.5).items()}
    saddle = x < v * np.maximum(0.8, 1 - 1.4 * np.abs(v) ** (-2 / 3))
    root = np.sqrt(np.maximum((2 * p - 2 * x[:, None]) * (2 * p + 2 * x[:, None]), 0.0))
    tau = np.where(saddle[:, None], 2 * x[:, None] / (2 * p + root), np.inf)
    far = _DEPTH / x[:, None] * (1 + 2 * np.abs(p) / x[:, None])
    for _ in range(6):  # there may be a second maximum of (1 + t²)ᵖ e⁻ˣᵗ
        far = np.maximum(far, (_DEPTH + p * np.log1p(far * far)) / x[:, None])
    reach = np.minimum(tau, far)
    parts = {k: np.zeros_like(v) for k in ring.exponents}

    def add(t, step, at):
        """Add the imaginary part of the integral over nodes t with these steps."""
        log = np.log1p(-t * t)
        values = np.exp(1j * x[at, None] * t + p[at] * log) * step * _WEIGHTS
        for k in ring.exponents:
            parts[k][at] += np.sum(np.imag(values * (half[at] + log) ** k[0]), axis=-1) / math.factorial(k[0])

    nodes, everywhere = _NODES[:, 0], np.arange(len(v))
    for low, high in ((0.0, 0.06), (0.06, 0.3), (0.3, 1.0)):
        add(1j * reach * (low + (high - low) * nodes), 1j * reach * (high - low), everywhere)
    at = np.flatnonzero(saddle)
    if at.size:
        length = np.minimum(1.0, np.sqrt(2 * _DEPTH / p[at]))
        way = 1 - 1j * tau[at]
        for low, high in ((0.0, 0.4), (0.4, 1.0)):
            add(1j * tau[at] + way * length * (low + (high - low) * nodes), way * length * (high - low), at)
    out = ring.product(parts, factor)
    for k in ring.exponents:
        y = order_derivative(v, x, kind="yv", order=k[0]) if k[0] else sp.yv(v, x)
        out[k] = out[k] * shift * (2 / math.sqrt(math.pi)) + np.where(saddle, 0.0, y) / math.factorial(k[0])
    return out


def _of_small_order(ring: Polynomials, v, x):
    """Return L for |ν| < 0.1, by nodes t in [0, ½], and 1 − t = e⁻ʷ/2 beyond."""
    half, p = np.log(0.5 * x)[:, None], (v - 0.5)[:, None]
    parts, nodes = {k: np.zeros_like(v) for k in ring.exponents}, _NODES[:, 0]
    near, far = np.minimum(0.5, _DEPTH / x)[:, None], _DEPTH / (p + 1)
    for low, high in ((0.0, 0.06), (0.06, 0.3), (0.3, 1.0)):
        for step, t, rest in (
            ((high - low) * near, near * (low + (high - low) * nodes), None),
            (far * (high - low), None, 0.5 * np.exp(-far * (low + (high - low) * nodes))),
        ):
            t, rest, step = (t, 1 - t, step) if rest is None else (1 - rest, rest, step * rest)
            log = np.log(rest) + np.log1p(t)
            values = np.exp(p * log - x[:, None] * t) * step * _WEIGHTS
            for k in ring.exponents:
                parts[k] += np.sum(values * (half + log) ** k[0], axis=-1) / math.factorial(k[0])
    out = ring.product(parts, _reciprocal_gamma(ring, v + 0.5))
    shift = np.exp(v * half[:, 0] - sp.gammaln(v + 0.5)) * (2 / math.sqrt(math.pi))
    bessel = lambda n: order_derivative(v, x, kind="iv", order=n) if n else sp.iv(v, x)
    return {k: bessel(k[0]) / math.factorial(k[0]) - shift * t for k, t in out.items()}


def _struve_order(v, x, *, order: int, modified: bool):
    (v, x), shape = flat_doubles(v, x)
    out = np.where((x == 0) & (v > -1), 0.0, np.nan)
    at = np.flatnonzero((x > 0) & np.isfinite(x) & (np.abs(v) < 1e4))
    v, x, ring = v[at], x[at], Polynomials((order,))
    with np.errstate(all="ignore"):
        first = np.maximum(np.ceil(-v - 0.5), 0.0)
        value, size = _by_series(ring, v, x, first, 1 if modified else -1)
        bad = lost_digits(value, size)
        bad = bad[(np.abs(v[bad]) < 0.1) & (x[bad] > 1) if modified else x[bad] > 4]  # elsewhere it is near a zero
        if bad.size:
            args = (v[bad], x[bad]) if modified else (v[bad], x[bad], first[bad])
            for k, t in (_of_small_order if modified else _by_integral)(ring, *args).items():
                value[k][bad] = t
        out[at] = value[(order,)] * math.factorial(order)
    return out.reshape(shape)


# ∂/∂x (xᵛ f) = xᵛ f(ν − 1) for both functions, which holds for derivatives in the order by Leibniz's rule.


def _rule(v, x, *, order: int, modified: bool):
    f = lambda v, order: struve_order(v, x, order=order, modified=modified)
    below = lambda: f(v, order - 1) if order > 1 else (sp.modstruve if modified else sp.struve)(v, x)
    return lambda: f(v, order + 1), lambda: f(v - 1, order) - (v * f(v, order) + order * below()) / x


struve_order = of_shapes(
    "struve_order", _struve_order, _rule, (between(0.4, 2.2), positive()),
    [{"order": 1, "modified": False}, {"order": 2, "modified": True}],
)  # fmt: skip
