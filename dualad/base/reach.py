"""The reach of functions and objects: the parts of a thing, and the walk through the parts of parts.

For: ``reachable``, which random generators, what can't be pickled and the places of ``lift`` are found with. Closures,
defaults, globals that the code names, partials, methods, decorated functions, attributes, entries of containers.

``guards/reach.py`` has a walk of its own, which can't be this one: what ``jit`` compares at each call are places, also
those where a name is looked for and not found, and attributes only if some code names them. ``rules/closures.py`` makes
a function with other values of one, which is no walk. Not for: guards (``guards/``).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from .frames import PACKAGE

__all__ = ["ATOMS", "DEEP", "MANY", "Part", "SHALLOW", "parts", "reachable"]

#: how far from where a walk begins things are looked for
DEEP = 10
#: the same where it is asked at each call
SHALLOW = 3
#: containers with more entries are data
MANY = 256

#: what hold nothing, or nothing that code reads by a name
ATOMS: frozenset[type] = frozenset({
    bool, int, float, complex, str, bytes, types.NoneType, types.ModuleType, types.BuiltinFunctionType, type,
    np.ndarray, np.ufunc, np.float64,
})  # fmt: skip

#: a thing that another one holds: the kind of its place, who has it, under which key, and the thing
Part = tuple[str, Any, Any, Any]


def parts(x: Any) -> list[Part]:
    """Return the objects that a thing holds, or reads when it is called."""
    kind = type(x)
    if kind in ATOMS:
        return []
    if kind is types.FunctionType:
        code, names, own = x.__code__, x.__globals__, x.__dict__
        found: list[Part] = []
        for name, cell in zip(code.co_freevars, x.__closure__ or (), strict=True):
            try:
                found.append(("closure variable", cell, name, cell.cell_contents))
            except ValueError:  # not assigned yet
                continue
        found += [("default value", x.__defaults__, i, value) for i, value in enumerate(x.__defaults__ or ())]
        found += [("default value", x.__kwdefaults__, *item) for item in (x.__kwdefaults__ or {}).items()]
        if not code.co_filename.startswith(PACKAGE):
            found += [("global", names, name, names[name]) for name in code.co_names if name in names]
        if "__wrapped__" in own:
            found.append(("function", own, "__wrapped__", own["__wrapped__"]))
        return found
    if kind in (dict, list, tuple):
        pairs = list(x.items() if kind is dict else enumerate(x)) if len(x) <= MANY else []
        return [("entry", x, key, value) for key, value in pairs]
    if kind is types.MethodType:
        return [("function", x, "__func__", x.__func__), ("object", x, "__self__", x.__self__)]
    if isinstance(x, functools.partial):
        given = [*enumerate(x.args), *x.keywords.items()]
        return [("function", x, "func", x.func), *[("argument", x, key, value) for key, value in given]]
    if kind in (staticmethod, classmethod):
        return [("function", x, "__func__", x.__func__)]
    if kind is property:
        return [("function", x, name, getattr(x, name)) for name in ("fget", "fset", "fdel")]
    attributes = getattr(x, "__dict__", None)
    if type(attributes) is not dict or len(attributes) > MANY:
        return []
    return [("function" if n == "__wrapped__" else "attribute", attributes, n, v) for n, v in attributes.items()]


def reachable(x: Any, deep: int = DEEP, atoms: frozenset[type] = ATOMS) -> Iterator[Part]:
    """Yield the parts of a thing and of its parts, each thing's once; none of those of the types ``atoms``."""
    pending, seen = [(x, 0)], {}
    while pending:
        holder, far = pending.pop()
        if id(holder) in seen:
            continue
        seen[id(holder)] = holder  # and keep it, or another thing may come to its place
        found = parts(holder)
        yield from found
        if far < deep:
            pending += [(part[3], far + 1) for part in found if type(part[3]) not in atoms]
