"""Dask's arrays in operators that Dask does not compute lazily itself.

For: ``write_into_graph``, which writes such a call into the array's graph and computes nothing: block by block where
entries do not depend on each other, as one task where the array is one block. An array in several blocks is refused
with words, because gathering it in one worker's memory is for the user to ask for. Not for: clusters (``driver.py``).
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.aval import aval_of
from ..core.libraries import is_lazy
from ..core.tables import OPS
from ..errors import UnsupportedError

__all__ = ["write_into_graph"]


def write_into_graph(op: Any, args: Sequence, params: dict, how: str, what: str = "") -> Any:
    """Write an operator on arrays, some of them lazy, into their graph.

    ``how`` is as ``Primitive.blocks``, and ``what`` the operator in words.
    """
    lazy = [a for a in args if is_lazy(a)]
    run = functools.partial(_evaluate, op.name, op.abstract_eval.__module__, params)
    if how == "entries" and not op.multiple_results:
        out = op.abstract_eval(*map(aval_of, args), **params)
        along = [range(np.ndim(a))[::-1] if np.ndim(a) else None for a in args]  # axes are counted from the last one
        indexed = [part for pair in zip(args, along, strict=True) for part in pair]
        blockwise = importlib.import_module("dask.array").blockwise
        return blockwise(run, range(len(out.shape))[::-1], *indexed, dtype=out.dtype)
    largest = max([a.size for a in lazy])
    count = min([a.npartitions for a in lazy if a.size == largest])  # what else there is, is no larger
    ndim = max([np.ndim(a) for a in args])
    if how == "matrices" and ndim == 2:
        return op.impl.__wrapped__(*args, **params)
    if count > 1 and how in ("matrices", "stack") and ndim > 2 and (cuts := _cuts(lazy, ndim)) is not None:
        pieces = [
            write_into_graph(op, [a[start:stop] if np.ndim(a) == ndim and len(a) > 1 else a for a in args], params, how)
            for start, stop in zip([0, *cuts], cuts, strict=False)
        ]
        if op.multiple_results:
            return tuple([np.concatenate(column) for column in zip(*pieces, strict=True)])
        return np.concatenate(pieces)
    if count > 1:
        raise UnsupportedError(
            f"{what or f'`{op.name}`'} met a lazy array in {count} blocks.",
            "all of its values are needed together, and gathering them in one worker's memory is not done unasked",
            "x.rechunk(-1) makes it one block, still lazy; x.compute() gives an array of NumPy's",
        )
    outs = op.abstract_eval(*map(aval_of, args), **params)
    value = importlib.import_module("dask.delayed").delayed(run, pure=True)(*args)
    made = importlib.import_module("dask.array").from_delayed
    if op.multiple_results:
        return tuple([made(value[i], a.shape, a.dtype) for i, a in enumerate(outs)])
    return made(value, outs.shape, outs.dtype)


def _cuts(lazy: list, ndim: int) -> list[int] | None:
    """Return where a stack of matrices is cut along its first axis, if nothing else is cut."""
    stacks = [a for a in lazy if a.ndim == ndim and a.shape[0] > 1]
    whole = all([max(a.numblocks[a.ndim == ndim :], default=1) == 1 for a in lazy])
    return list(itertools.accumulate(stacks[0].chunks[0])) if whole and stacks else None


def _evaluate(name: str, module: str, params: dict, *args: Any) -> Any:
    """Run an operator by its name: what a worker is sent."""
    importlib.import_module(module)  # what needs SciPy is declared there
    out = OPS[name].impl(*args, **params)
    return tuple(map(np.asarray, out)) if OPS[name].multiple_results else np.asarray(out)
