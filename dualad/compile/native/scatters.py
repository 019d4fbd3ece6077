"""Indices of large arrays that are computed: which equations read or add by them, and the loops that add.

Entries are added to zeros one after the other, in the order in which NumPy does: so repeated positions have NumPy's
bits, and float32 numbers are added in double precision where NumPy does that. Rows of a first axis that is indexed as a
whole are shared out among threads. Not for: reading (``kernels.py``), or small arrays (``indices.py``).
"""

from __future__ import annotations

import math
from typing import Any

from ...core.aval import Aval, is_weak
from ...program.variable import Step, Variable, aval_of_atom
from .code import Code, Lanes
from .indices import each_entry, sums_in_double
from .kernels import Kernel, Writer, clamp
from .operators import DOUBLE, convert
from .positions import Places, entry_way, places_of
from .values import load_lanes, storage_type, store_lanes

__all__ = ["Scatter", "is_by_value"]


def is_by_value(step: Step) -> bool:
    """Whether an equation with a computed index is known here; it may raise ``Refused``, too."""
    op, args, params, (out,) = step
    if entry_way(op, args) is None or is_weak(out.aval) or out.aval.dtype != aval_of_atom(args[0]).dtype:
        return False
    where = places_of(op.name, args, params)
    return bool(where.out) and where.out == (out.aval if op.name == "index" else aval_of_atom(args[0])).shape


class Scatter(Kernel):
    """The result of adding entries to zeros; its domain is that of the entries."""

    def __init__(self, step: Step, block: int) -> None:
        super().__init__([step.out], False)
        (_, args, params, (v,)) = self.step_ = step
        self.shape, self.whole = aval_of_atom(args[0]).shape, False
        self.where = Places(params["template"], v.aval.shape, [aval_of_atom(a).shape for a in args[1:]])
        self.is_shared = self.where.axes[0] == (0, 1, 0) and self.shape[0] == v.aval.shape[0]
        self.rows = self.shape[0] if self.is_shared else 1
        self.step = max(1, block * self.rows // math.prod(self.shape))
        wide = sums_in_double(v.aval.dtype, math.prod(self.shape), v.aval.size)
        #: where sums in double precision are until they are whole
        self.partial = [Variable(Aval(v.aval.shape, DOUBLE))] if wide else []

    @property
    def work(self) -> int:
        return math.prod(self.shape) + self.outs[0].aval.size // 8

    def write(self, name: str) -> tuple[str, list[str]]:
        code, v, where = Code(), self.outs[0], self.where
        buffers = self.buffers(code)
        target = self.partial[0] if self.partial else v
        pointer, dtype = buffers[target], target.aval.dtype
        ct, *arrays = self.step_[1]
        first, end = clamp(code, 0, self.rows)
        row = v.aval.size // self.rows * dtype.itemsize
        begin = code.value(f"getelementptr i8, ptr {pointer}, i64 {code.value(f'mul i64 {first}, {row}')}")
        count = code.value(f"mul i64 {code.value(f'sub i64 {end}, {first}')}, {row}")
        code.declare("@llvm.memset.p0.i64", "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        code.effect(f"call void @llvm.memset.p0.i64(ptr {begin}, i8 0, i64 {count}, i1 false)")
        last = len(self.shape)
        whole = where.place + len(where.advanced)
        b = Lanes(code, dtype, 1)

        def add(counters: list[str], offset: str) -> None:
            writer = _Single(code, self, buffers, {i: (0, n) for i, n in enumerate(self.shape)}, counters)
            x, _ = writer.operand(ct, self.index)
            at, _ = writer.address(pointer, v.aval.shape, dtype, writer.known_axes(where, self.index))
            at = code.value(f"getelementptr {storage_type(dtype)}, ptr {at}, i64 {offset}")
            old = code.new(f"load {b.type}, ptr {at}, align {dtype.itemsize}")
            store_lanes(b, b.add(old, convert(b.of(v.aval.dtype), x, dtype)), at)

        def nest(counters: list[str], offset: str) -> None:
            axis = len(counters)
            if axis == whole:
                box = {i: (0, n) for i, n in enumerate(self.shape)}
                left = [*counters, *["0"] * (last - axis)]
                writer = _Single(code, self, buffers, box, left)
                given = [writer.operand(a, where.array_index(j, self.index)) for j, a in enumerate(arrays)]
                offset, _ = writer.offset(where, arrays, given)
            if axis == last:
                add(counters, offset)
                return
            low, high = (first, end) if axis == 0 and self.is_shared else ("0", str(self.shape[axis]))
            with code.each(low, high) as turn:
                nest([*counters, turn], offset)

        nest([], "")
        text, names = code.over_rows(name), [name]
        if self.partial:
            code = Code()
            wide, out = [code.pointer_in("%arrays", self.number[a]) for a in (target, v)]
            place = lambda i: code.value(f"getelementptr double, ptr {wide}, i64 {i}")
            to = lambda b, i: convert(b.of(DOUBLE), load_lanes(b.of(DOUBLE), place(i)), b.dtype)
            each_entry(code, v.aval, to, out)
            names.append(f"{name}_joined")
            text = f"{text}\n{code.over_rows(names[1])}"
        return text, names


class _Single(Writer):
    """Computes entries one by one."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.axis, self.moving = None, set()
