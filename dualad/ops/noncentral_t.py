"""Student's noncentral t in all of its parameters: one integral, and its derivatives of any order.

Loaded with ``dualad.scipy.stats``, whose law it is. Not for: Poisson mixtures (``poisson_mixture.py``).

The derivation
--------------
t is (Z + δ)/s, with a normal Z and s² = x of the gamma distribution of shape a = ν/2 and mean 1, whose density in
u = log x is p = C exp(−a (eᵘ − 1 − u)). So F = ∫ Φ(ts − δ) p du, and the integrand of a derivative is

    K = ∂ᵏ/∂aᵏ ∫ sⁿ Φ⁽ⁱ⁾(ts − δ) p du,     ∂K/∂t = K(i + 1, n + 1),     ∂K/∂δ = −K(i + 1),

F_ν = ½ K(1, 0, 0), F_δ = −K(0, 1, 0) and the density K(0, 1, 1). Under the integral is ∂ᵏp = Wₖ p, by Leibniz's rule.
As ∫ p = ∫ xp = 1 for every a, ∂ᵏp is orthogonal to 1 and to x, whose multiples may be taken off Φ so that nothing
cancels; F(t, δ) = 1 − F(−t, −δ) turns the tail that is small into the left one. With z = ts − δ:

    a ≥ 1, Φ nearly linear where p is not small:    Φ(z) less its tangent in x at x = 1, by Taylor's series
    a < 1, z far from 0 or nearly constant there:    Φ(z) − Φ(−δ), which falls with s, and p alone only with s²ᵃ
    a < 1, t < 0, elsewhere:                         x Φ(z) − Φᵤ(z)/a, which has the same integral, by parts

The integrand is log-concave in s. It is integrated from its maximum, at the root of a quadratic equation, as far as
it has fallen by e⁻⁴¹, on either side by Gauss's rule with nodes that crowd at the maximum.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special._ufuncs as sp

from .incomplete import exp_rest, flat_doubles, gauss_legendre, polygamma_rest, stirling, weights_of_exponential
from .samples import anywhere, positive
from .shape_parameters import of_shapes

__all__ = ["noncentral_t"]

#: how much the nodes may crowd at one end -> rule
_RULES = {1.5: gauss_legendre(32), 3.0: gauss_legendre(44), 5.0: gauss_legendre(60), math.inf: gauss_legendre(110)}
_LANES, _DEPTH, _TERMS = 128, 41.0, 16


# ── where the integrand lives: the exponent 2α log s − as² − ½z², concave in s; for z read min(z, 0) unless `both`


def _peak(alpha, a, t, delta, both: bool):
    half = 0.5 * t * delta
    root = np.sqrt(half * half + 2 * alpha * (2 * a + t * t))
    s = np.where(half > 0, (half + root) / (2 * a + t * t), 2 * alpha / (root - half))
    free = np.sqrt(alpha / a)
    return s if both else np.where(t * free >= delta, free, s)


def _lengths(alpha, a, t, delta, peak, both: bool):
    """Return how far to go in u, to either side, until the exponent has fallen by 41, by Newton's steps inwards."""
    clip = (lambda z: z) if both else (lambda z: np.minimum(z, 0.0))
    top, bend = clip(t * peak - delta), a + (0.5 * t * t if both else 0.0)
    most = (_DEPTH + a * peak * peak + 0.5 * top * top) / alpha
    near = np.sqrt(_DEPTH / (alpha / peak**2 + bend)) / peak
    left = np.minimum(most, np.where(near < 1, -2 * np.log1p(-np.minimum(near, 0.99)), np.inf))
    for _ in range(6):
        s = peak * np.exp(-0.5 * left)
        z = clip(t * s - delta)
        fallen = -alpha * left - a * (s - peak) * (s + peak) - 0.5 * (z - top) * (z + top)
        step = (fallen + _DEPTH) / (alpha - a * s * s - 0.5 * t * s * z)
        left = np.clip(np.where(np.isfinite(step), left + step, left), 0.1 * left, most)
    falls = np.where(t < 0, np.maximum(peak, delta / t), np.inf) + np.sqrt(_DEPTH / (a + 0.5 * t * t))
    s = np.minimum(falls, peak + np.sqrt(_DEPTH / bend))
    for _ in range(5):
        z = clip(t * s - delta)
        fallen = 2 * alpha * np.log(s / peak) - a * (s - peak) * (s + peak) - 0.5 * (z - top) * (z + top)
        step = (fallen + _DEPTH) / (2 * alpha / s - 2 * a * s - t * z)
        s = np.where(step > 0, s, s - step)
    return left, 2 * np.log(s / peak)


