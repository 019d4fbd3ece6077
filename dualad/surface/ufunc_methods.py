"""The methods of ufuncs that no array function spells: ``reduceat``, ``reduce`` of bits, logical_xor and logaddexp.

Also ``reduce`` and ``accumulate`` of ufuncs that are no sum, product or extremum, entry after entry.

Not for: ``reduce`` and ``accumulate`` of sums, products and extrema (``reductions.py``, ``sorting.py``), ``outer``
(``elementwise.py``), or ``at`` (``writing.py``).
"""

from __future__ import annotations

import numpy as np

from ..core.tracer import Tracer
from ..errors import UnsupportedError
from ..ops.choice import where as select
from ..ops.reductions import one_axis, reduced_shape
from ..ops.shaping import stop_gradient
from .arguments import UNSET, array_operand, normalize_axis, operand, reduced_axes
from .indexing import unstacked
from .ufuncs import ANY_UFUNC, UFUNC_METHODS, loop_dtypes


def _at_loop(ufunc: np.ufunc, array, dtype):
    """Return an array in the dtype in which a ufunc of two computes with it."""
    loop = loop_dtypes(ufunc, (array, array), dtype, "same_kind")[0]
    return array if loop.hasobject else array.astype(loop, copy=False)  # a function of Python's takes any


def _slices(array, axes: tuple[int, ...]):
    """Return an array whose leading axis goes through some axes of another one."""
    rows, single = one_axis(array, axes)
    return np.moveaxis(rows, single, 0)


# ── reduceat ─────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Entry k is the reduction of the slice from indices[k] to indices[k + 1], or that one entry where the slice is
# empty: a chain of ufunc.reduce, whose rules are those of the reductions.


def _reduceat(ufunc: np.ufunc):
    name = f"np.{ufunc.__name__}.reduceat"

    def reduceat(array, indices, axis=0, dtype=None):
        array = operand(array)
        if not array.ndim:
            raise TypeError("cannot reduceat on a scalar")
        axis = normalize_axis(axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis, array.ndim, name)
        starts = operand(indices)
        if isinstance(starts, Tracer):
            raise UnsupportedError(
                f"{name}: indices is a {starts._kind()}.",
                "how many entries each piece has depends on its values, which differ between lanes or are unknown",
                "compute the indices outside the transform, or write into segments with np.add.at",
            )
        if starts.ndim != 1:
            raise ValueError("object too deep for desired array" if starts.ndim else "object of too small depth")
        if ufunc is np.logaddexp:
            array = _at_loop(ufunc, array, dtype)
        n, before = array.shape[axis], (slice(None),) * axis
        starts = starts.astype(np.intp, casting="same_kind" if starts.size else "unsafe").tolist()
        for i in starts:
            if not 0 <= i < n:
                raise IndexError(f"index {i} out-of-bounds in {name} [0, {n})")
        if not starts:
            return ufunc.accumulate(array, axis=axis, dtype=dtype)[(*before, slice(0, 0))]
        pieces = [
            ufunc.reduce(array[(*before, slice(i, j if j > i else i + 1))], axis=axis, dtype=dtype)
            for i, j in zip(starts, [*starts[1:], n], strict=True)
        ]
        return np.stack(pieces, axis)

    return reduceat


# ── bits and parity ──────────────────────────────────────────────────────────────────────────────────────────────


def _fold(ufunc: np.ufunc, empty: int):
    """Make ``reduce`` of a ufunc on integers or truth values: half the entries meet the other half, log₂ n times."""
    name = f"np.{ufunc.__name__}.reduce"

    def reduce(array, axis=0, dtype=None, keepdims=False, initial=UNSET, where=True):
        array = operand(array)
        axes = reduced_axes(axis, array.ndim, name)
        shape = reduced_shape(array.shape, axes, bool(keepdims))
        if ufunc is np.logical_xor:
            if dtype is not None:
                loop_dtypes(ufunc, (bool, bool), dtype, "same_kind")  # raises where NumPy has no such loop
            array = array != 0
        else:
            array = _at_loop(ufunc, array, dtype)
        neutral = np.asarray(empty).astype(array.dtype)
        if where is not True:
            array = np.where(operand(where), array, neutral)
        rows = _slices(array, axes)
        while len(rows) > 1:
            half = len(rows) // 2
            folded = ufunc(rows[:half], rows[half : 2 * half])
            rows = np.concatenate([folded, rows[2 * half :]]) if len(rows) % 2 else folded
        result = np.copy(rows[0]) if len(rows) else np.broadcast_to(neutral, rows.shape[1:])
        if initial is not UNSET and initial is not None:
            result = ufunc(result, np.asarray(initial).astype(array.dtype))
        return np.reshape(result, shape)

    return reduce


