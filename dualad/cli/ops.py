"""``dualad ops``: the table of operators and their rules, read from the registry.

"n/a" is not "missing": an operator that is linear in nothing needs no transpose, one without derivative needs no JVP.
``loop`` is a batch rule that calls the operator once per lane. ``compiled`` is what the operator is in the code of
``dualad.jit``: a ufunc, a call of a library, inlined, or a callback; ``native`` says where it is machine
code instead, with llvmlite: in registers, in loops over large arrays, in stacks of small matrices. ``series`` is how
its power series is made: by a recurrence of its own, linearly, as a product, through its program, or derived from its
JVP rule.

Not for the coverage of NumPy's names (the reference pages have that).
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.testing import overrides

from dualad.base.later import load_everything
from dualad.base.terminal import aligned
from dualad.compile.verdicts import machine_code, verdict
from dualad.core.tables import OPS
from dualad.errors import UsageError
from dualad.series.rules import series_kind
from dualad.sparse.walk import sparsity_kind
from dualad.surface.unsupported import NOT_YET, public_name, verdict_of

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Print the rows of the named operators, or of all; with ``--missing``, what has no rule and why."""
    if options.missing:
        print(*aligned([("name", "reason"), *_missing()]), sep="\n")
        return 0
    load_everything()
    unknown = [name for name in options.names if name not in OPS]
    if unknown:
        close = difflib.get_close_matches(unknown[0], OPS, 3)
        raise UsageError(
            f"You asked for the operator {unknown[0]!r}.",
            f"There is none of this name among {len(OPS)}.",
            f"Did you mean {' or '.join(close)}?" if close else "Write  dualad ops  for the whole list.",
        )
    shown = [OPS[name] for name in options.names or sorted(OPS)]
    print(*aligned([tuple(_COLUMNS), *[[cell(op) for cell in _COLUMNS.values()] for op in shown]]), sep="\n")
    return 0


def _missing() -> list[tuple[str, str]]:
    """List operators that loop over lanes, NumPy's names without a rule, and those that are refused, with reasons."""
    rows = [(op.name, "no batching rule: one call per lane") for op in OPS.values() if not _batched(op)]
    rows += [(name, "not covered yet") for name in NOT_YET]
    functions: set[Any] = overrides.get_overridable_numpy_array_functions()
    for function in functions | overrides.get_overridable_numpy_ufuncs():
        verdict = verdict_of(function)
        if verdict is not None and verdict.kind == "unsupported" and not function.__name__.startswith("_"):
            rows.append((public_name(function), verdict.reason))
    return sorted(set(rows))


def _batched(op: Any) -> bool:
    """Whether all lanes run at once; a collective has another rule in place of a batching rule."""
    return op.batch is not None or op.across is not None


def _numpy_name(function: Any) -> str:
    module = getattr(function, "__module__", None) or "numpy"
    if type(function).__name__ == "ufunc":
        numpys = getattr(np, function.__name__, None) is function
        module = "scipy.special" if "scipy" in module or not numpys else "numpy"
    return f"{module.replace('numpy', 'np', 1)}.{getattr(function, '__name__', function)}"


def _place(place: str) -> str:
    """Shorten ``/somewhere/dualad/ops/elementary.py:41`` to ``ops/elementary.py:41``."""
    path, _, line = place.rpartition(":")
    package = Path(__file__).resolve().parents[1]
    resolved = Path(path).resolve()
    return f"{resolved.relative_to(package).as_posix()}:{line}" if package in resolved.parents else place


#: the columns of the table, and their contents
_COLUMNS: dict[str, Callable[[Any], str]] = {
    "op": lambda op: op.name,
    "numpy": lambda op: ", ".join(_numpy_name(function) for function in op.numpy) or "-",
    "kind": lambda op: op.kind,
    "jvp": lambda op: "yes" if op.jvp is not None else "n/a",
    "transpose": lambda op: "yes" if op.transpose is not None else "n/a",
    "batch": lambda op: "yes" if _batched(op) else "loop",
    "sparsity": lambda op: sparsity_kind(op) if op.linear_in else "n/a",
    "series": series_kind,
    "compiled": lambda op: verdict(op).kind,
    "native": lambda op: ", ".join(machine_code(op)) or "-",
    "declared at": lambda op: _place(op.place),
}
