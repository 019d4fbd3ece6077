"""``install``: modules with autograd's names, in the place of autograd, for packages that import it.

For: the table of names, and ``sys.modules``. Not for: what the names mean (the files beside this one).
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import dualad.numpy
import dualad.scipy.integrate
import dualad.scipy.linalg
import dualad.scipy.signal
import dualad.scipy.special
import dualad.scipy.stats
from dualad.errors import LoadingError

from . import differential_operators, extend, misc, signal, tracer

__all__ = ["install", "installed", "uninstall"]

_BUILTINS = {"dict": dict, "isinstance": isinstance, "list": list, "tuple": tuple, "type": type}
_JOINS = ("column_stack", "concatenate", "hstack", "stack", "vstack")


class _Tensors(type):
    """The type of names that stand for our tensors."""

    def __instancecheck__(cls, x: object) -> bool:
        return tracer.isbox(x)


class ArrayBox(extend.Box, metaclass=_Tensors):
    """The class of tensors, for ``isinstance`` and annotations."""


class SequenceBox:
    """A class without instances: lists and tuples of tensors are lists and tuples."""


class DictBox:
    """A class without instances: dicts of tensors are dicts."""


def _names(module: types.ModuleType, *more: types.ModuleType) -> dict[str, Any]:
    return {name: getattr(m, name) for m in (module, *more) for name in m.__all__}


def _subvals(x: Any, pairs: Any) -> tuple:
    new = list(x)
    for i, value in pairs:
        new[i] = value
    return tuple(new)


def _unary(operator: Callable) -> Callable:
    """Autograd's core has the operators of one argument: ``make_vjp(fun, x)``."""
    return lambda fun, x: operator(fun)(x)


def _of_any_iterable(function: Callable) -> Callable:
    """Autograd joins the arrays of any iterable, NumPy those of sequences."""

    @functools.wraps(function)
    def join(arrays, *args, **kwargs):
        return function(arrays if isinstance(arrays, (list, np.ndarray)) else list(arrays), *args, **kwargs)

    return join


@functools.cache
def _modules() -> dict[str, types.ModuleType]:
    """Make the modules: a name of its own, else one of the module behind it."""
    operators = _names(differential_operators)
    rules = _names(extend, tracer)
    boxes = {"ArrayBox": ArrayBox}
    containers = {"DictBox": DictBox, "SequenceBox": SequenceBox}
    vjps = {"unbroadcast": misc.unbroadcast, "unbroadcast_f": misc.unbroadcast_f}
    flat = {"flatten": misc.flatten, "flatten_func": misc.flatten_func}
    wrapping = {"unary_to_nary": differential_operators.nary, "wraps": functools.wraps}
    checks = {"check_grads": misc.check_grads, "combo_check": misc.combo_check}
    unary = {name: _unary(operators[name]) for name in ("make_jvp", "make_vjp")}
    table: dict[str, tuple[Any, dict[str, Any]]] = {
        "": (None, {**_BUILTINS, **operators, "primitive": extend.primitive}),
        "builtins": (None, {**_BUILTINS, **containers}),
        "core": (None, {**rules, **unary}),
        "differential_operators": (None, operators),
        "extend": (None, rules),
        "misc": (None, {}),
        "misc.fixed_points": (None, {"fixed_point": misc.fixed_point}),
        "misc.flatten": (None, flat),
        "misc.optimizers": (None, {"adam": misc.adam, "rmsprop": misc.rmsprop, "sgd": misc.sgd}),
        "numpy": (dualad.numpy, {name: _of_any_iterable(getattr(dualad.numpy, name)) for name in _JOINS}),
        "numpy.fft": (dualad.numpy.fft, {}),
        "numpy.linalg": (dualad.numpy.linalg, {}),
        "numpy.numpy_boxes": (None, boxes),
        "numpy.numpy_vjps": (dualad.numpy, vjps),
        "numpy.numpy_wrapper": (dualad.numpy, {}),
        "numpy.random": (dualad.numpy.random, {}),
        "scipy": (None, {}),
        "scipy.integrate": (dualad.scipy.integrate, {}),
        "scipy.linalg": (dualad.scipy.linalg, {}),
        "scipy.signal": (dualad.scipy.signal, {"convolve": signal.convolve}),
        "scipy.special": (dualad.scipy.special, {}),
        "scipy.stats": (dualad.scipy.stats, {}),
        "test_util": (None, checks),
        "tracer": (None, {**rules, "primitive": extend.primitive}),
        "util": (None, {"func": lambda f: f, "subval": lambda x, *pair: _subvals(x, [pair]), "subvals": _subvals}),
        "wrap_util": (None, wrapping),
    }
    for name in ("beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"):
        distribution = getattr(dualad.scipy.stats, name)
        table[f"scipy.stats.{name}"] = (distribution, {})
    made: dict[str, types.ModuleType] = {}
    for name, (behind, own) in table.items():
        full = f"autograd.{name}".rstrip(".")
        made[full] = module = _Alias(full, behind, own)
        parent, _, last = full.rpartition(".")
        if parent:
            setattr(made[parent], last, module)
    setattr(made["autograd.misc"], "flatten", misc.flatten)  # noqa: B010 - in autograd, too, the function hides it
    return made


class _Alias(types.ModuleType):
    """A module with names of its own in front of those of another object."""

    def __init__(self, name: str, behind: Any, own: dict[str, Any]) -> None:
        super().__init__(name, f"The names of {name}, by dualad.")
        self.__path__: list[str] = []  # whatever is not in the table is not found
        self.__all__ = sorted({*own, *getattr(behind, "__all__", ())})
        vars(self).update(own, _behind=behind)

    def __getattr__(self, name: str) -> Any:
        behind = vars(self).get("_behind")
        if behind is None or (name.startswith("__") and name not in self.__all__):
            raise AttributeError(f"dualad's module {self.__name__!r} has no attribute {name!r}")
        value = getattr(behind, name)
        setattr(self, name, value)
        return value


def install() -> None:
    """Let ``import autograd`` give dualad, in this process, until :func:`uninstall`.

    Raises
    ------
    LoadingError
        If autograd itself was imported before: what holds it already would not see the change.

    Examples
    --------
    >>> import dualad.compat.autograd
    >>> dualad.compat.autograd.install()
    >>> import autograd
    >>> autograd.grad(lambda x: x**3)(2.0)
    np.float64(12.0)
    >>> dualad.compat.autograd.uninstall()
    """
    modules = _modules()
    loaded = sys.modules.get("autograd")
    if loaded is not None and loaded is not modules["autograd"]:
        raise LoadingError(
            "You installed dualad in the place of autograd, which has been imported.",
            f"modules that imported {getattr(loaded, '__file__', 'it')} keep its functions, and tensors would mix",
            "call dualad.compat.autograd.install() first, before anything that imports autograd",
        )
    sys.modules.update(modules)


def uninstall() -> None:
    """Take dualad's modules from autograd's place; modules that have imported them keep them."""
    for name, module in _modules().items():
        if sys.modules.get(name) is module:
            del sys.modules[name]


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Have ``import autograd`` give dualad within a ``with`` block."""
    install()
    try:
        yield
    finally:
        uninstall()
