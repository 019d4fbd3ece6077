"""Python operators and ndarray methods, installed on ``Tracer``.

Operators go straight to dispatch (they are most of what users write); methods go through NumPy's function of the
same name. Not for: what any of them computes.
"""

from __future__ import annotations

import builtins
import numbers
import operator

import numpy as np

from ..base.containers import is_sparse
from ..core.above import ABOVE
from ..core.contexts import everywhere
from ..core.dispatch import bind
from ..core.level import escaped
from ..core.primitive import Primitive
from ..core.tables import FUNCTIONS, UFUNCS
from ..core.tracer import NO_PARAMS, OPERATOR, PLAIN, Tracer, python_number
from ..errors import InPlaceError, UnsupportedError
from ..memory.memory import Reading, apply_view, is_scalar, target, writer
from ..memory.order import reshape_in_place
from ..ops import arithmetic, shaping
from . import shaping as shapes
from .arguments import operand
from .loops import compared, complex_met, rounding
from .objects import take_apart

__all__ = ["ARITHMETIC"]


#: Python's operators of two operands that have a reflected and an augmented form, by name
ARITHMETIC = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift,
}  # fmt: skip


def _binary(name: str, ufunc: np.ufunc) -> None:
    op: Primitive = UFUNCS[ufunc]
    compute = getattr(operator, f"__{name}__")

    def forward(self, other):
        if everywhere:
            return _prepared(self, other, False)
        if isinstance(other, Tracer):
            return (self if self.level.number >= other.level.number else other).process(op, (self, other), OPERATOR)
        kind = type(other)
        if kind in PLAIN and not (kind is np.ndarray and other.dtype.kind == "O"):
            if kind is complex and self.level.objects:
                complex_met(self)
            return self.process(op, (self, other), OPERATOR)
        return _prepared(self, other, False)

    def reflected(self, other):
        kind = type(other)
        if kind in PLAIN and not (everywhere or (kind is np.ndarray and other.dtype.kind == "O")):
            if kind is complex and self.level.objects:
                complex_met(self)
            return self.process(op, (other, self), OPERATOR)
        return _prepared(self, other, True)

    def _prepared(self, other, swap):
        if other is None or isinstance(other, (str, bytes)):
            # NumPy compares entry by entry, and none is equal.
            return np.full(self.shape, name == "ne") if name in ("eq", "ne") and self.shape else NotImplemented
        if name == "mul" and isinstance(other, (list, tuple)) and is_scalar(self):
            return NotImplemented  # n * [0.0] is a list of n zeros
        if getattr(type(other), "__array_ufunc__", 0) is None:
            return NotImplemented
        # As with NumPy's arrays: what knows nothing of ufuncs and has the higher priority does the operation itself.
        plain = type(other) in PLAIN
        unaware = not plain and not hasattr(type(other), "__array_ufunc__")
        if unaware and getattr(type(other), "__array_priority__", 0) > Tracer.__array_priority__:
            return NotImplemented
        if not plain and is_sparse(type(other)):
            other = ABOVE.sparse_operand(other)
            return compute(other, self) if swap else compute(self, other)
        if not plain and not isinstance(other, Tracer) and _is_users(other):
            if isinstance(other, numbers.Real):  # a Fraction: NumPy's scalars compute with it as with a float
                other = float(other)
            elif not self.shape:  # a class with operators of its own: as of a NumPy scalar, they are asked
                return NotImplemented
        other = operand(other)
        return bind(op, (other, self) if swap else (self, other), OPERATOR)

    def comparison(self, other):
        if self.level.objects:
            compared(self, other)
        return forward(self, other)

    setattr(Tracer, f"__{name}__", comparison if name in _COMPARISONS else forward)
    if name in ARITHMETIC:
        setattr(Tracer, f"__r{name}__", reflected)


def _is_users(x) -> bool:
    """Whether an operand is neither an array nor a list, nor convertible to an array of numbers."""
    return not isinstance(x, (np.ndarray, np.generic, list, tuple)) and not any(
        [hasattr(type(x), n) for n in _OF_ARRAYS]
    )


