"""Functions with shape parameters, their definitions for two oracles, and points of their whole domains.

A definition is written once, in a kit's numbers: mpmath's at some digits, or Arb's balls (python-flint), hundreds of
times faster and with bounds on their error. It shares nothing with the rules. Not for: measuring (``shapes.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import mpmath as mp
import numpy as np
import scipy.special as sp

import dualad as da
import dualad.scipy.special
import dualad.scipy.stats as stats

try:
    import flint
except ImportError:  # optional: hours of mpmath instead
    flint = None

__all__ = ["FAMILIES", "Arb", "Family", "Inverse", "Mpmath", "Undecided", "flint"]


class Undecided(Exception):
    """The oracle has no answer: nothing but zeros, a pole, or more bits needed than there are."""


# ── two kinds of numbers ─────────────────────────────────────────────────────────────────────────────────────────


class Mpmath:
    """Functions of mpmath's numbers at a working precision in bits."""

    name, start = "mpmath", 256
    number, exp, log, lgamma, hyp0f1, hyp1f1, hyp2f1, hyperu = map(
        staticmethod, (mp.mpf, mp.exp, mp.log, mp.loggamma, mp.hyp0f1, mp.hyp1f1, mp.hyp2f1, mp.hyperu)
    )
    besselj, bessely, besseli, besselk = map(staticmethod, (mp.besselj, mp.bessely, mp.besseli, mp.besselk))
    zeta, struve, modstruve, ellipf, ellipe, expint, erfc, cos = map(
        staticmethod, (mp.zeta, mp.struveh, mp.struvel, mp.ellipf, mp.ellipe, mp.expint, mp.erfc, mp.cos)
    )

    @staticmethod
    def at(bits: int):
        return mp.workprec(bits)

    @staticmethod
    def gamma_above(a, x):
        return mp.gammainc(a, x, mp.inf, regularized=True)

    @staticmethod
    def hyp2f1_with_one(a, c, x):
        return mp.hyp2f1(a, 1, c, x)

    @staticmethod
    def gamma_below(a, x, front):
        return front * mp.hyp1f1(1, a + 1, x)

    @staticmethod
    def integral(f, low, high):
        return mp.quad(f, mp.linspace(low, high, 9))

    @staticmethod
    def pi():
        return +mp.pi

    @staticmethod
    def right(value, before) -> bool:
        """Whether sixty bits are right: those in which it agrees with a lower precision."""
        return bool(before is not None and mp.im(value) == 0 and value and abs(value - before) <= abs(value) * 2.0**-60)


class _Precision:
    def __init__(self, bits: int) -> None:
        self.bits = bits

    def __enter__(self) -> None:
        self.before, flint.ctx.prec = flint.ctx.prec, self.bits

    def __exit__(self, *_) -> None:
        flint.ctx.prec = self.before


