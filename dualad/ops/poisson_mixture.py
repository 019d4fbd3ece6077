"""Noncentral χ² and F in their shapes: Poisson mixtures of incomplete gamma and beta functions, of any order.

Loaded with ``dualad.scipy.stats``, whose laws they are; that of χ² is Marcum's Q function. Not for: the laws mixed
(``incomplete.py``), or noncentral t (``noncentral_t.py``).

The derivation
--------------
With Poisson's weights wⱼ of mean λ, I(a) the incomplete gamma function of x, or the beta function of a, b at the odds
x = y/(1 − y), D(s) = I(s) − I(s + 1), and ∂ a derivative in a and b of any order,

    M = Σ wⱼ ∂I(a + j),        Eₚ = Σ wⱼ ∂(sᵖ D(s)) at s = a + j,

    gamma:  D(s) = xˢ e⁻ˣ/Γ(s + 1)                           D(s)/D(s − 1) = x/s
    beta:   D(s) = yˢ (1 − y)ᵇ Γ(s + b)/(Γ(s + 1) Γ(b))      D(s)/D(s − 1) = y (s − 1 + b)/s.

wⱼ D(a + j) is largest where λ times that quotient is j, and falls from there by e⁻⁴⁰ within 9√j + 12. Two of the
derivatives of I are integrals; the others follow by the recurrence, down from the upper end where ∂I and ∂D have one
sign, up from the lower one elsewhere: the derivative of log D has one zero. Summation by parts leaves running sums:

    Σ_{c ≤ j ≤ t} wⱼ ∂Iⱼ = ∂Iₜ Wₜ + Σ_{c ≤ m < t} ∂Dₘ Wₘ,        Wₘ = Σ_{c ≤ j ≤ m} wⱼ,

and likewise below c. The integrals are left out where ∂D at the ends shows that they are too small. As j wⱼ = λ wⱼ₋₁,

    ∂M/∂λ = −E₀,  x ∂M/∂x = E₁,  ∂Eₚ/∂λ = Eₚ(a + 1) − Eₚ(a),
    x ∂Eₚ/∂x = Eₚ₊₁ − x Eₚ  or  (1 − y) Eₚ₊₁ − y Σ wⱼ ∂(b sᵖ D(s)).

References: Gil, Segura and Temme, ACM Trans. Math. Softw. 40 (2014) 20 (Marcum's function); Ding, Algorithm AS 275;
Baharev and Kemény, Stat. Comput. 18 (2008) 333 (noncentral F).
"""

from __future__ import annotations

import math

import numpy as np

from . import incomplete
from .incomplete import flat_doubles, gamma_density, weights_of_exponential
from .samples import positive
from .shape_parameters import of_shapes

__all__ = ["beta_mixture", "beta_mixture_step", "gamma_mixture", "gamma_mixture_step"]

#: lanes at most, numbers in an array, and terms to one side, of which a peak near 10¹⁰ has more: that is NaN
_LANES, _ROOM, _LONGEST = 256, 2**17, 1e6


def _power(n: int):
    """Return (−1)ⁿ⁻¹ (n − 1)!, of the n-th derivative of a logarithm."""
    return (-1.0) ** (n - 1) * math.factorial(n - 1)


class _Gamma:
    """The mixed law: D(s), the derivatives of log D at one s, their differences between s − 1 and s, and I's."""

    limit, valid = 0.0, True  # of the quotient for large s

    def __init__(self, x) -> None:
        self.x = x

    def __getitem__(self, at) -> _Gamma:
        return _Gamma(self.x[at])

    def peak(self, lam, a):
        product = lam * self.x
        return product / (0.5 * a + np.sqrt(0.25 * a * a + product))

    def start(self, s, order) -> tuple:
        root, slope = incomplete.gamma_parts(s, self.x)
        return root * root, {
            (n, 0): -incomplete.derivative_of_psi(n - 1, s + 1) if n > 1 else slope for n in range(1, order[0] + 1)
        }

    def quotient(self, s):
        return self.x / s

    def growth(self, s, n: int, m: int):
        return -_power(n) * s ** float(-n)

    def integral(self, s, order):
        return incomplete.gamma_integral(s, self.x, order[0])


