"""Vector norms, whose derivative at the zero vector is zero at every order: the subgradient of minimal norm.

Not for: the norms that are sums and maxima of absolute values, and those of matrices; ``surface/linalg.py`` composes
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.aval import Aval
from ..core.primitive import Primitive
from ..core.tracer import PLAIN
from .kinks import chosen
from .reductions import reduced_shape, restore_axes
from .samples import away_from, complex_plane

__all__ = ["vector_norm"]

# N = (Σ |x|ᵖ)^(1/p),     ∂N = Re Σ u ∂x,     u = (|x|/N)^(p−1) x̄/|x|.
#
# For an even p this is (|x|²/N²)^((p−2)/2) x̄/N, a polynomial in x and 1/N, good at entries that are zero. For the
# others, entries that are zero get u = 0 (selected, so that no derivative of |x|^(p−1) is taken there). Where N = 0,
# the whole of x is replaced by a constant, so that u and all its derivatives are zero.


def _vector_norm(x, *, ord, axes):
    if type(x) not in PLAIN:
        size = np.abs(x)
        return np.sqrt(np.sum(size * size, axis=axes)) if ord == 2 else np.sum(size**ord, axis=axes) ** (1 / ord)
    if len(axes) == np.ndim(x):
        return np.linalg.norm(x) if ord == 2 else np.linalg.vector_norm(x, ord=ord)
    return np.linalg.vector_norm(x, axis=axes[0] if len(axes) == 1 else axes, ord=ord)


def _vector_norm_jvp(primals: Sequence, tangents: Sequence, *, ord, axes: tuple[int, ...]) -> tuple:
    x, t = primals[0], tangents[0]
    out = vector_norm(x, ord=ord, axes=axes)
    norm = restore_axes(out, x.shape, axes, False)
    flat = norm == 0
    x = np.where(flat, x.dtype.type(0), x)
    norm = np.where(flat, norm.dtype.type(1), norm)
    conjugated = np.conj(x) if x.dtype.kind == "c" else x
    if ord == 2:
        u = conjugated / norm
    elif ord > 0 and ord % 2 == 0:
        unit = x / norm
        square = np.real(unit) ** 2 + np.imag(unit) ** 2 if x.dtype.kind == "c" else unit * unit
        u = square ** (int(ord) // 2 - 1) * (conjugated / norm)
    else:
        nothing = x == 0
        size = np.abs(np.where(nothing, x.dtype.type(1), x))
        u = np.where(nothing, x.dtype.type(0), (size / norm) ** (ord - 1) * (conjugated / size))
    t = np.sum(np.real(u * t) if x.dtype.kind == "c" else u * t, axis=axes)
    return out, chosen(t, lambda: out == 0, "vector_norm")


def _with_p(ord, *axes):
    return {"ord": ord, "axes": axes}


_nonzero = away_from(0.0)
_complex = complex_plane(_nonzero)

vector_norm = Primitive(
    "vector_norm",
    impl=_vector_norm,
    abstract_eval=lambda x, *, ord, axes: Aval(reduced_shape(x.shape, axes, False), x.dtype.type(0).real.dtype),
    jvp=_vector_norm_jvp,
    batch=lambda size, values, mapped, *, ord, axes: vector_norm(values[0], ord=ord, axes=tuple([a + 1 for a in axes])),
    samples=[
        (_nonzero(3), _with_p(2, 0)), (_nonzero(2, 3), _with_p(2, 0, 1)), (_nonzero(2, 3), _with_p(2, 1)),
        (_nonzero(2, 3, 2), _with_p(2, 0, 2)), (_nonzero(4), _with_p(3, 0)), (_nonzero(2, 3), _with_p(4, 1)),
        (_nonzero(3), _with_p(1.5, 0)), (_nonzero(3), _with_p(-1, 0)), (_nonzero(), _with_p(2)),
        (_nonzero(2, 0), _with_p(2, 0)), (_nonzero(1, 3), _with_p(2, 0)), (_complex(2, 3), _with_p(2, 1)),
        (_complex(3), _with_p(3, 0)), (_complex(3), _with_p(4, 0)),
    ],
)  # fmt: skip
