"""Methods of ufuncs beyond reduce and accumulate of sums and extrema: reduceat, bits, parity; and their loops."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import UnsupportedError
from tests.oracles.calls import check_call

X = np.random.default_rng(3).normal(size=(5, 4))
MASK = np.random.default_rng(4).random((5, 4)) > 0.3
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


def test_a_method_without_a_rule_names_what_to_write():
    with pytest.raises(UnsupportedError, match=r"np\.isnat\.at"):
        da.jvp(lambda x: np.isnat.at(x * 1, [0]), (X,), (X,))


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


CHAINS = {
    "subtract.reduce": (np.subtract.reduce, X),
    "subtract.reduce of an axis": (lambda x: np.subtract.reduce(x, axis=-1, keepdims=True), X),
    "subtract.reduce from": (lambda x: np.subtract.reduce(x, axis=1, initial=2.5, where=MASK), X),
    "divide.reduce": (lambda x: np.divide.reduce(x, axis=0), X + 3),
    "hypot.reduce": (lambda x: np.hypot.reduce(x, axis=(0, 1)), X),
    "hypot.reduce where": (lambda x: np.hypot.reduce(x, axis=None, where=MASK), X),
    "logaddexp2.reduce": (np.logaddexp2.reduce, X),
    "subtract.accumulate": (lambda x: np.subtract.accumulate(x, axis=-1), X),
    "divide.accumulate": (np.divide.accumulate, X + 3),
    "fmin.accumulate": (lambda x: np.fmin.accumulate(x, axis=1), X),
    "hypot.accumulate": (np.hypot.accumulate, X),
    "hypot.reduceat": (lambda x: np.hypot.reduceat(x, [0, 1], axis=1), X),
    "power.outer": (lambda x: np.power.outer(x, [1.0, 2.0]), np.abs(X) + 0.1),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_any_ufunc(name):
    check_call(name, *CHAINS[name])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.subtract.reduce(x, axis=(0, 1)),
        lambda x: np.subtract.reduce(x[:0]),
        lambda x: np.subtract.reduce(x, where=MASK),
        lambda x: np.subtract.accumulate(x[0, 0]),
        lambda x: np.hypot.reduce(x, axis=7),
    ],
)
def test_bad_chains_raise_as_numpys(call):
    with pytest.raises((ValueError, TypeError)) as expected:
        call(X)
    with pytest.raises(expected.type):
        da.jvp(call, (X,), (X,))


def test_nothing_to_reduce():
    value, tangent = da.jvp(lambda x: np.hypot.reduce(x[:0]), (X,), (X,))
    assert not np.any(value) and value.shape == X.shape[1:] and not np.any(tangent)


@pytest.mark.parametrize("ufunc", [np.bitwise_or, np.bitwise_xor, np.hypot, np.logaddexp, np.maximum])
@pytest.mark.parametrize("transform", [da.vmap, lambda f: lambda x: da.jit(f)(x[0])[None]])
def test_a_reduction_of_one_row_has_memory_of_its_own(ufunc, transform):
    def f(x):
        r = ufunc.reduce(x[None], axis=0)
        r[0] = 9
        return x

    x = np.array([[1, 2]]) if np.issubdtype(ufunc(1, 1).dtype, np.integer) else np.array([[1.0, 2.0]])
    np.testing.assert_array_equal(transform(f)(x), x)
