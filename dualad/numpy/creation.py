"""Creation: under a transform these make buffers, and join traced scalars; outside they are NumPy's.

For: ``array`` and its relatives, ``zeros`` and its relatives, and NumPy's few Python classes that build arrays without
dispatch (``r_``, ``c_``, ``vectorize``, ``ndenumerate``). Not for: creation like a tensor (``surface/creation.py``).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..boundary.boundary import running
from ..core.tracer import Tracer
from ..memory.buffer import Buffer, buffered, traced_in
from ..memory.order import convert_like_numpy
from ..surface.arguments import operand
from .direct import direct

__all__ = [
    "arange", "array", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "c_",
    "empty", "eye", "fromfunction", "fromiter", "full", "identity", "indices", "isscalar", "ndenumerate", "ones", "r_",
    "require", "tri", "vectorize", "zeros",
]  # fmt: skip


# ── from values ──────────────────────────────────────────────────────────────────────────────────────────────────


#: how ``array_api_compat`` says whether to copy -> how NumPy's documentation does
_COPY_MODES = {np._CopyMode.ALWAYS: True, np._CopyMode.NEVER: False, np._CopyMode.IF_NEEDED: None}


def array(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, like=None, **kwargs):
    """As ``numpy.array``; tensors among the entries are joined, exactly, into one tensor."""
    copy = _COPY_MODES.get(copy, copy)
    object = _of_its_own(object)
    if like is None and traced_in(object) is not None:
        always = copy if isinstance(object, Tracer) else None  # what a list is joined to is new
        return _join(object, lambda x: np.array(x, dtype, copy=always, order=order, ndmin=ndmin), copy)
    if like is not None:
        kwargs["like"] = like
    out = np.array(_unwrap(object), dtype, copy=copy, order=order, subok=subok, ndmin=ndmin, **kwargs)
    if type(object) is Buffer and not copy and np.may_share_memory(out, object._value):
        return object if out.shape == object.shape else np.reshape(object, out.shape)
    return buffered(out, object) if running.get() and like is None else out


def asarray(a, dtype=None, order=None, *, device=None, copy=None, like=None):
    """As ``numpy.asarray``; a tensor stays what it is, and tensors in a list are joined into one."""
    if device not in (None, "cpu"):
        raise ValueError(f'Device not understood. Only "cpu" is allowed, but received: {device}')
    if like is not None:
        return np.asarray(a, dtype, order, copy=copy, like=like)
    a = _of_its_own(a)
    if traced_in(a) is not None:
        return _join(a, lambda x: np.asarray(x, dtype, order, copy=copy), copy)
    out = np.asarray(_unwrap(a), dtype, order, copy=copy)
    if not running.get():
        return out
    return a if type(a) is Buffer and out is a._value else buffered(out, *[a] * isinstance(a, np.ndarray))


def _of_its_own(x: Any) -> Any:
    """Return the tensor that an object of the user's makes where it is asked for an array, and else the object."""
    if isinstance(x, (np.ndarray, np.generic, Tracer)) or not running.get() or not hasattr(type(x), "__array__"):
        return x
    made = x.__array__()
    return made if isinstance(made, Tracer) else x


def _join(x: Any, convert: Callable, copy: bool | None = None):
    """Return a tensor, or what joins the tensors in a list, as NumPy's ``convert`` returns an array."""
    out = operand(x)
    if copy is False and out is not x:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return convert_like_numpy(out, convert)


def _unwrap(x: Any) -> Any:
    """Return plain arrays in place of buffers, for NumPy's conversion of nested sequences."""
    if type(x) is Buffer:
        return x._value
    if type(x) in (list, tuple):
        return type(x)([_unwrap(item) for item in x])
    return x


def asanyarray(a, dtype=None, order=None, *, device=None, copy=None, like=None):
    """As ``numpy.asanyarray``."""
    if like is None and isinstance(a, np.ndarray) and a.dtype != object:
        return np.asanyarray(a, dtype, order, copy=copy)
    return asarray(a, dtype, order, device=device, copy=copy, like=like)


def _in_order(function: Callable, least: int) -> Callable:
    """Make a tensor itself, or a copy where NumPy would make one, of ``least`` axes or more."""

    @functools.wraps(function)
    def convert(a, dtype=None, *, like=None):
        if like is None and traced_in(a) is not None:
            return _join(a, lambda x: function(x, dtype))
        out = asarray(a, dtype, like=like)
        out = out if np.ndim(out) >= least else np.reshape(out, (1,))
        return function(out) if type(out) is np.ndarray else out

    convert.__module__ = __name__  # where it can be imported from
    return direct(function, convert)


ascontiguousarray, asfortranarray = _in_order(np.ascontiguousarray, 1), _in_order(np.asfortranarray, 0)


def require(a, dtype=None, requirements=None, *, like=None):
    """As ``numpy.require``: a tensor itself, or a copy where NumPy would make one."""
    if like is None and traced_in(a) is not None:
        return _join(a, lambda x: np.require(x, dtype, requirements))
    if like is None and not running.get():
        return np.require(a, dtype, requirements)
    return asarray(a, dtype, like=like)


