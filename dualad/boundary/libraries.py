"""One sentence for each well-known library whose code met a tensor: what to write instead.

For: ``about_library``, which the boundary asks when an error comes out of a function; what pandas and masked arrays ask
a tensor for. Not for: NumPy and SciPy, whose
functions have verdicts of their own.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import NoReturn

import numpy as np

from ..base.containers import mixed_arithmetic_error
from ..base.frames import is_users
from ..core.tables import LIBRARIES, Library
from ..core.tracer import Tracer, tracer_in
from ..errors import ConversionError, DualadError, ForeignArrayError

__all__ = ["about_library", "refusal_behind"]

#: package -> why its code can't work with tensors, and what to write
_LIBRARIES = {
    "matplotlib": (
        "a plot is drawn of plain numbers",
        "plot what the transform returns, or dualad.stop_gradient(x)",
    ),
    "numba": (
        "it compiles code for plain arrays",
        "call the Python function that was compiled, f.py_func(x), or give it a rule: dualad.wrap(f, jac=...)",
    ),
    "pandas": (
        "it keeps tensors as Python objects, and computes by rules of its own with what it takes for no numbers",
        "compute with NumPy: x itself, df.to_numpy(), and the window or the group as an index of it",
    ),
    "sklearn": (
        "it validates, copies and computes with plain arrays in compiled code",
        "fit outside the transform, and write the prediction in NumPy with the fitted numbers (model.coef_)",
    ),
    "sympy": (
        "its functions are of symbols, not of arrays",
        'make a NumPy function of the expression, sympy.lambdify(symbols, expression, "numpy"), and differentiate that',
    ),
}


def _put_into_pandas(x: Tracer, frame: FrameType) -> NoReturn:
    raise ForeignArrayError(
        f"a {x._kind()} of shape {x.shape} was put into an object of pandas.",
        "pandas would keep it as Python objects, and treat numbers and objects differently without a word",
        "compute with the tensor itself, and make the Series or the DataFrame of what the transform returns",
    )


LIBRARIES["pandas"] = Library(as_array=_put_into_pandas)

# What the operators of two libraries ask an operand for before they compute on what they take for plain memory.


def _data(self):
    if sys._getframe(1).f_globals.get("__name__", "").startswith("numpy.ma"):
        raise mixed_arithmetic_error(np.ma.MaskedArray)
    raise AttributeError(f"{type(self).__name__!r} object has no attribute '_data'")


def _pandas_priority(self):
    raise mixed_arithmetic_error(type(sys._getframe(1).f_locals.get("self")))


Tracer._data = property(_data)
Tracer.__pandas_priority__ = property(_pandas_priority)


def about_library(error: BaseException) -> DualadError | None:
    """Say what to write when the user's line called a library that knows plain numbers only."""
    if isinstance(error, AttributeError) and isinstance(error.obj, Tracer) and hasattr(np.ndarray, error.name):
        return ConversionError(
            f".{error.name} was asked of a {error.obj._kind()} of shape {error.obj.shape}.",
            "it is about the bytes of one array in memory, and a tensor is several arrays, or none so far",
            "compute with the tensor itself, or ask dualad.stop_gradient(x), or what the transform returns",
        )
    trace, package, held = error.__traceback__, None, refusal_behind(error) is not None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if _INSTALLED in file:
            package = package or _package(file)
            held = held or (package is not None and tracer_in(*trace.tb_frame.f_locals.values()) is not None)
        elif is_users(file):
            package = None  # the library has called the user back
        trace = trace.tb_next
    if package is None or not held:  # it is about something else
        return None
    why, instead = _LIBRARIES[package]
    text = (error.what if isinstance(error, DualadError) else f"{type(error).__name__}: {error}").partition("\n")[0]
    return ConversionError(f"a tensor was given to {package}: {text}", why, instead)


def refusal_behind(error: BaseException | None) -> DualadError | None:
    """Return an error if it is ours, or the nearest of ours that it was raised from or after."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, DualadError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


_INSTALLED = f"{os.sep}site-packages{os.sep}"


def _package(file: str) -> str | None:
    name = file.partition(_INSTALLED)[2].partition(os.sep)[0]
    return name if name in _LIBRARIES else None
