"""Rates, and populations of which only a part is seen: binomial rates, capture and recapture, occupancy."""

import numpy as np
from scipy import special, stats

from dualad.scipy.stats.constraints import interval, positive, real

from .densities import beta, cauchy, normal
from .model import model

share = interval(0.0, 1.0)


# ── rates ────────────────────────────────────────────────────────────────────────────────────────────────────────


@model(lambda d: {"theta": share})
def Rate_1_model(d, theta):
    return beta(theta, 1.0, 1.0) + stats.binom.logpmf(d.k, d.n, theta)


@model(lambda d: {"theta1": share, "theta2": share})
def Rate_2_model(d, theta1, theta2):
    return stats.binom.logpmf(d.k1, d.n1, theta1) + stats.binom.logpmf(d.k2, d.n2, theta2)


@model(lambda d: {"theta": share})
def Rate_3_model(d, theta):
    return stats.binom.logpmf(d.k1, d.n1, theta) + stats.binom.logpmf(d.k2, d.n2, theta)


@model(lambda d: {"theta": share, "thetaprior": share})
def Rate_4_model(d, theta, thetaprior):
    return beta(theta, 1.0, 1.0) + beta(thetaprior, 1.0, 1.0) + stats.binom.logpmf(d.k, d.n, theta)


@model(lambda d: {"theta": share})
def Rate_5_model(d, theta):
    return stats.binom.logpmf(d.k1, d.n1, theta) + stats.binom.logpmf(d.k2, d.n2, theta)


@model(lambda d: {"theta": share})
def Survey_model(d, theta):
    sizes = np.arange(max(d.k), d.nmax + 1)
    return special.logsumexp(np.sum(stats.binom.logpmf(d.k, sizes[:, None], theta), axis=1))


# ── capture and recapture: who was never seen may not exist ──────────────────────────────────────────────────────


def _augmented(seen, omega, captures):
    """Individuals that exist with probability omega, and then have these log probabilities of their captures."""
    present = np.log(omega) + captures
    return np.sum(np.where(seen, present, np.logaddexp(present, np.log1p(-omega))))


def _histories(y, logits):
    return np.sum(y * logits - np.logaddexp(0.0, logits), axis=1)


def _before(y):
    """Captures on the day before."""
    return np.concatenate([np.zeros_like(y[:, :1]), y[:, :-1]], axis=1)


@model(lambda d: {"omega": share, "p": share})
def M0_model(d, omega, p):
    s = np.sum(d.y, axis=1)
    return _augmented(s > 0, omega, stats.binom.logpmf(s, d.T, p))


@model(lambda d: {"omega": share, "p": interval(0.0, 1.0, d.T)})
def Mt_model(d, omega, p):
    return _augmented(np.any(d.y, axis=1), omega, np.sum(stats.bernoulli.logpmf(d.y, p), axis=1))


@model(lambda d: {"omega": share, "p": share, "c": share})
def Mb_model(d, omega, p, c):
    probability = np.where(_before(d.y) == 1, c, p)
    return _augmented(np.any(d.y, axis=1), omega, np.sum(stats.bernoulli.logpmf(d.y, probability), axis=1))


@model(lambda d: {"omega": share, "mean_p": share, "sigma": interval(0.0, 5.0), "eps_raw": real(d.M)})
def Mh_model(d, omega, mean_p, sigma, eps_raw):
    logit = special.logit(mean_p) + sigma * eps_raw
    captures = special.gammaln(d.T + 1.0) - special.gammaln(d.y + 1.0) - special.gammaln(d.T - d.y + 1.0)
    captures = captures + d.y * logit - d.T * np.logaddexp(0.0, logit)
    return normal(eps_raw, 0.0, 1.0) + _augmented(d.y > 0, omega, captures)


@model(lambda d: {"omega": share, "mean_p": interval(0.0, 1.0, d.T), "sigma": interval(0.0, 5.0), "eps_raw": real(d.M)})
def Mth_model(d, omega, mean_p, sigma, eps_raw):
    logits = special.logit(mean_p) + sigma * eps_raw[:, None]
    return normal(eps_raw, 0.0, 1.0) + _augmented(np.any(d.y, axis=1), omega, _histories(d.y, logits))


@model(
    lambda d: {
        "omega": share,
        "mean_p": interval(0.0, 1.0, d.T),
        "gamma": real(),
        "sigma": interval(0.0, 3.0),
        "eps_raw": real(d.M),
    }
)
def Mtbh_model(d, omega, mean_p, gamma, sigma, eps_raw):
    logits = special.logit(mean_p) + sigma * eps_raw[:, None] + gamma * _before(d.y)
    prior = normal(gamma, 0.0, 10.0) + normal(eps_raw, 0.0, 1.0)
    return prior + _augmented(np.any(d.y, axis=1), omega, _histories(d.y, logits))


# ── species that may be present without being seen ───────────────────────────────────────────────────────────────


@model(
    lambda d: {
        "alpha": real(),
        "beta": real(),
        "Omega": share,
        "rho_uv": interval(-1.0, 1.0),
        "sigma_uv": positive(2),
        "uv1": real(d.S),
        "uv2": real(d.S),
    },
)
def multi_occupancy(d, alpha, beta, Omega, rho_uv, sigma_uv, uv1, uv2):
    cross = sigma_uv[0] * sigma_uv[1] * rho_uv
    covariance = np.stack([np.stack([sigma_uv[0] ** 2, cross]), np.stack([cross, sigma_uv[1] ** 2])])
    prior = cauchy(alpha, 0.0, 2.5) + cauchy(beta, 0.0, 2.5) + cauchy(sigma_uv, 0.0, 2.5)
    prior = prior + stats.beta.logpdf((rho_uv + 1.0) / 2.0, 2.0, 2.0) + stats.beta.logpdf(Omega, 2.0, 2.0)
    uv = np.stack([uv1, uv2], axis=1)
    prior = prior + np.sum(stats.multivariate_normal.logpdf(uv, np.zeros(2), covariance))

    psi, theta = uv1 + alpha, uv2 + beta
    log_psi, log_absent = -np.logaddexp(0.0, -psi), -np.logaddexp(0.0, psi)
    never = np.logaddexp(log_psi - d.K * np.logaddexp(0.0, theta), log_absent)
    seen = d.X * theta[: d.n, None] - d.K * np.logaddexp(0.0, theta[: d.n, None]) + log_psi[: d.n, None]
    known = d.n * np.log(Omega) + np.sum(np.where(d.X > 0, seen, never[: d.n, None]))
    unknown = np.logaddexp(np.log1p(-Omega), np.log(Omega) + d.J * never[d.n :])
    return prior + known + np.sum(unknown)
