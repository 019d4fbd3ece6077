"""The signature of a call: what a compiled function was specialised to, and the quick way to see that it is the same.

A signature is the structure of the arguments, for each array its shape, dtype and whether it was a Python number, and
for everything else its value. ``entry`` writes a function that compares a call with one signature and runs its code,
without taking trees apart. Not for: tracing, or keeping the specialisations (``jit.py``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..core.aval import aval_of
from ..errors import ArgumentError, ArgumentTypeError
from ..ops.kinks import _convention
from .captures import Captures

__all__ = ["MISS", "Static", "convention", "entry", "leaf_key", "resolved_statics"]

#: what an entry returns for a call of another signature
MISS = object()


class Static:
    """A static argument: a leaf that belongs to the signature by its value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        try:
            hash(value)
        except TypeError:
            raise ArgumentTypeError(
                f"jit: a static argument is {value!r} of type {type(value).__name__}, which can't be hashed.",
                "a static argument is part of what a function is compiled for, and is looked up by its value",
                "pass a tuple in place of a list, or leave it out of static_argnums and static_argnames",
            ) from None
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


class _Identity:
    """An object that can't be hashed, in a key: itself."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)


def leaf_key(x: Any, is_input: bool) -> Any:
    """Return what a leaf contributes to a signature."""
    if is_input:
        if type(x) is np.ndarray:
            return x.shape, x.dtype.str
        kind = type(x)
        if kind in (bool, int, float, complex):
            return kind
        aval = aval_of(x)
        return aval.shape, aval.dtype.str
    if isinstance(x, (Static, str)) or x is None:
        return x
    try:
        hash(x)
    except TypeError:
        return _Identity(x)
    return type(x), x


def convention() -> str:
    """Return the convention about kinks in force: derivatives inside a compiled function follow it."""
    return _convention.get()


def resolved_statics(f: Callable, numbers: Any, names: Any) -> tuple[frozenset[int], frozenset[str]]:
    """Return the positions and the names of static arguments, each completed by the other."""
    numbers = (numbers,) if isinstance(numbers, int) else tuple(numbers or ())
    names = (names,) if isinstance(names, str) else tuple(names or ())
    if any([isinstance(n, bool) or not isinstance(n, int) for n in numbers]):
        raise ArgumentTypeError(
            f"jit: static_argnums={numbers!r}.", "it names positions of arguments", "pass an int or a tuple of ints"
        )
    if any([not isinstance(n, str) for n in names]):
        raise ArgumentTypeError(
            f"jit: static_argnames={names!r}.", "it names arguments", "pass a str or a tuple of them"
        )
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    several = any([p.kind == p.VAR_POSITIONAL for p in parameters])
    places = set()
    for n in numbers:
        if parameters and not several and not -len(positional) <= n < len(positional):
            raise ArgumentError(
                f"jit: static_argnums has {n}, and `{getattr(f, '__name__', f)}` has {len(positional)} arguments.",
                "it names positions of arguments",
                f"choose from 0 to {len(positional) - 1}" if positional else "leave static_argnums out",
            )
        places.add(n + len(positional) if n < 0 else n)
    known = {p.name for p in parameters}
    for name in names:
        if parameters and name not in known and not any([p.kind == p.VAR_KEYWORD for p in parameters]):
            raise ArgumentError(
                f"jit: static_argnames has {name!r}, and `{getattr(f, '__name__', f)}` has no such argument.",
                f"its arguments are {', '.join(sorted(known)) or 'none'}",
                "name one of them",
            )
    words = set(names)
    for i, p in enumerate(positional):
        if i in places and p.kind == p.POSITIONAL_OR_KEYWORD:
            words.add(p.name)
        elif p.name in words:
            places.add(i)
    return frozenset(places), frozenset(words)


# ── the quick entry ──────────────────────────────────────────────────────────────────────────────────────────────


class _Slow(Exception):
    """These arguments, or this result, have a structure that the quick entry does not take apart."""


def entry(
    args: tuple, run: Callable, out_tree: optree.PyTreeSpec, hidden: Sequence, captures: Captures
) -> Callable | None:
    """Write a function of these arguments' signature that calls ``run`` with their arrays, or returns ``MISS``.

    Parameters
    ----------
    args : tuple
        An example: positional arguments of plain numbers and arrays, in tuples, lists and dicts.
    run : callable
        ``run(*arrays, *hidden)`` returns a tuple with the leaves of the result.
    captures : Captures
        What must be as it was.
    """
    names: dict[str, Any] = {
        "MISS": MISS, "run": run, "ndarray": np.ndarray, "unflatten": optree.tree_unflatten, "tree": out_tree,
        "kinks": _convention.get, "convention": convention(), "unchanged": captures.unchanged,
    }  # fmt: skip
    tests: list[str] = ["kinks() is convention"]
    arrays: list[str] = []
    try:
        for i, x in enumerate(args):
            _compare(x, f"a{i}", tests, arrays, names)
        result, leaves = _rebuilt(out_tree)
    except _Slow:
        return None
    for i, x in enumerate(hidden):
        names[f"h{i}"] = x
        arrays.append(f"h{i}")
    given = "".join([f"a{i}, " for i in range(len(args))])
    lines = [f"def enter({given}*rest):", "    if rest: return MISS"]
    if args:
        # A missing argument is no error here: the function itself will say what it misses.
        lines[0] = f"def enter({''.join([f'a{i}=MISS, ' for i in range(len(args))])}*rest):"
    if captures:
        tests.append("unchanged()")
    if tests:
        lines.append(f"    if not ({' and '.join(tests)}): return MISS")
    call = f"run({', '.join(arrays)})"
    if leaves and not leaves.startswith("*"):
        lines += [f"    {leaves} = {call}", f"    return {result}"]
    else:
        lines += [f"    return unflatten(tree, {call})"]
    exec(compile("\n".join(lines), "<dualad.jit entry>", "exec"), names)
    return names["enter"]


def _compare(x: Any, text: str, tests: list[str], arrays: list[str], names: dict) -> None:
    kind = type(x)
    if kind is np.ndarray:
        dtype, shape = f"d{len(names)}", f"s{len(names)}"
        names[dtype], names[shape] = x.dtype, x.shape
        tests.append(f"type({text}) is ndarray and {text}.shape == {shape} and {text}.dtype is {dtype}")
        arrays.append(text)
    elif kind in (bool, int, float, complex):
        tests.append(f"type({text}) is {kind.__name__}")
        arrays.append(text)
    elif isinstance(x, np.generic) and x.dtype.kind in "biufc":
        name = f"t{len(names)}"
        names[name] = kind
        tests.append(f"type({text}) is {name}")
        arrays.append(text)
    elif x is None:
        tests.append(f"{text} is None")
    elif kind in (tuple, list):
        tests.append(f"type({text}) is {kind.__name__} and len({text}) == {len(x)}")
        for i, v in enumerate(x):
            _compare(v, f"{text}[{i}]", tests, arrays, names)
    elif kind is dict and all([type(k) is str for k in x]):
        tests.append(f"type({text}) is dict and len({text}) == {len(x)}")
        for k in sorted(x):  # the order of the leaves
            tests.append(f"{k!r} in {text}")
            _compare(x[k], f"{text}[{k!r}]", tests, arrays, names)
    else:
        raise _Slow


def _rebuilt(tree: optree.PyTreeSpec) -> tuple[str, str]:
    """Return the text that builds a result from its leaves r0, r1, ..., and the text they are unpacked into."""
    markers = [Static(i) for i in range(tree.num_leaves)]
    leaves = "".join([f"r{i}, " for i in range(len(markers))])

    def text(x: Any) -> str:
        if isinstance(x, Static):
            return f"r{x.value}"
        if x is None:
            return "None"
        if type(x) is tuple:
            return f"({''.join([text(v) + ', ' for v in x])})"
        if type(x) is list:
            return f"[{', '.join([text(v) for v in x])}]"
        if type(x) is dict and all([type(k) is str for k in x]):
            return "{" + ", ".join([f"{k!r}: {text(v)}" for k, v in x.items()]) + "}"
        raise _Slow

    try:
        return text(optree.tree_unflatten(tree, markers)), leaves
    except _Slow:
        return "", "*"
