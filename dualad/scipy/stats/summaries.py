"""Means, variances, skewnesses, kurtoses and entropies of standard distributions, as formulas of their shapes.

A moment that is infinite, or does not exist, is the constant that SciPy gives. Not for: location and scale
(``distribution.py``), or statistics of samples.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special._ufuncs as sp
import scipy.stats as st

__all__ = ["SUMMARIES", "Summary"]


class Summary(NamedTuple):
    """What sums a standard distribution up.

    ``moments(*shapes)`` gives the mean, the variance, the skewness and the excess kurtosis, or the first few of them;
    ``entropy(*shapes)`` the differential entropy.
    """

    moments: Callable[..., tuple] | None = None
    entropy: Callable | None = None


_EULER, _INF, _NAN = float(np.euler_gamma), math.inf, math.nan


def _constants(name: str) -> Summary:
    """The moments and the entropy of a distribution without shapes, as SciPy has them."""
    original = getattr(st, name)
    moments = functools.cache(lambda: tuple(map(float, original.stats(moments="mvsk"))))
    return Summary(moments, functools.cache(lambda: float(original.entropy())))


def _t_moments(df):
    return (
        np.where(df > 1, 0.0 * df, _INF),
        np.where(df > 2, df / (df - 2), np.where(df > 1, _INF, _NAN)),
        np.where(df > 3, 0.0 * df, _NAN),
        np.where(df > 4, 6 / (df - 4), np.where(df > 2, _INF, _NAN)),
    )


def _t_entropy(df):
    half, next_half = df / 2, (df + 1) / 2
    return next_half * (sp.psi(next_half) - sp.psi(half)) + 0.5 * np.log(df) + sp.betaln(half, 0.5)


def _invgamma_moments(a):
    return (
        np.where(a > 1, 1 / (a - 1), _INF),
        np.where(a > 2, 1 / ((a - 1) ** 2 * (a - 2)), _INF),
        np.where(a > 3, 4 * np.sqrt(np.maximum(a - 2, 0.5)) / (a - 3), _NAN),
        np.where(a > 4, 6 * (5 * a - 11) / ((a - 3) * (a - 4)), _NAN),
    )


def _f_moments(n, m):
    both = n + m - 2
    return (
        np.where(m > 2, m / (m - 2), _INF),
        np.where(m > 4, 2 * m * m * both / (n * (m - 2) ** 2 * (m - 4)), _INF),
        np.where(
            m > 6,
            (2 * n + m - 2) * np.sqrt(8 * np.maximum(m - 4, 1.0)) / ((m - 6) * np.sqrt(n * np.where(m > 6, both, 1.0))),
            _NAN,
        ),
        np.where(m > 8, 12 * (n * (5 * m - 22) * both + (m - 4) * (m - 2) ** 2) / (n * (m - 6) * (m - 8) * both), _NAN),
    )


def _lognorm_moments(s):
    w = np.exp(s * s)
    return np.sqrt(w), w * (w - 1), np.sqrt(w - 1) * (2 + w), w**4 + 2 * w**3 + 3 * w**2 - 6


def _weibull_moments(c):
    g1, g2, g3, g4 = [sp.gamma(1 + k / c) for k in (1, 2, 3, 4)]
    variance = g2 - g1 * g1
    third = g3 - 3 * g1 * g2 + 2 * g1**3
    fourth = g4 - 4 * g1 * g3 + 6 * g1**2 * g2 - 3 * g1**4
    return g1, variance, third / variance**1.5, fourth / variance**2 - 3


def _pareto_moments(b):
    return (
        np.where(b > 1, b / (b - 1), _INF),
        np.where(b > 2, b / ((b - 1) ** 2 * (b - 2)), _INF),
        np.where(b > 3, 2 * (1 + b) / (b - 3) * np.sqrt(np.maximum(b - 2, 0.5) / b), _NAN),
        np.where(b > 4, 6 * (b**3 + b**2 - 6 * b - 2) / (b * (b - 3) * (b - 4)), _NAN),
    )


def _beta_moments(a, b):
    total = a + b
    return (
        a / total,
        a * b / (total**2 * (total + 1)),
        2 * (b - a) * np.sqrt(total + 1) / ((total + 2) * np.sqrt(a * b)),
        6 * ((a - b) ** 2 * (total + 1) - a * b * (total + 2)) / (a * b * (total + 2) * (total + 3)),
    )


def _beta_entropy(a, b):
    return sp.betaln(a, b) - (a - 1) * sp.psi(a) - (b - 1) * sp.psi(b) + (a + b - 2) * sp.psi(a + b)


def _binom_moments(n, p):
    q = 1 - p
    return n * p, n * p * q, (q - p) / np.sqrt(n * p * q), (1 - 6 * p * q) / (n * p * q)


def _nbinom_moments(n, p):
    q = 1 - p
    return n * q / p, n * q / (p * p), (2 - p) / np.sqrt(n * q), (p * p - 6 * p + 6) / (n * q)


_WITHOUT_SHAPES = ("expon", "gumbel_l", "gumbel_r", "halfnorm", "laplace", "logistic", "norm", "rayleigh", "uniform")

#: SciPy's name of a distribution -> what sums it up
SUMMARIES = {
    **{name: _constants(name) for name in _WITHOUT_SHAPES},
    "cauchy": Summary(None, lambda: math.log(4 * math.pi)),
    "t": Summary(_t_moments, _t_entropy),
    # SciPy integrates the moments over one turn; they are left to it.
    "vonmises": Summary(
        None, lambda kappa: np.log(2 * math.pi * sp.i0e(kappa)) + np.abs(kappa) - kappa * sp.i1e(kappa) / sp.i0e(kappa)
    ),
    "gamma": Summary(lambda a: (a, a, 2 / np.sqrt(a), 6 / a), lambda a: a + sp.gammaln(a) + (1 - a) * sp.psi(a)),
    "chi2": Summary(
        lambda df: (df, 2 * df, 2 * np.sqrt(2 / df), 12 / df),
        lambda df: df / 2 + math.log(2) + sp.gammaln(df / 2) + (1 - df / 2) * sp.psi(df / 2),
    ),
    "invgamma": Summary(_invgamma_moments, lambda a: a - (a + 1) * sp.psi(a) + sp.gammaln(a)),
    "f": Summary(_f_moments),
    "lognorm": Summary(_lognorm_moments, lambda s: 0.5 * (1 + math.log(2 * math.pi) + 2 * np.log(s))),
    "weibull_min": Summary(_weibull_moments, lambda c: -_EULER / c - np.log(c) + _EULER + 1),
    "pareto": Summary(_pareto_moments, lambda b: 1 + 1 / b - np.log(b)),
    "beta": Summary(_beta_moments, _beta_entropy),
    "bernoulli": Summary(lambda p: _binom_moments(1, p), lambda p: sp.entr(p) + sp.entr(1 - p)),
    "binom": Summary(_binom_moments),
    "poisson": Summary(lambda mu: (mu, mu, 1 / np.sqrt(mu), 1 / mu)),
    "nbinom": Summary(_nbinom_moments),
    "geom": Summary(
        lambda p: (1 / p, (1 - p) / (p * p), (2 - p) / np.sqrt(1 - p), (p * p - 6 * p + 6) / (1 - p)),
        lambda p: (sp.entr(p) + sp.entr(1 - p)) / p,
    ),
}
