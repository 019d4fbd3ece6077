"""NumPy's names for joining and splitting arrays.

Not for: the operators (``ops/joining.py``).
"""

from __future__ import annotations

import numpy as np

from ..ops import joining
from .arguments import normalize_axis, operand, refuse_out
from .functions import function

__all__: list[str] = []


@function(np.concatenate)
def concatenate(arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind"):
    refuse_out(out, "np.concatenate")
    arrays = _arrays(arrays, dtype)
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        arrays, axis = [np.ravel(a) for a in arrays], 0
    if not np.ndim(arrays[0]):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    return joining.concatenate(*arrays, axis=normalize_axis(axis, np.ndim(arrays[0]), "np.concatenate"))


@function(np.stack)
def stack(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    refuse_out(out, "np.stack")
    arrays = _arrays(arrays, dtype)
    if not arrays:
        raise ValueError("need at least one array to stack")
    return joining.stack(*arrays, axis=normalize_axis(axis, np.ndim(arrays[0]) + 1, "np.stack"))


def _arrays(arrays, dtype) -> list:
    arrays = [operand(a) for a in arrays]
    return (
        arrays
        if dtype is None
        else [np.astype(a, dtype) if hasattr(a, "astype") else np.dtype(dtype).type(a) for a in arrays]
    )
