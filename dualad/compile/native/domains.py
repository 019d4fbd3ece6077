"""Loops over a domain, part by part, with the entries that ``kernels.py`` writes in their bodies.

A part is where all entries come from the same places, so bodies have no branches. Where an array differs from what it
is elsewhere on some diagonals of constants, these are written after all else, in loops of their own. Not for: what an
entry is, or loops that add up (``reductions.py``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from ...program.variable import Variable
from .bands import offsets_met
from .code import WIDTH, Code, Lanes
from .kernels import Kernel, Writer, clamp, find_cuts
from .operators import LONG, Refused
from .views import Box

__all__ = ["Nest", "Part"]

#: parts that a domain is cut into, at most
_PARTS = 64
#: diagonals that are written by themselves, in all parts of a domain; and entries of a domain for which it is worth it
_DIAGONALS, _WIDE = 48, 512
#: vectors of a row that are written without a loop
_STRAIGHT = 32


class Nest(Kernel):
    """Arrays of one shape, entry by entry."""

    def __init__(self, outs: Sequence[Variable], flat: bool, block: int, lanes: bool = False) -> None:
        super().__init__(outs, flat, lanes)
        self.rows, size = self.shape[0] if self.shape else 1, math.prod(self.shape)
        rows = max(1, block * self.rows // size)
        self.step = -(-rows // 8) * 8 if len(self.shape) == 1 else rows

    def write(self, name: str) -> tuple[str, list[str]]:
        if not self.shape:
            raise Refused("a number")
        code = Code()
        cuts = find_cuts(self, self.number, [(v, home) for v in self.outs for home in self.homes(v)])
        if math.prod([len(c) for c in cuts]) > _PARTS:
            raise Refused("a domain in many parts")
        buffers = self.buffers(code)
        domains = [Part(code, self, buffers, parts) for parts in itertools.product(*cuts)]
        if sum([len(d.offsets) for d in domains]) > _DIAGONALS:
            for domain in domains:
                domain.offsets = []
        for domain in domains:
            domain.write()
        self.whole = len(cuts[0]) == 1 and not any([d.offsets for d in domains])
        return code.over_rows(name), [name]


class Part:
    """The loops over one part of a domain."""

    def __init__(self, code: Code, kernel: Kernel, buffers: dict, parts: Sequence[tuple[int, int]]) -> None:
        self.code, self.kernel, self.buffers = code, kernel, buffers
        self.box: Box = dict(enumerate(parts))
        self.homes = [(v, kernel.homes(v)) for v in kernel.outs]
        #: axes that say where diagonals are, and by how far their counters are apart there
        self.pair, self.offsets = (0, 0), list[int]()
        #: whether off the diagonals entries are the same along the last axis
        self.level = False
        if kernel.bands and math.prod([high - low for low, high in parts]) >= _WIDE:
            self._look()

    def writer(self, code: Code, counters: list[str]) -> Writer:
        return Writer(code, self.kernel, self.buffers, self.box, counters)

    def entries(self, writer: Writer, homes: Sequence | None = None) -> list[list[tuple[str, int]]]:
        homes = self.homes if homes is None else homes
        return [[writer.entry(v, index, computed=True) for index in indices] for v, indices in homes]

    def _write(self, writer: Writer) -> None:
        """Write the entries at the places that the counters say; those of a lane as they come, or registers run out."""
        parts = [self.homes] if not self.kernel.lanes else [
            [(v, indices[i : i + WIDTH])] for v, indices in self.homes for i in range(0, len(indices), WIDTH)
        ]  # fmt: skip
        for part in parts:
            for (v, indices), values in zip(part, self.entries(writer, part), strict=True):
                if not writer.write_rows(self.buffers[v], v, values, indices[0]):
                    for index, value in zip(indices, values, strict=True):
                        writer.write(self.buffers[v], v, value, index)

    def _look(self) -> None:
        """Find out by a draft which diagonals are met."""
        writer = self.writer(Code(), [f"%i{axis}" for axis in self.box])
        writer.off = True
        entries = self.entries(writer)
        met = [m for m in writer.meetings if m]
        found = offsets_met(met) if met and len(met) == len(writer.meetings) else None
        if found is None:
            return
        self.pair, offsets = found
        self.offsets = [d for d in offsets if self._span(d)[0] < self._span(d)[1]]
        self.level = writer.axis is not None and all([width == 1 for some in entries for _, width in some])

    def _span(self, apart: int) -> tuple[int, int]:
        """Return from where to where the first of two counters goes, the other one being so far apart."""
        (low, high), (first, end) = [self.box[axis] for axis in self.pair]
        return max(low, first - apart), min(high, end - apart)

    def write(self) -> None:
        counters = [""] * len(self.box)
        writer = self.writer(self.code, counters)
        writer.off = bool(self.offsets)
        with self.code.scope():
            self.nest(writer, list(self.box), self.box, self.level and writer.off)
        for apart in self.offsets:
            with self.code.scope():
                self.diagonal(apart)

    def diagonal(self, apart: int) -> None:
        """Write the entries where two counters are so far apart."""
        low, high = self.pair
        first, end = self._span(apart)
        counters = [""] * len(self.box)
        writer = self.writer(self.code, counters)
        writer.apart = apart
        axes = [axis for axis in self.box if axis != high]
        if high == len(self.box) - 1:  # vectors go along the diagonal
            writer.axis = low if end - first >= WIDTH else None
            writer.moving = {low, high} if writer.axis is not None else set()
        spans = {**self.box, low: (first, end)}
        self.nest(writer, axes, spans, follow=lambda: self._follow(counters, apart))

    def _follow(self, counters: list[str], apart: int) -> None:
        low, high = self.pair
        counters[high] = self.code.value(f"add i64 {counters[low]}, {apart}")

    def nest(
        self, writer: Writer, axes: Sequence[int], spans: Box, level: bool = False, follow: Callable | None = None
    ) -> None:
        """Write loops over axes, and in the innermost one what the writer says.

        With ``level``, entries are the same along the last axis, and computed before its loop. ``follow`` is called
        where the counters of all loops are there.
        """
        code, counters, axis = self.code, writer.counters, axes[0]
        low, high = spans[axis]
        vector = axis == writer.axis
        first, end = str(low), str(high)
        if level and len(axes) == 1:
            self.entries(writer)
            if axis and high - low <= _STRAIGHT * WIDTH:
                for place in (*range(low, high - WIDTH, WIDTH), high - WIDTH):
                    counters[axis] = str(place)
                    self._write(writer)
                return
        if axis == 0:
            first, end = clamp(code, low, high)
        with code.each(first, end, WIDTH if vector else 1) as turn:
            counters[axis] = turn
            if vector:  # the last vector may begin before the one ahead of it ends: it writes the same numbers again
                counters[axis] = Lanes(code, LONG, 1).at_most(turn, str(high - WIDTH))
            if len(axes) > 1:
                self.nest(writer, axes[1:], spans, level, follow)
            else:
                if follow is not None:
                    follow()
                self._write(writer)
