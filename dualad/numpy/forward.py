"""How a function of NumPy becomes one of ``dualad.numpy``: NumPy's own outside of transforms, aware of buffers inside.

For: ``forwarded`` and ``falls_back``, and the list of the functions that return views or write. Not for: any single
function with a meaning of its own.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..boundary.boundary import running
from ..memory.buffer import VIEWS, WRITERS, call
from .direct import direct

__all__ = ["falls_back", "with_buffers"]

_VIEWS = (
    "reshape", "ravel", "transpose", "swapaxes", "moveaxis", "rollaxis", "squeeze", "expand_dims", "atleast_1d",
    "atleast_2d", "atleast_3d", "flip", "fliplr", "flipud", "rot90", "matrix_transpose", "real", "imag", "split",
    "array_split", "hsplit", "vsplit", "dsplit", "unstack", "linalg.matrix_transpose",
)  # fmt: skip
_WRITERS = ("copyto", "put", "place", "putmask", "put_along_axis", "fill_diagonal")


def _named(name: str) -> Callable | None:
    thing: Any = np
    for part in name.split("."):
        thing = getattr(thing, part, None)
    return thing


VIEWS.update(f for f in map(_named, _VIEWS) if f is not None)
WRITERS.update(f for f in map(_named, _WRITERS) if f is not None)

_DISPATCHER = type(np.sum)


def with_buffers(function: Callable) -> Callable:
    """Return NumPy's function, which under a transform takes buffers and lists of tensors, and returns buffers."""

    @functools.wraps(function)
    def forward(*args, **kwargs):
        return call(function, args, kwargs) if running.get() else function(*args, **kwargs)

    return direct(function, forward)


def falls_back(module: types.ModuleType, namespace: dict) -> tuple[Callable, Callable]:
    """Make ``__getattr__`` and ``__dir__`` of a module whose other names are those of a module of NumPy."""

    def __getattr__(name: str) -> Any:
        thing = getattr(module, name)
        if name.startswith("__"):
            return thing
        if isinstance(thing, _DISPATCHER):
            thing = with_buffers(thing)
        namespace[name] = thing
        return thing

    def __dir__() -> list[str]:
        return sorted({*namespace, *dir(module)})

    return __getattr__, __dir__
