"""Planted faults that only a comparison with plain NumPy can see: no pass is wrong, and no access is out of bounds.

What is left out of the guards and of the signature, patterns that are kept for other values, writes that add up in
another dtype, machine code whose first call nobody compares. For: ``COMPARED``. Not for: passes (``faults.py``).
"""

from __future__ import annotations

import copy
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import dualad as da
from dualad.compile import captures, jit, numpy_source, tracing
from dualad.compile.native import engine
from dualad.guards import places
from dualad.ops import indexing
from dualad.sparse import prepared, problem
from dualad.surface import composites, contraction, elementwise, writing
from dualad.surface import indexing as reading

from . import numpy_calls
from .compare import same, settings

__all__ = ["COMPARED", "Compared"]


class Compared(NamedTuple):
    """A fault: (place, name, what makes the wrong one of the right one) each, and the comparison that meets it."""

    changes: tuple[tuple[Any, str, Callable], ...]
    check: Callable[[], None]
    native: bool = False

    def run(self, planted: bool) -> None:
        """Compare, with the fault or without it; raise ``Difference`` where a result is wrong."""
        with settings(self.native), pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.setenv("DUALAD_CACHE", "0")
            for place, attribute, make in self.changes if planted else ():
                patch.setattr(place, attribute, make(getattr(place, attribute)))
            self.check()


# ── guards ───────────────────────────────────────────────────────────────────────────────────────────────────────

_X = np.array([0.5, 1.25, 2.0])


def _without(*kinds: int) -> tuple:
    """Plant guards that leave out these kinds of places."""

    def make(real):
        def init(self, *args):
            real(self, *args)
            self.places = [p for p in self.places if p.kind not in kinds]

        return init

    return ((captures.Captures, "__init__", make),)


def _changing(text: str, change: str) -> Callable[[], None]:
    """Return a comparison of ``f`` with its compiled self before and after a change of what it reads."""

    def check() -> None:
        module = types.ModuleType("a_state")
        exec(f"import numpy as np\n{text}", vars(module))
        compiled = da.jit(module.f)
        for line in ("", "", change):
            exec(line, vars(module))
            same(compiled(_X), module.f(_X), f"after {line!r}")

    return check


def _always(value: Any) -> Callable:
    return lambda real: lambda *args: value


_GUARDS = {
    "globals": (_without(places.ENTRY), "k = 2.0\ndef f(x): return x * k", "k = 3.0"),
    "cells": (
        _without(places.CELL),
        "def make():\n    k = 2.0\n    def f(x): return x * k\n    return f\nf = make()",
        "f.__closure__[0].cell_contents = 3.0",
    ),
    "entries of dicts": (
        _without(places.ITEMS),
        "t = {'k': 2.0}\ndef f(x): return x * t['k']",
        "t['k'] = 3.0",
    ),
    "entries of lists": (_without(places.LIST), "t = [2.0]\ndef f(x): return x * t[0]", "t[0] = 3.0"),
    "code": (
        _without(places.CODE),
        "def g(): return 2.0\ndef f(x): return x * g()",
        "g.__code__ = (lambda: 3.0).__code__",
    ),
    "defaults": (
        _without(places.DEFAULTS),
        "def g(k=2.0): return k\ndef f(x): return x * g()",
        "g.__defaults__ = (3.0,)",
    ),
    "attributes in slots": (
        _without(places.ATTRIBUTE),
        "class C:\n    __slots__ = ('k',)\nc = C()\nc.k = 2.0\ndef f(x): return x * c.k",
        "c.k = 3.0",
    ),
    "sets": (_without(places.SAID), "s = {1.0, 2.0}\ndef f(x): return x * sum(s)", "s.add(5.0)"),
    "partial functions": (
        _without(places.ATTRIBUTE, places.ITEMS),
        "import functools\ng = functools.partial(lambda k: k, k=2.0)\ndef f(x): return x * g()",
        "g.keywords['k'] = 3.0",
    ),
    "signs of zeros": (
        ((places, "same", lambda real: lambda a, b: a == b),),
        "k = 0.0\ndef f(x): return 1.0 / (x * k)",
        "k = -0.0",
    ),
    "types of numbers": (
        ((places, "same", lambda real: lambda a, b: a == b),),
        "k = 2\ndef f(x): return np.full(3, k) + 0 * x.astype(int)",
        "k = 2.0",
    ),
    "contents of arrays": (
        ((captures.Captures, "unchanged", lambda real: _places_hold),),
        "a = np.array([2.0, 1.0])\ndef f(x): return x * float(a[0])",
        "a[0] = 3.0",
    ),
}


def _places_hold(self: captures.Captures) -> bool:
    return not any([places.is_changed(p) for p in self.places])


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────────────


