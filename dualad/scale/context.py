"""The caller's context, taken along: kinks, floating-point errors, warnings, ``debug`` and ``residual_hooks``.

For: what is on where a transform is called and must be on where its chunks are computed, and for bringing back what was
said there. Not for: contexts of the user's own, of which nobody knows what they mean elsewhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..base.locks import new_lock
from ..core.contexts import watching
from ..core.watch import Watch
from ..ops.kinks import _convention, kinks
from ..program.packed import active as hooks

__all__ = ["Context", "heard_again"]

#: the warnings of the chunk that is computed here
_heard: ContextVar[list | None] = ContextVar("dualad_heard", default=None)


class Context:
    """What is on here; pickled with a job."""

    def __init__(self) -> None:
        self.convention = _convention.get()
        self.errors: Any = np.geterr()
        self.filters = [f for f in warnings.filters if _is_known(f[2])]
        self.watch: Watch | None = watching.get()
        self.hooks = hooks.get()

    @contextmanager
    def entered(self, said: list, seen: list) -> Iterator[None]:
        """Have it on in a block; ``said`` is filled with its warnings, ``seen`` with what a watch has to tell."""
        with ExitStack() as stack:
            stack.enter_context(_listening(self.filters, said))
            stack.enter_context(np.errstate(**self.errors))
            stack.enter_context(kinks(self.convention))
            stack.callback(hooks.reset, hooks.set(self.hooks))
            watch = None if self.watch is None else stack.enter_context(self.watch.elsewhere().on())
            yield
            if watch is not None:
                seen.append(watch.to_tell())


def _is_known(category: Any) -> bool:
    """Say whether a category can be imported where the filter goes: a script's own may not."""
    return category.__module__ != "__main__"


@contextmanager
def _listening(filters: list, said: list) -> Iterator[None]:
    """Use the caller's filters in this process, and keep what is shown; chunks may run side by side."""
    global _running, _before
    token = _heard.set(said)
    with _lock:
        if not _running:
            _before = (list(warnings.filters), warnings.showwarning)
            _set(filters, _keep)
        _running += 1
    try:
        yield
    finally:
        _heard.reset(token)
        with _lock:
            _running -= 1
            if not _running:
                _set(*_before)


_lock = new_lock()
_running = 0
_before: tuple = ()


def _set(filters: list, show: Callable) -> None:
    warnings.resetwarnings()
    warnings.filters.extend(filters)  # type: ignore[attr-defined]
    warnings.showwarning = show


def _keep(message, category, filename, lineno, file=None, line=None) -> None:
    said = _heard.get()
    if said is not None:
        said.append((message, category, filename, lineno))
    else:
        _before[1](message, category, filename, lineno, file, line)


def heard_again(said: Iterable[tuple], shown: set) -> None:
    """Show the caller the warnings of a chunk, each once for all chunks."""
    for message, category, filename, lineno in said:
        key = (str(message), category, filename, lineno)
        if key not in shown:
            shown.add(key)
            warnings.warn_explicit(message, category, filename, lineno)
