"""NumPy's reductions: their signatures, worked into calls of the operators of ``ops/reductions.py``.

``where=`` becomes ``np.where`` on the operand, ``initial=`` one more operation on the result, ``dtype=`` a cast
before. Not for: functions composed of other NumPy calls (``composites.py``), sorting (``sorting.py``).
"""

from __future__ import annotations

import numpy as np

from ..core.dispatch import apply
from ..core.tracer import Tensor
from ..errors import InPlaceError
from ..ops import reductions as ops
from .arguments import normalize_axes, operand
from .functions import function
from .ufuncs import UFUNC_METHODS

__all__: list[str] = []

_UNSET = np._NoValue
_ALL_AXES = tuple([tuple(range(n)) for n in range(9)])


def _axes(axis, ndim: int, name: str) -> tuple[int, ...]:
    if axis is None and ndim < 9:
        return _ALL_AXES[ndim]
    return normalize_axes(axis, ndim, name)


def _refuse_out(out, name: str) -> None:
    if out is not None and out is not _UNSET:
        raise InPlaceError(
            f"{name}: out= was given an array of type {type(out).__name__}.",
            "a plain array can't hold a tangent, and writing into tensors is not supported yet",
            f"use the result: y = {name}(...)",
        )


def _given(keepdims) -> bool:
    return keepdims is not _UNSET and bool(keepdims)


def _masked(a, where, fill):
    """Put ``fill``, which does not change the reduction, where it is not to look."""
    if where is True or where is _UNSET or where is None:
        return a
    where = operand(where)
    if np.broadcast_shapes(getattr(where, "shape", ()), a.shape) != a.shape:
        raise ValueError(f"where= of shape {where.shape} does not broadcast to the operand's shape {a.shape}")
    return np.where(where, a, fill)


def _cast(a, dtype):
    return (
        a
        if dtype is None or dtype is _UNSET
        else np.astype(a, dtype)
        if isinstance(a, Tensor)
        else np.asarray(a, dtype)
    )


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@function(np.sum)
def sum_(a, axis=None, dtype=None, out=None, keepdims=_UNSET, initial=_UNSET, where=_UNSET):
    if not isinstance(a, Tensor):
        a = operand(a)
    if out is not None:
        _refuse_out(out, "np.sum")
    if dtype is not None or (where is not _UNSET and where is not True):
        a = _masked(_cast(a, dtype), where, 0)
    result = apply(ops.sum, (a,), {"axis": _axes(axis, a.ndim, "np.sum"), "keepdims": _given(keepdims)})
    if dtype is not None:
        result = _cast(result, dtype)
    if initial is not _UNSET and not (type(initial) is int and initial == 0):
        result = result + _initial(initial, result)
    return result


def _initial(initial, result):
    """Return ``initial=`` in the dtype of the result, as NumPy casts it."""
    return initial if isinstance(initial, Tensor) else np.asarray(initial).astype(result.dtype)[()]


@function(np.mean)
def mean(a, axis=None, dtype=None, out=None, keepdims=_UNSET, *, where=_UNSET):
    _refuse_out(out, "np.mean")
    a = operand(a)
    axes = _axes(axis, a.ndim, "np.mean")
    final = None
    if dtype is None and a.dtype.kind in "biu":
        dtype = np.float64
    elif dtype is None and a.dtype == np.float16:
        dtype, final = np.float32, np.float16  # as NumPy: a sum of float16 overflows easily
    total = np.sum(a, axis=axes, dtype=dtype, keepdims=keepdims, where=where)
    count = 1
    if where is _UNSET or where is True:
        for n in axes:
            count *= a.shape[n]
    else:
        count = np.sum(np.broadcast_to(where, a.shape), axis=axes, keepdims=keepdims)
        count = count.astype(total.dtype if total.dtype.kind == "f" else np.float64)
    result = total / count
    return result if final is None else result.astype(final)


def _add_reduce(array, axis=0, dtype=None, out=None, keepdims=False, initial=_UNSET, where=True):
    return np.sum(array, axis=axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where)


UFUNC_METHODS[np.add, "reduce"] = _add_reduce
