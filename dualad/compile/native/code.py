"""Writing the text of one LLVM function: each expression once, labels, loops, and values of one or eight lanes.

Not for: what operators mean (``operators.py``), or running anything (``engine.py``).
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Code", "Lanes", "PYTHON", "Turn", "WIDTH", "element", "literal"]

#: the functions of CPython that compiled code calls: what each returns, then what it takes
PYTHON = {
    "PyErr_CheckSignals": ["i32"],
    "PyEval_RestoreThread": ["void", "ptr"],
    "PyEval_SaveThread": ["ptr"],
    "PyGILState_Ensure": ["i32"],
    "PyGILState_Release": ["void", "i32"],
    "PyMem_RawFree": ["void", "ptr"],
    "PyMem_RawMalloc": ["ptr", "i64"],
}

#: lanes of a vector
WIDTH = 8

_ELEMENTS = {
    np.dtype(k): v
    for k, v in (("f8", "double"), ("f4", "float"), ("i8", "i64"), ("i4", "i32"), ("i1", "i8"), ("?", "i1"))
}


def element(dtype: np.dtype) -> str:
    """Return the LLVM type of a lane."""
    return _ELEMENTS[dtype]


def literal(x: object, dtype: np.dtype) -> str:
    """Return the text of a number."""
    if dtype.kind == "b":
        return "true" if x else "false"
    if dtype.kind == "i":
        return str(int(x))  # type: ignore[call-overload]
    # A float is written as the double with the same value.
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(dtype.type(x))))[0]:016X}"


class Code:
    """The instructions of a function, in order; equal ones are written once where the first is still in force."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        #: right-hand side -> name, and operands of an operator -> its result, as long as they are in force
        self.known: dict[Any, Any] = {}
        #: values that are zeros, of either sign
        self.zeros: set[str] = set()
        self._count = 0
        #: in front of all else: memory on the stack, which a loop would take at each turn
        self.tables: list[str] = []
        #: name -> declaration, of functions and globals that the code refers to
        self.declared: dict[str, str] = {}
        #: the block that is being written
        self.block = "start"

    def name(self) -> str:
        self._count += 1
        return f"%t{self._count}"

    def value(self, text: str) -> str:
        """Return the name of a value without effects."""
        found: str | None = self.known.get(text)
        if found is None:
            found = self.known[text] = self.name()
            self.lines.append(f"  {found} = {text}")
        return found

    def new(self, text: str) -> str:
        """Return the name of a value that is not to be shared: a load of memory that changes, a call."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def pointer_in(self, table: str, i: int) -> str:
        """Return an address out of a table of addresses."""
        return self.value(f"load ptr, ptr {self.value(f'getelementptr ptr, ptr {table}, i64 {i}')}")

    def table_of(self, pointers: Sequence[str]) -> str:
        """Return a table of addresses."""
        table = self.name()
        self.tables.append(f"  {table} = alloca [{len(pointers)} x ptr]")
        for i, pointer in enumerate(pointers):
            self.effect(f"store ptr {pointer}, ptr {self.value(f'getelementptr ptr, ptr {table}, i64 {i}')}")
        return table

    def effect(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self) -> str:
        self._count += 1
        return f"b{self._count}"

    @property
    def ended(self) -> bool:
        """Whether nothing can follow in the block that is being written."""
        return bool(self.lines) and self.lines[-1].startswith(("  br ", "  ret ", "  switch "))

    def begin(self, label: str) -> None:
        """Begin a block; one that has not ended goes on there."""
        if not self.ended:
            self.jump(label)
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.effect(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.effect(f"br i1 {condition}, label %{yes}, label %{no}")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Write a branch that runs if a condition holds."""
        yes, go = self.label(), self.label()
        self.branch(condition, yes, go)
        self.begin(yes)
        with self.scope():
            yield
        self.begin(go)

    def head(self, label: str, starts: Sequence[tuple[str, str]]) -> tuple[list[str], Callable[[Sequence[str]], None]]:
        """Begin the block that a loop comes back to; ``starts`` are types and first values of what each turn assigns.

        Returns the names of these, and ``close(new)``, which says at the end of a turn what they are in the next one.
        """
        before = self.block
        self.begin(label)
        names, place = [self.name() for _ in starts], len(self.lines)
        self.lines += [""] * len(starts)

        def close(new: Sequence[str]) -> None:
            for k, (name, (kind, x), y) in enumerate(zip(names, starts, new, strict=True)):
                self.lines[place + k] = f"  {name} = phi {kind} [{x}, %{before}], [{y}, %{self.block}]"

        return names, close

    @contextmanager
    def fold(self, first: str, end: str | int, by: int = 1, starts: Sequence[tuple[Lanes, str]] = ()) -> Iterator[Turn]:
        """Write a loop whose counter begins at ``first``, stays below ``end``, and carries on what each turn says."""
        head, body, leave = self.label(), self.label(), self.label()
        (counter, *carried), close = self.head(head, [("i64", first), *[(b.type, x) for b, x in starts]])
        turn = Turn(counter, carried)
        self.branch(self.new(f"icmp slt i64 {counter}, {end}"), body, leave)
        self.begin(body)
        with self.scope():
            yield turn
            close([self.new(f"add i64 {counter}, {by}"), *turn.next])
            self.jump(head)
        self.begin(leave)

    @contextmanager
    def each(self, first: str, end: str | int, by: int = 1) -> Iterator[str]:
        """Write a loop that carries nothing on; what it does is said of the counter."""
        with self.fold(first, end, by) as turn:
            yield turn.counter

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at the end values written inside: they are not in force behind a loop or a branch."""
        before = dict(self.known)
        try:
            yield
        finally:
            self.known = before

    def declare(self, name: str, text: str) -> None:
        self.declared[name] = text

    def call(self, name: str, *args: str | int) -> str:
        """Call a function of CPython's; return its result, if it has one."""
        kind, *takes = PYTHON[name]
        self.declare(f"@{name}", f"declare {kind} @{name}({', '.join(takes)})")
        text = f"call {kind} @{name}({', '.join([f'{t} {a}' for t, a in zip(takes, args, strict=True)])})"
        if kind != "void":
            return self.new(text)
        self.effect(text)
        return ""

    def function(self, head: str, result: str = "void") -> str:
        """Return the function as text, behind the declarations of what it refers to."""
        body = [f"define {head} {{", "start:", *self.tables, *self.lines, f"  ret {result}", "}"]
        return "\n".join([*self.declared.values(), *body])

    def over_rows(self, name: str) -> str:
        """Return the function ``name(arrays, from, to)`` as text."""
        return self.function(f"void @{name}(ptr %arrays, i64 %from, i64 %to)")

    def table(self, x: np.ndarray) -> str:
        """Return the address of a constant array."""
        kind = "i8" if x.dtype.kind == "b" else element(x.dtype)
        texts = [literal(v, x.dtype) if x.dtype.kind != "b" else str(int(v)) for v in x.ravel().tolist()]
        name = f"@k{len(self.declared)}"
        listed = ", ".join([f"{kind} {t}" for t in texts])
        self.declare(name, f"{name} = private constant [{len(texts)} x {kind}] [{listed}], align 64")
        return name


