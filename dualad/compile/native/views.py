"""Where an entry comes from: operators that move entries, as maps from an index of the result to one of an argument.

An index has for each axis a number, or ``(loop, step, offset)``: the counter of a loop, multiplied and moved. Some maps
are different in different parts of an axis; ``breaks`` finds where. Not for: what is computed (``kernels.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "Box", "Index", "JOINS", "VIEWS", "affine", "broadcast_index", "check_view", "refolded", "same_but_ones", "source",
    "splits",
]  # fmt: skip

#: of an axis: a number, or (loop, step, offset)
Index = tuple[Any, ...]
#: loop -> the part of it that is being written: (from, to)
Box = dict[int, tuple[int, int]]

VIEWS = frozenset({
    "broadcast_to", "concatenate", "copy", "flip", "index", "index_add", "index_set", "reshape", "stack",
    "stop_gradient", "transpose",
})  # fmt: skip
#: those that take entries from here or there
JOINS = frozenset({"concatenate", "index_add", "index_set", "stack"})


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
    """Say whether this moves entries in a way that is known here."""
    if name in ("index", "index_add", "index_set"):
        template = params["template"]
        if any([type(e) is str for e in template]):
            return False
        if name != "index":
            return all([type(e) is int or (type(e) is tuple and e[2] == 1) for e in template])
    return True


def same_but_ones(a: Sequence[int], b: Sequence[int]) -> bool:
    """Say whether two shapes differ by axes of size one only."""
    return [n for n in a if n != 1] == [n for n in b if n != 1]


def refolded(shape: tuple[int, ...], out: tuple[int, ...], index: Index) -> Index:
    """Return the index in an array of which another shape is seen; all axes but the first are at one place."""
    if all([isinstance(x, int) for x in index]):
        return tuple([int(i) for i in np.unravel_index(np.ravel_multi_index(index, out), shape)])
    if not shape or shape[0] != out[0]:
        raise KeyError("a first axis that is folded")
    place = int(np.ravel_multi_index(index[1:], out[1:])) if len(out) > 1 else 0
    inner = np.unravel_index(place, shape[1:]) if len(shape) > 1 else ()
    return (index[0], *[int(i) for i in inner])


def _inside(index: Index, template: tuple, sizes: Sequence[int], box: Box) -> Index | None:
    """Return the index within what a template covers, or None if this part lies outside."""
    out: list[Any] = []
    for k, x in enumerate(index):
        if k >= len(template):
            out.append(x)
            continue
        e = template[k]
        low = _first(x, box)
        if type(e) is int:
            if low != e:
                return None
        elif not e[0] <= low < e[0] + sizes[len(out)]:
            return None
        else:
            out.append(_shift(x, e[0]))
    return tuple(out)


def source(
    name: str, shapes: Sequence[tuple[int, ...]], params: dict, out: tuple[int, ...], index: Index, box: Box
) -> tuple[int, Index] | None:
    """Return which argument an entry comes from and its index there; None for a zero."""
    if name in ("copy", "stop_gradient"):
        return 0, index
    if name == "broadcast_to":
        return 0, broadcast_index(shapes[0], index)
    if name == "transpose":
        where: list[Any] = [None] * len(index)
        for x, axis in zip(index, params["axes"], strict=True):
            where[axis] = x
        return 0, tuple(where)
    if name == "flip":
        n = shapes[0]
        return 0, tuple([affine(x, n[i] - 1, -1) if i in params["axes"] else x for i, x in enumerate(index)])
    if name == "reshape":
        left = iter([x for x, n in zip(index, out, strict=True) if n != 1])
        return 0, tuple([0 if n == 1 else next(left) for n in shapes[0]])
    if name == "index":
        found, given = [], list(index)
        for e in params["template"]:
            if type(e) is int:
                found.append(e)
            elif e is None:
                given.pop(0)
            else:
                found.append(affine(given.pop(0), e[0], e[2]))
        return 0, (*found, *given)
    if name == "stack":
        axis = params["axis"]
        return _first(index[axis], box), index[:axis] + index[axis + 1 :]
    if name == "concatenate":
        axis, start = params["axis"], 0
        low = _first(index[axis], box)
        for i, shape in enumerate(shapes):
            if low < start + shape[axis]:
                return i, (*index[:axis], _shift(index[axis], start), *index[axis + 1 :])
            start += shape[axis]
    if name == "index_add":
        inside = _inside(index, params["template"], shapes[0], box)
        return None if inside is None else (0, inside)
    if name == "index_set":
        inside = _inside(index, params["template"], shapes[1], box)
        return (0, index) if inside is None else (1, broadcast_index(shapes[1], inside))
    raise KeyError(name)


def splits(
    name: str, shapes: Sequence[tuple[int, ...]], params: dict, out: tuple[int, ...], index: Index
) -> list[tuple[int, int]]:
    """Return the places (loop, counter) where an entry begins to come from elsewhere."""
    found: list[tuple[int, int]] = []

    def add(x: Any, place: int) -> None:
        if isinstance(x, int):
            return
        loop, step, offset = x
        if step == 1:
            found.append((loop, place - offset))
        elif step == -1:
            found.append((loop, offset - place + 1))
        else:
            raise KeyError("a split of a stretched axis")

    if name in ("concatenate", "stack"):
        axis, start = params["axis"], 0
        for shape in shapes:
            start += shape[axis] if name == "concatenate" else 1
            add(index[axis], start)
    elif name in ("index_add", "index_set"):
        part, k = shapes[0] if name == "index_add" else shapes[1], 0
        for x, e in zip(index, params["template"], strict=False):
            if type(e) is int:
                add(x, e)
                add(x, e + 1)
            else:
                add(x, e[0])
                add(x, e[0] + part[k])
                k += 1
    return found
