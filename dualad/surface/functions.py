"""How a NumPy function gets its handler, which has NumPy's own signature.

Not for: any handler.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.tables import FUNCTIONS, register

__all__ = ["function"]


def function(*numpy_functions: Callable, kind: str = "op") -> Callable:
    """Register a handler, with NumPy's own signature, for the given NumPy functions.

    Some of NumPy's names are one function in some releases and two in others, so a function may be given twice here.
    """

    def registered(handler: Callable) -> Callable:
        for f in dict.fromkeys(numpy_functions):
            register(FUNCTIONS, f, handler, kind)
        return handler

    return registered
