"""``dualad check``: all derivatives of the named functions against every oracle that applies.

JUnit files, several processes and a summary in Markdown are pytest's, through the plugin. Not for the checks themselves
(``dualad.testing``).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from dualad.base.version import __version__
from dualad.testing import ORACLES, CheckReport, check
from dualad.testing.report import to_json

from ..base.terminal import Progress, uses_colour, width
from . import html
from .files import require_writable, write, write_json
from .points import describe_point, nearby
from .table import format_failures, format_reports, format_summary
from .targets import Target, find_targets, points_of

__all__ = ["run"]

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
