"""Derivatives of Bessel and Hankel functions in their order, of any order: contour integrals through a saddle point.

Loaded with ``special.py``. Not for: the operators that are made of them, with their rules in both arguments
(``bessel.py``), or complex arguments.

The derivation
--------------
Schläfli's integrals have the order in the exponent, so that a derivative in it is a power of −t under the integral:

    H⁽¹⁾(x) = 1/(πi) ∫ exp(x sinh t − νt) dt  from −∞ to ∞ + πi,      J = Re H⁽¹⁾,  Y = Im H⁽¹⁾,
    I(x) = 1/π Im ∫ exp(x cosh t − νt) dt     from the real axis to ∞ + πi,
    K(x) = ∫ exp(−x cosh t) cosh(νt) dt       from 0 to ∞.

With the saddle point as the origin, t = u + τ, all exponents are ± (w (cosh τ − 1) + ν (sinh τ − τ)) and a constant:

    I, K:         u = asinh(ν/x),    w = √(ν² + x²)
    J, Y, x < ν:  u = acosh(ν/x),    w = √(ν² − x²)
    J, Y, x ≥ ν:  u = i acos(ν/x),   w = i √(x² − ν²)

and on straight lines from there the integrand falls without turning much, for all ν and x, those of a transition
ν ≈ x too: vertically for I, at 75° for J, at 45° (both ways) for H⁽¹⁾ where x ≥ ν, along the real axis for K and Y;
then on the lines of height 0 and π. Gauss and Legendre's rule takes them as far as the exponent is 41.

The quotient of two such integrals is that of the derivative and the function, in which constants cancel; SciPy's value
times that quotient is the derivative, and the exponential factors of ``ive``, ``kve``, … need no formulas.

References: Watson, "Theory of Bessel Functions" (1944), 6.2 and 8.31; Gil, Segura and Temme, "Numerical Methods for
Special Functions" (2007), 5.5; Dunster, SIGMA 13 (2017) 012, for the derivatives themselves.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special._ufuncs as sp

from .incomplete import flat_doubles, gauss_legendre

__all__ = ["order_derivative"]

_RULE = gauss_legendre(48)
_EVEN = tuple([2 * part[32:] - shift for part, shift in zip(gauss_legendre(64), (1, 0), strict=True)])  # half a line
_LANES = 128
_DEPTH = 41.0
_RISING, _SLANT = np.exp(1j * math.pi * 5 / 12), np.exp(1j * math.pi / 4)


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _line(exponent, origin, direction, length, order: int, fold=None, start=None, rule=None):
    """Integrate exp(exponent(τ)) (origin + τ)ᵏ for k = 0, …, order along τ = direction·r, start or 0 < r < length.

    ``fold(k, t)`` is a further factor.
    """
    kind = complex if any([np.iscomplexobj(v) for v in (origin, direction)]) else float
    total = np.zeros((order + 1, len(length)), kind)
    near = np.where(length > 6, 4.0, length)
    far = np.maximum(length - 6, near)
    nodes, weights = rule or _RULE
    for low, high in ((0 * near if start is None else start, near), (near, far), (far, length)):
        for part in np.split(some := np.flatnonzero(high > low), range(_LANES, len(some), _LANES)):
            if not part.size:
                continue
            step = direction * (high[part] - low[part])
            tau = direction * low[part] + step * nodes
            t = origin[part] + tau
            values = np.exp(exponent(tau, part, float(np.max(high[part]))))
            for k in range(order + 1):
                whole = values if fold is None else values * fold(k, t, part)
                total[k, part] += step * np.einsum("n,nk->k", weights, whole)  # BLAS starts threads for so few
                if k < order:
                    values *= t
    return total


def _saddle(sign: int, gap, v, vertical=False):
    """Return the exponent ± (w (cosh τ − 1) + ν (sinh τ − τ)) = ± ((w − ν)(cosh τ − 1) + ν (e^τ − 1 − τ))."""

    def exponent(tau, at, size: float):
        if size < 2.5:
            half, rest = (0.5 * tau if size > 0.6 else tau), 1.0
            for n in range(19 if size > 0.6 else 13, 2, -1):
                rest = 1 + half * (rest * (1 / n))
            rest = 0.5 * half * half * rest
            if size > 0.6:
                grown = half + rest
                rest = grown * grown + 2 * rest
            grown = rest + tau
            exp = 1 + grown
        else:
            exp = np.exp(tau)
            grown = exp - 1
            rest = grown - tau
        bent = 0.5 * grown * grown / exp
        return sign * (gap[at] * (bent.real if vertical else bent) + v[at] * rest)

    return exponent


def _right(w, v):
    """Return where w (cosh τ − 1) + ν (sinh τ − τ) has reached the depth, or a little more."""
    reach = np.minimum(np.arccosh(1 + _DEPTH / w), np.minimum(np.cbrt(6 * _DEPTH / v), np.arcsinh(2 * _DEPTH / v) + 3))
    for _ in range(3):
        cosh = np.cosh(reach)
        excess = w * (cosh - 1) + v * (np.sinh(reach) - reach) - _DEPTH
        reach = reach - excess / (w * np.sinh(reach) + v * (cosh - 1))
    return reach


def _left(w, v, end):
    """Return where w (cosh s − 1) − ν (sinh s − s) has reached the depth, or more, or the end, if that is nearer."""
    reach = np.maximum(np.sqrt(2 * _DEPTH / v) + _DEPTH / v, np.where(w < v, np.sqrt(6 * _DEPTH / w), 0.0))
    reach = np.minimum(reach, np.arccosh(1 + _DEPTH / np.maximum(w - v, 0)))
    return np.fmin(reach, end)


def _leg(x, v, start, growth, constant, order: int, deeper=0.0):
    """Integrate over the line of height π from u = start: exp(−x growth(u) − νu + constant) (u + πi)ᵏ e^{−νπi}."""
    exponent = lambda s, at, small: constant[at] - x[at] * growth(start[at] + s) - v[at] * (start[at] + s)
    deep = _DEPTH + deeper + constant
    end = np.minimum(np.arcsinh(np.maximum(deep, 1e-300) / x) + 1e-9, deep / v)
    parts = _line(exponent, start, 1.0, np.where(deep > 0, np.maximum(end - start, 0.0), 0.0), order)
    return np.conj(_turn(v)) * [
        sum(math.comb(k, m) * (1j * math.pi) ** (k - m) * parts[m] for m in range(k + 1)) for k in range(order + 1)
    ]


def _turn(v):
    return sp._cospi(v) + 1j * sp._sinpi(v)


# ── the integrals with (−t)ᵏ, k = 0, …, order, times a factor that is 1 at the saddle point ──────────────────────


def _negated(parts, part=np.real):
    return [(-1) ** k * part(p) for k, p in enumerate(parts)]


def _of_k(v, x, order: int):
    w, u = np.hypot(v, x), np.arcsinh(v / x)
    exponent = _saddle(-1, x * (x / (w + v)), v)
    fold = lambda k, t, at: -np.expm1(-2 * v[at] * t) if k % 2 else 1 + np.exp(-2 * v[at] * t)
    right = _line(exponent, u, 1.0, _right(w, v), order, fold)
    return right - _line(exponent, u, -1.0, _left(w, v, u), order, fold)  # which are even or odd in t together


def _of_i(v, x, order: int):
    w, u = np.hypot(v, x), np.arcsinh(v / x)
    length = 2 * np.arcsin(np.minimum(np.sqrt(0.5 * _DEPTH / w), 1.0))
    line = _line(_saddle(1, x * (x / (w + v)), v, vertical=True), u, 1j, length, order, rule=_EVEN)
    deeper = np.clip(np.log(w / v), 0.0, 2 * w)  # as far as the line's part of the derivative vanishes beside ν = 0
    return _negated(line + _leg(x, v, u, np.cosh, v * u - w, order, deeper), np.imag)


def _below(v, x, order: int, which: str):
    """Return the integrals that J and Y are multiples of where x < ν, or J alone.

    Y comes from −∞ along the real axis, over a second saddle point on it, where t = −u.
    """
    w = np.sqrt((v - x) * (v + x))
    u, gap = np.arcsinh(w / x), -x * (x / (w + v))
    length = np.minimum(np.sqrt(2 * _DEPTH / (0.86 * w)), np.cbrt(6 * _DEPTH / (0.7 * v)))
    height = math.pi / _RISING.imag
    rising = _line(_saddle(1, gap, v), u, _RISING, np.minimum(length * (1 + 0.05 * length), height), order)
    rising = rising + _leg(x, v, u + height * _RISING.real, np.sinh, v * u - w, order)
    if which == "j":
        return _negated(rising, np.imag), np.ones((order + 1, len(x)))
    along = _saddle(-1, gap, v)
    real = _line(along, u, 1.0, _right(w, v), order) - _line(along, u, -1.0, _left(w, v, 2 * u), order)
    scale = np.exp(2 * (w - v * u))
    return _negated(rising, np.imag), [a + scale * b for a, b in zip(real, _negated(rising), strict=True)]


def _above(v, x, order: int):
    """Return the derivatives of H⁽¹⁾ where x ≥ ν, with the phase at the saddle point in extended precision."""
    height = np.sqrt((x - v) * (x + v))
    angle = np.arctan2(height, v)
    exponent = _saddle(1, 1j * height - v, v)
    up = np.minimum(np.sqrt(2 * _DEPTH / height), np.cbrt(6 * _DEPTH / (0.7 * v)))
    up = np.minimum(up * (1 + 0.05 * up), (math.pi - angle) * math.sqrt(2))
    down = np.sqrt(2 * _DEPTH / height)
    down = np.sqrt(2 * _DEPTH / height / (1 - np.minimum(0.26 * v * down / height, 1 / 3))) * (1 + 0.05 * down)
    down = np.minimum(down, angle * math.sqrt(2))
    lines = _line(exponent, 1j * angle, _SLANT, up, order, start=-down)
    axis = _line(
        lambda s, at, small: v[at] * (angle[at] + s) - x[at] * np.sinh(angle[at] + s), angle, 1.0,
        np.maximum(np.minimum(_right(0 * x, x), _DEPTH / (x - v)) - angle, 0.0), order,
    )  # fmt: skip
    rest = _negated(_leg(x, v, math.pi - angle, np.sinh, 0 * x, order), np.asarray) + axis
    wide, order_wide = x.astype(np.longdouble), v.astype(np.longdouble)
    height = np.sqrt((wide - order_wide) * (wide + order_wide))
    phase = height - order_wide * np.arctan2(height, order_wide)
    turn = np.cos(phase).astype(float) + 1j * np.sin(phase).astype(float)
    return (turn * _negated(lines, np.asarray) + rest) / (math.pi * 1j)


# ── the derivatives ──────────────────────────────────────────────────────────────────────────────────────────────


def _multiples(value, parts):
    """Return the value times the quotients of the integrals by the first, 0 and ∞ as they are."""
    quotients = np.asarray(parts) / parts[0]
    lost = (value == 0) | np.isinf(value)
    return value * np.where(lost, np.sign(quotients), quotients)


def _bessel(v, x, order: int, which: str):
    """Return the derivatives of J + iY, for ν ≥ 0."""
    out = np.empty((order + 1, len(x)), complex)
    above = x >= v
    out[:, above] = _above(v[above], x[above], order)
    v, x = v[~above], x[~above]
    first, second = _below(v, x, order, which)
    out.real[:, ~above], out.imag[:, ~above] = _multiples(sp.jv(v, x), first), _multiples(sp.yv(v, x), second)
    return out


def _reflected(v, derivatives, order: int):
    """Return the last derivative of e^{πiμ} f(μ), μ = −ν, from those of f in μ."""
    terms = [math.comb(order, k) * (math.pi * 1j) ** (order - k) * derivatives[k] for k in range(order + 1)]
    return (-1) ** order * _turn(-v) * sum(terms)


def _of_kind(kind: str, v, x, order: int):
    size, left = np.abs(v), v < 0
    scaled = kind.endswith("e")
    if kind in ("kv", "kve"):
        out = _multiples(sp.kve(size, x) if scaled else sp.kv(size, x), _of_k(size, x, order))[order]
        return np.where(left, (-1) ** order * out, out)
    if kind in ("iv", "ive"):
        out = _multiples(sp.ive(size, x) if scaled else sp.iv(size, x), _of_i(size, x, order))[order]
        if left.any():
            v, x, size = v[left], x[left], size[left]
            value = sp.kv(size, x)
            if scaled:
                value = np.where(x < size, value * np.exp(-x), sp.kve(size, x) * np.exp(-2 * x))
            k = _multiples(value, _of_k(size, x, order))
            out[left] = (-1) ** order * out[left] + np.imag(_reflected(v, k, order)) * (2 / math.pi)
        return out
    out = _bessel(size, x, order, "hankel" if left.any() else kind[0])
    out = np.where(left, _reflected(v, out, order), out[order])
    if kind.startswith("hankel"):
        out = np.conj(out) if "2" in kind else out
        return out * np.exp((-1j if "1" in kind else 1j) * x) if scaled else out
    return out.real if kind.startswith("j") else out.imag


def order_derivative(v, x, *, kind: str, order: int):
    """Return the derivative, of order 1 or more in ν, of a function of real x by its name in SciPy.

    With μ = −ν > 0, H⁽¹⁾ is e^{πiμ} times that of order μ, I that and 2/π sin(πμ) K, and K is even.
    """
    (v, x), shape = flat_doubles(v, x)
    out = np.full(v.shape, np.nan, complex if kind.startswith("hankel") else float)
    with np.errstate(all="ignore"):
        fine = np.isfinite(v) & (x > 0) & np.isfinite(x)
        out[fine] = _of_kind(kind, v[fine], x[fine], order)
    out[(x == 0) & (v > 0)] = 0.0 if kind[0] in "ji" else (-1) ** (kind[0] == "y") * np.inf
    out[(x == np.inf) & np.isfinite(v) & (kind != "iv")] = 0.0
    return out.reshape(shape)
