"""Writing: ``x[i] = v``, ``x += v``, ``out=``, ``ufunc.at``, ``np.copyto`` and its relatives; functional: ``x.at``.

Each computes what the array will hold after the write, as a value, and puts that into the tensor
(``memory/memory.py``). Not for: plain arrays as targets of traced values; those are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.aval import Array, Axis, as_entries, aval_of, is_inexact
from ..core.tracer import Tracer
from ..errors import InPlaceError, UnsupportedError
from ..memory.memory import assign, defer, is_entry, is_scalar, is_view_of, plain_target, target
from ..ops import indexing
from .arguments import function, normalize_axis, operand
from .indexing import along_axis, by_mode, parse_index, set_at
from .methods import ARITHMETIC
from .ufuncs import ANY_UFUNC, loop_dtypes

__all__ = ["At"]


# ── items ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _setitem(self, index, value):
    _refuse_scalar(self)
    if isinstance(index, Tracer) and index.dtype.kind == "b":
        known = None if np.shape(value) == () else index.concretize("a boolean mask used as an index")
        if known is None:
            assign(self, _mask(self, index, value))
            return
        index = known
    if type(index) is int and len(self.shape) == 1 and 0 <= index < self.shape[0]:  # by far the commonest write
        value = _check_kind(self, value, "x[...] = v")
        if not defer(self, (index,), value):
            assign(self, set_at(self, index, value))
        return
    template, arrays = parse_index(self, index)
    if not arrays and is_view_of(value, self, indexing.index, {"template": template}):
        return  # x[i] += v has already written through the view x[i]
    value = _check_kind(self, value, "x[...] = v")
    if not arrays and self.shape and is_entry(template, self) and defer(self, template, value):
        return
    assign(self, set_at(self, index, value))


Tracer.__setitem__ = _setitem  # type: ignore[index]


def _refuse_scalar(x: Tracer) -> None:
    """Refuse a write into what NumPy has a scalar for, of which ``fill`` and ``flat`` write into a copy there."""
    if not x.shape and is_scalar(x):
        raise TypeError(
            f"'{x.dtype.name}' object does not support item assignment (a 0-d result is a scalar, as in NumPy)"
        )


def fill(self: Tracer, value: Any) -> None:
    """As ``ndarray.fill``."""
    _refuse_scalar(self)
    entry = as_entries(_check_kind(self, value, "ndarray.fill"), self.dtype, True)
    target(self, np.full_like(self, entry), "ndarray.fill")


Tracer.fill = fill


def _mask(x: Tracer, mask: Tracer, value):
    """Return ``x`` with the entries under a traced mask replaced: the shape is kept, so it can be traced."""
    value = operand(value)
    if mask.shape != x.shape[: len(mask.shape)] or np.shape(value) != ():
        raise UnsupportedError(
            f"x[mask] = v with a traced mask of shape {mask.shape} and a value of shape {np.shape(value)}.",
            "how many entries the mask selects is not known, so a value per selected entry can't be matched to them",
            "write x[...] = np.where(mask, v, x) with v of the shape of x, or assign one number",
        )
    _check_kind(x, value, "x[mask] = v")
    mask = np.reshape(mask, mask.shape + (1,) * (len(x.shape) - len(mask.shape)))
    return np.where(mask, as_entries(value, x.dtype), x)


def _check_kind(x, value, what: str):
    """Return a value as an operand; refuse a write that would lose a derivative or an imaginary part.

    NumPy would only warn, or not even that.
    """
    value = operand(value)
    if not isinstance(value, Tracer):
        if np.iscomplexobj(value) and x.dtype.kind != "c":
            raise InPlaceError(
                f"{what}: a complex value is written into dtype {x.dtype}.",
                "its imaginary part would be lost",
                "take np.real(v), or make the target complex",
            )
        return value
    if value.dtype is x.dtype:
        return value
    if (is_inexact(value.dtype) and not is_inexact(x.dtype)) or (value.dtype.kind == "c" and x.dtype.kind != "c"):
        raise InPlaceError(
            f"{what}: a {value._kind()} of dtype {value.dtype} is written into dtype {x.dtype}.",
            "part of the value, and its derivative, would be lost",
            "make the target of a wider dtype: np.zeros_like(x, dtype=float)",
        )
    return value


# ── augmented assignments and out= ───────────────────────────────────────────────────────────────────────────────


def _augment(name: str, ufunc: np.ufunc) -> None:
    def operator(self, other):
        if not self.shape and is_scalar(self):
            return NotImplemented  # a scalar: Python then computes s = s + v, which rebinds the name
        if ufunc is np.matmul and np.ndim(other) < 2:
            raise ValueError(
                "inplace matrix multiplication requires the first operand to have at least one and the second at least"
                " two dimensions."
            )
        result = getattr(self, f"__{name}__")(other)
        return result if result is NotImplemented else target(self, result, f"np.{ufunc.__name__}")

    setattr(Tracer, f"__i{name}__", operator)


for _name, _ufunc in ARITHMETIC.items():
    _augment(_name, _ufunc)


# ── NumPy's functions that write ─────────────────────────────────────────────────────────────────────────────────


def _write_target(a, name: str) -> Tracer:
    """Return the target of a write, refusing a plain array."""
    if not isinstance(a, Tracer):
        raise plain_target(a, name)
    return a


@function(np.copyto)
def copyto(dst: Array, src: Array, casting: str = "same_kind", where: Array = True) -> None:
    if src is dst:
        return  # nothing changes, of a read-only array either
    dst = _write_target(dst, "np.copyto")
    src = _check_kind(dst, src, "np.copyto")
    more = np.ndim(src) - dst.ndim
    if more > 0 and src.shape[:more] == (1,) * more:
        src = np.reshape(src, src.shape[more:])
    if (type(src) is int and dst.dtype.kind != "b") or np.can_cast(aval_of(src).dtype, dst.dtype, "same_kind"):
        src = as_entries(src, dst.dtype)
    if where is not True:
        src = np.where(where, src, dst)
    target(dst, src, "np.copyto")


@function(np.put)
def put(a: Array, ind: Any, v: Array, mode: str = "raise") -> None:
    a = _write_target(a, "np.put")
    ind, v = np.ravel(operand(ind)), operand(v)
    if ind.size and not a.size:
        raise IndexError("cannot replace elements of an empty array")
    if ind.size and np.size(v):
        _write_flat(a, by_mode(ind, a.size, mode), _cycle(v, ind.size, a.dtype), "np.put")


@function(np.putmask)
def putmask(a: Array, mask: Array, values: Any) -> None:
    a = _write_target(a, "np.putmask")
    values = operand(values)
    full = np.reshape(_cycle(values, a.size, a.dtype), a.shape) if np.shape(values) != a.shape else values
    full = _check_kind(a, full, "np.putmask")
    if np.ndim(values) and not np.can_cast(values.dtype, a.dtype):
        raise TypeError(f"Cannot cast array data from {values.dtype!r} to {a.dtype!r} according to the rule 'safe'")
    full = as_entries(full, a.dtype)
    assign(a, np.where(np.reshape(operand(mask), a.shape), full, a))


@function(np.place)
def place(arr: Array, mask: Array, vals: Array) -> None:
    arr = _write_target(arr, "np.place")
    positions = np.nonzero(np.ravel(operand(mask)))[0]
    _write_flat(arr, positions, _cycle(vals, positions.size, arr.dtype), "np.place")


def _write_flat(a: Tracer, index, values, name: str) -> None:
    """Write values into entries of the flat array."""
    values = _check_kind(a, values, name)
    assign(a, np.reshape(set_at(np.reshape(a, -1), index, values), a.shape))


def _cycle(values, size: int, dtype: np.dtype):
    """Repeat values, flattened, until there are ``size`` of them; Python's numbers are of the dtype to be written."""
    values = operand(values)
    if type(values) in (bool, int, float):
        values = as_entries(values, dtype)
    values = np.ravel(values)
    if not size:
        return values[:0]
    return values if values.size == size else np.tile(values, -(-size // max(values.size, 1)))[:size]


@function(np.put_along_axis)
def put_along_axis(arr: Array, indices: Any, values: Any, axis: Axis) -> None:
    arr = _write_target(arr, "np.put_along_axis")
    indices = operand(indices)
    if axis is None:
        _write_flat(arr, np.ravel(indices), values, "np.put_along_axis")
        return
    axis = normalize_axis(axis, arr.ndim, "np.put_along_axis")
    values = _check_kind(arr, values, "np.put_along_axis")
    assign(arr, set_at(arr, along_axis(arr, indices, axis), values))


@function(np.fill_diagonal)
def fill_diagonal(a: Array, val: Array, wrap: bool = False) -> None:
    a = _write_target(a, "np.fill_diagonal")
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    stop = None if wrap or a.ndim > 2 or a.shape[0] <= a.shape[1] else a.shape[1] * a.shape[1]
    step = a.shape[1] + 1 if a.ndim == 2 else 1 + int(np.cumprod(a.shape[:-1]).sum())
    positions = np.arange(a.size)[:stop:step]
    _write_flat(a, positions, _cycle(val, positions.size, a.dtype), "np.fill_diagonal")


class _Flat:
    """The value of ``x.flat``: the entries in C order, to read, write or iterate over."""

    __slots__ = ("base",)

    def __init__(self, base: Tracer) -> None:
        self.base = base

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self):
        return iter(np.ravel(self.base))

    def __getitem__(self, index):
        return np.copy(np.ravel(self.base)[index])

    def __setitem__(self, index, value) -> None:
        _refuse_scalar(self.base)
        _write_flat(self.base, index, value, "x.flat[index] = v")


def _set_flat(self, value):
    _Flat(self)[...] = np.resize(operand(value), (self.size,))


Tracer.flat = property(_Flat, _set_flat, doc="As ``ndarray.flat``.")


# ── ufunc.at, and the functional forms ───────────────────────────────────────────────────────────────────────────
#
# a[i] = u(a[i], b) entry after entry, an index that occurs k times being updated k times. The first occurrences of
# all indices are distinct, so they are one functional update; then the second ones, and so on. That is exact for
# every ufunc and every order of derivative. Sums need no such rounds, for their terms accumulate in one scatter: in the
# dtype of the array, or in that of NumPy's loop if it is a floating-point one; where each sum is cast to another kind
# of number (a truth value, 1.5 added to an integer), they are added one by one.


def _update(ufunc: np.ufunc, a, index, b=None):
    """Return ``a`` after ``ufunc.at(a, index, b)``."""
    template, arrays = parse_index(a, index)
    shape = indexing.indexed_shape(a.shape, arrays, template)
    if b is not None:
        b = np.broadcast_to(operand(b), shape)
        _check_kind(a, b, f"np.{ufunc.__name__}.at")
    if ufunc in (np.add, np.subtract):
        _, dtype, out = loop_dtypes(ufunc, (a, b), None, "unsafe")
        whole = a.dtype.kind in "iu" and out.kind in "iu"
        if whole or a.dtype.kind in "fc":
            b = b.astype(a.dtype if whole else dtype, copy=False)
            return ufunc(a, indexing.index_add(b, *arrays, template=template, shape=a.shape).astype(a.dtype))
    for positions, chosen in _rounds(a, index, arrays, template):
        old = np.ravel(a)[positions]
        new = ufunc(old) if b is None else ufunc(old, np.ravel(b)[chosen])
        a = np.reshape(set_at(np.reshape(a, -1), positions, new), a.shape)
    return a


def _rounds(a, index, arrays, template):
    """Yield (positions in the flat array, positions in the flat update), each round without a repeated position."""
    numbers = np.arange(a.size).reshape(a.shape)
    if any(isinstance(i, Tracer) for i in arrays):  # which indices repeat is not known: one update after the other
        positions = np.ravel(indexing.index(numbers, *arrays, template=template))
        for k in range(positions.size):
            yield positions[k : k + 1], slice(k, k + 1)
        return
    positions = np.ravel(numbers[index])
    order = np.argsort(positions, kind="stable")
    ranked = positions[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    occurrence = np.arange(ranked.size) - np.repeat(starts, np.diff(np.r_[starts, ranked.size]))
    for k in range(int(occurrence.max(initial=-1)) + 1):
        chosen = order[occurrence == k]
        yield positions[chosen], chosen


def _at(ufunc: np.ufunc) -> Callable:
    def at(a, indices, b=None, /):
        assign(_write_target(a, f"np.{ufunc.__name__}.at"), _update(ufunc, a, indices, b))

    return at


ANY_UFUNC["at"] = _at


def _updating(ufunc: np.ufunc, what: str) -> Callable:
    def update(self, value):
        return _update(ufunc, self._x, self._index[0], value)

    update.__doc__ = f"Return the tensor with {what}."
    return update


class At:
    """``x.at[index]``: updates that leave ``x`` as it is and return a new tensor.

    Examples
    --------
    >>> da.grad(lambda x: np.sum(x.at[0].multiply(3.0)))(np.ones(2))
    array([3., 1.])
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x, index=None) -> None:
        self._x, self._index = x, index

    def __getitem__(self, index) -> At:
        return At(self._x, (index,))

    def get(self):
        """Return the entries."""
        return self._x[self._index[0]]

    def set(self, value):
        """Return the tensor with the entries replaced."""
        value = _check_kind(self._x, value, "x.at[...].set")
        return set_at(self._x, self._index[0], value)

    add = _updating(np.add, "the entries increased by ``value``, repeated indices adding up")
    multiply = _updating(np.multiply, "the entries multiplied")
    divide = _updating(np.divide, "the entries divided")
    power = _updating(np.power, "the entries raised to a power")
    min = _updating(np.minimum, "the entries replaced by the smaller of them and ``value``")
    max = _updating(np.maximum, "the entries replaced by the larger of them and ``value``")


Tracer.at = property(At)
