"""Sums over events: calls, time, memory, by operation and phase and whatever else tells rows apart.

Not for: showing them (``table.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import ArgumentError
from .event import Event, Line

__all__ = ["Average", "SORTS", "averages"]

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
