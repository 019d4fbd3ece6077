"""What kind of executor the user has passed: how much work it takes at a time, and how data gets to its workers.

Anything with ``submit`` is one: pools of ``concurrent.futures``, loky's, MPI's, Ray's, Dask's, ``resilient``. Nothing
is imported for that: an executor of a library that is not loaded can't have been passed. Not for: using it
(``driver.py``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["Known", "class_names", "has_gil", "has_lost_a_worker", "identify_executor"]


class Known:
    """An executor, and what is known of it."""

    def __init__(self, executor: Any, pool: Any) -> None:
        self.executor = executor
        #: how data gets to its workers: it is there ("threads"); by a file that they map ("processes"); by Dask
        #: ("dask"); with the tasks ("any")
        self.kind = _kind(pool)
        #: how many tasks run at the same time
        self.workers = max(_workers(pool), 1)
        #: how many threads a worker's linear algebra may use; None for as many as it likes
        self.blas_threads: int | None = getattr(executor, "blas_threads", 1)
        #: Dask's
        self.client: Any = getattr(pool, "_client", None)
        #: how many tasks may be out: enough for every worker to have the next one; a cluster, to which the way is
        #: longer, has a queue of its own
        self.window = (8 if self.kind == "dask" else 2) * self.workers
        #: whether many tasks are given to it as quickly as one
        self.takes_many = executor is pool and self.kind == "dask" and hasattr(executor, "_wrap_future")

    def submit(self, function: Callable, calls: list[tuple]) -> list:
        """Give it tasks; return their futures."""
        if not self.takes_many or self.executor._shutdown:
            return [self.executor.submit(function, *call) for call in calls]
        # One message to the scheduler, where `submit` sends one for each; the rest is what the executor's own does.
        options = {"pure": False, **self.executor._kwargs}
        found = self.client.map(function, *[list(column) for column in zip(*calls, strict=True)], **options)
        self.executor._futures.update(found)
        return [self.executor._wrap_future(future) for future in found]


def identify_executor(executor: Any) -> Known:
    """What is known of an executor."""
    client = executor if hasattr(executor, "get_executor") and hasattr(executor, "scheduler_info") else None
    if client is not None:  # a Dask client, whose own submit gives futures of another sort
        executor = client.get_executor()
    return Known(executor, executor.pool if hasattr(executor, "retries") else executor)


def class_names(thing: Any) -> set[str]:
    """Return what the classes of an executor, or of its error, are called: their libraries may not be loaded."""
    return {cls.__name__ for cls in type(thing).__mro__}


#: what executors raise where a worker has died, by the names of the classes
_LOST = {
    "BrokenExecutor", "KilledWorker", "TerminatedWorkerError", "FutureCancelledError", "CancelledError",
    "CommClosedError",
}  # fmt: skip


def has_lost_a_worker(error: BaseException) -> bool:
    """Whether an executor says by an error that a worker has died, or that a task was cancelled."""
    return not _LOST.isdisjoint(class_names(error))


def _kind(executor: Any) -> str:
    names = class_names(executor)
    if "ClientExecutor" in names:
        return "dask"
    if "ProcessPoolExecutor" in names:  # loky's too
        return "processes"
    if "ThreadPoolExecutor" in names and "InterpreterPoolExecutor" not in names:
        return "threads"
    return "any"


def _workers(executor: Any) -> int:
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):
        return sum(client.nthreads().values())
    for name in ("_max_workers", "max_workers", "num_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int) and count > 0:
            return count
    return os.cpu_count() or 1


def has_gil() -> bool:
    """Whether threads of this interpreter take turns."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()
