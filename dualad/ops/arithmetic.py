"""Arithmetic: the four operations, powers, remainders, size and sign, and the linear functions of complex numbers.

Not for: transcendental functions (``elementary.py``), comparisons and choice (``choice.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.aval import Array, Aval, aval_of
from ..core.primitive import Primitive
from ..core.tracer import Tracer
from .choice import nowhere, where
from .kinds import (
    add_tangents,
    broadcast_tangent,
    elementwise,
    elementwise_shape,
    factor_transpose,
    is_finite,
    is_wild,
    linear,
    product_strong_transpose,
    strong,
    strong_product,
    times,
    unary,
    unbroadcast,
)
from .kinks import chosen
from .samples import anywhere, away_from, between, complex_plane, elementwise_samples, positive

__all__ = [
    "absolute", "add", "conjugate", "divide", "imag", "multiply", "negative", "power", "real", "sign", "subtract",
]  # fmt: skip


# ── sums: linear in both arguments together ──────────────────────────────────────────────────────────────────────


def _sum(ufunc: np.ufunc, jvp: Callable, transpose: Callable) -> Primitive:
    return elementwise(
        ufunc,
        jvp=jvp,
        linear_in=(0, 1),
        joint=True,
        transpose=transpose,
        samples=anywhere(),
        complex_too=True,
        kind="sum",
    )


def _add_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    x, y = primals
    tx, ty = tangents
    out = x + y
    t = ty if tx is None else tx if ty is None else tx + ty
    return out, t if type(out) is np.float64 else broadcast_tangent(t, out)  # of two scalars there is nothing to ask


def _add_transpose(ct: Array, x: Array, y: Array) -> tuple:
    if x is y and type(x) is Aval:  # variables recorded one from the other share theirs
        ct = unbroadcast(ct, x)
        return ct, ct
    return unbroadcast(ct, x) if type(x) is Aval else None, unbroadcast(ct, y) if type(y) is Aval else None


def _subtract_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    x, y = primals
    tx, ty = tangents
    out = x - y
    t = tx if ty is None else -ty if tx is None else tx - ty
    return out, t if type(out) is np.float64 else broadcast_tangent(t, out)


def _subtract_transpose(ct: Array, x: Array, y: Array) -> tuple:
    return unbroadcast(ct, x) if type(x) is Aval else None, -unbroadcast(ct, y) if type(y) is Aval else None


add = _sum(np.add, _add_jvp, _add_transpose)
subtract = _sum(np.subtract, _subtract_jvp, _subtract_transpose)

negative = elementwise(
    np.negative,
    jvp=lambda primals, tangents: (-primals[0], -tangents[0]),
    linear_in=(0,),
    transpose=lambda ct, x: (-ct,),
    samples=anywhere(),
    complex_too=True,
    kind="linear",
)


# ── products and quotients ───────────────────────────────────────────────────────────────────────────────────────


_NUMBERS = frozenset({float, np.float64})


def _multiply_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    x, y = primals
    tx, ty = tangents
    out = x * y
    if ty is None:
        return out, tx * y if type(y) in _NUMBERS and math.isfinite(y) else times(tx, y)
    if tx is None:
        return out, ty * x if type(x) in _NUMBERS and math.isfinite(x) else times(ty, x)
    if math.isfinite(out) if type(out) is np.float64 else type(out) is np.ndarray and is_finite(out):
        return out, tx * y + ty * x  # both factors are finite
    return out, times(tx, y) + times(ty, x)


def _multiply_transpose(ct: Array, x: Array, y: Array) -> tuple:
    if type(x) is Aval:
        c = ct * y
        return c if c.dtype is x.dtype and c.shape == x.shape else unbroadcast(c, x), None
    return None, unbroadcast(ct * x, y)


multiply = elementwise(
    np.multiply,
    jvp=_multiply_jvp,
    linear_in=(0, 1),
    transpose=_multiply_transpose,
    strong_transpose=product_strong_transpose,
    samples=anywhere(),
    complex_too=True,
    kind="bilinear",
)


def _divide_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    """∂(x/y) = (∂x − (x/y) ∂y) / y: the quotient is at hand, and only one division of tangents is needed."""
    x, y = primals
    tx, ty = tangents
    if ty is None and type(y) is float and y:
        return x / y, tx / y
    try:
        out = x / y
    except ZeroDivisionError:  # of Python numbers; the derivative at a pole is NumPy's
        x, y = strong(x), strong(y)
        out = np.divide(x, y)
    if is_wild(out):  # as products, in which a tangent of zero stays zero
        with np.errstate(divide="ignore", invalid="ignore"):
            t = None if tx is None else strong_product(tx, _reciprocal(y))
            if ty is not None:
                t = add_tangents(t, strong_product(-ty, _reciprocal(y) * out))
        return out, broadcast_tangent(t, out)
    if ty is None:
        t = tx / y
    else:
        t = ty * out if type(out) is np.float64 else out * ty  # NumPy's scalar on the left asks the ufunc
        t = -t if tx is None else tx - t
        t = t / y
    return out, t if type(out) is np.float64 else broadcast_tangent(t, out)


def _reciprocal(y):
    """Return 1/y, of a Python zero too; it stays one of Python's numbers, which widen no dtype."""
    try:
        return 1 / y
    except ZeroDivisionError:
        return complex(math.nan, math.nan) if type(y) is complex else math.copysign(math.inf, y)


