"""Interpolation of tables: along an axis (``interp1d``) and on rectangular grids.

Not for: scattered points.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import scipy.interpolate as si

from ...core.tracer import tracer_in
from ...errors import UnsupportedError
from ...surface.arguments import normalize_axis, operand
from ..mirror import known_value, mirrors, wide
from .bsplines import make_interp_spline
from .piecewise import Interpolant, if_traced, interval, restore_axis, take_along

__all__ = ["RegularGridInterpolator", "interp1d", "interpn"]

_DEGREES = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3}
#: kind -> whether steps are half-way between the points, on which side of its points an interval is closed, and the
#: number of its entry
_STEPS = {
    "previous": (False, "right", -1), "next": (False, "left", 0), "nearest": (True, "left", 0),
    "nearest-up": (True, "right", 0),
}  # fmt: skip


class interp1d(Interpolant):
    """``scipy.interpolate.interp1d``: the table and the points may be tensors; with splines, ``x`` may not.

    A point out of bounds raises an error where its value is known; under ``vmap`` and ``trace`` it gives NaN.
    """

    def __init__(
        self, x, y, kind="linear", axis=-1, copy=True, bounds_error=None, fill_value=math.nan, assume_sorted=False
    ) -> None:
        self._original = None
        if tracer_in(x, y, fill_value) is None:
            self._original = si.interp1d(
                x, y, kind, axis, copy=copy, bounds_error=bounds_error, fill_value=fill_value,
                assume_sorted=assume_sorted,
            )  # fmt: skip
        x, y = wide(x), wide(y)
        self.axis = normalize_axis(axis, np.ndim(y), "scipy.interpolate.interp1d")
        self.x, self._y = x, np.moveaxis(y, self.axis, 0)
        if np.ndim(x) != 1:
            raise ValueError("the x array must have exactly one dimension.")
        if x.shape[0] != self._y.shape[0]:
            raise ValueError("x and y arrays must be equal in length along interpolation axis.")
        if not assume_sorted:
            order = np.argsort(x, kind="stable")
            self.x, self._y = take_along(x, order), take_along(self._y, order)
        self._kind = kind
        if isinstance(fill_value, str) and fill_value == "extrapolate":
            # Steps have nothing to continue where there is no previous (no next) entry.
            self._fill = (math.nan if kind == "previous" else None, math.nan if kind == "next" else None)
            single_nan = False
        else:
            pair = isinstance(fill_value, tuple) and len(fill_value) == 2
            self._fill = fill_value if pair else (fill_value, fill_value)
            single_nan = not pair and tracer_in(fill_value) is None and bool(np.all(np.isnan(fill_value)))
        self.bounds_error = bounds_error
        if bounds_error is None:
            self.bounds_error = single_nan
        self._spline = None
        if kind in _DEGREES or isinstance(kind, (int, np.integer)):
            degree = _DEGREES.get(kind, kind)
            if degree:
                self._spline = make_interp_spline(self.x, self._y, degree)
            self._kind = "spline" if degree else "previous"
        elif kind != "linear" and kind not in _STEPS:
            raise NotImplementedError(f"{kind} is unsupported: Use fitpack routines for other types.")

    @if_traced
    def __call__(self, x):
        """Interpolate."""
        x = wide(x)
        low, high = self.x[0], self.x[-1]
        below, above = x < low, x > high
        if self.bounds_error and known_value(below) is not None and known_value(above) is not None:
            if np.any(known_value(below)) or np.any(known_value(above)):
                raise ValueError("A value in x_new is outside the interpolation range.")
        out = self._step(x) if self._kind in _STEPS else self._spline(x, 0, True) if self._spline else self._linear(x)
        trailing = (1,) * (np.ndim(self._y) - 1)
        for outside, fill in zip((below, above), self._fill, strict=True):
            if fill is not None:
                out = np.where(outside.reshape((*x.shape, *trailing)), operand(fill), out)
        return restore_axis(out, np.ndim(x), self.axis)

    def _linear(self, x):
        number = interval(self.x, x, 0, self.x.shape[0] - 2)
        left, right = take_along(self.x, number), take_along(self.x, number + 1)
        share = ((x - left) / (right - left)).reshape((*np.shape(x), *(1,) * (np.ndim(self._y) - 1)))
        y = take_along(self._y, number)
        return y + share * (take_along(self._y, number + 1) - y)

    def _step(self, x):
        between, side, shift = _STEPS[self._kind]
        knots = self.x[:-1] + 0.5 * np.diff(self.x) if between else self.x
        number = np.searchsorted(knots, x, side=side) + shift
        return take_along(self._y, np.clip(number, 0, self._y.shape[0] - 1))


class RegularGridInterpolator(Interpolant):
    """``scipy.interpolate.RegularGridInterpolator`` with method "linear" or "nearest"; everything may be a tensor.

    A point out of bounds raises an error where its value is known; under ``vmap`` and ``trace`` it gives the fill
    value.
    """

    def __init__(self, points, values, method="linear", bounds_error=True, fill_value=math.nan, **options) -> None:
        self._original = None
        if tracer_in(points, values, fill_value) is None:
            self._original = si.RegularGridInterpolator(
                points, values, method, bounds_error=bounds_error, fill_value=fill_value, **options
            )
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self.values, grid = wide(values), [wide(p) for p in points]
        if len(grid) > np.ndim(self.values):
            raise ValueError(f"There are {len(grid)} point arrays, but values has {np.ndim(self.values)} dimensions")
        for i, p in enumerate(grid):
            if np.ndim(p) != 1 or p.shape[0] != self.values.shape[i]:
                raise ValueError(f"There are {np.size(p)} points and {self.values.shape[i]} values on dimension {i}")
            plain = known_value(p)
            if plain is not None and len(plain) > 1 and plain[0] > plain[-1]:
                grid[i], self.values = np.flip(p), np.flip(self.values, i)
            if known_value(grid[i]) is not None and (np.diff(known_value(grid[i])) <= 0).any():
                raise ValueError(f"The points in dimension {i} must be strictly ascending or descending")
        self.grid = tuple(grid)

    @if_traced
    def __call__(self, xi, method=None, *, nu=None):
        """Interpolate at points, whose coordinates stand along the last axis."""
        method = self.method if method is None else method
        if method not in ("linear", "nearest") or nu is not None:
            raise UnsupportedError(
                f"scipy.interpolate.RegularGridInterpolator with method {method!r} was called on tensors.",
                "only 'linear' and 'nearest' have a rule",
                "use one of these, or dualad.scipy.interpolate.make_interp_spline along one axis after the other",
            )
        if isinstance(xi, tuple):
            xi = np.stack(np.broadcast_arrays(*[wide(x) for x in xi]), -1)
        xi, count = wide(xi), len(self.grid)
        if xi.shape[-1] != count:
            if count == 1 and np.ndim(xi) == 1:
                xi = np.expand_dims(xi, -1)
            else:
                raise ValueError(f"The requested sample points xi have dimension {xi.shape[-1]} but this has {count}")
        flat = xi.reshape((-1, count)) if xi.size else xi.reshape((0, count))
        columns = [flat[:, i] for i in range(count)]
        outside = self._outside(columns)
        if method == "linear":
            out = self._linear(columns)
        else:
            out = self._at([number + np.where(share <= 0.5, 0, 1) for number, share in self._shares(columns)])
        if self.fill_value is not None:
            out = np.where(outside.reshape((-1,) + (1,) * (np.ndim(out) - 1)), operand(self.fill_value), out)
        return out.reshape((*xi.shape[:-1], *self.values.shape[count:]))

    def _outside(self, columns: list):
        outside = None
        for i, (x, grid) in enumerate(zip(columns, self.grid, strict=True)):
            beyond = (x < grid[0]) | (x > grid[-1])
            if self.bounds_error and known_value(beyond) is not None and np.any(known_value(beyond)):
                raise ValueError(f"One of the requested xi is out of bounds in dimension {i}")
            outside = beyond if outside is None else outside | beyond
        return outside

    def _shares(self, columns: list):
        """Return for each dimension the interval of each point, and its place in it, from 0 to 1."""
        for x, grid in zip(columns, self.grid, strict=True):
            if grid.shape[0] == 1:
                yield np.zeros(x.shape, int), 0 * x
                continue
            number = interval(grid, x, 0, grid.shape[0] - 2)
            left, right = take_along(grid, number), take_along(grid, number + 1)
            yield number, (x - left) / (right - left)

    def _at(self, numbers: list):
        position, count = 0, len(numbers)
        for number, n in zip(numbers, self.values.shape, strict=False):
            position = position * n + np.clip(number, 0, n - 1)
        size = math.prod(self.values.shape[:count])
        return take_along(self.values.reshape((size, *self.values.shape[count:])), position)

    def _linear(self, columns: list):
        places, total = list(self._shares(columns)), None
        trailing = (1,) * (np.ndim(self.values) - len(places))
        for corner in itertools.product((0, 1), repeat=len(places)):
            weight = 1.0
            for step, (_, share) in zip(corner, places, strict=True):
                weight = weight * (share if step else 1.0 - share)
            value = self._at([number + step for step, (number, _) in zip(corner, places, strict=True)])
            term = value * weight.reshape((-1, *trailing))
            total = term if total is None else total + term
        return total


@mirrors(si.interpn)
def interpn(points, values, xi, method="linear", bounds_error=True, fill_value=math.nan):
    """Interpolate on a rectangular grid."""
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)
