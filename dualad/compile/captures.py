"""What a function reads besides its arguments: names, attributes and arrays that may change between two calls.

A compiled function has the values of the moment it was traced in its code. ``Captures`` notes where they came from
(cells of closures, globals that the code names, attributes of objects, classes and modules, entries of containers) and
tells whether all of it is still as it was; if not, ``jit`` traces again. Not for: arrays that meet a traced value
directly; those are inputs (``tracing.py``).
"""

from __future__ import annotations

import array
import collections
import contextlib
import dis
import functools
import operator
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.frames import PACKAGE
from ..core.tracer import Tracer

__all__ = ["Asked", "CODE", "Captures", "DEFAULTS", "memory_of", "writeable"]

#: contents of arrays up to so many bytes are compared at each call
SMALL = 1 << 16
#: how many places are looked at, and how deep in
_MOST, _DEPTH = 2000, 8

_LIBRARIES = frozenset({"dualad", "numpy", "scipy", "optree", *sys.stdlib_module_names} - {"__main__"})
_NUMBERS = (bool, int, float, complex, np.generic)
_TEXTS = (str, bytes)
#: what nothing else is reached through
_PLAIN = (*_NUMBERS, *_TEXTS, types.CodeType, np.ufunc, Tracer)
#: methods that are not called of an object that is there already, or not to compute with it
_ASIDE = frozenset({
    "__init__", "__new__", "__post_init__", "__init_subclass__", "__repr__", "__str__", "__hash__", "__del__",
    "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__", "__deepcopy__",
})  # fmt: skip


#: what is asked of functions: a notebook that loads a module again puts other code into them
CODE, DEFAULTS = operator.attrgetter("__code__"), operator.attrgetter("__defaults__")


class Asked:
    """What a question says of a thing, as if it were an entry of a container."""

    __slots__ = ("question", "thing")

    def __init__(self, question: Callable, thing: Any) -> None:
        self.question, self.thing = question, thing

    def __getitem__(self, key: Any) -> Any:
        return self.question(self.thing)


class Captures:
    """Where a function's values come from, and what they were.

    What ``statics`` hold, arguments that are constants of the program, is looked at too. The arrays among ``inputs``
    are read at each call: of the large ones only the binding is watched, unless the program has constants that may have
    been computed from a captured array (``derived``).
    """

    __slots__ = ("contents", "entries")

    def __init__(self, f: Callable, statics, inputs, derived: bool) -> None:
        #: (mapping or sequence, key, value), (cell, None, value) for cells, and (list, len, length)
        self.entries: list[tuple[Any, Any, Any]] = []
        #: (array, its bytes)
        self.contents: list[tuple[np.ndarray, bytes]] = []
        read = {id(a) for a in inputs}
        seen: set[int] = set()
        for holder, key, value in _captured(f, list(statics)):
            self.entries.append((holder, key, value))
            if isinstance(value, np.ndarray) and writeable(value) and id(value) not in seen:
                seen.add(id(value))
                if value.nbytes <= SMALL or id(value) not in read or (derived and value.nbytes <= 1 << 24):
                    self.contents.append((value, value.tobytes()))

    def unchanged(self) -> bool:
        """Say whether everything is as it was."""
        for holder, key, value in self.entries:
            try:
                now = holder.cell_contents if key is None else len(holder) if key is len else holder[key]
            except (AttributeError, LookupError, RuntimeError, ValueError):
                return False
            if now is not value and not _equal(now, value):
                return False
        return all([a.tobytes() == content for a, content in self.contents])

    def __bool__(self) -> bool:
        return bool(self.entries or self.contents)


def memory_of(a: Any) -> list:
    """Return an array, the array that it is a view of, and so on, down to what has the memory."""
    chain = [a]
    while isinstance(chain[-1], np.ndarray) and chain[-1].base is not None:
        chain.append(chain[-1].base)
    return chain


def writeable(a: np.ndarray) -> bool:
    """Say whether somebody could write to the memory of an array."""
    chain = memory_of(a)
    if any([isinstance(x, np.ndarray) and x.flags.writeable for x in chain]):
        return True
    # An array made of one of NumPy's numbers, repeated, stays that.
    return not isinstance(chain[-1], (np.ndarray, np.number, np.bool_))


def _equal(a: Any, b: Any) -> bool:
    """Compare numbers, their signed zeros too, texts, and tuples of what an ``Asked`` was told."""
    if type(a) is not type(b):
        return False
    if type(a) is tuple:
        return len(a) == len(b) and all([x is y or _equal(x, y) for x, y in zip(a, b, strict=True)])
    return isinstance(a, (*_NUMBERS, *_TEXTS)) and repr(a) == repr(b)


def _captured(f: Callable, statics: list) -> list[tuple[Any, Any, Any]]:
    """Return the places that a function's code can reach: of numbers and arrays, and of what leads to them.

    Attributes are those that some code within reach names; so the walk is repeated until it finds no other names.
    """
    names: set[str] = {"__wrapped__"}
    while True:
        known = len(names)
        found = list(_reached(f, statics, names))
        if len(names) == known:
            return found