class Arb:
    """Functions of Arb's balls."""

    name, start = "Arb", 256
    at = _Precision

    @staticmethod
    def number(x):
        return flint.arb(x)

    @staticmethod
    def pi():
        return flint.arb.pi()

    @staticmethod
    def right(value, before) -> bool:
        return value.is_finite() and value.rel_accuracy_bits() >= 60

    exp, log, lgamma, cos, erfc = (
        staticmethod(lambda x, name=name: getattr(x, name)()) for name in ("exp", "log", "lgamma", "cos", "erfc")
    )
    besselj, bessely, besseli, besselk = (
        staticmethod(lambda v, x, name=name: getattr(x, name)(v))
        for name in ("bessel_j", "bessel_y", "bessel_i", "bessel_k")
    )
    hyp0f1, hyp1f1, hyp2f1, hyperu = (
        staticmethod(lambda *given, name=name: getattr(flint.arb(given[-1]), name)(*given[:-1]))
        for name in ("hypgeom_0f1", "hypgeom_1f1", "hypgeom_2f1", "hypgeom_u")
    )

    @staticmethod
    def gamma_above(a, x):
        return x.gamma_upper(a, regularized=1)

    @staticmethod
    def gamma_below(a, x, front):
        """From the upper one where a is large, with bits for what cancels, as the series is slow there."""
        if a < 30 or x < a / 100:
            return front * x.hypgeom_1f1(flint.arb(1), a + 1)
        shape, at = float(a), float(x)
        lost = max(0, int(1.5 * (at - shape - shape * np.log(at / shape)))) + 32
        with _Precision(flint.ctx.prec + lost):
            return 1 - x.gamma_upper(a, regularized=1)

    @staticmethod
    def hyp2f1_with_one(a, c, x):
        """Return ₂F₁(a, 1; c; x) for 0 < x < 1: positive terms, which Arb transforms slowly where a and c are large."""
        if a < 100 or x > 0.98:
            if a > 100 and flint.ctx.prec > 512:  # seconds
                raise Undecided
            return x.hypgeom_2f1(a, flint.arb(1), c)
        total = term = flint.arb(1)
        for n in range(100_000):
            ratio = x * (a + n) / (c + n)
            term = term * ratio
            total += term
            if ratio < 0.999 and term < total * 2.0**-64 and term < total * flint.arb(2) ** -flint.ctx.prec:
                rest = term * ratio.max(x) / (1 - ratio.max(x))
                return total + flint.arb(0, rest.abs_upper())
        raise Undecided

    @staticmethod
    def zeta(s, q):
        return s.zeta(q)

    @staticmethod
    def expint(n, x):
        return x.expint(n)

    @staticmethod
    def ellipf(phi, m):
        return flint.acb.elliptic_f(phi, m).real

    @staticmethod
    def ellipe(phi, m):
        return flint.acb.elliptic_e_inc(phi, m).real

    @staticmethod
    def integral(f, low, high):
        return flint.acb.integral(lambda t, _: f(t), low, high, abs_tol=flint.arb(2) ** -20000).real

    @staticmethod
    def _struve(v, x, sign: int):
        z, half = flint.acb(sign * x * x / 4), flint.acb(1.5)
        series = z.hypgeom([flint.acb(1)], [half, v + half], regularized=True).real
        return ((v + 1) * (x / 2).log()).exp() * series

    @staticmethod
    def struve(v, x):
        return Arb._struve(v, x, -1)

    @staticmethod
    def modstruve(v, x):
        return Arb._struve(v, x, 1)


# ── definitions ──────────────────────────────────────────────────────────────────────────────────────────────────
#
# Of distribution functions they return F and 1 − F, from the smaller one.


def _front(k, logarithm):
    """Return the exponential of a logarithm, where that isn't far below the smallest double."""
    if logarithm < -800:
        raise Undecided
    return k.exp(logarithm)


def _gamma(k, a, x):
    front = _front(k, a * k.log(x) - x - k.lgamma(a + 1))
    if x > a + 8 or (x > a and a > 30):
        above = k.gamma_above(a, x)
        return 1 - above, above
    below = k.gamma_below(a, x, front)
    return below, 1 - below


def _beta(k, a, b, x, y=None):
    y = 1 - x if y is None else y
    if x * (a + b) > a:
        return _beta(k, b, a, y, x)[::-1]
    scale = k.lgamma(a + b) - k.lgamma(a + 1) - k.lgamma(b)
    below = _front(k, a * k.log(x) + b * k.log(y) + scale) * k.hyp2f1_with_one(a + b, a + 1, x)
    return below, 1 - below


def _f(k, n, m, x):
    total = n * x + m
    return _beta(k, n / 2, m / 2, n * x / total, m / total)


def _student(k, df, t):
    square = t * t
    tail = _beta(k, df / 2, k.number(1) / 2, df / (df + square), square / (df + square))[0] / 2
    return (1 - tail, tail) if t > 0 else (tail, 1 - tail)


def _owen(k, h, a):
    """Return ∫ exp(−½h²(1 + t²))/(1 + t²) dt/2π from 0 to a, where t = sinh u."""
    limit = 40 / abs(h)  # beyond, nothing above 2⁻¹¹⁰⁰ of it
    a = a if abs(a) < limit else limit if a > 0 else -limit
    end = k.log(abs(a) + (1 + a * a) ** k.number(0.5))

    def of(u):
        cosh = (k.exp(u) + k.exp(-u)) / 2
        return k.exp(-h * h * cosh * cosh / 2) / cosh

    return (k.integral(of, 0, end if a > 0 else -end) / (2 * k.pi()),)


def _noncentral(k, x, df, nc):
    """Sum P(½ df + j, ½ x) over Poisson's weights, down from far beyond both their largest terms."""
    half, a, x = nc / 2, df / 2, x / 2
    last = int(float(half) + 30 * float(half) ** 0.5 + 120)
    weight, total = k.exp(last * k.log(half) - half - k.lgamma(k.number(last + 1))), k.number(0)
    step = k.exp((a + last) * k.log(x) - x - k.lgamma(a + last + 1))
    p = step * k.hyp1f1(k.number(1), a + last + 1, x)
    for j in range(last, -1, -1):
        total += weight * p
        weight, step = weight * j / half, step * (a + j) / x
        p += step
    return total, 1 - total


