"""SciPy's distributions a second time: the same code, in which NumPy's and SciPy's names mean dualad's.

A twin's methods are copies of the functions of SciPy's classes, with globals of their own: nothing of SciPy's is
touched, and nothing is done before a method is asked for a tensor. Not for: which methods are offered (``lifted.py``).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...lift.targets import lift_table

__all__ = ["twin_of"]

_classes: dict[type, type] = {}
_globals: dict[str, dict] = {}


def twin_of(distribution: Any) -> Any:
    """Return an object with the attributes of a distribution of SciPy's, whose methods take tensors."""
    twin = object.__new__(_class(type(distribution)))
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
        for name, thing in list(vars(sys.modules[module]).items()):
            of = getattr(thing, "__module__", None) or ""
            new = _OWN.get(name)
            if new is None:
                new = table.in_place_of(thing)
            if new is None and isinstance(thing, types.FunctionType) and of.startswith("scipy.stats"):
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
    "xp_promote": lambda *args, **kwargs: args,  # which are of double precision already
    "xpx": types.SimpleNamespace(apply_where=_apply_where),
}
