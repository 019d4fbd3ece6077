"""All distributions of numbers, by SciPy's own code; a row of formulas where that code can't serve.

It can't where it is compiled, integrates or searches, where a branch at one value of a shape or a density written
with |z| makes a derivative wrong, and where it loses digits: far out, next to a pole of a logarithm (``ends``,
``edge``), or in the difference of near numbers. z is the standardized argument, q a probability.
Not for: distributions of vectors (``multivariate.py``).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special._ufuncs as sp  # with SCIPY_ARRAY_API=1 the public names are functions around these
import scipy.stats as st
from scipy.stats import rv_continuous, rv_discrete

from ...jvp import jvp
from ...ops.choice import nowhere
from ...ops.incomplete import product_less
from ...ops.noncentral_t import noncentral_t
from ...ops.poisson_mixture import beta_mixture, beta_mixture_step, gamma_mixture
from ...rules.custom_jvp import custom_jvp
from . import orders
from .distribution import Continuous, Discrete
from .lifted import counted
from .tails import vonmises_in_kappa

__all__ = ["DISTRIBUTIONS"]

_LOG_2, _LOG_PI, _HALF_LOG_2PI = math.log(2), math.log(math.pi), 0.5 * math.log(2 * math.pi)


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


def _t_logpdf(z, df):
    """With betaln, as log Γ((df+1)/2) − log Γ(df/2) is the difference of near numbers where df is large."""
    far = np.isinf(df)
    n = df if nowhere(far) else np.where(far, 1.0, df)
    out = -sp.betaln(0.5 * n, 0.5) - 0.5 * np.log(n) - 0.5 * (n + 1) * np.log1p(z * z / n)
    return out if nowhere(far) else np.where(far, -0.5 * z * z - _HALF_LOG_2PI, out)


def _f_end(z, n, m):
    constant = 0.5 * (m * np.log(m) + n * np.log(n)) - sp.betaln(0.5 * n, 0.5 * m)
    return z ** (0.5 * n - 1) * np.exp(constant - 0.5 * (n + m) * np.log(m + n * z))


def _log_choices(n, k):
    return sp.gammaln(n + 1) - sp.gammaln(k + 1) - sp.gammaln(n - k + 1)


def _t_entropy(df):
    half, next_half = df / 2, (df + 1) / 2
    return next_half * (sp.psi(next_half) - sp.psi(half)) + 0.5 * np.log(df) + sp.betaln(half, 0.5)


def _weibull_moments(c):
    g1, g2, g3, g4 = [sp.gamma(1 + k / c) for k in (1, 2, 3, 4)]
    variance = g2 - g1 * g1
    third = g3 - 3 * g1 * g2 + 2 * g1**3
    fourth = g4 - 4 * g1 * g3 + 6 * g1**2 * g2 - 3 * g1**4
    return g1, variance, third / variance**1.5, fourth / variance**2 - 3


def _binom_moments(n, p):
    q = 1 - p
    return n * p, n * p * q, (q - p) / np.sqrt(n * p * q), (1 - 6 * p * q) / (n * p * q)


def _nbinom_moments(n, p):
    q = 1 - p
    return n * q / p, n * q / (p * p), (2 - p) / np.sqrt(n * q), (p * p - 6 * p + 6) / (n * q)


def _hyperbolic(x, p, a, b):
    """Logarithm of (ω/a)ᵖ √a eᵇˣ K_{p−½}(a r) r^{p−½} / (√2π K_p(ω)), with ω² = a² − b² and r² = 1 + x²."""
    omega, r = np.sqrt(a * a - b * b), np.sqrt(1 + x * x)
    bessel = np.log(sp.kve(p - 0.5, a * r)) - a * r - np.log(sp.kve(p, omega)) + omega
    return p * np.log(omega / a) + 0.5 * np.log(a) - _HALF_LOG_2PI + b * x + (p - 0.5) * np.log(r) + bessel


def _kolmogorov(x):
    """Both series of the theta function, each where it converges at once: in exp(−2k²x²), and in exp(−c/x²)."""
    k, x = np.arange(1.0, 11.0), np.expand_dims(x, -1)
    near = x < 0.8
    small, large = np.maximum(np.where(near, x, 0.8), 0.03), np.where(near, 0.8, x)
    c = ((2 * k - 1) * math.pi) ** 2 / 8
    left = math.sqrt(2 * math.pi) * np.exp(-c / small**2) * (2 * c / small**4 - 1 / small**2)
    right = -8 * large * (-1) ** k * k * k * np.exp(-2 * k * k * large**2)
    return np.sum(np.where(near, left, right), axis=-1)


# A noncentral distribution mixes central ones, with the weights of a Poisson law of mean λ/2: of χ² and F, whose
# derivative in λ is half of a difference between neighbours.


def _chi2_logpdf(x, df, nc):
    near = nc * x < 1
    y = np.sqrt(np.where(near, 1.0, nc * x))
    nu = 0.5 * df - 1
    apart = (
        -_LOG_2 - 0.5 * (x + nc) + y + 0.5 * nu * (np.log(x) - np.log(np.where(near, 1.0, nc))) + np.log(sp.ive(nu, y))
    )
    central = sp.xlogy(nu, x) - 0.5 * x - sp.gammaln(0.5 * df) - 0.5 * _LOG_2 * df
    return np.where(near, central - 0.5 * nc + np.log(sp.hyp0f1(0.5 * df, 0.25 * np.where(near, nc * x, 0.0))), apart)


def _f_logpdf(x, n, m, nc):
    central = DISTRIBUTIONS["f"]._formulas["logpdf"](x, n, m)
    return central - 0.5 * nc + np.log(sp.hyp1f1(0.5 * (n + m), 0.5 * n, 0.5 * nc * n * x / (m + n * x)))


def _f_in(i: int, j: int):
    """Return the derivative in a number of degrees of freedom, which the odds nx/m depend on as well."""

    def slope(x, n, m, nc):
        at = (0.5 * nc, 0.5 * n, 0.5 * m, n / m * x)
        moved = beta_mixture_step(*at, i=0, j=0, power=1)
        return 0.5 * beta_mixture(*at, i=i, j=j) + (moved / n if i else -moved / m)

    return slope


def _pearson(x, skew):
    """The law of a shifted gamma variable; near none, the logarithm of Edgeworth's series."""
    near = np.abs(skew) < 1.6e-5
    s = np.where(near, 1.0, skew)
    a = 4 / (s * s)
    y = a + 2 * x / s
    y = np.where(y > 0, y, math.nan)
    gamma = _LOG_2 - np.log(np.abs(s)) + (a - 1) * np.log(y) - y - sp.gammaln(a)
    series = -0.5 * x * x - _HALF_LOG_2PI + skew * (x**3 - 3 * x) / 6 + skew**2 * (-(x**4) / 16 + x * x / 8 - 1 / 48)
    return np.where(near, series, gamma)