class _Beta:
    def __init__(self, b, x) -> None:
        odds = np.clip(x, 0.0, 1e300)
        self.b, self.x, self.y = b, x, odds / (1 + odds)
        self.limit, self.valid = self.y, (b > 0) & np.isfinite(b)

    def __getitem__(self, at) -> _Beta:
        return _Beta(self.b[at], self.x[at])

    def peak(self, lam, a):
        product = lam * self.y
        half, rest = 0.5 * (a - product), product * (a + self.b)
        root = np.sqrt(half * half + rest)
        return np.where(half > 0, rest / (half + root), root - half)

    def start(self, s, order) -> tuple:
        at, total = incomplete.BetaPoint.at(s, self.b, self.x, order, "odds"), s + self.b
        slopes = {}
        for (n, m), slope in at.slopes.items():
            share = s / (self.b * total) if (n, m) == (0, 1) else -_power(n + m) / total ** (n + m)
            slopes[n, m] = slope + share + (_power(m) / self.b**m if m > 1 and not n else 0.0)
        return at.front * (self.b / total), slopes

    def quotient(self, s):
        return self.y * ((s - 1 + self.b) / s)

    def growth(self, s, n: int, m: int):
        before, k = s - 1 + self.b, n + m
        if (n, m) == (1, 0):
            return (1 - self.b) / (before * s)
        return _power(k) * (before ** float(-k) - (0.0 if m else s ** float(-k)))

    def integral(self, s, order):
        return incomplete.beta_integral(s, self.b, self.x, order, "odds")


def _outwards(row: int, start, steps, product: bool = False):
    """Return running sums (or products) of ``steps`` along the rows, outwards from ``start`` at a row."""
    out = np.empty_like(steps)
    out[row] = start
    add, less = (np.multiply, np.divide) if product else (np.add, np.subtract)
    add.accumulate(np.concatenate([out[row : row + 1], steps[row + 1 :]]), axis=0, out=out[row:])
    if row:
        less.accumulate(np.concatenate([out[row : row + 1], steps[row:0:-1]]), axis=0, out=out[row::-1])
    return out


def _terms(law, lam, a, centre, width, slopes):
    """Return the row of the centre, j, wⱼ and D, both 1 at the centre, and the derivatives of log D."""
    row = int(np.max(np.minimum(centre, width)))
    index = centre + np.arange(-row, int(np.max(width)) + 1)[:, None]
    outside, later = index < 0, np.maximum(index, 1.0)
    s = a + later
    weight, step = _outwards(row, 1.0, lam / later, True), _outwards(row, 1.0, law.quotient(s), True)
    weight[outside] = step[outside] = 0.0
    slope = {k: _outwards(row, v, law.growth(s, *k)) for k, v in slopes.items()}
    return row, index, weight, step, slope


def _steps(law, lam, a, centre, width, slopes, order: tuple[int, int], power: int):
    """Return Eₚ, beside the term at the centre."""
    _, index, weight, step, slope = _terms(law, lam, a, centre, width, slopes)
    moved, s, total, (i, j) = weights_of_exponential(order, slope.__getitem__), a + index, 0.0, order
    for k in range(min(i, power) + 1):
        total = total + math.comb(i, k) * math.perm(power, k) * s ** float(power - k) * moved[i - k, j]
    return np.sum(weight * step * total, axis=0)


def _sums(law, lam, a, centre, width, slopes, order: tuple[int, int]):
    """Return M without the integrals, beside the term at the centre, and of these the weight, 0 if small, and s."""
    row, index, weight, step, slope = _terms(law, lam, a, centre, width, slopes)
    below = slope[1, 0] > 0 if order[0] else slope[0, 1] < 0
    moved = step * weights_of_exponential(order, slope.__getitem__)[order]
    weight_below = np.where(below, weight, 0.0)
    total = np.add.accumulate(weight - weight_below, axis=0)
    rest = np.add.accumulate(weight_below[::-1], axis=0)[::-1]
    out = np.sum(moved[:-1] * (total[:-1] - rest[1:]), axis=0)
    first = np.maximum(centre - row, 0.0)
    at_first = moved[(first - centre).astype(int) + row, np.arange(len(a))]
    top, bottom, ends = a + index[-1], a + first, []
    for s, mass, change, q in (
        (top, total[-1], moved[-1], law.quotient(top + 1)), (bottom, rest[0], at_first, 1 / law.quotient(bottom)),
    ):  # fmt: skip
        q = np.maximum(q, law.limit)
        most = 10 * np.abs(change) / (1 - q) ** 2  # of the integral, as D falls by q at each step
        ends += [np.where((q < 1) & (mass * most < 1e-18 * np.abs(out)), 0.0, mass), s]
    return out, *ends


