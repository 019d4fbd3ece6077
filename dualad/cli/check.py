"""``dualad check``: all derivatives of the named functions against every oracle that applies.

JUnit files, several processes and a summary in Markdown are pytest's, through the plugin. Not for the checks themselves
(``dualad.testing``).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import Any

from dualad.base.version import __version__
from dualad.testing import ORACLES, CheckReport, Row, check
from dualad.testing.report import to_json, without_transform

from ..base.terminal import Progress, aligned, colour, seen_length, uses_colour, width
from . import html
from .files import require_writable, write, write_json
from .targets import Target, describe_point, find_targets, nearby, points_of

__all__ = ["format_failures", "format_reports", "format_summary", "run"]

# It fits the width it is given: the times go first, then the names become short, then each oracle gets its own line.

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


_MOST_JSON_ENTRIES = 10_000


def run(options: argparse.Namespace) -> int:
    """Check, print, write the files; return the exit status."""
    for name in (options.html, None if options.json == "-" else options.json):
        require_writable(name)
    work = _work(options)
    count = sum(len(points) for _, points in work)
    if options.list:
        for target, points in work:
            print(f"{target.label}  ({len(points)} point{'' if len(points) == 1 else 's'})")
            for name, _ in points:
                print(f"    {name}")
        print(f"{len(work)} function{'' if len(work) == 1 else 's'}, {count} to check")
        return 0
    oracles = tuple(dict.fromkeys(options.oracle)) or ORACLES
    start = time.perf_counter()
    reports: list[CheckReport] = []
    # Where standard output is a JSON document, what the user's functions print goes elsewhere.
    output = contextlib.redirect_stdout(sys.stderr) if options.json == "-" else contextlib.nullcontext()
    with Progress(total=count, quiet=options.quiet) as progress, output:
        for report in _reports(work, oracles, options, progress):
            reports.append(report)
            if options.fail_fast and not report.ok:
                break
    seconds = time.perf_counter() - start
    settings = {name: getattr(options, name) for name in ("rtol", "atol", "seed", "samples", "order")}
    settings |= {"oracles": ", ".join(oracles), "dualad": __version__}
    _report(reports, options, seconds, settings, count - len(reports))
    return 0 if all(report.ok for report in reports) else 1


def _work(options: argparse.Namespace) -> list[tuple[Target, list[tuple[str, tuple]]]]:
    """Return each function that is named, once, with its points and samples near them, each with its name."""
    found: dict[Any, Target] = {}
    for text in options.targets:
        for target in find_targets(text):
            # By its file and by its folder it is one.
            found.setdefault((getattr(target.module, "__file__", target.module), target.name), target)
    work = []
    for target in found.values():
        named = []
        for k, point in enumerate(points_of(target, options.at, len(found)), start=1):
            words = describe_point(point)
            named.append((f"point {k} ({words})", point))
            for n in range(1, options.samples + 1):
                named.append((f"point {k}, sample {n} ({words})", nearby(point, (options.seed, k, n))))
        work.append((target, named))
    return work


def _reports(
    work: Sequence[tuple[Target, list[tuple[str, tuple]]]],
    oracles: tuple[str, ...],
    options: argparse.Namespace,
    progress: Progress,
) -> Iterator[CheckReport]:
    """Yield what the check says of each function at each of its points, in their order."""
    skip = dict.fromkeys(options.skip, "left out by --skip")
    for target, points in work:
        shared: dict[Any, Any] = {}  # what JAX compiled serves all points of a function
        for number, (name, point) in enumerate(points, start=1):
            progress.prefix = f"{target.label}, point {number}: "
            report = check(
                target.function,
                *point,
                name=target.label,
                point=name,
                order=options.order,
                rtol=options.rtol,
                atol=options.atol,
                seed=options.seed,
                oracles=oracles,
                skip={**target.skip, **skip},
                jacobian_limit=options.jacobian_limit,
                progress=progress,
                shared=shared,
                raise_exception=False,
            )
            progress.advance("done")
            yield report


def _report(reports: list[CheckReport], options: argparse.Namespace, seconds: float, settings: dict, left: int) -> None:
    """Print the table and write the files."""
    # Standard output belongs to the JSON when that is asked for; the table then goes where people look.
    stream = sys.stderr if options.json == "-" else sys.stdout
    coloured = uses_colour(stream)
    rest = f"; stopped at the first failure, {left} not checked" if left else ""
    summary = format_summary(reports, seconds, coloured=False) + rest
    if not options.quiet:
        print(format_reports(reports, width=width(stream), coloured=coloured), file=stream)
        print(file=stream)
    failures = format_failures(reports, coloured=coloured)
    if failures:
        print(failures + "\n", file=stream)
    print(format_summary(reports, seconds, coloured=coloured) + rest, file=stream)
    if options.json:
        write_json(options.json, _json(reports, settings, seconds), indent=2)
    if options.html:
        write(options.html, html.to_html(reports, summary=summary, settings=settings))


def _json(reports: list[CheckReport], settings: dict, seconds: float) -> dict:
    small = [
        report
        if report.jacobian is None or report.jacobian.size <= _MOST_JSON_ENTRIES
        else dataclasses.replace(report, jacobian=None)
        for report in reports
    ]
    return {
        "ok": all(report.ok for report in reports),
        "settings": settings,
        "seconds": seconds,
        "failures": [failure for report in reports for failure in report.failures],
        "reports": to_json(small),
    }
