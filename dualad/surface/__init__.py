"""NumPy's names: how a call to NumPy becomes a call of an operator.

Importing this package fills the tables of ``core/tables.py`` and installs operators and methods on ``Tracer``.
Not for: rules; a function here either normalizes arguments and calls an operator, or is composed of NumPy calls.
"""

from . import (
    arguments,
    composites,
    contractions,
    creation,
    deferred,
    elementwise,
    fourier,
    functions,
    gufuncs,
    histograms,
    indexing,
    joining,
    linalg,
    metadata,
    methods,
    polynomial,
    quantiles,
    reductions,
    sorting,
    ufunc_methods,
    ufuncs,
    unsupported,
    views,
    writing,
)

__all__ = [
    "arguments",
    "composites",
    "contractions",
    "creation",
    "deferred",
    "elementwise",
    "fourier",
    "functions",
    "gufuncs",
    "histograms",
    "indexing",
    "joining",
    "linalg",
    "metadata",
    "methods",
    "polynomial",
    "quantiles",
    "reductions",
    "sorting",
    "ufunc_methods",
    "ufuncs",
    "unsupported",
    "views",
    "writing",
]
