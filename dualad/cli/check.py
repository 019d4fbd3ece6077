"""``dualad check``: all derivatives of the named functions against every oracle that applies.

JUnit files, several processes and a summary in Markdown are pytest's, through the plugin. Not for the checks themselves
(``dualad.testing``).
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence

from dualad.base.version import __version__
from dualad.testing import ORACLES, CheckReport
from dualad.testing.report import to_json

from ..base.terminal import Progress, uses_colour, width
from . import html
from .files import require_writable, write, write_json
from .runner import Runner, Settings, Task, tasks_of
from .table import format_failures, format_reports, format_summary
from .targets import Target

__all__ = ["run"]

_MOST_JSON_ENTRIES = 10_000


def run(options: argparse.Namespace) -> int:
    """Check, print, write the files; return the exit status."""
    for name in (options.html, None if options.json == "-" else options.json):
        require_writable(name)
    settings = _settings(options)
    runner = Runner(settings)
    tasks, targets = tasks_of(runner, options.targets)
    if options.list:
        _print_list(tasks, targets, runner)
        return 0
    start = time.perf_counter()
    reports = _carry_out(tasks, runner, options)
    seconds = time.perf_counter() - start
    shown = {
        "rtol": settings.rtol,
        "atol": settings.atol,
        "seed": settings.seed,
        "samples": settings.samples,
        "order": options.order,
        "oracles": ", ".join(settings.oracles),
        "dualad": __version__,
    }
    _report(reports, options, seconds, shown, len(tasks) - len(reports))
    return 0 if all(report.ok for report in reports) else 1


def _settings(options: argparse.Namespace) -> Settings:
    skip = dict.fromkeys(options.skip, "left out by --skip")
    if options.order < 2:
        skip.setdefault("hvp", f"left out by --order {options.order}")
    return Settings(
        rtol=options.rtol,
        atol=options.atol,
        seed=options.seed,
        oracles=tuple(dict.fromkeys(options.oracle)) or ORACLES,
        skip=skip,
        jacobian_limit=options.jacobian_limit,
        at=tuple(options.at),
        samples=options.samples,
        keeps_stdout=options.json == "-",
    )


def _print_list(tasks: Sequence[Task], targets: dict[str, Target], runner: Runner) -> None:
    for label, target in targets.items():
        points = runner.points(target, len(targets))
        print(f"{label}  ({len(points)} point{'' if len(points) == 1 else 's'})")
        for name, _ in points:
            print(f"    {name}")
    print(f"{len(targets)} function{'' if len(targets) == 1 else 's'}, {len(tasks)} to check")


def _carry_out(tasks: Sequence[Task], runner: Runner, options: argparse.Namespace) -> list[CheckReport]:
    """Return the reports in the order of the tasks; those up to the first failure if it is to be the last."""
    reports = []
    with Progress(total=len(tasks), quiet=options.quiet) as progress:
        for task in tasks:
            progress.prefix = f"{task.label}, point {task.point + 1}: "
            reports.append(runner.run(task, progress))
            progress.advance("done")
            if options.fail_fast and not reports[-1].ok:
                break
    return reports


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
