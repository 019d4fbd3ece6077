"""``Sparsity``: which entries of a Jacobian or Hessian can be other than zero.

For: the pattern as users hold it, with where it came from. Not for: finding one (``detect.py``).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..base.frames import public
from ..errors import ArgumentTypeError, ShapeError
from . import rows
from .needs import scipy_sparse

__all__ = ["Sparsity", "as_sparsity"]


class Sparsity:
    """A sparsity pattern: where a matrix can have entries that are not zero.

    Parameters
    ----------
    pattern : sparse array or bool array, shape (m, n)
        Stored entries, or nonzero ones, are in the pattern.
    scope : {"global", "local", "given"}
        Whether it holds for all arguments of these shapes, at one point only, or was given by hand.
    reason : str
        Why it is local, or not as tight as it could be.
    dense_operators : sequence of str
        Operators for which every result was taken to depend on every argument.
    relies_on_constants : bool
        Whether it is smaller because arrays of constants have zeros; it is then checked when values are computed.
    work : float
        How many entries an intermediate result has in a row, on average: what accumulation without colours costs.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    nnz : int
        The number of entries.
    indptr, indices : array of int
        The pattern in CSR form: where each row begins, and the columns, row by row, sorted in each.

    Examples
    --------
    >>> S = da.jacobian_sparsity(lambda x: np.diff(x) ** 2, np.ones(4))
    >>> S
    <sparsity 3 x 4, 6 entries (50.0%), global>
    >>> S.toarray().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """

    def __init__(
        self, pattern: Any, scope: str = "given", reason: str = "", dense_operators: tuple[str, ...] = (),
        relies_on_constants: bool = False, work: float = 0.0,
    ) -> None:  # fmt: skip
        ss = scipy_sparse()
        matrix = ss.csr_array(pattern, copy=False) if ss.issparse(pattern) else ss.csr_array(np.asarray(pattern) != 0)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        self._matrix = rows.pattern(matrix.indices, matrix.indptr, matrix.shape)
        self.shape, self.nnz = self._matrix.shape, self._matrix.nnz
        self.indptr, self.indices = self._matrix.indptr, self._matrix.indices
        self.scope, self.reason, self.dense_operators = scope, reason, tuple(dense_operators)
        self.relies_on_constants, self.work = relies_on_constants, work

    @property
    def rows(self) -> np.ndarray:
        """The row of every entry."""
        return np.repeat(np.arange(self.shape[0], dtype=self.indices.dtype), np.diff(self.indptr))

    @property
    def T(self) -> Sparsity:
        """The pattern of the transpose."""
        origin = self.scope, self.reason, self.dense_operators, self.relies_on_constants, self.work
        return Sparsity(self._matrix.T.tocsr(), *origin)

    def to_scipy(self) -> Any:
        """Return the pattern as a SciPy array.

        Returns
        -------
        scipy.sparse.csr_array of bool, shape (m, n)
            For ``jac_sparsity=`` of SciPy's solvers, for instance.
        """
        return self._matrix.copy()

    def toarray(self) -> np.ndarray:
        """Return the pattern as a dense bool array.

        Returns
        -------
        bool array, shape (m, n)
            True where there is an entry.
        """
        return self._matrix.toarray()

    def spy(self, **options: Any) -> Any:
        """Draw the pattern; it is never made dense.

        Parameters
        ----------
        **options
            For :func:`dualad.spy`.

        Returns
        -------
        Spy
            Printable; a notebook draws it.
        """
        from ..diagnose.pattern import spy  # what draws is loaded when something is drawn

        return spy(self, **options)

    @public
    def save(self, file: str | os.PathLike) -> None:
        """Write the pattern to an ``.npz`` file.

        Parameters
        ----------
        file : str or path
            The file.
        """
        np.savez_compressed(file, **self._stored())

    def _stored(self) -> dict[str, Any]:
        return {
            "shape": self.shape, "indptr": self.indptr, "indices": self.indices, "scope": self.scope,
            "reason": self.reason, "dense_operators": np.array(self.dense_operators, str),
            "relies_on_constants": self.relies_on_constants, "work": self.work,
        }  # fmt: skip

    @classmethod
    @public
    def load(cls, file: str | os.PathLike) -> Sparsity:
        """Read a pattern that :meth:`save` has written.

        Parameters
        ----------
        file : str or path
            The file.

        Returns
        -------
        Sparsity
            As it was saved.
        """
        with np.load(file) as stored:
            return cls._restored(stored)

    @classmethod
    def _restored(cls, stored: Any) -> Sparsity:
        matrix = rows.pattern(stored["indices"], stored["indptr"], tuple(stored["shape"].tolist()))
        words = str(stored["scope"]), str(stored["reason"]), tuple(stored["dense_operators"].tolist())
        return cls(matrix, *words, bool(stored["relies_on_constants"]), float(stored["work"]))

    def __or__(self, other: Sparsity) -> Sparsity:
        """Return the union: of local patterns at several points, for instance."""
        if not isinstance(other, Sparsity):
            return NotImplemented
        if self.shape != other.shape:
            raise ShapeError(
                f"the union of patterns of shapes {self.shape} and {other.shape} was asked for.",
                "they are patterns of different matrices",
                "detect both with arguments of the same shapes",
            )
        scope = (
            self.scope if self.scope == other.scope else "local" if "local" in (self.scope, other.scope) else "given"
        )
        names = tuple(dict.fromkeys([*self.dense_operators, *other.dense_operators]))
        return Sparsity(
            rows.merge(self._matrix, other._matrix), scope, self.reason or other.reason, names,
            self.relies_on_constants or other.relies_on_constants, max(self.work, other.work),
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sparsity) and rows.same(self._matrix, other._matrix)

    __hash__ = None  # type: ignore[assignment]  # large, and compared entry by entry

    def covers(self, other: Sparsity) -> bool:
        """Whether every entry of another pattern is in this one.

        Parameters
        ----------
        other : Sparsity
            A pattern of the same shape.

        Returns
        -------
        bool
            Whether none is missing.
        """
        return self.shape == other.shape and rows.merge(self._matrix, other._matrix).nnz == self.nnz

    def explain(self) -> str:
        """Say where the pattern came from, and what made it larger than it could be.

        Returns
        -------
        str
            A line for each finding.
        """
        lines = [repr(self)[1:-1]]
        if self.reason:
            lines.append(self.reason)
        if self.relies_on_constants:
            lines.append("smaller because constant arrays have zeros")
        lines += [f"dense for want of a rule: {name}" for name in self.dense_operators]
        return "\n".join(lines)

    def __repr__(self) -> str:
        m, n = self.shape
        share = f" ({self.nnz / (m * n):.1%})" if m * n else ""
        entries = "entry" if self.nnz == 1 else "entries"
        return f"<sparsity {m} x {n}, {self.nnz} {entries}{share}, {self.scope}>"


def as_sparsity(pattern: Any, where: str) -> Sparsity:
    """Return a pattern that a user gave, of any kind."""
    if isinstance(pattern, Sparsity):
        return pattern
    if scipy_sparse().issparse(pattern) or (isinstance(pattern, (np.ndarray, list)) and np.ndim(pattern) == 2):
        return Sparsity(pattern)
    raise ArgumentTypeError(
        f"{where}: the pattern is {type(pattern).__name__}.",
        "a pattern is a matrix of two dimensions",
        "pass what jacobian_sparsity returned, a SciPy sparse array, or a bool array of shape (m, n)",
    )
