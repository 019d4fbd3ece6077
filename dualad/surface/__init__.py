"""NumPy's names: how a call to NumPy becomes a call of an operator.

Importing this package fills the tables of ``core/tables.py`` and installs operators and methods on ``Tracer``.
A file here and one in ``ops/`` of the same name are a pair: NumPy's signatures, and the rules under them. The others:
``linalg`` stands on ``factorization``, ``determinant``, ``spectral`` and ``norms``; ``elementwise`` on ``arithmetic``,
``choice`` and ``rounding``, whose ufuncs need no handler, no more than those of ``elementary`` and ``special``;
``sorting`` also on ``scans``; ``composites``, ``polynomial``, ``quantiles`` and ``histograms`` on other NumPy calls.

Not for: rules; a function here either normalizes arguments and calls an operator, or is composed of NumPy calls.
"""

# fmt: off
from . import (  # noqa: F401, I001 - for what importing them does
    arguments, composites, contraction, creation, elementwise, fourier, histograms, indexing,
    joining, linalg, methods, polynomial, quantiles, reductions, shaping, sorting, ufunc_methods, ufuncs,
    unsupported, writing,
)
# fmt: on
