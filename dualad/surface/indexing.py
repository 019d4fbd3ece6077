"""Indices between brackets, and NumPy's functions that select entries.

For: ``x[...]``, iteration, ``np.take`` and its relatives. Not for: writing into tensors, nor the operators
(``ops/indexing.py``).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..base.containers import has_own_arithmetic, mixed_arithmetic_error
from ..core.aval import Array, Axis, DType, as_entries, aval_of
from ..core.constants import foreign
from ..core.dispatch import bind
from ..core.libraries import refuse_lazy
from ..core.tables import OPS
from ..core.tracer import Tracer
from ..errors import UnsupportedError
from ..memory.memory import (
    Deferred,
    Reading,
    apply_view,
    as_array,
    is_entry,
    is_scalar,
    laid_out,
    layout,
    link,
    read,
    record,
    target,
    unshared,
    writer,
)
from ..memory.order import in_order, order_of
from ..ops import indexing, joining, shaping
from ..ops.indexing import ARRAY, indexed_shape
from .arguments import function, normalize_axis, numpys_own, operand

__all__ = ["along_axis", "by_mode", "parse_index", "set_at", "unstacked"]

_ONLY = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid"
    " indices"
)


def parse_index(x, index) -> tuple[tuple, list]:
    """Split an index into its template (hashable, as ``ops/indexing.py`` describes it) and its integer arrays.

    The arrays, one for each ``"array"`` in the template, may be tensors; masks may not, because the shape of the result
    would depend on their values. Of ``x`` only the shape is read.
    """
    shape = x.shape
    entries = index if type(index) is tuple else (index,)
    parsed = [_parse(e) for e in entries]
    taken = 0
    ellipsis = None
    for i, e in enumerate(parsed):
        if e is Ellipsis:
            if ellipsis is not None:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis = i
        else:
            taken += _axes_taken(e)
    if taken > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {taken} were indexed")
    template, arrays, axis = list[Any](), list[Any](), 0
    for i, e in enumerate(parsed):
        kind = type(e)
        if kind is int:
            template.append(_int(e, axis, shape[axis]))
        elif kind is slice:
            template.append(_slice(e, shape[axis]))
        elif e is None:
            template.append(None)
        elif e is Ellipsis:
            if i + 1 < len(parsed):  # trailing full slices are left out
                filled = len(shape) - taken
                template.extend([(0, n, 1) for n in shape[axis : axis + filled]])
                axis += filled
            continue
        elif kind is bool:
            template.append("true" if e else "false")
        elif kind is tuple:  # the positions of a mask
            mask_shape, positions = e
            if mask_shape != shape[axis : axis + len(mask_shape)]:
                raise IndexError(
                    "boolean index did not match indexed array: the mask has shape"
                    f" {mask_shape}, the indexed axes {shape[axis : axis + len(mask_shape)]}"
                )
            template.extend([ARRAY] * len(positions))
            arrays.extend(positions)
        else:
            template.append(ARRAY)
            arrays.append(e)
        axis += _axes_taken(e)
    return tuple(template), arrays


def _parse(e):
    """Return an entry as int, slice, None, Ellipsis, bool, an integer array, or (shape, positions) of a mask."""
    kind = type(e)
    if kind is int or kind is slice or e is None or e is Ellipsis:
        return e
    if kind is bool or kind is np.bool:
        return bool(e)
    if hasattr(kind, "to_numpy"):  # a Series: an index is read by position, whatever its labels
        e = e.to_numpy()
    elif has_own_arithmetic(kind) and not isinstance(e, Tracer):
        raise mixed_arithmetic_error(kind, " as its index")
    if isinstance(e, (list, tuple)):
        e = operand(e)
        if type(e) is np.ndarray and not e.size and e.dtype.kind == "f":
            e = e.astype(np.intp)
    elif not isinstance(e, (Tracer, np.ndarray)) and foreign(e) is None:
        try:
            return e.__index__()
        except AttributeError:
            if not hasattr(e, "dtype") or e.dtype.kind not in "biu":
                raise IndexError(f"{e!r} is no index: {_ONLY}") from None
    elif isinstance(e, np.ndarray) and e.dtype == object:
        e = operand(e)
    if e.dtype.kind == "b":
        if isinstance(e, Tracer):
            mask = e.concretize("a boolean mask used as an index")
            if mask is not None:
                return _parse(mask)
            raise UnsupportedError(
                f"an array was indexed with a boolean mask of shape {e.shape} that is a {e._kind()}.",
                "the number of entries it selects depends on values that differ between lanes or are not known yet, so"
                " the result would have no shape",
                "keep the shape with np.where(mask, x, other), for instance np.sum(np.where(mask, x, 0)) in place of"
                " np.sum(x[mask])",
            )
        refuse_lazy(e, "how many entries a mask selects", "keep the shape with np.where(mask, x, other), or ")
        return bool(e) if not e.shape else (e.shape, e.nonzero())
    if any([n != n for n in e.shape]):
        refuse_lazy(e, "how many entries an index selects", "keep the shape with np.where(mask, x, other), or ")
    if e.dtype.kind not in "iu":
        raise IndexError(f"an array of dtype {e.dtype} is no index: {_ONLY}")
    refuse_lazy(None if e.shape else e, "which entry an index names")
    return int(e) if not e.shape and not isinstance(e, Tracer) else e


def _axes_taken(e) -> int:
    if e is None or type(e) is bool:
        return 0
    return len(e[0]) if type(e) is tuple else 1


def _int(i: int, axis: int, n: int) -> int:
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
    return i + n if i < 0 else i


def _slice(s: slice, n: int) -> tuple:
    start, stop, step = s.indices(n)
    if not len(range(start, stop, step)):
        return (0, 0, 1)
    return (start, None if stop < 0 else stop, step)


def _basic(index: tuple, shape: tuple) -> tuple | None:
    """Return the template of an index of ints and slices alone, which most are; None for any other."""
    if len(index) > len(shape):
        return None
    template = []
    for axis, e in enumerate(index):
        kind = type(e)
        if kind is int:
            template.append(_int(e, axis, shape[axis]))
        elif kind is slice:
            template.append(_slice(e, shape[axis]))
        else:
            return None
    return tuple(template)


def _getitem(self, index):
    if type(index) is int and len(shape := self.shape) == 1 and -shape[0] <= index < shape[0]:  # the commonest read
        template: tuple | None = (index if index >= 0 else index + shape[0],)
        if type(self) is Deferred:
            return read(self, template)
        return bind(indexing.index, (self,), {"template": template})
    template = _basic(index if type(index) is tuple else (index,), self.shape)
    arrays = None
    if template is None:
        template, arrays = parse_index(self, index)
        if is_entry(template, self) and any([e is ... for e in np.index_exp[index]]):
            # x[0] is a scalar, but x[0, ...] an array, which shares memory; a scalar's is a copy
            if is_scalar(self):
                return as_array(unshared(self))
            return np.reshape(self[tuple([slice(i, i + 1) for i in template]) or None], ())
    params = {"template": template}
    if type(self) is Deferred and not arrays and is_entry(template, self):
        return read(self, template)
    if arrays:
        return bind(indexing.index, (self, *arrays), params)
    out = bind(indexing.index, (self,), params)
    return (
        link(out, self, indexing.index, params)
        if out.shape and "true" not in template and "false" not in template
        else out
    )


@writer(indexing.index)
def _write_entries(base, params, value):
    return indexing.index_set(base, value, template=params["template"])


def _iter(self):
    if not self.shape:
        raise TypeError("iteration over a 0-d array")
    return _numbers(self) if len(self.shape) == 1 else iter(unstacked(self, 0))


def _numbers(x):
    """Yield the entries of a vector as they are when their turn comes: a loop may write those that it has not met."""
    pieces, memory = unstacked(x, 0), record(x)
    before = memory.writes
    for i, piece in enumerate(pieces):
        yield piece if memory.writes == before else x[i]


def unstacked(x, axis: int) -> tuple:
    """Return the entries of an axis, each of them a view."""
    if not x.shape[axis]:
        return ()
    pieces = joining.unstack(x, axis=axis)
    if isinstance(x, Tracer) and x.ndim > 1:
        before = tuple([(0, n, 1) for n in x.shape[:axis]])
        for i, piece in enumerate(pieces):
            link(piece, x, indexing.index, {"template": (*before, i)})
    return pieces


Tracer.__getitem__ = _getitem
Tracer.__iter__ = _iter


def set_at(x, index, value):
    """Return a copy of ``x`` in which ``x[index]`` is ``value``, cast to the dtype of ``x`` and broadcast."""
    x, value = operand(x), operand(value)
    template, arrays = parse_index(x, index)
    shape = indexed_shape(x.shape, arrays, template)
    value = as_entries(value, x.dtype, not arrays)
    value_shape = np.shape(value)
    if value_shape != shape:
        extra = max(0, len(value_shape) - len(shape))
        if value_shape[:extra] == (1,) * extra and extra:  # NumPy drops leading axes of size one in assignments
            value = np.reshape(value, value_shape[extra:])
        try:
            value = np.broadcast_to(value, shape)
        except ValueError:
            message = f"could not broadcast input array from shape {value_shape} into shape {shape}"
            raise ValueError(message) from None
    return bind(indexing.index_set, (x, value, *arrays), {"template": template})


# ── taking along an axis ─────────────────────────────────────────────────────────────────────────────────────────


@function(np.take)
def take(a: Array, indices: Any, axis: Axis = None, out: Array = None, mode: str = "raise") -> Array:
    a, indices = operand(a), operand(indices)
    if isinstance(indices, np.ndarray) and not indices.size:
        indices = indices.astype(np.intp)
    elif not np.can_cast(aval_of(indices).dtype, np.intp):
        raise TypeError(f"np.take: indices of dtype {aval_of(indices).dtype} are no integers")
    if axis is None or (not np.ndim(a) and axis in (0, -1)):  # NumPy lets a number have one axis
        a, axis = np.ravel(a), 0
    axis = normalize_axis(axis, np.ndim(a), "np.take")
    n = a.shape[axis]
    if not n and np.size(indices):
        raise IndexError("cannot do a non-empty take from an empty axes.")
    indices = by_mode(indices, n, mode)
    taken = in_order(_at(a, *(slice(None),) * axis, indices), "C")  # where an index may leave the axes in another order
    return taken if out is None else target(out, taken, "np.take")


def by_mode(indices, n: int, mode: str):
    """Return indices into an axis of ``n`` entries as ``mode=`` reads those out of range."""
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"mode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    return indices % n if mode == "wrap" else np.clip(indices, 0, n - 1) if mode == "clip" else indices


def _at(a, *index):
    """Return ``a[index]``, where ``a`` may be plain and ``index`` traced."""
    template, arrays = parse_index(a, index)
    return bind(indexing.index, (a, *arrays), {"template": template})


@function(np.take_along_axis, kind="composite")
def take_along_axis(arr: Array, indices: Any, axis: Axis = -1) -> Array:
    arr, indices = operand(arr), operand(indices)
    if indices.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if np.ndim(indices) != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        arr, axis = np.ravel(arr), 0
    ndim = np.ndim(arr)
    axis = normalize_axis(axis, ndim, "np.take_along_axis")
    if np.ndim(indices) != ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return _at(arr, *along_axis(arr, indices, axis))


def along_axis(arr, indices, axis: int) -> tuple:
    """Return the index that has ``indices`` along one axis, and goes through all of the others."""
    after = len(arr.shape) - 1
    grid = [np.arange(n).reshape((-1,) + (1,) * (after - i)) for i, n in enumerate(arr.shape)]
    grid[axis] = indices
    return tuple(grid)


@function(np.compress, kind="composite")
def compress(condition: Array, a: Array, axis: Axis = None, out: Array = None) -> Array:
    condition = operand(condition)
    if np.ndim(condition) != 1:
        raise ValueError("condition must be a 1-d array")
    a = operand(a)
    if axis is None:
        a, axis = np.ravel(a), 0
    return np.take(a if a.ndim else np.reshape(a, (1,)), np.flatnonzero(condition), axis, out)


@function(np.extract, kind="composite")
def extract(condition: Array, arr: Array) -> Array:
    return np.take(np.ravel(arr), np.flatnonzero(condition))


# ── where entries are ────────────────────────────────────────────────────────────────────────────────────────────


def _nonzero_entries(x, name: str) -> np.ndarray:
    """Return which entries of a tensor are not zero, refusing one whose values make no single shape."""
    x = shaping.stop_gradient(operand(x))
    if isinstance(x, Tracer):
        chosen = bind(OPS["not_equal"], (x, 0), {}).concretize(name)
        if chosen is not None:
            return chosen
        raise UnsupportedError(
            f"{name} was called on a {x._kind()} of shape {x.shape}.",
            "the number of entries it finds depends on values that differ between lanes or are not known yet, so the"
            " result would have no shape",
            "keep the shape: np.where(condition, a, b), np.count_nonzero, np.argmax, np.argsort",
        )
    return x


@function(np.nonzero)
def nonzero(a: Array) -> Array:
    if not np.ndim(a):
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    return np.nonzero(_nonzero_entries(a, "np.nonzero"))


def _places(numpy_function) -> None:
    @function(numpy_function)
    def places(a: Array) -> Array:
        return numpy_function(_nonzero_entries(a, f"np.{numpy_function.__name__}"))


_places(np.argwhere)
_places(np.flatnonzero)


@function(np.isin, kind="composite")
def isin(
    element: Array, test_elements: Array, assume_unique: bool = False, invert: bool = False, *, kind: str | None = None
) -> Array:
    element = shaping.stop_gradient(operand(element))
    test_elements = shaping.stop_gradient(operand(test_elements))
    if not isinstance(element, Tracer) and not isinstance(test_elements, Tracer):
        return np.isin(element, test_elements, assume_unique, invert, kind=kind)
    found = np.any(np.equal(np.expand_dims(element, -1), np.ravel(test_elements)), axis=-1)
    return np.logical_not(found) if invert else found


_in1d = getattr(np, "in1d", None)  # until NumPy 2.4
if _in1d is not None:

    @function(_in1d, kind="composite")
    def in1d(
        ar1: Array, ar2: Array, assume_unique: bool = False, invert: bool = False, *, kind: str | None = None
    ) -> Array:
        return np.isin(np.ravel(operand(ar1)), ar2, assume_unique, invert, kind=kind)


# ── diagonals and triangles ──────────────────────────────────────────────────────────────────────────────────────


@function(np.diagonal, kind="composite")
def diagonal(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    a = operand(a)
    if a.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    axis1, axis2 = normalize_axis(axis1, a.ndim, "np.diagonal"), normalize_axis(axis2, a.ndim, "np.diagonal")
    if axis1 == axis2:
        raise ValueError("axis1 and axis2 cannot be the same")
    return apply_view(_diagonal, a, {"offset": int(offset), "axis1": axis1, "axis2": axis2})


@Reading
def _diagonal(a, *, offset, axis1, axis2):
    if type(a) is np.ndarray:
        return np.diagonal(a, offset, axis1, axis2)
    rows, columns = a.shape[axis1], a.shape[axis2]
    n = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    i = np.arange(n) + max(-offset, 0)
    j = np.arange(n) + max(offset, 0)
    out = np.moveaxis(a, (axis1, axis2), (-2, -1))[..., i, j]
    if not isinstance(a, Tracer) or a.ndim < 3:
        return out
    return laid_out(out, np.copy(np.diagonal(layout(a), offset, axis1, axis2)).strides)


@function(np.trace, kind="composite")
def trace(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DType = None, out: Array = None) -> Array:
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


@function(np.diag, kind="composite")
def diag(v: Array, k: int = 0) -> Array:
    v = operand(v)
    if v.ndim == 2:
        return np.diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = v.shape[0] + abs(k)
    i = np.arange(v.shape[0])
    return indexing.index_add(v, i + max(-k, 0), i + max(k, 0), template=(ARRAY, ARRAY), shape=(n, n))


@function(np.diagflat, kind="composite")
def diagflat(v: Array, k: int = 0) -> Array:
    return np.diag(np.ravel(v), k)


numpys_own(np.append, np.ix_, np.tril, np.triu, kind="composite")


# ── removing, inserting, windows ─────────────────────────────────────────────────────────────────────────────────


def _along(arr, axis):
    arr = operand(arr)
    return (np.ravel(arr), 0) if axis is None else (arr, normalize_axis(axis, arr.ndim, "axis"))


@function(np.delete, kind="composite")
def delete(arr: Array, obj: Any, axis: Axis = None) -> Array:
    arr, axis = _along(arr, axis)
    obj = _static(obj, "np.delete")
    if not isinstance(obj, slice) and not np.size(obj):
        obj = np.zeros(0, np.intp)  # an empty list has no dtype of its own
    kept = np.take(arr, np.delete(np.arange(arr.shape[axis]), obj), axis)
    return laid_out(kept, np.delete(layout(arr), obj, axis).strides) if isinstance(arr, Tracer) else kept


@function(np.insert, kind="composite")
def insert(arr: Array, obj: Any, values: Any, axis: Axis = None) -> Array:
    """As ``np.insert``: the places are found by inserting numbers into the numbers of the entries."""
    arr, axis = _along(arr, axis)
    obj = _static(obj, "np.insert")
    n = arr.shape[axis]
    values = operand(values)
    values = np.reshape(values, (1,) * (arr.ndim - np.ndim(values)) + np.shape(values))
    if not isinstance(obj, slice) and np.ndim(obj) == 0:  # NumPy reads values for one place as in arr[:, obj] = values
        values = np.moveaxis(values, 0, axis)
        count = values.shape[axis]
    else:
        obj = np.arange(n)[obj] if isinstance(obj, slice) else np.asarray(obj)
        count = np.count_nonzero(obj) if obj.dtype.kind == "b" and _MASKS_INSERT else obj.size
        count = values.shape[axis] if count == 1 else count
    order = np.insert(np.arange(n), obj, n + np.arange(count))
    shape = (*arr.shape[:axis], count, *arr.shape[axis + 1 :])
    values = np.broadcast_to(values, shape).astype(arr.dtype)
    return in_order(np.take(np.concatenate([arr, values], axis=axis), order, axis), order_of(arr))


def _inserts_where_a_mask_is() -> bool:
    """Whether ``np.insert`` takes a mask as one, as later releases do; earlier ones make integers of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return np.insert(np.zeros(2), np.array([True, False]), 1.0).size == 3


