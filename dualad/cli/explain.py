"""``dualad explain``: what each line of a function will meet when it is differentiated or batched.

Not for the report itself (``dualad/diagnose/explained.py``).
"""

from __future__ import annotations

import argparse
import sys

from dualad.diagnose.explain import explain

from ..base.terminal import width
from .files import write_json
from .targets import describe_point, with_points

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Explain, print; return the exit status."""
    wanted = set(options.fail_on) or {"refused"}
    reports = []
    bad = False
    for target, point in with_points(options.target, options.at):
        report = explain(target.function, *point)
        bad |= report.failure is not None or report.difference is not None or any(map(report.count, wanted))
        reports.append({"target": target.label, "at": describe_point(point), **report.to_dict()})
        if options.json != "-":
            print(f"# {target.label} at ({describe_point(point)})")
            print(report.to_text(width(sys.stdout)))
    if options.json:
        write_json(options.json, reports, indent=1)
    return int(bad)
