"""How a function of SciPy gets a second meaning for tensors and keeps its first for everything else.

For: ``mirrors`` (pairs SciPy's function with our version), ``refuses`` (a reason instead of a version) and
``falls_back`` (the names of a SciPy module that have neither); how ``args`` and ``"dualad"`` among the arguments are
read; ``calling_scipy``, for errors raised while SciPy calls the user's functions. Not for: any single function.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.tables import Verdict
from ..core.tracer import Tracer, tracer_in
from ..errors import DualadError, UnsupportedError
from ..jvp import stop_gradient
from ..surface.arguments import array_operand

__all__ = [
    "MIRRORED", "Verdict", "as_args", "calling_scipy", "falls_back", "is_own", "known_value", "mirrors", "refuses",
    "refuses_objects", "wide",
]  # fmt: skip

#: qualified name of a SciPy function -> what dualad does with it on tensors; the coverage table is made of it
MIRRORED: dict[str, Verdict] = {}


def as_args(args: Any) -> tuple:
    """Return the ``args`` of a function that SciPy calls, which may be a single one."""
    return args if isinstance(args, tuple) else (args,)


def is_own(*given: Any) -> bool:
    """Whether dualad's derivatives are requested, as in ``jac="dualad"``."""
    return any([type(x) is str and x == "dualad" for x in given])


def wide(x: Any) -> Any:
    """Return data in double precision, real or complex."""
    x = array_operand(x)
    return x.astype(np.complex128 if np.result_type(x).kind == "c" else np.float64)


def known_value(x: Any) -> Any:
    """Return the plain value of an argument that is known now, or None (under ``vmap`` or ``trace``)."""
    x = stop_gradient(x)
    return None if isinstance(x, Tracer) else x


@contextlib.contextmanager
def calling_scipy() -> Iterator[None]:
    """Run SciPy, which calls the user's functions: errors raised in them are not about SciPy's arguments."""
    try:
        yield
    except DualadError as error:
        error.told = True
        raise


def mirrors(original: Callable | None, kind: str = "composite", words: str | None = None) -> Callable:
    """Decorate our version of a SciPy function: it is called if there is a tensor among the arguments, else SciPy's.

    Parameters
    ----------
    original : callable or None
        SciPy's function; None where the installed SciPy does not have it yet, and ours serves all arguments.
    kind : str
        ``"op"`` or ``"composite"``, for the coverage table.
    words : str, optional
        The docstring of a version that another function made, which gets SciPy's name as well.
    """

    def decorate(ours: Callable) -> Callable:
        if words is not None:
            ours.__name__ = ours.__qualname__ = original.__name__
            ours.__doc__ = words
        module = ours.__module__.removeprefix("dualad.")
        MIRRORED[f"{module}.{ours.__name__}"] = Verdict(kind)
        if original is None:
            return ours

        @functools.wraps(ours)
        def function(*args, **kwargs):
            if tracer_in(*args, *kwargs.values()) is None:
                return original(*args, **kwargs)
            return ours(*args, **kwargs)

        summary = inspect.getdoc(ours) or f"Compute ``{module}.{ours.__name__}`` of arrays or tensors."
        function.__doc__ = f"{summary}\n\nParameters and results are those of ``{module}.{ours.__name__}``.\n"
        return function

    return decorate


def refuses(original: Callable, name: str, why: str, instead: str = "") -> Callable:
    """Make a function that is SciPy's for plain arguments and an error with a reason for tensors."""
    MIRRORED[name] = Verdict("unsupported", why, instead)
    return _with_refusals(original, name, why, instead)


def _with_refusals(original: Callable, name: str, why: str, instead: str, inside: Callable = tracer_in) -> Callable:
    @functools.wraps(original)
    def function(*args, **kwargs):
        tensor = inside([*args, *kwargs.values()])
        if tensor is not None:
            raise UnsupportedError(
                f"{name} was called on a {type(tensor).__name__} of shape {tensor.shape}.", why, instead
            )
        return original(*args, **kwargs)

    return function


def refuses_objects(original: type, why: str, instead: str) -> type:
    """Make a class that is SciPy's, but for tensors given to its constructor or to its objects: they are refused."""
    name = f"{original.__module__.partition('._')[0]}.{original.__name__}"
    MIRRORED[name] = Verdict("unsupported", why, instead)
    methods = {m: _with_refusals(getattr(original, m), name, why, instead) for m in ("__init__", "__call__")}
    return type(original.__name__, (original,), {**methods, "__module__": f"dualad.{name.rpartition('.')[0]}"})


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_NO_VERSION = "it is compiled or coerces its arguments to plain arrays, and has no differentiable version here"
_INSTEAD = (
    "compute it outside the transform, compose it of functions that have one, or give a rule of your own"
    " (dualad.custom_jvp)"
)


def falls_back(
    module: types.ModuleType, namespace: dict, inside: Callable[[Any], Any] = tracer_in
) -> tuple[Callable, Callable]:
    """Make ``__getattr__`` and ``__dir__`` of a module that mirrors a SciPy module: SciPy's names, guarded.

    A function refuses tensors with words; ufuncs, which dispatch, classes and constants are passed on as they are.
    ``inside`` finds a tensor in an argument.
    """
    guarded: dict[str, Callable] = {}  # not in the namespace, where a `sum` of SciPy's would hide Python's

    def __getattr__(name: str) -> Any:
        thing = guarded.get(name) or getattr(module, name)
        function = isinstance(thing, _FUNCTIONS) or type(thing).__name__ == "MultiUFunc"  # several ufuncs in one
        if function and not name.startswith("_") and name not in guarded:
            thing = guarded[name] = _with_refusals(thing, f"{module.__name__}.{name}", _NO_VERSION, _INSTEAD, inside)
        return thing

    def __dir__() -> list[str]:
        return sorted({*namespace, *dir(module)})

    return __getattr__, __dir__
