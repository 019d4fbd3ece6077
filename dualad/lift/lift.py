"""Running a function that says ``import numpy as np`` as if it said ``import dualad.numpy as np``.

``lift(f)`` executes the module of ``f`` a second time (``loading.py``), with the modules of its package or folder that
it uses, their imports of numpy, scipy and math pointing at ``dualad.numpy``, ``dualad.scipy`` and functions that work
on tensors, and finds ``f`` in it. NumPy itself, and the first loading, stay as they are. Not for: how a module is
loaded, or what a name of NumPy means.
"""

from __future__ import annotations

import builtins
import cmath
import functools
import importlib
import importlib.util
import math
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numpy as dualad_numpy
from ..core.buffer import Buffer
from ..core.tracer import Tracer
from ..errors import ArgumentTypeError, LoadingError
from ..loading import load_again, source_module_name
from ..numpy.scalars import is_array_in_numpy
from ..signatures import Args, Out

__all__ = ["lift"]


def lift(f: Callable[Args, Out]) -> Callable[Args, Out]:
    """Return a function whose NumPy loops, buffers and conversions work on traced values.

    Code that says ``import numpy as np`` can't write a traced value into ``np.zeros(3)``, because that is a plain
    array. In the lifted function creation functions make arrays that accept traced values, ``np.array``,
    ``np.asarray``, ``np.float64(x)`` and ``float(x)`` keep the derivative, functions of ``math`` work, and
    ``isinstance(x, np.ndarray)`` (or ``float``) is true for the tensors that stand for such values.

    Parameters
    ----------
    f : callable
        A function, decorated or not, a closure, a lambda, a class, a method of an object, or an object that can be
        called. Its module, and what that imports from its own package or folder, is loaded a second time: module-level
        code runs again, and what the program has changed in the first loading's globals is not seen.

    Returns
    -------
    callable
        The function, of the same arguments, for plain arrays and under every transform.

    Raises
    ------
    LoadingError
        If the source is in no file (typed into an interpreter), or the module fails when it is executed again.
    ArgumentTypeError
        If ``f`` is not callable, or is compiled.

    Examples
    --------
    >>> import colorsys
    >>> import dualad as da
    >>> lightness = da.lift(colorsys.rgb_to_hls)
    >>> float(da.grad(lambda r: lightness(r, 0.2, 0.1)[1])(0.6))
    0.5
    """
    if not callable(f):
        raise ArgumentTypeError(
            f"lift was given {f!r} of type {type(f).__name__}.",
            "it runs a function with other imports",
            "pass a function, a class, a method or an object that can be called",
        )
    return _lifted(f, {})


# ── finding what was given, in the second loading ────────────────────────────────────────────────────────────────

#: id of a module -> (the module, its second loading)
_again: dict[int, tuple[types.ModuleType, types.ModuleType]] = {}
_lock = threading.RLock()


def _lifted(f: Any, done: dict[int, Any]) -> Any:
    """Lift a callable; ``done`` holds what is being lifted, for functions that refer to each other."""
    if id(f) in done:
        return done[id(f)]
    if isinstance(f, functools.partial):
        return functools.partial(_lifted(f.func, done), *f.args, **f.keywords)
    if isinstance(f, types.MethodType):
        return _method(f, done)
    if not isinstance(f, (types.FunctionType, type)) and not hasattr(f, "__wrapped__"):
        call = type(f).__call__
        if isinstance(call, types.FunctionType):
            return _method(types.MethodType(call, f), done)
    found = _by_name(f)
    if found is not None:
        done[id(f)] = found
        return found
    if isinstance(f, types.FunctionType):
        return _rebuilt(f, done)
    wrapped = getattr(f, "__wrapped__", None)
    if wrapped is not None:  # decorated by compiled code (functools.lru_cache): the cache would hold tensors
        return _lifted(wrapped, done)
    raise ArgumentTypeError(
        f"lift was given {f!r} of type {type(f).__name__}.",
        "it is compiled, or was made inside a function, so there is no source of its own to run with other imports",
        "lift the Python function that calls it",
    )


def _second(name: str | None, what: str) -> types.ModuleType:
    """Return the second loading of a module."""
    module = sys.modules.get(name or "")
    if module is None or not str(getattr(module, "__file__", None)).endswith(".py"):
        raise LoadingError(
            f"lift was given {what}, of the module {name!r}.",
            "lift executes the source file of a function a second time, and this module has none (the function was"
            " typed into an interpreter or a notebook, made by exec, or is compiled)",
            "put the function into a .py file and import it, or write `import dualad.numpy as np` where it is defined",
        )
    if "@" in module.__name__:  # a second loading itself
        return module
    with _lock:
        known = _again.get(id(module))
        if known is None or known[0] is not module:
            again = _of_same_package(module) or load_again(module, _replacements(), builtins=_BUILTINS)
            _again[id(module)] = (module, again)
        return _again[id(module)][1]


