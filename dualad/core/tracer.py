"""The base of all tensors: where NumPy's protocols arrive.

For: catching NumPy's calls (``__array_ufunc__``, ``__array_function__``) and refusing, with words, the conversions
that would silently drop a derivative. Not for: Python operators and ndarray methods, which ``surface/methods.py``
installs here, nor for what any tensor does with a call (its ``process``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..base.asking import by_name, is_read
from ..base.containers import can_carry, has_own_arithmetic, mixed_arithmetic_error
from ..base.frames import user_frame
from ..base.likeness import (
    NUMBERS,
    TOLD,
    OfAxes,
    is_asked_by_sparse,
    is_asked_by_users,
    set_class,
    standing_in,
)
from ..base.tree import KINDS, Kind
from ..errors import BranchError, ConversionError, DualadError, PlainBufferError
from .above import ABOVE
from .aval import Aval, python_dtype
from .contexts import StartAgain, TakenApart, apart, everywhere
from .level import escaped
from .tables import CREATION, FUNCTIONS, LIBRARIES, UFUNCS

__all__ = [
    "INDEX",
    "LOOK_UP",
    "NO_PARAMS",
    "OPERATOR",
    "PLAIN",
    "PRINT",
    "Tracer",
    "Unhashable",
    "beneath",
    "is_python_number",
    "layers",
    "python_number",
    "tracer_in",
]

#: types that can be operands as they are; anything else is made plain first (``surface/arguments.py``)
PLAIN = frozenset({np.ndarray, bool, int, float, complex, *np.sctypeDict.values()} - {np.object_, np.str_, np.bytes_})

NO_PARAMS: dict = {}

#: the same for one of Python's operators, whose result is Python's number if the operands are
OPERATOR: dict = {}

#: arrays and the kinds of tensors whose calls any tensor answers
_ARRAYS: set[type] = {np.ndarray}


#: requests for integers that plain arrays and Python read, for messages and for ``vmap``
INDEX = "a batched integer used as an index or a count"
#: what to write where a plain array is read
LOOK_UP = (
    "to look entries up make the array a tensor: np.asarray(array, like=x)[x] (np.take looks for tensors in its first"
    " argument only); "
)

#: what to write where text is made of a number
PRINT = (
    "dualad.debug.print('x = {:.3f}', x) prints the numbers of each call; text without a format, f'{x}', is the"
    " tensor's"
)

#: Python's types of numbers, by the kind of their dtype
_PYTHONS: dict[str, type] = {"b": bool, "i": int, "f": float, "c": complex}

#: names by which code asks for an array's contents
_DTYPES = frozenset({"dtype", "result_type"})

_WRITE = "by a write into a plain array, buffer[i] = x, or by compiled code"
_BUFFER = (
    "make the buffer with np.zeros_like(x), np.zeros(n, like=x) or dualad.numpy.zeros(n), which accept it where"
    " np.zeros(n) does not; where there is no buffer, keep the tensor, or use dualad.stop_gradient(x) if the"
    " number alone is wanted"
)


class Unhashable(ConversionError):
    """A tensor was hashed. Who catches it goes the way of an array, which has no hash either: that is no refusal."""

    refuses = False


class OutByPosition(BaseException):
    """A handler of a function of NumPy's was given ``out``, which is written to when the result is known."""

    def __init__(self, out: Any) -> None:
        self.out = out


