"""The beginning of a NumPy function's handler: ``function``, which registers it, and arguments made plain.

For: what every NumPy name needs before it can call an operator. Not for: any NumPy name itself, or object
arrays (``objects.py``).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..base.containers import has_own_arithmetic, mixed_arithmetic_error
from ..core.constants import foreign, match_library
from ..core.tables import FUNCTIONS, register
from ..core.tracer import PLAIN, OutByPosition, Tracer
from ..errors import ArgumentTypeError
from .foreign import labelled_operand, sparse_operand
from .objects import join

__all__ = [
    "UNSET", "array_operand", "array_operands", "function", "inexact_operand", "is_given", "is_on",
    "normalize_axes", "normalize_axis", "numpys_own", "operand", "operands", "reduced_axes", "refuse_out",
]  # fmt: skip

#: the default of many of NumPy's keywords, which says that they were not given
UNSET = np._NoValue


def function(*numpy_functions: Callable, kind: str = "op") -> Callable:
    """Register a handler, with NumPy's own signature, for the given NumPy functions.

    Some of NumPy's names are one function in some releases and two in others, so a function may be given twice here.
    """

    def registered(handler: Callable) -> Callable:
        for f in dict.fromkeys(numpy_functions):
            register(FUNCTIONS, f, handler, kind)
        return handler

    return registered


def numpys_own(*numpy_functions: Any, kind: str) -> None:
    """Let NumPy's own Python code be the handler: what it makes arrays of may be tensors, which are arrays to it.

    Not for code that writes into arrays, which may be plain beside a tensor, or branches on values.
    """
    for f in numpy_functions:
        own = f._implementation
        function(f, kind=kind)(_copied(own, _converting(own.__globals__["__name__"])))


@functools.cache
def _converting(module: str) -> dict[str, Any]:
    """Return the names of a module of NumPy's, whose conversions leave tensors alone, in its own functions too."""
    known = vars(sys.modules[module])
    names = {name: _Converting(x) if isinstance(x, ModuleType) else x for name, x in known.items()} | _CONVERSIONS
    own = {name: x for name, x in known.items() if isinstance(x, FunctionType) and x.__globals__ is known}
    names |= {name: _copied(x, names) for name, x in own.items() if name not in _CONVERSIONS}
    return names


def _copied(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    out = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    out.__kwdefaults__ = function.__kwdefaults__
    return out


class _Converting:
    """A module of NumPy's in the eyes of such code."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _CONVERSIONS.get(name) or getattr(self._module, name)


def _as_array(a, dtype=None):
    a = array_operand(a)
    return a if dtype is None or a.dtype == dtype else a.astype(dtype)


def _array(a, dtype=None, *, copy=True, subok=False, ndmin=0):
    a = _as_array(a, dtype)
    a = np.reshape(a, (1,) * (ndmin - a.ndim) + a.shape) if a.ndim < ndmin else a
    return np.copy(a) if copy else a


_CONVERSIONS: dict[str, Callable] = {"array": _array, "asanyarray": _as_array, "asarray": _as_array}


def operand(x):
    """Return an operand as an array, a tensor or a Python scalar; pack object arrays and lists that hold tensors."""
    if isinstance(x, Tracer) or (type(x) in PLAIN and not (type(x) is np.ndarray and x.dtype == object)):
        return x
    if isinstance(x, (list, tuple)):
        return _from_sequence(x)
    if has_own_arithmetic(type(x)):
        if (array := labelled_operand(x)) is not None:
            return operand(array)
        raise sparse_operand(x) if type(x).__module__.startswith("scipy.sparse") else mixed_arithmetic_error(type(x))
    if isinstance(x, np.ndarray):
        return join(x) if x.dtype == object else np.asarray(x)
    if isinstance(x, np.generic) or (hasattr(x, "shape") and hasattr(x, "__array_function__")):
        return x  # an array of another library, as a constant
    return np.asarray(x)


def operands(*xs) -> list:
    """Make several operands plain."""
    return [operand(x) for x in xs]


def array_operand(x):
    """Return an operand as an array, a scalar or a tensor: a Python number becomes NumPy's, and counts in its dtype."""
    x = operand(x)
    return x if hasattr(x, "dtype") else np.asarray(x)[()]


def array_operands(*xs) -> list:
    """Make several operands arrays, scalars of NumPy's or tensors."""
    return [array_operand(x) for x in xs]


def inexact_operand(x):
    """Return an operand as an array or a tensor of floating-point or complex numbers."""
    x = array_operand(x)
    return x if x.dtype.kind in "fc" else x.astype(np.float64)


def is_given(x) -> bool:
    """Whether a keyword (``where=``, ``initial=``) was given something other than its default."""
    return not (x is UNSET or x is None or x is True)


def is_on(switch) -> bool:
    """Whether a keyword (``keepdims=``) that may be left unset was given and is true."""
    return switch is not UNSET and bool(switch)


_PYTHONS = frozenset({bool, int, float, complex})


def _from_sequence(x: Sequence):
    if _holds_tensor(x):
        # Beside others in a list, a Python number is one of NumPy's: it does not give way to their dtype.
        items = [match_library(np.asarray(item), *x) if type(item) in _PYTHONS else operand(item) for item in x]
        return np.stack(items) if items else np.asarray(x)
    return np.asarray(x)


def _holds_tensor(x) -> bool:
    if isinstance(x, (list, tuple)):
        return any(_holds_tensor(item) for item in x)
    if type(x) in PLAIN:
        return type(x) is np.ndarray and x.dtype == object
    return isinstance(x, Tracer) or foreign(x) is not None or (isinstance(x, np.ndarray) and x.dtype == object)


def normalize_axis(axis, ndim: int, where: str) -> int:
    """Return an axis as a non-negative int; out of range is NumPy's error."""
    try:
        axis = axis.__index__()
    except AttributeError:
        raise ArgumentTypeError(
            f"{where}: axis={axis!r} is not an integer.", "axes are counted from 0", "pass an int"
        ) from None
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def normalize_axes(axis, ndim: int, where: str) -> tuple[int, ...]:
    """Return ``axis`` (None for all, an int, or a tuple) as a tuple of distinct non-negative ints."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple([normalize_axis(a, ndim, where) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))])
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return axes


def reduced_axes(axis, ndim: int, where: str) -> tuple[int, ...]:
    """Return the axes of a reduction; NumPy lets a number have one axis in them."""
    return () if not ndim and axis in (0, -1) else normalize_axes(axis, ndim, where)


def refuse_out(out, name: str) -> None:
    """Hand ``out`` given by position to the tracer; by keyword, it has taken it off and writes into it."""
    if out is not None:
        raise OutByPosition(out)
