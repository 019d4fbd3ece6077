"""Indexing: reading entries, accumulating into zeros, and replacing entries; each other's transposes.

An index is a static ``template`` and array arguments. The template is a tuple with one entry per axis of the indexed
array (trailing full slices may be left out), plus one per new axis:

- an int, not negative: one entry of the axis;
- a tuple ``(start, stop, step)``: a slice, made complete (``stop`` is None where it runs down to entry 0);
- ``None``: a new axis of size one;
- ``"array"``: the next of the array arguments, of integers; it may be traced, so a batch of indices is one gather;
- ``"true"`` or ``"false"``: a mask without axes, which gives an axis of size one or zero. (Not a bool: ``(True,)`` and
  ``(1,)`` are equal as keys.)

NumPy's rule for the place of the indexed axes holds throughout: ints, arrays and masks are *advanced* as soon as an
array or mask is among them; their common axes stand where they stood, or first if a slice or new axis separates them.
Not for: what users write between brackets (``surface/indexing.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.aval import Array, Aval
from ..core.constants import foreign, match_library, zeros_matching_library
from ..core.dispatch import bind
from ..core.libraries import is_lazy, run_lazily
from ..core.primitive import Primitive
from ..core.tracer import PLAIN
from .kinds import align_ranks, linear, repeat_lanes

__all__ = ["ARRAY", "INDEXED", "index", "index_add", "index_set", "indexed_shape", "is_place"]

#: the entry of a template that stands for an array argument
ARRAY = "array"
#: operators with an index, and how many arguments stand before its arrays
INDEXED = {"index": 1, "index_add": 1, "index_set": 2}

_basic: dict[tuple, tuple] = {}


def _native(template: tuple, arrays) -> tuple:
    """Return the index as NumPy's brackets take it."""
    if arrays:
        left = iter(arrays)
        return tuple([next(left) if e == ARRAY else _entry(e) for e in template])
    if len(template) == 1 and type(template[0]) is int:
        return template  # one entry or row: no need to remember each
    native = _basic.get(template)
    if native is None:
        if len(_basic) > 1000:
            _basic.clear()
        native = _basic[template] = tuple([_entry(e) for e in template])
    return native


def _entry(e):
    return slice(*e) if type(e) is tuple else e == "true" if type(e) is str else e


def is_place(template: tuple) -> bool:
    """Whether a template names one entry, or one row (of rows, ...), by its position."""
    for e in template:
        if type(e) is not int:
            return False
    return len(template) > 0


def _length(e: tuple) -> int:
    start, stop, step = e
    return len(range(start, -1 if stop is None else stop, step))


def _find_advanced_place(template: tuple) -> int:
    """Return the axis of the result at which the axes of the advanced indices start."""
    place, seen, closed = 0, False, False
    for e in template:
        if e is None or type(e) is tuple:
            closed = seen
            place += not seen
        elif closed:
            return 0
        else:
            seen = True
    return place


def _advanced_shape(arrays, template: tuple) -> tuple[int, ...]:
    """Return the common shape of the advanced indices."""
    return np.broadcast_shapes(
        *[a.shape for a in arrays], *[(int(e == "true"),) for e in template if type(e) is str and e != ARRAY]
    )


def _is_advanced(template: tuple) -> bool:
    return any(type(e) is str for e in template)


def indexed_shape(shape: tuple[int, ...], arrays, template: tuple) -> tuple[int, ...]:
    """Return the shape of an array of the given shape when indexed."""
    kept, axis = list[int](), 0
    for e in template:
        if type(e) is tuple:
            kept.append(_length(e))
            axis += 1
        elif e is None:
            kept.append(1)
        elif type(e) is int or e == ARRAY:
            axis += 1
    out = (*kept, *shape[axis:])
    if not _is_advanced(template):
        return out
    place = _find_advanced_place(template)
    return (*out[:place], *_advanced_shape(arrays, template), *out[place:])


