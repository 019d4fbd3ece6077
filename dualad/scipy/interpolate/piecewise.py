"""Piecewise polynomials: splines and interpolants given by coefficients for each interval between knots.

Coefficients, and so the data they are computed from, the knots and the points of evaluation may be traced. A value at a
knot belongs to the interval on its right, the value at the last knot to the last interval.
Not for: B-splines (``bsplines.py``) and grids (``grids.py``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.interpolate as si

from ...core.tables import Verdict
from ...core.tracer import tracer_in
from ...errors import UnsupportedError
from ...jvp import stop_gradient
from ...ops import indexing
from ...ops.sparse_product import Pattern, csr_solve
from ...surface.arguments import normalize_axis
from ..mirror import MIRRORED, known_value, wide

__all__ = [
    "Akima1DInterpolator", "CubicHermiteSpline", "CubicSpline", "Interpolant", "PPoly", "PchipInterpolator",
    "if_traced", "interval", "restore_axis", "take_along",
]  # fmt: skip


def interval(knots, x, first: int, last: int):
    """Return the number of the interval of each point, from ``first`` to ``last``."""
    return np.clip(np.searchsorted(stop_gradient(knots), stop_gradient(x), side="right") - 1, first, last)


def take_along(values, index, axis: int = 0):
    """Return entries along an axis; array and index may each be traced."""
    full = tuple([(0, n, 1) for n in values.shape[:axis]])
    return indexing.index(values, index, template=(*full, indexing.ARRAY))


def restore_axis(out, points: int, axis: int):
    """Move the axes of the points, which stand first, to where the axis of interpolation was."""
    order = list(range(np.ndim(out)))
    return np.transpose(out, order[points : points + axis] + order[:points] + order[points + axis :])


class Interpolant:
    """An interpolant of SciPy's whose data may be tensors; what has no version here is SciPy's, for plain data."""

    _original: Any = None

    def __init_subclass__(cls) -> None:
        if not cls.__name__.startswith("_"):
            MIRRORED[f"scipy.interpolate.{cls.__name__}"] = Verdict("composite")

    def plain(self):
        """Return SciPy's interpolant, or None if the data are traced."""
        return self._original

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        kind = type(self).__name__
        plain = self.plain()
        if plain is None:
            if not hasattr(getattr(si, kind), name):
                raise AttributeError(f"{kind!r} object has no attribute {name!r}")
            raise UnsupportedError(
                f"scipy.interpolate.{kind}.{name} was asked of an interpolant of traced data.",
                "it has no differentiable version here",
                "evaluate the interpolant, its derivatives or its integrals",
            )
        return getattr(plain, name)


def if_traced(ours: Callable) -> Callable:
    """Decorate a method of an interpolant: SciPy's is called if neither the data nor the arguments are traced."""

    @functools.wraps(ours)
    def method(self: Interpolant, *args: Any, **kwargs: Any) -> Any:
        plain = self.plain()
        if plain is None or tracer_in(*args, *kwargs.values()) is not None:
            return ours(self, *args, **kwargs)
        return getattr(plain, ours.__name__)(*args, **kwargs)

    return method


# ── evaluation ───────────────────────────────────────────────────────────────────────────────────────────────────


