"""Finding what keeps a function from being sent: the closure variable, global or attribute that can't be pickled.

For: the words of one error. Not for: pickling (``payload.py``).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ..base.reach import DEEP, parts

__all__ = ["culprit"]

_WORDS = {
    "attribute": "attribute `{key}` of {owner}",
    "argument": "argument `{key}` of {owner}",
    "closure variable": "closure variable `{key}` of {owner}",
    "default value": "a default value of {owner}",
    "entry": "entry {key!r}",
    "function": "the function of {owner}",
    "global": "global `{key}`, which {owner} reads",
    "object": "the object of {owner}",
}


def culprit(thing: Any, dumps: Callable[[Any], Any]) -> str:
    """Return words for the innermost part of ``thing`` that ``dumps`` refuses: how it is reached, and what it is."""
    path, first, part, seen = "", "", thing, {id(thing)}
    for _ in range(DEEP):
        for kind, _, key, inner in parts(part):
            if id(inner) not in seen and not isinstance(inner, types.ModuleType) and not _goes(inner, dumps):
                seen.add(id(inner))
                path, part = _WORDS[kind].format(key=key, owner=_named(part)), inner
                first = first or path
                break
        else:
            break
    if not path:
        return ""
    name = getattr(part, "__name__", None)
    what = f"the {type(part).__name__} `{name}`" if name else f"a {type(part).__name__}"
    return f"{path}, {what}," if path == first else f"{path}, {what} (reached by {first}),"


def _goes(thing: Any, dumps: Callable[[Any], Any]) -> bool:
    try:
        dumps(thing)
    except Exception:
        return False
    return True


def _named(thing: Any) -> str:
    name = getattr(thing, "__name__", None)
    return f"`{name}`" if name else f"a {type(thing).__name__}"