def _of_same_package(module: types.ModuleType) -> types.ModuleType | None:
    """Return the second loading of a module whose package was loaded again for another of its modules."""
    package = module.__name__.partition(".")[0]
    for first, again in _again.values():
        if package != module.__name__ and first.__name__.partition(".")[0] == package:
            loading = vars(again)["__builtins__"]["__import__"]
            return loading(source_module_name(module), None, None, ("__name__",), 0)
    return None


_REDIRECTED = frozenset({"cmath", "math", "numpy", "scipy"})
_KEPT = frozenset({"dualad", *sys.stdlib_module_names})


def _top(name: Any) -> str:
    return str(name).partition(".")[0]


def _replacements() -> dict[str, Any]:
    given: dict[str, Any] = {"numpy": dualad_numpy, "math": _math, "cmath": _cmath}
    if importlib.util.find_spec("scipy") is not None:
        given["scipy"] = importlib.import_module("dualad.scipy")
    return given


def _by_name(f: Any) -> Any:
    """Return what has the name of ``f`` in the second loading of its module, if ``f`` has that name in the first."""
    name, qualified = getattr(f, "__module__", None), getattr(f, "__qualname__", "<locals>")
    if _top(name) in _REDIRECTED:
        raise ArgumentTypeError(
            f"lift was given `{qualified}` of {_top(name)}.",
            "lift redirects the imports of numpy, scipy and math, and leaves these themselves as they are",
            "lift the function that calls it, or take it from dualad.numpy or dualad.scipy",
        )
    if _top(name) == "dualad":
        return None
    if "<" in qualified or name is None:
        return None
    first: Any = sys.modules.get(name)
    for part in qualified.split("."):
        first = getattr(first, part, None)
    if first is not f:
        return None
    found: Any = _second(name, f"`{qualified}`")
    for part in qualified.split("."):
        found = getattr(found, part)
    return found


def _rebuilt(f: types.FunctionType, done: dict[int, Any]) -> types.FunctionType:
    """Make a function of the same code in the second loading's globals: for closures, lambdas and their like."""
    name = f.__globals__.get("__name__")
    if _top(name) in _KEPT:  # the wrapper of a decorator of the standard library, a function transformed by dualad
        namespace = f.__globals__
    elif isinstance(name, str) and sys.modules.get(name) is not None and vars(sys.modules[name]) is f.__globals__:
        namespace = vars(_second(name, f"`{f.__qualname__}`"))
    else:
        namespace = vars(_second(None, f"`{f.__qualname__}`"))
    cells = tuple([types.CellType() for _ in f.__closure__ or ()])
    new = types.FunctionType(f.__code__, namespace, f.__name__, f.__defaults__, cells)
    new.__kwdefaults__ = f.__kwdefaults__
    new.__qualname__, new.__doc__, new.__dict__ = f.__qualname__, f.__doc__, dict(vars(f))
    done[id(f)] = new
    for old, cell in zip(f.__closure__ or (), cells, strict=True):
        try:
            held = old.cell_contents
        except ValueError:  # not assigned yet
            continue
        cell.cell_contents = (
            held if namespace is f.__globals__ and not callable(held) else _inside(held, namespace, done)
        )
    return new


def _inside(held: Any, namespace: dict, done: dict[int, Any]) -> Any:
    """Return what a free variable holds, as the lifted function shall see it."""
    if isinstance(held, types.ModuleType):
        if _top(held.__name__) in _REDIRECTED:
            return namespace["__builtins__"]["__import__"](held.__name__, namespace, None, ("__name__",), 0)
        return held
    if isinstance(held, (types.FunctionType, types.MethodType, functools.partial)):
        try:
            return _lifted(held, done)
        except (ArgumentTypeError, LoadingError):
            return held
    return held


def _method(f: types.MethodType, done: dict[int, Any]) -> Callable:
    """Lift a method: its object is seen as one of the second loading's class, with the same attributes."""
    if isinstance(f.__self__, type):  # a classmethod
        return getattr(_lifted(f.__self__, done), f.__name__)
    original = f.__self__
    cls = _by_name(type(original))
    if cls is None:
        return types.MethodType(_lifted(f.__func__, done), original)
    self = object.__new__(cls)
    if hasattr(original, "__dict__"):
        self.__dict__ = original.__dict__  # the same attributes: what the method sets is set
    for base in type(original).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__dict__", "__weakref__") and hasattr(original, slot):
                object.__setattr__(self, slot, getattr(original, slot))
    return getattr(self, f.__name__)


# ── Python's own names ───────────────────────────────────────────────────────────────────────────────────────────


def _isinstance(x: object, types_: Any, /) -> bool:
    """As ``isinstance``; a tensor is also what NumPy would have in its place: an array, a scalar, a Python float."""
    if builtins.isinstance(x, types_):
        return True
    if not builtins.isinstance(x, Tracer):
        return False
    return builtins.isinstance(_like_in_numpy(x), types_)


def _like_in_numpy(x: Any) -> Any:
    if is_array_in_numpy(x):
        return np.empty((0,) * len(x.shape), x.dtype)
    return x.dtype.type(0)


