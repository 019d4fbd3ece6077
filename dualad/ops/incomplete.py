"""Derivatives of the incomplete gamma and beta functions in their shape parameters, of any order: one quadrature.

Loaded with ``special.py``. Not for: which ufuncs are made of these functions (``distributions.py``).

The derivation
--------------
The derivative in a of a distribution function is the integral of that of its density, over the tail on either side:

    ∂P/∂a (a, x) = ∫₀ˣ (log t − ψ(a)) f(a, t) dt = −∫ₓ^∞ (log t − ψ(a)) f(a, t) dt,  f = tᵃ⁻¹ e⁻ᵗ/Γ(a).

log t − ψ(a) has a single zero; on the side of it where x lies the integrand has one sign, and nothing cancels. (For
the beta function read log t − ψ(a) + ψ(a+b).) A small a makes for a long tail; it is shortened by the recurrence
P(a, x) = P(a+1, x) + xᵃe⁻ˣ/Γ(a+1), the derivatives of whose terms have one sign as well while log x < ψ(a+1).

In the variable u = log t, or log t/(1−t), the density is log-concave. From the end u = U of the tail, at a distance v,

    f(U ∓ v) = f(U) exp(−(λv + σ S(v))),  λ, σ > 0,  S convex with S(0) = S′(0) = 0:

        gamma, below x:  λ = a + 1 − x,             σ = x,          S = e⁻ᵛ − 1 + v
        gamma, above x:  λ = x − a,                 σ = x,          S = eᵛ − 1 − v
        beta, below x:   λ = a + 1 − x (a + b + 1), σ = a + b + 1,  S = log(1 + x (e⁻ᵛ − 1)) + xv,

and above x is below 1 − x with a and b exchanged. Gauss and Legendre's rule takes the tail as far as the exponent is
40. S is computed without cancellation, by series where v is small (there a, b may be huge), as are log t − ψ(a) and
the density at x, from λ: Stirling's formula with log(1 + q) − q in place of the difference of large exponents.

The derivative of order (i, j) has for its weight the polynomial in log t and log(1−t) of ∂ⁱₐ∂ʲ_b exp(g) = Wᵢⱼ exp(g),
by Leibniz's rule from that of order 0.

References: Temme, SIAM J. Math. Anal. 10 (1979) 757 and "Special Functions" (1996), ch. 11 (the prefactors and
S); Moore, Algorithm AS 187 (1982), and Boik and Robinson-Cox, J. Stat. Softw. 3 (1998), which differentiate the series
and the continued fraction, and lose digits in the far tail; Gil, Segura and Temme, "Numerical Methods for Special
Functions" (2007), ch. 5 (quadrature in such variables); Figurnov et al. (2018) for what samples need.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.special._ufuncs as sp
from scipy.special import bernoulli as sp_bernoulli

__all__ = [
    "BetaPoint", "beta_density", "beta_integral", "crowded_panels", "derivative_of_psi", "exp_rest", "flat_doubles",
    "gamma_density", "gamma_integral", "gamma_parts", "gauss_legendre", "polygamma_rest", "product_less", "stirling",
    "student_density", "student_integral", "student_shape", "weights_of_exponential",
]  # fmt: skip

_BERNOULLI = sp_bernoulli(20)[2::2].tolist()
_LARGE, _SMALL, _EXPONENT, _CHUNK = 16.0, 0.1, 41.0, 512


# ── functions without cancellation ───────────────────────────────────────────────────────────────────────────────


def exp_rest(v, small: bool):
    """Return eᵛ − 1 − v."""
    if not small:
        return np.expm1(v) - v
    total = 1.0
    for n in range(11, 2, -1):
        total = 1 + v / n * total
    return 0.5 * v * v * total


def _log_rest(q, count: int = 14):
    """Return log(1 + q) − q for |q| < ½: with r = q/(2 + q), 2 artanh r − q = −qr + 2r³ (1/3 + r²/5 + …)."""
    r = q / (2 + q)
    square, total = r * r, 0.0
    for n in range(2 * count + 1, 1, -2):
        total = 1 / n + square * total
    return r * (2 * square * total - q)


def polygamma_rest(n: int, z):
    """Return the n-th derivative of ψ(z) − log z."""
    large = z >= _LARGE
    w = np.where(large, z, _LARGE)
    total = math.factorial(n) / (2 * w)
    for k, bernoulli in enumerate(_BERNOULLI, start=1):
        total = total + bernoulli * math.factorial(2 * k + n - 1) / math.factorial(2 * k) / w ** (2 * k)
    out = (-1.0) ** (n + 1) * total / w**n
    if large.all():
        return out
    w = np.where(large, 1.0, z)
    if n == 0:
        near = sp.psi(w) - np.log(w)
    else:
        near = (-1.0) ** (n + 1) * (math.factorial(n) * sp._zeta(n + 1.0, w) - math.factorial(n - 1) * w**-n)
    return np.where(large, out, near)


def _rest_difference(n: int, z, step):
    """Return the difference of ``polygamma_rest`` between z + step and z; of a short step by Taylor's series."""
    out = polygamma_rest(n, z + step) - polygamma_rest(n, z)
    at = np.flatnonzero(step < 2e-3 * z)
    if at.size:
        z, h = z[at], step[at]
        out[at] = sum(polygamma_rest(n + k, z) * h**k / math.factorial(k) for k in range(6, 0, -1))
    return out


