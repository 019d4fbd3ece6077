"""NumPy functions composed of other NumPy calls: no rules of their own, so nothing to get wrong but the formula.

Statistics, differences, interpolation and convolution. Not for: functions that are one operator (the other files of
this package).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.aval import Array, Axis, DType, aval_of, is_inexact
from ..core.tracer import PLAIN
from ..errors import UnsupportedError
from ..memory.order import like_copy
from ..ops import scans
from ..ops.choice import where as select
from ..ops.indexing import ARRAY, index
from ..ops.kinds import is_finite
from ..ops.reductions import reduced_shape, vector_norm
from ..ops.shaping import stop_gradient
from .arguments import (
    UNSET,
    array_operand,
    function,
    inexact_operand,
    is_given,
    is_on,
    normalize_axes,
    normalize_axis,
    numpys_own,
    reduced_axes,
    refuse_out,
)
from .reductions import count_along

__all__ = ["with_weights"]


def _along(axis: int, part) -> tuple:
    """Return the index that takes a part of one axis."""
    return (slice(None),) * axis + (part,)


# ── means and variances ──────────────────────────────────────────────────────────────────────────────────────────


def _square(x, of: np.dtype):
    """Return the squares that NumPy sums up for a variance: a complex mean, by ``dtype=``, leaves real entries real."""
    return np.real(x) ** 2 + np.imag(x) ** 2 if x.dtype.kind == "c" and of.kind in "bc" else x * x


def _deviations(a, axis, dtype, ddof, keepdims: bool, where, mean, ignore_nan: bool, name: str):
    """Return the deviations (zero where ``where=`` is false), their number, and the axes of a variance.

    ``dtype=`` is that of the sums alone, as in NumPy: entries of double precision deviate from a mean in single.
    """
    # NumPy lets a number have one axis in those of its ways to count that don't look at the shape.
    lenient = not a.ndim and axis in (0, -1) and (ignore_nan or is_given(where))
    axes = () if lenient else normalize_axes(axis, a.ndim, name)
    if mean is UNSET:
        mean = (np.nanmean if ignore_nan else np.mean)(a, axis=axes, dtype=dtype, keepdims=True, where=where)
    values = a - mean
    summed = values.dtype if dtype is None else np.dtype(dtype)
    if ignore_nan:
        values = select(np.isnan(a), 0, values.astype(a.dtype))
        degrees = _numbers_along(a, axes, where, keepdims, summed) - ddof
        degrees = select(degrees <= 0, np.nan, degrees).astype(degrees.dtype)
    else:
        count = count_along(a, axes, where, keepdims, summed)
        degrees = np.maximum(count - ddof, 0) if hasattr(count, "shape") else np.float64(max(count - ddof, 0))
        degrees = degrees.astype(np.zeros((), summed).real.dtype)
    if is_given(where):
        values = select(np.broadcast_to(array_operand(where), values.shape), values, 0)
    return values, degrees, axes


def _declare_variance(numpy_function, root: bool, skips_nan: bool) -> None:
    name = f"np.{numpy_function.__name__}"

    @function(numpy_function, kind="composite")
    def variance(
        a: Array, axis: Axis = None, dtype: DType = None, out: Array = None, ddof: int = 0, keepdims: bool = UNSET, *,
        where: Array = UNSET, mean: Any = UNSET, correction: Any = UNSET,
    ) -> Array:  # fmt: skip
        refuse_out(out, name)
        if correction is not UNSET:
            if ddof != 0:
                raise ValueError(f"{name}: ddof and correction can't be given together")
            ddof = correction
        if dtype is not None and np.dtype(dtype).kind not in ("c" if np.iscomplexobj(a) else "fc"):
            raise UnsupportedError(
                f"{name}: dtype={np.dtype(dtype).name}.",
                "NumPy cuts off a part of the mean before it takes deviations from it, which no rule here does",
                f"leave dtype out, and cast the result: {name}(x).astype({np.dtype(dtype).name!r})",
            )
        keepdims, a = is_on(keepdims), array_operand(a)
        ignore_nan = skips_nan and is_inexact(a.dtype)  # integers are none
        a = inexact_operand(a) if dtype is None else a
        deviations, degrees, axes = _deviations(a, axis, dtype, ddof, keepdims, where, mean, ignore_nan, name)
        if not root:
            return np.sum(_square(deviations, a.dtype), axis=axes, dtype=dtype, keepdims=keepdims) / degrees
        # The norm of the deviations, not the root of the variance: its derivative is zero where all entries are equal.
        norm = vector_norm(deviations, ord=2, axes=axes) if axes else abs(deviations)
        if keepdims:
            norm = norm.reshape(reduced_shape(deviations.shape, axes, True))
        return (norm if dtype is None else norm.astype(dtype)) / np.sqrt(degrees)


_declare_variance(np.var, False, False)
_declare_variance(np.std, True, False)
_declare_variance(np.nanvar, False, True)
_declare_variance(np.nanstd, True, True)


def with_weights(a, weights, axis, axes) -> tuple:
    """Return an operand and its weights, of its shape or one that broadcasts against it, as NumPy takes them."""
    a, weights = array_operand(a), array_operand(weights)
    if weights.shape != a.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        if weights.shape != tuple([a.shape[i] for i in axes]):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        order = np.argsort(axes)
        weights = np.transpose(weights, tuple(int(i) for i in order))
        weights = weights.reshape(tuple([n if i in axes else 1 for i, n in enumerate(a.shape)]))
    return a, weights


@function(np.average, kind="composite")
def average(
    a: Array, axis: Axis = None, weights: Array = None, returned: bool = False, *, keepdims: bool = UNSET
) -> Any:
    a = array_operand(a)
    axes = normalize_axes(axis, a.ndim, "np.average")
    keepdims = is_on(keepdims)
    if weights is None:
        result = np.mean(a, axis=axes, keepdims=keepdims)
        total = np.asarray(count_along(a, axes, True, keepdims, result.dtype), result.dtype)
    else:
        a, weights = with_weights(a, weights, axis, axes)
        dtype = np.result_type(a.dtype, weights.dtype, *(() if is_inexact(a.dtype) else ("f8",)))
        total = np.sum(np.broadcast_to(weights, a.shape), axis=axes, dtype=dtype, keepdims=keepdims)
        if type(there := stop_gradient(total)) in PLAIN and np.any(there == 0):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        weighted = np.multiply(a, weights, dtype=dtype)
        result = np.sum(weighted, axis=axes, keepdims=keepdims) / total
    if not returned:
        return result
    spread: Any = np.broadcast_to(total, result.shape)
    return result, spread.copy() if isinstance(spread, np.ndarray) else spread


# ── reductions that pass over NaN ────────────────────────────────────────────────────────────────────────────────


def _fill(a, fill):
    a = array_operand(a)
    return select(np.isnan(a), fill, a) if is_inexact(a.dtype) else a


def _over_numbers(numpy_function, reduce, neutral: int) -> None:
    @function(numpy_function, kind="composite")
    def reduction(
        a: Array, axis: Axis = None, dtype: DType = None, out: Array = None, keepdims: bool = UNSET,
        initial: Array = UNSET, where: Array = UNSET,
    ) -> Array:  # fmt: skip
        return reduce(_fill(a, neutral), axis, dtype, out, is_on(keepdims), initial, where)


_over_numbers(np.nansum, np.sum, 0)
_over_numbers(np.nanprod, np.prod, 1)


def _numbers_along(a, axes, where, keepdims: bool, dtype):
    """Count the entries that are numbers (and are looked at), in a real dtype."""
    present = ~np.isnan(a)
    if is_given(where):
        present = present & where
    return np.sum(present, axis=axes, keepdims=keepdims).astype(np.zeros((), dtype).real.dtype)


@function(np.nanmean, kind="composite")
def nanmean(
    a: Array, axis: Axis = None, dtype: DType = None, out: Array = None, keepdims: bool = UNSET, *,
    where: Array = UNSET,
) -> Array:  # fmt: skip
    refuse_out(out, "np.nanmean")
    a = array_operand(a)
    if not is_inexact(a.dtype):
        return np.mean(a, axis, dtype, None, is_on(keepdims), where=where)
    if dtype is not None and not is_inexact(np.dtype(dtype)):
        raise TypeError("If a is inexact, then dtype must be inexact")
    axes = reduced_axes(axis, a.ndim, "np.nanmean")
    total = np.sum(_fill(a, 0), axes, dtype, None, is_on(keepdims), where=where)
    return total / _numbers_along(a, axes, where, is_on(keepdims), total.dtype)


# ── covariance ───────────────────────────────────────────────────────────────────────────────────────────────────


def _variables(m, rowvar: bool, dtype):
    m = array_operand(m).astype(dtype)
    if m.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    x = m.reshape((1, -1)) if m.ndim < 2 else m
    return x if rowvar or m.ndim == 1 else x.T


def _frequencies(w, name: str):
    w = array_operand(w).astype(float)
    if w.ndim != 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    return w


@function(np.cov, kind="composite")
def cov(
    m: Array, y: Array = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Array = None,
    aweights: Array = None, *, dtype: DType = None,
) -> Array:  # fmt: skip
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    ddof = (0 if bias else 1) if ddof is None else ddof
    if dtype is None:
        dtype = np.result_type(*[array_operand(v).dtype for v in (m, y) if v is not None], np.float64)
    x = _variables(m, rowvar, dtype)
    if y is not None:
        x = np.concatenate([x, _variables(y, rowvar, dtype)], 0)
    w = None if fweights is None else _frequencies(fweights, "fweights")
    if aweights is not None:
        a_weights = _frequencies(aweights, "aweights")
        w = a_weights if w is None else w * a_weights
    mean, total = np.average(x, axis=1, weights=w, returned=True)
    total = total[0] if x.shape[0] else total
    if w is None:
        factor = max(x.shape[1] - ddof, 0)
    elif ddof == 0:
        factor = total
    elif aweights is None:
        factor = total - ddof
    else:
        factor = total - ddof * np.sum(w * a_weights) / total
    x = x - mean[:, None]
    c = np.matmul(x, np.conj((x if w is None else x * w).T)) / factor
    return c.reshape(tuple([n for n in c.shape if n != 1]))


@function(np.corrcoef, kind="composite")
def corrcoef(
    x: Array, y: Array = None, rowvar: bool = True, bias: Any = UNSET, ddof: Any = UNSET, *, dtype: DType = None
) -> Array:
    """As ``np.corrcoef``; ``bias`` and ``ddof`` cancel, and are parameters of early releases only."""
    c = np.cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    i = np.arange(c.shape[0])
    deviation = np.sqrt(np.real(c[i, i]))
    c = c / deviation[:, None] / deviation[None, :]
    if c.dtype.kind == "c":
        return np.clip(np.real(c), -1, 1) + 1j * np.clip(np.imag(c), -1, 1)
    return np.clip(c, -1, 1)


# ── differences and integrals ────────────────────────────────────────────────────────────────────────────────────

numpys_own(np.diff, np.trapezoid, kind="composite")


def _beside(extra, name: str, dtype: np.dtype) -> list:
    if extra is None:
        return []
    extra = array_operand(extra)
    if not np.can_cast(extra.dtype, dtype, "same_kind"):
        raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
    return [extra.reshape(-1).astype(dtype)]


@function(np.ediff1d, kind="composite")
def ediff1d(ary: Array, to_end: Any = None, to_begin: Any = None) -> Array:
    flat = array_operand(ary).reshape(-1)
    steps = flat[1:] - flat[:-1]
    before, after = [_beside(extra, name, steps.dtype) for extra, name in ((to_begin, "to_begin"), (to_end, "to_end"))]
    return np.concatenate([*before, steps, *after]) if before or after else steps


def _spacings(varargs: tuple, f, axes: tuple[int, ...]) -> list:
    """Return the step along each axis: a number, or the differences of the coordinates."""
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("invalid number of arguments")
    if not varargs:
        return [1.0] * len(axes)
    spacings = []
    for axis, h in zip(axes, varargs if len(varargs) == len(axes) else varargs * len(axes), strict=True):
        h = array_operand(h)
        if h.ndim == 0:
            spacings.append(h[()] if isinstance(h, np.ndarray) else h)
            continue
        if (len(varargs) == 1 and len(axes) > 1) or h.ndim != 1:
            raise ValueError("distances must be either scalars or 1d")
        if h.shape[0] != f.shape[axis]:
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        steps = np.diff(inexact_operand(h))
        even = type(steps) in PLAIN and bool((steps == steps[0]).all())
        spacings.append(steps[0] if even else steps)
    return spacings


@function(np.gradient, kind="composite")
def gradient(f: Any, *varargs: Any, axis: Axis = None, edge_order: int = 1) -> Array:
    f = array_operand(f)
    if f.dtype.kind == "b" and f.ndim:
        raise TypeError("np.gradient: truth values can't be subtracted; use x.astype(float)")
    f = inexact_operand(f)
    axes = normalize_axes(axis, f.ndim, "np.gradient")
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    steps = _spacings(varargs, f, axes)
    outs = [like_copy(_slope(f, h, a, edge_order), f) for a, h in zip(axes, steps, strict=True)]
    return outs[0] if len(axes) == 1 else tuple(outs)


def _slope(f, h, axis: int, edge_order: int):
    """Differentiate along one axis: central differences inside, one-sided ones at both ends."""
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient,"
            " at least (edge_order + 1) elements are required."
        )
    even = not getattr(h, "shape", ())
    at = lambda k: f[_along(axis, slice(k, k + 1) if k != -1 else slice(-1, None))]
    width = (lambda k: h) if even else (lambda k: h[k])
    if even:
        inside = (f[_along(axis, slice(2, None))] - f[_along(axis, slice(None, -2))]) / (2.0 * h)
    else:
        left, right = (d.reshape((-1,) + (1,) * (f.ndim - axis - 1)) for d in (h[:-1], h[1:]))
        a = -right / (left * (left + right))
        b = (right - left) / (left * right)
        c = left / (right * (left + right))
        inside = (
            a * f[_along(axis, slice(None, -2))]
            + b * f[_along(axis, slice(1, -1))]
            + c * f[_along(axis, slice(2, None))]
        )
    if edge_order == 1:
        first, last = (at(1) - at(0)) / width(0), (at(-1) - at(-2)) / width(-1)
    elif even:
        first = (-1.5 * at(0) + 2.0 * at(1) - 0.5 * at(2)) / h
        last = (0.5 * at(-3) - 2.0 * at(-2) + 1.5 * at(-1)) / h
    else:
        p, q = h[0], h[1]
        first = -(2.0 * p + q) / (p * (p + q)) * at(0) + (p + q) / (p * q) * at(1) - p / (q * (p + q)) * at(2)
        p, q = h[-2], h[-1]
        last = q / (p * (p + q)) * at(-3) - (q + p) / (p * q) * at(-2) + (2.0 * q + p) / (q * (p + q)) * at(-1)
    return np.concatenate([first, inside, last], axis).astype(f.dtype)


@function(np.unwrap, kind="composite")
def unwrap(p: Array, discont: Any = None, axis: Axis = -1, *, period: Any = 2 * math.pi) -> Array:
    p = array_operand(p)
    axis = normalize_axis(axis, p.ndim, "np.unwrap")
    jumps = np.diff(p, axis=axis)
    whole = jumps.dtype.kind in "iu" and aval_of(period).dtype.kind in "iu"
    half = period // 2 if whole else period / 2
    low = -half
    wrapped = np.mod(jumps - low, period) + low
    if not whole or period % 2 == 0:  # an upward jump of half a period stays upward
        wrapped = select((wrapped == low) & (jumps > 0), half, wrapped)
    correction = select(abs(jumps) < (half if discont is None else discont), 0, wrapped - jumps)
    rest = p[_along(axis, slice(1, None))] + np.cumsum(correction, axis=axis)
    return like_copy(np.concatenate([p[_along(axis, slice(None, 1))].astype(rest.dtype), rest], axis), p)


# ── interpolation ────────────────────────────────────────────────────────────────────────────────────────────────


def _take(x, places):
    return index(x, places, template=(ARRAY,))


def _beside_infinities(x, x0, f0, slope, x1, f1):
    """Return NumPy's interpolant where a value is infinite: at a knot its own value, else seen from the right end."""
    other = f1 + (x - x1) * slope
    other = select(np.isnan(other) & (f0 == f1) & ~np.isnan(x), f0, other)
    return select(x == x1, f1, select(x == x0, f0, other))


