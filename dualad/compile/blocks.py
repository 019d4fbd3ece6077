"""Elementwise equations on large arrays, run together block by block: what lies between them stays in the cache.

A region is a group of elementwise equations of one shape. It is cut into blocks along its entries (or, where an
argument is broadcast, along its rows), and the blocks are shared out among threads. An entry is computed by the same
operations in the same order whatever the blocks are, so results do not depend on them, nor on the number of threads.
Not for: reductions, or arrays that are small enough to stay in the cache as they are.
"""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops.kinds import is_finite
from ..program.ir import Program
from ..program.variable import Variable, aval_of_atom
from .gather import Place, gather
from .simplify import is_elementwise
from .threads import shared_out

__all__ = ["Region", "find_regions", "run_region", "strong_product"]

#: regions are made of results with so many entries and more
LARGE = 1 << 15
#: entries of a block
BLOCK = 1 << 13


class Region:
    """A group of equations: the atoms it reads, the variables it writes, and how a block of it is run."""

    __slots__ = ("flat", "kinds", "name", "outs", "plan", "reads", "shape", "steps", "writes")

    kind = "region"
    multiple_results = True
    effect = raises = False

    def __init__(self, steps: list[tuple], writes: list[Variable]) -> None:
        self.steps, self.writes = steps, writes
        self.shape = steps[0][3][0].aval.shape
        made = {step[3][0] for step in steps}
        reads: dict[Any, Any] = {}
        for step in steps:
            for a in step[1]:
                if not (type(a) is Variable and a in made):
                    reads.setdefault(a if type(a) is Variable else ("constant", id(a)), a)
        self.reads = list(reads.values())
        self.name = "+".join([step[0].name for step in steps])
        shapes = [aval_of_atom(a).shape for a in self.reads]
        self.flat = all([s in ((), self.shape) for s in shapes])
        full = len(self.shape)
        #: per read: whether it is cut with the blocks
        self.kinds = [len(s) == full and (self.flat or s[0] == self.shape[0]) and s != () for s in shapes]
        self._plan(list(reads))

    def _plan(self, keys: list) -> None:
        """Give every equation the slots it reads and the buffer it writes to."""
        slot = {key: i for i, key in enumerate(keys)}
        last: dict[Variable, int] = {}
        for i, (_, args, _, _) in enumerate(self.steps):
            for a in args:
                if type(a) is Variable:
                    last[a] = i
        free: dict[str, list[int]] = {}
        held: dict[Variable, tuple[str, int]] = {}
        buffers: list[np.dtype] = []
        self.plan: list[tuple] = []
        for i, (op, args, params, (out,)) in enumerate(self.steps):
            reads = [slot[a if type(a) is Variable else ("constant", id(a))] for a in args]
            for a in {a for a in args if type(a) is Variable and last[a] == i and a in held}:
                dtype, number = held.pop(a)
                free.setdefault(dtype, []).append(number)
            if out in self.writes:
                target = -1 - self.writes.index(out)
            elif type(op.impl) is np.ufunc:
                dtype = out.aval.dtype
                stock = free.get(dtype.str)
                if stock:
                    target = stock.pop()
                else:
                    target = len(buffers)
                    buffers.append(dtype)
                held[out] = dtype.str, target
            else:
                target = None
            slot[out] = len(slot)
            impl = strong_product if op.name == "scale" and not params else op.impl
            self.plan.append((impl, type(op.impl) is np.ufunc, reads, params, target))
        self.outs = buffers


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


def run_region(region: Region, reads: Sequence) -> list[np.ndarray]:
    """Compute a region: what it writes, as new arrays."""
    shape = region.shape
    results = [np.empty(shape, v.aval.dtype) for v in region.writes]
    targets = results
    if region.flat:
        length, step = results[0].size, BLOCK
        targets = [r.reshape(-1) for r in results]
        reads = [np.ascontiguousarray(x).reshape(-1) if cut else x for x, cut in zip(reads, region.kinds, strict=True)]
    else:
        length = shape[0]
        step = max(1, BLOCK * length // results[0].size)
    context = contextvars.copy_context

    def part(low: int, high: int) -> None:
        _run(region, reads, targets, low, high, step)

    shared_out(part, length, step, context)
    return results


def _run(region: Region, reads: Sequence, targets: list, low: int, high: int, step: int) -> None:
    row = region.shape[1:] if not region.flat else ()
    whole = [np.empty((min(step, high - low), *row), dtype) for dtype in region.outs]
    cut = [i for i, k in enumerate(region.kinds) if k]
    plan = region.plan
    for start in range(low, high, step):
        stop = min(start + step, high)
        values = list(reads)
        for i in cut:
            values[i] = values[i][start:stop]
        buffers = whole if stop - start == step or not whole else [b[: stop - start] for b in whole]
        for impl, is_ufunc, slots, params, target in plan:
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


def strong_product(t: Any, d: Any) -> Any:
    """Return ``t * d`` in which an exactly zero ``t`` stays zero beside an infinite ``d``; warnings are off."""
    out = t * d
    return out if is_finite(out) else np.where(t == 0, 0, out)
