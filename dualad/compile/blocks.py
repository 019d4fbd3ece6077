"""Elementwise equations on large arrays, run together block by block: what lies between them stays in the cache.

A region is a group of elementwise equations of one shape. It is cut into blocks along its entries (or, where an
argument is broadcast, along its rows), and the blocks are shared out among threads. An entry is computed by the same
operations in the same order whatever the blocks are, so results do not depend on them, nor on the number of threads.
Not for: reductions, or arrays that are small enough to stay in the cache as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..ops.kinds import is_finite
from ..program.ir import Program, last_uses
from ..program.variable import Variable, aval_of_atom
from .gather import Place, gather
from .native.equations import Equations
from .simplify import is_elementwise
from .threads import shared_out

__all__ = ["Region", "find_regions", "strong_product"]

#: regions are made of results with so many entries and more
LARGE = 1 << 15
#: entries of a block
BLOCK = 1 << 13


class Region(Equations):
    """Elementwise equations of one shape, and how a block of them is run."""

    def __init__(self, steps: list[tuple], writes: list[Variable]) -> None:
        super().__init__(steps, writes)
        self.run = self.guarded = self._run
        self.shape = steps[0][3][0].aval.shape
        shapes = [aval_of_atom(a).shape for a in self.reads]
        self.flat = all([s in ((), self.shape) for s in shapes])
        full = len(self.shape)
        #: per read: whether it is cut with the blocks
        self.kinds = [len(s) == full and (self.flat or s[0] == self.shape[0]) and s != () for s in shapes]
        #: dtypes of what lies between the equations
        self.buffers: list[np.dtype] = []
        self.plan = list(self._planned())

    def is_read(self, constant: Any) -> bool:
        return True

    def _planned(self) -> Iterator[tuple]:
        """Give every equation the slots it reads and the buffer, or the result (from -1 down), that it writes to."""
        slot = {key: i for i, key in enumerate(self._keys)}
        free: dict[str, list[int]] = {}
        held: dict[Variable, tuple[str, int]] = {}
        for (op, args, params, (out,)), dead in zip(self.steps, last_uses(self.steps, self.writes), strict=True):
            for v in dead:
                if v in held:
                    kind, number = held.pop(v)
                    free.setdefault(kind, []).append(number)
            target = None
            if out in self.writes:
                target = -1 - self.writes.index(out)
            elif type(op.impl) is np.ufunc:
                if stock := free.get(out.aval.dtype.str):
                    target = stock.pop()
                else:
                    target = len(self.buffers)
                    self.buffers.append(out.aval.dtype)
                held[out] = out.aval.dtype.str, target
            slot[out] = len(slot)
            impl = strong_product if op.name == "scale" and not params else op.impl
            reads = [slot[a if type(a) is Variable else id(a)] for a in args]
            yield impl, type(op.impl) is np.ufunc, reads, params, target

    def _run(self, *reads: Any) -> list[np.ndarray]:
        """Compute what it writes, as new arrays."""
        results = [np.empty(self.shape, v.aval.dtype) for v in self.writes]
        if not self.flat:
            length = self.shape[0]
            step = max(1, BLOCK * length // results[0].size)
            shared_out(functools.partial(self._run_part, reads, results, step), length, step)
            return results
        targets = [r.reshape(-1) for r in results]
        flat = [np.ascontiguousarray(x).reshape(-1) if cut else x for x, cut in zip(reads, self.kinds, strict=True)]
        shared_out(functools.partial(self._run_part, flat, targets, BLOCK), results[0].size, BLOCK)
        return results

    def _run_part(self, reads: Sequence, targets: list, step: int, low: int, high: int) -> None:
        row = self.shape[1:] if not self.flat else ()
        whole = [np.empty((min(step, high - low), *row), dtype) for dtype in self.buffers]
        cut = [i for i, k in enumerate(self.kinds) if k]
        for start in range(low, high, step):
            stop = min(start + step, high)
            values = list(reads)
            for i in cut:
                values[i] = values[i][start:stop]
            buffers = whole if stop - start == step or not whole else [b[: stop - start] for b in whole]
            for impl, is_ufunc, slots, params, target in self.plan:
                given = [values[s] for s in slots]
                if target is None:
                    values.append(impl(*given, **params))
                elif target >= 0:
                    values.append(impl(*given, buffers[target]))
                elif is_ufunc:
                    values.append(impl(*given, targets[-1 - target][start:stop]))
                else:
                    out = targets[-1 - target][start:stop]
                    out[...] = impl(*given, **params)
                    values.append(out)


def _joins(op: Any, params: dict, outs: Sequence[Variable]) -> bool:
    if len(outs) != 1 or op.multiple_results or not is_elementwise(op) or (params and op.name != "scale"):
        return False
    aval = outs[0].aval
    return aval.size >= LARGE and aval.dtype.kind in "bfciu" and aval.dtype.isnative


def find_regions(program: Program) -> list[tuple]:
    """Return a program's equations with groups of large elementwise ones as one equation each: a ``Region``."""
    if not any([_joins(op, params, outs) for op, _, params, outs in program.steps]):
        return program.steps

    def place(step: tuple, group: list[tuple], depends: bool) -> Place:
        op, _, params, outs = step
        if not _joins(op, params, outs):
            return Place.NOWHERE
        if not group or outs[0].aval.shape == group[0][3][0].aval.shape:
            return Place.HERE
        return Place.NEXT if depends else Place.NOWHERE

    def join(steps: list[tuple], writes: list[Variable]) -> list[tuple]:
        if len(steps) == 1:
            return steps
        region = Region(steps, writes)
        return [(region, region.reads, {}, tuple(writes))]

    return gather(program, place, join)


def strong_product(t: Any, d: Any) -> Any:
    """Return ``t * d`` in which an exactly zero ``t`` stays zero beside an infinite ``d``; warnings are off."""
    out = t * d
    return out if is_finite(out) else np.where(t == 0, 0, out)
