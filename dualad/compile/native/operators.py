"""Elementwise operators as instructions: what each one is, for which types, with NumPy's rules of promotion.

An operator or a type that is not in these tables is refused. Arithmetic is IEEE's, operation by operation: nothing is
contracted or reordered. Not for: shapes (``values.py``), reductions, loops.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.aval import Aval, is_weak, result_dtype
from ..whole_numbers import fits
from . import maths
from .code import Code, Lanes, literal

__all__ = [
    "ENTRYWISE", "Entrywise", "JOINED_BY", "Refused", "combiner", "computed_in", "convert", "elementwise",
    "have_room", "of_operands", "operand_type", "short_total",
]  # fmt: skip

DOUBLE, SINGLE, LONG, INT, BOOL = (np.dtype(t) for t in (np.float64, np.float32, np.int64, np.int32, np.bool_))
TYPES = (DOUBLE, SINGLE, LONG, INT, BOOL)


class Refused(Exception):
    """No machine code for this is known here."""


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


def _divided(rest: bool) -> Callable[[Lanes, str, str], str]:
    """Return the operator that finds the quotient of whole numbers, rounded down, or the rest; by 0 both are 0."""

    def write(b: Lanes, x: str, y: str) -> str:
        # What the processor can't divide, by 0 and the least number by -1, is divided by 1.
        zero, minus = b.compare("eq", y, 0), b.compare("eq", y, -1)
        by = b.select(b.either(zero, minus), 1, y)
        q, r = b.do("sdiv", x, by), b.do("srem", x, by)
        down = b.both(b.compare("ne", r, 0), b.compare("slt", b.code.value(f"xor {b.type} {r}, {by}"), 0))
        if rest:
            return b.select(b.either(zero, minus), 0, b.select(down, b.add(r, by), r))
        return b.select(zero, 0, b.select(minus, b.neg(x), b.select(down, b.sub(q, 1), q)))

    return write


def _bits(word: str) -> Callable[[Lanes, str, str], str]:
    return lambda b, x, y: b.do(word, x, y)


def _strong_product(b: Lanes, t: str, d: str) -> str:
    # Beside a zero, d is the zero of its sign.
    if (zero := t == b.constant(0.0)) or t in b.code.zeros:  # of a basis, or made of its zeros
        out = b.call("copysign", 0.0, d)
        return b.known_zero(out if zero else b.mul(t, out))
    if (lanes := b.literals(t)) is None:
        return b.select(b.compare("une", t, 0.0), b.mul(t, d), b.mul(t, b.call("copysign", 0.0, d)))
    # Between zeros and ones, as in the rows of a basis, that is all.
    zeros, ones = [{literal(x, b.dtype) for x in some} for some in ((0.0, -0.0), (0.0, 1.0))]
    word, sign = f"i{8 * b.dtype.itemsize}", -1 << (8 * b.dtype.itemsize - 1)
    kept = ", ".join([f"{word} {sign if x in zeros else -1}" for x in lanes])
    kept = b.from_bits(b.on_bits("and", b.as_bits(d), f"<{kept}>"))
    return kept if ones.issuperset(lanes) else b.mul(t, kept)


# ── the type that an operator computes in, of the common type of its arguments and that of its result ────────────


def _arithmetic(common: np.dtype, out: np.dtype) -> np.dtype | None:
    """Floats and whole numbers stay what they are."""
    return common if common == out and (common.kind == "f" or common in (LONG, INT)) else None


def _same(common: np.dtype, out: np.dtype) -> np.dtype | None:
    return out if common == out else None


def _floating(common: np.dtype, out: np.dtype) -> np.dtype | None:
    return out if common == out and out.kind == "f" else None


def _promoting(common: np.dtype, out: np.dtype) -> np.dtype | None:
    """Whole numbers become floats."""
    return out if out == DOUBLE and common in (LONG, INT) else _floating(common, out)


def _ordering(common: np.dtype, out: np.dtype) -> np.dtype | None:
    return common if out == BOOL and common in TYPES and common != BOOL else None


def _equality(common: np.dtype, out: np.dtype) -> np.dtype | None:
    return common if out == BOOL and common in TYPES else None


def _question(common: np.dtype, out: np.dtype) -> np.dtype | None:
    return common if out == BOOL and common.kind == "f" else None


def _whole(common: np.dtype, out: np.dtype) -> np.dtype | None:
    return out if common == out and out in (LONG, INT) else None


def _bitwise(common: np.dtype, out: np.dtype) -> np.dtype | None:
    return out if common == out and out.kind in "bi" else None


def _logic(common: np.dtype, out: np.dtype) -> np.dtype | None:
    return common if out == common == BOOL else None


# ── instructions ─────────────────────────────────────────────────────────────────────────────────────────────────


class Entrywise(NamedTuple):
    """An operator that computes each entry of its result from those of its arguments at that place.

    ``computed_in(common, out)`` is the type that it computes in, None for types that are not known; ``write(lanes,
    *operands)`` its instructions on that type, None where it is a function (``maths.py``); ``sign`` what NumPy writes
    for it, if that is an operator of Python's; ``is_quick`` says whether it takes a cycle or less.
    """

    computed_in: Callable[[np.dtype, np.dtype], np.dtype | None]
    write: Callable[..., str] | None = None
    sign: str = ""
    is_quick: bool = False


def _comparison(of_floats: str, of_integers: str) -> Callable[[Lanes, str, str], str]:
    return lambda b, x, y: b.compare(of_floats if b.dtype.kind == "f" else of_integers, x, y)


def _xor(b: Lanes, x: str, y: str) -> str:
    return b.code.value(f"xor {b.mask} {x}, {y}")


def _no_longer_nan(predicate: str) -> Callable[[Lanes, str, str], str]:
    """Return the operator that finds the larger or the smaller of two, of which one may be a NaN."""
    return lambda b, x, y: b.select(b.either(b.compare(predicate, x, y), b.is_nan(y)), x, y)


ENTRYWISE: dict[str, Entrywise] = {
    "add": Entrywise(_arithmetic, lambda b, x, y: b.add(x, y), "+", True),
    "subtract": Entrywise(_arithmetic, lambda b, x, y: b.sub(x, y), "-", True),
    "multiply": Entrywise(_arithmetic, lambda b, x, y: b.mul(x, y), "*", True),
    "negative": Entrywise(_arithmetic, lambda b, x: b.neg(x), "-", True),
    "positive": Entrywise(_arithmetic, lambda b, x: x),
    "conjugate": Entrywise(_arithmetic, lambda b, x: x),
    "square": Entrywise(_arithmetic, lambda b, x: b.mul(x, x)),
    "absolute": Entrywise(_arithmetic, _absolute),
    "sign": Entrywise(_arithmetic, _sign),
    "maximum": Entrywise(_arithmetic, _extreme("gt")),
    "minimum": Entrywise(_arithmetic, _extreme("lt")),
    "at_least": Entrywise(_arithmetic, _extreme("gt")),
    "at_most": Entrywise(_arithmetic, _extreme("lt")),
    "divide": Entrywise(_promoting, lambda b, x, y: b.div(x, y), "/"),
    "reciprocal": Entrywise(_floating, lambda b, x: b.div(1.0, x)),
    "sqrt": Entrywise(_promoting, _intrinsic("sqrt")),
    "fabs": Entrywise(_promoting, _intrinsic("fabs")),
    "copysign": Entrywise(_promoting, _intrinsic("copysign")),
    **{name: Entrywise(_floating, _intrinsic(name)) for name in ("ceil", "floor", "rint", "trunc")},
    "fmax": Entrywise(_floating, _no_longer_nan("ogt")),
    "fmin": Entrywise(_floating, _no_longer_nan("olt")),
    "scale": Entrywise(_floating, _strong_product, "", True),
    "less": Entrywise(_ordering, _comparison("olt", "slt")),
    "less_equal": Entrywise(_ordering, _comparison("ole", "sle")),
    "greater": Entrywise(_ordering, _comparison("ogt", "sgt")),
    "greater_equal": Entrywise(_ordering, _comparison("oge", "sge")),
    "equal": Entrywise(_equality, _comparison("oeq", "eq")),
    "not_equal": Entrywise(_equality, _comparison("une", "ne")),
    "signbit": Entrywise(_question, lambda b, x: b.compare("olt", b.call("copysign", 1.0, x), 0.0)),
    "isnan": Entrywise(_question, lambda b, x: b.is_nan(x)),
    "isfinite": Entrywise(_question, lambda b, x: b.compare("olt", b.call("fabs", x), math.inf)),
    "isinf": Entrywise(_question, lambda b, x: b.compare("oeq", b.call("fabs", x), math.inf)),
    "logical_and": Entrywise(_logic, lambda b, x, y: b.both(x, y)),
    "logical_or": Entrywise(_logic, lambda b, x, y: b.either(x, y)),
    "logical_xor": Entrywise(_logic, _xor),
    "logical_not": Entrywise(_logic, lambda b, x: b.invert(x)),
    "bitwise_and": Entrywise(_bitwise, _bits("and")),
    "bitwise_or": Entrywise(_bitwise, _bits("or")),
    "bitwise_xor": Entrywise(_bitwise, _bits("xor")),
    "invert": Entrywise(_bitwise, lambda b, x: b.invert(x) if b.dtype == BOOL else b.do("xor", x, -1)),
    "remainder": Entrywise(_whole, _divided(True)),
    "floor_divide": Entrywise(_whole, _divided(False)),
    # Those of which not all arguments count for the type.
    "where": Entrywise(_same, lambda b, c, x, y: b.select(c, x, y), "", True),
    "stop_gradient": Entrywise(_same, lambda b, x: x),
    "astype": Entrywise(lambda common, out: None if common.kind == "f" and out.kind == "i" else common),
    **{name: Entrywise(_floating if name == "power" else _promoting) for name in maths.FUNCTIONS},
}


#: what makes one entry of two, by the operator that makes one of many
JOINED_BY = {
    "sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "all": "logical_and", "any": "logical_or",
}  # fmt: skip


def have_room(args: Sequence[Any]) -> bool:
    """Whether Python's integers among arguments are those of int64; beyond them NumPy raises."""
    return all([type(a) is not int or fits(a) for a in args])


