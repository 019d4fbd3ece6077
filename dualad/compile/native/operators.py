"""Elementwise operators as instructions: what each one is, for which types, with NumPy's rules of promotion.

An operator or a type that is not in these tables is refused. Arithmetic is IEEE's, operation by operation: nothing is
contracted or reordered. Not for: shapes (``values.py``), reductions, loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...core.aval import Aval, is_weak, result_dtype
from . import maths
from .code import Lanes
from .engine import LIBRARY

__all__ = ["KNOWN", "Refused", "computed_in", "convert", "elementwise"]

DOUBLE, SINGLE, LONG, INT, BOOL = (np.dtype(t) for t in (np.float64, np.float32, np.int64, np.int32, np.bool_))
TYPES = (DOUBLE, SINGLE, LONG, INT, BOOL)


class Refused(Exception):
    """What is asked for is not known here."""


def _extreme(beyond: str) -> Callable[[Lanes, str, str], str]:
    """Return the operator that finds the larger or the smaller of two: a NaN, and of equal zeros the second."""

    def write(b: Lanes, x: str, y: str) -> str:
        floats = b.dtype.kind == "f"
        m = b.select(b.compare(f"{'o' if floats else 's'}{beyond}", x, y), x, y)
        return b.select(b.is_nan(x), x, m) if floats else m

    return write


def _intrinsic(name: str) -> Callable[..., str]:
    return lambda b, *args: b.call(name, *args)


def _absolute(b: Lanes, x: str) -> str:
    return b.call("fabs", x) if b.dtype.kind == "f" else b.select(b.compare("slt", x, 0), b.neg(x), x)


def _sign(b: Lanes, x: str) -> str:
    if b.dtype.kind != "f":
        return b.select(b.compare("sgt", x, 0), 1, b.select(b.compare("slt", x, 0), -1, 0))
    y = b.select(b.compare("ogt", x, 0.0), 1.0, b.select(b.compare("olt", x, 0.0), -1.0, 0.0))
    return b.select(b.is_nan(x), x, y)


def _strong_product(b: Lanes, t: str, d: str) -> str:
    return b.select(b.compare("une", t, 0.0), b.mul(t, d), b.mul(t, b.call("copysign", 1.0, d)))


#: on floats and whole numbers
_ARITHMETIC: dict[str, Callable] = {
    "add": lambda b, x, y: b.add(x, y),
    "subtract": lambda b, x, y: b.sub(x, y),
    "multiply": lambda b, x, y: b.mul(x, y),
    "negative": lambda b, x: b.neg(x),
    "positive": lambda b, x: x,
    "conjugate": lambda b, x: x,
    "square": lambda b, x: b.mul(x, x),
    "absolute": _absolute,
    "sign": _sign,
    "maximum": _extreme("gt"),
    "minimum": _extreme("lt"),
    "at_least": _extreme("gt"),
    "at_most": _extreme("lt"),
}

#: on floats alone
_FLOATING: dict[str, Callable] = {
    "divide": lambda b, x, y: b.div(x, y),
    "reciprocal": lambda b, x: b.div(1.0, x),
    **{name: _intrinsic(name) for name in ("ceil", "copysign", "fabs", "floor", "rint", "sqrt", "trunc")},
    "fmax": lambda b, x, y: b.select(b.either(b.compare("ogt", x, y), b.is_nan(y)), x, y),
    "fmin": lambda b, x, y: b.select(b.either(b.compare("olt", x, y), b.is_nan(y)), x, y),
    "scale": _strong_product,
}

#: predicates for floats and for whole numbers
_COMPARISONS = {
    "less": ("olt", "slt"), "less_equal": ("ole", "sle"), "greater": ("ogt", "sgt"), "greater_equal": ("oge", "sge"),
    "equal": ("oeq", "eq"), "not_equal": ("une", "ne"),
}  # fmt: skip

_QUESTIONS: dict[str, Callable] = {
    "isnan": lambda b, x: b.is_nan(x),
    "isfinite": lambda b, x: b.compare("olt", b.call("fabs", x), math.inf),
    "isinf": lambda b, x: b.compare("oeq", b.call("fabs", x), math.inf),
}

_LOGIC: dict[str, Callable] = {
    "logical_and": lambda b, x, y: b.both(x, y),
    "logical_or": lambda b, x, y: b.either(x, y),
    "logical_xor": lambda b, x, y: b.code.value(f"xor {b.mask} {x}, {y}"),
    "logical_not": lambda b, x: b.invert(x),
    "bitwise_and": lambda b, x, y: b.both(x, y),
    "bitwise_or": lambda b, x, y: b.either(x, y),
    "bitwise_xor": lambda b, x, y: b.code.value(f"xor {b.mask} {x}, {y}"),
    "invert": lambda b, x: b.invert(x),
}

#: mathematics by kernels of ours and by the platform's library
_MATHEMATICS = frozenset(maths.KERNELS) | (frozenset(LIBRARY) - {"far_sin", "far_cos"})
#: whole numbers make these floating
_PROMOTES = _MATHEMATICS - {"power"} | {"divide", "sqrt", "fabs", "copysign"}

KNOWN = frozenset({
    *_ARITHMETIC, *_FLOATING, *_COMPARISONS, *_QUESTIONS, *_LOGIC, *_MATHEMATICS, "where", "astype", "stop_gradient",
})  # fmt: skip


def computed_in(name: str, avals: Sequence[Aval], params: dict, out: Aval) -> np.dtype:
    """Return the type that an operator computes in, or raise ``Refused``."""
    if is_weak(out) or out.dtype not in TYPES or any([a.dtype not in TYPES for a in avals]):
        raise Refused(name)
    if name == "astype":
        if avals[0].dtype.kind == "f" and out.dtype.kind == "i":
            raise Refused("a float made whole")
        return avals[0].dtype
    if params and name != "scale":
        raise Refused(name)
    if name == "stop_gradient" and avals[0].dtype == out.dtype:
        return out.dtype
    if name == "where":
        if avals[0].dtype == BOOL and len(avals) == 3 and result_dtype(*avals[1:]) == out.dtype:
            return out.dtype
        raise Refused(name)
    common = result_dtype(*avals)
    if name in _COMPARISONS and out.dtype == BOOL:
        if common in TYPES and (common != BOOL or name in ("equal", "not_equal")):
            return common
    elif name in _QUESTIONS and out.dtype == BOOL:
        if common.kind == "f":
            return common
    elif name in _LOGIC and out.dtype == BOOL:
        if common == BOOL:
            return common
    elif name in _ARITHMETIC:
        if common == out.dtype and (common.kind == "f" or (common in (LONG, INT))):
            return common
    elif (name in _FLOATING or name in _MATHEMATICS) and out.dtype.kind == "f":
        if common == out.dtype or (common in (LONG, INT) and out.dtype == DOUBLE and name in _PROMOTES):
            return out.dtype
    raise Refused(name)


def convert(b: Lanes, x: str, dtype: np.dtype) -> str:
    """Return a value of ``b``'s type as one of another type."""
    if dtype == b.dtype:
        return x
    to = b.of(dtype)
    kinds = b.dtype.kind + dtype.kind
    if dtype == BOOL:
        return b.compare("une" if b.dtype.kind == "f" else "ne", x, 0)
    if kinds == "ff":
        word = "fpext" if dtype == DOUBLE else "fptrunc"
    elif kinds == "if":
        word = "sitofp"
    elif kinds == "bf":
        word = "uitofp"
    elif kinds == "bi":
        word = "zext"
    elif kinds == "ii":
        word = "sext" if dtype == LONG else "trunc"
    else:
        raise Refused(f"{b.dtype} as {dtype}")
    return b.code.value(f"{word} {b.type} {x} to {to.type}")


