"""What compiled code does for each operator: the verdict that ``dualad ops`` shows, complete and tested.

Not for: the code itself (``numpy_source.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .scalars import BOOLEAN, FLOAT
from .simplify import is_elementwise

__all__ = ["Compilation", "verdict"]


class Compilation(NamedTuple):
    """``kind`` is one of ``expression``, ``ufunc``, ``library``, ``inlined``, ``callback``; ``reason`` says why."""

    kind: str
    reason: str


_EXPRESSIONS = {*FLOAT, *BOOLEAN, "where", "scale", "maximum", "minimum", "logical_and", "logical_or", "logical_not"}
_INLINED = frozenset({"call", "scan", "switch", "while_loop"})
_CALLBACKS = {
    "custom": "it calls a function of yours, or the rule of one, which is not looked into",
    "implicit": "it calls a solver of yours",
    "collective": "it speaks to the other lanes of a vmap",
}


def verdict(op: Any) -> Compilation:
    """Return what compiled code does for an operator."""
    if op.name in _INLINED:
        return Compilation("inlined", "its programs are written into the source, as loops and branches")
    if op.kind in _CALLBACKS or op.effect:
        return Compilation("callback", _CALLBACKS.get(op.kind, "it is called for what it does besides returning"))
    if op.name in _EXPRESSIONS:
        return Compilation("expression", "Python's arithmetic on single numbers, NumPy's loop on arrays")
    if is_elementwise(op):
        module = "NumPy" if getattr(np, op.impl.__name__, None) is op.impl else "SciPy"
        return Compilation("ufunc", f"a loop of {module}'s, in blocks on large arrays")
    return Compilation("library", "a call of NumPy, SciPy or LAPACK for the whole array")
