"""What a tensor without axes is taken for: a number, as NumPy's scalars are, which has no length.

``isinstance(x, numbers.Real)``, ``np.isscalar(x)`` and ``hasattr(x, "__len__")`` choose the way that code goes; of an
entry of an array they have to say what they say without a transform. Not for: ``isinstance(x, float)`` or
``np.ndarray``, which no class can answer for another (``lift`` does), nor for ``hasattr(x, "__iter__")``: Python would
iterate by index over what has no such method.
"""

from __future__ import annotations

import numbers
import types
from collections.abc import Callable

__all__ = ["NUMBERS", "OfAxes", "is_asked_by_sparse", "set_class"]


class _Real:
    """What ``x.__class__`` of a floating-point tensor without axes is; its type is what it was."""


class _Complex:
    """The same of a complex one."""


class _Integer:
    """The same of one of integers."""


for _kind in (_Real, _Complex, _Integer):
    _kind.__name__ = "traced number"  # json and others name the type of what they can't take

numbers.Real.register(_Real)
numbers.Complex.register(_Complex)
numbers.Integral.register(_Integer)

#: kind of dtype -> what such a tensor says it is, beside what it is
NUMBERS: dict[str, type] = {"f": _Real, "c": _Complex, "i": _Integer, "u": _Integer}

#: changes the type of an object, where ``__class__`` is a property
set_class = object.__dict__["__class__"].__set__


def is_asked_by_sparse(frame: types.FrameType | None) -> bool:
    """Whether an operator of a sparse matrix asks for numbers, which it would multiply into its compiled memory.

    What is none it leaves to the tensor's own operator. ``frame`` is that of ``isinstance``'s caller.
    """
    for _ in range(3):  # abc.__instancecheck__, np.isscalar
        if frame is None:
            return False
        if frame.f_code.co_name == "isscalarlike":
            operator = frame.f_back is not None and frame.f_back.f_code.co_name != "dot"  # which asks the operator
            return operator and frame.f_globals.get("__name__") == "scipy.sparse._sputils"
        frame = frame.f_back
    return False


class _Unsized(AttributeError, TypeError):
    """NumPy's scalars have no such method: ``len(x)`` has a TypeError of it, ``hasattr`` an AttributeError."""


class OfAxes:
    """A method that tensors without axes do not have."""

    __slots__ = ("method", "words")

    def __init__(self, method: Callable, words: str) -> None:
        self.method, self.words = method, words

    def __get__(self, x, kind=None):
        """Return the method of a tensor, if it has axes."""
        if x is None:
            return self.method
        if not x.shape:
            raise _Unsized(self.words)
        return types.MethodType(self.method, x)
