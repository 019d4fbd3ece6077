"""``scipy.sparse.linalg``: sparse systems with traced right-hand sides and entries.

Not for: iterative solvers, eigenvalues, and norms that need singular values.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as ss
import scipy.sparse.linalg as sl

from ...core.tracer import tracer_in
from ...errors import UnsupportedError
from ...ops.sparse_product import csr_solve
from ...surface.arguments import operand
from ..mirror import falls_back, mirrors
from .joining import holds_traced
from .traced import TracedSparse, as_traced

__all__ = ["Factors", "factorized", "norm", "splu", "spsolve"]


def _solve(matrix: TracedSparse, b):
    b = operand(b)
    if np.ndim(b) not in (1, 2) or matrix.shape[0] != matrix.shape[1] or b.shape[0] != matrix.shape[0]:
        raise ValueError(f"matrix - rhs dimension mismatch ({matrix.shape} - {np.shape(b)})")
    columns = b if np.ndim(b) == 2 else b.reshape((-1, 1))
    out = csr_solve(matrix.entries, columns, pattern=matrix.pattern, transposed=matrix.transposed)
    return out if np.ndim(b) == 2 else out.reshape((-1,))


@mirrors(None)
def spsolve(A, b, permc_spec=None, use_umfpack=True):
    """Solve a sparse system; ``b``, and the entries of ``A``, may be tensors."""
    if not isinstance(A, TracedSparse) and tracer_in(b) is None:
        return sl.spsolve(A, b, permc_spec, use_umfpack)
    if ss.issparse(b) or isinstance(b, TracedSparse):
        raise UnsupportedError(
            "scipy.sparse.linalg.spsolve was given a sparse right-hand side and traced values.",
            "the pattern of the solution depends on values",
            "give b.toarray()",
        )
    out = _solve(as_traced(A if isinstance(A, TracedSparse) or ss.issparse(A) else ss.csc_array(A)), b)
    return out.reshape((-1,)) if np.ndim(b) == 2 and b.shape[1] == 1 else out


@mirrors(None)
def factorized(A):
    """Return a function that solves systems with a sparse matrix; it takes arrays and tensors."""
    if isinstance(A, TracedSparse):
        return lambda b: _solve(A, b)
    solve, matrix = sl.factorized(A), as_traced(ss.csc_array(A))
    return lambda b: solve(b) if tracer_in(b) is None else _solve(matrix, b)


class Factors:
    """The result of ``splu`` for a matrix of traced entries, or for traced right-hand sides."""

    def __init__(self, matrix: TracedSparse, plain=None) -> None:
        self._matrix, self._plain = matrix, plain
        self.shape, self.nnz = matrix.shape, matrix.nnz

    def solve(self, rhs, trans: str = "N"):
        """Solve a system with the matrix, its transpose (``"T"``) or its conjugate transpose (``"H"``)."""
        if self._plain is not None and tracer_in(rhs) is None:
            return self._plain.solve(rhs, trans)
        forms = {"N": lambda A: A, "T": lambda A: A.T, "H": lambda A: A.T.conj()}
        if trans not in forms:
            raise ValueError("trans must be N, T, or H")
        return _solve(forms[trans](self._matrix), rhs)

    def __getattr__(self, name: str):
        if name.startswith("_") or not hasattr(sl.SuperLU, name):
            raise AttributeError(f"factors of a sparse matrix have no attribute {name!r}")
        if self._plain is not None:
            return getattr(self._plain, name)
        raise UnsupportedError(
            f"scipy.sparse.linalg.splu(A).{name} was asked of a matrix with traced entries.",
            "its order of elimination depends on values; only solutions have a derivative here",
            "use .solve(b), or A.toarray() and dualad.scipy.linalg.lu",
        )


@mirrors(None)
def splu(A, *args, **kwargs):
    """Factor a sparse matrix; ``.solve(b)`` takes arrays and tensors, and the entries of ``A`` may be traced."""
    if isinstance(A, TracedSparse):
        return Factors(A)
    return Factors(as_traced(ss.csc_array(A)), sl.splu(A, *args, **kwargs))


@mirrors(None)
def norm(x, ord=None, axis=None):
    """Return a norm of a sparse matrix: of all entries, or the largest sum of magnitudes of a column or row."""
    if not isinstance(x, TracedSparse):
        return sl.norm(x, ord, axis)
    if axis is None and ord in (None, "fro", "f"):
        return np.linalg.norm(x.deduplicated().entries)
    if axis is None and ord in (1, np.inf):
        return np.max(abs(x.as_kind(False)).sum(axis=0 if ord == 1 else 1))
    raise UnsupportedError(
        f"scipy.sparse.linalg.norm(ord={ord!r}, axis={axis!r}) was asked of a sparse matrix with traced entries.",
        "only the Frobenius norm, 1 and inf of the whole matrix have a rule",
        "use np.linalg.norm(x.toarray(), ord, axis)",
    )


__getattr__, __dir__ = falls_back(sl, globals(), holds_traced)