class Tracer:
    """An array seen by one transform.

    Subclasses have ``level``, ``shape`` and ``dtype``, and ``process(op, args, params)``, which runs an operator
    whose innermost argument is this tensor.
    """

    # A write may put what another kind of tensor holds into this box (memory/memory.py), so all have one layout:
    # _primal and _tangent of a Dual, _value of a Batched, variable of a Staged; _memory, the record of its memory;
    # _origin, where it was made: an argument's place, or the user's line if a watch saw it.
    __slots__ = ("__weakref__", "_memory", "_origin", "_primal", "_tangent", "_value", "level", "variable")
    level: Any
    shape: Any
    _origin: Any
    #: the value without the tangent or batch axis of this level; None where there is nothing inside yet
    inner: Any = None
    __array_priority__ = 1000

    def __init_subclass__(cls, opaque: bool = False) -> None:
        """Register a kind of tensor; an opaque one answers NumPy's array functions itself, before all others."""
        KINDS[cls] = Kind.TENSOR
        if isinstance(shape := vars(cls).get("shape"), property):
            cls.shape = shape.setter(lambda self, shape: self._set_shape(shape))
        if not opaque:
            _ARRAYS.add(cls)

    # ── NumPy's protocols ────────────────────────────────────────────────────────────────────────────────────────

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        # One pass: the fast path is a plain call whose operands need no preparation.
        if method == "__call__" and not kwargs and not everywhere:
            op = UFUNCS.get(ufunc)
            if op is not None:
                if len(inputs) == 1:
                    return self.process(op, inputs, NO_PARAMS)
                top, number = None, 0
                for a in inputs:
                    if isinstance(a, Tracer):
                        if a.level.number > number:
                            top, number = a, a.level.number
                    elif type(a) not in PLAIN or (type(a) is np.ndarray and a.dtype.hasobject):
                        return ABOVE.ufunc(ufunc, method, inputs, kwargs)
                return top.process(op, inputs, NO_PARAMS)
        return ABOVE.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        for t in types:
            if t in _ARRAYS:
                continue
            if issubclass(t, Tracer):
                return NotImplemented
            if has_own_arithmetic(t):
                raise mixed_arithmetic_error(t, f" in np.{function.__name__}")
            if not issubclass(t, np.ndarray) and not can_carry(t):
                return NotImplemented
        handler = FUNCTIONS.get(function)
        if handler is None:
            creation = CREATION.get(function)
            if creation is not None:  # NumPy takes like= away before it calls, so the tensor itself is handed on
                return creation(self, *args, **kwargs)
            handler = ABOVE.handler(function)
        out = kwargs.pop("out", None) if kwargs else None
        if out is None:
            try:
                return handler(*args, **kwargs)
            except OutByPosition as given:
                out, at = given.out, max([i for i, a in enumerate(args) if a is given.out])
                args = (*args[:at], None, *args[at + 1 :])
        return ABOVE.target(out, handler(*args, **kwargs), f"np.{function.__name__}")

    def __array__(self, dtype=None, copy=None):
        """Give NumPy an object array of 0-d tensors, which computes and is packed back; refuse every other dtype."""
        if not self.level.open:
            raise escaped(self.level, "np.asarray (or a write into a plain array)", self)
        if dtype is None:
            frame = sys._getframe(1)
            asking = LIBRARIES.get(frame.f_globals.get("__name__", "").partition(".")[0])
            if asking is not None and asking.as_array is not None:
                out = asking.as_array(self, frame)
                if out is not None:
                    return out
        whole = self.dtype.kind in "biu" and dtype is not None and np.dtype(dtype).kind in "iu"
        if (whole or (dtype is None and self.dtype.kind in "biu")) and is_read(sys._getframe(1)):
            try:
                known = self.concretize(INDEX)  # of integers there is no derivative to be lost
            except StartAgain:  # kept by vmap for the end: first a tensor is tried in the place of the array
                known = None
            if known is not None:
                return np.array(known, dtype)
        if apart.get() and (self.shape or whole):
            raise TakenApart(user_frame()[0].f_globals)
        if dtype is not None and np.dtype(dtype) != object:
            raise PlainBufferError(
                f"a {self._kind()} of shape {self.shape} was converted to a plain array of dtype {np.dtype(dtype)}"
                " (np.asarray(x, dtype), or x written into a plain array).",
                "a plain array of numbers can hold neither a tangent nor a batch axis: the derivative would be lost",
                f"{LOOK_UP if whole else ''}create the buffer from a traced array (np.zeros_like(x),"
                " np.zeros(n, like=x)) or with dualad.numpy.zeros(n), build it with np.stack([...]), cast with"
                " x.astype(dtype), or use dualad.stop_gradient(x) if the number alone is wanted",
            )
        frame = sys._getframe(1)
        if not _DTYPES.isdisjoint(frame.f_code.co_names) and is_asked_by_users(frame):
            try:  # which is noted, as one that somebody caught
                raise ConversionError(
                    f"a {self._kind()} of shape {self.shape} was given to np.array/np.asarray by code that asks for a"
                    " dtype.",
                    "that of an array of Python objects is object, and not that of the numbers",
                    "ask the tensor itself, x.dtype",
                )
            except ConversionError:
                pass
        return ABOVE.object_array(self, copy)

    # ── conversions that would drop the derivative ───────────────────────────────────────────────────────────────

    def _conversion(self, name: str, instead: str) -> DualadError:
        if not self.level.open:
            return escaped(self.level, name, self)
        return ConversionError(
            f"{name} was called on a {self._kind()} of shape {self.shape} and dtype {self.dtype}.",
            "the result would be a plain number, without the tangent or batch axis that this transform tracks",
            instead,
        )

    def __float__(self):
        if by_name():
            raise self._conversion(
                "float()",
                "keep the tensor (NumPy functions such as np.sin work on it where math.sin does not), or use"
                " dualad.stop_gradient(x) if the number alone is wanted; where it is for text ('%g' % x, logging),"
                f" {PRINT}",
            )
        raise self._conversion(f"float() ({_WRITE})", _BUFFER)

    def __complex__(self):
        raise self._conversion("complex()", "use x + 0j, which keeps the derivative")

    def __index__(self):
        if self.dtype.kind == "f":
            raise self._conversion(
                "operator.index()",
                "make an integer of it first: int(x), or int(round(x)), int(math.floor(x)); under vmap these split the"
                " lanes into groups that agree",
            )
        setting = ABOVE.settings.get(self.level.transform, "don't trace n")
        raise self._conversion(
            "operator.index()",
            f"for range(n), np.zeros(n) or x[:n] {setting}; x[n : n + 3] is x[n + np.arange(3)];"
            f" {LOOK_UP.rstrip('; ')}",
        )

    def __bool__(self):
        if not self.level.open:
            raise escaped(self.level, "bool() (if, while, and, or, assert)", self)
        raise BranchError(
            f"the truth value of a {self._kind()} of shape {self.shape} was asked for (if, while, and, or, assert).",
            "it stands for several values, or for values not known yet, so no single branch is right",
            "use np.where(condition, a, b), np.logical_and/or/not, or np.any/np.all inside np.where; where max, sorted"
            " or NumPy compares the entries of a list or an object array, np.maximum(a, b), np.sort(np.stack([a, b]))",
        )

    def __hash__(self):
        raise Unhashable(
            f"unhashable: a {self._kind()} was to be looked up by its hash (functools.lru_cache, a dict, a set).",
            "a tensor stands for many values, so it has no hash, and a cache that kept it would outlive its transform",
            "call the function inside the cache, f.__wrapped__(x), let it run lifted (without dualad.plain), with"
            " tensors kept out of functools.lru_cache, or cache what depends on plain values only",
        )

    def as_integer_ratio(self):
        """Refuse what Python's exact arithmetic (fractions, statistics) asks a number for."""
        raise ConversionError(
            f"Python's exact arithmetic was given a {self._kind()} of shape {self.shape}.",
            "statistics and fractions compute with integers, without a tangent or a batch axis",
            "use NumPy's function: np.mean(x) for statistics.mean(x), np.median, np.std(x, ddof=1), ...",
        )

    def bit_length(self):
        """Refuse what a Python integer says of itself: it is a number of Python's again."""
        setting = "make it a setting: jit(f, static_argnums=...)" if self.level.transform == "jit" else "don't trace n"
        instead = f"{setting}; or count with np.frexp(n)[1], which is the same below 2**53"
        raise self._conversion(".bit_length()", instead)

    def __format__(self, spec: str) -> str:
        if spec:
            raise self._conversion(f"format() with {spec!r}", PRINT)
        return repr(self)

    def __int__(self):
        if by_name():
            raise self._conversion("int()", "use x.astype(int), or compute the integer outside the transform")
        raise self._conversion(f"int() ({_WRITE})", _BUFFER)

    def __reduce_ex__(self, protocol):
        raise self._conversion(
            "pickle (or a copy made through it)",
            "return the value from the transform and pickle that, or pickle dualad.stop_gradient(x) if the number alone"
            " is wanted; np.copy(x) and copy.copy(x) keep the derivative",
        )

    def known(self):
        """Return the plain numbers beneath it, without tangents, or ``None`` if there are none yet."""
        return None

    def is_finite(self) -> bool | None:
        """Whether all numbers in it are finite, those of tangents too; ``None`` if they are not known yet."""
        return None

    def concretize(self, what: str):
        """Return the plain value this tensor certainly has, or ``None``; a batch may be split into groups."""
        return None

    def python_number(self):
        """Return the scalar in double precision: a Python number, which widens no dtype, where its kind has such."""
        return self.astype(python_dtype(self.dtype), copy=False)

    def is_python_number(self) -> bool:
        """Whether it stands for a Python number, which widens no dtype."""
        return False

    def numpy_number(self):
        """Return the value as NumPy's number, if it was Python's: it widens dtypes again."""
        return self

    #: whether what it holds is a plain array that is its own (``memory/buffer.py``)
    _plain_array = False

    def _strides(self) -> tuple[int, ...] | None:
        """Return the strides that NumPy's array in place of this tensor would have; ``None`` says C order."""
        return None

    # ── what every tensor can say of itself ──────────────────────────────────────────────────────────────────────

    @property
    def aval(self) -> Aval:
        return Aval(self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    __len__ = OfAxes(lambda self: self.shape[0], "len() of unsized object")

    # What ``isinstance`` asks where the type itself is not the answer: np.ndarray, float, numbers.Real, ...
    @property
    def __class__(self):
        frame = sys._getframe(1)
        file = frame.f_code.co_filename
        if (TOLD[file] if file in TOLD else is_asked_by_users(frame)) and self.level.open:
            return standing_in(self.class_in_numpy(), frame.f_globals)
        if self.shape or self.class_in_numpy() is np.ndarray or is_asked_by_sparse(frame):
            return type(self)
        return NUMBERS.get(self.dtype.kind, type(self))

    @__class__.setter
    def __class__(self, kind):
        set_class(self, kind)

    def class_in_numpy(self) -> type:
        """Return the class of what NumPy would have in its place: an array, a scalar, a Python number."""
        if self.shape:
            return np.ndarray
        return _PYTHONS[self.dtype.kind] if self.is_python_number() else self.dtype.type

    def __repr__(self) -> str:
        # Whoever prints is looking for something: whatever state a tensor is in, it says what it can.
        try:
            late = "" if self.level.open else ", escaped"
            return f"{self._text()}, level={self.level.number} of {self.level.transform}{late})"
        except Exception as error:
            return f"<{type(self).__name__} tensor that can't be shown: {type(error).__name__}: {error}>"

    def _text(self) -> str:
        """Return the beginning of ``repr``, up to the level; kinds of tensors add what they carry."""
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}"

    def _kind(self) -> str:
        return f"{type(self).__name__} tensor (of `{self.level.transform}`)"


