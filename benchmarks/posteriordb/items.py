"""Item response: answers of persons to items, with discriminations, difficulties and grades."""

import numpy as np
from scipy import special, stats

from dualad.scipy.stats.constraints import cholesky_corr, lkj_cholesky_logpdf, positive, real

from .densities import bernoulli_logit, cauchy, exponential, lognormal, normal, student_t
from .model import model


@model(
    lambda d: {
        "sigma_theta": positive(),
        "theta": real(d.J),
        "sigma_a": positive(),
        "a": positive(d.I),
        "mu_b": real(),
        "sigma_b": positive(),
        "b": real(d.I),
    }
)
def irt_2pl(d, sigma_theta, theta, sigma_a, a, mu_b, sigma_b, b):
    prior = cauchy(sigma_theta, 0.0, 2.0) + cauchy(sigma_a, 0.0, 2.0) + cauchy(sigma_b, 0.0, 2.0)
    prior = prior + normal(theta, 0.0, sigma_theta) + lognormal(a, 0.0, sigma_a)
    prior = prior + normal(mu_b, 0.0, 5.0) + normal(b, mu_b, sigma_b)
    return prior + bernoulli_logit(d.y, a[:, None] * (theta - b[:, None]))


@model(
    lambda d: {
        "theta": real(d.J),
        "xi1": real(d.I),
        "xi2": real(d.I),
        "mu": real(2),
        "tau": positive(2),
        "L_Omega": cholesky_corr(2),
    }
)
def hier_2pl(d, theta, xi1, xi2, mu, tau, L_Omega):
    factor = tau[:, None] * L_Omega
    xi = np.stack([xi1, xi2], axis=1)
    prior = np.sum(stats.multivariate_normal.logpdf(xi, mu, factor @ factor.T)) + normal(theta, 0.0, 1.0)
    prior = prior + lkj_cholesky_logpdf(L_Omega, 4.0) + exponential(tau, 0.1)
    prior = prior + normal(mu[0], 0.0, 1.0) + normal(mu[1], 0.0, 5.0)
    item = d.ii - 1
    return prior + bernoulli_logit(d.y, np.exp(xi1)[item] * (theta[d.jj - 1] - xi2[item]))


@model(lambda d: {"alpha": real(d.T), "theta": real(d.N), "beta": positive()})
def lsat_model(d, alpha, theta, beta):
    answers = np.repeat(d.response, np.diff(d.culm, prepend=0), axis=0)
    prior = normal(alpha, 0.0, 100.0) + normal(theta, 0.0, 1.0) + normal(beta, 0.0, 100.0)
    return prior + bernoulli_logit(answers, beta * theta[:, None] - alpha)


@model(lambda d: {"theta": real(d.nChild)})
def bones_model(d, theta):
    total = normal(theta, 0.0, 36.0)
    for item in range(d.nInd):
        cuts, grades = d.gamma[item, : d.ncat[item] - 1], d.grade[:, item]
        above = special.expit(d.delta[item] * (theta[:, None] - cuts))
        ends = np.ones((d.nChild, 1)), np.zeros((d.nChild, 1))
        above = np.concatenate([ends[0], above, ends[1]], axis=1)
        child = np.flatnonzero(grades != -1)
        grade = grades[child]
        total = total + np.sum(np.log(above[child, grade - 1] - above[child, grade]))
    return total


# ── with persons' covariates ─────────────────────────────────────────────────────────────────────────────────────


def _adjusted(W):
    """Covariates centred, and divided by two standard deviations; the first, an intercept, as it is.

    The models mean to divide columns of two values by their range, but the precedence of ``+`` before ``==`` in
    their count lets that happen only by chance; it is kept here, since a reference is one.
    """
    out = [W[:, 0]]
    for column in W[:, 1:].T:
        count = 0
        for value in column:
            count = int(count + value == min(column) or value == max(column))
        spread = max(column) - min(column) if count == len(column) else 2.0 * np.std(column, ddof=1)
        out.append((column - np.mean(column)) / spread)
    return np.stack(out, axis=1)


def _persons(d, alpha, theta, lambda_adj):
    prior = lognormal(alpha, 1.0, 1.0) + student_t(lambda_adj, 3.0, 0.0, 1.0)
    return prior + normal(theta, _adjusted(d.W) @ lambda_adj, 1.0)


def _sum_to_zero(free):
    return np.concatenate([free, np.reshape(-np.sum(free), (1,))])


@model(
    lambda d: {"alpha": positive(d.I), "beta_free": real(d.I - 1), "theta": real(d.J), "lambda_adj": real(d.K)},
    name="2pl_latent_reg_irt",
)
def two_parameters(d, alpha, beta_free, theta, lambda_adj):
    beta, item = _sum_to_zero(beta_free), d.ii - 1
    prior = _persons(d, alpha, theta, lambda_adj) + normal(beta, 0.0, 3.0)
    return prior + bernoulli_logit(d.y, alpha[item] * theta[d.jj - 1] - beta[item])


def _graded(y, steps):
    """Log probabilities of grades, each higher than the last by a step on the scale of logits."""
    ladder = np.concatenate([np.zeros((len(y), 1)), np.cumsum(steps, axis=1)], axis=1)
    return np.sum(ladder[np.arange(len(y)), y] - special.logsumexp(ladder, axis=1))


@model(
    lambda d: {
        "alpha": positive(d.I),
        "beta_free": real(d.I - 1),
        "kappa_free": real(max(d.y) - 1),
        "theta": real(d.J),
        "lambda_adj": real(d.K),
    }
)
def grsm_latent_reg_irt(d, alpha, beta_free, kappa_free, theta, lambda_adj):
    beta, kappa, item = _sum_to_zero(beta_free), _sum_to_zero(kappa_free), d.ii - 1
    prior = _persons(d, alpha, theta, lambda_adj) + normal(beta, 0.0, 3.0) + normal(kappa, 0.0, 3.0)
    return prior + _graded(d.y, (theta[d.jj - 1] * alpha[item] - beta[item])[:, None] - kappa)


def _top_grades(d):
    return np.array([max(d.y[d.ii == item + 1]) for item in range(d.I)])


@model(
    lambda d: {
        "alpha": positive(d.I),
        "beta_free": real(int(sum(_top_grades(d))) - 1),
        "theta": real(d.J),
        "lambda_adj": real(d.K),
    }
)
def gpcm_latent_reg_irt(d, alpha, beta_free, theta, lambda_adj):
    beta, item = _sum_to_zero(beta_free), d.ii - 1
    tops = _top_grades(d)
    starts = np.cumsum(tops) - tops
    prior = _persons(d, alpha, theta, lambda_adj) + normal(beta, 0.0, 3.0)
    for top in np.unique(tops):  # items of as many grades at once
        n = np.flatnonzero(tops[item] == top)
        steps = beta[starts[item[n], None] + np.arange(top)]
        prior = prior + _graded(d.y[n], (theta[d.jj[n] - 1] * alpha[item[n]])[:, None] - steps)
    return prior
