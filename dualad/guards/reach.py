"""Everything that a function's code can read besides its arguments, as places that can be looked at again.

From the function outwards, without a limit of depth: cells, defaults, globals that the code loads (and those that it
does not find), attributes that some code within reach names (where they are found, and where they are looked for first
and are not), the whole content of containers, arrays. For: ``Reach``. Not for: what becomes of the places
(``compile/captures.py``), or what the code names (``names.py``).
"""

from __future__ import annotations

import array
import builtins
import collections
import contextvars
import functools
import gc
import io
import itertools
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..base.frames import PACKAGE
from ..core.tracer import Tracer
from .names import MAKING, NOTHING_NAMED, Named, asked_outside, named
from .places import (
    ATTRIBUTE,
    CELL,
    CODE,
    DEFAULTS,
    ENTRY,
    ITEMS,
    LENGTH,
    LIST,
    MISSING,
    SAID,
    Place,
    all_hold,
    bytes_of,
    contents_of,
    entries_of,
    header_of,
    is_changed,
    items_of,
    local_of,
    parts_of,
    referent_of,
    state_of,
    unlifted,
)

__all__ = ["MOST", "Reach", "Snapshot", "TooMuch"]

#: the most values that are compared at each call
MOST = 50_000

#: whose code and classes stay what they are
_LIBRARIES = frozenset({
    "dualad", "jax", "jaxlib", "llvmlite", "matplotlib", "numba", "numpy", "optree", "pandas", "scipy", "sklearn",
    "torch", *sys.stdlib_module_names,
} - {"__main__"})  # fmt: skip
#: what a program uses and does not compute with
_SERVICES = frozenset({
    "_io", "_thread", "asyncio", "concurrent", "ctypes", "io", "logging", "multiprocessing", "queue", "socket",
    "subprocess", "threading",
})  # fmt: skip
_NUMBERS = (bool, int, float, complex, np.generic)
#: what can't change, and nothing else is reached through
_PLAIN = (
    *_NUMBERS, str, bytes, types.CodeType, types.NoneType, np.ufunc, np.dtype, range, slice, Tracer,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.MemberDescriptorType, types.GetSetDescriptorType,
    types.ClassMethodDescriptorType, types.EllipsisType, types.NotImplementedType,
)  # fmt: skip
_LEAVES = frozenset({bool, int, float, complex, str, bytes, np.float64, np.int64, types.NoneType})
#: methods that are not called of an object that is there already, or not to compute with it
_ASIDE = frozenset({
    "__init__", "__new__", "__post_init__", "__init_subclass__", "__repr__", "__str__", "__hash__", "__del__",
    "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__", "__deepcopy__",
})  # fmt: skip
#: functions of Python's that look at no entry of an array
_ASKING = frozenset({"dict", "isinstance", "len", "list", "super", "tuple", "type"})
#: names by which code comes from an object to its class, or to another object of it
_MAKERS = frozenset({"__class__", "copy", "deepcopy", "replace", "type"})
_METHODS = (types.FunctionType, property, classmethod, staticmethod, functools.cached_property)
_LOCAL = threading.local
_VIEWS: tuple[type, ...] = (types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()))
_ITERATORS = tuple({  # type: ignore[var-annotated]
    type(iter(x)) for x in ([], (), "", b"", {}, {}.values(), {}.items(), set(), range(0), bytearray(), reversed([]))
} | {zip, map, filter, enumerate, reversed, *[c for c in vars(itertools).values() if isinstance(c, type)]})  # fmt: skip


class TooMuch(Exception):
    """There is more within reach than is compared at each call."""


