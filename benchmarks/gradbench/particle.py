"""A charged particle among two charges, one of which is put so that the particle crosses the axis at the origin."""

import numpy as np

import dualad as da
from benchmarks.gradbench.descent import MODES, descend
from benchmarks.gradbench.evaluation import evaluation

__all__ = ["ff", "fr", "rf", "rr"]

TIME_STEP = 0.1


def potential(x, w):
    return 1 / np.hypot(x[0] - 10, x[1] - 10 + w) + 1 / np.hypot(x[0] - 10, x[1])


def make(outer, inner):
    """Return the evaluation with these modes.

    A program has no reverse mode through a path of unknown length: there the path is Python's, its forces compiled.
    """
    force = da.jit(lambda x, w: -MODES[inner](potential)(x, w))

    def miss(w):
        """Return the square of where Euler's path from (0, 8) crosses the axis, its last step cut short."""

        def step(state):
            x, v, a = state
            v = v + TIME_STEP * a
            return x + TIME_STEP * v, v, force(x, w)

        x, v = np.array([0.0, 8.0]), np.array([0.75, 0.0])
        x, v, _ = da.while_loop(lambda state: state[0][1] > 0, step, (x + TIME_STEP * v, v, force(x, w)))
        return (x[0] - x[1] / v[1] * v[0]) ** 2

    value, slope = da.jit(miss), MODES[outer](miss)
    slope = da.jit(slope) if outer == "f" else slope
    return evaluation(lambda given: float(given["w"]), float)(lambda w: descend(value, slope, w))


ff, fr, rf, rr = (make(*modes) for modes in ("ff", "fr", "rf", "rr"))
