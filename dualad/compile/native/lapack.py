"""Eigenvalues and singular values of small matrices: calls of NumPy's own loops, and so of its LAPACK.

Signs, order and accuracy of vectors are LAPACK's choice, so nothing else could give NumPy's numbers. NumPy's loop of
a generalized ufunc takes addresses, lengths and strides; compiled code calls it with those of one matrix, without
Python in between. Where values coincide or are NaN, NumPy is asked: what becomes of that is for Python to decide. Not
for: QR (``householder.py``) and systems (``systems.py``), whose signs follow from the entries, or stacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval
from .code import Code, Lanes
from .foreign import CALLED, address_of
from .indices import in_memory
from .operators import BOOL, DOUBLE
from .positions import OUT_OF_BOUNDS
from .values import Values, at

__all__ = ["SPECTRAL", "decomposed", "has_loop"]

#: operators that are calls
SPECTRAL = frozenset({"eigh", "eigvalsh", "svd", "svdvals"})
#: values count as equal if they are this near, relative to the largest and times their number
_NEAR = 2e3 * float(np.finfo(float).eps)


def _name_of(name: str, params: dict) -> str:
    if name in ("eigh", "eigvalsh"):
        return f"np_{name}_{'lo' if params['uplo'] == 'L' else 'up'}"
    return f"np_{name}{'_full' if params.get('full') else ''}"


def has_loop(name: str, avals: Sequence[Aval], params: dict) -> bool:
    """Whether a decomposition of one matrix of float64 is known here."""
    (a,) = avals
    return len(a.shape) == 2 and a.dtype == DOUBLE and 0 not in a.shape and bool(address_of(_name_of(name, params)))


def decomposed(lowering: Any, name: str, x: Values, params: dict, outs: Sequence[Aval]) -> list[Values]:
    """Write the call of NumPy's loop; return its results."""
    code, called = lowering.code, _name_of(name, params)
    made = [Values(aval, pointer=lowering.room(aval)) for aval in outs]
    write_call(code, called, x.aval.shape, [in_memory(lowering, x), *[v.pointer for v in made]])
    values = made[1 if name == "svd" else 0]
    with code.when(_is_unsure(code, values.pointer, values.aval.size)):
        code.effect(f"ret i32 {OUT_OF_BOUNDS}")
    return made


def write_call(code: Code, name: str, shape: tuple[int, ...], pointers: Sequence[str]) -> None:
    """Write a call of NumPy's loop for one matrix."""
    code.declare(f"@{name}", f"declare void @{name}(ptr, ptr, ptr, ptr)")
    lengths, strides = [code.table(np.array(x, np.int64)) for x in CALLED[name].layout(shape)]
    code.effect(f"call void @{name}(ptr {code.table_of(pointers)}, ptr {lengths}, ptr {strides}, ptr null)")


def _is_unsure(code: Code, values: str, n: int) -> str:
    """Write whether values coincide, or there are none: the loop says so by NaN."""
    b = Lanes(code, DOUBLE, 1)
    load = lambda i: code.new(f"load double, ptr {at(code, values, DOUBLE, i)}, align 8")
    first, last = load(0), load(n - 1)  # they ascend or descend
    if n == 1:
        return b.is_nan(first)
    largest = b.call("maxnum", b.call("fabs", first), b.call("fabs", last))
    near = b.mul(largest, n * _NEAR)
    with code.fold("1", n, 1, [(b, first), (Lanes(code, BOOL, 1), "false")]) as turn:
        x, (before, unsure) = load(turn.counter), turn.carried
        apart = b.compare("ogt", b.call("fabs", b.sub(x, before)), near)  # which a NaN is not
        turn.next = [x, b.of(BOOL).either(unsure, b.of(BOOL).invert(apart))]
    return turn.carried[1]
