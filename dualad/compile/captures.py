"""What a function reads besides its arguments: names, attributes and arrays that may change between two calls.

A compiled function has the values of the moment it was traced in its code. ``Captures`` notes where they came from
(cells of closures, globals that the code names, attributes, entries of containers) and tells whether all of it is
still as it was; if not, ``jit`` traces again. Not for: arrays that meet a traced value directly; those are inputs
(``tracing.py``).
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.tracer import Tracer

__all__ = ["Captures"]

#: contents of arrays up to so many bytes are compared at each call
SMALL = 1 << 16
#: how many places are looked at, and how deep in
_MOST, _DEPTH = 2000, 8

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
_LIBRARIES = frozenset({"numpy", "scipy", "optree", *sys.stdlib_module_names})
_NUMBERS = (bool, int, float, complex, np.generic)
_NOTHING = object()


class Captures:
    """Where a function's values come from, and what they were.

    Parameters
    ----------
    f : callable
        The function.
    statics : iterable
        Arguments that are constants of the program: what they hold is looked at too.
    inputs : iterable of ndarray
        Arrays that are read at each call; of the large ones among them only the binding is watched, unless
        ``derived``.
    derived : bool
        Whether the program has constants that may have been computed from a captured array.
    """

    __slots__ = ("contents", "entries")

    def __init__(self, f: Callable, statics, inputs, derived: bool) -> None:
        #: (mapping or sequence, key, value), (cell, None, value) for cells, and (list, len, length)
        self.entries: list[tuple[Any, Any, Any]] = []
        #: (array, its bytes)
        self.contents: list[tuple[np.ndarray, bytes]] = []
        read = {id(a) for a in inputs}
        seen: set[int] = set()
        for holder, key, value in _captured(f, statics):
            self.entries.append((holder, key, value))
            if type(value) is np.ndarray and value.flags.writeable and id(value) not in seen:
                seen.add(id(value))
                if (
                    value.nbytes <= SMALL
                    or (derived and id(value) not in read)
                    or (derived and value.nbytes <= 1 << 24)
                ):
                    self.contents.append((value, value.tobytes()))

    def unchanged(self) -> bool:
        """Say whether everything is as it was."""
        for holder, key, value in self.entries:
            try:
                now = holder.cell_contents if key is None else len(holder) if key is len else holder[key]
            except (KeyError, IndexError, ValueError):
                return False
            if now is not value and not _equal_numbers(now, value):
                return False
        return all([a.tobytes() == content for a, content in self.contents])

    def __bool__(self) -> bool:
        return bool(self.entries or self.contents)


def _equal_numbers(a: Any, b: Any) -> bool:
    return type(a) is type(b) and isinstance(a, (*_NUMBERS, str)) and a == b


def _captured(f: Callable, statics) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the places that a function's code can reach: of numbers and arrays, and of what leads to them."""
    seen: set[int] = set()
    pending: list[tuple[Any, frozenset[str], int]] = [(f, frozenset(), 0)]
    pending += [(s, _names(_code(f)), 1) for s in statics]
    count = 0
    while pending and count < _MOST:
        thing, names, depth = pending.pop()
        if id(thing) in seen or depth > _DEPTH or isinstance(thing, (types.ModuleType, type, np.ufunc, Tracer)):
            continue
        seen.add(id(thing))
        code = _code(thing)
        names = names | _names(code) if code is not None else names
        for holder, key, value in _places(thing, names):
            if isinstance(value, types.ModuleType):
                continue
            count += 1
            yield holder, key, value
            if value is not None and not isinstance(value, (np.ndarray, *_NUMBERS, str, Tracer)):
                pending.append((value, names, depth + 1))


def _code(thing: Any) -> types.CodeType | None:
    # Not by asking for an attribute: a namespace object may answer anything, or raise.
    function = thing.__func__ if isinstance(thing, types.MethodType) else thing
    return function.__code__ if isinstance(function, types.FunctionType) else None


@functools.lru_cache(maxsize=1000)
def _names(code: types.CodeType | None) -> frozenset[str]:
    """Return the names that a function's code, and the functions in it, read from outside."""
    if code is None:
        return frozenset()
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return frozenset(names)


def _places(thing: Any, names: frozenset[str]) -> Iterator[tuple[Any, Any, Any]]:
    if isinstance(thing, types.MethodType):
        yield [thing.__func__], 0, thing.__func__
        yield [thing.__self__], 0, thing.__self__
        return
    if isinstance(thing, types.FunctionType):
        for cell in thing.__closure__ or ():
            try:
                yield cell, None, cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        for i, value in enumerate(thing.__defaults__ or ()):
            yield thing.__defaults__, i, value
        for key, value in (thing.__kwdefaults__ or {}).items():
            yield thing.__kwdefaults__, key, value
        if not _is_library(thing):
            for name in _names(thing.__code__):
                value = thing.__globals__.get(name, _NOTHING)
                if value is not _NOTHING:
                    yield thing.__globals__, name, value
        return
    if isinstance(thing, functools.partial):
        yield [thing.func], 0, thing.func
        yield thing.args, 0, thing.args
        thing = thing.keywords
    if isinstance(thing, (dict, list)):
        yield thing, len, len(thing)
    if isinstance(thing, dict):
        yield from [(thing, key, value) for key, value in list(thing.items())[:_MOST]]
    elif isinstance(thing, (list, tuple)):
        yield from [(thing, i, value) for i, value in enumerate(thing[:_MOST])]
    else:
        try:
            attributes = object.__getattribute__(thing, "__dict__")
        except AttributeError:
            return
        if isinstance(attributes, dict):
            ours = type(thing).__module__.partition(".")[0] == "dualad"
            for name, value in list(attributes.items()):
                if name in names or (ours and callable(value)):
                    yield attributes, name, value


def _is_library(function: types.FunctionType) -> bool:
    if function.__code__.co_filename.startswith(_PACKAGE):
        return True
    return (function.__module__ or "").partition(".")[0] in _LIBRARIES and function.__module__ != "__main__"
