"""Arrays of other libraries among values: found beneath tensors, and NumPy's own are none."""

from __future__ import annotations

import numpy as np

import dualad as da
from dualad.core.constants import foreign, match_library, zeros_matching_library
from tests.edges.device import OnDevice

da.register_array(OnDevice)


class Marked(np.ndarray):
    """A class of arrays with nothing of its own."""


def test_what_is_foreign() -> None:
    there = OnDevice([1.0, 2.0])
    assert foreign(2.0, None, np.ones(2), np.float32(1.0), "text", np.ones(2).view(Marked)) is None
    assert foreign(None, 2.0, there, OnDevice([3.0])) is there

    def f(x):
        assert foreign(x) is None
        return x

    def g(x):
        assert foreign(2.0, x) is there
        return x

    da.jvp(f, (np.ones(2),), (np.ones(2),))
    da.vmap(f)(np.ones((2, 2)))
    da.trace(f, np.ones(2))
    da.jvp(g, (there,), (OnDevice([1.0, 1.0]),))


def test_constants_are_made_beside_them() -> None:
    there, here = OnDevice([1.0, 2.0]), np.ones(2)
    assert match_library(here, 2.0, here) is here
    assert type(match_library(here, there)) is OnDevice
    assert match_library(there, there) is there
    assert type(zeros_matching_library((3,), np.dtype(np.float32), here)) is np.ndarray
    zeros = zeros_matching_library((3,), np.dtype(np.float32), here, there)
    assert type(zeros) is OnDevice
    assert (zeros.shape, zeros.dtype) == ((3,), np.float32)
    assert zeros.get().tolist() == [0.0, 0.0, 0.0]
