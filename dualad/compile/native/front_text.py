"""``front`` and ``bound``, the entries of a compiled function, which read what ``front.py`` says of calls.

``attempt`` is one signature: ``test`` looks at the arguments, ``unchanged`` at what was captured, ``any_nan`` at the
results. Parts of containers are held while the code runs, since another thread may change the containers. Each function
writes one routine, in the words of ``routines.py``. Not for: single groups of machine code (``stub_text.py``).
"""

from __future__ import annotations

from collections.abc import Callable

from ...guards.places import ATTRIBUTE, CELL, CODE, DEFAULTS, ENTRY, ITEMS, LENGTH, LIST, SAID
from .code import WIDTH, Lanes
from .operators import DOUBLE, LONG
from .routines import PLAIN_ARRAY, Routine
from .values import at, load_lanes

__all__ = ["FRONT"]

#: the bases of a class, as PyType_GetSlot has them
_BASES = 49


def _bound(f: Routine, self: str, args: str, count: str, names: str) -> None:
    front = f.field(self, "front")
    with f.when(f.is_null(front)):
        f.call("PyErr_BadInternalCall")
        f.give("null")
    f.call("Py_IncRef", front)
    answer = f.call("PyObject_Vectorcall", front, args, count, names)
    f.call("Py_DecRef", front)
    f.give(answer)


def _front(f: Routine, self: str, args: str, count: str, names: str) -> None:
    value, result, miss = f.room("ptr"), f.room("ptr"), f.label()
    plan = f.found(f.call("PyBytes_AsString", self))
    entries = f.word(plan, 0)
    f.go_if(f.test("eq i64", entries, 0), miss)
    f.go_unless(f.test("eq i64", f.call("PyObject_Size", f.object(plan, 2)), 0), miss)
    f.put("null", value)
    f.need(f.test("eq i32", f.call("PyContextVar_Get", f.object(plan, 3), "null", value), 0))
    kinks = f.load(value)
    with f.each("0", entries) as i:
        entry = f.words(plan, f.word(plan, f.add(i, 4)))
        with f.when(f.call("attempt", entry, kinks, args, count, names, result)):
            f.call("Py_DecRef", kinks)
            f.give(f.load(result))
    f.call("Py_DecRef", kinks)
    f.begin(miss)
    f.give(f.call("PyObject_Vectorcall", f.object(plan, 1), args, count, names))


def _attempt(f: Routine, e: str, kinks: str, args: str, count: str, names: str, result: str) -> None:
    """Call the code of one signature, if this is its call: whether it was, and what came out."""
    one = Lanes(f, LONG, 1)
    f.need(f.test("eq ptr", f.object(e, 0), kinks))
    positional, keywords = f.word(e, 1), f.word(e, 2)
    f.need(f.test("eq i64", positional, count))
    spelled, read = f.label(), f.label()
    f.go_unless(f.is_null(names), spelled)
    f.need(f.test("eq i64", keywords, 0))
    f.jump(read)
    f.begin(spelled)
    f.need(f.test("eq i64", f.call("PyObject_Size", names), keywords))
    expected = f.words(e, f.word(e, 3))
    with f.each("0", keywords) as i:
        f.need(f.test("eq ptr", f.call("PyTuple_GetItem", names, i), f.object(expected, i)))
    f.begin(read)

    slots, sent = f.room("ptr", f.word(e, 6)), f.word(e, 12)
    given, total = f.room("ptr", sent), f.add(positional, keywords)
    with f.each("0", total) as i:
        f.put(f.object(args, i), slots, i)
    tests = f.word(e, 5)
    with f.fold("0", f.word(e, 4), 1, [(one, total)]) as turn:
        (filled,) = turn.carried
        found = f.call("test", e, f.row(e, tests, turn.counter, 6), slots)
        with f.when(f.test("slt i64", found, 0)):
            f.call("let_go", slots, total, filled)
            f.give(0)
        turn.next = [f.add(filled, found)]
    with f.when(f.test("eq i1", f.call("unchanged", e), 0)):
        f.call("let_go", slots, total, filled)
        f.give(0)
    leaves = f.word(e, 13)
    with f.each("0", sent) as i:
        leaf = f.row(e, leaves, i, 2)
        hidden = f.object(leaf, 0)
        f.put(hidden, given, i)
        with f.when(f.is_null(hidden)):
            f.put(f.object(slots, f.word(leaf, 1)), given, i)

    out = f.call("PyObject_Vectorcall", f.object(e, 14), given, sent, "null")
    f.call("let_go", slots, total, filled)
    f.put(out, result)
    with f.when(f.is_null(out)):
        f.call("tidy")
        f.give(1)
    unsure = f.word(e, 15)
    with f.when(f.test("ne i64", unsure, 0)):
        nan = f.call("any_nan", out, unsure)
        with f.when(f.test("ne i32", nan, 0)):
            f.call("Py_DecRef", out)
            f.put("null", result)
            with f.when(f.test("eq i32", nan, 1)):
                f.put(f.call("PyObject_Vectorcall", f.object(e, 16), args, count, names), result)
            f.give(1)
    mode = f.word(e, 17)
    f.give_if(f.test("eq i64", mode, 0), 1)
    with f.when(f.test("eq i64", mode, 1)):
        only = f.call("PyTuple_GetItem", out, 0)
        f.call("Py_IncRef", only)
        f.call("Py_DecRef", out)
        f.put(only, result)
        f.give(1)
    built = f.call("PyObject_Vectorcall", f.object(e, 18), result, 1, "null")
    f.call("Py_DecRef", out)
    f.put(built, result)
    f.give(1)