def is_python_number(x: Any) -> bool:
    """Whether a value is a Python number, or stands for one."""
    return x.is_python_number() if isinstance(x, Tracer) else type(x) in (bool, int, float, complex)


def python_number(x: Any) -> Any:
    """Return a scalar, traced or not, as the Python number that ``.item()`` makes of it."""
    if isinstance(x, Tracer):
        return x.python_number()
    return x.item() if isinstance(x, (np.ndarray, np.generic)) else x


def layers(x: Any) -> Iterator[Any]:
    """Yield a value and the layers inside it, tangents and batch axes taken off one by one."""
    yield x
    while isinstance(x, Tracer) and (x := x.inner) is not None:
        yield x


def beneath(x: Any) -> Any:
    """Return a value without tangents and batch axes: an array, or a tensor with nothing inside yet."""
    *_, last = layers(x)
    return last


def tracer_in(*values: Any) -> Tracer | None:
    """Return the first tensor among values, in their lists, tuples and dicts, or in object arrays; None without one."""
    for x in values:
        if isinstance(x, Tracer):
            return x
        if isinstance(x, (list, tuple)):
            found = tracer_in(*x)
        elif isinstance(x, dict):
            found = tracer_in(*x.values())
        elif isinstance(x, np.ndarray) and x.dtype == object:
            found = tracer_in(*x.ravel().tolist())
        else:
            continue
        if found is not None:
            return found
    return None
