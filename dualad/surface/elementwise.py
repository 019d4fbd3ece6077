"""NumPy's elementwise array functions: choice, bounds, rounding, parts of complex numbers, questions.

Also the method ``outer`` of the binary ufuncs. Not for: ufunc calls, which reach their operator without a handler.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..base.frames import asked_by_formula
from ..core.aval import Array, DType, aval_of, result_dtype
from ..core.constants import foreign, zeros_matching_library
from ..core.libraries import refuse_lazy
from ..core.tracer import NO_PARAMS, PLAIN, Tracer
from ..errors import UnsupportedError
from ..memory.memory import apply_view, as_array, target
from ..memory.order import in_order, like_copy, order_of
from ..ops import arithmetic, choice, elementary
from ..ops.shaping import stop_gradient
from .arguments import UNSET, array_operand, function, inexact_operand, numpys_own, operand, operands, refuse_out
from .indexing import by_mode
from .ufuncs import ANY_UFUNC, at_loop

# ── choice ───────────────────────────────────────────────────────────────────────────────────────────────────────


@function(np.where)
def where(condition: Array, x: Array = None, y: Array = None, /) -> Array:
    if x is None and y is None:
        return np.nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    out = choice.where(_mask(condition), operand(x), operand(y))
    # Of scalars it is an array without axes. What our formulas make with it are scalars, as NumPy's and SciPy's are.
    return out if np.shape(out) or asked_by_formula() else as_array(out)


def _mask(condition):
    condition = array_operand(condition)
    return condition if condition.dtype == bool else np.not_equal(condition, 0)


@function(np.select, kind="composite")
def select(condlist: Any, choicelist: Any, default: int = 0) -> Array:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        raise ValueError("select with an empty condition list is not possible")
    conditions, choices, out = [array_operand(c) for c in condlist], operands(*choicelist), operand(default)
    for i, condition in enumerate(conditions):
        if condition.dtype != bool:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    dtype = result_dtype(*[aval_of(x) for x in (*choices, out)])
    for condition, x in zip(reversed(conditions), reversed(choices), strict=True):
        out = np.where(condition, x, out)
    return as_array(in_order(out if out.dtype == dtype else out.astype(dtype), "C"))


@function(np.piecewise, kind="composite")
def piecewise(x: Array, condlist: Any, funclist: Any, *args: Array, **kw: Any) -> Array:
    """Evaluate every function on all of ``x`` and select: under ``vmap`` the entries to select are not known."""
    x = array_operand(x)
    if not isinstance(condlist, (list, tuple)):
        condlist = [condlist] if np.ndim(condlist) == x.ndim else list(condlist)
    elif not isinstance(condlist[0], (list, np.ndarray, Tracer)) and foreign(condlist[0]) is None and x.ndim:
        condlist = [condlist]
    conditions = [_mask(c) for c in condlist]
    if len(conditions) == len(funclist) - 1:
        otherwise = True
        for c in conditions:
            otherwise = np.logical_and(otherwise, np.logical_not(c))
        conditions.append(otherwise)
    elif len(conditions) != len(funclist):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    out = zeros_matching_library(x.shape, x.dtype, x)
    for condition, f in zip(conditions, funclist, strict=True):
        if choice.nowhere(condition):
            continue
        piece = operand(f(x, *args, **kw) if callable(f) else f)
        if aval_of(piece).dtype != x.dtype:
            piece = array_operand(piece).astype(x.dtype)
        out = np.where(condition, piece, out)
    return as_array(like_copy(out, x))


@function(np.choose, kind="composite")
def choose(a: Array, choices: Array, out: Array = None, mode: str = "raise") -> Array:
    refuse_out(out, "np.choose")
    a, choices = array_operand(a), [operand(c) for c in choices]
    n = len(choices)
    if a.dtype.kind not in "iub":
        raise TypeError(f"np.choose: the index array has dtype {a.dtype}, integers are needed")
    if mode == "raise":
        if isinstance(a, Tracer):
            raise UnsupportedError(
                'np.choose was given a traced index array with mode="raise".',
                "whether an index is out of range is not known when the program is written",
                'pass mode="clip" or mode="wrap"',
            )
        refuse_lazy(a, 'np.choose with mode="raise"', 'pass mode="clip" or mode="wrap", or ')
        if np.any((a < 0) | (a >= n)) and 0 not in np.broadcast_shapes(a.shape, *map(np.shape, choices)):
            raise ValueError("invalid entry in choice array")
    a = by_mode(a, n, mode)
    chosen = choices[-1]
    for i in range(n - 2, -1, -1):
        chosen = np.where(a == i, choices[i], chosen)
    return np.broadcast_to(chosen, np.broadcast_shapes(a.shape, chosen.shape)) if n == 1 else in_order(chosen, "C")


# The ufunc behind it is met where a plain array clips itself between tensors: array.clip(low, high).
@function(np.clip, np._core.umath.clip, kind="composite")
def clip(
    a: Array, a_min: Any = UNSET, a_max: Any = UNSET, out: Array = None, *, min: Any = UNSET, max: Any = UNSET,
    where: Array = True, dtype: DType = None, casting: str = "same_kind", order: str | None = "K", subok: bool = True,
) -> Array:  # fmt: skip
    refuse_out(out, "np.clip")
    if where is not True:
        raise UnsupportedError(
            "np.clip was called on tensors with where=.",
            "the entries it leaves out would be uninitialized, and an uninitialized value has no derivative",
            "write np.where(mask, np.clip(...), other)",
        )
    if a_min is UNSET and a_max is UNSET:
        a_min, a_max = (None if b is UNSET else b for b in (min, max))
    elif a_min is UNSET or a_max is UNSET:
        raise TypeError(f"clip() missing 1 required positional argument: '{'a_min' if a_min is UNSET else 'a_max'}'")
    elif min is not UNSET or max is not UNSET:
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    x = array_operand(a)
    if x.dtype.kind in "iu":
        # A Python integer beyond the dtype bounds nothing; NumPy's promotion would refuse it.
        limits = np.iinfo(x.dtype)
        a_min = None if type(a_min) is int and a_min <= limits.min else a_min
        a_max = None if type(a_max) is int and a_max >= limits.max else a_max
    common = result_dtype(*[aval_of(operand(v)) for v in (x, a_min, a_max) if v is not None])
    x = x if x.dtype == common else x.astype(common)
    for bound, ufunc, bounded in ((a_min, np.maximum, choice.at_least), (a_max, np.minimum, choice.at_most)):
        if bound is None:
            continue
        bound = operand(bound)
        if dtype is not None or casting != "same_kind":
            x, bound = at_loop(ufunc, (x, bound), dtype, casting)
        x = bounded(x, bound)
    return x


# ── parts of complex numbers ─────────────────────────────────────────────────────────────────────────────────────


@function(np.real)
def real(val: Array) -> Array:
    val = array_operand(val)
    return apply_view(arithmetic.real, val, NO_PARAMS) if val.dtype.kind == "c" else val


@function(np.imag)
def imag(val: Array) -> Array:
    val = array_operand(val)
    if val.dtype.kind == "c":
        return apply_view(arithmetic.imag, val, NO_PARAMS)
    return np.zeros(val.shape, val.dtype, order_of(val))[()]


@function(np.real_if_close, kind="composite")
def real_if_close(a: Array, tol: float = 100) -> Array:
    """Return the real part where all imaginary parts are small: by value, so that lanes of ``vmap`` split.

    All points nearby have small imaginary parts too, so the derivative is that of the real part.
    """
    a = array_operand(a)
    if a.dtype.kind != "c":
        return a
    if tol > 1:
        tol = float(np.finfo(a.dtype).eps) * tol
    refuse_lazy(a, "np.real_if_close", "use np.real(x), or ")
    return np.real(a) if np.all(np.abs(np.imag(a)) < tol) else a


# ── rounding, replacing ──────────────────────────────────────────────────────────────────────────────────────────


@function(np.round, np.around)
def round(a: Array, decimals: int = 0, out: Array = None) -> Array:
    refuse_out(out, "np.round")
    out = elementary.round_(a := array_operand(a), decimals=(places := operator.index(decimals)))
    if places >= 0 and a.dtype.kind in "iu":
        return like_copy(out, a)  # NumPy copies integers
    return in_order(out, order_of(a)) if places and a.ndim > 1 else out


@function(np.fix, kind="composite")
def fix(x: Array, out: Array = None) -> Array:
    refuse_out(out, "np.fix")
    return np.trunc(array_operand(x))


@function(np.nan_to_num, kind="composite")
def nan_to_num(x: Array, copy: bool | None = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    if not copy and isinstance(x, Tracer) and x.shape:
        return target(x, nan_to_num(x, True, nan, posinf, neginf), "np.nan_to_num")
    x = array_operand(x)
    if x.dtype.kind == "c":
        parts = [nan_to_num(part, True, nan, posinf, neginf) for part in (np.real(x), np.imag(x))]
        return parts[0] + parts[1] * x.dtype.type(1j)
    if x.dtype.kind != "f":
        return np.copy(x) if x.shape else x[()]
    if np.broadcast_shapes(x.shape, *[np.shape(v) for v in (nan, posinf, neginf) if v is not None]) != x.shape:
        raise ValueError(f"np.nan_to_num: the replacement does not broadcast to the shape {x.shape}")
    limits = np.finfo(x.dtype)
    out = np.where(np.isnan(x), nan, x)
    infinite = np.isinf(x)
    out = np.where(infinite & (x > 0), limits.max if posinf is None else posinf, out)
    out = np.where(infinite & (x < 0), limits.min if neginf is None else neginf, out)
    return out if out.dtype == x.dtype else out.astype(x.dtype)


# ── smooth functions that are no ufuncs ──────────────────────────────────────────────────────────────────────────


@function(np.sinc)
def sinc(x: Array) -> Array:
    return elementary.sinc(inexact_operand(x), order=0)


@function(np.i0)
def i0(x: Array) -> Array:
    x = array_operand(x)
    if x.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    return elementary.i0(x if x.dtype.kind == "f" else x.astype(float), order=0)


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────

numpys_own(np.angle, np.iscomplex, np.isneginf, np.isposinf, np.isreal, kind="composite")


@function(np.isclose, kind="composite")
def isclose(a: Array, b: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Array:
    x, y, rtol, atol = (stop_gradient(operand(v)) for v in (a, b, rtol, atol))
    if aval_of(y).dtype.kind not in "fc":
        y = y * 1.0  # in floating point, so that the size of the least integer is no integer
    with np.errstate(invalid="ignore"):
        close = (np.absolute(x - y) <= atol + rtol * np.absolute(y)) & np.isfinite(y) | (x == y)
        return close | np.isnan(x) & np.isnan(y) if equal_nan else close


@function(np.allclose, kind="composite")
def allclose(a: Array, b: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Array:
    return _truth(np.all(np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)))


@function(np.array_equal, kind="composite")
def array_equal(a1: Array, a2: Array, equal_nan: bool = False) -> Array:
    x, y = (stop_gradient(array_operand(v)) for v in (a1, a2))
    if np.shape(x) != np.shape(y):
        return False
    return _truth(np.all((x == y) | np.isnan(x) & np.isnan(y) if equal_nan else x == y))


@function(np.array_equiv, kind="composite")
def array_equiv(a1: Array, a2: Array) -> Array:
    x, y = (stop_gradient(array_operand(v)) for v in (a1, a2))
    try:
        np.broadcast_shapes(np.shape(x), np.shape(y))
    except ValueError:
        return False
    return _truth(np.all(x == y))


def _truth(x):
    """Return Python's truth value where it is known, as NumPy does, and a tensor where it is not."""
    return bool(x) if type(x) in PLAIN else x


# ── ufuncs that are composed of others ───────────────────────────────────────────────────────────────────────────


@function(np.float_power, kind="composite")
def float_power(x1: Array, x2: Array) -> Array:
    x1, x2 = array_operand(x1), array_operand(x2)
    kinds = [np.complex128 if v.dtype.kind == "c" else np.float64 for v in (x1, x2)]
    return np.power(x1.astype(kinds[0], copy=False), x2.astype(kinds[1], copy=False))


@function(np.divmod, kind="composite")
def divmod(x1: Array, x2: Array) -> tuple:
    return np.floor_divide(x1, x2), np.remainder(x1, x2)


def _outer(ufunc: np.ufunc):
    def outer(a, b, **kwargs):
        a, b = array_operand(a), array_operand(b)
        return ufunc(np.reshape(a, a.shape + (1,) * b.ndim), b, **kwargs)

    return outer


ANY_UFUNC["outer"] = _outer
