"""Creation: arrays like a tensor, and the ranges whose ends may be traced.

``np.zeros_like(x)`` and ``np.zeros(n, like=x)`` give a *constant* that the transforms of ``x`` see: its tangent is
exactly zero, and it can stand wherever a tensor can. Plain ``np.zeros(n)`` never enters dualad.
Not for: creation without a tensor, which is NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..core.aval import Array, DType, Shape
from ..core.dispatch import bind
from ..core.tables import CREATION, register
from ..core.tracer import PLAIN, Tracer
from ..memory.memory import as_array, laid_out, layout
from ..memory.order import convert_like_numpy, in_order
from ..ops import shaping
from ..ops.choice import nowhere
from .arguments import array_operand, function, normalize_axis, operand

_F = TypeVar("_F", bound=Callable)

# ── like a tensor ────────────────────────────────────────────────────────────────────────────────────────────────


def _fill(like, value, shape, dtype):
    """Return ``value``, broadcast and cast, as a constant (in ``like``; ``value`` keeps its own tangents)."""
    if not isinstance(shape, tuple) or not all(type(n) is int for n in shape):
        shape = (int(shape),) if np.ndim(shape) == 0 else tuple([int(n) for n in shape])
    if type(value) is not int:
        value = operand(value)
        value_shape = np.shape(value)
        if value_shape and np.broadcast_shapes(value_shape, shape) != shape:
            raise ValueError(f"could not broadcast input array from shape {value_shape} into shape {shape}")
    return as_array(bind(shaping.filled, (like, value), {"shape": shape, "dtype": np.dtype(dtype)}))


def _like(a, value, dtype, shape, order):
    a = operand(a)
    out = _fill(a, value, a.shape if shape is None else shape, a.dtype if dtype is None else dtype)
    if isinstance(a, Tracer) and len(out.shape) > 1:
        return laid_out(out, np.empty_like(layout(a), dtype, order, shape=shape).strides)
    return out


def _filled_like(numpy_function, value) -> None:
    @function(numpy_function)
    def filled_like(
        a: Array, dtype: DType = None, order: str | None = "K", subok: bool = True, shape: Shape = None, *,
        device: Any = None,
    ) -> Array:  # fmt: skip
        return _like(a, value, dtype, shape, order)


_filled_like(np.zeros_like, 0)
_filled_like(np.ones_like, 1)


@function(np.empty_like)
def empty_like(
    prototype: Array, /, dtype: DType = None, order: str | None = "K", subok: bool = True, shape: Shape = None, *,
    device: Any = None,
) -> Array:  # fmt: skip
    return _like(prototype, 0, dtype, shape, order)


@function(np.full_like)
def full_like(
    a: Array, fill_value: Array, dtype: DType = None, order: str | None = "K", subok: bool = True, shape: Shape = None,
    *, device: Any = None,
) -> Array:  # fmt: skip
    return _like(a, fill_value, dtype, shape, order)


# ── the keyword like= ────────────────────────────────────────────────────────────────────────────────────────────


def _creation(*numpy_functions: Callable) -> Callable[[_F], _F]:
    def registered(handler):
        for f in dict.fromkeys(numpy_functions):
            register(CREATION, f, handler, "op")
        return handler

    return registered


def _filled(value, *numpy_functions) -> None:
    @_creation(*numpy_functions)
    def filled(like: Any, shape: Shape, dtype: DType = None, order: str | None = "C", *, device: Any = None) -> Array:
        return in_order(_fill(like, value, shape, float if dtype is None else dtype), order)


_filled(0, np.zeros, np.empty)
_filled(1, np.ones)


@_creation(np.full)
def _full(
    like: Any, shape: Shape, fill_value: Array, dtype: DType = None, order: str | None = "C", *, device: Any = None
) -> Array:
    fill_value = operand(fill_value)
    if dtype is None:
        dtype = array_operand(fill_value).dtype
    return in_order(_fill(like, fill_value, shape, dtype), order)


def _plain(function):
    """Register a function that makes plain numbers: they are made, and seen by the transforms of ``like``."""

    def handler(like, *args, **kwargs):
        value = function(*args, **kwargs)
        return _fill(like, value, value.shape, value.dtype)

    _creation(function)(handler)


for _function in (np.eye, np.identity, np.arange, np.tri):
    _plain(_function)


def _converting(function):
    """Register a function that makes an array of anything: a tensor, too, or plain numbers as the tensor sees them."""

    def handler(like: Any, a: Array, dtype: DType = None, *args: Any, **kwargs: Any) -> Array:
        a = operand(a)
        if isinstance(a, Tracer):
            return convert_like_numpy(a, lambda x: function(x, dtype, *args, **kwargs))
        a = function(a, dtype, *args, **kwargs)
        return laid_out(_fill(like, a, a.shape, a.dtype), a.strides)

    _creation(function)(handler)


for _function in (np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require):
    _converting(_function)


# ── ranges between traced ends ───────────────────────────────────────────────────────────────────────────────────


@function(np.linspace, kind="composite")
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: DType = None,
    axis: int = 0, *, device: Any = None,
) -> Array:  # fmt: skip
    """Return start + i (stop − start) / n: a line in both of its ends."""
    start, stop, i, intervals = _grid(operand(start), operand(stop), num, endpoint)
    step = (stop - start) / intervals if intervals > 0 else (stop - start) * np.nan
    y = start + i * (step if intervals > 0 else stop - start)
    if endpoint and len(i) > 1:
        y = np.concatenate([y[:-1], np.broadcast_to(stop, (1, *y.shape[1:]))])
    return _finish(y, axis, dtype, (step,) if retstep else ())


@function(np.logspace, kind="composite")
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Array = 10.0, dtype: DType = None, axis: int = 0
) -> Array:
    if np.ndim(base) > 0:
        start, stop = operand(start), operand(stop)
        ndim = max(np.ndim(start), np.ndim(stop), np.ndim(base))
        base = np.expand_dims(operand(base), axis=normalize_axis(axis, ndim + 1, "np.logspace"))
    y = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else y.astype(dtype, copy=False)


@function(np.geomspace, kind="composite")
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: DType = None, axis: int = 0) -> Array:
    """Return start (stop / start)^(i / n), along the straight or spiral path between its ends."""
    start, stop, i, intervals = _grid(array_operand(start), array_operand(stop), num, endpoint)
    for end in (start, stop):
        if type(end) in PLAIN and np.any(end == 0):
            raise ValueError("Geometric sequence cannot include zero")
    y = start * (stop / start) ** (i / intervals if intervals > 0 else i)
    if len(i):
        y = np.concatenate([np.broadcast_to(start, (1, *y.shape[1:])), y[1:]])
    if endpoint and len(i) > 1:
        lost = np.isnan(start)  # which spoils NumPy's last entry too
        last = stop if nowhere(lost) else np.where(lost, start, stop)
        y = np.concatenate([y[:-1], np.broadcast_to(last, (1, *y.shape[1:]))])
    return _finish(y, axis, dtype, ())


def _grid(start, stop, num, endpoint) -> tuple:
    """Return both ends as floating-point operands, 0 to ``num`` along a new leading axis, and how many steps it is."""
    num = num.__index__()
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    dtype = np.result_type(*[getattr(x, "dtype", x) for x in (start, stop)], float(num))
    start, stop = [array_operand(x).astype(dtype, copy=False) for x in (start, stop)]
    i = np.arange(num).reshape((-1,) + (1,) * max(np.ndim(start), np.ndim(stop))).astype(dtype)
    return start, stop, i, num - 1 if endpoint else num


def _finish(y, axis, dtype, rest: tuple):
    if axis != 0:
        y = np.moveaxis(y, 0, axis)
    if dtype is not None:
        y = (np.floor(y) if np.dtype(dtype).kind in "iu" else y).astype(dtype, copy=False)
    return (y, *rest) if rest else y


@function(np.vander, kind="composite")
def vander(x: Array, N: int | None = None, increasing: bool = False) -> Array:
    x = operand(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    N = x.shape[0] if N is None else N
    x = x.astype(np.promote_types(x.dtype, int), copy=False)
    powers = [np.ones(x.shape, x.dtype), x][:N]
    while len(powers) < N:
        powers.append(powers[-1] * x)
    if not powers:
        return np.zeros_like(x, shape=(x.shape[0], 0))
    return np.stack(powers if increasing else powers[::-1], axis=-1)
