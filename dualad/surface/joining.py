"""NumPy's names for joining, splitting and padding arrays.

Not for: the operators (``ops/joining.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.aval import Array, DType, as_entries
from ..core.tracer import Tracer
from ..errors import UnsupportedError
from ..memory.memory import link, target
from ..memory.order import in_order, order_of
from ..ops import indexing, joining
from .arguments import array_operand, function, normalize_axis, numpys_own, operand
from .indexing import unstacked


@function(np.concatenate)
def concatenate(
    arrays: Any, /, axis: int | None = 0, out: Array = None, *, dtype: DType = None, casting: str = "same_kind"
) -> Array:
    arrays = _arrays(arrays, dtype)
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        arrays, axis = [np.ravel(a) for a in arrays], 0
    if not np.ndim(arrays[0]):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    joined = joining.concatenate(*arrays, axis=normalize_axis(axis, np.ndim(arrays[0]), "np.concatenate"))
    return joined if out is None else target(out, joined, "np.concatenate")


@function(np.stack)
def stack(arrays: Any, axis: int = 0, out: Array = None, *, dtype: DType = None, casting: str = "same_kind") -> Array:
    arrays = _arrays(arrays, dtype)
    if not arrays:
        raise ValueError("need at least one array to stack")
    joined = joining.stack(*arrays, axis=normalize_axis(axis, np.ndim(arrays[0]) + 1, "np.stack"))
    return joined if out is None else target(out, joined, "np.stack")


def _arrays(arrays, dtype) -> list:
    arrays = [operand(a) for a in arrays]
    if dtype is not None:
        arrays = [array_operand(a).astype(dtype) for a in arrays]
    return arrays


numpys_own(np.column_stack, np.dstack, np.hstack, np.vstack, kind="composite")


@function(np.block, kind="composite")
def block(arrays: Any) -> Array:
    depth = _depth(arrays)
    ndim = max(depth, _largest_ndim(arrays))
    return _block(arrays, depth, ndim, depth)


def _depth(arrays) -> int:
    if isinstance(arrays, tuple):
        raise TypeError("np.block: only lists can be used to arrange blocks, and np.block does not allow implicit"
                        " conversion from tuple to ndarray")  # fmt: skip
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError("List at arrays cannot be empty")
    depths = {_depth(a) for a in arrays}
    if len(depths) > 1:
        raise ValueError("List depths are mismatched")
    return 1 + depths.pop()


def _largest_ndim(arrays) -> int:
    return max(map(_largest_ndim, arrays)) if isinstance(arrays, list) else np.ndim(arrays)


def _block(arrays, depth: int, ndim: int, left: int):
    if not left:
        a = operand(arrays)
        return np.reshape(a, (1,) * (ndim - np.ndim(a)) + np.shape(a)) if ndim > np.ndim(a) else np.copy(a, "C")
    return np.concatenate([_block(a, depth, ndim, left - 1) for a in arrays], axis=-left)


# ── splitting ────────────────────────────────────────────────────────────────────────────────────────────────────


@function(np.array_split)
def array_split(ary: Array, indices_or_sections: Any, axis: int = 0) -> Any:
    ary = operand(ary)
    axis = normalize_axis(axis, ary.ndim, "np.array_split")
    n = ary.shape[axis]
    if np.ndim(indices_or_sections):
        cuts = [0, *map(int, indices_or_sections), n]
        bounds = [slice(a, b).indices(n)[:2] for a, b in itertools.pairwise(cuts)]
        if all(a <= b == c for (a, b), (c, _) in itertools.pairwise(bounds)):
            return _pieces(ary, tuple([b - a for a, b in bounds]), axis)
        return [ary[(slice(None),) * axis + (slice(a, b),)] for a, b in itertools.pairwise(cuts)]
    sections = int(indices_or_sections)
    if sections <= 0:
        raise ValueError("number sections must be larger than 0.")
    each, extra = divmod(n, sections)
    sizes = (each + 1,) * extra + (each,) * (sections - extra)
    return _pieces(ary, sizes, axis)


def _pieces(ary, sizes: tuple[int, ...], axis: int) -> list:
    """Cut an axis into consecutive pieces, each of them a view."""
    pieces = joining.split(ary, sizes=sizes, axis=axis)
    if isinstance(ary, Tracer):
        before = tuple([(0, n, 1) for n in ary.shape[:axis]])
        ends = itertools.accumulate(sizes)
        for piece, end, n in zip(pieces, ends, sizes, strict=True):
            link(piece, ary, indexing.index, {"template": (*before, (end - n, end, 1))})
    return list(pieces)


numpys_own(np.dsplit, np.hsplit, np.split, np.vsplit, kind="composite")


def _unstack(x: Array, /, *, axis: int = 0) -> Array:
    x = operand(x)
    if not x.ndim:
        raise ValueError("Input array must be at least 1-d.")
    return unstacked(x, normalize_axis(axis, x.ndim, "np.unstack"))


if hasattr(np, "unstack"):  # NumPy 2.1
    function(np.unstack)(_unstack)


# ── grids ────────────────────────────────────────────────────────────────────────────────────────────────────────


@function(np.meshgrid, kind="composite")
def meshgrid(*xi: Any, copy: bool | None = True, sparse: bool = False, indexing: str = "xy") -> Array:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    n = len(xi)
    axes = list(range(n))
    if indexing == "xy" and n > 1:
        axes[:2] = 1, 0
    out = [np.reshape(operand(x), (1,) * i + (-1,) + (1,) * (n - 1 - i)) for i, x in zip(axes, xi, strict=True)]
    if not sparse:
        out = list(np.broadcast_arrays(*out))
    return tuple([np.copy(x, "C") for x in out]) if copy else tuple(out)


# ── padding ──────────────────────────────────────────────────────────────────────────────────────────────────────
#
# np.pad goes axis by axis. Modes that repeat entries are a gather, whose indices NumPy's own np.pad finds from the
# numbers of the entries; the others join what stands before and after.

_STATISTICS = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}
_KEYWORDS = {
    "constant": {"constant_values"},
    "linear_ramp": {"end_values"},
    "reflect": {"reflect_type"},
    "symmetric": {"reflect_type"},
    "edge": set(),
    "wrap": set(),
    **{key: {"stat_length"} for key in _STATISTICS},
}


@function(np.pad, kind="composite")
def pad(array: Array, pad_width: Any, mode: str | Callable = "constant", **kwargs: Any) -> Array:
    array = operand(array)
    if isinstance(mode, str) and mode not in _KEYWORDS and mode != "empty":
        raise ValueError(f"mode '{mode}' is not supported")
    if mode not in _KEYWORDS:
        raise UnsupportedError(
            f"np.pad with mode {mode!r} was called on a tensor.",
            "mode 'empty' leaves values undefined"
            if mode == "empty"
            else "the function would be given plain rows, and writes into them",
            f"use one of the modes {sorted(_KEYWORDS)}, or np.concatenate",
        )
    if set(kwargs) - _KEYWORDS[mode]:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {set(kwargs) - _KEYWORDS[mode]}")
    if isinstance(pad_width, dict):
        given, pad_width = pad_width, [(0, 0)] * array.ndim
        for axis, width in given.items():
            pad_width[axis] = width if isinstance(width, tuple) else (width, width)
    if np.any(np.less(pad_width, 0)):
        raise ValueError("index can't contain negative values")
    widths, order = _pairs(pad_width, array.ndim), order_of(array)
    option = kwargs.get(next(iter(_KEYWORDS[mode]), ""))
    if mode not in ("reflect", "symmetric"):
        options = _pairs(0 if option is None and mode in ("constant", "linear_ramp") else option, array.ndim)
    for axis, (before, after) in enumerate(widths):
        before, after = int(before), int(after)
        if not before and not after:
            continue
        if not array.shape[axis] and mode != "constant":
            raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
        if mode in ("constant", "linear_ramp", *_STATISTICS):
            make = {"constant": _side, "linear_ramp": _ramp}.get(mode) or _statistic(_STATISTICS[mode])
            array = np.concatenate(
                [
                    make(array, axis, before, options[axis][0], True),
                    array,
                    make(array, axis, after, options[axis][1], False),
                ],
                axis=axis,
            )
        elif option == "odd":
            # Extrapolation through the edge: each new entry is a combination of few old ones, in a matrix that NumPy
            # finds from the columns of the identity.
            matrix = np.pad(np.eye(array.shape[axis]), ((before, after), (0, 0)), mode, reflect_type="odd")
            array = np.moveaxis(np.tensordot(matrix.astype(array.dtype), array, (1, axis)), 0, axis)
        else:
            array = np.take(array, np.pad(np.arange(array.shape[axis]), (before, after), mode), axis)
    return in_order(array, order) if np.any([w for pair in widths for w in pair]) else np.copy(array, order)


def _pairs(value, ndim: int) -> list:
    """Spread an option of np.pad over (before, after) of each axis, as NumPy does; entries may be traced."""
    if value is None:
        return [(None, None)] * ndim
    value = operand(value)
    return [tuple(pair) for pair in np.broadcast_to(value, (ndim, 2))]


def _side(array, axis: int, width: int, value, first: bool = True):
    """Return ``value`` repeated over ``width`` entries of an axis, in the dtype of ``array``."""
    shape = (*array.shape[:axis], width, *array.shape[axis + 1 :])
    return np.broadcast_to(as_entries(value, array.dtype, True), shape)


def _edge(array, axis: int, first: bool, length: int = 1):
    return array[(slice(None),) * axis + ((slice(0, length) if first else slice(-length, None)),)]


def _ramp(array, axis, width, end, first):
    """Go linearly from the end value to the edge, which is left out."""
    if not width:
        return _side(array, axis, 0, 0)
    edge = _edge(array, axis, first)
    part = np.arange(width, dtype=float) / width
    part = (part if first else part[::-1]).reshape((-1,) + (1,) * (array.ndim - 1 - axis))
    part = part.astype(array.dtype) if array.dtype.kind in "fc" else part
    return _side(array, axis, width, end + (edge - end) * part)


def _statistic(reduce):
    def make(array, axis, width, length, first):
        n = array.shape[axis]
        length = n if length is None else min(int(length), n)
        value = reduce(_edge(array, axis, first, length) if length < n else array, axis=axis, keepdims=True)
        if array.dtype.kind in "iu" and value.dtype.kind == "f":
            value = np.rint(value)
        return _side(array, axis, width, value)

    return make
