"""``numpy.fft`` under the name ``dualad.numpy.fft``.

For: the array API's extension ``fft``: every name is NumPy's, and the frequencies have the standard's ``dtype=``.
Not for: rules or functions of its own.
"""

from __future__ import annotations

import numpy as np

from ..boundary.boundary import running
from ..memory.buffer import buffered
from .forward import falls_back

__all__ = ["fftfreq", "rfftfreq"]


def _frequencies(function, n, d, dtype):
    out = function(n, d)
    out = out if dtype is None or not isinstance(out, np.ndarray) else out.astype(dtype)
    return buffered(out) if running.get() else out


def fftfreq(n, d=1.0, device=None, *, dtype=None):
    """As ``numpy.fft.fftfreq``."""
    return _frequencies(np.fft.fftfreq, n, d, dtype)


def rfftfreq(n, d=1.0, device=None, *, dtype=None):
    """As ``numpy.fft.rfftfreq``."""
    return _frequencies(np.fft.rfftfreq, n, d, dtype)


__getattr__, __dir__ = falls_back(np.fft, globals())