@dataclass(slots=True)
class Turn:
    """An iteration of a loop: its counter, its carry (behind the loop: the last one), and on to the next."""

    counter: str
    carried: list[str]
    next: Sequence[str] = ()


@functools.cache
def _words(dtype: np.dtype, width: int) -> tuple[str, str, str, str, str]:
    """The LLVM types of a lane, a vector, a mask and a vector of words, and the suffix of intrinsics."""
    lane = element(dtype)
    wide = lambda t: t if width == 1 else f"<{width} x {t}>"
    short = {"double": "f64", "float": "f32"}.get(lane, lane)
    return lane, wide(lane), wide("i1"), wide(f"i{8 * dtype.itemsize}"), short if width == 1 else f"v{width}{short}"


class Lanes:
    """Instructions on values of one element type, of one lane or of eight."""

    def __init__(self, code: Code, dtype: np.dtype, width: int) -> None:
        self.code, self.dtype, self.width = code, dtype, width
        self.lane, self.type, self.mask, self.bits, self.suffix = _words(dtype, width)

    def of(self, dtype: np.dtype) -> Lanes:
        """Return the instructions on as many lanes of another type."""
        return Lanes(self.code, dtype, self.width)

    def constant(self, x: object) -> str:
        text = literal(x, self.dtype)
        return text if self.width == 1 else f"splat ({self.lane} {text})"

    def whole(self, n: int) -> str:
        return str(n) if self.width == 1 else f"splat (i64 {n})"

    def _at(self, x: str | float) -> str:
        return x if isinstance(x, str) else self.constant(x)

    def do(self, op: str, x: str | float, y: str | float) -> str:
        return self.code.value(f"{op} {self.type} {self._at(x)}, {self._at(y)}")

    def add(self, x, y) -> str:
        total = self.do("fadd" if self.dtype.kind == "f" else "add", x, y)
        return self.known_zero(total) if x in self.code.zeros and (y in self.code.zeros or y == 0) else total

    def sub(self, x, y) -> str:
        return self.do("fsub" if self.dtype.kind == "f" else "sub", x, y)

    def mul(self, x, y) -> str:
        return self.do("fmul" if self.dtype.kind == "f" else "mul", x, y)

    def div(self, x, y) -> str:
        return self.do("fdiv", x, y)

    def known_zero(self, x: str) -> str:
        """Return the same value, and note that it is a zero of either sign."""
        self.code.zeros.add(x)
        return x

    def neg(self, x) -> str:
        if self.dtype.kind == "f":
            return self.code.value(f"fneg {self.type} {self._at(x)}")
        return self.do("sub", 0, x)

    def call(self, name: str, *args) -> str:
        """Call an intrinsic of LLVM."""
        full = f"@llvm.{name}.{self.suffix}"
        self.code.declare(full, f"declare {self.type} {full}({', '.join([self.type] * len(args))})")
        return self.code.value(f"call {self.type} {full}({', '.join([f'{self.type} {self._at(a)}' for a in args])})")

    def fma(self, x, y, z) -> str:
        return self.call("fma", x, y, z)

    def compare(self, predicate: str, x, y) -> str:
        word = "fcmp" if self.dtype.kind == "f" else "icmp"
        return self.code.value(f"{word} {predicate} {self.type} {self._at(x)}, {self._at(y)}")

    def select(self, mask: str, x, y) -> str:
        if mask in ("true", "false"):
            return self._at(x if mask == "true" else y)
        return self.code.value(f"select {self.mask} {mask}, {self.type} {self._at(x)}, {self.type} {self._at(y)}")

    def at_most(self, x: str, bound: str | float) -> str:
        """Return the smaller of two; a NaN stays."""
        return self.select(self.compare("ogt" if self.dtype.kind == "f" else "sgt", x, bound), bound, x)

    def both(self, x: str, y: str) -> str:
        return self.code.value(f"and {self.mask} {x}, {y}")

    def either(self, x: str, y: str) -> str:
        return self.code.value(f"or {self.mask} {x}, {y}")

    def invert(self, x: str) -> str:
        return self.code.value(f"xor {self.mask} {x}, {'true' if self.width == 1 else 'splat (i1 true)'}")

    def any(self, mask: str) -> str:
        if self.width == 1:
            return mask
        full = f"@llvm.vector.reduce.or.v{self.width}i1"
        self.code.declare(full, f"declare i1 {full}({self.mask})")
        return self.code.value(f"call i1 {full}({self.mask} {mask})")

    def is_nan(self, x: str) -> str:
        return self.compare("uno", x, x)

    # ── the bits of floats ───────────────────────────────────────────────────────────────────────────────────────

    def as_bits(self, x: str) -> str:
        return self.code.value(f"bitcast {self.type} {self._at(x)} to {self.bits}")

    def from_bits(self, x: str) -> str:
        return self.code.value(f"bitcast {self.bits} {x} to {self.type}")

    def on_bits(self, op: str, x: str, y: str | int) -> str:
        return self.code.value(f"{op} {self.bits} {x}, {self.whole(y) if isinstance(y, int) else y}")

    # ── lanes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def splat(self, x: str) -> str:
        """Return a vector of one lane's value everywhere."""
        if self.width == 1:
            return x
        if not x.startswith("%"):
            return f"splat ({self.lane} {x})"
        first = self.code.value(f"insertelement {self.type} poison, {self.lane} {x}, i64 0")
        mask = f"<{self.width} x i32> zeroinitializer"
        return self.code.value(f"shufflevector {self.type} {first}, {self.type} poison, {mask}")

    def at(self, x: str, i: int) -> str:
        """Return one lane."""
        if self.width == 1:
            return x
        return self.code.value(f"extractelement {self.type} {x}, i64 {i}")

    def joined(self, lanes: Sequence[str]) -> str:
        """Return a vector of lanes."""
        if len(set(lanes)) == 1:
            return self.splat(lanes[0])
        if not any([x.startswith("%") for x in lanes]):
            return f"<{', '.join([f'{self.lane} {x}' for x in lanes])}>"
        out = "poison"
        for i, x in enumerate(lanes):
            out = self.code.value(f"insertelement {self.type} {out}, {self.lane} {x}, i64 {i}")
        return out

    def literals(self, x: str) -> list[str] | None:
        """Return the lanes of a vector that is written out; None of another."""
        return re.findall(rf"{self.lane} ([^ ,>]+)", x) if x.startswith("<") else None

    def across(self, x: str) -> str:
        """Return the sum of eight lanes, neighbours first, as NumPy adds them."""
        for by in (1, 2, 4):
            x = self.add(x, self.shuffled(x, x, [i ^ by for i in range(WIDTH)]))
        return self.at(x, 0)

    def shuffled(self, x: str, y: str, lanes: Sequence[int | None]) -> str:
        """Return lanes of two vectors, numbered through; None is any, which nothing will read."""
        if x == y:
            lanes = [None if i is None else i % self.width for i in lanes]
            y = "poison"
        if all([i is None or i == k for k, i in enumerate(lanes)]):
            return x
        mask = ", ".join(["i32 poison" if i is None else f"i32 {i}" for i in lanes])
        return self.code.value(f"shufflevector {self.type} {x}, {self.type} {y}, <{self.width} x i32> <{mask}>")
