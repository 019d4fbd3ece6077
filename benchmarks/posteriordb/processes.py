"""Gaussian processes by Cholesky factors and eigenvectors, and differential equations by `scipy.integrate`."""

import numpy as np
from scipy import stats
from scipy.integrate import solve_ivp

from dualad.scipy.stats.constraints import cholesky_corr, interval, lkj_cholesky_logpdf, lower, positive, real, simplex

from .densities import cauchy, dirichlet, gamma, inverse_gamma, lognormal, normal, poisson_log, student_t, weibull
from .model import model

# ── Gaussian processes ───────────────────────────────────────────────────────────────────────────────────────────


def exp_quad(x, alpha, rho):
    return alpha**2 * np.exp(-0.5 * ((x[:, None] - x) / rho) ** 2)


@model(lambda d: {"rho": positive(), "alpha": positive(), "sigma": positive()})
def gp_regr(d, rho, alpha, sigma):
    covariance = exp_quad(d.x, alpha, rho) + sigma * np.eye(d.N)
    prior = gamma(rho, 25.0, 4.0) + normal(alpha, 0.0, 2.0) + normal(sigma, 0.0, 1.0)
    return prior + stats.multivariate_normal.logpdf(d.y, np.zeros(d.N), covariance)


def _factor(d, rho, alpha):
    return np.linalg.cholesky(exp_quad(d.x, alpha, rho) + 1e-10 * np.eye(d.N))


def _raw_process(d, draws):
    factor = _factor(d, draws["rho"], draws["alpha"])
    return {**draws, "f_tilde": np.linalg.solve(factor, draws["f"])}


@model(lambda d: {"rho": positive(), "alpha": positive(), "f_tilde": real(d.N)}, from_draws=_raw_process)
def gp_pois_regr(d, rho, alpha, f_tilde):
    prior = gamma(rho, 25.0, 4.0) + normal(alpha, 0.0, 2.0) + normal(f_tilde, 0.0, 1.0)
    return prior + poisson_log(d.k, _factor(d, rho, alpha) @ f_tilde)


def _spectral(X, scale, length, z, frequencies):
    """A process as a sum of functions, weighted by the roots of its spectral density."""
    density = scale**2 * np.sqrt(2.0 * np.pi) * length * np.exp(-0.5 * length**2 * np.sum(frequencies**2, axis=1))
    return X @ (np.sqrt(density) * z)


@model(
    lambda d: {
        "Intercept": real(),
        "sdgp_1": positive(),
        "lscale_1": positive(),
        "zgp_1": real(d.NBgp_1),
        "Intercept_sigma": real(),
        "sdgp_sigma_1": positive(),
        "lscale_sigma_1": positive(),
        "zgp_sigma_1": real(d.NBgp_sigma_1),
    }
)
def accel_gp(d, Intercept, sdgp_1, lscale_1, zgp_1, Intercept_sigma, sdgp_sigma_1, lscale_sigma_1, zgp_sigma_1):
    mu = Intercept + _spectral(d.Xgp_1, sdgp_1, lscale_1, zgp_1, d.slambda_1)
    log_sigma = _spectral(d.Xgp_sigma_1, sdgp_sigma_1, lscale_sigma_1, zgp_sigma_1, d.slambda_sigma_1)
    prior = student_t(Intercept, 3.0, -13.0, 36.0) + student_t(Intercept_sigma, 3.0, 0.0, 10.0)
    for scale, length, z in ((sdgp_1, lscale_1, zgp_1), (sdgp_sigma_1, lscale_sigma_1, zgp_sigma_1)):
        prior = prior + student_t(scale, 3.0, 0.0, 36.0) + inverse_gamma(length, 1.124909, 0.0177) + normal(z, 0.0, 1.0)
    return prior + normal(d.Y, mu, np.exp(Intercept_sigma + log_sigma))


@model(
    lambda d: {
        "GP_region_std": real(d.N_regions, d.N_years),
        "GP_state_std": real(d.N_states, d.N_years),
        "year_std": real(d.N_years_obs),
        "state_std": real(d.N_states),
        "region_std": real(d.N_regions),
        "tot_var": positive(),
        "prop_var": simplex(17),
        "mu": real(),
        **{f"length_GP_{place}_{kind}": positive() for kind in ("long", "short") for place in ("region", "state")},
    }
)
def hierarchical_gp(d, GP_region_std, GP_state_std, year_std, state_std, region_std, tot_var, prop_var, mu, **lengths):
    """The columns of Stan's matrices are rows here."""
    sigma = np.sqrt(17.0 * prop_var * tot_var)
    years, state, region, year = np.arange(1.0, d.N_years + 1), d.state_ind - 1, d.region_ind - 1, d.year_ind - 1
    processes = []
    for place, std, first in (("region", GP_region_std, 12), ("state", GP_state_std, 13)):
        long = exp_quad(years, sigma[first], lengths[f"length_GP_{place}_long"])
        short = exp_quad(years, sigma[first + 2], lengths[f"length_GP_{place}_short"])
        processes.append(std @ np.linalg.cholesky(long + short + 1e-6 * np.eye(d.N_years)).T)
    state_effect = sigma[d.state_region_ind + 1] * state_std
    fitted = mu + sigma[0] * year_std[year] + state_effect[state] + sigma[1] * region_std[region]
    fitted = fitted + processes[0][region, year] + processes[1][state, year]

    prior = sum(normal(z, 0.0, 1.0) for z in (GP_region_std, GP_state_std, year_std, state_std, region_std))
    prior = prior + normal(mu, 0.5, 0.5) + gamma(tot_var, 3.0, 3.0) + dirichlet(prop_var, np.full(17, 2.0))
    for name, length in lengths.items():
        prior = prior + weibull(length, 30.0, 8.0 if name.endswith("long") else 3.0)
    return prior + normal(d.y, fitted, sigma[16])


