"""Joining and splitting: ``concatenate`` and ``split``, ``stack`` and ``unstack``, each the other's transpose.

A join is linear in all of its arguments together. Splits give all their pieces in one equation, so that a loop over
the rows of an array costs one operator and not one per row, forwards and backwards.
Not for: the other spellings of these (``hstack``, ``block``, ``append``, ... in ``surface/joining.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from ..core.aval import Array, Aval, aval_of, result_dtype
from ..core.constants import foreign, zeros_matching_library
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import PLAIN
from .indexing import ARRAY, index_add
from .kinds import in_lanes, linear, unbroadcast
from .samples import complex_normal

__all__ = ["concatenate", "scatter_cotangents", "split", "stack", "unstack"]


def _zeros_for_none(tangents, primals) -> list:
    return [
        zeros_matching_library(np.shape(p), aval_of(p).dtype, p, *tangents) if t is None else t
        for t, p in zip(tangents, primals, strict=True)
    ]


def _cotangents(pieces, args) -> tuple:
    """Give each traced argument its piece (its real part for a real argument), and None to known ones."""
    return tuple([unbroadcast(c, a) if type(a) is Aval else None for c, a in zip(pieces, args, strict=True)])


def _join(name: str, function: Callable, **fields) -> Primitive:
    """Declare an operator that joins arrays along an axis, as NumPy's ``function`` does."""

    def jvp(primals: Sequence, tangents: Sequence, *, axis: int) -> tuple:
        params = {"axis": axis}
        return bind(op, primals, params), bind(op, _zeros_for_none(tangents, primals), params)

    def batch(size: int, values: Sequence, mapped: Sequence[bool], *, axis: int) -> Array:
        return function(in_lanes(values, mapped, size), axis=axis + 1)

    op = Primitive(name, jvp=jvp, linear_in=(-1,), joint=True, batch=batch, kind="join", moves=True, **fields)
    return op


# ── along an axis that exists ────────────────────────────────────────────────────────────────────────────────────


def _concatenate_shape(*avals, axis):
    first = avals[0].shape
    for i, a in enumerate(avals):
        if len(a.shape) != len(first):
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match exactly, but the array at"
                f" index 0 has {len(first)} dimension(s) and the array at index {i} has {len(a.shape)} dimension(s)"
            )
        if a.shape[:axis] != first[:axis] or a.shape[axis + 1 :] != first[axis + 1 :]:
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match exactly, but along axis"
                f" {axis} arrays of shapes {first} and {a.shape} were given (indices 0 and {i})"
            )
    shape = (*first[:axis], sum([a.shape[axis] for a in avals]), *first[axis + 1 :])
    return Aval(shape, result_dtype(*avals))


concatenate = _join(
    "concatenate",
    np.concatenate,
    impl=lambda *xs, axis: np.concatenate(xs, axis),
    abstract_eval=_concatenate_shape,
    transpose=lambda ct, *xs, axis: _cotangents(split(ct, sizes=tuple([np.shape(x)[axis] for x in xs]), axis=axis), xs),
    samples=[
        ((3,), (2,), {"axis": 0}),
        ((2, 3), (2, 1), (2, 0), {"axis": 1}),
        ((2, 3), {"axis": 0}),
        ((3,), complex_normal(2), {"axis": 0}),
    ],
)


def _split(x, *, sizes, axis):
    ends = itertools.accumulate(sizes)
    lead = (slice(None),) * axis
    return tuple([x[(*lead, slice(end - n, end))] for n, end in zip(sizes, ends, strict=True)])


split = linear(
    "split",
    impl=_split,
    abstract_eval=lambda x, *, sizes, axis: tuple(
        [Aval((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in sizes]
    ),
    transpose=lambda cts, x, *, sizes, axis: (np.concatenate(cts, axis=axis),),
    samples=[
        ((5,), {"sizes": (2, 3), "axis": 0}),
        ((2, 4), {"sizes": (1, 0, 3), "axis": 1}),
        ((3,), {"sizes": (3,), "axis": 0}),
    ],
    multiple_results=True,
    moves=True,
)


# ── along a new axis ─────────────────────────────────────────────────────────────────────────────────────────────


def _stack(*xs, axis):
    if len(xs) > 16 and isinstance(xs[0], np.generic) and len({type(x) for x in xs}) == 1:
        return np.array(xs)  # many numbers: what np.stack does with each takes longer than all the rest
    return np.stack(xs, axis)


def _stack_shape(*avals, axis):
    shape = avals[0].shape
    for a in avals:
        if a.shape != shape:
            raise ValueError(f"all input arrays must have the same shape, but shapes {shape} and {a.shape} were given")
    return Aval((*shape[:axis], len(avals), *shape[axis:]), result_dtype(*avals))


stack = _join(
    "stack",
    np.stack,
    impl=_stack,
    abstract_eval=_stack_shape,
    transpose=lambda ct, *xs, axis: _cotangents(unstack(ct, axis=axis), xs),
    samples=[
        ((), (), {"axis": 0}),
        ((2, 3), (2, 3), {"axis": 2}),
        ((2,), {"axis": 1}),
        ((0,), (0,), {"axis": 0}),
        ((3,), complex_normal(3), {"axis": 0}),
    ],
)


def _unstack_shape(x, *, axis):
    piece = Aval((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)
    return (piece,) * x.shape[axis]


def _unstack(x, *, axis):
    if not axis and type(x) in PLAIN:
        return tuple(x)
    lead = (slice(None),) * axis
    return tuple([x[(*lead, i)] for i in range(x.shape[axis])])


unstack = linear(
    "unstack",
    impl=_unstack,
    abstract_eval=_unstack_shape,
    transpose=lambda cts, x, *, axis: (np.stack(cts, axis=axis),),
    samples=[((3,), {"axis": 0}), ((2, 3), {"axis": 1}), ((1, 2), {"axis": 0}), ((2, 0), {"axis": 0})],
    multiple_results=True,
    moves=True,
)


# ── many places at once ──────────────────────────────────────────────────────────────────────────────────────────


def scatter_cotangents(ct, reads: list, aval: Aval):
    """Add the cotangents of entries (or rows) that were read one by one, all in one scatter: O(n) for n reads."""
    by_length: dict[int, list] = {}
    for read in reads:
        by_length.setdefault(len(read[0]), []).append(read)
    for length, group in by_length.items():
        if len(group) == 1 or foreign(group[0][1]) is not None:
            for template, value in group[1:]:  # elsewhere a scatter is dear, or not to be had
                c = index_add(value, template=template, shape=aval.shape)
                ct = c if ct is None else ct + c
            template, value = group[0]
            c = index_add(value, template=template, shape=aval.shape)
        else:
            positions = np.array([template for template, _ in group], np.intp)
            values = stack(*[value for _, value in group], axis=0)
            c = index_add(values, *positions.T, template=(ARRAY,) * length, shape=aval.shape)
        ct = c if ct is None else ct + c
    return ct