def computed_in(name: str, avals: Sequence[Aval], params: dict, out: Aval) -> np.dtype:
    """Return the type that an operator computes in, or raise ``Refused``."""
    if is_weak(out) or any([a.dtype not in TYPES for a in (out, *avals)]):
        raise Refused(name)
    if name not in ENTRYWISE or (params and name not in ("astype", "scale")):
        raise Refused(name)
    if name == "where" and avals[0].dtype != BOOL:
        raise Refused(name)
    dtype = ENTRYWISE[name].computed_in(result_dtype(*avals[name == "where" :]), out.dtype)
    if dtype is None:
        raise Refused(name)
    return dtype


def operand_type(name: str, i: int, dtype: np.dtype) -> np.dtype:
    """The type of an operand of an operator that computes in ``dtype``."""
    return BOOL if name == "where" and i == 0 else dtype


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
    """Write an operator on lanes of ``b``'s type, the type it computes in; ``out`` is the result's.

    Its operands ``args`` have that type (but for the condition of ``where``). ``exponent`` is that of ``power``, where
    it is known; ``inline`` mathematics is written in place, for loops over many entries.
    """
    if name == "astype":
        return convert(b, args[0], out)
    if (write := ENTRYWISE[name].write) is not None:
        return write(b, *args)
    wide = b.of(DOUBLE)
    given = [convert(b, x, DOUBLE) for x in args]
    return convert(wide, _mathematics(wide, name, given, exponent, inline), b.dtype)


