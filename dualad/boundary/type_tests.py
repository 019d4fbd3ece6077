"""Code that asks for types where a tensor itself can't answer: ``type(x)``, ``hasattr(x, "__iter__")``, ``Iterable``.

``isinstance(x, np.ndarray)`` reads ``x.__class__``, which answers (``core/tracer.py``); ``type(x)`` reads the object's
head, and abstract classes look at its methods. Such code fails at nothing, so nothing would have it lifted. It is found
by what the transformed function, and the functions, classes and objects that it names, mention; only the names that ask
are then replaced while it runs, so that arrays and everything else stay NumPy's own.

For: ``asking``, the globals of such code. Not for: what the replaced names answer (``lift/python_names.py``), nor code
that is refused something (``lift/by_itself.py``).
"""

from __future__ import annotations

import collections.abc
import functools
import types
from collections import OrderedDict
from typing import Any, NamedTuple

from ..base.frames import PACKAGE, is_standard
from ..base.likeness import is_told
from ..base.reach import ATOMS, MANY
from ..core.tracer import Tracer

__all__ = ["asking", "users_of"]

#: the abstract classes that a scalar of NumPy's is no instance of, by their ids
_ABSTRACT = frozenset(
    [id(getattr(collections.abc, name)) for name in ("Collection", "Container", "Iterable", "Reversible", "Sized")]
)
#: the methods that it has not
_METHODS = frozenset({"__contains__", "__getitem__", "__iter__", "__len__"})

_ATOMS = ATOMS - {type}
#: how many things are looked at, how deep in what holds others, and how many answers are kept
_MOST, _DEEP, _KEPT = 500, 4, 256

_MISSING: Any = object()
_HEAP = 1 << 9  # of type.__flags__: made by a class statement


class _Look(NamedTuple):
    """Findings about a function: globals that ask for types, their guards, and the objects that its key names by id."""

    namespaces: tuple[dict, ...]
    sizes: list[tuple[dict, int]]
    named: list[tuple[dict, str, Any]]
    codes: list[types.CodeType]


#: key of the code that a function reaches -> findings about it; a few are kept
_looks: OrderedDict[Any, _Look] = OrderedDict()


def asking(f: Any, quiet: bool = True) -> tuple[dict, ...]:
    """Return the globals of the code reached from a function that asks for types.

    While names are replaced somewhere, which is not ``quiet``, an earlier answer holds.
    """
    if type(f) is types.FunctionType and f.__closure__ is None:
        key: Any = id(f.__code__)
    else:
        users = [f] if type(f) is types.FunctionType and not f.__code__.co_filename.startswith(PACKAGE) else users_of(f)
        f = users[0] if len(users) == 1 else f
        key = tuple([_shape(x, 0) for x in users])
    if (look := _looks.get(key)) is not None:
        namespaces, sizes, named, _ = look
        for names, size in sizes if quiet else ():
            if len(names) != size:
                break
        else:
            for names, name, x in named if quiet else ():
                if names.get(name, _MISSING) is not x:
                    break
            else:
                return namespaces
    look = _looks[key] = _Walk(f).look()
    if len(_looks) > _KEPT:
        _looks.popitem(last=False)
    return look.namespaces


def _shape(x: Any, far: int) -> Any:
    """Return a key of the code that a function may reach: its own, and that of the functions it holds."""
    kind = type(x)
    if kind is types.FunctionType:
        key, cells = [id(x.__code__)], x.__closure__
        for cell in cells or ():
            if type(y := _content(cell)) not in ATOMS:
                key.append(_shape(y, far + 1) if far < _DEEP else None)
        return tuple(key) if cells else key[0]
    if kind is types.MethodType:
        return _shape(x.__func__, far + 1), _shape(x.__self__, far + 1)
    if isinstance(x, type):
        return x
    if (inside := held(x)) is not None or isinstance(x, functools.partial):
        inside = (x.func, *x.args) if inside is None else inside
        return (kind, *[_shape(y, far + 1) for y in inside if type(y) not in ATOMS]) if far < _DEEP else kind
    values = getattr(x, "__dict__", None)
    if type(values) is not dict or len(values) > MANY:
        return kind
    return (kind, *[id(v.__code__) if type(v) is types.FunctionType else type(v) for v in values.values()])


