"""Varying intercepts and slopes: eight schools, radon in houses, rats, pilots, accidents, loss curves."""

import numpy as np
from scipy import stats

from dualad.scipy.stats.constraints import interval, positive, real

from .densities import cauchy, gamma, lognormal, normal, poisson_log
from .model import model

# ── eight schools ────────────────────────────────────────────────────────────────────────────────────────────────


@model(lambda d: {"theta": real(d.J), "mu": real(), "tau": positive()})
def eight_schools_centered(d, theta, mu, tau):
    prior = cauchy(tau, 0.0, 5.0) + normal(mu, 0.0, 5.0)
    return prior + normal(theta, mu, tau) + normal(d.y, theta, d.sigma)


def _raw_effects(d, draws):
    return {**draws, "theta_trans": (draws["theta"] - draws["mu"]) / draws["tau"]}


@model(lambda d: {"theta_trans": real(d.J), "mu": real(), "tau": positive()}, from_draws=_raw_effects)
def eight_schools_noncentered(d, theta_trans, mu, tau):
    prior = cauchy(tau, 0.0, 5.0) + normal(mu, 0.0, 5.0) + normal(theta_trans, 0.0, 1.0)
    return prior + normal(d.y, theta_trans * tau + mu, d.sigma)


# ── radon by county and floor ────────────────────────────────────────────────────────────────────────────────────


@model(lambda d: {"a": real(d.J), "mu_a": real(), "sigma_a": interval(0.0, 100.0), "sigma_y": interval(0.0, 100.0)})
def radon_county(d, a, mu_a, sigma_a, sigma_y):
    return normal(mu_a, 0.0, 1.0) + normal(a, mu_a, sigma_a) + normal(d.y, a[d.county - 1], sigma_y)


@model(lambda d: {"alpha": real(), "beta": real(), "sigma_y": positive()})
def radon_pooled(d, alpha, beta, sigma_y):
    prior = normal(sigma_y, 0.0, 1.0) + normal(alpha, 0.0, 10.0) + normal(beta, 0.0, 10.0)
    return prior + normal(d.log_radon, alpha + beta * d.floor_measure, sigma_y)


@model(lambda d: {"alpha": real(d.J), "beta": real(), "sigma_y": positive()})
def radon_county_intercept(d, alpha, beta, sigma_y):
    prior = normal(sigma_y, 0.0, 1.0) + normal(alpha, 0.0, 10.0) + normal(beta, 0.0, 10.0)
    return prior + normal(d.log_radon, alpha[d.county_idx - 1] + beta * d.floor_measure, sigma_y)


def _group(mu, sigma, sigma_y):
    """The priors of a group's mean and spread, and of that of the houses."""
    return normal(mu, 0.0, 10.0) + normal(sigma, 0.0, 1.0) + normal(sigma_y, 0.0, 1.0)


_SPREADS = {"mu_alpha": real(), "sigma_alpha": positive(), "sigma_y": positive()}


@model(lambda d: {"alpha": real(d.J), **_SPREADS})
def radon_partially_pooled_centered(d, alpha, mu_alpha, sigma_alpha, sigma_y):
    prior = _group(mu_alpha, sigma_alpha, sigma_y) + normal(alpha, mu_alpha, sigma_alpha)
    return prior + normal(d.log_radon, alpha[d.county_idx - 1], sigma_y)


@model(lambda d: {"alpha_raw": real(d.J), **_SPREADS})
def radon_partially_pooled_noncentered(d, alpha_raw, mu_alpha, sigma_alpha, sigma_y):
    alpha = mu_alpha + sigma_alpha * alpha_raw
    prior = _group(mu_alpha, sigma_alpha, sigma_y) + normal(alpha_raw, 0.0, 1.0)
    return prior + normal(d.log_radon, alpha[d.county_idx - 1], sigma_y)


@model(lambda d: {"alpha": real(d.J), "beta": real(), **_SPREADS})
def radon_variable_intercept_centered(d, alpha, beta, mu_alpha, sigma_alpha, sigma_y):
    prior = _group(mu_alpha, sigma_alpha, sigma_y) + normal(beta, 0.0, 10.0) + normal(alpha, mu_alpha, sigma_alpha)
    return prior + normal(d.log_radon, alpha[d.county_idx - 1] + d.floor_measure * beta, sigma_y)


