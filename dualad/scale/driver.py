"""The driver: what kind of executor was passed, chunks of a job given to it, a window at a time, results put in order.

For: ``chunked``, which transforms call. Results do not depend on which worker was quick: the ranges
are consecutive and known beforehand, and what comes back is kept by index. Of several errors the first by index is
raised, as a loop would have. Not for: sending (``payload.py``), working (``worker.py``), workers that die
(``resilient.py``).
"""

from __future__ import annotations

import contextvars
import os
import queue
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ..base.frames import user_level
from ..base.terminal import Progress
from ..core.contexts import watching
from ..errors import ArgumentTypeError, PerformanceNote, TravelError, WorkerLostError
from ..tensors.chunks import Plan, in_chunks, measured_chunks
from .payload import Blob, Ticket, as_laid, pack
from .worker import Answer, Context, Job, RemoteTraceback, heard_again, work

__all__ = ["chunked", "class_names", "cut_into", "has_lost_a_worker", "identify_executor"]

# Anything with ``submit`` is one: pools of ``concurrent.futures``, loky's, MPI's, Ray's, Dask's, ``resilient``.
# Nothing is imported for that: an executor of a library that is not loaded can't have been passed.


class Known:
    """An executor and its traits."""

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
    """Return the record of an executor."""
    client = executor if hasattr(executor, "get_executor") and hasattr(executor, "scheduler_info") else None
    if client is not None:  # a Dask client, whose own submit gives futures of another sort
        executor = client.get_executor()
    return Known(executor, executor.pool if hasattr(executor, "retries") else executor)


def class_names(thing: Any) -> set[str]:
    """Return the names of the classes of an executor, or of its error: their libraries may not be loaded."""
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


