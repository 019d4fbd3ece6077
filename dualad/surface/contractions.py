"""Matrix products and Einstein sums, in NumPy's many spellings.

Not for: their rules (``ops/contraction.py``); most of these are reshapes around one matrix product.
"""

from __future__ import annotations

import math

import numpy as np

from .arguments import normalize_axis, operand, operands, refuse_out
from .functions import function

__all__: list[str] = []


@function(np.dot, kind="composite")
def dot(a, b, out=None):
    refuse_out(out, "np.dot")
    a, b = operands(a, b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    return a @ b if b.ndim <= 2 else np.tensordot(a, b, (-1, -2))


@function(np.inner, kind="composite")
def inner(a, b, /):
    a, b = operands(a, b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    return a @ b if b.ndim == 1 else np.tensordot(a, b, (-1, -1))


@function(np.outer, kind="composite")
def outer(a, b, out=None):
    refuse_out(out, "np.outer")
    a, b = operands(a, b)
    return np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1))


@function(np.vdot, kind="composite")
def vdot(a, b, /):
    a, b = operands(a, b)
    a, b = np.reshape(a, -1), np.reshape(b, -1)
    return (np.conj(a) if a.dtype.kind == "c" else a) @ b


@function(np.tensordot, kind="composite")
def tensordot(a, b, axes=2):
    a, b = operands(a, b)
    a_axes, b_axes = _contracted(a, b, axes)
    a_free = [i for i in range(a.ndim) if i not in a_axes]
    b_free = [i for i in range(b.ndim) if i not in b_axes]
    summed = math.prod([a.shape[i] for i in a_axes])
    rows, columns = [a.shape[i] for i in a_free], [b.shape[i] for i in b_free]
    a = np.reshape(_permuted(a, a_free + a_axes), (math.prod(rows), summed))
    b = np.reshape(_permuted(b, b_axes + b_free), (summed, math.prod(columns)))
    return np.reshape(a @ b, (*rows, *columns))


def _contracted(a, b, axes) -> tuple[list[int], list[int]]:
    """Return the axes to sum over, of both operands."""
    try:
        a_axes, b_axes = axes
    except TypeError:
        if axes < 0:
            raise ValueError("'axes' integer cannot be negative") from None
        if axes > min(np.ndim(a), np.ndim(b)):
            raise ValueError("shape-mismatch for sum") from None
        a_axes, b_axes = range(np.ndim(a) - axes, np.ndim(a)), range(axes)
    a_axes, b_axes = [list(x) if np.iterable(x) else [x] for x in (a_axes, b_axes)]
    a_axes = [normalize_axis(i, np.ndim(a), "np.tensordot") for i in a_axes]
    b_axes = [normalize_axis(i, np.ndim(b), "np.tensordot") for i in b_axes]
    if [a.shape[i] for i in a_axes] != [b.shape[i] for i in b_axes] or len(set(a_axes)) < len(a_axes):
        raise ValueError("shape-mismatch for sum")
    return a_axes, b_axes


def _permuted(x, order: list[int]):
    return x if order == list(range(len(order))) else np.transpose(x, order)
