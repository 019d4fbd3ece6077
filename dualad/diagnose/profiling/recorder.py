"""Making events: where one begins and ends, in which thread, inside which other, at which line of the user's.

The innermost event that is going on is a context variable, so that threads and asynchronous tasks nest their events
each for themselves. Not for: deciding which calls are events (``watch.py``).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from contextvars import ContextVar
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...base.frames import is_users, user_frame
from ...core.aval import Aval, aval_of
from ...program.variable import Variable
from ..nonfinite import leaves
from .event import Event, Line

__all__ = ["begin", "current", "describe", "end", "listeners", "number_event", "origins"]

#: the innermost event going on here; per thread and per asynchronous task
current: ContextVar[Event | None] = ContextVar("dualad_profiled_event", default=None)

#: the profilers that are on; replaced, never changed in place, so that a thread may go through it at any time
listeners: list[Any] = []

#: variable of a program -> (sequence number, line) of the operation that wrote its equation down
origins: dict[Variable, tuple[int, Line | None]] = {}

_numbers = itertools.count(1)


def begin(name: str, phase: str, op: Any = None) -> Event:
    """Begin an event inside the one going on."""
    entered = perf_counter_ns()
    parent = current.get()
    event = Event(name, phase, parent, threading.get_ident(), op)
    event.entered = entered
    frame, _ = user_frame()
    code = frame.f_code
    line = Line(code.co_filename, frame.f_lineno, code.co_qualname) if is_users(code.co_filename) else None
    event.line = line
    if parent is not None:
        if parent.step is not None:
            known = origins.get(parent.step.out)
            if known is not None:
                (event.seq, event.line), event.walked_at = known, line
        elif parent.walked_at is not None and parent.walked_at == line:
            # Inside an equation that is run or transposed: the line that called for it says less than the equation's.
            event.line, event.walked_at = parent.line, line
    current.set(event)
    event.start = perf_counter_ns()
    return event


def end(event: Event, stopped: int | None = None) -> None:
    """End an event, and hand it to the profilers; what it and its description took is nobody's time."""
    event.wall = (perf_counter_ns() if stopped is None else stopped) - event.start
    event.step = None
    # A walk that an exception has ended is closed late, when something else may be going on.
    inner = current.get()
    if inner is event or (inner is not None and event in inner.outer()):
        current.set(event.parent)
    for listener in listeners:
        listener.take(event)
    parent = event.parent
    if parent is not None:
        parent.children += 1
        parent.inside += event.nanoseconds
        parent.overhead += perf_counter_ns() - event.entered - event.nanoseconds


def number_event(event: Event) -> int:
    """Give the operation that an equation is written down by a sequence number, and the event of the equation too."""
    maker = next((e for e in event.outer() if e.phase in ("linearize", "transform", "range")), event)
    if maker.phase != "linearize":
        maker = event
    if maker.seq is None:
        maker.seq = next(_numbers)
    event.seq = maker.seq
    return maker.seq


# ── what is noted of an operation ────────────────────────────────────────────────────────────────────────────────


def describe(event: Event, args: Iterable, result: Any) -> None:
    """Note shapes, dtypes and the memory of the results."""
    event.inputs = tuple([_known(a) for a in args])
    results = result if isinstance(result, (tuple, list)) else (result,)
    event.outputs = tuple([_known(r) for r in results if r is not None])
    made = _memory(results)
    if made:
        given = _memory(tuple(args))
        event.bytes = sum([m.nbytes for m in made if not any([_same(m, g) for g in given])])


def _known(x: Any) -> Aval:
    return x if type(x) is Aval else aval_of(x)


def _memory(xs: tuple | list) -> list:
    """Return the plain arrays that values, tensors of any depth, hold."""
    return [leaf.value for leaf in leaves(xs) if hasattr(leaf.value, "nbytes")]


def _same(made: Any, given: Any) -> bool:
    """Whether a result has an argument's memory; an array that is no view of another has its own."""
    if made is given:
        return True
    return type(made) is np.ndarray and made.base is not None and np.may_share_memory(made, given)