def stirling(z):
    """Return Γ(z + 1) (e/z)ᶻ."""
    large = z >= _LARGE
    w = np.where(large, z, _LARGE)
    total = sum(b / (2 * k * (2 * k - 1)) / w ** (2 * k - 1) for k, b in enumerate(_BERNOULLI, start=1))
    out = np.sqrt(2 * math.pi * w) * np.exp(total)
    if large.all():
        return out
    w = np.where(large, 1.0, z)
    return np.where(large, out, sp.gamma(w + 1) * np.exp(w - sp.xlogy(w, w)))


def _log_ratio(moved, z, log_ratio):
    """Return log(1 + moved/z), which is also ``log_ratio``."""
    q = moved / z
    near = np.abs(q) < 0.5
    return np.where(near, np.log1p(np.where(near, q, 0.0)), log_ratio)


def _exponent(z, moved, log_x):
    """Return z log(1 + moved/z) − moved, where z + moved = exp(log_x)."""
    q = moved / np.maximum(z, 1e-300)
    near = np.abs(q) < 0.4
    far = z * log_x - sp.xlogy(z, z) - moved
    return np.where(near, z * _log_rest(np.where(near, q, 0.0)), far)


def product_less(x, y, z):
    """Return x·y − z for a pair y = (high, low), rounded once (Dekker's product)."""
    high, low = y
    product = x * high
    with np.errstate(over="ignore", invalid="ignore"):
        xs, ys = 134217729.0 * x, 134217729.0 * high
        x1, y1 = xs - (xs - x), ys - (ys - high)
        x2, y2 = x - x1, high - y1
        error = ((x1 * y1 - product) + x1 * y2 + x2 * y1) + x2 * y2
    return (product - z) + (np.where(np.isfinite(error), error, 0.0) + x * low)


# ── the quadrature ───────────────────────────────────────────────────────────────────────────────────────────────


def gauss_legendre(count: int):
    """Return nodes and weights on [0, 1]: NumPy's, which lose digits near the ends, after Newton's steps.

    The derivative of the polynomial is n (Pₙ₋₁ − z Pₙ)/(1 − z²), the weight 2/((1 − z²) Pₙ′²).
    """
    z = np.polynomial.legendre.leggauss(count)[0].astype(np.longdouble)
    for _ in range(3):
        before, value = np.ones_like(z), z
        for n in range(2, count + 1):
            before, value = value, ((2 * n - 1) * z * value - (n - 1) * before) / n
        slope = count * (before - z * value) / (1 - z * z)
        weights, z = 2 / ((1 - z * z) * slope * slope), z - value / slope
    return (0.5 * (1 + z))[:, None].astype(float), (0.5 * weights).astype(float)


