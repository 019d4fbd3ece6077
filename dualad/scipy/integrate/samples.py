"""``scipy.integrate``: integrals of samples.

The rules are linear in the samples ``y`` and, where the points ``x`` are traced, differentiable in them too.
Not for: integrals of functions (``quad``, ``solve_ivp``, ...), which call the integrand on numbers.
"""

from __future__ import annotations

import numpy as np
import scipy.integrate as si

from ...core.tracer import Tracer
from ...surface.arguments import normalize_axis, operand
from ..mirror import mirrors
from ..twins import mirrors_twin

__all__ = ["cumulative_simpson", "cumulative_trapezoid", "romb", "simpson", "trapezoid"]


def _samples(y, axis, name: str):
    y = operand(y)
    return y, normalize_axis(axis, np.ndim(y), f"scipy.integrate.{name}")


def _floating(x):
    x = operand(x)
    return x if np.result_type(x).kind in "fc" else (x if hasattr(x, "astype") else np.asarray(x)).astype(np.float64)


def _points(x, y, axis: int):
    """Return the points, with as many axes as ``y``."""
    x = operand(x)
    if x.ndim == 1:
        x = x.reshape((1,) * axis + (-1,) + (1,) * (y.ndim - axis - 1))
    elif x.ndim != y.ndim:
        raise ValueError("If given, shape of x must be 1-D or the same as y.")
    if x.shape[axis] != y.shape[axis]:
        raise ValueError("If given, length of x along axis must be the same as y.")
    return x


def _along(axis: int, *cut) -> tuple:
    return (slice(None),) * axis + (slice(*cut),)


@mirrors(si.trapezoid)
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """Integrate samples by the trapezoidal rule."""
    return np.trapezoid(y, x, dx, axis)


@mirrors(si.cumulative_trapezoid)
def cumulative_trapezoid(y, x=None, dx=1.0, axis=-1, initial=None):
    """Integrate samples cumulatively by the trapezoidal rule."""
    y, axis = _samples(y, axis, "cumulative_trapezoid")
    if not y.shape[axis]:
        raise ValueError("At least one point is required along `axis`.")
    d = dx if x is None else np.diff(_points(x, y, axis), axis=axis)
    out = np.cumsum(d * (y[_along(axis, 1, None)] + y[_along(axis, None, -1)]) / 2.0, axis=axis)
    if initial is None:
        return out
    if isinstance(initial, Tracer) or not np.isscalar(initial) or initial != 0:
        raise ValueError("`initial` must be `None` or `0`.")
    return np.concatenate([np.zeros(_one(out, axis), out.dtype), out], axis)


def _one(x, axis: int) -> tuple[int, ...]:
    return (*x.shape[:axis], 1, *x.shape[axis + 1 :])


# ── Simpson's and Romberg's rules ────────────────────────────────────────────────────────────────────────────────

simpson = mirrors_twin(si.simpson, __name__, "Integrate samples by Simpson's rule.")
romb = mirrors_twin(si.romb, __name__, "Integrate samples by Romberg's rule.")


@mirrors(si.cumulative_simpson)
def cumulative_simpson(y, *, x=None, dx=1.0, axis=-1, initial=None):
    """Integrate samples cumulatively by Simpson's rule."""
    y, axis = _samples(_floating(y), axis, "cumulative_simpson")
    shape = y.shape
    if shape[axis] < 3:
        out = np.moveaxis(cumulative_trapezoid(y, x, dx, axis), axis, -1)
    else:
        d = _spacing(x, dx, shape, axis)
        out = _each_interval(np.moveaxis(y, axis, -1), d, x is None)
    if initial is not None:
        initial = _floating(initial)
        _check_one(initial, y.shape, axis, "initial")
        initial = np.moveaxis(np.broadcast_to(initial, _one(y, axis)), axis, -1)
        out = np.concatenate([initial, out + initial], -1)
    return np.moveaxis(out, -1, axis)


def _check_one(x, shape: tuple[int, ...], axis: int, name: str) -> None:
    if np.ndim(x) and np.shape(x) != (*shape[:axis], 1, *shape[axis + 1 :]):
        raise ValueError(
            f"If provided, `{name}` must either be a scalar or have the same shape as `y` but with only 1 point along"
            " `axis`."
        )


def _spacing(x, dx, shape: tuple[int, ...], axis: int):
    """Return the lengths of the intervals, along the last axis."""
    if x is None:
        dx = _floating(dx)
        _check_one(dx, shape, axis, "dx")
        wide = np.broadcast_to(dx, (*shape[:axis], shape[axis] - 1, *shape[axis + 1 :]))
        return np.moveaxis(wide, axis, -1)
    x = _floating(x)
    if x.shape != shape and x.shape != (shape[axis],):
        raise ValueError(
            "If given, shape of `x` must be the same as `y` or 1-D with the same length as `y` along `axis`."
        )
    d = np.diff(x if x.ndim == 1 else np.moveaxis(x, axis, -1), axis=-1)
    if isinstance(d, np.ndarray) and (d <= 0).any():
        raise ValueError("Input x must be strictly increasing.")
    return d


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
