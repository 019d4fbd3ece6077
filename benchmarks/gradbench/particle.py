"""A charged particle among two charges, one of which is put so that the particle crosses the axis at the origin."""

import numpy as np

import dualad as da
from benchmarks.gradbench.descent import MODES, descend
from benchmarks.gradbench.evaluation import evaluation

__all__ = ["ff", "fr", "rf", "rr"]

TIME_STEP = 0.1
#: steps that the path may take; more are an error
MOST_STEPS = 1000


def potential(x, w):
    return 1 / np.hypot(x[0] - 10, x[1] - 10 + w) + 1 / np.hypot(x[0] - 10, x[1])


def make(outer, inner):
    """Return the evaluation with these modes; a reverse mode through the path needs a bound of its length."""
    most = MOST_STEPS if outer == "r" else None
    force = lambda x, w: -MODES[inner](potential)(x, w)

    def miss(w):
        """Return the square of where Euler's path from (0, 8) crosses the axis, its last step cut short."""

        def step(state):
            x, v, a = state
            v = v + TIME_STEP * a
            return x + TIME_STEP * v, v, force(x, w)

        x, v = np.array([0.0, 8.0]), np.array([0.75, 0.0])
        start = (x + TIME_STEP * v, v, force(x, w))
        x, v, _ = da.while_loop(lambda state: state[0][1] > 0, step, start, max_steps=most)
        return (x[0] - x[1] / v[1] * v[0]) ** 2

    value, slope = da.jit(miss), da.jit(MODES[outer](miss))
    return evaluation(lambda given: float(given["w"]), float)(lambda w: descend(value, slope, w))


ff, fr, rf, rr = (make(*modes) for modes in ("ff", "fr", "rf", "rr"))