def _stretched(rule, stretch: float):
    """Crowd the nodes near 0, by v = (eᵏᶻ − 1)/(eᵏ − 1)."""
    nodes, weights = rule
    whole = math.expm1(stretch)
    return np.expm1(stretch * nodes) / whole, weights * np.exp(stretch * nodes[:, 0]) * (stretch / whole)


_EVEN = gauss_legendre(36)
_STRETCHED = _stretched(_EVEN, 2.0)


_PANEL = gauss_legendre(20)


def crowded_panels(length, *ends: float):
    """Return nodes and weights for these lengths, whose last axis has size 1, in panels with these ends at most."""
    nodes, weights = _PANEL
    most = (0.0, *ends, np.inf, np.inf)
    edges = [np.minimum((k / (len(most) - 1)) ** 2 * length, end) for k, end in enumerate(most)]
    parts = [(low + (high - low) * nodes[:, 0], (high - low) * weights) for low, high in itertools.pairwise(edges)]
    return [np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)]


class _Tail:
    """The density from the end of a tail, exp(−(λv + σS)): of the beta function if ``share``, min(x, 1−x), is there."""

    def __init__(self, slope, rate, side, share=None) -> None:
        self.slope, self.rate, self.side, self.share = slope, rate, side, share

    def __getitem__(self, at) -> _Tail:
        return _Tail(self.slope[at], self.rate[at], self.side[at], None if self.share is None else self.share[at])

    def rest(self, v, small: bool):
        """Return S."""
        signed = np.minimum(self.side * v, 700.0)
        if self.share is None:
            return exp_rest(signed, small)
        if small:
            rest = exp_rest(signed, small)
            return self.share * rest + _log_rest(self.share * (rest + signed), 6)
        return np.log1p(self.share * np.expm1(signed)) - self.share * signed

    def reach(self, target: float):
        """Return v at which λv + σS is about ``target``, by Newton's steps in the logarithms of both."""
        share, slope, rate = self.share, self.slope, self.rate
        curvature = rate if share is None else rate * share * (1 - share)
        v = 2 * target / (slope + np.hypot(slope, np.sqrt(2 * target * curvature)))
        fold = rate if share is None else rate * share
        curved = fold < 4 * target if share is None else (fold < 4 * target) & (rate > target)
        grown = np.where(curved, np.log1p(4 * target / fold), np.inf)  # where S grows like eᵛ
        if share is not None:  # or like the logarithm of that
            grown = np.minimum(grown, (target - rate * np.log(share)) / (slope + rate * (1 - share)))
        v = np.where(self.side > 0, np.minimum(v, grown), v)
        for _ in range(5):
            signed = np.minimum(self.side * v, 700.0)
            grown = np.expm1(signed)
            if share is None:
                rest, steep = grown - signed, self.side * grown
            else:
                moved = share * grown
                rest, steep = np.log1p(moved) - share * signed, self.side * (1 - share) * moved / (1 + moved)
            bend = curvature / rate * v
            rest, steep = np.where(v < 1e-3, 0.5 * bend * v, rest), np.where(v < 1e-3, bend, steep)
            exponent = slope * v + rate * rest
            step = np.log(target / exponent) * exponent / (v * (slope + rate * steep))
            v = v * np.exp(np.clip(step, -1.0, 1.0))
        return v


def _integrate(tail: _Tail, weight: Callable, plateaus=None):
    """Integrate ``weight(v, S, at)`` times the density over the tail; ``at`` indexes the points."""
    reach = tail.reach(_EXPONENT)
    total = np.zeros(reach.shape)
    low = np.zeros(reach.shape)
    if plateaus is not None and plateaus.any():
        at = np.flatnonzero(plateaus)
        edge = np.minimum(tail[at].reach(0.5), reach[at])
        long = edge > 0.05 * reach[at]
        at, edge = at[long], edge[long]
        low[at] = edge
        for part in _chunks(at):
            middle = np.maximum(low[part] - 45.0, 0.0)
            total[part] += _panel(tail[part], weight, part, middle, low[part], _EVEN, False)
            total[part] += _panel(tail[part], weight, part, 0.0, middle, _EVEN, False)
    small = reach < _SMALL
    for group, is_small in ((np.flatnonzero(small), True), (np.flatnonzero(~small), False)):
        for part in _chunks(group):
            total[part] += _panel(tail[part], weight, part, low[part], reach[part], _STRETCHED, is_small)
    return total


