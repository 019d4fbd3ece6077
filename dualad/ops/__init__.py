"""Every operator, a family a file, a declaration an operator; importing this package fills the registry.

``special`` is not imported here: it needs SciPy, and is loaded when a ufunc of ``scipy.special`` first meets a tensor.
Not for: NumPy's names and signatures (``surface/``), or any knowledge of Dual, Batched and Staged tensors: a rule is
plain NumPy, and dispatch decides what it runs on.
"""

# fmt: off
from . import (  # noqa: F401, I001 - for what importing them does
    arithmetic, choice, contraction, determinant, elementary, factorization, fourier, indexing, joining,
    polynomial, reductions, scans, shaping, sorting, spectral,
)
# fmt: on