def elementwise(
    b: Lanes, name: str, args: Sequence[str], out: np.dtype, exponent: float | None = None, inline: bool = False
) -> str:
    """Write an operator on lanes of ``b``'s type, the type it computes in.

    Parameters
    ----------
    b : Lanes
        Instructions on the type that ``computed_in`` returned.
    name : str
        The operator.
    args : sequence of str
        Its operands, converted to that type (but for the condition of ``where``).
    out : dtype
        Of the result.
    exponent : float, optional
        Of ``power``, where it is known.
    inline : bool
        Whether mathematics is written in place, for loops over many entries.
    """
    if name == "where":
        return b.select(args[0], args[1], args[2])
    if name == "astype":
        return convert(b, args[0], out)
    if name == "stop_gradient":
        return args[0]
    for table in (_ARITHMETIC, _FLOATING, _QUESTIONS, _LOGIC):
        if name in table:
            return table[name](b, *args)
    if name in _COMPARISONS:
        return b.compare(_COMPARISONS[name][b.dtype.kind != "f"], *args)
    if name in _MATHEMATICS:
        wide = b.of(DOUBLE)
        given = [convert(b, x, DOUBLE) for x in args]
        return convert(wide, _mathematics(wide, name, given, exponent, inline), b.dtype)
    raise Refused(name)


def _mathematics(b: Lanes, name: str, args: Sequence[str], exponent: float | None, inline: bool) -> str:
    if name == "power" and exponent is not None:
        y = maths.power(b, args[0], exponent)
        if y is not None:
            return y
    if inline and name in maths.KERNELS and name not in ("sin", "cos"):
        return maths.KERNELS[name](b, args[0])
    full = f"@m_{name}_{b.width}"
    b.code.declare(full, f"declare {b.type} {full}({', '.join([b.type] * len(args))})")
    return b.code.value(f"call {b.type} {full}({', '.join([f'{b.type} {x}' for x in args])})")
