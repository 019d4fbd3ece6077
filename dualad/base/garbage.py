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


class less_collection:
    """Let the garbage collector look through more new objects less often meanwhile.

    A class, since the gradient of a small function would feel a generator.
    """

    __slots__ = ("usual",)

    def __enter__(self) -> None:
        self.usual = gc.get_threshold()[0]
        if 0 < self.usual < _MANY:
            gc.set_threshold(_MANY)

    def __exit__(self, *exc_info) -> None:
        if 0 < self.usual < _MANY == gc.get_threshold()[0]:
            gc.set_threshold(self.usual)


def _go_on() -> None:
    if _pausing:
        _pausing.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on)