def _let_go(f: Routine, slots: str, first: str, last: str) -> None:
    with f.each(first, last) as i:
        f.call("Py_DecRef", f.object(slots, i))
    f.give()


def _tidy(f: Routine) -> None:
    """Take the package's frames out of the exception that is being raised."""
    about = [f.room("ptr") for _ in ("kind", "error", "trace")]
    f.call("PyErr_Fetch", *about)
    f.call("PyErr_NormalizeException", *about)
    kind, error, trace = [f.load(x) for x in about]
    as_is = f.label()
    f.go_if(f.is_null(error), as_is)
    with f.when(f.test("ne ptr", trace, "null")):
        f.call("PyException_SetTraceback", error, trace)
    answer = f.call("PyObject_Vectorcall", "@o_without_frames", about[1], 1, "null")
    with f.when(f.is_null(answer)):
        f.call("PyErr_Clear")
        f.jump(as_is)
    f.call("Py_DecRef", answer)
    f.call("Py_DecRef", trace)
    f.call("PyErr_Restore", kind, error, f.call("PyException_GetTraceback", error))
    f.give()
    f.begin(as_is)
    f.call("PyErr_Restore", kind, error, trace)
    f.give()


def _test(f: Routine, e: str, declared: str, slots: str) -> None:
    """Say whether an argument is as the signature says: the number of slots that its parts fill, or -1."""
    op, size, at = f.word(declared, 0), f.word(declared, 3), f.word(declared, 4)
    x, thing = f.object(slots, f.word(declared, 1)), f.object(declared, 2)
    cls, none = f.field(x, "type"), f.label()
    with f.when(f.test("eq i64", op, 0)):
        f.need(f.test("eq ptr", cls, "@o_ndarray"))
        f.found(f.call("data_of", x, thing, size, f.words(e, at), 0))
        f.give(0)
    with f.when(f.test("eq i64", op, 2)):
        f.need(f.test("eq ptr", x, thing))
        f.give(0)
    f.need(f.test("eq ptr", cls, thing))
    f.give_if(f.test("eq i64", op, 1), 0)
    f.need(f.test("eq i64", f.call("PyObject_Size", x), size))
    first, position = f.word(declared, 5), f.room("i64")
    f.put("null", position)
    with f.each("0", size) as i:
        getters = {
            3: lambda: f.call("PyTuple_GetItem", x, i),
            4: lambda: f.call("PyList_GetItem", x, i),
            5: lambda: f.call("next_value", x, position, f.object(e, f.add(at, i))),
        }
        part, place = f.chosen(op, getters, none), f.add(first, i)
        with f.when(f.is_null(part)):
            f.call("PyErr_Clear")
            f.call("let_go", slots, first, place)
            f.give(-1)
        f.call("Py_IncRef", part)
        f.put(part, slots, place)
    f.give(size)
    f.begin(none)
    f.give(-1)


