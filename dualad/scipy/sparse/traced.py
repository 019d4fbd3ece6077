"""A sparse matrix whose entries are a tensor: what SciPy's classes do, with a pattern that is constant.

Entries only move, or are added or multiplied in places that the patterns alone decide. Where they only move (indexing,
other formats, reshaping), SciPy moves their *positions* in their stead: it is given the matrix of the numbers 1, 2, 3
and so on, and what it answers says which entry stands where. Not for: SciPy's own classes (``matrices.py``), joining
matrices (``joining.py``), systems (``linalg.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as ss

from ...base.tree import register_node
from ...core.tracer import Tracer
from ...errors import UnsupportedError
from ...ops import indexing
from ...ops.sparse_product import Pattern, product
from ...surface.arguments import operand

__all__ = ["COMPRESSED", "TracedSparse", "as_traced", "from_coordinates", "issparse", "place"]

#: formats in which entries stand row by row, or column by column
COMPRESSED = ("csr", "csc")

_ONE, _TWO = (indexing.ARRAY,), (indexing.ARRAY, indexing.ARRAY)

#: methods that apply a function to each entry; it is zero at zero
_ENTRYWISE = (
    "arcsin", "arcsinh", "arctan", "arctanh", "ceil", "deg2rad", "expm1", "floor", "log1p", "rad2deg", "rint", "sign",
    "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip


class TracedSparse:
    """A sparse matrix whose entries are a tensor.

    Parameters
    ----------
    entries : tensor, shape (entries,)
        The entries, in the order of the pattern.
    pattern : Pattern
        Where they stand.
    transposed : bool
        Whether the matrix is the transpose of the one the pattern describes.
    matrix : bool
        Whether it stands for one of SciPy's matrices, whose ``*`` and ``**`` are products of matrices, and not for one
        of its arrays.
    form : str or None
        The format that it is said to have: by default ``"csr"``, or ``"csc"`` if it is ``transposed``.
    order : array of int or None
        For the format ``"coo"``: which of the entries that the user gave stands at each place of the pattern.
    """

    ndim = 2
    # Arrays and tensors on the left leave the operation to this class.
    __array_ufunc__ = None

    def __init__(self, entries, pattern: Pattern, transposed=False, matrix=False, form=None, order=None) -> None:
        self.entries, self.pattern, self.transposed, self.is_matrix, self._order = (
            entries, pattern, bool(transposed), bool(matrix), order,
        )  # fmt: skip
        self.format = form or COMPRESSED[self.transposed]

    # ── what it is ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.pattern.shape[::-1] if self.transposed else self.pattern.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the entries."""
        return np.result_type(self.entries)

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return len(self.pattern.indices)

    size = nnz

    def getnnz(self) -> int:
        """Return the number of entries."""
        return self.nnz

    @property
    def data(self):
        """The entries, in the order in which SciPy's class of this format keeps them."""
        if self._order is not None:
            return self.entries[np.argsort(self._order)]
        self._refuse_unless(self.format in COMPRESSED, "data")
        return self.entries

    @property
    def indices(self) -> np.ndarray:
        """The column (``"csc"``: row) of each entry."""
        self._refuse_unless(self.format in COMPRESSED, "indices")
        return self.pattern.indices

    @property
    def indptr(self) -> np.ndarray:
        """Where each row (``"csc"``: column) begins."""
        self._refuse_unless(self.format in COMPRESSED, "indptr")
        return self.pattern.indptr

    @property
    def coords(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the entries, in the order of ``data``."""
        self._refuse_unless(self._order is not None, "coords")
        back = np.argsort(self._order)
        rows, columns = self.coordinates()
        return rows[back], columns[back]

    row = property(lambda self: self.coords[0])
    col = property(lambda self: self.coords[1])

    def coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows and columns of the entries, in the order of the pattern."""
        rows, columns = self.pattern.rows, self.pattern.indices
        return (columns, rows) if self.transposed else (rows, columns)

    def __repr__(self) -> str:
        return f"<traced sparse matrix of shape {self.shape} with {self.nnz} entries>"

    def plain(self):
        """Return SciPy's matrix; the entries are an array."""
        if self._order is not None:
            return _scipy_class("coo", self.is_matrix)((self.data, self.coords), shape=self.shape)
        out = self._scipy(self.entries).asformat(self.format)
        if self.format in COMPRESSED:  # SciPy's in-place methods write to them, and the pattern stays
            out.indices, out.indptr = out.indices.copy(), out.indptr.copy()
        return out

    def _scipy(self, numbers: np.ndarray):
        return _scipy_class(COMPRESSED[self.transposed], self.is_matrix)(self.pattern.matrix(numbers, self.transposed))

    def _with(self, entries) -> TracedSparse:
        return TracedSparse(entries, self.pattern, self.transposed, self.is_matrix, self.format, self._order)

    def as_kind(self, matrix: bool) -> TracedSparse:
        """Return the same as one of SciPy's matrices, or as one of its arrays."""
        return TracedSparse(self.entries, self.pattern, self.transposed, matrix, self.format, self._order)

    def deduplicated(self) -> TracedSparse:
        """Return the matrix with the entries of each place added up, in order."""
        keys = _keys(self)
        if np.all(keys[1:] > keys[:-1]):
            return self
        return from_coordinates(
            self.entries, *self.coordinates(), self.shape, COMPRESSED[self.transposed], self.is_matrix
        )

    # ── what only moves entries ──────────────────────────────────────────────────────────────────────────────────

    def positions(self, first: int = 1):
        """Return SciPy's matrix of the positions of the entries, which are to be those of a ``deduplicated`` one."""
        return self._scipy(np.arange(first, first + self.nnz, dtype=float))

    def _moved(self, name: str, move: Callable) -> Any:
        whole = self.deduplicated()
        return place(move(whole.positions()), whole.entries, f".{name}")

    def __getitem__(self, key):
        if any([isinstance(k, Tracer) for k in (key if isinstance(key, tuple) else (key,))]):
            raise UnsupportedError(
                "a sparse matrix with traced entries was indexed with a traced index.",
                "which entries are zero would depend on values",
                "index A.toarray(), or take the entries from A.data",
            )
        return self._moved("__getitem__", lambda A: A[key])

    def asformat(self, format: str | None, copy: bool = False):
        """Return the matrix in another format."""
        if format is None or format == self.format:
            return self
        return self._moved("asformat", lambda A: A.asformat(format))

    def tocsr(self, copy: bool = False):
        """Return the matrix with its entries row by row."""
        return self.asformat("csr")

    def tocsc(self, copy: bool = False):
        """Return the matrix with its entries column by column."""
        return self.asformat("csc")

    def eliminate_zeros(self) -> None:
        """Leave the entries as they are, those that are zero too: the pattern is constant."""

    def tocoo(self, copy: bool = False):
        """Return the matrix with the coordinates of its entries."""
        return self.asformat("coo")

    def reshape(self, *shape, order: str = "C", copy: bool = False):
        """Return a matrix of another shape with the same entries."""
        return self._moved("reshape", lambda A: A.reshape(*shape, order=order))

    def diagonal(self, k: int = 0):
        """Return a diagonal, dense."""
        return self._moved("diagonal", lambda A: A.diagonal(k))

    def trace(self, offset: int = 0):
        """Return the sum of a diagonal."""
        return self.diagonal(offset).sum()

    @property
    def T(self) -> TracedSparse:
        """The transpose."""
        form = dict(zip(COMPRESSED, COMPRESSED[::-1], strict=True)).get(self.format, self.format)
        return TracedSparse(self.entries, self.pattern, not self.transposed, self.is_matrix, form, self._order)

    def transpose(self, axes=None, copy: bool = False) -> TracedSparse:
        """Return the transpose."""
        if axes is not None and tuple(axes) != (1, 0):
            raise ValueError("Sparse arrays do not support an 'axes' parameter other than (1, 0).")
        return self.T

    def copy(self) -> TracedSparse:
        """Return a matrix of the same entries."""
        return self._with(self.entries)

    def toarray(self):
        """Return the dense matrix."""
        return indexing.index_add(self.entries, *self.coordinates(), template=_TWO, shape=self.shape)

    def todense(self):
        """Return the dense matrix."""
        self._refuse_numpy_matrix("todense")
        return self.toarray()

    # ── entry by entry ───────────────────────────────────────────────────────────────────────────────────────────

    def astype(self, dtype, casting: str = "unsafe", copy: bool = True) -> TracedSparse:
        """Return the matrix with entries of another dtype."""
        return self._with(self.entries.astype(dtype, casting=casting))

    def conj(self, copy: bool = True) -> TracedSparse:
        """Return the complex conjugate."""
        return self._with(np.conj(self.entries))

    conjugate = conj
    real = property(lambda self: self._with(np.real(self.entries)))
    imag = property(lambda self: self._with(np.imag(self.entries)))

    def getH(self) -> TracedSparse:
        """Return the conjugate of the transpose."""
        return self.T.conj()

    def power(self, n, dtype=None) -> TracedSparse:
        """Raise each entry to a power."""
        if np.ndim(n):
            raise NotImplementedError("input is not scalar")
        if not isinstance(n, Tracer) and n == 0:
            raise NotImplementedError("zero power is not supported as it would densify the matrix")
        return self._entry_by_entry(lambda x: x**n if dtype is None else x.astype(dtype) ** n)

    def _entry_by_entry(self, function: Callable) -> TracedSparse:
        whole = self.deduplicated()
        return whole._with(function(whole.entries))

    def __abs__(self) -> TracedSparse:
        return self._entry_by_entry(np.abs)

    def __neg__(self) -> TracedSparse:
        return self._with(-self.entries)

    def multiply(self, other) -> TracedSparse:
        """Multiply entry by entry by a number, a dense array or a sparse one."""
        if issparse(other):
            return self._common(as_traced(other))
        other = operand(other)
        if np.ndim(other):
            if np.broadcast_shapes(np.shape(other), self.shape) != self.shape:
                raise ValueError("inconsistent shapes")
            other = indexing.index(np.broadcast_to(other, self.shape), *self.coordinates(), template=_TWO)
        return self._with(self.entries * other)

    def _common(self, other: TracedSparse) -> TracedSparse:
        if other.shape != self.shape:
            raise ValueError("inconsistent shapes")
        a, b = self.deduplicated(), (other.T.tocsr().T if self.transposed else other.tocsr()).deduplicated()
        _, i, j = np.intersect1d(_keys(a), _keys(b), assume_unique=True, return_indices=True)
        rows, columns = a.coordinates()
        form, matrix = COMPRESSED[self.transposed], self.is_matrix or other.is_matrix
        return from_coordinates(a.entries[i] * b.entries[j], rows[i], columns[i], self.shape, form, matrix)

    def __truediv__(self, other) -> TracedSparse:
        self._refuse_unless(not issparse(other), "__truediv__")
        return self.multiply(1 / operand(other))

    # ── products and sums ────────────────────────────────────────────────────────────────────────────────────────

    def __matmul__(self, other):
        if issparse(other):
            return self._times(as_traced(other))
        other = operand(other)
        if np.ndim(other) not in (1, 2):
            raise ValueError("could not interpret dimensions")
        self._check_product(other)
        columns = other if np.ndim(other) == 2 else other.reshape((-1, 1))
        out = product(self.entries, columns, pattern=self.pattern, transposed=self.transposed)
        return out if np.ndim(other) == 2 else out.reshape((-1,))

    def _check_product(self, other) -> None:
        n, m = self.shape[1], other.shape[0]
        if n != m:
            raise ValueError(f"matmul: dimension mismatch with signature (n,k={n}),(k={m},m)->(n,m)")

    def _times(self, other: TracedSparse) -> TracedSparse:
        """Multiply by a sparse matrix: entry (i, k) meets all entries (k, j), and what ends in one place is added."""
        self._check_product(other)
        right, (rows, inner) = other.tocsr(), self.coordinates()
        starts = right.pattern.indptr
        counts = np.diff(starts)[inner]
        left = np.repeat(np.arange(self.nnz), counts)
        met = np.arange(len(left)) + np.repeat(starts[inner] - (np.cumsum(counts) - counts), counts)
        products = self.entries[left] * right.entries[met]
        shape, matrix = (self.shape[0], other.shape[1]), self.is_matrix or other.is_matrix
        return from_coordinates(
            products, rows[left], right.pattern.indices[met], shape, COMPRESSED[self.transposed], matrix
        )

    def __rmatmul__(self, other):
        if issparse(other):
            return as_traced(other)._times(self)
        return np.transpose(self.T @ np.transpose(operand(other)))

    dot = __matmul__

    def __mul__(self, other):
        if not self.is_matrix or (not issparse(other) and np.ndim(other) == 0):
            return self.multiply(other)
        return self @ other

    def __rmul__(self, other):
        if not self.is_matrix or (not issparse(other) and np.ndim(other) == 0):
            return self.multiply(other)
        return other @ self

    def __pow__(self, n):
        if not self.is_matrix:
            return self.power(n)
        if type(n) is not int or n < 1 or self.shape[0] != self.shape[1]:
            raise ValueError("only the powers 1, 2, 3, ... of a square sparse matrix are computed")
        return functools.reduce(lambda a, _: a @ self, range(n - 1), self)

    def __add__(self, other):
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other):
        return self._plus(other, -1)

    def __rsub__(self, other):
        return (-self)._plus(other, 1)

    def _plus(self, other, sign: int):
        if not issparse(other):
            other = operand(other)
            if np.ndim(other) == 0:
                if isinstance(other, Tracer) or other != 0:
                    raise UnsupportedError(
                        "scipy.sparse: a number was added to a sparse matrix with traced entries.",
                        "the sum has no zeros left, so it is not sparse, and SciPy refuses it too",
                        "use A.toarray() + number, or add a multiple of eye_array(n)",
                    )
                return self.copy()
            self._refuse_numpy_matrix("__add__" if sign > 0 else "__sub__")
            return self.toarray() + sign * other
        other = as_traced(other)
        if other.shape != self.shape:
            raise ValueError("inconsistent shapes")
        rows, columns = [np.concatenate(pair) for pair in zip(self.coordinates(), other.coordinates(), strict=True)]
        entries = np.concatenate([operand(self.entries), sign * operand(other.entries)])
        form, matrix = COMPRESSED[self.transposed], self.is_matrix or other.is_matrix
        return from_coordinates(entries, rows, columns, self.shape, form, matrix)

    def sum(self, axis=None, dtype=None, out=None):
        """Return the sum of all entries, or of those of each column or row."""
        self._refuse_unless(out is None, "sum(out=)")
        entries = self.entries if dtype is None else self.entries.astype(dtype)
        if axis is None or (isinstance(axis, tuple) and len({a % 2 for a in axis}) == 2):
            return np.sum(entries)
        self._refuse_numpy_matrix("sum(axis=)")
        (axis,) = axis if isinstance(axis, tuple) else (axis,)
        if not -2 <= axis < 2:
            raise ValueError("axis out of range")
        kept = 1 - axis % 2
        return indexing.index_add(entries, self.coordinates()[kept], template=_ONE, shape=(self.shape[kept],))

    def mean(self, axis=None, dtype=None, out=None):
        """Return the mean of all places, or of those of each column or row."""
        self._refuse_unless(out is None, "mean(out=)")
        total = self.sum(axis, dtype)
        return total / (self.shape[0] * self.shape[1] // max(1, np.size(total)))

    # ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _refuse_unless(self, condition: bool, name: str) -> None:
        if not condition:
            raise UnsupportedError(
                f"scipy.sparse: .{name} was asked of a sparse matrix with traced entries, of format {self.format!r}.",
                "its pattern is constant, and its entries can only be moved, added and multiplied",
                "convert it first (.tocsr(), .tocoo()), or use .toarray()",
            )

    def _refuse_numpy_matrix(self, name: str) -> None:
        if self.is_matrix:
            raise UnsupportedError(
                f"scipy.sparse: .{name} was asked of a sparse matrix (not array) with traced entries.",
                "SciPy answers with an np.matrix, whose * is a product of matrices, and which can't hold tensors",
                f"make it a sparse array, {self.format}_array, or use .toarray() and what NumPy has",
            )

    def _refuse(self, name: str) -> UnsupportedError:
        return UnsupportedError(
            f"scipy.sparse: .{name} was asked of a sparse matrix with traced entries.",
            "its pattern is constant, and its entries can only be moved, added and multiplied",
            "use what does that (products, sums, indexing, other formats), or .toarray()",
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(_scipy_class(self.format, self.is_matrix), name):
            raise AttributeError(f"a sparse matrix with traced entries has no attribute {name!r}")
        raise self._refuse(name)


def _refusing(name: str) -> Callable:
    def method(self, *args):
        raise self._refuse(name)

    return method


for _name in ("__bool__", "__eq__", "__ge__", "__gt__", "__iter__", "__le__", "__lt__", "__ne__", "__setitem__"):
    setattr(TracedSparse, _name, _refusing(_name))
TracedSparse.__hash__ = object.__hash__


def _entrywise(name: str) -> Callable:
    function = getattr(np, name)

    def method(self) -> TracedSparse:
        return self._entry_by_entry(function)

    method.__doc__ = f"Return ``np.{name}`` of each entry."
    return method


for _name in _ENTRYWISE:
    setattr(TracedSparse, _name, _entrywise(_name))


# ── making them ──────────────────────────────────────────────────────────────────────────────────────────────────


def _scipy_class(form: str, matrix: bool) -> type:
    return getattr(ss, f"{form}_{'matrix' if matrix else 'array'}")


def issparse(x: Any) -> bool:
    """Whether x is a sparse array or matrix, SciPy's or one of traced entries."""
    return isinstance(x, TracedSparse) or ss.issparse(x)


def _keys(A: TracedSparse) -> np.ndarray:
    return A.pattern.rows * A.pattern.columns + A.pattern.indices


def as_traced(A) -> TracedSparse:
    """Return a matrix of SciPy in the form that products with tensors take; a copy, which nobody else can change."""
    if isinstance(A, TracedSparse):
        return A
    if A.ndim != 2:
        raise UnsupportedError(
            f"scipy.sparse: a sparse array of {A.ndim} dimension{'' if A.ndim == 1 else 's'} met a tensor.",
            "only matrices have a pattern of rows and columns",
            "use A.toarray(), or A.reshape((1, -1)) of one dimension",
        )
    if A.format not in COMPRESSED:
        A = A.tocsr()
    transposed = A.format == "csc"
    pattern = Pattern(A.indices.copy(), A.indptr.copy(), A.shape[0] if transposed else A.shape[1])
    return TracedSparse(A.data.copy(), pattern, transposed, isinstance(A, ss.spmatrix))


def from_coordinates(entries, rows, columns, shape: tuple[int, int], form: str, matrix: bool) -> TracedSparse:
    """Make a matrix of entries and their places, adding up those that share one."""
    transposed = form == "csc"
    major, minor, (count, inner) = (columns, rows, shape[::-1]) if transposed else (rows, columns, shape)
    keys, places = np.unique(np.asarray(major, np.int64) * inner + minor, return_inverse=True)
    if len(keys) == len(places):
        entries = entries[np.argsort(places)]
    else:
        entries = indexing.index_add(operand(entries), places, template=_ONE, shape=(len(keys),))
    major, minor = np.divmod(keys, max(inner, 1))
    pattern = Pattern(minor, np.searchsorted(major, np.arange(count + 1)), inner)
    return TracedSparse(entries, pattern, transposed, matrix, form)


def place(found, entries, name: str) -> Any:
    """Replace the positions (1 is the first) in a matrix that SciPy computed by the entries at them."""
    if isinstance(found, np.matrix) or (ss.issparse(found) and found.ndim != 2):
        raise UnsupportedError(
            f"scipy.sparse: {name} of a sparse matrix with traced entries would be "
            + ("an np.matrix." if isinstance(found, np.matrix) else f"a sparse array of {found.ndim} dimension."),
            "only sparse matrices and dense arrays can hold tensors",
            "index with slices or lists (A[[i]], A[i : i + 1]), of a sparse array",
        )
    if not ss.issparse(found):
        found = np.asarray(found).astype(np.int64)
        if not len(entries):
            return np.zeros(found.shape, np.result_type(entries))
        return np.where(found > 0, entries[np.maximum(found - 1, 0)], np.zeros((), np.result_type(entries)))
    matrix, form = isinstance(found, ss.spmatrix), found.format
    if form == "coo":
        order = np.lexsort((found.col, found.row))
        indptr = np.searchsorted(found.row[order], np.arange(found.shape[0] + 1))
        pattern = Pattern(found.col[order], indptr, found.shape[1])
        return TracedSparse(entries[found.data[order].astype(np.int64) - 1], pattern, False, matrix, form, order)
    kept = found if form in COMPRESSED else found.tocsr()
    transposed = form == "csc"
    pattern = Pattern(kept.indices, kept.indptr, kept.shape[0] if transposed else kept.shape[1])
    return TracedSparse(entries[kept.data.astype(np.int64) - 1], pattern, transposed, matrix, form)


class _Form:
    """The static part of a matrix as a tree: equal where SciPy's matrices would have the same structure."""

    __slots__ = ("parts",)

    def __init__(self, *parts) -> None:
        self.parts = parts

    def __eq__(self, other) -> bool:
        if not isinstance(other, _Form):
            return NotImplemented
        (p, *flags, order), (q, *others, its) = self.parts, other.parts
        if (flags, p.shape) != (others, q.shape) or (order is None) != (its is None):
            return False
        pairs = [(p.indices, q.indices), (p.indptr, q.indptr), *([] if order is None else [(order, its)])]
        return all([a is b or np.array_equal(a, b) for a, b in pairs])

    def __hash__(self) -> int:
        return hash((self.parts[0].shape, len(self.parts[0].indices)))


def _flatten(A: TracedSparse) -> tuple:
    return (A.entries,), _Form(A.pattern, A.transposed, A.is_matrix, A.format, A._order)


def _unflatten(form: _Form, children: tuple) -> Any:
    """Make a matrix again: SciPy's, where its entries are an array by now."""
    out = TracedSparse(children[0], *form.parts)
    return out.plain() if type(children[0]) is np.ndarray and children[0].shape == (out.nnz,) else out


# A tree, so that transforms can return it: the entries are its leaf.
register_node(TracedSparse, _flatten, _unflatten)
