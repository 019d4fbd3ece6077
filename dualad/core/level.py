"""Levels: one object per running transform, ordered by the moment it was opened.

For: telling whose tensor is whose. A tensor carries its level; the highest number among the arguments of an
operator is the innermost transform, and it goes first. Not for: a stack. There is none, so transforms are
re-entrant, may run in any thread, and leave nothing behind when an exception passes through them.
"""

from __future__ import annotations

import itertools
from typing import Any

from ..base.frames import user_line
from ..errors import EscapedTensorError
from .contexts import everywhere, process_wide

__all__ = ["Level", "escaped"]

# next() on itertools.count is atomic; only the order of the numbers means anything.
_numbers = itertools.count(1)


class Level:
    """One run of the ``transform`` of this name, usable as a context manager that closes it."""

    __slots__ = ("__weakref__", "function", "number", "objects", "open", "transform")

    #: whether its tensors stand for vectors in a linear program
    linear = False

    def __init__(self, transform: str) -> None:
        self.number = next(_numbers)
        self.transform = transform
        self.open = True
        #: whether NumPy has object arrays of its tensors, whose loops call their Python operators
        self.objects = False
        #: what the transform was given, for messages
        self.function: Any = None

    def taken_apart(self, size: int) -> None:
        """Note that an array of this size is taken apart into its entries, each of which is computed with alone."""

    def __enter__(self):
        if everywhere and (watch := process_wide()) is not None:
            watch.opened(self)
        return self

    def __exit__(self, *exc_info) -> None:
        self.open = False
        if everywhere and (watch := process_wide()) is not None:
            watch.closed(self, bool(exc_info) and exc_info[0] is not None)

    def __repr__(self) -> str:
        return f"<{self.transform} level {self.number}, {'open' if self.open else 'closed'}>"


def escaped(level: Level, action: str, tensor: Any = None) -> EscapedTensorError:
    """Make the error for a ``tensor`` of a closed level that met an ``action``: an operator, a conversion."""
    what = "a tensor" if tensor is None else f"a {type(tensor).__name__} tensor of {_describe(tensor)}"
    return EscapedTensorError(
        f"{action} met {what} of a `{level.transform}` call that has already returned."
        f"\n  Created: {_creation_site(level, getattr(tensor, '_origin', None))}\n  Used: {user_line()}",
        "its tangent, batch axis or program belonged to that call and means nothing after it; the tensor was probably"
        " stored in a list, an attribute or a closure (or a generator of the function was resumed late)",
        f"return the value from the function given to `{level.transform}` (use has_aux=True for extra results), or"
        " store dualad.stop_gradient(value) when only the number is wanted",
    )


def _describe(tensor: Any) -> str:
    try:
        return f"shape {tensor.shape} and dtype {tensor.dtype}"
    except Exception:  # a tensor without content: the message is about something else
        return "unknown shape"


def _creation_site(level: Level, origin: Any) -> str:
    """Say where a tensor was made: by which line, or as which argument, of the function the transform was given."""
    f, names = level.function, None
    while hasattr(f, "selected"):
        f, names = f.selected
    code = getattr(_unwrap(f), "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    function = f"`{getattr(f, '__name__', type(f).__name__)}`{where}" if f is not None else "the function"
    if isinstance(origin, str):
        return f"at {origin}, in {function}, under `{level.transform}`"
    if origin is None:
        return (
            f"by an operation in {function}, under `{level.transform}`; inside `with dualad.debug():` this message"
            " names the line"
        )
    return f"{_argument(code, names, *origin)} of {function}, given to it by `{level.transform}`"


def _unwrap(f: Any) -> Any:
    """Return the function inside decorators and bound methods."""
    while hasattr(f, "__wrapped__"):
        f = f.__wrapped__
    return getattr(f, "__func__", f)


def _argument(code: Any, names: list[str] | None, tree: Any, i: int, keywords: bool) -> str:
    """Name the ``i``-th leaf of the arguments as the function calls it: "argument `x[0]`"."""
    path = list(tree.accessors()[i])
    if keywords and path:
        by_name = path.pop(0).entry == 1
    else:
        by_name = False
    if not path:
        return "an argument"
    first = path.pop(0).entry
    if names is not None:
        word = names[first].removeprefix("argument ")
        first, by_name = (int(word), False) if word.isdigit() else (word.strip("'"), True)
    if not by_name and code is not None and first < code.co_argcount:
        first, by_name = code.co_varnames[first], True
    rest = "".join([entry.codify("") for entry in path])
    return f"argument `{first}{rest}`" if by_name else f"argument {first}" + (f" at {rest}" if rest else "")