# ── logaddexp.reduce ─────────────────────────────────────────────────────────────────────────────────────────────


def _logaddexp_reduce(array, axis=0, dtype=None, keepdims=False, initial=UNSET, where=True):
    """Compute log Σ exp x = m + log Σ exp(x − m) with m the largest entry, a constant: nothing depends on it."""
    x = _at_loop(np.logaddexp, operand(array), dtype)
    axes = reduced_axes(axis, x.ndim, "np.logaddexp.reduce")
    if where is not True:
        x = select(np.broadcast_to(operand(where), x.shape), x, -np.inf)
    given = initial is not UNSET and initial is not None
    start = array_operand(initial).astype(x.dtype) if given else np.asarray(-np.inf, x.dtype)
    top = stop_gradient(np.maximum(np.max(x, axis=axes, keepdims=True, initial=-np.inf), start))
    top = select(np.isfinite(top), top, 0)
    total = np.sum(np.exp(x - top), axis=axes, keepdims=True) + np.exp(start - top)
    nothing = total == 0  # every entry is −∞, and so is the result
    result = select(nothing, -np.inf, np.log(select(nothing, 1, total)) + top)
    return result if keepdims else result.reshape(reduced_shape(x.shape, axes, False))


UFUNC_METHODS[np.logaddexp, "reduce"] = _logaddexp_reduce


# ── any ufunc of two operands ────────────────────────────────────────────────────────────────────────────────────


def _reduce(ufunc: np.ufunc):
    name = f"np.{ufunc.__name__}.reduce"

    def reduce(array, axis=0, dtype=None, keepdims=False, initial=UNSET, where=True):
        array = operand(array)
        axes = reduced_axes(axis, array.ndim, name)
        if len(axes) > 1 and ufunc.identity is None and ufunc not in (np.maximum, np.minimum, np.fmax, np.fmin):
            raise ValueError(
                f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified"
            )
        array = _at_loop(ufunc, array, dtype)
        rows = list(unstacked(_slices(array, axes), 0))
        start = None if initial is UNSET else initial
        if initial is UNSET and (where is not True or not rows):
            start = ufunc.identity
            if start is None:
                raise ValueError(f"reduction operation {ufunc.__name__} has no identity, so initial= is needed")
        if start is None:
            result, rows = np.copy(rows[0]), rows[1:]  # of one row the result would be a view
        else:
            result = np.broadcast_to(operand(start), reduced_shape(array.shape, axes, False)).astype(array.dtype)
        if where is not True:
            looked = _slices(np.broadcast_to(operand(where), array.shape), axes)
        for i, row in enumerate(rows):
            step = ufunc(result, row)
            result = step if where is True else np.where(looked[i], step, result)
        return np.reshape(result, reduced_shape(array.shape, axes, bool(keepdims)))

    return reduce


def _accumulate(ufunc: np.ufunc):
    name = f"np.{ufunc.__name__}.accumulate"

    def accumulate(array, axis=0, dtype=None):
        array = operand(array)
        if not array.ndim:
            raise TypeError("cannot accumulate on a scalar")
        axis = normalize_axis(axis, array.ndim, name)
        rows = list(unstacked(_slices(_at_loop(ufunc, array, dtype), (axis,)), 0))
        if not rows:
            return array
        results = rows[:1]
        for row in rows[1:]:
            results.append(ufunc(results[-1], row))
        return np.stack(results, axis)

    return accumulate


ANY_UFUNC.update(reduce=_reduce, accumulate=_accumulate, reduceat=_reduceat)
for _ufunc, _empty in ((np.bitwise_and, -1), (np.bitwise_or, 0), (np.bitwise_xor, 0), (np.logical_xor, 0)):
    UFUNC_METHODS[_ufunc, "reduce"] = _fold(_ufunc, _empty)
