"""``scipy.ndimage``: linear filters, and interpolation at coordinates by splines of order 0 to 5.

Filters compute in double precision and answer in the dtype of the image, as SciPy's do; their weights may be traced,
and so may the width of a Gaussian. Not for: morphology, measurements.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
import scipy.ndimage as nd

from ..core.tracer import Tracer
from ..errors import InPlaceError, UnsupportedError
from ..jvp import stop_gradient
from ..ops import indexing, scans
from ..ops.filtering import convolve_nd
from ..surface.arguments import normalize_axes, normalize_axis, operand
from .mirror import falls_back, mirrors, wide

__all__ = [
    "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d", "gaussian_laplace",
    "laplace", "map_coordinates", "prewitt", "sobel", "spline_filter", "spline_filter1d", "uniform_filter",
    "uniform_filter1d",
]  # fmt: skip

_PAD = {
    "reflect": "symmetric", "grid-mirror": "symmetric", "constant": "constant", "grid-constant": "constant",
    "nearest": "edge", "mirror": "reflect", "wrap": "wrap", "grid-wrap": "wrap",
}  # fmt: skip


def _extend(x, axis: int, before: int, after: int, mode: str, cval):
    """Return x continued along an axis as a mode says."""
    if mode not in _PAD:
        raise RuntimeError("boundary mode not supported")
    widths = [(before, after) if i == axis else (0, 0) for i in range(np.ndim(x))]
    return np.pad(x, widths, _PAD[mode], **({"constant_values": cval} if _PAD[mode] == "constant" else {}))


def _dtype_of(output, *inputs) -> np.dtype:
    """Return the dtype of a result: that of the image (complex if anything is), or the one asked for."""
    image = np.result_type(inputs[0])
    if any(np.result_type(x).kind == "c" for x in inputs) and image.kind != "c":
        image = np.dtype(np.complex64) if image == np.float32 else np.dtype(np.complex128)
    if output is None:
        return image
    if isinstance(output, (np.ndarray, Tracer)):
        raise InPlaceError(
            "scipy.ndimage: output= was given an array.",
            "a plain array can't hold a tangent or a batch axis",
            "use the result, or give a dtype",
        )
    return np.dtype(output)


def _per_axis(value, count: int) -> list:
    """Return one value for each axis."""
    if isinstance(value, str) or np.ndim(value) == 0 or value is None:
        return [value] * count
    value = list(value)
    if len(value) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return value


# ── along one axis ───────────────────────────────────────────────────────────────────────────────────────────────


@mirrors(nd.correlate1d)
def correlate1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    """Correlate an image with weights along one axis."""
    input, weights = operand(input), operand(weights)
    dtype = _dtype_of(output, input, weights)
    axis = normalize_axis(axis, np.ndim(input), "scipy.ndimage.correlate1d")
    if np.ndim(weights) != 1 or not np.size(weights):
        raise RuntimeError("no filter weights given")
    size = weights.shape[0]
    if not -(size // 2) <= origin <= (size - 1) // 2:
        raise ValueError("Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= (len(weights)-1) // 2")
    before = size // 2 + origin
    lines = np.moveaxis(_extend(wide(input), axis, before, size - 1 - before, mode, cval), axis, -1)
    out = scans.convolve(lines, np.conj(wide(weights))[::-1], mode="valid")
    return np.moveaxis(out, -1, axis).astype(dtype)


@mirrors(nd.convolve1d)
def convolve1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    """Convolve an image with weights along one axis."""
    weights = operand(weights)
    origin = -origin - (np.size(weights) % 2 == 0)
    return correlate1d(operand(input), np.conj(weights[::-1]), axis, output, mode, cval, origin)


@mirrors(nd.uniform_filter1d)
def uniform_filter1d(input, size, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    """Take the mean over a window along one axis."""
    if size < 1:
        raise RuntimeError("incorrect filter size")
    if not 0 <= size // 2 + origin < size:
        raise ValueError("invalid origin")
    return correlate1d(operand(input), np.full(size, 1 / size), axis, output, mode, cval, origin)


# ── Gaussians ────────────────────────────────────────────────────────────────────────────────────────────────────
#
# The derivative of order n is q(x) φ(x) with φ′ = −x/σ² φ, so q ↦ q′ − x/σ² q, n times from q = 1.


def _gaussian(sigma, order: int, radius: int):
    if order < 0:
        raise ValueError("order must be non-negative")
    x = np.arange(-radius, radius + 1)
    inverse = 1.0 / (sigma * sigma)
    phi = np.exp(-0.5 * inverse * x**2)
    phi = phi / phi.sum()
    q = [1.0] + [0.0] * order
    for _ in range(order):
        slope = [(i + 1) * q[i + 1] for i in range(order)] + [0.0]
        q = [slope[0]] + [slope[i] - inverse * q[i - 1] for i in range(1, order + 1)]
    return sum(c * x.astype(float) ** i for i, c in enumerate(q)) * phi


def _radius(sigma, truncate, radius) -> int:
    if radius is None:
        known = stop_gradient(sigma)
        if isinstance(known, Tracer):
            raise UnsupportedError(
                f"scipy.ndimage: the width of a Gaussian is a {known._kind()}.",
                "the number of weights depends on its value, which differs between lanes or is not known yet",
                "give radius=",
            )
        radius = int(truncate * float(known) + 0.5)
    if not isinstance(radius, (int, np.integer)) or radius < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    return int(radius)


@mirrors(nd.gaussian_filter1d)
def gaussian_filter1d(
    input, sigma, axis=-1, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None
):
    """Smooth along one axis by a Gaussian, or take its derivative of some order."""
    sigma = operand(sigma)
    weights = _gaussian(sigma, order, _radius(sigma, truncate, radius))
    return correlate1d(operand(input), weights[::-1], axis, output, mode, cval, 0)


@mirrors(nd.gaussian_filter)
def gaussian_filter(
    input, sigma, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None
):
    """Smooth by a Gaussian."""
    out = operand(input)
    dtype = _dtype_of(output, out)
    axes = normalize_axes(axes, np.ndim(out), "scipy.ndimage.gaussian_filter")
    settings = [_per_axis(value, len(axes)) for value in (operand(sigma), order, mode, radius)]
    for axis, s, n, m, r in zip(axes, *settings, strict=True):
        known = stop_gradient(s)
        if isinstance(known, Tracer) or known > 1e-15:
            out = gaussian_filter1d(out, s, axis, n, dtype, m, cval, truncate, radius=r)
    return out.astype(dtype)


@mirrors(nd.gaussian_laplace)
def gaussian_laplace(input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, **kwargs):
    """Sum the second derivatives of a smoothed image."""
    input = operand(input)
    axes = normalize_axes(axes, np.ndim(input), "scipy.ndimage.gaussian_laplace")

    def second(axis: int, mode):
        order = [2 if a == axis else 0 for a in axes]
        return gaussian_filter(input, sigma, order, output, mode, cval, axes=axes, **kwargs)

    parts = [second(axis, m) for axis, m in zip(axes, _per_axis(mode, len(axes)), strict=True)]
    return sum(parts[1:], parts[0])


# ── small filters ────────────────────────────────────────────────────────────────────────────────────────────────


def _edges(name: str, input, axis, output, mode, cval, smoothing: list[int]):
    """Return the difference of the neighbours along an axis, smoothed along the others."""
    out = operand(input)
    axis = normalize_axis(axis, np.ndim(out), f"scipy.ndimage.{name}")
    modes = _per_axis(mode, np.ndim(out))
    out = correlate1d(out, [-1, 0, 1], axis, output, modes[axis], cval, 0)
    for other in range(np.ndim(out)):
        if other != axis:
            out = correlate1d(out, smoothing, other, None, modes[other], cval, 0)
    return out


@mirrors(nd.prewitt)
def prewitt(input, axis=-1, output=None, mode="reflect", cval=0.0):
    """Find edges by Prewitt's filter."""
    return _edges("prewitt", input, axis, output, mode, cval, [1, 1, 1])


