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
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from ..base.frames import public
from ..errors import ArgumentError, ArgumentTypeError
from .driver import class_names, has_lost_a_worker

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


class _Task(Future):
    """A call, and how many pools it has broken or been lost with."""

    def __init__(self, call: tuple[Callable, tuple, dict]) -> None:
        super().__init__()
        self.call, self.tries = call, 0


class Resilient(Executor):
    """The result of :func:`resilient`: a thread gives tasks to a pool, and makes a new one when it has broken."""

    def __init__(self, factory: Callable[[], Any], retries: int, blas_threads: int | None) -> None:
        self.factory, self.retries, self.blas_threads = factory, retries, blas_threads
        #: how many pools have broken, and how many tasks were done again
        self.rebuilt = self.redone = 0
        self._pool: Any = None
        self._lock = threading.RLock()
        # Pools call back with locks held that `submit` takes too: only the thread speaks to them.
        self._events: queue.SimpleQueue = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = self._is_closing = False
        self._waiting: deque[_Task] = deque()
        self._running: dict[Any, _Task] = {}
        self._is_broken = False
        self._lost: list[_Task] = []
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
            if self._is_closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._thread is None:
                self._thread = threading.Thread(target=self._supervise, name="dualad-resilient", daemon=True)
                self._thread.start()
            task = _Task((fn, args, kwargs))
            self._events.put((self._waiting.append, task))
        return task

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the pool, when what it was given is done (or at once, with ``cancel_futures``)."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._events.put((self._close, cancel_futures))
        if thread is None:
            self._drop_pool(wait)
        elif wait:
            thread.join()

    def abandon(self) -> None:
        """Stop everything at once: tasks are cancelled, worker processes ended; a new task finds a new pool."""
        with self._lock:
            if self._thread is None or self._is_closed:
                return
        done = threading.Event()
        self._events.put((self._abandon, done))
        done.wait(10.0)

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────

    def _supervise(self) -> None:
        while not self._is_closing or self._waiting or self._running:
            act, thing = self._events.get()
            act(thing)
            if self._is_broken and not self._running:
                self._is_broken = False
                self.redone += len(self._lost)
                self._waiting.extendleft(reversed(self._lost))
                self._lost.clear()
                self._replace_pool()
            if not self._is_broken:
                self._give()
        self._drop_pool(wait=True)

    def _give(self) -> None:
        """Give the pool what waits; a task that runs for the last time runs alone."""
        is_last_try = lambda task: 0 < task.tries >= self.retries
        while self._waiting:
            if self._running and (is_last_try(self._waiting[0]) or is_last_try(next(iter(self._running.values())))):
                return
            task = self._waiting.popleft()
            if not task.running() and not task.set_running_or_notify_cancel():
                continue
            fn, args, kwargs = task.call
            try:
                inner = self.pool.submit(fn, *args, **kwargs)
            except Exception as error:  # no task's fault
                is_lost = has_lost_a_worker(error)
                if is_lost and self._running:  # which come back with the error
                    self._waiting.appendleft(task)
                    return
                self._idle_breaks += 1
                if not is_lost or self._idle_breaks > self.retries + 1:
                    task.set_exception(error)
                else:
                    self._waiting.appendleft(task)
                    self._replace_pool()
                continue
            self._running[inner] = task
            inner.add_done_callback(lambda f: self._events.put((self._came_back, f)))

    def _came_back(self, inner: Any) -> None:
        task = self._running.pop(inner, None)
        if task is None:  # of a pool that was abandoned
            return
        try:
            result = inner.result()
        except BaseException as error:
            if "KilledWorker" in class_names(error):  # Dask has tried it on several workers
                task.set_exception(KilledEveryTimeError(str(error)))
            elif not has_lost_a_worker(error) or self._is_alive():
                task.set_exception(error)
            else:
                self._is_broken = True
                task.tries += 1
                if task.tries > self.retries:
                    times = f"{task.tries} times" if task.tries > 1 else "once"
                    task.set_exception(KilledEveryTimeError(f"{times} ({error})"))
                else:
                    self._lost.append(task)
        else:
            self._idle_breaks = 0
            task.set_result(result)

    def _is_alive(self) -> bool:
        """Whether the pool goes on: a cluster does, whatever it has lost."""
        client = getattr(self._pool, "_client", None)
        return client is not None and client.status == "running"

    def _replace_pool(self) -> None:
        self.rebuilt += 1
        self._drop_pool(wait=False)

    def _drop_pool(self, wait: bool) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            with contextlib.suppress(RuntimeError):
                pool.shutdown(wait=wait)

    def _close(self, cancel: bool) -> None:
        self._is_closing = True
        if cancel:
            self._cancel_waiting()

    def _cancel_waiting(self) -> None:
        for task in (*self._waiting, *self._lost):
            if not task.cancel():
                task.set_exception(BrokenExecutor("the executor was shut down"))
        self._waiting.clear()
        self._lost.clear()

    def _abandon(self, done: threading.Event) -> None:
        self._cancel_waiting()
        for inner, task in self._running.items():
            inner.cancel()
            task.set_exception(BrokenExecutor("the executor was interrupted"))
        self._running.clear()
        self._is_broken = False
        processes = list((getattr(self._pool, "_processes", None) or {}).values())
        self._drop_pool(wait=False)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(5.0)
        done.set()