class Reach:
    """The places within reach of some things.

    ``code`` has run besides functions found here; ``places`` are each there once, ``arrays`` are those that were
    met. ``outside`` is what can't be looked at, and where code asks for it.
    """

    def __init__(self, roots: Iterable, code: Named = NOTHING_NAMED) -> None:
        self.names = code
        while True:  # code that is found names more; then it is looked once more
            known = self.names
            self.places: dict[tuple, Place] = {}
            self.arrays: list[np.ndarray] = []
            #: what code asks for outside of the process, and where
            self.outside: dict[str, str] = {}
            #: the ids of what functions note in their attributes
            self.notes: set[int] = set()
            self._seen: dict[int, Any] = {}
            self._pending = list(roots)
            self._count = 0
            while self._pending:
                x = self._pending.pop()
                try:
                    self._visit(x)
                except TooMuch:
                    raise
                except Exception:  # it answers nothing, or another thread is changing it
                    self.outside[f"a {type(x).__name__}"] = "?"
            if self.names == known:
                break

    # ── findings ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _add(self, kind: int, holder: Any, key: Any, value: Any, size: int = 1) -> None:
        at = kind, id(holder), key if kind in (ENTRY, ATTRIBUTE) else id(key)
        if at in self.places:
            return
        self._count += size
        if self._count > MOST:
            raise TooMuch
        self.places[at] = Place(kind, holder, key, unlifted(kind, holder, key, value))

    def _entry(self, holder: dict, key: Any) -> None:
        """Note an entry of a dict, or that there is none, and go into it."""
        value = holder.get(key, MISSING)
        self._add(ENTRY, holder, key, value)
        self._go(value)

    def _said(self, question: Callable[[Any], Any], thing: Any) -> Any:
        """Note what a function says of a thing."""
        said = question(thing)
        self._add(SAID, thing, question, said, len(said) if isinstance(said, (tuple, bytes)) else 1)
        return said

    def _attribute(self, thing: Any, name: str) -> Any:
        value = getattr(thing, name, MISSING)
        self._add(ATTRIBUTE, thing, name, value)
        return value

    def _go(self, x: Any) -> None:
        if type(x) not in _LEAVES and x is not MISSING:
            self._pending.append(x)

    def _into(self, parts: Iterable) -> None:
        self._pending += [x for x in parts if type(x) not in _LEAVES]

    def _maybe(self) -> frozenset[str]:
        return self.names.attributes if self.names.catches else self.names.maybe

    # ── where it is looked ───────────────────────────────────────────────────────────────────────────────────────

    def _visit(self, x: Any) -> None:
        if isinstance(x, _PLAIN) or id(x) in self._seen:
            return
        self._seen[id(x)] = x  # and keep it, or another thing may come to its place
        if isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.ModuleType):
            self._module(x)
        elif isinstance(x, type):
            self._class(x, made=True)
            if type(x) is not type:
                self._class(type(x))
        elif isinstance(x, types.MethodType):
            self._into((x.__func__, x.__self__))
        elif isinstance(x, types.BuiltinFunctionType):
            self._go(x.__self__)
        elif isinstance(x, types.CellType):
            self._cell(x)
        elif isinstance(x, _METHODS):
            self._into([getattr(x, n, None) for n in ("fget", "func", "__func__")])
        elif isinstance(x, functools.partial):
            self._into([self._attribute(x, n) for n in ("func", "args", "keywords")])
        elif type(x).__module__.startswith("numba.") and hasattr(x, "py_func"):  # that is all that is called
            self._go(self._attribute(x, "py_func"))
        else:
            self._content(x)

    def _function(self, f: types.FunctionType, asked: bool = False) -> None:
        """Note what a function is, and go where its code does; it may be a ``__getattr__`` that only Python asks."""
        own = named(f.__code__)
        # By the file where it is of the package: examples in docstrings have its modules' names.
        module = str(f.__globals__.get("__name__"))
        of_package = module.partition(".")[0] == "dualad"
        if f.__code__.co_filename.startswith(PACKAGE) if of_package else _from_library(module):
            if not _is_at_home(f):  # one of the library's made it, perhaps of the user's objects
                for cell in f.__closure__ or ():
                    self._go(Place(CELL, cell, None, None).now())
                self._attributes(f)
            return
        self._add(CODE, f, None, f.__code__)
        self._add(DEFAULTS, f, None, f.__defaults__)
        self._go(f.__defaults__)
        if f.__kwdefaults__ is not None:
            self._go(self._attribute(f, "__kwdefaults__"))
        for cell in f.__closure__ or ():
            self._cell(cell)
        self._attributes(f)
        if f.__name__ not in _ASIDE:
            self._read_by(own, asked)
        self._globals(f.__globals__, own)

    def _attributes(self, f: types.FunctionType) -> None:
        self.notes.add(id(vars(f)))
        self._named_in(vars(f), set())

    def _read_by(self, own: Named, asked: bool = False) -> None:
        """Learn the names in some code, in which Python alone may ask for attributes that are missing."""
        every = own.every or (own.delegates and not asked)
        self.names |= own._replace(every=every, catches=own.catches or own.delegates)

    def _cell(self, cell: types.CellType) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            value = MISSING
        self._add(CELL, cell, None, value)
        self._go(value)

    def _globals(self, namespace: dict, own: Named) -> None:
        self.outside.update(asked_outside(own, namespace, vars(builtins)))
        for name in own.globals:
            self._add(ENTRY, namespace, name, namespace.get(name, MISSING))
            if name in namespace:
                value = namespace[name]
                self._go_global(value)
            else:
                value = vars(builtins).get(name, MISSING)
                self._add(ENTRY, vars(builtins), name, value)
            if name not in _ASKING and _may_convert(value):
                self.names |= NOTHING_NAMED._replace(converts=True)
        if not own.globals.isdisjoint(("globals", "eval", "exec", "vars", "locals")):
            # By name: the texts in the code, or all that there are.
            for name in own.maybe or [n for n in namespace if not n.startswith("__")]:
                self._add(ENTRY, namespace, name, namespace.get(name, MISSING))
                self._go_global(namespace.get(name, MISSING))
        if not own.globals.isdisjoint(("environ", "getenv")) or not own.attributes.isdisjoint(("environ", "getenv")):
            self._go(os.environ._data)  # type: ignore[attr-defined]
        for name in own.modules:
            for module in {name, f"{namespace.get('__package__') or ''}.{name}"} & sys.modules.keys():
                self._add(ENTRY, sys.modules, module, sys.modules[module])
                self._go_global(sys.modules[module])

    def _go_global(self, value: Any) -> None:
        if not isinstance(value, types.ModuleType) or not _from_library(value.__name__):
            self._go(value)

    def _module(self, module: types.ModuleType) -> None:
        if not _from_library(module.__name__):
            self._named_in(vars(module), {"__getattr__"} & vars(module).keys())

    def _named_in(self, attributes: dict, more: set[str]) -> None:
        """Note the names that are there, and those missing among the ones that may be."""
        for name in (self.names.attributes & attributes.keys()) | more:
            self._add(ENTRY, attributes, name, attributes[name])
            self._go_global(attributes[name])
        for name in self._maybe() - attributes.keys():
            self._add(ENTRY, attributes, name, MISSING)

    def _class(self, cls: type, made: bool = False) -> dict[str, Any]:
        """Note what classes of one's own have of the names; return those found, by name.

        Of a library's, learn what its methods read of an object. Of a class that code has itself, or can ask an object
        for, objects may be ``made``.
        """
        made = made or not _MAKERS.isdisjoint(self.names.attributes)
        found: dict[str, Any] = {}
        own = [base for base in cls.__mro__ if not _from_library(base.__module__)]
        for base in own:
            self._attribute(base, "__bases__")
        for base in cls.__mro__:
            entries = _entries(base)
            wanted = entries.keys() if self.names.every else self.names.attributes & entries.keys()
            library = base not in own
            called = [*_called_of_library(base)] if library else _called_in(entries)
            made = made or any([isinstance(entries[n], classmethod) for n in wanted])
            called += MAKING & entries.keys() if made else ()
            for name in {*wanted, *called} - {"__dict__", "__weakref__", "__doc__", "__module__"}:
                value = entries[name]
                if library:
                    for method in (value, getattr(value, "fget", None)):
                        if isinstance(method, types.FunctionType) and name not in _ASIDE:
                            self.names |= NOTHING_NAMED._replace(attributes=frozenset(method.__code__.co_names))
                else:
                    self._add(ENTRY, entries, name, value)
                    code = getattr(getattr(value, "__func__", value), "__code__", None)
                    if code is not None and name in MAKING and made:
                        self._read_by(named(code))
                    if name == "__getattr__" not in self.names.attributes and isinstance(value, types.FunctionType):
                        self._function(value, asked=True)
                    else:
                        self._go(value)
                if name not in found:
                    found[name] = value
                    for before in () if library else own[: own.index(base)]:
                        self._add(ENTRY, _entries(before), name, MISSING)
            if not library:
                self._add(LENGTH, entries, None, len(entries))
        return found

    def _content(self, x: Any) -> None:
        """Go into containers, arrays, and other objects."""
        kind = type(x)
        if kind is dict:
            self._add(ITEMS, x, None, items_of(x), 2 * len(x))
            self._into([*x, *x.values()])
        elif kind is list:
            self._add(LIST, x, None, tuple(x), len(x))
            self._into(x)
        elif kind is frozenset or getattr(kind, "__iter__", None) is tuple.__iter__:  # which stay as they are
            self._count += len(x)
            self._into(x)
        elif isinstance(x, np.ndarray):
            self._array(x)
        elif isinstance(x, weakref.ref):
            self._go(self._said(referent_of, x))
        elif isinstance(x, weakref.ProxyTypes):
            self._go(x.__repr__.__self__)
        elif isinstance(x, contextvars.ContextVar):
            self._go(self._said(_in_context, x))
        elif isinstance(x, _LOCAL):
            self._into(self._said(local_of, x))
            self._class(kind)
        elif kind in _VIEWS:
            self._into(gc.get_referents(x))
        elif isinstance(x, (dict, collections.UserDict)):
            self._into(self._said(items_of, x))
        elif isinstance(x, (list, tuple, set, frozenset, collections.deque)):
            self._into(self._said(tuple, x))
        elif isinstance(x, (bytearray, memoryview, array.array)):
            self._said(bytes_of, x)
        elif isinstance(x, (*_ITERATORS, types.GeneratorType)):
            self._iterator(x)
        elif isinstance(x, io.IOBase):
            self.outside["an open file"] = "its methods"
        if kind.__module__ != "builtins":
            self._object(x, kind)

    def _array(self, a: np.ndarray) -> None:
        self._said(header_of, a)
        if a.dtype.hasobject:
            self._into(self._said(entries_of, a))
        else:
            self.arrays.append(a)

    def _iterator(self, x: Any) -> None:
        try:
            self._into(self._said(state_of, x))
        except (TypeError, AttributeError):
            self.outside[f"a {type(x).__name__}"] = "?"

    def _object(self, x: Any, kind: Any) -> None:
        module = str(kind.__module__).partition(".")[0]
        if module in _SERVICES:
            return
        if module == "pandas" and hasattr(x, "_mgr"):
            self._into(self._said(parts_of, x))
            return
        attributes: Any = {}
        if kind.__dictoffset__:
            # Not by asking for an attribute: a namespace object may answer anything, or raise.
            attributes = object.__getattribute__(x, "__dict__")
        if module == "dualad":  # the rest is our own, and is what the function has made of it
            for name, value in list(attributes.items()):
                if callable(value) or name in self.names.attributes:
                    self._entry(attributes, name)
            for name in self._maybe() - attributes.keys() if kind.__dictoffset__ else ():
                self._add(ENTRY, attributes, name, MISSING)
            for name in () if kind.__dictoffset__ else getattr(kind, "__slots__", ()):  # where a function is kept
                if callable(getattr(x, name, None)):
                    self._go(self._attribute(x, name))
            return
        if kind is functools._lru_cache_wrapper:
            self._into(_cache_contents(x))
        library = _from_library(kind.__module__)
        found = self._class(kind)
        reads_plainly = kind.__getattribute__ is object.__getattribute__
        if not library and reads_plainly:
            self._attribute(x, "__class__")
            if kind.__dictoffset__:
                self._attribute(x, "__dict__")
        if library or self.names.every:  # what its code reads is not known
            for name in list(attributes):
                self._entry(attributes, name)
            self._add(LENGTH, attributes, None, len(attributes))
        names = self.names.attributes
        for name in names & attributes.keys():
            self._entry(attributes, name)
        absent = self._maybe() if "__getattr__" not in found else names | self._maybe()
        for name in ((names & found.keys()) | absent) - attributes.keys():
            held = found.get(name)
            if isinstance(held, types.MemberDescriptorType):  # a slot
                self._go(self._attribute(x, name) if reads_plainly else MISSING)
            elif kind.__dictoffset__ and not hasattr(type(held), "__set__"):
                self._add(ENTRY, attributes, name, MISSING)


