"""The watch: who is told of each differentiated operation, if anybody is.

For: ``debug.py``, which sets one for a block of code; dual levels look once, when they are opened, so an operation
costs nothing more while nobody watches. Not for: what a watch does with what it sees.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from typing import Any

__all__ = ["user_line", "watching"]

#: per thread and per asynchronous task
watching: ContextVar[Any] = ContextVar("dualad_watching", default=None)

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def user_line() -> str:
    """Return ``file:line`` of the innermost frame that is neither ours nor NumPy's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(_PACKAGE) or "/numpy/" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
