"""Densities that SciPy integrates or computes in compiled code: their derivatives in the point, of every order.

Each function takes an order k and plain arrays, a point and the shapes, and returns f⁽ᵏ⁾. Order 0 is SciPy's own; a
rule leads from each to the next (``lifted.py``). Not for: densities that have a formula (``formulas.py``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special._ufuncs as sp
import scipy.stats as st

__all__ = ["irwinhall", "ksone", "kstwo", "landau"]

# The sum of n uniform numbers has a spline for its density, f_n = f_{n−1} ∗ [0, 1], so that
#
#     f_n′(x) = f_{n−1}(x) − f_{n−1}(x − 1)    and    f_n⁽ᵏ⁾(x) = Σⱼ (−1)ʲ C(k, j) f_{n−k}(x − j).
#
# It is a polynomial of degree n − 1 between whole numbers: beyond that order nothing is left.


def irwinhall(k: int, x: Any, n: Any) -> Any:
    """Return the k-th derivative of the density of ``irwinhall``."""
    left = n - k
    some = np.where(left >= 1, left, 1)
    out = sum([(-1) ** j * math.comb(k, j) * st.irwinhall.pdf(x - j, some) for j in range(k + 1)])
    return np.where(left >= 1, out, 0.0)


# One-sided Kolmogorov–Smirnov (Birnbaum and Tingey, Ann. Math. Statist. 22, 1951, p. 592):
#
#     P(D > x) = x Σᵥ C(n, v) aᵛ⁻¹ bⁿ⁻ᵛ,    a = v/n + x,    b = 1 − x − v/n > 0,
#
# whose derivatives are Leibniz's sums of falling powers, in each term.


def _falling(power: Any, i: int) -> Any:
    out = np.ones_like(power)
    for j in range(i):
        out = out * (power - j)
    return out


def ksone(k: int, x: Any, n: Any) -> Any:
    """Return the k-th derivative of the density of ``ksone``."""
    x, n = np.broadcast_arrays(np.asarray(x, float)[..., None], np.asarray(n, float)[..., None])
    v = np.arange(float(np.max(n, initial=1)))
    a, b = v / n + x, 1 - x - v / n
    there = (b > 0) & (v < n)
    a, b = np.where(there, a, 1.0), np.where(there, b, 1.0)
    choices = -sp.betaln(n - v + 1, v + 1) - np.log(n + 1) if v.size else x
    term = np.where(there, np.exp(np.where(there, choices, 0.0) + (v - 1) * np.log(a) + (n - v) * np.log(b)), 0.0)

    def derivative(order: int) -> Any:
        parts = [
            math.comb(order, i) * _falling(v - 1, i) / a**i * _falling(n - v, order - i) / (-b) ** (order - i)
            for i in range(order + 1)
        ]
        return term * sum(parts)

    return -np.sum(x * derivative(k + 1) + (k + 1) * derivative(k), axis=-1)


# Two-sided (Marsaglia, Tsang and Wang, J. Stat. Software 8, 2003): with h = m − n x, m = ⌊n x⌋ + 1, P(D < x) is the
# middle entry of n!/nⁿ Hⁿ, where H is a matrix of 2m − 1 rows with powers of h in its first column and last row. All of
# it is done with polynomials in a step of x. Far out both sides are not crossed in one sample: there the probability of
# more than x is twice that of one side, up to e^(−6nx²) of it, and beyond x = 1/2 exactly.


def kstwo(k: int, x: Any, n: Any) -> Any:
    """Return the k-th derivative of the density of ``kstwo``."""
    x, n = np.broadcast_arrays(np.asarray(x, float), np.asarray(n, float))
    far = (n * x * x > 6) | (x >= 0.5)
    out = 2 * ksone(k, np.where(far, x, 0.6), n)
    for at in zip(*np.nonzero(~far & (2 * n * x > 1)), strict=True):
        out[at] = _middle_of_power(k + 1, float(x[at]), int(n[at]))
    return np.where(far | (2 * n * x > 1), out, 0.0)


def _middle_of_power(k: int, x: float, n: int) -> float:
    middle = int(n * x) + 1
    size, h = 2 * middle - 1, middle - n * x
    order = np.arange(k + 1)
    rows = np.arange(size)
    distance = rows[:, None] - rows + 1
    H = np.zeros((k + 1, size, size))
    H[0] = distance >= 0

    def powers(base: float, slope: float, exponent: Any) -> Any:
        """Return the coefficients of (base + slope ε)^exponent, up to the k-th."""
        exponent = np.asarray(exponent, float)
        choices = np.stack([_falling(exponent, j) / math.factorial(j) for j in order])
        left = np.maximum(exponent - order.reshape(-1, *[1] * exponent.ndim), 0)
        return choices * base**left * slope ** order.reshape(-1, *[1] * exponent.ndim)

    H[:, :, 0] -= powers(h, -n, rows + 1)
    H[:, -1, :] -= powers(h, -n, size - rows)
    if 2 * h > 1:
        H[:, -1, 0] += powers(2 * h - 1, -2 * n, size)
    H *= np.exp((math.lgamma(n + 1) - n * math.log(n)) / n) / sp.gamma(np.maximum(distance, 0) + 1)

    def times(a: Any, b: Any) -> Any:
        return np.stack([sum([a[i] @ b[j - i] for i in range(j + 1)]) for j in order])

    out: Any = None
    left = n
    while left:
        if left & 1:
            out = H if out is None else times(out, H)
        H, left = times(H, H) if left > 1 else H, left >> 1
    return float(out[k, middle - 1, middle - 1]) * math.factorial(k)


# Landau's law has the density (π/2) f(πx/2 − log(2/π)), where for any c > 0
#
#     f(x) = 1/2πi ∫ e^(s log s + x s) ds, from c − i∞ to c + i∞,  =  1/π ∫₀^∞ e^(−t log t − x t) sin πt dt,
#
# and its derivatives have sᵏ, or (−t)ᵏ, beside it. To the left the first goes through the saddle point c = e^(−1−x),
# where nothing cancels; to the right the second, with t = exp(u − e^(−u)), which ends quicker than exponentially on
# both sides. The trapezoidal rule is right to all digits for both.


def landau(k: int, x: Any) -> Any:
    """Return the k-th derivative of the density of ``landau``."""
    x = (0.5 * np.pi * np.asarray(x, float) - np.log(2 / np.pi))[..., None]
    right = np.where(x > 0, x, 1.0)
    u = np.linspace(-4.0, 6.0, 1001)
    t = np.exp(u - np.exp(-u)) / (1 + right)
    weight = t * (1 + np.exp(-u)) * (u[1] - u[0])
    above = np.sum(weight * (-t) ** k * np.exp(-t * np.log(t) - right * t) * np.sin(np.pi * t), axis=-1)
    left = np.clip(x, -6.0, 0.0)
    c = np.exp(-1 - left)
    y = np.linspace(0.0, 1.0, 1501) * (40 + 12 * np.sqrt(c) + c)
    s = c + 1j * y
    with np.errstate(under="ignore"):
        at = np.real(s**k * np.exp(s * np.log(s) + left * s)) * np.where(y == 0, 0.5, 1.0)
    below = np.sum(at, axis=-1) * y[..., 1]
    out = np.where(x[..., 0] > 0, above, np.where(x[..., 0] < -6, 0.0, below)) / np.pi
    return out * (0.5 * np.pi) ** (k + 1)