def asarray_chkfinite(a, dtype=None, order=None):
    """As ``numpy.asarray_chkfinite``; values that are not known yet are not checked."""
    out = asarray(a, dtype, order)
    if isinstance(out, (np.ndarray, Buffer)) and out.dtype.kind in "fc" and not np.isfinite(out).all():
        raise ValueError("array must not contain infs or NaNs")
    return out


# ── from a shape ─────────────────────────────────────────────────────────────────────────────────────────────────


def _making(function: Callable) -> Callable:
    # The old contents of memory would be a constant of a program, another one at each trace.
    made = np.zeros if function is np.empty else function

    @functools.wraps(function)
    def make(*args, **kwargs):
        if not running.get() or kwargs.get("like") is not None:
            return function(*args, **kwargs)
        return buffered(made(*_unwrap(args), **{k: _unwrap(v) for k, v in kwargs.items()}))

    return direct(made, make)


arange, empty, eye, fromfunction, _fromiter, identity, indices, ones, tri, zeros = [
    _making(f)
    for f in (
        np.arange, np.empty, np.eye, np.fromfunction, np.fromiter, np.identity, np.indices, np.ones, np.tri, np.zeros,
    )
]  # fmt: skip


def fromiter(iter, dtype, count=-1, *, like=None):
    """As ``numpy.fromiter``; tensors among the entries are joined into one tensor."""
    entries = [*iter] if count < 0 else [*itertools.islice(iter, count)]
    if traced_in(entries) is None or len(entries) < count:
        return _fromiter(entries, dtype, count, like=like)
    return array(entries, dtype)


def full(shape, fill_value, dtype=None, order="C", *, device=None, like=None):
    """As ``numpy.full``; the value may be traced."""
    tensor = traced_in(fill_value)
    if tensor is not None and like is None:
        return np.full(shape, operand(fill_value), dtype, like=tensor)
    return _full(shape, fill_value, dtype, order, device=device, **({} if like is None else {"like": like}))


_full = _making(np.full)
array, asarray, asanyarray, full = [
    direct(original, ours)
    for original, ours in (
        (np.array, array), (np.asarray, asarray), (np.asanyarray, asanyarray), (np.full, full),
    )
]  # fmt: skip


# ── NumPy's classes that convert what they are given ─────────────────────────────────────────────────────────────


class _Joined:
    """The type of ``r_`` and ``c_``: slices become ranges, numbers and vectors get a shape, and all is joined."""

    def __init__(self, original, ndim: int, shape: tuple[int, ...], axis: int) -> None:
        self._original, self._ndim, self._shape, self._axis = original, ndim, shape, axis

    def __getitem__(self, key):
        entries = key if isinstance(key, tuple) else (key,)
        if traced_in(entries) is None or isinstance(entries[0], str):
            out = self._original[_unwrap(key)]
            return buffered(out) if running.get() else out
        parts = [np.r_[e] if isinstance(e, slice) else operand(e) for e in entries]
        parts = [p if np.ndim(p) >= self._ndim else np.reshape(p, self._shape) for p in parts]
        return np.concatenate(parts, axis=self._axis)


r_, c_ = _Joined(np.r_, 1, (1,), 0), _Joined(np.c_, 2, (-1, 1), -1)


class vectorize(np.vectorize):
    """As ``numpy.vectorize``; on tensors the function is called entry by entry and the results are joined."""

    def __call__(self, *args, **kwargs):
        """Call the function on every entry of the broadcast arguments."""
        if traced_in(args, kwargs) is None or self.signature is not None:
            return super().__call__(*args, **kwargs)
        left_out = self.excluded or set()
        spread: dict[Any, Any] = {i: operand(a) for i, a in enumerate(args) if i not in left_out}
        spread |= {k: operand(a) for k, a in kwargs.items() if k not in left_out}
        arrays = dict(zip(spread, np.broadcast_arrays(*spread.values()), strict=True))
        shape = next(iter(arrays.values())).shape
        results = [
            self.pyfunc(
                *[arrays[i][index] if i in arrays else a for i, a in enumerate(args)],
                **{k: arrays[k][index] if k in arrays else a for k, a in kwargs.items()},
            )
            for index in np.ndindex(*shape)
        ]
        if not results:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        if isinstance(results[0], tuple):
            return tuple([np.reshape(array(list(column)), shape) for column in zip(*results, strict=True)])
        return np.reshape(array(results), shape)


class ndenumerate:
    """As ``numpy.ndenumerate``; a write in the loop is seen."""

    def __init__(self, arr) -> None:
        self._arr = asarray(arr)

    def __iter__(self) -> Iterator:
        for index in np.ndindex(*np.shape(self._arr)):
            yield index, self._arr[index]


def isscalar(element) -> bool:
    """As ``numpy.isscalar``; a result without axes is a scalar, as NumPy's are."""
    return element.class_in_numpy() is not np.ndarray if isinstance(element, Tracer) else np.isscalar(element)
