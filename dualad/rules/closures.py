"""Closures: the tensors in them, and the same functions with other values.

A function that can't be written down (it branches on values, or is to run again later) runs as it stands, once the
traced values that it reads are replaced. They are looked for where Python keeps them: cells of closures, defaults,
arguments of ``functools.partial``, attributes of the object of a bound method, what a transform was made of, trees of
all of these, and the same of functions found there. That is less than what a function reads (``base/reach.py``): what
is found has to be replaced, in a copy. Not for: functions that can be written down, whose program says what they read.
"""

from __future__ import annotations

import copy
import dis
import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import optree

from ..base.tree import flatten
from ..boundary.transformed import Transformed
from ..core.tracer import Tracer

__all__ = ["detached", "reads", "with_values"]


def reads(f: Any, attributes: bool = True) -> list[Tracer]:
    """Return the tensors that are found in a function, or in a tree of them, each once."""
    found: dict[int, Tracer] = {}

    def note(tensor: Tracer) -> Tracer:
        found[id(tensor)] = tensor
        return tensor

    with_values(f, note, attributes=attributes)
    return list(found.values())


def detached(functions: Sequence) -> tuple[list[Tracer], Callable[[Sequence], Sequence]]:
    """Return the tensors that are found in functions, and a function of as many values: the functions with those."""
    held = reads(functions)
    places = {id(tensor): i for i, tensor in enumerate(held)}
    return held, lambda values: with_values(functions, lambda tensor: values[places[id(tensor)]])


def with_values(
    thing: Any, value: Callable[[Tracer], Any] = lambda tensor: tensor, *, attributes: bool = True, fixed: bool = False,
    within: frozenset[int] = frozenset(),
) -> Any:  # fmt: skip
    """Return a function (or what it holds) with a value in the place of every tensor; itself if there are none.

    ``attributes``: look into the objects of bound methods, of which copies are made. ``fixed``: what else the function
    closes over stays what it is now, whatever the names will stand for later (the variable of a loop around it, for
    one), but for names that the function itself assigns to. ``within`` are the identities of what this is found in.
    """
    if isinstance(thing, Tracer):
        return value(thing)
    owner = getattr(thing, "__self__", None) if isinstance(thing, types.MethodType) else thing
    if id(owner) in within:
        return thing
    inside = functools.partial(
        with_values, value=value, attributes=attributes, fixed=fixed, within=within | {id(owner)}
    )
    if isinstance(thing, types.FunctionType):
        return _function(thing, inside, fixed)
    if isinstance(thing, functools.partial):
        old = thing.func, thing.args, thing.keywords
        f, args, keywords = new = [inside(x) for x in old]
        return thing if _same(new, old) else functools.partial(f, *args, **keywords)
    if isinstance(thing, types.MethodType):
        f, held = inside(thing.__func__), getattr(owner, "__dict__", None)
        if attributes and type(held) is dict and (changed := inside(held)) is not held:
            owner = copy.copy(owner)
            owner.__dict__.update(changed)
        return thing if f is thing.__func__ and owner is thing.__self__ else types.MethodType(f, owner)
    if type(thing) is Transformed and thing._made is not None:
        make, *old = thing._made
        args, keywords = new = [inside(x) for x in old]
        return thing if _same(new, old) else make(*args, **keywords)
    leaves, tree = flatten(thing)
    if len(leaves) == 1 and leaves[0] is thing:
        return thing
    new = [inside(x) for x in leaves]
    held = fixed and any([isinstance(x, Tracer) for x in leaves])  # who holds the tree may put others into it
    return thing if _same(new, leaves) and not held else optree.tree_unflatten(tree, new)


def _function(f: types.FunctionType, inside: Callable, fixed: bool) -> types.FunctionType:
    """Return a function with other cells for those that are to hold something else; the others stay shared."""
    written = _written(f.__code__) if fixed and f.__closure__ else ()
    cells, recursive = list(f.__closure__ or ()), []
    for i, (name, cell) in enumerate(zip(f.__code__.co_freevars, cells, strict=True)):
        try:
            held = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if held is f:
            recursive.append(i)
        elif (new := inside(held)) is not held or (fixed and (name not in written or isinstance(held, Tracer))):
            cells[i] = types.CellType(new)
    defaults, named = inside(f.__defaults__), inside(f.__kwdefaults__)
    if _same(cells, f.__closure__ or ()) and defaults is f.__defaults__ and named is f.__kwdefaults__:
        return f
    itself = types.CellType()
    for i in recursive:
        cells[i] = itself
    function = types.FunctionType(f.__code__, f.__globals__, f.__name__, defaults, tuple(cells) or None)
    function.__kwdefaults__, function.__dict__ = named, f.__dict__  # what it notes in its attributes all of them see
    itself.cell_contents = function
    return function


@functools.lru_cache(maxsize=1000)
def _written(code: types.CodeType) -> frozenset[str]:
    """Return the names of outer variables that a function, or one in it, assigns to."""
    inner = [_written(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    own = [i.argval for i in dis.get_instructions(code) if i.opname == "STORE_DEREF"]
    return frozenset(own).union(*inner)


def _same(new: Any, old: Any) -> bool:
    return all([a is b for a, b in zip(new, old, strict=True)])
