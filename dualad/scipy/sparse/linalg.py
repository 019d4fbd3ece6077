"""``scipy.sparse.linalg``: sparse systems with traced right-hand sides and entries.

Not for: iterative solvers, eigenvalues.
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
from .matrices import TracedSparse, traced

__all__ = ["factorized", "spsolve"]


def _solve(matrix: TracedSparse, b):
    b = operand(b)
    if np.ndim(b) not in (1, 2) or matrix.shape[0] != matrix.shape[1] or b.shape[0] != matrix.shape[0]:
        raise ValueError(f"matrix - rhs dimension mismatch ({matrix.shape} - {np.shape(b)})")
    columns = b if np.ndim(b) == 2 else b.reshape((-1, 1))
    out = csr_solve(matrix.data, columns, pattern=matrix.pattern, transposed=matrix.transposed)
    return out if np.ndim(b) == 2 else out.reshape((-1,))


def spsolve(A, b, permc_spec=None, use_umfpack=True):
    """Solve a sparse system; ``b``, and the entries of ``A``, may be tensors."""
    if not isinstance(A, TracedSparse) and tracer_in(b) is None:
        return sl.spsolve(A, b, permc_spec, use_umfpack)
    if ss.issparse(b) or isinstance(b, TracedSparse):
        raise UnsupportedError(
            "scipy.sparse.linalg.spsolve was given a sparse right-hand side beside traced values.",
            "the pattern of the solution depends on values",
            "give b.toarray()",
        )
    out = _solve(traced(A if isinstance(A, TracedSparse) or ss.issparse(A) else ss.csc_array(A)), b)
    return out.reshape((-1,)) if np.ndim(b) == 2 and b.shape[1] == 1 else out


spsolve = mirrors(None)(spsolve)


def factorized(A):
    """Return a function that solves systems with a sparse matrix; it takes arrays and tensors."""
    if isinstance(A, TracedSparse):
        return lambda b: _solve(A, b)
    solve, matrix = sl.factorized(A), traced(ss.csc_array(A))
    return lambda b: solve(b) if tracer_in(b) is None else _solve(matrix, b)


factorized = mirrors(None)(factorized)

__getattr__, __dir__ = falls_back(sl, globals())
