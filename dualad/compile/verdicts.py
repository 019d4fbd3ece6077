"""Verdicts on how each operator is compiled, which ``dualad ops`` shows: complete and tested.

``verdict`` is about the source, which serves every operator; ``machine_code`` reads ``native/table.py``. Not for: the
code itself (``numpy_source.py``, ``native``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .native.table import lowering_of
from .simplify import is_elementwise

__all__ = ["Compilation", "machine_code", "verdict"]


class Compilation(NamedTuple):
    """``kind`` is one of ``ufunc``, ``library``, ``inlined``, ``callback``; ``reason`` says why."""

    kind: str
    reason: str


_INLINED = frozenset({"call", "scan", "switch", "while_loop"})
_CALLBACKS = {
    "custom": "it calls a function of yours, or the rule of one, which is not looked into",
    "implicit": "it calls a solver of yours",
    "collective": "it speaks to the other lanes of a vmap",
}


def verdict(op: Any) -> Compilation:
    """The verdict on an operator in NumPy source."""
    if op.name in _INLINED:
        return Compilation("inlined", "its programs are written into the source, as loops and branches")
    if op.kept:
        return Compilation("callback", "it prints")
    if op.kind in _CALLBACKS or op.effect:
        return Compilation("callback", _CALLBACKS.get(op.kind, "it is called for what it does besides returning"))
    if is_elementwise(op):
        module = "NumPy" if getattr(np, op.impl.__name__, None) is op.impl else "SciPy"
        return Compilation("ufunc", f"a loop of {module}'s")
    return Compilation("library", "a call of NumPy, SciPy or LAPACK for the whole array")


def machine_code(op: Any) -> tuple[str, ...]:
    """Return the ways in which an operator becomes machine code, where llvmlite is installed and its types are known.

    ``registers``: on numbers and small arrays; ``loops``: on large arrays; ``stacks``: on many small matrices. None of
    these: what ``verdict`` says.
    """
    ways = zip(("registers", "loops", "stacks"), lowering_of(op), strict=False)
    return tuple([word for word, way in ways if way is not None])