def _divide_strong_transpose(ct: Array, x: Array, y: Array, live: Any, hot: bool) -> tuple:
    if live is None and not hot:
        return unbroadcast(ct / y, x), None
    return factor_transpose(ct, x, _reciprocal(y), live, hot), None


divide = elementwise(
    np.divide,
    jvp=_divide_jvp,
    linear_in=(0,),
    transpose=lambda ct, x, y: (unbroadcast(ct / y, x), None),
    strong_transpose=_divide_strong_transpose,
    samples=(anywhere(), away_from(0.0)),
    complex_too=True,
    kind="quotient",
)


# ── powers ───────────────────────────────────────────────────────────────────────────────────────────────────────

square = unary(np.square, anywhere(), lambda x, out: 2 * x)
reciprocal = unary(np.reciprocal, away_from(0.0), lambda x, out: -out * out, singular=True)
cbrt = unary(np.cbrt, away_from(0.0), lambda x, out: 1 / (3 * out * out), singular=True)

# ∂/∂x x^y = y x^(y−1), which is 0 where y = 0, also at x = 0.
# ∂/∂y x^y = x^y log x, which is 0 where x = 0 ≤ y (and −∞ where x = 0 > y).
# Only the points x = 0 are replaced: a mask on y alone would lose the mixed derivative 1/x at y = 0.


def _power_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    x, y = primals
    tx, ty = tangents
    out = _raise_to(x, y)
    if ty is None and type(y) in (int, float) and (y == 0 or y >= 1):
        # The exponent is written in the program: no pole, and the common cases cost one product.
        if y == 0:
            return strong(out), None
        if y == 1:
            return out, broadcast_tangent(tx, out)
        return out, broadcast_tangent(times(tx, 2 * x if y == 2 else y * strong(x) ** (y - 1)), out)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = None if tx is None else strong_product(tx, _power_dx(strong(x), y))
        if ty is not None:
            t = add_tangents(t, strong_product(ty, _power_dy(strong(x), y, out)))
    return out, broadcast_tangent(t, out)


def _raise_to(x, y):
    """Return x**y; of two Python numbers a Python number, as the caller's own code would give, of real ones a real."""
    if type(x) not in _PYTHONS or isinstance(y, Tracer):
        return x**y
    if type(y) in _PYTHONS:
        try:
            out = x**y
        except (OverflowError, ZeroDivisionError):
            return np.power(strong(x), y)
        if type(out) is not complex or complex in (type(x), type(y)):
            return out
    return np.power(x, y)


_PYTHONS = frozenset({int, float, complex})


def _power_dx(x, y):
    flat = y == 0
    if not nowhere(flat):
        flat = flat & (x == 0)
        if not nowhere(flat):
            x = where(flat, 1, x)
    return y * x ** (y - 1.0)


def _power_dy(x, y, out):
    if type(x) in (int, float) and x > 0 and not _is_complex(out):
        return out * math.log(x)
    edge = x == 0
    if not nowhere(edge):
        x = where(edge & ((real(y) if _is_complex(y) else y) >= 0), 1, x)
    if _is_complex(out) and not _is_complex(x):
        x = x + 0j
    return out * np.log(x)


def _is_complex(x) -> bool:
    return aval_of(x).dtype.kind == "c"


power = elementwise(
    np.power,
    jvp=_power_jvp,
    samples=elementwise_samples(positive(), anywhere(), complex_too=True)
    + [(away_from(0.0)(3), np.array([2, 0, -1])), (away_from(0.0)(2), 3), ((2,), 2), (positive()(2), -2), (2, (3,))],
)


# ── remainders: x − ⌊x/y⌋ y, with the quotient held fixed ────────────────────────────────────────────────────────


