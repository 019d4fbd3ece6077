"""Functions of others that compiled code hands addresses to: where they are, and how much memory each of them takes.

For: writing such calls (``lapack.py``), and their proof (``bounds.py``), which both go by these lines. Not for: the
functions of CPython and of the platform's library, which are given no arrays (``code.py``, ``engine.py``).
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["CALLED", "Called", "address_of"]

_BYTES = 8


class Called(NamedTuple):
    """A loop of NumPy's on matrices of float64: its ufunc, and the axes of each operand by letters.

    ``p`` is the smaller one of ``m`` and ``n``.
    """

    ufunc: str
    operands: tuple[str, ...]

    def shapes(self, lengths: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the shapes of the operands for the lengths of ``m`` and ``n``, or of ``n`` alone."""
        sizes = dict(zip("mn" if "m" in self.operands[0] else "n", lengths, strict=True))
        sizes["p"] = min(lengths)
        return [tuple([sizes[c] for c in axes]) for axes in self.operands]

    def layout(self, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """Return the lengths and strides for one matrix, whose operands lie in memory row by row."""
        lengths = list(shape) if "m" in self.operands[0] else [shape[0]]
        shapes = self.shapes(lengths)
        strides = [_BYTES * math.prod(s[i + 1 :]) for s in shapes for i in range(len(s))]
        more = [min(lengths)] if any(["p" in axes for axes in self.operands]) else []
        return [1, *lengths, *more], [*[0] * len(shapes), *strides]

    def sizes(self, lengths: Sequence[int], strides: Sequence[int]) -> list[int] | None:
        """Return how many bytes each operand takes, if these are the lengths and strides of one matrix."""
        count = 2 if "m" in self.operands[0] else 1
        own = tuple(lengths[1 : 1 + count])
        if len(own) < count or min(own) < 1 or (list(lengths), list(strides)) != self.layout(own * (3 - count)):
            return None
        return [_BYTES * math.prod(s) for s in self.shapes(own)]


CALLED = {
    "np_eigh_lo": Called("eigh_lo", ("nn", "n", "nn")),
    "np_eigh_up": Called("eigh_up", ("nn", "n", "nn")),
    "np_eigvalsh_lo": Called("eigvalsh_lo", ("nn", "n")),
    "np_eigvalsh_up": Called("eigvalsh_up", ("nn", "n")),
    "np_svd": Called("svd_s", ("mn", "mp", "p", "pn")),
    "np_svd_full": Called("svd_f", ("mn", "mm", "p", "nn")),
    "np_svdvals": Called("svd", ("mn", "p")),
}


class _Ufunc(ctypes.Structure):
    """The beginning of ``PyUFuncObject``, which NumPy's headers publish."""

    _fields_ = (
        ("count", ctypes.c_ssize_t), ("type", ctypes.c_void_p), ("nin", ctypes.c_int), ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int), ("identity", ctypes.c_int), ("functions", ctypes.c_void_p), ("data", ctypes.c_void_p),
        ("ntypes", ctypes.c_int), ("reserved", ctypes.c_int), ("name", ctypes.c_char_p), ("types", ctypes.c_void_p),
    )  # fmt: skip


@functools.cache
def address_of(name: str) -> int:
    """Return the address of NumPy's loop on float64 numbers; 0 if it is not as it is known here."""
    if sys.implementation.name != "cpython":
        return 0
    try:
        ufunc = getattr(importlib.import_module("numpy.linalg._umath_linalg"), CALLED[name].ufunc)
    except (ImportError, AttributeError):
        return 0
    found = _Ufunc.from_address(id(ufunc))
    known = (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes) == (found.nin, found.nout, found.nargs, found.ntypes)
    if not known or found.name != ufunc.__name__.encode():
        return 0
    number, types = np.dtype(np.float64).num, ctypes.string_at(found.types, found.ntypes * found.nargs)
    for i in range(found.ntypes):
        if set(types[i * found.nargs : (i + 1) * found.nargs]) == {number}:
            each = [(ctypes.c_void_p * found.ntypes).from_address(p)[i] for p in (found.functions, found.data)]
            return (each[0] or 0) if not each[1] else 0
    return 0