class PPoly(Interpolant):
    """A piecewise polynomial; ``c[m, i]`` is the coefficient of (x − x[i])^(k−m) in interval i.

    Takes what ``scipy.interpolate.PPoly`` takes; ``c``, the breakpoints ``x`` and the points it is called at may be
    tensors. Attributes without a differentiable version are those of SciPy's object, if nothing is traced.
    """

    def __init__(self, c, x, extrapolate=None, axis=0) -> None:
        c, x = wide(c), wide(x)
        axis = normalize_axis(axis, np.ndim(c) - 1, "scipy.interpolate.PPoly")
        if axis:
            c = np.moveaxis(np.moveaxis(c, axis + 1, 0), axis + 1, 0)
        self._set(c, x, extrapolate, axis)

    def _set(self, c, x, extrapolate, axis: int) -> None:
        self.c, self.x, self.axis = c, x, axis
        self.extrapolate = True if extrapolate is None else extrapolate

    def plain(self):
        """Return SciPy's piecewise polynomial, or None if coefficients or breakpoints are traced."""
        if tracer_in(self.c, self.x) is not None:
            return None
        return si.PPoly.construct_fast(self.c, self.x, self.extrapolate, self.axis)

    @if_traced
    def __call__(self, x, nu=0, extrapolate=None):
        """Evaluate the polynomial or its derivative of order ``nu``."""
        if nu < 0:
            raise ValueError("Order of derivative cannot be negative")
        x = wide(x)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        low, high = self.x[0], self.x[-1]
        if extrapolate == "periodic":
            x = low + (x - low) % (high - low)
        number = interval(self.x, x, 0, self.c.shape[1] - 1)
        step = x - take_along(self.x, number)
        step = step.reshape((*step.shape, *(1,) * (np.ndim(self.c) - 2)))
        c = take_along(self.c, number, 1)
        degree = self.c.shape[0] - 1
        out = np.zeros(c.shape[1:], c.dtype) if degree < nu else None
        for m in range(degree - nu + 1):
            term = c[m] * float(math.perm(degree - m, nu))
            out = term if out is None else out * step + term
        if not extrapolate:
            outside = (x < low) | (x > high)
            out = np.where(outside.reshape(step.shape), math.nan, out)
        return restore_axis(out, np.ndim(x), self.axis)

    def derivative(self, nu=1) -> PPoly:
        """Return the derivative of some order."""
        plain = self.plain()
        if plain is not None:
            return _ours(plain.derivative(nu))
        if nu < 0:
            return self.antiderivative(-nu)
        degree = self.c.shape[0] - 1
        if degree < nu:
            return _ours(self, c=np.zeros((1, *self.c.shape[1:])) * self.c[:1])
        factors = np.array([float(math.perm(degree - m, nu)) for m in range(degree - nu + 1)])
        return _ours(self, c=self.c[: degree - nu + 1] * factors.reshape((-1,) + (1,) * (np.ndim(self.c) - 1)))

    def antiderivative(self, nu=1) -> PPoly:
        """Return the antiderivative of some order, zero at the first breakpoint."""
        plain = self.plain()
        if plain is not None:
            return _ours(plain.antiderivative(nu))
        if nu <= 0:
            return self.derivative(-nu)
        c, trailing = self.c, (1,) * (np.ndim(self.c) - 2)
        length = np.diff(self.x).reshape((-1, *trailing))
        for _ in range(nu):
            order = np.arange(c.shape[0], 0, -1.0)
            c = c / order.reshape((-1, 1, *trailing))
            total = c[0]
            for row in c[1:]:
                total = total * length + row
            total = np.cumsum(total * length, axis=0)
            start = np.concatenate([np.zeros_like(total[:1]), total[:-1]])
            c = np.concatenate([c, np.expand_dims(start, 0)])
        return _ours(self, c=c, extrapolate=False if self.extrapolate == "periodic" else self.extrapolate)

    @if_traced
    def integrate(self, a, b, extrapolate=None):
        """Integrate from a to b."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        whole = self.antiderivative()
        if extrapolate != "periodic":
            return whole(b, 0, extrapolate) - whole(a, 0, extrapolate)
        low, high = self.x[0], self.x[-1]
        period = whole(high, 0, True)

        def upto(x):
            turns = stop_gradient(np.floor((x - low) / (high - low)))
            return turns * period + whole(x - turns * (high - low), 0, True)

        return upto(wide(b)) - upto(wide(a))


def _ours(plain, **changed) -> PPoly:
    """Copy a piecewise polynomial of SciPy's or ours, replacing the given attributes."""
    out = PPoly.__new__(PPoly)
    out._set(**{name: getattr(plain, name) for name in ("c", "x", "extrapolate", "axis")} | changed)
    return out


# ── interpolants ─────────────────────────────────────────────────────────────────────────────────────────────────