def _pearson_in_skew(x, skew):
    """By the gamma distribution; near no skewness, ∂/∂s of Edgeworth's Φ − φ (s He₂/6 + s² (He₃/16 + He₅/72))."""
    near = np.abs(skew) < 1.6e-5

    def cdf(s):
        a = 4 / (s * s)
        y = a + 2 * x / s
        y = np.where(y > 0, y, 1.0)
        return np.where(s > 0, sp.gammainc(a, y), sp.gammaincc(a, y))

    moved = jvp(cdf, (np.where(near, 1.0, skew),), (np.ones_like(skew),))[1]
    moved = np.where(2 + x * skew > 0, moved, 0.0)  # beyond the end of the support
    odd = x * (x * x - 3) / 8 + x * (x**4 - 10 * x * x + 15) / 36
    return np.where(near, -np.exp(-0.5 * x * x - _HALF_LOG_2PI) * ((x * x - 1) / 6 + skew * odd), moved)


def _tukey_quantile(p, lam):
    """(pˡ − (1 − p)ˡ)/λ, smooth in λ."""
    return sum(sign * np.log(y) * sp.exprel(lam * np.log(y)) for sign, y in ((1, p), (-1, 1 - p)))


def _tukey_pdf(x, lam):
    p = DISTRIBUTIONS["tukeylambda"]._formulas["cdf"](x, lam)
    return 1 / (p ** (lam - 1) + (1 - p) ** (lam - 1))


def _tukey_in_lam(x, lam):
    p = DISTRIBUTIONS["tukeylambda"]._formulas["cdf"](x, lam)
    return -jvp(lambda lam: _tukey_quantile(p, lam), (lam,), (np.ones_like(lam),))[1] * _tukey_pdf(x, lam)


