"""Python's own names as lifted code sees them: ``isinstance``, ``hasattr``, ``type``, ``float``, ``complex``.

Each does what Python's does, and answers for a tensor as for what NumPy would have in its place: an array, a scalar, a
Python number. Not for: where they take the originals' places (``targets.py``).
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numpy as dualad_numpy
from ..base.likeness import STANDING, standing_in
from ..core.tracer import Tracer, python_number
from ..memory.buffer import Buffer
from ..numpy.direct import direct
from ..numpy.scalars import SCALARS

__all__ = ["ASKING", "BUILTINS"]


def _isinstance(x: object, types_: Any, /) -> bool:
    """As ``isinstance``; a tensor is also what NumPy would have in its place: an array, a scalar, a Python number.

    And no more than that: an abstract class that looks for methods sees those of what NumPy would have.
    """
    if not builtins.isinstance(x, Tracer):
        return builtins.isinstance(x, types_)
    return issubclass(x.class_in_numpy(), types_) or any([issubclass(builtins.type(x), t) for t in _ours_in(types_)])


def _ours_in(types_: Any) -> list[type]:
    """Return the kinds of tensors among what ``isinstance`` was given."""
    several = types_ if builtins.isinstance(types_, tuple) else getattr(types_, "__args__", (types_,))
    return [t for t in several if builtins.isinstance(t, builtins.type) and (t is object or issubclass(t, Tracer))]


def _hasattr(x: object, name: str, /) -> bool:
    """As ``hasattr``; a tensor that stands for a scalar has none of the methods that arrays alone have."""
    if name in _OF_ARRAYS and builtins.isinstance(x, Tracer):
        return builtins.hasattr(x.class_in_numpy(), name)
    return builtins.hasattr(x, name)


_OF_ARRAYS = frozenset({"__contains__", "__getitem__", "__iter__", "__len__"})


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
    """The type of what stands for ``float`` and ``complex``."""

    def __init__(cls, name: str, bases: tuple, names: dict) -> None:
        if "_original" not in names:  # a class of the user's that is derived of one, and is called as any other
            cls.__class__ = _Number


def _kept(original: type, of_tensors: Callable) -> Callable:
    """Return the stand-in for a number's type: it makes numbers, and keeps tensors."""

    def call(*args, **kwargs):
        parts = (*args, *kwargs.values())
        if not any([builtins.isinstance(x, Tracer) and type(x) is not Buffer for x in parts]):
            return original(*args, **kwargs)
        return of_tensors(*args, **kwargs)

    return direct(original, staticmethod(call), makes=False)


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


def _number_type(original: type, of_tensors: Callable) -> type:
    kind = type("_Number", (_Number,), {"__call__": _kept(original, of_tensors), "__hash__": _Stands.__hash__})
    # `dtype` is what NumPy asks a class for that is none of its own: dtype=float means what it says.
    return kind(original.__name__, (original,), {"_original": original, "dtype": np.dtype(original)})


# ── type ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Type(_Stands):
    """The type of what stands for ``type``: ``type(x) is float`` is true where ``float`` is ours."""

    def __call__(cls, *args, **kwargs):
        if _original(cls) is None:
            return type.__call__(cls, *args, **kwargs)
        if len(args) != 1 or kwargs:
            return type(*args, **kwargs)
        kind, names = type(args[0]), sys._getframe(1).f_globals
        if issubclass(kind, Tracer) and kind.__module__ != names.get("__name__"):  # else it is a level's own code
            kind = args[0].class_in_numpy()
        return standing_in(kind, names)


_TYPE: type = _Type("type", (type,), {"_original": type})

#: what lifted code finds in the place of Python's names
BUILTINS: dict[str, Any] = {
    "complex": _number_type(complex, _complex),
    "float": _number_type(float, _float),
    "hasattr": direct(hasattr, _hasattr, makes=False),
    "isinstance": direct(isinstance, _isinstance, makes=False),
    "type": _TYPE,
}

#: those by which code asks what it was given
ASKING = ("hasattr", "isinstance", "type")

STANDING.update({
    float: BUILTINS["float"],
    complex: BUILTINS["complex"],
    type: _TYPE,
    np.ndarray: dualad_numpy.ndarray,
    **{_original(standing): standing for standing in SCALARS.values()},
})  # fmt: skip
