"""``dualad bug``: a report of a fault in compiled code, printed and replayed.

Not for what is in a report (``dualad/compile/fault_report.py``), or how the fault was found (``first_call.py``).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from dualad.compile.call import CallProgram
from dualad.compile.fault_report import FaultReport, read_report, versions
from dualad.compile.first_call import fault_of
from dualad.errors import ProgramError, UsageError
from dualad.program.variable import Variable

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
    found = fault_of(CallProgram(report.program, math.inf).compiled, report.program, _arguments(report))  # type: ignore[arg-type]
    print(
        f"here: {found}" if found else "here: the compiled code gives what the program gives; the fault does not occur"
    )
    return 1 if found else 0


def _arguments(report: FaultReport) -> list:
    if report.arguments is not None:
        return report.arguments
    rng = np.random.default_rng(0)
    return [_drawn(rng, v) for v in report.program.inputs]


def _drawn(rng: np.random.Generator, variable: Variable) -> Any:
    aval = variable.aval
    x = rng.normal(size=aval.shape)
    return (x > 0 if aval.dtype.kind == "b" else x).astype(aval.dtype)[()]
