"""Progress: a bar on a terminal, nothing in a log, silent when asked."""

from __future__ import annotations

import io

from dualad.base import terminal
from dualad.base.terminal import Progress, colour, uses_colour, width


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


def test_the_bar_counts_and_fits_the_terminal(monkeypatch):
    now, stream = clock(monkeypatch), Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    progress = Progress(stream, total=4)
    for k in range(4):
        now[0] += 0.2
        progress.advance(f"package/module.py:a_long_name_{k}")
    lines = [line.removeprefix("\033[K") for line in stream.getvalue().split("\r")[1:]]
    assert [line.split()[1] for line in lines] == ["1/4", "2/4", "3/4", "4/4"]
    assert [line.count("█") for line in lines] == [2, 4, 6, 9] and all(len(line) <= 39 for line in lines)


def test_a_terminal_without_blocks_gets_plain_characters(monkeypatch):
    now = clock(monkeypatch)

    class Old(io.TextIOWrapper):
        def isatty(self):
            return True

    raw = io.BytesIO()
    progress = Progress(Old(raw, encoding="ascii"), total=2)
    now[0] += 1.0
    progress.advance("x")
    assert b"#" in raw.getvalue() and b"1/2" in raw.getvalue()


def test_in_a_log_there_is_no_bar(monkeypatch):
    now, stream = clock(monkeypatch), io.StringIO()
    progress = Progress(stream, total=100)
    for k in range(100):
        now[0] += 10.0
        progress.advance(f"step {k}")
    progress.clear()
    assert stream.getvalue() == ""


def test_quiet(monkeypatch):
    now, stream = clock(monkeypatch), Terminal()
    progress = Progress(stream, quiet=True)
    now[0] += 100.0
    progress.advance("step")
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