# ── batching ─────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Where only the array is mapped, the batch axis is one more full slice in front. Where the indices are mapped too, the
# number of the lane is one more index array in front; NumPy then puts the indexed axes right behind the batch axis,
# and they are moved to where one lane would have them.


class _Lanes:
    """A batch of index arrays: the template and arrays that index all lanes at once."""

    __slots__ = ("arrays", "count", "place", "template")

    def __init__(self, size, arrays, mapped, template) -> None:
        ndims = [np.ndim(a) - m for a, m in zip(arrays, mapped, strict=True)]
        self.count = count = max(ndims + [type(e) is str and e != ARRAY for e in template])
        lane = np.arange(size).reshape((size,) + (1,) * count)
        self.arrays = [lane] + [align_ranks(a, count) if m else a for a, m in zip(arrays, mapped, strict=True)]
        self.template = (ARRAY, *template)
        self.place = _find_advanced_place(template)

    def from_lanes(self, value):
        """Move the indexed axes of the result of ``index`` from behind the batch axis to their place in a lane."""
        return self._move(value, 1, 1 + self.place)

    def to_lanes(self, value):
        """Undo ``from_lanes``."""
        return self._move(value, 1 + self.place, 1)

    def _move(self, value, source: int, target: int):
        if not self.place or not self.count:
            return value
        return np.moveaxis(value, range(source, source + self.count), range(target, target + self.count))


def _full_slice(size: int, template: tuple) -> tuple:
    return ((0, size, 1), *template)


def _batch_axis(arrays, template: tuple) -> int:
    """Return where NumPy puts a full slice's axis that stands in front of the template: behind separated indices."""
    if _is_advanced(template) and not _find_advanced_place((None, *template)):
        return len(_advanced_shape(arrays, template))
    return 0


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _index_shape(x, *arrays, template):
    if len(template) == 1 and type(template[0]) is int:
        return Aval(x.shape[1:], x.dtype)
    return Aval(indexed_shape(x.shape, arrays, template), x.dtype)


def _index_jvp(primals: Sequence, tangents: Sequence, *, template: tuple) -> tuple:
    x, *arrays = primals
    t = tangents[0]
    if not arrays:
        native = _native(template, ())
        params = {"template": template}
        value = x[native] if type(x) is np.ndarray else bind(index, (x,), params)
        return value, t[native] if type(t) is np.ndarray else bind(index, (t,), params)
    params = {"template": template}
    return bind(index, primals, params), bind(index, (t, *arrays), params)


def _index_batch(size: int, values: Sequence, mapped: Sequence[bool], *, template: tuple) -> Array:
    x, *arrays = values
    if mapped[0] and any(mapped[1:]) and type(x) is np.ndarray and size > 1 and not x.strides[0]:
        x, mapped = x[0], (False, *mapped[1:])  # one array that all lanes read
    if not any(mapped[1:]):
        out = index(x, *arrays, template=_full_slice(size, template))
        axis = _batch_axis(arrays, template)
        return np.moveaxis(out, axis, 0) if axis else out
    if mapped[0]:
        lanes = _Lanes(size, arrays, mapped[1:], template)
        return lanes.from_lanes(index(x, *lanes.arrays, template=lanes.template))
    # One gather from the shared array: the batch axis is the first of the indices' axes.
    lanes = _Lanes(size, arrays, mapped[1:], template)
    out = index(x, *lanes.arrays[1:], template=template)
    return np.moveaxis(out, lanes.place, 0) if lanes.place else out


