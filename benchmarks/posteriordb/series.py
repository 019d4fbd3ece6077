"""Series in time: autoregression, GARCH, seasons, growth of downloads, an epidemic, hidden Markov chains."""

import numpy as np
from scipy import special, stats

from dualad.scipy.stats.constraints import interval, ordered, positive, positive_ordered, real, simplex

from .densities import cauchy, dirichlet, double_exponential, exponential, gamma, neg_binomial_2, normal, student_t
from .model import model


@model(lambda d: {"alpha": real(), "beta": real(d.K), "sigma": positive()})
def arK(d, alpha, beta, sigma):
    mu = alpha + sum(beta[k] * d.y[d.K - 1 - k : d.T - 1 - k] for k in range(d.K))
    prior = normal(alpha, 0.0, 10.0) + normal(beta, 0.0, 10.0) + cauchy(sigma, 0.0, 2.5)
    return prior + normal(d.y[d.K :], mu, sigma)


@model(lambda d: {"mu": real(), "phi": real(), "theta": real(), "sigma": positive()})
def arma11(d, mu, phi, theta, sigma):
    errors = [d.y[0] - (mu + phi * mu)]
    for t in range(1, d.T):
        errors.append(d.y[t] - (mu + phi * d.y[t - 1] + theta * errors[-1]))
    prior = normal(mu, 0.0, 10.0) + normal(phi, 0.0, 2.0) + normal(theta, 0.0, 2.0) + cauchy(sigma, 0.0, 2.5)
    return prior + normal(np.stack(errors), 0.0, sigma)


def _share_of_rest(d, draws):
    return {**draws, "beta1": draws["beta1"] / (1.0 - draws["alpha1"])}


# beta1 lies between 0 and 1 - alpha1, of which the free number makes it a share
@model(
    lambda d: {"mu": real(), "alpha0": positive(), "alpha1": interval(0.0, 1.0), "beta1": interval(0.0, 1.0)},
    from_draws=_share_of_rest,
)
def garch11(d, mu, alpha0, alpha1, beta1):
    beta = (1.0 - alpha1) * beta1
    variances = [d.sigma1**2 + 0.0 * mu]
    for t in range(1, d.T):
        variances.append(alpha0 + alpha1 * (d.y[t - 1] - mu) ** 2 + beta * variances[-1])
    return np.log1p(-alpha1) + normal(d.y, mu, np.sqrt(np.stack(variances)))


def _near(y):
    return np.mean(y) - 3.0 * np.std(y, ddof=1), np.mean(y) + 3.0 * np.std(y, ddof=1)


@model(
    lambda d: {
        "mu": interval(*_near(d.y), d.n),
        "seasonal": real(d.n),
        "beta": real(),
        "lambda_": real(),
        "sigma": positive_ordered(3),
    }
)
def state_space_stochastic_level_stochastic_seasonal(d, mu, seasonal, beta, lambda_, sigma):
    last_year = sum(seasonal[k : d.n - 11 + k] for k in range(11))
    prior = normal(seasonal[11:], -last_year, sigma[0]) + normal(mu[1:], mu[:-1], sigma[1])
    prior = prior + student_t(sigma, 4.0, 0.0, 1.0)
    return prior + normal(d.y, mu + beta * d.x + lambda_ * d.w + seasonal, sigma[2])


@model(lambda d: {"k": real(), "m": real(), "delta": real(d.S), "sigma_obs": positive(), "beta": real(d.K)})
def prophet(d, k, m, delta, sigma_obs, beta):
    changed = 1.0 * (d.t[:, None] >= d.t_change)
    rate = k + changed @ delta
    if d.trend_indicator == 0:
        trend = rate * d.t + m + changed @ (-d.t_change * delta)
    else:
        rates, offsets = k + np.concatenate([np.zeros(1), np.cumsum(delta)]), [m]
        for i in range(d.S):
            offsets.append(offsets[-1] + (d.t_change[i] - offsets[-1]) * (1.0 - rates[i] / rates[i + 1]))
        trend = d.cap * special.expit(rate * (d.t - (m + changed @ np.diff(np.stack(offsets)))))
    prior = normal(k, 0.0, 5.0) + normal(m, 0.0, 5.0) + double_exponential(delta, 0.0, d.tau)
    prior = prior + normal(sigma_obs, 0.0, 0.5) + normal(beta, 0.0, d.sigmas)
    return prior + normal(d.y, trend * (1.0 + d.X @ (beta * d.s_m)) + d.X @ (beta * d.s_a), sigma_obs)


# ── an epidemic in countries, with measures against it ───────────────────────────────────────────────────────────


def _countries(d):
    return {
        "mu": positive(d.M),
        "alpha_hier": positive(d.P),
        "kappa": positive(),
        "y": positive(d.M),
        "phi": positive(),
        "tau": positive(),
        "ifr_noise": positive(d.M),
    }


