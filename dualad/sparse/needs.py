"""The door to SciPy, which this annex needs and ``import dualad`` does not.

For: ``scipy_sparse`` and ``scipy_module``, which load SciPy when a pattern is first asked for, and say so where it is
missing; and the matrices of tensors that rest on it. Not for: anything that works without it.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from ..errors import ArgumentError

__all__ = ["scipy_module", "scipy_sparse", "square_pattern", "traced_product", "traced_solve", "traced_sparse"]


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


def traced_sparse(data: Any, indices: Any, indptr: Any, columns: int) -> Any:
    """Return a sparse matrix whose entries are a tensor, in CSR form."""
    scipy_sparse()
    product = importlib.import_module("dualad.ops.sparse_product")
    traced = importlib.import_module("dualad.scipy.sparse.traced")
    return traced.TracedSparse(data, product.Pattern(indices, indptr, columns))


def traced_product(data: Any, indices: Any, indptr: Any, vector: Any) -> Any:
    """Return the product of a CSR matrix with a vector, both of which may be tensors."""
    product = importlib.import_module("dualad.ops.sparse_product")
    pattern = product.Pattern(indices, indptr, len(vector))
    return product.csr_product(data, vector[:, None], pattern=pattern, transposed=False)[:, 0]


def square_pattern(indices: Any, indptr: Any) -> Any:
    """Return where the entries of a CSR system stand: what its factors are known by."""
    return importlib.import_module("dualad.ops.sparse_product").Pattern(indices, indptr, len(indptr) - 1)


def traced_solve(data: Any, pattern: Any, b: Any) -> Any:
    """Return the solution of a CSR system, all of which may be tensors."""
    product = importlib.import_module("dualad.ops.sparse_product")
    return product.csr_solve(data, b.reshape((-1, 1)), pattern=pattern, transposed=False).reshape((-1,))