def of_operands(
    code: Code, name: str, operands: Sequence[tuple[str, int, np.dtype]], dtype: np.dtype, out: np.dtype,
    exponent: float | None = None, inline: bool = False,
) -> tuple[str, int]:  # fmt: skip
    """Write an operator that computes in ``dtype`` on operands, each a text, its lanes and its type.

    The result is a text with as many lanes as one of them has; ``out``, ``exponent`` and ``inline`` are those of
    ``elementwise``.
    """
    key = (name, dtype, out, exponent, inline, *operands)
    found: tuple[str, int] | None = code.known.get(key)
    if found is not None:
        return found
    width = max([lanes for _, lanes, _ in operands])
    b, names = Lanes(code, dtype, width), []
    for i, (x, lanes, given) in enumerate(operands):
        wanted = operand_type(name, i, dtype)
        if given is not wanted:
            x = convert(Lanes(code, given, lanes), x, wanted)
        names.append(b.of(wanted).splat(x) if lanes < width else x)
    found = code.known[key] = elementwise(b, name, names, out, exponent, inline), width
    return found


def short_total(b: Lanes, name: str, entry: Callable[[int], str], count: int, inner: int) -> str:
    """Write a total, ``inner`` entries at a time that lie next to each other: NumPy joins those first."""
    join = combiner(b, name)
    runs = (functools.reduce(join, map(entry, range(first, first + inner))) for first in range(0, count, inner))
    total = functools.reduce(join, runs)
    return b.add(total, 0) if name == "sum" else total  # NumPy starts from zero: never -0.0


def combiner(b: Lanes, name: str) -> Callable[[str, str], str]:
    """Return the function that writes how a total takes another entry."""
    return lambda x, y: elementwise(b, JOINED_BY[name], [x, y], b.dtype)


def _mathematics(b: Lanes, name: str, args: Sequence[str], exponent: float | None, inline: bool) -> str:
    if name == "power" and exponent is not None:
        y = maths.power(b, args[0], exponent)
        if y is not None:
            return y
    function = maths.FUNCTIONS[name]
    if inline and callable(function) and name not in ("sin", "cos"):
        return function(b, *args)
    full = f"@m_{name}_{b.width}"
    b.code.declare(full, f"declare {b.type} {full}({', '.join([b.type] * len(args))})")
    return b.code.value(f"call {b.type} {full}({', '.join([f'{b.type} {x}' for x in args])})")
