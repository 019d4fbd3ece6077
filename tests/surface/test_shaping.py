"""NumPy's names for shapes: each call against NumPy, differences, the dot test, a loop, and its program."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import UnsupportedError
from tests.oracles.calls import check_call

X = np.random.default_rng(1).normal(size=(2, 3, 4))
V = X[0, 0]
ONE = X[:1, :, :1]
S = np.float64(1.5)

CALLS = {
    "reshape": (lambda x: np.reshape(x, (4, -1)), X),
    "reshape F": (lambda x: np.reshape(x, (4, 6), order="F"), X),
    "reshape to 0-d": (lambda x: np.reshape(x, ()), X[:1, :1, :1]),
    "ravel": (np.ravel, X),
    "ravel F": (lambda x: np.ravel(x, "F"), X),
    "squeeze": (np.squeeze, ONE),
    "squeeze axis": (lambda x: np.squeeze(x, -1), ONE),
    "expand_dims": (lambda x: np.expand_dims(x, (0, -1)), X),
    "atleast_1d": (np.atleast_1d, S),
    "atleast_2d": (lambda x, y: np.atleast_2d(x, y), V, X),
    "atleast_3d": (lambda x, y, z: np.atleast_3d(x, y, z), S, V, X[0]),
    "broadcast_to": (lambda x: np.broadcast_to(x, (2, 3, 4)), X[:1, :, :1]),
    "broadcast_arrays": (lambda x, y: np.broadcast_arrays(x, y), X[:, 0, None], X[0, :2]),
    "resize": (lambda x: np.resize(x, (3, 5)), V),
    "resize shorter": (lambda x: np.resize(x, 2), V),
    "copy": (np.copy, X),
    "astype": (lambda x: np.astype(x, complex), X),
    "transpose": (np.transpose, X),
    "transpose axes": (lambda x: np.transpose(x, (1, -1, 0)), X),
    "permute_dims": (lambda x: np.permute_dims(x, (2, 0, 1)), X),
    "moveaxis": (lambda x: np.moveaxis(x, [0, 1], [-1, 0]), X),
    "swapaxes": (lambda x: np.swapaxes(x, 0, -1), X),
    "rollaxis": (lambda x: np.rollaxis(x, 2, 1), X),
    "matrix_transpose": (np.matrix_transpose, X),
    "flip": (np.flip, X),
    "flip axes": (lambda x: np.flip(x, (0, -1)), X),
    "fliplr": (np.fliplr, X),
    "flipud": (np.flipud, V),
    **{f"rot90 {k}": (lambda x, k=k: np.rot90(x, k, (0, 2)), X) for k in range(-1, 5)},
    "roll": (lambda x: np.roll(x, 5), X),
    "roll axis": (lambda x: np.roll(x, -1, 1), X),
    "roll axes": (lambda x: np.roll(x, (1, 2), (0, 2)), X),
    "roll axes with one shift": (lambda x: np.roll(x, 2, (1, 2)), X),
    "roll by nothing": (lambda x: np.roll(x, 4), V),
    "tile": (lambda x: np.tile(x, 3), V),
    "tile matrix": (lambda x: np.tile(x, (2, 1, 3)), X),
    "tile more axes": (lambda x: np.tile(x, (2, 2)), V),
    "tile number": (lambda x: np.tile(x, (2, 2)), S),
    "repeat": (lambda x: np.repeat(x, 2), X),
    "repeat axis": (lambda x: np.repeat(x, 3, axis=1), X),
    "repeat each": (lambda x: np.repeat(x, [0, 2, 1], axis=1), X),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    check_call(name, *CALLS[name])


def test_methods_take_shapes_both_ways():
    y, t = da.jvp(lambda x: x.reshape(3, -1) + x.reshape((3, 8)), (X,), (X,))
    np.testing.assert_array_equal(y, 2 * X.reshape(3, 8))
    np.testing.assert_array_equal(t, y)


@pytest.mark.parametrize("shape", [(5, 5), (-1, -1), (7, -1)])
def test_impossible_reshape(shape):
    with pytest.raises(ValueError, match="cannot reshape array of size 24"):
        da.jvp(lambda x: np.reshape(x, shape), (X,), (X,))


def test_wrong_axes():
    for f in (lambda x: np.flip(x, 3), lambda x: np.swapaxes(x, 0, 5), lambda x: np.moveaxis(x, 0, -4)):
        with pytest.raises(np.exceptions.AxisError):
            da.jvp(f, (X,), (X,))
    with pytest.raises(ValueError, match="size not equal to one"):
        da.jvp(lambda x: np.squeeze(x, 0), (X,), (X,))
    with pytest.raises(ValueError, match="axes don't match"):
        da.jvp(lambda x: np.transpose(x, (0, 0, 1)), (X,), (X,))


def test_traced_counts_and_shifts_are_refused():
    with pytest.raises(UnsupportedError, match="repeats is a Batched"):
        da.vmap(lambda n: np.repeat(n, n))(np.arange(3))
    with pytest.raises(UnsupportedError, match=r"np.take\(x, \(np.arange"):
        da.vmap(lambda x, n: np.roll(x, n))(X[0], np.arange(3))


def test_a_copy_is_independent():
    def f(x):
        y = np.copy(x)
        y[0] = 0.0
        return x + y

    _, t = da.jvp(f, (V,), (np.ones(4),))
    np.testing.assert_array_equal(t, [1, 2, 2, 2])


def test_writes_reach_the_base_through_views():
    """NumPy's views: reshape, transpose, flip, slices, rows, pieces of a split."""

    def through(view):
        def f(x):
            y = x * 1.0
            view(y)[...] = 0.0
            return y

        return f

    views = [
        lambda y: y.reshape(6, 4)[1], lambda y: y.T[1:, 2], lambda y: np.flip(y, 1)[:, :1], lambda y: list(y)[1],
        lambda y: np.split(y, 3, axis=1)[2], lambda y: y[:, None, ::-2], lambda y: np.squeeze(y[:1]), np.ravel,
    ]  # fmt: skip
    for view in views:
        f = through(view)
        _, t = da.jvp(f, (X,), (np.ones_like(X),))
        np.testing.assert_array_equal(t, f(np.ones_like(X)))