@model(lambda d: {"alpha_raw": real(d.J), "beta": real(), **_SPREADS})
def radon_variable_intercept_noncentered(d, alpha_raw, beta, mu_alpha, sigma_alpha, sigma_y):
    alpha = mu_alpha + sigma_alpha * alpha_raw
    prior = _group(mu_alpha, sigma_alpha, sigma_y) + normal(beta, 0.0, 10.0) + normal(alpha_raw, 0.0, 1.0)
    return prior + normal(d.log_radon, alpha[d.county_idx - 1] + d.floor_measure * beta, sigma_y)


_SLOPES = {"mu_beta": real(), "sigma_beta": positive(), "sigma_y": positive()}


@model(lambda d: {"alpha": real(), "beta": real(d.J), **_SLOPES})
def radon_variable_slope_centered(d, alpha, beta, mu_beta, sigma_beta, sigma_y):
    prior = _group(mu_beta, sigma_beta, sigma_y) + normal(alpha, 0.0, 10.0) + normal(beta, mu_beta, sigma_beta)
    return prior + normal(d.log_radon, alpha + d.floor_measure * beta[d.county_idx - 1], sigma_y)


@model(lambda d: {"alpha": real(), "beta_raw": real(d.J), **_SLOPES})
def radon_variable_slope_noncentered(d, alpha, beta_raw, mu_beta, sigma_beta, sigma_y):
    beta = mu_beta + sigma_beta * beta_raw
    prior = _group(mu_beta, sigma_beta, sigma_y) + normal(alpha, 0.0, 10.0) + normal(beta_raw, 0.0, 1.0)
    return prior + normal(d.log_radon, alpha + d.floor_measure * beta[d.county_idx - 1], sigma_y)


def _two_groups(*names):
    return lambda d: {
        **dict.fromkeys(("sigma_y", "sigma_alpha", "sigma_beta"), positive()),
        **dict.fromkeys(names, real(d.J)),
        "mu_alpha": real(),
        "mu_beta": real(),
    }


@model(_two_groups("alpha", "beta"))
def radon_variable_intercept_slope_centered(d, sigma_y, sigma_alpha, sigma_beta, alpha, beta, mu_alpha, mu_beta):
    prior = _group(mu_alpha, sigma_alpha, sigma_y) + normal(mu_beta, 0.0, 10.0) + normal(sigma_beta, 0.0, 1.0)
    prior = prior + normal(alpha, mu_alpha, sigma_alpha) + normal(beta, mu_beta, sigma_beta)
    county = d.county_idx - 1
    return prior + normal(d.log_radon, alpha[county] + d.floor_measure * beta[county], sigma_y)


@model(_two_groups("alpha_raw", "beta_raw"))
def radon_variable_intercept_slope_noncentered(
    d, sigma_y, sigma_alpha, sigma_beta, alpha_raw, beta_raw, mu_alpha, mu_beta
):
    alpha, beta = mu_alpha + sigma_alpha * alpha_raw, mu_beta + sigma_beta * beta_raw
    prior = _group(mu_alpha, sigma_alpha, sigma_y) + normal(mu_beta, 0.0, 10.0) + normal(sigma_beta, 0.0, 1.0)
    prior = prior + normal(alpha_raw, 0.0, 1.0) + normal(beta_raw, 0.0, 1.0)
    county = d.county_idx - 1
    return prior + normal(d.log_radon, alpha[county] + d.floor_measure * beta[county], sigma_y)


def _floors(d, alpha, beta, sigma_y):
    mu = alpha[d.county_idx - 1] + d.log_uppm * beta[0] + d.floor_measure * beta[1]
    return normal(beta, 0.0, 10.0) + normal(d.log_radon, mu, sigma_y)


@model(lambda d: {"alpha": real(d.J), "beta": real(2), **_SPREADS})
def radon_hierarchical_intercept_centered(d, alpha, beta, mu_alpha, sigma_alpha, sigma_y):
    prior = _group(mu_alpha, sigma_alpha, sigma_y) + normal(alpha, mu_alpha, sigma_alpha)
    return prior + _floors(d, alpha, beta, sigma_y)


