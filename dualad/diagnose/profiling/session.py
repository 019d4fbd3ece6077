"""The profiler in the user's hands: ``with dualad.profile() as p:``.

For: the context manager, and the record as text and in Chrome's trace format (the *JSON array format*). Not for: how
events are made (``recorder.py``).
"""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from ...base.terminal import aligned
from ...errors import ArgumentError
from .event import Average, Event, averages
from .recorder import begin, end, listen, listeners, unlisten

__all__ = ["profile"]


def seconds(t: float) -> str:
    """Return a time with its unit: ``12.3 µs``."""
    for unit, factor in (("s ", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if t * factor >= 1:
            return f"{t * factor:.{2 if t * factor < 10 else 1}f} {unit}"
    return f"{t * 1e6:.2f} µs"


def memory(n: int) -> str:
    """Return a number of bytes with its unit: ``1.5 KiB``."""
    size = float(n)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def table(rows: Sequence[Average], *, limit: int, elapsed: float, dropped: int) -> str:
    """Lay out the operations, then the transforms and ranges."""
    parts = []
    whole = sum(row.self_time for row in rows)
    for title, some in (
        ("operation", [r for r in rows if r.phase not in ("transform", "range")]),
        ("transform or range", [r for r in rows if r.phase in ("transform", "range")]),
    ):
        if some:
            parts.append(_lines(title, some[:limit], whole))
            if len(some) > limit:
                parts.append(f"... and {len(some) - limit} more rows (limit={len(some)} shows them)")
    said = f"{seconds(whole).strip()} in what was seen, {seconds(elapsed).strip()} in the block with the profiler's own"
    parts.append(said if rows else f"nothing was seen in {seconds(elapsed).strip()}: no transform ran")
    if dropped:
        parts.append(f"{dropped} more events were dropped: profile(limit=...) keeps them")
    return "\n".join(parts)


def _lines(title: str, rows: Sequence[Average], whole: float) -> str:
    shapes, threads = any(r.shapes is not None for r in rows), any(r.thread is not None for r in rows)
    head = [title, "phase", "calls", "self", "", "total", "mean", "memory"]
    head += ["shapes"] * shapes + ["thread"] * threads + ["line"]
    body = []
    for r in rows:
        share = f"{r.self_time / whole:.1%}" if whole else ""
        cells = [r.name, r.phase, str(r.calls), seconds(r.self_time), share, seconds(r.total), seconds(r.mean)]
        cells.append(memory(r.bytes))
        cells += [r.shapes or ""] * shapes + [str(r.thread)] * threads
        cells.append(str(r.line or ""))
        body.append(cells)
    first, *lines = aligned([head, *body], right=range(2, 8))
    return "\n".join([first, "-" * max(map(len, (first, *lines))), *lines])


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


class profile:
    """Measure what derivatives cost, operation by operation.

    Parameters
    ----------
    threads : {"all", "own"}
        Whose operations are measured: those of every thread of the process, or of the thread that began.
    limit : int
        How many events are kept, oldest first; of what comes after them only the number is known (``dropped``).

    Attributes
    ----------
    events : list of Event
        What happened, in the order it ended. An operation inside another one (the tangent's product inside ``sin``)
        is an event of its own and ends first.
    elapsed : float
        Seconds that the block took, with the profiler's own time.
    dropped : int
        Events beyond ``limit``.

    Raises
    ------
    ArgumentError
        For other threads than ``"all"`` and ``"own"``; by ``table`` and ``rows``, for a key that they do not have.

    Notes
    -----
    An operation is measured where a transform sees it: a function called with plain arrays never enters dualad. Which
    phases there are is told in :data:`dualad.diagnose.profiling.event.PHASES`. Times are without the profiler's own, as
    far as it can tell; an event takes some tens of microseconds, and nothing is taken while no profiler is on.

    Examples
    --------
    >>> with da.profile() as p:
    ...     with da.profile.range("loss"):
    ...         gradient = da.grad(lambda x: np.sum(np.sin(x) ** 2))(np.ones(3))
    >>> [(row.name, row.calls) for row in p.rows(phase="transpose", sort="name")]
    [('multiply', 2), ('sum', 1)]
    >>> {e.line.function for e in p.events if e.phase == "transpose"}
    {'<lambda>'}
    """

    def __init__(self, *, threads: str = "all", limit: int = 1_000_000) -> None:
        if threads not in ("all", "own"):
            raise ArgumentError(f"profile: threads={threads!r}.", "there are two ways", "use 'all' or 'own'")
        self.events: list[Event] = []
        self.dropped = 0
        self.elapsed = 0.0
        self._threads, self._limit = threads, limit
        self._began = 0
        self._thread: int | None = None

    def __enter__(self) -> profile:
        if self._thread is not None:
            raise ArgumentError(
                "this profiler is on already.", "it measures one block at a time", "make another: dualad.profile()"
            )
        self._thread = threading.get_ident()
        self._began = perf_counter_ns()
        listen(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        unlisten(self)
        self.elapsed += (perf_counter_ns() - self._began) * 1e-9
        self._thread = None

    def take(self, event: Event) -> None:
        """Keep an event that has ended, if it began in this block and, with ``threads="own"``, in this thread."""
        if event.entered < self._began or (self._threads == "own" and event.thread != self._thread):
            return
        if len(self.events) < self._limit:
            self.events.append(event)
        else:
            self.dropped += 1

    # ── ranges ───────────────────────────────────────────────────────────────────────────────────────────────────

    class range:
        """A range with a name, for a block or, as a decorator, for a function; nothing while no profiler is on.

        Parameters
        ----------
        name : str
            What it is called in tables and traces.
        """

        def __init__(self, name: str) -> None:
            self._name = name
            self._open: list[Event | None] = []

        def __enter__(self) -> None:
            self._open.append(begin(self._name, "range") if listeners else None)

        def __exit__(self, *exc_info: object) -> None:
            event = self._open.pop()
            if event is not None:
                event.failed = exc_info[0] is not None
                end(event)

        def __call__(self, f: Callable) -> Callable:
            """Name every call of a function."""

            @functools.wraps(f)
            def ranged(*args, **kwargs):
                with profile.range(self._name):
                    return f(*args, **kwargs)

            return ranged

    # ── the record ───────────────────────────────────────────────────────────────────────────────────────────────

    def rows(
        self, *, sort: str = "self", by: str | Iterable[str] = (), phase: str | Iterable[str] | None = None
    ) -> list[Average]:
        """Sum events up.

        Parameters
        ----------
        sort : {"self", "total", "calls", "bytes", "mean", "name"}
            Largest first; names in alphabetical order.
        by : str or tuple of str
            What else, besides name and phase, tells rows apart: ``"shape"``, ``"line"``, ``"thread"``.
        phase : str or tuple of str, optional
            Only these phases.

        Returns
        -------
        list of Average
            With ``name``, ``phase``, ``calls``, ``total``, ``self_time``, ``mean`` (seconds), ``bytes``, ``shapes``,
            ``line``, ``thread``.

        Raises
        ------
        ArgumentError
            For a key or a phase that does not exist.

        Examples
        --------
        >>> with da.profile() as p:
        ...     out = da.jvp(lambda x: np.sin(np.sin(x)), (0.0,), (1.0,))
        >>> [(row.name, row.phase, row.calls) for row in p.rows(sort="calls", phase="tangent")]
        [('sin', 'tangent', 2)]
        """
        if phase is not None:
            wanted = (phase,) if isinstance(phase, str) else tuple(phase)
            return averages([e for e in self.events if e.phase in wanted], sort, by)
        return averages(self.events, sort, by)

    def table(self, *, sort: str = "self", by: str | Iterable[str] = (), limit: int = 30) -> str:
        """Return a table for the terminal.

        Parameters
        ----------
        sort, by
            As for :meth:`rows`.
        limit : int
            How many rows of operations, and how many of transforms and ranges.

        Returns
        -------
        str
            The table; times in it are with their units.

        Examples
        --------
        >>> with da.profile() as p:
        ...     slope = da.grad(lambda x: x**2)(3.0)
        >>> p.table(sort="name").splitlines()[0].split()
        ['operation', 'phase', 'calls', 'self', 'total', 'mean', 'memory', 'line']
        """
        return table(self.rows(sort=sort, by=by), limit=limit, elapsed=self.elapsed, dropped=self.dropped)

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events in Chrome's trace format, which https://ui.perfetto.dev and ``chrome://tracing`` show.

        Arrows lead from each operation to the transposes of the equations it wrote down.

        Parameters
        ----------
        path : path
            The file, JSON.

        Examples
        --------
        >>> with da.profile() as p:
        ...     slope = da.grad(lambda x: x**2)(3.0)
        >>> p.to_chrome_trace("trace.json")
        """
        Path(path).write_text(chrome_trace(self.events), encoding="utf-8")

    def __repr__(self) -> str:
        state = "on" if self._thread is not None else f"{self.elapsed * 1e3:.3g} ms"
        return f"<profile: {len(self.events)} events, {state}>"

    def __str__(self) -> str:
        return self.table()
