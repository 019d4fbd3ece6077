"""A fault of the compiler as a file: the program, the arguments and the versions, to be replayed on another machine.

Reading one runs no code that it brings along: it holds programs, arrays and words, and operators by their names. Not
for: replaying it (``cli/bug.py``).
"""

from __future__ import annotations

import hashlib
import io
import pickle
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.later import load_everything
from ..base.version import __version__
from ..core.primitive import Primitive
from ..core.tables import OPS
from ..errors import ProgramError
from ..program.ir import Program
from .native.engine import engine
from .native.store import base

__all__ = ["FaultReport", "read_report", "versions", "write_report"]

_MAGIC = b"dualad fault 1\n"
#: bytes of arguments that are written down; of more, new ones of the same kinds are drawn
_MOST = 1 << 20
#: what a file may refer to besides operators: by module, NumPy's by name alone, for it has moved
_KNOWN = {
    "Aval": "dualad.core.aval", "Program": "dualad.program.ir", "Variable": "dualad.program.variable",
    **dict.fromkeys(("Ellipsis", "complex", "frozenset", "range", "set", "slice"), "builtins"),
}  # fmt: skip
_NUMPY = frozenset({"_reconstruct", "dtype", "ndarray", "scalar", *[t.__name__ for t in np.sctypeDict.values()]})


class FaultReport(NamedTuple):
    """A fault of the compiler's; ``arguments`` is None if they were too large."""

    found: str
    program: Program
    text: str
    arguments: list | None
    versions: dict[str, str]


def versions() -> dict[str, str]:
    """Return the versions that compiled code depends on, besides the program."""
    made, llvmlite = engine(), sys.modules.get("llvmlite")
    return {
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "dualad": __version__,
        "numpy": np.__version__,
        "llvmlite": getattr(llvmlite, "__version__", "-"),
        "processor": made.processor if made else "no machine code",
    }


def write_report(found: str, program: Program, args: Sequence) -> Path | None:
    """Write a report, and return where; None where it can't be written."""
    given = [np.array(x) if type(x) is np.ndarray else x for x in args]
    arguments = given if sum([np.asarray(x).nbytes for x in given]) <= _MOST else None
    plain = Program(program.inputs, program.steps, program.outputs, program.name)
    report = FaultReport(found, plain, program.to_text(1000), arguments, versions())
    try:
        file = io.BytesIO()
        _Writer(file, protocol=4).dump(tuple(report))
        content = _MAGIC + file.getvalue()
        where = base() or Path(tempfile.gettempdir(), "dualad")
        where = where / "faults"
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = where / f"{hashlib.sha256(content).hexdigest()[:16]}.fault"
        path.write_bytes(content)
        return path
    except (
        OSError,
        TypeError,
        AttributeError,
        pickle.PicklingError,
        RecursionError,
    ):  # a program with users' functions
        return None


def read_report(content: bytes) -> FaultReport:
    """Return the report that a file holds."""
    if not content.startswith(_MAGIC):
        raise _unreadable("it does not begin as one")
    load_everything()
    try:
        return FaultReport(*_Reader(io.BytesIO(content[len(_MAGIC) :])).load())
    except ProgramError:
        raise
    except Exception as error:
        raise _unreadable(f"{type(error).__name__}: {error}") from None


def _unreadable(why: str) -> ProgramError:
    return ProgramError(
        f"the file is no report of a fault that can be read: {why}.",
        "a report is what the warning DAD063 names, as this version of dualad or one near it has written it",
        "replay it with the version that has written it",
    )


class _Writer(pickle.Pickler):
    def persistent_id(self, thing: Any) -> Any:
        return thing.name if type(thing) is Primitive and OPS.get(thing.name) is thing else None  # type: ignore[union-attr]

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, Program):  # a compiled one, too
            return Program, (thing.inputs, [tuple(step) for step in thing.recorded], thing.outputs, thing.name)
        return NotImplemented


class _Reader(pickle.Unpickler):
    def persistent_load(self, name: Any) -> Any:
        if name not in OPS:
            raise _unreadable(f"it has an operator {name!r}, which is not known here")
        return OPS[name]

    def find_class(self, module: str, name: str) -> Any:
        if _KNOWN.get(name) == module or (name in _NUMPY and module.split(".")[0] == "numpy"):
            return super().find_class(module, name)
        raise _unreadable(f"it refers to {module}.{name}")
