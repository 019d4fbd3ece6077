"""Hypothesis strategies of our own tests: batch axes and memory layouts, beside those that the package offers.

Not for: functions under test, or samples of operators (`dualad/ops/samples.py`).
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from dualad.testing.strategies import arrays, shapes, trees

__all__ = ["arrays", "in_axes", "layouts", "shapes", "trees"]


def in_axes(ndim: int):
    """Where a batch axis may be put into an array of `ndim` axes, or None."""
    return st.one_of(st.none(), st.integers(-ndim - 1, ndim))


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