def _calls(f: Callable, *calls: tuple, **options: Any) -> Callable[[], None]:
    """Return a comparison of calls of one compiled function, one after the other, and what they write."""

    def check() -> None:
        compiled = da.jit(f, **options)
        for args in calls:
            given, plain = copy.deepcopy(args), copy.deepcopy(args)
            same(compiled(*given), f(*plain), "a call")
            same(given, plain, "its arguments afterwards")

    return check


def _leaf(change: Callable) -> tuple:
    """Plant another key of a leaf, and no quick way to see a signature."""
    return ((jit, "leaf_key", lambda real: lambda x, m: change(real(x, m))), *_NO_FAST_PATH)


_NO_FAST_PATH = ((jit.Jitted, "_add_entry", _always(None)),)


def _through_ravel(x):
    y = x.ravel()
    y[0] = 7.0
    return x * 2.0


def _first_is_seven(x, y):
    x[0] = 7.0
    return y * 2.0


_C = np.arange(6.0).reshape(2, 3)

#: a program that is taken for one of arguments in every order
_UNORDERED = (
    (tracing, "Traced", lambda real: lambda *args, **given: real(*args, **given)._replace(strides=None)),
    *_NO_FAST_PATH,
)

_SIGNATURES = {
    "shapes": (
        _leaf(lambda key: ("f", key[1]) if isinstance(key, tuple) else key),
        _calls(lambda x: x + np.arange(len(x)), (np.ones(3),), (np.ones(1),)),
    ),
    "dtypes": (
        _leaf(lambda key: key[0] if isinstance(key, tuple) else key),
        _calls(lambda x: np.ones_like(x), (np.ones(3),), (np.ones(3, np.float32),)),
    ),
    "ranks": (
        _leaf(lambda key: (int(np.prod(key[0])), key[1]) if isinstance(key, tuple) else key),
        _calls(lambda x: np.mean(x, 0), (np.ones((2, 3)),), (np.ones((3, 2)),)),
    ),
    "numbers of Python's and NumPy's": (
        _leaf(lambda key: "number" if key in (float, np.float64, np.float32) else key),
        _calls(lambda x: x / 2, (np.float32(2.0),), (2.0,)),
        True,
    ),
    "truth values": (
        _leaf(lambda key: "truth" if key in (bool, (bool, True), (bool, False)) else key),
        _calls(lambda x, up: x + 1 if up else x - 1, (np.ones(2), True), (np.ones(2), False)),
    ),
    "texts": (
        _leaf(lambda key: "text" if isinstance(key, str) else key),
        _calls(lambda x, way: x + 1 if way == "up" else x - 1, (np.ones(2), "up"), (np.ones(2), "down")),
    ),
    "orders in memory": (
        _UNORDERED,
        _calls(_through_ravel, (_C,), (np.asfortranarray(_C),)),
    ),
    "memory that arguments share": (
        ((jit.Jitted, "_is_written_by_numpy", _always(False)),),
        _calls(_first_is_seven, (_X, _X.copy()), (_X, _X)),
    ),
    "steps in memory": (
        _UNORDERED,
        _calls(_through_ravel, (np.asfortranarray(_C),), (_C,)),
    ),
}


# ── patterns ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _patterns(f: Callable, *calls: tuple, change: Callable[[], None] = lambda: None) -> Callable[[], None]:
    def check() -> None:
        sparse = da.sparse_jacobian(f)
        for args in calls:
            same(sparse(*args).toarray(), da.jacfwd(f)(*args), "a sparse Jacobian")
            change()

    return check


class _Shift:
    by = 0

    @classmethod
    def rolled(cls, x):
        return x * np.roll(x, cls.by)

    @classmethod
    def further(cls) -> None:
        cls.by = (cls.by + 1) % 3


_PATTERNS = {
    "what a function reads": (
        ((prepared.Prepared, "holds", _always(True)),),
        _patterns(_Shift.rolled, (_X,), (_X,), (_X,), change=_Shift.further),
    ),
    "other arguments": (
        ((problem.Problem, "signature", lambda real: lambda self: real(self)[:2]),),
        _patterns(lambda x, by: x * np.roll(x, by), (_X, 1), (_X, 2)),
    ),
    "values of integers": (
        (
            (
                problem.Problem,
                "signature",
                lambda real: lambda self: [x if type(x) is not np.ndarray else x.shape for x in real(self)],
            ),
        ),
        _patterns(lambda x, i: x * x[i], (_X, np.array([0, 0, 1])), (_X, np.array([2, 1, 0]))),
    ),
}


# ── writes at places ─────────────────────────────────────────────────────────────────────────────────────────────


def _adding(dtype: str, value: Any, ufunc: np.ufunc = np.add) -> Callable[[], None]:
    def f(x, y):
        ufunc.at(y, [0, 0, 1, 0], value)
        return y + 0 * x[0].astype(y.dtype)

    return _calls(f, (np.ones(2), np.ones(3, dtype)))


