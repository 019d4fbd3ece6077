"""``dualad check``: all derivatives of the named functions against every oracle that applies.

Not for the checks themselves (``dualad.testing``), nor for layouts (``table.py``, ``junit.py``, ``html.py``).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dualad.errors import UsageError
from dualad.testing import ORACLES, CheckReport, check_function
from dualad.testing.report import to_json

from . import html, plots
from .junit import to_junit
from .points import describe_point, parse_point
from .table import format_failures, format_reports, format_summary
from .targets import Target, find_targets
from .terminal import Progress, uses_colour, width

__all__ = ["run"]

_MOST_JSON_ENTRIES = 10_000


def run(options: argparse.Namespace, version: str) -> int:
    """Check, print, write the files; return the exit status."""
    for name in (options.junit, options.html, None if options.json == "-" else options.json):
        _require_writable(name)
    targets = [target for text in options.targets for target in find_targets(text)]
    work = [(target, points_of(target, options.at, len(targets))) for target in targets]
    oracles = tuple(options.oracle) or ORACLES
    progress = Progress(quiet=options.quiet)
    start = time.perf_counter()
    reports: list[CheckReport] = []
    for target, points in work:
        shared: dict = {}
        for k, point in enumerate(points, start=1):
            progress.prefix = f"[{len(reports) + 1}/{sum(len(p) for _, p in work)}] {target.label}, point {k}: "
            reports.append(
                check_function(
                    target.function,
                    point,
                    target=target.label,
                    point=f"point {k} ({describe_point(point)})",
                    rtol=options.rtol,
                    atol=options.atol,
                    seed=options.seed,
                    oracles=oracles,
                    skip={**target.skip, **dict.fromkeys(options.skip, "left out by --skip")},
                    jacobian_limit=options.jacobian_limit,
                    source=(target.module, target.name),
                    progress=progress,
                    shared=shared,
                )
            )
    progress.clear()
    seconds = time.perf_counter() - start
    settings = {
        "rtol": options.rtol,
        "atol": options.atol,
        "seed": options.seed,
        "oracles": ", ".join(oracles),
        "dualad": version,
    }
    _report(reports, options, seconds, settings)
    return 0 if all(report.ok for report in reports) else 1


def points_of(target: Target, at: Sequence[str], targets: int = 1) -> list[tuple]:
    """Return the points of one function: those of ``--at``, else those its file declares."""
    if at and targets > 1:
        raise UsageError(
            f"You gave --at for {targets} functions.",
            "A point is the list of one function's arguments.",
            "Name one function: path/to/file.py:function.",
        )
    points = [parse_point(text, target.function) for text in at] or list(target.points)
    if not points:
        where, name = target.label.rpartition(":")[::2]
        raise UsageError(
            f"You asked for derivatives of {target.label}.",
            "There is no point to take them at: the file declares none for it, and there is no --at.",
            f"Write --at '[[1.0, 2.0]]' (a list of all arguments), or put into {where}:\n"
            f'    __dualad__ = {{"{name}": [(np.array([1.0, 2.0]),)]}}',
        )
    return points


def _report(reports: list[CheckReport], options: argparse.Namespace, seconds: float, settings: dict) -> None:
    """Print the table and write the files."""
    # Standard output belongs to the JSON when that is asked for; the table then goes where people look.
    stream = sys.stderr if options.json == "-" else sys.stdout
    coloured = uses_colour(stream)
    summary = format_summary(reports, seconds, coloured=False)
    if not options.quiet:
        print(format_reports(reports, width=width(stream), coloured=coloured), file=stream)
        print(file=stream)
    failures = format_failures(reports, coloured=coloured)
    if failures:
        print(failures + "\n", file=stream)
    print(format_summary(reports, seconds, coloured=coloured), file=stream)
    if options.json:
        text = json.dumps(_json(reports, settings, seconds), indent=2, allow_nan=False)
        if options.json == "-":
            print(text)
        else:
            _write(options.json, text + "\n")
    if options.junit:
        _write(options.junit, to_junit(reports))
    if options.html:
        _write(options.html, html.to_html(reports, summary=summary, settings=settings))
        if not plots.has_matplotlib():
            print(
                "the HTML report has no plots: matplotlib is not installed (pip install 'dualad[viz]')", file=sys.stderr
            )


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


def _require_writable(name: str | None) -> None:
    """Refuse a file that can't be written before the work is done, not after."""
    if name is None:
        return
    path = Path(name)
    if path.is_dir() or (path.parent.exists() and not path.parent.is_dir()):
        raise UsageError(
            f"You asked for the report {name}.",
            "It is a folder." if path.is_dir() else f"{path.parent} is no folder.",
            "Name a file in a folder.",
        )


def _write(name: str, text: str) -> None:
    path = Path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"You asked for the report {name}.", f"It can't be written: {error}.", "Name another file."
        ) from error