_INDEX_SAMPLES: list[Any] = [
    ((4,), {"template": (1,)}),
    ((4, 3), {"template": ((1, 3, 1), None, 2)}),
    ((4, 3), {"template": ((3, None, -2),)}),
    ((2, 0), {"template": (1,)}),
    ((), {"template": ()}),
    ((), {"template": (None,)}),
    ((), {"template": ("true",)}),
    ((4,), np.array([1, 1, 3, -1]), {"template": (ARRAY,)}),
    ((4,), np.array([], int), {"template": (ARRAY,)}),
    ((4,), np.array(2), {"template": (ARRAY,)}),
    ((4, 4), np.array([[0, 1], [0, 2]]), np.array([1, 0]), {"template": (ARRAY, ARRAY)}),
    ((2, 3, 4), np.array([0, 2, 2]), {"template": ((0, 2, 1), ARRAY)}),
    ((2, 3, 4), np.array([0, 1, 1]), np.array([3, 0, 0]), {"template": (ARRAY, (0, 3, 2), ARRAY)}),
    ((2, 3, 4), np.array([[3], [0]]), {"template": (1, (0, 3, 1), ARRAY)}),
    ((1, 3, 4), np.array([1, 1]), {"template": ((0, 1, 1), ARRAY, None, 2)}),
]


def _index(x, *arrays, template):
    if type(x) not in PLAIN and len(arrays) > 1 and is_lazy(x):  # which take one index array at a time
        return run_lazily(index, (x, *arrays), {"template": template}, "one", "reading entries by several index arrays")
    return (x if hasattr(x, "shape") else np.asarray(x))[_native(template, arrays)]


index = Primitive(
    "index",
    impl=_index,
    abstract_eval=_index_shape,
    jvp=_index_jvp,
    linear_in=(0,),
    transpose=lambda ct, x, *arrays, template: (
        index_add(ct, *arrays, template=template, shape=x.shape),
        *[None] * len(arrays),
    ),
    batch=_index_batch,
    samples=_INDEX_SAMPLES,
    place_read=lambda params: is_place(params["template"]),
    kind="linear",
    moves=True,
)


# ── accumulating into zeros ──────────────────────────────────────────────────────────────────────────────────────


def _index_add(ct, *arrays, template, shape):
    """Scatter into zeros, repeated entries adding up.

    Basic indices repeat no entry: assignment will do. Otherwise the indices are turned into positions in the flat
    array. Leading axes that are indexed as a whole (the lanes of ``vmap``) share the positions of one of them.
    """
    native = _native(template, arrays)
    if type(ct) not in PLAIN or foreign(*arrays) is not None:
        return _index_add_elsewhere(ct, arrays, template, shape)
    if not _is_advanced(template):
        out = np.zeros_like(ct, order="C", shape=shape)
        out[native] = ct
        return out[()]
    lanes = _whole_axes(template, shape)
    one, size = math.prod(shape[lanes:]), math.prod(shape[:lanes])
    if len(shape) - lanes == 1 and len(native) - lanes == 1 and isinstance(native[-1], np.ndarray):
        positions = native[-1].reshape(-1)
        if positions.size and (low := positions.min()) < 0:
            if low < -one:
                raise IndexError(f"index {int(low)} is out of bounds for axis with size {one}")
            positions = np.where(positions < 0, positions.astype(np.intp) + one, positions)
    else:
        positions = np.arange(one).reshape(shape[lanes:])[native[lanes:]].reshape(-1)
    if not lanes:
        return _sum_up(positions, np.ravel(ct), one).reshape(shape)[()]
    rows = ct.reshape((size, positions.size))
    if size > 1 and positions.size < _SHORT:  # many short lanes: all in one go
        if positions.size and (high := positions.max()) >= one:  # an entry of the next lane
            raise IndexError(f"index {int(high)} is out of bounds for axis with size {one}")
        positions = (positions + one * np.arange(size)[:, None]).reshape(-1)
        return _sum_up(positions, rows.reshape(-1), size * one).reshape(shape)
    out = np.empty_like(ct, order="C", shape=(size, one))
    for i in range(size):
        out[i] = _sum_up(positions, rows[i], one)
    return out.reshape(shape)


