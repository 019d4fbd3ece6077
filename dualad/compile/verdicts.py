"""What compiled code does for each operator: the verdicts that ``dualad ops`` shows, complete and tested.

``verdict`` is about the source, which serves every operator; ``machine_code`` asks those who write machine code whether
they take the operator's samples. Not for: the code itself (``numpy_source.py``, ``native``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..errors import DualadError
from ..ops.samples import realize
from ..transforms.trace import trace
from ..vmap import vmap
from .native import groups, passes, stacks
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
    """Return what compiled code does for an operator."""
    if op.name in _INLINED:
        return Compilation("inlined", "its programs are written into the source, as loops and branches")
    if op.kind in _CALLBACKS or op.effect:
        return Compilation("callback", _CALLBACKS.get(op.kind, "it is called for what it does besides returning"))
    if is_elementwise(op):
        module = "NumPy" if getattr(np, op.impl.__name__, None) is op.impl else "SciPy"
        return Compilation("ufunc", f"a loop of {module}'s")
    return Compilation("library", "a call of NumPy, SciPy or LAPACK for the whole array")


#: by the words for them, who says which equations become machine code, and whether they are asked about many lanes
_WRITERS: dict[str, tuple[Callable[[tuple], bool], bool]] = {
    "registers": (groups.is_known, False), "loops": (passes.is_known, True), "stacks": (stacks.is_known, True),
}  # fmt: skip
#: lanes that make an array large
_LANES = 512


def machine_code(op: Any) -> tuple[str, ...]:
    """Return where an operator becomes machine code, for one of its samples at least, where llvmlite is installed.

    Returns
    -------
    tuple of str
        ``registers``: on numbers and small arrays; ``loops``: on large arrays; ``stacks``: on many small matrices.
        None of these: what ``verdict`` says.
    """
    found = set()
    for many in (False, True):
        for step in _equations(op, many):
            found |= {word for word, (is_known, lanes) in _WRITERS.items() if lanes is many and is_known(step)}
    return tuple([word for word in _WRITERS if word in found])


def _equations(op: Any, many: bool) -> Iterator[tuple]:
    """Yield the equations of an operator's samples, or of many lanes of them, as a trace writes them."""
    for sample in realize(op):
        call: Callable = lambda *args, params=sample.params: op(*args, **params)
        args = sample.args
        if many:
            call, args = vmap(call), tuple([np.broadcast_to(a, (_LANES, *np.shape(a))) for a in args])
        try:
            yield from [step for step in trace(call, *args).steps if step[0] is op]
        except DualadError:  # this sample can't be traced, or not in lanes
            continue
