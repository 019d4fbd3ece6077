"""Arrays of other libraries: which may stand beside tensors, and what to write for those that may not.

A masked array, a matrix, a pandas Series, an xarray object or a quantity with a unit computes by rules of its own. A
tensor would take it for the numbers inside and compute by NumPy's rules: the mask, the index or the unit would be lost
without a word. Such objects are refused by name. Arrays that compute as NumPy's do (JAX's, PyTorch's) may be constants
beside tensors; only where a derivative or a batch axis is asked of them are they refused, because they can't carry it.
Which arrays can is said here alone: NumPy's, Dask's, CuPy's, and those of a type given to ``register_array``.
Not for: compiled code of other libraries (``surface/foreign.py``), nor for tensors, which callers look for first.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import numpy as np

from ..errors import ArgumentTypeError, ForeignArrayError

__all__ = [
    "advice",
    "can_carry",
    "cannot_carry",
    "has_own_arithmetic",
    "is_sparse",
    "mixed_arithmetic_error",
    "register_array",
    "remembered",
]

T = TypeVar("T")

#: arrays of other libraries that can carry a derivative, by package and name: so none of them is imported to be known
_BUILT_IN = frozenset({("cupy", "ndarray"), ("dask.array", "Array")})

#: types given to ``register_array``
_registered: set[type] = set()

_answers: list = []


def remembered(judge: Callable[[type], T]) -> Callable[[type], T]:
    """Remember the flattening of a type, until another one is registered."""
    _answers.append(lru_cache(1000)(judge))
    return _answers[-1]


@remembered
def can_carry(kind: type) -> bool:
    """Whether arrays of a type that is not NumPy's own can carry a tangent or a batch axis."""
    of = kind.__module__
    return kind in _registered or any(
        kind.__name__ == name and (of == package or of.startswith(f"{package}.")) for package, name in _BUILT_IN
    )


def register_array(kind: type) -> type:
    """Let arrays of another library carry derivatives and batch axes. Usable as a decorator.

    The type has to compute as NumPy's arrays do, through NumPy's protocols. Dask's and CuPy's arrays are known already.
    Subclasses of a registered type are types of their own.

    Parameters
    ----------
    kind : type
        A class with ``__array_ufunc__``, ``__array_function__``, ``shape`` and ``dtype``.

    Returns
    -------
    type
        ``kind`` itself.

    Raises
    ------
    ArgumentTypeError
        If it is no class, lacks one of the protocols, or is a subclass of ``numpy.ndarray`` (whose plain subclasses
        are viewed as ndarrays, and whose others compute by rules that a derivative would lose).

    Examples
    --------
    >>> @da.register_array
    ... class Boxed(np.lib.mixins.NDArrayOperatorsMixin):
    ...     def __init__(self, data):
    ...         self.data = np.asarray(data)
    ...     shape = property(lambda self: self.data.shape)
    ...     dtype = property(lambda self: self.data.dtype)
    ...     def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
    ...         return Boxed(getattr(ufunc, method)(*[getattr(x, "data", x) for x in inputs], **kwargs))
    ...     def __array_function__(self, function, types, args, kwargs):
    ...         return NotImplemented
    >>> value, slope = da.jvp(np.square, (Boxed([1.0, 3.0]),), (Boxed([1.0, 1.0]),))
    >>> slope.data
    array([2., 6.])
    """
    missing = [name for name in ("__array_ufunc__", "__array_function__", "shape", "dtype") if not hasattr(kind, name)]
    given: object = kind
    if not isinstance(given, type):
        problem, why = f"{kind!r} is no class", "arrays are recognized by their type"
        instead = f"pass its class: dualad.register_array({type(kind).__name__})"
    elif issubclass(kind, np.ndarray):
        problem, why = f"`{kind.__name__}` is a subclass of numpy.ndarray", "a derivative would lose what it adds"
        instead = "pass np.asarray(x) to the transform; a subclass without arithmetic of its own needs no registration"
    elif missing:
        problem = f"`{kind.__name__}` has no {', '.join(missing)}"
        why = "a derivative is computed by NumPy's own functions, which ask the arrays themselves through these"
        instead = "pass np.asarray(x) to the transform, or give the class NumPy's protocols"
    else:
        _registered.add(kind)
        for answers in _answers:
            answers.cache_clear()
        return kind
    raise ArgumentTypeError(f"register_array: {problem}.", why, instead)


