"""Replacements: tables of names by identity, first of all that of lifted code.

For: ``Table``, with ``in_place_of``, which also looks into wrappers of such things (a partial, a tuple, a cached or
a vectorized function), and ``lifted``, the table of NumPy's, SciPy's, math's and Python's names. The JAX oracle has
another one. Not for: where they are put, and when (``places.py``).
"""

from __future__ import annotations

import builtins
import cmath
import functools
import importlib
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import numpy as dualad_numpy
from ..boundary.boundary import running
from ..memory.buffer import traced_in
from ..surface.python_ufuncs import python_function
from .math_names import CMATH, MATH
from .python_names import BUILTINS

__all__ = ["CONTAINERS", "LIFTED", "REDIRECTED", "Table", "lift_table", "top", "with_submodules"]

#: the packages whose names mean something else in lifted code
REDIRECTED = frozenset({"cmath", "math", "numpy", "scipy"})

#: the mark of the table of lifted code
LIFTED = "dualad"

#: what has no counterpart: constants, and modules, which are looked for by themselves
_STAY = (bool, int, float, complex, str, bytes, tuple, list, dict, type(None), types.ModuleType)


class Table:
    """A table of replacements.

    ``mark`` is its name, which ends the first part of the names under which ``sys.modules`` has the counterparts of
    modules; ``module_for`` gives the counterpart of a module by name, or None. ``entries`` leads from the ``id`` of an
    original to it and its counterpart, ``derived`` from a type to what makes of an object of it and the table what
    stands in its place, or None; ``builtins`` from names of Python that are shadowed to their counterparts.
    """

    def __init__(
        self, mark: str, derived: Mapping[type, Callable], shadowed: Mapping[str, Any],
        module_for: Callable[[str], Any],
    ) -> None:  # fmt: skip
        self.mark, self.derived, self.builtins, self.module_for = mark, derived, shadowed, module_for
        self.entries: dict[int, tuple[Any, Any]] = {}

    def fill(self, pairs: Iterable[tuple[Any, Any]]) -> Table:
        """Replace the entries by those of modules that have a counterpart, each given with its own."""
        entries: dict[int, tuple[Any, Any]] = {}
        for module, standing in pairs:
            entries[id(module)] = module, standing
            for name in _public(module):
                original = vars(module).get(name)  # SciPy loads modules on demand: nobody has asked for the others
                new = None if isinstance(original, _STAY) else getattr(standing, name, None)
                if new is not None and new is not original:
                    entries.setdefault(id(original), (original, new))
        for name, new in self.builtins.items():
            entries[id(vars(builtins)[name])] = vars(builtins)[name], new
        self.entries = entries
        return self

    def in_place_of(self, x: Any) -> Any:
        """Return the replacement of an object; None if it stays."""
        hit = self.entries.get(id(x))
        if hit is not None and hit[0] is x:
            return hit[1]
        make = self.derived.get(type(x))
        return None if make is None else make(x, self)


#: what calls NumPy's private functions of linear algebra
_ARRAY_API = frozenset({"array_api_compat.numpy.linalg"})
_scipy_modules: tuple[str, ...] | None = None


def lift_table() -> Table:
    """Return the table of lifted code, filled again when SciPy has loaded more of itself."""
    global _scipy_modules
    loaded = tuple([n for n in list(sys.modules) if n.startswith("scipy") and "._" not in n and top(n) == "scipy"])
    if "numpy.random" in sys.modules:  # which NumPy loads when it is asked for
        loaded = (*loaded, "numpy.random")
        seeing = importlib.import_module("dualad.numpy.random").seeing
        _DERIVED.update({kind: lambda x, table: seeing(x) for kind in (np.random.Generator, np.random.RandomState)})
    if "numba.core.registry" in sys.modules:
        loaded = (*loaded, "numba")
        _DERIVED[sys.modules["numba.core.registry"].CPUDispatcher] = lambda x, table: _Compiled(x)
    loaded = (*loaded, *_ARRAY_API & sys.modules.keys())
    if loaded != _scipy_modules:
        for name in {"scipy.sparse", "scipy.stats"} & set(loaded):
            _DERIVED.update(importlib.import_module(f"dualad.{name}.standing").STANDING)
        _LIFTED.fill(_modules(loaded))
        _scipy_modules = loaded
    return _LIFTED


