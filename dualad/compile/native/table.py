"""How each operator is compiled: one row for each. An operator without a row is a call in NumPy source.

A row says what an operator is to each of those that write code; the code for that stands with them. Elementwise
operators have their instructions in a table of their own (``operators.py``). Not for: whether an equation's types,
shapes and parameters are known, which each of them looks at for itself.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from .operators import ENTRYWISE

__all__ = ["LOWERINGS", "Lowering", "Source", "VIEWS", "Way", "lowering_of"]


class Way(Enum):
    """An operator's action on entries."""

    ENTRYWISE = "computes each from those at its place"
    MOVE = "moves those of one array, or of its first ones"
    JOIN = "moves those of several arrays, from here or there"
    TOTAL = "makes one of many along axes, or adds up along one"
    PRODUCT = "adds up products"
    GATHER = "reads those at computed places"
    SCATTER = "adds at computed places"
    FACTOR = "factorizes, or solves with factors"
    LOOP = "runs programs"
    SPELLED = "is a program of other operators"
    ROWS = "orders those of each row, or works in an order of them"


class Source(Enum):
    """Whose memory the result of a call of NumPy's is."""

    CALL = "perhaps that of an argument"
    NEW = "its own"
    PRODUCT = "its own if there are several arguments"
    VIEW = "that of the first argument"


class Lowering(NamedTuple):
    """The ways in which an operator is compiled; None where it is not known.

    ``registers`` is what it is in straight-line code on numbers and small arrays (``lowering.py``), ``entry`` in loops
    that write large arrays entry by entry (``kernels.py``), ``stack`` in lanes that are matrices of a stack
    (``stacks.py``). ``source`` is what its call in NumPy source returns, and ``sign`` what stands for the call there,
    if that is an operator of Python's.
    """

    registers: Way | None = None
    entry: Way | None = None
    stack: Way | None = None
    source: Source = Source.CALL
    sign: str = ""


#: loops read the entries of what these make where others lie
VIEWS = (Way.MOVE, Way.JOIN)
#: totals of the entries so far, each of which is a result
RUNNING = ("cumprod", "cumsum", "recurrence")
_NONE = Lowering()
_E, _M, _J, _T, _P, _L = Way.ENTRYWISE, Way.MOVE, Way.JOIN, Way.TOTAL, Way.PRODUCT, Way.LOOP
_R = Way.ROWS
_NEW, _VIEW = Source.NEW, Source.VIEW

#: by name; indices whose places are computed are another way of loops (``positions.entry_way``)
LOWERINGS: dict[str, Lowering] = {
    **{name: Lowering(_E, _E, _E, _NEW, row.sign) for name, row in ENTRYWISE.items()},
    # registers, entry, stack, source, sign
    "stop_gradient": Lowering(_E, _M, _M),
    "copy": Lowering(_M, _M, _M, _NEW),
    "broadcast_to": Lowering(_M, _M, _M),
    "flip": Lowering(_M, _M, _M),
    "reshape": Lowering(_M, _M, _M, _VIEW),
    "transpose": Lowering(_M, _M, _M, _VIEW),
    "index": Lowering(_M, _M, _M),
    "index_add": Lowering(_M, _J, _J, _NEW),
    "index_set": Lowering(_M, _J, _J, _NEW),
    "concatenate": Lowering(_M, _J, _J, _NEW),
    "stack": Lowering(_M, _J, _J, _NEW),
    "shift": Lowering(_M, _J, _J, _NEW),
    "sinc": Lowering(Way.SPELLED),
    "split": Lowering(_M),
    "unstack": Lowering(_M),
    "rfft": Lowering(source=_NEW),
    "irfft": Lowering(source=_NEW),
    "sum": Lowering(_T, _T, source=_NEW),
    "max": Lowering(_T, _T, source=_NEW),
    "min": Lowering(_T, _T, source=_NEW),
    "prod": Lowering(_T, source=_NEW),
    "all": Lowering(_T, _T, source=_NEW),
    "any": Lowering(_T, _T, source=_NEW),
    "cumprod": Lowering(_T, _T, source=_NEW),
    "cumsum": Lowering(_T, _T, source=_NEW),
    "recurrence": Lowering(_T, _T, source=_NEW),
    "argmax": Lowering(_T, _T, source=_NEW),
    "argmin": Lowering(_T, _T, source=_NEW),
    "matmul": Lowering(_P, _P, _P, _NEW, "@"),
    "convolve": Lowering(entry=_P, source=_NEW),
    "einsum": Lowering(_P, source=Source.PRODUCT),
    "einsum_strong": Lowering(_P, source=Source.PRODUCT),
    "argsort": Lowering(_R, _R),
    "average_groups": Lowering(_R, _R, source=_NEW),
    "order_statistics": Lowering(_R, _R, source=_NEW),
    "permute": Lowering(_R, _R, source=_NEW),
    "sort": Lowering(_R, _R, source=_NEW),
    "cholesky": Lowering(Way.FACTOR, stack=Way.FACTOR, source=_NEW),
    "cofactors": Lowering(Way.FACTOR, stack=Way.FACTOR),
    "det": Lowering(Way.FACTOR, stack=Way.FACTOR),
    "eigh": Lowering(Way.FACTOR),
    "eigvalsh": Lowering(Way.FACTOR),
    "fft": Lowering(source=_NEW),
    "ifft": Lowering(source=_NEW),
    "inv": Lowering(Way.FACTOR, stack=Way.FACTOR, source=_NEW),
    "slogdet": Lowering(Way.FACTOR),
    "svd": Lowering(Way.FACTOR),
    "svdvals": Lowering(Way.FACTOR),
    "qr": Lowering(Way.FACTOR),
    "solve": Lowering(Way.FACTOR, stack=Way.FACTOR, source=_NEW),
    "triangular_solve": Lowering(Way.FACTOR, stack=Way.FACTOR),
    "scan": Lowering(_L),
    "while_loop": Lowering(_L),
    "switch": Lowering(_L),
}


def lowering_of(op: Any) -> Lowering:
    """Return the row of an operator, which is empty for those that are not in the table."""
    return LOWERINGS.get(op.name, _NONE)
