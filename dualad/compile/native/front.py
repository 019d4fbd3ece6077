"""The front of a compiled function in C: which of its signatures a call has, without Python.

A call that has none of them, or where something that was captured has changed, goes to a function in Python. Not for:
signatures themselves (``signature.py``), or how calls are compared, which is ``entry.c``.
"""

from __future__ import annotations

import functools
import importlib
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from ...base.log import log
from ...core.contexts import in_use
from ...guards import places
from ...guards.places import MISSING, Place, header_of
from ...ops.kinks import _convention
from ..signature import FastPath, has_nan

__all__ = ["HasFront", "extension", "front", "method", "without_memory"]


#: what the extension is compiled from, where this is a clone
_SOURCE = Path(__file__).with_name("entry.c")

#: the tests of a signature, as C numbers them
_TESTS = {"array": 0, "type": 1, "is": 2, "tuple": 3, "list": 4, "dict": 5}
#: what C compares besides the kinds of ``places.py``: an array's header, and its content; attributes that are fields;
#: the places in one dict; and what only Python can compare
_HEADER, _CONTENT, _BASES, _CLASS, _DICTIONARY, _KEYWORD_DEFAULTS, _OF_DICT, _ASK = range(places.SAID, places.SAID + 8)
_FIELDS = {"__bases__": _BASES, "__class__": _CLASS, "__dict__": _DICTIONARY}
#: as many as an entry has at most
_BYTES = bytes(np.dtype(np.clongdouble).itemsize)
_IN_DICTS = (places.ENTRY, places.ITEMS, places.LENGTH)


class HasFront:
    """The base of callables with a front, which C finds in this slot."""

    __slots__ = ("_front",)

    _front: Any


@functools.cache
def extension() -> Any:
    """Return the module that ``entry.c`` becomes; None where it was not built, or Python runs without its lock."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    try:
        found = importlib.import_module("._entry", __package__)
    except (ImportError, RuntimeError) as error:  # built for another NumPy
        log("DAL009", "compiled functions are entered through Python: %s", error)
        return None
    if _SOURCE.exists() and zlib.crc32(_SOURCE.read_bytes()) & 0x7FFFFFFF != getattr(
        found, "SOURCE", None
    ):  # in a clone, after it was changed
        log("DAL009", "the C extension is older than its source, and left alone: run python hatch_build.py")
        return None
    return found


def front(entries: Sequence[FastPath], miss: Callable) -> Callable | None:
    """Return a function that runs the first of these entries that a call belongs to, or else ``miss``.

    None without the extension.
    """
    made = extension()
    if made is None:
        return None
    plans = tuple([_plan(entry) for entry in entries])
    return made.Front(plans, miss, in_use, _convention, MISSING, has_nan)


def method(cls: type) -> Any:
    """Return the method of a class that calls the front of its objects."""
    return extension().bind_front(cls, vars(HasFront)["_front"])


def _plan(entry: FastPath) -> tuple:
    captures = entry.captures
    compared, dicts = {id(a) for a, _ in captures.contents}, defaultdict[int, list](list)
    watched = []
    for place in captures.places:
        if type(place.holder) is dict and place.kind in _IN_DICTS:
            dicts[id(place.holder)].append(tuple(place))
        elif place.key is not header_of or id(place.holder) not in compared:  # or it is compared with its content
            watched.append(_place(place))
    watched += [(_OF_DICT, rows[0][1], None, tuple(rows)) for rows in dicts.values()]
    watched += [(_CONTENT, a, _as_it_is(a), content) for a, content in captures.contents]
    tests = tuple([_test(*t) for t in entry.guards])
    signature = entry.convention, entry.positional, entry.names, entry.slots, tests
    arrays = tuple(entry.given), entry.hidden
    return (
        *signature, tuple(watched), *arrays, captures.unchanged, entry.run, entry.unsure, entry.run_eagerly, entry.mode,
        entry.rebuild,
    )  # fmt: skip


def _test(op: str, slot: int, thing: Any, first: int) -> tuple:
    if op == "array":
        return _TESTS[op], slot, without_memory(*thing), 0, 0
    if op == "dict":
        return _TESTS[op], slot, tuple(thing), len(thing), first
    if op in ("tuple", "list"):
        return _TESTS[op], slot, None, thing, first
    return _TESTS[op], slot, thing, 0, 0


def without_memory(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array to compare others with: all its entries are the same bytes."""
    return np.ndarray(shape, dtype, _BYTES, strides=(0,) * len(shape))


def _as_it_is(a: np.ndarray) -> np.ndarray:
    """Return a view of an array, which stays as it is when the array's shape, strides or dtype are set."""
    return np.ndarray.view(a, np.ndarray)


def _place(place: Place) -> tuple:
    """Return the guard of a place as C compares it: kind, holder, key, value."""
    kind, holder, key, value = place
    if kind == places.SAID:
        if key is header_of and isinstance(holder, np.ndarray) and header_of(was := _as_it_is(holder)) == value:
            return _HEADER, holder, was, None
    elif kind == places.ATTRIBUTE and key in _FIELDS and value is not MISSING:
        return _FIELDS[key], holder, None, value
    elif kind == places.ATTRIBUTE and key == "__kwdefaults__" and type(holder) is FunctionType:
        return _KEYWORD_DEFAULTS, holder, None, MISSING if value is None else value
    elif kind == places.DEFAULTS and value is None:
        return kind, holder, None, MISSING
    elif kind != places.ATTRIBUTE or value is not MISSING:
        return tuple(place)
    return _ASK, None, None, None
