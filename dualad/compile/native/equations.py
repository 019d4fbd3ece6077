"""Equations of a program that one function of machine code computes, and that stand in the program as one.

For: what groups in registers, loops over large arrays and stacks of small matrices have in common. Not for: which
equations they take and how they are written (``groups.py``, ``passes.py``, ``stacks.py``).
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval, is_weak
from ...program.variable import Step, Variable, aval_of_atom
from .. import trust
from ..threads import shared_out
from .apart import LostError
from .bounds import Entry, Held
from .code import Code
from .engine import Engine
from .lowering import count_moved
from .operators import TYPES, Refused, computed_in, have_room
from .positions import OUT_OF_BOUNDS
from .stub import Guarded, as_declared, compile_entry
from .table import Way
from .views import check_view

__all__ = ["Call", "Equations", "are_entries", "is_simple"]

#: a function of some rows: its name, how many rows there are, and how many are a block
Call = tuple[str, int, int]
#: bytes of a number that says how it went
_WORD = 8
_ROWS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Equations:
    """Equations with their function: what it reads and writes, and ``run(*reads)``, which returns a tuple.

    It is the operator of the equation that stands for them.
    """

    kind = name = "native"
    impl = None
    multiple_results = True
    effect = kept = raises = False

    def __init__(self, steps: list[Step], writes: list[Variable], inputs: Sequence[Variable] = ()) -> None:
        self.steps, self.writes = steps, writes
        self.maker: dict[Variable, Step] = {v: step for step in steps for v in step.outs}
        reads: dict[Any, Any] = {v: v for v in inputs}
        for step in steps:
            for a in step.args:
                if type(a) is Variable:
                    if a not in self.maker:
                        reads.setdefault(a, a)
                elif id(a) not in reads and self.is_read(a):
                    reads[id(a)] = a
        self.reads = list(reads.values())
        self._keys = list(reads)
        #: by key, memory of positions that are known
        self.ranges: dict[Any, Held] = {}
        self.text, self.about = "", ""
        #: the function, and the same with all memory between guard zones (``stub.py``)
        self.run: Callable = _not_compiled
        self.guarded: Callable = _not_compiled

    def is_read(self, constant: Any) -> bool:
        """Whether a constant is read from memory; others are written into the function."""
        raise NotImplementedError

    def compile(self, made: Engine) -> None:
        """Write and compile the function; raise ``Refused`` where that turns out to be impossible."""
        raise NotImplementedError

    def link(self, made: Engine, calls: Sequence[Call], held: Sequence[Variable], level: int) -> None:
        """Compile functions ``(arrays, from, to)``, and run them over rows that threads share.

        The arrays are operands, those ``held`` in memory (results among it), and a number: if that is not zero
        in the end, NumPy is asked.
        """
        avals = [aval_of_atom(a) for a in self.reads]
        sizes = [a.size * a.dtype.itemsize for a in (*avals, *[v.aval for v in held])]
        memory = *[self.ranges.get(key, n) for key, n in itertools.zip_longest(self._keys, sizes)], _WORD
        entries = [Entry(name, (memory,), rows) for name, rows, _ in calls]
        linked = made.compile(self.text, [name for name, _, _ in calls], {}, level, entries)
        plans = [(_ROWS(linked.addresses[name]), rows, step) for name, rows, step in calls]
        places = [held.index(v) for v in self.writes]

        wanted = [*[(v.aval.shape, v.aval.dtype) for v in held], ((1,), np.dtype(np.int64))]

        def call(args: Sequence, guards: Callable | None) -> tuple:
            given = [np.asarray(as_declared(x, a)) for x, a in zip(args, avals, strict=True)]
            zones = None if guards is None else guards(given, wanted)
            given, made = (given, [np.empty(*w) for w in wanted]) if zones is None else (zones.given, zones.made)
            made[-1][0] = 0
            arrays = [*given, *made]
            table = (ctypes.c_void_p * len(arrays))(*[x.__array_interface__["data"][0] for x in arrays])
            pointer = ctypes.addressof(table)
            for function, rows, step in plans:
                shared_out(functools.partial(function, pointer), rows, step)
            if zones is not None:
                zones.verify()
            if made[-1][0]:
                return self.ask_numpy(*args)
            return tuple([made[i] if zones is None else made[i].copy() for i in places])

        run = lambda *args: call(args, None)
        run.linked = linked  # type: ignore[attr-defined]
        self.run, self.guarded = run, lambda *args: call(args, Guarded)

    def link_as_one(
        self, made: Engine, calls: Sequence[Call], held: Sequence[Variable], level: int, releases: bool = False
    ) -> None:
        """Compile functions ``(arrays, from, to)``, and run them one after the other by a function with an entry."""
        self.text, scratch = self._in_one(held, calls)
        avals = [aval_of_atom(a) for a in self.reads], [v.aval for v in self.writes]
        known = [self.ranges.get(key) for key in self._keys]
        self.run, self.guarded = compile_entry(
            made, [self.text], avals, scratch, level, self.ask_numpy, releases=releases, held=known
        )

    def _in_one(self, held: Sequence[Variable], calls: Sequence[Call]) -> tuple[str, int]:
        """Return a function that runs the loops one after the other, and the bytes of memory that it needs."""
        code, scratch = Code(), 0
        table = code.new(f"alloca [{len(self.reads) + len(held) + 1} x ptr]")
        for i in range(len(self.reads) + len(held)):
            v = held[i - len(self.reads)] if i >= len(self.reads) else None
            if v is None or v in self.writes:
                source, k = ("%in", i) if v is None else ("%out", self.writes.index(v))
                pointer = code.pointer_in(source, k)
            else:
                pointer = code.value(f"getelementptr i8, ptr %scratch, i64 {scratch}")
                scratch += -(-v.aval.size * v.aval.dtype.itemsize // 64) * 64
            code.effect(f"store ptr {pointer}, ptr {code.value(f'getelementptr ptr, ptr {table}, i64 {i}')}")
        status = code.new("alloca i64")
        code.effect(f"store i64 0, ptr {status}")
        last = code.value(f"getelementptr ptr, ptr {table}, i64 {len(self.reads) + len(held)}")
        code.effect(f"store ptr {status}, ptr {last}")
        for name, rows, _ in calls:
            code.effect(f"call void @{name}(ptr {table}, i64 0, i64 {rows})")
        bad = code.new(f"icmp ne i64 {code.new(f'load i64, ptr {status}')}, 0")
        code.effect(f"ret i32 {code.value(f'select i1 {bad}, i32 {OUT_OF_BOUNDS}, i32 0')}")
        body = ["define i32 @body(ptr %in, ptr %out, ptr %scratch) {", "start:", *code.lines, "}"]
        return "\n".join([self.text, *body]), scratch

    def ask_numpy(self, *args: Any) -> tuple:
        """The results that NumPy gives for these arguments, or its errors."""
        env: dict[Any, Any] = dict(zip(self._keys, args, strict=True))
        with np.errstate(all="ignore"):
            for op, given, params, outs in self.steps:
                out = op.impl(*[env[a] if type(a) is Variable else a for a in given], **params)
                env.update(zip(outs, out if op.multiple_results else (out,), strict=True))
        return tuple([np.require(env[v], v.aval.dtype, "C")[()] for v in self.writes])

    def as_one(self, made: Engine) -> list[Step]:
        """Return the equation that stands for these, or these where they can't be compiled."""
        try:
            self.compile(made)
        except (Refused, LostError):
            return self.steps
        except Exception as error:
            trust.fall_back(f"machine code for {self.about or 'loops'}", error)
            return self.steps
        return [Step(self, self.reads, {}, tuple(self.writes))]


def _not_compiled(*args: Any) -> Any:
    raise RuntimeError("these equations have not been compiled")


def are_entries(way: Way | None, op: Any, args: Sequence[Any], params: dict, avals: Sequence[Aval], out: Aval) -> bool:
    """Whether an equation that moves entries, or computes them one by one, is known; it may raise ``Refused``, too."""
    if way is Way.MOVE or way is Way.JOIN:
        if len(args) > count_moved(op.name, args) or any([a.dtype != out.dtype or is_weak(a) for a in avals]):
            return False
        return check_view(op.name, [a.shape for a in avals], params)
    if way is Way.ENTRYWISE:
        computed_in(op.name, avals, params, out)
    return way is Way.ENTRYWISE


def is_simple(step: Step) -> bool:
    """Whether an equation has one result, and all types are known here."""
    op, args, _, outs = step
    if len(outs) != 1 or op.multiple_results or op.kind == "native" or is_weak(outs[0].aval):
        return False
    if any([isinstance(a, np.ndarray) and not a.dtype.isnative for a in args]) or not have_room(args):
        return False
    avals = [*[aval_of_atom(a) for a in args], outs[0].aval]
    return all([a.dtype in TYPES and a.size for a in avals])
