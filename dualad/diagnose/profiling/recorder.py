"""Making events: which operations are one, where it begins and ends, inside which other, at which line of the user's.

The innermost event that is going on is a context variable, so that threads and asynchronous tasks nest their events
each for themselves. Not for: what an event is (``event.py``), or where a watch is told (``core/watch.py``).
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...base.frames import is_users, user_frame
from ...base.locks import new_lock
from ...batched import Batched
from ...core.aval import Aval, aval_of
from ...core.contexts import everywhere
from ...core.level import Level
from ...core.primitive import Primitive
from ...core.tracer import Tracer
from ...core.watch import Watch
from ...dual import Dual
from ...program.variable import Step, Variable
from ...tensors.staged import Staged
from ..nonfinite import leaves
from .event import Event, Line

__all__ = ["begin", "current", "describe", "end", "listen", "listeners", "number_event", "origins", "unlisten"]

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


# ── records of operations ────────────────────────────────────────────────────────────────────────────────────────


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


_lock = new_lock()
_open_levels: weakref.WeakKeyDictionary[Level, Event] = weakref.WeakKeyDictionary()

#: phases in which a plain call of the same operator is the event itself, not another one inside it
_CALLS = ("primal", "tangent", "linearize", "batched")


def listen(listener: Any) -> None:
    """Hand events to ``listener.take(event)`` from now on."""
    with _lock:
        listeners[:] = [*listeners, listener]
        if len(listeners) == 1:
            _Profiler().on_everywhere()


def unlisten(listener: Any) -> None:
    """Hand it no more events; after the last listener nobody watches."""
    with _lock:
        listeners[:] = [known for known in listeners if known is not listener]
        if not listeners:
            for watch in everywhere[:]:
                watch.off_everywhere()
            origins.clear()


class _Profiler(Watch):
    """Makes events of what it is told."""

    def operation(self, top: Tracer | None, op: Primitive, args: Sequence, params: dict) -> Any:
        """Carry out an operator as an event."""
        lanes = None
        if top is None:
            around = current.get()
            if around is not None and around.op is op and around.phase in _CALLS:
                return op.impl(*args, **params)
            phase = "program" if around is not None and around.step is not None else "primal"
        elif isinstance(top.level, Level):
            phase, lanes = _phase(top, op, args), getattr(top.level, "size", None)
        else:  # a tensor that hands every call on to another one
            return super().operation(top, op, args, params)
        event = begin(op.name, phase, op)
        return _measure(event, args, lambda: Watch.operation(self, top, op, args, params), lanes)

    def transposing(self, op: Primitive, rule: Callable) -> Callable:
        """Return a transpose rule whose calls are events."""

        def transpose(ct, *args, **params):
            event = begin(op.name, "transpose", op)
            cts = [c for c in (ct if isinstance(ct, (tuple, list)) else (ct,)) if c is not None]
            return _measure(event, cts, lambda: rule(ct, *args, **params))

        return transpose

    def walk(self, program: Any, steps: Iterable[Step], what: str) -> Iterator[Step]:
        """Go through the equations of a program, as one event that knows which equation is being dealt with."""
        event = begin(f"{what} {program.name}", "transform")
        try:
            for step in steps:
                event.step = step
                yield step
        finally:
            end(event)

    def opened(self, level: Level) -> None:
        """Begin the event of a transform; one that opens two levels at once (linearize) is one event."""
        around = current.get()
        if around is None or (around.phase, around.name, around.children) != ("transform", level.transform, 0):
            _open_levels[level] = begin(level.transform, "transform")

    def closed(self, level: Level, failed: bool) -> None:
        """End it."""
        event = _open_levels.pop(level, None)
        if event is not None:
            event.failed = failed
            end(event)


def _phase(tensor: Tracer, op: Primitive, args: Sequence) -> str:
    if type(tensor) is Dual:
        level = tensor.level
        moving = any([type(a) is Dual and a.level is level and a._tangent is not None for a in args])
        return "primal" if op.jvp is None or not moving else "linearize" if level.linearizing else "tangent"
    if type(tensor) is Batched:
        return "batched"
    if type(tensor) is Staged:
        return "record"
    return type(tensor).__name__.lower()


def _measure(event: Event, args: Iterable, call: Callable, lanes: int | None = None) -> Any:
    try:
        out = call()
    except BaseException:
        event.failed = True
        end(event)
        raise
    stopped = perf_counter_ns()
    event.lanes = lanes if event.phase == "batched" else None
    if event.phase == "record":
        number = number_event(event)
        for tensor in out if type(out) is tuple else (out,):
            origins[tensor.variable] = (number, event.line)
    describe(event, args, out)
    end(event, stopped)
    return out
