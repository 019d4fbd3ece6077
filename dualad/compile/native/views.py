"""Where an entry comes from: operators that move entries, as maps from an index of the result to one of an argument.

An index has for each axis a number, or ``(loop, step, offset)``: the counter of a loop, multiplied and moved. Some maps
are different in different parts of an axis; ``splits`` finds where. Not for: operations (``kernels.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .operators import Refused

__all__ = [
    "Box", "Index", "affine", "broadcast_index", "check_view", "pieces", "reshape_index", "same_but_ones",
    "source", "splits",
]  # fmt: skip

#: of an axis: a number, or (loop, step, offset)
Index = tuple[Any, ...]
#: loop -> the part of it that is being written: (from, to)
Box = dict[int, tuple[int, int]]
#: of the index of an axis: from where, and to where
Limit = tuple[Any, int, int]


def affine(x: Any, start: int, step: int) -> Any:
    """Return a place of an axis of which so many are left out at the start, and between two."""
    return start + step * x if isinstance(x, int) else (x[0], step * x[1], start + step * x[2])


def _shift(x: Any, by: int) -> Any:
    return x - by if isinstance(x, int) else (x[0], x[1], x[2] - by)


def _first(x: Any, box: Box) -> int:
    """Return the smallest value of an index in a part of its loop."""
    if isinstance(x, int):
        return x
    low, high = box[x[0]]
    return x[1] * (low if x[1] > 0 else high - 1) + x[2]


def broadcast_index(shape: Sequence[int], index: Index) -> Index:
    """Return the index of an argument that is broadcast."""
    own = index[len(index) - len(shape) :]
    if 1 not in shape:
        return own
    return tuple([0 if n == 1 else x for n, x in zip(shape, own, strict=True)])


def check_view(name: str, shapes: Sequence[tuple[int, ...]], params: dict) -> bool:
    """Whether this moves entries in a way that is known here."""
    if name in ("index", "index_add", "index_set"):
        template = params["template"]
        if any([type(e) is str for e in template]):
            return False
        if name != "index":
            return all([type(e) is int or (type(e) is tuple and e[2] == 1) for e in template])
    return True


def same_but_ones(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes differ by axes of size one only."""
    return [n for n in a if n != 1] == [n for n in b if n != 1]


def reshape_index(shape: tuple[int, ...], out: tuple[int, ...], index: Index) -> Index:
    """Return the index in an array of which another shape is seen; all axes but the first are at one place."""
    if all([isinstance(x, int) for x in index]):
        return tuple([int(i) for i in np.unravel_index(np.ravel_multi_index(index, out), shape)])
    if not shape or shape[0] != out[0]:
        raise Refused("a first axis that is folded")
    place = int(np.ravel_multi_index(index[1:], out[1:])) if len(out) > 1 else 0
    inner = np.unravel_index(place, shape[1:]) if len(shape) > 1 else ()
    return (index[0], *[int(i) for i in inner])


def pieces(
    name: str, shapes: Sequence[tuple[int, ...]], params: dict, out: tuple[int, ...], index: Index
) -> list[tuple[list[Limit], tuple[int, Index] | None]]:
    """The argument that an entry comes from and its index there (None for a zero), each with its limits.

    Where the limits of several hold, the first one counts.
    """
    if name in ("concatenate", "stack"):
        axis, start = params["axis"], 0
        found: list[tuple[list[Limit], tuple[int, Index] | None]] = []
        for i, shape in enumerate(shapes):
            size = shape[axis] if name == "concatenate" else 1
            inside = (_shift(index[axis], start),) if name == "concatenate" else ()
            place = (*index[:axis], *inside, *index[axis + 1 :])
            found.append(([(index[axis], start, start + size)], (i, place)))
            start += size
        return found
    if name == "shift":
        axis, by = params["axis"], -1 if params.get("reverse") else 1
        there = (*index[:axis], _shift(index[axis], by), *index[axis + 1 :])
        return [([(index[axis], max(by, 0), out[axis] + min(by, 0))], (0, there)), ([], None)]
    if name in ("index_add", "index_set"):
        part, limits, inner = int(name == "index_set"), list[Limit](), list[Any]()
        for x, e in itertools.zip_longest(index, params["template"]):
            if type(e) is int:
                limits.append((x, e, e + 1))
                continue
            if e is not None:  # else it is an axis behind those of the template
                limits.append((x, e[0], e[0] + shapes[part][len(inner)]))
            inner.append(x if e is None else _shift(x, e[0]))
        place = broadcast_index(shapes[part], tuple(inner)) if part else tuple(inner)
        return [(limits, (part, place)), ([], (0, index) if part else None)]
    return [([], (0, _MOVED[name](shapes[0], params, out, index)))]


def source(
    name: str, shapes: Sequence[tuple[int, ...]], params: dict, out: tuple[int, ...], index: Index, box: Box
) -> tuple[int, Index] | None:
    """The argument that an entry of a part comes from and its index there; None for a zero."""
    for limits, place in pieces(name, shapes, params, out, index):
        if all([low <= _first(x, box) < high for x, low, high in limits]):
            return place
    raise Refused(name)


def _transpose_index(axes: Sequence[int], index: Index) -> Index:
    where = dict(zip(axes, index, strict=True))
    return tuple([where[i] for i in range(len(index))])


def _unfold_index(shape: Sequence[int], out: Sequence[int], index: Index) -> Index:
    left = iter([x for x, n in zip(index, out, strict=True) if n != 1])
    return tuple([0 if n == 1 else next(left) for n in shape])


def _compose_index(template: tuple, index: Index) -> Index:
    found, given = [], list(index)
    for e in template:
        if type(e) is int:
            found.append(e)
        elif e is None:
            given.pop(0)
        else:
            found.append(affine(given.pop(0), e[0], e[2]))
    return (*found, *given)


#: moves of one array: its shape, the parameters, the shape of the result and an index there -> the index in the array
_MOVED: dict[str, Callable[[tuple[int, ...], dict, tuple[int, ...], Index], Index]] = {
    "copy": lambda shape, params, out, index: index,
    "stop_gradient": lambda shape, params, out, index: index,
    "broadcast_to": lambda shape, params, out, index: broadcast_index(shape, index),
    "transpose": lambda shape, params, out, index: _transpose_index(params["axes"], index),
    "flip": lambda shape, params, out, index: tuple(
        [affine(x, shape[i] - 1, -1) if i in params["axes"] else x for i, x in enumerate(index)]
    ),
    "reshape": lambda shape, params, out, index: _unfold_index(shape, out, index),
    "index": lambda shape, params, out, index: _compose_index(params["template"], index),
}


def splits(limits: Sequence[Limit]) -> list[tuple[int, int]]:
    """Return the places (loop, counter) where limits begin or end to hold."""
    found: list[tuple[int, int]] = []
    for x, *ends in limits:
        if isinstance(x, int):
            continue
        loop, step, offset = x
        if abs(step) != 1:
            raise Refused("a split of a stretched axis")
        found += [(loop, end - offset if step == 1 else offset - end + 1) for end in ends]
    return found
