"""Sparse matrices that meet tensors: SciPy's classes with products that look for them, and traced entries.

``csr_array(...)`` of this package *is* SciPy's (a subclass), and so are results computed from it; only a product or sum
with a tensor is ours. A constructor that is given tensors as entries makes a ``TracedSparse``, whose pattern is
constant. Not for: solving systems (``linalg.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as ss

from ...core.tables import Verdict
from ...core.tracer import tracer_in
from ...errors import UnsupportedError
from ...ops.sparse_product import Pattern
from ...surface.arguments import operand
from ..mirror import MIRRORED
from .traced import COMPRESSED, TracedSparse, as_traced, from_coordinates, place

__all__ = ["CLASSES", "ours"]


def _construct(name: str, arg1, shape) -> TracedSparse:
    """Make a matrix of traced entries from any argument of SciPy's constructors but a dense array."""
    form, kind = name.split("_")
    parts, matrix = arg1 if isinstance(arg1, tuple) else (), kind == "matrix"
    if isinstance(arg1, TracedSparse):
        return arg1.asformat(form).as_kind(matrix)
    if len(parts) == 3 and form in COMPRESSED:
        entries, indices, indptr = operand(parts[0]), np.array(parts[1]), np.array(parts[2])
        inner = int(indices.max(initial=-1)) + 1 if shape is None else shape[form == "csr"]
        _check(entries, indices, inner)
        if indptr[-1] != len(indices) or (shape is not None and len(indptr) != shape[form == "csc"] + 1):
            raise ValueError("data, indices and indptr of a sparse matrix do not fit together")
        return TracedSparse(entries, Pattern(indices, indptr, int(inner)), form == "csc", matrix)
    if len(parts) == 2 and isinstance(parts[1], tuple) and len(parts[1]) == 2 and form not in ("dia", "dok", "lil"):
        entries, (rows, columns) = operand(parts[0]), [np.array(c) for c in parts[1]]
        if shape is None:
            shape = (int(np.max(rows)) + 1, int(np.max(columns)) + 1)
        _check(entries, rows, shape[0])
        _check(entries, columns, shape[1])
        if form == "coo":
            order = np.lexsort((columns, rows))
            pattern = Pattern(columns[order], np.searchsorted(rows[order], np.arange(shape[0] + 1)), shape[1])
            return TracedSparse(entries[order], pattern, False, matrix, form, order)
        out = from_coordinates(entries, rows, columns, shape, "csc" if form == "csc" else "csr", matrix)
        return out.asformat(form)
    if form == "dia" and len(parts) == 2 and shape is not None:
        entries = operand(parts[0])
        places = getattr(ss, name)((1 + np.arange(entries.size).reshape(entries.shape), parts[1]), shape=shape)
        return place(places, entries.reshape((-1,)), name)
    raise UnsupportedError(
        f"scipy.sparse.{name} was given a tensor.",
        "the pattern of a sparse matrix is constant: it can't depend on which entries of a tensor are zero",
        "give the entries and their places: csr_array((data, indices, indptr), shape) or"
        " csr_array((data, (rows, columns)), shape)",
    )


def _check(entries, places: np.ndarray, limit: int) -> None:
    if np.ndim(entries) != 1 or len(places) != entries.shape[0]:
        raise ValueError("data, indices and indptr of a sparse matrix do not fit together")
    if len(places) and not 0 <= places.min() <= places.max() < limit:
        raise ValueError("an index of a sparse matrix is out of bounds")


class _MeetsTensors:
    """The behaviour with tensors of all subclasses of SciPy's classes."""

    # NumPy's arrays, and tensors, leave operations to a class of higher priority.
    __array_priority__ = 2000.0

    def __new__(cls, arg1=None, shape=None, *args, **kwargs):
        if isinstance(arg1, TracedSparse) or (arg1 is not None and tracer_in(arg1) is not None):
            dtype = args[0] if args else kwargs.get("dtype")
            made = _construct(cls.__name__, arg1, shape)
            return made if dtype is None else made.astype(dtype)
        return super().__new__(cls)

    def _matmul_dispatch(self, other):
        if isinstance(other, TracedSparse):
            return NotImplemented
        return super()._matmul_dispatch(other) if tracer_in(other) is None else as_traced(self) @ other

    def _rmatmul_dispatch(self, other):
        return super()._rmatmul_dispatch(other) if tracer_in(other) is None else other @ as_traced(self)


def _meeting(name: str) -> Callable:
    """Make a binary operation: SciPy's, unless an operand is traced."""

    def method(self, other):
        traced = isinstance(other, TracedSparse) or tracer_in(other) is not None
        return getattr(as_traced(self) if traced else super(_MeetsTensors, self), name)(other)

    method.__name__, method.__doc__ = name, getattr(TracedSparse, name).__doc__
    return method


for _name in ("__add__", "__mul__", "__radd__", "__rmul__", "__rsub__", "__sub__", "__truediv__", "multiply"):
    setattr(_MeetsTensors, _name, _meeting(_name))


CLASSES: dict[str, type] = {}


def _container(name: str) -> property:
    return property(lambda self: CLASSES[name])


def _declare(form: str, kind: str) -> None:
    name = f"{form}_{kind}"
    original = getattr(ss, name)
    forms = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
    body: dict[str, Any] = {f"_{other}_container": _container(f"{other}_{kind}") for other in forms}
    words = f"As ``scipy.sparse.{name}``, of which it is a subclass; it meets tensors in ``@``, ``*``, ``+`` and ``-``."
    body |= {"__module__": __name__.rpartition(".")[0], "__doc__": words, "__slots__": ()}
    CLASSES[name] = type(name, (_MeetsTensors, original), body)
    MIRRORED[f"scipy.sparse.{name}"] = Verdict("composite")


for _kind in ("array", "matrix"):
    for _form in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
        _declare(_form, _kind)


def ours(thing):
    """Return a matrix of SciPy as one of the classes that meet tensors, sharing its memory; anything else as it is."""
    if isinstance(thing, (tuple, list)):
        return type(thing)([ours(item) for item in thing])
    if not ss.issparse(thing) or isinstance(thing, _MeetsTensors):
        return thing
    cls = CLASSES.get(type(thing).__name__)
    if cls is None or isinstance(thing, dict):
        return thing
    out = cls.__new__(cls)
    out.__dict__.update(thing.__dict__)
    return out
