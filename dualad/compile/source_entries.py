"""Small arrays in the source as their entries: a vector of three is three Python floats, and its operators are theirs.

A call of NumPy costs what a dozen of Python's sums and products do. Where all arrays of an equation are small, it is
written entry by entry: elementwise operators (an expression that occurs twice is written once), moves (which then cost
nothing), sums and small matrix products. Not for: single numbers (``source_block.py``), larger arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.aval import Aval
from ..program.variable import Variable
from .simplify import is_elementwise
from .source_values import BOOL, BOOL_FORM, DOUBLE, ENTRIES, FLOAT_FORM, PYTHON, Value

__all__ = ["SMALL", "in_entries", "is_small"]

#: arrays of so many entries are held as entries
SMALL = 12
#: the products of one matrix product that are written out
_PRODUCTS = 27

#: operators that move entries about: what they do to indices is what they do to values
_MOVES = frozenset({
    "broadcast_to", "concatenate", "copy", "flip", "index", "index_set", "reshape", "split", "stack", "transpose",
    "unstack",
})  # fmt: skip


def is_small(aval: Aval) -> bool:
    """Say whether values like this one are held as entries."""
    return bool(aval.shape) and 1 <= aval.size <= SMALL and aval.dtype in (DOUBLE, BOOL)


def in_entries(
    block: Any, op: Any, args: list[Value], params: dict, outs: Sequence[Variable]
) -> list[Value] | None:  # fmt: skip
    """Write an equation entry by entry; None if it can't be, and then nothing is written."""
    if not any([a.aval.shape for a in args]) and not any([v.aval.shape for v in outs]):
        return None
    for v in outs:
        if not (is_small(v.aval) or (not v.aval.shape and v.aval.dtype in (DOUBLE, BOOL) and not v.aval.weak)):
            return None
    if not all([_fits(a) for a in args]):
        return None
    if op.name in _MOVES:
        return _move(block, op, args, params, outs)
    if len(outs) != 1:
        return None
    if is_elementwise(op) and (not params or op.name == "scale"):
        return _elementwise(block, op, args, params, outs[0].aval)
    if op.name == "sum" and args[0].aval.dtype == DOUBLE:
        return _sum(block, args[0], params, outs[0].aval)
    if op.name == "matmul" and all([a.aval.dtype == DOUBLE for a in args]):
        return _product(block, args, outs[0].aval)
    return None


def _fits(a: Value) -> bool:
    if a.form == PYTHON:
        return a.aval.dtype == DOUBLE or a.whole
    return is_small(a.aval) or (not a.aval.shape and a.aval.dtype in (DOUBLE, BOOL))


def _made(texts: Sequence[str], aval: Aval) -> Value:
    if not aval.shape:
        return Value(texts[0], FLOAT_FORM if aval.dtype == DOUBLE else BOOL_FORM, aval)
    return Value("", ENTRIES, aval, "", tuple(texts))


def _positions(a: Value) -> np.ndarray:
    return np.arange(a.aval.size).reshape(a.aval.shape)


def _move(block: Any, op: Any, args: list[Value], params: dict, outs: Sequence[Variable]) -> list[Value] | None:
    if any([a.form == PYTHON for a in args]) or (op.name == "index" and len(args) > 1):
        return None
    if op.name == "index_set" and len(args) > 2:
        return None
    dtype = outs[0].aval.dtype if outs else None
    if any([a.aval.dtype != dtype for a in args]):
        return None
    texts: list[str] = []
    numbers = []
    for a in args:
        numbers.append(_positions(a) + len(texts))
        texts += block.entries(a)
    out = op.impl(*numbers, **params)
    out = out if op.multiple_results else (out,)
    return [_made([texts[i] for i in np.ravel(x)], v.aval) for x, v in zip(out, outs, strict=True)]


def _elementwise(block: Any, op: Any, args: list[Value], params: dict, out: Aval) -> list[Value] | None:
    single = Aval((), out.dtype)
    if not block.can_be_number(op, [_one(a) for a in args], params, single):
        return None
    texts = [() if a.form == PYTHON else block.entries(a) for a in args]
    places = [np.broadcast_to(_positions(a), out.shape).ravel() for a in args]
    known: dict[tuple, str] = {}
    result: list[str] = []
    for k in range(out.size):
        operands = [
            _made([t[p[k]]], Aval((), a.aval.dtype)) if t else a for a, t, p in zip(args, texts, places, strict=True)
        ]
        key = tuple([o.text for o in operands])
        if key not in known:
            known[key] = block.number(op, operands, params, single).text
        result.append(known[key])
    return [_made(result, out)]


def _one(a: Value) -> Value:
    return a if a.form == PYTHON else _made(["x"], Aval((), a.aval.dtype))


def _sum(block: Any, x: Value, params: dict, out: Aval) -> list[Value] | None:
    axis = params["axis"]
    if not axis:
        return None
    places = _positions(x)
    others = [i for i in range(places.ndim) if i not in axis]
    rows = places.transpose(*others, *sorted(axis)).reshape(out.size, -1)
    # NumPy adds fewer than eight numbers one after the other, if nothing lies between the axes.
    at_the_end = sorted(axis) == list(range(places.ndim - len(axis), places.ndim))
    at_the_start = sorted(axis) == list(range(len(axis)))
    if rows.shape[1] > 7 or not (at_the_end or at_the_start):
        return None
    texts = block.entries(x)
    result = []
    for row in rows:
        total = texts[row[0]] if len(row) == 1 else " + ".join([texts[i] for i in row])
        result.append(total if len(row) == 1 else block.new(total, FLOAT_FORM, Aval((), DOUBLE)).text)
    return [_made(result, out)]


def _product(block: Any, args: list[Value], out: Aval) -> list[Value] | None:
    a, b = [_positions(x) for x in args]
    if not 1 <= a.ndim <= 2 or not 1 <= b.ndim <= 2:
        return None
    left = a.reshape(-1, a.shape[-1])
    right = b.reshape(b.shape[0], -1)
    if left.shape[0] * right.shape[1] * right.shape[0] > _PRODUCTS:
        return None
    x, y = [block.entries(v) for v in args]
    result = []
    for row in left:
        for column in right.T:
            terms = [f"{x[i]} * {y[j]}" for i, j in zip(row, column, strict=True)]
            result.append(block.new(" + ".join(terms), FLOAT_FORM, Aval((), DOUBLE)).text)
    return [_made(result, out)]