def _reached(f: Callable, statics: list, names: set[str]) -> Iterator[tuple[Any, Any, Any]]:
    seen: set[int] = set()
    pending: list[tuple[Any, int]] = [(f, 0), *[(s, 1) for s in statics]]
    count = 0
    while pending and count < _MOST:
        thing, depth = pending.pop()
        if id(thing) in seen or depth > _DEPTH or thing is None or isinstance(thing, _PLAIN):
            continue
        seen.add(id(thing))
        for holder, key, value in _places(thing, names):
            if isinstance(value, types.ModuleType) and _from_library(value.__name__):
                continue
            count += 1
            yield holder, key, value
            pending.append((value, depth + 1))


def _from_library(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _LIBRARIES


@functools.lru_cache(maxsize=1000)
def _names(code: types.CodeType) -> frozenset[str]:
    """Return the names that a function's code, and the functions in it, read from outside; ``getattr`` takes texts."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            names.add(constant)
    return frozenset(names)


@functools.lru_cache(maxsize=1000)
def _stored(code: types.CodeType) -> frozenset[str]:
    """Return the attributes that a function sets: one that counts its calls is none the less the same function."""
    return frozenset([i.argval for i in dis.get_instructions(code) if i.opname == "STORE_ATTR"])


def _places(thing: Any, names: set[str]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the places in one thing, and add the names that its code reads."""
    if isinstance(thing, types.FunctionType):
        yield from _of_function(thing, names)
    elif isinstance(thing, types.ModuleType):
        yield from [(vars(thing), n, vars(thing)[n]) for n in names & vars(thing).keys()]
    elif isinstance(thing, type):
        yield from _of_class(thing, names)
    elif isinstance(thing, np.ndarray):
        if thing.dtype.hasobject:  # its bytes are addresses, and an address may be had again
            yield Asked(_entries, thing), 0, _entries(thing)
    elif isinstance(thing, types.MethodType):
        yield from [([x], 0, x) for x in (thing.__func__, thing.__self__)]
    elif isinstance(thing, (property, classmethod, staticmethod, functools.cached_property)):
        inner = [getattr(thing, n, None) for n in ("fget", "func", "__func__")]
        yield from [([x], 0, x) for x in inner if x is not None]
    elif isinstance(thing, functools.partial):
        yield from [([x], 0, x) for x in (thing.func, thing.args)]
        yield from _of_items(thing.keywords)
    else:
        yield from _of_items(thing)
        if type(thing).__module__ != "builtins":
            yield from _of_object(thing, names)


def _of_function(f: types.FunctionType, names: set[str]) -> Iterator[tuple[Any, Any, Any]]:
    yield Asked(CODE, f), 0, f.__code__
    for cell in f.__closure__ or ():
        try:
            yield cell, None, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    if f.__defaults__ is not None:
        yield Asked(DEFAULTS, f), 0, f.__defaults__
    for key, value in (f.__kwdefaults__ or {}).items():
        yield f.__kwdefaults__, key, value
    if known := names & f.__dict__.keys():
        yield from [(f.__dict__, n, f.__dict__[n]) for n in known - _stored(f.__code__)]
    if not f.__code__.co_filename.startswith(PACKAGE) and not _from_library(f.__module__):
        own = _names(f.__code__)
        if f.__name__ not in _ASIDE:
            names |= own
        yield from [(f.__globals__, n, f.__globals__[n]) for n in own & f.__globals__.keys()]


def _of_class(cls: type, names: set[str], thing: Any = None) -> Iterator[tuple[Any, Any, Any]]:
    """Yield what a class of one's own holds; of a library's, learn what its methods read of an object.

    A class that is at hand as such may be called; of the class of a ``thing``, it is methods that are, and its slots
    are the thing's.
    """
    there = thing is not None
    for base in cls.__mro__:
        library = _from_library(base.__module__)
        if library and not there:
            continue
        for name, value in list(vars(base).items()):
            called = isinstance(value, types.FunctionType) and name.startswith("__")
            if name not in names and not (called and not (there and name in _ASIDE)):
                continue
            if not library:
                yield vars(base), name, value
            elif isinstance(value, types.FunctionType) and name not in _ASIDE:
                names |= _names(value.__code__)
            if there and isinstance(value, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # not assigned yet
                    yield Asked(value.__get__, thing), 0, value.__get__(thing)


def _of_items(thing: Any) -> Iterator[tuple[Any, Any, Any]]:
    if isinstance(thing, (dict, list)):
        yield thing, len, len(thing)
    if isinstance(thing, dict):
        yield from [(thing, key, value) for key, value in list(thing.items())[:_MOST]]
    elif isinstance(thing, (list, tuple)):
        yield from [(thing, i, value) for i, value in enumerate(thing[:_MOST])]
    elif isinstance(thing, (set, frozenset, collections.deque)):
        yield Asked(tuple, thing), 0, tuple(thing)
    elif isinstance(thing, (bytearray, memoryview, array.array)):
        yield Asked(bytes, thing), 0, bytes(thing)


def _entries(a: np.ndarray) -> tuple:
    return tuple(a.flat)


def _of_object(thing: Any, names: set[str]) -> Iterator[tuple[Any, Any, Any]]:
    cls = type(thing)
    ours = str(cls.__module__).partition(".")[0] == "dualad"
    try:
        # Not by asking for an attribute: a namespace object may answer anything, or raise.
        attributes = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        attributes = {}
    if isinstance(attributes, dict):
        yield from [(attributes, n, v) for n, v in list(attributes.items()) if (callable(v) if ours else n in names)]
    if ours:  # the rest is our own, and is what the function has made of it
        return
    yield from _of_class(cls, names, thing)
