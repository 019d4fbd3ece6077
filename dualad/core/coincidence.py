"""Derivatives at repeated eigenvalues and singular values: found a little beside them, where those lie apart.

A function of a matrix that does not depend on the choice of eigenvectors (a trace, a norm, V g(w) Vᴴ) is smooth where
eigenvalues coincide, but no rule that knows single values and vectors can say so: between equal values stands 1/0, and
what it is multiplied with vanishes only for all of them together. So the rules answer NaN (``coincided`` remembers it),
and where an outermost transform returns NaN for that reason, it is carried out again at eight points A + ε P, symmetric
about A: P has A's eigenvectors and moves equal values apart (``spread``). Where the results are those of a smooth
function of ε its value at ε = 0 is the derivative, to about ten digits; where they are not, because the function
depends on the basis or has a corner, NaN stays. Not for: the rules themselves (``ops/spectral.py``).
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
import optree

from ..base.tree import NAMESPACE
from .tracer import Tracer

__all__ = ["callers", "coincided", "noted", "resolved", "settle", "spread", "tolerance"]

F = TypeVar("F", bound=Callable[..., Any])

#: how far equal values are moved apart here, relative to their size
_apart: ContextVar[float] = ContextVar("dualad_apart", default=0.0)


class _Noted(threading.local):
    """Whether a rule has met equal values, in this thread, since an outermost transform began."""

    met = False


noted = _Noted()

_STEP = 0.0125
#: with nodes ±k·_STEP, k = 1, 2, …: how the means of each pair are weighed, for 0 to be extrapolated from all of them,
#: and from all but the last
_WEIGHTS = (8 / 5, -4 / 5, 8 / 35, -1 / 35)
_FEWER = (3 / 2, -3 / 5, 1 / 10, 0.0)
#: from the nodes on one side only
_ONE_SIDE = (4.0, -6.0, 4.0, -1.0)


def tolerance(w: Any) -> float:
    """Return how near values are, relative to the largest, that are equal to rounding: 1/gap would have no digits."""
    return 1e3 * w.shape[-1] * float(np.finfo(w.dtype).eps)


def coincided() -> None:
    """Remember that a rule has answered NaN because values coincide."""
    noted.met = True


def spread(w: np.ndarray, singular: bool = False) -> np.ndarray:
    """Return eigenvalues (or singular values) moved apart where they coincide, if that is what is being done."""
    step = _apart.get()
    if not step or not w.shape[-1]:
        return w
    size = np.abs(w)
    largest = np.max(size, axis=-1, keepdims=True)
    close = np.abs(w[..., :, None] - w[..., None, :]) <= tolerance(w) * largest[..., None]
    members = np.sum(close, axis=-1)
    rank = np.sum(np.tril(close, -1), axis=-1)
    place = rank - (members - 1) / 2
    sized = size > 1e-8 * largest
    if singular:  # beside zero they keep one sign, for 1/(sᵢ + sⱼ) stands in their derivatives too
        place = np.where(sized, place, rank + 1)
    unit = np.where(sized, size, np.where(largest > 0, largest, 1.0))
    return np.where(members > 1, w + step * unit * place / np.maximum((members - 1) / 2, 1), w).astype(w.dtype)


def resolved(function: F) -> F:
    """Decorate what may be an outermost transform: its NaN for equal values is looked at from beside them."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        out = function(*args, **kwargs)
        return settle(function, args, kwargs, out) if noted.met else out

    callers.add(call.__code__)
    return call


def settle(function: Callable, args: tuple, kwargs: dict, out: Any) -> Any:
    """Return what a transform returned, with the limits of its entries that are NaN because values coincide."""
    leaves, tree = optree.tree_flatten(out, namespace=NAMESPACE)
    if any([isinstance(x, Tracer) for x in leaves]) or _inside():
        return out  # what is outside will see to it
    noted.met = False
    broken = [i for i, x in enumerate(leaves) if _is_number(x) and np.isnan(x).any()]
    if not broken:
        return out
    found: dict[int, list] = {i: [] for i in broken}
    with np.errstate(all="ignore"):
        for k in range(1, len(_WEIGHTS) + 1):
            for sign in (1, -1):
                again = _beside(function, args, kwargs, sign * k * _STEP)
                if len(again) != len(leaves):
                    return out
                for i in broken:
                    found[i].append(again[i])
        for i in broken:
            leaves[i] = _limit(leaves[i], found[i])
    return optree.tree_unflatten(tree, leaves)


def _inside() -> bool:
    """Say whether the call that asks is made by another one of its kind."""
    frame, calls = sys._getframe(), 0
    while frame is not None and calls < 2:
        calls += frame.f_code in callers
        frame = frame.f_back
    return calls > 1


#: the code of functions that call ``settle``
callers: set[types.CodeType] = set()


def _beside(function: Callable, args: tuple, kwargs: dict, step: float) -> list:
    token = _apart.set(step)
    try:
        return optree.tree_leaves(function(*args, **kwargs), namespace=NAMESPACE)
    finally:
        _apart.reset(token)
        noted.met = False


def _is_number(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.inexact)) and x.dtype.kind in "fc"


def _limit(x: Any, beside: list) -> Any:
    """Put the values at ε = 0 in place of NaN, where all ways to extrapolate agree."""
    right, left = beside[::2], beside[1::2]
    means = [(a + b) / 2 for a, b in zip(right, left, strict=True)]
    limit, fewer = (sum(w * m for w, m in zip(weights, means, strict=True)) for weights in (_WEIGHTS, _FEWER))
    sides = [sum(w * m for w, m in zip(_ONE_SIDE, side, strict=True)) for side in (right, left)]
    size = np.max(np.abs(np.stack(beside)), axis=0)
    if np.isnan(size).all():
        return x
    digits = np.finfo(x.dtype).eps
    scale = np.maximum(size, 1e-4 * np.nanmax(size))
    smooth = np.abs(limit - fewer) <= digits**0.4 * scale
    for side in sides:
        smooth = smooth & (np.abs(limit - side) <= 1e-3 * scale)
    # One entry that has no limit casts doubt on the others: some are zero by symmetry wherever equal values are moved.
    lost = np.isnan(x)
    return np.where(lost, limit, x).astype(x.dtype)[()] if np.all(smooth | np.isnan(size) | ~lost) else x
