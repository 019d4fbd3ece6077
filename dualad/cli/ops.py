"""``dualad ops``: the table of operators and their rules, read from the registry.

"n/a" is not "missing": an operator that is linear in nothing needs no transpose, one without derivative needs no JVP.
``loop`` is a batch rule that calls the operator once per lane.

Not for the coverage of NumPy's names (the reference pages have that).
"""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path
from typing import Any

import numpy as np

from dualad.core.tables import OPS
from dualad.errors import UsageError

__all__ = ["run"]

_HEADER = ("op", "numpy", "kind", "jvp", "transpose", "batch", "sparsity", "declared at")


def run(options: argparse.Namespace) -> int:
    """Print the rows of the named operators, or of all."""
    unknown = [name for name in options.names if name not in OPS]
    if unknown:
        close = difflib.get_close_matches(unknown[0], OPS, 3)
        raise UsageError(
            f"You asked for the operator {unknown[0]!r}.",
            f"There is none of this name among {len(OPS)}.",
            f"Did you mean {' or '.join(close)}?" if close else "Write  dualad ops  for the whole list.",
        )
    rows = [_row(OPS[name]) for name in (options.names or sorted(OPS))]
    lengths = [max(len(row[k]) for row in [_HEADER, *rows]) for k in range(len(_HEADER))]
    for row in [_HEADER, *rows]:
        print("  ".join(cell.ljust(n) for cell, n in zip(row, lengths, strict=True)).rstrip())
    return 0


def _row(op: Any) -> tuple[str, ...]:
    return (
        op.name,
        ", ".join(_numpy_name(function) for function in op.numpy) or "-",
        op.kind,
        "yes" if op.jvp is not None else "n/a",
        "yes" if op.transpose is not None else "n/a",
        "yes" if op.batch is not None else "loop",
        "yes" if op.sparsity is not None else "dense",
        _place(op.place),
    )


def _numpy_name(function: Any) -> str:
    module = getattr(function, "__module__", None) or "numpy"
    if type(function).__name__ == "ufunc":
        module = "scipy.special" if "scipy" in module or not _in_numpy(function) else "numpy"
    return f"{module.replace('numpy', 'np', 1)}.{getattr(function, '__name__', function)}"


def _in_numpy(function: Any) -> bool:
    return getattr(np, function.__name__, None) is function


def _place(place: str) -> str:
    """Shorten ``/somewhere/dualad/ops/elementary.py:41`` to ``ops/elementary.py:41``."""
    path, _, line = place.rpartition(":")
    package = Path(__file__).resolve().parents[1]
    resolved = Path(path).resolve()
    return f"{resolved.relative_to(package).as_posix()}:{line}" if package in resolved.parents else place
