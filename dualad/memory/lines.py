"""Lines of lifted code whose arrays have to be buffers: found in one run, so that in the next all others make NumPy's.

A buffer knows the lines that made it, and results of buffers the lines of these. When it takes a traced value
or index, its lines are marked: there, code that runs ``DIRECTLY`` from then on makes buffers, and NumPy's arrays
everywhere else. A line that was not marked and should have been is refused a write, and ``boundary.run`` has the
function run once more, ``NOTING``. For: who made what. Not for: calling NumPy directly (``numpy/direct.py``), nor
when code does (``lift/by_itself.py``).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ..core.tracer import Tracer
from .memory import record, root_of

__all__ = ["DIRECTLY", "MARKED", "NOTING", "made_by", "making", "pass_on", "take_traced"]

#: marks an instruction of some code, whose arrays are buffers from then on; says whether that is new
MARKED: list[Callable[[types.CodeType, int], bool]] = []
#: how many are
marks = 0

#: how lifted code makes arrays: all are buffers, whose lines are noted; only those of marked lines are
NOTING, DIRECTLY = "noting", "directly"
#: one of these, or None: all are buffers; per thread and per asynchronous task
making: ContextVar[str | None] = ContextVar("dualad_making", default=None)


def _buffers(x: Any) -> list[Tracer]:
    """Return the buffers in arguments, or in a result."""
    if isinstance(x, (list, tuple)):
        return [b for item in x for b in _buffers(item)]
    if isinstance(x, dict):
        return _buffers([*x.values()])
    return [x] if isinstance(x, Tracer) and x._plain_array else []


def made_by(out: Any, code: types.CodeType, at: int) -> None:
    """Note which instruction has made the buffers in a result."""
    for x in _buffers(out):
        memory = record(root_of(x))
        memory.lines = memory.lines | {(code, at)}


def pass_on(out: Any, *inputs: Any) -> Any:
    """Note that the buffers in a result are computed of others; return the result."""
    if making.get() is NOTING and (results := _buffers(out)):
        lines = frozenset().union(*[record(root_of(x)).lines for x in _buffers(inputs)])
        for x in results if lines else ():
            memory = record(root_of(x))
            memory.lines = memory.lines | lines
    return out


def take_traced(x: Tracer) -> None:
    """Mark the lines that have made a buffer, which takes a traced value or index."""
    global marks
    if making.get() is NOTING:
        for code, at in record(root_of(x)).lines:
            for mark in MARKED:
                marks += mark(code, at)
