"""Methods of ufuncs beyond reduce and accumulate of sums and extrema: reduceat, bits, parity; and their loops."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import UnsupportedError
from tests.oracles.calls import check_call

X = np.random.default_rng(3).normal(size=(5, 4))
BITS = np.arange(12).reshape(3, 4) % 7

CALLS = {
    "add.reduceat": (lambda x: np.add.reduceat(x, [0, 2, 1, 4]), X),
    "add.reduceat axis": (lambda x: np.add.reduceat(x, [1, 3], axis=-1), X),
    "multiply.reduceat": (lambda x: np.multiply.reduceat(x, [0, 3, 3], 1), X),
    "maximum.reduceat": (lambda x: np.maximum.reduceat(x, [0, 2]), X),
    "minimum.reduceat": (lambda x: np.minimum.reduceat(x, [2, 0], axis=1), X),
    "logaddexp.reduceat": (lambda x: np.logaddexp.reduceat(x, [0, 4]), X),
    "logaddexp.reduce": (lambda x: np.logaddexp.reduce(x, axis=(0, 1)), X),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    check_call(name, *CALLS[name])


@pytest.mark.parametrize("ufunc", [np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.logical_xor], ids=str)
@pytest.mark.parametrize(
    "keywords", [{}, {"axis": (0, 1)}, {"axis": -1, "keepdims": True}, {"where": BITS > 2}, {"initial": 3}]
)
def test_bits_of_each_lane(ufunc, keywords):
    def f(x):
        return ufunc.reduce(x.astype(int), **keywords)

    x = BITS.astype(float)
    expected = f(x)
    for found in (da.jvp(f, (x,), (x,))[0], da.vmap(f)(x[None])[0], da.trace(f, x)(x)):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_pieces_that_depend_on_values_are_refused():
    with pytest.raises(UnsupportedError, match="how many entries each piece has"):
        da.vmap(lambda x, i: np.add.reduceat(x, i))(X, np.zeros((5, 2), int))


def test_a_ufunc_without_a_rule_for_reduceat_names_what_to_write():
    with pytest.raises(UnsupportedError, match=r"np\.hypot\.reduceat"):
        da.jvp(lambda x: np.hypot.reduceat(x, [0]), (X,), (X,))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.isnan(x, dtype=np.float32),
        lambda x: np.sin(x + 0j, dtype=np.float32),
        lambda x: np.add(x, 1.0, casting="no", dtype=np.float32),
    ],
)
def test_a_loop_that_does_not_exist_is_refused_as_numpy_does(f):
    with pytest.raises(TypeError) as theirs:
        f(X)
    with pytest.raises(TypeError) as ours:
        da.jvp(f, (X,), (X,))
    assert str(ours.value) == str(theirs.value)


def test_a_number_is_no_matrix_in_any_lane():
    for f in (lambda x: x @ x, lambda x: x @ np.ones((1, 1))):
        with pytest.raises(ValueError, match="matmul"):
            da.vmap(f)(np.ones(1))
