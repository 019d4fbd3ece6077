"""Running a function without NumPy's floating-point warnings, at a tenth of the cost of ``np.errstate``.

For: compiled functions, in which an operation may be computed that the eager program would have silenced. Not for:
anything that users' code runs in.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["quietly"]

try:  # NumPy keeps the state in a context variable; where that has another name, np.errstate does as well
    _state: Any = importlib.import_module("numpy._core._ufunc_config")._extobj_contextvar

    with np.errstate(all="ignore"):
        _quiet = _state.get()
except (ImportError, AttributeError, LookupError):  # pragma: no cover (NumPy of another year)
    _state = None


def quietly(function: Callable) -> Callable:
    """Return ``function`` as it runs under ``np.errstate(all="ignore")``."""
    if _state is None:  # pragma: no cover
        return np.errstate(all="ignore")(function)

    enter, leave, quiet = _state.set, _state.reset, _quiet

    def run(*args):
        token = enter(quiet)
        try:
            return function(*args)
        finally:
            leave(token)

    return run
