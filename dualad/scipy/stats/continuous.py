"""Continuous distributions: formulas of their standard forms.

z is the standardized argument, q a probability. Each formula is smooth inside the support: where a density is even,
it is not written with |z|, whose higher derivatives at 0 would be wrong.
Not for: location, scale and the ends of the support (``distribution.py``).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special._ufuncs as sp  # with SCIPY_ARRAY_API=1 the public names are functions around these
import scipy.stats as st

from ...ops.choice import nowhere
from .distribution import Continuous
from .summaries import Summary
from .tails import vonmises_in_kappa

__all__ = [
    "beta", "cauchy", "chi2", "expon", "f", "gamma", "gumbel_l", "gumbel_r", "halfnorm", "invgamma", "laplace",
    "logistic", "lognorm", "norm", "pareto", "rayleigh", "t", "truncnorm", "uniform", "vonmises", "weibull_min",
]  # fmt: skip

_LOG_2, _LOG_PI = math.log(2), math.log(math.pi)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_POSITIVE = (0.0, math.inf)


# ── on the whole line ────────────────────────────────────────────────────────────────────────────────────────────

norm = Continuous(
    st.norm,
    logpdf=lambda z: -0.5 * z * z - _HALF_LOG_2PI,
    cdf=sp.ndtr,
    sf=lambda z: sp.ndtr(-z),
    logcdf=sp.log_ndtr,
    logsf=lambda z: sp.log_ndtr(-z),
    ppf=sp.ndtri,
    isf=lambda q: -sp.ndtri(q),
)
cauchy = Continuous(
    st.cauchy,
    logpdf=lambda z: -_LOG_PI - np.log1p(z * z),
    cdf=lambda z: np.arctan2(1.0, -z) / math.pi,
    sf=lambda z: np.arctan2(1.0, z) / math.pi,
    ppf=lambda q: np.tan(math.pi * (q - 0.5)),
    isf=lambda q: np.tan(math.pi * (0.5 - q)),
)


def _laplace_tail(z):
    """Return the probability above z, with nothing infinite on the side that is not taken."""
    half = 0.5 * np.exp(-np.where(z > 0, z, -z))
    return np.where(z > 0, half, 1.0 - half)


laplace = Continuous(
    st.laplace,
    logpdf=lambda z: -np.abs(z) - _LOG_2,
    cdf=lambda z: _laplace_tail(-z),
    sf=_laplace_tail,
    ppf=lambda q: np.where(q > 0.5, -np.log(2 * (1 - q)), np.log(2 * q)),
    isf=lambda q: -np.where(q > 0.5, -np.log(2 * (1 - q)), np.log(2 * q)),
)


logistic = Continuous(
    st.logistic,
    logpdf=lambda z: sp.log_expit(z) + sp.log_expit(-z),
    cdf=sp.expit,
    sf=lambda z: sp.expit(-z),
    logcdf=sp.log_expit,
    logsf=lambda z: sp.log_expit(-z),
    ppf=sp.logit,
    isf=lambda q: -sp.logit(q),
)


# The distribution function of the Gumbel law is exp(−e⁻ᶻ). Where e⁻ᶻ is beyond e³⁰⁰ it is zero with all of its
# derivatives, and z is kept from there, so that they are not 0 times ∞. The logarithm of 1 − exp(−u) is that of
# u exprel(−u) where u is small, be it zero: log u = −z is at hand.


def _gumbel_sf(z):
    return -np.expm1(-np.exp(-np.maximum(z, -300.0)))


def _gumbel_logsf(z):
    small = z > 0
    u = np.exp(-np.where(small, z, 0.0))
    near = -np.where(small, z, 0.0) + np.log(sp.exprel(-u))
    return np.where(small, near, np.log1p(-_gumbel_cdf(np.where(small, 0.0, z))))


def _gumbel_cdf(z):
    return np.exp(-np.exp(-np.maximum(z, -300.0)))


gumbel_r = Continuous(
    st.gumbel_r,
    logpdf=lambda z: -z - np.exp(-z),
    cdf=_gumbel_cdf,
    logcdf=lambda z: -np.exp(-z),
    sf=_gumbel_sf,
    logsf=_gumbel_logsf,
    ppf=lambda q: -np.log(-np.log(q)),
    isf=lambda q: -np.log(-np.log1p(-q)),
)
gumbel_l = Continuous(
    st.gumbel_l,
    logpdf=lambda z: z - np.exp(z),
    cdf=lambda z: _gumbel_sf(-z),
    logcdf=lambda z: _gumbel_logsf(-z),
    sf=lambda z: _gumbel_cdf(-z),
    logsf=lambda z: -np.exp(z),
    ppf=lambda q: np.log(-np.log1p(-q)),
    isf=lambda q: np.log(-np.log(q)),
)


def _t_logpdf(z, df):
    far = np.isinf(df)
    if nowhere(far):
        return _student(z, df)
    return np.where(far, -0.5 * z * z - _HALF_LOG_2PI, _student(z, np.where(far, 1.0, df)))


def _student(z, df):
    # log Γ((df+1)/2) − log Γ(df/2) is the difference of near numbers where df is large; betaln is not.
    return -sp.betaln(0.5 * df, 0.5) - 0.5 * np.log(df) - 0.5 * (df + 1) * np.log1p(z * z / df)


t = Continuous(st.t, logpdf=_t_logpdf, cdf=lambda z, df: sp.stdtr(df, z), sf=lambda z, df: sp.stdtr(df, -z))

# κ(cos z − 1) − log(2π i0e(κ)), with κ as |κ| + log i0e(κ), whose derivatives at κ = 0 are right.
vonmises = Continuous(
    st.vonmises,
    valid=lambda kappa: kappa >= 0,
    logpdf=lambda z, kappa: kappa * np.cos(z) - 2 * _HALF_LOG_2PI - np.abs(kappa) - np.log(sp.i0e(kappa)),
    kappa=vonmises_in_kappa,
)


# ── on the positive half line ────────────────────────────────────────────────────────────────────────────────────

expon = Continuous(
    st.expon,
    _POSITIVE,
    logpdf=lambda z: -z,
    cdf=lambda z: -np.expm1(-z),
    sf=lambda z: np.exp(-z),
    logsf=lambda z: -z,
    ppf=lambda q: -np.log1p(-q),
    isf=lambda q: -np.log(q),
)
halfnorm = Continuous(
    st.halfnorm,
    _POSITIVE,
    logpdf=lambda z: _LOG_2 - 0.5 * z * z - _HALF_LOG_2PI,
    cdf=lambda z: sp.erf(z / math.sqrt(2)),
    sf=lambda z: 2 * sp.ndtr(-z),
    logsf=lambda z: _LOG_2 + sp.log_ndtr(-z),
    ppf=lambda q: sp.ndtri(0.5 * (1 + q)),
    isf=lambda q: -sp.ndtri(0.5 * q),
)
rayleigh = Continuous(
    st.rayleigh,
    _POSITIVE,
    logpdf=lambda z: np.log(z) - 0.5 * z * z,
    ends=lambda z: z,
    cdf=lambda z: -np.expm1(-0.5 * z * z),
    sf=lambda z: np.exp(-0.5 * z * z),
    logsf=lambda z: -0.5 * z * z,
    ppf=lambda q: np.sqrt(-2 * np.log1p(-q)),
    isf=lambda q: np.sqrt(-2 * np.log(q)),
)
gamma = Continuous(
    st.gamma,
    _POSITIVE,
    logpdf=lambda z, a: sp.xlogy(a - 1, z) - z - sp.gammaln(a),
    ends=lambda z, a: z ** (a - 1) * np.exp(-z) * sp.rgamma(a),
    cdf=lambda z, a: sp.gammainc(a, z),
    sf=lambda z, a: sp.gammaincc(a, z),
    ppf=lambda q, a: sp.gammaincinv(a, q),
    isf=lambda q, a: sp.gammainccinv(a, q),
)
chi2 = Continuous(
    st.chi2,
    _POSITIVE,
    logpdf=lambda z, df: sp.xlogy(0.5 * df - 1, z) - 0.5 * z - sp.gammaln(0.5 * df) - 0.5 * _LOG_2 * df,
    ends=lambda z, df: z ** (0.5 * df - 1) * np.exp(-0.5 * z - 0.5 * _LOG_2 * df) * sp.rgamma(0.5 * df),
    cdf=lambda z, df: sp.gammainc(0.5 * df, 0.5 * z),
    sf=lambda z, df: sp.gammaincc(0.5 * df, 0.5 * z),
    ppf=lambda q, df: 2 * sp.gammaincinv(0.5 * df, q),
    isf=lambda q, df: 2 * sp.gammainccinv(0.5 * df, q),
)
invgamma = Continuous(
    st.invgamma,
    _POSITIVE,
    open_below=True,
    logpdf=lambda z, a: -(a + 1) * np.log(z) - sp.gammaln(a) - 1 / z,
    cdf=lambda z, a: sp.gammaincc(a, 1 / z),
    sf=lambda z, a: sp.gammainc(a, 1 / z),
    ppf=lambda q, a: 1 / sp.gammainccinv(a, q),
    isf=lambda q, a: 1 / sp.gammaincinv(a, q),
)


def _f_logpdf(z, n, m):
    constant = 0.5 * (m * np.log(m) + n * np.log(n)) - sp.betaln(0.5 * n, 0.5 * m)
    return constant + sp.xlogy(0.5 * n - 1, z) - 0.5 * (n + m) * np.log(m + n * z)


def _f_end(z, n, m):
    constant = 0.5 * (m * np.log(m) + n * np.log(n)) - sp.betaln(0.5 * n, 0.5 * m)
    return z ** (0.5 * n - 1) * np.exp(constant - 0.5 * (n + m) * np.log(m + n * z))


f = Continuous(
    st.f,
    _POSITIVE,
    logpdf=_f_logpdf,
    ends=_f_end,
    cdf=lambda z, n, m: sp.fdtr(n, m, z),
    sf=lambda z, n, m: sp.fdtrc(n, m, z),
)
lognorm = Continuous(
    st.lognorm,
    _POSITIVE,
    open_below=True,
    logpdf=lambda z, s: -0.5 * (np.log(z) / s) ** 2 - np.log(s * z) - _HALF_LOG_2PI,
    cdf=lambda z, s: sp.ndtr(np.log(z) / s),
    sf=lambda z, s: sp.ndtr(-np.log(z) / s),
    logcdf=lambda z, s: sp.log_ndtr(np.log(z) / s),
    logsf=lambda z, s: sp.log_ndtr(-np.log(z) / s),
    ppf=lambda q, s: np.exp(s * sp.ndtri(q)),
    isf=lambda q, s: np.exp(-s * sp.ndtri(q)),
)
weibull_min = Continuous(
    st.weibull_min,
    _POSITIVE,
    logpdf=lambda z, c: np.log(c) + sp.xlogy(c - 1, z) - z**c,
    ends=lambda z, c: c * z ** (c - 1) * np.exp(-(z**c)),
    cdf=lambda z, c: -np.expm1(-(z**c)),
    sf=lambda z, c: np.exp(-(z**c)),
    logsf=lambda z, c: -(z**c),
    ppf=lambda q, c: (-np.log1p(-q)) ** (1 / c),
    isf=lambda q, c: (-np.log(q)) ** (1 / c),
)
pareto = Continuous(
    st.pareto,
    (1.0, math.inf),
    logpdf=lambda z, b: np.log(b) - (b + 1) * np.log(z),
    cdf=lambda z, b: 1 - z**-b,
    sf=lambda z, b: z**-b,
    logsf=lambda z, b: -b * np.log(z),
    ppf=lambda q, b: (1 - q) ** (-1 / b),
    isf=lambda q, b: q ** (-1 / b),
)


# ── on an interval ───────────────────────────────────────────────────────────────────────────────────────────────

uniform = Continuous(
    st.uniform,
    (0.0, 1.0),
    logpdf=lambda z: 0.0 * z,
    cdf=lambda z: z,
    sf=lambda z: 1 - z,
    ppf=lambda q: q,
    isf=lambda q: 1 - q,
)
beta = Continuous(
    st.beta,
    (0.0, 1.0),
    logpdf=lambda z, a, b: sp.xlog1py(b - 1, -z) + sp.xlogy(a - 1, z) - sp.betaln(a, b),
    ends=lambda z, a, b: z ** (a - 1) * (1 - z) ** (b - 1) * np.exp(-sp.betaln(a, b)),
    cdf=lambda z, a, b: sp.betainc(a, b, z),
    sf=lambda z, a, b: sp.betaincc(a, b, z),
    ppf=lambda q, a, b: sp.betaincinv(a, b, q),
    isf=lambda q, a, b: sp.betainccinv(a, b, q),
)


def _log_mass(low, high):
    """Return log(Φ(high) − Φ(low)): on the right of 0 by reflection; in a tail the difference of two logarithms."""
    right = low > 0
    low, high = np.where(right, -high, low), np.where(right, -low, high)
    left = high <= 0
    none = np.isneginf(low)
    low = np.where(none, -1.0, low)
    tail_high = sp.log_ndtr(np.where(left, high, -0.5))
    tail_low = sp.log_ndtr(np.where(left, np.where(none, high - 1.0, low), -1.0))
    tail = tail_high + np.where(none, 0.0, np.log1p(-np.exp(tail_low - tail_high)))
    outside = np.where(none, 0.0, sp.ndtr(low)) + sp.ndtr(-np.where(left, 1.0, high))
    return np.where(left, tail, np.log1p(-np.where(left, 0.5, outside)))


def _truncated_ends(a, b):
    """Return each end, 0 where it is infinite, and the density there."""
    mass = _log_mass(a, b)
    ends = []
    for end in (a, b):
        infinite = np.isinf(end)
        z = np.where(infinite, 0.0, end)
        ends += [z, np.where(infinite, 0.0, np.exp(-0.5 * z * z - _HALF_LOG_2PI - mass))]
    return ends


def _truncated_moments(a, b):
    """E zᵏ = (k − 1) E zᵏ⁻² + aᵏ⁻¹ p(a) − bᵏ⁻¹ p(b), with the density p of the truncated distribution."""
    a, at_a, b, at_b = _truncated_ends(a, b)
    raw = [1.0, at_a - at_b]
    for k in (2, 3, 4):
        raw.append((k - 1) * raw[k - 2] + a ** (k - 1) * at_a - b ** (k - 1) * at_b)
    _, m, second, third, fourth = raw
    variance = second - m * m
    skewness = (third - 3 * m * second + 2 * m**3) / variance**1.5
    return m, variance, skewness, (fourth - 4 * m * third + 6 * m * m * second - 3 * m**4) / variance**2 - 3


def _truncated_entropy(a, b):
    mass = _log_mass(a, b)
    a, at_a, b, at_b = _truncated_ends(a, b)
    return 0.5 + _HALF_LOG_2PI + mass + 0.5 * (a * at_a - b * at_b)


truncnorm = Continuous(
    st.truncnorm,
    lambda a, b: (a, b),
    valid=lambda a, b: a < b,
    logpdf=lambda z, a, b: -0.5 * z * z - _HALF_LOG_2PI - _log_mass(a, b),
    cdf=lambda z, a, b: np.exp(_log_mass(a, z) - _log_mass(a, b)),
    sf=lambda z, a, b: np.exp(_log_mass(z, b) - _log_mass(a, b)),
    logcdf=lambda z, a, b: _log_mass(a, z) - _log_mass(a, b),
    logsf=lambda z, a, b: _log_mass(z, b) - _log_mass(a, b),
    summary=Summary(_truncated_moments, _truncated_entropy),
)
