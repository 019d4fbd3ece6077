"""Several processes that carry out the tasks of a check; a process that dies costs one task and is replaced.

The order of the reports is that of the tasks, whoever finished first. Not for what a task is (``runner.py``).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from dualad.errors import DualadError
from dualad.testing import CheckReport

from .runner import Runner, Settings, Task, failed

__all__ = ["run_in_workers"]


class _Worker:
    """A process, the pipe to it, and what it is at."""

    def __init__(self, context: Any, settings: Settings) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, settings), daemon=True)
        self.process.start()
        theirs.close()  # so that the pipe ends when the process does
        self.task: int | None = None

    def end(self) -> None:
        """Stop the process, whatever it is at."""
        self.pipe.close()
        if self.task is not None:
            self.process.terminate()
        self.process.join()


def run_in_workers(
    tasks: Sequence[Task],
    settings: Settings,
    count: int,
    *,
    progress: Callable[[str], None],
    stop: Callable[[CheckReport], bool],
) -> dict[int, CheckReport]:
    """Carry out tasks in so many processes; return the reports by the position of their task.

    `progress` is told the label of each task that is finished; when `stop` says so of a report, no more tasks begin.
    What a worker raises because of what the user asked for (a UsageError, a LoadingError) is raised here.
    """
    context = multiprocessing.get_context("spawn")
    left = iter(range(len(tasks)))
    done: dict[int, CheckReport] = {}
    workers: dict[Connection, _Worker] = {}

    def give(worker: _Worker | None) -> None:
        """Give the next task to a worker, or to a new one in place of none; send it home if there is no task."""
        k = next(left, None)
        if k is not None:
            worker = worker or _Worker(context, settings)
            worker.task = k
            workers[worker.pipe] = worker
            with contextlib.suppress(OSError):  # it has just died: its pipe says so when it is read
                worker.pipe.send(tasks[k])
        elif worker is not None:
            worker.end()

    try:
        for _ in range(min(count, len(tasks))):
            give(None)
        while workers:
            for pipe in wait(list(workers)):
                worker = workers.pop(pipe)  # type: ignore[call-overload]
                k, worker.task = worker.task, None
                assert k is not None
                try:
                    answer = worker.pipe.recv()
                except (EOFError, ConnectionError):
                    worker.process.join()
                    answer = failed(tasks[k], _death(worker.process.exitcode))
                if isinstance(answer, DualadError):
                    worker.end()
                    raise answer
                done[k] = answer
                progress(tasks[k].label)
                if stop(answer):
                    left = iter(())
                give(worker if worker.process.is_alive() else None)
    finally:
        for worker in workers.values():
            worker.end()
    return dict(sorted(done.items()))


def _death(code: int | None) -> str:
    """Say how a process ended."""
    how = f"exit status {code}"
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            how = f"signal {signal.Signals(-code).name}"
    return (
        f"the process that ran this function ended ({how}) before it had an answer.\n"
        "  Why: compiled code crashed, memory ran out, or something called os._exit\n"
        "  Instead: run this function alone, without --workers, under  python -X faulthandler -m dualad check"
    )


def _work(pipe: Connection, settings: Settings) -> None:
    """Be a worker: answer each task with its report, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is the parent's business, which then ends this process
    runner = Runner(settings)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            answer: Any = runner.run(task)
        except DualadError as error:
            answer = error
        except Exception as error:
            answer = failed(task, f"{type(error).__name__}: {error}")
        pipe.send(answer)
