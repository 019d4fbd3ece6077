"""What is written into arrays of integers and truth values, under transforms: NumPy's numbers to the last digit.

``ufunc.at`` for pairs of dtypes, masked writes of large integers, numbers that a dtype has no room for. Not for: where
writes go (tests/surface/test_writing.py) or derivatives.
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import InPlaceError

DTYPES = [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float32, np.float64, np.complex64]
INDEX = np.array([0, 2, 2, 2, 1, 0, 2])
LARGE = {
    np.int64: np.array([2**53 + 1, 3, -(2**62) - 1, 7]),
    np.uint64: np.array([2**53 + 1, 3, 2**64 - 1, 7], np.uint64),
}


def under_transforms(f, *args):
    """Yield what a function gives under each transform that has integers for arguments."""
    lanes = [np.stack([a, a]) for a in args]
    yield da.jit(f)(*args)
    yield da.vmap(f)(*lanes)[1]
    yield da.jit(da.vmap(f))(*lanes)[0]
    yield da.vmap(f, (0, *[None] * (len(args) - 1)))(lanes[0], *args[1:])[0]


def random(dtype, count: int, rng) -> np.ndarray:
    return rng.integers(0 if dtype is np.bool_ else 1, 2 if dtype is np.bool_ else 120, count).astype(dtype)


@pytest.mark.parametrize(
    "ufunc", [np.add, np.subtract, np.multiply, np.maximum, np.power, np.left_shift, np.hypot, np.less]
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_a_ufunc_at_indices_computes_in_numpys_dtype(ufunc: np.ufunc) -> None:
    rng = np.random.default_rng(3)
    for target in DTYPES:
        for values in DTYPES:
            a, b = random(target, 4, rng), random(values, 7, rng)

            def f(a, b):
                a = a.copy()
                ufunc.at(a, INDEX, b)
                return a

            with np.errstate(all="ignore"):
                try:
                    expected = f(a, b)
                except TypeError as error:
                    with pytest.raises((type(error), InPlaceError)):
                        da.jit(f)(a, b)
                    continue
                if np.dtype(values).kind in "fc" and not np.can_cast(values, target, "same_kind"):
                    with pytest.raises(InPlaceError):
                        da.jit(f)(a, b)
                    continue
                for found in under_transforms(f, a, b):
                    assert found.dtype == expected.dtype, (target, values)
                    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_is_added_up_at_indices_is_counted_in_the_dtype_of_the_sums() -> None:
    def sums(values):
        out = np.zeros(3, np.int64, like=values)
        np.add.at(out, INDEX, values)
        return out

    ones, large = np.ones(7, bool), np.full(7, 200, np.uint8)
    for values in (ones, large):
        expected = np.bincount(INDEX, values).astype(np.int64)
        assert np.array_equal(da.jit(sums)(values), expected)
        assert np.array_equal(da.vmap(sums)(values[None])[0], expected)


def test_what_is_not_added_up_in_one_go_is_cast_after_each_sum() -> None:
    def truncated(a):
        np.add.at(a, [0, 0, 0], 1.5)
        return a

    assert np.array_equal(da.jit(truncated)(np.zeros(1, int)), truncated(np.zeros(1, int)))
    with pytest.raises(TypeError, match="boolean subtract"):
        da.jit(lambda a: np.subtract.at(a, [0], True))(np.ones(1, bool))


def masked(x):
    x[x < 10] = 1.0
    return x


def masked_number(x):
    x[x < 10] = np.float64(1.0)
    return x


def put_under_a_mask(x):
    np.putmask(x, x < 10, np.array([1, 2], np.uint8))
    return x


def copied_under_a_mask(x):
    np.copyto(x, np.uint8(5), where=x < 10)
    return x


def added_under_a_mask(x):
    np.add(x, x, out=x, where=x < 10)
    return x


def a_sum_of_another_sign_under_a_mask(x):
    np.add(x.astype(np.uint64), np.uint64(1), out=x, where=x < 10)
    return x


@pytest.mark.parametrize("dtype", LARGE)
@pytest.mark.parametrize(
    "write",
    [
        masked,
        masked_number,
        put_under_a_mask,
        copied_under_a_mask,
        added_under_a_mask,
        a_sum_of_another_sign_under_a_mask,
    ],
)
def test_entries_that_a_mask_leaves_out_keep_their_last_digit(write, dtype) -> None:
    x = LARGE[dtype]
    expected = write(x.copy())
    f = lambda x: write(x.copy())
    for found in under_transforms(f, x):
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
    given = x.copy()
    da.jit(write)(given)
    assert np.array_equal(given, expected)


@pytest.mark.parametrize("value", [300, np.int64(300), float("nan"), 2**70])
def test_a_number_that_has_no_room_is_numpys_error(value) -> None:
    for index in (0, slice(None), np.array([True, False]))[: 1 if isinstance(value, np.generic) else 3]:

        def f(x, index=index):
            x[index] = value
            return x

        with pytest.raises((OverflowError, ValueError)) as expected:
            f(np.zeros(2, np.int8))
        with pytest.raises(expected.type):
            da.jit(f)(np.zeros(2, np.int8))
        with pytest.raises(expected.type):
            da.vmap(f)(np.zeros((1, 2), np.int8))


@pytest.mark.parametrize(
    ("dtype", "value"), [(bool, 300), (bool, True), (np.int8, 300), (np.uint8, -1), (int, 2.5), (float, 3)]
)
def test_copyto_under_a_mask_casts_as_numpy_does(dtype, value):
    def f(x):
        y = np.zeros_like(x).astype(dtype)
        np.copyto(y, value, where=np.array([True, False, True]))
        return y

    x = np.ones(3)
    try:
        expected = f(x)
    except (TypeError, OverflowError) as error:
        with pytest.raises(type(error)):
            da.jvp(f, (x,), (x,))
    else:
        found = da.jvp(f, (x,), (x,))[0]
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
