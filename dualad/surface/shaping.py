"""Shapes: NumPy's questions about them, which are answered from the aval, and reshaping, moving axes, repeating.

Not for: their rules (``ops/shaping.py``), joining and splitting (``joining.py``), or selecting entries
(``indexing.py``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.aval import Array, Axis, DType, Shape, aval_of
from ..core.tracer import Tracer
from ..errors import ConversionError, UnsupportedError
from ..memory.memory import apply_view, as_array, is_scalar, layout, record, writer
from ..memory.order import convert_like_numpy, in_order, like_copy, order_of, second
from ..ops import shaping
from .arguments import function, normalize_axes, normalize_axis, numpys_own, operand


@function(np.shape, kind="metadata")
def shape(a: Array) -> Array:
    return operand(a).shape


@function(np.ndim, kind="metadata")
def ndim(a: Array) -> Array:
    return len(operand(a).shape)


@function(np.size, kind="metadata")
def size(a: Array, axis: Axis = None) -> Array:
    a = operand(a)
    return math.prod([a.shape[i] for i in normalize_axes(axis, a.ndim, "np.size")])


@function(np.result_type, kind="metadata")
def result_type(*arrays_and_dtypes: Any) -> Array:
    return np.result_type(*[x.dtype if isinstance(x, Tracer) else x for x in arrays_and_dtypes])


@function(np.can_cast, kind="metadata")
def can_cast(from_: Any, to: Any, casting: str = "safe") -> Array:
    return np.can_cast(from_.dtype if isinstance(from_, Tracer) else from_, to, casting)


@function(np.min_scalar_type, kind="metadata")
def min_scalar_type(a: Array, /) -> Array:
    """Return the dtype: that alone is known of a tensor, as of any array with axes."""
    return a.dtype


numpys_own(
    np.common_type, np.diag_indices_from, np.isrealobj, np.tril_indices_from, np.triu_indices_from, kind="metadata"
)
numpys_own(
    np.atleast_1d, np.atleast_2d, np.atleast_3d, np.expand_dims, np.fliplr, np.flipud, np.linalg.matrix_transpose,
    np.matrix_transpose, np.moveaxis, np.resize, np.rollaxis, np.rot90, kind="composite",
)  # fmt: skip


@function(np.iscomplexobj, kind="metadata")
def iscomplexobj(x: Array) -> Array:
    return aval_of(operand(x)).dtype.kind == "c"


# ── reshaping ────────────────────────────────────────────────────────────────────────────────────────────────────


@function(np.broadcast_to)
def broadcast_to(array: Array, shape: Shape, subok: bool = False) -> Array:
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    array = operand(array)
    if np.broadcast_shapes(array.shape, shape) != shape:
        raise ValueError(f"could not broadcast an array of shape {array.shape} to shape {shape}")
    out = apply_view(shaping.broadcast_to, array, {"shape": shape})
    if isinstance(array, Tracer) and out is not array and is_scalar(array):  # NumPy's is of an array that nobody has
        record(out).strides = (0,) * len(shape)
    return out


@function(np.reshape)
def reshape(
    a: Array, /, shape: Shape = None, order: str | None = "C", *, newshape: Any = None, copy: bool | None = None
) -> Array:
    shape = newshape if shape is None else shape
    order = _named_order(order)
    a = operand(a)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple([int(n) for n in shape])
    if -1 in shape:
        known = 1
        for n in shape:
            known *= n if n != -1 else 1
        if shape.count(-1) > 1 or known == 0 or a.size % known:
            raise ValueError(f"cannot reshape array of size {a.size} into shape {shape}")
        shape = tuple([a.size // known if n == -1 else n for n in shape])
    size = 1
    for n in shape:
        size *= n
    if size != a.size:
        raise ValueError(f"cannot reshape array of size {a.size} into shape {shape}")
    if copy:
        a = np.copy(a, order)
    elif copy is False and isinstance(a, Tracer):
        like = layout(a)
        if a.size and not np.may_share_memory(np.reshape(like, shape, order), like):
            raise ValueError("Unable to avoid creating a copy while reshaping.")
    if shape == a.shape:
        return second(a)
    _refuse_order_in_memory(a, order)
    if order == "F":
        back = tuple(range(len(shape)))[::-1]
        return np.transpose(np.reshape(np.transpose(a), shape[::-1]), back)
    return apply_view(shaping.reshape, a, {"shape": shape})


@writer(shaping.reshape)
def _write_reshaped(base, params, value):
    return shaping.reshape(value, shape=base.shape)


def _named_order(order: str | None) -> str:
    """Return an order by its capital letter; ``None`` is the default."""
    named = "C" if order is None else str(order).upper()
    if named not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return named


def _refuse_order_in_memory(a: Array, order: str | None) -> None:
    if order in ("A", "K") and sum([n > 1 for n in a.shape]) > 1:
        raise UnsupportedError(
            f"an array of shape {a.shape} was flattened or reshaped with order={order!r}.",
            "that is the order of its entries in memory, and a tensor is not one block of memory",
            "say order='C' (the last index runs fastest) or order='F' (the first one)",
        )


@function(np.ravel, kind="composite")
def ravel(a: Array, order: str | None = "C") -> Array:
    a, order = operand(a), _named_order(order)
    if not isinstance(a, Tracer):
        return np.ravel(a, order)
    _refuse_order_in_memory(a, order)
    if a.ndim == 1:
        return convert_like_numpy(a, np.ravel)
    if order == "F":
        a = np.transpose(a)
    return apply_view(shaping.reshape, a, {"shape": (a.size,)}, np.ravel)


@function(np.squeeze, kind="composite")
def squeeze(a: Array, axis: Axis = None) -> Array:
    a = operand(a)
    if axis is None:
        return np.reshape(a, tuple([n for n in a.shape if n != 1]))
    if not a.ndim and type(axis) is int and axis in (0, -1):
        return a  # NumPy lets a number have one axis
    axes = normalize_axes(axis, a.ndim, "np.squeeze")
    if any(a.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return np.reshape(a, tuple([n for i, n in enumerate(a.shape) if i not in axes]))


@function(np.broadcast_arrays, kind="composite")
def broadcast_arrays(*args: Array, subok: bool = False) -> tuple:
    args = [operand(a) for a in args]
    shape = np.broadcast_shapes(*[np.shape(a) for a in args])
    return tuple([np.broadcast_to(a, shape) for a in args])


@function(np.copy)
def copy(a: Array, order: str | None = "K", subok: bool = False) -> Array:
    a = operand(a)
    out = as_array(shaping.copy(a))
    if order in ("K", "k", None):
        return like_copy(out, a) if hasattr(a, "_memory") else out
    return in_order(out, order_of(a) if order in ("A", "a") else order)


@function(np.astype)
def astype(
    x: Array, dtype: DType, /, *, copy: bool | None = True, device: Any = None, order: str | None = "K"
) -> Array:
    dtype = np.dtype(dtype)
    if dtype.hasobject and isinstance(x, Tracer):
        raise ConversionError(
            f"a {x._kind()} of shape {x.shape} was to have dtype {dtype}.",
            "Python objects in lanes or beside tangents are no numbers to compute with",
            "leave the dtype as it is; a list holds tensors of any shape",
        )
    if x.dtype != dtype:
        out = in_order(shaping.astype(x, dtype=dtype), order)
        return out if x.shape or is_scalar(x) else as_array(out)
    if copy:
        return x.copy(order)
    if order != "K":
        return convert_like_numpy(x, lambda like: like.astype(dtype, order, copy=False))
    return x.numpy_number() if isinstance(x, Tracer) else x


# ── moving axes ──────────────────────────────────────────────────────────────────────────────────────────────────


@function(np.transpose)
def transpose(a: Array, axes: Any = None) -> Array:
    a = operand(a)
    if axes is None:
        axes = tuple(range(a.ndim - 1, -1, -1))
    else:
        axes = tuple([normalize_axis(x, a.ndim, "np.transpose") for x in axes])
        if sorted(axes) != list(range(a.ndim)):
            raise ValueError("axes don't match array")
    return apply_view(shaping.transpose, a, {"axes": axes})


@writer(shaping.transpose)
def _write_transposed(base, params, value):
    axes = params["axes"]
    return shaping.transpose(value, axes=tuple(sorted(range(len(axes)), key=axes.__getitem__)))


@function(np.swapaxes, kind="composite")
def swapaxes(a: Array, axis1: int, axis2: int) -> Array:
    a = operand(a)
    i, j = normalize_axis(axis1, a.ndim, "np.swapaxes"), normalize_axis(axis2, a.ndim, "np.swapaxes")
    order = list(range(a.ndim))
    order[i], order[j] = j, i
    return np.transpose(a, order)


# ── reversing and repeating ──────────────────────────────────────────────────────────────────────────────────────


@function(np.flip)
def flip(m: Array, axis: Axis = None) -> Array:
    m = operand(m)
    return apply_view(shaping.flip, m, {"axes": normalize_axes(axis, m.ndim, "np.flip")})


@writer(shaping.flip)
def _write_flip(base, params, value):
    return shaping.flip(value, **params)


@function(np.roll, kind="composite")
def roll(a: Array, shift: Any, axis: Axis = None) -> Array:
    a = operand(a)
    if axis is None:
        return np.reshape(np.roll(np.ravel(a), shift, 0), a.shape)
    axes = [normalize_axis(i, a.ndim, "np.roll") for i in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if np.ndim(shift) > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    if isinstance(shift, Tracer):
        raise UnsupportedError(
            f"np.roll: shift is a {shift._kind()}.",
            "where the pieces are cut depends on its values, which differ between lanes or are not known yet",
            "gather with computed indices: np.take(x, (np.arange(n) - shift) % n)",
        )
    out = np.copy(a)
    for i, s in np.broadcast(axes, np.asarray(shift)):
        n = a.shape[i]
        s = int(s) % n if n else 0
        if s:
            before = (slice(None),) * int(i)
            out = np.concatenate([out[(*before, slice(n - s, n))], out[(*before, slice(0, n - s))]], axis=int(i))
    return like_copy(out, a)


@function(np.tile, kind="composite")
def tile(A: Array, reps: Any) -> Array:
    A = operand(A)
    reps = tuple(reps) if isinstance(reps, (tuple, list, np.ndarray)) else (reps,)
    shape = (1,) * (len(reps) - np.ndim(A)) + np.shape(A)
    if all([r == 1 for r in reps]):
        return np.reshape(np.copy(A), shape)
    reps = (1,) * (len(shape) - len(reps)) + tuple([int(r) for r in reps])
    # An axis (1, n) broadcast to (r, n) and merged is n repeated r times.
    split = np.reshape(A, tuple([m for n in shape for m in (1, n)]))
    repeated = np.broadcast_to(split, tuple([m for r, n in zip(reps, shape, strict=True) for m in (r, n)]))
    return _copy(np.reshape(repeated, tuple([r * n for r, n in zip(reps, shape, strict=True)])))


def _copy(x):
    """Return a copy of what came out as a view, because nothing had to be repeated."""
    return np.copy(x) if hasattr(x, "_memory") else x


@function(np.repeat, kind="composite")
def repeat(a: Array, repeats: Array, axis: Axis = None) -> Array:
    a = operand(a)
    if axis is None:
        a, axis = np.ravel(a), 0
    if not a.ndim:
        a = np.reshape(a, (1,))  # NumPy lets a number have one axis
    axis = normalize_axis(axis, a.ndim, "np.repeat")
    n = a.shape[axis]
    if isinstance(repeats, Tracer):
        raise UnsupportedError(
            f"np.repeat: repeats is a {repeats._kind()}.",
            "the shape of the result depends on its values, which differ between lanes or are not known yet",
            "compute the counts outside the transform",
        )
    if np.size(repeats) == 1:
        r = int(np.reshape(repeats, ()))
        if r < 0:
            raise ValueError("repeats may not contain negative values.")
        shape = (*a.shape[: axis + 1], r, *a.shape[axis + 1 :])
        repeated = np.broadcast_to(np.expand_dims(a, axis + 1), shape)
        return _copy(np.reshape(repeated, (*a.shape[:axis], n * r, *a.shape[axis + 1 :])))
    return np.take(a, np.repeat(np.arange(n), repeats), axis)
