"""NumPy's array functions that normalize their arguments and call one operator.

Not for: functions composed of other NumPy calls (``composites.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..core.tables import FUNCTIONS, VERDICTS, Verdict
from ..core.tracer import Tensor
from ..ops import shaping
from .arguments import normalize_axes, normalize_axis, operand

__all__ = ["function"]


def function(*numpy_functions: Callable, kind: str = "op") -> Callable:
    """Register a handler, with NumPy's own signature, for the given NumPy functions."""

    def register(handler: Callable) -> Callable:
        for f in numpy_functions:
            FUNCTIONS[f] = handler
            VERDICTS[f] = Verdict(kind)
        return handler

    return register


# ── what an aval says ────────────────────────────────────────────────────────────────────────────────────────────


@function(np.shape, kind="metadata")
def shape(a):
    return operand(a).shape


@function(np.ndim, kind="metadata")
def ndim(a):
    return operand(a).ndim


@function(np.size, kind="metadata")
def size(a, axis=None):
    a = operand(a)
    if axis is None:
        return a.size
    return math.prod([a.shape[i] for i in normalize_axes(axis, a.ndim, "np.size")])


@function(np.result_type, kind="metadata")
def result_type(*arrays_and_dtypes):
    return np.result_type(*[x.dtype if isinstance(x, Tensor) else x for x in arrays_and_dtypes])


@function(np.can_cast, kind="metadata")
def can_cast(from_, to, casting="safe"):
    return np.can_cast(from_.dtype if isinstance(from_, Tensor) else from_, to, casting)


@function(np.min_scalar_type, kind="metadata")
def min_scalar_type(a, /):
    return a.dtype


@function(np.iscomplexobj, kind="metadata")
def iscomplexobj(x):
    return operand(x).dtype.kind == "c"


@function(np.isrealobj, kind="metadata")
def isrealobj(x):
    return operand(x).dtype.kind != "c"


@function(np.common_type, kind="metadata")
def common_type(*arrays):
    return np.common_type(*[np.zeros(0, x.dtype) if isinstance(x, Tensor) else x for x in arrays])


# ── moving axes ──────────────────────────────────────────────────────────────────────────────────────────────────


@function(np.broadcast_to)
def broadcast_to(array, shape, subok=False):
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    array = operand(array)
    np.broadcast_shapes(array.shape, shape)
    return shaping.broadcast_to(array, shape=shape)


@function(np.reshape)
def reshape(a, /, shape=None, order="C", *, newshape=None, copy=None):
    shape = newshape if shape is None else shape
    a = operand(a)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple([int(n) for n in shape])
    if -1 in shape:
        known = 1
        for n in shape:
            known *= n if n != -1 else 1
        if shape.count(-1) > 1 or known == 0 or a.size % known:
            raise ValueError(f"cannot reshape array of size {a.size} into shape {shape}")
        shape = tuple([a.size // known if n == -1 else n for n in shape])
    if shape == a.shape:
        return a
    size = 1
    for n in shape:
        size *= n
    if size != a.size:
        raise ValueError(f"cannot reshape array of size {a.size} into shape {shape}")
    if order == "F":
        reversed_axes = tuple(range(a.ndim))[::-1]
        back = tuple(range(len(shape)))[::-1]
        return np.transpose(np.reshape(np.transpose(a, reversed_axes), shape[::-1]), back)
    return shaping.reshape(a, shape=shape)


@function(np.transpose)
def transpose(a, axes=None):
    a = operand(a)
    if axes is None:
        axes = tuple(range(a.ndim))[::-1]
    axes = tuple([normalize_axis(x, a.ndim, "np.transpose") for x in axes])
    if sorted(axes) != list(range(a.ndim)):
        raise ValueError("axes don't match array")
    return shaping.transpose(a, axes=axes)


@function(np.astype)
def astype(x, dtype, /, *, copy=True, device=None):
    dtype = np.dtype(dtype)
    return x if x.dtype == dtype else shaping.astype(x, dtype=dtype)


@function(np.moveaxis)
def moveaxis(a, source, destination):
    a = operand(a)
    source = [normalize_axis(s, a.ndim, "np.moveaxis") for s in (source if np.iterable(source) else [source])]
    destination = [
        normalize_axis(d, a.ndim, "np.moveaxis") for d in (destination if np.iterable(destination) else [destination])
    ]
    order = [n for n in range(a.ndim) if n not in source]
    for dest, src in sorted(zip(destination, source, strict=True)):
        order.insert(dest, src)
    return np.transpose(a, order)
