"""``numpy.linalg`` under the name ``dualad.numpy.linalg``.

For: the array API's extension ``linalg``; every name is NumPy's. Not for: rules or functions of its own.
"""

from __future__ import annotations

import numpy.linalg

from .forward import falls_back

__all__: list[str] = []

__getattr__, __dir__ = falls_back(numpy.linalg, globals())