def _of_normal(z, count: int) -> list:
    """Return Φ and as many of its derivatives, which are φ times Hermite's polynomials."""
    out = [sp.ndtr(z)]
    if count:
        out.append(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
    for m in range(count - 1):
        out.append(-(z * out[-1] + (m * out[-2] if m else 0.0)))
    return out


def _rise(z, step, i: int):
    """Return Φ⁽ⁱ⁾(z + step) − Φ⁽ⁱ⁾(z), by Taylor's series where the step is short."""
    slopes = _of_normal(z, i + _TERMS)
    short = np.abs(step) * np.maximum(np.abs(z), 1.0) < 0.5
    h, total = np.where(short, step, 0.0), 0.0
    for j in range(_TERMS, 0, -1):
        total = h / j * (slopes[i + j] + total)
    return np.where(short, total, _of_normal(z + step, i)[i] - slopes[i])


class _Points:
    """Points of one form, and the nodes about their peaks: an array's first axis is that of the nodes."""

    def __init__(self, a, t, delta, alpha, both: bool) -> None:
        self.a, self.t, self.delta = a, t, delta
        peak = _peak(alpha, a, t, delta, both)
        left, right = _lengths(alpha, a, t, delta, peak, both)
        middle = 2 * np.log(peak)
        ends = [(middle, -left), (middle, right)]
        if not both and bool(np.any(inside := (t < 0) & (t * peak > delta))):  # Φ falls behind the peak
            step = np.where(inside, 2 * np.log(np.abs(delta / t)), middle)
            step = np.minimum(step, middle + right)
            gap = 0.5 * (step - middle)
            ends = [(middle, -left), (middle, gap), (step, -gap), (step, middle + right - step)]
        parts = []
        for centre, length in ends:
            rate = np.sqrt((a + 0.25 * t * t) * np.exp(centre) + 1)  # in which the integrand changes
            stretch = np.clip(np.log(np.abs(length) * rate / 3), 0.5, 12.0)
            nodes, weights = next(r for most, r in _RULES.items() if not np.max(stretch) > most)
            grown, whole = np.exp(stretch * nodes), np.expm1(stretch)
            scale = length / whole
            parts.append((centre + scale * (grown - 1), weights[:, None] * grown * np.abs(scale) * stretch))
        u, self.weights = (np.concatenate(p) for p in zip(*parts, strict=True))
        self.s = np.exp(0.5 * u)
        self.root = np.expm1(0.5 * u)  # s − 1
        small = bool(np.max(np.abs(u)) < 0.1)
        self.rest = exp_rest(u, small)
        self.scale = a / stirling(a)

    def leibniz(self, k: int) -> list:
        """Return W₀, …, Wₖ."""
        slope = lambda m: -polygamma_rest(m[0] - 1, self.a) - (self.rest if m[0] == 1 else 0.0)
        w = weights_of_exponential((k, 0), slope)
        return [w[m, 0] for m in range(k + 1)]

    def total(self, values):
        return np.sum(self.weights * values * np.exp(-self.a * self.rest), axis=0) * self.scale


def _of_density(a, t, delta, k: int, i: int, n: int):
    at = _Points(a, t, delta, a + 0.5 * n, True)
    return at.total(at.leibniz(k)[k] * _of_normal(t * at.s - delta, i)[i] * at.s**n)


def _large(a, t, delta, k: int):
    at = _Points(a, t, delta, a, False)
    return at.total(at.leibniz(k)[k] * sp.ndtr(t * at.s - delta))


def _large_slow(a, t, delta, k: int, i: int = 0, n: int = 0):
    """With Φ⁽ⁱ⁾ sⁿ, whose coefficients in s − 1 are those of Taylor's series times those of the binomial."""
    at = _Points(a, t, delta, a, False)
    z, r = t - delta, at.root
    slopes = _of_normal(z, i + _TERMS)
    terms = [slopes[i + j] * t**j / math.factorial(j) for j in range(_TERMS)]
    terms = [sum(math.comb(n, m) * terms[j - m] for m in range(min(j, n) + 1)) for j in range(_TERMS)]
    short = np.abs(r * t) * np.maximum(np.abs(z), 1.0) < 0.5
    h, total = np.where(short, r, 0.0), 0.0
    for j in range(_TERMS - 1, 1, -1):
        total = h * total + terms[j]
    far = _of_normal(z + t * r, i)[i] * at.s**n - terms[0] - terms[1] * r
    return at.total(at.leibniz(k)[k] * (np.where(short, h * h * total, far) - 0.5 * terms[1] * r * r))


def _small_far(a, t, delta, k: int, i: int = 0, n: int = 0):
    at = _Points(a, t, delta, a + 0.5, False)
    return at.total(at.leibniz(k)[k] * _rise(-delta, t * at.s, i))


def _small(a, t, delta, k: int):
    at = _Points(a, t, delta, a + 0.5, False)
    w, (below, density) = at.leibniz(k), _of_normal(t * at.s - delta, 1)
    steep = sum(math.comb(k, m) * w[k - m] * (-1.0) ** m * math.factorial(m) / a ** (m + 1) for m in range(k + 1))
    return at.total(below * at.s**2 * w[k] - 0.5 * t * at.s * density * steep)


def _cumulative(a, t, delta, k: int):
    out = np.empty(a.shape)
    large, slow = a >= 1, _is_slow(a, t, delta)
    far = ~large & (slow | ((t * delta > 0) & (np.abs(t) * np.sqrt(3 / a) < np.abs(delta) - 1)))
    for form, where, turned in (
        (_large, large & ~slow, t > delta), (_large_slow, large & slow, t > delta),
        (_small, ~large & ~far, t > 0), (_small_far, far, delta < 0),
    ):  # fmt: skip
        for sign in (1.0, -1.0):
            at = np.flatnonzero(where & (turned == (sign < 0)))
            out[at] = sign * _in_lanes(form, a[at], sign * t[at], sign * delta[at], k)
    return out


def _is_slow(a, t, delta):
    """Return where Φ changes little while p does."""
    z = np.where(a >= 1, t - delta, 2 * delta)
    return np.abs(t) * np.maximum(np.abs(z), np.where(a >= 1, 1.0, 2.0)) < np.sqrt(a)


def _in_lanes(form, a, t, delta, *order_of):
    out, order = np.empty(a.shape), np.argsort(a)
    for i in range(0, len(a), _LANES):
        at = order[i : i + _LANES]
        out[at] = form(a[at], t[at], delta[at], *order_of)
    return out


def _derivative(a, t, delta, *, k: int, i: int, n: int):
    (a, t, delta), shape = flat_doubles(a, t, delta)
    out = np.full(a.shape, np.nan)
    with np.errstate(all="ignore"):
        fine = np.flatnonzero((a > 0) & np.isfinite(a + t + delta))
        given = a[fine], t[fine], delta[fine]
        if i == 0:
            out[fine] = _cumulative(*given, k)
        else:
            slow, large = _is_slow(*given) & (k > 0), given[0] >= 1
            small = slow & ~large & (n == 0)
            for form, at in ((_large_slow, slow & large), (_small_far, small), (_of_density, ~(slow & large | small))):
                out[fine[at]] = _in_lanes(form, *[v[at] for v in given], k, i, n)
    return out.reshape(shape)


def _rule(a, t, delta, *, k: int, i: int, n: int):
    f = lambda k, i, n: noncentral_t(a, t, delta, k=k, i=i, n=n)
    return lambda: f(k + 1, i, n), lambda: f(k, i + 1, n + 1), lambda: -f(k, i + 1, n)


noncentral_t = of_shapes(
    "noncentral_t", _derivative, _rule, (positive(), anywhere(), anywhere()),
    [{"k": 1, "i": 0, "n": 0}, {"k": 0, "i": 1, "n": 1}, {"k": 1, "i": 1, "n": 0}],
)  # fmt: skip