def _data(x, y, axis: int, name: str):
    """Return knots, data with the axis of interpolation first, lengths of intervals that broadcast, and the axis."""
    x, y = wide(x), wide(y)
    axis = normalize_axis(axis, np.ndim(y), f"scipy.interpolate.{name}")
    if np.ndim(x) != 1:
        raise ValueError("`x` must be 1-dimensional.")
    if x.shape[0] < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    if x.shape[0] != y.shape[axis]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    for what, values in (("x", known_value(x)), ("y", known_value(y))):
        if values is not None and not np.isfinite(values).all():
            raise ValueError(f"`{what}` must contain only finite values.")
    if known_value(x) is not None and (np.diff(known_value(x)) <= 0).any():
        raise ValueError("`x` must be strictly increasing sequence.")
    y = np.moveaxis(y, axis, 0)
    return x, y, np.diff(x).reshape((-1,) + (1,) * (np.ndim(y) - 1)), axis


def _hermite(y, slopes, h):
    """Return the coefficients of the cubic polynomials with given values and slopes at the knots."""
    mean = np.diff(y, axis=0) / h
    t = (slopes[:-1] + slopes[1:] - 2 * mean) / h
    return np.stack([t / h, (mean - slopes[:-1]) / h - t, slopes[:-1] + 0 * y[:-1], y[:-1] + 0 * slopes[:-1]])


class _Cubic(PPoly):
    """A piecewise cubic polynomial from values and slopes at the knots."""

    def _build(
        self, original: Callable, x, y, slopes: Callable, beyond, real: bool = False, *, axis: int, **options
    ) -> None:
        """Take SciPy's interpolant; if anything is traced, compute ours from ``slopes(y, h)`` at the knots."""
        self._original = None
        if tracer_in(x, y, axis, *options.values()) is None:
            self._original = plain = original(x, y, axis=axis, **options)
            self._set(plain.c, plain.x, plain.extrapolate, plain.axis)
            return
        knots, values, h, place = _data(x, y, axis, original.__name__)
        if real and values.dtype.kind == "c":
            raise ValueError(f"`{original.__name__}` only works with real values for `y`.")
        self._set(_hermite(values, slopes(values, h), h), knots, beyond, place)

    def plain(self):
        """Return SciPy's interpolant, or None if the data are traced."""
        return self._original


class CubicHermiteSpline(_Cubic):
    """``scipy.interpolate.CubicHermiteSpline``: values and slopes at the knots; all arguments may be tensors."""

    def __init__(self, x, y, dydx, axis=0, extrapolate=None) -> None:
        def given(values, h):
            slopes = np.moveaxis(wide(dydx), axis, 0)
            if slopes.shape != values.shape:
                raise ValueError("The shapes of `y` and `dydx` must be identical.")
            return slopes

        options = {"dydx": dydx, "axis": axis, "extrapolate": extrapolate}
        self._build(si.CubicHermiteSpline, x, y, given, extrapolate, **options)


class PchipInterpolator(_Cubic):
    """``scipy.interpolate.PchipInterpolator``: monotone where the data are; knots and data may be tensors."""

    def __init__(self, x, y, axis=0, extrapolate=None) -> None:
        options = {"axis": axis, "extrapolate": extrapolate}
        self._build(si.PchipInterpolator, x, y, _monotone_slopes, extrapolate, real=True, **options)


def _monotone_slopes(y, h):
    """Return weighted harmonic means of the slopes on both sides, zero where they differ in sign."""
    m = np.diff(y, axis=0) / h
    if y.shape[0] == 2:
        return np.concatenate([m, m])
    before, after = m[:-1], m[1:]
    flat = (np.sign(before) != np.sign(after)) | (before == 0) | (after == 0)
    before, after = np.where(flat, 1.0, before), np.where(flat, 1.0, after)
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    inner = np.where(flat, 0.0, (w1 + w2) / (w1 / before + w2 / after))
    first = _one_sided(h[:1], h[1:2], m[:1], m[1:2])
    last = _one_sided(h[-1:], h[-2:-1], m[-1:], m[-2:-1])
    return np.concatenate([first, inner, last])


