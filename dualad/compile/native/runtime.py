"""What every compiled function shares: the machine code that stands between Python and it, compiled once.

Three functions that use CPython's and NumPy's C interfaces. ``stub`` is the entry of a group: it looks at each argument
(type, dtype, axes, lengths, layout, alignment), makes the arrays of the results, runs the code and makes the tuple.
``front`` is the entry of what ``jit`` returns: it finds the signature that a call has, sees that nothing that was
captured has changed, takes trees apart, and asks whether a result is NaN where that matters. ``bound`` is the method
that calls an object's front. What differs from one function to the next is data, the *plan*: words in a ``bytes``
object, written by ``stub.py`` and ``front.py``; so a new function costs no machine code of these. Not for: what is
computed, or what plans say.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.frames import hide_frames
from ..signature import has_nan
from .engine import Engine, Linked
from .front_text import FRONT
from .routines import Layout, write_routine
from .stub_text import STUB

__all__ = ["HasFront", "Layout", "Runtime", "as_plan", "builtin", "layout", "method_of", "runtime"]


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


_ENTRIES = ["stub", "front", "bound"]
#: functions of Python refer to this code for as long as the process lives
_KEPT: list[Runtime] = []


@functools.cache
def _compiled(made: Engine, places: Layout) -> Runtime | None:
    try:
        # Level 0, four times as quick: the text is always the same, and a test compiles it for other processors, too.
        found = Runtime(made.compile(_text(places), _ENTRIES, _objects(), 0))
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


def builtin(address: int, plan: bytes, keep: Any, keywords: bool = False) -> Callable:
    """Return the Python function that runs the code at an address with a plan, and keeps what that refers to."""
    flags = _FASTCALL | _KEYWORDS if keywords else _FASTCALL
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    return make(ctypes.addressof(_method(b"native", address, flags)), plan, keep)


def method_of(cls: type, address: int) -> Any:
    """Return the method ``__call__`` of a class whose code is at an address."""
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make(cls, ctypes.addressof(_method(b"__call__", address, _FASTCALL | _KEYWORDS)))


def as_plan(words: Sequence[int]) -> bytes:
    """Return a plan of these words."""
    return struct.pack(f"{len(words)}q", *words)


# ── the text ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _text(places: Layout) -> str:
    """Return the module."""
    routines, declared = {**STUB, **FRONT}, {f"@{name}": f"@{name} = external global i8" for name in _objects()}
    texts = []
    for name, write in routines.items():
        text, called = write_routine(name, write, places, "define" if name in _ENTRIES else "define internal")
        texts.append(text)
        declared |= called
    return "\n".join([*[d for name, d in declared.items() if name[1:] not in routines], *texts])
