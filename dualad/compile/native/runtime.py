"""What every compiled function shares: the machine code that stands between Python and it, compiled once.

Three functions of CPython's and NumPy's C interfaces, written in LLVM's language. ``stub`` is the entry of a group: it
looks at each argument (type, dtype, axes, lengths, layout, alignment), makes the arrays of the results, runs the code
and makes the tuple. ``front`` is the entry of what ``jit`` returns: it finds the signature that a call has, sees that
nothing that was captured has changed, takes trees apart, and asks whether a result is NaN where that matters. ``bound``
is the method that calls an object's front. What differs from one function to the next is data, the *plan*: words in a
``bytes`` object, written by ``stub.py`` and ``front.py``; so a new function costs no machine code of these. Not for:
what is computed, or what plans say.
"""

from __future__ import annotations

import ctypes
import functools
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.frames import hide_frames
from ..signature import has_nan
from .engine import Engine, Linked
from .front_text import CAPTURES, FRONT, NAN, SCAN, TESTS
from .stub_text import ARGUMENTS, STUB

__all__ = ["HasFront", "Layout", "Runtime", "as_plan", "builtin", "front_of", "layout", "method_of", "runtime"]


class Layout:
    """Where the fields of objects are, in bytes."""

    __slots__ = ("descr", "dims", "flags", "front", "head", "nd", "type")

    def __init__(self, head: int) -> None:
        self.front = head
        self.type, self.head, self.nd, self.dims = head - 8, head, head + 8, head + 16
        self.descr, self.flags = head + 40, head + 48


@functools.cache
def layout() -> Layout | None:
    """Return the layout of objects if everything that is assumed about it holds here."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or ctypes.sizeof(ctypes.c_long) not in (4, 8):
        return None
    found = Layout(object.__basicsize__)
    word = lambda thing, offset: ctypes.c_int64.from_address(id(thing) + offset).value
    number = lambda thing, offset: ctypes.c_int32.from_address(id(thing) + offset).value
    a, b = np.empty((3, 5)), np.empty((2, 7, 4), np.float32)[:, ::2]
    for x in (a, b, a.T, np.empty((), bool)):
        lengths = [ctypes.c_int64.from_address(word(x, found.dims) + 8 * i).value for i in range(x.ndim)]
        flags = number(x, found.flags)
        if (
            word(x, found.head) != x.ctypes.data
            or number(x, found.nd) != x.ndim
            or lengths != list(x.shape)
            or word(x, found.descr) != id(x.dtype)
            or bool(flags & 1) != x.flags.c_contiguous
            or bool(flags & 0x100) != x.flags.aligned
            or word(x, found.type) != id(np.ndarray)
        ):
            return None
    for y in (1.5, np.float64(2.5)):
        if ctypes.c_double.from_address(id(y) + found.head).value != y:
            return None
    whole, short, truth, single = np.int64(-3), np.int32(-5), np.bool_(True), np.float32(0.5)
    if ctypes.c_float.from_address(id(single) + found.head).value != 0.5:
        return None
    if word(whole, found.head) != -3 or number(short, found.head) != -5:
        return None
    callable_ = HasFront()
    callable_._front = found
    if word(callable_, found.front) != id(found):
        return None
    return found if ctypes.c_int8.from_address(id(truth) + found.head).value == 1 else None


def _without_frames(error: BaseException) -> BaseException:
    """Take the package's frames out of an exception, as ``Jitted`` in Python does."""
    if isinstance(error, Exception):
        hide_frames(error)
    return error


class HasFront:
    """What is called through a front: where that is, is known."""

    __slots__ = ("_front",)

    _front: Any


class Runtime:
    """The addresses of the functions, good for as long as this object lives."""

    __slots__ = ("_linked", "bound", "front", "stub")

    def __init__(self, linked: Linked) -> None:
        self._linked, found = linked, linked.addresses
        self.stub, self.front, self.bound = found["stub"], found["front"], found["bound"]


def runtime(made: Engine) -> Runtime | None:
    """Return the functions, compiled at the first call; None where LLVM or the layout of objects is not as assumed."""
    places = layout()
    return None if places is None else _compiled(made, places)


#: functions of Python refer to this code for as long as the process lives
_KEPT: list[Runtime] = []


