"""Batched tensors: a value with one more leading axis, at a level.

Not for: axis specifications (`test_vmap.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.batched import Batched, BatchLevel
from dualad.core.primitive import Primitive
from dualad.core.tables import OPS
from dualad.errors import EscapedTensorError


def test_shape_and_dtype_hide_the_leading_axis() -> None:
    with BatchLevel("vmap", 3) as level:
        x = Batched(np.ones((3, 2, 4), np.float32), level)
        assert x.shape == (2, 4) and x.ndim == 2 and x.size == 8 and len(x) == 2 and x.dtype == np.float32
        assert x.nbytes == 32 and x.itemsize == 4 and x.T.shape == (4, 2)
        assert "(2, 4)" in repr(x) and "lanes=3" in repr(x)


def test_what_is_not_mapped_is_computed_once() -> None:
    """An operand without the level is the same for all lanes: whatever depends on it alone stays unbatched."""
    seen = []

    def f(x, y):
        z = np.exp(y) * 2.0
        seen.append(z)
        return x * z

    got = da.vmap(f, (0, None))(np.arange(3.0), 0.0)
    assert got.tolist() == [0.0, 2.0, 4.0]
    assert not isinstance(seen[0], Batched)


def test_levels_are_told_apart() -> None:
    """A value batched at an outer level is a constant to the inner one."""
    shapes = []

    def inner(y, x):
        shapes.append((isinstance(x, Batched), x.level.number < y.level.number, (x * y).shape))
        return x * y

    got = da.vmap(lambda x: da.vmap(inner, (0, None))(np.arange(2.0), x))(np.arange(3.0))
    assert got.shape == (3, 2) and shapes == [(True, True, ())]
    np.testing.assert_array_equal(got, np.outer(np.arange(3.0), np.arange(2.0)))


@pytest.fixture
def loops():
    """Declare an operator without a batching rule, remove it afterwards."""
    name = "test without batch"
    calls = []

    def impl(x, y, *, k):
        calls.append(1)
        return x.sum() * y + k

    op = Primitive(name, impl=impl, abstract_eval=lambda x, y, *, k: y, jvp=None, samples=[((2,), (3,), {"k": 1.0})])
    yield op, calls
    del OPS[name]


def test_an_operator_without_a_rule_runs_lane_by_lane(loops) -> None:
    op, calls = loops
    x, y = np.arange(6.0).reshape(3, 2), np.arange(3.0)
    np.testing.assert_array_equal(da.vmap(lambda a, b: op(a, b, k=1.0))(x, y), x.sum(1) * y + 1)
    assert len(calls) == 3
    np.testing.assert_array_equal(da.vmap(lambda a: op(a, y, k=0.0))(x), np.outer(x.sum(1), y))
    assert da.vmap(lambda a: op(a, y, k=0.0))(x[:0]).shape == (0, 3)


def test_escaped() -> None:
    kept = []
    da.vmap(lambda x: kept.append(x) or x)(np.ones(2))
    with pytest.raises(EscapedTensorError, match="vmap"):
        kept[0] * 2.0