def _vonmises(k, z, kappa):
    if z > 0:
        return _vonmises(k, -z, kappa)[::-1]
    below = k.integral(lambda t: k.exp(kappa * k.cos(t)), -k.pi(), z)
    below = below / (2 * k.pi() * k.besseli(k.number(0), kappa))
    return below, 1 - below


def _skewed(k, x, a):
    below = k.erfc(-x / k.number(2) ** k.number(0.5)) / 2 - 2 * _owen(k, x, a)[0]
    return below, 1 - below


def _extreme(k, x, c):
    u = (1 - c * x) ** (1 / c)
    return k.exp(-u), 1 - k.exp(-u)


def _bessel_i(k, v, x):
    value = k.besseli(v, x)
    return value, value * k.exp(-x)


def _bessel_k(k, v, x):
    value = k.besselk(v, x)
    return value, value * k.exp(x)


# ── points ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _polygamma(n, x):
    out = 0.0
    for order in np.unique(n):
        out = out + np.where(n == order, da.scipy.special.polygamma(int(order), x), 0.0)
    return out


def _spread(rng, low, high, n, whole=0.0):
    """Draw numbers between powers of ten, a share of them multiples of ½."""
    x = 10 ** rng.uniform(low, high, n)
    return np.where(rng.random(n) < whole, np.maximum(np.round(2 * x), 1) / 2, x)


def _signed(rng, low, high, n, whole=0.0):
    return rng.choice([-1.0, 1.0], n) * _spread(rng, low, high, n, whole)


def _gamma_points(rng, n):
    a = np.where(rng.random(n) < 0.8, _spread(rng, -10, 3, n, 0.15), _spread(rng, 3, 6, n))
    near = np.abs(a + 8 * np.sqrt(a + 0.1) * rng.normal(size=n))
    return a, np.choose(rng.integers(0, 3, n), [near, a * _spread(rng, -1, 1, n), _spread(rng, -30, 2.5, n)])


def _rate_points(rng, n):
    a, x = _gamma_points(rng, n)
    rate = _spread(rng, -6, 6, n)
    return rate, a, x / rate


def _poisson_points(rng, n):
    a, x = _gamma_points(rng, n)
    return np.floor(a), x


def _beta_points(rng, n):
    a, b = (np.where(rng.random(n) < 0.9, _spread(rng, -10, 3, n, 0.15), _spread(rng, 3, 5, n)) for _ in range(2))
    x = np.where(rng.random(n) < 0.5, rng.beta(a, b), _spread(rng, -30, 0, n))
    x = np.where(rng.random(n) < 0.1, 1 - _spread(rng, -15, 0, n), x)
    return a, b, np.clip(x, 1e-300, 1 - 2**-53)


def _binomial_points(rng, n):
    size = np.ceil(_spread(rng, 0, 4, n))
    p = np.where(rng.random(n) < 0.3, _spread(rng, -15, 0, n), rng.random(n))
    return np.floor(np.minimum(rng.binomial(size.astype(int), p) + rng.integers(-2, 3, n), size - 1).clip(0)), size, p


def _negative_points(rng, n):
    r = _spread(rng, -3, 3, n, 0.15)
    p = np.where(rng.random(n) < 0.3, _spread(rng, -6, 0, n), rng.uniform(0.01, 1, n))
    mean = r * (1 - p) / p
    return np.floor(np.minimum(mean * _spread(rng, -1, 0.7, n), 1e4)), r, p


def _ratio_points(rng, n):
    return _spread(rng, -6, 4, n, 0.3), _spread(rng, -6, 4, n, 0.3), _spread(rng, -8, 8, n)


def _student_points(rng, n):
    return _spread(rng, -4, 6, n, 0.3), _signed(rng, -10, 4, n)


def _bessel_points(rng, n):
    v, x = _signed(rng, -10, 3, n, 0.15), _spread(rng, -10, 5, n)
    v = np.where(rng.random(n) < 0.05, _signed(rng, 3, 4, n), v)
    size = np.abs(v)
    beside = size * np.abs(1 + rng.choice([1e-3, 0.3, 3.0], n) * rng.normal(size=n) * size ** (-2 / 3))
    return v, np.where((rng.random(n) < 0.25) & (beside > 0), beside, x)


