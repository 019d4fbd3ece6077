"""NumPy's scans, sorts and searches, worked into calls of ``ops/scans.py`` and ``ops/sorting.py``.

Not for: quantiles and medians (``quantiles.py``), sums and extrema of whole axes (``reductions.py``) or what is
composed of other NumPy calls (``composites.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Array, Axis, DType, is_inexact
from ..core.libraries import refuse_lazy
from ..core.tracer import Tracer
from ..errors import UnsupportedError
from ..memory.order import like_copy
from ..ops import scans
from ..ops import sorting as ops
from ..ops.choice import where
from ..ops.indexing import ARRAY, index, index_add
from ..ops.shaping import stop_gradient
from .arguments import array_operand, function, is_on, normalize_axis, operand, refuse_out
from .ufuncs import UFUNC_METHODS, loop_dtypes


def _flatten(a, axis, name: str):
    """Return the operand and its axis, flattened if ``axis`` is None (and a number as an array of one)."""
    a = operand(a)
    if axis is None:
        return a.reshape(-1), 0
    if not a.ndim and type(axis) is int and axis in (0, -1) and name not in ("np.sort", "np.partition"):
        return a.reshape(1), 0  # NumPy lets a number have one axis
    return a, normalize_axis(axis, a.ndim, name)


def _require_known(x, name: str, what: str) -> np.ndarray:
    """Return the plain values of an argument on which the *shape* of a result, or a choice of method, depends."""
    x = stop_gradient(operand(x))
    if isinstance(x, Tracer):
        values = x.concretize(name)
        if values is not None:
            return np.asarray(values)
        raise UnsupportedError(
            f"{name}: {what} depends on the values of a {x._kind()} of shape {x.shape}.",
            "a shape must be the same in all lanes of vmap, and known when a program is written",
            "compute it outside the transform, or use an operation of fixed shape (np.where with a mask, np.sort)",
        )
    refuse_lazy(x, f"{name}: {what}")
    return np.asarray(x)


# ── scans ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _scan(op, a, axis: int, dtype):
    if dtype is None:
        return op(a, axis=axis)
    dtype = np.dtype(dtype)
    out = op(a if a.dtype == dtype else a.astype(dtype), axis=axis)
    return out if out.dtype == dtype else out.astype(dtype)


def _running_total(plain, array_api: str, nan, ufunc: np.ufunc, op, neutral: int) -> None:

    @function(plain)
    def running(a: Array, axis: Axis = None, dtype: DType = None, out: Array = None) -> Array:
        refuse_out(out, f"np.{plain.__name__}")
        return _scan(op, *_flatten(a, axis, f"np.{plain.__name__}"), dtype=dtype)

    def cumulative(
        x: Array, /, *, axis: Axis = None, dtype: DType = None, out: Array = None, include_initial: bool = False
    ) -> Array:
        name = f"np.{array_api}"
        refuse_out(out, name)
        x = np.atleast_1d(operand(x))
        if axis is None:
            if x.ndim != 1:
                raise ValueError(f"{name}: axis must be given for an array of {x.ndim} dimensions")
            axis = 0
        axis = normalize_axis(axis, x.ndim, name)
        result = _scan(op, x, axis, dtype)
        if include_initial:
            start = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), neutral, result.dtype)
            result = np.concatenate([start, result], axis)
        return result

    if hasattr(np, array_api):  # NumPy 2.1
        function(getattr(np, array_api))(cumulative)

    @function(nan, kind="composite")
    def nan_running(a: Array, axis: Axis = None, dtype: DType = None, out: Array = None) -> Array:
        a = operand(a)
        return running(where(np.isnan(a), neutral, a) if is_inexact(a.dtype) else a, axis, dtype, out)

    UFUNC_METHODS[ufunc, "accumulate"] = _accumulate(op)


def _accumulate(op):
    """Make a handler with the signature of ``ufunc.accumulate``."""

    def accumulate(array, axis=0, dtype=None):
        array = operand(array)
        if not array.ndim and normalize_axis(axis, 1, "ufunc.accumulate") == 0:
            raise TypeError("cannot accumulate on a scalar")
        return _scan(op, array, normalize_axis(axis, array.ndim, "ufunc.accumulate"), dtype)

    return accumulate


_running_total(np.cumsum, "cumulative_sum", np.nancumsum, np.add, scans.cumsum, 0)
_running_total(np.cumprod, "cumulative_prod", np.nancumprod, np.multiply, scans.cumprod, 1)
UFUNC_METHODS[np.maximum, "accumulate"] = _accumulate(scans.cummax)
UFUNC_METHODS[np.minimum, "accumulate"] = _accumulate(scans.cummin)


@_accumulate
def _cumlogaddexp(x, *, axis):
    return scans.cumlogaddexp(x.astype(loop_dtypes(np.logaddexp, (x, x), None, "same_kind")[0]), axis=axis)


UFUNC_METHODS[np.logaddexp, "accumulate"] = _cumlogaddexp


# ── sorts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _refuse_order(order, name: str) -> None:
    if order is not None:
        raise UnsupportedError(
            f"{name}: order= names fields.", "arrays of numbers have none", f"leave it out of {name}"
        )


@function(np.sort)
def sort(
    a: Array, axis: Axis = -1, kind: str | None = None, order: str | None = None, *, stable: Any = None,
    descending: bool = False,
) -> Array:  # fmt: skip
    _refuse_order(order, "np.sort")
    if kind is not None and (stable is not None or is_on(descending)):
        raise ValueError("np.sort: kind can't be given together with stable or descending")
    a, axis = _flatten(a, axis, "np.sort")
    if not is_on(descending):
        return like_copy(ops.sort(a, axis=axis), a)
    return np.take_along_axis(a, np.argsort(_reverse(stop_gradient(a)), axis, stable=True), axis)


@function(np.argsort)
def argsort(
    a: Array, axis: Axis = -1, kind: str | None = None, order: str | None = None, *, stable: Any = None,
    descending: bool = False,
) -> Array:  # fmt: skip
    _refuse_order(order, "np.argsort")
    a, axis = _flatten(a, axis, "np.argsort")
    if is_on(descending):
        a, kind = _reverse(stop_gradient(a)), "stable"
    return ops.argsort(a, axis=axis, kind="stable" if stable else kind)


def _reverse(a):
    """Return numbers in the opposite order, in which equal ones keep their places and NaN stays last."""
    return -a if is_inexact(a.dtype) else ~a


def _ranks(kth, n: int) -> tuple[int, ...]:
    """Return ``kth`` as a tuple of non-negative ranks."""
    ranks = tuple([int(k) for k in np.atleast_1d(kth)])
    for k in ranks:
        if not -n <= k < n:
            raise ValueError(f"kth(={k}) out of bounds ({n})")
    return tuple([k % n for k in ranks])


@function(np.partition)
def partition(a: Array, kth: Any, axis: Axis = -1, kind: str | None = "introselect", order: str | None = None) -> Array:
    _refuse_order(order, "np.partition")
    a, axis = _flatten(a, axis, "np.partition")
    return like_copy(ops.partition(a, kth=_ranks(kth, a.shape[axis]), axis=axis), a) if a.size else np.copy(a)


@function(np.argpartition)
def argpartition(
    a: Array, kth: Any, axis: Axis = -1, kind: str | None = "introselect", order: str | None = None
) -> Array:
    _refuse_order(order, "np.argpartition")
    a, axis = _flatten(a, axis, "np.argpartition")
    return ops.argpartition(a, kth=_ranks(kth, a.shape[axis]), axis=axis)


@function(np.lexsort)
def lexsort(keys: Any, axis: Axis = -1) -> Array:
    keys = operand(keys)
    if keys.ndim == 1:
        return np.zeros((), np.intp)[()]
    return ops.lexsort(keys, axis=normalize_axis(axis, keys.ndim - 1, "np.lexsort"))


@function(np.sort_complex, kind="composite")
def sort_complex(a: Array) -> Array:
    a = np.sort(a)
    return a if a.dtype.kind == "c" else a.astype(np.complex64 if a.dtype.char in "bhBH" else np.complex128)


# ── distinct values: the first of equal entries stands for them ──────────────────────────────────────────────────


@function(np.unique)
def unique(
    ar: Array, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: Axis = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Array:  # fmt: skip
    ar = operand(ar)
    values = _require_known(ar, "np.unique", "the number of distinct values")
    _, first, *rest = np.unique(values, True, return_inverse, return_counts, axis, equal_nan=equal_nan)
    if axis is None:
        distinct = ar.reshape(-1)[first]
    else:
        distinct = ar[(slice(None),) * normalize_axis(axis, ar.ndim, "np.unique") + (first,)]
    extra = ([first] if return_index else []) + rest
    return (distinct, *extra) if extra else distinct


def _distinct(ar, name: str):
    """Return the plain values, and the distinct entries (a NaN equals none) with their tangents."""
    values = _require_known(ar, name, "the number of distinct values")
    return values, operand(ar).reshape(-1)[np.unique(values, True, equal_nan=False)[1]]


@function(np.unique_values)
def unique_values(x: Array) -> Array:
    return _distinct(x, "np.unique_values")[1]


def _unique_with(numpy_function) -> None:
    @function(numpy_function)
    def unique_with(x: Array) -> Array:
        values, distinct = _distinct(x, f"np.{numpy_function.__name__}")
        return numpy_function(values)._replace(values=distinct)


_unique_with(np.unique_all)
_unique_with(np.unique_counts)
_unique_with(np.unique_inverse)


# ── searches ─────────────────────────────────────────────────────────────────────────────────────────────────────


@function(np.searchsorted)
def searchsorted(a: Array, v: Array, side: str = "left", sorter: Any = None) -> Array:
    if side not in ("left", "right"):
        raise ValueError(f"np.searchsorted: side must be 'left' or 'right', not {side!r}")
    a = operand(a)
    if sorter is not None:
        a = index(a, operand(sorter), template=(ARRAY,))
    if a.ndim != 1:
        raise ValueError("np.searchsorted: object too deep for desired array")
    return ops.searchsorted(a, operand(v), side=side)


@function(np.digitize)
def digitize(x: Array, bins: Any, right: bool = False) -> Array:
    x, bins = array_operand(x), operand(bins)
    if x.dtype.kind == "c":
        raise TypeError("x may not be complex")
    steps = np.diff(_require_known(bins, "np.digitize", "the direction of the bins"))
    if np.all(steps >= 0):
        return ops.searchsorted(bins, x, side="left" if right else "right")
    if np.all(steps <= 0):
        return len(bins) - ops.searchsorted(bins[::-1], x, side="left" if right else "right")
    raise ValueError("bins must be monotonically increasing or decreasing")


@function(np.bincount)
def bincount(x: Array, /, weights: Array = None, minlength: int = 0) -> Array:
    x = _require_known(x, "np.bincount", "the number of bins")
    x = x if x.size else x.astype(np.intp)
    if weights is None:
        return np.bincount(x, minlength=minlength)
    if x.ndim != 1:
        raise ValueError("np.bincount: object too deep for desired array")
    weights = operand(weights)
    if weights.shape != x.shape:
        raise ValueError("The weights and list don't have the same length.")
    if weights.dtype.kind == "c":
        raise TypeError("np.bincount: Cannot cast weights of a complex dtype to float64")
    if x.size and x.min() < 0:
        raise ValueError("'list' argument must have no negative elements")
    length = max(int(x.max()) + 1 if x.size else 0, int(minlength))
    return index_add(weights.astype(float, copy=False), x, template=(ARRAY,), shape=(length,))