_OF_ARRAYS = ("__array__", "__array_interface__", "__array_ufunc__", "__len__", "__buffer__")


_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip

for _name, _ufunc in {**ARITHMETIC, **_COMPARISONS}.items():
    _binary(_name, _ufunc)

_to_the_power = Tracer.__pow__


#: NumPy's operator has a function of its own for these Python numbers, with other values at complex infinities
_POWERS = {"b": {(int, 2): np.square}, "c": {(int, 2): np.square, (int, -1): np.reciprocal, (float, 0.5): np.sqrt}}


def _power(self, other):
    if self.dtype.kind in _POWERS and self.shape and type(other) in (int, float):
        if ufunc := _POWERS[self.dtype.kind].get((type(other), other)):
            return ufunc(self)
    return _to_the_power(self, other)


Tracer.__pow__ = _power


def _unary(name: str, ufunc: np.ufunc) -> None:
    op: Primitive = UFUNCS[ufunc]

    def operator(self):
        return bind(op, (self,), OPERATOR) if everywhere else self.process(op, (self,), OPERATOR)

    setattr(Tracer, f"__{name}__", operator)


for _name, _ufunc in {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}.items():
    _unary(_name, _ufunc)


# ── ndarray's methods and attributes ─────────────────────────────────────────────────────────────────────────────


