"""Sparse matrices that meet tensors: SciPy's classes with products that look for them, and traced entries.

``csr_array(...)`` of this package *is* SciPy's (a subclass), and so is what is computed from it; only a product or sum
with a tensor is ours. A constructor that is given tensors as entries makes a ``TracedSparse``, whose pattern is
constant. Not for: solving systems (``linalg.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as ss

from ...core.tables import Verdict
from ...core.tracer import tracer_in
from ...errors import UnsupportedError
from ...ops import indexing
from ...ops.sparse_product import Pattern, csr_product
from ...surface.arguments import operand
from ..mirror import MIRRORED

__all__ = ["CLASSES", "TracedSparse", "ours", "traced"]


class TracedSparse:
    """A sparse matrix whose entries are a tensor.

    Parameters
    ----------
    data : tensor, shape (entries,)
        The entries, in the order of the pattern.
    pattern : Pattern
        Where they stand.
    transposed : bool
        Whether the matrix is the transpose of the one the pattern describes.
    """

    ndim = 2
    # Arrays and tensors on the left leave the operation to this class.
    __array_ufunc__ = None

    def __init__(self, data, pattern: Pattern, transposed: bool = False) -> None:
        self.data, self.pattern, self.transposed = data, pattern, transposed

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.pattern.shape[::-1] if self.transposed else self.pattern.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the entries."""
        return np.result_type(self.data)

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return len(self.pattern.indices)

    @property
    def T(self) -> TracedSparse:
        """The transpose."""
        return TracedSparse(self.data, self.pattern, not self.transposed)

    def transpose(self) -> TracedSparse:
        """Return the transpose."""
        return self.T

    def _coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        rows, columns = self.pattern.rows, self.pattern.indices
        return (columns, rows) if self.transposed else (rows, columns)

    def toarray(self):
        """Return the dense matrix."""
        template = (indexing.ARRAY, indexing.ARRAY)
        return indexing.index_add(self.data, *self._coordinates(), template=template, shape=self.shape)

    todense = toarray

    def __matmul__(self, other):
        other = operand(other)
        if np.ndim(other) not in (1, 2):
            raise ValueError("could not interpret dimensions")
        if self.shape[1] != other.shape[0]:
            raise ValueError(
                f"matmul: dimension mismatch with signature (n,k={self.shape[1]}),(k={other.shape[0]},m)->(n,m)"
            )
        columns = other if np.ndim(other) == 2 else other.reshape((-1, 1))
        out = csr_product(self.data, columns, pattern=self.pattern, transposed=self.transposed)
        return out if np.ndim(other) == 2 else out.reshape((-1,))

    def __rmatmul__(self, other):
        return np.transpose(self.T @ np.transpose(operand(other)))

    dot = __matmul__

    def multiply(self, other) -> TracedSparse:
        """Multiply entry by entry by a number or a dense array, keeping the pattern."""
        other = operand(other)
        if np.ndim(other):
            template = (indexing.ARRAY, indexing.ARRAY)
            other = indexing.index(np.broadcast_to(other, self.shape), *self._coordinates(), template=template)
        return TracedSparse(self.data * other, self.pattern, self.transposed)

    __mul__ = __rmul__ = multiply

    def __truediv__(self, other) -> TracedSparse:
        return self.multiply(1 / operand(other))

    def __neg__(self) -> TracedSparse:
        return TracedSparse(-self.data, self.pattern, self.transposed)

    def __add__(self, other):
        return self.toarray() + (other.toarray() if hasattr(other, "toarray") else other)

    __radd__ = __add__

    def __sub__(self, other):
        return self.toarray() - (other.toarray() if hasattr(other, "toarray") else other)

    def __rsub__(self, other):
        return -(self - other)

    def __repr__(self) -> str:
        return f"<traced sparse matrix of shape {self.shape} with {self.nnz} entries>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(ss.csr_array, name):
            raise AttributeError(name)
        raise UnsupportedError(
            f"scipy.sparse: .{name} was asked of a sparse matrix with traced entries.",
            "only products, sums, transposes, multiples and systems have a rule",
            "use one of these, or .toarray()",
        )


def traced(matrix) -> TracedSparse:
    """Return a matrix of SciPy in the form that products with tensors take; a copy, which nobody else can change."""
    if isinstance(matrix, TracedSparse):
        return matrix
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocsr()
    transposed = matrix.format == "csc"
    columns = matrix.shape[0] if transposed else matrix.shape[1]
    pattern = Pattern(matrix.indices.copy(), matrix.indptr.copy(), columns)
    return TracedSparse(matrix.data, pattern, transposed)