@function(np.interp, kind="composite")
def interp(x: Array, xp: Array, fp: Array, left: Any = None, right: Any = None, period: Any = None) -> Array:
    """Interpolate linearly. At a knot the derivative in x is the slope on its right (at the last one, on its left)."""
    if array_operand(x).dtype.kind == "c" or array_operand(xp).dtype.kind == "c":
        raise TypeError("np.interp: Cannot cast array data from complex to float64 according to the rule 'safe'")
    x, xp, fp = array_operand(x).astype(float), array_operand(xp).astype(float), array_operand(fp)
    fp = fp.astype(complex if fp.dtype.kind == "c" else float)
    if xp.ndim != 1 or fp.ndim != 1 or len(xp) != len(fp) or not len(xp):
        raise ValueError("np.interp: xp and fp must be non-empty 1-D sequences of the same length")
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period, left, right = abs(period), None, None
        x, xp = np.mod(x, period), np.mod(xp, period)
        order = np.argsort(xp)
        xp, fp = _take(xp, order), _take(fp, order)
        xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = np.concatenate([fp[-1:], fp, fp[:1]])
    left, right = fp[0] if left is None else left, fp[-1] if right is None else right
    if len(xp) == 1:
        inside = fp[0]
    else:
        j = np.clip(np.searchsorted(xp, x, "right") - 1, 0, len(xp) - 2)
        x0, x1, f0, f1 = _take(xp, j), _take(xp, j + 1), _take(fp, j), _take(fp, j + 1)
        width = x1 - x0
        flat = width == 0
        slope = (f1 - f0) / select(flat, 1, width)
        inside = select(flat & ~np.isnan(x), f1, f0 + (x - x0) * slope)
        if not (is_finite(fp) and is_finite(xp)) and fp.dtype.kind != "c":
            inside = select(np.isnan(inside), _beside_infinities(x, x0, f0, slope, x1, f1), inside)
    return select(x < xp[0], left, select(x > xp[-1], right, inside))


