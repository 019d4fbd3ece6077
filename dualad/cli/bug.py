"""``dualad bug``: a report of a fault in compiled code, printed and replayed.

Not for the contents of a report (``dualad/compile/fault_report.py``), or how the fault was found (``first_call.py``).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

from dualad.compile.call import CallProgram
from dualad.compile.fault_report import read_report, versions
from dualad.compile.first_call import fault_of
from dualad.errors import ProgramError, UsageError

__all__ = ["run"]

#: lines of a program that are printed
_LINES = 60


def run(options: argparse.Namespace) -> int:
    """Print a report and replay it; return 1 if the fault is still there."""
    try:
        report = read_report(Path(options.file).read_bytes())
    except (OSError, ProgramError) as error:
        raise UsageError(
            f"You asked for the fault in {options.file}.",
            f"It can't be read: {error}",
            "Name the file that the warning DAD063 names.",
        ) from error
    now = versions()
    for name, then in report.versions.items():
        print(f"{name:<10} {then}" + (f"   (here: {now.get(name)})" if now.get(name) != then else ""))
    lines = report.text.splitlines()
    print("", *(lines[:_LINES] if not options.full else lines), sep="\n")
    if len(lines) > _LINES and not options.full:
        print(f"... {len(lines) - _LINES:,} more lines: --full")
    print(f"\nfound: {report.found}")
    if report.arguments is None:
        print("The arguments were too large to be kept; these are others of their shapes.")
    arguments = report.arguments
    if arguments is None:
        rng = np.random.default_rng(0)
        drawn = [(rng.normal(size=v.aval.shape), v.aval.dtype) for v in report.program.inputs]
        arguments = [(x > 0 if dtype.kind == "b" else x).astype(dtype)[()] for x, dtype in drawn]
    found = fault_of(CallProgram(report.program, math.inf).compiled, report.program, arguments)
    print(
        f"here: {found}" if found else "here: the compiled code gives what the program gives; the fault does not occur"
    )
    return 1 if found else 0
