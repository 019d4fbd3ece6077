"""The signature of a call: what a compiled function was specialised to, and the quick way to see that it is the same.

A signature is the structure of the arguments, for each array its shape, dtype and whether it was a Python number, and
for everything else its value. A ``FastPath`` is the guards of one signature and what a call that passes them runs, in
machine code (``native/front.py``) or by a function in Python that it writes. Not for: tracing, or keeping the
specialisations (``jit.py``).
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import operator
from collections.abc import Callable, Container
from typing import Any, NamedTuple

import numpy as np
import optree

from ..boundary.randomness import is_generator
from ..core.aval import aval_of
from ..core.tracer import Tracer
from ..errors import ArgumentError, ArgumentTypeError
from ..guards.reach import Reach
from ..ops.kinds import is_finite
from ..ops.kinks import _convention
from ..program.variable import Variable
from .captures import Captures
from .whole_numbers import fits

__all__ = [
    "FastPath", "Guard", "NO_MATCH", "Static", "Unsupported", "has_nan", "leaf_key", "resolved_statics", "static",
    "takes_any_keyword",
]  # fmt: skip

#: what a fast path returns for a call of another signature
NO_MATCH = object()


class Static:
    """A leaf that belongs to the signature by its key."""

    __slots__ = ("hash", "key", "value")

    def __init__(self, value: Any, key: Any, hash: int) -> None:
        self.value, self.key, self.hash = value, key, hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.key == other.key

    def __hash__(self) -> int:
        return self.hash

    def __repr__(self) -> str:
        return repr(self.value)


def static(value: Any) -> Static:
    """Return a static argument, which is looked up by its value."""
    try:
        code = hash(value)  # not of its key, in which there may be fields that it leaves out
    except TypeError:
        raise ArgumentTypeError(
            f"jit: a static argument is {value!r} of type {type(value).__name__}, which can't be hashed.",
            "a static argument is part of what a function is compiled for, and is looked up by its value",
            "pass a tuple in place of a list, or leave it out of static_argnums and static_argnames",
        ) from None
    return Static(value, _exact(value), code)


def _exact(x: Any) -> Any:
    """A key that equal values share if a function can't tell them apart: 2 is not 2.0, nor is 0.0 -0.0."""
    kind = type(x)
    if isinstance(x, (float, complex, np.inexact)):
        return kind, repr(x)
    if isinstance(x, (tuple, frozenset)):
        return kind, (tuple if isinstance(x, tuple) else frozenset)([_exact(v) for v in x])
    if dataclasses.is_dataclass(x) and kind.__dataclass_params__.eq:
        return kind, tuple([_exact(getattr(x, f.name)) for f in dataclasses.fields(x) if f.compare])
    return kind, x


def leaf_key(x: Any, is_input: bool) -> Any:
    """The part of a signature that a leaf makes."""
    if is_input:
        if type(x) is np.ndarray:
            return x.shape, x.dtype.str
        if not isinstance(x, Tracer):
            return type(x)
        aval = aval_of(x)
        return aval.shape, aval.dtype.str, x.is_python_number()
    if isinstance(x, (Static, str)) or x is None:
        return x
    if is_generator(x):  # what it draws is an input, in what state it ever is
        return "generator", hasattr(x, "get_state")
    try:
        hash(x)
    except TypeError:
        return Static(x, id(x), id(x))
    return _exact(x)


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


def takes_any_keyword(f: Callable) -> bool:
    """Whether a function sees the order of its keywords."""
    try:
        return any([p.kind == p.VAR_KEYWORD for p in inspect.signature(f).parameters.values()])
    except (TypeError, ValueError):
        return True


# ── the fast path ────────────────────────────────────────────────────────────────────────────────────────────────


class Unsupported(Exception):
    """These arguments, or this result, have a structure that the fast path does not take apart."""


class Guard(NamedTuple):
    """One check on the arguments of a call. These are in slots 0, 1, ...; parts of containers are put into more.

    ``op`` and ``thing`` are "array" with dtype and shape, "type" and the type, "is" and the object, "tuple" or "list"
    and the length, "dict" and the keys in their order; parts of containers fill the slots from ``first``.
    """

    op: str
    slot: int
    thing: Any
    first: int = 0


