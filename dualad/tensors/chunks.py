"""Work in chunks: how many lanes (or columns, or rows) to compute at a time.

For: ``chunk_size=`` and ``max_memory=`` of ``vmap``, ``jacfwd``, ``jacrev`` and ``hessian``. Not for: what a lane is,
or chunks that other processes compute (``scale/``).
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..base.frames import user_level
from ..base.locks import new_lock
from ..base.tree import flatten
from ..core.above import ABOVE
from ..core.tracer import tracer_in
from ..errors import ArgumentError, ArgumentTypeError, PerformanceNote

__all__ = ["Chunking", "Plan", "check_executor", "in_chunks", "measured_chunks", "refuse_traced"]


class Plan:
    """How ``job(start, stop, *piece)``, which can be pickled, is to be run in chunks of ``total`` items.

    ``cut(ranges)`` gives the pieces of the data that ranges need, a tuple for each; without it there are none.
    ``where`` is the transform's name, ``unit`` the word for its items ("lanes") and ``function`` the user's, for
    messages. ``other`` makes a job that does the same in another way, for jobs that are too large to be sent, or can't
    be; with ``anew`` the job repeats something in every chunk that the other one does once: if workers get several, the
    other one is sent. ``each`` is how many chunks a worker is to get, where no size is given: 1 where they take equally
    long. ``ranges`` are the chunks, where the data is in parts already.
    """

    def __init__(
        self, job: Callable, total: int, cut: Callable[[list], list[tuple]] | None, where: str, unit: str,
        function: Any, *, other: Callable[[], Callable] | None = None, anew: bool = False, each: int = 1,
        ranges: list[tuple[int, int]] | None = None,
    ) -> None:  # fmt: skip
        self.job, self.total, self.where, self.unit = job, total, where, unit
        self.cut = cut or (lambda ranges: [()] * len(ranges))
        self.function, self.other, self.anew, self.each, self.ranges = function, other, anew, each, ranges

    def run(self, start: int, stop: int) -> Any:
        """Compute a range here."""
        return self.job(start, stop, *self.cut([(start, stop)])[0])


@dataclass(frozen=True)
class Chunking:
    """How much of a job runs at a time, and by whose workers: ``chunk_size``, ``max_memory`` and ``executor``, checked.

    ``where`` is the transform's name, for messages; ``progress`` asks for a bar.
    """

    where: str
    chunk_size: int | None = None
    max_memory: int | None = None
    executor: Any = None
    progress: bool = False

    def __post_init__(self) -> None:
        for name, value in (("chunk_size", self.chunk_size), ("max_memory", self.max_memory)):
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if value is not None and not (whole and value > 0):
                raise ArgumentError(
                    f"{self.where}: {name}={value!r}.",
                    "it is a number of lanes, columns or rows" if name == "chunk_size" else "it is a number of bytes",
                    "pass a positive int, or None for all at once",
                )
        if self.chunk_size is not None and self.max_memory is not None:
            raise ArgumentError(
                f"{self.where}: both chunk_size and max_memory are given.",
                "max_memory chooses the chunk size",
                "give one of them",
            )
        check_executor(self.executor, self.where)

    @property
    def is_whole(self) -> bool:
        """Whether everything runs at once, and here."""
        return self.chunk_size is None and self.max_memory is None and self.executor is None and not self.progress

    def or_chunks_of(self, size: int) -> Self:
        """The same options, with chunks of this size if everything were to run at once."""
        return replace(self, chunk_size=size) if self.is_whole else self

    def here(self) -> Self:
        """The same options for running everything at once, and here."""
        return replace(self, chunk_size=None, max_memory=None, executor=None, progress=False)

    def run(self, plan: Plan) -> list:
        """Results of consecutive ranges that cover ``range(plan.total)``, in order."""
        if self.executor is None and not self.progress:
            return in_chunks(plan.run, plan.total, self.chunk_size, self.max_memory, plan.where)
        return ABOVE.chunked(plan, self.chunk_size, self.max_memory, self.executor, self.progress)


def check_executor(executor: Any, where: str) -> None:
    """Refuse what takes no work."""
    if isinstance(executor, type):
        raise ArgumentTypeError(
            f"{where}: executor={executor.__name__} is a class.",
            "work is given to an executor, which has workers",
            f"make one: with {executor.__name__}() as pool: ...",
        )
    if executor is None or callable(getattr(executor, "submit", None)):
        return
    number = isinstance(executor, (int, np.integer)) and not isinstance(executor, bool)
    raise ArgumentTypeError(
        f"{where}: executor={executor!r} of type {type(executor).__name__}.",
        "work is given to an executor, which is any object with submit(function, *args)",
        f"pass an Executor: concurrent.futures.ProcessPoolExecutor({executor})"
        if number
        else "pass a concurrent.futures.ProcessPoolExecutor, or that of another library",
    )


def refuse_traced(tree: Any, executor: Any, where: str) -> None:
    """Refuse tensors among the arguments of a transform with an executor."""
    if executor is not None and tracer_in(*flatten(tree)[0]) is not None:
        raise ArgumentError(
            f"{where}: executor= was given, and an argument is a tensor of a transform that is running around it.",
            "a tensor can't leave its level, and workers are outside of it",
            "put executor= on the outermost transform",
        )


def in_chunks(run: Callable, total: int, chunk_size: int | None, max_memory: int | None, where: str) -> list:
    """Call ``run(start, stop)`` for consecutive ranges that cover ``range(total)`` and return what it returns.

    With ``max_memory`` the first range has one lane and the second has two; both are measured, which separates what
    a lane takes from what they share.
    """
    if not total or (chunk_size is None and max_memory is None):
        return [run(0, total)]
    parts: list = []
    start = 0
    if max_memory is not None:
        parts, start, chunk_size = measured_chunks(run, total, max_memory, where)
    for begin in range(start, total, chunk_size):
        parts.append(run(begin, min(begin + chunk_size, total)))
    return parts


def measured_chunks(run: Callable, total: int, max_memory: int, where: str) -> tuple[list, int, int]:
    """Run the first ranges and measure them; return their results, where they end, and the size of those to come."""
    one, first = _measure(run, 0, 1)
    parts = [first]
    start = 1
    two, lane = one, one
    if total > 2:
        two, second = _measure(run, 1, 3)
        parts.append(second)
        start = 3
        lane = max(two - one, 1)
    shared = max(one - lane, 0)
    if one > max_memory:
        warnings.warn(
            f"{where}: one lane takes about {one} bytes, more than max_memory={max_memory}; they run one by one.",
            PerformanceNote,
            stacklevel=user_level(),
        )
    return parts, start, max(1, int((max_memory - shared) // lane))


_measuring = new_lock()


def _measure(run: Callable, start: int, stop: int) -> tuple[int, object]:
    """Run a range and return how many bytes it held at its peak, and its result.

    NumPy reports its arrays to ``tracemalloc``. What other threads allocate meanwhile counts too, which makes chunks
    smaller, never too large.
    """
    tracemalloc = importlib.import_module("tracemalloc")  # only here: `import dualad` does without
    with _measuring:
        ours = not tracemalloc.is_tracing()
        if ours:
            tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            result = run(start, stop)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            if ours:
                tracemalloc.stop()
    return max(peak - before, 1), result
