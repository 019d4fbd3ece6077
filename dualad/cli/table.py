"""The table of a check in a terminal: quantities down, oracles across, reasons as footnotes.

It fits the width it is given: the times go first, then the names become short, then each oracle gets its own line.

Not for deciding what is right.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence

from dualad.testing import CheckReport, Row
from dualad.testing.report import without_transform

from ..base.terminal import aligned, colour, seen_length

__all__ = ["format_failures", "format_reports", "format_summary"]

_COLUMNS = ("jax", "differences", "complex-step", "dot", "loop")
_SHORT = {"differences": "diff", "complex-step": "cstep"}
_COLOURS = {"ok": "green", "mismatch": "red", "error": "red", "unchecked": "red", "skipped": "yellow"}


def format_reports(reports: Sequence[CheckReport], *, width: int, coloured: bool) -> str:
    """Lay out all reports, with the reasons why oracles could not run below them."""
    notes: dict[str, int] = {}
    tables = [_one(report, notes, width, coloured) for report in reports]
    lines = ["\n\n".join(tables)]
    if notes:
        lines.append("")
        for text, number in notes.items():
            lines.append(textwrap.fill(f"[{number}] {text}", width, subsequent_indent="    ", break_on_hyphens=False))
    return "\n".join(lines)


def format_failures(reports: Sequence[CheckReport], *, coloured: bool) -> str:
    """List every failure once: function, points, quantities, and the error or the worst entry."""
    found: list[str] = []
    errors: dict[tuple[str, str], tuple[list[str], list[str], str]] = {}
    for report in reports:
        for message, quantities in report.raised.items():
            key = report.target, without_transform(message)
            points = errors.setdefault(key, ([], quantities, message))[0]
            points.append(report.point)
            if len(points) == 1:
                found.append("")  # its place, for the points are not all known yet
        found += report.disagreements
    texts = []
    for (target, _), ((first, *others), stopped, message) in errors.items():
        more = f" and {_count(len(others), 'other')}" if others else ""
        texts.append(f"{target} at {first}{more}: {', '.join(stopped)}: {message}")
    return "\n".join(f"{colour('FAILED', 'red', coloured)} {text or texts.pop(0)}" for text in found)


def format_summary(reports: Sequence[CheckReport], seconds: float, *, coloured: bool) -> str:
    """Say the whole in one line."""
    rows = [row for report in reports for row in report.rows]
    counts = {status: sum(row.status == status for row in rows) for status in _COLOURS}
    words = {"ok": "ok", "mismatch": "mismatched", "error": "raised", "unchecked": "unchecked", "skipped": "skipped"}
    parts = [colour(f"{n} {words[s]}", _COLOURS[s], coloured) for s, n in counts.items() if n]
    functions = len({report.target for report in reports})
    return (
        f"{_count(functions, 'function')}, {_count(len(reports), 'point')}, {_count(len(rows), 'row')}: "
        f"{', '.join(parts)} ({seconds:.1f} s)"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _one(report: CheckReport, notes: dict[str, int], width: int, coloured: bool) -> str:
    size = f": {report.inputs} -> {report.outputs}" if report.outputs else ""
    title = colour(f"{report.target} at {report.point}{size}", "bold", coloured)
    if report.cause:
        title += "\n" + colour(textwrap.indent(report.cause, "  "), "red", coloured)
    asked = {"loop" if o.oracle == "numpy" else o.oracle for row in report.rows for o in row.outcomes}
    used = [name for name in _COLUMNS if name in asked]
    # Failures are listed in full below the table; other messages are footnotes, before those of the oracles.
    shown = [
        (row, f"{row.status} [{_note(row.message, notes)}]" if row.message and not row.failed else row.status)
        for row in _fold(report)
    ]
    body = []
    for row, result in shown:
        took = f"{row.seconds * 1e3:.1f} ms" if row.seconds < 1 else f"{row.seconds:.1f} s"
        result = colour(result, _COLOURS[row.status], coloured)
        body.append(["  " + row.quantity, result, *[_cell(row, name, notes) for name in used], took])
    for timed, short in ((True, False), (False, False), (False, True)):
        header = ["  quantity", "result", *[_SHORT.get(name, name) if short else name for name in used], "time"]
        head, *lines = aligned([row if timed else row[:-1] for row in (header, *body)])
        if max(map(seen_length, (head, *lines))) <= width:
            return "\n".join([title, colour(head, "dim", coloured), *lines])
    lines = [title]
    for quantity, result, *cells, _ in body:
        lines.append(f"{quantity}: {result}")
        lines += [f"    {name} {cell}" for name, cell in zip(used, cells, strict=True) if cell != "-"]
    return "\n".join(lines)


def _fold(report: CheckReport) -> Sequence[Row]:
    """Return the rows, or one for all where one error stopped everything; it is listed below the tables."""
    rows = report.rows
    if len(rows) < 2 or len(report.raised) != 1 or any(row.status != "error" for row in rows):
        return rows
    seconds = sum(row.seconds for row in rows)
    return [dataclasses.replace(rows[0], quantity=f"all {len(rows)}", seconds=seconds)]


def _cell(row: Row, name: str, notes: dict[str, int]) -> str:
    """Show what an oracle said: the largest relative error, or a footnote."""
    names = (name, "numpy") if name == "loop" else (name,)
    outcome = next((o for o in row.outcomes if o.oracle in names), None)
    if outcome is None:
        return "-"
    error = "" if outcome.max_error is None else "exact" if outcome.max_error == 0 else f"{outcome.max_error:.0e}"
    text = {"ok": error, "mismatch": f"WRONG {error}", "unavailable": "n/a"}[outcome.status]
    return f"{text} [{_note(f'{outcome.oracle}: {outcome.reason}', notes)}]" if outcome.reason else text


def _note(text: str, notes: dict[str, int]) -> int:
    return notes.setdefault(text, len(notes) + 1)