# ── convolution ──────────────────────────────────────────────────────────────────────────────────────────────────


def _convolve(a, v, mode: str, middle: int, name: str):
    n, m = a.shape[0], v.shape[0]
    if mode == "valid":
        return scans.convolve(*((a, v) if n >= m else (v, a)), mode="valid")
    if mode not in ("full", "same"):
        raise ValueError(f"{name}: mode must be 'full', 'same' or 'valid', not {mode!r}")
    full = scans.convolve(a, v, mode="full")
    return full if mode == "full" else full[middle : middle + max(n, m)]


def _sequences(a, v, name: str) -> tuple:
    out = []
    for which, x in (("a", a), ("v", v)):
        x = array_operand(x)
        if not x.ndim and name == "np.correlate":
            raise ValueError("object of too small depth for desired array")
        if x.ndim > 1:
            raise ValueError(f"{name}: object too deep for desired array")
        if not x.size:
            raise ValueError(f"{which} cannot be empty")
        out.append(x.reshape(-1))
    return tuple(out)


@function(np.convolve)
def convolve(a: Array, v: Array, mode: str = "full") -> Array:
    a, v = _sequences(a, v, "np.convolve")
    return _convolve(a, v, mode, (min(len(a), len(v)) - 1) // 2, "np.convolve")


@function(np.correlate)
def correlate(a: Array, v: Array, mode: str = "valid") -> Array:
    a, v = _sequences(a, v, "np.correlate")
    middle = (len(v) - 1) // 2 if len(a) >= len(v) else len(a) // 2
    return _convolve(a, np.conj(v)[::-1], mode, middle, "np.correlate")