class FastPath:
    """The guards of one signature, for calls with these keywords in this order, and what a call that passes them does.

    ``statics`` are the names and positions of the arguments that are compared as they are; where a specialisation is
    ``unsure``, a NaN among its results calls ``run_eagerly(*args, **kwargs)``. ``Unsupported`` is raised if something
    is no container, array or number that is taken apart here.
    """

    def __init__(self, args: tuple, kwargs: dict, statics: Container, spec: Any, run_eagerly: Callable) -> None:
        self._spec, self.run, self.run_eagerly = spec, spec.entered, run_eagerly
        #: how many results may be a NaN that is none
        self.unsure = spec.results if spec.traced.unsure else 0
        self.hidden, self.captures, self.convention = tuple(spec.captures.inputs), spec.captures, _convention.get()
        self.positional, self.names = len(args), tuple(kwargs)
        self.slots = len(args) + len(kwargs)
        self.guards: list[Guard] = []
        #: what ``run`` is called with: slots, in the order of the leaves, and what is hidden, which counts down from -1
        self.given: list[int] = []
        for i, x in enumerate(args):
            self._look(x, i, i in statics)
        for name in sorted(kwargs):
            self._look(kwargs[name], len(args) + self.names.index(name), name in statics)
        #: what becomes of the tuple that ``run`` returns: it is the result, its one entry is, or ``rebuild`` makes it
        self.mode, self.rebuild = _rebuilt(spec.traced.tree)
        self.given += [~i for i in range(len(self.hidden))]
        compiled = spec.program.compiled
        if compiled.is_one and self.run is compiled.direct:  # without Python in between
            group, sources = compiled.parts[0][0]
            constants = [x for x in sources if type(x) is not int]
            at = itertools.count(len(self.hidden))
            self.given = [self.given[x] if type(x) is int else ~next(at) for x in sources]
            self.run, self.hidden = group.run, (*self.hidden, *constants)

    def _look(self, x: Any, slot: int, static: bool) -> None:
        kind = type(x)
        if static:
            self.guards.append(Guard("is", slot, x))
        elif kind is np.ndarray:
            if x.dtype.kind not in "biufc" or not x.dtype.isnative:
                raise Unsupported
            self.guards.append(Guard("array", slot, (x.dtype, x.shape)))
            self.given.append(slot)
        elif kind is int and not fits(x):
            raise Unsupported
        elif kind in (int, float, complex) or (isinstance(x, np.generic) and x.dtype.kind in "biufc"):
            self.guards.append(Guard("type", slot, kind))
            self.given.append(slot)
        elif x is None or kind in (bool, str):
            self.guards.append(Guard("is", slot, x))
        elif kind in (tuple, list):
            self._open(kind.__name__, slot, len(x), list(enumerate(x)))
        elif kind is dict and all([type(k) is str for k in x]):
            keys = list(x)
            self._open("dict", slot, keys, [(keys.index(k), x[k]) for k in sorted(x)])  # the order of the leaves
        else:
            raise Unsupported

    def _open(self, op: str, slot: int, thing: Any, parts: list[tuple[int, Any]]) -> None:
        first = self.slots
        self.slots += len(parts)
        self.guards.append(Guard(op, slot, thing, first))
        for i, x in parts:
            self._look(x, first + i, False)

    @property
    def is_constant(self) -> bool:
        """Whether results are the same whatever arguments hold, and nothing else is done."""
        traced, program = self._spec.traced, self._spec.program
        is_free = not program.steps and not any([type(o) is Variable for o in program.outputs])
        return is_free and traced.check is None and not traced.written and all([r is None for r in traced.returned])

    def without_captures(self) -> FastPath | None:
        """Return the same with nothing to compare besides the arguments, if the code runs no Python."""
        if self._spec.traced.check is not None or not set(self._spec.program.compiled.calls) <= {"native", "library"}:
            return None
        bare = copy.copy(self)
        bare.captures = Captures(Reach(()), (), True)
        return bare

    def python(self) -> Callable | None:
        """A function in Python that takes a call like this, or returns ``NO_MATCH``; None if there can be none."""
        if self.names:
            return None
        names: dict[str, Any] = {
            "NO_MATCH": NO_MATCH, "run": self.run, "ndarray": np.ndarray, "kinks": _convention.get, "has_nan": has_nan,
            "convention": self.convention, "unchanged": self.captures.unchanged, "rebuild": self.rebuild,
            "run_eagerly": self.run_eagerly, "fits": fits,
        }  # fmt: skip
        given = [f"a{i}" for i in range(self.positional)]
        texts, tests = list(given), ["kinks() is convention"]
        for i, (op, slot, thing, _) in enumerate(self.guards):
            names[f"t{i}"], x = thing, texts[slot]
            if op == "array":
                names[f"t{i}"], names[f"s{i}"] = thing
                tests.append(f"type({x}) is ndarray and {x}.shape == s{i} and {x}.dtype is t{i}")
            elif op == "dict":
                tests.append(f"type({x}) is dict and list({x}) == t{i}")
                texts += [f"{x}[{k!r}]" for k in thing]
            elif op in ("tuple", "list"):
                tests.append(f"type({x}) is {op} and len({x}) == {thing}")
                texts += [f"{x}[{k}]" for k in range(thing)]
            else:
                tests.append(f"{x} is t{i}" if op == "is" else f"type({x}) is t{i}")
                if thing is int:
                    tests.append(f"fits({x})")
        if self.captures:
            tests.append("unchanged()")
        for i, x in enumerate(self.hidden):
            names[f"h{i}"] = x
        arrays = [texts[i] if i >= 0 else f"h{~i}" for i in self.given]
        lines = [
            # A missing argument is no error here: the function itself will say what it misses.
            f"def enter({''.join([f'{a}=NO_MATCH, ' for a in given])}*rest):",
            f"    if rest or not ({' and '.join(tests)}): return NO_MATCH",
            f"    try: out = run({', '.join(arrays)})",
            "    except Exception: return NO_MATCH",  # where the function is asked about it
        ]
        if self.unsure:
            lines.append(
                f"    if any([has_nan(x) for x in out[:{self.unsure}]]): return run_eagerly({', '.join(given)})"
            )
        lines.append(f"    return {('out', 'out[0]', 'rebuild(out)')[self.mode]}")
        exec(compile("\n".join(lines), "<dualad.jit entry>", "exec"), names)
        return names["enter"]


