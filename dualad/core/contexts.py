"""Switches that are on for a while: tangents that are off here, watches that look on.

For: the questions that every tensor asks before it runs a rule, kept cheap for those who never open a context. One that
switches tangents off silences the levels that were opened before it; a transform that starts inside works as ever. Not
for: the context managers themselves (``rules/hooks.py``, ``diagnose/debug.py``) or what a watch is told (``watch.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..base.locks import new_lock

__all__ = [
    "SILENT", "StartAgain", "TakenApart", "active", "apart", "boundary", "compiling", "enter", "errors_raised",
    "everywhere", "in_use", "leave", "note", "process_wide", "silently", "walking_back", "watching", "writing",
]  # fmt: skip

#: what includes the warnings that NumPy gives
_WARNINGS = RuntimeWarning, Warning

#: levels with numbers below this carry no tangents here; per thread and per asynchronous task
boundary: ContextVar[int] = ContextVar("dualad_quiet_boundary", default=0)

#: who is told of what happens here; per thread and per asynchronous task
watching: ContextVar[Any] = ContextVar("dualad_watching", default=None)

#: what is to be known of the program that is being compiled, if there is one: "numbers" were asked for, which are not
#: known when it is written, and it went the way that is right for finite ones, so that beside a pole its NaN may be a
#: number; the "order" in memory of its arguments decided between a view and a copy; the floating-point errors that were
#: exceptions somewhere; whether an error is "caught" that only Python raises
compiling: ContextVar[set[str] | None] = ContextVar("dualad_compiling", default=None)

#: whether a whole traced array that NumPy's compiled functions would take apart raises ``TakenApart`` here
apart: ContextVar[bool] = ContextVar("dualad_apart", default=False)

#: who carries out walks back through linear programs here, if it is not who asks for them:
#: ``walk(program, cotangents, seeds, otherwise)``
walking_back: ContextVar[Callable | None] = ContextVar("dualad_walking_back", default=None)

#: the level of the innermost program that is written here of a function or of other programs; ``SILENT`` where
#: something runs again
writing: ContextVar[Any] = ContextVar("dualad_writing", default=None)

#: how many contexts are open anywhere; while it is empty nobody needs to look at ``boundary`` or ``watching``
in_use: list[None] = []

#: who is told of what happens in all threads (the profiler): one watch or none
everywhere: list[Any] = []

_lock = new_lock()


class _Silent:
    """In the place of a level: its work has been done."""

    number, open = 0, True

    def record(self, op: Any, args: Any, params: dict) -> bool:
        """Leave an operator out."""
        return False


SILENT = _Silent()


class StartAgain(BaseException):
    """A run gives itself up, and whoever asked for it begins another one.

    Not an ``Exception``: no handler of the user's is to see it as an error.
    """


class TakenApart(StartAgain):
    """``np.ascontiguousarray`` or one of its like has met a traced array in code whose globals are ``namespace``.

    None of these dispatch: NumPy wants an array, and there is one of Python objects only. Who writes a program starts
    again, with the names of that code lifted.
    """

    def __init__(self, namespace: dict) -> None:
        self.namespace = namespace


def enter() -> None:
    """Count a context in."""
    with _lock:
        in_use.append(None)


def leave() -> None:
    """Count a context out."""
    with _lock:
        in_use.pop()


def note(what: str) -> None:
    """Note what the program that is being compiled depends on."""
    found = compiling.get()
    if found is not None:
        found.add(what)


def silently(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function that has run before: what it is there for besides its result isn't done again."""
    token = writing.set(SILENT)
    try:
        return function(*args, **kwargs)
    finally:
        writing.reset(token)


def active() -> Any:
    """Return the watch that is to be told here, if there is one."""
    return watching.get() if in_use else None


def process_wide() -> Any:
    """Return the watch of all threads, if there is one; it may have gone since somebody looked."""
    for watch in everywhere:
        return watch
    return None


def errors_raised() -> set[str]:
    """Return which floating-point errors are exceptions here, by NumPy's names; so may be the warnings of them."""
    rules = [how for how, text, kind, module, _ in warnings.filters if not (text or module) and kind in _WARNINGS]
    as_errors = rules[:1] == ["error"]
    return {name for name, how in np.geterr().items() if how == "raise" or (as_errors and how == "warn")}