def _mixed(law, lam, a, shape, order: tuple[int, int], power: int | None = None):
    out = np.where((law.x == 0) & (lam >= 0), 0.0, np.nan)
    with np.errstate(all="ignore"):
        at = np.flatnonzero((lam >= 0) & (a > 0) & (law.x > 0) & law.valid & np.isfinite(lam + a + law.x))
        law, lam, a = law[at], lam[at], a[at]
        peak = law.peak(lam, a)
        centre, width = np.floor(peak), np.ceil(9 * np.sqrt(peak) + 12)
        front, slopes = law.start(a + centre, order)
        found, by_length = np.full((1 if power is not None else 5, len(at)), np.nan), np.argsort(width)
        done = 0
        while done < len(at) and width[by_length[done]] < _LONGEST:
            lanes = int(np.clip(_ROOM / width[by_length[min(done + _LANES, len(at)) - 1]], 1, _LANES))
            part = by_length[done : done + lanes]
            done += lanes
            given = law[part], lam[part], a[part], centre[part], width[part], {k: v[part] for k, v in slopes.items()}
            found[:, part] = _sums(*given, order) if power is None else _steps(*given, order, power)
        total = front * found[0]
        if power is None:
            for mass, s in (found[1:3], found[3:]):
                some = np.flatnonzero(mass > 0)
                total[some] += mass[some] * law[some].integral(s[some], order)
        mass = gamma_density(centre + 1, lam, 0)
        out[at] = np.where((front == 0) | (mass == 0), 0.0, mass * total)
    return out.reshape(shape)


def _of_gamma(lam, a, x, *, order: int, power: int | None = None):
    (lam, a, x), shape = flat_doubles(lam, a, x)
    return _mixed(_Gamma(x), lam, a, shape, (order, 0), power)


def _of_beta(lam, a, b, x, *, i: int, j: int, power: int | None = None):
    (lam, a, b, x), shape = flat_doubles(lam, a, b, x)
    return _mixed(_Beta(b, x), lam, a, shape, (i, j), power)


# ── the operators ────────────────────────────────────────────────────────────────────────────────────────────────


def _gamma_rule(lam, a, x, *, order: int):
    step = lambda power: gamma_mixture_step(lam, a, x, order=order, power=power)
    return lambda: -step(0), lambda: gamma_mixture(lam, a, x, order=order + 1), lambda: step(1) / x


def _gamma_step_rule(lam, a, x, *, order: int, power: int):
    f = lambda a=a, order=order, power=power: gamma_mixture_step(lam, a, x, order=order, power=power)
    return lambda: f(a + 1) - f(), lambda: f(order=order + 1), lambda: f(power=power + 1) / x - f()


def _beta_rule(lam, a, b, x, *, i: int, j: int):
    f = lambda i, j: beta_mixture(lam, a, b, x, i=i, j=j)
    step = lambda power: beta_mixture_step(lam, a, b, x, i=i, j=j, power=power)
    return lambda: -step(0), lambda: f(i + 1, j), lambda: f(i, j + 1), lambda: step(1) / x


def _beta_step_rule(lam, a, b, x, *, i: int, j: int, power: int):
    f = lambda a=a, i=i, j=j, power=power: beta_mixture_step(lam, a, b, x, i=i, j=j, power=power)
    return (
        lambda: f(a + 1) - f(), lambda: f(i=i + 1), lambda: f(j=j + 1),
        lambda: (f(power=power + 1) / x - b * f() - (j * f(j=j - 1) if j else 0.0)) / (1 + x),
    )  # fmt: skip


_three, _four = (positive(),) * 3, (positive(),) * 4
gamma_mixture = of_shapes("gamma_mixture", _of_gamma, _gamma_rule, _three, [{"order": 1}, {"order": 2}])
gamma_mixture_step = of_shapes(
    "gamma_mixture_step", _of_gamma, _gamma_step_rule, _three, [{"order": 0, "power": 0}, {"order": 1, "power": 1}]
)
beta_mixture = of_shapes("beta_mixture", _of_beta, _beta_rule, _four, [{"i": 1, "j": 0}, {"i": 1, "j": 1}])
beta_mixture_step = of_shapes(
    "beta_mixture_step", _of_beta, _beta_step_rule, _four,
    [{"i": 0, "j": 0, "power": 0}, {"i": 1, "j": 1, "power": 1}],
)  # fmt: skip
