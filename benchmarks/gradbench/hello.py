"""The square of a number and its derivative."""

import dualad as da
from benchmarks.gradbench.evaluation import evaluation

__all__ = ["double", "square"]


def squared(x):
    return x * x


@evaluation(float, float)
def square(x):
    return squared(x)


@evaluation(float, float)
def double(x):
    return da.grad(squared)(x)
