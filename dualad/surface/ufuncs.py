"""Ufuncs off the fast path: keywords, methods (``reduce``, ``accumulate``, ``outer``, ``at``), unprepared operands.

Not for: the plain call of a ufunc on arrays and tensors, which the tracer hands straight to the operator.
"""

from __future__ import annotations

import importlib
import sys

import numpy as np

from ..core.dispatch import apply
from ..core.tables import FUNCTIONS, HOOKS, UFUNCS
from ..core.tracer import NO_PARAMS, Tensor
from ..errors import InPlaceError, UnsupportedError
from .arguments import operand

__all__ = ["UFUNC_METHODS", "call_ufunc"]

#: (ufunc, method) -> handler(*inputs, **kwargs)
UFUNC_METHODS: dict = {}


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple, kwargs: dict):
    """Carry out a ufunc call that needs preparation, or refuse it with words."""
    for x in inputs:
        if not isinstance(x, Tensor) and getattr(type(x), "__array_ufunc__", 0) is None:
            return NotImplemented
    _load_special(ufunc)
    if method != "__call__":
        handler = UFUNC_METHODS.get((ufunc, method))
        if handler is None:
            raise UnsupportedError(
                f"np.{ufunc.__name__}.{method} is not supported on tensors yet.",
                "no rule for this method of the ufunc has been declared",
                "write it with the array function of the same meaning (np.sum for np.add.reduce, np.cumsum for"
                " np.add.accumulate, broadcasting for outer)",
            )
        return handler(*inputs, **kwargs)
    out = kwargs.pop("out", None)
    if out is not None and any(o is not None for o in out):
        raise InPlaceError(
            f"np.{ufunc.__name__}: out= was given an array of type {type(out[0]).__name__}.",
            "a plain array can't hold a tangent, and writing into tensors is not supported yet",
            f"use the result: y = np.{ufunc.__name__}(...)",
        )
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    for ignored in ("casting", "order", "subok"):
        kwargs.pop(ignored, None)
    if kwargs and ufunc not in FUNCTIONS:  # what has a handler judges its own keywords (axis= of np.vecdot)
        raise UnsupportedError(
            f"np.{ufunc.__name__}: the keywords {sorted(kwargs)} are not supported on tensors.", "", "leave them out"
        )
    if where is not True:
        raise UnsupportedError(
            f"np.{ufunc.__name__}: where= without out= leaves entries uninitialized.",
            "an uninitialized value has no derivative",
            f"write np.where(mask, np.{ufunc.__name__}(...), other)",
        )
    inputs = tuple([operand(x) for x in inputs])
    if dtype is not None:
        inputs = tuple([np.astype(x, dtype) if isinstance(x, (Tensor, np.ndarray)) else x for x in inputs])
    op = UFUNCS.get(ufunc)
    if op is not None:
        return apply(op, inputs, NO_PARAMS)
    handler = FUNCTIONS.get(ufunc)
    if handler is not None:
        return handler(*inputs, **kwargs)
    raise HOOKS["unsupported"](ufunc)


def _load_special(ufunc: np.ufunc) -> None:
    """Declare the operators of ``scipy.special`` when the first ufunc outside NumPy meets a tensor.

    SciPy is optional and its import is slow, so nothing is imported before the user has imported it.
    """
    if ufunc not in UFUNCS and ufunc not in FUNCTIONS and "scipy.special" in sys.modules:
        importlib.import_module("dualad.ops.special")


HOOKS["ufunc"] = call_ufunc
