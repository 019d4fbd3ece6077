"""The entry of a group of machine code: a Python function that runs it, or goes to Python with what is not as declared.

Arguments and results are described once, in a plan that the code of ``runtime.py`` reads at each call: it looks at each
argument (type, dtype, number of axes, lengths, layout, alignment), makes the arrays of the results, runs the code and
makes the tuple. Arguments that are not exactly as declared go to a Python function instead. Not for: what is computed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval, is_weak
from .bounds import Entry
from .engine import Engine
from .guards import Guarded
from .operators import BOOL, DOUBLE, INT, LONG, SINGLE
from .parts import one_after_the_other
from .positions import OUT_OF_BOUNDS
from .runtime import as_plan, builtin, runtime
from .stub_text import IGNORED, PLAIN, TRUTH, WHOLE

__all__ = ["as_declared", "entered", "python_entry"]

#: what a number of a declared dtype may be besides an array without axes
_SCALARS = {DOUBLE: np.float64, SINGLE: np.float32, LONG: np.int64, INT: np.int32, BOOL: np.bool_}
#: NumPy's own dtypes, of which there is one each: plans have their addresses
_OWN = {dtype: dtype for dtype in _SCALARS}
#: numbers and addresses of so many arguments and results are on the stack
_MOST = 4000
#: of a program in more parts than these LLVM is given all in a process of its own
_ORDINARY = 2


def _plan(
    reads: Sequence[Aval | None], writes: Sequence[Aval], body: int, scratch: int, releases: bool, miss: Callable,
    again: Callable,
) -> bytes:  # fmt: skip
    """Return what the entry has to know: eight words, six for each argument, three for each result, and lengths."""
    first = 8 + 6 * len(reads)
    words = [len(reads), len(writes), body, scratch, int(releases), id(miss), first, id(again)]
    lengths: list[int] = []
    start = first + 3 * len(writes)
    for aval in reads:
        if aval is None:
            words += [IGNORED, 0, 0, 0, 0, 0]
            continue
        kind, descr, one, other = PLAIN, id(_OWN[aval.dtype]), 0, 0
        if not aval.shape:
            kind = TRUTH if aval.dtype == BOOL else WHOLE if is_weak(aval) and aval.dtype == LONG else PLAIN
            if is_weak(aval):
                descr, one = 0, id(float) if kind == PLAIN else 0
            else:
                one, other = id(_SCALARS[aval.dtype]), id(float) if aval.dtype == DOUBLE else 0
        words += [kind, descr, len(aval.shape), start + len(lengths), one, other]
        lengths += aval.shape
    for aval in writes:
        words += [id(_OWN[aval.dtype]), len(aval.shape), start + len(lengths)]
        lengths += aval.shape
    return as_plan([*words, *lengths])


def entered(
    made: Engine, texts: Sequence[str], avals: tuple[Sequence[Aval | None], Sequence[Aval]], scratch: int, level: int,
    again: Callable, needs_python: bool = False, releases: bool = False,
) -> tuple[Callable, Callable]:  # fmt: skip
    """Compile a function and return it, with its entry, as a Python function, and as one between guards.

    Parameters
    ----------
    made : Engine
        What compiles.
    texts : sequence of str
        A module with the function ``i32 @body(inputs, outputs, scratch)``, or modules with ``@part0``, ``@part1``, ...,
        which run one after the other.
    avals : pair of sequences of Aval
        The arguments (None for one that is not read) and the results.
    scratch : int
        The bytes of memory that it works in.
    level : int
        How much LLVM does about the code.
    again : callable
        What is called with the same arguments if the function returns ``OUT_OF_BOUNDS``.
    needs_python : bool
        Whether it calls Python.
    releases : bool
        Whether other threads of Python may run meanwhile.
    """
    functions: list[Callable] = []

    def miss(*args: Any) -> Any:
        if len(args) == len(avals[0]) and len(functions) == 2:
            exact = [x if a is None else as_declared(x, a) for x, a in zip(args, avals[0], strict=True)]
            if any([x is not y for x, y in zip(exact, args, strict=True)]):
                return functions[1](*exact)
        return functions[0](*args)

    inputs, outputs = [tuple([None if a is None else a.size * a.dtype.itemsize for a in own]) for own in avals]
    memory = inputs, outputs, scratch
    names = ["body"] if len(texts) == 1 else [f"part{i}" for i in range(len(texts))]
    linked = [
        made.compile(text, [name], {}, level, [Entry(name, memory)], len(texts) > _ORDINARY)
        for name, text in zip(names, texts, strict=True)
    ]
    if len(texts) > 1:  # each part was proven for the memory that is handed on to all
        called = {name: part.addresses[name] for name, part in zip(names, linked, strict=True)}
        linked.append(made.compile(one_after_the_other(len(texts)), ["body"], called, level))
    address = linked[-1].addresses["body"]
    plain, guarded = python_entry(address, *avals, scratch, linked, needs_python, again)
    functions.append(plain)
    shared = runtime(made)
    if shared is not None and len(avals[0]) + len(avals[1]) <= _MOST:
        plan = _plan(*avals, address, scratch, releases, miss, again)
        functions.append(builtin(shared.stub, plan, (linked, miss, again)))
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
        given = [_NOTHING if a is None else np.require(x, a.dtype, ["C", "A"]).reshape(a.shape)
                 for x, a in zip(args, reads, strict=True)]  # fmt: skip
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
