"""A function mapped over the standard basis, some vectors at a time: here, or by the workers of an executor.

For: columns, rows and products of Jacobians and Hessians. Not for: the vectors (``basis.py``), what is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from .basis import standard_basis
from .chunks import in_chunks
from .core.aval import Aval
from .vmap import vmap

__all__ = ["OverBasis", "join", "over_basis", "share_out"]


def over_basis(
    function: Callable, avals: Sequence[Aval], chunks: Sequence, where: str, again: Callable | None = None,
    unit: str = "columns", likes: Sequence | None = None,
) -> Any:  # fmt: skip
    """Map ``function`` over the standard basis, some vectors at a time, and join what it returns.

    ``chunks`` are chunk_size, max_memory and executor; for workers ``function`` can be pickled, and ``again`` does the
    same without holding a linear program. ``likes`` are arrays of other libraries that the vectors are to be of, each
    ``None`` where they are NumPy's.
    """
    job = OverBasis(function, avals, likes)
    other = None if again is None else lambda: OverBasis(again, avals, likes)
    return join(
        share_out(job, sum([a.size for a in avals]), chunks, where, getattr(again, "function", function), other, unit)
    )


def share_out(
    job: Callable, total: int, chunks: Sequence, where: str, f: Any, other: Callable | None = None,
    unit: str = "columns", anew: bool = False,
) -> list:  # fmt: skip
    """Call a job with ranges, here or by workers; ``f``, ``other`` and ``anew`` are those of ``scale.driver.Plan``."""
    chunk_size, max_memory, executor = chunks
    if executor is None:
        return in_chunks(job, total, chunk_size, max_memory, where)
    from .scale.driver import Plan, chunked  # what other processes need is loaded when there are any

    plan = Plan(job, total, lambda ranges: [()] * len(ranges), where, unit, f, other=other, anew=anew)
    return chunked(plan, chunk_size, max_memory, executor)


def join(parts: list) -> Any:
    """Put blocks of columns one after the other."""
    if len(parts) == 1:
        return parts[0]
    return optree.tree_map(lambda *blocks: np.concatenate(blocks), *parts, namespace="dualad")


class OverBasis:
    """A function mapped over some vectors of the standard basis of these spaces."""

    def __init__(self, function: Callable, avals: Sequence[Aval], likes: Sequence | None) -> None:
        self.function, self.avals = function, list(avals)
        self.likes = likes if likes is not None and any([like is not None for like in likes]) else None

    def __call__(self, start: int, stop: int) -> Any:
        """Map it over vectors ``start`` to ``stop``."""
        return vmap(self.function, randomness="same")(*standard_basis(self.avals, start, stop, self.likes))