def _chunks(at):
    return [at[i : i + _CHUNK] for i in range(0, len(at), _CHUNK)]


def _panel(tail, weight, at, low, high, rule, small: bool):
    nodes, weights = rule
    length = high - low
    v = low + length * nodes
    rest = tail.rest(v, small)
    return length * (weights @ (weight(v, rest, at) * np.exp(-(tail.slope * v + tail.rate * rest))))


# ── Leibniz's rule ───────────────────────────────────────────────────────────────────────────────────────────────


def weights_of_exponential(order: Sequence[int], slope: Callable) -> dict:
    """Return Wₖ for all k ≤ order, where ∂ᵏ exp(g) = Wₖ exp(g), from ``slope(k)``, the k-th derivative of g."""
    out = {(0, 0): 1.0}
    for i in range(order[0] + 1):
        for j in range(order[1] + 1):
            if i or j:
                m, n = (i - 1, j) if i else (0, j - 1)
                out[i, j] = _product((m, n), lambda k, r, i=i: slope((k + 1, r) if i else (k, r + 1)), out)
    return out


def _product(order: Sequence[int], left: Callable, right: dict):
    """Return the derivative of a product from those of its factors."""
    i, j = order
    return sum(
        math.comb(i, k) * math.comb(j, r) * left(i - k, j - r) * right[k, r] for k in range(i + 1) for r in range(j + 1)
    )


def flat_doubles(*values):
    """Return arguments in double precision, broadcast, with one axis; and their shape."""
    arrays = np.broadcast_arrays(*[np.asarray(v, np.float64) for v in values])
    return [np.ravel(v) for v in arrays], arrays[0].shape


# ── gamma ────────────────────────────────────────────────────────────────────────────────────────────────────────


def gamma_parts(a, x):
    """Return the root of xᵃe⁻ˣ/Γ(a+1), for which factors do not come too late, and log x − ψ(a+1)."""
    log_x = np.log(x)
    root = np.exp(0.5 * _exponent(a, x - a, log_x)) / np.sqrt(stirling(a))
    return root, _log_ratio(x - a - 1, a + 1, log_x - np.log1p(a)) - polygamma_rest(0, a + 1)


def derivative_of_psi(n: int, z):
    return polygamma_rest(n, z) + (-1.0) ** (n - 1) * math.factorial(n - 1) * z ** float(-n)


def gamma_integral(a, x, order: int):
    """Return the derivative of P(a, x), of order 1 or more in a."""
    (a, x), shape = flat_doubles(a, x)
    out = np.where(np.isnan(a + x) | (a < 0) | (x < 0), np.nan, 0.0)
    with np.errstate(all="ignore"):
        fine = np.flatnonzero((a >= 0) & (x > 0) & np.isfinite(a) & np.isfinite(x))
        a, x = a[fine], x[fine]
        root, centred = gamma_parts(a, x)
        front = root * root
        higher = [derivative_of_psi(n, a + 1) for n in range(1, order)]
        below = centred < 0
        for side, at in ((-1.0, np.flatnonzero(below)), (1.0, np.flatnonzero(~below))):
            if at.size:
                out[fine[at]] = _gamma_tail(side, order, front[at], centred[at], a[at], x[at], [h[at] for h in higher])
    return out.reshape(shape)


