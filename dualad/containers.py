"""Arrays of other libraries: which may stand beside tensors, and what to write for those that may not.

A masked array, a matrix, a pandas Series, an xarray object or a quantity with a unit computes by rules of its own. A
tensor would take it for the numbers inside and compute by NumPy's rules: the mask, the index or the unit would be lost
without a word. Such objects are refused by name. Arrays that compute as NumPy's do (JAX's, PyTorch's) may be constants
beside tensors; only where a derivative or a batch axis is asked of them are they refused, because they can't carry it.
Not for: compiled code of other libraries (``surface/foreign.py``), nor for tensors, which callers look for first.
"""

from __future__ import annotations

import array
import numbers
from typing import Any

import numpy as np

from .errors import ArgumentTypeError, ForeignArrayError

__all__ = ["ARRAY_LIBRARIES", "advice", "has_own_arithmetic", "met", "refuse_array_like"]

#: array libraries that speak NumPy's protocols and compute as NumPy does: their arrays may be primals
ARRAY_LIBRARIES = frozenset({"numpy", "cupy", "dask"})

#: what a plain subclass of ndarray leaves alone
_ARITHMETIC = frozenset(
    {"__array_ufunc__", "__array_function__", "__divmod__", "__rdivmod__", "__neg__", "__abs__", "__pos__"}
    | {f"__{side}{name}__" for side in ("", "r", "i") for name in (
        "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift",
    )}
    | {"all", "any", "clip", "cumprod", "cumsum", "dot", "max", "mean", "min", "prod", "ptp", "std", "sum", "var"}
)  # fmt: skip

#: type -> whether it computes by rules of its own; types only, so that nothing of the user's is kept alive for long
_known: dict[type, bool] = {}


def has_own_arithmetic(kind: type) -> bool:
    """Say whether objects of a type compute by rules of their own, which a tensor beside them would lose."""
    known = _known.get(kind)
    if known is None:
        if len(_known) > 1000:
            _known.clear()
        known = _known[kind] = _judged(kind)
    return known


def _judged(kind: type) -> bool:
    if issubclass(kind, np.ndarray):
        own = kind.__mro__[: kind.__mro__.index(np.ndarray)]
        return any(not _ARITHMETIC.isdisjoint(vars(cls)) for cls in own)
    if issubclass(kind, (np.generic, type)) or kind.__module__.partition(".")[0] in (*ARRAY_LIBRARIES, "dualad"):
        return False
    if hasattr(kind, "__array_ufunc__"):
        return kind.__array_ufunc__ is not None  # with None, Python asks its own operators
    # Matrices of SciPy and SymPy; not the arrays of the array API and of DLPack, which compute as NumPy's do.
    return hasattr(kind, "__array_priority__") and not any(hasattr(kind, a) for a in _EXCHANGED)


_EXCHANGED = ("__array_namespace__", "__dlpack__")
_SAYS_ARRAY = (*_EXCHANGED, "__array__", "__array_interface__", "__array_struct__", "__array_ufunc__")


def refuse_array_like(x: Any, name: object, where: str) -> None:
    """Refuse an argument that holds numbers, and is neither a number nor an array that can carry a derivative."""
    kind = type(x)
    like = any(hasattr(kind, a) for a in _SAYS_ARRAY) or isinstance(x, (numbers.Number, memoryview, array.array))
    if isinstance(x, type) or not (like or has_own_arithmetic(kind)):
        return
    raise ArgumentTypeError(
        f"{where}: {name} is {_named(kind)}.",
        "its arithmetic differs from ndarray's (labels, masks, units), and no rule knows it"
        if has_own_arithmetic(kind)
        else "only NumPy's arrays and Python's numbers can carry a tangent or a batch axis: this would be taken for a"
        " constant, and its derivative would be lost",
        f"pass {advice(kind)}",
    )


def met(kind: type, how: str = "") -> ForeignArrayError:
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
