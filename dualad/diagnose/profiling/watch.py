"""The profiler's watch: which operations, equations and transforms are events, and in which phase.

Not for: what an event is (``recorder.py``), or where a watch is told (``core/watch.py``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter_ns
from typing import Any

from ...base.locks import new_lock
from ...batched import Batched
from ...core.contexts import everywhere
from ...core.level import Level
from ...core.primitive import Primitive
from ...core.tracer import Tracer
from ...core.watch import Watch
from ...dual import Dual
from ...program.variable import Step
from ...tensors.staged import Staged
from .event import Event
from .recorder import begin, current, describe, end, listeners, number_event, origins

__all__ = ["listen", "unlisten"]

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
