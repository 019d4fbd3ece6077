"""Lazy arrays of other libraries, in operators that their library does not compute lazily itself.

For: asking whether an array is lazy, and handing an operator to its library (``LIBRARIES`` in ``tables.py``). Not for:
which arrays can carry a derivative (``base/containers.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import UnsupportedError
from .constants import foreign
from .tables import LIBRARIES, Library
from .tracer import PLAIN

__all__ = ["is_lazy", "refuse_lazy", "run_lazily"]


def _library_of(x: Any) -> Library | None:
    """The library of an array that may be lazy; None for all others."""
    if type(x) not in PLAIN:
        for kind in type(x).__mro__:
            library = LIBRARIES.get(kind.__module__.partition(".")[0])
            if library is not None and library.run is not None:
                return library
    return None


def is_lazy(x: Any) -> bool:
    """Whether an array is a graph that nobody has computed yet."""
    return _library_of(x) is not None


def run_lazily(op: Any, args: Sequence, params: dict, how: str, what: str = "") -> Any:
    """Write an operator into the graph of the lazy arrays among plain ones; NotImplemented if none is lazy."""
    for a in args:
        if type(a) not in PLAIN and (library := _library_of(a)) is not None:
            return library.run(op, args, params, how, what)
    return NotImplemented


def refuse_lazy(x: Any, what: str, instead: str = "") -> None:
    """Refuse a lazy array, beneath tensors too, where the next step is decided by its values."""
    library = _library_of(foreign(x))
    if library is not None:
        raise UnsupportedError(
            f"{what} depends on the values of a lazy array of shape {x.shape}.",
            "they are not there yet, and the graph is computed only when you ask for it",
            f"{instead}compute it first: {library.words}",
        )
