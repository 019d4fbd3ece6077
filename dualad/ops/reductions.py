"""Reductions: sums, products, extrema, and the questions asked of a whole axis.

Arguments arrive normalized: ``axis`` is a tuple of distinct non-negative ints (``()`` reduces nothing), and
``where=``, ``initial=``, ``dtype=`` have been worked into the operand or the result (``surface/reductions.py``).
Not for: running totals (``scans.py``), order statistics (``sorting.py``), or means and variances, which are composed.
"""

from __future__ import annotations

import numpy as np

from ..core.aval import Aval
from ..core.dispatch import apply
from ..core.op import Op

__all__ = ["kept", "reduced_shape", "sum", "total_dtype"]


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def reduced_shape(shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape that is left when the axes are reduced."""
    if keepdims:
        return tuple([1 if i in axis else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axis])


def kept(x, shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool):
    """Give a reduced array its reduced axes back, with size one, so that it broadcasts against the unreduced one."""
    return x if keepdims or not axis else x.reshape(reduced_shape(shape, axis, True))


_WIDE = {"b": np.dtype(np.int64), "i": np.dtype(np.int64), "u": np.dtype(np.uint64)}


def total_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype NumPy adds and multiplies in: integers are widened, everything else stays."""
    return _WIDE.get(dtype.kind, dtype)


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_add_reduce = np.add.reduce


def _sum_impl(x, *, axis, keepdims=False):
    return _add_reduce(x, axis, None, None, keepdims)


def _sum_jvp(primals, tangents, *, axis, keepdims=False):
    x, t = primals[0], tangents[0]
    if type(x) is np.ndarray:
        x = _add_reduce(x, axis, None, None, keepdims)
    else:
        x = apply(sum, (x,), {"axis": axis, "keepdims": keepdims})
    if type(t) is np.ndarray:
        return x, _add_reduce(t, axis, None, None, keepdims)
    return x, apply(sum, (t,), {"axis": axis, "keepdims": keepdims})


def _sum_transpose(ct, x, *, axis, keepdims=False):
    return (np.broadcast_to(kept(ct, x.shape, axis, keepdims), x.shape),)


def _sum_batch(size, values, mapped, *, axis, keepdims=False):
    return apply(sum, (values[0],), {"axis": tuple([a + 1 for a in axis]), "keepdims": keepdims})


_REDUCED = [
    ((3,), dict(axis=(0,))),
    ((2, 3), dict(axis=(0, 1))),
    ((2, 3), dict(axis=(1,), keepdims=True)),
    ((2, 3, 2), dict(axis=(0, 2))),
    ((), dict(axis=())),
    ((2,), dict(axis=())),
    ((1, 3), dict(axis=(0,))),
]
_EMPTY = [((0, 2), dict(axis=(0,))), ((0, 2), dict(axis=(1,)))]

sum = Op(
    "sum",
    impl=_sum_impl,
    shape=lambda x, *, axis, keepdims=False: Aval(reduced_shape(x.shape, axis, keepdims), total_dtype(x.dtype)),
    jvp=_sum_jvp,
    linear_in=(0,),
    transpose=_sum_transpose,
    batch=_sum_batch,
    samples=[*_REDUCED, *_EMPTY, (lambda rng: rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)), dict(axis=(1,)))],
    kind="reduction",
)
