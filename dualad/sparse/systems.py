"""Linear systems with a sparse Jacobian: what the derivative of a solution asks for.

For: ``solve_linearized``, behind ``custom_root(..., tangent_solve="sparse")``. Not for: nonlinear systems.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .derivatives import sparse_jacobian
from .needs import traced_solve

__all__ = ["solve_linearized"]


def solve_linearized(f: Callable, x: Any, parameters: list, b: Any) -> Any:
    """Solve ∂f(x, *parameters)·v = b for flat vectors, by factorizing the sparse Jacobian in x.

    Parameters
    ----------
    f : callable
        ``f(x, *parameters)``: as many numbers as ``x`` has.
    x, b : array, shape (n,)
        The point, and the right-hand side; they may be tensors, and so may the parameters.
    parameters : list of arrays
        Further arguments.

    Returns
    -------
    array, shape (n,)
        v, which may be differentiated in all of them.
    """
    jac = sparse_jacobian(f)
    data = jac.data(x, *parameters)
    S = jac.sparsity
    return traced_solve(data, S.indices, S.indptr, b)