@model(lambda d: {"alpha_raw": real(d.J), "beta": real(2), **_SPREADS})
def radon_hierarchical_intercept_noncentered(d, alpha_raw, beta, mu_alpha, sigma_alpha, sigma_y):
    prior = _group(mu_alpha, sigma_alpha, sigma_y) + normal(alpha_raw, 0.0, 1.0)
    return prior + _floors(d, mu_alpha + sigma_alpha * alpha_raw, beta, sigma_y)


# ── others ───────────────────────────────────────────────────────────────────────────────────────────────────────


@model(
    lambda d: {
        "alpha": real(d.N),
        "beta": real(d.N),
        "mu_alpha": real(),
        "mu_beta": real(),
        **dict.fromkeys(("sigma_y", "sigma_alpha", "sigma_beta"), positive()),
    }
)
def rats_model(d, alpha, beta, mu_alpha, mu_beta, sigma_y, sigma_alpha, sigma_beta):
    rat = d.rat - 1
    prior = normal(mu_alpha, 0.0, 100.0) + normal(mu_beta, 0.0, 100.0)
    prior = prior + normal(alpha, mu_alpha, sigma_alpha) + normal(beta, mu_beta, sigma_beta)
    return prior + normal(d.y, alpha[rat] + beta[rat] * (d.x - d.xbar), sigma_y)


@model(
    lambda d: {
        "a": real(d.n_groups),
        "b": real(d.n_scenarios),
        "mu_a": real(),
        "mu_b": real(),
        **dict.fromkeys(("sigma_a", "sigma_b", "sigma_y"), interval(0.0, 100.0)),
    }
)
def pilots(d, a, b, mu_a, mu_b, sigma_a, sigma_b, sigma_y):
    prior = normal(mu_a, 0.0, 1.0) + normal(a, 10.0 * mu_a, sigma_a)
    prior = prior + normal(mu_b, 0.0, 1.0) + normal(b, 10.0 * mu_b, sigma_b)
    return prior + normal(d.y, a[d.group_id - 1] + b[d.scenario_id - 1], sigma_y)


@model(
    lambda d: {
        "beta0": real(),
        "sigma": positive(),
        "rho": interval(0.0, 1.0),
        "theta": real(d.N),
        "phi": real(d.N),
    }
)
def bym2_offset_only(d, beta0, sigma, rho, theta, phi):
    effect = np.sqrt(1.0 - rho) * theta + np.sqrt(rho / d.scaling_factor) * phi
    prior = (
        normal(beta0, 0.0, 1.0) + normal(theta, 0.0, 1.0) + normal(sigma, 0.0, 1.0) + stats.beta.logpdf(rho, 0.5, 0.5)
    )
    prior = prior - 0.5 * np.sum((phi[d.node1 - 1] - phi[d.node2 - 1]) ** 2) + normal(np.sum(phi), 0.0, 0.001 * d.N)
    return prior + poisson_log(d.y, np.log(d.E) + beta0 + effect * sigma)


@model(lambda d: {"alpha": real(), "beta": real(), "lambda_": interval(0.5, 1.0), "tau": positive()})
def dugongs_model(d, alpha, beta, lambda_, tau):
    prior = normal(alpha, 0.0, 1000.0) + normal(beta, 0.0, 1000.0) + gamma(tau, 1e-4, 1e-4)
    return prior + normal(d.Y, alpha - beta * lambda_**d.x, 1.0 / np.sqrt(tau))


@model(
    lambda d: {
        "omega": positive(),
        "theta": positive(),
        "LR": positive(d.n_cohort),
        "mu_LR": real(),
        "sd_LR": positive(),
        "loss_sd": positive(),
    }
)
def losscurve_sislob(d, omega, theta, LR, mu_LR, sd_LR, loss_sd):
    if d.growthmodel_id == 1:
        growth = 1.0 - np.exp(-((d.t_value / theta) ** omega))
    else:
        growth = d.t_value**omega / (d.t_value**omega + theta**omega)
    cohort = d.cohort_id - 1
    prior = normal(mu_LR, 0.0, 0.5) + lognormal(sd_LR, 0.0, 0.5) + lognormal(LR, mu_LR, sd_LR)
    prior = prior + lognormal(loss_sd, 0.0, 0.7) + lognormal(omega, 0.0, 0.5) + lognormal(theta, 0.0, 0.5)
    premium = d.premium[cohort]
    return prior + normal(d.loss, LR[cohort] * premium * growth[d.t_idx - 1], loss_sd * premium)
