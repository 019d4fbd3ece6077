"""Operators that move entries, on abstract values: names move as numbers would, by the operators' own code.

So there is no second implementation of indexing to be believed. For: proofs (``validate.py``). Not for: values
themselves (``names.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.aval import Aval
from ..ops.indexing import INDEXED
from .names import Names, Value

__all__ = ["MOVES", "in_long", "joined", "moved"]

MOVES = frozenset({
    "broadcast_to", "concatenate", "flip", "index", "index_add", "index_set", "reshape", "shift", "split", "stack",
    "transpose", "unstack",
})  # fmt: skip
_JOINS = frozenset({"concatenate", "stack"})
_LONG, _SHORTER = np.dtype(np.int64), frozenset(map(np.dtype, ("i1", "i2", "i4", "u1", "u2", "u4")))


def _first(name: str) -> int:
    """Return which argument of an index is its first position."""
    return 2 if name == "index_set" else 1


def in_long(names: Names, op: Any, args: list[Value]) -> list[Value]:
    """Return the arguments of an operator, the positions of an index as int64, as it is written in the end."""
    if op.name not in INDEXED:
        return args
    n = _first(op.name)
    return [*args[:n], *[names.cast(v, _LONG) if v.aval.dtype in _SHORTER else v for v in args[n:]]]


def moved(names: Names, op: Any, args: list[Value], params: dict, out: Aval) -> Sequence[Value] | None:
    """Return the values that a move makes; ``None`` where the places of entries are unknown, or too many."""
    x, name = args[0], op.name
    if name in _JOINS:
        by_rows = name == "stack" and params["axis"] == 0 and any([v.known is None for v in args])
        return (joined(names, op, args, params, out.dtype),) if by_rows or names.affords(out.size) else None
    if name not in INDEXED:
        return names.taken(op, x, params)
    positions = args[_first(name) :]
    if any([v.known is None for v in positions]):
        return None
    arrays = [np.asarray(v.known) for v in positions]
    if arrays and name == "index_add":  # -0.0 becomes 0.0, and the order of additions counts
        return None
    if arrays and all([not a.shape for a in arrays]):
        template = _concrete_template(params["template"], arrays, x.aval.shape)
        if template is None:
            return None
        params, arrays = {"template": template}, []
    if name == "index":
        return names.taken(op, x, params, arrays) if not arrays or names.affords(out.size) else None
    if not names.affords(out.size):
        return None
    given = [names.cells(v) for v in ((x,) if name == "index_add" else (x, names.cast(args[1], x.aval.dtype)))]
    return (names.of_cells(np.asarray(op.impl(*given, *arrays, **params)), x.aval),)


def joined(names: Names, op: Any, args: Sequence[Value], params: dict, dtype: np.dtype) -> Value:
    """Return the join of values, which are cast."""
    args = [names.cast(v, dtype) for v in args]
    if op.name == "stack" and params["axis"] == 0 and any([v.known is None for v in args]):
        return names.stacked(args)
    cells = np.asarray(op.impl(*map(names.cells, args), **params))
    return names.of_cells(cells, Aval(cells.shape, dtype))


def _concrete_template(template: tuple, arrays: Sequence[np.ndarray], shape: tuple[int, ...]) -> tuple | None:
    """Return the template of an index by arrays of one number each with these numbers in it."""
    numbers, axis, found = iter(arrays), 0, []
    for e in template:
        if e in ("true", "false"):
            return None
        if e == "array":
            e = int(next(numbers))
            e += shape[axis] if e < 0 else 0
            if not 0 <= e < shape[axis]:
                return None
        found.append(e)
        axis += e is not None
    return tuple(found)
