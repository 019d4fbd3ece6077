"""Abstract values: a shape and a dtype, all that a program knows of an array before it runs.

For: shape rules, programs, messages. Not for: holding data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

__all__ = [
    "Array", "Aval", "Axis", "DType", "PROMOTING", "Shape", "as_entries", "aval_of", "broadcast_shapes",
    "is_inexact", "is_weak", "promoted_numbers", "python_dtype", "python_type", "result_dtype",
]  # fmt: skip

#: what a rule or a handler computes with: a tracer, an array of NumPy's or of a library that speaks its protocols, or a
#: number; no type checker can know which
Array: TypeAlias = Any
DType: TypeAlias = DTypeLike | None
Axis: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None


class Aval:
    """Shape and dtype of an array; ``weak`` marks a Python scalar, which does not widen a dtype (NEP 50)."""

    __slots__ = ("dtype", "shape", "weak")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, weak: bool = False) -> None:
        self.shape, self.dtype, self.weak = shape, dtype, weak

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aval) and self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        kind = {"b": "bool", "i": "i", "u": "u", "f": "f", "c": "c"}.get(self.dtype.kind, self.dtype.name)
        bits = "" if kind == "bool" or len(kind) > 1 else str(8 * self.dtype.itemsize)
        return f"{kind}{bits}[{','.join(map(str, self.shape))}]"


_PYTHON_AVALS = {t: Aval((), np.dtype(t), weak=True) for t in (bool, int, float, complex)}
_PYTHON_EXAMPLES = {"b": False, "i": 0, "f": 0.0, "c": 0j}


def python_type(aval: Aval) -> type | np.dtype:
    """Return the type of the Python scalar that a weak aval stands for, as NumPy's promotion takes it.

    A Python bool promotes as NumPy's own.
    """
    return aval.dtype if aval.dtype.kind == "b" else type(_PYTHON_EXAMPLES[aval.dtype.kind])


def python_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the Python number of an inexact entry; a long double has none, and stays."""
    return dtype if dtype.char in "gG" else _PRECISE.get(dtype.kind, dtype)


_PRECISE = {"f": np.dtype(float), "c": np.dtype(complex)}


def aval_of(x) -> Aval:
    """Return the aval of an array, a tensor or a Python scalar."""
    known = _PYTHON_AVALS.get(type(x))
    if known is not None:
        return known
    try:
        return Aval(x.shape, x.dtype)
    except AttributeError:
        x = np.asarray(x)
        return Aval(x.shape, x.dtype)


def is_inexact(dtype: np.dtype) -> bool:
    """Whether values of this dtype carry tangents: floating point and complex do."""
    return dtype.kind in "fc"


def broadcast_shapes(*avals: Aval) -> tuple[int, ...]:
    """Return the shape NumPy broadcasts these avals to, with the common case of equal shapes for free."""
    first = avals[0].shape
    for a in avals:
        if a.shape != first:
            return np.broadcast_shapes(*(a.shape for a in avals))
    return first


def result_dtype(*avals: Aval) -> np.dtype:
    """Return the dtype NumPy promotes these avals (or arrays) to (NEP 50: Python scalars are weak)."""
    first = avals[0].dtype
    for a in avals:
        if a.dtype != first or is_weak(a):
            return np.result_type(*(_PYTHON_EXAMPLES[a.dtype.kind] if is_weak(a) else a.dtype for a in avals))
    return first


#: operators that convert their operands to a common dtype, or have one operand
PROMOTING = frozenset({
    "absolute", "add", "arctan2", "copysign", "divide", "equal", "floor_divide", "fmax", "fmin", "fmod", "greater",
    "greater_equal", "hypot", "less", "less_equal", "logaddexp", "logaddexp2", "maximum", "minimum", "multiply",
    "negative", "not_equal", "positive", "power", "remainder", "scale", "subtract", "where",
})  # fmt: skip


def promoted_numbers(avals: Sequence[Aval], numbers: Sequence[int]) -> list[Aval] | None:
    """Return the avals with those at the places ``numbers`` weak, if what they promote to is another dtype then."""
    weak = [Aval((), a.dtype, True) if i in numbers else a for i, a in enumerate(avals)]
    return None if result_dtype(*weak) == result_dtype(*avals) else weak


def is_weak(x) -> bool:
    """Whether an aval stands for a Python scalar; an array never does."""
    return type(x) is Aval and x.weak


def as_entries(value, dtype: np.dtype, one: bool = False):
    """Return a value as NumPy writes it into an array of a dtype (into ``one`` entry): overflow is an error."""
    if type(value) in (bool, int, float, complex) or (one and isinstance(value, np.generic)):
        entry = np.empty((), dtype)
        entry[()] = value
        return entry[()]
    return value if value.dtype == dtype else value.astype(dtype)
