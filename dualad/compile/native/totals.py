"""Totals of long axes: what each starts from, how an entry joins it, and how two become one.

Not for: the loops that make them (``reductions.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .code import Lanes
from .operators import INT, LONG, combiner

__all__ = ["ACCUMULATORS", "Accumulator"]


class Accumulator(NamedTuple):
    """A total: what it starts from, how an entry joins, how two become one, the first being that of earlier entries."""

    dtypes: tuple[np.dtype, ...]
    start: Callable[[Lanes, str], tuple[str, ...]]
    step: Callable[[Lanes, tuple[str, ...], str, str], tuple[str, ...]]
    combine: Callable[[Lanes, tuple[str, ...], tuple[str, ...]], tuple[str, ...]]
    finish: Callable[[Lanes, tuple[str, ...]], str]


def _sum(dtype: np.dtype) -> Accumulator:
    dtype = LONG if dtype.kind == "b" else dtype  # truth values are counted
    zero = -0.0 if dtype.kind == "f" else 0  # -0.0 + x is x, whatever x is
    return Accumulator(
        (dtype,),
        lambda b, at: (b.constant(zero),),
        lambda b, acc, x, at: (b.add(acc[0], x),),
        lambda b, x, y: (b.add(x[0], y[0]),),
        lambda b, acc: b.add(acc[0], 0),  # NumPy starts from zero: never -0.0
    )


def _product(dtype: np.dtype) -> Accumulator:
    join = lambda b, x, y: (b.mul(x[0], y[0]),)
    return Accumulator(
        (dtype,), lambda b, at: (b.constant(1),), lambda b, acc, x, at: join(b, acc, (x,)), join, lambda b, acc: acc[0]
    )


def _lowest(dtype: np.dtype, sign: int) -> Any:
    if dtype.kind == "f":
        return sign * math.inf
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


def _extremum(name: str, sign: int) -> Callable[[np.dtype], Accumulator]:
    def make(dtype: np.dtype) -> Accumulator:
        join = lambda b, x, y: combiner(b, name)(x, y)
        return Accumulator(
            (dtype,),
            lambda b, at: (b.constant(_lowest(dtype, sign)),),
            lambda b, acc, x, at: (join(b, acc[0], x),),
            lambda b, x, y: (join(b, x[0], y[0]),),
            lambda b, acc: acc[0],
        )

    return make


def _truth(op: str, start: int) -> Callable[[np.dtype], Accumulator]:
    """Return the total of truth values, which are whole numbers until it is there."""
    join = lambda b, x, y: (b.do(op, x[0], y[0]),)
    return lambda dtype: Accumulator(
        (INT,), lambda b, at: (b.constant(start),), lambda b, acc, x, at: join(b, acc, (x,)), join,
        lambda b, acc: b.compare("ne", acc[0], 0),
    )  # fmt: skip


def _place(beyond: str, sign: int) -> Callable[[np.dtype], Accumulator]:
    """Return the total that is the place of an extremum: of equal ones, or of NaNs (beyond all else), the first."""

    def make(dtype: np.dtype) -> Accumulator:
        def better(b: Lanes, x: str, y: str) -> str:
            if dtype.kind != "f":
                return b.compare(f"s{beyond}", y, x)
            new = b.code.value(f"and {b.mask} {b.is_nan(y)}, {b.invert(b.is_nan(x))}")
            return b.either(b.compare(f"o{beyond}", y, x), new)

        def step(b: Lanes, acc: tuple[str, ...], x: str, at: str) -> tuple[str, ...]:
            yes = better(b, acc[0], x)
            return b.select(yes, x, acc[0]), b.of(LONG).select(yes, at, acc[1])

        def combine(b: Lanes, x: tuple[str, ...], y: tuple[str, ...]) -> tuple[str, ...]:
            more, less = better(b, x[0], y[0]), better(b, y[0], x[0])
            earlier = b.both(b.invert(less), b.of(LONG).compare("slt", y[1], x[1]))
            yes = b.either(more, earlier)
            return b.select(yes, y[0], x[0]), b.of(LONG).select(yes, y[1], x[1])

        return Accumulator(
            (dtype, LONG), lambda b, at: (b.constant(_lowest(dtype, sign)), at), step, combine, lambda b, acc: acc[1]
        )

    return make


ACCUMULATORS: dict[str, Callable[[np.dtype], Accumulator]] = {
    "sum": _sum, "cumsum": _sum, "recurrence": _sum, "cumprod": _product,
    "max": _extremum("max", -1), "min": _extremum("min", 1),
    "argmax": _place("gt", -1), "argmin": _place("lt", 1), "any": _truth("or", 0), "all": _truth("and", 1),
}  # fmt: skip
