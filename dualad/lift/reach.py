"""The reach of a lifted call: modules, and the places in them, found once and again when something has changed.

For: ``Reach``, of one function or one block. Not for: finding the places in a module (``search.py``), or swapping them
(``places.py``).
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import compress
from operator import is_
from pathlib import Path
from typing import Any

import numpy as np

from ..base.frames import ENGINES
from ..errors import ArgumentError, ArgumentTypeError
from .loading import library_folders, load_module
from .places import Place, Swap, attribute, is_quiet, lock
from .search import look_into, look_through
from .targets import REDIRECTED, Table, lift_table, top

__all__ = ["Modules", "Reach", "forget_scopes", "home_of", "is_kept", "named"]

Modules = str | types.ModuleType | Iterable[str | types.ModuleType] | None

_ALL = ("all",)


def named(modules: Modules) -> tuple[str, ...]:
    """Return modules given by name or as such as a tuple of names, and load those that are not loaded."""
    given = [modules] if isinstance(modules, (str, types.ModuleType)) else list(modules or ())
    names = []
    for module in given:
        if not isinstance(module, (str, types.ModuleType)):
            raise ArgumentTypeError(
                f"lift: modules holds {module!r} of type {type(module).__name__}.",
                "a module is named, or given as it is",
                'pass modules=["package", "other.module"], modules=[package], or modules="all"',
            )
        name = module if isinstance(module, str) else module.__name__
        if top(name) in REDIRECTED | ENGINES:
            raise ArgumentError(
                f"lift: modules names {name!r}.",
                f"{top(name)} computes by itself, and stays as it is",
                "name the modules whose code calls it",
            )
        if name not in (*_ALL, *sys.modules):
            load_module(name)
        names.append(name)
    return tuple(names)


def home_of(f: Any) -> dict | None:
    """Return the globals of the innermost function in wrappers, methods, partials and objects; None if it has none."""
    while True:
        if isinstance(f, functools.partial):
            f = f.func
        elif isinstance(f, types.MethodType):
            f = f.__func__
        elif hasattr(f, "__wrapped__"):
            f = f.__wrapped__
        elif isinstance(f, types.FunctionType):
            return f.__globals__
        elif isinstance(f, type):
            return vars(sys.modules[f.__module__]) if f.__module__ in sys.modules else {}
        elif isinstance(type(f).__call__, (types.FunctionType, types.MethodType)):
            f = type(f).__call__
        else:
            return None


@dataclass(slots=True, eq=False)
class Reach:
    """The places that are swapped while one function (or the block of a ``with``) runs."""

    #: the function; None for a block
    f: Any
    #: the globals that are swapped whatever they are: those of the function itself, of the block
    namespace: dict
    #: further modules
    modules: tuple[str, ...]
    #: returns the replacement
    table: Callable[[], Table] = lift_table
    #: returns further places
    others: Callable[[], list[Place]] = list
    scope: _Scope | None = None
    contents: list = field(default_factory=list)
    #: whether it holds nothing that could be replaced
    is_fixed: bool = False
    held: list[Place] = field(default_factory=list)
    shared: list[Place] = field(default_factory=list)
    places: Swap = field(default_factory=lambda: Swap([]))

    def swap(self) -> Swap:
        """Swap the places, as they are now; return what restores them."""
        with lock:
            quiet, scope = is_quiet(), self.scope
            if scope is None or (quiet and not self.is_fixed and not self._is_known()):
                scope = self._look()
            shared = scope.current(quiet)
            if shared is not self.shared:
                self.shared, self.places = shared, Swap(shared + self.held + self.others(), scope.roots)
            self.places.swap(quiet)
            return self.places

    def _is_known(self) -> bool:
        contents = _contents(self.f)
        return len(contents) == len(self.contents) and all(
            [a is b for a, b in zip(contents, self.contents, strict=True)]
        )

    def _look(self) -> _Scope:
        roots, self.held = ([], []) if self.f is None else look_into(self.f, self._reaches, self.table())
        if all([n is not self.namespace for n in roots]):
            roots.append(self.namespace)
        self.scope, self.contents, self.shared = _scope(roots, self.modules, self.table), _contents(self.f), []
        self.is_fixed = self.f is None or (type(self.f) is types.FunctionType and not self.f.__closure__)
        return self.scope

    def _reaches(self, namespace: dict) -> bool:
        return namespace is self.namespace or not is_kept(namespace)


def _contents(f: Any) -> list:
    """Return the mutable contents of a function: those that may be others at the next call."""
    if isinstance(f, types.FunctionType):
        return [attribute(cell, "cell_contents") for cell in f.__closure__] if f.__closure__ else []
    if isinstance(f, types.MethodType):
        return _contents(f.__func__) + list(getattr(f.__self__, "__dict__", {}).values())
    if isinstance(f, functools.partial):
        return _contents(f.func)
    return list(getattr(f, "__dict__", {}).values())


# ── modules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, eq=False)
class _Scope:
    """The places in the modules that some globals belong to, and in further ones."""

    roots: list[dict]
    modules: tuple[str, ...]
    table: Callable[[], Table]
    namespaces: list[dict] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    looks: list[_Look] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def current(self, quiet: bool) -> list[Place]:
        """Return the places; what the program has changed since is seen, unless a lifted call is running somewhere."""
        if not self.sizes or (quiet and not self._is_known()):
            loaded = -1
            while loaded != len(sys.modules):  # a search loads what functions would import when they are called
                loaded = len(sys.modules)
                self.namespaces = _namespaces(self.roots, self.modules)
                loads = self.modules != _ALL  # which would load what others have left unloaded on purpose
                self.places = look_through(self.namespaces, self.roots, self.table(), loads)
            if quiet:
                swapped = [{x.key for x in self.places if x.owner is names} for names in self.roots]
                self.looks = [*map(_Look, self.roots, swapped)]
                self.sizes = [len(sys.modules), *map(len, self.namespaces)]
            else:  # the present content will change
                self.looks, self.sizes = [], [-1]
        return self.places

    def _is_known(self) -> bool:
        if self.sizes != [len(sys.modules), *map(len, self.namespaces)]:
            return False
        for i, look in enumerate(self.looks):
            values = look.names.values()
            if not all(map(is_, compress(values, look.is_held) if look.ids else values, look.held)) or (
                look.ids and [*map(id, compress(values, look.is_told))] != look.ids
            ):
                # Numbers and arrays come and go; what can be called, or be a module, has to be looked at.
                table = self.table()
                for name, x in look.changed():
                    if name in look.swapped or callable(x) or table.in_place_of(x) is not None:
                        return False
                self.looks[i] = _Look(look.names, look.swapped)
        return True


class _Look:
    """The contents of some globals. Arrays and the like are told by their ids: they shall not live longer for that."""

    __slots__ = ("held", "ids", "is_held", "is_told", "names", "swapped")

    def __init__(self, names: dict, swapped: set[str]) -> None:
        self.names, self.swapped = names, swapped
        self.is_held = [
            str(name).startswith("__") or type(x) in _SMALL or issubclass(type(x), type) or _is_alone(x)
            for name, x in names.items()
        ]
        self.is_told = [not held for held in self.is_held]
        self.held = [*compress(names.values(), self.is_held)]
        self.ids = [*map(id, compress(names.values(), self.is_told))]

    def changed(self) -> list[tuple[str, Any]]:
        """Return the names, with what they hold now, that held something else."""
        held, ids = iter(self.held), iter(self.ids)
        now = zip(list(self.names.items()), self.is_held, strict=False)
        return [(name, x) for (name, x), is_held in now if (x is not next(held) if is_held else id(x) != next(ids))]


#: types of what may live longer
_SMALL = frozenset({bool, float, int, str, type(None), np.ufunc, types.BuiltinFunctionType, types.ModuleType})


def _is_alone(x: Any) -> bool:
    return type(x) is types.FunctionType and x.__closure__ is None


_scopes: OrderedDict[tuple, _Scope] = OrderedDict()


#: forgets them all: code is to be found rewritten
forget_scopes = _scopes.clear


def _scope(roots: list[dict], modules: tuple[str, ...], table: Callable[[], Table]) -> _Scope:
    """Return the scope of some globals; a few are kept, for lifted functions are often made anew."""
    key = (frozenset(map(id, roots)), modules, table)
    scope = _scopes.get(key)
    if scope is None:
        scope = _scopes[key] = _Scope(roots, modules, table)
        if len(_scopes) > 32:
            _scopes.popitem(last=False)
    return scope


def _namespaces(roots: list[dict], modules: tuple[str, ...]) -> list[dict]:
    """Return the globals of the modules that are reached: each once, the roots first."""
    found = {id(root): root for root in roots}
    pure = {}
    for name, module in list(sys.modules.items()):
        namespace = getattr(module, "__dict__", None)
        if type(namespace) is dict and str(namespace.get("__file__") or ".py").endswith(".py"):
            pure[name] = namespace
    for root in roots:
        for namespace in _neighbours(root, pure):
            found.setdefault(id(namespace), namespace)
    for name, namespace in pure.items():
        wanted = modules == _ALL or any([name == m or name.startswith(m + ".") for m in modules])
        if wanted and (modules != _ALL or not is_kept(namespace)):
            found.setdefault(id(namespace), namespace)
    return list(found.values())


def _neighbours(root: dict, pure: dict[str, dict]) -> list[dict]:
    """Return the modules of the package that some globals belong to, or of the folder, if they are a lone file's."""
    name = str(root.get("__name__"))
    if pure.get(name) is not root:  # made by exec, or compiled
        return []
    spec = root.get("__spec__")
    if name == "__main__" and spec is not None:
        name = spec.name
    if "." in name or "__path__" in root:
        return [namespace for other, namespace in pure.items() if top(other) == top(name)]
    folder = _folder(root.get("__file__"))
    if folder is None or Path(folder) in library_folders():
        return []
    return [namespace for namespace in pure.values() if _folder(namespace.get("__file__")) == folder]


def is_kept(namespace: dict) -> bool:
    """Whether the globals of a module stay as they are: dualad's, NumPy's, the standard library's."""
    package = top(namespace.get("__name__"))
    if package in ENGINES or package in REDIRECTED:
        return True
    if package not in sys.stdlib_module_names:
        return False
    folder = _folder(namespace.get("__file__"))
    return folder is None or folder.startswith(sysconfig.get_path("stdlib"))  # else a file of the user's: `code.py`


@functools.lru_cache(maxsize=10_000)
def _folder(file: Any) -> str | None:
    if not isinstance(file, str):
        return None
    return _resolved(os.path.dirname(os.path.realpath(file) if os.path.islink(file) else file))


#: a folder without links: many files lie in one
_resolved = functools.lru_cache(maxsize=1000)(os.path.realpath)
