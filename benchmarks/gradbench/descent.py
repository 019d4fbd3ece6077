"""Gradient descent as GradBench prescribes it, and the two modes that its slopes are taken in. Not an evaluation."""

import numpy as np

import dualad as da

__all__ = ["MODES", "descend"]

#: the letters in the names of the evaluations' functions
MODES = {"f": da.jacfwd, "r": da.grad}


def descend(f, slope, start, max_steps=None):
    """Return where f is least.

    A step that lowers f is taken, any other halves the step length; ten that were taken double it. The end is a slope
    or a step of at most 1e-5. With ``max_steps`` it has a reverse mode.
    """

    def goes_on(state):
        _, _, gradient, _, _, finished = state
        return (np.sum(gradient**2) > 1e-10) & ~finished

    def step(state):
        x, lowest, gradient, length, taken, _ = state
        length, taken = np.where(taken == 10, 2 * length, length), np.where(taken == 10, 0, taken)
        there = x - length * gradient
        finished = np.sum((there - x) ** 2) <= 1e-10
        value = f(there)
        return da.cond(
            (value < lowest) & ~finished,
            lambda: (there, value, slope(there), length, taken + 1, finished),
            lambda: (x, lowest, gradient, length / 2, 0 * taken, finished),
        )

    return da.while_loop(goes_on, step, (start, f(start), slope(start), 1e-5, 0, False), max_steps=max_steps)[0]
