"""Log records: a code for each event, documented, and no import of logging by who wants none."""

from __future__ import annotations

import io
import logging
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import dualad as da
from dualad.base import terminal
from dualad.base.log import EVENTS, log
from dualad.base.terminal import Timed
from dualad.compile import trust


def codes(caplog) -> list[str]:
    return [r.code for r in caplog.records if r.name == "dualad"]


def test_every_event_is_in_the_reference():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "log-records.md").read_text()
    rows = re.findall(r"^\| (DAL\d+) \| (\w+) \| ([^|]+?) \|", page, re.MULTILINE)
    assert rows == [(code, logging.getLevelName(level), name) for code, (level, name) in EVENTS.items()]


def test_a_record_has_its_code(caplog):
    with caplog.at_level(logging.DEBUG, "dualad"):
        log("DAL004", "%s failed", "planning", error=ValueError("no"))
    first, second = caplog.records
    assert first.getMessage() == "[DAL004] planning failed" and first.code == second.code == "DAL004"
    assert (first.levelno, second.levelno) == (logging.WARNING, logging.DEBUG) and second.exc_info


def test_a_trace_its_code_and_a_retrace_are_logged(caplog):
    scale = 1.0
    f = da.jit(lambda x: np.sum(x) * scale)
    with caplog.at_level(logging.INFO, "dualad"):
        f(np.ones(3))
        f(np.ones(3))
        scale = 2.0
        assert f(np.ones(3)) == 6.0
    assert [c for c in codes(caplog) if c != "DAL009"] == ["DAL001", "DAL003", "DAL002", "DAL003"]


def test_a_part_of_the_compiler_that_fails_is_logged(caplog, monkeypatch):
    monkeypatch.setattr(trust, "STRICT", False)
    assert trust.attempt("planning", lambda: 1 // 0, 3) == 3
    assert codes(caplog) == ["DAL004"] and "ZeroDivisionError" in caplog.text


def test_a_swallowed_refusal_and_a_second_run_are_logged(caplog, recwarn):
    def swallows(x):
        try:
            return float(x) * x
        except TypeError:
            return x

    def writes(x, y):
        y[0] = x
        return y.sum()

    with caplog.at_level(logging.DEBUG, "dualad"):
        da.grad(da.plain(swallows))(1.0)
        da.grad(writes)(1.0, np.zeros(3))
    found = codes(caplog)
    assert "DAL006" in found and "DAL007" in found


def test_nobody_who_wants_no_records_imports_logging():
    code = "import sys, numpy as np, dualad as da; da.grad(np.sin)(1.0); print('logging' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_long_work_is_shown_on_a_terminal_and_vanishes(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(terminal, "_LONG", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    with Timed("tracing f") as taken:
        until = time.monotonic() + 5.0
        while "tracing f" not in sys.stderr.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert "tracing f, 0 s" in sys.stderr.getvalue() and taken.seconds > 0
    while not sys.stderr.getvalue().endswith("\033[K") and time.monotonic() < until:
        time.sleep(0.01)
    assert sys.stderr.getvalue().endswith("\r\033[K") and Timed.shown is None