@mirrors(nd.sobel)
def sobel(input, axis=-1, output=None, mode="reflect", cval=0.0):
    """Find edges by Sobel's filter."""
    return _edges("sobel", input, axis, output, mode, cval, [1, 2, 1])


@mirrors(nd.laplace)
def laplace(input, output=None, mode="reflect", cval=0.0, *, axes=None):
    """Sum the second differences along all axes."""
    input = operand(input)
    axes = normalize_axes(axes, np.ndim(input), "scipy.ndimage.laplace")
    modes = _per_axis(mode, len(axes))
    parts = [correlate1d(input, [1, -2, 1], a, output, m, cval, 0) for a, m in zip(axes, modes, strict=True)]
    return sum(parts[1:], parts[0])


@mirrors(nd.uniform_filter)
def uniform_filter(input, size=3, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    """Take the mean over a window."""
    out = operand(input)
    dtype = _dtype_of(output, out)
    axes = normalize_axes(axes, np.ndim(out), "scipy.ndimage.uniform_filter")
    settings = [_per_axis(value, len(axes)) for value in (size, mode, origin)]
    for axis, n, m, o in zip(axes, *settings, strict=True):
        if n > 1:
            out = uniform_filter1d(out, int(n), axis, dtype, m, cval, o)
    return out.astype(dtype)


# ── several axes at once ─────────────────────────────────────────────────────────────────────────────────────────


@mirrors(nd.correlate)
def correlate(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    """Correlate an image with weights of several dimensions."""
    input, weights = operand(input), operand(weights)
    dtype = _dtype_of(output, input, weights)
    axes = normalize_axes(axes, np.ndim(input), "scipy.ndimage.correlate")
    if np.ndim(weights) != len(axes):
        raise RuntimeError(f"weights.ndim ({np.ndim(weights)}) must match len(axes) ({len(axes)})")
    out = wide(input)
    modes = _per_axis(mode, len(axes))
    for axis, n, m, o in zip(axes, weights.shape, modes, _per_axis(origin, len(axes)), strict=True):
        before = n // 2 + o
        if not 0 <= before < n:
            raise ValueError("Invalid origin; origin must satisfy -(weights.shape[k] // 2) <= origin[k]")
        out = _extend(out, axis, before, n - 1 - before, m, cval)
    last = tuple(range(-len(axes), 0))
    kernel = np.flip(np.conj(wide(weights)))
    out = convolve_nd(np.moveaxis(out, axes, last), kernel, mode="valid", method="direct", ndim=len(axes))
    return np.moveaxis(out, last, axes).astype(dtype)


@mirrors(nd.convolve)
def convolve(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    """Convolve an image with weights of several dimensions."""
    weights = operand(weights)
    origins = _per_axis(origin, np.ndim(weights))
    origins = [-o - (n % 2 == 0) for o, n in zip(origins, weights.shape, strict=True)]
    return correlate(operand(input), np.conj(np.flip(weights)), output, mode, cval, origins, axes=axes)


# ── interpolation ────────────────────────────────────────────────────────────────────────────────────────────────
#
# Linear interpolation is linear in the 2ⁿ entries around each point and, between them, in each coordinate. Outside
# the image the entries continue as the mode says; in mode "wrap" the coordinate does, with the first and the last
# entry in one place, and in mode "constant" there is nothing but cval.


def _continue_past(index, n: int, mode: str):
    """Return where the entry with a number outside 0, …, n − 1 is found."""
    if mode in ("reflect", "grid-mirror"):
        index = index % (2 * n)
        return np.minimum(index, 2 * n - 1 - index)
    if mode == "mirror":
        period = max(2 * n - 2, 1)
        index = index % period
        return np.minimum(index, (period - index) % max(period, n))
    if mode == "grid-wrap":
        return index % n
    return np.clip(index, 0, n - 1)


def _wrap(c, n: int):
    """Move coordinates outside [0, n − 1] by multiples of n − 1, the left end of the interval counting as the right."""
    period = max(n - 1, 1)
    left, right = c < 0, c > n - 1
    shift = np.where(left, np.trunc(-c / period) + 1, np.where(right, -np.trunc(c / period), 0.0))
    return c + period * stop_gradient(shift)


@mirrors(nd.map_coordinates)
def map_coordinates(input, coordinates, output=None, order=3, mode="constant", cval=0.0, prefilter=True):
    """Interpolate an image at coordinates, by splines of order 0 to 5."""
    if order not in range(6):
        raise RuntimeError("spline order not supported")
    if mode not in _PAD:
        raise RuntimeError("boundary mode not supported")
    input, coordinates = operand(input), operand(coordinates)
    if np.result_type(coordinates).kind == "c":
        raise TypeError("Complex type not supported")
    if np.ndim(input) < 1 or np.ndim(coordinates) < 2:
        raise RuntimeError("input and output rank must be > 0")
    if coordinates.shape[0] != np.ndim(input):
        raise RuntimeError("invalid shape for coordinate array")
    dtype = _dtype_of(output, input)
    image, padding = wide(input), 0
    if order > 1 and prefilter:
        if mode in ("nearest", "grid-constant"):  # SciPy's way to a spline that is constant outside
            padding = 12
            for axis in range(np.ndim(image)):
                image = _extend(image, axis, padding, padding, mode, cval)
        for axis in range(np.ndim(image)):
            image = _spline_coefficients(image, order, axis, mode)
    axes = [_neighbours(wide(c) + padding, n, order, mode) for c, n in zip(coordinates, image.shape, strict=True)]
    flat = np.reshape(image, -1)
    total = None
    for corner in itertools.product(*[neighbours for neighbours, _ in axes]):
        term = _corner(flat, image.shape, corner, cval)
        total = term if total is None else total + term
    for _, outside in axes:
        if outside is not None:
            total = np.where(outside, cval, total)
    return total.astype(dtype)


def _neighbours(c, n: int, order: int, mode: str) -> tuple[list[tuple], object]:
    """Return (number, weight, whether it lies outside) of each entry around a coordinate, and where there are none.

    The weights of splines of order 2 and more are polynomials between the knots.
    """
    outside = (c < 0) | (c > n - 1) if mode == "constant" else None
    cut = mode == "grid-constant"
    if mode == "wrap":
        c = _wrap(c, n)
    if order < 2:
        below = np.floor(c) if order else np.floor(c + 0.5)
        if order and n > 1 and mode in ("constant", "wrap"):
            below = np.clip(below, 0, n - 2)  # the last entry ends the last interval
        below = stop_gradient(below)
        weights = [1.0 - (c - below), c - below] if order else [None]
    else:
        c = np.clip(c, 0, n - 1) if mode == "nearest" else c
        c = c if order % 2 else c + 0.5
        below = stop_gradient(np.floor(c))
        fraction = c - below
        horner = lambda total, coefficient: total * fraction + coefficient
        weights = [functools.reduce(horner, polynomial[::-1], 0.0) for polynomial in _spline_pieces(order)]
        mode = "mirror" if mode in ("constant", "wrap") else mode
    found = []
    for step, weight in enumerate(weights):
        index = below.astype(np.intp) + (step - order // 2)
        beyond = (index < 0) | (index > n - 1) if cut else None
        found.append((_continue_past(index, n, mode), weight, beyond))
    return found, outside


@functools.cache
def _spline_pieces(order: int) -> list[np.ndarray]:
    """Return the weights of the entries around a point as polynomials of the way s from one knot to the next.

    Of B-splines Σⱼ (−1)ʲ (k+1 over j) (s + k − l − j)ᵏ / k!, over the j whose power is not cut off.
    """
    pieces = []
    for step in range(order + 1):
        total = np.polynomial.Polynomial([0.0])
        for j in range(order - step + 1):
            shifted = np.polynomial.Polynomial([float(order - step - j), 1.0]) ** order
            total = total + (-1.0) ** j * math.comb(order + 1, j) * shifted
        pieces.append(total.coef / math.factorial(order))
    return pieces


def _spline_coefficients(x, order: int, axis: int, mode: str):
    """Apply SciPy's filter along one axis: a linear map, whose matrix is what SciPy makes of the unit vectors."""
    filtered = nd.spline_filter1d(np.eye(x.shape[axis]), order, axis=0, mode=mode)
    return np.moveaxis(np.moveaxis(x, axis, -1) @ filtered.T, -1, axis)


@mirrors(nd.spline_filter1d)
def spline_filter1d(input, order=3, axis=-1, output=np.float64, mode="mirror"):
    """Compute the coefficients of a spline along one axis."""
    x = operand(input)
    if order not in range(6):
        raise RuntimeError("spline order not supported")
    dtype = _dtype_of(output, x)
    dtype = np.result_type(dtype, np.complex64) if np.result_type(x).kind == "c" else dtype
    axis = normalize_axis(axis, np.ndim(x), "scipy.ndimage.spline_filter1d")
    out = wide(x) if order < 2 else _spline_coefficients(wide(x), order, axis, mode)
    return out.astype(dtype)


@mirrors(nd.spline_filter)
def spline_filter(input, order=3, output=np.float64, mode="mirror"):
    """Compute the coefficients of a spline along all axes."""
    x = operand(input)
    if order not in range(2, 6):
        raise RuntimeError("spline order not supported")
    for axis in range(np.ndim(x)):
        x = spline_filter1d(x, order, axis, output, mode)
    return x


def _corner(flat, shape: Sequence[int], corner, cval):
    """Return the entry at one corner, times its weight."""
    position, weight, beyond = 0, None, None
    for n, (index, w, b) in zip(shape, corner, strict=True):
        position = position * n + index
        weight = w if weight is None else weight * w
        beyond = b if beyond is None else beyond | b
    entry = indexing.index(flat, position, template=(indexing.ARRAY,))
    if beyond is not None:
        entry = np.where(beyond, cval, entry)
    return entry if weight is None else entry * weight


__getattr__, __dir__ = falls_back(nd, globals())
