"""A profile in Chrome's trace format (the *JSON array format* with complete and flow events).

Not for: reading traces.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from typing import Any

from .event import Event

__all__ = ["chrome_trace"]


def chrome_trace(events: Sequence[Event]) -> str:
    """Return the JSON text: an event for each, and an arrow from each operation to the transposes it led to."""
    process = os.getpid()
    first = min((e.start for e in events), default=0)
    names = {t.ident: t.name for t in threading.enumerate()}
    entries: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": "dualad"}}
    ]
    for thread in sorted({e.thread for e in events}):
        label = names.get(thread, f"thread {thread}")
        entries.append({"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": label}})
    makers: dict[int, Event] = {}
    for e in events:
        if e.seq is not None and e.phase in ("linearize", "record"):
            # The operation ends after the equations inside it: of several events the last is the outermost.
            makers[e.seq] = e
    arrows = 0
    for e in sorted(events, key=lambda e: (e.start, -e.wall)):
        at = {"pid": process, "tid": e.thread, "ts": (e.start - first) / 1e3}
        entries.append({"name": e.name, "cat": e.phase, "ph": "X", "dur": e.wall / 1e3, **at, "args": _said(e)})
        maker = makers.get(e.seq) if e.seq is not None and e.phase in ("transpose", "program") else None
        if maker is not None:
            arrows += 1
            start = {"pid": process, "tid": maker.thread, "ts": (maker.start - first) / 1e3}
            flow = {"name": "equation", "cat": "equation", "id": arrows}
            entries.append({**flow, "ph": "s", **start})
            entries.append({**flow, "ph": "f", "bp": "e", **at})
    return json.dumps({"traceEvents": entries, "displayTimeUnit": "ns"})


def _said(e: Event) -> dict[str, Any]:
    said: dict[str, Any] = {"phase": e.phase, "self_us": e.self_time * 1e6}
    if e.line is not None:
        said["line"] = f"{e.line.file}:{e.line.number} ({e.line.function})"
    if e.operation:
        said |= {"inputs": e.shapes, "outputs": ", ".join(map(repr, e.outputs)), "bytes": e.bytes}
    if e.seq is not None:
        said["seq"] = e.seq
    if e.failed:
        said["failed"] = True
    return said
