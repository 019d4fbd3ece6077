"""Long Fourier transforms of compiled programs: SciPy's, where it is installed.

NumPy makes real numbers complex before it transforms them, which takes four to eight times as long as SciPy's transform
of real ones; of complex ones SciPy's takes 0.7 to 1.0 of the time. Both are right to rounding, of which compiled code
promises no other than that. Not for: `rfft` and `irfft`, in which there is no difference, or functions that are not
compiled, whose numbers are NumPy's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.aval import Aval
from .threads import threads

__all__ = ["transform"]

#: numbers that are worth loading SciPy's transforms, and more than one thread where there are rows
_LONG, _SHARED = 4096, 1 << 16
_KNOWN = frozenset({np.dtype(np.float64), np.dtype(np.complex128)})


def transform(op: Any, x: Aval) -> Callable | None:
    """Return the function that stands for a transform; None where NumPy's does."""
    if op.name not in ("fft", "ifft") or x.dtype not in _KNOWN or x.size < _LONG:
        return None
    try:
        function = getattr(importlib.import_module("scipy.fft"), op.name)
    except ImportError:
        return None

    def run(x: Any, *, n: int, axis: int, norm: str) -> Any:
        shared = x.ndim > 1 and x.size >= _SHARED
        return function(x, n, axis, norm, workers=threads() if shared else None)

    return run
