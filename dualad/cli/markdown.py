"""A check as Markdown: the summary that GitHub shows of a job, and the annotations it puts beside the code.

Not for terminals (``table.py``), nor for pages of their own (``html.py``).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Sequence

from dualad.testing import CheckReport

__all__ = ["to_annotations", "to_markdown"]

_MARKS = {"ok": "✅", "mismatch": "❌ wrong", "error": "❌ raised", "unchecked": "❌ unchecked", "skipped": "➖"}


def to_markdown(reports: Sequence[CheckReport], *, summary: str) -> str:
    """Return the summary: one line on all, the failures in full, and a row for each function and point."""
    good = all(report.ok for report in reports)
    parts = [f"## {'✅' if good else '❌'} dualad check", summary + "."]
    failures = [failure for report in reports for failure in report.failures]
    if failures:
        parts.append("\n".join(f"- {_text(failure)}" for failure in failures))
    table = _table(reports)
    parts.append(table if len(reports) <= 20 else f"<details><summary>All results</summary>\n\n{table}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def _table(reports: Sequence[CheckReport]) -> str:
    quantities = list(dict.fromkeys(row.quantity for report in reports for row in report.rows))
    lines = [_line(["function", "point", *quantities, "time"]), "|" + "---|" * (len(quantities) + 3)]
    for report in reports:
        marks = {row.quantity: _MARKS[row.status] for row in report.rows}
        seconds = sum(row.seconds for row in report.rows)
        cells = [f"`{report.target}`", report.point, *(marks.get(q, "") for q in quantities), f"{seconds * 1e3:.0f} ms"]
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _text(text: str) -> str:
    """Keep what Markdown or HTML would read as markup."""
    first, *rest = text.splitlines()
    said = "".join("\\" + c if c in "\\`*_[]<>|" else c for c in first)
    return said if not rest else said + "".join(f"\n      {line}" for line in ("", *rest))


def to_annotations(reports: Sequence[CheckReport], functions: dict[str, Callable]) -> str:
    """Return a command for each function that failed, which GitHub Actions shows beside the function's first line."""
    lines = []
    for report in reports:
        if report.ok:
            continue
        where = _place(functions.get(report.target))
        properties = ",".join(f"{key}={_property(value)}" for key, value in where.items())
        lines.append(f"::error {properties}::{_data(chr(10).join(report.failures))}")
    return "\n".join(lines)


def _place(function: Callable | None) -> dict[str, str]:
    place = {"title": "dualad check"}
    code = getattr(inspect.unwrap(function), "__code__", None) if function is not None else None
    if code is not None:
        place = {"file": os.path.relpath(code.co_filename), "line": str(code.co_firstlineno), **place}
    return place


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
