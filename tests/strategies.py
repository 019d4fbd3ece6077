"""Hypothesis strategies: shapes, arrays, axes, trees, memory layouts.

Not for: functions under test, or samples of operators (`dualad/ops/samples.py`).
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

__all__ = ["arrays", "in_axes", "layouts", "shapes", "trees"]


def shapes(min_ndim: int = 0, max_ndim: int = 3, max_side: int = 3, min_side: int = 0):
    """Shapes with empty and size-one axes among them."""
    return st.lists(st.integers(min_side, max_side), min_size=min_ndim, max_size=max_ndim).map(tuple)


def arrays(shape, dtype=np.float64):
    """Arrays of a shape, of tame values, a function of one drawn seed."""

    def make(seed):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-2, 2, shape)
        if np.dtype(dtype).kind == "c":
            x = x + 1j * rng.uniform(-2, 2, shape)
        return np.asarray(x, dtype)

    return st.integers(0, 2**16).map(make)


def in_axes(ndim: int):
    """Where a batch axis may be put into an array of `ndim` axes, or None."""
    return st.one_of(st.none(), st.integers(-ndim - 1, ndim))


def trees(leaf, max_leaves: int = 5):
    """Nested tuples, lists and dicts of a leaf strategy, at least one leaf in each."""
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3),
            st.tuples(inner, inner),
            st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3),
        ),
        max_leaves=max_leaves,
    )


#: ways to lay out the same numbers in memory
layouts = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "reversed strides": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "every second entry": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "read-only": lambda x: _frozen(x),
}


def _frozen(x):
    x = x.copy()
    x.setflags(write=False)
    return x
