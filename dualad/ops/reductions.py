"""Reductions: sums, products, extrema, norms, and the questions asked of a whole axis.

Arguments arrive normalized: ``axis`` is a tuple of distinct non-negative ints (``()`` reduces nothing), and
``where=``, ``initial=``, ``dtype=`` have been worked into the operand or the result (``surface/reductions.py``).
Not for: running totals (``scans.py``), order statistics (``sorting.py``), or means and variances, which are composed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.aval import Array, Aval
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import PLAIN
from .choice import nowhere, where
from .kinds import along_axis, strong_product
from .kinks import chosen
from .samples import away_from, complex_plane
from .scans import exclusive_cumprod, total_dtype

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "max",
    "min",
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmin",
    "one_axis",
    "prod",
    "reduced_shape",
    "restore_axes",
    "sum",
    "vector_norm",
]

# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def reduced_shape(shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape that is left when the axes are reduced."""
    if len(axis) == len(shape):
        return (1,) * len(shape) if keepdims else ()
    if keepdims:
        return tuple([1 if i in axis else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axis])


def restore_axes(x, shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool):
    """Give a reduced array its reduced axes back, with size one, so that it broadcasts against the unreduced one."""
    return x if keepdims or not axis else x.reshape(reduced_shape(shape, axis, True))


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_add_reduce = np.add.reduce


def _total(reduce, function):
    """Make what adds or multiplies up; ``function`` is NumPy's, for libraries that know no ufunc's methods."""

    def impl(x, *, axis, keepdims=False):
        if type(x) in PLAIN:
            return reduce(x, axis, None, None, keepdims)
        return function(x, axis=axis, keepdims=keepdims) if axis else x.astype(total_dtype(x.dtype))

    return impl


def _sum_jvp(primals: Sequence, tangents: Sequence, *, axis: int, keepdims: bool = False) -> tuple:
    x, t = primals[0], tangents[0]
    if type(x) is np.ndarray:
        x = _add_reduce(x, axis, None, None, keepdims)
    else:
        x = bind(sum, (x,), {"axis": axis, "keepdims": keepdims})
    if type(t) is np.ndarray:
        return x, _add_reduce(t, axis, None, None, keepdims)
    return x, bind(sum, (t,), {"axis": axis, "keepdims": keepdims})


def _sum_transpose(ct: Array, x: Array, *, axis: int, keepdims: bool = False) -> tuple:
    if isinstance(ct, np.generic):  # most often: then this is what broadcast_to does, and does not cost its time
        return (np.ndarray(x.shape, ct.dtype, ct, 0, (0,) * len(x.shape)),)
    return (np.broadcast_to(restore_axes(ct, x.shape, axis, keepdims), x.shape),)


def _reduction(name: str, *, dtype=total_dtype, abstract_eval=None, kind="reduction", **fields) -> Primitive:
    """Declare a reduction to numbers of ``dtype(of the operand's)``: in a batch, that of the axes behind the first."""

    def shape(x, *, axis, keepdims=False):
        return Aval(reduced_shape(x.shape, axis, keepdims), dtype(x.dtype))

    def batch(size: int, values: Sequence, mapped: Sequence[bool], *, axis: int, keepdims: bool = False) -> Array:
        return bind(op, values, {"axis": tuple([a + 1 for a in axis]), "keepdims": keepdims})

    op = Primitive(name, abstract_eval=abstract_eval or shape, batch=batch, kind=kind, **fields)
    return op


_REDUCED = [
    ((3,), {"axis": (0,)}),
    ((2, 3), {"axis": (0, 1)}),
    ((2, 3), {"axis": (1,), "keepdims": True}),
    ((2, 3, 2), {"axis": (0, 2)}),
    ((), {"axis": ()}),
    ((2,), {"axis": ()}),
    ((1, 3), {"axis": (0,)}),
]
_EMPTY = [((0, 2), {"axis": (0,)}), ((0, 2), {"axis": (1,)})]
_COMPLEX = (complex_plane()(2, 3), {"axis": (1,)})

sum = _reduction(
    "sum",
    impl=_total(_add_reduce, np.sum),
    jvp=_sum_jvp,
    linear_in=(0,),
    transpose=_sum_transpose,
    samples=[*_REDUCED, *_EMPTY, _COMPLEX],
    collects=True,
)

# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────────
#
# ∂ Πᵢ xᵢ = Σᵢ tᵢ Π_{j≠i} xⱼ. The product of the others is (what stands before i)·(what stands after i), two running
# products: no division, so zeros among the factors are ordinary points, of every order of differentiation.


