"""Facts about numbers when a rule runs: whether there are any yet, and whether all of them are finite.

For: rules that take another path at an infinity. Not for: that path (``kinds.py``).
"""

from __future__ import annotations

import math

import numpy as np

from ..core.contexts import note
from ..core.tracer import PLAIN, Tracer

__all__ = ["is_finite", "is_wild", "known_value"]

_DOUBLE = np.dtype(float)
_FLOATS = frozenset({float, np.float64})


def is_wild(d) -> bool:
    """Whether a factor of a tangent is known to hold infinities or NaN; a program notes where it can't know."""
    finite = is_finite(d)
    if finite is None:
        note("numbers")
    return finite is False


def known_value(x):
    """Return the plain numbers beneath tensors, or ``None`` where there are none yet.

    Of an array of another library nothing is known: it may be lazy, or far away, and is not asked.
    """
    return x.known() if isinstance(x, Tracer) else x if type(x) in PLAIN or isinstance(x, np.ndarray) else None


def is_finite(x) -> bool | None:
    """Whether an array, tensor or number is finite throughout; ``None`` if that is not known yet."""
    if isinstance(x, Tracer):
        return x.is_finite()
    if isinstance(x, np.ndarray):
        try:
            if x.dtype is _DOUBLE and x.ndim == 1 and x.size <= _BLOCK and x.dot(x) < math.inf:
                return True  # the common case first
            if x.dtype.kind not in "fc":
                return True
            if x.size <= _BLOCK:
                flat = x.ravel()
                total = flat.dot(flat)
            else:
                with np.errstate(invalid="ignore", over="ignore"):
                    total = np.add.reduce(x, None)
        except (FloatingPointError, RuntimeWarning):  # an overflow is no concern of who asks for errors
            total = math.inf
        return bool(abs(total) < math.inf or np.isfinite(x).all())
    if type(x) in _FLOATS:  # as in a loop over scalars
        return math.isfinite(x)
    return bool(abs(x) < math.inf) if type(x) in PLAIN else None


#: up to this size a dot product is the quickest to meet every entry; beyond, BLAS may wake its threads for it
_BLOCK = 8192
