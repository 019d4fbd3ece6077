"""Python operators and ndarray methods, installed on ``Tensor``.

Operators go straight to dispatch (they are most of what users write); methods go through NumPy's function of the
same name. Not for: what any of them computes.
"""

from __future__ import annotations

import numpy as np

from ..core.dispatch import apply
from ..core.op import Op
from ..core.tables import UFUNCS
from ..core.tracer import NO_PARAMS, PLAIN, Tensor
from .arguments import operand

__all__: list[str] = []


def _binary(name: str, ufunc: np.ufunc) -> None:
    op: Op | None = UFUNCS.get(ufunc)

    def forward(self, other):
        if op is None:
            return ufunc(self, other)
        if isinstance(other, Tensor):
            return (self if self.level.number >= other.level.number else other).process(op, (self, other), NO_PARAMS)
        if type(other) in PLAIN and not (type(other) is np.ndarray and other.dtype.kind == "O"):
            return self.process(op, (self, other), NO_PARAMS)
        return _prepared(self, other, False)

    def reflected(self, other):
        if op is None:
            return ufunc(other, self)
        if type(other) in PLAIN and not (type(other) is np.ndarray and other.dtype.kind == "O"):
            return self.process(op, (other, self), NO_PARAMS)
        return _prepared(self, other, True)

    def _prepared(self, other, swap):
        if other is None or isinstance(other, str) or getattr(type(other), "__array_ufunc__", 0) is None:
            return NotImplemented
        other = operand(other)
        return apply(op, (other, self) if swap else (self, other), NO_PARAMS)

    setattr(Tensor, f"__{name}__", forward)
    if name not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Tensor, f"__r{name}__", reflected)


for _name, _ufunc in {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "matmul": np.matmul,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}.items():
    _binary(_name, _ufunc)

Tensor.__hash__ = object.__hash__  # defining __eq__ dropped it


def _unary(name: str, ufunc: np.ufunc) -> None:
    op: Op | None = UFUNCS.get(ufunc)

    def operator(self):
        return ufunc(self) if op is None else self.process(op, (self,), NO_PARAMS)

    setattr(Tensor, name, operator)


for _name, _ufunc in {
    "__neg__": np.negative,
    "__pos__": np.positive,
    "__abs__": np.absolute,
    "__invert__": np.invert,
}.items():
    _unary(_name, _ufunc)


def _method(function):
    """Install the function as a method of every tensor."""
    setattr(Tensor, function.__name__, function)
    return function


@_method
def reshape(self, *shape, order="C", copy=None):
    """As ``ndarray.reshape``."""
    return np.reshape(self, shape[0] if len(shape) == 1 else shape, order=order)


@_method
def transpose(self, *axes):
    """As ``ndarray.transpose``."""
    if len(axes) == 1 and (axes[0] is None or np.iterable(axes[0])):
        axes = axes[0]
    return np.transpose(self, axes or None)


@_method
def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
    """As ``ndarray.astype``."""
    return np.astype(self, dtype)


@_method
def sum(self, axis=None, dtype=None, out=None, keepdims=False, initial=0, where=True):
    """As ``ndarray.sum``."""
    return np.sum(self, axis=axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where)


@_method
def ravel(self, order="C"):
    """As ``ndarray.ravel``."""
    return np.reshape(self, -1, order=order)


Tensor.T = property(lambda self: np.transpose(self))