def has_nan(x: Any) -> bool:
    """Whether a result has a NaN in it."""
    return isinstance(x, (np.ndarray, np.generic)) and not is_finite(x) and bool(np.isnan(x).any())


def _rebuilt(tree: optree.PyTreeSpec) -> tuple[int, Callable | None]:
    """How the tuple of its leaves becomes a result: as it is (0), as its one entry (1), or by a function (2)."""
    markers = [Static(i, i, i) for i in range(tree.num_leaves)]
    whole: Any = optree.tree_unflatten(tree, markers)
    if type(whole) is tuple and len(whole) == len(markers) and all(map(operator.is_, whole, markers)):
        return 0, None
    if isinstance(whole, Static):
        return 1, None

    def text(x: Any) -> str:
        if isinstance(x, Static):
            return f"r{x.value}"
        if x is None or type(x) is str:
            return repr(x)
        if type(x) is tuple:
            return f"({''.join([text(v) + ', ' for v in x])})"
        if type(x) is list:
            return f"[{', '.join([text(v) for v in x])}]"
        if type(x) is dict and all([type(k) is str for k in x]):
            return "{" + ", ".join([f"{k!r}: {text(v)}" for k, v in x.items()]) + "}"
        raise Unsupported

    try:
        result = text(whole)
    except Unsupported:
        return 2, lambda out: optree.tree_unflatten(tree, out)
    names: dict[str, Any] = {}
    unpacked = f"    {''.join([f'r{i}, ' for i in range(len(markers))])} = out\n" if markers else ""
    exec(compile(f"def rebuild(out):\n{unpacked}    return {result}", "<dualad.jit result>", "exec"), names)
    return 2, names["rebuild"]