def _index_add_elsewhere(ct, arrays, template: tuple, shape: tuple[int, ...]):
    """Scatter an array of another library."""
    if not _is_advanced(template):
        return _write_slices(np.zeros_like(ct, shape=shape), ct, template)
    if is_lazy(ct) or any([is_lazy(a) for a in arrays]):
        params = {"template": template, "shape": shape}
        return run_lazily(
            index_add, (ct, *arrays), params, "one", "the derivative of reading entries by an index array"
        )
    lanes = _whole_axes(template, shape)
    one, size = math.prod(shape[lanes:]), math.prod(shape[:lanes])
    positions = np.arange(one).reshape(shape[lanes:])
    positions = match_library(positions, ct)[_native(template, arrays)[lanes:]].reshape((1, -1))
    positions = positions + match_library(one * np.arange(size)[:, None], ct)
    positions, values = positions.reshape((-1,)), ct.reshape((-1,))
    if values.dtype.kind == "c":
        parts = [np.bincount(positions, part, one * size) for part in (np.real(values), np.imag(values))]
        out = parts[0] + 1j * parts[1]
    else:
        out = np.bincount(positions, values, one * size)
    return out.astype(ct.dtype).reshape(shape)


def _write_slices(out, values, template: tuple):
    """Write values to the place that a basic index names, by slices alone: all that some libraries know."""
    entries = [e for e in template if e is not None]
    slices = tuple([slice(e, e + 1) if type(e) is int else slice(*e) for e in entries])
    sizes = [1 if type(e) is int else _length(e) for e in entries]
    if 0 not in values.shape:
        out[slices] = values.reshape((*sizes, *out.shape[len(entries) :]))
    return out


#: below this number of entries a lane, calls cost more than the positions of all lanes
_SHORT = 1024


def _whole_axes(template: tuple, shape: tuple[int, ...]) -> int:
    """Count the leading axes that are indexed as a whole and stay in front."""
    count = 0
    while count < min(len(template), len(shape)) and template[count] == (0, shape[count], 1):
        count += 1
    return count if _find_advanced_place(template) == count + _find_advanced_place(template[count:]) else 0


def _sum_up(positions, values, size: int):
    """Return an array of the given length: at each position the sum of its values."""
    # Counting adds in double precision, and goes over all sums once: not worth it for a few entries among many.
    if type(values) is np.ndarray and values.dtype.char in "fdFD" and 8 * positions.size >= size:
        if values.dtype.kind == "c":
            out = np.empty(size, values.dtype)
            out.real, out.imag = (_count(positions, part, size) for part in (values.real, values.imag))
            return out
        return _count(positions, values, size).astype(values.dtype, copy=False)
    out = np.zeros_like(values, order="C", shape=size)
    np.add.at(out, positions, values)
    return out


def _count(positions, values, size: int):
    sums = np.bincount(positions, values, size)
    if len(sums) > size:
        raise IndexError(f"index {int(positions.max())} is out of bounds for axis with size {size}")
    return sums.astype(float, copy=False)


def _index_add_batch(
    size: int, values: Sequence, mapped: Sequence[bool], *, template: tuple, shape: tuple[int, ...]
) -> Array:
    ct, *arrays = values
    shape = (size, *shape)
    if not any(mapped[1:]):
        axis = _batch_axis(arrays, template)
        ct = np.moveaxis(ct, 0, axis) if axis else ct
        return index_add(ct, *arrays, template=_full_slice(size, template), shape=shape)
    lanes = _Lanes(size, arrays, mapped[1:], template)
    ct = lanes.to_lanes(ct if mapped[0] else repeat_lanes(ct, size))
    return index_add(ct, *lanes.arrays, template=lanes.template, shape=shape)


def _add_samples():
    """Make cotangents of the shapes that ``index`` gives."""
    for shape, *arrays, params in _INDEX_SAMPLES:
        ct = indexed_shape(shape, arrays, params["template"])
        yield (ct, *arrays, {**params, "shape": shape})


