"""Python's own names as lifted code sees them: ``isinstance``, ``float``, ``complex`` and ``type``.

Each does what Python's does, and answers for a tensor as for what NumPy would have in its place: an array, a scalar, a
Python number. Not for: where they take the originals' places (``targets.py``).
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from .. import numpy as dualad_numpy
from ..core.tracer import Tracer, python_number
from ..dual import Dual
from ..memory.buffer import Buffer
from ..numpy.scalars import SCALARS, is_array_in_numpy

__all__ = ["BUILTINS"]


def _isinstance(x: object, types_: Any, /) -> bool:
    """As ``isinstance``; a tensor is also what NumPy would have in its place: an array, a scalar, a Python number."""
    if builtins.isinstance(x, types_):
        return True
    if not builtins.isinstance(x, Tracer):
        return False
    return builtins.isinstance(_like_in_numpy(x), types_)


def _like_in_numpy(x: Any) -> Any:
    if is_array_in_numpy(x):
        return np.empty((0,) * len(x.shape), x.dtype)
    while builtins.isinstance(x, Dual):
        x = x._primal
    return x if builtins.type(x) in _PYTHONS else x.dtype.type(0)


_PYTHONS = frozenset({bool, int, float, complex})


# ── float and complex ────────────────────────────────────────────────────────────────────────────────────────────


class _Stands(type):
    """The type of what stands for a type of Python: equal to it, hashed and shown as it is, with its instances."""

    def __instancecheck__(cls, x: object) -> bool:
        return _isinstance(x, _original(cls)) if _original(cls) else type.__instancecheck__(cls, x)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, _original(cls)) if _original(cls) else type.__subclasscheck__(cls, other)

    def __eq__(cls, other: object) -> bool:
        return True if other is cls or (_original(cls) is not None and other is _original(cls)) else NotImplemented

    def __hash__(cls) -> int:
        return hash(_original(cls)) if _original(cls) else type.__hash__(cls)

    def __repr__(cls) -> str:
        return repr(_original(cls)) if _original(cls) else type.__repr__(cls)


def _original(cls: type) -> Any:
    """Return the type that a class stands for; None for a class of the user's that is derived of one."""
    return vars(cls).get("_original")


class _Number(_Stands):
    """The type of what stands for ``float`` and ``complex``: calls keep a tensor."""

    def __call__(cls, *args, **kwargs):
        original = _original(cls)
        if original is None:
            return type.__call__(cls, *args, **kwargs)
        parts = (*args, *kwargs.values())
        if not any([builtins.isinstance(x, Tracer) and type(x) is not Buffer for x in parts]):
            return original(*args, **kwargs)
        return (_float if original is float else _complex)(*args, **kwargs)


def _float(x: Any, /):
    if x.size != 1:
        raise TypeError("only length-1 arrays can be converted to Python scalars")
    if x.dtype.kind == "c":
        raise TypeError("float() argument must be a string or a real number, not 'complex'")
    x = np.reshape(x, ())[()]
    return python_number(x if x.dtype.kind == "f" else x.astype(float))


def _complex(real: Any = 0.0, imag: Any = 0.0):
    """As ``complex``: a part that is complex itself adds to the other one."""
    if np.size(real) != 1 or np.size(imag) != 1:
        raise TypeError("only length-1 arrays can be converted to Python scalars")
    real, imag = [np.reshape(x, ())[()] for x in (real, imag)]
    whole = dualad_numpy.array(real, dtype=complex)
    whole.imag += np.real(imag)
    whole.real -= np.imag(imag)
    return python_number(whole[()])


def _number_type(original: type) -> type:
    # `dtype` is what NumPy asks a class for that is none of its own: dtype=float means what it says.
    return _Number(original.__name__, (original,), {"_original": original, "dtype": np.dtype(original)})


# ── type ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Type(_Stands):
    """The type of what stands for ``type``: ``type(x) is float`` is true where ``float`` is ours."""

    def __call__(cls, *args, **kwargs):
        if _original(cls) is None:
            return type.__call__(cls, *args, **kwargs)
        if len(args) != 1 or kwargs:
            return type(*args, **kwargs)
        x = args[0]
        kind = type(_like_in_numpy(x)) if builtins.isinstance(x, Tracer) else type(x)
        return _STANDING.get(kind, kind)


_TYPE: type = _Type("type", (type,), {"_original": type})

#: what lifted code finds in the place of Python's names
BUILTINS: dict[str, Any] = {
    "complex": _number_type(complex),
    "float": _number_type(float),
    "isinstance": _isinstance,
    "type": _TYPE,
}

#: a type -> what has its name in lifted code
_STANDING: dict[type, type] = {
    float: BUILTINS["float"],
    complex: BUILTINS["complex"],
    type: _TYPE,
    np.ndarray: dualad_numpy.ndarray,
    **{_original(standing): standing for standing in SCALARS.values()},
}