def _one_sided(h0, h1, m0, m1):
    d = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = (np.sign(m0) != np.sign(m1)) & (np.abs(d) > 3 * np.abs(m0))
    return np.where(np.sign(d) != np.sign(m0), 0.0, np.where(steep, 3 * m0, d))


class Akima1DInterpolator(_Cubic):
    """``scipy.interpolate.Akima1DInterpolator``: methods "akima" and "makima"; knots and data may be tensors."""

    def __init__(self, x, y, axis=0, *, method="akima", extrapolate=None) -> None:
        options = {"axis": axis, "method": method, "extrapolate": extrapolate}
        beyond = extrapolate if extrapolate == "periodic" else bool(extrapolate)
        slopes = functools.partial(_akima_slopes, method=method)
        self._build(si.Akima1DInterpolator, x, y, slopes, beyond, real=True, **options)


def _akima_slopes(y, h, method: str):
    if method not in ("akima", "makima"):
        raise NotImplementedError(f"`method`={method} is unsupported.")
    m = np.diff(y, axis=0) / h
    if y.shape[0] == 2:
        return np.concatenate([m, m])
    left, right = 2 * m[:1] - m[1:2], 2 * m[-1:] - m[-2:-1]
    m = np.concatenate([2 * left - m[:1], left, m, right, 2 * right - m[-1:]])
    change = np.abs(np.diff(m, axis=0))
    if method == "makima":
        change = change + 0.5 * np.abs(m[1:] + m[:-1])
    after, before = change[2:], change[:-2]
    total = after + before
    largest = np.max(total) if total.size else -math.inf
    sure = total > 1e-9 * largest
    share = before / np.where(sure, total, 1.0)
    return np.where(sure, m[1:-2] + share * (m[2:-1] - m[1:-2]), 0.5 * (m[3:] + m[:-3]))


# ── the cubic spline ─────────────────────────────────────────────────────────────────────────────────────────────
#
# With h the lengths of the intervals and m the slopes of the chords, the slopes s at the knots solve
#
#     hᵢ sᵢ₋₁ + 2 (hᵢ₋₁ + hᵢ) sᵢ + hᵢ₋₁ sᵢ₊₁ = 3 (hᵢ mᵢ₋₁ + hᵢ₋₁ mᵢ),    0 < i < n − 1,
#
# with a further equation at each end; periodic, they are n − 1 unknowns and the equations go round.


class CubicSpline(_Cubic):
    """``scipy.interpolate.CubicSpline``: twice continuously differentiable; knots, data and end slopes may be tensors.

    ``bc_type`` is "not-a-knot", "clamped", "natural", "periodic", or for each end a name or ``(order, value)``. That
    periodic data end as they begin is checked where they are known.
    """

    def __init__(self, x, y, axis=0, bc_type="not-a-knot", extrapolate=None) -> None:
        options = {"axis": axis, "bc_type": bc_type, "extrapolate": extrapolate}
        periodic = isinstance(bc_type, str) and bc_type == "periodic"
        slopes = lambda y, h: _spline_slopes(y, h, _end_conditions(bc_type, y))
        self._build(
            si.CubicSpline, x, y, slopes, "periodic" if extrapolate is None and periodic else extrapolate, **options
        )


def _end_conditions(bc_type, y) -> list:
    if isinstance(bc_type, str):
        values = known_value(y)
        if bc_type == "periodic" and values is not None and not np.allclose(values[0], values[-1], 1e-15, 1e-15):
            raise ValueError("The first and last `y` point along axis must be identical when bc_type='periodic'.")
        bc_type = (bc_type, bc_type)
    elif len(bc_type) != 2:
        raise ValueError("`bc_type` must contain 2 elements to specify start and end conditions.")
    elif any(isinstance(bc, str) and bc == "periodic" for bc in bc_type):
        raise ValueError("'periodic' `bc_type` is defined for both curve ends and cannot be used with others.")
    return [_end_condition(bc, y.shape[1:]) for bc in bc_type]