def _struve_points(rng, n):
    v = np.where(rng.random(n) < 0.7, _spread(rng, -10, 3, n, 0.15), rng.uniform(-8, 0, n))
    return v, np.where(
        (rng.random(n) < 0.3) & (v > 0.1), np.abs(v) * rng.uniform(0.5, 1.5, n), _spread(rng, -5, 2.8, n)
    )


def _parameters(rng, low, high, n, negative=0.0):
    x = _spread(rng, low, high, n, 0.15)
    return np.where(rng.random(n) < negative, -x, x)


def _hyp0f1_points(rng, n):
    return _parameters(rng, -6, 2.5, n, 0.2), _signed(rng, -8, 4, n)


def _hyp1f1_points(rng, n):
    return _parameters(rng, -6, 2, n, 0.2), _spread(rng, -3, 2, n, 0.15), _signed(rng, -6, 2.3, n)


def _hyp2f1_points(rng, n):
    z = np.choose(
        rng.integers(0, 4, n),
        [1 - _spread(rng, -6, 0, n), -_spread(rng, -6, 4, n), _spread(rng, -10, -1, n), rng.uniform(-1, 1, n)],
    )
    return _parameters(rng, -4, 1.3, n, 0.15), _parameters(rng, -4, 1.3, n, 0.15), _spread(rng, -3, 1.3, n, 0.15), z


def _hyperu_points(rng, n):
    return _spread(rng, -4, 1.7, n, 0.15), rng.uniform(-30, 30, n), _spread(rng, -6, 2.5, n)


def _zeta_points(rng, n):
    return 1 + _spread(rng, -8, 1.8, n, 0.15), _spread(rng, -6, 5, n, 0.15)


def _elliptic_points(rng, n):
    phi = np.where(rng.random(n) < 0.7, rng.uniform(-1.57, 1.57, n), _signed(rng, -8, 1, n))
    return phi, np.where(rng.random(n) < 0.5, 1 - _spread(rng, -12, 8, n), _signed(rng, -10, -0.01, n))


def _noncentral_points(rng, n):
    df, nc = _spread(rng, -3, 2.5, n, 0.15), _spread(rng, -6, 2.5, n)
    near = np.abs(df + nc + 4 * np.sqrt(2 * df + 4 * nc) * rng.normal(size=n))
    x = np.where(rng.random(n) < 0.7, near, _spread(rng, -8, 2, n))
    return np.maximum(x, 1e-9 * (df + nc)), df, nc  # below, SciPy's sf raises OverflowError


def _extreme_points(rng, n):
    c, p = _signed(rng, -10, 1, n, 0.1), rng.random(n) ** rng.choice([1, 4, 16], n)
    p = np.where(rng.random(n) < 0.5, p, 1 - p)
    u = -np.log(np.clip(p, 1e-300, 1 - 1e-15))
    return -np.expm1(c * np.log(u)) / c, c


# ── families: what has the same definition ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Family:
    """A definition, its points, the places of its shapes, and functions of the same arguments.

    Each function comes with which of the definition's values it is: an index, ``("log", index)``, or a pair of factors
    of the first two values, the second imaginary, and in the exponent of x.
    """

    define: Callable
    points: Callable
    shapes: tuple[int, ...]
    members: dict[str, tuple[Callable, object]] = field(default_factory=dict)
    most_bits: int = 4096


@dataclass(frozen=True)
class Inverse:
    """What a family's value, by index, is in an argument's place: its inverse there.

    ``rest`` is SciPy's function for 1 minus it, in which its digits are where it is near 1.
    """

    family: str
    value: int
    place: int
    shapes: tuple[int, ...]
    members: dict[str, Callable]
    rest: Callable | None = None


def _cdfs(law: str, change: Callable, swapped: bool = False) -> dict:
    """Return the distribution functions of a law of ``scipy.stats`` at arguments ``change(…)``."""
    of = getattr(stats, law)
    rows = {"cdf": 0, "sf": 1, "logcdf": ("log", 0), "logsf": ("log", 1)}
    flip = {0: 1, 1: 0, ("log", 0): ("log", 1), ("log", 1): ("log", 0)}
    return {
        f"{law}.{name}": (lambda *a, name=name: getattr(of, name)(*change(*a)), flip[value] if swapped else value)
        for name, value in rows.items()
    }


def _by_name(name: str) -> Callable:
    return lambda k, *a: (getattr(k, name)(*a),)


