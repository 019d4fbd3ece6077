"""NumPy for code that may be traced: ``import dualad.numpy as np``.

It has everything NumPy has. Outside of transforms its functions are NumPy's and its arrays plain arrays. Under a
transform ``zeros``, ``empty``, ``array``, ``arange``, … make *buffers*, arrays that can receive traced values
(``out = np.zeros(3); out[0] = x``), ``array`` and ``asarray`` join traced scalars exactly, ``float64(x)`` keeps the
derivative, and ``isinstance(x, np.ndarray)`` is true for tensors. It is also the array API namespace (2024.12) that
tensors return from ``__array_namespace__``.
Not for: the meaning of any function on tensors (``surface/``); NumPy's own functions have the same.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

from ..core.tracer import Tracer
from . import fft, linalg, special
from .creation import *
from .forward import falls_back
from .iteration import nditer
from .scalars import SCALARS, ndarray
from .standard import argsort, array_namespace, cumulative_prod, cumulative_sum, finfo, iinfo, sort, unstack

__all__ = [
    "arange", "argsort", "array", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray",
    "c_", "cumulative_prod", "cumulative_sum", "empty", "eye", "fft", "finfo", "fromfunction", "fromiter", "full",
    "identity", "iinfo", "indices", "isscalar", "linalg", "ndarray", "ndenumerate", "nditer", "ones", "r_", "require",
    "sort", "special", "tri", "unstack", "vectorize", "zeros",
]  # fmt: skip

__all__ += [name for name in np.__all__ if name not in __all__]

globals().update(SCALARS)
if not hasattr(np, "__array_namespace_info__"):  # before NumPy 2.1
    globals().update(importlib.import_module(f"{__name__}.early").NAMES)

_getattr, __dir__ = falls_back(np, globals())


def __getattr__(name: str) -> Any:
    # NumPy loads its generators when they are asked for, and so does this.
    return importlib.import_module(f"{__name__}.random") if name == "random" else _getattr(name)


__array_api_version__ = "2024.12"

setattr(Tracer, "__array_namespace__", array_namespace(sys.modules[__name__]))  # noqa: B010 - no tensor declares it
