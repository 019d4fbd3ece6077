"""Avals: shapes and dtypes with NumPy's promotion."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualad.core.aval import Aval, aval_of, broadcast_shapes, is_inexact, is_weak, result_dtype
from tests.strategies import shapes

VALUES = [
    True, 3, 2.5, 1j, np.float32(1), np.int8(1), np.ones(2, np.float32), np.ones((2, 1)), np.zeros((0, 3), complex),
    np.array([1, 2], np.uint8), np.array(False),
]  # fmt: skip


@pytest.mark.parametrize("pair", list(itertools.product(VALUES, VALUES)), ids=repr)
def test_promotion_is_numpy_s(pair) -> None:
    """NEP 50: Python scalars are weak, NumPy scalars are not."""
    assert result_dtype(*map(aval_of, pair)) == np.result_type(*pair)


@given(st.lists(shapes(), min_size=1, max_size=3))
def test_broadcasting_is_numpy_s(drawn) -> None:
    avals = [Aval(s, np.dtype(float)) for s in drawn]
    try:
        expected = np.broadcast_shapes(*drawn)
    except ValueError:
        with pytest.raises(ValueError):
            broadcast_shapes(*avals)
        return
    assert broadcast_shapes(*avals) == expected


@pytest.mark.parametrize("x", VALUES, ids=repr)
def test_aval_of(x) -> None:
    aval = aval_of(x)
    a = np.asarray(x)
    assert tuple(aval.shape) == a.shape and aval.dtype == a.dtype
    assert is_weak(aval) == (type(x) in (bool, int, float, complex))
    assert is_inexact(aval.dtype) == (a.dtype.kind in "fc")


def test_equality_size_and_text() -> None:
    a = Aval((2, 3), np.dtype(np.float32))
    assert a == Aval((2, 3), np.dtype("f4")) and hash(a) == hash(Aval((2, 3), np.dtype("f4")))
    assert a != Aval((3, 2), a.dtype) and a != Aval((2, 3), np.dtype(float)) and a != "f32[2,3]"
    assert a.size == 6 and a.ndim == 2 and Aval((), a.dtype).size == 1 and Aval((0, 5), a.dtype).size == 0
    texts = {np.float64: "f64[2]", np.complex64: "c64[2]", bool: "bool[2]", np.uint8: "u8[2]", np.int16: "i16[2]"}
    for dtype, text in texts.items():
        assert repr(Aval((2,), np.dtype(dtype))) == text
    assert repr(Aval((), np.dtype(float))) == "f64[]"
