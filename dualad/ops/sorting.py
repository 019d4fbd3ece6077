"""Sorting: orders, order statistics, places in a sorted array, and counts per bin.

Orders and places are answers without derivative; sorted values are the operand's entries in another order, and so are
their tangents. Not for: extrema (``reductions.py``), or quantiles, which are composed of order statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..core.aval import Array, Aval, broadcast_shapes
from ..core.primitive import Primitive
from .kinds import along_axis, linear, unbroadcast
from .samples import complex_plane, integers
from .scans import equal_or_both_nan, shift

__all__ = [
    "argpartition", "argsort", "average_groups", "lexsort", "order_statistics", "partition", "permute",
    "searchsorted", "sort",
]  # fmt: skip

_SORTED = [
    ((4,), {"axis": 0}),
    ((2, 3), {"axis": 1}),
    ((3, 2), {"axis": 0}),
    ((1, 3), {"axis": 0}),
    ((2, 0), {"axis": 1}),
]
_INTP = np.dtype(np.intp)


# ── orders ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _order(name: str, impl: Callable, samples: list) -> Primitive:
    """Declare an order of the entries along an axis, which has no derivative."""
    return along_axis(
        name,
        impl=impl,
        abstract_eval=lambda x, **_: Aval(x.shape, _INTP),
        jvp=None,
        samples=samples,
        kind="predicate",
        blocks="one",
    )


argsort = _order(
    "argsort",
    lambda x, *, axis, kind="stable": np.argsort(x, axis, kind),
    [*_SORTED, ((5,), {"axis": 0, "kind": None})],
)
argpartition = _order(
    "argpartition",
    lambda x, *, kth, axis: np.argpartition(x, kth, axis),
    [((4,), {"kth": (1,), "axis": 0}), ((2, 5), {"kth": (0, 3), "axis": 1})],
)


lexsort = Primitive(
    "lexsort",
    impl=lambda keys, *, axis: np.lexsort(keys, axis),
    abstract_eval=lambda keys, *, axis: Aval(keys.shape[1:], _INTP),
    jvp=None,
    batch=lambda size, values, mapped, *, axis: lexsort(np.moveaxis(values[0], 0, 1), axis=axis + 1),
    samples=[((2, 4), {"axis": 0}), (integers(0, 2)(3, 2, 4), {"axis": 1})],
    kind="predicate",
    blocks="one",
)


# ── sorted values ────────────────────────────────────────────────────────────────────────────────────────────────
#
# With the stable order p, yₖ = x[pₖ] and ∂yₖ = t[pₖ], at ties too: one of the permutations that are equally right.


def _permute_impl(x, order, *, axis):
    shape = np.broadcast_shapes(x.shape, order.shape)
    return np.take_along_axis(np.broadcast_to(x, shape), np.broadcast_to(order, shape), axis)


# yₖ = x[pₖ] along an axis, p being a permutation: its transpose is the inverse permutation.
permute = linear(
    "permute",
    impl=_permute_impl,
    abstract_eval=lambda x, order, *, axis: Aval(broadcast_shapes(x, order), x.dtype),
    transpose=lambda ct, x, order, *, axis: (unbroadcast(permute(ct, argsort(order, axis=axis), axis=axis), x), None),
    samples=[
        ((4,), lambda rng: rng.permutation(4), {"axis": 0}),
        (complex_plane()(2, 3), lambda rng: np.argsort(rng.normal(size=(2, 3)), 1), {"axis": 1}),
        ((3, 0), np.zeros((3, 0), int), {"axis": 1}),
    ],
    moves=True,
    blocks="one",
)


def _sorting_kind(name: str, impl: Callable, jvp: Callable, samples: list) -> Primitive:
    """Declare what puts the entries along an axis in an order."""
    return along_axis(
        name, impl=impl, abstract_eval=lambda x, **_: x, jvp=jvp, samples=samples, kind="sort", blocks="one"
    )


def _sort(x, *, axis):
    return np.sort(x, axis)


def _sort_jvp(primals: Sequence, tangents: Sequence, *, axis: int) -> tuple:
    x, t = primals[0], tangents[0]
    order = argsort(x, axis=axis)
    return permute(x, order, axis=axis), permute(t, order, axis=axis)


sort = _sorting_kind("sort", _sort, _sort_jvp, [*_SORTED, (complex_plane()(4), {"axis": 0})])


def _partition_jvp(primals: Sequence, tangents: Sequence, *, kth: int, axis: int) -> tuple:
    """Find the permutation that NumPy's partition has carried out: x and the result have the same sorted values."""
    x, t = primals[0], tangents[0]
    out = partition(x, kth=kth, axis=axis)
    rank = argsort(argsort(out, axis=axis), axis=axis)
    order = permute(argsort(x, axis=axis), rank, axis=axis)
    return out, permute(t, order, axis=axis)


