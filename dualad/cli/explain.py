"""``dualad explain``: what each line of a function will meet when it is differentiated or batched.

Not for the report itself (``dualad/diagnose/explained.py``).
"""

from __future__ import annotations

import argparse
import json
import sys

from dualad.diagnose.explain import explain
from dualad.diagnose.explained import STATUSES

from .points import describe_point
from .targets import find_targets, points_of
from .terminal import width

__all__ = ["add_to", "run"]

_FAILING = tuple(s for s in STATUSES if s not in ("rules", "custom", "constant"))
_EXAMPLES = """\
examples:
  dualad explain model.py:energy --at '[[1.0, 2.0], 3.0]'          line by line, before any derivative is taken
  dualad explain model.py:energy --fail-on refused --fail-on loop    in CI: nothing refused, nothing once per lane
  dualad explain model.py:energy --json -                           as data

exit status:
  0 nothing is refused, 1 something is (or the function failed, has another value when it is watched, or does what
  --fail-on names), 2 bad usage
"""


def add_to(commands: argparse._SubParsersAction, target: str, at: str) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "explain",
        help="what each line will meet under a derivative or vmap",
        description="Run a function once and list, line by line, which operations have rules, loop over lanes, drop\n"
        "the tangent, are refused (and what to write instead), are opaque, or branch on traced values. No derivative "
        "is taken.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="TARGET", help=target)
    parser.add_argument("--at", action="append", default=[], metavar="POINT", help=at)
    parser.add_argument(
        "--fail-on", action="append", default=[], choices=_FAILING,
        help="exit with 1 if there is any of these; may be repeated (default: refused)",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write everything as JSON; - for standard output, alone")


def run(options: argparse.Namespace) -> int:
    """Explain, print; return the exit status."""
    wanted = set(options.fail_on) or {"refused"}
    reports = []
    bad = False
    targets = find_targets(options.target)
    for target in targets:
        for point in points_of(target, options.at, len(targets)):
            report = explain(target.function, *point)
            bad |= (
                report.failure is not None
                or report.difference is not None
                or any(report.count(status) for status in wanted)
            )
            reports.append({"target": target.label, "at": describe_point(point), **report.to_dict()})
            if options.json != "-":
                print(f"# {target.label} at ({describe_point(point)})")
                print(report.to_text(width(sys.stdout)))
    if options.json == "-":
        print(json.dumps(reports, indent=1))
    elif options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(reports, file, indent=1)
    return int(bad)
