"""``scipy.stats``: densities, probabilities and distribution functions of the common distributions.

``norm.logpdf(x, loc, scale)`` is written as with SciPy, and so is ``norm(loc, scale).logpdf(x)``; each of x and the
parameters may be a tensor. Not for: random numbers, fits, tests and statistics, which are SciPy's.
"""

import scipy.stats

from ..mirror import falls_back
from .continuous import (
    beta,
    cauchy,
    chi2,
    expon,
    f,
    gamma,
    gumbel_l,
    gumbel_r,
    halfnorm,
    invgamma,
    laplace,
    logistic,
    lognorm,
    norm,
    pareto,
    rayleigh,
    t,
    truncnorm,
    uniform,
    vonmises,
    weibull_min,
)
from .discrete import bernoulli, binom, geom, nbinom, poisson
from .multivariate import dirichlet, multinomial, multivariate_normal

__all__ = [
    "bernoulli", "beta", "binom", "cauchy", "chi2", "dirichlet", "expon", "f", "gamma", "geom", "gumbel_l", "gumbel_r",
    "halfnorm", "invgamma", "laplace", "logistic", "lognorm", "multinomial", "multivariate_normal", "nbinom", "norm",
    "pareto", "poisson", "rayleigh", "t", "truncnorm", "uniform", "vonmises", "weibull_min",
]  # fmt: skip

__getattr__, __dir__ = falls_back(scipy.stats, globals())