def _delegate(name: str, function) -> None:
    """Install a method whose arguments after ``self`` are those of NumPy's function after the array."""

    def method(self, *args, **kwargs):
        # Where the function is a handler of ours, the way through NumPy's dispatch would only come back here.
        return FUNCTIONS.get(function, function)(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"As ``ndarray.{name}``: NumPy's function of the same name."
    setattr(Tracer, name, method)


for _name in (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "cumprod", "cumsum",
    "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ravel", "repeat", "round", "searchsorted", "squeeze",
    "std", "sum", "swapaxes", "take", "trace", "var",
):  # fmt: skip
    _delegate(_name, getattr(np, _name))

# An object array of 0-d tensors computes by calling the method that has the ufunc's name: np.sin calls x.sin().
for _name in (
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cos", "cosh", "deg2rad",
    "degrees", "exp", "exp2", "expm1", "fabs", "fmod", "hypot", "log", "log10", "log1p", "log2", "rad2deg", "radians",
    "rint", "sin", "sinh", "sqrt", "tan", "tanh",
):  # fmt: skip
    _delegate(_name, getattr(np, _name))


def _method(function):
    """Install the function as a method of every tensor."""
    setattr(Tracer, function.__name__, function)
    return function


@_method
def reshape(self, *shape, order="C", copy=None):
    """As ``ndarray.reshape``: ``x.reshape(2, -1)`` or ``x.reshape((2, -1))``."""
    return shapes.reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


@_method
def transpose(self, *axes):
    """As ``ndarray.transpose``: ``x.transpose(1, 0)`` or ``x.transpose((1, 0))``."""
    given = axes[0] if len(axes) == 1 and (axes[0] is None or np.iterable(axes[0])) else axes
    return shapes.transpose(self, None if given is None or not len(given) else given)


@_method
def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
    """As ``ndarray.astype``."""
    if not np.can_cast(self.dtype, dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {self.dtype!r} to {np.dtype(dtype)!r} according to the rule {casting!r}"
        )
    return shapes.astype(self, dtype, copy=copy, order=order)


@_method
def clip(self, min=None, max=None, out=None):
    """As ``ndarray.clip``."""
    return np.clip(self, min, max, out=out)


@_method
def compress(self, condition, axis=None, out=None):
    """As ``ndarray.compress``."""
    return np.compress(condition, self, axis, out)


@_method
def copy(self, order="C"):
    """As ``ndarray.copy``."""
    return np.copy(self, order or "C") if self.shape or not is_scalar(self) else shaping.copy(self)


@_method
def flatten(self, order="C"):
    """As ``ndarray.flatten``."""
    return np.copy(np.ravel(self, order))


@_method
def conjugate(self, out=None):
    """As ``ndarray.conjugate``: of real numbers, the array itself."""
    return self if out is None and self.dtype.kind != "c" else np.conjugate(self, out=out)


Tracer.conj = Tracer.conjugate


@_method
def view(self, dtype=None, type=None):
    """As ``ndarray.view``, where the values stay what they are, or are the parts of complex ones.

    A view as a subclass of ``ndarray`` is an array of Python objects, whose entries are tensors.
    """
    if isinstance(dtype, builtins.type) and issubclass(dtype, np.ndarray):
        dtype, type = None, dtype
    if type in (None, np.ndarray):
        if dtype is None or np.dtype(dtype) == self.dtype:
            return self if is_scalar(self) else self[...]
        wanted = np.dtype(dtype)
        part = self.dtype.type(0).real.dtype
        if self.shape and self.dtype.kind == "c" and wanted == part:
            return apply_view(_parts, self, NO_PARAMS)
        if self.shape and wanted.kind == "c" and wanted.type(0).real.dtype == part == self.dtype:
            if self.shape[-1] % 2:
                raise ValueError(
                    "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last"
                    " axis of the array."
                )
            return apply_view(_pairs, self, NO_PARAMS)
    elif dtype is None or np.dtype(dtype) == self.dtype:
        if self.dtype.kind != "c":
            return np.asarray(self).view(type)
        raise UnsupportedError(
            f".view({type.__name__}) was called on a complex {self._kind()} of shape {self.shape}.",
            f"{type.__name__} would get an array of Python objects, whose .real and .imag are silently wrong for"
            " complex values",
            f"leave the tensor as it is and call what {type.__name__} computes as a function, or make two views, of"
            " x.real and of x.imag",
        )
    raise UnsupportedError(
        f".view({dtype!r}) was called on a {self._kind()} of dtype {self.dtype}.",
        "it reads the same memory as numbers of another dtype, and a tensor is not one block of memory",
        "use x.astype(dtype); for the parts of complex values np.stack([x.real, x.imag], axis=-1)",
    )


@Reading
def _parts(x):
    if type(x) is np.ndarray:
        return x.view(x.real.dtype)
    return shaping.reshape(
        np.stack([arithmetic.real(x), arithmetic.imag(x)], -1), shape=(*x.shape[:-1], 2 * x.shape[-1])
    )


@Reading
def _pairs(x):
    if type(x) is np.ndarray:
        return x.view(np.result_type(x.dtype, np.complex64))
    pairs = shaping.reshape(x, shape=(*x.shape[:-1], x.shape[-1] // 2, 2))
    return pairs[..., 0] + pairs[..., 1] * np.result_type(x.dtype, np.complex64).type(1j)


@writer(_parts)
def _write_parts(base, params, value):
    return _pairs(value)


@writer(_pairs)
def _write_pairs(base, params, value):
    return _parts(value)


@_method
def item(self, *args):
    """As ``ndarray.item``, with the derivative: a tensor without axes, which computes as a Python number."""
    if not self.level.open:
        raise escaped(self.level, ".item()", self)
    _refuse_whole_numbers(self, ".item()")
    at = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    if at and len(at) != len(self.shape):
        if len(at) != 1:
            raise ValueError("incorrect number of indices for array")
        if not -self.size <= at[0] < self.size:
            raise IndexError(f"index {at[0]} is out of bounds for size {self.size}")
        at = np.unravel_index(at[0] % self.size, self.shape)
    elif not at and self.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    entry = self[tuple(at)] if at else np.reshape(self, ())[()]
    return python_number(entry)


def _refuse_whole_numbers(x, asked):
    """Refuse integers and truth values: Python's have no end, and no dtype of NumPy's computes as they do."""
    if x.dtype.kind not in "fc":
        raise x._conversion(asked, "index with x[i] or reshape with x.reshape(()), which keep the dtype")


@_method
def tolist(self):
    """As ``ndarray.tolist``, with the derivative: lists, in lists, of tensors without axes."""
    _refuse_whole_numbers(self, ".tolist()")
    take_apart(self)
    return [row.tolist() for row in self] if self.shape else Tracer.item(self)


@_method
def _set_shape(self, shape):
    if is_scalar(self):
        raise AttributeError("attribute 'shape' of 'numpy.generic' objects is not writable")
    reshape_in_place(self, shape)


@_method
def to_device(self, device, /, *, stream=None):
    """Return the tensor: a plain array and what depends on it are on the CPU, other libraries' stay where they are."""
    return self


Tracer.device = property(lambda self: "cpu", doc="As ``ndarray.device``.")
Tracer.T = property(np.transpose, doc="As ``ndarray.T``.")
Tracer.mT = property(np.matrix_transpose, doc="As ``ndarray.mT``.")


# ── writing, with NumPy's rules ──────────────────────────────────────────────────────────────────────────────────


@_method
def sort(self, axis=-1, kind=None, order=None, *, stable=None, descending=False):
    """As ``ndarray.sort``, which sorts in place."""
    ordered = FUNCTIONS[np.sort](self, axis, kind, order, stable=stable, descending=descending)
    target(self, ordered, "ndarray.sort")


@_method
def partition(self, kth, axis=-1, kind="introselect", order=None):
    """As ``ndarray.partition``, which works in place."""
    target(self, np.partition(self, kth, axis, kind, order), "ndarray.partition")


@_method
def put(self, indices, values, mode="raise"):
    """As ``ndarray.put``: the values, repeated as needed, into the flat array."""
    np.put(self, indices, values, mode)


@_method
def resize(self, *new_shape, refcheck=True):
    """Refuse: the shape of a tensor does not change."""
    raise InPlaceError(
        f".resize() was called on a {self._kind()} of shape {self.shape}.",
        "it changes the shape of an array in place, and everything computed so far relies on the shape",
        "use np.resize(x, new_shape), np.concatenate or np.pad, which return a new array",
    )


# ── complex parts: views, as NumPy's ─────────────────────────────────────────────────────────────────────────────


def _real(self):
    return self if self.dtype.kind != "c" else apply_view(arithmetic.real, self, NO_PARAMS)


def _imag(self):
    return np.imag(self) if self.dtype.kind != "c" else apply_view(arithmetic.imag, self, NO_PARAMS)


@writer(arithmetic.real)
def _write_real(base, params, value):
    return value + 1j * arithmetic.imag(base)


@writer(arithmetic.imag)
def _write_imag(base, params, value):
    return arithmetic.real(base) + 1j * value


def _set_real(self, value):
    if is_scalar(self):
        raise AttributeError("attribute 'real' of 'numpy.generic' objects is not writable")
    target(_real(self), np.broadcast_to(operand(value), self.shape), "x.real = value")


def _set_imag(self, value):
    if self.dtype.kind != "c":
        raise TypeError("array does not have imaginary part to set")
    if is_scalar(self):
        raise AttributeError("attribute 'imag' of 'numpy.generic' objects is not writable")
    target(_imag(self), np.broadcast_to(operand(value), self.shape), "x.imag = value")


Tracer.real = property(_real, _set_real, doc="As ``ndarray.real``.")
Tracer.imag = property(_imag, _set_imag, doc="As ``ndarray.imag``.")


# ── Python's protocols ───────────────────────────────────────────────────────────────────────────────────────────


@_method
def __divmod__(self, other):
    return self // other, self % other


@_method
def __rdivmod__(self, other):
    return other // self, other % self


@_method
def __contains__(self, value):
    return bool(np.any(self == value))


@_method
def __copy__(self):
    return self.copy()


@_method
def __deepcopy__(self, memo):
    return self.copy()


def _round_to(name: str, function) -> None:
    """Install a Python rounding protocol: an int where the value is known, as for NumPy's scalars."""

    def method(self):
        if self.shape:
            raise TypeError(f"type {type(self).__name__} of shape {self.shape} doesn't define {name}")
        value = function(self)
        return value if isinstance(value, Tracer) or (self.level.objects and rounding()) else int(value)

    method.__name__ = name
    setattr(Tracer, name, method)


_round_to("__floor__", np.floor)
_round_to("__ceil__", np.ceil)
_round_to("__trunc__", np.trunc)


@_method
def __round__(self, ndigits=None):
    value = np.round(self, ndigits or 0)
    value = python_number(value) if self.is_python_number() else value
    return int(value) if ndigits is None and not isinstance(value, Tracer) else value
