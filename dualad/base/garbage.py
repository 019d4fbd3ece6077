"""The garbage collector held back: a program is many small objects, and searching them takes longer than making them.

For: making or reading programs, which hold no cycles. Not for: code of users', which may make garbage of any size, so
that it is only searched for less often there.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator

__all__ = ["less_collection", "no_collection"]

#: new objects after which the collector looks through them, where a user's function is written down
_MANY = 50_000

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


@contextlib.contextmanager
def less_collection() -> Iterator[None]:
    """Let the garbage collector look through more new objects less often meanwhile."""
    usual = gc.get_threshold()
    now = (max(usual[0], _MANY) if usual[0] else 0, *usual[1:])
    gc.set_threshold(*now)
    try:
        yield
    finally:
        if gc.get_threshold() == now:
            gc.set_threshold(*usual)


def _go_on() -> None:
    if _pausing:
        _pausing.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on)
