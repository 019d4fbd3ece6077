"""The types of tensors for code that asks: an array, a number of NumPy's or of Python's.

``isinstance(x, np.ndarray)``, ``isinstance(x, numbers.Real)``, ``np.isscalar(x)`` and ``hasattr(x, "__len__")`` choose
the way that code goes, and have to say what they say without a transform. The user's code is told the class that NumPy
would have; NumPy's and SciPy's own, which would take such a class at its word, only whether it is a number. Not for:
``type(x)`` and ``hasattr(x, "__iter__")``, which ask the type itself (``boundary/type_tests.py``).
"""

from __future__ import annotations

import abc
import functools
import numbers
import types
from collections.abc import Callable

from .frames import calls_numpy

__all__ = [
    "NUMBERS", "OfAxes", "STANDING", "TOLD", "is_asked_by_sparse", "is_asked_by_users", "is_told", "set_class",
    "standing_in",
]  # fmt: skip


class _Real:
    """The class of a floating-point tensor without axes by ``x.__class__``; its type stays what it is."""


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

    Others it leaves to the tensor's own operator. ``frame`` is that of ``isinstance``'s caller.
    """
    for _ in range(3):  # abc.__instancecheck__, np.isscalar
        if frame is None:
            return False
        if frame.f_code.co_name == "isscalarlike":
            operator = frame.f_back is not None and frame.f_back.f_code.co_name != "dot"  # which asks the operator
            return operator and frame.f_globals.get("__name__") == "scipy.sparse._sputils"
        frame = frame.f_back
    return False


#: NumPy's and Python's types -> what has their names in lifted code, if any runs
STANDING: dict[type, type] = {}


def standing_in(kind: type, names: dict) -> type:
    """Return the class that has a type's name in code with these globals: another one if they are lifted."""
    return STANDING.get(kind, kind) if STANDING and names.get("float") is STANDING[float] else kind


#: a source file -> whether its code is told of a tensor what NumPy would have in its place; looked up before asking
TOLD: dict[str, bool] = {}


def is_asked_by_users(frame: types.FrameType) -> bool:
    """Whether it is the user's code, or that of a package made of NumPy's functions, that asks what a tensor is."""
    file = frame.f_code.co_filename
    if file in _PASSING_ON and frame.f_back is not None:
        frame = frame.f_back
        file = frame.f_code.co_filename
    return is_told(file, frame.f_globals)


def is_told(file: str, names: dict) -> bool:
    """Whether code in a file, with these globals, is told of a tensor what NumPy would have in its place.

    Code with classes that answer NumPy's protocols is not: it tells NumPy's arrays from others.
    """
    told = TOLD.get(file) if file not in _PASSING_ON else False  # for which its callers answer
    if told is None:
        module = names.get("__name__")
        told = calls_numpy(file, module) and module != "json.encoder"  # whose error names the class
        told = TOLD[file] = told and not any([_is_of_arrays(x, module) for x in [*names.values()]])
    return told


def _is_of_arrays(x: object, module: object) -> bool:
    """Whether an object is a class, defined in a module, that answers one of NumPy's protocols."""
    return type(x) is type and x.__module__ == module and not _PROTOCOLS.isdisjoint(vars(x))


_PROTOCOLS = frozenset({"__array_function__", "__array_ufunc__"})


#: the files of the code in which ``isinstance`` of an abstract class asks, and a function of ``singledispatch``
_PASSING_ON = (abc.ABCMeta.__instancecheck__.__code__.co_filename, functools.__file__)


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
