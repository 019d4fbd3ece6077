"""Pauses of the garbage collector: a program is many small objects, and searching them takes longer than making them.

For: making or reading programs, which hold no cycles. Not for: code of users', which may make garbage of any size.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator

__all__ = ["no_collection"]

#: those who have disabled the collector; a process that is forked meanwhile has none of them
_pausing: set[object] = set()


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Disable the garbage collector meanwhile; whoever has found it enabled enables it again."""
    if not gc.isenabled():
        yield
        return
    mine = object()
    _pausing.add(mine)
    gc.disable()
    try:
        yield
    finally:
        _pausing.discard(mine)
        gc.enable()


def _go_on() -> None:
    if _pausing:
        _pausing.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on)
