"""The ufuncs of ``scipy.special`` under the name ``dualad.numpy.special``.

For: SciPy with ``SCIPY_ARRAY_API=1``, which wraps about ninety ufuncs in functions and looks for an implementation in
an extension ``special`` of an array's namespace. Not for: users, who write ``scipy.special``.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        # SciPy is optional; whoever asks for one of these names has it.
        ufunc = getattr(importlib.import_module("scipy.special._ufuncs"), name, None)
        if isinstance(ufunc, np.ufunc):
            return ufunc
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
