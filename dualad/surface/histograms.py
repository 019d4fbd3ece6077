"""Histograms, and functions that apply a function along axes.

A histogram is differentiable in its weights and, through edges at the smallest and largest value, in its data; the
counts are constant wherever they have a derivative. Not for: ``np.bincount`` (``sorting.py``).
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..core.aval import Array, Axis, Shape
from ..core.libraries import refuse_lazy
from ..core.tracer import Tracer
from ..errors import UnsupportedError
from ..ops.shaping import stop_gradient
from .arguments import function, normalize_axis, numpys_own, operand


@function(np.histogram_bin_edges, kind="composite")
def histogram_bin_edges(a: Array, bins: Any = 10, range: Any = None, weights: Array = None) -> Array:
    if isinstance(bins, str):
        raise UnsupportedError(
            f"np.histogram was called on tensors with bins={bins!r}.",
            "how many bins the rule makes depends on values",
            "give the number of bins, or their edges",
        )
    if np.ndim(bins):
        return operand(bins)
    if operator.index(bins) < 1:
        raise ValueError("`bins` must be positive, when an integer")
    a = np.ravel(operand(a))
    low, high = range if range is not None else (np.min(a), np.max(a)) if a.size else (0.0, 1.0)
    refuse_lazy(low, "where the bins of a histogram lie", "give range= or the edges, or ")
    if not bool(np.isfinite(low) & np.isfinite(high)):
        raise ValueError("np.histogram: the range of the values is not finite")
    if bool(low == high):
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, int(bins) + 1)


def _bins(a, edges):
    """Return the bin of each value, and which values lie in one; the last bin includes its right edge."""
    a, edges = stop_gradient(a), stop_gradient(edges)
    count = edges.shape[0] - 1
    position = np.searchsorted(edges, a, side="right") - 1
    position = np.where(a == edges[-1], count - 1, position)
    return position, (a >= edges[0]) & (a <= edges[-1])


def _totals(position, inside, weights, count: int):
    """Sum the weights that fall into each bin."""
    if not any(isinstance(x, Tracer) for x in (position, inside)) and not isinstance(weights, Tracer):
        return np.bincount(position[inside], weights[inside], count).astype(weights.dtype)
    hit = (np.expand_dims(position, -1) == np.arange(count)) & np.expand_dims(inside, -1)
    return np.sum(np.where(hit, np.expand_dims(weights, -1), 0), axis=0)


@function(np.histogram, kind="composite")
def histogram(a: Array, bins: int = 10, range: Any = None, density: Any = None, weights: Array = None) -> tuple:
    ranges = None if range is None else [range]
    counts, (edges,) = np.histogramdd([np.ravel(operand(a))], [bins], ranges, density, weights)
    return (counts if density or weights is not None else counts.astype(np.intp)), edges


numpys_own(np.apply_over_axes, np.histogram2d, kind="composite")


@function(np.histogramdd, kind="composite")
def histogramdd(sample: Array, bins: Any = 10, range: Any = None, density: Any = None, weights: Array = None) -> tuple:
    columns = list(sample) if isinstance(sample, (list, tuple)) else list(np.transpose(np.atleast_2d(operand(sample))))
    columns = [operand(c) for c in columns]
    bins = list(bins) if isinstance(bins, (list, tuple)) else [bins] * len(columns)
    ranges = [None] * len(columns) if range is None else list(range)
    edges = [np.histogram_bin_edges(c, b, r) if isinstance(c, Tracer) else histogram_bin_edges(c, b, r)
             for c, b, r in zip(columns, bins, ranges, strict=True)]  # fmt: skip
    shape = tuple([e.shape[0] - 1 for e in edges])
    position, inside = 0, True
    for c, e, n in zip(columns, edges, shape, strict=True):
        p, i = _bins(c, e)
        position, inside = position * n + p, np.logical_and(i, inside)
    weights = np.ones(columns[0].shape[0]) if weights is None else np.ravel(operand(weights))
    counts = np.reshape(_totals(position, inside, weights, math.prod(shape)), shape)
    if density:
        counts = counts / np.sum(counts)
        for axis, e in enumerate(edges):
            counts = counts / np.reshape(np.diff(e), (-1,) + (1,) * (len(shape) - axis - 1))
    return counts, tuple(edges)


# ── functions along axes ─────────────────────────────────────────────────────────────────────────────────────────


@function(np.apply_along_axis, kind="composite")
def apply_along_axis(func1d: Any, axis: Axis, arr: Array, *args: Array, **kwargs: Any) -> Array:
    """Call the function once per row, as NumPy does."""
    arr = operand(arr)
    axis = normalize_axis(axis, arr.ndim, "np.apply_along_axis")
    rows = np.moveaxis(arr, axis, -1)
    outer = rows.shape[:-1]
    if not math.prod(outer):
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    results = [operand(func1d(rows[i], *args, **kwargs)) for i in np.ndindex(outer)]
    inner = np.shape(results[0])
    stacked = np.reshape(np.stack(results), outer + inner)
    here, there = range(len(outer), len(outer) + len(inner)), range(axis, axis + len(inner))
    return np.moveaxis(stacked, tuple(here), tuple(there))


# ── positions in a flat array ────────────────────────────────────────────────────────────────────────────────────


@function(np.ravel_multi_index, kind="composite")
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str | None = "C") -> Array:
    modes = mode if isinstance(mode, tuple) else (mode,) * len(dims)
    pairs = list(zip(multi_index, dims, modes, strict=True))
    position = 0
    for i, n, m in pairs if order == "C" else reversed(pairs):
        i = operand(i)
        if m == "raise" and not bool(np.all((i >= 0) & (i < n))):
            raise ValueError("invalid entry in coordinates array")
        position = position * n + (np.clip(i, 0, n - 1) if m == "clip" else i % n)
    return position


@function(np.unravel_index, kind="composite")
def unravel_index(indices: Any, shape: Shape, order: str | None = "C") -> Array:
    indices = operand(indices)
    shape = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    if not bool(np.all((indices >= 0) & (indices < math.prod(shape)))):
        raise ValueError(f"index is out of bounds for array with size {math.prod(shape)}")
    out = []
    for n in reversed(shape) if order == "C" else shape:
        out.append(indices % n)
        indices = indices // n
    return tuple(reversed(out)) if order == "C" else tuple(out)
