"""The watch: who is told of each operation that a transform carries out, if anybody is.

For: ``debug``, which sets one for a block of code, and the profiler, which sets one for all threads. Both are asked for
only while ``contexts.py`` says that there is one somewhere, so an operation costs nothing more while nobody watches. A
program that is written under a watch remembers the user's line of each of its steps (``program/variable.py``). Not
for: what a watch does with what it sees (``diagnose/``, ``profiling/``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..base.frames import user_line
from .contexts import enter, everywhere, leave, watching
from .dispatch import bind
from .tracer import Tracer

__all__ = ["Watch", "run_rule", "tag_origin"]


def run_rule(op, primals: Sequence, tangents: Sequence, params: dict) -> tuple:
    """Return value and tangent of an operator, as a Dual computes them."""
    if op.jvp is not None and any([t is not None for t in tangents]):
        return op.jvp(primals, tangents, **params)
    value = bind(op, primals, params)
    return value, (None,) * len(value) if op.multiple_results else None


class Watch:
    """The observable moments: every method does what happens without a watch, and a subclass looks on.

    The watch of a block (``on``) is told what levels compute and transforms return, in its thread or task; one of all
    threads (``on_everywhere``) is told of each operation, program and transform as a whole.
    """

    # ── of a block ───────────────────────────────────────────────────────────────────────────────────────────────

    def dual(self, level, op, primals: Sequence, tangents: Sequence, params: dict) -> tuple:
        """Run an operator for a dual level: value and tangent."""
        return run_rule(op, primals, tangents, params)

    def batched(self, level, op, values: Sequence, params: dict, out: Any) -> None:
        """Look at what an operator made of the lanes of a batched level."""

    def cause(self) -> Any:
        """Return a note to keep with the equation that is being recorded."""
        return None

    def pushed(self, run: Callable[[], list], program, tangents: list, phase: str = "tangent") -> list:
        """Run a program: a linear one on tangents, or with ``phase="primal"`` any other."""
        return run()

    def pulled(self, run: Callable[[Callable | None], list], again: Callable[[Callable], list]) -> list:
        """Run a pullback; ``again`` does so once more, with strong zeros. Both take a walk, which goes step by step."""
        return run(None)

    def finished(self, transform: str, *results: Any, inner: bool | None = None, final: bool = True) -> None:
        """Look at the results of a transform that is about to return.

        ``inner`` says whether another one is running; without ``final`` there is a program still to be walked.
        """

    def calling(self, f: Callable, args: tuple, kwargs: dict) -> Callable[[Any], None] | None:
        """Look at a user's function that an outermost transform is about to call; return what looks at its result."""
        return None

    def compiled(self, compiled: Callable, f: Callable, args: tuple, kwargs: dict) -> Any:
        """Call the function that was compiled, operation by operation, in the place of the compiled one."""
        return f(*args, **kwargs)

    def swallowed(self, message: str, refusal: Exception) -> None:
        """Look at a refusal that a function caught before it returned; there will be a warning."""

    @contextmanager
    def on(self) -> Iterator[Watch]:
        """Watch what this thread (or asynchronous task) does in a block."""
        enter()
        token = watching.set(self)
        try:
            yield self
        finally:
            watching.reset(token)
            leave()

    def elsewhere(self) -> Watch:
        """Return the watch of a worker that computes a part of the watched work."""
        return self

    def to_tell(self) -> Any:
        """Return the report of a worker's watch when its part is done."""

    def told(self, seen: Any) -> None:
        """Take in what a worker's watch has seen."""

    # ── of all threads ───────────────────────────────────────────────────────────────────────────────────────────

    def operation(self, top: Tracer | None, op, args: Sequence, params: dict) -> Any:
        """Carry out an operator: by the innermost tensor among its arguments, or as plain NumPy if there is none."""
        if top is None:
            return op.impl(*args, **params)
        return top.process(op, args, params)

    def transposing(self, op, rule: Callable) -> Callable:
        """Return the transpose rule to use for an equation of an operator."""
        return rule

    def walk(self, program, steps: Iterable[Any], what: str) -> Iterable[Any]:
        """Yield the steps of a program that is run or transposed (``what``)."""
        return steps

    def opened(self, level) -> None:
        """Look at a transform that begins."""

    def closed(self, level, failed: bool) -> None:
        """Look at a transform that has ended."""

    def on_everywhere(self) -> None:
        """Watch what all threads do, until ``off_everywhere``."""
        everywhere[:] = [self]

    def off_everywhere(self) -> None:
        """Watch no more."""
        everywhere.clear()


def tag_origin(result: Any) -> Any:
    """Note on tensors made under a watch where they were made, for the message about one that escapes."""
    line = user_line()
    for x in result if isinstance(result, tuple) else (result,):
        if isinstance(x, Tracer):
            x._origin = line
    return result
