"""A Python loop over lanes: the oracle of `vmap`.

Not for: speed, or any rule.
"""

from __future__ import annotations

import itertools

import numpy as np

from .arrays import leaves

__all__ = ["axes_choices", "lane", "looped", "stack_members"]


def axes_choices(n: int, options=(0, -1, None)) -> list[tuple]:
    """Return every choice of mapped axes for n arguments, except mapping none."""
    return [c for c in itertools.product(options, repeat=n) if any(a is not None for a in c)]


def stack_members(members: list, axis):
    """Stack distinct members along an axis; with axis None return the first, to be shared by all lanes."""
    return members[0] if axis is None else np.stack([np.asarray(m) for m in members], axis)


def lane(x, axis, i: int):
    """Return entry i along an axis, or x itself where it is not mapped."""
    return x if axis is None else np.take(x, i, axis=axis)


def looped(f, args, axes, size: int, out_axis: int = 0, step: int = 1) -> list:
    """Call f lane by lane, or for each so many-th lane, and stack the leaves of its results."""
    lanes = [leaves(f(*(lane(x, a, i) for x, a in zip(args, axes, strict=True)))) for i in range(0, size, step)]
    return [np.stack([np.asarray(v) for v in vs], out_axis) for vs in zip(*lanes, strict=True)]
