"""Library functions of stacks of matrices, shared out among threads: each takes some of the matrices.

NumPy's loops over stacks let other threads run, and what they make of a matrix does not depend on the others. Not for:
what machine code does (``native/stacks.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.aval import Aval
from .threads import shared_out

__all__ = ["in_shares", "is_shared"]

#: matrices of a stack, and of the part of it that a thread takes at a time
_LEAST, _STEP = 64, 16


def is_shared(op: Any, args: Sequence[Aval], outs: Sequence[Aval]) -> bool:
    """Whether an operator does for each matrix of a stack what it does for one."""
    if op.blocks not in ("matrices", "stack") or len(args) != 1 or len(args[0].shape) < 3:
        return False
    size = args[0].shape[0]
    return size >= _LEAST and all([v.shape[:1] == (size,) for v in outs])


def in_shares(impl: Callable, outs: Sequence[Aval]) -> Callable:
    """Return a function that calls ``impl`` for parts of a stack; what it returns is memory of its own."""

    def call(x: Any, **params: Any) -> Any:
        made = [np.empty(v.shape, v.dtype) for v in outs]

        def part(low: int, high: int) -> None:
            for first in range(low, high, _STEP):
                found = impl(x[first : first + _STEP], **params)
                for whole, some in zip(made, found if isinstance(found, tuple) else (found,), strict=True):
                    whole[first : first + _STEP] = some

        shared_out(part, len(x), _STEP)
        return tuple(made) if len(made) > 1 else made[0]

    return call
