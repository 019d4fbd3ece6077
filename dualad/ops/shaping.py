"""Shaping: operators that move values without changing them, and their transposes, which move cotangents back.

Arguments arrive normalized: axes are tuples of non-negative ints, shapes are complete. Not for: indexing
(``indexing.py``) or NumPy's own spellings of these (``surface/``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.aval import Array, Aval, is_inexact
from ..core.constants import foreign, match_library, zeros_matching_library
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import PLAIN
from .kinds import align_ranks, linear, stacked, unbroadcast

__all__ = ["astype", "broadcast_to", "copy", "filled", "flip", "reshape", "stop_gradient", "transpose"]


def _astype_jvp(primals: Sequence, tangents: Sequence, *, dtype: np.dtype) -> tuple:
    """Cast both; a cast to integers or booleans is a step function, which has no tangent."""
    out = astype(primals[0], dtype=dtype)
    return out, astype(tangents[0], dtype=dtype) if is_inexact(np.dtype(dtype)) else None


astype = Primitive(
    "astype",
    impl=lambda x, *, dtype: x.astype(dtype) if hasattr(x, "astype") else np.asarray(x, dtype),
    abstract_eval=lambda x, *, dtype: Aval(x.shape, np.dtype(dtype)),
    jvp=_astype_jvp,
    linear_in=(0,),
    transpose=lambda ct, x, *, dtype: (unbroadcast(ct, x).astype(x.dtype),),
    batch=lambda size, values, mapped, *, dtype: values[0].astype(dtype),
    samples=[((3,), {"dtype": np.dtype("float32")}), ((2, 2), {"dtype": np.dtype("complex128")})],
    kind="linear",
    moves=True,
)

broadcast_to = linear(
    "broadcast_to",
    impl=lambda x, *, shape: np.broadcast_to(x, shape),
    abstract_eval=lambda x, *, shape: Aval(np.broadcast_shapes(x.shape, shape), x.dtype),
    transpose=lambda ct, x, *, shape: (unbroadcast(ct, x),),
    batch=lambda size, x, *, shape: np.broadcast_to(align_ranks(x, len(shape)), (size, *shape)),
    samples=[((3,), {"shape": (2, 3)}), ((2, 1), {"shape": (4, 2, 3)}), ((), {"shape": (2,)}), ((1,), {"shape": (0,)})],
    moves=True,
)

reshape = linear(
    "reshape",
    impl=lambda x, *, shape: np.reshape(x, shape),
    abstract_eval=lambda x, *, shape: Aval(shape, x.dtype),
    transpose=lambda ct, x, *, shape: (ct.reshape(x.shape),),
    batch=lambda size, x, *, shape: x.reshape((size, *shape)),
    samples=[
        ((2, 3), {"shape": (6,)}),
        ((), {"shape": (1, 1)}),
        ((4,), {"shape": (2, 2)}),
        ((0, 2), {"shape": (3, 0)}),
    ],
    moves=True,
)

transpose = linear(
    "transpose",
    impl=lambda x, *, axes: np.transpose(x, axes),
    abstract_eval=lambda x, *, axes: Aval(tuple([x.shape[a] for a in axes]), x.dtype),
    transpose=lambda ct, x, *, axes: (np.transpose(ct, tuple(sorted(range(len(axes)), key=axes.__getitem__))),),
    batch=lambda size, x, *, axes: np.transpose(x, (0, *[a + 1 for a in axes])),
    samples=[((2, 3), {"axes": (1, 0)}), ((2, 3, 4), {"axes": (1, 2, 0)}), ((), {"axes": ()}), ((3,), {"axes": (0,)})],
    moves=True,
)

# The identity that no tangent passes, at any level.
stop_gradient = stacked(
    "stop_gradient",
    impl=lambda x: x,
    abstract_eval=lambda x: x,
    jvp=None,
    # The lanes may hold Duals of an outer level, which are to be stopped too.
    samples=[((3,),), ((),)],
    kind="barrier",
)

flip = linear(
    "flip",
    impl=lambda x, *, axes: np.flip(x, axes),
    abstract_eval=lambda x, *, axes: x,
    transpose=lambda ct, x, *, axes: (np.flip(ct, axes),),
    batch=lambda size, x, *, axes: np.flip(x, tuple([a + 1 for a in axes])),
    samples=[((3,), {"axes": (0,)}), ((2, 3), {"axes": (0, 1)}), ((2, 0), {"axes": (1,)}), ((), {"axes": ()})],
    moves=True,
)


def _copy(x, *, axes=None):
    if axes is not None and type(x) is np.ndarray:
        return np.transpose(np.array(np.transpose(x, axes), order="C"), tuple(np.argsort(axes).tolist()))
    return np.copy(x)[()] if type(x) in PLAIN else x.copy()  # which more libraries know


# The identity, into memory of its own: with ``axes`` in that order, the one with the longest strides first.
copy = linear(
    "copy",
    impl=_copy,
    abstract_eval=lambda x, **_: x,
    transpose=lambda ct, x, **_: (ct,),
    batch=lambda size, x, axes=None: copy(x, **({} if axes is None else {"axes": (0, *[a + 1 for a in axes])})),
    samples=[((3,),), ((2, 0),), ((),), ((2, 3), {"axes": (1, 0)}), ((2, 3, 4), {"axes": (1, 2, 0)})],
    moves=True,
)


# ── constants ────────────────────────────────────────────────────────────────────────────────────────────────────
#
# filled(like, value) is the array ``value``, seen by the transforms that see ``like``: a buffer that can receive
# traced entries later. It is 0·like + value, so linear in both together.


def _filled_jvp(primals: Sequence, tangents: Sequence, **params: Any) -> tuple:
    like, _value = primals
    tangent = None if tangents[1] is None else bind(filled, (like, tangents[1]), params)
    return bind(filled, primals, params), tangent


def _filled_transpose(ct: Array, like, value: Array, *, shape: tuple[int, ...], dtype: np.dtype) -> tuple:
    ct_like = zeros_matching_library(like.shape, like.dtype, ct) if type(like) is Aval else None
    return ct_like, unbroadcast(ct, value).astype(value.dtype) if type(value) is Aval else None


def _filled_batch(
    size: int, values: Sequence, mapped: Sequence[bool], *, shape: tuple[int, ...], dtype: np.dtype
) -> Array:
    like, value = values
    if mapped[1]:
        value = align_ranks(value, len(shape))
    elif np.ndim(value):  # one array that all lanes read: its memory is not multiplied
        return np.broadcast_to(value.astype(dtype, copy=False), (size, *shape))
    return filled(like, value, shape=(size, *shape), dtype=dtype)


def _fill(like, value, *, shape, dtype):
    if foreign(value) is not None or (np.shape(value) and foreign(like) is not None):  # whose full_like takes a number
        return np.broadcast_to(match_library(value.astype(dtype), like), shape)
    return np.full_like(like, value, shape=shape, dtype=dtype)


filled = Primitive(
    "filled",
    impl=_fill,
    abstract_eval=lambda like, value, *, shape, dtype: Aval(shape, dtype),
    jvp=_filled_jvp,
    linear_in=(0, 1),
    joint=True,
    transpose=_filled_transpose,
    batch=_filled_batch,
    samples=[
        ((3,), (), {"shape": (2,), "dtype": np.dtype(float)}),
        ((2, 3), (3,), {"shape": (2, 3), "dtype": np.dtype(float)}),
        ((), (2, 1), {"shape": (2, 0), "dtype": np.dtype(complex)}),
        ((2,), (2,), {"shape": (2,), "dtype": np.dtype(float)}),
    ],
    kind="constant",
    moves=True,
)