@functools.cache
def _compiled(made: Engine, places: Layout) -> Runtime | None:
    try:
        found = Runtime(made.compile(_text(places), ["stub", "front", "bound"], _objects(), 0))
        _KEPT.append(found)
        return found
    except RuntimeError:  # entries are in Python then
        return None


def _objects() -> dict[str, int]:
    return {
        "o_ndarray": id(np.ndarray), "o_int": id(int), "o_true": id(True), "o_false": id(False),
        "o_float64": id(np.float64), "o_dtype_float64": id(np.dtype(float)), "o_has_nan": id(has_nan),
        "o_without_frames": id(_without_frames),
    }  # fmt: skip


# ── Python functions of them ─────────────────────────────────────────────────────────────────────────────────────


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    ]  # fmt: skip


_FASTCALL, _KEYWORDS = 0x80, 0x2


@functools.cache
def _method(name: bytes, address: int, flags: int) -> _Method:
    # Kept for ever: what Python makes of it refers to it.
    return _Method(name, address, flags, None)


def builtin(address: int, plan: bytes, keep: Any, flags: int = _FASTCALL) -> Callable:
    """Return the Python function that runs the code at an address with a plan, and keeps what that refers to."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    return make(ctypes.addressof(_method(b"native", address, flags)), plan, keep)


def front_of(address: int, plan: bytes, keep: Any) -> Callable:
    """Return the same for code that takes keywords."""
    return builtin(address, plan, keep, _FASTCALL | _KEYWORDS)


def method_of(cls: type, address: int) -> Any:
    """Return the method ``__call__`` of a class whose code is at an address."""
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make(cls, ctypes.addressof(_method(b"__call__", address, _FASTCALL | _KEYWORDS)))


def as_plan(words: Sequence[int]) -> bytes:
    """Return a plan of these words."""
    return struct.pack(f"{len(words)}q", *words)


# ── the text ─────────────────────────────────────────────────────────────────────────────────────────────────────

_WORD = re.compile(r"^( *)(%\w+) = (word|object) (%\w+) (%?\w+)$", re.MULTILINE)
_FIELD = re.compile(r"^( *)(%\w+) = field (\w+) (%\w+) (\d+)$", re.MULTILINE)
_KINDS = {"word": "i64", "object": "ptr"}


def _text(places: Layout) -> str:
    """Return the module: LLVM's language with two words more.

    ``x = word p k`` reads the k-th word of a plan, ``x = object p k`` reads an address there; ``x = field T p k`` reads
    something of type T, k bytes inside an object.
    """
    text = _DECLARATIONS + ARGUMENTS + STUB + FRONT + TESTS + CAPTURES + NAN + SCAN
    for name in Layout.__slots__:
        text = text.replace(f"${name}", str(getattr(places, name)))

    def read(unit: str, m: re.Match) -> str:
        indent, out, kind, thing, place = m.groups()
        lines = [
            f"{indent}{out}.at = getelementptr {unit}, ptr {thing}, i64 {place}",
            f"{indent}{out} = load {_KINDS.get(kind, kind)}, ptr {out}.at",
        ]
        return "\n".join(lines)

    return _FIELD.sub(functools.partial(read, "i8"), _WORD.sub(functools.partial(read, "i64"), text))


_DECLARATIONS = """
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @PyArray_Scalar(ptr, ptr, ptr)
declare ptr @PyBytes_AsString(ptr)
declare ptr @PyCell_Get(ptr)
declare ptr @PyFunction_GetCode(ptr)
declare ptr @PyFunction_GetDefaults(ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare void @PyErr_BadInternalCall()
declare void @PyErr_Clear()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare ptr @PyErr_NoMemory()
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Restore(ptr, ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyException_GetTraceback(ptr)
declare i32 @PyException_SetTraceback(ptr, ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare i32 @PyObject_IsTrue(ptr)
declare i64 @PyObject_Size(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i32 @lib_memcmp(ptr, ptr, i64)
@o_ndarray = external global i8
@o_int = external global i8
@o_true = external global i8
@o_false = external global i8
@o_float64 = external global i8
@o_dtype_float64 = external global i8
@o_has_nan = external global i8
@o_without_frames = external global i8
"""
