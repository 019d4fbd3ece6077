"""``scipy.linalg`` with derivatives, batches and programs.

Options that concern memory or the choice of an algorithm (``overwrite_a``, ``check_finite``, ``lwork``,
``lapack_driver``, ``driver``) mean nothing on tensors and are ignored there. Vectors have the sign and phase that
NumPy's algorithms choose. Not for: rules (``ops/``).
"""

from __future__ import annotations

import scipy.linalg

from ..mirror import falls_back
from .constructions import *
from .factorizations import *
from .functions import *
from .systems import *

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "coshm",
    "cosm", "det", "eig", "eigh", "eigvals", "eigvalsh", "expm", "expm_frechet", "fiedler", "fractional_matrix_power",
    "funm", "hankel", "hessenberg", "inv", "khatri_rao", "kron", "ldl", "leslie", "logm", "lstsq", "lu", "lu_factor",
    "lu_solve", "matmul_toeplitz", "norm", "null_space", "ordqz", "orth", "pinv", "pinvh", "polar", "qr", "qz",
    "schur", "signm", "sinhm", "sinm", "solve", "solve_banded", "solve_circulant", "solve_continuous_are",
    "solve_continuous_lyapunov", "solve_discrete_are", "solve_discrete_lyapunov", "solve_lyapunov", "solve_sylvester",
    "solve_toeplitz", "solve_triangular", "solveh_banded", "sqrtm", "svd", "svdvals", "tanhm", "tanm", "toeplitz",
]  # fmt: skip

__getattr__, __dir__ = falls_back(scipy.linalg, globals())
