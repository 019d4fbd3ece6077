"""The door to SciPy, which this annex needs and ``import dualad`` does not.

For: ``scipy_sparse`` and ``scipy_module``, which load SciPy when a pattern is first asked for, and say so where it is
missing; and the matrices of tensors that rest on it. Not for: anything that works without it.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from ..errors import ArgumentError

__all__ = ["scipy_module", "scipy_sparse", "sparse_product", "traced_product", "traced_sparse"]


def scipy_sparse() -> Any:
    """Return ``scipy.sparse``."""
    return scipy_module("scipy.sparse")


@functools.cache
def scipy_module(name: str) -> Any:
    """Return a module of SciPy."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ArgumentError(
            "sparse derivatives need SciPy, which can't be imported.",
            f"patterns and results are its sparse arrays ({error})",
            "pip install 'dualad[scipy]', or use dualad.jacobian, whose matrix is dense",
        ) from error


def sparse_product() -> Any:
    """Return the operators of sparse matrices, which load SciPy."""
    return importlib.import_module("dualad.ops.sparse_product")


def traced_sparse(data: Any, indices: Any, indptr: Any, columns: int) -> Any:
    """Return a sparse matrix whose entries are a tensor, in CSR form."""
    scipy_sparse()
    traced = importlib.import_module("dualad.scipy.sparse.traced")
    return traced.TracedSparse(data, sparse_product().Pattern(indices, indptr, columns))


def traced_product(data: Any, indices: Any, indptr: Any, vector: Any) -> Any:
    """Return the product of a CSR matrix with a vector, both of which may be tensors."""
    pattern = sparse_product().Pattern(indices, indptr, len(vector))
    return sparse_product().product(data, vector[:, None], pattern=pattern, transposed=False)[:, 0]
