"""Linear systems with a sparse Jacobian: what the derivative of a solution asks for.

For: ``solve_linearized``, behind ``custom_root(..., tangent_solve="sparse")``. Not for: nonlinear systems.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import SparsityError
from ..jacobians.call import Options
from .derivatives import sparse_jacobian
from .detect import detect
from .needs import sparse_product
from .problem import Problem

__all__ = ["solve_linearized"]


def solve_linearized(
    f: Callable, x: Any, parameters: list, b: Any, kept: Any, share: float = 1.0, look: Callable | None = None
) -> Any:  # fmt: skip
    """Solve ∂f(x, *parameters)·v = b for flat vectors of one length, by factorizing the sparse Jacobian in x.

    All of them may be tensors, and v may be differentiated in all of them. ``kept`` are the Factors of the equation:
    its pattern is found, and its matrix factorized, once for an answer. A larger share of nonzero entries is an error.
    ``look(data, pattern)`` returns the entries of the matrix, if it is a good one.
    """
    if kept.sparse is None:
        S = detect(Problem(f, (x, *parameters), {}, Options("sparse_jacobian"), second=False), "auto", None)
        if len(S.indices) > share * S.shape[0] * S.shape[1]:
            raise SparsityError(
                f"the Jacobian of {S.shape[0]} x {S.shape[1]} has {len(S.indices)} entries.",
                "a matrix with this many is not factorized as a sparse one",
                "solve with products, or with a dense matrix",
            )
        # The factors are known by where the entries stand.
        kept.sparse = sparse_jacobian(f, sparsity=S), sparse_product().Pattern(S.indices, S.indptr, S.shape[1])
    jac, pattern = kept.sparse
    data = jac.data(x, *parameters)
    data = data if look is None else look(data, pattern)
    return sparse_product().csr_solve(data, b.reshape((-1, 1)), pattern=pattern, transposed=False).reshape((-1,))