class _Number(type):
    """The type of what stands for ``float`` and ``complex``: calls keep a tensor, everything else is Python's."""

    def __call__(cls, *args):
        original = vars(cls)["_original"]
        if args and builtins.isinstance(args[0], Tracer) and type(args[0]) is not Buffer:
            return _number(args[0], original)
        return original(*args)

    def __instancecheck__(cls, x: object) -> bool:
        return _isinstance(x, vars(cls)["_original"])

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, vars(cls)["_original"])

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is vars(cls)["_original"]

    def __hash__(cls) -> int:
        return hash(vars(cls)["_original"])

    def __repr__(cls) -> str:
        return repr(vars(cls)["_original"])


def _number(x: Any, original: type):
    if x.size != 1:
        raise TypeError("only length-1 arrays can be converted to Python scalars")
    if original is float and x.dtype.kind == "c":
        raise TypeError("float() argument must be a string or a real number, not 'complex'")
    return np.reshape(x, ()).astype(np.dtype(original), copy=False)


def _number_type(original: type) -> type:
    # `dtype` is what NumPy asks a class for that is none of its own: dtype=float means what it says.
    return _Number(original.__name__, (original,), {"_original": original, "dtype": np.dtype(original)})


_BUILTINS = {"isinstance": _isinstance, "float": _number_type(float), "complex": _number_type(complex)}


# ── math ─────────────────────────────────────────────────────────────────────────────────────────────────────────

#: name in math (and cmath) -> NumPy's function
_SAME: dict[str, Callable] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cos": np.cos, "cosh": np.cosh, "exp": np.exp, "isfinite": np.isfinite, "isinf": np.isinf,
    "isnan": np.isnan, "log10": np.log10, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan,
    "tanh": np.tanh,
}  # fmt: skip

_REAL: dict[str, Callable] = {
    "atan2": np.arctan2, "cbrt": np.cbrt, "ceil": np.ceil, "copysign": np.copysign, "degrees": np.degrees,
    "exp2": np.exp2, "expm1": np.expm1, "fabs": np.fabs, "floor": np.floor, "fmod": np.fmod, "log1p": np.log1p,
    "log2": np.log2, "pow": np.power, "radians": np.radians, "remainder": lambda x, y: x - y * np.rint(x / y),
    "trunc": np.trunc, "dist": lambda p, q: np.linalg.norm(dualad_numpy.array(p) - dualad_numpy.array(q)),
    "fsum": lambda entries: np.sum(dualad_numpy.array(list(entries))),
    "hypot": lambda *xs: functools.reduce(np.hypot, xs, 0.0),
    "ldexp": lambda x, i: x * 2.0**i,
    "prod": lambda entries, start=1: functools.reduce(lambda a, b: a * b, entries, start),
    "sumprod": lambda p, q: sum(a * b for a, b in zip(p, q, strict=True)),
}  # fmt: skip

_SPECIAL = {"erf": "erf", "erfc": "erfc", "gamma": "gamma", "lgamma": "gammaln"}


def _log(x, base=None):
    return np.log(x) if base is None else np.log(x) / np.log(base)


def _modf(x):
    whole = np.trunc(x)
    return x - whole, whole


def _isclose(a, b, *, rel_tol=1e-09, abs_tol=0.0):
    return abs(a - b) <= np.maximum(rel_tol * np.maximum(abs(a), abs(b)), abs_tol)


def _special(name: str) -> Callable:
    def function(x):
        return getattr(importlib.import_module("scipy.special"), name)(x)

    return function


def _complex_first(function: Callable) -> Callable:
    return lambda *xs: function(*[x + 0j for x in xs])


def _either(original: Callable, on_tensors: Callable) -> Callable:
    """Make a function of ``math`` that computes with NumPy when it is given a tensor."""

    @functools.wraps(original)
    def function(*args, **kwargs):
        if any([_holds(a) for a in args]):
            return on_tensors(*args, **kwargs)
        return original(*args, **kwargs)

    return function


def _holds(x: Any) -> bool:
    if builtins.isinstance(x, (list, tuple)):
        return any(_holds(item) for item in x)
    return builtins.isinstance(x, Tracer) and not (type(x) is Buffer and not x.shape)


def _namespace(original: types.ModuleType, meanings: dict[str, Callable]) -> types.ModuleType:
    module = types.ModuleType(original.__name__, original.__doc__)
    for name, thing in vars(original).items():
        if name in meanings:
            setattr(module, name, _either(thing, meanings[name]))
        elif not name.startswith("__"):
            setattr(module, name, thing)
    return module


_math = _namespace(
    math,
    {
        **_SAME,
        **_REAL,
        **{k: _special(v) for k, v in _SPECIAL.items()},
        "log": _log,
        "modf": _modf,
        "isclose": _isclose,
    },
)
_cmath = _namespace(
    cmath,
    {
        **{k: v if k.startswith("is") else _complex_first(v) for k, v in _SAME.items()},
        "log": lambda z, base=None: _log(z + 0j, base),
        "isclose": _isclose,
        "phase": np.angle,
        "polar": lambda z: (np.abs(z), np.angle(z)),
        "rect": lambda r, phi: r * (np.cos(phi) + 1j * np.sin(phi)),
    },
)
