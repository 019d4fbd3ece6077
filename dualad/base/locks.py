"""Locks that stand open in a process which was forked while another thread held them.

That thread does not exist in the new process, and would never let go. Not for: what a fork has to wait for
(``compile/native/engine.py``).
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

__all__ = ["new_lock"]

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> Any:
    """Return a reentrant lock. What it guards has to be whole whenever another thread may be asked to run."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _open_all() -> None:
    """Open what other threads have held; what the thread that forked holds, it will open itself."""
    for lock in _locks:
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
