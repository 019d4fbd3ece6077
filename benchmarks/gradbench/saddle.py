"""A saddle point: the minimum over x of the maximum over y, either by gradient descent, one inside the other."""

import numpy as np

import dualad as da
from benchmarks.gradbench.descent import MODES, descend
from benchmarks.gradbench.evaluation import evaluation

__all__ = ["ff", "fr", "rf", "rr"]

#: steps that the inner descent may take; more are an error
MOST_STEPS = 1000


def height(x, y):
    return np.sum(x**2) - np.sum(y**2)


def make(outer, inner):
    """Return the evaluation with these modes; a reverse mode around a descent needs a bound of its length."""

    def highest(x, start):
        depth = lambda y: -height(x, y)
        return descend(depth, MODES[inner](depth), start, MOST_STEPS if outer == "r" else None)

    def saddle(start):
        ridge = lambda x: height(x, highest(x, start))
        x = descend(ridge, MODES[outer](ridge), start)
        return np.concatenate([x, highest(x, start)])

    return evaluation(lambda given: np.array(given["start"]), np.ndarray.tolist)(da.jit(saddle))


ff, fr, rf, rr = (make(*modes) for modes in ("ff", "fr", "rf", "rr"))
