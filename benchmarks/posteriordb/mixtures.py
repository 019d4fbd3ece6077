"""Mixtures and layers: normal mixtures, topics of words, a network with one hidden layer."""

import numpy as np
from scipy import special, stats

from dualad.scipy.stats.constraints import interval, ordered, positive, real, simplex

from .densities import beta, dirichlet, inverse_gamma, log_mix, normal
from .model import model


def _two_normals(d, mu, sigma, theta):
    first, second = (stats.norm.logpdf(d.y, mu[k], sigma[k]) for k in (0, 1))
    prior = normal(sigma, 0.0, 2.0) + normal(mu, 0.0, 2.0) + beta(theta, 5.0, 5.0)
    return prior + log_mix(theta, first, second)


@model(lambda d: {"mu": ordered(2), "sigma": positive(2), "theta": interval(0.0, 1.0)})
def low_dim_gauss_mix(d, mu, sigma, theta):
    return _two_normals(d, mu, sigma, theta)


@model(lambda d: {"mu": real(2), "sigma": positive(2), "theta": interval(0.0, 1.0)})
def low_dim_gauss_mix_collapse(d, mu, sigma, theta):
    return _two_normals(d, mu, sigma, theta)


@model(lambda d: {"theta": interval(0.0, 1.0), "mu": real(2)})
def normal_mixture(d, theta, mu):
    first, second = (stats.norm.logpdf(d.y, mu[k], 1.0) for k in (0, 1))
    return normal(mu, 0.0, 10.0) + log_mix(theta, first, second)


@model(lambda d: {"theta": simplex(d.K), "mu": real(d.K), "sigma": interval(0.0, 10.0, d.K)})
def normal_mixture_k(d, theta, mu, sigma):
    parts = np.log(theta) + stats.norm.logpdf(d.y[:, None], mu, sigma)
    return normal(mu, 0.0, 10.0) + np.sum(special.logsumexp(parts, axis=1))


def _topics(d, theta, phi):
    word = np.log(theta)[d.doc - 1] + np.log(phi).T[d.w - 1]
    return np.sum(special.logsumexp(word, axis=1))


@model(lambda d: {"theta": simplex(d.M, 2), "phi": simplex(2, d.V)})
def ldaK2(d, theta, phi):
    return _topics(d, theta, phi)  # the priors are uniform


@model(lambda d: {"theta": simplex(d.M, 5), "phi": simplex(5, d.V)})
def ldaK5(d, theta, phi):
    return dirichlet(theta, d.alpha) + dirichlet(phi, d.beta) + _topics(d, theta, phi)


def _weights(hidden):
    return lambda d: {
        "sigma2_alpha": positive(),
        "sigma2_beta": positive(),
        "alpha": real(hidden, d.M),
        "beta": real(d.K - 1, hidden),
        "alpha1": real(hidden),
        "beta1": real(d.K - 1),
    }


def _network(d, sigma2_alpha, sigma2_beta, alpha, beta, alpha1, beta1):
    """The matrices are those of Stan transposed, since Stan's lie column by column."""
    logits = np.tanh(alpha1 + np.asarray(d.x, float) @ alpha.T) @ beta.T + beta1
    logits = np.concatenate([np.ones((d.N, 1)), logits], axis=1)
    scale_alpha, scale_beta = (0.05 / d.M**2) ** 2, (0.05 / len(alpha1) ** 2) ** 2
    prior = inverse_gamma(sigma2_alpha, 0.25, 0.25 * scale_alpha) + inverse_gamma(sigma2_beta, 0.25, 0.25 * scale_beta)
    prior = prior + normal(alpha, 0.0, np.sqrt(sigma2_alpha)) + normal(beta, 0.0, np.sqrt(sigma2_beta))
    prior = prior + normal(alpha1, 0.0, 1.0) + normal(beta1, 0.0, 1.0)
    return prior + np.sum(special.log_softmax(logits, axis=1)[np.arange(d.N), d.y - 1])


nn_rbm1bJ10 = model(_weights(10), name="nn_rbm1bJ10")(_network)
nn_rbm1bJ100 = model(_weights(100), name="nn_rbm1bJ100")(_network)
