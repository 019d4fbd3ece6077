"""Regressions of counts and choices: wells, votes, seeds, dogs, survival after surgery, birds."""

import numpy as np
from scipy import special, stats

from dualad.scipy.stats.constraints import cholesky_corr, interval, lkj_cholesky_logpdf, positive, real

from .densities import bernoulli_logit, binomial_logit, cauchy, gamma, inverse_gamma, normal, poisson_log, student_t
from .model import model


def coefficients(count):
    return lambda d: {"alpha": real(), "beta": real(count)}


def logistic(y, alpha, beta, *columns):
    return bernoulli_logit(y, alpha + np.stack(columns, axis=1) @ beta)


# ── switching wells in Bangladesh ────────────────────────────────────────────────────────────────────────────────


def _centred(d):
    return (d.dist - np.mean(d.dist)) / 100.0, d.arsenic - np.mean(d.arsenic)


@model(lambda d: {"beta": real(2)})
def wells_dist(d, beta):
    return bernoulli_logit(d.switched, beta[0] + beta[1] * d.dist)


@model(coefficients(1))
def wells_dist100_model(d, alpha, beta):
    return logistic(d.switched, alpha, beta, d.dist / 100.0)


@model(coefficients(2))
def wells_dist100ars_model(d, alpha, beta):
    return logistic(d.switched, alpha, beta, d.dist / 100.0, d.arsenic)


@model(coefficients(3))
def wells_dae_model(d, alpha, beta):
    return logistic(d.switched, alpha, beta, d.dist / 100.0, d.arsenic, d.educ / 4.0)


@model(coefficients(3))
def wells_interaction_model(d, alpha, beta):
    return logistic(d.switched, alpha, beta, d.dist / 100.0, d.arsenic, d.dist / 100.0 * d.arsenic)


@model(coefficients(3))
def wells_interaction_c_model(d, alpha, beta):
    dist, arsenic = _centred(d)
    return logistic(d.switched, alpha, beta, dist, arsenic, dist * arsenic)


@model(coefficients(4))
def wells_dae_c_model(d, alpha, beta):
    dist, arsenic = _centred(d)
    return logistic(d.switched, alpha, beta, dist, arsenic, dist * arsenic, d.educ / 4.0)


@model(coefficients(5))
def wells_daae_c_model(d, alpha, beta):
    dist, arsenic = _centred(d)
    return logistic(d.switched, alpha, beta, dist, arsenic, dist * arsenic, d.assoc, d.educ / 4.0)


@model(coefficients(6))
def wells_dae_inter_model(d, alpha, beta):
    dist, arsenic = _centred(d)
    educ = (d.educ - np.mean(d.educ)) / 4.0
    return logistic(d.switched, alpha, beta, dist, arsenic, educ, dist * arsenic, dist * educ, arsenic * educ)


# ── votes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@model(coefficients(1))
def nes_logit_model(d, alpha, beta):
    return logistic(d.vote, alpha, beta, d.income)


@model(
    lambda d: {
        "a": real(d.n_age),
        "b": real(d.n_edu),
        "c": real(d.n_age_edu),
        "d": real(d.n_state),
        "e": real(d.n_region_full),
        "beta": real(5),
        **{f"sigma_{group}": interval(0.0, 100.0) for group in "abcde"},
    }
)
def election88_full(data, a, b, c, d, e, beta, sigma_a, sigma_b, sigma_c, sigma_d, sigma_e):
    black, female = data.black, data.female
    fixed = beta[0] + beta[1] * black + beta[2] * female + beta[4] * female * black + beta[3] * data.v_prev_full
    groups = a[data.age - 1] + b[data.edu - 1] + c[data.age_edu - 1] + d[data.state - 1] + e[data.region_full - 1]
    prior = normal(a, 0.0, sigma_a) + normal(b, 0.0, sigma_b) + normal(c, 0.0, sigma_c)
    prior = prior + normal(d, 0.0, sigma_d) + normal(e, 0.0, sigma_e) + normal(beta, 0.0, 100.0)
    return prior + bernoulli_logit(data.y, fixed + groups)


@model(lambda d: {"beta0": real(), "z": real(d.d), "tau": positive(), "lambda_": positive(d.d), "caux": positive()})
def logistic_regression_rhs(d, beta0, z, tau, lambda_, caux):
    c2, local2 = d.slab_scale**2 * caux, lambda_**2
    beta = z * np.sqrt(c2 * local2 / (c2 + tau**2 * local2)) * tau
    prior = normal(z, 0.0, 1.0) + student_t(lambda_, d.nu_local, 0.0, 1.0)
    prior = prior + student_t(tau, d.nu_global, 0.0, 2.0 * d.scale_global) + normal(beta0, 0.0, d.scale_icept)
    prior = prior + inverse_gamma(caux, 0.5 * d.slab_df, 0.5 * d.slab_df)
    return prior + bernoulli_logit(d.y, beta0 + d.x @ beta)


# ── seeds, and operations ────────────────────────────────────────────────────────────────────────────────────────


def _seeds(d, alpha0, alpha1, alpha12, alpha2, b):
    return binomial_logit(d.n, d.N, alpha0 + alpha1 * d.x1 + alpha2 * d.x2 + alpha12 * d.x1 * d.x2 + b)


_SEEDS = {"alpha0": real(), "alpha1": real(), "alpha12": real(), "alpha2": real()}


@model(lambda d: {**_SEEDS, "tau": positive(), "b": real(d.I)})
def seeds_model(d, alpha0, alpha1, alpha12, alpha2, tau, b):
    prior = sum(normal(a, 0.0, 1e3) for a in (alpha0, alpha1, alpha12, alpha2)) + gamma(tau, 1e-3, 1e-3)
    return prior + normal(b, 0.0, 1.0 / np.sqrt(tau)) + _seeds(d, alpha0, alpha1, alpha12, alpha2, b)