def _gamma_tail(side, order, front, centred, a, x, higher):
    def weights(v, at):
        return weights_of_exponential(
            (order, 0), lambda k: centred[at] + side * v if k[0] == 1 else -higher[k[0] - 2][at]
        )

    def weight(v, rest, at):
        w = weights(v, at)
        return w[order, 0] if side < 0 else a[at] * w[order, 0] + order * w[order - 1, 0]

    total = _integrate(_Tail(a + 1 - x if side < 0 else x - a, x, np.full(a.shape, side)), weight)
    total = weights(0.0, slice(None))[order, 0] + x * total if side < 0 else -total
    return np.where(front == 0, 0.0, front * total)


def gamma_density(a, x, order: int):
    """Return the derivative of xᵃ⁻¹e⁻ˣ/Γ(a), of an order in a."""
    (a, x), shape = flat_doubles(a, x)
    with np.errstate(all="ignore"):
        root, centred = gamma_parts(a, x)
        w = weights_of_exponential((order, 0), lambda k: centred if k[0] == 1 else -derivative_of_psi(k[0] - 1, a + 1))
        out = root * ((a * w[order, 0] + (order * w[order - 1, 0] if order else 0.0)) / x) * root
        origin = np.where(a > 1, 0.0, np.where((a == 1) & (order == 0), 1.0, (-1.0) ** order * np.inf))
        out = np.where((x == 0) & (a > 0), origin, np.where((x == np.inf) | (a == np.inf), 0.0, out))
        out = np.where((root == 0) & (x > 0), 0.0, out)
    return np.where(np.isnan(a + x) | (a < 0) | (x < 0), np.nan, out).reshape(shape)


