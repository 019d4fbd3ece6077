"""Incomplete elliptic integrals of the first and second kind, differentiated in the parameter: one more integral.

Loaded with ``special.py``. Not for: the complete ones, which are hypergeometric functions there.

    J(φ, m) = ∫₀^φ sin²ᵏθ (1 − m sin²θ)^p dθ        ∂J/∂m = −p J with k + 1, p − 1

is F for k = 0, p = −½ and E for k = 0, p = ½. With tan θ = sinh(u)/r, r² = max(1, 1 − m), the integrand

    (sinh u/r)²ᵏ (1 + sinh²u/r²)^(−k−p−1) (1 + (1 − m) sinh²u/r²)^p cosh(u)/r

is positive, and bends at one place, where the smaller of the two sums begins to grow: Gauss and Legendre's rule on
both sides of that, for all m < 1 and as near to π/2 as φ is. Beyond, J(φ + π) = J(φ) + 2 J(π/2).
"""

from __future__ import annotations

import itertools

import numpy as np

from .incomplete import flat_doubles, gauss_legendre
from .samples import anywhere, between
from .shape_parameters import of_shapes

__all__ = ["elliptic"]

_NODES, _WEIGHTS = gauss_legendre(32)


def _elliptic(phi, m, *, k: int, p: float):
    (phi, m), shape = flat_doubles(phi, m)
    with np.errstate(all="ignore"):
        turns = np.rint(phi / np.pi)
        rest = phi - turns * np.pi
        out = np.sign(rest) * _first_quarter(np.abs(rest), m, k, p)
        far = np.flatnonzero(turns)
        if far.size:
            out[far] += 2 * turns[far] * _first_quarter(np.full(far.size, np.pi / 2), m[far], k, p)
    return np.where(np.isfinite(phi) & (m < 1), out, np.nan).reshape(shape)


def _first_quarter(phi, m, k: int, p: float):
    other = 1 - m
    scale = np.sqrt(np.maximum(1.0, other))
    end = np.arcsinh(np.maximum(np.tan(phi), 0.0) * scale)
    end = np.where(phi >= np.pi / 2, np.arcsinh(1.6e16 * scale), end)
    bend = np.arcsinh(np.sqrt(np.where(other < 1, 1 / other, other)))
    total = np.zeros(phi.shape)
    for low, high in itertools.pairwise([np.clip(v, 0.0, end) for v in (0.0, bend - 5, bend, bend + 5, np.inf)]):
        at = np.flatnonzero(high > low)
        length = high[at] - low[at]
        t = np.sinh(low[at] + length * _NODES) / scale[at]
        square = t * t
        values = t ** (2 * k) * (1 + square) ** (-k - p - 0.5) * (1 + other[at] * square) ** p
        values *= np.sqrt((1 / (scale[at] * scale[at]) + square) / (1 + square))
        total[at] += length * np.einsum("n,nk->k", _WEIGHTS, values)
    return total


def _rule(phi, m, *, k: int, p: float):
    square = lambda: np.sin(phi) ** 2
    return lambda: square() ** k * (1 - m * square()) ** p, lambda: -p * elliptic(phi, m, k=k + 1, p=p - 1)


elliptic = of_shapes(
    "elliptic", _elliptic, _rule, (anywhere(), between(-0.9, 0.9)), [{"k": 1, "p": -0.5}, {"k": 1, "p": -1.5}]
)