class Snapshot:
    """The objects within reach at one moment, and the contents of the arrays among them."""

    __slots__ = ("contents", "reach", "roots")

    def __init__(self, roots: Sequence, most: float, code: Named) -> None:
        self.roots, self.reach = roots, Reach(roots, code)
        self.contents = [(a, contents_of(a)) for a in self.reach.arrays if a.nbytes <= most]

    @classmethod
    def of(cls, roots: Sequence, most: float = float("inf"), code: Named = NOTHING_NAMED) -> Snapshot | None:
        """Return the present snapshot, with arrays of up to ``most`` bytes; None if that is too much.

        ``code`` has run besides functions found by themselves.
        """
        try:
            return cls(roots, most, code)
        except TooMuch:
            return None

    def holds(self) -> bool:
        """Whether everything is as it was."""
        return all_hold(self.reach.places.values()) and all([contents_of(a) == content for a, content in self.contents])

    def without(self, moving: Iterable[tuple]) -> Snapshot:
        """Leave places out that the function itself changes whenever it runs, and does not compute with."""
        for key in moving:
            self.reach.places.pop(key, None)
        return self

    def changed(self) -> tuple[dict[tuple, Place], list[np.ndarray]]:
        """Return the places and the arrays that hold something else now."""
        places = {key: place for key, place in self.reach.places.items() if is_changed(place)}
        return places, [a for a, content in self.contents if contents_of(a) != content]


