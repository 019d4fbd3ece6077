"""Which arguments a transform differentiates: ``argnums`` and ``argnames``.

For: splitting a call into the chosen arguments and a function of them alone. Not for: what transforms do with them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError

__all__ = ["Selection", "select"]


class Selection(NamedTuple):
    """The chosen arguments of one call.

    ``function(*chosen)`` calls the original with the others filled in; ``arrange(values)`` gives one value per
    chosen argument the shape the caller expects (one value, a tuple, a dict by name, or both).
    """

    function: Callable
    chosen: tuple
    names: list[str]
    arrange: Callable[[Any], Any]


_ONE_NAME, _FIRST = ["argument 0"], operator.itemgetter(0)

_TWICE = "an argument has one derivative, which would come out twice"


def select(f: Callable, args: tuple, kwargs: dict, argnums, argnames, where: str) -> Selection:
    """Split ``f(*args, **kwargs)`` by ``argnums`` (default 0 when no names are given) and ``argnames``."""
    if (
        (argnums is None or (type(argnums) is int and argnums == 0))
        and argnames is None
        and len(args) == 1
        and not kwargs
    ):  # nearly always
        return Selection(f, args, _ONE_NAME, _FIRST)
    if argnums is None:
        argnums = 0 if argnames is None else ()
        if argnames is None and not args:
            raise ArgumentError(
                f"{where}: the function was called without positional arguments.",
                "argnums=0 differentiates in the first positional argument, and there is none",
                f"call it as {where}(f)(x), or choose keyword arguments by name: {where}(f, argnames='x')(x=...)",
            )
    elif isinstance(argnums, (tuple, list)) and not argnums and argnames is None:
        raise ArgumentError(
            f"{where}: argnums={argnums!r} chooses no argument.",
            "a derivative is taken with respect to something",
            "give a position such as argnums=0, or a tuple of them",
        )
    one_number = not isinstance(argnums, (tuple, list))
    numbers = [_position(n, len(args), where) for n in ((argnums,) if one_number else argnums)]
    if len(set(numbers)) != len(numbers):
        raise ArgumentError(f"{where}: argnums={argnums!r} names an argument twice.", _TWICE, "name each argument once")
    one_name = isinstance(argnames, str)
    names = [argnames] if one_name else _names(argnames, where)
    if not names and not numbers:
        raise ArgumentError(
            f"{where}: argnames={argnames!r} chooses no argument.",
            "a derivative is taken with respect to something",
            "give a name such as argnames='x', or a tuple of them",
        )
    for name in names:
        if name not in kwargs:
            raise ArgumentError(
                f"{where}: argnames has {name!r}, but the call has the keyword arguments {sorted(kwargs)}.",
                "argnames chooses among the arguments passed by keyword",
                f"pass it as {name}=..., or use argnums for arguments passed by position",
            )

    def by_kind(values):
        by_number = values[0] if one_number else tuple(values[: len(numbers)])
        rest = values[len(numbers) :]
        by_name = rest[0] if one_name else dict(zip(names, rest, strict=True))
        return by_number if not names else by_name if not numbers else (by_number, by_name)

    arrange = _FIRST if one_number and not names else by_kind
    if not names and not kwargs and numbers == list(range(len(args))):
        return Selection(f, tuple(args), [f"argument {i}" for i in numbers], arrange)

    def fill(args, kwargs):
        def function(*chosen):
            filled = list(args)
            for n, value in zip(numbers, chosen, strict=False):
                filled[n] = value
            return f(*filled, **{**kwargs, **dict(zip(names, chosen[len(numbers) :], strict=True))})

        return function

    others = [None if n in numbers else a for n, a in enumerate(args)]
    others_by_name = {name: a for name, a in kwargs.items() if name not in names}
    function = fill(others, others_by_name)
    function.filled = (fill, (others, others_by_name))  # for a call with other ones
    chosen = (*[args[n] for n in numbers], *[kwargs[name] for name in names])
    called = [f"argument {n}" for n in numbers] + [f"argument {n!r}" for n in names]
    function.selected = (f, called)  # for messages about the arguments
    return Selection(function, chosen, called, arrange)


def _names(argnames, where: str) -> list[str]:
    names = [] if argnames is None else argnames
    if not isinstance(names, (tuple, list)) or not all([isinstance(name, str) for name in names]):
        raise ArgumentTypeError(
            f"{where}: argnames={argnames!r} of type {type(argnames).__name__}.",
            "a name is a string",
            "write argnames='x', or a tuple such as ('x', 'y')",
        )
    if len(set(names)) != len(names):
        raise ArgumentError(
            f"{where}: argnames={argnames!r} names an argument twice.", _TWICE, "name each argument once"
        )
    return list(names)


def _position(n, count: int, where: str) -> int:
    if isinstance(n, (bool, np.ndarray)) or not hasattr(n, "__index__"):
        raise ArgumentTypeError(
            f"{where}: argnums holds {n!r} of type {type(n).__name__}.", "a position is an integer", "write argnums=0"
        )
    if not -count <= n < count:
        raise ArgumentTypeError(
            f"{where}: argnums={n} is out of range for a call with {count} positional argument{'s' * (count != 1)}.",
            f"positions go from {-count} to {count - 1}",
            "use argnames for arguments passed by keyword",
        )
    return n.__index__() % count
