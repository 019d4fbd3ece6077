"""A saddle point: the minimum over x of the maximum over y, either by gradient descent, one inside the other."""

import numpy as np

import dualad as da
from benchmarks.gradbench.descent import MODES, descend
from benchmarks.gradbench.evaluation import evaluation

__all__ = ["ff", "fr", "rf", "rr"]


def height(x, y):
    return np.sum(x**2) - np.sum(y**2)


def make(outer, inner):
    """Return the evaluation with these modes; a reverse mode around a descent of unknown length isn't compiled."""

    def highest(x, start):
        depth = lambda y: -height(x, y)
        return descend(depth, MODES[inner](depth), start)

    def saddle(start):
        ridge = lambda x: height(x, highest(x, start))
        x = descend(da.jit(ridge), MODES[outer](ridge), start)
        return np.concatenate([x, highest(x, start)])

    run = da.jit(saddle) if outer == "f" else saddle
    return evaluation(lambda given: np.array(given["start"]), np.ndarray.tolist)(run)


ff, fr, rf, rr = (make(*modes) for modes in ("ff", "fr", "rf", "rr"))
