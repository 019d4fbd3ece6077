"""Values by products: the linear program applied to the seeds of a colouring, and the entries read from the results.

For: ``Products``, prepared once for a pattern and a colouring. Seeds are pushed (or pulled) some at a time, so that
what one pass makes stays in the cache. Not for: accumulation without a colouring (``direct.py``).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..core.aval import Aval
from ..core.tracer import Tracer
from ..errors import UnsupportedError
from ..jacobians.call import split_flat
from ..ops.indexing import ARRAY, index
from ..tensors.chunks import Chunking, Plan
from ..transforms.backward import pull_back
from ..transforms.linearize import Linear, Linearization
from ..vmap import vmap
from .coloring import Coloring

__all__ = ["Products"]

#: about how many numbers a pass over the program may hold at a time: what a processor keeps near
_CACHE = 1 << 17


class Products:
    """The products of a colouring, ``chunk_size`` at a time, and where the entries are in their results.

    ``ins`` and ``outs`` are the avals of the leaves of the arguments and of the results.
    """

    def __init__(self, coloring: Coloring, ins: list[Aval], outs: list[Aval], chunk_size: int | None) -> None:
        self.coloring, self.ins, self.outs = coloring, ins, outs
        m, n = coloring.sparsity.shape
        self.chunk_size = chunk_size if chunk_size is not None else max(1, _CACHE // max(m, n, 1))
        self.dtype = np.result_type(*[a.dtype for a in outs]) if outs else np.dtype(float)
        self.passes = [
            (forward, start, min(start + self.chunk_size, count))
            for forward, count in ((True, coloring.forward), (False, coloring.reverse))
            for start in range(0, count, self.chunk_size)
        ]
        self._seeds: dict[tuple, list] = {}

    def values(self, stage: Linearization, executor: Any = None, f: Any = None) -> Any:
        """Return the entries of the matrix, in the order of the pattern, from a linearization.

        With an executor its workers carry out the products; ``f`` is the user's function, for messages.
        """
        lin, C = stage.linear(), self.coloring
        chunks = Chunking("sparse derivative", executor=executor)
        parts = chunks.run(Plan(partial(self._some, lin), len(self.passes), None, chunks.where, "passes", f))
        found = self._read([part for some in parts for part in some])
        if C.substitution is None:
            return found
        if isinstance(found, Tracer):
            raise UnsupportedError(
                "a Hessian with decompression='substitution' was differentiated, batched or compiled.",
                "substitution solves a triangular system in compiled code",
                "use decompression='direct'",
            )
        return C.substitution.entries(found)

    def _read(self, parts: list) -> Any:
        """Read the entries, or the sums they are found from, from the results of all passes, which are flat."""
        places = self.coloring.places
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0, self.dtype)
        if isinstance(whole, Tracer):
            found = index(whole, places, template=(ARRAY,))
        else:
            found = whole.take(places, mode="clip") if whole.size else np.zeros(len(places), self.dtype)
        return found if found.dtype == self.dtype else found.astype(self.dtype)

    def __getstate__(self) -> dict:
        return {**vars(self), "_seeds": {}}  # which are made again, sooner than sent

    def _some(self, lin: Linear, first: int, last: int) -> list:
        """Return the results of passes ``first`` to ``last``."""
        return [self._pass(lin, *p) for p in self.passes[first:last]]

    def _pass(self, lin: Linear, forward: bool, start: int, stop: int) -> Any:
        """Return products (or pulls) ``start`` to ``stop``, one after the other, flat."""
        seeds = self._seed(forward, start, stop)

        def push(*tangents):
            return lin.flat(list(tangents))

        def pull(*cotangents):
            found = pull_back(lin.program, list(cotangents))
            return [np.zeros(a.shape, a.dtype) if c is None else c for c, a in zip(found, self.ins, strict=True)]

        carry = push if forward else pull
        found = carry(*[s[0] for s in seeds]) if stop - start == 1 else vmap(carry, randomness="same")(*seeds)
        rows = [np.reshape(x, (stop - start, -1)) for x in found]
        return (rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)).reshape(-1)

    def _seed(self, forward: bool, start: int, stop: int) -> list[np.ndarray]:
        """Return the sums of unit vectors of the columns (or rows) of some colours, as leaves with a leading axis."""
        known = self._seeds.get((forward, start))
        if known is not None:
            return known
        colors = self.coloring.column_colors if forward else self.coloring.row_colors
        flat = np.zeros((stop - start, len(colors)), bool)
        mine = np.flatnonzero((colors >= start) & (colors < stop))
        flat[colors[mine] - start, mine] = True
        seeds = split_flat(flat, self.ins if forward else self.outs)
        if flat.size <= 8 * _CACHE:  # a million numbers at most are kept
            for s in seeds:
                s.setflags(write=False)
            self._seeds[forward, start] = seeds
        return seeds
