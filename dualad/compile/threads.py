"""Threads for compiled functions: one pool, of as many as the process may use, or ``dualad.threads(n)`` says.

Not for: anything whose result could depend on how work is divided; it is only ever given independent blocks.
"""

from __future__ import annotations

import contextvars
import importlib
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..base.locks import new_lock
from ..errors import ArgumentError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["is_shared", "shared_out", "threads"]

#: blocks fewer than this are not worth waking another thread for
_WORTH = 4

_lock = new_lock()
_pool: ThreadPoolExecutor | None = None
_count: int | None = None


def _available() -> int:
    try:
        found = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this operating system
        found = os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(found, int(limit)) if limit.isdigit() and int(limit) > 0 else found)


def threads(n: int | None = None) -> int:
    """Say how many threads compiled functions use, or set it.

    Parameters
    ----------
    n : int, optional
        The number from now on, in this process; by default the processors it may run on, or ``OMP_NUM_THREADS``.

    Returns
    -------
    int
        The number in force. Results do not depend on it.

    Raises
    ------
    ArgumentError
        If ``n`` is less than one.

    Examples
    --------
    >>> before = da.threads()
    >>> da.threads(1)
    1
    >>> da.threads(before) == before
    True
    """
    global _pool, _count
    if n is not None:
        if type(n) is not int or n < 1:
            raise ArgumentError(f"threads({n!r}).", "it is a number of threads", "pass an int of 1 or more")
        with _lock:
            pool, _pool, _count = _pool, None, n
        if pool is not None:
            pool.shutdown(wait=False)
    return _available() if _count is None else _count


def is_shared(length: int, step: int) -> bool:
    """Whether rows, in blocks, are worth more than one thread."""
    return -(-length // step) >= 2 * _WORTH


def shared_out(part: Callable[[int, int], None], length: int, step: int) -> None:
    """Call ``part(low, high)`` for ranges that cover ``range(length)``, cut at multiples of ``step``.

    Whoever is free takes the next range, this thread too: on a busy machine it does most of them itself, and never
    waits for a thread that has not started.
    """
    global _pool
    blocks = -(-length // step)
    if not is_shared(length, step) or (count := min(threads(), blocks // _WORTH)) < 2:
        part(0, length)
        return
    size = max(1, blocks // (4 * count))
    starts, turn = iter(range(0, blocks, size)), threading.Lock()

    def work() -> None:
        while True:
            with turn:
                first = next(starts, None)
            if first is None:
                return
            part(first * step, min((first + size) * step, length))

    with _lock:
        if _pool is None:
            # Most processes need none, and the module loads logging.
            made = importlib.import_module("concurrent.futures.thread").ThreadPoolExecutor
            _pool = made(max(1, threads() - 1), "dualad")
        # A pool that another thread has just shut down takes no more work: then this thread does it all.
        try:
            futures = [_pool.submit(contextvars.copy_context().run, work) for _ in range(count - 1)]
        except RuntimeError:
            futures = []
    try:
        work()
    finally:
        for future in futures:
            if not future.cancel():
                future.result()


def _after_fork() -> None:
    """Forget the threads: a forked process has none of them."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
