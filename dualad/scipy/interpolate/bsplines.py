"""B-splines: evaluation, derivatives, integrals, and the spline through given points.

A spline is evaluated by the recursion of Cox and de Boor on the k + 1 basis functions that are not zero at a point, so
points, coefficients and knots may be traced. Not for: smoothing splines, FITPACK.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import scipy.interpolate as si
import scipy.sparse as ss

from ...core.tracer import tracer_in
from ...errors import UnsupportedError
from ...ops.sparse_product import Pattern, csr_solve
from ...surface.arguments import normalize_axis
from ..mirror import known_value, mirrors, wide
from .piecewise import Interpolant, if_traced, interval, restore_axis, take_along

__all__ = ["BSpline", "make_interp_spline"]


class BSpline(Interpolant):
    """A spline Σ c[i] Bᵢ(x) of degree ``k`` with knots ``t``.

    Takes what ``scipy.interpolate.BSpline`` takes; knots, coefficients and points may be tensors.
    """

    def __init__(self, t, c, k, extrapolate=True, axis=0) -> None:
        k = operator.index(k)
        t, c = wide(t), wide(c)
        axis = normalize_axis(axis, np.ndim(c), "scipy.interpolate.BSpline")
        c = np.moveaxis(c, axis, 0)
        if tracer_in(t, c) is None:
            self._original = si.BSpline(t, np.moveaxis(c, 0, axis), k, extrapolate, axis)
        else:
            self._original = None
            if k < 0:
                raise ValueError("Spline order cannot be negative.")
            if np.ndim(t) != 1:
                raise ValueError("Knot vector must be one-dimensional.")
            if t.shape[0] < 2 * k + 2:
                raise ValueError(f"Need at least {2 * k + 2} knots for degree {k}")
            if c.shape[0] < t.shape[0] - k - 1:
                raise ValueError("Knots, coefficients and degree are inconsistent.")
        self._set(t, c, k, extrapolate if extrapolate == "periodic" else bool(extrapolate), axis)

    def _set(self, t, c, k: int, extrapolate, axis: int) -> None:
        self.t, self.c, self.k, self.extrapolate, self.axis = t, c, k, extrapolate, axis

    @classmethod
    def construct_fast(cls, t, c, k, extrapolate=True, axis=0) -> BSpline:
        """Construct a spline without checks; the axis of interpolation of ``c`` is its first one."""
        out = cls.__new__(cls)
        out._set(t, c, k, extrapolate, axis)
        plain = tracer_in(t, c) is None
        out._original = si.BSpline.construct_fast(t, c, k, extrapolate, axis) if plain else None
        return out

    def _ends(self):
        return self.t[self.k], self.t[self.t.shape[0] - self.k - 1]

    @if_traced
    def __call__(self, x, nu=0, extrapolate=None):
        """Evaluate the spline or its derivative of order ``nu``."""
        if nu < 0:
            raise ValueError(f"invalid derivative order nu={nu}")
        x = wide(x)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        low, high = self._ends()
        if extrapolate == "periodic":
            x = low + (x - low) % (high - low)
        t, c, k = self.t, self.c[: self.t.shape[0] - self.k - 1], self.k
        number = interval(t, x, k, t.shape[0] - k - 2)
        for _ in range(min(nu, k)):
            t, c, k, number = *_differentiate(t, c, k), number - 1
        trailing = (1,) * (np.ndim(c) - 1)
        out = None
        for r, weight in enumerate(_basis(t, x, k, number)):
            term = weight.reshape((*weight.shape, *trailing)) * take_along(c, number + (r - k))
            out = term if out is None else out + term
        if nu > self.k:
            out = 0 * out
        if not extrapolate:
            outside = ((x < low) | (x > high)).reshape((*x.shape, *trailing))
            out = np.where(outside, math.nan, out)
        return restore_axis(out, np.ndim(x), self.axis)

    def derivative(self, nu=1) -> BSpline:
        """Return the derivative of some order, a spline of lower degree."""
        if self._original is not None:
            return _ours(self._original.derivative(nu))
        if nu < 0:
            return self.antiderivative(-nu)
        if nu > self.k:
            raise ValueError(f"Order of derivative ({nu}) must be <= k = {self.k}")
        t, c, k = self.t, self.c[: self.t.shape[0] - self.k - 1], self.k
        for _ in range(nu):
            t, c, k = _differentiate(t, c, k)
        return BSpline.construct_fast(t, c, k, self.extrapolate, self.axis)

    def antiderivative(self, nu=1) -> BSpline:
        """Return the antiderivative of some order, zero at the left end."""
        if self._original is not None:
            return _ours(self._original.antiderivative(nu))
        if nu < 0:
            return self.derivative(-nu)
        t, c, k = self.t, self.c[: self.t.shape[0] - self.k - 1], self.k
        for _ in range(nu):
            width = (t[k + 1 :] - t[: t.shape[0] - k - 1]).reshape((-1,) + (1,) * (np.ndim(c) - 1))
            sums = np.cumsum(c * width, axis=0) / (k + 1)
            c = np.concatenate([np.zeros_like(sums[:1]), sums])
            t, k = np.concatenate([t[:1], t, t[-1:]]), k + 1
        return BSpline.construct_fast(t, c, k, False if self.extrapolate == "periodic" else self.extrapolate, self.axis)

    @if_traced
    def integrate(self, a, b, extrapolate=None):
        """Integrate from a to b."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if extrapolate == "periodic":
            raise UnsupportedError(
                "scipy.interpolate.BSpline.integrate was called on a tensor with extrapolate='periodic'.",
                "which periods the limits lie in depends on their values",
                "move the limits into one period",
            )
        a, b = wide(a), wide(b)
        if not extrapolate:
            low, high = self._ends()
            a, b = np.clip(a, low, high), np.clip(b, low, high)
        whole = self.antiderivative()
        return whole(b, 0, True) - whole(a, 0, True)


