"""NumPy's types: ``ndarray``, for which tensors are instances, and scalar types that cast a tensor and keep it one.

Each stands for the type of NumPy whose name it has: it equals it, hashes like it, is a dtype where it is one, and has
its instances. Not for: creating arrays (``creation.py``).
"""

from __future__ import annotations

import numpy as np

from ..boundary.boundary import running
from ..core.tracer import Tracer
from ..memory.buffer import buffered, traced_in
from .creation import asarray

__all__ = ["SCALARS", "ndarray"]


class _Stands(type):
    """The type of types that stand for one of NumPy's."""

    _original: type

    def __eq__(cls, other: object) -> bool:
        # A dtype is asked next: `np.float64 == x.dtype` is true from that side, too.
        return True if other is cls or other is vars(cls).get("_original", cls) else NotImplemented

    def __hash__(cls) -> int:
        return hash(vars(cls).get("_original")) if "_original" in vars(cls) else type.__hash__(cls)

    def __repr__(cls) -> str:
        return repr(vars(cls)["_original"]) if "_original" in vars(cls) else type.__repr__(cls)

    def __subclasscheck__(cls, other: type) -> bool:
        return (
            issubclass(other, vars(cls)["_original"])
            if "_original" in vars(cls)
            else type.__subclasscheck__(cls, other)
        )


class _ArrayType(_Stands):
    """The type of ``ndarray``."""

    def __instancecheck__(cls, x: object) -> bool:
        if "_original" not in vars(cls):
            return type.__instancecheck__(cls, x)
        return isinstance(x, np.ndarray) or (isinstance(x, Tracer) and x.class_in_numpy() is np.ndarray)

    def __subclasscheck__(cls, other: type) -> bool:
        if "_original" in vars(cls) and type.__subclasscheck__(Tracer, other):
            return True
        return super().__subclasscheck__(other)

    def __call__(cls, *args, **kwargs):
        if "_original" not in vars(cls):
            return type.__call__(cls, *args, **kwargs)
        out = np.ndarray(*args, **kwargs)
        return buffered(out) if running.get() and out.base is None else out


class ndarray(np.ndarray, metaclass=_ArrayType):
    """NumPy's ``ndarray``; tensors are instances too, except where NumPy would have a scalar."""

    _original = np.ndarray


class _ScalarType(_Stands):
    """The type of the scalar types."""

    def __instancecheck__(cls, x: object) -> bool:
        if "_original" not in vars(cls):
            return type.__instancecheck__(cls, x)
        return isinstance(x, cls._original)

    def __call__(cls, *args, **kwargs):
        if "_original" not in vars(cls):
            return type.__call__(cls, *args, **kwargs)
        if args and traced_in(args[0]) is not None:
            out = asarray(args[0], cls._original)
            return out if out.shape else out[()]
        return cls._original(*args, **kwargs)


_STANDING = {
    t: _ScalarType(t.__name__, (t,), {"_original": t, "__doc__": t.__doc__})
    for t in sorted({t for t in np.sctypeDict.values() if np.dtype(t).kind in "iufc"}, key=lambda t: t.__name__)
}

#: name in NumPy -> the type that stands for it
SCALARS = {name: _STANDING[thing] for name, thing in vars(np).items() if isinstance(thing, type) and thing in _STANDING}