# ── beta ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class BetaPoint:
    """A point (a, b, x), y = 1 − x, with what the formulas have in common, from either end."""

    def __init__(self, a, b, x, y, moved, slopes=None) -> None:
        self.a, self.b, self.x, self.y, self.moved = a, b, x, y, moved  # x (a + b) − a
        self.total = a + b
        self.slopes = slopes or {}

    @classmethod
    def at(cls, a, b, point, order, form: str) -> BetaPoint:
        if form == "x":
            total, x, y = a + b, point, 1 - point
            part = total - a
            pair = total, (a - (total - part)) + (b - part)
            moved = np.where(x <= 0.5, product_less(x, pair, a), -product_less(y, pair, b))
        else:
            odds = np.minimum(point if form == "odds" else a / b * point, 1e300)
            y = 1 / (1 + odds)
            x = np.where(odds > 1, 1 / (1 + 1 / odds), odds * y)
            moved = a * y * (point - 1) if form == "ratio" else product_less(odds, (b, 0.0), a) * y
            moved = np.where(np.isfinite(moved), moved, b * x - a * y)
        self = cls(a, b, x, y, moved)
        above, total = moved - y, self.total
        log_x, log_y, log_total = np.log(x), np.log(y), np.log1p(total)
        for key, past, log, z, other in (
            ((1, 0), above, log_x, a + 1, b), ((0, 1), -moved - x, log_y, b + 1, a)
        ):  # fmt: skip
            ratio = _log_ratio(past, z, log + log_total - np.log(z))
            self.slopes[key] = ratio + _rest_difference(0, z, other)
        for n in range(2, sum(order) + 1):
            sign = (-1.0) ** n * math.factorial(n - 2)  # of the leading term of ψ⁽ⁿ⁻¹⁾(z), z¹⁻ⁿ
            mixed = derivative_of_psi(n - 1, total + 1)
            for i in range(n + 1):
                self.slopes[i, n - i] = mixed
            for z, other, key in ((a + 1, b, (n, 0)), (b + 1, a, (0, n))):
                lead = sign * z ** (1.0 - n) * np.expm1((1 - n) * np.log1p(other / z))
                self.slopes[key] = lead + _rest_difference(n - 1, z, other)
        power = _exponent(a, self.moved, log_x + np.log(total)) + _exponent(b, -self.moved, log_y + np.log(total))
        self.root = np.exp(0.5 * power) * np.sqrt(stirling(total) / (stirling(a) * stirling(b)))
        self.front = self.root * self.root  # xᵃyᵇ Γ(a+b+1)/(Γ(a+1) Γ(b+1))
        return self

    def __getitem__(self, at) -> BetaPoint:
        out = BetaPoint(*[v[at] for v in (self.a, self.b, self.x, self.y, self.moved)])
        out.front, out.slopes = self.front[at], {k: s[at] for k, s in self.slopes.items()}
        return out

    def turned(self) -> BetaPoint:
        out = BetaPoint(self.b, self.a, self.y, self.x, -self.moved)
        out.front, out.slopes = self.front, {(j, i): s for (i, j), s in self.slopes.items()}
        return out

    def share(self, i: int, j: int):
        """Return a derivative of b/(a + b)."""
        n = i + j
        if n == 0:
            return self.b / self.total
        return (-1.0) ** n * math.factorial(n - 1) * ((i * self.b - j * self.a) / self.total) / self.total**n

    def mean(self, i: int, j: int):
        """Return a derivative of ab/(a + b), from that of the share of b, or of a, which loses less."""
        if i > j:
            return self.turned().mean(j, i)
        return self.a * self.share(i, j) + (i * self.share(i - 1, j) if i else 0.0)

    def tail(self, order, centred=False):
        """Return the derivative of the integral from 0 to x."""
        (i, j), b, x, y = order, self.b, self.x, self.y

        def weight(v, rest, at):
            first = {
                (1, 0): self.slopes[1, 0][at] - (rest + y[at] * v), (0, 1): self.slopes[0, 1][at] + (x[at] * v - rest)
            }  # fmt: skip
            w = weights_of_exponential(order, lambda k: first[k] if k in first else self.slopes[k][at])
            return b[at] * w[i, j] + (j * w[i, j - 1] if j else 0.0)

        smaller = x <= 0.5
        tail = _Tail(y - self.moved, self.total + 1, np.where(smaller, -1.0, 1.0), np.where(smaller, x, y))
        if centred:
            weight, at_end = self.centre(j)
        else:
            at_end = _product(order, self.share, weights_of_exponential(order, self.slopes.__getitem__))
        total = at_end + x * _integrate(tail, weight, (x > 0.7) & (b < 1))
        return np.where(self.front == 0, 0.0, self.front * total)

    def centre(self, j: int):
        """Return the weight, and its value at x, of ∂/∂a (j = 0) or ∂/∂b where the mean of t is held in its place."""
        a, b, x, y, moved, total = self.a, self.b, self.x, self.y, self.moved, self.total
        z, log_x, log_y = b if j else a + 1, np.log(x), np.log(y)
        rise, past = _rest_difference(0, z, a + 1 if j else b), ((y - moved) if j else (moved - y)) / z
        gain, log_gain = (total + 1) / z, np.log1p((a + 1 if j else b) / z)

        def weight(v, rest, at):
            logarithm = log_gain[at] - rest + (log_y[at] + x[at] * v if j else log_x[at] - y[at] * v)
            grown = y[at] * np.expm1(np.minimum(v, 700.0))
            fall = gain[at] * x[at] * grown / (1 + grown)  # of t, relative to its mean
            off = past[at] + fall if j else past[at] - fall
            bend, near = logarithm - off, np.abs(off) < 0.1
            bend[near] = _log_rest(off[near], 6)
            return b[at] * (bend + rise[at] - (0.0 if j else off / a[at]))

        if j:
            far = self.slopes[0, 1] + a / (b * total) + moved / b
            near = _exponent(b, -moved, log_y + np.log(total)) / b + _rest_difference(0, b, a)
            return weight, b / total * np.where(b < 1, far, near)
        far = self.slopes[1, 0] - 1 / total - moved / a
        near = _exponent(a, moved, log_x + np.log(total)) / a - 1 / a + _rest_difference(0, a, b)
        return weight, b / total * np.where(a < 1, far, near)

    def centred_power(self, j: int):
        """Return ∂/∂b where a is 1, or ∂/∂a where b is, the mean held: ``tail`` cancels far from it."""
        near, far = (self.x, self.y) if j else (self.y, self.x)
        close = near < 0.4
        rest = np.where(close, _log_rest(np.where(close, -near, 0.0)), np.log(far) + near)
        return (-1.0) ** j * self.front / self.total * (rest / near)