def _modules(loaded: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
    """Yield the modules that have a counterpart, each with its own."""
    yield math, MATH
    yield cmath, CMATH
    yield from with_submodules(np, dualad_numpy)
    for name in loaded:
        standing = dualad_numpy.linalg if name in _ARRAY_API else _module_for(name)
        if standing is not None and standing is not sys.modules[name]:
            yield sys.modules[name], standing


def with_submodules(module: Any, standing: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a module and those in it, each with what has its name in the counterpart."""
    yield module, standing
    for name, thing in list(vars(module).items()):
        if isinstance(thing, types.ModuleType) and thing.__name__.startswith(module.__name__ + "."):
            other = getattr(standing, name, None)
            if isinstance(other, types.ModuleType) and other is not thing:
                yield from with_submodules(thing, other)


def _module_for(name: str) -> Any:
    """Return the module that lifted code imports under a redirected name; None if there is no such module."""
    package, *rest = name.split(".")
    if package not in REDIRECTED:
        return None
    try:
        found: Any = {"math": MATH, "cmath": CMATH, "numpy": dualad_numpy}.get(package)
        if found is None:
            found = importlib.import_module(f"dualad.{package}")
        for part in rest:
            if not found.__name__.startswith("dualad"):  # NumPy's or SciPy's own, which stands for itself
                return None
            found = getattr(found, part)
    except (AttributeError, ImportError):
        return None
    return found if isinstance(found, types.ModuleType) else None


def _public(module: types.ModuleType) -> list[str]:
    names = getattr(module, "__all__", None)
    return list(names) if names is not None else [name for name in list(vars(module)) if not name.startswith("_")]


def top(name: Any) -> str:
    """Return the package that a module lies in, by its name."""
    return str(name).partition(".")[0]


# ── wrappers of such things ──────────────────────────────────────────────────────────────────────────────────────


def _partial(x: functools.partial, table: Table) -> Any:
    new = _each([x.func, *x.args, *x.keywords.values()], table)
    if new is None:
        return None
    func, args, values = new[0], new[1 : 1 + len(x.args)], new[1 + len(x.args) :]
    return functools.partial(func, *args, **dict(zip(x.keywords, values, strict=True)))


def _tuple(x: tuple, table: Table) -> Any:
    new = _each(x, table) if len(x) <= 64 else None
    return None if new is None else tuple(new)


def _each(parts: Sequence, table: Table) -> list | None:
    """Return parts with what stands in the place of some of them; None if all stay."""
    new = [table.in_place_of(part) for part in parts]
    if all([n is None for n in new]):
        return None
    return [part if n is None else n for part, n in zip(parts, new, strict=True)]


def _method(x: types.MethodType, table: Table) -> Any:
    """Return the method of what stands for its object: of a distribution, ``norm.logpdf``."""
    new = table.in_place_of(x.__self__)
    return None if new is None else getattr(new, x.__name__, None)


def _static(x: Any, table: Table) -> Any:
    new = table.in_place_of(x.__func__)
    return None if new is None else type(x)(new)


def _vectorize(x: np.vectorize, table: Table) -> Any:
    new = object.__new__(dualad_numpy.vectorize)
    new.__dict__.update(vars(x))
    return new


def _ufunc(x: np.ufunc, table: Table) -> Any:
    new = table.in_place_of(python_function(x))
    return None if new is None else np.frompyfunc(new, x.nin, x.nout, identity=x.identity)


class _Cached:
    """The replacement of a function that ``functools.lru_cache`` keeps results of: no tensor gets into the cache."""

    def __init__(self, cached: Any) -> None:
        self._cached = cached

    def __call__(self, *args, **kwargs):
        if traced_in(args, kwargs) is not None:
            return self._cached.__wrapped__(*args, **kwargs)
        # The cached result serves calls outside of transforms too: it is made of plain arrays.
        token = running.set(False)
        try:
            return self._cached(*args, **kwargs)
        finally:
            running.reset(token)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cached, name)


class _Compiled:
    """The replacement of a function that numba compiles: the function itself, for numba would find our names in it."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def __call__(self, *args, **kwargs):
        return self._compiled.py_func(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


#: what looks into containers of Python's, in any table
CONTAINERS: dict[type, Any] = {
    functools.partial: _partial, tuple: _tuple, staticmethod: _static, classmethod: _static,
}  # fmt: skip
_DERIVED: dict[type, Any] = {
    **CONTAINERS,
    np.ufunc: _ufunc,
    types.MethodType: _method,
    np.vectorize: _vectorize,
    type(functools.lru_cache(lambda: None)): lambda x, table: _Cached(x),
}
_LIFTED = Table(LIFTED, _DERIVED, BUILTINS, _module_for)
