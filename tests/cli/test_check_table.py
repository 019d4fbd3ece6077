"""The terminal's table: it fits its width, and its footnotes carry the reasons."""

from __future__ import annotations

import pytest

from dualad.cli.check import format_failures, format_reports, format_summary
from dualad.testing import CheckReport, Mismatch, Outcome, Row

MISMATCH = Mismatch("d out[1] / d x[0]", 2.5, 2.0, 1e-7, 2)
REPORT = CheckReport(
    "file.py:f",
    "point 1 (1.0)",
    (
        Row("value", "ok", (Outcome("numpy", "ok", 0.0),), seconds=1e-4),
        Row(
            "jvp",
            "ok",
            (Outcome("jax", "unavailable", reason="no item assignment"), Outcome("differences", "ok", 3e-12)),
        ),
        Row(
            "vjp",
            "mismatch",
            (Outcome("differences", "mismatch", 0.25, mismatch=MISMATCH), Outcome("dot", "ok", 1e-16)),
        ),
        Row("hvp", "error", message="TypeError: no"),
        Row(
            "jacfwd",
            "unchecked",
            (Outcome("jax", "unavailable", reason="no item assignment"),),
            "no oracle could judge",
        ),
        Row("jacrev", "skipped", message="too large"),
    ),
    3,
    2,
)


@pytest.mark.parametrize("width", [200, 100, 72, 40])
def test_it_fits_its_width(width):
    text = format_reports([REPORT], width=width, coloured=False)
    assert max(len(line) for line in text.splitlines()) <= width
    for word in ("jvp", "mismatch", "unchecked", "skipped", "3e-12", "WRONG 2e-01"):
        assert word in text


def test_reasons_are_footnotes_said_once():
    text = format_reports([REPORT, REPORT], width=120, coloured=False)
    assert text.count("no item assignment") == 1
    assert text.count("n/a [2]") == 4 and text.count("skipped [1]") == 2
    assert "[1] too large" in text and "[2] jax: no item assignment" in text


def test_failures_name_function_quantity_oracle_and_entry():
    text = format_failures([REPORT], coloured=False)
    assert (
        "file.py:f at point 1 (1.0): vjp disagrees with differences: d out[1] / d x[0] is 2.5, differences has 2"
        in text
    )
    assert "hvp: TypeError: no" in text and "jacfwd: no oracle could judge" in text
    assert len(text.splitlines()) == 3


def test_the_summary_counts():
    text = format_summary([REPORT], 1.25, coloured=False)
    assert text == "1 function, 1 point, 6 rows: 2 ok, 1 mismatched, 1 raised, 1 unchecked, 1 skipped (1.2 s)"


def test_colours_only_on_request():
    assert "\033[" in format_reports([REPORT], width=100, coloured=True)
    assert "\033[" not in format_reports([REPORT], width=100, coloured=False)