def beta_integral(a, b, point, order: tuple[int, int], form: str):
    """Return the derivative of I(a, b, x), of an order above (0, 0) in a and b, at x, the odds x/(1−x), or a ratio.

    The ratio is that of the odds to a/b, and is itself held fixed by the derivative, which is of the first order then.
    """
    (a, b, point), shape = flat_doubles(a, b, point)
    end = 1.0 if form == "x" else np.inf
    out = np.where(np.isnan(a + b + point) | (a < 0) | (b < 0) | (point < 0) | (point > end), np.nan, 0.0)
    with np.errstate(all="ignore"):
        fine = (a > 0) & (b > 0) & (point > 0) & (point < end) & np.isfinite(a) & np.isfinite(b)
        fine = np.flatnonzero(fine)
        at = BetaPoint.at(a[fine], b[fine], point[fine], order, form)
        (i, j), left, right, centred = order, at.slopes[1, 0], at.slopes[0, 1], form == "ratio"
        below = at.moved < 0 if i == j or centred else left < 0 if i > j else right >= 0
        for side in (np.flatnonzero(below), np.flatnonzero(~below)):
            if side.size:
                part = at[side]
                part = part.tail(order, centred) if below[side[0]] else -part.turned().tail((j, i), centred)
                out[fine[side]] = part
        if centred:
            power = np.flatnonzero((at.a if j else at.b) == 1)
            out[fine[power]] = at[power].centred_power(j)
    return out.reshape(shape)


def beta_density(a, b, point, order: tuple[int, int], form: str):
    """Return the derivative, of an order in a and b, of the density in x, in the odds x/(1−x) or their logarithm."""
    (a, b, point), shape = flat_doubles(a, b, point)
    with np.errstate(all="ignore"):
        at = BetaPoint.at(a, b, point, order, "x" if form == "x" else "odds")
        out = _product(order, at.mean, weights_of_exponential(order, at.slopes.__getitem__))
        out = at.root * (out if form == "log" else out / (point * at.y) if form == "x" else out / point) * at.root
        out = np.where(at.root == 0, 0.0, out)
        far = (point == 1) if form == "x" else (point == np.inf)
        end, other, k = np.where(far, b, a), np.where(far, a, b), np.where(far, order[1], order[0])
        exact = np.where((end == 1) & (sum(order) == 0), other, (-1.0) ** k * np.inf)
        exact = np.where((end > 1) | (far & (form == "odds")) | (form == "log"), 0.0, exact)
        out = np.where((point == 0) | far, exact, out)
        invalid = np.isnan(a + b + point) | (a < 0) | (b < 0) | (point < 0) | ((point > 1) & (form == "x"))
    return np.where(invalid, np.nan, out).reshape(shape)


# ── Student's t: ± I(½, b, x) at the signed root s of the odds x/(1−x), odd and smooth at s = 0 ────────────────────


def _student(function: Callable, b, root, order: int, form: str):
    size = np.abs(np.asarray(root, np.float64))
    clear = np.clip(size, 1e-150, 1e150)  # below, the integral is linear and the density constant
    return function(0.5, b, clear * clear, (0, order), form), size, clear


def student_integral(b, root, order: int):
    """Return the derivative of order 1 or more in b."""
    out, size, clear = _student(beta_integral, b, root, order, "odds")
    return out * np.sign(root) * np.minimum(size / clear, 1.0)


def student_density(b, root, order: int):
    """Return the derivative of the density in s, of an order in b."""
    out, _, clear = _student(beta_density, b, root, order, "log")
    return 2 * out / clear


def student_shape(df, t):
    """Return the derivative of the distribution function of t in the degrees of freedom."""
    out, size, clear = _student(beta_integral, 0.5 * np.asarray(df), t, 1, "ratio")
    return 0.25 * out * np.sign(t) * np.minimum(size / clear, 1.0)
