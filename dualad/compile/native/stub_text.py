"""``stub``, the entry of a group: what ``stub.py`` says of arguments and results is seen and done here.

Each function writes one routine, in the words of ``routines.py``. Not for: calls of what ``jit`` returns
(``front_text.py``).
"""

from __future__ import annotations

from collections.abc import Callable

from .positions import OUT_OF_BOUNDS
from .routines import PLAIN_ARRAY, Routine

__all__ = ["IGNORED", "PLAIN", "STUB", "TRUTH", "WHOLE"]

#: kinds of arguments, as plans have them
IGNORED, PLAIN, TRUTH, WHOLE = range(4)


def _data_of(f: Routine, x: str, descr: str, nd: str, dims: str, wanted: str) -> None:
    """Return the numbers of an ndarray, if its dtype, lengths and flags are as wanted."""
    f.need(f.test("eq ptr", f.field(x, "descr"), descr))
    f.need(f.test("eq i64", f.axes(x), nd))
    f.need(f.has_flags(x, wanted))
    lengths = f.field(x, "dims")
    with f.each("0", nd) as i:
        f.need(f.test("eq i64", f.word(lengths, i), f.word(dims, i)))
    f.give(f.field(x, "head"))


def _argument(f: Routine, x: str, plan: str, declared: str, slot: str) -> None:
    """Return where the numbers of an argument are, if it is as declared."""
    kind, cls = f.word(declared, 0), f.field(x, "type")
    with f.when(f.test("eq ptr", cls, "@o_ndarray")):
        dims = f.words(plan, f.word(declared, 3))
        f.give(f.call("data_of", x, f.object(declared, 1), f.word(declared, 2), dims, PLAIN_ARRAY))
    one, other = [f.test("eq ptr", cls, f.object(declared, k)) for k in (4, 5)]
    with f.when(f.new(f"or i1 {one}, {other}")):
        f.give(f.inside(x, "head"))
    with f.when(f.test("eq i64", kind, TRUTH)):
        true, false = [f.test("eq ptr", x, singleton) for singleton in ("@o_true", "@o_false")]
        f.need(f.new(f"or i1 {true}, {false}"))
        f.effect(f"store i8 {f.new(f'zext i1 {true} to i8')}, ptr {slot}")
        f.give(slot)
    f.need(f.test("eq i64", kind, WHOLE))
    f.need(f.test("eq ptr", cls, "@o_int"))
    number = f.call("PyLong_AsLongLong", x)
    with f.when(f.test("eq i64", number, -1)), f.when(f.test("ne ptr", f.call("PyErr_Occurred"), "null")):
        f.call("PyErr_Clear")  # it is larger than an int64
        f.give("null")
    f.effect(f"store i64 {number}, ptr {slot}")
    f.give(slot)


def _stub(f: Routine, self: str, args: str, count: str) -> None:
    work, state = f.room("ptr"), f.room("ptr")
    plan = f.found(f.call("PyBytes_AsString", self))
    reads, writes, results = f.word(plan, 0), f.word(plan, 1), f.word(plan, 6)
    given, out, made = f.room("ptr", reads), f.room("ptr", writes), f.room("ptr", writes)
    slots = f.room("i64", f.add(reads, writes))
    miss, fail = f.label(), f.label()
    f.go_unless(f.test("eq i64", count, reads), miss)
    with f.each("0", reads) as i:
        declared = f.row(plan, 8, i, 6)
        with f.when(f.test("ne i64", f.word(declared, 0), IGNORED)):
            data = f.call("argument", f.object(args, i), plan, declared, f.words(slots, i))
            f.go_if(f.is_null(data), miss)
            f.put(data, given, i)
    with f.each("0", writes) as i:
        f.put("null", made, i)
    with f.each("0", writes) as i:
        declared = f.row(plan, results, i, 3)
        axes = f.word(declared, 1)
        f.put(f.words(slots, f.add(reads, i)), out, i)
        with f.when(f.test("ne i64", axes, 0)):
            descr, dims = f.object(declared, 0), f.words(plan, f.word(declared, 2))
            f.call("Py_IncRef", descr)
            nd = f.new(f"trunc i64 {axes} to i32")
            array = f.call("PyArray_NewFromDescr", "@o_ndarray", descr, nd, dims, "null", "null", 0, "null")
            f.put(array, made, i)
            f.go_if(f.is_null(array), fail)
            f.put(f.field(array, "head"), out, i)

    scratch = f.word(plan, 3)
    f.put("null", work)
    with f.when(f.test("ne i64", scratch, 0)):
        memory = f.call("PyMem_RawMalloc", scratch)
        with f.when(f.is_null(memory)):
            f.call("PyErr_NoMemory")
            f.jump(fail)
        f.put(memory, work)
    body, releases = f.object(plan, 2), f.test("ne i64", f.word(plan, 4), 0)
    with f.when(releases):
        f.put(f.call("PyEval_SaveThread"), state)
    status = f.new(f"call i32 {body}(ptr {given}, ptr {out}, ptr {f.load(work)})")
    with f.when(releases):
        f.call("PyEval_RestoreThread", f.load(state))
    with f.when(f.test("ne ptr", f.load(work), "null")):
        f.call("PyMem_RawFree", f.load(work))
    with f.when(f.test("ne i32", status, 0)):
        f.go_unless(f.test("eq i32", status, OUT_OF_BOUNDS), fail)
        with f.each("0", writes) as i:
            f.call("Py_DecRef", f.object(made, i))
        f.give(f.call("PyObject_Vectorcall", f.object(plan, 7), args, count, "null"))

    with f.each("0", writes) as i:
        declared = f.row(plan, results, i, 3)
        with f.when(f.test("eq i64", f.word(declared, 1), 0)):
            boxed = f.call("PyArray_Scalar", f.words(slots, f.add(reads, i)), f.object(declared, 0), "null")
            f.go_if(f.is_null(boxed), fail)
            f.put(boxed, made, i)
    answer = f.call("PyTuple_New", writes)
    f.go_if(f.is_null(answer), fail)
    with f.each("0", writes) as i:
        f.call("PyTuple_SetItem", answer, i, f.object(made, i))
    f.give(answer)

    f.begin(fail)
    with f.each("0", writes) as i:
        f.call("Py_DecRef", f.object(made, i))
    f.give("null")
    f.begin(miss)
    f.give(f.call("PyObject_Vectorcall", f.object(plan, 5), args, count, "null"))


STUB: dict[str, Callable[..., None]] = {"argument": _argument, "data_of": _data_of, "stub": _stub}