def chunked(
    plan: Plan, chunk_size: int | None, max_memory: int | None, executor: Any = None, progress: bool = False
) -> list:
    """Return the results of the ranges of a plan, in order."""
    if not plan.total:
        return [plan.run(0, 0)]
    with Progress(total=plan.total, quiet=not progress, of=f"{plan.unit} of {plan.where}") as bar:

        def run(start: int, stop: int) -> Any:
            result = plan.run(start, stop)
            bar.advance(count=stop - start)
            return result

        if executor is None:
            if progress and chunk_size is None and max_memory is None:
                chunk_size = max(1, plan.total // 100)
            return in_chunks(run, plan.total, chunk_size, max_memory, plan.where)
        place = identify_executor(executor)
        parts: list = []
        start = 0
        if max_memory is not None:
            parts, start, chunk_size = measured_chunks(run, plan.total, max_memory, plan.where)
        if plan.ranges is not None:
            ranges = plan.ranges
        elif chunk_size is None:
            ranges = cut_into(plan.total, place.workers * plan.each)
        else:
            ranges = [(a, min(a + chunk_size, plan.total)) for a in range(start, plan.total, chunk_size)]
        return parts + (_Run(plan, place, ranges, bar).results() if ranges else [])


def cut_into(total: int, count: int) -> list[tuple[int, int]]:
    """Return consecutive ranges that cover ``range(total)``, ``count`` or fewer, which differ by one at most."""
    count = min(count, total)
    return list(pairwise([total * i // count for i in range(count + 1)]))


class _Run:
    """One call's chunks: which are out, which have come back."""

    def __init__(self, plan: Plan, place: Known, ranges: Sequence[tuple[int, int]], bar: Progress) -> None:
        self.plan, self.place, self.ranges, self.bar = plan, place, ranges, bar
        self.found: list = [None] * len(ranges)
        self.out: dict[Any, int] = {}
        self.back: queue.SimpleQueue = queue.SimpleQueue()
        self.next = self.done = self.sent = 0
        self.failed: tuple[int, BaseException] | None = None
        self.shown: set = set()
        self.job: Callable = plan.job
        self.blob: Blob | None = None
        self.ticket: Ticket | None = None
        self.along: Any = None

    def results(self) -> list:
        self._prepare()
        try:
            while self.next < len(self.ranges) or self.out:
                self._fill()
                if not self.out:
                    break
                future = self.back.get()
                if future in self.out:
                    self._came_back(future, self.out.pop(future))
                if self.failed is not None:  # what comes after it is waited for no more
                    for later in [f for f, k in self.out.items() if k > self.failed[0]]:
                        later.cancel()
                        del self.out[later]
            if self.failed is not None:
                raise self.failed[1]
            return self.found
        except BaseException as error:  # nothing that waits is begun
            for future in self.out:
                future.cancel()
            if not isinstance(error, Exception) and hasattr(self.place.executor, "abandon"):
                self.place.executor.abandon()  # ^C
            raise
        finally:
            if self.ticket is not None:
                self.ticket.close()

    def _prepare(self) -> None:
        """Pickle the job once, and choose how it gets to the workers."""
        place, plan, other = self.place, self.plan, self.plan.other
        if other is not None and plan.anew and len(self.ranges) > place.workers:
            self.job, other = other(), lambda: plan.job
        if place.kind == "threads":
            if has_gil():
                warnings.warn(
                    f"{plan.where}: the executor has threads, which take turns: dispatch is Python, and holds the"
                    " interpreter's lock. A ProcessPoolExecutor runs chunks side by side.",
                    PerformanceNote,
                    stacklevel=user_level(),
                )
            return
        context = Context()
        make = lambda run: Job(run, context, place.blas_threads)
        self.blob = pack(make(self.job), None if other is None else lambda: make(other()), plan.function, plan.where)
        self.ticket = Ticket(self.blob, place.kind)
        if place.kind == "dask" and self.blob.nbytes <= _SMALL:
            self.along = self.blob
        elif place.kind == "dask":
            # As a task's result, which a worker gets once, from one next to it; scattered data is lost for good with
            # the last worker that holds it.
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph")
                self.along = place.client.submit(_itself, self.blob, pure=False)

    def _fill(self) -> None:
        """Give out as many chunks as there is room for; to a cluster, at least half a window at once."""
        room = min(self.place.window - len(self.out), len(self.ranges) - self.next)
        if self.failed or not room:
            return
        if not self.place.takes_many:
            for _ in range(room):
                self.next += 1
                self._submit([self.next - 1])
        elif room >= self.place.window // 2 or room == len(self.ranges) - self.next:
            self.next += room
            self._submit(list(range(self.next - room, self.next)))

    def _submit(self, indices: list[int], again: bool = False) -> None:
        ranges = [self.ranges[i] for i in indices]
        calls = [(*r, *piece) for r, piece in zip(ranges, self.plan.cut(ranges), strict=True)]
        try:
            if self.ticket is None:
                futures = [self.place.executor.submit(contextvars.copy_context().run, _run_here, self.job, calls[0])]
            else:
                along = self.along
                if self.ticket.file is None and (along is None or again):
                    # Workers that nobody knows: each gets the job with its first chunk, or asks for it.
                    along = self.blob if again or self.sent < self.place.workers else None
                    self.sent += 1
                tasks = [(self.ticket, along, tuple([as_laid(a) for a in call])) for call in calls]
                futures = self.place.submit(work, tasks)
        except Exception as error:
            if has_lost_a_worker(error):
                raise self._lost(error, None) from error
            error.add_note(f"{self.plan.where}: the executor was given chunk {self.next} of {len(self.ranges)}")
            raise
        for i, future in zip(indices, futures, strict=True):
            if not callable(getattr(future, "result", None)):
                raise self._wrong("submit", future, "a future, which has result()")
            self.out[future] = i
            if hasattr(future, "add_done_callback"):
                future.add_done_callback(self.back.put)
            else:
                self.back.put(future)

    def _wrong(self, what: str, given: Any, asked: str) -> ArgumentTypeError:
        return ArgumentTypeError(
            f"{self.plan.where}: {what} of the executor, a {type(self.place.executor).__name__}, returned a"
            f" {type(given).__name__}.",
            f"an executor's submit(function, *args) returns {asked}",
            "pass an executor that works as those of concurrent.futures do",
        )

    def _came_back(self, future: Any, i: int) -> None:
        try:
            answer: Answer = future.result()
        except Exception as error:
            if has_lost_a_worker(error):
                self._fail(i, self._lost(error, i))
            elif _is_about_pickling(error):
                what = f"{self._name(i)}: the result can't be sent back."
                why = f"it is pickled on its way from a worker, and something in it can't be ({error})"
                self._fail(i, TravelError(what, why, "return numbers and arrays, and as aux what can be pickled"))
            else:
                error.add_note(f"{self._name(i)}, by the executor")
                self._fail(i, error)
            return
        if type(answer) is not Answer:
            raise self._wrong("a future", answer, "a future of what the function returns")
        if answer.missing:
            self._submit([i], again=True)
            return
        heard_again(answer.said, self.shown)
        watch = watching.get()
        for seen in answer.seen:
            if watch is not None:
                watch.told(seen)
        if answer.error is not None:
            answer.error.add_note(f"{self._name(i)}, on worker {answer.worker}")
            if answer.text:
                answer.error.__cause__ = RemoteTraceback(answer.text)
            self._fail(i, answer.error)
            return
        self.done += 1
        self.found[i] = answer.result
        self.bar.advance(count=self.ranges[i][1] - self.ranges[i][0])

    def _fail(self, i: int, error: BaseException) -> None:
        if self.failed is None or i < self.failed[0]:
            self.failed = (i, error)

    def _name(self, i: int) -> str:
        start, stop = self.ranges[i]
        return f"in {self.plan.unit} {start}:{stop} of {self.plan.where}"

    def _lost(self, error: BaseException, i: int | None) -> WorkerLostError:
        """Say which work was lost with a worker, and what survives that."""
        chunks = f"{self.done} of {len(self.ranges)} chunks were done"
        if getattr(error, "deadly", False) or type(error).__name__ == "KilledWorker":  # somebody has tried again
            return WorkerLostError(
                f"{self._name(i or 0)}: the worker died every time, {error}; {chunks}.",
                "compiled code crashed, memory ran out, or something called os._exit",
                f"compute these {self.plan.unit} alone, without executor=, under  python -X faulthandler",
            )
        if type(error).__name__ in ("CancelledError", "FutureCancelledError"):
            return WorkerLostError(
                f"{self.plan.where}: the executor has cancelled a chunk; {chunks}.",
                "it was shut down meanwhile, or has lost its workers",
                "keep the executor open until the call returns",
            )
        survives = [] if hasattr(self.place.executor, "retries") else [_SURVIVES]
        guard = [_GUARD] if self.place.kind == "processes" and not self.done else []
        return WorkerLostError(
            f"{self.plan.where}: a worker died ({type(error).__name__}: {error}), and with it the executor; {chunks}.",
            "a process was killed (memory?), or crashed in compiled code" + (", or at its start" if guard else ""),
            "; or, if this happens at once: ".join(survives + guard),
        )


_SURVIVES = "dualad.resilient(lambda: ProcessPoolExecutor(...)) replaces workers that die, and does their chunks again"
_GUARD = (
    "put what the script does under  if __name__ == '__main__':  so that a worker, which reads the script's functions"
    " by importing it, does not do all of it again"
)
#: jobs of no more bytes go to a cluster with each chunk: a worker would wait longer for another one to hand them on
_SMALL = 1 << 14


def _itself(blob: Blob) -> Blob:
    return blob


def _run_here(job: Callable, args: tuple) -> Answer:
    """Carry out a chunk in a thread of this process, where everything is."""
    answer = Answer()
    try:
        answer.result = job(*args)
    except Exception as error:
        answer.error = error
    return answer


def _is_about_pickling(error: Exception) -> bool:
    words = str(error).lower()
    return type(error).__name__ == "PicklingError" or (
        "pickle" in words and isinstance(error, (TypeError, AttributeError))
    )
