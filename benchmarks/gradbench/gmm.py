"""The posterior of a mixture of Gaussians with a Wishart prior on the precisions, which are given by triangles."""

import numpy as np
from scipy.special import multigammaln

import dualad as da
from benchmarks.gradbench.evaluation import evaluation

__all__ = ["jacobian", "objective"]

PARAMETERS = ("alpha", "mu", "q", "l")


def logsumexp(x):
    largest = np.max(x, axis=-1, keepdims=True)
    return np.log(np.sum(np.exp(x - largest), axis=-1)) + largest[..., 0]


def log_posterior(parameters, x, m, gamma):
    alpha, mu, q, l = (parameters[name] for name in PARAMETERS)  # noqa: E741 (the name that GradBench gives it)
    (k, d), n = q.shape, len(x)
    columns, rows = np.triu_indices(d, 1)  # below the diagonal, column by column
    triangles = np.zeros((k, d, d), like=q)
    triangles[:, rows, columns] = l
    triangles[:, np.arange(d), np.arange(d)] = np.exp(q)

    whitened = (x - mu[:, None, :]) @ np.swapaxes(triangles, 1, 2)
    logs = alpha + np.sum(q, axis=1) - np.sum(whitened**2, axis=2).T / 2
    likelihood = np.sum(logsumexp(logs)) - n * logsumexp(alpha) - n * d * np.log(2 * np.pi) / 2

    freedom = d + m + 1
    constant = freedom * d * np.log(gamma / np.sqrt(2)) - multigammaln(freedom / 2, d)
    return likelihood + k * constant - gamma**2 * np.sum(triangles**2) / 2 + m * np.sum(q)


value = da.jit(log_posterior, static_argnums=(2, 3))
slope = da.jit(da.grad(log_posterior), static_argnums=(2, 3))


def prepare(given):
    parameters = {name: np.array(given[name]) for name in PARAMETERS}
    return parameters, np.array(given["x"]), given["m"], given["gamma"]


@evaluation(prepare, float)
def objective(argument):
    return value(*argument)


@evaluation(prepare, lambda slopes: {name: s.tolist() for name, s in slopes.items()})
def jacobian(argument):
    return slope(*argument)