def _entries(cls: type) -> dict:
    """Return the dict of a class, for which a proxy stands."""
    (entries,) = gc.get_referents(vars(cls))
    return entries


def _called_in(entries: dict) -> list[str]:
    """Return the names of methods of a class that Python calls by itself."""
    return [n for n in entries if n.startswith("__") and n not in _ASIDE and callable(entries[n])]


@functools.lru_cache(maxsize=1000)
def _called_of_library(cls: type) -> list[str]:
    return _called_in(_entries(cls))


def _is_at_home(f: types.FunctionType) -> bool:
    """Whether a function is what a library's module has under its name."""
    found: Any = sys.modules.get(f.__module__) if _from_library(f.__module__) else None
    for name in f.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is f


def _in_context(variable: contextvars.ContextVar) -> Any:
    return variable.get(MISSING)


def _cache_contents(x: Any) -> list:
    """Return the referents of a cached function but its cache, which may grow."""
    held = gc.get_referents(x)
    return [p for p in held if type(p) is not dict or "_lru_list_elem" not in {type(v).__name__ for v in p.values()}]


def _may_convert(value: Any) -> bool:
    """Whether a global may be a function, or have functions, that make Python's numbers of an array."""
    if not isinstance(value, types.ModuleType) and not callable(value):
        return False
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return _from_library(module) and str(module).partition(".")[0] not in ("dualad", "numpy", "scipy")


def _from_library(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _LIBRARIES
