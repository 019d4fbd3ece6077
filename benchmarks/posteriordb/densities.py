"""Sums of log densities with Stan's parametrisations and names, up to what depends on the data alone.

Not for: what `scipy.stats` writes in the same way and the models call themselves.
"""

import numpy as np
from scipy import special, stats

__all__ = [
    "bernoulli_logit", "beta", "binomial_logit", "cauchy", "dirichlet", "double_exponential", "exponential", "gamma",
    "inverse_gamma", "log_mix", "lognormal", "neg_binomial_2", "normal", "poisson_log", "student_t", "weibull",
]  # fmt: skip


def normal(x, mu, sigma):
    return np.sum(stats.norm.logpdf(x, mu, sigma))


def lognormal(x, mu, sigma):
    return normal(np.log(x), mu, sigma) - np.sum(np.log(x))


def cauchy(x, mu, sigma):
    return np.sum(stats.cauchy.logpdf(x, mu, sigma))


def student_t(x, nu, mu, sigma):
    return np.sum(stats.t.logpdf(x, nu, mu, sigma))


def exponential(x, rate):
    return np.sum(stats.expon.logpdf(x, 0.0, 1.0 / rate))


def double_exponential(x, mu, sigma):
    return np.sum(stats.laplace.logpdf(x, mu, sigma))


def gamma(x, shape, rate):
    return np.sum(stats.gamma.logpdf(x, shape, 0.0, 1.0 / rate))


def inverse_gamma(x, shape, scale):
    return gamma(1.0 / x, shape, scale) - 2.0 * np.sum(np.log(x))


def weibull(x, shape, scale):
    z = np.log(x / scale)
    return np.sum(np.log(shape) + shape * z - np.log(x) - np.exp(shape * z))


def beta(x, a, b):
    return np.sum(stats.beta.logpdf(x, a, b))


def dirichlet(x, alpha):
    """The rows of x are distributions."""
    return np.sum(stats.dirichlet.logpdf(x.T, alpha))


def bernoulli_logit(y, eta):
    return np.sum(y * eta - np.logaddexp(0.0, eta))


def binomial_logit(k, n, eta):
    return np.sum(k * eta - n * np.logaddexp(0.0, eta))


def poisson_log(k, eta):
    return np.sum(k * eta - np.exp(eta))


def neg_binomial_2(k, mu, phi):
    """Of mean mu and variance mu + mu² / phi."""
    return np.sum(
        special.gammaln(k + phi)
        - special.gammaln(phi)
        + phi * np.log(phi)
        + k * np.log(mu)
        - (k + phi) * np.log(mu + phi)
    )


def log_mix(share, first, second):
    return np.sum(np.logaddexp(np.log(share) + first, np.log1p(-share) + second))
