"""An executor that survives its workers: a pool that breaks is made anew, and only unfinished tasks are done again.

A process pool whose worker is killed is broken for good, and gives up all of its tasks, though one of them at most is
to blame. Here each unfinished task is tried again in a new pool, the last time alone: a task that then takes its worker
along is the one, and is named; the others go on. Not for: what tasks are (``driver.py``).
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from typing import Any

from ..base.frames import public
from ..errors import ArgumentError, ArgumentTypeError
from .executors import class_names

__all__ = ["KilledEveryTimeError", "Resilient", "resilient"]


@public
def resilient(factory: Callable[[], Any], retries: int = 2, blas_threads: int | None = 1) -> Executor:
    """Make an executor that replaces its pool when a worker dies, and does only unfinished tasks again.

    Parameters
    ----------
    factory : callable
        Makes a pool: ``lambda: ProcessPoolExecutor(8)``, ``client.get_executor``. It is called again whenever the pool
        has broken.
    retries : int
        How often a task is tried again, after a first time; the last time it runs alone.
    blas_threads : int or None
        How many threads a worker's linear algebra may use while it computes a chunk, if threadpoolctl is installed
        (``pip install dualad[scale]``); ``None`` for as many as it likes.

    Returns
    -------
    Executor
        With ``submit``, ``map`` and ``shutdown``, for ``executor=`` or anything else; a context that ends its pool.

    Raises
    ------
    ArgumentTypeError, ArgumentError
        If there is nothing to call, or ``retries`` is no number.
    WorkerLostError
        By the transform that uses it: a chunk has killed its worker every time; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> from concurrent.futures import ProcessPoolExecutor
    >>> with da.resilient(lambda: ProcessPoolExecutor(1)) as pool:
    ...     da.vmap(np.sin, executor=pool)(np.zeros(3))
    array([0., 0., 0.])
    """
    if not callable(factory):
        raise ArgumentTypeError(
            f"resilient: factory is {factory!r} of type {type(factory).__name__}.",
            "a pool that has broken is replaced by a new one",
            "pass a function that makes one: resilient(lambda: ProcessPoolExecutor(8))",
        )
    numbers: list = [("retries", retries, 0)]
    for name, value, least in numbers if blas_threads is None else [*numbers, ("blas_threads", blas_threads, 1)]:
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
            raise ArgumentError(f"resilient: {name}={value!r}.", "it is a number", f"pass an int of at least {least}")
    return Resilient(factory, retries, blas_threads)


class KilledEveryTimeError(BrokenExecutor):
    """A task has taken its worker along each time it was tried."""

    #: that it is this task
    deadly = True


class _Task:
    """A call, the future that its caller holds, and how many pools it has broken or been lost with."""

    __slots__ = ("call", "future", "tries")

    def __init__(self, call: tuple[Callable, tuple, dict]) -> None:
        self.call, self.future, self.tries = call, Future(), 0  # type: ignore[var-annotated]


class Resilient(Executor):
    """What :func:`resilient` makes: a thread gives tasks to a pool, and makes a new one when it has broken."""

    def __init__(self, factory: Callable[[], Any], retries: int, blas_threads: int | None) -> None:
        self.factory, self.retries, self.blas_threads = factory, retries, blas_threads
        #: how many pools have broken, and how many tasks were done again
        self.rebuilt = self.redone = 0
        self._pool: Any = None
        self._lock = threading.RLock()
        self._events: queue.SimpleQueue = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._waiting: deque[_Task] = deque()
        self._suspects: deque[_Task] = deque()
        self._running: dict[Any, _Task] = {}
        self._idle_breaks = 0

    @property
    def pool(self) -> Any:
        """The pool of the moment."""
        with self._lock:
            if self._pool is None:
                self._pool = self.factory()
            return self._pool

    def submit(self, fn: Callable, /, *args: Any, **kwargs: Any) -> Future:
        """Give a call to the pool; its future fails with a worker only if it does so every time."""
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._thread is None:
                self._thread = threading.Thread(target=self._supervise, name="dualad-resilient", daemon=True)
                self._thread.start()
            task = _Task((fn, args, kwargs))
            self._events.put(("new", task))
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the pool, when what it was given is done (or at once, with ``cancel_futures``)."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._events.put(("close", cancel_futures))
        if thread is None:
            self._end(wait)
        elif wait:
            thread.join()

    def abandon(self) -> None:
        """Stop everything at once: tasks are cancelled, worker processes ended; a new task finds a new pool."""
        with self._lock:
            if self._thread is None or self._closed:
                return
        done = threading.Event()
        self._events.put(("abandon", done))
        done.wait(10.0)

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────

    def _supervise(self) -> None:
        closing = False
        while not (closing and not (self._waiting or self._suspects or self._running)):
            what, thing = self._events.get()
            if what == "new":
                self._waiting.append(thing)
            elif what == "back":
                self._came_back(thing)
            elif what == "abandon":
                self._abandon()
                thing.set()
            else:
                closing = True
                if thing:
                    self._cancel_waiting()
            self._give()
        self._end(wait=True)

    def _give(self) -> None:
        """Give the pool what waits; what is suspected gets it alone."""
        while self._suspects or self._waiting:
            if self._suspects and self._running:
                return
            task = (self._suspects or self._waiting).popleft()
            if not task.future.running() and not task.future.set_running_or_notify_cancel():
                continue
            fn, args, kwargs = task.call
            try:
                inner = self.pool.submit(fn, *args, **kwargs)
            except Exception as error:
                self._idle_breaks += 1
                if not _BROKEN & class_names(error) or self._idle_breaks > self.retries + 1:
                    task.future.set_exception(error)
                    continue
                (self._suspects if self._suspects_it(task) else self._waiting).appendleft(task)  # nobody's fault
                self._new_pool()
                continue
            self._running[inner] = task
            inner.add_done_callback(lambda f: self._events.put(("back", f)))
            if self._suspects_it(task):
                return

    def _suspects_it(self, task: _Task) -> bool:
        return 0 < task.tries >= self.retries

    def _came_back(self, inner: Any) -> None:
        task = self._running.pop(inner, None)
        if task is None:  # of a pool that has gone
            return
        error = _error_of(inner)
        if error is None:
            self._idle_breaks = 0
            task.future.set_result(inner.result())
        elif type(error).__name__ == "KilledWorker":  # Dask has tried it on several workers
            task.future.set_exception(KilledEveryTimeError(str(error)))
        elif not _BROKEN & class_names(error) or self._is_alive():
            task.future.set_exception(error)
        else:
            self._broken([(inner, task), *self._running.items()])

    def _is_alive(self) -> bool:
        """Say whether the pool goes on: a cluster does, whatever it has lost."""
        client = getattr(self._pool, "_client", None)
        return client is not None and client.status == "running"

    def _broken(self, lost: list[tuple[Any, _Task]]) -> None:
        """Take back what was in a pool that has broken, but for what was finished."""
        self._running = {}
        again = []
        for inner, task in lost:
            error = _error_of(inner) if inner.done() else None
            if inner.done() and error is None:
                task.future.set_result(inner.result())
            elif error is not None and not _BROKEN & class_names(error):
                task.future.set_exception(error)
            else:
                task.tries += 1
                if task.tries > self.retries:
                    times = f"{task.tries} times" if task.tries > 1 else "once"
                    task.future.set_exception(KilledEveryTimeError(f"{times} ({error})"))
                else:
                    again.append(task)
        self.redone += len(again)
        for task in reversed(again):
            (self._suspects if self._suspects_it(task) else self._waiting).appendleft(task)
        self._new_pool()

    def _new_pool(self) -> None:
        self.rebuilt += 1
        if (pool := self._take_pool()) is not None:
            pool.shutdown(wait=False)

    def _take_pool(self) -> Any:
        with self._lock:
            pool, self._pool = self._pool, None
        return pool

    def _cancel_waiting(self) -> None:
        for task in (*self._waiting, *self._suspects):
            if not task.future.cancel():
                task.future.set_exception(BrokenExecutor("the executor was shut down"))
        self._waiting.clear()
        self._suspects.clear()

    def _abandon(self) -> None:
        self._cancel_waiting()
        running, self._running = list(self._running.items()), {}
        for inner, task in running:
            inner.cancel()
            task.future.set_exception(BrokenExecutor("the executor was interrupted"))
        pool = self._take_pool()
        if pool is None:
            return
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(5.0)

    def _end(self, wait: bool) -> None:
        if (pool := self._take_pool()) is not None:
            with contextlib.suppress(RuntimeError):
                pool.shutdown(wait=wait)


def _error_of(inner: Any) -> BaseException | None:
    if inner.cancelled():
        return CancelledError()
    return inner.exception()


#: what a pool raises when it has lost a worker, by the names of the classes
_BROKEN = {"BrokenExecutor", "TerminatedWorkerError", "FutureCancelledError", "CancelledError", "CommClosedError"}
