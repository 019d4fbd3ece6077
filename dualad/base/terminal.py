"""Terminals: their width, colour, tables, progress on standard error: of commands, of ``progress=True``, of long work.

Not for: the content of any output.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, TextIO

__all__ = ["Progress", "Timed", "aligned", "colour", "seen_length", "uses_colour", "width"]

#: seconds after which work is shown
_LONG = 1.0

_CODES = {"green": "32", "red": "31", "yellow": "33", "dim": "2", "bold": "1"}


def width(stream: TextIO) -> int:
    """Return how many characters a line of the stream has; 100 where nobody can know."""
    return shutil.get_terminal_size((100, 24)).columns if _is_terminal(stream) or "COLUMNS" in os.environ else 100


def uses_colour(stream: TextIO) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set."""
    return _is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour(text: str, name: str, on: bool) -> str:
    """Wrap text in a terminal colour."""
    return f"\033[{_CODES[name]}m{text}\033[0m" if on else text


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return the lines of a table, two spaces between its columns; the numbers in ``right`` are those set to the right.

    Examples
    --------
    >>> aligned([("op", "calls"), ("multiply", "3")], right=[1])
    ['op        calls', 'multiply      3']
    """
    widths = [max(map(seen_length, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            blank = " " * (width - seen_length(cell))
            cells.append(blank + cell if i in right else cell + blank)
        lines.append("  ".join(cells).rstrip())
    return lines


def seen_length(text: str) -> int:
    """Return how many characters of a text are seen: all but its colours."""
    return len(re.sub(r"\033\[\d+m", "", text))


def _is_terminal(stream: TextIO) -> bool:
    return bool(getattr(stream, "isatty", lambda: False)())


class Progress:
    """A bar on standard error, as a context: how much is done, and the present task.

    On a terminal it is one line that is rewritten and vanishes at the end; without a bar where the `total` number of
    tasks is 0. With `of`, the words for the things counted, it stays, with the time it took, and is tqdm's if that is
    installed. Elsewhere (a CI log, a file), and if it is to be quiet, there is none.
    """

    def __init__(self, stream: TextIO | None = None, *, total: int = 0, quiet: bool = False, of: str = "") -> None:
        self.stream = sys.stderr if stream is None else stream
        self.live = _is_terminal(self.stream) and os.environ.get("TERM") != "dumb" and not quiet
        self.total, self.done, self.of = total, 0, of
        self.began, self.last = time.monotonic(), float("-inf")
        self.shown = False
        self.prefix = ""
        self.tqdm: Any = None
        if self.live and of and importlib.util.find_spec("tqdm") is not None:
            self.tqdm = importlib.import_module("tqdm.auto").tqdm(total=total or None, desc=of, leave=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.tqdm is not None:
            self.tqdm.close()
        elif self.of and self.live:
            self._write(f"{self._line(self._taken())}\n")
        else:
            self.clear()

    def __call__(self, text: str = "") -> None:
        """Show the present task; ten times a second is often enough."""
        now = time.monotonic()
        if self.live and now - self.last >= 0.1:
            self.last, self.shown = now, True
            self._write(self._line(text))

    def advance(self, text: str = "", count: int = 1) -> None:
        """Count more tasks as done."""
        self.done += count
        if self.tqdm is not None:
            self.tqdm.update(count)
        else:
            self(self._taken() if self.of else text)

    def counting(self, f: Callable, share: Callable[..., float] | None = None) -> Callable:
        """Return a function that counts its calls as done, or up to the share of the total that its arguments tell."""
        if not self.live:
            return f

        @functools.wraps(f)
        def counted(*args: Any, **named: Any) -> Any:
            count = 1 if share is None else int(self.total * share(*args)) - self.done
            if count > 0:
                self.advance(count=count)
            return f(*args, **named)

        return counted

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self.shown:
            self._write("")
            self.shown = False

    def _write(self, line: str) -> None:
        self.stream.write(f"\r\033[K{line}")
        self.stream.flush()

    def _taken(self) -> str:
        return f"{self.of}, {time.monotonic() - self.began:.1f} s"

    def _line(self, text: str) -> str:
        columns = width(self.stream) - 1
        said = f"{self.prefix}{text}"
        if not self.total:
            return (f"{self.done} {said}" if self.of else said)[:columns]
        full, empty = "█░" if _can_write("█░", self.stream) else "#."
        length = min(24, max(4, columns // 4))
        filled = length * self.done // self.total
        count = f" {self.done}/{self.total} "
        bar = colour(full * filled, "green", uses_colour(self.stream)) + empty * (length - filled)
        return bar + count + said[: max(0, columns - length - len(count))]


class Timed:
    """A context that knows how long it took; on a terminal, work of more than a second is shown while it goes on."""

    __slots__ = ("_bar", "_before", "_over", "_quiet", "began", "seconds", "what")

    #: the innermost one that is shown, of any thread
    shown: Timed | None = None

    def __init__(self, what: str, quiet: bool = False) -> None:
        self.what, self.seconds, self._quiet = what, 0.0, quiet

    def __enter__(self) -> Timed:
        self.began, self._before, self._bar = time.perf_counter(), Timed.shown, Progress(quiet=self._quiet)
        if self._bar.live:
            Timed.shown, self._over = self, threading.Event()
            threading.Thread(target=self._show, daemon=True, name="dualad progress").start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.seconds = time.perf_counter() - self.began
        if self._bar.live:
            Timed.shown = self._before
            self._over.set()

    def _show(self) -> None:
        wait = _LONG
        while not self._over.wait(wait):
            wait = 0.2
            if Timed.shown is self:
                self._bar(f"{self.what}, {time.perf_counter() - self.began:.0f} s")
        self._bar.clear()


def _can_write(text: str, stream: TextIO) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
