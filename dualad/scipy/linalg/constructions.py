"""Matrices made of vectors and of blocks: Toeplitz and its relatives, block-diagonal, Khatri-Rao.

Not for: constant matrices (``hilbert``, ``dft``), which SciPy makes from integers.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sl

from ...surface.arguments import operand, operands
from ..mirror import mirrors

__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "fiedler", "hankel", "khatri_rao", "kron", "leslie",
    "toeplitz",
]  # fmt: skip


def _vector(x):
    return np.atleast_1d(operand(x))


@mirrors(sl.block_diag)
def block_diag(*arrs):
    """Put matrices (or stacks of them) on the diagonal of one."""
    blocks = [np.atleast_2d(operand(a)) for a in arrs]
    stack = np.broadcast_shapes(*[a.shape[:-2] for a in blocks])
    columns, dtype = sum(a.shape[-1] for a in blocks), np.result_type(*[a.dtype for a in blocks])
    rows, before = [], 0
    for a in blocks:
        m, n = a.shape[-2:]
        left, right = (np.zeros((*stack, m, k), dtype) for k in (before, columns - before - n))
        rows.append(np.concatenate([left, np.broadcast_to(a, (*stack, m, n)), right], axis=-1))
        before += n
    return np.concatenate(rows, axis=-2)


@mirrors(sl.toeplitz)
def toeplitz(c, r=None):
    """Make the matrix whose first column is c and whose first row is r (the conjugate of c without it).

    Leading axes are a batch.
    """
    c = _vector(c)
    r = np.conj(c) if r is None else _vector(r)
    stack = np.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    m, n = c.shape[-1], r.shape[-1]
    c, r = np.broadcast_to(c, (*stack, m)), np.broadcast_to(r, (*stack, n))
    values = np.concatenate([np.flip(c, -1), r[..., 1:]], axis=-1)
    return values[..., (m - 1) - np.arange(m)[:, None] + np.arange(n)]


@mirrors(sl.hankel)
def hankel(c, r=None):
    """Make the matrix, constant on its antidiagonals, whose first column is c and whose last row is r (or zeros)."""
    c = np.ravel(operand(c))
    r = np.zeros(c.shape, c.dtype) if r is None else np.ravel(operand(r))
    values = np.concatenate([c, r[1:]])
    return values[np.arange(c.shape[0])[:, None] + np.arange(r.shape[0])]


@mirrors(sl.circulant)
def circulant(c):
    """Make the circulant matrix whose first column is c."""
    c = _vector(c)
    n = c.shape[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)) % max(n, 1)]


@mirrors(sl.companion)
def companion(a):
    """Make the companion matrix of a polynomial, highest power first.

    That its first coefficient is not zero is not checked on tensors.
    """
    a = _vector(a)
    n = a.shape[-1]
    if n < 2:
        raise ValueError("The length of `a` along the last axis must be at least 2.")
    row = np.expand_dims(-a[..., 1:] / (1.0 * a[..., 0:1]), -2)
    below = np.broadcast_to(np.eye(n - 2, n - 1, dtype=row.dtype), (*a.shape[:-1], n - 2, n - 1))
    return np.concatenate([row, below], axis=-2)


@mirrors(sl.convolution_matrix)
def convolution_matrix(a, n, mode="full"):
    """Make the matrix whose product with v is ``np.convolve(a, v, mode)``."""
    if n <= 0:
        raise ValueError("n must be a positive integer.")
    a = operand(a)
    m = a.shape[-1] if np.ndim(a) else 0
    if not m:
        raise ValueError("len(a) must be at least 1.")
    if mode not in ("full", "valid", "same"):
        raise ValueError("'mode' argument must be one of ('full', 'valid', 'same')")
    # Row i, column j of the full matrix is a[i − j]; the other modes are rows of it.
    index = np.arange(m + n - 1)[:, None] - np.arange(n)
    first = {"full": 0, "same": (min(m, n) - 1) // 2, "valid": min(m, n) - 1}[mode]
    count = {"full": m + n - 1, "same": max(m, n), "valid": max(m, n) - min(m, n) + 1}[mode]
    index = index[first : first + count]
    inside = (index >= 0) & (index < m)
    return np.where(inside, a[..., np.where(inside, index, 0)], np.zeros((), a.dtype))


@mirrors(sl.leslie)
def leslie(f, s):
    """Make the Leslie matrix of fecundities f and survivals s."""
    f, s = _vector(f), _vector(s)
    if f.shape[-1] != s.shape[-1] + 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less than the length of f."
        )
    n = f.shape[-1]
    if n < 2:
        raise ValueError("The length of s must be at least 1.")
    below = np.expand_dims(s, -1) * np.eye(n - 1, n, dtype=s.dtype)
    stack = np.broadcast_shapes(f.shape[:-1], s.shape[:-1])
    rows = [np.broadcast_to(np.expand_dims(f, -2), (*stack, 1, n)), np.broadcast_to(below, (*stack, n - 1, n))]
    return np.concatenate(rows, axis=-2)


@mirrors(sl.fiedler)
def fiedler(a):
    """Make the matrix of all |aᵢ − aⱼ|."""
    a = _vector(a)
    return np.abs(np.expand_dims(a, -1) - np.expand_dims(a, -2))


@mirrors(sl.khatri_rao)
def khatri_rao(a, b):
    """Compute the Kronecker product column by column."""
    a, b = operands(a, b)
    if np.ndim(a) < 2 or np.ndim(b) < 2:
        raise ValueError("The both arrays should be 2-dimensional.")
    if a.shape[-1] != b.shape[-1]:
        raise ValueError("The number of columns for both arrays should be equal.")
    c = np.expand_dims(a, -2) * np.expand_dims(b, -3)
    return np.reshape(c, (*c.shape[:-3], c.shape[-3] * c.shape[-2], c.shape[-1]))


@mirrors(getattr(sl, "kron", None))
def kron(a, b):
    """Compute the Kronecker product; newer releases of SciPy leave it to NumPy."""
    return np.kron(a, b)
