"""``scipy.integrate``: integrals of samples.

The rules are linear in the samples ``y`` and, where the points ``x`` are traced, differentiable in them too.
Not for: integrals of functions (``quad``, ``solve_ivp``, ...), which call the integrand on numbers.
"""

from __future__ import annotations

import numpy as np
import scipy.integrate as si

from ...core.tracer import Tracer
from ...surface.arguments import operand
from ..mirror import mirrors
from ..twins import mirrors_twin

__all__ = ["cumulative_simpson", "cumulative_trapezoid", "romb", "simpson", "trapezoid"]


@mirrors(si.trapezoid)
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """Integrate samples by the trapezoidal rule."""
    return np.trapezoid(y, x, dx, axis)


cumulative_trapezoid = mirrors_twin(
    si.cumulative_trapezoid, __name__, "Integrate samples cumulatively by the trapezoidal rule."
)
simpson = mirrors_twin(si.simpson, __name__, "Integrate samples by Simpson's rule.")
romb = mirrors_twin(si.romb, __name__, "Integrate samples by Romberg's rule.")


@mirrors(si.cumulative_simpson)
def cumulative_simpson(y, *, x=None, dx=1.0, axis=-1, initial=None):
    """Integrate samples cumulatively by Simpson's rule."""
    y, x, dx, initial = [a if a is None else _floating(a) for a in (y, x, dx, initial)]
    # SciPy looks at the arguments, with numbers in place of tensors: its own code writes into arrays.
    plain = [np.ones(a.shape) if isinstance(a, Tracer) else a for a in (y, dx, initial)]
    points = np.cumsum(np.ones(x.shape), axis if x.ndim > 1 else 0) if isinstance(x, Tracer) else x
    si.cumulative_simpson(plain[0], x=points, dx=plain[1], axis=axis, initial=plain[2])
    along = lambda a: np.moveaxis(a, axis, -1) if np.ndim(a) > 1 else a
    y = along(y)
    d = np.broadcast_to(along(dx), (*y.shape[:-1], y.shape[-1] - 1)) if x is None else np.diff(along(x), axis=-1)
    if y.shape[-1] < 3:
        out = np.cumsum(d * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)
    else:
        out = _each_interval(y, d, x is None)
    if initial is not None:
        first = np.broadcast_to(along(initial), (*y.shape[:-1], 1))
        out = np.concatenate([first, out + first], -1)
    return np.moveaxis(out, -1, axis)


def _floating(x):
    x = operand(x)
    return x if np.result_type(x).kind in "fc" else (x if hasattr(x, "astype") else np.asarray(x)).astype(np.float64)


def _each_interval(y, d, equal: bool):
    """Integrate interval after interval the parabola through it and its neighbour, on the right for even ones."""
    rule = _first_of_equal if equal else _first_of_two
    forward = rule(y, d)
    backward = np.flip(rule(np.flip(y, -1), np.flip(d, -1)), -1)
    n = y.shape[-1] - 1
    number = np.arange(n)
    takes_right = (number % 2 == 0) & (number < n - 1)
    first = np.concatenate([forward, forward[..., -1:]], -1)
    second = np.concatenate([backward[..., :1], backward], -1)
    return np.cumsum(np.where(takes_right, first, second), axis=-1)


def _first_of_equal(y, d):
    return d[..., :-1] / 3 * (5 * y[..., :-2] / 4 + 2 * y[..., 1:-1] - y[..., 2:] / 4)


def _first_of_two(y, d):
    a, b = d[..., :-1], d[..., 1:]
    part = a / (a + b)
    product = part * (a / b)
    return a / 6 * ((3 - part) * y[..., :-2] + (3 + product + part) * y[..., 1:-1] - product * y[..., 2:])
