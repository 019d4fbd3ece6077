"""Where tangents are switched off: the state behind ``no_tangents``; and whether any context changes operations.

For: one question that every tensor asks before it runs a rule, kept cheap for those who never open a context. One that
switches tangents off silences the levels that were opened before it; a transform that starts inside works as ever. Not
for: the context managers themselves (``hooks.py``, ``watch.py``).
"""

from __future__ import annotations

import threading
from contextvars import ContextVar

__all__ = ["boundary", "entered", "in_use", "left"]

#: levels with numbers below this carry no tangents here; per thread and per asynchronous task
boundary: ContextVar[int] = ContextVar("dualad_quiet_boundary", default=0)

#: how many contexts are open anywhere; while it is empty nobody needs to look at ``boundary`` or at a watch
in_use: list[None] = []

_lock = threading.Lock()


def entered() -> None:
    """Count a context in."""
    with _lock:
        in_use.append(None)


def left() -> None:
    """Count a context out."""
    with _lock:
        in_use.pop()
