"""NumPy's questions about shape and dtype, answered from the aval without computing anything.

Not for: questions about values (``isfinite``, comparisons, ``argmax``), which are operators.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.aval import Array, Axis, aval_of
from ..core.tracer import Tracer
from .arguments import function, normalize_axes, numpys_own, operand


@function(np.shape, kind="metadata")
def shape(a: Array) -> Array:
    return operand(a).shape


@function(np.ndim, kind="metadata")
def ndim(a: Array) -> Array:
    return len(operand(a).shape)


@function(np.size, kind="metadata")
def size(a: Array, axis: Axis = None) -> Array:
    a = operand(a)
    return math.prod([a.shape[i] for i in normalize_axes(axis, a.ndim, "np.size")])


@function(np.result_type, kind="metadata")
def result_type(*arrays_and_dtypes: Any) -> Array:
    return np.result_type(*[x.dtype if isinstance(x, Tracer) else x for x in arrays_and_dtypes])


@function(np.can_cast, kind="metadata")
def can_cast(from_: Any, to: Any, casting: str = "safe") -> Array:
    return np.can_cast(from_.dtype if isinstance(from_, Tracer) else from_, to, casting)


@function(np.min_scalar_type, kind="metadata")
def min_scalar_type(a: Array, /) -> Array:
    """Return the dtype: that alone is known of a tensor, as of any array with axes."""
    return a.dtype


numpys_own(
    np.common_type, np.diag_indices_from, np.isrealobj, np.tril_indices_from, np.triu_indices_from, kind="metadata"
)


@function(np.iscomplexobj, kind="metadata")
def iscomplexobj(x: Array) -> Array:
    return aval_of(operand(x)).dtype.kind == "c"