def _skellam_logpmf(k, mu1, mu2):
    geometric = np.sqrt(mu1 * mu2)
    bessel = np.log(sp.ive(np.abs(k), 2 * geometric))
    return 2 * geometric - mu1 - mu2 + 0.5 * k * np.log(mu1 / mu2) + bessel


def _skellam_cdf(k, mu1, mu2):
    """P(X ≤ k) is the probability of a noncentral χ² law below, for k ≥ 0 above, twice a mean."""
    cdf, left = DISTRIBUTIONS["ncx2"]._formulas["cdf"], k < 0
    below = cdf(2 * mu2, np.where(left, -2 * k, 1.0), 2 * mu1)
    return np.where(left, below, 1.0 - cdf(2 * mu1, np.where(left, 1.0, 2 * (k + 1)), 2 * mu2))


# Fisher's law is that of a binomial number among others with a fixed sum: its weights are those of the hypergeometric
# law times oddsᵏ. Zipf's law on 1..n has weights k^(−a). Both are divided by their sum, whose ends must be known.


def _fisher_logpmf(k, M, n, N, odds):
    low, high = np.maximum(0, N - (M - n)), np.minimum(n, N)
    first, last = [counted(end, "nchypergeom_fisher") for end in (low, high)]
    at = np.reshape(np.arange(np.min(first, initial=0), np.max(last, initial=0) + 1.0), (-1, *[1] * np.ndim(k)))
    there = (at >= low) & (at <= high)
    y = np.where(there, at, low)
    weight = _log_choices(n, k) + _log_choices(M - n, N - k) + k * np.log(odds)
    every = _log_choices(n, y) + _log_choices(M - n, N - y) + y * np.log(odds)
    return -np.log(np.sum(np.where(there, np.exp(every - weight), 0.0), axis=0))


def _zipf_sum(k, a, n):
    last = np.max(counted(n, "zipfian"), initial=1)
    j = np.reshape(np.arange(1.0, last + 1), (-1, *[1] * np.ndim(k)))
    return np.sum(np.where(j <= k, j**-a, 0.0), axis=0)


@custom_jvp
def _above_end(x, c):
    """Return 1 + cx, rounded once: beside the end of the support it is a small difference."""
    return product_less(x, (c, 0.0), -1.0)


_above_end.defjvp(lambda at, moved: (_above_end(*at), at[1] * moved[0] + at[0] * moved[1]))


def _end(c):
    """Return the least number z with cz ≥ 1, for c > 0, else infinity: 1/c may be rounded down, and is inside then."""
    there = c > 0
    c = np.where(there, c, 1.0)
    end = 1 / c
    above = (0.5 + 2**-20) * np.finfo(float).eps * end
    return np.where(there, end + np.where(product_less(end, (c, 0.0), 1.0) < 0, above, 0.0), math.inf)


def _log_over(x, c):
    """log(1 + cx)/c, smooth at c = 0."""
    y = c * x
    late = y < -0.5
    if nowhere(late):
        return x / sp.exprel(np.log1p(y))
    early = x / sp.exprel(np.log1p(np.where(late, 0.0, y)))
    above = np.where(late, _above_end(x, c), 1.0)
    return np.where(late, np.log(above) / np.where(late, c, 1.0), early)


