"""Functions of ``scipy.sparse`` that put matrices together, for matrices and diagonals of traced entries.

SciPy is given positions in the place of entries, as in ``traced.py``, which are counted through all blocks. Not for: a
single matrix (``traced.py``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as ss

from ...core.tables import Verdict
from ...core.tracer import Tracer, tracer_in
from ...surface.arguments import operand
from ..mirror import MIRRORED
from .matrices import ours
from .traced import TracedSparse, as_traced, from_coordinates, issparse, place

__all__ = ["JOINING", "holds_traced"]


def holds_traced(x: Any) -> Tracer | None:
    """Return a tensor that is among the entries of matrices, arrays, and lists of them; None without one."""
    if isinstance(x, (list, tuple)):
        return next((t for t in map(holds_traced, x) if t is not None), None)
    return tracer_in(x.entries if isinstance(x, TracedSparse) else x)


class _Positions:
    """The entries of all blocks in a row, and their positions in the place of each block."""

    def __init__(self) -> None:
        self.entries: list = []
        self.count = 1

    def __call__(self, block: Any) -> Any:
        """Return a block with positions for entries."""
        if block is None:
            return None
        if isinstance(block, (list, tuple)):
            return [self(part) for part in block]
        if issparse(block):
            whole = as_traced(block).deduplicated()
            return self._note(whole.entries, whole.positions(self.count))
        block = operand(block)
        return self._note(
            block, np.arange(self.count, self.count + np.size(block), dtype=float).reshape(np.shape(block))
        )

    def _note(self, entries, positions):
        self.entries.append(np.reshape(entries, (-1,)))
        self.count += np.size(entries)
        return positions


def _joins(name: str) -> Callable:
    original = getattr(ss, name)
    signature = inspect.signature(original)

    def function(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        first = next(iter(bound.arguments))
        if holds_traced(bound.arguments[first]) is None:
            return ours(original(*args, **kwargs))
        dtype, positions = bound.arguments.pop("dtype", None), _Positions()
        bound.arguments[first] = positions(bound.arguments[first])
        found = original(*bound.args, **bound.kwargs)
        out = place(found, np.concatenate(positions.entries), name)
        return out if dtype is None else out.astype(dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``scipy.sparse.{name}``; blocks may be matrices, arrays and diagonals of traced entries."
    MIRRORED[f"scipy.sparse.{name}"] = Verdict("composite")
    return function


def kron(A, B, format=None):
    """As ``scipy.sparse.kron``; both may have traced entries."""
    if holds_traced([A, B]) is None:
        return ours(ss.kron(A, B, format))
    a, b = [as_traced(x if isinstance(x, TracedSparse) else ss.coo_array(x)) for x in (A, B)]
    (rows, columns), (r, c), (p, q) = a.coordinates(), b.coordinates(), b.shape
    out = from_coordinates(
        (a.entries[:, None] * b.entries).reshape((-1,)), (rows[:, None] * p + r).ravel(),
        (columns[:, None] * q + c).ravel(), (a.shape[0] * p, a.shape[1] * q), "csr", a.is_matrix and b.is_matrix,
    )  # fmt: skip
    return out.asformat(format or "coo")


def isspmatrix(x: Any) -> bool:
    """Whether x is a sparse matrix (not an array), SciPy's or one of traced entries."""
    return x.is_matrix if isinstance(x, TracedSparse) else ss.isspmatrix(x)


#: name -> our function
JOINING: dict[str, Callable] = {"issparse": issparse, "isspmatrix": isspmatrix, "kron": kron}
MIRRORED |= {f"scipy.sparse.{name}": Verdict("composite") for name in JOINING}

for _name in (
    "block_array", "block_diag", "bmat", "diags", "diags_array", "hstack", "spdiags", "tril", "triu", "vstack",
):  # fmt: skip
    if hasattr(ss, _name):
        JOINING[_name] = _joins(_name)
