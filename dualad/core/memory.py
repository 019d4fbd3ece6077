"""Memory: what the holders of an array may write to without changing what somebody else has read.

For: the copies that keep a derivative right (``snapshot``: of what a program or a rule will read later; ``unshared``: a
box, or an array, of one's own). Not for: operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .tracer import Tracer

__all__ = ["snapshot", "unshared"]


def snapshot(a: np.ndarray) -> np.ndarray:
    """Return ``a``, or a read-only copy of it if somebody could write to it."""
    if not a.flags.writeable and a.base is None:
        return a
    if a.size > 1 and not any(a.strides):  # one number, repeated: it stays one
        copy = np.broadcast_to(a[(0,) * a.ndim], a.shape)
    else:
        copy = a.copy()
    copy.setflags(write=False)
    return copy


def unshared(x: Any) -> Any:
    """Return a value in memory of its own: a write to it is not seen by the holders of the original."""
    if isinstance(x, Tracer):
        box = object.__new__(type(x))
        box.become(x)
        return box
    return x.copy() if isinstance(x, np.ndarray) else x