def _ours(spline) -> BSpline:
    return BSpline.construct_fast(spline.t, spline.c, spline.k, spline.extrapolate, spline.axis)


def _differentiate(t, c, k: int):
    """Return knots, coefficients k (cᵢ₊₁ − cᵢ)/(tᵢ₊ₖ₊₁ − tᵢ₊₁) and degree of the derivative."""
    n = c.shape[0]
    width = (t[k + 1 : k + n] - t[1:n]).reshape((-1,) + (1,) * (np.ndim(c) - 1))
    none = width == 0
    return t[1:-1], np.where(none, 0.0, k * np.diff(c, axis=0) / np.where(none, 1.0, width)), k - 1


def _basis(t, x, k: int, number) -> list:
    """Return the k + 1 basis functions that are not zero in an interval."""
    knots = {offset: take_along(t, number + offset) for offset in range(1 - k, k + 1)}
    values: list[Any] = [np.ones(np.shape(x))]
    for j in range(1, k + 1):
        saved, longer = None, []
        for r, value in enumerate(values):
            right, left = knots[r + 1], knots[1 - j + r]
            share = value / (right - left)
            rising = (right - x) * share
            longer.append(rising if saved is None else saved + rising)
            saved = (x - left) * share
        values = [*longer, saved]
    return values


# ── the spline through given points ──────────────────────────────────────────────────────────────────────────────
#
# Its coefficients solve a linear system whose matrix, of values and derivatives of basis functions, is constant: the
# points x and the knots are.


@mirrors(None)
def make_interp_spline(x, y, k=3, t=None, bc_type=None, axis=0, check_finite=True):
    """Make the spline through given points; the data and the conditions at the ends may be tensors."""
    if tracer_in(x, y, t, bc_type) is None:
        return _ours(si.make_interp_spline(x, y, k, t, bc_type, axis, check_finite))
    if tracer_in(x, t) is not None:
        raise UnsupportedError(
            "scipy.interpolate.make_interp_spline was given traced points x or knots t.",
            "the matrix of its system is made by SciPy from their values",
            "keep them constant, or use dualad.scipy.interpolate.CubicSpline, whose points may be traced",
        )
    x, y, k = np.asarray(x, float), wide(y), operator.index(k)
    axis = normalize_axis(axis, np.ndim(y), "scipy.interpolate.make_interp_spline")
    y = np.moveaxis(y, axis, 0)
    values = known_value(y)
    if check_finite and values is not None and not np.isfinite(values).all():
        raise ValueError("array must not contain infs or NaNs")
    periodic = isinstance(bc_type, str) and bc_type == "periodic"
    if periodic and values is not None and not np.allclose(values[0], values[-1], atol=1e-15):
        raise ValueError("First and last points does not match while periodic case expected")
    ends = [[], []] if periodic else _end_derivatives(bc_type, y.shape[1:])
    # SciPy finds the knots, and checks the rest of the arguments, on data that are zero.
    nothing = [[(order, 0.0) for order, _ in end] or None for end in ends]
    empty = si.make_interp_spline(
        x, np.zeros(len(x)), k, t, bc_type if periodic else nothing, check_finite=check_finite
    )
    knots = empty.t
    extrapolate = empty.extrapolate
    if k == 0 or (k == 1 and t is None):
        return BSpline.construct_fast(knots, y, k, extrapolate, axis)
    count = len(knots) - k - 1
    row = lambda end, order: _derivative_row(knots, k, count, x[end], order)
    at = [[(row(end, order), np.expand_dims(value, 0)) for order, value in ends[end]] for end in (0, -1)]
    turns = range(1, k) if periodic else ()
    around = [(row(0, order) - row(-1, order), np.zeros((1, *y.shape[1:]))) for order in turns]
    rows, right = zip(*at[0], (si.BSpline.design_matrix(x, knots, k), y), *at[1], *around, strict=True)
    matrix = ss.vstack(rows).tocsr()
    right = np.concatenate(right)
    flat = right.reshape((count, right.size // count if count else 0))
    pattern = Pattern(matrix.indices, matrix.indptr, count)
    c = csr_solve(matrix.data, flat, pattern=pattern, transposed=False).reshape(right.shape)
    return BSpline.construct_fast(knots, c, k, extrapolate, axis)


def _end_derivatives(bc_type, shape: tuple[int, ...]) -> list[list[tuple]]:
    """Return for each end the list of (order, value)."""
    if bc_type is None or isinstance(bc_type, str):
        bc_type = (bc_type, bc_type)
    out: list[Any] = []
    for end in bc_type:
        if end is None or (isinstance(end, str) and end == "not-a-knot"):
            out.append([])
        elif isinstance(end, str):
            if end not in ("clamped", "natural"):
                raise ValueError(f"Unknown boundary condition : {end}")
            out.append([(1 if end == "clamped" else 2, np.zeros(shape))])
        else:
            out.append([(operator.index(order), np.broadcast_to(wide(value), shape)) for order, value in end])
    return out


def _derivative_row(knots, k: int, count: int, x: float, order: int):
    """Return the derivatives of all basis functions at a point, as a sparse row."""
    number = int(interval(knots, np.float64(x), k, count - 1))
    local = np.zeros((count, k + 1))
    local[np.arange(number - k, number + 1), np.arange(k + 1)] = 1
    values = si.BSpline(knots, local, k)(x, order)
    return ss.csr_array((values, (np.zeros(k + 1, int), np.arange(number - k, number + 1))), shape=(1, count))