class _Walk:
    """The functions that one reaches by what it, and they, name and hold."""

    def __init__(self, f: Any) -> None:
        self.named: list[tuple[dict, str, Any]] = []
        self.codes: list[types.CodeType] = []
        self.globals: dict[int, dict] = {}
        self.asking: dict[int, dict] = {}
        seen: dict[int, Any] = {}
        pending = [f]
        for x in pending:
            if type(x) not in _ATOMS and id(x) not in seen and len(seen) < _MOST:
                seen[id(x)] = x
                pending += self.reached(x)

    def look(self) -> _Look:
        """Return the findings."""
        sizes = [(names, len(names)) for names in self.globals.values()]
        return _Look(tuple(self.asking.values()), sizes, self.named, self.codes)

    def reached(self, x: Any) -> list:
        """Return the objects that code reaches from one."""
        if (inside := held(x)) is not None:
            return [] if getattr(x, "is_plain", False) else inside
        if isinstance(x, (types.MethodType, staticmethod, classmethod)):
            return [x.__func__, getattr(x, "__self__", None)]
        if isinstance(x, functools.partial):
            return [x.func, *x.args, *x.keywords.values()]
        if isinstance(x, property):
            return [x.fget, x.fset]
        if isinstance(x, types.FunctionType):
            return self.function(x)
        if isinstance(x, type):
            made = () if issubclass(x, Tracer) else [cls for cls in x.__mro__ if cls.__flags__ & _HEAP]
            return [y for cls in made for y in vars(cls).values()]
        values = getattr(x, "__dict__", None)
        inside = [*values.values()] if type(values) is dict and len(values) <= MANY else []
        return [type(x), *inside] if type(x).__flags__ & _HEAP else []

    def function(self, f: types.FunctionType) -> list:
        """Return the objects that a function names or holds, and note whether it asks for types."""
        names = f.__globals__
        found = [*_contents(f), *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values(), *f.__dict__.values()]
        if not _is_looked_at(f.__code__.co_filename, names):
            return found
        self.codes.append(f.__code__)
        self.globals[id(names)] = names
        mentioned: set[str] = set()
        constants: set[Any] = set()
        _mention(f.__code__, mentioned, constants)
        abstract = False
        for name in mentioned:
            x = names.get(name)
            if isinstance(x, types.ModuleType):
                inside = [vars(x)[n] for n in mentioned if n in vars(x)]
                abstract = abstract or any([id(y) in _ABSTRACT for y in inside])
                if _is_looked_at(getattr(x, "__file__", None), vars(x)):
                    self.named += [(vars(x), n, vars(x)[n]) for n in mentioned if n in vars(x)]
                    found += inside
            elif type(x) not in _ATOMS:
                abstract = abstract or id(x) in _ABSTRACT
                self.named.append((names, name, x))
                found.append(x)
        if (
            "type" in mentioned
            or ("hasattr" in mentioned and not _METHODS.isdisjoint(constants))
            or ("isinstance" in mentioned and abstract)
        ):
            self.asking[id(names)] = names
        return found


def _is_looked_at(file: str | None, names: dict) -> bool:
    """Whether code is the user's, or that of a package of functions: no engine's, and not Python's own."""
    return is_told(file or "", names) and not is_standard(file or "")


def _contents(f: types.FunctionType) -> list:
    return [_content(cell) for cell in f.__closure__ or ()]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _mention(code: types.CodeType, names: set[str], constants: set[Any]) -> None:
    names.update(code.co_names)
    constants.update(code.co_consts)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _mention(constant, names, constants)


# ── what transforms have put around a function ───────────────────────────────────────────────────────────────────


def users_of(f: Any) -> list:
    """Return the user's callables in what transforms have put around them; none in what ``plain`` has made."""
    pending, seen, users = [f], {id(f)}, []
    for x in pending:
        inside = held(x)
        if inside is None:
            if callable(x):
                users.append(x)
        elif getattr(x, "is_plain", False):
            return []
        elif len(seen) < MANY:
            new = [y for y in inside if type(y) not in ATOMS and id(y) not in seen]
            seen.update(map(id, new))
            pending += new
    return users


def held(f: Any) -> list | None:
    """Return the contents of an object of this package; None for another one."""
    if isinstance(f, types.FunctionType):
        return _contents(f) if f.__code__.co_filename.startswith(PACKAGE) else None
    if isinstance(f, functools.partial):
        return None if held(f.func) is None else [f.func, *f.args, *f.keywords.values()]
    if isinstance(f, types.MethodType):
        return None if held(f.__func__) is None else [f.__self__]
    slots = _slots(type(f))
    if slots is None:
        return None
    if hasattr(f, "__wrapped__"):
        return [f.__wrapped__]
    return [*[getattr(f, name, None) for name in slots], *getattr(f, "__dict__", {}).values()]


@functools.lru_cache(maxsize=1000)
def _slots(kind: type) -> list[str] | None:
    """Return the slots of a class of this package; None for another one, and for tensors."""
    if str(kind.__module__).partition(".")[0] != "dualad" or issubclass(kind, Tracer):
        return None
    return [name for cls in kind.__mro__ for name in vars(cls).get("__slots__", ())]