def _end_condition(bc, shape: tuple[int, ...]):
    if isinstance(bc, str):
        if bc in ("not-a-knot", "periodic"):
            return bc
        if bc not in ("clamped", "natural"):
            raise ValueError(f"bc_type={bc} is not allowed.")
        return (1 if bc == "clamped" else 2), np.zeros(shape)
    order, value = bc
    if order not in (1, 2):
        raise ValueError("The specified derivative order must be 1 or 2.")
    if np.shape(value) != shape:
        raise ValueError(f"`deriv_value` shape {np.shape(value)} is not the expected one {shape}.")
    return order, wide(value)


def _spline_slopes(y, h, ends: list):
    n, chord = y.shape[0], np.diff(y, axis=0) / h
    if n == 2:
        ends = [(1, chord[0]) if isinstance(end, str) else end for end in ends]
    if n == 3 and ends[0] == ends[1] == "not-a-knot":  # a parabola
        middle = (h[:1] * chord[1:] + h[1:] * chord[:1]) / (h[:1] + h[1:])
        return np.concatenate([2 * chord[:1] - middle, middle, 2 * chord[1:] - middle])
    if n == 3 and ends[0] == "periodic":
        slope = (chord / h).sum(0, keepdims=True) / (1 / h).sum(0, keepdims=True)
        return np.concatenate([slope] * 3)
    if ends[0] == "periodic":
        before = np.concatenate([h[-1:], h[:-1]])
        chord_before = np.concatenate([chord[-1:], chord[:-1]])
        rows = [h, 2 * (before + h), before]
        slopes = _solve(rows, 3 * (h * chord_before + before * chord), True)
        return np.concatenate([slopes, slopes[:1]])
    first, last = _end_row(ends[0], h, chord, 1), _end_row(ends[1], np.flip(h, 0), np.flip(chord, 0), -1)
    zero = np.zeros_like(h[:1])
    rows = [
        np.concatenate([zero, h[1:], last[1]]),
        np.concatenate([first[0], 2 * (h[:-1] + h[1:]), last[0]]),
        np.concatenate([first[1], h[:-1], zero]),
    ]
    inner = 3 * (h[1:] * chord[:-1] + h[:-1] * chord[1:])
    return _solve(rows, np.concatenate([first[2], inner, last[2]]), False)


def _end_row(end, h, chord, direction: int):
    """Return the two coefficients and the right-hand side of the equation at an end, seen from that end."""
    if end == "not-a-knot":
        both = h[:1] + h[1:2]
        right = ((h[:1] + 2 * both) * h[1:2] * chord[:1] + h[:1] ** 2 * chord[1:2]) / both
        return h[1:2], both, right
    order, value = end
    value = np.expand_dims(value, 0)
    one, zero = np.ones_like(h[:1]), np.zeros_like(h[:1])
    if order == 1:
        return one, zero, value + 0 * chord[:1]
    return 2 * h[:1], h[:1], h[:1] * (3 * chord[:1] - direction * 0.5 * h[:1] * value)


def _solve(rows: list, right, cyclic: bool):
    """Solve a tridiagonal system whose diagonals below, on and above stand in ``rows``."""
    n = right.shape[0]
    places = np.add.outer(np.arange(n), [-1, 0, 1])
    data = np.stack([row.reshape((n,)) for row in rows], 1).reshape((3 * n,))
    if cyclic:
        pattern = Pattern((places % n).ravel(), np.arange(0, 3 * n + 1, 3), n)
    else:
        data, places = data[1:-1], places.ravel()[1:-1]
        starts = np.arange(-1, 3 * n, 3)
        starts[0], starts[-1] = 0, 3 * n - 2
        pattern = Pattern(places, starts, n)
    flat = right.reshape((n, -1)) if right.size else right.reshape((n, 0))
    return csr_solve(data, flat, pattern=pattern, transposed=False).reshape(right.shape)
