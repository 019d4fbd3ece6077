"""Ufuncs that ``np.frompyfunc`` and ``numba.vectorize`` make of Python functions: called on entry after entry.

For: ``python_function``, the function in such a ufunc, and ``call_on_entries``. Not for: ufuncs of compiled code, which
are refused (``foreign.py``), or ``np.vectorize``, which dispatches nothing (``dualad/numpy/creation.py``).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..core.tracer import Tracer, tracer_in
from .arguments import operand

__all__ = ["call_on_entries", "python_function"]


def python_function(ufunc: Any) -> Callable | None:
    """Return the function that a ufunc was made of; None if it is compiled."""
    if not isinstance(ufunc, np.ufunc):  # numba's
        return getattr(ufunc, "__wrapped__", None)
    if ufunc.types != ["O" * ufunc.nin + "->" + "O" * ufunc.nout] or not ufunc.__name__.endswith(" (vectorized)"):
        return None
    return next(filter(callable, gc.get_referents(ufunc)), None)  # which no attribute tells


def call_on_entries(function: Callable, outputs: int, inputs: Sequence) -> object:
    """Call a function of numbers on the entries of arrays that are broadcast, and join what it returns."""
    # Entries of plain arrays are Python's numbers, as they are to NumPy there.
    shape = np.broadcast_shapes(*[np.shape(x) for x in inputs])
    arrays = [np.broadcast_to(x if isinstance(x, Tracer) else np.asarray(x, object), shape) for x in inputs]
    results = [function(*[a[index] for a in arrays]) for index in np.ndindex(*shape)]
    if outputs == 1:
        return _joined(results, shape)
    columns = zip(*results, strict=True) if results else [()] * outputs
    return tuple([_joined(column, shape) for column in columns])


def _joined(results: Iterable, shape: tuple[int, ...]) -> object:
    results = [*results]
    if not shape:
        return results[0]
    if tracer_in(results) is not None:
        return np.reshape(operand(results), shape)
    out = np.empty(len(results), object)
    out[:] = results
    return out.reshape(shape)