_DENSITY = ("logpdf", "pdf")
_ALL = ("cdf", "logcdf", "logpmf", "logsf", "pmf", "sf")
#: name -> formulas and facts beside SciPy's code
_ROWS: dict[str, dict] = {
    "bernoulli": {
        "edge": (lambda p: (p == 0) | (p == 1), lambda k, p: np.where(k == 1, p, 1 - p)),
        "cdf": lambda k, p: 1 - p + 0 * k,
        "sf": lambda k, p: p + 0 * k,
        "moments": lambda p: _binom_moments(1, p),
    },
    "beta": {
        "logpdf": lambda z, a, b: sp.xlog1py(b - 1, -z) + sp.xlogy(a - 1, z) - sp.betaln(a, b),
        "ends": lambda z, a, b: z ** (a - 1) * (1 - z) ** (b - 1) * np.exp(-sp.betaln(a, b)),
        "ppf": lambda q, a, b: sp.betaincinv(a, b, q),
        "isf": lambda q, a, b: sp.betainccinv(a, b, q),
    },
    "binom": {
        "edge": (
            lambda n, p: (p == 0) | (p == 1),
            lambda k, n, p: np.exp(_log_choices(n, k)) * p**k * (1 - p) ** (n - k),
        ),
        "cdf": lambda k, n, p: sp.betaincc(k + 1, n - k, p),
        "sf": lambda k, n, p: sp.betainc(k + 1, n - k, p),
        "moments": _binom_moments,
    },
    "cauchy": {
        "logpdf": lambda z: -_LOG_PI - np.log1p(z * z),
        "ppf": lambda q: np.tan(math.pi * (q - 0.5)),
        "isf": lambda q: np.tan(math.pi * (0.5 - q)),
    },
    "chi2": {
        "ends": lambda z, df: z ** (0.5 * df - 1) * np.exp(-0.5 * z - 0.5 * _LOG_2 * df) * sp.rgamma(0.5 * df),
    },
    "f": {"ends": _f_end},
    "gamma": {"ends": lambda z, a: z ** (a - 1) * np.exp(-z) * sp.rgamma(a)},
    "genextreme": {
        "interior": lambda c: (-_end(-c), _end(c)),
        "logpdf": lambda x, c: (c - 1) * _log_over(x, -c) - np.exp(-_log_over(x, -c)),
        "cdf": lambda x, c: np.exp(-np.exp(-_log_over(x, -c))),
        "sf": lambda x, c: -np.expm1(-np.exp(-_log_over(x, -c))),
        "logcdf": lambda x, c: -np.exp(-_log_over(x, -c)),
        "ppf": lambda q, c: -np.log(-np.log(q)) * sp.exprel(c * np.log(-np.log(q))),
        "isf": lambda q, c: -np.log(-np.log1p(-q)) * sp.exprel(c * np.log(-np.log1p(-q))),
    },
    "genhyperbolic": {"logpdf": _hyperbolic},
    "geninvgauss": {
        "logpdf": lambda x, p, b: (p - 1) * np.log(x) - 0.5 * b * (x + 1 / x) - _LOG_2 - np.log(sp.kve(p, b)) + b,
    },
    "genpareto": {
        "interior": lambda c: (0.0, _end(-c)),
        "logpdf": lambda x, c: -(c + 1) * _log_over(x, c),
        "cdf": lambda x, c: -np.expm1(-_log_over(x, c)),
        "sf": lambda x, c: np.exp(-_log_over(x, c)),
        "logsf": lambda x, c: -_log_over(x, c),
        "ppf": lambda q, c: -np.log1p(-q) * sp.exprel(-c * np.log1p(-q)),
        "isf": lambda q, c: -np.log(q) * sp.exprel(-c * np.log(q)),
    },
    "geom": {"edge": (lambda p: p == 1, lambda k, p: (1 - p) ** (k - 1) * p)},
    "gumbel_l": {
        "logpdf": lambda z: z - np.exp(z),
        "cdf": lambda z: _gumbel_sf(-z),
        "logcdf": lambda z: _gumbel_logsf(-z),
        "sf": lambda z: _gumbel_cdf(-z),
        "logsf": lambda z: -np.exp(z),
    },
    "gumbel_r": {
        "logpdf": lambda z: -z - np.exp(-z),
        "cdf": _gumbel_cdf,
        "logcdf": lambda z: -np.exp(-z),
        "sf": _gumbel_sf,
        "logsf": _gumbel_logsf,
    },
    "halfnorm": {"logsf": lambda z: _LOG_2 + sp.log_ndtr(-z)},
    "irwinhall": {"orders": orders.irwinhall},
    "kappa3": {"sf": lambda x, a: -np.expm1(-np.log1p(a * x**-a) / a)},
    "kappa4": {"branches": lambda h, k: (h == 0) | (k == 0)},
    "ksone": {"orders": orders.ksone},
    "kstwo": {"orders": orders.kstwo},
    "kstwobign": {"pdf": _kolmogorov},
    "landau": {"orders": orders.landau},
    "laplace": {"logpdf": lambda z: -np.abs(z) - _LOG_2},
    "levy_stable": {"without": _DENSITY},
    "logistic": {"logpdf": lambda z: sp.log_expit(z) + sp.log_expit(-z)},
    "nbinom": {
        "edge": (lambda n, p: p == 1, lambda k, n, p: np.exp(_log_choices(n + k - 1, k)) * p**n * (1 - p) ** k),
        "cdf": lambda k, n, p: sp.betainc(n, k + 1, p),
        "sf": lambda k, n, p: sp.betaincc(n, k + 1, p),
        "moments": _nbinom_moments,
    },
    "ncf": {
        "logpdf": _f_logpdf,
        "dfn": _f_in(1, 0),
        "dfd": _f_in(0, 1),
        "nc": lambda x, n, m, nc: -0.5 * beta_mixture_step(0.5 * nc, 0.5 * n, 0.5 * m, n / m * x, i=0, j=0, power=0),
    },
    "nchypergeom_fisher": {"logpmf": _fisher_logpmf},
    "nchypergeom_wallenius": {"without": _ALL},
    "nct": {
        "pdf": lambda x, df, nc: noncentral_t(0.5 * df, x, nc, k=0, i=1, n=1),
        "df": lambda x, df, nc: 0.5 * noncentral_t(0.5 * df, x, nc, k=1, i=0, n=0),
        "nc": lambda x, df, nc: -noncentral_t(0.5 * df, x, nc, k=0, i=1, n=0),
    },
    "ncx2": {
        "logpdf": _chi2_logpdf,
        "df": lambda x, df, nc: 0.5 * gamma_mixture(0.5 * nc, 0.5 * df, 0.5 * x, order=1),
        "nc": lambda x, df, nc: -np.exp(_chi2_logpdf(x, df + 2, nc)),
    },
    "pareto": {"logpdf": lambda z, b: np.log(b) - (b + 1) * np.log(z), "logsf": lambda z, b: -b * np.log(z)},
    "pearson3": {"logpdf": _pearson, "skew": _pearson_in_skew},
    "poisson": {"edge": (lambda mu: mu == 0, lambda k, mu: mu**k * np.exp(-mu) * sp.rgamma(k + 1))},
    "poisson_binom": {"without": _ALL},
    "rayleigh": {"ends": lambda z: z},
    "rice": {"b": lambda x, b: -x * np.exp(-0.5 * (x - b) ** 2) * sp.i1e(x * b)},
    "skellam": {"logpmf": _skellam_logpmf, "cdf": _skellam_cdf},
    "skewnorm": {"a": lambda x, a: -np.exp(-0.5 * x * x * (1 + a * a)) / (math.pi * (1 + a * a))},
    "studentized_range": {"without": _DENSITY},
    "t": {"logpdf": _t_logpdf, "entropy": _t_entropy},
    "trapezoid": {"branches": lambda c, d: (c == 0) | (d == 1) | (c == d)},
    "triang": {"branches": lambda c: (c == 0) | (c == 1)},
    "truncnorm": {
        "logpdf": lambda z, a, b: -0.5 * z * z - _HALF_LOG_2PI - _log_mass(a, b),
        "cdf": lambda z, a, b: np.exp(_log_mass(a, z) - _log_mass(a, b)),
        "sf": lambda z, a, b: np.exp(_log_mass(z, b) - _log_mass(a, b)),
        "logcdf": lambda z, a, b: _log_mass(a, z) - _log_mass(a, b),
        "logsf": lambda z, a, b: _log_mass(z, b) - _log_mass(a, b),
        "moments": _truncated_moments,
        "entropy": _truncated_entropy,
    },
    "tukeylambda": {"pdf": _tukey_pdf, "lam": _tukey_in_lam},
    # With κ as |κ| + log i0e(κ), whose derivatives at κ = 0 are right.
    "vonmises": {
        "logpdf": lambda z, kappa: kappa * np.cos(z) - 2 * _HALF_LOG_2PI - np.abs(kappa) - np.log(sp.i0e(kappa)),
        "kappa": vonmises_in_kappa,
    },
    "vonmises_line": {"kappa": vonmises_in_kappa},
    "weibull_min": {"ends": lambda z, c: c * z ** (c - 1) * np.exp(-(z**c)), "moments": _weibull_moments},
    "zipfian": {
        "logpmf": lambda k, a, n: -a * np.log(k) - np.log(_zipf_sum(n, a, n)),
        "cdf": lambda k, a, n: _zipf_sum(k, a, n) / _zipf_sum(n, a, n),
    },
}

#: SciPy's name -> distribution
DISTRIBUTIONS: dict[str, Continuous | Discrete] = {}

for _name in dir(st):
    _original = getattr(st, _name)
    if isinstance(_original, rv_discrete):
        DISTRIBUTIONS[_name] = Discrete(_original, **_ROWS.get(_name, {}))
    elif isinstance(_original, rv_continuous):
        DISTRIBUTIONS[_name] = Continuous(_original, **_ROWS.get(_name, {}))
