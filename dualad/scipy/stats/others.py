"""All other distributions of SciPy's, by its own code; a row for what that code can't say of one.

Not for: those whose formulas are written here (``continuous.py``, ``discrete.py``).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special._ufuncs as sp
import scipy.stats as st
from scipy.stats import rv_continuous, rv_discrete

from ...jvp import jvp
from . import continuous, discrete
from .distribution import Continuous, Discrete
from .tails import vonmises_in_kappa

__all__ = ["OTHERS"]

_LOG_2, _HALF_LOG_2PI = math.log(2), 0.5 * math.log(2 * math.pi)


def _hyperbolic(x, p, a, b):
    """Logarithm of (ω/a)ᵖ √a eᵇˣ K_{p−½}(a r) r^{p−½} / (√2π K_p(ω)), with ω² = a² − b² and r² = 1 + x²."""
    omega, r = np.sqrt(a * a - b * b), np.sqrt(1 + x * x)
    bessel = np.log(sp.kve(p - 0.5, a * r)) - a * r - np.log(sp.kve(p, omega)) + omega
    return p * np.log(omega / a) + 0.5 * np.log(a) - _HALF_LOG_2PI + b * x + (p - 0.5) * np.log(r) + bessel


def _inverse_gaussian(x, p, b):
    return (p - 1) * np.log(x) - 0.5 * b * (x + 1 / x) - _LOG_2 - np.log(sp.kve(p, b)) + b


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
# derivative in λ is half of a difference between neighbours. Noncentral t is (Z + μ)/√(V/ν).


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
    central = continuous.f._formulas["logpdf"](x, n, m)
    return central - 0.5 * nc + np.log(sp.hyp1f1(0.5 * (n + m), 0.5 * n, 0.5 * nc * n * x / (m + n * x)))


def _f_in_nc(x, n, m, nc):
    cdf = OTHERS["ncf"]._formulas["cdf"]
    return 0.5 * (cdf(x * n / (n + 2), n + 2, m, nc) - cdf(x, n, m, nc))


def _t_pdf(x, df, nc):
    spread = df + x * x
    y = 0.5 * (nc * x) ** 2 / spread
    logarithm = 0.5 * df * np.log(df) + sp.gammaln(df + 1) - df * _LOG_2 - 0.5 * nc * nc - sp.gammaln(0.5 * df)
    odd = math.sqrt(2) * nc * x * sp.hyp1f1(0.5 * df + 1, 1.5, y) / spread * sp.rgamma(0.5 * (df + 1))
    even = sp.hyp1f1(0.5 * (df + 1), 0.5, y) / np.sqrt(spread) * sp.rgamma(0.5 * df + 1)
    return np.exp(logarithm - 0.5 * df * np.log(spread)) * (odd + even)


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
    p = OTHERS["tukeylambda"]._formulas["cdf"](x, lam)
    return 1 / (p ** (lam - 1) + (1 - p) ** (lam - 1))


def _tukey_in_lam(x, lam):
    p = OTHERS["tukeylambda"]._formulas["cdf"](x, lam)
    return -jvp(lambda lam: _tukey_quantile(p, lam), (lam,), (np.ones_like(lam),))[1] * _tukey_pdf(x, lam)


def _skellam_logpmf(k, mu1, mu2):
    geometric = np.sqrt(mu1 * mu2)
    bessel = np.log(sp.ive(np.abs(k), 2 * geometric))
    return 2 * geometric - mu1 - mu2 + 0.5 * k * np.log(mu1 / mu2) + bessel


def _skellam_cdf(k, mu1, mu2):
    """P(X ≤ k) is the probability of a noncentral χ² law below, for k ≥ 0 above, twice a mean."""
    cdf, left = OTHERS["ncx2"]._formulas["cdf"], k < 0
    below = cdf(2 * mu2, np.where(left, -2 * k, 1.0), 2 * mu1)
    return np.where(left, below, 1.0 - cdf(2 * mu1, np.where(left, 1.0, 2 * (k + 1)), 2 * mu2))


def _over(y):
    """log(1 + y)/y, smooth at 0."""
    return 1 / sp.exprel(np.log1p(y))


_DENSITY = ("logpdf", "pdf")
_ALL = ("cdf", "logcdf", "logpmf", "logsf", "pmf", "sf")
#: name -> what is known of it beside SciPy's code
_ROWS: dict[str, dict] = {
    "genextreme": {
        "logpdf": lambda x, c: -x * _over(-c * x) - np.exp(-x * _over(-c * x)) - np.log1p(-c * x),
        "cdf": lambda x, c: np.exp(-np.exp(-x * _over(-c * x))),
        "sf": lambda x, c: -np.expm1(-np.exp(-x * _over(-c * x))),
        "logcdf": lambda x, c: -np.exp(-x * _over(-c * x)),
        "ppf": lambda q, c: -np.log(-np.log(q)) * sp.exprel(c * np.log(-np.log(q))),
        "isf": lambda q, c: -np.log(-np.log1p(-q)) * sp.exprel(c * np.log(-np.log1p(-q))),
    },
    "genhyperbolic": {"logpdf": _hyperbolic},
    "geninvgauss": {"logpdf": _inverse_gaussian},
    "genpareto": {
        "logpdf": lambda x, c: -(c + 1) * x * _over(c * x),
        "cdf": lambda x, c: -np.expm1(-x * _over(c * x)),
        "sf": lambda x, c: np.exp(-x * _over(c * x)),
        "logsf": lambda x, c: -x * _over(c * x),
        "ppf": lambda q, c: -np.log1p(-q) * sp.exprel(-c * np.log1p(-q)),
        "isf": lambda q, c: -np.log(q) * sp.exprel(-c * np.log(q)),
    },
    "irwinhall": {"without": _DENSITY},
    "kappa3": {"sf": lambda x, a: -np.expm1(-np.log1p(a * x**-a) / a)},
    "kappa4": {"branches": lambda h, k: (h == 0) | (k == 0)},
    "ksone": {"without": _DENSITY},
    "kstwo": {"without": _DENSITY},
    "kstwobign": {"pdf": _kolmogorov},
    "landau": {"without": _DENSITY},
    "levy_stable": {"without": _DENSITY},
    "nchypergeom_fisher": {"without": _ALL},
    "nchypergeom_wallenius": {"without": _ALL},
    "ncf": {"logpdf": _f_logpdf, "nc": _f_in_nc},
    "nct": {"pdf": _t_pdf},
    "ncx2": {"logpdf": _chi2_logpdf, "nc": lambda x, df, nc: -np.exp(_chi2_logpdf(x, df + 2, nc))},
    "pearson3": {"logpdf": _pearson, "skew": _pearson_in_skew},
    "poisson_binom": {"without": _ALL},
    "rice": {"b": lambda x, b: -x * np.exp(-0.5 * (x - b) ** 2) * sp.i1e(x * b)},
    "skellam": {"logpmf": _skellam_logpmf, "cdf": _skellam_cdf},
    "skewnorm": {"a": lambda x, a: -np.exp(-0.5 * x * x * (1 + a * a)) / (math.pi * (1 + a * a))},
    "studentized_range": {"without": _DENSITY},
    "trapezoid": {"branches": lambda c, d: (c == 0) | (d == 1) | (c == d)},
    "triang": {"branches": lambda c: (c == 0) | (c == 1)},
    "tukeylambda": {"pdf": _tukey_pdf, "lam": _tukey_in_lam},
    "vonmises_line": {"kappa": vonmises_in_kappa},
    "zipfian": {"without": _ALL},
}

#: name -> distribution
OTHERS: dict[str, Continuous | Discrete] = {}

for _name in dir(st):
    _original = getattr(st, _name)
    if isinstance(_original, (rv_continuous, rv_discrete)) and _name not in {*continuous.__all__, *discrete.__all__}:
        _row = _ROWS.get(_name, {})
        if isinstance(_original, rv_discrete):
            OTHERS[_name] = Discrete(_original, None, **_row)
        else:
            _open = type(_original)._support_mask is rv_continuous._open_support_mask
            OTHERS[_name] = Continuous(_original, None, open_below=_open, **_row)