_last_first = lambda *a: (a[-1], *a[:-1])
_doubled = lambda a, x: (2 * x, 2 * a)

FAMILIES: dict[str, Family | Inverse] = {
    "gamma": Family(
        _gamma, _gamma_points, (0,),
        {
            "gammainc": (sp.gammainc, 0), "gammaincc": (sp.gammaincc, 1),
            "chdtr": (lambda a, x: sp.chdtr(2 * a, 2 * x), 0), "chdtrc": (lambda a, x: sp.chdtrc(2 * a, 2 * x), 1),
            **_cdfs("gamma", _last_first), **_cdfs("chi2", _doubled),
        },
    ),
    "gamma of rate": Family(
        lambda k, r, a, x: _gamma(k, a, r * x), _rate_points, (0, 1), {"gdtr": (sp.gdtr, 0), "gdtrc": (sp.gdtrc, 1)}
    ),
    "gamma below inverse": Inverse(
        "gamma", 0, 1, (0,),
        {
            "gammaincinv": sp.gammaincinv, "gdtrix": lambda a, q: sp.gdtrix(1.0, a, q),
            "gamma.ppf": lambda a, q: stats.gamma.ppf(q, a), "chi2.ppf": lambda a, q: 0.5 * stats.chi2.ppf(q, 2 * a),
        },
    ),
    "gamma above inverse": Inverse(
        "gamma", 1, 1, (0,),
        {
            "gammainccinv": sp.gammainccinv, "chdtri": lambda a, q: 0.5 * sp.chdtri(2 * a, q),
            "gamma.isf": lambda a, q: stats.gamma.isf(q, a), "chi2.isf": lambda a, q: 0.5 * stats.chi2.isf(q, 2 * a),
        },
    ),
    "gamma inverse in shape": Inverse("gamma of rate", 0, 1, (0,), {"gdtrib": sp.gdtrib}),
    "gamma inverse in rate": Inverse("gamma of rate", 0, 0, (1,), {"gdtria": sp.gdtria}),
    "poisson": Family(
        lambda k, c, m: _gamma(k, c + 1, m), _poisson_points, (1,),
        {"pdtrc": (sp.pdtrc, 0), "pdtr": (sp.pdtr, 1), **_cdfs("poisson", lambda k, m: (k, m), swapped=True)},
    ),
    "beta": Family(
        _beta, _beta_points, (0, 1),
        {"betainc": (sp.betainc, 0), "betaincc": (sp.betaincc, 1), **_cdfs("beta", _last_first)},
    ),
    "beta below inverse": Inverse(
        "beta", 0, 2, (0, 1), {"betaincinv": sp.betaincinv, "beta.ppf": lambda a, b, q: stats.beta.ppf(q, a, b)},
        lambda a, b, q: sp.betainccinv(b, a, q),
    ),
    "beta above inverse": Inverse(
        "beta", 1, 2, (0, 1), {"betainccinv": sp.betainccinv, "beta.isf": lambda a, b, q: stats.beta.isf(q, a, b)},
        lambda a, b, q: sp.betaincinv(b, a, q),
    ),
    "beta inverse in a": Inverse("beta", 0, 0, (1,), {"btdtria": sp.btdtria}),
    "beta inverse in b": Inverse("beta", 0, 1, (0,), {"btdtrib": sp.btdtrib}),
    "binomial": Family(
        lambda k, c, n, p: _beta(k, c + 1, n - c, p), _binomial_points, (2,),
        {"bdtrc": (sp.bdtrc, 0), "bdtr": (sp.bdtr, 1), **_cdfs("binom", lambda *a: a, swapped=True)},
    ),
    "negative binomial": Family(
        lambda k, c, n, p: _beta(k, n, c + 1, p), _negative_points, (1, 2), _cdfs("nbinom", lambda *a: a),
    ),
    "negative binomial of counts": Family(
        lambda k, c, n, p: _beta(k, n, c + 1, p),
        lambda rng, n: (lambda c, r, p: (c, np.ceil(r), p))(*_negative_points(rng, n)), (2,),
        {"nbdtr": (sp.nbdtr, 0), "nbdtrc": (sp.nbdtrc, 1)},
    ),
    "f": Family(
        _f, _ratio_points, (0, 1),
        {"fdtr": (sp.fdtr, 0), "fdtrc": (sp.fdtrc, 1), **_cdfs("f", _last_first)},
    ),
    "f below inverse": Inverse(
        "f", 0, 2, (0, 1), {"fdtri": sp.fdtri, "f.ppf": lambda n, m, q: stats.f.ppf(q, n, m)}
    ),
    "f above inverse": Inverse("f", 1, 2, (0, 1), {"f.isf": lambda n, m, q: stats.f.isf(q, n, m)}),
    "t": Family(_student, _student_points, (0,), {"stdtr": (sp.stdtr, 0), **_cdfs("t", _last_first)}),
    "t below inverse": Inverse("t", 0, 1, (0,), {"stdtrit": sp.stdtrit, "t.ppf": lambda v, q: stats.t.ppf(q, v)}),
    "t above inverse": Inverse("t", 1, 1, (0,), {"t.isf": lambda v, q: stats.t.isf(q, v)}),
    "bessel": Family(
        lambda k, v, x: (k.besselj(v, x), k.bessely(v, x)), _bessel_points, (0,),
        {
            "jv": (sp.jv, 0), "jve": (sp.jve, 0), "yv": (sp.yv, 1), "yve": (sp.yve, 1), "hankel1": (sp.hankel1, (1, 0)),
            "hankel2": (sp.hankel2, (-1, 0)), "hankel1e": (sp.hankel1e, (1, -1)), "hankel2e": (sp.hankel2e, (-1, 1)),
        },
    ),
    "bessel i": Family(_bessel_i, _bessel_points, (0,), {"iv": (sp.iv, 0), "ive": (sp.ive, 1)}),
    "bessel k": Family(_bessel_k, _bessel_points, (0,), {"kv": (sp.kv, 0), "kve": (sp.kve, 1)}),
    **{
        name: Family(_by_name(name), points, shapes, {name: (getattr(sp, name), 0)})
        for name, points, shapes in (
            ("struve", _struve_points, (0,)), ("modstruve", _struve_points, (0,)), ("hyp0f1", _hyp0f1_points, (0,)),
            ("hyp1f1", _hyp1f1_points, (0, 1)), ("hyp2f1", _hyp2f1_points, (0, 1, 2)),
            ("hyperu", _hyperu_points, (0, 1)), ("zeta", _zeta_points, (0, 1)),
        )
    },
    "polygamma": Family(
        lambda k, n, x: ((-1) ** (int(float(n)) + 1) * k.exp(k.lgamma(n + 1)) * k.zeta(n + 1, x),),
        lambda r, n: (r.integers(1, 20, n).astype(float), _spread(r, -8, 6, n, 0.15)), (1,),
        {"polygamma": (_polygamma, 0)},
    ),
    "expn": Family(
        lambda k, n, x: (k.expint(n, x),), lambda r, n: (r.integers(0, 40, n).astype(float), _spread(r, -10, 2.8, n)),
        (1,), {"expn": (sp.expn, 0)},
    ),
    "owens_t": Family(
        _owen, lambda r, n: (_signed(r, -8, 1.5, n), _signed(r, -8, 3, n)), (0, 1), {"owens_t": (sp.owens_t, 0)},
        1024,
    ),
    "ellipkinc": Family(lambda k, p, m: (k.ellipf(p, m),), _elliptic_points, (1,), {"ellipkinc": (sp.ellipkinc, 0)}),
    "ellipeinc": Family(lambda k, p, m: (k.ellipe(p, m),), _elliptic_points, (1,), {"ellipeinc": (sp.ellipeinc, 0)}),
    "ncx2": Family(_noncentral, _noncentral_points, (1, 2), _cdfs("ncx2", lambda *a: a)),
    "vonmises": Family(
        _vonmises, lambda r, n: (r.uniform(-np.pi, np.pi, n) * r.random(n) ** 2, _spread(r, -6, 3, n)), (1,),
        _cdfs("vonmises", lambda *a: a), 1024,
    ),
    "skewnorm": Family(
        _skewed, lambda r, n: (_signed(r, -8, 1, n), _signed(r, -6, 2, n)), (1,), _cdfs("skewnorm", lambda *a: a),
        1024,
    ),
    "genextreme": Family(_extreme, _extreme_points, (1,), _cdfs("genextreme", lambda *a: a)),
    "genextreme below inverse": Inverse("genextreme", 0, 0, (1,), {"genextreme.ppf": stats.genextreme.ppf}),
    "genextreme above inverse": Inverse("genextreme", 1, 0, (1,), {"genextreme.isf": stats.genextreme.isf}),
}  # fmt: skip
