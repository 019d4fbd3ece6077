"""Indexing where a derivative is easily wrong: repeated indices, broadcast cotangents, numbers, large gathers, dtypes.

Not for: the forms of an index
(`tests/surface/test_indexing.py`).
"""

from __future__ import annotations

import time

import numpy as np
import pytest

import dualad as da
from dualad.ops import indexing
from dualad.ops.indexing import ARRAY
from tests.oracles.arrays import close

RNG = np.random.default_rng(6)


def sum_grad(f, x):
    return da.grad(lambda x: np.sum(f(x)))(x)


# ── repeated indices accumulate ──────────────────────────────────────────────────────────────────────────────────


def test_repeated_rows():
    gradient = sum_grad(lambda x: x[[1, 1, 3, 2, 1, 2]], RNG.normal(size=(4, 4)))
    np.testing.assert_array_equal(gradient, np.repeat([[0.0], [3], [2], [1]], 4, axis=1))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32])
def test_positions_of_every_type(dtype):
    i = np.array([1, 3, 1, 9 if dtype(0).dtype.kind == "u" else -1], dtype)
    x = RNG.normal(size=300)
    expected = np.zeros(300)
    np.add.at(expected, i, 1.0)
    np.testing.assert_array_equal(sum_grad(lambda x: x[i], x), expected)
    np.testing.assert_array_equal(da.jit(lambda x, i: sum_grad(lambda x: x[i], x))(x, i), expected)


def test_repeated_pairs():
    gradient = sum_grad(lambda x: x[[1, 1, 3, 2, 1, 2], [0, 0, 1, 2, 0, 2]], RNG.normal(size=(4, 4)))
    expected = np.zeros((4, 4))
    expected[1, 0], expected[3, 1], expected[2, 2] = 3, 1, 2
    np.testing.assert_array_equal(gradient, expected)


def test_index_matrices():
    gradient = sum_grad(lambda x: x[np.array([[0, 0], [1, 2]]), np.array([[1, 1], [0, 1]])], RNG.normal(size=(4, 4)))
    np.testing.assert_array_equal(gradient, [[0, 2, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]])


def test_index_and_slices():
    gradient = sum_grad(lambda x: x[[1, 1, 1], slice(None), slice(None)], RNG.normal(size=(4, 4, 4)))
    expected = np.zeros((4, 4, 4))
    expected[1] = 3
    np.testing.assert_array_equal(gradient, expected)


def test_negative_and_positive_names_of_one_entry():
    np.testing.assert_array_equal(sum_grad(lambda x: x[[0, -3, 2, -1]], np.ones(3)), [2, 0, 2])


def test_repeated_indices_in_second_order():
    x = RNG.normal(size=3)
    hessian = da.hessian(lambda x: np.sum(x[[0, 0, 2]] ** 2 * x[[1, 2, 2]]))(x)
    expected = np.array([[2 * x[1] + 2 * x[2], 2 * x[0], 2 * x[0]], [2 * x[0], 0, 0], [2 * x[0], 0, 6 * x[2]]])
    np.testing.assert_allclose(hessian, expected, rtol=1e-12)


def test_of_several_values_for_one_entry_only_the_last_counts():
    def f(x, v):
        y = x * 1.0
        y[[0, 2, 0]] = v
        return y

    x, v = RNG.normal(size=3), RNG.normal(size=3)
    value, pull = da.vjp(f, x, v)
    np.testing.assert_array_equal(value, [v[2], x[1], v[1]])
    ct_x, ct_v = pull(np.array([10.0, 20.0, 30.0]))
    np.testing.assert_array_equal(ct_x, [0, 20, 0])
    np.testing.assert_array_equal(ct_v, [0, 30, 10])
    _, t = da.jvp(f, (x, v), (np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])))
    np.testing.assert_array_equal(t, [6, 2, 5])
    indices = np.array([[0, 2, 0], [1, 1, 1]])
    ct = da.vmap(lambda i: da.vjp(lambda v: indexing.index_set(x, v, i, template=(ARRAY,)), v)[1](np.ones(3))[0])(
        indices
    )
    np.testing.assert_array_equal(ct, [[0, 1, 1], [0, 0, 1]])


# ── large and oddly laid out ─────────────────────────────────────────────────────────────────────────────────────


def test_large_gather_and_its_transpose_are_fast():
    n = 1 << 16
    x, i = RNG.normal(size=(n, 1)), np.arange(n)
    zero = np.zeros(n, int)
    seconds = []
    for _ in range(3):  # a busy machine may lose one round
        start = time.perf_counter()
        gradient = sum_grad(lambda x: x[i, zero], x)
        seconds.append(time.perf_counter() - start)
    np.testing.assert_array_equal(gradient, np.ones((n, 1)))
    assert min(seconds) < 0.1


@pytest.mark.parametrize("order", ["C", "F"])
def test_layout_of_indices_does_not_matter(order):
    i = np.array(RNG.integers(0, 5, (3, 4)), order=order)
    x = RNG.normal(size=(5, 2))
    c = RNG.normal(size=(3, 4, 2))
    expected = np.zeros_like(x)
    np.add.at(expected, i, c)
    for ct in (c, np.asfortranarray(c), c[::-1, :, ::-1][::-1, :, ::-1]):
        close(da.vjp(lambda x: x[i], x)[1](ct)[0], expected, "cotangent")
        close(da.vjp(lambda x: x[i], np.asfortranarray(x))[1](ct)[0], expected, "cotangent of a Fortran array")


