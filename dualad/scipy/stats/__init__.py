"""``scipy.stats``: densities, probabilities and distribution functions of all distributions; sample statistics.

``norm.logpdf(x, loc, scale)`` is written as with SciPy, and so is ``norm(loc, scale).logpdf(x)``; each of x and the
parameters may be a tensor. Not for: random numbers, fits, tests and statistics of ranks, which are SciPy's.
"""

import scipy.stats

from ..mirror import falls_back
from .formulas import DISTRIBUTIONS
from .multivariate import *
from .samples import *

__all__ = [
    "bernoulli", "beta", "binom", "cauchy", "chi2", "circmean", "circstd", "circvar", "dirichlet", "entropy", "expon",
    "f", "gamma", "geom", "gmean", "gstd", "gumbel_l", "gumbel_r", "halfnorm", "hmean", "invgamma", "iqr", "kurtosis",
    "laplace", "logistic", "lognorm", "median_abs_deviation", "moment", "multinomial", "multivariate_normal", "nbinom",
    "norm", "pareto", "pearsonr", "pmean", "poisson", "rayleigh", "sem", "skew", "t", "tmean", "trim_mean", "truncnorm",
    "tsem", "tstd", "tvar", "uniform", "variation", "vonmises", "weibull_min", "zmap", "zscore",
]  # fmt: skip

globals().update(DISTRIBUTIONS)
__getattr__, __dir__ = falls_back(scipy.stats, globals())