def _construct(name: str, arg1, shape) -> TracedSparse:
    """Make a matrix of traced entries from ``(data, indices, indptr)`` or ``(data, (rows, columns))``."""
    parts = arg1 if isinstance(arg1, tuple) else ()
    form = name.partition("_")[0]
    if len(parts) == 3 and form in ("csr", "csc"):
        data, indices, indptr = parts
        inner = None if shape is None else shape[form == "csr"]
    elif len(parts) == 2 and isinstance(parts[1], tuple) and form in ("csr", "csc", "coo"):
        data, (rows, columns) = parts
        major, minor = (columns, rows) if form == "csc" else (rows, columns)
        major, minor = np.asarray(major), np.asarray(minor)
        order = np.argsort(major, kind="stable")
        data, indices = operand(data)[order], minor[order]
        if shape is None:
            shape = (int(np.max(rows)) + 1, int(np.max(columns)) + 1)
        count, inner = (shape[1], shape[0]) if form == "csc" else shape
        indptr = np.searchsorted(major[order], np.arange(count + 1))
    else:
        raise UnsupportedError(
            f"scipy.sparse.{name} was given a tensor.",
            "the pattern of a sparse matrix is constant: it can't depend on which entries of a tensor are zero",
            "give the entries and their places: csr_array((data, indices, indptr), shape) or"
            " csr_array((data, (rows, columns)), shape)",
        )
    indices, indptr = np.array(indices), np.array(indptr)
    if tracer_in(data) is None or np.ndim(data) != 1 or len(indices) != data.shape[0] or indptr[-1] != len(indices):
        raise ValueError("data, indices and indptr of a sparse matrix do not fit together")
    inner = int(indices.max(initial=-1)) + 1 if inner is None else inner
    if len(indices) and not 0 <= indices.min() <= indices.max() < inner:
        raise ValueError("an index of a sparse matrix is out of bounds")
    return TracedSparse(operand(data), Pattern(indices, indptr, int(inner)), form == "csc")


class _MeetsTensors:
    """What the subclasses of SciPy's classes do with tensors."""

    # NumPy's arrays, and tensors, leave operations to a class of higher priority.
    __array_priority__ = 2000.0

    def __new__(cls, arg1=None, shape=None, *args, **kwargs):
        if arg1 is not None and tracer_in(arg1) is not None:
            return _construct(cls.__name__, arg1, shape)
        return super().__new__(cls)

    def _matmul_dispatch(self, other):
        if isinstance(other, TracedSparse):
            return NotImplemented
        return super()._matmul_dispatch(other) if tracer_in(other) is None else traced(self) @ other

    def _rmatmul_dispatch(self, other):
        return super()._rmatmul_dispatch(other) if tracer_in(other) is None else other @ traced(self)

    def multiply(self, other):
        """Multiply entry by entry."""
        return super().multiply(other) if tracer_in(other) is None else traced(self).multiply(other)

    def __rmul__(self, other):
        if tracer_in(other) is None:
            return super().__rmul__(other)
        return other @ traced(self) if isinstance(self, ss.spmatrix) and np.ndim(other) else self.multiply(other)

    def __mul__(self, other):
        if tracer_in(other) is None:
            return super().__mul__(other)
        return traced(self) @ other if isinstance(self, ss.spmatrix) and np.ndim(other) else self.multiply(other)

    def __truediv__(self, other):
        return super().__truediv__(other) if tracer_in(other) is None else self.multiply(1 / operand(other))

    def __add__(self, other):
        return super().__add__(other) if tracer_in(other) is None else traced(self) + other

    def __radd__(self, other):
        return super().__radd__(other) if tracer_in(other) is None else traced(self) + other

    def __sub__(self, other):
        return super().__sub__(other) if tracer_in(other) is None else traced(self) - other

    def __rsub__(self, other):
        return super().__rsub__(other) if tracer_in(other) is None else other - traced(self).toarray()


CLASSES: dict[str, type] = {}


def _container(name: str) -> property:
    return property(lambda self: CLASSES[name])


def _declare(form: str, kind: str) -> None:
    name = f"{form}_{kind}"
    original = getattr(ss, name)
    forms = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
    body = {f"_{other}_container": _container(f"{other}_{kind}") for other in forms}
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
