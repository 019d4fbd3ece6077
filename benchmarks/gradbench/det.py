"""The determinant by minors: n! products, and none of the minors shared."""

import numpy as np

import dualad as da
from benchmarks.gradbench.evaluation import evaluation

__all__ = ["gradient", "primal"]

AT_ONCE = 8  # all minors of a matrix of this size are one array; of larger ones, those of one column at a time


def minors(a):
    """Return the matrices without the first row and one of the columns, stacked in front of the last two axes."""
    n = a.shape[-1]
    others = np.array([[j for j in range(n) if j != i] for i in range(n)])
    return np.swapaxes(a[..., 1:, others], -3, -2)


def determinant(a):
    n = a.shape[-1]
    if n == 1:
        return a[..., 0, 0]
    smaller = determinant(minors(a)) if n <= AT_ONCE else da.map(determinant, minors(a))
    return np.sum((-1.0) ** np.arange(n) * a[..., 0, :] * smaller, axis=-1)


value, slope = da.jit(determinant), da.jit(da.grad(determinant))


def prepare(given):
    return np.array(given["A"]).reshape(given["ell"], given["ell"])


@evaluation(prepare, float)
def primal(a):
    return value(a)


@evaluation(prepare, lambda slopes: slopes.ravel().tolist())
def gradient(a):
    return slope(a)
