"""Levels: one object per running transform, ordered by the moment it was opened.

For: telling whose tensor is whose. A tensor carries its level; the highest number among the arguments of an
operator is the innermost transform, and it goes first. Not for: a stack. There is none, so transforms are
re-entrant, may run in any thread, and leave nothing behind when an exception passes through them.
"""

from __future__ import annotations

import itertools

from ..errors import EscapedTensorError

__all__ = ["Level", "escaped"]

# next() on itertools.count is atomic; only the order of the numbers means anything.
_numbers = itertools.count(1)


class Level:
    """One run of one transform, usable as a context manager that closes it.

    Parameters
    ----------
    transform : str
        Name of the transform, for messages.
    """

    __slots__ = ("__weakref__", "number", "open", "transform")

    def __init__(self, transform: str) -> None:
        self.number = next(_numbers)
        self.transform = transform
        self.open = True

    def __enter__(self):
        return self

    def __exit__(self, *exc_info) -> None:
        self.open = False

    def __repr__(self) -> str:
        return f"<{self.transform} level {self.number}, {'open' if self.open else 'closed'}>"


def escaped(level: Level, action: str) -> EscapedTensorError:
    """Make the error for a tensor of a closed level."""
    return EscapedTensorError(
        f"{action} met a tensor of a `{level.transform}` call that has already returned.",
        "its tangent, batch axis or program belonged to that call and means nothing after it; the tensor was probably"
        " stored in a list, an attribute or a closure (or a generator of the function was resumed late)",
        f"return the value from the function given to `{level.transform}` (use has_aux=True for extra results), or"
        " store dualad.stop_gradient(value) when only the number is wanted",
    )