def _epidemic(d, mu, alpha_hier, kappa, y, phi, tau, ifr_noise):
    alpha = alpha_hier - np.log(1.05) / 6.0
    reproduction = mu * np.exp(-(d.X @ alpha).T)
    infections = np.zeros((d.N2, d.M))
    infections[: d.N0] = y
    for i in range(d.N0, d.N2):
        susceptible = (d.pop - np.sum(infections[:i], axis=0)) / d.pop
        infections[i] = susceptible * reproduction[i] * (d.SI[:i][::-1] @ infections[:i])

    prior = exponential(tau, 0.03) + exponential(y, 1.0 / tau) + normal(phi, 0.0, 5.0) + normal(kappa, 0.0, 0.5)
    prior = prior + normal(mu, 3.28, kappa) + gamma(alpha_hier, 0.1667, 1.0) + normal(ifr_noise, 1.0, 0.1)
    delay = np.arange(d.N2)[:, None] - np.arange(d.N2)
    for m in range(d.M):
        kernel = np.where(delay > 0, d.f[np.maximum(delay - 1, 0), m], 0.0)
        expected = ifr_noise[m] * (kernel @ infections[:, m])
        days = slice(d.EpidemicStart[m] - 1, d.N[m])
        prior = prior + neg_binomial_2(d.deaths[days, m], expected[days], phi)
    return prior


covid19imperial_v2 = model(_countries, name="covid19imperial_v2")(_epidemic)
covid19imperial_v3 = model(_countries, name="covid19imperial_v3")(_epidemic)


# ── hidden Markov chains ─────────────────────────────────────────────────────────────────────────────────────────


def _forward(start, transition, observed):
    """The log probability of what was observed, given logs of its densities in each state (time by state)."""
    alpha = start + observed[0]
    for t in range(1, len(observed)):
        alpha = special.logsumexp(alpha[:, None] + transition, axis=0) + observed[t]
    return special.logsumexp(alpha)


@model(lambda d: {"theta1": simplex(d.K), "theta2": simplex(d.K), "mu": positive_ordered(d.K)})
def hmm_example(d, theta1, theta2, mu):
    prior = normal(mu[0], 3.0, 1.0) + normal(mu[1], 10.0, 1.0)
    observed = stats.norm.logpdf(d.y[:, None], mu, 1.0)
    return prior + _forward(np.zeros(d.K), np.log(np.stack([theta1, theta2])), observed)


def _drive(d, theta1, theta2, phi, lambda_, observed):
    theta = np.stack([theta1, theta2])
    prior = dirichlet(theta1, d.alpha[0]) + dirichlet(theta2, d.alpha[1])
    for x in (phi, lambda_):
        prior = prior + normal(x[0], 0.0, 1.0) + normal(x[1], 3.0, 1.0)
    return prior + _forward(np.zeros(d.K), np.log(theta), observed)


@model(
    lambda d: {
        "theta1": simplex(d.K),
        "theta2": simplex(d.K),
        "phi": positive_ordered(d.K),
        "lambda_": positive_ordered(d.K),
    }
)
def hmm_drive_0(d, theta1, theta2, phi, lambda_):
    u, v = d.u[:, None], d.v[:, None]
    observed = np.log(phi) - phi * u + np.log(lambda_) - lambda_ * v
    return _drive(d, theta1, theta2, phi, lambda_, observed)


@model(lambda d: {"theta1": simplex(d.K), "theta2": simplex(d.K), "phi": ordered(d.K), "lambda_": ordered(d.K)})
def hmm_drive_1(d, theta1, theta2, phi, lambda_):
    observed = stats.norm.logpdf(d.u[:, None], phi, d.tau) + stats.norm.logpdf(d.v[:, None], lambda_, d.rho)
    return _drive(d, theta1, theta2, phi, lambda_, observed)


@model(lambda d: {"pi1": simplex(d.K), "A": simplex(d.K, d.K), "mu": ordered(d.K), "sigma": positive(d.K)})
def hmm_gaussian(d, pi1, A, mu, sigma):
    observed = stats.norm.logpdf(d.y[:, None], mu, sigma)
    # at the first time the model adds up the densities of all states
    return _forward(np.log(pi1) + np.sum(observed[0]) - observed[0], np.log(A), observed)


@model(lambda d: {"pi1": simplex(d.K), "w": real(d.K, d.M), "b": real(d.K, d.M), "sigma": positive(d.K)})
def iohmm_reg(d, pi1, w, b, sigma):
    prior = normal(w, 0.0, 5.0) + normal(b, 0.0, 5.0) + normal(sigma, 0.0, 3.0)
    transition = special.log_softmax(d.u @ w.T, axis=1)  # from each state with the same probabilities
    observed = stats.norm.logpdf(d.y[:, None], d.u @ b.T, sigma)
    alpha = np.log(pi1) + observed[0]
    for t in range(1, d.T):
        alpha = special.logsumexp(alpha + transition[t]) + observed[t]
    return prior + special.logsumexp(alpha)
