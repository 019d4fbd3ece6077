"""The complex step: f(x + i·h·v) has h times the derivative in its imaginary part, with no cancellation.

Exact to rounding wherever the function is real-analytic and its code is complex-analytic; silently wrong where it
takes absolute values, real parts or conjugates. So an answer is only evidence together with another oracle:
`check_function` compares it with central differences before it lets it contradict anything.

A function takes a vector of C^n and returns one of C^m, as in `differences`, whose answers these are. Not for functions
of complex arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from dualad.errors import ShapeError

from .differences import along_each
from .estimate import Estimate, Unavailable, each, value_at

__all__ = ["derivative", "jacobian", "second_derivative"]

_STEP = 1e-20

Vector = np.ndarray
Function = Callable[[Vector], Vector]


def derivative(f: Function, x: Vector, v: Vector) -> Estimate | Unavailable:
    """Return the derivative of `f` at `x` along `v`, shape (m,).

    Examples
    --------
    >>> da.testing.complex_step.derivative(np.sin, np.array([0.0]), np.array([2.0])).value
    array([2.])
    """
    value = _call(f, x + 0j)
    if isinstance(value, Unavailable):
        return value
    moved = _call(f, x + 1j * _STEP * v)
    if isinstance(moved, Unavailable):
        return moved
    if not np.iscomplexobj(moved):
        return Unavailable("the result comes back real: the code takes abs(), .real or a conversion to float")
    with np.errstate(all="ignore"):
        strayed = ~np.isclose(moved.real, np.asarray(value).real, rtol=1e-8, atol=0.0, equal_nan=True)
    if strayed.any():
        return Unavailable("the real part changes: the code treats complex numbers differently")
    return Estimate(moved.imag / _STEP)


def jacobian(f: Function, x: Vector) -> Estimate | Unavailable:
    """Return the (m, n) Jacobian of `f` at `x`, a column at a time.

    Examples
    --------
    >>> da.testing.complex_step.jacobian(lambda x: x * x, np.array([1.0, 3.0])).value
    array([[2., 0.],
           [0., 6.]])
    """
    return each(np.eye(x.size), lambda v: derivative(f, x, v), axis=1)


def second_derivative(
    f: Callable[[Vector], complex], x: Vector, v: Vector, directions: Vector
) -> Estimate | Unavailable:
    """Return uᵀ H v of a scalar `f` for each row u of ``directions``: a complex step along u, differences along v.

    Examples
    --------
    >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    >>> da.testing.complex_step.second_derivative(lambda x: x[0] ** 2 * x[1], x, v, np.eye(2)).value.round(9)
    array([4., 2.])
    """

    def scalar(z: Vector) -> Vector:
        return np.atleast_1d(np.asarray(f(z)))

    for u in directions:
        first = derivative(scalar, x, u)
        if isinstance(first, Unavailable):
            return first

    def slope(u: Vector, h: float) -> tuple[Vector, Vector]:
        up, down = derivative(scalar, x + h * v, u), derivative(scalar, x - h * v, u)
        if isinstance(up, Unavailable) or isinstance(down, Unavailable):
            raise ValueError("it has no answer here")
        noise = np.finfo(np.float64).eps * (np.abs(up.value) + np.abs(down.value)) / h
        return (up.value - down.value) / (2 * h), noise

    found = along_each(directions, slope, levels=13)
    if isinstance(found, Unavailable):
        return Unavailable("the function does not take complex numbers beside the point")
    value, error = found
    size = np.maximum(np.abs(value), 1e-3 * np.abs(value).max(initial=0.0))
    settled = np.isfinite(value) & (error <= 1e-4 * size + 1e-12)
    if not settled.any():
        return Unavailable("differences of complex steps do not settle")
    return Estimate(value, np.where(settled, error, 0.0), settled)


def _call(f: Function, z: Vector) -> Vector | Unavailable:
    """Call `f` on complex numbers; whatever it objects to is the reason."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            found = value_at(f, z)
    except ShapeError as error:
        return Unavailable(error.what)
    if isinstance(found, Unavailable) and found.reason.startswith("ComplexWarning"):
        return Unavailable("the code discards imaginary parts (a real buffer, or a conversion)")
    return Unavailable(f"complex arguments raise {found.reason}") if isinstance(found, Unavailable) else found
