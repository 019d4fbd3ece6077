"""Every access of generated code is proven to be in bounds; faults in texts and in what writes them are refused.

Texts are those of real programs; each fault is seen by the checker alone, before anything is compiled. Not for: whether
results are right (the other files here).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import (
    code,
    domains,
    engine,
    indices,
    kernels,
    loops,
    lowering,
    passes,
    reductions,
    stacks,
    values,
)  # fmt: skip
from dualad.compile.native.bounds import Entry, Held, OutOfBounds, check

pytestmark = pytest.mark.usefixtures("native_backend")

Texts = list[tuple[str, Sequence[Entry]]]
_R = np.random.default_rng(5)
_X, _BIG, _INDEX = _R.normal(size=(9, 28)), _R.normal(size=100_003), _R.integers(0, 9, size=(300,))


def _loop(c, rows, i):
    def body(c, x):
        c = c * 0.5 + x
        return c, c[i] * x

    return da.scan(body, c, rows)


def _added(x, i):
    return np.sum(x[i] ** 2 * x[0])


_KNOWN, _PLACES = _R.integers(0, 100_003, 40_000), _R.integers(0, 9, 40_000)
_KNOWN.setflags(write=False)
_PLACES.setflags(write=False)

#: programs: what they compute, of what, and whether loops are written for small arrays
PROGRAMS: dict[str, tuple[Callable, tuple, bool]] = {
    "entries": (lambda x, r: (x * 2 + r, x[1:, ::-1] - x[:-1], (x + r).T * 3), (_X, _X[0]), True),
    "threads": (lambda x: (x * 2, x[::-1] - 1), (_BIG,), True),
    "lanes": (lambda x: x @ np.ones((3, 3)) + x[:, ::-1], (_R.normal(size=(200, 3)),), True),
    "rows": (lambda x: (np.sum(x * 2, 1), np.max(x + 1, 1), np.argmax(x, 1)), (_X,), True),
    "columns": (lambda x: (np.sum(x * 2, 0), np.cumsum(x + 1, 0), np.cumsum(x * 2, 1)), (_X,), True),
    "pieces": (lambda x: np.sum(x * x), (_BIG,), True),
    "read": (lambda x, i: x[i] * 2 + x[i, ::-1], (_X, _INDEX), True),
    "known": (lambda x: x[_KNOWN] * 2 + 1, (_BIG,), True),
    "known rows": (lambda x: x[_PLACES, 3] * x[_PLACES, 2:4].T, (_X,), True),
    "added": (lambda x, i: da.grad(_added)(x, i), (_X, _INDEX), True),
    "joined": (lambda x: np.concatenate([x[1:], x[:1] * 2]) + x, (_BIG[:28],), True),
    "column": (lambda x, c: x * c + 1, (_X, _X[:, :1].copy()), True),
    "axes": (lambda x: (np.sum(x, 1), np.sum(x, (0, 1), keepdims=True)), (_X,), True),
    "product": (lambda x, y: (x @ y) * 2, (_R.normal(size=(30, 20)), _R.normal(size=(20, 33))), True),
    "convolution": (lambda x, y: np.convolve(x, y, "same") * 2, (_BIG[:300], _BIG[:9]), True),
    "registers": (lambda x, i: np.sin(x[i]) + np.sum(x) * x[::-1], (_BIG[:12], 3), False),
    "loop": (_loop, (_BIG[:5], _R.normal(size=(40, 5)), 2), False),
    "between": (lambda c, rows: da.scan(lambda c, x: (c + x, c * x), c, rows)[1][::-1] * 2,
                (_BIG[:5], _R.normal(size=(40, 5))), False),
    "table": (lambda c: da.scan(lambda c, x: (c + x, c * x), c, np.arange(47.0) ** 2), (1.5,), False),
    "eigenvectors": (lambda a: np.linalg.eigh(a)[1] * 2, (_X[:3, :3].copy(),), False),
    "stack": (lambda a, b: np.linalg.solve(a + 9 * np.eye(3), b) @ np.linalg.inv(a + 9 * np.eye(3)),
              _R.normal(size=(2, 40, 3, 3)), True),
    "cholesky": (
        lambda a: np.linalg.cholesky(a @ np.swapaxes(a, 1, 2) + np.eye(4)), (_R.normal(size=(40, 4, 4)),), True),
}  # fmt: skip


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Texts]:
    """Return the texts of a program."""
    found: Texts = []
    monkeypatch.setenv("DUALAD_CACHE", "0")
    real = engine.check
    monkeypatch.setattr(engine, "check", lambda text, entries: found.append((text, entries)) or real(text, entries))

    def of(name: str) -> Texts:
        function, args, loops = PROGRAMS[name]
        if loops:
            monkeypatch.setattr(passes, "_LARGE", 0)
            monkeypatch.setattr(passes, "_WORTH", 0)
        found.clear()
        with np.errstate(all="ignore"):
            da.jit(lambda *args: function(*args))(*args)
        return list(found)

    return of


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_access_is_proven(name: str, texts: Callable[[str], Texts]) -> None:
    made = texts(name)
    assert made and all([check(text, entries) > 0 for text, entries in made])
    for text, entries in made:  # an access that is looked at is one that is written
        assert check(text, entries) >= len(re.findall(r"(?: = load|  store) (?!ptr)", text)) > 0


# ── faults in texts ──────────────────────────────────────────────────────────────────────────────────────────────


def _next(match: re.Match) -> str:
    return f"{match[1]}{int(match[2]) + 1}"


_COUNT = r"(icmp slt i64 %\w+, )(\d+)"

#: program, what is replaced, by what: wherever it is found, and each of these alone
FAULTS: dict[str, tuple[str, str, str | Callable]] = {
    "a loop goes on for one more": ("product", _COUNT, _next),
    "a loop of rows goes on for one more": ("loop", r"(icmp slt i64 %t\d+, )(40)", _next),
    "a row is longer than it is": ("entries", r"(mul i64 %\w+, )(28)", _next),
    "the last vector is not moved back": ("threads", r"select i1 %\w+, i64 99995, i64 (%\w+)", r"add i64 \1, 0"),
    "a vector is too wide": ("threads", r"load <8 x double>", "load <12 x double>"),
    "a vector is stored that is too wide": ("threads", r"store <8 x double>", "store <9 x double>"),
    "reversed entries begin one before": ("threads", r"i64 -7$", "i64 -8"),
    "a counter begins below": ("product", r"phi i64 \[0,", "phi i64 [-1,"),
    "a loop of vectors takes half a step": ("rows", r"(add i64 %t\d+, )8$", r"\g<1>4"),
    "an index is compared with another length": (
        "read", r"(icmp uge (?:<8 x )?i64>? %\w+, (?:splat \(i64 )?)(9)", _next),
    "an index may be negative": ("read", r"icmp uge", "icmp sge"),
    "an index of what is added is compared with another length": ("added", r"(icmp uge i64 %\w+, )(9)", _next),
    "an index of registers is not compared": (
        "registers", r"br i1 (%\w+), label %(\w+), label %(\w+)", r"br label %\3"),
    "a function goes on where an index is none": (
        "registers", r"br i1 (%\w+), label %(\w+), label %(\w+)", r"br i1 \1, label %\3, label %\2"),
    "a table is shorter": ("table", r"\[47 x double\] \[", "[46 x double] ["),
    "more bytes are cleared": ("added", r"(i8 0, i64 )(%\w+|\d+)", r"\g<1>4032"),
    "the second half begins later": ("pieces", r"(add i64 %from, )(%\w+)", r"\1 8192"),
    "totals have no room": ("rows", r"alloca \[\d+ x i64\]", "alloca [1 x i64]"),
    "a piece ends behind the row": ("pieces", r"i64 100003\]", "i64 100004]"),
    "pieces are counted and not compared": (
        "pieces", r"call i64 @llvm.umin.i64\(i64 (%\w+), i64 \d+\)", r"add i64 \1, 0"),
    "taps go on for one more": ("convolution", r"(call i64 @llvm.smin.i64\(i64 )(9)", _next),
    "scratch memory that may not be there": ("stack", r"icmp eq ptr (%\w+), null", r"icmp ne ptr \1, null"),
    "scratch memory is smaller": ("stack", r"(PyMem_RawMalloc\(i64 )(\d+)", lambda m: f"{m[1]}{int(m[2]) - 64}"),
    "a triangle has a column more": ("cholesky", r"(icmp slt i64 %t\d+, )(4)", _next),
    "known positions are read between two of them": (
        "known", r"getelementptr i32, ptr (%\w+), i64 (%\w+)", r"getelementptr i8, ptr \1, i64 \2"),
    "known positions are written to": (
        "known", r"(  %\w+ = load <8 x i32>, ptr (%\w+), align 4)", r"\1\n  store i32 -5, ptr \2"),
    "known positions are cleared": (
        "known", r"(  %\w+ = load <8 x i32>, ptr (%\w+), align 4)",
        r"\1\n  call void @llvm.memset.p0.i64(ptr \2, i8 7, i64 4, i1 false)"),
    "known positions are handed over by themselves": (
        "known", r"(  %\w+ = load <8 x i32>, ptr (%\w+), align 4)", r"\1\n  call void @kernel0(ptr \2, i64 0, i64 0)"),
    "more is loaded than known positions": ("known", r"load <8 x i32>", "load <9 x i32>"),
    "an address is put into the table of arguments": (
        "registers", r"(  (%\w+) = load ptr, ptr (%\w+))", r"\1\n  store ptr \2, ptr \3"),
    "an address is read from an array": (
        "registers", r"(%\w+)( = load )double(, ptr %\w+), align 8",
        r"\1q\2ptr\3\n  store i8 0, ptr \1q\n  \1\2double\3"),
    "a matrix is longer than it is": ("eigenvectors", r"(\[2 x i64\] \[i64 1, i64 )(3)", _next),
    "several matrices where there is one": ("eigenvectors", r"(\[2 x i64\] \[i64 )(1)", _next),
    "rows are farther apart": ("eigenvectors", r"(\[8 x i64\] \[i64 0, i64 0, i64 0, i64 )(24)", _next),
    "a stranger moves on": ("eigenvectors", r"(\[8 x i64\] \[i64 0, i64 )(0)", _next),
    "another stranger": ("eigenvectors", r"call void @np_eigh_lo", "call void @np_svd"),
    "a stranger is given more": ("eigenvectors", r", ptr null\)", ", ptr %scratch)"),
    "a stranger's table is an operand": ("eigenvectors", r"(@np_eigh_lo\(ptr )%\w+", r"\1%scratch"),
    "a stranger's table is shorter": ("eigenvectors", r"alloca \[3 x ptr\]", "alloca [2 x ptr]"),
    "an address is handed to a stranger": (
        "registers", r"(  (%\w+) = load ptr, ptr %\w+)", r"\1\n  call void @free(ptr \2)"),
}  # fmt: skip
#: faults of which some places are harmless: a loop that is never left at its end, what only shifts a group of rows
_SOME = {"a loop goes on for one more", "a triangle has a column more", "a counter begins below"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_text_is_refused(fault: str, texts: Callable[[str], Texts]) -> None:
    program, pattern, change = FAULTS[fault]
    refused = planted = 0
    for text, entries in texts(program):
        for match in re.finditer(pattern, text, re.MULTILINE):
            new = re.sub(pattern, change, match[0], flags=re.MULTILINE)
            wrong = text[: match.start()] + new + text[match.end() :]
            if wrong == text:
                continue
            planted += 1
            try:
                check(wrong, entries)
            except OutOfBounds:
                refused += 1
    assert refused == planted > 0 or (fault in _SOME and refused > 0)


def test_two_results_that_are_exchanged(texts: Callable[[str], Texts]) -> None:
    f = lambda x: (np.sum(x * 2, 1), x * 3)
    PROGRAMS["two"] = f, (_X,), True
    try:
        ((text, (entry,)),) = texts("two")
    finally:
        del PROGRAMS["two"]
    inputs, outputs, scratch = entry.memory
    assert check(text, [entry]) > 0 and outputs[0] != outputs[1]
    for memory in ((inputs, outputs[::-1], scratch), ((inputs[0] - 8,), outputs, scratch), ((None,), outputs, scratch)):
        with pytest.raises(OutOfBounds):
            check(text, [entry._replace(memory=memory)])


@pytest.mark.parametrize("name", ["known", "known rows"])
def test_positions_are_no_better_than_what_is_known_of_them(name: str, texts: Callable[[str], Texts]) -> None:
    planted = 0
    for text, entries in texts(name):
        for n, entry in enumerate(entries):
            for i, table in enumerate(entry.memory):
                for k, held in enumerate(table if isinstance(table, tuple) else ()):
                    if not isinstance(held, Held):
                        continue
                    for worse in (held._replace(least=-1), held._replace(most=1 << 20), held.size):
                        memory = list(entry.memory)
                        memory[i] = (*table[:k], worse, *table[k + 1 :])
                        others = [*entries[:n], entry._replace(memory=tuple(memory)), *entries[n + 1 :]]
                        planted += 1
                        with pytest.raises(OutOfBounds):
                            check(text, others)
    assert planted >= 3


@pytest.mark.parametrize("name", ["registers", "loop", "threads", "stack"])
def test_less_memory_than_there_is(name: str, texts: Callable[[str], Texts]) -> None:
    """A text that is right for some extents is right for no smaller ones: each array is used to its end."""
    for text, entries in texts(name):
        for k, entry in enumerate(entries):
            for i, table in enumerate(entry.memory):
                for j, size in enumerate(table if isinstance(table, tuple) else ()):
                    memory = list(entry.memory)
                    memory[i] = (*table[:j], (size or 8) - 1, *table[j + 1 :])
                    less = [*entries[:k], entry._replace(memory=tuple(memory)), *entries[k + 1 :]]
                    if f"i64 {j}\n" in text and not (name == "stack" and j < 2) and size != 8:
                        with pytest.raises(OutOfBounds):
                            check(text, less)


# ── faults in what writes texts ──────────────────────────────────────────────────────────────────────────────────

_real = {
    "address": kernels.Writer.address, "at": values.at, "compare": code.Lanes.compare, "room": lowering.Registers.room,
    "starts": reductions._starts,
}  # fmt: skip


def _short_room(self, aval):
    place = _real["room"](self, aval)
    self.scratch -= 64
    return place


#: program, and what is put in the place of what
WRITERS: dict[str, tuple[str, list[tuple]]] = {
    "two axes are taken for one": ("axes", [
        (passes, "_Shared", lambda kind, *args, **more: kind), (reductions, "long_axes", lambda aval, params: (1,))]),
    "parts are no parts": ("joined", [(domains, "find_cuts", lambda k, *args: [[(0, n)] for n in k.shape])]),
    "a domain is longer": ("entries", [(domains, "clamp", lambda code, low, high: ("%from", str(high + 1)))]),
    "a function goes on behind its rows": ("entries", [
        (domains, "clamp", lambda code, low, high: ("%from", code.value("add i64 %to, 1")))]),
    "the last vector stays where it is": ("threads", [(code.Lanes, "at_most", lambda self, x, bound: x)]),
    "an index is not looked at": ("read", [
        (kernels, "normalize_positions", lambda code, asked, leave: [x for _, x, _ in asked])]),
    "an index of registers is not looked at": ("registers", [
        (indices, "normalize_positions", lambda code, asked, leave: [x for _, x, _ in asked])]),
    "a negative index is not looked at": ("read", [
        (code.Lanes, "compare", lambda self, how, x, y: _real["compare"](self, "sge" if how == "uge" else how, x, y))]),
    "broadcasting is forgotten": ("column", [(kernels, "broadcast_index", lambda shape, index: index[: len(shape)])]),
    "rows of a loop are longer": ("loop", [
        (loops, "_row", lambda c, p, aval, dtype, turn: _real["at"](c, p, dtype, c.value(f"mul i64 {turn}, 6")))]),
    "memory between loops is too short": ("between", [(lowering.Registers, "room", _short_room)]),
    "pieces begin before the row": ("pieces", [
        (reductions, "_starts", lambda first, n, most: [p - 8 for p in _real["starts"](first, n, most)])]),
    "an address is one further": ("cholesky", [
        (stacks.Writer, "address", lambda self, *args: (lambda at, move: (
            self.code.value(f"getelementptr double, ptr {at}, i64 1"), move))(*_real["address"](self, *args)))]),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRITERS)
def test_a_fault_in_a_writer_is_refused(
    fault: str, texts: Callable[[str], Texts], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, changes = WRITERS[fault]
    texts(program)
    for where, name, change in changes:
        monkeypatch.setattr(where, name, change)
    with pytest.raises(OutOfBounds):
        texts(program)
