"""Executors that stand for others: tasks pickled both ways and run at once, or in random order, or counted.

Not for tests themselves.
"""

from __future__ import annotations

import pickle
import random
import threading
import time
from concurrent.futures import Executor, Future

import cloudpickle

__all__ = ["Inline", "Shuffled", "Spy"]


def carried_out(future: Future, fn, args, kwargs) -> None:
    """Run a call as a worker would: everything is pickled on its way there and back."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        fn, args, kwargs = pickle.loads(cloudpickle.dumps((fn, args, kwargs)))
        result = pickle.loads(cloudpickle.dumps(fn(*args, **kwargs)))
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


class Inline(Executor):
    """Runs each task when it is submitted."""

    _max_workers = 2

    def submit(self, fn, /, *args, **kwargs) -> Future:
        future: Future = Future()
        carried_out(future, fn, args, kwargs)
        return future


class Spy(Inline):
    """Counts the bytes of each task."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def submit(self, fn, /, *args, **kwargs) -> Future:
        self.sizes.append(len(cloudpickle.dumps((fn, args, kwargs))))
        return super().submit(fn, *args, **kwargs)


class Shuffled(Executor):
    """Finishes what waits in random order, in a thread of its own."""

    _max_workers = 4

    def __init__(self, seed: int) -> None:
        self.random, self.waiting, self.lock = random.Random(seed), [], threading.Lock()
        self.order: list[int] = []
        self.count, self.closed = 0, False
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def submit(self, fn, /, *args, **kwargs) -> Future:
        future: Future = Future()
        with self.lock:
            self.waiting.append((self.count, future, fn, args, kwargs))
            self.count += 1
        return future

    def _work(self) -> None:
        while not self.closed:
            time.sleep(0.002)
            with self.lock:
                task = self.waiting.pop(self.random.randrange(len(self.waiting))) if self.waiting else None
            if task is not None:
                self.order.append(task[0])
                carried_out(*task[1:])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.closed = True
        self.thread.join()
