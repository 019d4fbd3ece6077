"""SciPy's own Python code on tensors: its *twin*, copies of functions and classes with globals of their own.

In those NumPy's and SciPy's names mean dualad's. Nothing of SciPy's is touched, and nothing is done before a twin is
called. Code that branches on values, or takes parts of arrays, is not for this: it would be refused in programs.
Not for: lifting users' functions (``dualad/lift``).
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import numpy as own_numpy
from ..core.tracer import Tracer
from ..lift.targets import lift_table
from .mirror import mirrors

__all__ = ["mirrors_twin", "twin_of", "writable"]

_classes: dict[type, type] = {}
_globals: dict[str, dict] = {}


def writable(x: Any) -> Any:
    """Return an argument as a twin is given it: results of plain arrays may be written to, with tensors."""
    return x if isinstance(x, Tracer) or not isinstance(x, np.ndarray) else own_numpy.array(x)


def mirrors_twin(original: Callable, module: str, words: str) -> Callable:
    """Return SciPy's function, in a module of ours, whose twin is called if there is a tensor among the arguments.

    ``words`` are its docstring.
    """

    def version(*args, **kwargs):
        given = {name: writable(x) for name, x in kwargs.items()}
        return _twin(original)(*map(writable, args), **given)

    version.__module__ = module
    return mirrors(original, words=words)(version)


@functools.cache
def _twin(function: Callable) -> Callable:
    return _copy(function)


def twin_of(distribution: Any) -> Any:
    """Return an object with the attributes of a distribution of SciPy's, whose methods take tensors."""
    twin: Any = object.__new__(_class(type(distribution)))
    twin.__dict__.update(vars(distribution))
    return twin


def _class(cls: type) -> type:
    """Return a class of copies of another's functions, with such classes for its bases."""
    if not cls.__module__.startswith("scipy.stats"):
        return cls
    if cls not in _classes:
        body = {name: thing for name, thing in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        cell = types.CellType()
        body = {name: _copy(thing, cell) for name, thing in body.items()}
        _classes[cls] = cell.cell_contents = type(cls)(cls.__name__, tuple(map(_class, cls.__bases__)), body)
    return _classes[cls]


def _copy(thing: Any, cell: types.CellType | None = None) -> Any:
    """Return a function of SciPy's with other globals; ``super()`` in it means the class in the cell."""
    if isinstance(thing, staticmethod):
        return staticmethod(_copy(thing.__func__, cell))
    if not isinstance(thing, types.FunctionType):
        return thing
    closure = thing.__closure__
    if cell is not None and "__class__" in thing.__code__.co_freevars:
        closure = tuple([
            cell if name == "__class__" else own
            for name, own in zip(thing.__code__.co_freevars, closure or (), strict=True)
        ])  # fmt: skip
    namespace = _names(thing.__module__)
    out = types.FunctionType(thing.__code__, namespace, thing.__name__, thing.__defaults__, closure)
    out.__kwdefaults__ = thing.__kwdefaults__
    return out


def _names(module: str) -> dict:
    """Return the globals of a module of SciPy's, with what stands for the names of NumPy and SciPy in lifted code."""
    if module not in _globals:
        table = lift_table()
        names = _globals[module] = {}
        package = ".".join(module.split(".")[:2])
        for name, thing in list(vars(sys.modules[module]).items()):
            of = getattr(thing, "__module__", None) or ""
            new = _OWN.get(name)
            if new is None:
                new = table.in_place_of(thing)
            if new is None and isinstance(thing, types.FunctionType) and of.startswith(package):
                new = _copy(thing)
            names[name] = thing if new is None else new
    return _globals[module]


# ── choices ──────────────────────────────────────────────────────────────────────────────────────────────────────
#
# SciPy computes each formula at the points where it holds, which it picks out; here all are computed everywhere, and
# the values selected.


def _apply_where(cond, args, f1, f2=None, *, fill_value=None, **kwargs):
    args = args if isinstance(args, (tuple, list)) else (args,)
    return np.where(cond, f1(*args), fill_value if f2 is None else f2(*args))


def _lazyselect(condlist: Sequence, choicelist: Sequence[Callable], arrays: Sequence, default: Any = 0):
    out = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        out = np.where(condition, choice(*arrays), out)
    return out


_OWN: dict[str, Any] = {
    "_lazyselect": _lazyselect,
    "array_namespace": lambda *args, **kwargs: own_numpy,
    "xp_promote": lambda *args, **kwargs: args,  # which are of double precision already
    "xpx": types.SimpleNamespace(apply_where=_apply_where),
}