#: what a plain subclass of ndarray leaves alone
_ARITHMETIC = frozenset(
    {"__array_ufunc__", "__array_function__", "__divmod__", "__rdivmod__", "__neg__", "__abs__", "__pos__"}
    | {f"__{side}{name}__" for side in ("", "r", "i") for name in (
        "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift",
    )}
    | {"all", "any", "clip", "cumprod", "cumsum", "dot", "max", "mean", "min", "prod", "ptp", "std", "sum", "var"}
)  # fmt: skip


@remembered
def has_own_arithmetic(kind: type) -> bool:
    """Whether objects of a type compute by rules of their own, which a tensor beside them would lose."""
    if issubclass(kind, np.ndarray):
        own = kind.__mro__[: kind.__mro__.index(np.ndarray)]
        return any(not _ARITHMETIC.isdisjoint(vars(cls)) for cls in own)
    if issubclass(kind, (np.generic, type)) or kind.__module__.partition(".")[0] in ("numpy", "dualad"):
        return False
    if can_carry(kind):
        return False
    if hasattr(kind, "__array_ufunc__"):
        return kind.__array_ufunc__ is not None  # with None, Python asks its own operators
    # Matrices of SciPy and SymPy; not the arrays of the array API and of DLPack, which compute as NumPy's do.
    return hasattr(kind, "__array_priority__") and not any(hasattr(kind, a) for a in _EXCHANGED)


@remembered
def is_sparse(kind: type) -> bool:
    """Whether objects of a type are sparse matrices or arrays of SciPy's."""
    return any(cls.__module__ == "scipy.sparse._base" for cls in kind.__mro__)


_EXCHANGED = ("__array_namespace__", "__dlpack__")


def cannot_carry(kind: type, name: object, where: str) -> ArgumentTypeError:
    """The error for an argument of a type that holds numbers, and can carry neither a tangent nor a batch axis."""
    return ArgumentTypeError(
        f"{where}: {name} is {_named(kind)}.",
        "its arithmetic differs from ndarray's (labels, masks, units), and no rule knows it"
        if has_own_arithmetic(kind)
        else "only arrays of NumPy's and of registered types, and numbers, can carry a tangent or a batch axis: this"
        " would be taken for a constant, and its derivative would be lost",
        f"pass {advice(kind)}",
    )


def mixed_arithmetic_error(kind: type, how: str = "") -> ForeignArrayError:
    """Make the error for an object, of a type with arithmetic of its own, that met a tensor."""
    return ForeignArrayError(
        f"{_named(kind)} met a tensor{how}.",
        "it computes by rules of its own (labels, masks, units, matrix products), and a tensor by NumPy's: what those"
        " rules add would be lost without a word",
        f"take the numbers out of it before they meet a tensor: {advice(kind)}",
    )


def advice(kind: type) -> str:
    """Return how the numbers are taken out of an array of another library, for an object ``x`` of this type."""
    if issubclass(kind, np.ma.MaskedArray):
        return "x.filled(value), and a mask of its own for np.where where the masked entries matter"
    if issubclass(kind, np.matrix):
        return "np.asarray(M), with @ for the matrix product that M * v is"
    if kind.__module__.partition(".")[0] == "scipy":
        return "dualad.scipy.sparse.csr_array(A), which meets tensors"
    if issubclass(kind, numbers.Number):
        return "float(x)"
    if hasattr(kind, "to_numpy"):
        return "x.to_numpy()"
    if hasattr(kind, "data_vars"):
        return "x[name].to_numpy(), a variable at a time"
    if hasattr(kind, "to_value") or (hasattr(kind, "value") and hasattr(kind, "units")):
        return "x.value, after x.to(unit)"
    if hasattr(kind, "magnitude"):
        return "x.magnitude, after x.to(unit)"
    if hasattr(kind, "todense"):
        return "x.todense()"
    return "np.asarray(x)"


def _named(kind: type) -> str:
    root = kind.__module__.partition(".")[0]
    whole = kind.__name__ if root in ("builtins", "__main__") else f"{root}.{kind.__qualname__}"
    return f"an object of the class {whole}" if issubclass(kind, numbers.Number) else f"a {whole}"
