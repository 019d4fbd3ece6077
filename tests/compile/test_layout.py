"""Views, copies and writes of compiled functions by how their arguments lie in memory: NumPy's, call by call.

Strides, byte orders, arguments that share memory with themselves, read-only ones. Not for: numbers (test_values.py).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import InPlaceError


def flattened(x):
    x.ravel()[...] = 0
    return x * 1


def reshaped(x):
    x.reshape(-1)[0] = 9
    return x + 1


def transposed(x):
    x.T.reshape(-1)[1] = 9
    return x + 1


def in_other_rows(x):
    rows = x.reshape(6, 2)
    rows[0] += 1
    return x.sum()


def in_fortran_order(x):
    x.ravel("F")[1] = 5
    return x * 1


def contiguous(x):
    y = np.ascontiguousarray(x)
    y[0] = 7
    return x * 1


def of_a_result(x):
    y = x * 2
    y.reshape(-1)[1] = 5
    return y


def of_a_copy(x):
    y = x.copy()
    y.T.reshape(-1)[1] = 5
    return y


def backwards(x):
    y = x[::-1]
    y[0] = 3
    x.flat[3] = 2
    return x * 1


def of_a_sorted_copy(x):
    y = x.copy("F")
    y.sort()
    z = np.cumsum(y, axis=0)
    z.reshape(-1)[0] = 5
    return z


def of_a_copy_in_another_order(x):
    y = np.take(x.copy("F") * 2, [0, 2, 1], axis=1)
    z = -y
    z.reshape(-1)[0] = 5
    z[:, 1] = 7
    (z * 1).ravel()[1] = 8
    return y, z


WRITES = [
    flattened,
    reshaped,
    transposed,
    in_other_rows,
    in_fortran_order,
    contiguous,
    of_a_result,
    of_a_copy,
    of_a_sorted_copy,
    of_a_copy_in_another_order,
    backwards,
]
LAYOUTS = {
    "C": lambda a: a.copy(),
    "F": lambda a: np.asfortranarray(a),
    "reversed": lambda a: a[::-1].copy()[::-1],
    "reversed rows": lambda a: a[:, ::-1].copy()[:, ::-1],
    "every second row": lambda a: np.repeat(a, 2, 0)[::2],
    "big-endian": lambda a: a.astype(">f8"),
    "big-endian F": lambda a: np.asfortranarray(a.astype(">f8")),
}
TABLE = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("write", WRITES)
def test_what_is_a_view_depends_on_the_argument(write, backend: str) -> None:
    fast = da.jit(write)
    for _ in range(2):
        for name, lay_out in LAYOUTS.items():
            plain, given = lay_out(TABLE), lay_out(TABLE)
            expected = write(plain)
            found = da.tree.flatten(fast(given))[0]
            assert all(map(np.array_equal, found, da.tree.flatten(expected)[0])), name
            assert np.array_equal(given, plain) and given.dtype == plain.dtype, name


def test_functions_that_only_read_are_compiled_once() -> None:
    fast = da.jit(lambda x: np.zeros_like(x) + x.reshape(4, 3).sum(0).sum() + x.T.ravel()[0])
    for lay_out in LAYOUTS.values():
        fast(lay_out(TABLE))
    assert "1 specialisations" in repr(fast)


@pytest.mark.parametrize("dtype", [np.int32, np.complex64, np.float64, bool, np.uint8])
@pytest.mark.parametrize("count", [3, 4095, 4097, 70_000])
def test_a_read_only_argument_is_refused_where_numpy_refuses(dtype, count: int) -> None:
    def f(x, y):
        x[1:] = 0
        y[0] = 1
        return x.sum()

    def calls(f):
        x, y = np.ones(count, dtype), np.ones(count, dtype)
        y.setflags(write=False)
        with pytest.raises(ValueError, match="read-only"):
            f(x, y)
        return x, y

    fast = da.jit(f)
    fast(np.ones(count, dtype), np.ones(count, dtype))
    for found, expected in zip(calls(fast), calls(f), strict=True):
        assert np.array_equal(found, expected)
    fast = da.jit(lambda x: x * 2)
    x = np.ones(count, dtype)
    x.setflags(write=False)
    found = fast(x)
    assert found.flags.writeable and np.array_equal(found, x * 2) and np.array_equal(x, np.ones(count, dtype))


def test_a_write_of_what_still_waits_to_be_written() -> None:
    def f(x):
        y = ~x
        y[0] = 3
        np.copyto(x, y)
        return y * 2

    fast = da.jit(f)
    plain, given = np.arange(5), np.arange(5)
    assert np.array_equal(fast(given), f(plain)) and np.array_equal(given, plain)
    given.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        fast(given)


def test_what_numpy_refuses_of_an_array_is_not_computed_with_objects() -> None:
    def f(x):
        y = np.ascontiguousarray(x)
        y /= 2
        return y

    with pytest.raises(InPlaceError, match="part of the value would be lost"):
        da.jit(f)(np.arange(4))


def test_an_argument_whose_entries_share_memory() -> None:
    def f(x):
        x[0] = 5
        return x + 1

    def shifted(x):
        x[1:, 1] = x[0, 0] + 10
        return x.sum()

    def windows():
        return np.lib.stride_tricks.as_strided(np.arange(6.0), (4, 3), (8, 8))

    def repeated():
        return np.lib.stride_tricks.as_strided(np.arange(2.0), (3, 2), (0, 8))

    for g in (f, shifted):
        for make in (windows, repeated):
            plain, given = make(), make()
            assert np.array_equal(da.jit(g)(given), g(plain)) and np.array_equal(given, plain)


def test_a_big_endian_argument_that_is_returned_is_the_argument() -> None:
    x = np.arange(3, dtype=">i4")

    def f(x):
        x += 1
        return x, x * 2

    same, twice = da.jit(f)(x)
    assert same is x and np.array_equal(x, [1, 2, 3]) and np.array_equal(twice, [2, 4, 6])
