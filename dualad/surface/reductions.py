"""NumPy's reductions: their signatures, worked into calls of the operators of ``ops/reductions.py``.

``where=`` becomes ``np.where`` on the operand, ``initial=`` one more operation on the result, ``dtype=`` a cast
before. Not for: functions composed of other NumPy calls (``composites.py``), scans and sorting (``sorting.py``).
"""

from __future__ import annotations

import math
import operator

import numpy as np

from ..core.aval import Array, Axis, DType, is_inexact
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..ops import reductions as ops
from .arguments import UNSET, function, is_given, is_on, normalize_axes, normalize_axis, operand, refuse_out
from .ufuncs import UFUNC_METHODS, loop_dtypes

__all__ = ["count_along"]

_ALL_AXES = tuple([tuple(range(n)) for n in range(9)])


def _axes(axis, ndim: int, name: str) -> tuple[int, ...]:
    if axis is None and ndim < 9:
        return _ALL_AXES[ndim]
    if type(axis) is int and 0 <= axis < ndim:
        return (axis,)
    if ndim == 0 and type(axis) is int and axis in (0, -1):
        return ()  # NumPy lets a number have one axis
    return normalize_axes(axis, ndim, name)


def _mask(a, where, fill):
    """Put ``fill``, which does not change the reduction, where it is not to look."""
    if not is_given(where):
        return a
    where = operand(where)
    if np.broadcast_shapes(getattr(where, "shape", ()), a.shape) != a.shape:
        raise ValueError(f"where= of shape {where.shape} does not broadcast to the operand's shape {a.shape}")
    return np.where(where, a, fill)


def _cast(a, dtype):
    return a if dtype is None or dtype is UNSET else a.astype(dtype) if isinstance(a, Tracer) else np.asarray(a, dtype)


def _initial(initial, result):
    """Return ``initial=`` in the dtype of the result, as NumPy casts it."""
    return initial if isinstance(initial, Tracer) else np.asarray(initial).astype(result.dtype)[()]


# ── sums and products ────────────────────────────────────────────────────────────────────────────────────────────


@function(np.sum)
def sum_(
    a: Array, axis: Axis = None, dtype: DType = None, out: Array = None, keepdims: bool = UNSET,
    initial: Array = UNSET, where: Array = UNSET,
) -> Array:  # fmt: skip
    if not isinstance(a, Tracer):
        a = operand(a)
    if where is UNSET and initial is UNSET and dtype is None and out is None:  # nearly every call
        axes = _axes(axis, len(a.shape), "np.sum")
        return bind(ops.sum, (a,), {"axis": axes, "keepdims": keepdims is not UNSET and bool(keepdims)})
    refuse_out(out, "np.sum")
    return _total(ops.sum, operator.add, 0, "np.sum", a, axis, dtype, keepdims, initial, where)


@function(np.prod)
def prod(
    a: Array, axis: Axis = None, dtype: DType = None, out: Array = None, keepdims: bool = UNSET,
    initial: Array = UNSET, where: Array = UNSET,
) -> Array:  # fmt: skip
    refuse_out(out, "np.prod")
    return _total(ops.prod, operator.mul, 1, "np.prod", operand(a), axis, dtype, keepdims, initial, where)


def _total(op, combine, neutral: int, name: str, a, axis, dtype, keepdims, initial, where):
    a = _mask(_cast(a, dtype), where, neutral)
    result = _cast(bind(op, (a,), {"axis": _axes(axis, a.ndim, name), "keepdims": is_on(keepdims)}), dtype)
    if is_given(initial) and not (type(initial) is int and initial == neutral):
        result = combine(result, _initial(initial, result))
    return result


@function(np.mean)
def mean(
    a: Array, axis: Axis = None, dtype: DType = None, out: Array = None, keepdims: bool = UNSET, *,
    where: Array = UNSET,
) -> Array:  # fmt: skip
    refuse_out(out, "np.mean")
    a = operand(a)
    axes = _axes(axis, a.ndim, "np.mean") if is_given(where) else normalize_axes(axis, a.ndim, "np.mean")
    final = None
    if dtype is None and not is_inexact(a.dtype):
        dtype = np.float64
    elif dtype is None and a.dtype == np.float16:
        dtype, final = np.float32, np.float16  # as NumPy: a sum of float16 overflows easily
    elif dtype is not None and not is_inexact(np.dtype(dtype)):
        final = dtype
    a = _cast(a, dtype)
    total = np.sum(a, axis=axes, keepdims=keepdims, where=where)
    result = total / count_along(a, axes, where, keepdims, total.dtype)
    return result if final is None else result.astype(final)


