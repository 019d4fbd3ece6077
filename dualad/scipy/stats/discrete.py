"""Distributions on integers: logarithms of their probabilities.

``edge`` says at which parameters a probability such as p^k has a logarithm with a pole, and gives it directly there.
Not for: location and the support (``distribution.py``).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special._ufuncs as sp
import scipy.stats as st

from .distribution import Discrete

__all__ = ["bernoulli", "binom", "geom", "nbinom", "poisson"]


def _is_probability(p):
    return (p >= 0) & (p <= 1)


def _log_choices(n, k):
    return sp.gammaln(n + 1) - sp.gammaln(k + 1) - sp.gammaln(n - k + 1)


bernoulli = Discrete(
    st.bernoulli,
    (0.0, 1.0),
    valid=_is_probability,
    logpmf=lambda k, p: sp.xlogy(k, p) + sp.xlog1py(1 - k, -p),
    edge=(lambda p: (p == 0) | (p == 1), lambda k, p: np.where(k == 1, p, 1 - p)),
    cdf=lambda k, p: 1 - p + 0 * k,
    sf=lambda k, p: p + 0 * k,
)
binom = Discrete(
    st.binom,
    lambda n, p: (0.0, n),
    valid=lambda n, p: (n >= 0) & (np.floor(n) == n) & _is_probability(p),
    logpmf=lambda k, n, p: _log_choices(n, k) + sp.xlogy(k, p) + sp.xlog1py(n - k, -p),
    edge=(lambda n, p: (p == 0) | (p == 1), lambda k, n, p: np.exp(_log_choices(n, k)) * p**k * (1 - p) ** (n - k)),
    cdf=lambda k, n, p: sp.betaincc(k + 1, n - k, p),
    sf=lambda k, n, p: sp.betainc(k + 1, n - k, p),
)
poisson = Discrete(
    st.poisson,
    (0.0, math.inf),
    valid=lambda mu: mu >= 0,
    logpmf=lambda k, mu: sp.xlogy(k, mu) - sp.gammaln(k + 1) - mu,
    edge=(lambda mu: mu == 0, lambda k, mu: mu**k * np.exp(-mu) * sp.rgamma(k + 1)),
    cdf=lambda k, mu: sp.gammaincc(k + 1, mu),
    sf=lambda k, mu: sp.gammainc(k + 1, mu),
)
nbinom = Discrete(
    st.nbinom,
    (0.0, math.inf),
    valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    logpmf=lambda k, n, p: sp.gammaln(n + k) - sp.gammaln(k + 1) - sp.gammaln(n) + n * np.log(p) + sp.xlog1py(k, -p),
    edge=(
        lambda n, p: p == 1,
        lambda k, n, p: np.exp(sp.gammaln(n + k) - sp.gammaln(k + 1) - sp.gammaln(n)) * p**n * (1 - p) ** k,
    ),
    cdf=lambda k, n, p: sp.betainc(n, k + 1, p),
    sf=lambda k, n, p: sp.betaincc(n, k + 1, p),
)
geom = Discrete(
    st.geom,
    (1.0, math.inf),
    valid=lambda p: (p > 0) & (p <= 1),
    logpmf=lambda k, p: sp.xlog1py(k - 1, -p) + np.log(p),
    edge=(lambda p: p == 1, lambda k, p: (1 - p) ** (k - 1) * p),
    cdf=lambda k, p: -np.expm1(k * np.log1p(-p)),
    sf=lambda k, p: np.exp(k * np.log1p(-p)),
)