def one_axis(x, axis: tuple[int, ...]):
    """Return ``x`` with the given axes joined into a single one, and the number of that one."""
    if len(axis) == 1:
        return x, axis[0]
    others = tuple([i for i in range(len(x.shape)) if i not in axis])
    size = 1
    for i in axis:
        size *= x.shape[i]
    moved = np.transpose(x, others + axis)
    return moved.reshape((*moved.shape[: len(others)], size)), len(others)


def _prod_jvp(primals: Sequence, tangents: Sequence, *, axis: int, keepdims: bool = False) -> tuple:
    x, t = primals[0], tangents[0]
    out = bind(prod, (x,), {"axis": axis, "keepdims": keepdims})
    if not axis:
        return out, t
    x, single = one_axis(x, axis)
    t, _ = one_axis(t, axis)
    others = exclusive_cumprod(x, single, False) * exclusive_cumprod(x, single, True)
    tangent = bind(sum, (strong_product(t, others),), {"axis": (single,)})
    return out, tangent.reshape(out.shape) if keepdims else tangent


prod = _reduction(
    "prod", impl=_total(np.multiply.reduce, np.prod), jvp=_prod_jvp, samples=[*_REDUCED, *_EMPTY, _COMPLEX]
)


# ── extrema ──────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Where one entry is the extremum, the tangent is that entry's. At a tie the derivative is chosen as the mean over the
# tied entries (the element of least norm among those that treat them alike). A NaN result is tied with every NaN.


def _extremum_shape(x, *, axis, keepdims=False):
    if 0 in [x.shape[i] for i in axis]:
        raise ValueError("zero-size array to reduction operation (max or min), which has no identity")
    return Aval(reduced_shape(x.shape, axis, keepdims), x.dtype)


def _extremum(name: str, function, reduce=None) -> Primitive:
    reduce = reduce or function

    def impl(x, *, axis, keepdims=False):
        if type(x) in PLAIN:
            return reduce(x, axis=axis, keepdims=keepdims)
        return function(x, axis=axis, keepdims=keepdims) if axis else x

    def jvp(primals: Sequence, tangents: Sequence, *, axis: int, keepdims: bool = False) -> tuple:
        params = {"axis": axis, "keepdims": keepdims}
        x, t = primals[0], tangents[0]
        out = bind(op, (x,), params)
        if not axis:
            return out, t
        full = restore_axes(out, x.shape, axis, keepdims)
        tied, spoiled = x == full, full != full
        if not nowhere(spoiled):
            tied = tied | ((x != x) & spoiled)
        count = bind(sum, (tied,), params).astype(out.dtype)
        t = bind(sum, (where(tied, t, 0),), params) / count
        return out, chosen(t, lambda: count > 1, name)

    op = _reduction(name, impl=impl, abstract_eval=_extremum_shape, jvp=jvp, samples=[*_REDUCED, _EMPTY[1]])
    return op


max = _extremum("max", np.max, np.maximum.reduce)
min = _extremum("min", np.min, np.minimum.reduce)
nanmax = _extremum("nanmax", np.nanmax)
nanmin = _extremum("nanmin", np.nanmin)


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────


def _question(name: str, impl) -> Primitive:
    """Declare a reduction to truth values."""
    return _reduction(
        name,
        impl=impl,
        dtype=lambda _: np.dtype(bool),
        jvp=None,
        samples=[*_REDUCED, *_EMPTY],
        kind="predicate",
    )


all = _question("all", np.all)
any = _question("any", np.any)


def _position_shape(x, *, axis):
    if not x.shape[axis]:
        raise ValueError("attempt to get the position of the extremum of an empty sequence")
    return Aval(x.shape[:axis] + x.shape[axis + 1 :], np.dtype(np.intp))


def _position(name: str, impl) -> Primitive:
    """Declare the place of an extremum along one axis."""
    return along_axis(
        name,
        impl=impl,
        abstract_eval=_position_shape,
        jvp=None,
        samples=[((3,), {"axis": 0}), ((2, 3), {"axis": 1}), ((0, 2), {"axis": 1}), ((1, 3), {"axis": 0})],
        kind="predicate",
    )


argmax = _position("argmax", np.argmax)
argmin = _position("argmin", np.argmin)
nanargmax = _position("nanargmax", np.nanargmax)
nanargmin = _position("nanargmin", np.nanargmin)


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
