"""The part of ``np.polynomial`` that reaches NumPy's protocols: its 1-d functions are arithmetic and need nothing.

It is imported when one of these functions first meets a tensor: ``np.polynomial`` itself is slow to import. Not for:
``np.polyval`` and its relatives (``polynomial.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Array
from .arguments import function, operand


def _overridable(name: str) -> list:
    """Return a function of ``np.polynomial.polynomial`` if this release of NumPy lets it be overridden."""
    candidate = getattr(np.polynomial.polynomial, name, None)
    return [candidate] if hasattr(candidate, "_implementation") else []


def _powers(x, n: int):
    return np.stack([x**k if k else x * 0 + 1 for k in range(n)], axis=-1)


@function(*_overridable("polyval2d"), kind="composite")
def polyval2d(x: Array, y: Array, c: Any) -> Array:
    x, y, c = operand(x), operand(y), operand(c)
    return np.einsum("...i,...j,ij->...", _powers(x, c.shape[0]), _powers(y, c.shape[1]), c)


@function(*_overridable("polygrid2d"), kind="composite")
def polygrid2d(x: Array, y: Array, c: Any) -> Array:
    x, y, c = operand(x), operand(y), operand(c)
    left, right = _powers(np.ravel(x), c.shape[0]), _powers(np.ravel(y), c.shape[1])
    return np.reshape(np.einsum("ai,bj,ij->ab", left, right, c), np.shape(x) + np.shape(y))


@function(*_overridable("polyvalnd"), kind="composite")
def polyvalnd(pts: Any, c: Any) -> Array:
    points, value = [operand(x) for x in pts], operand(c)
    shape = np.shape(points[0])
    value = np.reshape(value, value.shape + (1,) * len(shape))  # what the coefficients multiply comes last
    for x in points:
        n, *rest = value.shape[: value.ndim - len(shape)]
        powers = np.reshape(np.moveaxis(_powers(x, n), -1, 0), (n, *(1,) * len(rest), *shape))
        value = np.sum(value * powers, axis=0)
    return value
