"""The table of a check in a terminal: quantities down, oracles across, reasons as footnotes.

It fits the width it is given: the times go first, then the names become short, then each oracle gets its own line.

Not for deciding what is right.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence

from dualad.testing import CheckReport, Outcome, Row
from dualad.testing.report import without_transform

from ..base.terminal import colour

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
    texts = iter(
        [
            f"{target} at {_places(points)}: {', '.join(stopped)}: {message}"
            for (target, _), (points, stopped, message) in errors.items()
        ]
    )
    return "\n".join(f"{colour('FAILED', 'red', coloured)} {text or next(texts)}" for text in found)


def _places(points: list[str]) -> str:
    return points[0] if len(points) == 1 else f"{points[0]} and {_count(len(points) - 1, 'other')}"


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
    used = [
        c
        for c in _COLUMNS
        if any(o.oracle == c or (c == "loop" and o.oracle == "numpy") for r in report.rows for o in r.outcomes)
    ]
    shown = _fold(report)
    results = [_result(row, notes) for row in shown]
    body = [[_cell(row, column, notes) for column in used] for row in shown]
    for timed, short in ((True, False), (False, False), (False, True)):
        header = ["quantity", "result", *(_SHORT.get(c, c) if short else c for c in used), *(["time"] if timed else [])]
        rows = [
            [row.quantity, result, *cells, *([_seconds(row.seconds)] if timed else [])]
            for row, result, cells in zip(shown, results, body, strict=True)
        ]
        lengths = [max(len(line[k]) for line in [header, *rows]) for k in range(len(header))]
        if sum(lengths) + 2 * len(lengths) <= width:
            return "\n".join([title, *_align(header, rows, lengths, coloured)])
    lines = [title]
    for row, result, cells in zip(shown, results, body, strict=True):
        lines.append(f"  {row.quantity}: {colour(result, _COLOURS[row.status], coloured)}")
        lines += [f"    {column} {cell}" for column, cell in zip(used, cells, strict=True) if cell != "-"]
    return "\n".join(lines)


def _fold(report: CheckReport) -> Sequence[Row]:
    """Return the rows, or one for all where one error stopped everything; it is listed below the tables."""
    rows = report.rows
    if len(rows) < 2 or len(report.raised) != 1 or any(row.status != "error" for row in rows):
        return rows
    seconds = sum(row.seconds for row in rows)
    return [dataclasses.replace(rows[0], quantity=f"all {len(rows)}", seconds=seconds)]


def _align(header: list[str], rows: list[list[str]], lengths: list[int], coloured: bool) -> list[str]:
    lines = [
        colour("  " + "  ".join(h.ljust(n) for h, n in zip(header, lengths, strict=True)).rstrip(), "dim", coloured)
    ]
    for row in rows:
        cells = [cell.ljust(n) for cell, n in zip(row, lengths, strict=True)]
        cells[1] = colour(cells[1], _COLOURS[row[1].split()[0]], coloured)
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _result(row: Row, notes: dict[str, int]) -> str:
    """Show the verdict, with a footnote where it needs one; failures are listed in full below the table."""
    if not row.message or row.failed:
        return row.status
    return f"{row.status} [{notes.setdefault(row.message, len(notes) + 1)}]"


def _cell(row: Row, column: str, notes: dict[str, int]) -> str:
    """Show what an oracle said: the largest relative error, or a footnote."""
    outcome = next((o for o in row.outcomes if o.oracle == column), None)
    if outcome is None and column == "loop":
        outcome = next((o for o in row.outcomes if o.oracle == "numpy"), None)
    if outcome is None:
        return "-"
    error = "" if outcome.max_error is None else "exact" if outcome.max_error == 0 else f"{outcome.max_error:.0e}"
    text = {"ok": error, "mismatch": f"WRONG {error}", "unavailable": "n/a"}[outcome.status]
    return f"{text} [{_note(outcome, notes)}]" if outcome.reason else text


def _note(outcome: Outcome, notes: dict[str, int]) -> int:
    return notes.setdefault(f"{outcome.oracle}: {outcome.reason}", len(notes) + 1)


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
