"""The watching versions of a few methods, put in place while a profiler is on.

Every call of an operator goes through some tensor's ``process``, or, on plain arrays, through ``Primitive.impl``; every
transposed equation through ``Primitive.transpose``; every transform opens a level. These are attributes of our own
classes, looked up anew at every call, so that replacing them costs nothing while they are
not replaced. Not for: what an event is (``recorder.py``).
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any

from ..batched import Batched
from ..core.buffer import Buffer
from ..core.level import Level
from ..core.primitive import Primitive
from ..core.tracer import Tracer
from ..core.walk import walkers
from ..dual import Dual
from ..staged import Staged
from ..surface.deferred import Deferred
from .event import Event
from .recorder import begin, current, describe, end, listeners, numbered, origins, walk

__all__ = ["is_on", "listen", "unlisten"]

#: (class, name, what stood there), in the order they were replaced
_replaced: list[tuple[type, str, Any]] = []
_lock = threading.Lock()

#: tensors that hand every call on to another one
_TRANSPARENT = (Buffer, Deferred)

#: Python's operators, which `surface/methods.py` gives to all tensors
_OPERATORS = [
    f"__{letter}{name}__"
    for name in ("add", "sub", "mul", "truediv", "pow", "matmul", "floordiv", "mod")
    for letter in ("", "r")
] + ["__neg__", "__pos__", "__abs__"]

#: phases in which a plain call of the same operator is the event itself, not another one inside it
_CALLS = ("primal", "tangent", "linearize", "batched")


def is_on() -> bool:
    """Say whether watching versions are in place."""
    return bool(_replaced)


def listen(listener: Any) -> None:
    """Hand events to ``listener.take(event)`` from now on."""
    with _lock:
        listeners[:] = [*listeners, listener]
        if len(listeners) == 1:
            _put_in_place()


def unlisten(listener: Any) -> None:
    """Hand it no more events; after the last listener every method is what it was."""
    with _lock:
        listeners[:] = [known for known in listeners if known is not listener]
        if not listeners:
            walkers.clear()
            while _replaced:
                cls, name, original = _replaced.pop()
                setattr(cls, name, original)
            origins.clear()


def _put_in_place() -> None:
    for cls in _family(Tracer):
        if cls not in _TRANSPARENT and "process" in cls.__dict__:
            _replace(cls, "process", _watched_process(cls.__dict__["process"]))
    # Short cuts of our own tensors around their `process`: left out, the operators take the long way.
    for cls in (Dual, Batched, Staged):
        for name in [n for n in _OPERATORS if n in cls.__dict__]:
            _replace(cls, name, Tracer.__dict__[name])
    for cls in (Level, *_family(Level)):
        for name, watched in (("__enter__", _watched_enter), ("__exit__", _watched_exit)):
            if name in cls.__dict__:
                _replace(cls, name, watched(cls.__dict__[name]))
    _replace(Primitive, "impl", _watched_slot(Primitive.__dict__["impl"], _watched_impl))
    for name in ("transpose", "strong_transpose"):
        _replace(Primitive, name, _watched_slot(Primitive.__dict__[name], _watched_transpose))
    walkers.append(walk)


def _replace(cls: type, name: str, new: Any) -> None:
    _replaced.append((cls, name, cls.__dict__[name]))
    setattr(cls, name, new)


def _family(cls: type) -> Iterator[type]:
    child: type
    for child in cls.__subclasses__():
        yield child
        yield from _family(child)


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────────────


def _phase(tensor: Tracer, op: Primitive, args: Any) -> str:
    if type(tensor) is Dual:
        level = tensor.level
        moving = any([type(a) is Dual and a.level is level and a._tangent is not None for a in args])
        return "primal" if op.jvp is None or not moving else "linearize" if level.linearizing else "tangent"
    if type(tensor) is Batched:
        return "batched"
    if type(tensor) is Staged:
        return "record"
    return type(tensor).__name__.lower()


def _watched_process(original: Callable) -> Callable:
    @functools.wraps(original)
    def process(self, op, args, params):
        event = begin(op.name, _phase(self, op, args), op)
        return _measured(event, args, lambda: original(self, op, args, params), getattr(self.level, "size", None))

    return process


def _measured(event: Event, args: Any, call: Callable, lanes: int | None = None) -> Any:
    try:
        out = call()
    except BaseException:
        event.failed = True
        end(event)
        raise
    event.lanes = lanes if event.phase == "batched" else None
    return _ended(event, args, out)


def _ended(event: Event, args: Any, out: Any) -> Any:
    stopped = perf_counter_ns()
    if event.phase == "record":
        number = numbered(event)
        for tensor in out if type(out) is tuple else (out,):
            origins[tensor.variable] = (number, event.line)
    describe(event, args, out)
    end(event, stopped)
    return out


# ── what an operator holds ───────────────────────────────────────────────────────────────────────────────────────


def _watched_slot(slot: Any, watched: Callable) -> property:
    """Make a property that gives the watching version of what is in a slot of an operator."""

    def get(self):
        function = slot.__get__(self, Primitive)
        return None if function is None else watched(self, function)

    return property(get, slot.__set__, slot.__delete__)


def _watched_impl(op: Primitive, function: Callable) -> Callable:
    def impl(*args, **params):
        around = current.get()
        if around is not None and around.op is op and around.phase in _CALLS:
            return function(*args, **params)
        phase = "program" if around is not None and around.step is not None else "primal"
        return _measured(begin(op.name, phase, op), args, lambda: function(*args, **params))

    return impl


def _watched_transpose(op: Primitive, function: Callable) -> Callable:
    def transpose(ct, *args, **params):
        event = begin(op.name, "transpose", op)
        cts = [c for c in (ct if isinstance(ct, (tuple, list)) else (ct,)) if c is not None]
        return _measured(event, cts, lambda: function(ct, *args, **params))

    return transpose


# ── transforms ───────────────────────────────────────────────────────────────────────────────────────────────────

_open_levels: weakref.WeakKeyDictionary[Level, Event] = weakref.WeakKeyDictionary()


def _watched_enter(original: Callable) -> Callable:
    @functools.wraps(original)
    def enter(self):
        around = current.get()
        # A transform that opens two levels at once (linearize: one to write, one to differentiate) is one event.
        second = around is not None and (around.phase, around.name, around.children) == ("transform", self.transform, 0)
        if not second:
            _open_levels[self] = begin(self.transform, "transform")
        return original(self)

    return enter


def _watched_exit(original: Callable) -> Callable:
    @functools.wraps(original)
    def leave(self, *exc_info):
        out = original(self, *exc_info)
        event = _open_levels.pop(self, None)
        if event is not None:
            event.failed = exc_info[0] is not None if exc_info else False
            end(event)
        return out

    return leave
