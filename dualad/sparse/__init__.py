"""Sparse Jacobians and Hessians: pattern, colouring, evaluation.

Not for: sparse matrices in users' own code (``dualad.scipy.sparse``).
"""

from .coloring import Coloring, color
from .derivatives import sparse_hessian, sparse_jacobian, value_and_sparse_hessian, value_and_sparse_jacobian
from .detect import hessian_sparsity, jacobian_sparsity
from .structure import Sparsity

__all__ = [
    "Coloring", "Sparsity", "color", "hessian_sparsity", "jacobian_sparsity", "sparse_hessian", "sparse_jacobian",
    "value_and_sparse_hessian", "value_and_sparse_jacobian",
]  # fmt: skip