def _next_value(f: Routine, x: str, position: str, expected: str) -> None:
    """Return the next value of a dict, if it is that of this text; an exception may be set if it is not."""
    key, value = f.room("ptr"), f.room("ptr")
    f.need(f.test("ne i32", f.call("PyDict_Next", x, position, key, value), 0))
    found = f.load(key)
    with f.when(f.test("ne ptr", found, expected)):
        f.need(f.test("eq i32", f.call("PyUnicode_Compare", found, expected), 0))
    f.give(f.load(value))


def _unchanged(f: Routine, e: str) -> None:
    """Say whether everything that was captured is as it was; what is not the same object is looked at in Python."""
    ask, captures, arrays = f.label(), f.word(e, 8), f.word(e, 10)
    with f.each("0", f.word(e, 7)) as i:
        capture = f.row(e, captures, i, 5)
        op, holder, key, number = f.word(capture, 0), f.object(capture, 1), f.object(capture, 2), f.word(capture, 2)
        count = f.word(capture, 4)

        def in_cell() -> str:
            inside = f.call("PyCell_Get", holder)
            f.call("Py_DecRef", inside)
            return inside

        def attribute(name: str, other: str) -> str:
            found = f.call(name, holder, other)
            f.call("Py_DecRef", found)
            return found

        def counted(name: str, *args: str) -> str:
            return f.new(f"inttoptr i64 {f.call(name, *args)} to ptr")

        now = {
            CELL: in_cell,
            ENTRY: lambda: f.call("PyDict_GetItemWithError", holder, key),
            ITEMS: lambda: counted("same_items", holder, f.words(e, number), count),
            LENGTH: lambda: counted("PyObject_Size", holder),
            LIST: lambda: counted("same_list", holder, f.words(e, number), count),
            CODE: lambda: f.call("PyFunction_GetCode", holder),
            DEFAULTS: lambda: f.call("PyFunction_GetDefaults", holder),
            ATTRIBUTE: lambda: attribute("PyObject_GetAttr", key),
            SAID: lambda: counted("same_header", holder, f.words(e, number), count),
            SAID + 1: lambda: f.call("PyType_GetSlot", holder, _BASES),
            SAID + 2: lambda: f.field(holder, "type"),
            SAID + 3: lambda: attribute("PyObject_GenericGetDict", "null"),
        }
        f.go_unless(f.test("eq ptr", f.chosen(op, now, ask), f.object(capture, 3)), ask)
    with f.each("0", f.word(e, 9)) as i:
        array = f.row(e, arrays, i, 7)
        dims, order = f.words(e, f.word(array, 3)), f.new(f"trunc i64 {f.word(array, 6)} to i32")
        data = f.call("data_of", f.object(array, 0), f.object(array, 1), f.word(array, 2), dims, order)
        f.go_if(f.is_null(data), ask)
        difference = f.call("lib_memcmp", data, f.object(array, 5), f.word(array, 4))
        f.go_unless(f.test("eq i32", difference, 0), ask)
    f.give(1)
    f.begin(ask)
    f.call("PyErr_Clear")
    answer = f.call("PyObject_Vectorcall", f.object(e, 11), "null", 0, "null")
    with f.when(f.is_null(answer)):
        f.call("PyErr_Clear")
        f.give(0)
    truth = f.call("PyObject_IsTrue", answer)
    f.call("Py_DecRef", answer)
    f.give(f.test("eq i32", truth, 1))


def _same_items(f: Routine, holder: str, expected: str, count: str) -> None:
    """Say whether a dict has these keys and values, in this order."""
    at, key, value = f.room("i64"), f.room("ptr"), f.room("ptr")
    f.need(f.test("eq i64", f.call("PyObject_Size", holder), count))
    f.put("null", at)
    with f.each("0", count) as i:
        f.need(f.test("ne i32", f.call("PyDict_Next", holder, at, key, value), 0))
        row = f.row(expected, 0, i, 2)
        f.need(f.test("eq ptr", f.load(key), f.object(row, 0)))
        f.need(f.test("eq ptr", f.load(value), f.object(row, 1)))
    f.give(1)


