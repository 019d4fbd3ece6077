"""Avals: shapes and dtypes with NumPy's promotion."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualad.core.aval import Aval, aval_of, broadcast_shapes, is_inexact, is_weak, python_type, result_dtype
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
    assert repr(Aval((1,), np.dtype("datetime64[s]"))) == "datetime64[s][1]"


def test_what_a_weak_aval_stands_for() -> None:
    """A Python number of any value promotes alike; a Python bool as NumPy's own."""
    assert [python_type(aval_of(x)) for x in (3, 2.5, 1j)] == [int, float, complex]
    assert python_type(aval_of(True)) == np.dtype(bool)
    small = aval_of(np.int8(1))
    assert result_dtype(small, aval_of(1000)) == np.int8 and result_dtype(aval_of(1000), small) == np.int8


def test_equal_shapes_are_not_handed_to_numpy(monkeypatch) -> None:
    """The common case is free: the first shape is the answer, of whatever length (NumPy takes at most 64 axes)."""
    asked = []
    whole = np.broadcast_shapes
    monkeypatch.setattr(np, "broadcast_shapes", lambda *shapes: asked.append(shapes) or whole(*shapes))
    a, b = Aval((2, 3), np.dtype(float)), Aval((1, 3), np.dtype(float))
    assert broadcast_shapes(a) == broadcast_shapes(a, a, a) == (2, 3) and not asked
    assert broadcast_shapes(b, a) == broadcast_shapes(a, b) == (2, 3) and asked == [((1, 3), (2, 3)), ((2, 3), (1, 3))]


def test_equal_dtypes_are_not_handed_to_numpy(monkeypatch) -> None:
    asked = []
    whole = np.result_type
    monkeypatch.setattr(np, "result_type", lambda *dtypes: asked.append(dtypes) or whole(*dtypes))
    a, b = Aval((2,), np.dtype(np.float32)), Aval((2,), np.dtype(float))
    assert result_dtype(a, a, a) == np.float32 and not asked
    assert result_dtype(a, b) == result_dtype(b, a) == np.float64 and len(asked) == 2


def test_python_scalars_are_weak_but_for_bools() -> None:
    assert [python_type(aval_of(x)) for x in (2, 2.0, 2j)] == [int, float, complex]
    assert python_type(aval_of(True)) is np.dtype(bool)
    assert result_dtype(aval_of(2.0), Aval((), np.dtype(np.float32))) == np.float32
    assert result_dtype(Aval((3,), np.dtype(np.float32))) == np.float32
    assert result_dtype(Aval((), np.dtype(np.float32)), Aval((), np.dtype(float))) == np.float64


def test_lists_have_an_aval() -> None:
    assert aval_of([[1.0, 2.0]]) == Aval((1, 2), np.dtype(float))
    assert not is_weak(aval_of([1.0]))