EXPANDED = {
    "int": lambda x: x[1],
    "slice": lambda x: x[1:3],
    "steps": lambda x: x[:, ::-2],
    "array": lambda x: x[[0, 0, 2]],
    "diagonal": np.diagonal,
    "split": lambda x: np.split(x, 2)[1],
    "rows": lambda x: np.stack(list(x), axis=1),
    "concatenate": lambda x: np.concatenate([x, x]),
}


@pytest.mark.parametrize("name", EXPANDED)
def test_cotangents_without_strides(name):
    f = EXPANDED[name]
    x = RNG.normal(size=(4, 4))
    value, pull = da.vjp(f, x)
    ct = np.broadcast_to(2.5, value.shape)
    close(pull(ct), pull(ct.copy()), name)
    pull_twice = lambda c: da.vjp(lambda c: pull(c)[0], c)[1](np.broadcast_to(1.5, x.shape))[0]
    close(pull_twice(ct), pull_twice(ct.copy()), f"{name}, second order")


# ── gather and scatter, numbers ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_along_an_axis(axis):
    x = RNG.normal(size=(4, 5))
    shape = (2, 5) if axis == 0 else (4, 3)
    i = RNG.integers(0, x.shape[axis], shape)
    c = RNG.normal(size=shape)
    value, pull = da.vjp(lambda x: np.take_along_axis(x, i, axis), x)
    close(value, np.take_along_axis(x, i, axis), "value")
    expected = np.zeros_like(x)
    place = (i, np.arange(5)) if axis == 0 else (np.arange(4)[:, None], i)
    np.add.at(expected, place, c)
    close(pull(c)[0], expected, "transpose")


def test_numbers():
    x = np.float64(2.0)
    assert da.jvp(lambda x: x[()] * 3, (x,), (1.0,)) == (6.0, 3.0)
    assert da.jvp(lambda x: x[...] * 3, (np.array(2.0),), (1.0,)) == (6.0, 3.0)
    np.testing.assert_array_equal(da.jvp(lambda x: np.take(x, [0, 0]), (x,), (5.0,))[1], [5, 5])
    assert da.grad(lambda x: np.take(x, 1))(np.array([1.0, 2.0])).tolist() == [0, 1]
    value = da.jvp(lambda x: x[1], (np.ones(3),), (np.ones(3),))[0]
    assert type(value) is np.float64


def test_index_add_into_a_scalar_and_an_empty_array():
    assert indexing.index_add(np.float64(3.0), template=(), shape=()) == 3.0
    assert indexing.index_add(np.zeros((0, 2)), np.zeros(0, int), template=(ARRAY,), shape=(0, 2)).shape == (0, 2)


# ── dtypes ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_dtypes_stay(dtype):
    x = RNG.normal(size=4).astype(dtype)
    for f in (
        lambda x: x[[1, 1]],
        lambda x: x[1:],
        lambda x: np.stack([x, x]),
        lambda x: np.pad(x, 1, "edge"),
        np.diag,
    ):
        value, pull = da.vjp(f, x)
        assert value.dtype == dtype
        assert pull(np.ones_like(value))[0].dtype == dtype
        assert da.jvp(f, (x,), (x,))[1].dtype == dtype


def test_casts_keep_the_tangent():
    for dtype in (np.float16, np.float32, np.complex64, np.complex128):
        value, tangent = da.jvp(lambda x: x.astype(dtype), (np.ones(2),), (np.array([1.0, 2.0]),))
        assert value.dtype == tangent.dtype == dtype
        np.testing.assert_array_equal(tangent, [1, 2])


def test_answers_in_integers_are_constants_in_float_use():
    f = lambda x: x[0] * np.argmax(x).astype(float)
    value, tangent = da.jvp(f, (np.array([2.0, 5.0]),), (np.array([1.0, 7.0]),))
    assert (value, tangent) == (2.0, 1.0)


# ── replacing entries of duals ───────────────────────────────────────────────────────────────────────────────────


def test_replacing_an_entry_replaces_its_tangent():
    def f(x):
        y = x.copy()
        y[:1] = 2 * y[:1]
        return y

    np.testing.assert_array_equal(da.jvp(f, (np.ones(2),), (np.ones(2),))[1], [2, 1])


def test_an_entry_in_a_constant_buffer():
    def f(x):
        y = np.zeros(3, like=x)
        y[1] = x
        return y

    g = lambda x: f(x * 1.0)
    value, tangent = da.jvp(g, (5.0,), (2.0,))
    np.testing.assert_array_equal(value, [0, 5, 0])
    np.testing.assert_array_equal(tangent, [0, 2, 0])
    np.testing.assert_array_equal(da.vmap(g)(np.array([1.0, 2.0])), [[0, 1, 0], [0, 2, 0]])
    np.testing.assert_array_equal(da.jacrev(g)(5.0), [0, 1, 0])


def test_no_leak_through_a_stopped_copy():
    def f(x):
        y = da.stop_gradient(x).copy()
        y += 1.0
        return x + y

    np.testing.assert_array_equal(da.jvp(f, (np.ones(2),), (np.ones(2),))[1], [1, 1])


def test_broadcasting_a_dual_into_a_buffer():
    def f(x):
        y = np.zeros((1, 3, 3), like=x)
        y[...] = x
        return y

    x = RNG.normal(size=(3, 3))
    np.testing.assert_array_equal(da.jvp(f, (x,), (2 * x,))[1], 2 * x[None])
