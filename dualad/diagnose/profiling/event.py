"""One thing that happened while a profiler was on, with its times, and sums over many.

Not for: making one (``recorder.py``) or showing them (``session.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ...core.aval import Aval
from ...errors import ArgumentError
from ...program.variable import Step

__all__ = ["Average", "Event", "Line", "PHASES", "averages"]

#: what each phase means, in words
PHASES = {
    "primal": "a value, computed alone: no tangent moves here",
    "tangent": "a value and its tangent, computed together by the operation's forward rule",
    "linearize": "a value, computed while its tangent is written down as equations",
    "record": "one equation written down",
    "program": "one equation of a program, run",
    "transpose": "one equation of a linear program, walked backwards",
    "batched": "all lanes of a vmap at once",
    "transform": "a transform, from opening to closing, or a walk through a program",
    "range": "a range named by the user",
}


class Line(NamedTuple):
    """A line of the user's: ``file``, ``number`` and the ``function`` it stands in."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.number}"


class Event:
    """One operation in one phase, a transform, or a range of the user's.

    Attributes
    ----------
    name : str
        The operation's name (``sin``), the transform's (``grad``), or the range's.
    phase : str
        ``primal``, ``tangent``, ``linearize``, ``record``, ``program``, ``transpose``, ``batched``, ``transform``,
        ``range``; the name of the tensor's class for tensors of third parties.
    line : Line or None
        Where the user's code called it. Of an equation that is run or transposed: where it was written down.
    thread : int
        Identifier of the thread it ran in.
    parent : Event or None
        The event it ran inside of.
    seq : int or None
        Its sequence number: an operation of the function, the equations that it wrote down, and their transposes all
        have the same one.
    inputs, outputs : tuple of Aval
        Shapes and dtypes; of a transposed equation, of its cotangents. For batched operations those of one lane.
    lanes : int or None
        How many lanes a batched operation ran for.
    bytes : int
        Memory of the results, as far as it is not an argument's (a view takes none).
    failed : bool
        Whether it raised.
    """

    __slots__ = (
        "bytes", "children", "entered", "failed", "inputs", "inside", "lanes", "line", "name", "op", "outputs",
        "overhead", "parent", "phase", "seq", "start", "step", "thread", "walked_at", "wall",
    )  # fmt: skip

    def __init__(self, name: str, phase: str, parent: Event | None = None, thread: int = 0, op: Any = None) -> None:
        self.name, self.phase, self.parent, self.thread, self.op = name, phase, parent, thread, op
        self.line: Line | None = None
        self.seq: int | None = None
        self.inputs: tuple[Aval, ...] = ()
        self.outputs: tuple[Aval, ...] = ()
        self.lanes: int | None = None
        self.bytes = 0
        self.failed = False
        #: equation being run or transposed, of a walk through a program
        self.step: Step | None = None
        #: where the user called for the walk, of an event whose line is that of an equation
        self.walked_at: Line | None = None
        # Nanoseconds. What the profiler itself takes inside an event is `overhead`, and is not counted as the event's.
        self.entered = self.start = self.wall = self.overhead = self.inside = self.children = 0

    @property
    def nanoseconds(self) -> int:
        """Time from beginning to end, without the profiler's own."""
        return max(0, self.wall - self.overhead)

    @property
    def total(self) -> float:
        """Seconds from beginning to end, without the profiler's own."""
        return self.nanoseconds * 1e-9

    @property
    def self_time(self) -> float:
        """Seconds that no event inside it accounts for."""
        return max(0, self.nanoseconds - self.inside) * 1e-9

    @property
    def shapes(self) -> str:
        """The shapes and dtypes of the arguments, as in programs: ``f64[3], f64[]``."""
        text = ", ".join(map(repr, self.inputs))
        return f"{text} × {self.lanes}" if self.lanes is not None else text

    @property
    def operation(self) -> bool:
        """Whether it is an operation, neither a transform nor a range."""
        return self.phase not in ("transform", "range")

    def outer(self) -> Iterator[Event]:
        """Yield the events that it ran inside of, the innermost first."""
        around = self.parent
        while around is not None:
            yield around
            around = around.parent

    def __repr__(self) -> str:
        where = f" at {self.line}" if self.line else ""
        return f"<{self.phase} {self.name}{where}: {self.total * 1e6:.1f} µs>"


_KEYS = ("shape", "line", "thread")


class Average:
    """The events that have a name, a phase and whatever else was asked for in common.

    Attributes
    ----------
    name, phase : str
        As of the events.
    calls : int
        How many there were.
    total : float
        Seconds, those of an event inside another one of the same row counted once.
    self_time : float
        Seconds that no event inside accounts for; these add up to the whole.
    bytes : int
        Memory of the results.
    shapes : str or None
        With ``by="shape"``.
    line : Line or None
        With ``by="line"``; otherwise the line, if all events have the same one.
    thread : int or None
        With ``by="thread"``.
    failed : int
        How many raised.
    """

    __slots__ = ("bytes", "calls", "failed", "line", "name", "nanoseconds", "own", "phase", "shapes", "thread")

    def __init__(self, name: str, phase: str, line: Line | None = None, shapes: str | None = None) -> None:
        self.name, self.phase, self.line, self.shapes = name, phase, line, shapes
        self.thread: int | None = None
        self.calls = self.nanoseconds = self.own = self.bytes = self.failed = 0

    @property
    def total(self) -> float:
        """Seconds, those of an event inside another one of the same row counted once."""
        return self.nanoseconds * 1e-9

    @property
    def self_time(self) -> float:
        """Seconds that no event inside accounts for."""
        return self.own * 1e-9

    @property
    def mean(self) -> float:
        """Seconds a call, from beginning to end."""
        return self.total / self.calls

    def __repr__(self) -> str:
        return f"<{self.phase} {self.name}: {self.calls} calls, {self.total * 1e6:.1f} µs>"


SORTS = {
    "self": lambda row: -row.own,
    "total": lambda row: -row.nanoseconds,
    "calls": lambda row: -row.calls,
    "bytes": lambda row: -row.bytes,
    "mean": lambda row: -row.mean,
    "name": lambda row: (row.name, row.phase),
}


def averages(events: Iterable[Event], sort: str = "self", by: str | Iterable[str] = ()) -> list[Average]:
    """Sum events up, a row for each name and phase."""
    by = (by,) if isinstance(by, str) else tuple(by)
    for given, known, what in ((by, _KEYS, "by"), ((sort,), tuple(SORTS), "sort")):
        for word in given:
            if word not in known:
                raise ArgumentError(
                    f"profile: {what}={word!r}.", "there is no such key", f"use one of {', '.join(map(repr, known))}"
                )
    rows: dict[tuple, Average] = {}
    for event in events:
        key = _key(event, by)
        row = rows.get(key)
        if row is None:
            row = rows[key] = Average(event.name, event.phase, event.line, event.shapes if "shape" in by else None)
            row.thread = event.thread if "thread" in by else None
        elif row.line != event.line:
            row.line = None
        row.calls += 1
        row.own += max(0, event.nanoseconds - event.inside)
        row.failed += event.failed
        for around in event.outer():
            if _key(around, by) == key:
                break
        else:
            row.nanoseconds += event.nanoseconds
            row.bytes += event.bytes
    return sorted(rows.values(), key=SORTS[sort])


def _key(event: Event, by: tuple[str, ...]) -> tuple[Any, ...]:
    more = {"shape": event.shapes if "shape" in by else None, "line": event.line, "thread": event.thread}
    return (event.name, event.phase, *[more[k] for k in by])