partition = _sorting_kind(
    "partition",
    lambda x, *, kth, axis: np.partition(x, kth, axis),
    _partition_jvp,
    [((5,), {"kth": (1,), "axis": 0}), ((2, 5), {"kth": (0, 3), "axis": 1}), ((4, 2), {"kth": (2,), "axis": 0})],
)


# ── order statistics ─────────────────────────────────────────────────────────────────────────────────────────────
#
# The k-th smallest value is the same function of all entries tied with it, so its tangent is the mean of theirs (NaNs
# are tied with each other): the sorted tangents, averaged over each run of equal values. That averaging is a symmetric
# matrix, hence its own transpose.


def _average_groups_impl(t, joined, *, axis):
    shape = np.broadcast_shapes(t.shape, joined.shape)
    rows = np.moveaxis(np.broadcast_to(t, shape), axis, -1)
    starts = ~np.moveaxis(np.broadcast_to(joined, shape), axis, -1)
    starts[..., :1] = True
    groups = np.cumsum(starts.ravel()) - 1
    flat = rows.ravel()
    if flat.dtype.kind == "c":
        sums = np.bincount(groups, flat.real) + 1j * np.bincount(groups, flat.imag)
    else:
        sums = np.bincount(groups, flat)
    means = (sums / np.bincount(groups)).astype(flat.dtype)
    return np.moveaxis(means[groups].reshape(rows.shape), -1, axis)


# average_groups(t, joined): entries whose ``joined`` says "of one group with the entry before" become their mean.
average_groups = linear(
    "average_groups",
    impl=_average_groups_impl,
    abstract_eval=lambda t, joined, *, axis: Aval(broadcast_shapes(t, joined), t.dtype),
    transpose=lambda ct, t, joined, *, axis: (unbroadcast(average_groups(ct, joined, axis=axis), t), None),
    samples=[
        ((4,), np.array([False, True, False, True]), {"axis": 0}),
        (complex_plane()(2, 3), np.array([[True, True, False], [False, False, True]]), {"axis": 1}),
        ((3, 2), np.array([[False, True], [True, True], [True, False]]), {"axis": 0}),
        ((0, 2), np.zeros((0, 2), bool), {"axis": 1}),
    ],
    blocks="one",
)


def _order_statistics_jvp(primals: Sequence, tangents: Sequence, *, axis: int) -> tuple:
    out, tangent = _sort_jvp(primals, tangents, axis=axis)
    joined = equal_or_both_nan(out, shift(out, axis=axis))
    return out, average_groups(tangent, joined, axis=axis)


order_statistics = _sorting_kind("order_statistics", _sort, _order_statistics_jvp, _SORTED)


# ── places and bins ──────────────────────────────────────────────────────────────────────────────────────────────


def _searchsorted_batch(size: int, values: Sequence, mapped: Sequence[bool], *, side) -> Array:
    a, v = values
    if not mapped[0]:
        return searchsorted(a, v, side=side)
    if not size:
        return np.zeros(v.shape if mapped[1] else (0, *np.shape(v)), _INTP)
    return np.stack([searchsorted(a[i], v[i] if mapped[1] else v, side=side) for i in range(size)])


searchsorted = Primitive(
    "searchsorted",
    impl=lambda a, v, *, side: np.searchsorted(a, v, side),
    abstract_eval=lambda a, v, *, side: Aval(v.shape, _INTP),
    jvp=None,
    batch=_searchsorted_batch,
    samples=[
        (lambda rng: np.sort(rng.normal(size=4)), (3,), {"side": "left"}),
        (np.array([0.0, 1.0, 1.0, 2.0]), np.array([[1.0, 3.0], [0.0, -1.0]]), {"side": "right"}),
        (np.array([0.0, 1.0]), (), {"side": "left"}),
    ],
    kind="predicate",
    blocks="one",
)
