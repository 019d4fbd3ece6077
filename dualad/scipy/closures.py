"""Functions that can't be written down: the tensors that are found in their closures, and the same with other values.

A function that branches on values runs on plain numbers as it stands, once the traced values that it reads are plain as
well. They are looked for where Python keeps them: cells of closures, defaults, arguments of ``functools.partial``,
attributes of the object of a bound method, what a transform was made of, and the same of functions found there. Not
for: functions that can be written down, of which the program says what they read.
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable
from typing import Any

from ..core.tracer import Tracer
from ..core.transformed import Transformed

__all__ = ["reads", "with_values"]

_DEEPEST = 8


def reads(f: Callable) -> list[Tracer]:
    """Return the tensors that are found in a function, each once."""
    found: dict[int, Tracer] = {}

    def note(tensor: Tracer) -> Tracer:
        found[id(tensor)] = tensor
        return tensor

    with_values(f, note)
    return list(found.values())


def with_values(thing: Any, value: Callable[[Tracer], Any], depth: int = 0) -> Any:
    """Return a function (or what it holds) with a value in the place of every tensor; itself if there are none."""
    if isinstance(thing, Tracer):
        return value(thing)
    if depth > _DEEPEST:
        return thing
    inside = lambda x: with_values(x, value, depth + 1)
    if type(thing) in (list, tuple):
        new = [inside(x) for x in thing]
        return thing if _same(new, thing) else type(thing)(new)
    if type(thing) is dict:
        new = [inside(x) for x in thing.values()]
        return thing if _same(new, thing.values()) else dict(zip(thing, new, strict=True))
    if isinstance(thing, functools.partial):
        f, args, keywords = inside(thing.func), inside(thing.args), inside(thing.keywords)
        same = f is thing.func and args is thing.args and keywords is thing.keywords
        return thing if same else functools.partial(f, *args, **keywords)
    if isinstance(thing, types.MethodType):
        f, attributes = inside(thing.__func__), inside(getattr(thing.__self__, "__dict__", None))
        if attributes is not getattr(thing.__self__, "__dict__", None):
            owner = copy.copy(thing.__self__)
            owner.__dict__.update(attributes)
            return types.MethodType(f, owner)
        return thing if f is thing.__func__ else types.MethodType(f, thing.__self__)
    if type(thing) is Transformed and thing._made is not None:
        make, args, keywords = thing._made
        new = inside(args), inside(keywords)
        return thing if new[0] is args and new[1] is keywords else make(*new[0], **new[1])
    return _function(thing, inside) if isinstance(thing, types.FunctionType) else thing


def _function(f: types.FunctionType, inside: Callable) -> types.FunctionType:
    """Return a function with other cells for those that hold tensors; the others stay shared."""
    cells = [_cell(cell, inside) for cell in f.__closure__ or ()]
    defaults, named = inside(f.__defaults__), inside(f.__kwdefaults__)
    if _same(cells, f.__closure__ or ()) and defaults is f.__defaults__ and named is f.__kwdefaults__:
        return f
    new = types.FunctionType(f.__code__, f.__globals__, f.__name__, defaults, tuple(cells) or None)
    new.__kwdefaults__ = named
    return new


def _cell(cell: types.CellType, inside: Callable) -> types.CellType:
    try:
        held = cell.cell_contents
    except ValueError:  # not yet filled
        return cell
    new = inside(held)
    return cell if new is held else types.CellType(new)


def _same(new: Any, old: Any) -> bool:
    return all([a is b for a, b in zip(new, old, strict=True)])