index_add = linear(
    "index_add",
    impl=_index_add,
    abstract_eval=lambda ct, *arrays, template, shape: Aval(shape, ct.dtype),
    transpose=lambda ct, x, *arrays, template, shape: (index(ct, *arrays, template=template), *[None] * len(arrays)),
    batch=_index_add_batch,
    samples=list(_add_samples()),
    collects=True,
)


# ── replacing ────────────────────────────────────────────────────────────────────────────────────────────────────


def _index_set(x, v, *arrays, template):
    like = foreign(x, v, *arrays)
    if like is not None:
        if _is_advanced(template) and any([is_lazy(a) for a in (x, v, *arrays)]):
            return run_lazily(index_set, (x, v, *arrays), {"template": template}, "one", "a write by an index array")
        out = x.copy() if foreign(x) is not None else np.array(x, like=like)
        if not _is_advanced(template):
            return _write_slices(out, match_library(v, out), template)
        out[_native(template, arrays)] = v
        return out
    out = np.copy(x)
    out[_native(template, arrays)] = v
    return out[()]


def _index_set_jvp(primals: Sequence, tangents: Sequence, *, template: tuple) -> tuple:
    _x, v, *arrays = primals
    tx, tv = tangents[:2]
    out = bind(index_set, primals, {"template": template})
    if len(template) <= len(out.shape) and all(e == (0, n, 1) for e, n in zip(template, out.shape, strict=False)):
        return out, tv  # all entries in their order: nothing is left of the old ones
    tx = zeros_matching_library(out.shape, out.dtype, tv) if tx is None else tx
    tv = zeros_matching_library(np.shape(v), out.dtype, tx) if tv is None else tv
    return out, bind(index_set, (tx, tv, *arrays), {"template": template})


def _index_set_transpose(ct: Array, x: Array, v: Array, *arrays: Array, template: tuple) -> tuple:
    """Transpose y = x with the entries at i replaced by v.

    x keeps the cotangents of the entries that were not replaced. v gets those of the entries it reached; of several
    values written to one entry, only the last one did.
    """
    ct_x = ct_v = None
    if type(x) is Aval:
        nothing = zeros_matching_library(indexed_shape(ct.shape, arrays, template), ct.dtype, ct)
        ct_x = index_set(ct, nothing, *arrays, template=template)
    if type(v) is Aval:
        ct_v = index(ct, *arrays, template=template)
        if arrays:
            order = np.arange(v.size).reshape(v.shape)
            last = index(
                index_set(np.zeros(ct.shape, int), order, *arrays, template=template), *arrays, template=template
            )
            ct_v = np.where(last == order, ct_v, 0)
    return (ct_x, ct_v, *[None] * len(arrays))


def _index_set_batch(size: int, values: Sequence, mapped: Sequence[bool], *, template: tuple) -> Array:
    x, v, *arrays = values
    x = x if mapped[0] else repeat_lanes(x, size)
    v = v if mapped[1] else repeat_lanes(v, size)
    if not any(mapped[2:]):
        axis = _batch_axis(arrays, template)
        v = np.moveaxis(v, 0, axis) if axis else v
        return index_set(x, v, *arrays, template=_full_slice(size, template))
    lanes = _Lanes(size, arrays, mapped[2:], template)
    return index_set(x, lanes.to_lanes(v), *lanes.arrays, template=lanes.template)


# Linear in x and v together; v has exactly the shape that ``index`` gives, and the result has the dtype of x.
index_set = Primitive(
    "index_set",
    impl=_index_set,
    abstract_eval=lambda x, v, *arrays, template: Aval(x.shape, x.dtype),
    jvp=_index_set_jvp,
    linear_in=(0, 1),
    joint=True,
    transpose=_index_set_transpose,
    batch=_index_set_batch,
    samples=[(p["shape"], ct, *a, {"template": p["template"]}) for ct, *a, p in _add_samples()],
    kind="linear",
    moves=True,
)
