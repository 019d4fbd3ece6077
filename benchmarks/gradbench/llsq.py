"""Least squares: a polynomial with the given coefficients against the sign function, at equidistant points."""

import numpy as np

import dualad as da
from benchmarks.gradbench.evaluation import evaluation

__all__ = ["gradient", "primal"]


def objective(x, t):
    y = np.zeros_like(t)
    for coefficient in x[::-1]:
        y = y * t + coefficient
    return np.sum((np.sign(t) - y) ** 2) / 2


value, slope = da.jit(objective), da.jit(da.grad(objective))


def prepare(given):
    n = given["n"]
    return np.array(given["x"]), -1 + 2 * np.arange(n) / (n - 1)


@evaluation(prepare, float)
def primal(argument):
    return value(*argument)


@evaluation(prepare, np.ndarray.tolist)
def gradient(argument):
    return slope(*argument)
