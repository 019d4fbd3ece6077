"""Distribution functions among the ufuncs of ``scipy.special``: in the argument, and in parameters that scale it.

Each is an incomplete gamma or beta function, or one of something, so its derivative is a density. Counts, degrees of
freedom and shapes have no derivative in closed form and are refused by name. Loaded with ``special.py``.
Not for: ``scipy.stats`` (``dualad/scipy/stats``).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special._ufuncs as sp

from .samples import anywhere, between, integers, positive
from .special_kinds import distribution, special

__all__: list[str] = []


def _gamma_density(a, x):
    """Return x^(a−1) exp(−x) / Γ(a)."""
    return np.exp(sp.xlogy(a - 1, x) - x - sp.gammaln(a))


def _beta_density(a, b, x):
    """Return x^(a−1) (1−x)^(b−1) / B(a, b)."""
    return np.exp(sp.xlogy(a - 1, x) + sp.xlog1py(b - 1, -x) - sp.betaln(a, b))


_inside = between(0.1, 0.9)
_some, _more = integers(1, 4), integers(4, 7)


# ── incomplete gamma functions, chi-squared, gamma, Poisson ──────────────────────────────────────────────────────

distribution(
    "a x", positive(), positive(), density=_gamma_density,
    rising=sp.gammainc, falling=sp.gammaincc, rising_inverse=sp.gammaincinv, falling_inverse=sp.gammainccinv,
)  # fmt: skip
distribution(
    "v x", positive(), positive(), density=lambda v, x: 0.5 * _gamma_density(0.5 * v, 0.5 * x),
    rising=sp.chdtr, falling=sp.chdtrc, falling_inverse=sp.chdtri,
)  # fmt: skip
distribution(
    "k m", _some, positive(), density=lambda k, m: _gamma_density(np.floor(k) + 1, m),
    rising=sp.pdtrc, falling=sp.pdtr, falling_inverse=sp.pdtri,
)  # fmt: skip

special(
    sp.gdtr, "a b x", positive(), singular=True,
    a=lambda a, b, x, out: x * _gamma_density(b, a * x),
    x=lambda a, b, x, out: a * _gamma_density(b, a * x),
)  # fmt: skip
special(
    sp.gdtrc, "a b x", positive(), singular=True,
    a=lambda a, b, x, out: -x * _gamma_density(b, a * x),
    x=lambda a, b, x, out: -a * _gamma_density(b, a * x),
)  # fmt: skip
special(
    sp.gdtrix, "a b p", positive(), positive(), _inside, singular=True,
    a=lambda a, b, p, out: -out / a,
    p=lambda a, b, p, out: 1 / (a * _gamma_density(b, a * out)),
)  # fmt: skip
special(
    sp.gdtria, "p b x", _inside, positive(), positive(), singular=True,
    p=lambda p, b, x, out: 1 / (x * _gamma_density(b, out * x)),
    x=lambda p, b, x, out: -out / x,
)  # fmt: skip


# ── incomplete beta functions, F, Student's t, binomial, negative binomial ───────────────────────────────────────


def _f(a, b, x):
    """With w = ax/(ax + b): the density at w, times dw/dx = ab/(ax + b)²."""
    total = a * x + b
    return _beta_density(0.5 * a, 0.5 * b, a * x / total) * (a * b) / (total * total)


def _student(df, t):
    return np.exp(-0.5 * (df + 1) * np.log1p(t * t / df) - sp.betaln(0.5, 0.5 * df)) / np.sqrt(df)


def _binomial(k, n, p):
    return _beta_density(np.floor(k) + 1, n - np.floor(k), p)


distribution(
    "a b x", positive(), positive(), _inside, density=_beta_density,
    rising=sp.betainc, falling=sp.betaincc, rising_inverse=sp.betaincinv, falling_inverse=sp.betainccinv,
)  # fmt: skip
distribution(
    "dfn dfd x", positive(), positive(), positive(), density=_f,
    rising=sp.fdtr, falling=sp.fdtrc, rising_inverse=sp.fdtri,
)  # fmt: skip
distribution("df t", positive(), anywhere(), density=_student, rising=sp.stdtr, rising_inverse=sp.stdtrit)
distribution(
    "k n p", _some, _more, _inside, density=_binomial, rising=sp.bdtrc, falling=sp.bdtr, falling_inverse=sp.bdtri
)
distribution(
    "k n p", _some, _some, _inside, density=lambda k, n, p: _beta_density(n, k + 1, p),
    rising=sp.nbdtr, falling=sp.nbdtrc, rising_inverse=sp.nbdtri,
)  # fmt: skip


# ── others ───────────────────────────────────────────────────────────────────────────────────────────────────────

special(
    sp.nrdtrimn, "p std x", _inside, positive(), anywhere(), singular=True,
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