def _same_list(f: Routine, holder: str, expected: str, count: str) -> None:
    f.need(f.test("eq i64", f.call("PyObject_Size", holder), count))
    with f.each("0", count) as i:
        f.need(f.test("eq ptr", f.call("PyList_GetItem", holder, i), f.object(expected, i)))
    f.give(1)


def _same_header(f: Routine, a: str, expected: str, axes: str) -> None:
    """Say whether an array has a dtype, these lengths and these strides."""
    lengths, strides = f.words(expected, 1), f.words(expected, f.add(axes, 1))
    f.found(f.call("data_of", a, f.object(expected, 0), axes, lengths, 0))
    found = f.field(a, "strides")
    with f.each("0", axes) as i:
        f.need(f.test("eq i64", f.word(found, i), f.word(strides, i)))
    f.give(1)


def _any_nan(f: Routine, out: str, count: str) -> None:
    """Say whether one of the first results has a NaN in it; -1 for an exception."""
    slot, one = f.room("ptr"), Lanes(f, LONG, 1)
    with f.each("0", count) as i:
        x = f.found(f.call("PyTuple_GetItem", out, i))
        cls, ask, fine = f.field(x, "type"), f.label(), f.label()
        with f.when(f.test("eq ptr", cls, "@o_float64")):
            number = f.field(x, "head", "double")
            f.give_if(f.new(f"fcmp uno double {number}, {number}"), 1)
            f.jump(fine)
        f.go_unless(f.test("eq ptr", cls, "@o_ndarray"), ask)
        f.go_unless(f.test("eq ptr", f.field(x, "descr"), "@o_dtype_float64"), ask)
        f.go_unless(f.has_flags(x, PLAIN_ARRAY), ask)
        axes, lengths = f.axes(x), f.field(x, "dims")
        with f.fold("0", axes, 1, [(one, "1")]) as turn:
            turn.next = [f.new(f"mul i64 {turn.carried[0]}, {f.word(lengths, turn.counter)}")]
        f.give_if(f.call("nan_in", f.field(x, "head"), *turn.carried), 1)
        f.jump(fine)
        f.begin(ask)
        f.put(x, slot)
        answer = f.found(f.call("PyObject_Vectorcall", "@o_has_nan", slot, 1, "null"))
        truth = f.call("PyObject_IsTrue", answer)
        f.call("Py_DecRef", answer)
        f.give_if(f.test("eq i32", truth, 1), 1)
        f.need(f.test("eq i32", truth, 0))
        f.begin(fine)
    f.give(0)


def _nan_in(f: Routine, data: str, count: str) -> None:
    """Say whether one of so many numbers is a NaN."""
    single, wide = Lanes(f, DOUBLE, 1), Lanes(f, DOUBLE, WIDTH)
    # 64 numbers a turn: LLVM is asked to do nothing about this code, so each turn costs more than it has to.
    with f.each("0", f.add(count, -63), 64) as i:
        here = at(f, data, DOUBLE, i)
        load = lambda k, here=here: load_lanes(wide, at(f, here, DOUBLE, k))
        pairs = (wide.compare("uno", load(k), load(k + WIDTH)) for k in range(0, 64, 2 * WIDTH))
        some = [f.new(f"sext {wide.mask} {pair} to {wide.bits}") for pair in pairs]
        left, right = [wide.on_bits("or", *two) for two in (some[:2], some[2:])]
        f.give_if(wide.any(wide.of(LONG).compare("ne", wide.on_bits("or", left, right), 0)), 1)
    with f.each(i, f.add(count, 1 - WIDTH), WIDTH) as i:
        f.give_if(wide.any(wide.is_nan(load_lanes(wide, at(f, data, DOUBLE, i)))), 1)
    with f.each(i, count) as i:
        f.give_if(single.is_nan(load_lanes(single, at(f, data, DOUBLE, i))), 1)
    f.give(0)


FRONT: dict[str, Callable[..., None]] = {
    "any_nan": _any_nan, "attempt": _attempt, "bound": _bound, "front": _front, "let_go": _let_go, "nan_in": _nan_in,
    "next_value": _next_value,
    "same_header": _same_header, "same_items": _same_items, "same_list": _same_list,
    "test": _test, "tidy": _tidy, "unchanged": _unchanged,
}  # fmt: skip
