"""Hypergeometric functions differentiated in their parameters, of any order: series whose terms are Taylor polynomials.

Loaded with ``special.py``. Not for: the operators that are made of them, with their rules (``shape_parameters.py``).

The derivation
--------------
Terms of Σ (a)ₙ…/((b)ₙ…) zⁿ/n! follow from one another by factors that are linear in the parameters. With a + α for a,
b + β for b, … they are polynomials in α, β, …, cut off at the order asked for: forward mode, by hand. Multiplication
by p + Σ cᵢ αᵢ adds shifted coefficients, and division solves for them one by one. Where the parameters are positive
and z is too, nothing cancels; elsewhere

    ₁F₁(a; b; z) = eᶻ ₁F₁(b − a; b; −z),    ₂F₁(a, b; c; z) = (1 − z)⁻ᵃ ₂F₁(a, c − b; c; z/(z − 1)),  z < 0.

The series of ₂F₁ is added up as far as z = ¾. From there Taylor's series about z, by the differential equation

    z (1 − z) F″ + (c − (a + b + 1) z) F′ − ab F = 0,

halves the distance to the pole at each step, on which nothing depends otherwise: no case for c − a − b whole.

A sum of which more than six digits cancel is NaN.

References: Ancarani and Gasaneo, J. Math. Phys. 49 (2008) 063508 (derivatives in parameters); Pearson, Olver and
Porter, Numer. Algorithms 74 (2017) 821 (regions); Neidinger, SIAM Rev. 52 (2010) 545 (arithmetic of Taylor's series).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import scipy.special._ufuncs as sp

from .incomplete import crowded_panels, derivative_of_psi, flat_doubles, weights_of_exponential

__all__ = ["hypergeometric_derivative", "tricomi_derivative"]

#: a parameter: its value, and its coefficients of α, β, …
Linear = tuple[np.ndarray, tuple[float, ...]]


class _Polynomials:
    """Taylor polynomials in as many variables as ``order`` is long: coefficients by their exponents."""

    def __init__(self, order: Sequence[int]) -> None:
        self.exponents = list(itertools.product(*[range(n + 1) for n in order]))
        self.below = {
            (k, i): (*k[:i], k[i] - 1, *k[i + 1 :]) for k in self.exponents for i in range(len(order)) if k[i]
        }

    def times(self, p: dict, linear: Linear, shift: float = 0.0) -> dict:
        value, slopes = linear
        value, out = value + shift, {}
        for k in self.exponents:
            total = p[k] * value
            for i, c in enumerate(slopes):
                if c and k[i]:
                    total = total + c * p[self.below[k, i]]
            out[k] = total
        return out

    def over(self, p: dict, linear: Linear, shift: float = 0.0) -> dict:
        value, slopes = linear
        inverse, out = 1 / (value + shift), {}
        for k in self.exponents:  # in an order in which those below come first
            total = p[k]
            for i, c in enumerate(slopes):
                if c and k[i]:
                    total = total - c * out[self.below[k, i]]
            out[k] = total * inverse
        return out

    def product(self, p: dict, q: dict) -> dict:
        pairs = lambda k: itertools.product(*[range(n + 1) for n in k])
        return {k: sum(p[r] * q[tuple(np.subtract(k, r).tolist())] for r in pairs(k)) for k in self.exponents}

    def exponential(self, factor, slopes: tuple[float, ...]) -> dict:
        """Return exp(factor · Σ cᵢ αᵢ)."""
        weight = lambda k: math.prod([c**n / math.factorial(n) for c, n in zip(slopes, k, strict=True)])
        return {k: factor ** sum(k) * weight(k) for k in self.exponents}

    def one(self, like) -> dict:
        return {k: np.full(like.shape, float(not any(k))) for k in self.exponents}


def _series(ring: _Polynomials, above: list[Linear], beneath: list[Linear], z, count: int):
    """Add up the series, in which all coefficients must converge; return the sum and that of the absolute values."""
    term = ring.one(z)
    total, size = {k: t.copy() for k, t in term.items()}, {k: np.abs(t) for k, t in term.items()}
    at = np.arange(len(z))
    for n in range(count):
        for p in above:
            term = ring.times(term, p, n)
        for p in beneath:
            term = ring.over(term, p, n)
        term = {k: t * (z * (1 / (n + 1))) for k, t in term.items()}
        for k, t in term.items():
            total[k][at] += t
            size[k][at] += np.abs(t)
        if n % 8 == 7:
            open_ = np.zeros(len(at), bool)
            largest = np.max([np.abs(t) for t in term.values()], axis=0)
            for k in ring.exponents:
                open_ |= largest > 1e-18 * np.abs(total[k][at])
            open_ &= np.isfinite(largest) & (largest > 0)
            if not open_.all():
                at, z, term = at[open_], z[open_], {k: t[open_] for k, t in term.items()}
                above, beneath = ([(v[open_], c) for v, c in ps] for ps in (above, beneath))
            if not at.size:
                return total, size
    for k in ring.exponents:
        total[k][at] = np.nan
    return total, size


def _gauss(ring: _Polynomials, a: Linear, b: Linear, c: Linear, z, y):
    """Return ₂F₁ at z = 1 − y, 0 ≤ z < 1."""
    x = np.minimum(z, 0.75)
    value, size = _series(ring, [a, b], [c], x, 400)
    far = np.flatnonzero(y < 0.25)
    if not far.size:
        return value, size
    a, b, c = ((v[far], s) for v, s in (a, b, c))
    moved = lambda p: (p[0] + 1, p[1])
    f, slope = {k: v[far] for k, v in value.items()}, _series(ring, [moved(a), moved(b)], [moved(c)], x[far], 400)[0]
    slope = ring.over(ring.times(ring.times(slope, a), b), c)
    both = (a[0] + b[0] + 1, tuple(np.add(a[1], b[1]).tolist()))
    now, end = np.full(len(far), 0.25), y[far]
    while np.any(now > end):
        h = now - np.maximum(0.5 * now, end)
        before, here = f, {k: s * h for k, s in slope.items()}
        f, slope = {k: before[k] + here[k] for k in before}, here
        for n in range(400):
            # (n + 2)(n + 1) x (1 − x) f₊₂ = (n + a)(n + b) h² f − (n + 1) (n (1 − 2x) + c − (a + b + 1) x) h f₊₁
            left = ring.times(ring.times(before, a, n), b, n)
            right, middle = ring.times(here, c, n * (2 * now - 1)), ring.times(here, both)
            scale = h / ((n + 2) * (n + 1) * now * (1 - now))
            before, here = here, {k: scale * (h * left[k] - (n + 1) * (right[k] - (1 - now) * middle[k])) for k in left}
            f, slope = {k: f[k] + here[k] for k in f}, {k: slope[k] + (n + 2) * here[k] for k in f}
            if n % 8 == 7 and not any([np.any(n * np.abs(here[k]) > 1e-17 * np.abs(slope[k])) for k in f]):
                break
        slope = {k: s / np.where(h > 0, h, 1.0) for k, s in slope.items()}
        now = now - h
    for k in value:
        value[k][far], size[k][far] = f[k], np.abs(f[k])
    return value, size


def _values(ring: _Polynomials, parameters: list[Linear], z):
    """Return the polynomials of ₀F₁, ₁F₁ or ₂F₁, by the number of parameters, and what their terms add up to."""
    if len(parameters) == 1:
        return _series(ring, [], parameters, z, 2000)
    plus = lambda p, q: (q[0] - p[0], tuple(np.subtract(q[1], p[1]).tolist()))
    out, size = {k: np.empty_like(z) for k in ring.exponents}, {k: np.empty_like(z) for k in ring.exponents}
    for left in (True, False):
        at = np.flatnonzero((z < 0) == left)
        if not at.size:
            continue
        x, given = z[at], [(v[at], c) for v, c in parameters]
        if len(parameters) == 2:
            a, b = given
            found = _series(ring, [plus(a, b) if left else a], [b], np.abs(x), 20000)
            front = {k: np.exp(x) * (not any(k)) for k in ring.exponents}
        else:
            a, b, c = given
            z_and_y = (x / (x - 1), 1 / (1 - x)) if left else (x, 1 - x)
            found = _gauss(ring, a, plus(b, c) if left else b, c, *z_and_y)
            log = -np.log1p(-x)
            front = {k: v * np.exp(a[0] * log) for k, v in ring.exponential(log, a[1]).items()}
        if left:
            found = [ring.product(part, front) for part in found]
        for whole, part in zip((out, size), found, strict=True):
            for k in ring.exponents:
                whole[k][at] = part[k]
    return out, size


def hypergeometric_derivative(*given, order: Sequence[int]):
    """Return the derivative, of an order in each parameter and in z, which is the last, of ₀F₁, ₁F₁ or ₂F₁."""
    (*parameters, z), shape = flat_doubles(*given)
    *orders, along = order
    ring = _Polynomials(orders)
    with np.errstate(all="ignore"):
        linear = [(p, tuple(np.eye(len(parameters))[i].tolist())) for i, p in enumerate(parameters)]
        value, size = _values(ring, [(p + along, c) for p, c in linear], z)
        value = {k: np.where(size[k] < 1e6 * np.abs(v) + 1e-300, v, np.nan) for k, v in value.items()}
        for n in range(along):
            for p in linear[:-1]:
                value = ring.times(value, p, n)
            value = ring.over(value, linear[-1], n)
        out = value[tuple(orders)] * math.prod(map(math.factorial, orders))
    return out.reshape(shape)


# ── Tricomi's function, U(a, b, x) = 1/Γ(a) ∫ exp(as − xeˢ + (b − a − 1) log(1 + eˢ)) ds, for a > 0 ────────────────
#
# The exponent has one maximum, where xt² − (b − 1 − x) t − a = 0 for t = eˢ.


def _to_depth(exponent, step: float):
    """Return how far to go, in multiples of 1.4 of the step, until the exponent has fallen by 41."""
    length = np.full(exponent(0.0).shape, abs(step))
    for _ in range(60):
        open_ = exponent(math.copysign(1.0, step) * length) > exponent(0.0) - 41
        if not open_.any():
            break
        length = np.where(open_, 1.4 * length, length)
    return length


def tricomi_derivative(a, b, x, *, order: tuple[int, int, int]):
    """Return the derivative, of an order in each argument, of ``hyperu`` for positive a and x; others are NaN."""
    (a, b, x), shape = flat_doubles(a, b, x)
    i, j, along = order
    with np.errstate(all="ignore"):
        fine = (a > 0) & (x > 0) & np.isfinite(a + b + x)
        a, b, x = (np.where(fine, v, 1.0)[:, None] for v in (a, b, x))
        linear = b - 1 - x
        root = np.hypot(linear, 2 * np.sqrt(a * x))
        peak = np.log(np.where(linear > 0, (linear + root) / (2 * x), 2 * a / (root - linear)))
        exponent = lambda s: a * (peak + s) - x * np.exp(peak + s) + (b - a - 1) * np.logaddexp(0, peak + s)
        higher = [None, *[derivative_of_psi(n, a) for n in range(1, i)]]
        total = 0.0
        for side in (-1.0, 1.0):
            nodes, weights = crowded_panels(_to_depth(exponent, 0.05 * side), 0.8, 2.0, 4.5, 8.0, 13.0, 30.0, np.inf)
            s = peak + side * nodes
            grown = np.logaddexp(0, s)
            slopes = {(1, 0): s - grown - sp.psi(a), (0, 1): grown}
            slope = lambda k, slopes=slopes: slopes[k] if k in slopes else 0.0 if k[1] else -higher[k[0] - 1]
            weight = weights_of_exponential((i, j), slope)[i, j] * (-np.exp(s)) ** along
            total = total + np.sum(weights * weight * np.exp(exponent(side * nodes) - sp.gammaln(a)), axis=-1)
    return np.where(fine, total, np.nan).reshape(shape)
