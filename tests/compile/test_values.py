"""Results of compiled functions beside NumPy's own: their memory, their dtypes, and arrays without axes or entries.

Found by ``tests/adversaries/numpy_calls.py``. Not for: what is a view (test_layout.py), or rounding.
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.compile import trust

TABLE = np.arange(6.0)


def shared(results, *others) -> bool:
    arrays = [x for x in (*results, *others) if isinstance(x, np.ndarray)]
    return any([np.may_share_memory(x, y) for i, x in enumerate(arrays) for y in arrays[:i]])


@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.complex64, bool])
@pytest.mark.parametrize("count", [6, 4098])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x + x, (x + x).T, x + x),
        lambda x: (y := x | x if x.dtype.kind in "bi" else x * x, y.reshape(2, -1), y.reshape(2, -1).T, y),
        lambda x: (TABLE, TABLE[1:], TABLE * 1, TABLE),
        lambda x: (np.ones(3), np.zeros_like(x), np.zeros_like(x)),
        lambda x: (x[1:], x.T, x.reshape(2, -1), x * 1),
        lambda x: [np.real(x * 1), np.conj(x), np.broadcast_to(x[0], (3,)), np.squeeze(x[None])],
    ],
)
def test_results_have_memory_of_their_own(f, dtype, count: int, backend: str) -> None:
    x, fast = np.ones(count, dtype), da.jit(f)
    for _ in range(2):
        results = fast(x)
        assert not shared(results, x, TABLE)
        for found, expected in zip(results, f(x), strict=True):
            assert np.array_equal(found, expected) and found.dtype == expected.dtype
            found[...] = 0
    assert np.array_equal(TABLE, np.arange(6.0)) and np.all(x == 1)


def test_an_array_without_axes_is_written_to_and_a_number_is_not(backend: str) -> None:
    def f(x):
        x[...] = x + 1
        return x * 2

    fast = da.jit(f)
    x = np.array(3.0)
    assert fast(x) == 8.0 and x == 4.0 and fast(x) == 10.0 and x == 5.0
    with pytest.raises(TypeError, match="item assignment"):
        fast(np.float64(3.0))


def test_parts_of_complex_numbers_are_views() -> None:
    def f(z):
        x = np.real(z)
        x -= 1
        np.imag(z)[0] = 7
        return z * 1

    for dtype in (np.complex64, np.complex128, ">c8"):
        plain, given = np.arange(3).astype(dtype), np.arange(3).astype(dtype)
        assert np.array_equal(da.jit(f)(given), f(plain)) and np.array_equal(given, plain)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.clip(x > 1, 0, x),
        lambda x: np.clip(x, 0, np.float32(2)),
        lambda x: (x > 1) ** 2,
        lambda x: np.sum(x, axis=0),
        lambda x: np.cumsum(x),
        lambda x: x.T.copy(),
        lambda x: np.sort(x, axis=0),
        lambda x: np.concatenate([x, x]),
        lambda x: np.repeat(x, 2),
    ],
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float32, np.complex64])
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (1, 1), (3,)])
def test_axes_of_length_zero_and_one(f, dtype, shape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "STRICT", False)  # a pass that can't be proven for no entries is left out
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    found, expected = da.jit(f)(x), f(x)
    assert found.dtype == expected.dtype and found.shape == expected.shape and np.array_equal(found, expected)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (1, 1)])
def test_derivatives_over_axes_of_length_zero_and_one(shape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "STRICT", False)
    x = np.ones(shape)
    for f in (
        lambda x: np.sum(np.sin(x)),
        lambda x: np.sum(np.cumsum(x)),
        lambda x: np.sum(x.T @ x),
        lambda x: np.sum(np.sort(x, axis=0) ** 2),
        lambda x: np.prod(x),
    ):
        expected = da.grad(f)(x)
        assert np.array_equal(da.jit(da.grad(f))(x), expected) and np.array_equal(da.grad(da.jit(f))(x), expected)
        lanes = np.stack([x, x])
        assert np.array_equal(da.jit(da.vmap(f))(lanes), da.vmap(f)(lanes))


def test_a_write_that_does_not_broadcast_is_an_error_when_it_is_traced() -> None:
    def f(x):
        y = np.sum(x, axis=0)
        y[...] = x
        return x * 2

    with pytest.raises(ValueError, match="could not broadcast"):
        da.jit(f)(np.ones((3, 4)))


ALONG = {
    "sums": lambda a: (a.sum(axis=1), a.sum(axis=(0, 1), keepdims=True)),
    "all and each": lambda a: (a.sum(axis=(0, 1)), a.sum(axis=0), a.max(axis=(1,)), a.min(axis=(0, 1))),
    "normalized": lambda a: (a - a.mean(axis=(0, 1), keepdims=True)) / a.std(axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("shape", [(8, 128), (128, 8), (1, 130), (3, 4, 64)])
def test_reductions_of_one_array_along_different_axes(name: str, shape, backend: str) -> None:
    a = np.random.default_rng(0).normal(size=shape)
    for f in (ALONG[name], da.grad(lambda a: sum([np.sum(x * x) for x in da.tree.flatten(ALONG[name](a))[0]]))):
        found, expected = da.tree.flatten(da.jit(f)(a))[0], da.tree.flatten(f(a))[0]
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_one_derivative_that_is_no_number_leaves_its_row_alone(bad: float, backend: str) -> None:
    def f(x):
        return np.stack([np.sqrt(x[0]) + x[1] * x[2], x[1] * x[1], x[2] * x[0]])

    x = np.array([bad, 1.0, 2.0])
    with np.errstate(all="ignore"):
        expected = da.jacfwd(f)(x)
        for compiled in (da.jit(da.jacfwd(f)), da.jacfwd(da.jit(f))):
            np.testing.assert_array_equal(compiled(x), expected)
    assert expected[0, 1:].tolist() == [2.0, 1.0] and expected[1].tolist() == [0.0, 2.0, 0.0]


@pytest.mark.parametrize("factor", [1, 1.0])
def test_rows_of_a_long_array_of_integers(factor: float, backend: str) -> None:
    def f(x, y):
        z = x.copy() * factor
        z[1:3] = y[1:3]
        return z

    x = np.arange(210_000).reshape(70_000, 3)
    expected = f(x, -x)
    assert (found := da.jit(f)(x, -x)).dtype == expected.dtype and np.array_equal(found, expected)
