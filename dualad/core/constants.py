"""Constants of the rules, as arrays of the library whose numbers they meet.

A rule makes masks, ones and zeros of its own. Beside NumPy's arrays they are NumPy's; an array on another device meets
only its like, and a lazy one should not be given a large array that is there already. Not for: which libraries there
are (``containers.py``), or what the user creates (``surface/creation.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .tracer import PLAIN, Tracer, beneath

__all__ = ["foreign", "match_library", "zeros_matching_library"]


def foreign(*values: Any) -> Any:
    """Return the first array of another library beneath these values; None if there is none."""
    for x in values:
        if type(x) not in PLAIN:
            b = beneath(x) if isinstance(x, Tracer) else x
            if type(b) not in PLAIN and not isinstance(b, (Tracer, np.ndarray)) and hasattr(b, "__array_function__"):
                return b
    return None


def match_library(constant: Any, *values: Any) -> Any:
    """Return an array of NumPy's as one of the library of these values."""
    if type(constant) not in PLAIN or (like := foreign(*values)) is None:
        return constant
    return np.asarray(constant, like=like)


def zeros_matching_library(shape: Any, dtype: Any, *values: Any) -> Any:
    """Return zeros of the library of these values."""
    like = foreign(*values)
    return np.zeros(shape, dtype) if like is None else np.zeros(shape, dtype=dtype, like=like)
