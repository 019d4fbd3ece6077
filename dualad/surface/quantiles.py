"""Quantiles, percentiles and medians, which lie between two order statistics.

Not for: sorting itself (``sorting.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Array, Axis, is_inexact
from ..core.tracer import PLAIN
from ..ops import sorting as ops
from ..ops.choice import nowhere, where
from ..ops.indexing import ARRAY, index
from ..ops.reductions import one_axis, reduced_shape
from ..ops.shaping import stop_gradient
from .arguments import UNSET, array_operand, function, is_on, normalize_axes, operand, refuse_out
from .composites import with_weights

# ── order statistics ─────────────────────────────────────────────────────────────────────────────────────────────
#
# A quantile lies between two order statistics at a virtual index v, v(n, q) being the method's: ⌊v⌋ and ⌊v⌋ + 1, with
# weights 1 − γ and γ. Entries tied with an order statistic share its derivative evenly.

_ALPHA_BETA = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3.0, 1 / 3.0),
    "normal_unbiased": (3 / 8.0, 3 / 8.0),
}


def _first_above(v, at_whole):
    """Return ⌊v⌋ + 1 as a rank, and ⌊v⌋ where v is whole and ``at_whole(⌊v⌋)``."""
    below = np.floor(v)
    return np.maximum(below + 1 - ((v == below) & at_whole(below)), 0)


#: rank of the discrete methods
_DISCRETE = {
    "lower": lambda n, q: np.floor((n - 1) * q),
    "higher": lambda n, q: np.ceil((n - 1) * q),
    "nearest": lambda n, q: np.round((n - 1) * q),
    "inverted_cdf": lambda n, q: _first_above(n * q - 1, lambda below: below == below),
    "closest_observation": lambda n, q: _first_above(n * q - 1.5, lambda below: below % 2 == 1),
}


def _virtual(method: str, n, q):
    """Return the virtual index and the weight of the upper neighbour (None: the fraction)."""
    if method == "linear":
        return (n - 1) * q, None
    if method == "averaged_inverted_cdf":
        v = n * q - 1
        return v, where(v == np.floor(v), 0.5, 1.0)
    if method == "midpoint":
        v = 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q))
        return v, where(v == np.floor(v), 0.0, 0.5)
    alpha, beta = _ALPHA_BETA[method]
    return n * q + (alpha + q * (1 - alpha - beta)) - 1, None


def _check(q, dtype: np.dtype, name: str):
    """Return q as an array or tensor, in the precision of the entries if it is a Python number."""
    if isinstance(q, (int, float)):
        q = np.asarray(q, dtype if dtype.kind == "f" else np.finfo(dtype).dtype if dtype.kind == "c" else None)[()]
    if type(q) in PLAIN and not np.all((q >= 0) & (q <= 1)):
        raise ValueError(f"{name}: quantiles must be in the range [0, 1] (percentiles in [0, 100])")
    return q


def _quantile(a, q, axis, method: str, keepdims, ignore_nan: bool, name: str):
    a, q = operand(a), operand(q)
    axes = normalize_axes(axis, a.ndim, name)
    if method not in {*_ALPHA_BETA, *_DISCRETE, "linear", "averaged_inverted_cdf", "midpoint"}:
        raise ValueError(f"{method!r} is not a valid method of {name}")
    q = _check(q, a.dtype, name)
    if method == "linear" and q.dtype.kind in "iub":
        method = "lower"  # 0 or 1: an entry, in its own dtype
    ordered = _order_statistics(a, axes)
    size, rest = ordered.shape[0], ordered.shape[1:]
    if not a.size and ignore_nan and is_inexact(a.dtype):
        # NumPy's own answer has no axes for q here
        return np.full(reduced_shape(a.shape, axes, is_on(keepdims)), np.nan, a.dtype)[()]
    if not size:
        raise IndexError(f"{name} of no values")
    lift = q.reshape(q.shape + (1,) * len(rest))
    count = size
    if ignore_nan and is_inexact(a.dtype):
        count = np.sum(~np.isnan(stop_gradient(ordered)), axis=0)
        count = count.astype(q.dtype) if is_inexact(q.dtype) else count
        lift = lift + np.zeros(rest, q.dtype)  # every row has a count, and so a rank, of its own
    if method in _DISCRETE:
        result = _pick(ordered, np.clip(_DISCRETE[method](count, lift), 0, np.maximum(count - 1, 0)), q, rest)
    else:
        v, weight = _virtual(method, count, lift)
        below = np.floor(stop_gradient(v))
        fraction = v - below if weight is None else weight
        last = np.maximum(count - 1, 0)
        low = _pick(ordered, np.clip(below, 0, last), q, rest)
        high = _pick(ordered, np.clip(below + 1, 0, last), q, rest)
        # as NumPy: from the nearer end, so that γ = 1 gives the upper neighbour exactly
        gap = high - low
        result = where(fraction >= 0.5, high - gap * (1 - fraction), low + gap * fraction)
    return _finish(result, ordered, q.shape, a.shape, axes, is_on(keepdims), ignore_nan)


def _order_statistics(a, axes: tuple[int, ...]):
    """Return the order statistics over some axes, along a leading axis."""
    rows, single = one_axis(a, axes)
    return np.moveaxis(ops.order_statistics(rows, axis=single), single, 0)


def _finish(result, ordered, of_q: tuple, shape: tuple, axes: tuple[int, ...], keepdims: bool, ignore_nan=False):
    """Spoil the result by NaN among the entries, the last of which is one then, and give it its axes back."""
    if not ignore_nan and is_inexact(ordered.dtype) and ordered.shape[0]:
        spoiled = np.isnan(ordered[-1])
        if not nowhere(spoiled):
            result = where(spoiled, ordered[-1], result)
    return np.reshape(result, of_q + reduced_shape(shape, axes, True)) if keepdims else result


def _pick(ordered, rank, q, rest):
    """Take the ranks along the leading axis: the same in every row, or a rank for each."""
    rank = stop_gradient(rank).astype(np.intp)
    if rank.shape == q.shape + (1,) * len(rest) and rest and set(rest) != {1}:
        return index(ordered, rank.reshape(q.shape), template=(ARRAY,))
    if not rest:
        return index(ordered, rank, template=(ARRAY,))
    flat = np.broadcast_to(rank, q.shape + rest).reshape((-1, *rest))
    return np.take_along_axis(ordered, flat, 0).reshape(q.shape + rest)


def _weigh(a, q, axis, weights, keepdims, ignore_nan: bool, name: str):
    """Return the first entry up to which the weights sum to a share q: a choice, constant in the weights and in q."""
    axes = normalize_axes(axis, a.ndim, name)
    a, weights = with_weights(a, weights, axis, axes)
    q, weights = stop_gradient(_check(q, a.dtype, name)), stop_gradient(weights)
    if type(weights) in PLAIN and np.any(weights < 0):
        raise ValueError("Weights must be non-negative.")
    weights = np.broadcast_to(weights, a.shape)
    rows, single = one_axis(a, axes)
    shares = one_axis(weights, axes)[0]
    order = np.argsort(stop_gradient(rows), axis=single, kind="stable")
    shares = np.moveaxis(np.take_along_axis(shares, order, single), single, 0).astype(float)
    ordered = _order_statistics(rows, (single,))
    if not ordered.shape[0]:
        raise IndexError(f"{name} of no values")
    spoiled = np.isnan(stop_gradient(ordered)) if is_inexact(a.dtype) else np.zeros(ordered.shape, bool)
    if ignore_nan:
        shares = np.where(spoiled, 0.0, shares)
    cdf = np.cumsum(shares, axis=0)
    total = cdf[-1]
    valid = (total > 0) & np.isfinite(total)
    if type(valid) in PLAIN and not np.all(valid | (np.all(spoiled, axis=0) & ignore_nan)):
        raise ValueError("Weights included NaN, inf or were all zero.")
    cdf = cdf / np.where(valid, total, np.nan)
    cdf = cdf.astype(q.dtype) if q.dtype.kind == "f" else cdf
    cdf = np.where(cdf == 0, -1, cdf)  # an entry without weight before all others is not even the quantile at 0
    rest = ordered.shape[1:]
    lift = q.reshape(q.shape + (1,) * (len(rest) + 1))
    rank = np.minimum(np.sum(cdf < lift, axis=q.ndim), ordered.shape[0] - 1)
    return _finish(_pick(ordered, rank, q, rest), ordered, q.shape, a.shape, axes, keepdims is True, ignore_nan)


def _quantiles(numpy_function, scale: float, ignore_nan: bool) -> None:
    name = f"np.{numpy_function.__name__}"

    @function(numpy_function, kind="composite")
    def quantile(
        a: Array, q: Array, axis: Axis = None, out: Array = None, overwrite_input: bool = False,
        method: str = "linear", keepdims: bool = False, *, weights: Array = None, interpolation: Any = None,
    ) -> Array:  # fmt: skip
        refuse_out(out, name)
        a, q = array_operand(a), operand(q)
        if a.dtype.kind == "c":
            raise TypeError("a must be an array of real numbers")
        q = q if scale == 1 else q / scale
        if weights is None:
            return _quantile(a, q, axis, method, keepdims, ignore_nan, name)
        if method != "inverted_cdf":
            raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
        return _weigh(a, q, axis, weights, keepdims, ignore_nan, name)


_quantiles(np.quantile, 1, False)
_quantiles(np.percentile, 100, False)
_quantiles(np.nanquantile, 1, True)
_quantiles(np.nanpercentile, 100, True)


@function(np.median, kind="composite")
def median(
    a: Array, axis: Axis = None, out: Array = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    refuse_out(out, "np.median")
    a = operand(a)
    axes = normalize_axes(axis, a.ndim, "np.median")
    ordered = _order_statistics(a, axes)
    n = ordered.shape[0]
    result = np.mean(ordered[max((n - 1) // 2, 0) : n // 2 + 1], axis=0)
    return _finish(result, ordered, (), a.shape, axes, keepdims)


@function(np.nanmedian, kind="composite")
def nanmedian(
    a: Array, axis: Axis = None, out: Array = None, overwrite_input: bool = False, keepdims: bool = UNSET
) -> Array:
    refuse_out(out, "np.nanmedian")
    a = operand(a)
    if not is_inexact(a.dtype) or not a.size:
        return np.median(a, axis=axis, keepdims=is_on(keepdims))
    return _quantile(a, 0.5, axis, "linear", keepdims, True, "np.nanmedian")
