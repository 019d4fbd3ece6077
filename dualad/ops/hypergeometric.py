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

Where the terms cancel, because a parameter is negative there (b − a, or c − b), the function oscillates. ₁F₁ is then a
contour integral (``confluent.py``). Neither ₂F₁ nor the equation's other solution grows on the way from 0, so Taylor's
series go on by the differential equation from a point where nothing cancels yet.

A sum of which more than six digits cancel is NaN.

References: Ancarani and Gasaneo, J. Math. Phys. 49 (2008) 063508 (derivatives in parameters); Pearson, Olver and
Porter, Numer. Algorithms 74 (2017) 821 (regions); Neidinger, SIAM Rev. 52 (2010) 545 (arithmetic of Taylor's series).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.special._ufuncs as sp

from .confluent import oscillating
from .incomplete import crowded_panels, derivative_of_psi, flat_doubles, weights_of_exponential

__all__ = ["Polynomials", "hypergeometric_derivative", "lost_digits", "series", "tricomi_derivative"]

#: a parameter: its value, and its coefficients of α, β, …
Linear = tuple[np.ndarray, tuple[float, ...]]


class Polynomials:
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
        inverse, out = 1 / (value + shift), dict[Any, Any]()
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


def series(ring: Polynomials, above: list[Linear], beneath: list[Linear], z, count: int, off: float = 0.0):
    """Add up the series, in which all coefficients must converge; return the sum and that of the absolute values.

    ``off`` times zⁿ/n! is taken from the numerators: 1 leaves (₁F₁(b − a; b; z) − eᶻ)/a of ₁F₁(b − a; b; z).
    """
    term, power = ring.one(z), off * np.ones(z.shape)
    term = {k: t - off * t for k, t in term.items()}
    total, size = {k: t.copy() for k, t in term.items()}, {k: np.abs(t) for k, t in term.items()}
    at = np.arange(len(z))
    for n in range(count):
        for p in above:
            term = ring.times(term, p, n)
        if off:
            term[ring.exponents[0]] -= power
            power *= z / (n + 1)
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
                at, z, power, term = at[open_], z[open_], power[open_], {k: t[open_] for k, t in term.items()}
                above, beneath = ([(v[open_], c) for v, c in ps] for ps in (above, beneath))
            if not at.size:
                return total, size
    for k in ring.exponents:
        total[k][at] = np.nan
    return total, size


def _at(linear: Linear, at) -> Linear:
    return linear[0][at], linear[1]


def _sum(p: Linear, q: Linear, sign: int = 1) -> Linear:
    return p[0] + sign * q[0], tuple([r + sign * s for r, s in zip(p[1], q[1], strict=True)])


def _march(f: dict, slope: dict, now, end, reach: Callable, following: Callable) -> tuple[dict, dict]:
    """Carry a function and its derivative on from ``now`` to ``end``, by Taylor's series of a differential equation.

    ``reach(now, at)`` is as far as one of them goes, ``following(n, before, here, now, h, at)`` the term after two.
    """
    now, way = now.copy(), np.sign(end - now)
    for _ in range(4000):
        at = np.flatnonzero(now != end)
        if not at.size:
            return f, slope
        x = now[at]
        h = np.minimum(np.abs(end[at] - x), reach(x, at)) * way[at]
        before, here = {k: v[at] for k, v in f.items()}, {k: v[at] * h for k, v in slope.items()}
        total, steep = {k: before[k] + here[k] for k in f}, here
        for n in range(400):
            before, here = here, following(n, before, here, x, h, at)
            total, steep = {k: total[k] + here[k] for k in f}, {k: steep[k] + (n + 2) * here[k] for k in f}
            if n % 8 == 7 and not any(
                [np.any(n * np.abs(v) > 1e-17 * (np.abs(steep[k]) + np.abs(total[k]))) for k, v in here.items()]
            ):
                break
        for k in f:
            f[k][at], slope[k][at] = total[k], steep[k] / h
        now[at] = np.where(np.abs(h) == np.abs(end[at] - x), end[at], x + h)
    for v in f.values():
        v[now != end] = np.nan
    return f, slope


def _carried(ring: Polynomials, f: dict, slope: dict, now, end, reach: Callable, following: Callable):
    """Carry a function on, and with it a second solution: its size is what roundoff at the start grows to."""
    count, twice = len(now), lambda v: np.concatenate([v, v])
    wrong = {k: np.abs(f[k]) / now + np.abs(slope[k]) for k in f}
    one = ring.one(now)
    found, steep = _march(
        {k: np.concatenate([v, 0 * v]) for k, v in f.items()},
        {k: np.concatenate([v, one[k]]) for k, v in slope.items()}, twice(now), twice(end),
        lambda now, at: reach(now, at % count), lambda *given: following(*given[:-1], given[-1] % count),
    )  # fmt: skip
    width = reach(end, np.arange(count))
    grown = {k: np.abs(v[count:]) + np.abs(steep[k][count:]) * width for k, v in found.items()}
    return {k: v[:count] for k, v in found.items()}, ring.product(grown, wrong)


def lost_digits(value: dict, size: dict):
    """Return where more than a digit or two cancel."""
    return np.flatnonzero(_ratio(value, size) > 30)


def _ratio(value: dict, size: dict):
    """Return how many times larger than a coefficient its terms are; infinity where it is not a number."""
    ratios = [np.where(size[k] == 0, 1.0, size[k] / np.abs(v)) for k, v in value.items()]
    return np.max(np.nan_to_num(ratios, nan=np.inf, posinf=np.inf), axis=0)


def _confluent(ring: Polynomials, a: Linear, less: Linear, b: Linear, x, shrunk: bool):
    """Return ₁F₁(less; b; x), less = b − a, or e⁻ˣ times it, ₁F₁(a; b; −x), and what its terms add up to, x ≥ 0."""
    value, size = series(ring, [less], [b], x, 20000)
    if shrunk:
        value, size = ({k: v * np.exp(-x) for k, v in part.items()} for part in (value, size))
        few = np.flatnonzero((np.abs(a[0]) < 0.1) & (b[0] > 0) & (x < 700))  # what a multiplies is not lost beside 1
        rest = series(ring, [_at(less, few)], [_at(b, few)], x[few], 20000, 1.0)[0]
        for k, v in ring.times({k: v * np.exp(-x[few]) for k, v in rest.items()}, _at(a, few)).items():
            value[k][few], size[k][few] = v + (not any(k)), np.abs(v) + (not any(k))
    ratio = _ratio(value, size)
    hard = (ratio > 300) & (a[0] > b[0]) | (shrunk & (x > 700))  # where eˣ overflows
    far = np.flatnonzero(hard & (a[0] > 0) & (b[0] > 0))
    a, b, x = _at(a, far), _at(b, far), x[far]
    near = (a[0] * x < 1) & (x < 1)  # where the other series does not cancel
    for at in (near, ~near):
        if not at.any():
            continue
        p, q, z = _at(a, at), _at(b, at), x[at]
        parts = series(ring, [p], [q], -z, 400) if at is near else oscillating(ring, p, q, z)
        better = _ratio(*parts) < ratio[far[at]]  # not beside a polynomial
        for whole, part in zip((value, size), parts, strict=True):
            for k, v in part.items():
                whole[k][far[at][better]] = (v if shrunk else v * np.exp(z))[better]
    return value, size


def _ends(ring: Polynomials, p: Linear):
    """Return where a series with this factor is a polynomial, to which another solution must not be added."""
    moves = any([c and n for c, n in zip(p[1], ring.exponents[-1], strict=True)])
    return (p[0] <= 0) & (p[0] > -400) & (p[0] == np.floor(p[0])) & (not moves)


def _gauss(ring: Polynomials, a: Linear, b: Linear, c: Linear, z, y):
    """Return ₂F₁ at z = 1 − y, 0 ≤ z < 1, and what its terms add up to as far as the series was taken."""
    x = np.where(_ends(ring, a) | _ends(ring, b), z, np.minimum(z, 0.75))
    value, size = series(ring, [a, b], [c], x, 400)
    steep = np.abs(a[0] * b[0])
    early = lost_digits(value, size)
    x[early] = np.minimum(x[early], 1 / (2 + steep[early]))
    far = np.flatnonzero(x < z)
    if not far.size:
        return value, size
    a, b, c, x, steep = _at(a, far), _at(b, far), _at(c, far), x[far], steep[far]
    moved = lambda p: (p[0] + 1, p[1])
    f, _ = series(ring, [a, b], [c], x, 400)
    slope = series(ring, [moved(a), moved(b)], [moved(c)], x, 400)[0]
    slope = {k: -v for k, v in ring.over(ring.times(ring.times(slope, a), b), c).items()}  # in y
    both = moved(_sum(a, b))

    def following(n, before, here, now, h, at):
        # (n + 2)(n + 1) x (1 − x) f₊₂ = (n + a)(n + b) h² f − (n + 1) (n (1 − 2x) + c − (a + b + 1) x) h f₊₁, −h for h
        left = ring.times(ring.times(before, _at(a, at), n), _at(b, at), n)
        right, middle = ring.times(here, _at(c, at), n * (2 * now - 1)), ring.times(here, _at(both, at))
        scale = h / ((n + 2) * (n + 1) * now * (1 - now))
        return {k: scale * (h * left[k] + (n + 1) * (right[k] - (1 - now) * middle[k])) for k in left}

    positive = ~np.isin(far, early)  # terms, and nothing cancels
    rising = positive & (a[0] > 0) & (b[0] > 0)

    def reach(now, at):
        drift = np.where(rising[at], 0.0, np.abs(c[0][at] - both[0][at] * (1 - now)))  # a power's terms cancel, too
        width = now * (1 - now)
        return np.minimum.reduce(
            [0.5 * now, 0.5 * (1 - now), 3 * np.sqrt(width / (1 + steep[at])), 6 * width / (1 + drift)]
        )

    found, grown = _carried(ring, f, slope, 1 - x, y[far], reach, following)
    for k, v in found.items():
        value[k][far], size[k][far] = v, np.where(positive, np.abs(v), grown[k])
    return value, size


def _values(ring: Polynomials, parameters: list[Linear], z):
    """Return the polynomials of ₀F₁, ₁F₁ or ₂F₁, by the number of parameters, and what their terms add up to."""
    if len(parameters) == 1:
        return series(ring, [], parameters, z, 2000)
    out, size = {k: np.empty_like(z) for k in ring.exponents}, {k: np.empty_like(z) for k in ring.exponents}
    for left in (True, False):
        at = np.flatnonzero((z < 0) == left)
        if not at.size:
            continue
        x, (a, b, *c) = z[at], [_at(p, at) for p in parameters]
        if not c:
            both = (a, _sum(b, a, -1)) if left else (_sum(b, a, -1), a)
            found = _confluent(ring, *both, b, np.abs(x), left)
        else:
            found = (_left_gauss if left else _right_gauss)(ring, a, b, c[0], x)
        for whole, part in zip((out, size), found, strict=True):
            for k in ring.exponents:
                whole[k][at] = part[k]
    return out, size


def _best(ring: Polynomials, count: int, tries: Sequence[tuple]):
    """Return, of ways to compute polynomials, the best where one loses digits; each has the lanes that it is for."""
    best: tuple[dict, dict] = {k: np.full(count, np.nan) for k in ring.exponents}, {}
    best[1].update({k: v.copy() for k, v in best[0].items()})
    for turn, compute in tries:
        at = np.flatnonzero(turn & (_ratio(*best) > 1e3))
        if not at.size:
            continue
        found = compute(at)
        better = _ratio(*found) < _ratio(*({k: v[at] for k, v in part.items()} for part in best))
        for whole, part in zip(best, found, strict=True):
            for k in ring.exponents:
                whole[k][at[better]] = part[k][better]
    return best


def _with_power(ring: Polynomials, found: tuple, grown, power: Linear):
    """Return series multiplied by exp(grown)^power."""
    front = {k: v * np.exp(power[0] * grown) for k, v in ring.exponential(grown, power[1]).items()}
    return ring.product(found[0], front), ring.product(found[1], {k: np.abs(v) for k, v in front.items()})


def _left_gauss(ring: Polynomials, a: Linear, b: Linear, c: Linear, z):
    """Return ₂F₁ for z < 0 with the smaller parameter in front, and where that loses digits the better of both."""
    smaller = a[0] <= b[0]

    def pfaff(at, this: Linear, other: Linear):
        p, q, x = _at(this, at), _at(c, at), z[at]
        found = _gauss(ring, p, _sum(q, _at(other, at), -1), q, x / (x - 1), 1 / (1 - x))
        return _with_power(ring, found, -np.log1p(-x), p)

    pairs = ((a, b, smaller), (b, a, ~smaller), (a, b, ~smaller), (b, a, smaller))
    return _best(ring, z.size, [(turn, lambda at, p=p, q=q: pfaff(at, p, q)) for p, q, turn in pairs])


def _right_gauss(ring: Polynomials, a: Linear, b: Linear, c: Linear, z):
    """Return ₂F₁ for 0 ≤ z < 1, and where that loses digits by Euler's (1 − z)ᶜ⁻ᵃ⁻ᵇ ₂F₁(c − a, c − b; c; z)."""

    def euler(at):
        p, q, r, x = _at(a, at), _at(b, at), _at(c, at), z[at]
        left = _sum(r, q, -1)
        return _with_power(ring, _gauss(ring, _sum(r, p, -1), left, r, x, 1 - x), np.log1p(-x), _sum(left, p, -1))

    direct = lambda at: _gauss(ring, _at(a, at), _at(b, at), _at(c, at), z[at], 1 - z[at])
    return _best(ring, z.size, [(True, direct), (True, euler)])


def hypergeometric_derivative(*given, order: Sequence[int]):
    """Return the derivative, of an order in each parameter and in z, which is the last, of ₀F₁, ₁F₁ or ₂F₁."""
    (*parameters, z), shape = flat_doubles(*given)
    *orders, along = order
    ring = Polynomials(orders)
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


# ── Tricomi's function, U(a, b, x) = 1/Γ(a) ∫ exp(as − xeˢ + (b − a − 1) log(1 + eˢ)) ds, for a > 0 ──────────────
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


def _tricomi(ring: Polynomials, a, b, x) -> dict:
    """Return the Taylor polynomials of ``hyperu`` in a and b, for a > 0.

    As a → 0 the mean of s cancels ψ(a) ~ −1/a; by parts U(a, b) = x U(a + 1, b + 1) + (a − b + 1) U(a + 1, b).
    """
    i, j = ring.exponents[-1]
    small = np.flatnonzero(a < 0.1)
    parts = [_tricomi(ring, a[small] + 1, b[small] + n, x[small]) for n in (0, 1)] if i and small.size else []
    if parts:
        rest = ring.times(parts[0], (a[small] - b[small] + 1, (1.0, -1.0)))
    a, b, x = (v[:, None] for v in (a, b, x))
    linear = b - 1 - x
    risen = np.where((a < 0.1) & (j > 0), a + 1, a)  # by log(1 + eˢ) ~ eˢ where s ≪ 0, which is the weight then
    root = np.hypot(linear, 2 * np.sqrt(risen * x))
    peak = np.log(np.where(linear > 0, (linear + root) / (2 * x), 2 * risen / (root - linear)))
    exponent = lambda s: a * (peak + s) - x * np.exp(peak + s) + (b - a - 1) * np.logaddexp(0, peak + s)
    higher = [None, *[derivative_of_psi(n, a) for n in range(1, i)]]
    total: dict[Any, Any] = dict.fromkeys(ring.exponents, 0.0)
    for side in (-1.0, 1.0):
        nodes, weights = crowded_panels(_to_depth(exponent, 0.05 * side), 0.8, 2.0, 4.5, 8.0, 13.0, 30.0, np.inf)
        s = peak + side * nodes
        grown = np.logaddexp(0, s)
        slopes = {(1, 0): s - grown - sp.psi(a), (0, 1): grown}
        slope = lambda k, slopes=slopes: slopes[k] if k in slopes else 0.0 if k[1] else -higher[k[0] - 1]
        values = weights * np.exp(exponent(side * nodes) - sp.gammaln(a))
        for k, weight in weights_of_exponential((i, j), slope).items():
            total[k] = total[k] + np.sum(weight * values, axis=-1) / (math.factorial(k[0]) * math.factorial(k[1]))
    for k in [k for k in ring.exponents if k[0] and not k[1]] if parts else ():
        total[k][small] = rest[k] + x[small, 0] * parts[1][k]
    return total


def tricomi_derivative(a, b, x, *, order: tuple[int, int, int]):
    """Return the derivative, of an order in each argument, of ``hyperu`` for positive x; others are NaN.

    That of order m in x is (−1)ᵐ (a)ₘ U(a + m, b + m, x). To a ≤ 0 goes the recurrence, the way that U grows in:

        U(a − 1) = (2a − b + x) U(a) − a (a − b + 1) U(a + 1).
    """
    (a, b, x), shape = flat_doubles(a, b, x)
    i, j, along = order
    with np.errstate(all="ignore"):
        fine = (x > 0) & np.isfinite(a + b + x) & (a > -2000)
        a, b, x = (np.where(fine, v, 1.0) for v in (a, b, x))
        ring, start = Polynomials((i, j)), a + along
        whole = (start <= 0) & (start == np.floor(start)) & (i == 0)  # a polynomial, U(0, b, x) = 1
        steps = np.where(start > 0, 0.0, np.floor(-start) + 1 - whole)
        here, at = _tricomi(ring, start + steps + whole, b + along, x), np.flatnonzero(steps)
        here = {k: np.where(whole, float(not any(k)), v) for k, v in here.items()}
        if at.size:
            twice = lambda v: np.concatenate([v[at], v[at]])  # the second, a little wrong at each step, tells the loss
            p, q, z, left = twice(start), twice(b) + along, twice(x), twice(steps)
            off = 1e-9 * (np.arange(2 * at.size) >= at.size)
            down, above = {k: twice(v) * (1 + off) for k, v in here.items()}, _tricomi(ring, p + left + 1, q, z)
            above = {k: np.where(twice(whole), 0.0, v) for k, v in above.items()}
            for n in range(int(np.max(left)), 0, -1):
                middle = ring.times(down, (2 * (p + n) - q + z, (2.0, -1.0)))
                last = ring.times(ring.times(above, (p, (1.0, 0.0)), n), (p - q + 1, (1.0, -1.0)), n)
                now = n <= left
                above = {k: np.where(now, v, above[k]) for k, v in down.items()}
                one, two = 1 + off * math.cos(2.4 * n), 1 + off * math.sin(1.7 * n * n)
                down = {k: np.where(now, one * middle[k] - two * last[k], v) for k, v in down.items()}
            for k, v in down.items():
                value, other = np.split(v, 2)
                bound = 1e-3 * np.abs(value) + 1e-6 * np.abs(down[0, 0][: at.size])
                here[k][at] = np.where(np.abs(other - value) <= bound, value, np.nan)
        for n in range(along):
            here = {k: -v for k, v in ring.times(here, (a, (1.0, 0.0)), n).items()}
    return np.where(fine, here[i, j] * (math.factorial(i) * math.factorial(j)), np.nan).reshape(shape)
