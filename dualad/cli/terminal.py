"""What the commands share about terminals: width, colour, and progress on standard error.

Not for the content of any output.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TextIO

__all__ = ["Progress", "colour", "uses_colour", "width"]

_CODES = {"green": "32", "red": "31", "yellow": "33", "dim": "2", "bold": "1"}


def width(stream: TextIO) -> int:
    """Return how many characters a line of the stream has; 100 where nobody can know."""
    return shutil.get_terminal_size((100, 24)).columns if _is_terminal(stream) or "COLUMNS" in os.environ else 100


def uses_colour(stream: TextIO) -> bool:
    """Say whether to colour: on a terminal, unless NO_COLOR is set."""
    return _is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour(text: str, name: str, on: bool) -> str:
    """Wrap text in a terminal colour."""
    return f"\033[{_CODES[name]}m{text}\033[0m" if on else text


def _is_terminal(stream: TextIO) -> bool:
    return bool(getattr(stream, "isatty", lambda: False)())


class Progress:
    """One line on standard error that says what is being done.

    On a terminal the line is rewritten and vanishes at the end; elsewhere (a CI log) a line is written only when more
    than five seconds went by since the last.
    """

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.quiet = quiet
        self.live = _is_terminal(self.stream)
        self.last = time.monotonic()
        self.shown = False
        self.prefix = ""

    def __call__(self, text: str) -> None:
        """Say what is being done now."""
        if self.quiet:
            return
        now = time.monotonic()
        if now - self.last < (0.1 if self.live else 5.0):
            return
        self.last = now
        line = f"{self.prefix}{text}"
        if self.live:
            self.stream.write(f"\r\033[K{line[: width(self.stream) - 1]}")
            self.shown = True
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self.shown:
            self.stream.write("\r\033[K")
            self.stream.flush()
            self.shown = False
