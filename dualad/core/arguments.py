"""Checks and arrangements of arguments that many functions share. Not for: anything that only one function asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import ArgumentTypeError

__all__ = ["check_callable", "replaced"]


def check_callable(f: Any, where: str, what: str = "the function") -> None:
    """Refuse what is no function before anything is computed with it."""
    if not callable(f):
        raise ArgumentTypeError(
            f"{where}: {what} is {f!r} of type {type(f).__name__}.",
            "it is called, so it has to be a function or another object that can be called",
            "pass the function itself: its name without quotes, and without calling it",
        )


def replaced(values: Sequence, positions: Iterable[int], new: Iterable) -> list:
    """Return values with others in these positions."""
    full = list(values)
    for i, x in zip(positions, new, strict=True):
        full[i] = x
    return full
