"""Marcum's Q function in its shape: Poisson mixtures of the incomplete gamma function's derivatives, of any order.

Loaded with ``dualad.scipy.stats``, whose noncentral χ² law it is. Not for: the mixed functions (``incomplete.py``).

The derivation
--------------
With Poisson's weights wⱼ of mean λ, P the incomplete gamma function and D(s) = yˢ e⁻ʸ/Γ(s + 1) = P(s) − P(s + 1),

    M = Σ wⱼ ∂ᵏP/∂aᵏ (a + j, y),        E = Σ wⱼ ∂ᵏD/∂aᵏ (a + j, y).

wⱼ D(a + j) is largest where j (a + j) = λy, and falls from there by e⁻⁴⁰ within 9√j. Two of the derivatives of P in
that window are integrals; the others follow by the recurrence, down from the upper end while log y < ψ(s + 1) and up
from the lower one while log y > ψ(s + 1), so that all terms have one sign. Summation by parts leaves running sums:

    Σ_{c ≤ j ≤ t} wⱼ P⁽ᵏ⁾ⱼ = P⁽ᵏ⁾ₜ Wₜ + Σ_{c ≤ m < t} D⁽ᵏ⁾ₘ Wₘ,        Wₘ = Σ_{c ≤ j ≤ m} wⱼ,

and likewise below c. Then ∂M/∂λ = −E, ∂M/∂y = E(a − 1), and y ∂D/∂y (s) = (s − y) D(s) with j wⱼ = λ wⱼ₋₁.

References: Gil, Segura and Temme, ACM Trans. Math. Softw. 40 (2014) 20 (Marcum's function); Ding, Algorithm AS 275.
"""

from __future__ import annotations

import numpy as np
import scipy.special._ufuncs as sp

from .incomplete import derivative_of_psi, flat_doubles, weights_of_exponential
from .incomplete import gamma_integral as integral
from .samples import positive
from .shape_parameters import of_shapes

__all__ = ["gamma_mixture", "gamma_mixture_step"]

_LANES = 256


def _window(lam, a, y):
    """Return the first j, and how many there are."""
    product = lam * y
    peak = product / (0.5 * a + np.sqrt(0.25 * a * a + product))
    width = 9 * np.sqrt(peak) + 12
    first = np.maximum(np.floor(peak - width), 0.0)
    return first, np.ceil(peak + width) - first + 1


def _mix(lam, a, y, first, count, order: int, of_steps: bool):
    """Return M, or E ``of_steps``, of lanes whose windows have similar lengths."""
    j = np.arange(int(np.max(count)))[:, None]
    index, s, inside = first + j, a + first + j, j < count
    log_y = np.log(y)
    weight, step = np.full(s.shape, 1.0), np.full(s.shape, 1.0)
    np.divide(lam, index[1:], out=weight[1:])
    np.divide(y, s[1:], out=step[1:])
    middle = (count // 2).astype(int)  # near the largest terms, where neither factor over- or underflows
    for part in (weight, step):
        part *= inside
        np.multiply.accumulate(part, axis=0, out=part)
        part /= part[middle, np.arange(len(lam))]
    at = first + middle
    log_weight = sp.xlogy(at, lam) - lam - sp.gammaln(at + 1)
    log_step = (a + at) * log_y - y - sp.gammaln(a + at + 1)
    slope = {}
    for n in range(order):  # the derivatives of log D, by their recurrences
        terms = np.power(s, -(n + 1.0))
        terms[0] = derivative_of_psi(n, a + first + 1) if n else sp.psi(a + first + 1)
        terms[1:] *= (-1.0) ** n * float(np.prod(np.arange(1, n + 1)))
        np.add.accumulate(terms, axis=0, out=terms)
        slope[n + 1] = (log_y if n == 0 else 0.0) - terms
    moved = step * weights_of_exponential((order, 0), lambda k: slope[k[0]])[order, 0]
    if of_steps:
        return np.exp(log_weight + log_step) * np.sum(weight * moved, axis=0)
    below, moved = slope[1] > 0, np.where(j < count - 1, moved, 0.0)
    total = np.add.accumulate(np.where(below, 0.0, weight), axis=0)
    above = np.sum(moved * total, axis=0)
    rest = np.where(below, weight, 0.0)[::-1]
    rest = np.add.accumulate(rest, axis=0)[::-1]
    under = -np.sum(moved[:-1] * rest[1:], axis=0)
    scale = np.exp(log_weight)
    ends = total[-1] * integral(a + first + count - 1, y, order) + np.where(
        rest[0] > 0, rest[0] * integral(s[0], y, order), 0.0
    )
    return scale * (ends + np.exp(log_step) * (above + under))


def _mixed(lam, a, y, order: int, of_steps: bool):
    (lam, a, y), shape = flat_doubles(lam, a, y)
    out = np.where((y == 0) & (lam >= 0), 0.0, np.nan)
    with np.errstate(all="ignore"):
        fine = np.flatnonzero((lam >= 0) & (a > -1) & (y > 0) & np.isfinite(lam + a + y))
        lam, a, y = lam[fine], a[fine], y[fine]
        first, count = _window(lam, np.maximum(a, 0.0), y)
        by_length = np.argsort(count)
        for i in range(0, len(fine), _LANES):
            at = by_length[i : i + _LANES]
            out[fine[at]] = _mix(lam[at], a[at], y[at], first[at], count[at], order, of_steps)
    return out.reshape(shape)


def _mixture_rule(lam, a, y, *, order: int):
    return (
        lambda: -gamma_mixture_step(lam, a, y, order=order),
        lambda: gamma_mixture(lam, a, y, order=order + 1),
        lambda: gamma_mixture_step(lam, a - 1, y, order=order),
    )


def _step_rule(lam, a, y, *, order: int):
    f = lambda a, order=order: gamma_mixture_step(lam, a, y, order=order)
    return (
        lambda: f(a + 1) - f(a),
        lambda: f(a, order + 1),
        lambda: ((a - y) * f(a) + lam * f(a + 1) + (order * f(a, order - 1) if order else 0.0)) / y,
    )


gamma_mixture = of_shapes(
    "gamma_mixture", lambda lam, a, y, *, order: _mixed(lam, a, y, order, False), _mixture_rule,
    (positive(), positive(), positive()), [{"order": 1}, {"order": 2}],
)  # fmt: skip
gamma_mixture_step = of_shapes(
    "gamma_mixture_step", lambda lam, a, y, *, order: _mixed(lam, a, y, order, True), _step_rule,
    (positive(), positive(), positive()), [{"order": 0}, {"order": 1}],
)  # fmt: skip