def _remainder_of(ufunc: np.ufunc, quotient) -> Primitive:
    def jvp(primals: Sequence, tangents: Sequence) -> tuple:
        x, y = primals
        tx, ty = tangents
        out = ufunc(x, y)
        t = tx
        if ty is not None:
            t = ty * -quotient(x, y)
            t = t if tx is None else tx + t
        return out, broadcast_tangent(t, out)

    samples = elementwise_samples(between(5.2, 5.6), between(1.5, 1.7))
    return elementwise(
        ufunc, jvp=jvp, samples=samples + elementwise_samples(between(-5.6, -5.2), between(1.5, 1.7))[1:3]
    )


remainder = _remainder_of(np.remainder, np.floor_divide)
fmod = _remainder_of(np.fmod, lambda x, y: np.trunc(np.divide(x, y)))


# ── size and sign ────────────────────────────────────────────────────────────────────────────────────────────────
#
# With s = sign(z) = z/|z| (and 0 at 0):  ∂|z| = Re(s̄ ∂z), which is 0 at 0, the subgradient of least norm, and
# ∂s = i s Im(s̄ ∂z)/|z|: only a turn of z changes its direction. A real sign is constant.


def _absolute_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    x, t = primals[0], tangents[0]
    if _is_complex(x):
        return abs(x), chosen(real(np.conjugate(np.sign(x)) * t), lambda: x == 0, "absolute")
    return abs(x), chosen(t * np.sign(x), lambda: x == 0, "absolute")


absolute = elementwise(np.absolute, jvp=_absolute_jvp, samples=away_from(0.0), complex_too=True)

fabs = unary(np.fabs, away_from(0.0), lambda x, out: np.sign(x))


def _sign_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    z, t = primals[0], tangents[0]
    s = np.sign(z)
    if not _is_complex(z):
        return s, None
    with np.errstate(divide="ignore"):
        turn = strong_product(imag(np.conjugate(s) * t), 1 / np.absolute(z))
    return s, s * turn * 1j


sign = elementwise(np.sign, jvp=_sign_jvp, samples=away_from(0.0), complex_too=True)


def _copysign_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    """∂(|x| sign y) = sign x · sign y · ∂x, which is 0 at x = 0 as for |x|; the sign of y is constant."""
    x, y = primals
    out = np.copysign(x, y)
    if tangents[0] is None:
        return out, None
    return out, broadcast_tangent(tangents[0] * (np.sign(x) * np.copysign(1.0, y)), out)


copysign = elementwise(np.copysign, jvp=_copysign_jvp, samples=away_from(0.0))


def _hypot_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    """∂√(x² + y²) = (x/r) ∂x + (y/r) ∂y, and 0 at the origin, the subgradient of least norm."""
    x, y = primals
    out = np.hypot(x, y)
    apex = out == 0
    r = out if nowhere(apex) else where(apex, 1, out)
    t = None
    for p, tangent in zip(primals, tangents, strict=True):
        if tangent is not None:
            t = add_tangents(t, tangent * (p / r))
    return out, chosen(broadcast_tangent(t, out), lambda: apex, "hypot")


hypot = elementwise(np.hypot, jvp=_hypot_jvp, samples=away_from(0.0))


# ── linear functions of one number ───────────────────────────────────────────────────────────────────────────────


def _linear_function(function: Callable, *same: np.ufunc, abstract_eval=None, **fields) -> Primitive:
    ufuncs = [f for f in (function, *same) if isinstance(f, np.ufunc)]
    op = linear(
        function.__name__,
        impl=function,
        abstract_eval=abstract_eval or elementwise_shape(function),
        batch=lambda size, x: op(x),
        numpy=ufuncs,
        **fields,
    )
    return op


_reals, _complex = elementwise_samples(anywhere()), elementwise_samples(complex_plane())
_both = elementwise_samples(anywhere(), complex_too=True)

positive_sign = _linear_function(np.positive, transpose=lambda ct, x: (ct,), samples=_both)
conjugate = _linear_function(np.conjugate, transpose=lambda ct, x: (np.conjugate(ct),), samples=_both)
deg2rad = _linear_function(np.deg2rad, np.radians, transpose=lambda ct, x: (np.deg2rad(ct),), samples=_reals)
rad2deg = _linear_function(np.rad2deg, np.degrees, transpose=lambda ct, x: (np.rad2deg(ct),), samples=_reals)


def _part_shape(x: Aval) -> Aval:
    return Aval(x.shape, np.empty(0, x.dtype).real.dtype)


# ⟨c, Re z⟩ = Re Σ c Re z = ⟨c + 0i, z⟩ and ⟨c, Im z⟩ = Re Σ (−i c) z = ⟨−i c, z⟩, for real c.
real = _linear_function(np.real, abstract_eval=_part_shape, transpose=lambda ct, x: (ct + 0j,), samples=_complex)
imag = _linear_function(np.imag, abstract_eval=_part_shape, transpose=lambda ct, x: (ct * -1j,), samples=_complex)
