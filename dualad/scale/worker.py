"""What happens in a worker: a chunk of a job, in the caller's context, its error and its warnings brought back.

For: ``work``, the one function that executors are given. Not for: who is given which chunk (``driver.py``).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..base.tree import is_picklable
from .context import Context
from .payload import MISSING, Blob, Laid, Ticket

__all__ = ["Answer", "Job", "RemoteTraceback", "work"]


class Job(NamedTuple):
    """What is sent: a function of a chunk's arguments, the caller's context, and how a worker is to be set up."""

    run: Callable
    context: Context
    blas_threads: int | None


@dataclass(eq=False, slots=True)
class Answer:
    """What comes back of a chunk: a result or an error, warnings, what a watch saw, and who it was."""

    result: Any = None
    error: BaseException | None = None
    text: str = ""
    missing: bool = False
    said: list[tuple] = field(default_factory=list)
    seen: list = field(default_factory=list)
    worker: int = field(default_factory=os.getpid)


class RemoteTraceback(Exception):
    """The traceback of an error in a worker, as text: the cause of the error that the caller sees."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def work(ticket: Ticket, sent: Blob | None, args: tuple) -> Answer:
    """Carry out one chunk of the job that the ticket finds, or that comes along."""
    answer = Answer()
    try:
        job = ticket.open(sent)
        if job is MISSING:
            answer.missing = True
            return answer
        # In the caller's own process nothing is set: its threads of linear algebra are its own business.
        threads = None if ticket.home == answer.worker else job.blas_threads
        with _limited(threads), job.context.entered(answer.said, answer.seen):
            answer.result = job.run(*[a.array if type(a) is Laid else a for a in args])
    except Exception as error:
        answer.text = traceback.format_exc()
        answer.error = _sendable(error)
        answer.said = [w for w in answer.said if is_picklable(w)]
    return answer


def _sendable(error: Exception) -> Exception:
    """Return an error as it can travel: itself, or one of the nearest class that Python has."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    if is_picklable(error):
        return error
    kind = next(c for c in type(error).__mro__ if c.__module__ == "builtins")
    return (kind if is_picklable(kind("")) else RuntimeError)(f"{type(error).__name__}: {error}")


def _limited(threads: int | None) -> contextlib.AbstractContextManager:
    """Limit the threads of linear algebra in a block, if threadpoolctl is there: workers would fight for cores."""
    controller = None if threads is None else _controller("scipy.linalg" in sys.modules)
    return contextlib.nullcontext() if controller is None else controller.limit(limits=threads)


@functools.cache
def _controller(with_scipy: bool) -> Any:
    """Return what limits the libraries that are loaded; SciPy brings one of its own."""
    if importlib.util.find_spec("threadpoolctl") is None:
        return None
    return importlib.import_module("threadpoolctl").ThreadpoolController()
