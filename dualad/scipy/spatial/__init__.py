"""``scipy.spatial``: distances between points; the rest is SciPy's and refuses tensors with words.

Not for: rules (``ops/``).
"""

from __future__ import annotations

import scipy.spatial

from ..mirror import falls_back
from . import distance

__all__ = ["distance"]

__getattr__, __dir__ = falls_back(scipy.spatial, globals())