def _loops(change: Callable) -> tuple:
    return ((writing, "loop_dtypes", lambda real: lambda *args: change(real(*args))),)


def _first_round(real):
    return lambda *args: iter([next(iter(real(*args)))])


def _added(real):
    return lambda ufunc, a, index, b=None: real(np.add if ufunc is np.subtract else ufunc, a, index, b)


_AT = {
    "a place that comes twice counts once": (
        ((writing, "_rounds", _first_round),), _adding("f8", 3.0, np.multiply),
    ),
    "terms of whole numbers are cut off before they are added": (
        _loops(lambda found: (found[0], found[1], np.dtype(int))), _adding("i4", -0.5),
    ),
    "terms in double precision are those in single": (
        _loops(lambda found: (found[0], np.dtype("f4"), found[2])), _adding("f8", 1e5 / 3),
    ),
    "terms lose their imaginary parts": (
        _loops(lambda found: (found[0], np.dtype("f8"), found[2])), _adding("c16", 1.0 + 2.0j),
    ),
    "sums are the last term": (
        (
            (
                indexing,
                "index_add",
                lambda real: lambda x, *arrays, template, shape: indexing.index_set(
                    np.zeros(shape, x.dtype), x, *arrays, template=template
                ),
            ),
        ),
        _adding("f8", 0.75),
    ),
    "differences are sums": (
        ((writing, "_update", _added),),
        _adding("f8", 0.75, np.subtract),
    ),
}  # fmt: skip


# ── what NumPy's functions are on tensors ────────────────────────────────────────────────────────────────────────


def _program(args: list[tuple], *lines: str) -> Callable[[], None]:
    """Return the comparison that tells faults from rounding, of a program of NumPy calls."""
    return lambda: numpy_calls.case_of(args, list(lines[:-1]), lines[-1], seed=0).check()


_ONE, _THREE = ("f8", (), "C", 1), ("f8", (3,), "C", 0)

_NUMPY = {
    "entries are cast to the dtype of a variance's sums": (
        (
            (
                composites,
                "_deviations",
                lambda real: lambda a, axis, dtype, *more: real(a.astype(dtype), axis, dtype, *more),
            ),
        ),
        _program([_THREE, _ONE], "1 / np.var(y, dtype=np.float32)"),
    ),
    "a list of nothing is of double precision": (
        ((contraction, "_is_bare", _always(False)),),
        _program([_THREE, ("u8", (), "C", 1)], "np.clip(np.dot(y, ()), -1, y)"),
    ),
    "the array of a number is the number": (
        ((reading, "as_array", lambda real: lambda x: x),),
        _program([_THREE, _ONE], "v0 = v1 = np.sum(x)[...]", "v0 += y", "v1"),
    ),
    "a remainder by a number off in its last digit is a quotient": (
        ((elementwise, "np", lambda real: types.SimpleNamespace(**{**vars(real), "remainder": real.floor_divide})),),
        _program(
            [("i8", (4, 3), "broadcast", 0), ("i8", (4, 3), "C", 1)], "v0 = np.std(x)", "v1 = np.divmod(y, v0)[1]", "v1"
        ),
    ),
}


# ── machine code that nobody compares ────────────────────────────────────────────────────────────────────────────


def _unchecked(wrong: Callable[[str], str]) -> tuple:
    """Plant another text for LLVM, behind the check of bounds, and no comparison of the first call."""
    return (
        (numpy_source.Compiled, "check", _always(None)),
        (engine.Engine, "_made", lambda real: lambda self, text, level: real(self, wrong(text), level)),
    )


def _kernel(x):
    return np.where(x * 1.5 > 1.0, x * x - 0.25, x + 2.0), np.minimum(x, 1.0)


_UNCHECKED = {
    "another operator": lambda text: text.replace("fadd ", "fsub "),
    "another comparison": lambda text: text.replace("fcmp ogt", "fcmp olt"),
    "factors are terms": lambda text: text.replace("fmul ", "fadd "),
    "differences the other way round": lambda text: text.replace("fsub ", "fmul "),
}

#: fault -> what is planted
COMPARED: dict[str, Compared] = {
    **{f"guards: {k} left out": Compared(c, _changing(*texts)) for k, (c, *texts) in _GUARDS.items()},
    **{f"signatures: {k} left out": Compared(*v) for k, v in _SIGNATURES.items()},
    **{f"sparse patterns: {k} left out": Compared(*v) for k, v in _PATTERNS.items()},
    **{f"writes at places: {k}": Compared(*v) for k, v in _AT.items()},
    **{f"NumPy's functions: {k}": Compared(*v) for k, v in _NUMPY.items()},
    **{
        f"machine code, its first call unchecked: {k}": Compared(_unchecked(v), _calls(_kernel, (_X * 0.6,)), True)
        for k, v in _UNCHECKED.items()
    },
}
