"""Arithmetic: the four operations, powers, remainders, and the linear functions of complex numbers.

Not for: transcendental functions (``elementary.py``), comparisons and choice (``choice.py``).
"""

from __future__ import annotations

import numpy as np

from ..core.aval import Aval
from ..core.op import Op
from .kinds import add_tangents, batch_elementwise, conform, elementwise_shape, scaled, unbroadcast
from .samples import anywhere, away_from, elementwise

__all__ = ["add", "divide", "multiply", "negative", "subtract"]


# ── sums: linear in both arguments together ──────────────────────────────────────────────────────────────────────


def _add_jvp(primals, tangents):
    x, y = primals
    out = x + y
    return out, conform(add_tangents(*tangents), out)


def _add_transpose(ct, x, y):
    return unbroadcast(ct, x) if type(x) is Aval else None, unbroadcast(ct, y) if type(y) is Aval else None


add = Op(
    "add",
    impl=np.add,
    shape=elementwise_shape(np.add),
    jvp=_add_jvp,
    linear_in=(0, 1),
    joint=True,
    transpose=_add_transpose,
    batch=batch_elementwise(np.add),
    samples=elementwise(anywhere(), anywhere(), complex_too=True),
    numpy=[np.add],
    kind="sum",
)


def _subtract_jvp(primals, tangents):
    x, y = primals
    tx, ty = tangents
    out = x - y
    t = tx if ty is None else -ty if tx is None else tx - ty
    return out, conform(t, out)


def _subtract_transpose(ct, x, y):
    return unbroadcast(ct, x) if type(x) is Aval else None, -unbroadcast(ct, y) if type(y) is Aval else None


subtract = Op(
    "subtract",
    impl=np.subtract,
    shape=elementwise_shape(np.subtract),
    jvp=_subtract_jvp,
    linear_in=(0, 1),
    joint=True,
    transpose=_subtract_transpose,
    batch=batch_elementwise(np.subtract),
    samples=elementwise(anywhere(), anywhere(), complex_too=True),
    numpy=[np.subtract],
    kind="sum",
)

negative = Op(
    "negative",
    impl=np.negative,
    shape=elementwise_shape(np.negative),
    jvp=lambda primals, tangents: (-primals[0], -tangents[0]),
    linear_in=(0,),
    transpose=lambda ct, x: (-ct,),
    batch=batch_elementwise(np.negative),
    samples=elementwise(anywhere(), complex_too=True),
    numpy=[np.negative],
    kind="linear",
)


# ── products and quotients ───────────────────────────────────────────────────────────────────────────────────────


def _multiply_jvp(primals, tangents):
    x, y = primals
    tx, ty = tangents
    if ty is None:
        return x * y, tx * y
    if tx is None:
        return x * y, x * ty
    return x * y, tx * y + x * ty


def _multiply_transpose(ct, x, y):
    if type(x) is Aval:
        return unbroadcast(ct * y, x), None
    return None, unbroadcast(ct * x, y)


def _multiply_strong_transpose(ct, x, y):
    if type(x) is Aval:
        return unbroadcast(scaled(ct, y), x), None
    return None, unbroadcast(scaled(ct, x), y)


multiply = Op(
    "multiply",
    impl=np.multiply,
    shape=elementwise_shape(np.multiply),
    jvp=_multiply_jvp,
    linear_in=(0, 1),
    transpose=_multiply_transpose,
    strong_transpose=_multiply_strong_transpose,
    batch=batch_elementwise(np.multiply),
    samples=elementwise(anywhere(), anywhere(), complex_too=True),
    numpy=[np.multiply],
    kind="bilinear",
)


def _divide_jvp(primals, tangents):
    """∂(x/y) = (∂x − (x/y) ∂y) / y: the quotient is at hand, and only one division of tangents is needed."""
    x, y = primals
    tx, ty = tangents
    out = x / y
    if ty is None:
        t = tx / y
    else:
        t = out * ty
        t = -t if tx is None else tx - t
        t = t / y
    return out, conform(t, out)


divide = Op(
    "divide",
    impl=np.divide,
    shape=elementwise_shape(np.divide),
    jvp=_divide_jvp,
    linear_in=(0,),
    transpose=lambda ct, x, y: (unbroadcast(ct / y, x), None),
    strong_transpose=lambda ct, x, y: (unbroadcast(scaled(ct, 1 / y), x), None),
    batch=batch_elementwise(np.divide),
    samples=elementwise(anywhere(), away_from(0.0), complex_too=True),
    numpy=[np.divide],
    kind="quotient",
)
