"""The entry of a group of machine code: a Python function that runs it, or calls Python for arguments of other types.

Arguments and results are described once, for the ``Stub`` of ``entry.c``. Arguments that are not exactly as declared go
to a Python function instead. Not for: the machine code.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval, is_weak
from .bounds import Entry, Held
from .code import Code
from .engine import Engine
from .front import extension, without_memory
from .operators import BOOL, DOUBLE, INT, LONG, SINGLE
from .positions import OUT_OF_BOUNDS

__all__ = ["Guarded", "StrayWrite", "as_declared", "compile_entry", "python_entry"]

# Copies of the arguments, the results and the memory that it works in lie in one piece of memory, a zone of a pattern
# before and behind each. After the run the zones and the arguments have to be what they were.

#: of every zone and every result before the run: a signalling NaN, whose halves are no numbers that anyone computes
_PATTERN = np.uint64(0x7FF4_DEAD_7FA5_BEEF)
#: bytes of a zone at least and at most; between these it is as long as the array before it
_SHORT, _LONG = 256, 4096
_LINE = 64


class StrayWrite(Exception):
    """Machine code has written outside of its results."""


class Guarded:
    """Arrays between guard zones: copies of those ``given``, and new ones of the shapes and dtypes in ``wanted``."""

    def __init__(self, given: Sequence[np.ndarray], wanted: Sequence[tuple[tuple[int, ...], np.dtype]]) -> None:
        shapes = [*[(a.shape, a.dtype) for a in given], *wanted]
        sizes = [int(np.prod(shape, dtype=np.int64)) * dtype.itemsize for shape, dtype in shapes]
        starts, end = [], _LONG
        for size in sizes:
            starts.append(end)
            end += size + -size % _LINE + min(max(_SHORT, size - size % _LINE), _LONG)
        words = np.full(end // 8 + _LINE // 8, _PATTERN)
        first = -words.ctypes.data % _LINE // 8
        self._memory = words[first : first + end // 8].view(np.uint8)
        arrays = [
            self._memory[start : start + size].view(dtype).reshape(shape)
            for start, size, (shape, dtype) in zip(starts, sizes, shapes, strict=True)
        ]
        self._originals = given
        self.given, self.made = arrays[: len(given)], arrays[len(given) :]
        for a, b in zip(self.given, given, strict=True):
            a[...] = b
        edges = zip([0, *[s + n for s, n in zip(starts, sizes, strict=True)]], [*starts, end], strict=True)
        self._zones = [(i, low, high) for i, (low, high) in enumerate(edges)]

    def verify(self) -> None:
        """Raise ``StrayWrite`` where a zone or an argument is not what it was."""
        found = []
        pattern = _PATTERN.tobytes()
        for i, low, high in self._zones:
            # A zone begins in the middle of a word where an array ends there.
            whole = np.frombuffer(pattern * 2, np.uint8)[low % 8 : low % 8 + 8]
            cut = high - (high - low) % 8
            same = np.all(self._memory[low:cut].view(np.int64) == whole.view(np.int64))
            if not same or not np.array_equal(self._memory[cut:high], whole[: high - cut]):
                found.append(f"behind {self._name(i - 1)}" if i else f"before {self._name(0)}")
        for i, (a, b) in enumerate(zip(self.given, self._originals, strict=True)):
            if not np.array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}")):
                found.append(f"into {self._name(i)}")
        if found:
            raise StrayWrite(f"machine code wrote {', '.join(found)}")

    def _name(self, i: int) -> str:
        count = len(self.given)
        return f"argument {i} of its function" if i < count else f"array {i - count} that it makes"


#: what a number of a declared dtype may be besides an array without axes
_SCALARS = {
    DOUBLE: np.float64, SINGLE: np.float32, LONG: np.int64, INT: np.int32, BOOL: np.bool_, np.dtype(np.int8): np.int8
}  # fmt: skip
#: NumPy's own dtypes, of which there is one each: C compares addresses
_OWN = {dtype: dtype for dtype in _SCALARS}
#: kinds of arguments, as C numbers them: an array or a number; Python's truth values and integers, which it converts
_PLAIN, _TRUTH, _WHOLE = 1, 2, 3
#: of a program in more parts than these LLVM is given all in a process of its own
_ORDINARY = 2
_TABLES = "ptr %in, ptr %out, ptr %scratch"


def _argument(aval: Aval | None) -> tuple | None:
    """Return the check of an argument in C: kind, an array like it, and the types that hold such a number."""
    if aval is None:
        return None
    form = without_memory(_OWN[aval.dtype], aval.shape)
    if aval.shape:
        return _PLAIN, form, None, None
    if is_weak(aval):
        kind = _TRUTH if aval.dtype == BOOL else _WHOLE if aval.dtype == LONG else _PLAIN
        return kind, None, float if kind == _PLAIN else None, None
    kind = _TRUTH if aval.dtype == BOOL else _PLAIN
    return kind, form, _SCALARS[aval.dtype], float if aval.dtype == DOUBLE else None


def compile_entry(
    made: Engine, texts: Sequence[str], avals: tuple[Sequence[Aval | None], Sequence[Aval]], scratch: int, level: int,
    again: Callable, needs_python: bool = False, releases: bool = False, held: Sequence[Held | None] = (),
) -> tuple[Callable, Callable]:  # fmt: skip
    """Compile a function and return it, with its entry, as a Python function, and as one between guards.

    ``texts`` are a module with the function ``i32 @body(inputs, outputs, scratch)``, or modules with ``@part0``,
    ``@part1``, ..., which run one after the other in ``scratch`` bytes of memory. ``avals`` are those of the arguments
    (None for one that is not read) and of the results; ``held`` is known of the contents of the first arguments.
    ``again`` is called with the same arguments if the function returns ``OUT_OF_BOUNDS``. ``needs_python`` says whether
    it calls Python, ``releases`` whether other threads of Python may run meanwhile.
    """
    functions: list[Callable] = []

    def miss(*args: Any) -> Any:
        if len(args) == len(avals[0]) and len(functions) == 2:
            exact = [x if a is None else as_declared(x, a) for x, a in zip(args, avals[0], strict=True)]
            if any([x is not y for x, y in zip(exact, args, strict=True)]):
                return functions[1](*exact)
        return functions[0](*args)

    inputs, outputs = [tuple([None if a is None else a.size * a.dtype.itemsize for a in own]) for own in avals]
    known = tuple([k or size for k, size in itertools.zip_longest(held, inputs)])
    memory = known, outputs, scratch
    names = ["body"] if len(texts) == 1 else [f"part{i}" for i in range(len(texts))]
    linked = [
        made.compile(text, [name], {}, level, [Entry(name, memory)], len(texts) > _ORDINARY)
        for name, text in zip(names, texts, strict=True)
    ]
    if len(texts) > 1:  # each part was proven for the memory that is handed on to all
        called = {name: part.addresses[name] for name, part in zip(names, linked, strict=True)}
        linked.append(made.compile(_one_after_the_other(len(texts)), ["body"], called, level))
    address = linked[-1].addresses["body"]
    plain, guarded = python_entry(address, *avals, scratch, linked, needs_python, again)
    functions.append(plain)
    in_c = extension()
    if in_c is not None:
        reads, writes = [_argument(a) for a in avals[0]], [without_memory(_OWN[a.dtype], a.shape) for a in avals[1]]
        functions.append(in_c.Stub(tuple(reads), tuple(writes), address, scratch, releases, miss, again, linked))
    return functions[-1], guarded


_NOTHING = np.empty(0)


def as_declared(x: Any, aval: Aval) -> Any:
    """Return an argument as the entry takes it: in order and aligned, a number of the declared type."""
    if aval.shape:
        if type(x) is np.ndarray and x.dtype is aval.dtype and x.shape == aval.shape:
            flags = x.flags
            if flags.c_contiguous and flags.aligned:
                return x
        return np.require(x, aval.dtype, ["C", "A"]).reshape(aval.shape).view(np.ndarray)
    if is_weak(aval):
        kind = {"b": bool, "i": int, "f": float}[aval.dtype.kind]
        return x if type(x) is kind else kind(x)
    return x if type(x) is aval.dtype.type else aval.dtype.type(x)


def python_entry(
    address: int, reads: Sequence[Aval | None], writes: Sequence[Aval], scratch: int, keep: Any, needs_python: bool,
    again: Callable,
) -> tuple[Callable, Callable]:  # fmt: skip
    """Return a function that does in Python what the entry in machine code does, and one that runs between guards."""
    kind = ctypes.PYFUNCTYPE if needs_python else ctypes.CFUNCTYPE
    body = kind(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(address)

    wanted = [*[(a.shape, a.dtype) for a in writes], ((scratch or 1,), np.dtype(np.uint8))]

    def call(args: Sequence, guards: Callable | None) -> tuple:
        given = [
            _NOTHING if a is None else np.require(x, a.dtype, ["C", "A"]).reshape(a.shape)
            for x, a in zip(args, reads, strict=True)
        ]
        zones = None if guards is None else guards(given, wanted)
        given, made = (given, [np.empty(*w) for w in wanted]) if zones is None else (zones.given, zones.made)
        table = lambda arrays: (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])
        status = body(table(given), table(made[:-1]), made[-1].ctypes.data)
        if zones is not None:
            zones.verify()
        if status == OUT_OF_BOUNDS:
            return again(*args)
        if status:
            raise KeyboardInterrupt
        return tuple([(m if zones is None else m.copy()) if m.shape else m[()] for m in made[:-1]])

    run = lambda *args: call(args, None)
    run.keep = keep  # type: ignore[attr-defined]
    return run, lambda *args: call(args, Guarded)


def _one_after_the_other(count: int) -> str:
    """Return the function ``@body`` that calls the parts, until one returns something else than zero."""
    code = Code()
    for i in range(count):
        code.declare(f"@part{i}", f"declare i32 @part{i}(ptr, ptr, ptr)")
        status = code.new(f"call i32 @part{i}({_TABLES})")
        with code.when(code.new(f"icmp ne i32 {status}, 0")):
            code.effect(f"ret i32 {status}")
    return code.function(f"i32 @body({_TABLES})", "i32 0")
