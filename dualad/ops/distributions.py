"""Distribution functions among the ufuncs of ``scipy.special``: in the argument, and in parameters that scale it.

Each is an incomplete gamma or beta function of something, so its derivative is a density. Counts, degrees of freedom
and shapes have no derivative in closed form and are refused by name. Loaded with ``special.py``.
Not for: ``scipy.stats`` (``dualad/scipy/stats``).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special._ufuncs as sp

from .samples import anywhere, between, integers, positive
from .special_kinds import special

__all__ = ["beta_density", "gamma_density"]


def gamma_density(a, x):
    """Return x^(a−1) exp(−x) / Γ(a)."""
    return np.exp(sp.xlogy(a - 1, x) - x - sp.gammaln(a))


def beta_density(a, b, x):
    """Return x^(a−1) (1−x)^(b−1) / B(a, b)."""
    return np.exp(sp.xlogy(a - 1, x) + sp.xlog1py(b - 1, -x) - sp.betaln(a, b))


_inside = between(0.1, 0.9)
_some, _more = integers(1, 4), integers(4, 7)


# ── chi-squared, gamma, Poisson: incomplete gamma functions ──────────────────────────────────────────────────────


def _chi(v, x):
    return 0.5 * gamma_density(0.5 * v, 0.5 * x)


special(sp.chdtr, "v x", positive(), positive(), singular=True, x=lambda v, x, out: _chi(v, x))
special(sp.chdtrc, "v x", positive(), positive(), singular=True, x=lambda v, x, out: -_chi(v, x))
special(sp.chdtri, "v p", positive(), _inside, singular=True, p=lambda v, p, out: -1 / _chi(v, out))

_gamma_domains = (positive(), positive(), positive())
special(
    sp.gdtr, "a b x", *_gamma_domains, singular=True,
    a=lambda a, b, x, out: x * gamma_density(b, a * x),
    x=lambda a, b, x, out: a * gamma_density(b, a * x),
)  # fmt: skip
special(
    sp.gdtrc, "a b x", *_gamma_domains, singular=True,
    a=lambda a, b, x, out: -x * gamma_density(b, a * x),
    x=lambda a, b, x, out: -a * gamma_density(b, a * x),
)  # fmt: skip
special(
    sp.gdtrix, "a b p", positive(), positive(), _inside,
    a=lambda a, b, p, out: -out / a,
    p=lambda a, b, p, out: 1 / (a * gamma_density(b, a * out)),
)  # fmt: skip
special(
    sp.gdtria, "p b x", _inside, positive(), positive(),
    p=lambda p, b, x, out: 1 / (x * gamma_density(b, out * x)),
    x=lambda p, b, x, out: -out / x,
)  # fmt: skip

special(sp.pdtr, "k m", _some, positive(), singular=True, m=lambda k, m, out: -gamma_density(np.floor(k) + 1, m))
special(sp.pdtrc, "k m", _some, positive(), singular=True, m=lambda k, m, out: gamma_density(np.floor(k) + 1, m))
special(sp.pdtri, "k y", _some, _inside, y=lambda k, y, out: -1 / gamma_density(k + 1, out))


# ── F, Student's t, binomial, negative binomial: incomplete beta functions ───────────────────────────────────────


def _f(a, b, x):
    """With w = ax/(ax + b): the density at w, times dw/dx = ab/(ax + b)²."""
    total = a * x + b
    return beta_density(0.5 * a, 0.5 * b, a * x / total) * (a * b) / (total * total)


_f_domains = (positive(), positive(), positive())
special(sp.fdtr, "dfn dfd x", *_f_domains, singular=True, x=lambda dfn, dfd, x, out: _f(dfn, dfd, x))
special(sp.fdtrc, "dfn dfd x", *_f_domains, singular=True, x=lambda dfn, dfd, x, out: -_f(dfn, dfd, x))
special(sp.fdtri, "dfn dfd p", positive(), positive(), _inside, p=lambda dfn, dfd, p, out: 1 / _f(dfn, dfd, out))


def _student(df, t):
    return np.exp(-0.5 * (df + 1) * np.log1p(t * t / df) - sp.betaln(0.5, 0.5 * df)) / np.sqrt(df)


special(sp.stdtr, "df t", positive(), anywhere(), t=lambda df, t, out: _student(df, t))
special(sp.stdtrit, "df p", positive(), _inside, p=lambda df, p, out: 1 / _student(df, out))

special(
    sp.bdtr, "k n p", _some, _more, _inside, singular=True,
    p=lambda k, n, p, out: -beta_density(np.floor(k) + 1, n - np.floor(k), p),
)  # fmt: skip
special(
    sp.bdtrc, "k n p", _some, _more, _inside, singular=True,
    p=lambda k, n, p, out: beta_density(np.floor(k) + 1, n - np.floor(k), p),
)  # fmt: skip
special(
    sp.bdtri, "k n y", _some, _more, _inside,
    y=lambda k, n, y, out: -1 / beta_density(np.floor(k) + 1, n - np.floor(k), out),
)  # fmt: skip
special(sp.nbdtr, "k n p", _some, _some, _inside, singular=True, p=lambda k, n, p, out: beta_density(n, k + 1, p))
special(sp.nbdtrc, "k n p", _some, _some, _inside, singular=True, p=lambda k, n, p, out: -beta_density(n, k + 1, p))
special(sp.nbdtri, "k n y", _some, _some, _inside, y=lambda k, n, y, out: 1 / beta_density(n, k + 1, out))


# ── others ───────────────────────────────────────────────────────────────────────────────────────────────────────

special(
    sp.nrdtrimn, "p std x", _inside, positive(), anywhere(),
    p=lambda p, std, x, out: -std * math.sqrt(2 * math.pi) * np.exp(0.5 * sp.ndtri(p) ** 2),
    std=lambda p, std, x, out: -sp.ndtri(p),
    x=lambda p, std, x, out: np.ones_like(out),
)  # fmt: skip


def _tukey(x, lmbda, out):
    """Invert the derivative p^(λ−1) + (1−p)^(λ−1) of the quantile (p^λ − (1−p)^λ)/λ."""
    return 1 / (np.power(out, lmbda - 1) + np.power(1 - out, lmbda - 1))


special(sp.tklmbda, "x lmbda", between(-0.8, 0.8), between(0.2, 0.9), x=_tukey)


def _voigt(x, sigma, gamma):
    """With z = (x + iγ)/(σ√2), the profile is Re w(z)/(σ√2π), where w′ = 2i/√π − 2z w; return z, w′ and σ√2."""
    width = math.sqrt(2) * sigma
    z = (x + 1j * gamma) / width
    return z, 2j / math.sqrt(math.pi) - 2 * z * sp.wofz(z), width


def _voigt_x(x, sigma, gamma, out):
    _, d, width = _voigt(x, sigma, gamma)
    return np.real(d) / (width * width * math.sqrt(math.pi))


def _voigt_gamma(x, sigma, gamma, out):
    _, d, width = _voigt(x, sigma, gamma)
    return -np.imag(d) / (width * width * math.sqrt(math.pi))


def _voigt_sigma(x, sigma, gamma, out):
    z, d, width = _voigt(x, sigma, gamma)
    return -(out + np.real(d * z) / (width * math.sqrt(math.pi))) / sigma


special(
    sp.voigt_profile, "x sigma gamma", anywhere(), positive(), positive(),
    x=_voigt_x, sigma=_voigt_sigma, gamma=_voigt_gamma,
)  # fmt: skip
