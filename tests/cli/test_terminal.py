"""Progress: rewritten on a terminal, rare in a log, silent when asked."""

from __future__ import annotations

import io

from dualad.cli import terminal
from dualad.cli.terminal import Progress, colour, uses_colour, width


class Terminal(io.StringIO):
    def isatty(self):
        return True


def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


def test_on_a_terminal_one_line_is_rewritten_and_vanishes(monkeypatch):
    now, stream = clock(monkeypatch), Terminal()
    progress = Progress(stream)
    for k in range(5):
        now[0] += 0.2
        progress(f"step {k}")
    progress.clear()
    assert "\n" not in stream.getvalue() and "step 4" in stream.getvalue()
    assert stream.getvalue().endswith("\r\033[K")


def test_in_a_log_quick_work_says_nothing_and_long_work_little(monkeypatch):
    now, stream = clock(monkeypatch), io.StringIO()
    progress = Progress(stream)
    for k in range(100):
        now[0] += 0.1
        progress(f"step {k}")
    progress.clear()
    assert 1 <= len(stream.getvalue().splitlines()) <= 2
    assert "\r" not in stream.getvalue() and "\033" not in stream.getvalue()


def test_quiet(monkeypatch):
    now, stream = clock(monkeypatch), Terminal()
    progress = Progress(stream, quiet=True)
    now[0] += 100.0
    progress("step")
    assert stream.getvalue() == ""


def test_colour_only_where_it_shows(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert uses_colour(Terminal()) and not uses_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not uses_colour(Terminal())
    assert colour("x", "red", False) == "x" and colour("x", "red", True) == "\033[31mx\033[0m"


def test_width_follows_the_environment(monkeypatch):
    monkeypatch.setenv("COLUMNS", "57")
    assert width(io.StringIO()) == 57
    monkeypatch.delenv("COLUMNS")
    assert width(io.StringIO()) == 100
