"""Finding the places that lifted code reads NumPy's names from: in its modules, and in the function itself.

For: ``look_into``, the globals that a function and what it holds run in, and the places in what it holds (its closure,
its defaults, its object); ``look_through``, the places in modules. Not for: what stands in the place of what
(``targets.py``), or which modules are searched (``reach.py``).
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from ..base.reach import DEEP, parts
from ..boundary.transformed import Transformed
from .imports import redirect_imports
from .places import MISSING, Attribute, Place, original_in
from .rewriting import rewritten
from .targets import LIFTED, Table, top

__all__ = ["look_into", "look_through"]

_CODE = (types.FunctionType, types.MethodType, functools.partial, Transformed)
_ATOMS = (bool, int, float, complex, str, bytes, type(None), types.ModuleType, types.BuiltinFunctionType)

_HEAP, _IMMUTABLE = 1 << 9, 1 << 8  # of type.__flags__: made by a class statement; closed to new attributes


def look_into(f: Any, reaches: Callable[[dict], bool], table: Table) -> tuple[list[dict], list[Place]]:
    """Return the globals that a function and what it holds run in, and the places in what it holds.

    ``reaches`` says of globals whether they are to be changed at all.
    """
    search = _Search(reaches, lambda cls: True, table, everything=False)
    search.visit(f, 0)
    if isinstance(f, types.MethodType):
        f = f.__self__
    if not isinstance(f, (*_CODE, type)):  # a callable object: its methods run too
        search.methods(type(f), 0)
    return list(search.globals.values()), search.places


def look_through(namespaces: list[dict], roots: Iterable[dict], table: Table, loads: bool = True) -> list[Place]:
    """Return the places in the globals of modules, and in the functions, classes, objects and containers they hold.

    Python's own names are shadowed where code mentions them, and in ``roots`` in any case. What functions import from
    their own package when they are called is loaded now if ``loads``, and in the packages of ``roots`` in any case.
    """
    ids, names = {id(n) for n in namespaces}, {n.get("__name__", "builtins") for n in namespaces}
    search = _Search(lambda n: id(n) in ids, lambda cls: cls.__module__ in names, table, everything=True)
    if not loads:
        search.loading = {top(n.get("__package__")) for n in roots}
    for namespace in namespaces:
        for name, held in list(namespace.items()):
            search.entry(namespace, name, held, 0)
    every = {id(n) for n in roots}
    for namespace in namespaces:
        for name, new in table.builtins.items():
            held = original_in(namespace, name, namespace.get(name, MISSING))
            mentioned = search.mentioned.get(id(namespace), ())
            asked = name == "float" and "type" in mentioned  # which tells by it that NumPy's types are replaced, too
            if held is MISSING and (id(namespace) in every or name in mentioned or asked):
                search.places.append(Place.at(namespace, name, MISSING, new, table.mark))
    return search.places


class _Search:
    """One walk. ``everything`` goes into containers, classes and objects, and not only into what can be called."""

    def __init__(
        self, reaches: Callable[[dict], bool], owns: Callable[[type], bool], table: Table, everything: bool
    ) -> None:
        self.reaches, self.owns, self.table, self.everything = reaches, owns, table, everything
        self.places: list[Place] = []
        self.globals: dict[int, dict] = {}
        #: id of globals -> the names that code running in them mentions
        self.mentioned: dict[int, set[str]] = {}
        self.seen: dict[int, Any] = {}
        #: the packages whose functions have what they import from it loaded; all if None
        self.loading: set[str] | None = None

    def look(self, make: type[Place], owner: Any, key: Any, held: Any, far: int) -> None:
        """Note a place if what it holds is replaced, and go into it otherwise."""
        held = original_in(owner, key, held)
        if held is MISSING or type(held) in weakref.ProxyTypes:  # whose object may be gone
            return
        if isinstance(held, _ATOMS) and id(held) not in self.table.entries and type(held) not in self.table.derived:
            return
        new = self.table.in_place_of(held)
        if new is not None:
            self.places.append(make.at(owner, key, held, new, self.table.mark))
        self.visit(held, far + 1)

    def visit(self, x: Any, far: int) -> None:
        """Go into what can hold places."""
        if type(x) in weakref.ProxyTypes or isinstance(x, _ATOMS) or far > DEEP or id(x) in self.seen:
            return
        self.seen[id(x)] = x
        if isinstance(x, types.FunctionType):
            self.function(x, far)
        elif isinstance(x, type):
            self.class_(x, far)
        elif type(x) is dict and "__name__" in x and "__spec__" in x:
            return  # the globals of a module: searched if they are reached, and else nobody's to change
        elif self.everything or type(x) not in (dict, list, tuple):
            owned = self.owns(type(x))
            for kind, owner, key, held in parts(x):
                if kind == "attribute":
                    if owned:
                        self.entry(owner, key, held, far)
                elif kind == "entry" and type(x) is not tuple:  # which is replaced as a whole
                    self.entry(owner, key, held, far)
                elif owned or key != "__wrapped__" or isinstance(held, _CODE):
                    self.visit(held, far + 1)

    def entry(self, container: Any, key: Any, held: Any, far: int) -> None:
        """Look at an entry of globals, of an object's attributes, or of a dict or list."""
        if not (isinstance(key, str) and key.startswith("__")):
            self.look(Place, container, key, held, far)

    def function(self, f: types.FunctionType, far: int) -> None:
        namespace = f.__globals__
        reached = self.reaches(namespace)
        if reached:
            self.globals[id(namespace)] = namespace
            code = original_in(f, "__code__", f.__code__)
            _mention(code, self.mentioned.setdefault(id(namespace), set()))
            package = namespace.get("__package__")
            new = rewritten(code) if self.table.mark == LIFTED else code
            other = redirect_imports(new, package if self._loads(package) else None, self.table) or new
            if other is not code:
                self.places.append(Attribute.at(f, "__code__", code, other, self.table.mark))
            if f.__defaults__:
                self.look(Attribute, f, "__defaults__", f.__defaults__, far)
        for kind, owner, key, held in parts(f):
            if kind == "function":
                self.visit(held, far + 1)
            elif not reached:
                # A decorator of the standard library, a transformed function: whose code it calls counts.
                if kind == "closure variable" and isinstance(held, _CODE):
                    self.visit(held, far + 1)
            elif kind == "closure variable":
                self.look(Attribute, owner, "cell_contents", held, far)
            elif owner is f.__kwdefaults__:
                self.entry(owner, key, held, far)

    def _loads(self, package: str | None) -> bool:
        return self.loading is None or top(package) in self.loading

    def class_(self, cls: type, far: int) -> None:
        open_ = cls.__flags__ & _HEAP and not cls.__flags__ & _IMMUTABLE and type(cls).__setattr__ is type.__setattr__
        if not (open_ and self.everything and self.owns(cls)):
            return
        for name, held in list(vars(cls).items()):
            if not name.startswith("__") or isinstance(held, (*_CODE, staticmethod, classmethod)):
                held = original_in(cls, name, held)
                new = self.table.in_place_of(held)
                if new is not None:
                    # A function of C in a class is no method; one of Python would be.
                    bound = isinstance(new, types.FunctionType) and not isinstance(held, types.FunctionType)
                    self.places.append(
                        Attribute.at(cls, name, held, staticmethod(new) if bound else new, self.table.mark)
                    )
                self.visit(held, far + 1)

    def methods(self, cls: type, far: int) -> None:
        """Go into the functions of a class and of those it is derived of."""
        for base in cls.__mro__:
            for held in list(vars(base).values()):
                if isinstance(held, (types.FunctionType, staticmethod, classmethod, property)):
                    self.visit(held, far + 1)


def _mention(code: types.CodeType, names: set[str]) -> None:
    names.update(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _mention(constant, names)
