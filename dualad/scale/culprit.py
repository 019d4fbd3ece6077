"""Finding what keeps a function from being sent: the closure variable, global or attribute that can't be pickled.

For: the words of one error. Not for: pickling (``payload.py``).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["culprit"]

_DEEP = 6


def culprit(thing: Any, dumps: Callable[[Any], Any]) -> str:
    """Return words for the innermost part of ``thing`` that ``dumps`` refuses: how it is reached, and what it is."""
    path, first, part, seen = "", "", thing, {id(thing)}
    for _ in range(_DEEP):
        for name, inner in _parts(part):
            if id(inner) not in seen and not _goes(inner, dumps):
                seen.add(id(inner))
                path, part, first = name, inner, first or name
                break
        else:
            break
    if not path:
        return ""
    return f"{path}, {_describe(part)}," if path == first else f"{path}, {_describe(part)} (reached by {first}),"


def _goes(thing: Any, dumps: Callable[[Any], Any]) -> bool:
    try:
        dumps(thing)
    except Exception:
        return False
    return True


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a thing is made of, with words for each part."""
    if isinstance(thing, functools.partial):
        yield f"the function of {_named(thing)}", thing.func
        yield from [(f"argument {i} of {_named(thing)}", a) for i, a in enumerate(thing.args)]
        yield from [(f"argument `{k}` of {_named(thing)}", a) for k, a in thing.keywords.items()]
    elif isinstance(thing, types.MethodType):
        yield f"the object of {_named(thing)}", thing.__self__
    elif isinstance(thing, types.FunctionType):
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True):
            try:
                yield f"closure variable `{name}` of {_named(thing)}", cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        yield from [(f"a default value of {_named(thing)}", d) for d in thing.__defaults__ or ()]
        names = thing.__globals__
        read = [n for n in thing.__code__.co_names if n in names and not isinstance(names[n], types.ModuleType)]
        yield from [(f"global `{n}`, which {_named(thing)} reads", names[n]) for n in read]
    elif isinstance(thing, dict):
        yield from [(f"entry {k!r}", v) for k, v in thing.items()]
    elif isinstance(thing, (list, tuple)):
        yield from [(f"entry {i}", v) for i, v in enumerate(thing)]
    elif hasattr(thing, "__wrapped__"):
        yield f"the function of {_named(thing)}", thing.__wrapped__
    else:
        yield from [(f"attribute `{k}` of {_named(thing)}", v) for k, v in getattr(thing, "__dict__", {}).items()]


def _named(thing: Any) -> str:
    name = getattr(thing, "__name__", None)
    return f"`{name}`" if name else f"a {type(thing).__name__}"


def _describe(thing: Any) -> str:
    name = getattr(thing, "__name__", None)
    return f"the {type(thing).__name__} `{name}`" if name else f"a {type(thing).__name__}"
