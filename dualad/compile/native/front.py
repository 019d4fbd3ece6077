"""The front of a compiled function in machine code: which of its signatures a call has, without Python.

A call that has none of them, or where something that was captured has changed, goes to a function in Python. Not for:
signatures themselves (``signature.py``), or the machine code, which is the same for all (``runtime.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.contexts import in_use
from ...guards import places
from ...guards.places import MISSING, Place, header_of
from ...ops.kinks import _convention
from ..captures import Captures
from ..signature import FastPath
from .engine import Engine
from .runtime import as_plan, builtin, method_of, runtime

__all__ = ["front", "method"]

#: what the machine code calls the tests of a signature, and what was captured
_TESTS = {"array": 0, "type": 1, "is": 2, "tuple": 3, "list": 4, "dict": 5}
_CONTAINERS = {"tuple": tuple, "list": list, "dict": dict}
#: places that are compared with one object
_ONE = (places.CELL, places.ENTRY, places.CODE, places.DEFAULTS, places.ATTRIBUTE)
#: the number of the test of an array's header; -1 has no machine code, and Python is asked at each call
_HEADER = places.SAID
#: attributes that are read without a search
_FIELDS = {"__bases__": 9, "__class__": 10, "__dict__": 11}
#: parts of arguments that are on the stack
_MOST = 4000


def front(made: Engine, entries: Sequence[FastPath], miss: Callable) -> Callable | None:
    """Return a function that runs the first of these entries that a call belongs to, or else ``miss``.

    None where there is no machine code for it.
    """
    shared = runtime(made)
    if shared is None or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    plans = [_Plan(entry) for entry in entries if entry.slots + len(entry.hidden) <= _MOST]
    head = [len(plans), id(miss), id(in_use), id(_convention)]
    start = len(head) + len(plans)
    words: list[int] = []
    for plan in plans:
        head.append(start + len(words))
        words += plan.words
    return builtin(shared.front, as_plan([*head, *words]), (miss, plans), keywords=True)


def method(made: Engine, cls: type) -> Any:
    """Return the method of a class that calls the front of its objects; None where there are no fronts."""
    shared = runtime(made)
    return None if shared is None else method_of(cls, shared.bound)


class _Plan:
    """The words of one entry: nineteen that say where the others are, counted from its first."""

    def __init__(self, entry: FastPath) -> None:
        self.words = [0] * 19
        self.kept: list[Any] = [entry]
        leaves = [(0, slot) for slot in entry.leaves] + [(self.address(a), 0) for a in entry.hidden]
        self.words[:19] = [
            self.address(entry.convention), entry.positional,
            len(entry.names), self.put([self.address(n) for n in entry.names]),
            *self.rows([self.test(*t) for t in entry.guards]), entry.slots,
            *self.rows(self.watched(entry.captures)), *self.rows([self.content(*c) for c in entry.captures.contents]),
            self.address(entry.captures.unchanged), *self.rows(leaves),
            self.address(entry.run), entry.unsure, self.address(entry.run_eagerly), entry.mode,
            self.address(entry.rebuild),
        ]  # fmt: skip

    def rows(self, rows: Sequence[Sequence[int]]) -> tuple[int, int]:
        """Add rows of words; return how many, and where they are."""
        return len(rows), self.put([w for row in rows for w in row])

    def put(self, words: Sequence[int]) -> int:
        """Add words; return where they are."""
        at = len(self.words)
        self.words += words
        return at

    def address(self, thing: Any) -> int:
        self.kept.append(thing)
        return id(thing)

    def test(self, op: str, slot: int, thing: Any, first: int) -> list[int]:
        if op == "array":
            dtype, shape = thing
            return [_TESTS[op], slot, self.address(dtype), len(shape), self.put(shape), 0]
        if op in _CONTAINERS:
            keys = self.put([self.address(k) for k in thing]) if op == "dict" else 0
            size = len(thing) if op == "dict" else thing
            return [_TESTS[op], slot, id(_CONTAINERS[op]), size, keys, first]
        return [_TESTS[op], slot, self.address(thing), 0, 0, 0]

    def content(self, array: np.ndarray, content: bytes) -> list[int]:
        # The bytes are in the order of memory, which is all that the flags say (1: C, 2: Fortran); where it is neither,
        # Python is asked. Their address is that of the object's last byte but them.
        start = self.address(content) + bytes.__basicsize__ - 1
        order = 2 if array.flags.fnc else 1
        lengths = self.put(array.shape)
        return [self.address(array), self.address(array.dtype), array.ndim, lengths, len(content), start, order]

    def watched(self, captures: Captures) -> list[list[int]]:
        """Return what the machine code compares: kind, holder, key, what was there, and how many."""
        compared, found = {id(a) for a, _ in captures.contents}, []
        for place in captures.places:
            if place.kind != places.SAID:
                found.append(self.place(place))
            elif place.key is header_of and isinstance(place.holder, np.ndarray):
                dtype, shape, strides = place.value
                if id(place.holder) not in compared:  # or it is seen with its content
                    at = self.put([self.address(dtype), *shape, *strides])
                    found.append([_HEADER, id(place.holder), at, 1, len(shape)])
            else:
                found.append([-1, 0, 0, 0, 0])
        return found

    def place(self, place: Place) -> list[int]:
        kind, holder, key, value = place
        if kind in _ONE and (value is not MISSING or kind != places.ATTRIBUTE):
            if kind == places.ATTRIBUTE and key in _FIELDS:
                return [_FIELDS[key], id(holder), 0, id(value), 0]
            nothing = value is MISSING or (kind == places.DEFAULTS and value is None)
            return [kind, id(holder), id(key), 0 if nothing else id(value), 0]
        if kind == places.LENGTH:
            return [kind, id(holder), 0, value, 0]
        if kind in (places.ITEMS, places.LIST):
            return [kind, id(holder), self.put([id(x) for x in value]), 1, len(holder)]
        return [-1, 0, 0, 0, 0]
