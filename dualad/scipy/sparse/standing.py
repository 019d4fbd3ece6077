"""Replacements in lifted code for sparse matrices and factors that SciPy has made: ours, of the same memory.

A matrix that the code holds in a global, a closure or an attribute then has every method that meets tensors, not only
the operators, in which SciPy asks the tensor. Not for: where such objects are looked for (``dualad/lift/``).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import scipy.sparse as ss
import scipy.sparse.linalg as sl

from .linalg import Factors
from .matrices import CLASSES
from .traced import as_traced

__all__ = ["STANDING"]


def _matrix(A: Any, table: Any) -> Any:
    """Return a matrix of ours that shares all attributes with SciPy's: a change of one is a change of the other."""
    cls = CLASSES[type(A).__name__]
    out = cls.__new__(cls)
    out.__dict__ = A.__dict__
    return out


def _factors(lu: Any, table: Any) -> Factors:
    """Return factors that also solve for tensors. Row i and column j of A are those of L U that i and j go to."""
    A = (lu.L @ lu.U).tocsr()[lu.perm_r][:, lu.perm_c]
    return Factors(as_traced(ss.csc_array(A)), lu)


def _solver(method: types.BuiltinMethodType, table: Any) -> Callable | None:
    """Return the same for what ``factorized`` returns, a method of factors."""
    of = method.__self__
    return getattr(_factors(of, table), method.__name__) if isinstance(of, sl.SuperLU) else None


#: a type of SciPy's -> what makes of an object of it, and the table of names, what stands in its place
STANDING: dict[type, Callable] = {
    **{getattr(ss, name): _matrix for name in CLASSES if not name.startswith("dok")},  # which is a dict of entries
    sl.SuperLU: _factors,
    types.BuiltinMethodType: _solver,
}
