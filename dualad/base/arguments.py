"""Checks and arrangements of arguments and results that many functions share. Not for: what only one function asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError

__all__ = ["check_callable", "own_results", "replace_at"]


def check_callable(f: Any, where: str, what: str = "the function") -> None:
    """Refuse anything but a function before it is called."""
    if not callable(f):
        raise ArgumentTypeError(
            f"{where}: {what} is {f!r} of type {type(f).__name__}.",
            "it is called, so it has to be a function or another object that can be called",
            "pass the function itself: its name without quotes, and without calling it",
        )


def replace_at(values: Sequence, positions: Iterable[int], new: Iterable) -> list:
    """Return values with others in these positions."""
    full = list(values)
    for i, x in zip(positions, new, strict=True):
        full[i] = x
    return full


def own_results(results: list, given: Sequence = ()) -> list:
    """Return results that the caller can write to, and that share no memory with the arrays that were given.

    An array that a rule has repeated without memory (``np.broadcast_to``) is read-only; one only moved is the argument.
    """
    return [x.copy() if type(x) is np.ndarray and _is_shared(x, given) else x for x in results]


def _is_shared(x: np.ndarray, given: Sequence) -> bool:
    base = x.base
    for g in given:
        if x is g or (base is not None and (base is g or (type(g) is np.ndarray and base is g.base))):
            return True
    return not x.flags.writeable