@model(lambda d: {**_SEEDS, "c": real(d.I), "sigma": positive()})
def seeds_centered_model(d, alpha0, alpha1, alpha12, alpha2, c, sigma):
    prior = sum(normal(a, 0.0, 1.0) for a in (alpha0, alpha1, alpha12, alpha2)) + cauchy(sigma, 0.0, 1.0)
    return prior + normal(c, 0.0, sigma) + _seeds(d, alpha0, alpha1, alpha12, alpha2, c - np.mean(c))


@model(lambda d: {**_SEEDS, "b": real(d.I), "sigma": positive()})
def seeds_stanified_model(d, alpha0, alpha1, alpha12, alpha2, b, sigma):
    prior = sum(normal(a, 0.0, 1.0) for a in (alpha0, alpha1, alpha12, alpha2)) + cauchy(sigma, 0.0, 1.0)
    return prior + normal(b, 0.0, sigma) + _seeds(d, alpha0, alpha1, alpha12, alpha2, b)


@model(lambda d: {"mu": real(), "sigmasq": positive(), "b": real(d.N)})
def surgical_model(d, mu, sigmasq, b):
    prior = normal(mu, 0.0, 1000.0) + inverse_gamma(sigmasq, 0.001, 0.001) + normal(b, mu, np.sqrt(sigmasq))
    return prior + binomial_logit(d.r, d.n, b)


# ── dogs that learn to avoid shocks ──────────────────────────────────────────────────────────────────────────────


def _history(y):
    """Counts of the trials before each that were avoided, and of the shocks."""
    shocks = np.cumsum(y, axis=1) - y
    return np.arange(y.shape[1]) - shocks, shocks


@model(lambda d: {"beta": real(3)})
def dogs(d, beta):
    avoided, shocks = _history(d.y)
    return normal(beta, 0.0, 100.0) + bernoulli_logit(d.y, beta[0] + beta[1] * avoided + beta[2] * shocks)


@model(lambda d: {"beta": real(2)})
def dogs_log(d, beta):
    avoided, shocks = _history(d.y)
    prior = stats.uniform.logpdf(beta[0], -100.0, 100.0) + stats.uniform.logpdf(beta[1], 0.0, 100.0)
    return prior + np.sum(stats.bernoulli.logpmf(d.y, special.expit(beta[0] * avoided + beta[1] * shocks)))


@model(lambda d: {"a": interval(0.0, 1.0), "b": interval(0.0, 1.0)})
def dogs_hierarchical(d, a, b):
    avoided, shocks = _history(d.y)
    return np.sum(stats.bernoulli.logpmf(d.y, a**shocks * b**avoided))


@model(
    lambda d: {
        "mu_logit_ab": real(2),
        "sigma_logit_ab": positive(2),
        "L_logit_ab": cholesky_corr(2),
        "z": real(2, d.n_dogs),
    }
)
def dogs_nonhierarchical(d, mu_logit_ab, sigma_logit_ab, L_logit_ab, z):
    avoided, shocks = _history(d.y)
    a, b = special.expit(mu_logit_ab + z.T @ (sigma_logit_ab[:, None] * L_logit_ab)).T
    prior = np.sum(stats.logistic.logpdf(mu_logit_ab)) + normal(sigma_logit_ab, 0.0, 1.0) + normal(z, 0.0, 1.0)
    prior = prior + lkj_cholesky_logpdf(L_logit_ab, 2.0)
    return prior + np.sum(stats.bernoulli.logpmf(d.y, a[:, None] ** shocks * b[:, None] ** avoided))


# ── counts of birds ──────────────────────────────────────────────────────────────────────────────────────────────


@model(lambda d: {"alpha": real(), "beta1": real(), "beta2": real()})
def GLM_Binomial_model(d, alpha, beta1, beta2):
    prior = normal(alpha, 0.0, 100.0) + normal(beta1, 0.0, 100.0) + normal(beta2, 0.0, 100.0)
    return prior + binomial_logit(d.C, d.N, alpha + beta1 * d.year + beta2 * d.year**2)


@model(
    lambda d: {
        "alpha": interval(-20.0, 20.0),
        "beta1": interval(-10.0, 10.0),
        "beta2": interval(-10.0, 10.0),
        "beta3": interval(-10.0, 10.0),
    }
)
def GLM_Poisson_model(d, alpha, beta1, beta2, beta3):
    return poisson_log(d.C, alpha + beta1 * d.year + beta2 * d.year**2 + beta3 * d.year**3)


@model(
    lambda d: {
        "alpha": interval(-20.0, 20.0),
        "beta1": interval(-10.0, 10.0),
        "beta2": interval(-10.0, 20.0),
        "beta3": interval(-10.0, 10.0),
        "eps": real(d.n),
        "sigma": interval(0.0, 5.0),
    }
)
def GLMM_Poisson_model(d, alpha, beta1, beta2, beta3, eps, sigma):
    trend = alpha + beta1 * d.year + beta2 * d.year**2 + beta3 * d.year**3
    # beyond 10 the prior of beta2 is zero, though its bound is 20
    return stats.uniform.logpdf(beta2, -10.0, 20.0) + poisson_log(d.C, trend + eps) + normal(eps, 0.0, sigma)


@model(lambda d: {"alpha": real(d.nsite), "mu_alpha": real(), "sd_alpha": interval(0.0, 5.0)})
def GLMM1_model(d, alpha, mu_alpha, sd_alpha):
    prior = normal(alpha, mu_alpha, sd_alpha) + normal(mu_alpha, 0.0, 10.0)
    return prior + poisson_log(d.obs, alpha[d.obssite - 1])
