"""``scipy.sparse``: constant sparse matrices times traced arrays, and sparse matrices of traced entries.

Matrices made here (``csr_array(...)``, ``diags_array(...)``) are SciPy's and meet tensors in products; one that SciPy
made is wrapped by giving it to the constructor, ``csr_array(A)``. Not for: patterns that depend on traced values.
"""

import functools
import importlib
import types
from typing import Any

import scipy.sparse

from ..mirror import falls_back
from .joining import JOINING, holds_traced
from .matrices import CLASSES, ours
from .traced import TracedSparse

__all__ = [
    "TracedSparse", "bsr_array", "bsr_matrix", "coo_array", "coo_matrix", "csc_array", "csc_matrix", "csr_array",
    "csr_matrix", "dia_array", "dia_matrix", "dok_array", "dok_matrix", "lil_array", "lil_matrix",
]  # fmt: skip

globals().update(CLASSES)
globals().update(JOINING)
_attribute, __dir__ = falls_back(scipy.sparse, JOINING, holds_traced)


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute; functions that construct matrices return the classes of this package."""
    if name == "linalg":
        return importlib.import_module(f"{__name__}.linalg")
    thing = _attribute(name)
    if not isinstance(thing, types.FunctionType) or name.startswith("_"):
        return thing

    @functools.wraps(thing)
    def function(*args, **kwargs):
        return ours(thing(*args, **kwargs))

    globals()[name] = function
    return function