# For shorter lengths some eigenvalues agree to the last digits, and their vectors have no derivative.
@model(
    lambda d: {"var1": positive(), "bw1": positive(), "L": cholesky_corr(d.n2), "sigma1": lower(0.00001)},
    near={"bw1": 50.0},
)
def kronecker_gp(d, var1, bw1, L, sigma1):
    squares = (d.x1[:, None] - d.x1) ** 2
    values1, vectors1 = np.linalg.eigh(var1 * np.exp(-squares * bw1) + 1e-5 * np.eye(d.n1))
    values2, vectors2 = np.linalg.eigh(L @ L.T)
    variances = values2[:, None] * values1 + sigma1
    prior = (
        lognormal(var1, 0.0, 1.0) + cauchy(bw1, 0.0, 2.5) + lognormal(sigma1, 0.0, 1.0) + lkj_cholesky_logpdf(L, 2.0)
    )
    return prior - 0.5 * np.sum((vectors2.T @ d.y @ vectors1) ** 2 / variances) - 0.5 * np.sum(np.log(variances))


# ── differential equations: Stan solves them to 1e-6 or less, which bounds how well the two agree ────────────────


def _trajectory(f, start, times, method="RK45"):
    """States at these times, from time zero (time by state)."""
    return solve_ivp(f, (0.0, times[-1]), start, method=method, t_eval=times, rtol=1e-9, atol=1e-9).y.T


@model(lambda d: {"theta": positive(4), "z_init": positive(2), "sigma": positive(2)}, accuracy=2e-3)
def lotka_volterra(d, theta, z_init, sigma):
    alpha, beta, gamma, delta = theta

    def populations(t, z):
        return np.stack([(alpha - beta * z[1]) * z[0], (-gamma + delta * z[0]) * z[1]])

    z = _trajectory(populations, z_init, d.ts)
    prior = normal(theta[::2], 1.0, 0.5) + normal(theta[1::2], 0.05, 0.05)
    prior = prior + lognormal(sigma, -1.0, 1.0) + lognormal(z_init, np.log(10.0), 1.0)
    return prior + lognormal(d.y_init, np.log(z_init), sigma) + lognormal(d.y, np.log(z), sigma)


@model(
    lambda d: dict.fromkeys(("beta", "gamma", "xi", "delta"), positive()),
    accuracy=1e-3,
    near={"beta": 0.7, "gamma": 0.15, "xi": 10.0, "delta": 0.3},
)
def sir(d, beta, gamma, xi, delta):
    def flows(t, y):
        infection = beta * y[3] / (y[3] + 1e6) * y[0]
        return np.stack([-infection, infection - gamma * y[1], gamma * y[1], xi * y[1] - delta * y[3]])

    y = _trajectory(flows, d.y0, d.t)
    prior = cauchy(beta, 0.0, 2.5) + cauchy(gamma, 0.0, 1.0) + cauchy(xi, 0.0, 25.0) + cauchy(delta, 0.0, 1.0)
    infected = np.concatenate([d.y0[:1] - y[:1, 0], y[:-1, 0] - y[1:, 0]])
    prior = prior + np.sum(d.stoi_hat * np.log(infected) - infected)
    return prior + lognormal(d.B_hat, np.log(y[:, 3]), 0.15)


@model(
    lambda d: {
        **dict.fromkeys(("k1", "k2", "alpha21", "alpha12"), positive()),
        "gamma": interval(0.0, 1.0),
        "sigma": positive(),
    },
    accuracy=1e-3,
)
def soil_incubation(d, k1, k2, alpha21, alpha12, gamma, sigma):
    def pools(t, C):
        return np.stack([-k1 * C[0] + alpha12 * k2 * C[1], -k2 * C[1] + alpha21 * k1 * C[0]])

    carbon = _trajectory(pools, d.totalC_t0 * np.stack([gamma, 1.0 - gamma]), d.ts)
    prior = stats.beta.logpdf(gamma, 10.0, 1.0) + normal(np.stack([k1, k2, alpha21, alpha12]), 0.0, 1.0)
    return prior + cauchy(sigma, 0.0, 1.0) + normal(d.eCO2mean, d.totalC_t0 - np.sum(carbon, axis=1), sigma)


@model(lambda d: dict.fromkeys(("k_a", "K_m", "V_m", "sigma"), positive()), accuracy=1e-3)
def one_comp_mm_elim_abs(d, k_a, K_m, V_m, sigma):
    def concentration(t, C):
        return np.exp(-k_a * t) * d.D * k_a / d.V - V_m / d.V * C / (K_m + C)

    C = _trajectory(concentration, np.zeros(1), d.times, method="LSODA")[:, 0]
    prior = cauchy(k_a, 0.0, 1.0) + cauchy(K_m, 0.0, 1.0) + cauchy(V_m, 0.0, 1.0) + cauchy(sigma, 0.0, 1.0)
    return prior + lognormal(d.C_hat, np.log(C), sigma)
