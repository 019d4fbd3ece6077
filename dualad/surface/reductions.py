"""NumPy's reductions: their signatures, worked into calls of the operators of ``ops/reductions.py``.

``where=`` becomes ``np.where`` on the operand, ``initial=`` one more operation on the result, ``dtype=`` a cast
before. Not for: functions composed of other NumPy calls (``composites.py``), scans and sorting (``sorting.py``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from ..core.aval import Array, Axis, is_inexact
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..ops import reductions as ops
from .arguments import normalize_axes, normalize_axis, operand, refuse_out
from .functions import function
from .ufuncs import UFUNC_METHODS, loop_dtypes

__all__ = ["count_along"]

_UNSET = np._NoValue
_ALL_AXES = tuple([tuple(range(n)) for n in range(9)])


def _axes(axis, ndim: int, name: str) -> tuple[int, ...]:
    if axis is None and ndim < 9:
        return _ALL_AXES[ndim]
    if type(axis) is int and 0 <= axis < ndim:
        return (axis,)
    if ndim == 0 and type(axis) is int and axis in (0, -1):
        return ()  # NumPy lets a number have one axis
    return normalize_axes(axis, ndim, name)


def _given(x) -> bool:
    """Say whether a keyword was given something other than its default."""
    return not (x is _UNSET or x is None or x is True)


def _flag(keepdims) -> bool:
    return keepdims is not _UNSET and bool(keepdims)


def _mask(a, where, fill):
    """Put ``fill``, which does not change the reduction, where it is not to look."""
    if not _given(where):
        return a
    where = operand(where)
    if np.broadcast_shapes(getattr(where, "shape", ()), a.shape) != a.shape:
        raise ValueError(f"where= of shape {where.shape} does not broadcast to the operand's shape {a.shape}")
    return np.where(where, a, fill)


def _cast(a, dtype):
    return a if dtype is None or dtype is _UNSET else a.astype(dtype) if isinstance(a, Tracer) else np.asarray(a, dtype)


def _initial(initial, result):
    """Return ``initial=`` in the dtype of the result, as NumPy casts it."""
    return initial if isinstance(initial, Tracer) else np.asarray(initial).astype(result.dtype)[()]


# ── sums and products ────────────────────────────────────────────────────────────────────────────────────────────


@function(np.sum)
def sum_(
    a: Array,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = _UNSET,
    initial: Array = _UNSET,
    where: Array = _UNSET,
) -> Array:
    if not isinstance(a, Tracer):
        a = operand(a)
    if where is _UNSET and initial is _UNSET and dtype is None and out is None:  # nearly every call
        axes = _axes(axis, len(a.shape), "np.sum")
        return bind(ops.sum, (a,), {"axis": axes, "keepdims": keepdims is not _UNSET and bool(keepdims)})
    refuse_out(out, "np.sum")
    if dtype is not None or _given(where):
        a = _mask(_cast(a, dtype), where, 0)
    result = bind(ops.sum, (a,), {"axis": _axes(axis, a.ndim, "np.sum"), "keepdims": _flag(keepdims)})
    if dtype is not None:
        result = _cast(result, dtype)
    if _given(initial) and not (type(initial) is int and initial == 0):
        result = result + _initial(initial, result)
    return result


@function(np.prod)
def prod(
    a: Array,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = _UNSET,
    initial: Array = _UNSET,
    where: Array = _UNSET,
) -> Array:
    refuse_out(out, "np.prod")
    a = _mask(_cast(operand(a), dtype), where, 1)
    result = _cast(ops.prod(a, axis=_axes(axis, a.ndim, "np.prod"), keepdims=_flag(keepdims)), dtype)
    if _given(initial) and not (type(initial) is int and initial == 1):
        result = result * _initial(initial, result)
    return result


@function(np.mean)
def mean(
    a: Array,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = _UNSET,
    *,
    where: Array = _UNSET,
) -> Array:
    refuse_out(out, "np.mean")
    a = operand(a)
    axes = _axes(axis, a.ndim, "np.mean") if _given(where) else normalize_axes(axis, a.ndim, "np.mean")
    final = None
    if dtype is None and not is_inexact(a.dtype):
        dtype = np.float64
    elif dtype is None and a.dtype == np.float16:
        dtype, final = np.float32, np.float16  # as NumPy: a sum of float16 overflows easily
    a = _cast(a, dtype)
    total = np.sum(a, axis=axes, keepdims=keepdims, where=where)
    result = total / count_along(a, axes, where, keepdims, total.dtype)
    return result if final is None else result.astype(final)


def count_along(a, axes: tuple[int, ...], where, keepdims, dtype):
    """Return how many entries a reduction looks at: a number, or with ``where=`` an array of real dtype."""
    if not _given(where):
        count = 1
        for n in axes:
            count *= a.shape[n]
        return count
    real = np.zeros((), dtype).real.dtype
    return np.sum(np.broadcast_to(operand(where), a.shape), axis=axes, keepdims=keepdims).astype(real)


# ── extrema ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _lowest(dtype: np.dtype):
    return False if dtype.kind == "b" else np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _highest(dtype: np.dtype):
    return True if dtype.kind == "b" else np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


def _extremum(functions, op, ufunc: np.ufunc, neutral) -> None:
    name = f"np.{functions[0].__name__}"

    def extremum(
        a: Array,
        axis: Axis = None,
        out: Array | None = None,
        keepdims: bool = _UNSET,
        initial: Array = _UNSET,
        where: Array = _UNSET,
    ) -> Array:
        refuse_out(out, name)
        a = operand(a)
        if _given(where) and not _given(initial):
            raise ValueError(f"{name}: where= needs initial=, the result where nothing is looked at")
        axes, keepdims = _axes(axis, a.ndim, name), _flag(keepdims)
        if not _given(initial):
            return op(a, axis=axes, keepdims=keepdims)
        shape = ops.reduced_shape(a.shape, axes, keepdims)
        if 0 in [a.shape[i] for i in axes]:
            return np.broadcast_to(operand(initial), shape).astype(a.dtype)
        result = op(_mask(a, where, neutral(a.dtype)), axis=axes, keepdims=keepdims)
        return ufunc(result, _initial(initial, result))

    function(*functions)(extremum)
    UFUNC_METHODS[ufunc, "reduce"] = _first_axis(extremum)


def _first_axis(handler):
    """Give a handler the signature of ``ufunc.reduce``, whose axis is 0 by default."""

    def reduce(array, axis=0, dtype=None, out=None, keepdims=False, initial=_UNSET, where=True):
        if isinstance(out, tuple):
            (out,) = out
        return handler(
            _cast(operand(array), dtype), axis=axis, out=out, keepdims=keepdims, initial=initial, where=where
        )

    return reduce


_extremum((np.max, np.amax), ops.max, np.maximum, _lowest)
_extremum((np.min, np.amin), ops.min, np.minimum, _highest)
_extremum((np.nanmax,), ops.nanmax, np.fmax, _lowest)
_extremum((np.nanmin,), ops.nanmin, np.fmin, _highest)


@function(np.ptp, kind="composite")
def ptp(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = _UNSET) -> Array:
    refuse_out(out, "np.ptp")
    return np.max(a, axis=axis, keepdims=_flag(keepdims)) - np.min(a, axis=axis, keepdims=_flag(keepdims))


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────


def _question(numpy_function, op, neutral: bool) -> None:
    ufunc = np.logical_and if neutral else np.logical_or
    name = f"np.{numpy_function.__name__}"

    @function(numpy_function)
    def question(
        a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = _UNSET, *, where: Array = _UNSET
    ) -> Array:
        refuse_out(out, name)
        a = operand(a)
        if _given(where):
            a = _mask(a != 0, where, neutral)
        return op(a, axis=_axes(axis, a.ndim, name), keepdims=_flag(keepdims))

    def reduce(array, axis=0, dtype=None, out=None, keepdims=False, initial=_UNSET, where=True):
        if isinstance(out, tuple):
            (out,) = out
        if dtype is not None:
            loop_dtypes(ufunc, (bool, bool), dtype, "same_kind")  # raises where NumPy has no such loop
        result = question(array, axis, out, keepdims, where=where)
        return result if not _given(initial) else ufunc(result, initial)

    UFUNC_METHODS[ufunc, "reduce"] = reduce


_question(np.all, ops.all, True)
_question(np.any, ops.any, False)


@function(np.count_nonzero)
def count_nonzero(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    a = operand(a)
    return ops.count_nonzero(a, axis=_axes(axis, a.ndim, "np.count_nonzero"), keepdims=bool(keepdims))


def _position(numpy_function, op) -> None:
    name = f"np.{numpy_function.__name__}"

    @function(numpy_function)
    def position(a: Array, axis: Axis = None, out: Array | None = None, *, keepdims: bool = _UNSET) -> Array:
        refuse_out(out, name)
        a = operand(a)
        flat = a.reshape(-1) if axis is None or not a.ndim else a
        single = normalize_axis(0 if axis is None else axis, flat.ndim, name)
        result = op(flat, axis=single)
        if not _flag(keepdims):
            return result
        axes = _axes(axis, a.ndim, name)
        return np.reshape(result, ops.reduced_shape(a.shape, axes, True))


_position(np.argmax, ops.argmax)
_position(np.argmin, ops.argmin)
_position(np.nanargmax, ops.nanargmax)
_position(np.nanargmin, ops.nanargmin)


# ── methods of ufuncs ────────────────────────────────────────────────────────────────────────────────────────────


def _total(handler):
    """Give ``sum`` or ``prod`` the signature of ``ufunc.reduce``."""

    def reduce(array, axis=0, dtype=None, out=None, keepdims=False, initial=_UNSET, where=True):
        if isinstance(out, tuple):
            (out,) = out
        return handler(array, axis, dtype, out, keepdims, initial, where)

    return reduce


UFUNC_METHODS[np.add, "reduce"] = _total(sum_)
UFUNC_METHODS[np.multiply, "reduce"] = _total(prod)