_MASKS_INSERT = _inserts_where_a_mask_is()


def _static(obj, name: str):
    if isinstance(obj, (list, tuple)):
        obj = operand(obj)
    if isinstance(obj, Tracer):
        raise UnsupportedError(
            f"{name}: the index is a {obj._kind()}.",
            "the shape of the result, or the order of its entries, depends on values that are not known yet",
            "compute the index outside the transform",
        )
    return obj


@function(np.lib.stride_tricks.sliding_window_view, kind="composite")
def sliding_window_view(
    x: Array, window_shape: Any, axis: Axis = None, *, subok: bool = False, writeable: bool = False
) -> Array:
    x = operand(x)
    window_shape = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    if axis is None:
        axes = tuple(range(x.ndim))
        if len(window_shape) != x.ndim:
            raise ValueError(
                f"Since axis is None, must provide window_shape for all dimensions of `x`; got {window_shape}"
            )
    else:
        axes = tuple([normalize_axis(i, x.ndim, "axis") for i in (axis if np.iterable(axis) else (axis,))])
        if len(window_shape) != len(axes):
            raise ValueError(f"Must provide matching length window_shape and axis; got {window_shape} and {axis}")
    if any(w < 0 for w in window_shape):
        raise ValueError("`window_shape` cannot contain negative values")
    if any(x.shape[i] < w for i, w in zip(axes, window_shape, strict=True)):
        raise ValueError("window shape cannot be larger than input array shape")
    if writeable:
        raise UnsupportedError(
            "np.lib.stride_tricks.sliding_window_view was called with writeable=True on a tensor.",
            "its windows overlap, so a write into one of them would have to reach several others",
            "write into the array that the windows are of",
        )
    return apply_view(_windows, x, {"window_shape": window_shape, "axes": axes})


@Reading
def _windows(x, *, window_shape, axes):
    if type(x) is np.ndarray:
        return np.lib.stride_tricks.sliding_window_view(x, window_shape, axes)
    for i, w in zip(axes, window_shape, strict=True):
        places = np.arange(x.shape[i] - w + 1)[:, None] + np.arange(w)
        x = np.moveaxis(np.take(x, places, axis=i), i + 1, -1)
    return x
