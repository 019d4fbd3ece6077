"""The profiler in the user's hands: ``with dualad.profile() as p:``.

Not for: how events are made (``recorder.py``, ``watch.py``) or shown (``table.py``, ``chrome.py``).
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter_ns

from ...errors import ArgumentError
from .averages import Average, averages
from .chrome import chrome_trace
from .event import Event
from .recorder import begin, end, listeners
from .table import table
from .watch import listen, unlisten

__all__ = ["profile"]


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
    >>> import numpy as np
    >>> import dualad as da
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

    # ── what was seen ────────────────────────────────────────────────────────────────────────────────────────────

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
        >>> import numpy as np
        >>> import dualad as da
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
        >>> import dualad as da
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
        >>> import dualad as da
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