def count_along(a, axes: tuple[int, ...], where, keepdims, dtype):
    """Return how many entries a reduction looks at: a number, or with ``where=`` an array of real dtype."""
    if not is_given(where):
        return math.prod([a.shape[n] for n in axes])
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
        a: Array, axis: Axis = None, out: Array = None, keepdims: bool = UNSET, initial: Array = UNSET,
        where: Array = UNSET,
    ) -> Array:  # fmt: skip
        refuse_out(out, name)
        a = operand(a)
        if is_given(where) and not is_given(initial):
            raise ValueError(f"{name}: where= needs initial=, the result where nothing is looked at")
        axes, keepdims = _axes(axis, a.ndim, name), is_on(keepdims)
        if not is_given(initial):
            return op(a, axis=axes, keepdims=keepdims)
        shape = ops.reduced_shape(a.shape, axes, keepdims)
        if 0 in [a.shape[i] for i in axes]:
            return np.broadcast_to(operand(initial), shape).astype(a.dtype)[()]
        result = op(_mask(a, where, neutral(a.dtype)), axis=axes, keepdims=keepdims)
        return ufunc(result, _initial(initial, result))

    def reduce(array, axis=0, dtype=None, **given):
        return extremum(_cast(operand(array), dtype), axis, **given)

    function(*functions)(extremum)
    UFUNC_METHODS[ufunc, "reduce"] = reduce


_extremum((np.max, np.amax), ops.max, np.maximum, _lowest)
_extremum((np.min, np.amin), ops.min, np.minimum, _highest)
_extremum((np.nanmax,), ops.nanmax, np.fmax, _lowest)
_extremum((np.nanmin,), ops.nanmin, np.fmin, _highest)


@function(np.ptp, kind="composite")
def ptp(a: Array, axis: Axis = None, out: Array = None, keepdims: bool = UNSET) -> Array:
    refuse_out(out, "np.ptp")
    return np.max(a, axis=axis, keepdims=is_on(keepdims)) - np.min(a, axis=axis, keepdims=is_on(keepdims))


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────


def _question(numpy_function, op, neutral: bool) -> None:
    ufunc = np.logical_and if neutral else np.logical_or
    name = f"np.{numpy_function.__name__}"

    @function(numpy_function)
    def question(
        a: Array, axis: Axis = None, out: Array = None, keepdims: bool = UNSET, *, where: Array = UNSET
    ) -> Array:
        refuse_out(out, name)
        a = operand(a)
        if is_given(where):
            a = _mask(a != 0, where, neutral)
        return op(a, axis=_axes(axis, a.ndim, name), keepdims=is_on(keepdims))

    def reduce(array, axis=0, dtype=None, initial=UNSET, **given):
        if dtype is not None:
            loop_dtypes(ufunc, (bool, bool), dtype, "same_kind")  # raises where NumPy has no such loop
        result = question(array, axis, **given)
        return ufunc(result, initial) if is_given(initial) else result

    UFUNC_METHODS[ufunc, "reduce"] = reduce


_question(np.all, ops.all, True)
_question(np.any, ops.any, False)


@function(np.count_nonzero, kind="composite")
def count_nonzero(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    return np.sum(operand(a) != 0, axis=axis, keepdims=bool(keepdims))


def _position(numpy_function, op) -> None:
    name = f"np.{numpy_function.__name__}"

    @function(numpy_function)
    def position(a: Array, axis: Axis = None, out: Array = None, *, keepdims: bool = UNSET) -> Array:
        refuse_out(out, name)
        a = operand(a)
        flat = a.reshape(-1) if axis is None or not a.ndim else a
        single = normalize_axis(0 if axis is None else axis, flat.ndim, name)
        result = op(flat, axis=single)
        if not is_on(keepdims):
            return result
        axes = _axes(axis, a.ndim, name)
        return np.reshape(result, ops.reduced_shape(a.shape, axes, True))


_position(np.argmax, ops.argmax)
_position(np.argmin, ops.argmin)
_position(np.nanargmax, ops.nanargmax)
_position(np.nanargmin, ops.nanargmin)


# ── methods of ufuncs ────────────────────────────────────────────────────────────────────────────────────────────


UFUNC_METHODS[np.add, "reduce"] = lambda array, axis=0, **given: sum_(array, axis, **given)
UFUNC_METHODS[np.multiply, "reduce"] = lambda array, axis=0, **given: prod(array, axis, **given)
