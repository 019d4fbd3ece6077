"""``math`` and ``cmath`` as lifted code sees them: Python's functions, and NumPy's wherever there is a tensor.

For: two modules that have every name of the originals. Not for: where they take the originals' places
(``targets.py``).
"""

from __future__ import annotations

import cmath
import functools
import importlib
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numpy as dualad_numpy
from ..base.tree import tree_map
from ..core.aval import python_dtype
from ..core.tracer import Tracer, python_number
from ..memory.buffer import Buffer
from ..numpy.direct import direct

__all__ = ["CMATH", "MATH"]

#: name in math (and cmath) -> NumPy's function
_SAME: dict[str, Callable] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cos": np.cos, "cosh": np.cosh, "exp": np.exp, "isfinite": np.isfinite, "isinf": np.isinf,
    "isnan": np.isnan, "log10": np.log10, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan,
    "tanh": np.tanh,
}  # fmt: skip

_REAL: dict[str, Callable] = {
    "atan2": np.arctan2, "cbrt": np.cbrt, "ceil": np.ceil, "copysign": np.copysign, "degrees": np.degrees,
    "exp2": np.exp2, "expm1": np.expm1, "fabs": np.fabs, "floor": np.floor, "fmod": np.fmod, "log1p": np.log1p,
    "log2": np.log2, "pow": np.power, "radians": np.radians, "remainder": lambda x, y: x - y * np.rint(x / y),
    "trunc": np.trunc, "dist": lambda p, q: np.linalg.norm(dualad_numpy.array(p) - dualad_numpy.array(q)),
    "fsum": lambda entries: np.sum(dualad_numpy.array(entries)),
    "hypot": lambda *xs: functools.reduce(np.hypot, xs, 0.0),
    "ldexp": lambda x, i: x * 2.0**i,
    "prod": lambda entries, start=1: functools.reduce(lambda a, b: a * b, entries, start),
    "sumprod": lambda p, q: sum(a * b for a, b in zip(p, q, strict=True)),
}  # fmt: skip

_ITERATING = frozenset({"dist", "fsum", "prod", "sumprod"})

_SPECIAL = {"erf": "erf", "erfc": "erfc", "gamma": "gamma", "lgamma": "gammaln"}


def _log(x, base=None):
    return np.log(x) if base is None else np.log(x) / np.log(base)


def _modf(x):
    whole = np.trunc(x)
    return x - whole, whole


def _isclose(a, b, *, rel_tol=1e-09, abs_tol=0.0):
    return abs(a - b) <= np.maximum(rel_tol * np.maximum(abs(a), abs(b)), abs_tol)


def _special(name: str) -> Callable:
    def function(x):
        return getattr(importlib.import_module("scipy.special"), name)(x)

    return function


def _complex_first(function: Callable) -> Callable:
    return lambda *xs: function(*[x + 0j for x in xs])


def _either(original: Callable, on_tensors: Callable) -> Callable:
    """Make a function of ``math`` that computes with NumPy when it is given a tensor."""

    @functools.wraps(original)
    def function(*args, **kwargs):
        if any([_holds(a) for a in args]):
            return tree_map(_number, on_tensors(*tree_map(_precise, args), **kwargs))
        return original(*args, **kwargs)

    return function


def _of_iterables(function: Callable) -> Callable:
    """Make a function of iterables see the contents of iterators, which are read once."""

    @functools.wraps(function)
    def of_lists(*args, **kwargs):
        return function(*[x if isinstance(x, (list, tuple, np.ndarray, Tracer)) else [*x] for x in args], **kwargs)

    return of_lists


def _number(x: Any) -> Any:
    """Return a NumPy result as the Python number that ``math`` gives."""
    return python_number(x) if isinstance(x, Tracer) and not x.shape and x.aval.dtype.kind in "fc" else x


def _precise(x: Any) -> Any:
    return _number(x) if isinstance(x, Tracer) and x.aval.dtype != python_dtype(x.aval.dtype) else x


def _holds(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(_holds(item) for item in x)
    return isinstance(x, Tracer) and not (type(x) is Buffer and not x.shape)


def _namespace(original: types.ModuleType, meanings: dict[str, Callable]) -> types.ModuleType:
    module = types.ModuleType(original.__name__, original.__doc__)
    for name, thing in vars(original).items():
        if name in meanings:
            function = _either(thing, meanings[name])
            function = _of_iterables(function) if name in _ITERATING else function
            setattr(module, name, direct(thing, function, makes=False))
        elif not name.startswith("__"):
            setattr(module, name, thing)
    return module


MATH = _namespace(
    math,
    {
        **_SAME,
        **_REAL,
        **{k: _special(v) for k, v in _SPECIAL.items()},
        "log": _log,
        "modf": _modf,
        "isclose": _isclose,
    },
)
CMATH = _namespace(
    cmath,
    {
        **{k: v if k.startswith("is") else _complex_first(v) for k, v in _SAME.items()},
        "log": lambda z, base=None: _log(z + 0j, base),
        "isclose": _isclose,
        "phase": np.angle,
        "polar": lambda z: (np.abs(z), np.angle(z)),
        "rect": lambda r, phi: r * (np.cos(phi) + 1j * np.sin(phi)),
    },
)
