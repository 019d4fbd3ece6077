"""Kummer's function where its series cancels: a contour integral through the saddle point, with derivatives in a and b.

Loaded with ``special.py``. Not for: the series, or which of the two serves (``hypergeometric.py``).

The derivation
--------------
For a > b > 0 and x > 0, e⁻ˣ ₁F₁(b − a; b; x) = ₁F₁(a; b; −x) oscillates, until x is near 4a; and where x is large eˣ
overflows. For all a, b > 0, by Laplace's transform

    ₁F₁(a; b; −x) = Γ(b)/(2πi) ∫ eˢ sᵃ⁻ᵇ (s + x)⁻ᵃ ds,   from −∞ below 0 to −∞ above,

where parameters stand in exponents. In t = log s the exponent is g = eᵗ + ct − a log(eᵗ + x), c = a − b + 1, and its
saddle points are the roots of s² + (x − a + c)s + cx = 0. The conjugate halves of the contour leave Γ(b)/π times the
imaginary part of the upper one, which comes from −∞ (s = 0), runs in the strip 0 < Im t < π, and ends where Re s = −∞:

    complex roots:   through the upper one, in the direction in which it falls steepest
    two roots > 0:   from the larger, where the integrand is real; c < 1: from the only one, or ½ if it is smaller
    two roots < 0:   along Im t = π over the nearer, a maximum, to the other, a minimum, and down into the strip

The way in comes from where Im g is that at the saddle point, the way out bends to Im t = 0.8π, beneath the branch point
log x + πi. Along them the integrand falls without turning much, by e⁻⁴¹ within some ten times the width of the saddle.

References: Temme, "Asymptotic Methods for Integrals" (2015), ch. 10 and 27 (such contours); NIST DLMF 13.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.special._ufuncs as sp

from .incomplete import derivative_of_psi, gauss_legendre, weights_of_exponential

__all__ = ["oscillating"]

_NODES, _WEIGHTS = gauss_legendre(72)
_LANES, _DEPTH, _STEEP = 128, 41.0, math.tan(math.pi / 3)


class _Leg:
    """A part of the contour: t − t₀ of a distance r, and how that changes, from a point t₀ whose s is given."""

    def __init__(self, a, c, x, s, path: Callable, limit=None) -> None:
        self.a, self.c, self.s, self.shift, self.path = a, c, s, s + x, path
        width = 1 / np.sqrt(np.abs(s - a * x * s / (s + x) ** 2) + 0.05 * c)
        length = 7 * width
        for _ in range(20):
            open_ = self.exponent(path(length)[0])[0].real > -_DEPTH
            if not open_.any():
                break
            length = np.where(open_, 1.3 * length, length)
        self.length = length if limit is None else np.minimum(length, limit)
        self.stretch = np.clip(np.log(self.length / (3 * width)), 0.5, 8.0)

    def exponent(self, step):
        """Return g − g₀, and log(s + x) less its value at t₀."""
        moved = self.s * (np.exp(step) - 1)
        log = np.log(1 + moved / self.shift)
        return moved + self.c * step - self.a * log, log

    def nodes(self):
        """Return t − t₀, log(s + x) less its value, and the integrand with the weights of the nodes."""
        grown, whole = np.exp(self.stretch * _NODES), np.expm1(self.stretch)
        step, slope = self.path(self.length * (grown - 1) / whole)
        exponent, log = self.exponent(step)
        weights = _WEIGHTS[:, None] * grown * (self.length * self.stretch / whole)
        return step, log, np.exp(exponent) * (weights * slope)


def _legs(a, c, x):
    """Return lanes whose saddle points are of one kind, and their legs."""
    half = 0.5 * (a - c - x)
    root = np.sqrt(half * half - c * x + 0j)
    kind = np.where(c < 1, 1, np.where(root.imag > 0, 0, np.where(half > 0, 1, 2)))
    for number in range(3):
        at = np.flatnonzero(kind == number)
        for i in range(0, len(at), _LANES):
            part = at[i : i + _LANES]
            yield part, _of_kind(number, a[part], c[part], x[part], half[part], root[part])


def _of_kind(kind: int, a, c, x, half, root):
    """Return the legs, with t₀ and s there."""
    if kind == 2:
        s, nearer = half - root.real + 0j, -c * x / (root.real - half) + 0j
        turn = math.pi * 1j
        lines = [(1.0, np.log(s.real / nearer.real)), (-1.0, None)]
        along = [_Leg(a, c, x, nearer, lambda r, d=d: (d * r + 0j, 1.0), limit) for d, limit in lines]
        t = np.log(-s.real) + turn
        return [(leg, np.log(-nearer.real) + turn, nearer) for leg in along] + [(_bent(a, c, x, s, t, -_STEEP), t, s)]
    positive = np.where(half > 0, half + root.real, np.maximum(c * x / (half - root.real), 0.5))
    s = positive + 0j if kind == 1 else half + root
    t = np.log(s)
    if kind == 1:
        return [(_bent(a, c, x, s, t, _STEEP), t, s)]
    steep = np.tan(0.5 * (math.pi - np.angle(s - a * x * s / (s + x) ** 2)))
    level = (s.imag + c * t.imag - a * np.angle(s + x)) / c  # where Im g is that of the saddle point as s tends to 0
    return [(_bent(a, c, x, s, t, steep, level), t, s), (_bent(a, c, x, s, t, steep), t, s)]


def _bent(a, c, x, s, t, steep, level=None):
    """Return the leg out, or to the left at a level of Im t, which starts in a direction."""
    out = np.where((c < 0.2 * a) & (x < 2 * a), 0.72, 0.8) * math.pi  # near x = a it is like s²/2x, to s near x
    side, end, bend = (1.0, out, 0.6) if level is None else (-1.0, level, 1.0)
    rest, steep = end - t.imag, side * steep

    def path(r):
        q = r / bend
        fading = np.exp(-q)
        height = steep * r * fading + rest * (1 - (1 + q) * fading)
        return side * r + 1j * height, 1 + 1j * side * fading * (steep * (1 - q) + rest * q / bend)

    return _Leg(a, c, x, s, path)


def oscillating(ring, a, b, x) -> tuple[dict, dict]:
    """Return the polynomials of ₁F₁(a; b; −x), and the integrals of absolute values, for a, b > 0 and ax or x > 1."""
    (a, along_a), (b, along_b) = a, b
    c, b_alone = a - b + 1, along_b.index(1.0)
    value, size = ({k: np.zeros(a.shape) for k in ring.exponents} for _ in range(2))
    for at, legs in _legs(a, c, x):
        for leg, t, s in legs:
            wide = s.astype(np.clongdouble)  # the constant may be large: it is the phase of the oscillation
            start = wide + c[at] * np.log(wide) - a[at] * np.log(wide + x[at])
            scale = np.exp((start.real + sp.gammaln(b[at])).astype(float)) / math.pi
            turn = np.exp(1j * start.imag).astype(complex)
            step, log, terms = leg.nodes()
            powers = ring.exponential(t - np.log(s + x[at]) + (step - log), along_a)
            for k, v in ring.product(powers, ring.exponential(-t - step, along_b)).items():
                value[k][at] += scale * np.imag(turn * np.sum(terms * v, axis=0))
                size[k][at] += scale * np.sum(np.abs(terms * v), axis=0)
    order, gamma = ring.exponents[-1][b_alone], ring.one(b)
    slope = lambda k: sp.psi(b) if k[0] == 1 else derivative_of_psi(k[0] - 1, b)
    for (n, _), weight in weights_of_exponential((order, 0), slope).items():  # of Γ(b)
        gamma[tuple([n * (i == b_alone) for i in range(len(along_b))])] = weight / math.factorial(n) + 0 * b
    return ring.product(value, gamma), ring.product(size, {k: np.abs(v) for k, v in gamma.items()})
