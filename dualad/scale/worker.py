"""The worker's side: a chunk of a job in the caller's context, its error and its warnings brought back.

For: ``work``, the one function that executors are given, and ``Context``: kinks, floating-point errors, filters of
warnings, ``debug`` and ``residual_hooks`` are in a worker as where the transform is called. Not for: contexts of
the user's own, which may mean nothing elsewhere, or who is given which chunk (``driver.py``).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..base.locks import new_lock
from ..base.tree import is_picklable
from ..core.contexts import watching
from ..core.watch import Watch
from ..ops.kinks import _convention, kinks
from ..program.packed import active as hooks
from .payload import MISSING, Blob, Laid, Ticket

__all__ = ["Answer", "Context", "Job", "RemoteTraceback", "heard_again", "work"]


class Context:
    """The settings of this thread, pickled with a job."""

    def __init__(self) -> None:
        self.convention = _convention.get()
        self.errors: Any = np.geterr()
        # A category that the script itself defines can't be imported there.
        self.filters = [f for f in warnings.filters if f[2].__module__ != "__main__"]
        self.watch: Watch | None = watching.get()
        self.hooks = hooks.get()

    @contextlib.contextmanager
    def entered(self, said: list, seen: list) -> Iterator[None]:
        """Have it on in a block; ``said`` is filled with its warnings, ``seen`` with what a watch has to tell."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(_listening(self.filters, said))
            stack.enter_context(np.errstate(**self.errors))
            stack.enter_context(kinks(self.convention))
            stack.callback(hooks.reset, hooks.set(self.hooks))
            watch = None if self.watch is None else stack.enter_context(self.watch.elsewhere().on())
            yield
            if watch is not None:
                seen.append(watch.to_tell())


class Job(NamedTuple):
    """A job as it is sent: a function of a chunk's arguments, the caller's context, and a worker's settings."""

    run: Callable
    context: Context
    blas_threads: int | None


@dataclass(eq=False, slots=True)
class Answer:
    """The report of a chunk: a result or an error, warnings, a watch's observations, and the worker."""

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
    """Return a controller of the threads of the loaded libraries; SciPy brings one of its own."""
    if importlib.util.find_spec("threadpoolctl") is None:
        return None
    return importlib.import_module("threadpoolctl").ThreadpoolController()


# ── warnings ─────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _listening(filters: list, said: list) -> Iterator[None]:
    """Use the caller's filters in this process, and keep the warnings; chunks may run side by side."""
    global _running, _caught, _show
    token = _heard.set(said)
    with _lock:
        if not _running:
            _caught = warnings.catch_warnings()
            _caught.__enter__()
            _show = warnings.showwarning
            warnings.resetwarnings()
            warnings.filters.extend(filters)  # type: ignore[attr-defined]
            warnings.showwarning = _keep
        _running += 1
    try:
        yield
    finally:
        _heard.reset(token)
        with _lock:
            _running -= 1
            if not _running:
                _caught.__exit__(None, None, None)


_lock = new_lock()
_running = 0
_caught: Any = None
_show: Callable = warnings.showwarning
#: the warnings of the chunk that is computed here
_heard: ContextVar[list | None] = ContextVar("dualad_heard", default=None)


def _keep(message, category, filename, lineno, file=None, line=None) -> None:
    said = _heard.get()
    if said is not None:
        said.append((message, category, filename, lineno))
    else:
        _show(message, category, filename, lineno, file, line)


def heard_again(said: Iterable[tuple], shown: set) -> None:
    """Show the caller the warnings of a chunk, each once for all chunks."""
    for message, category, filename, lineno in said:
        key = (str(message), category, filename, lineno)
        if key not in shown:
            shown.add(key)
            warnings.warn_explicit(message, category, filename, lineno)
