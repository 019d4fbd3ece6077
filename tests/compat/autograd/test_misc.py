"""autograd's helpers: the optimizers step by step, the rest against differences or plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dualad.compat.autograd import grad
from dualad.compat.autograd.misc import (
    adam,
    check_grads,
    combo_check,
    fixed_point,
    flatten,
    flatten_func,
    rmsprop,
    sgd,
    unbroadcast,
    unbroadcast_f,
)


def bowl(p, i):
    return np.sum((p["a"] - 1.0) ** 2) + 3 * (p["b"] + 0.5) ** 2


START = {"b": 2.0, "a": np.array([3.0, -1.0])}


@pytest.mark.parametrize("optimize", [sgd, rmsprop, adam])
def test_optimizers_take_trees_and_find_the_minimum(optimize):
    seen = []
    found = optimize(
        grad(bowl), START, callback=lambda p, i, g: seen.append((i, bowl(p, i), g["b"])), num_iters=800, step_size=0.05
    )
    np.testing.assert_allclose(np.concatenate([found["a"], [found["b"]]]), [1.0, 1.0, -0.5], atol=0.03)
    assert [i for i, _, _ in seen] == list(range(800))
    assert seen[0][1:] == (bowl(START, 0), 15.0), "the callback sees where the gradient was taken"


def test_single_steps_of_the_optimizers():
    """The first step of each, by hand, from x = 2 where the gradient is 4."""
    quadratic = grad(lambda x, i: x**2)
    np.testing.assert_allclose(sgd(quadratic, 2.0, num_iters=1, step_size=0.1, mass=0.9), 2 - 0.1 * 0.1 * 4)
    np.testing.assert_allclose(
        rmsprop(quadratic, 2.0, num_iters=1, step_size=0.1, gamma=0.9), 2 - 0.1 * 4 / np.sqrt(0.9 + 0.1 * 16)
    )
    np.testing.assert_allclose(adam(quadratic, 2.0, num_iters=1, step_size=0.1), 2 - 0.1, rtol=1e-8)
    assert adam(quadratic, 2.0, num_iters=0) == 2.0


def test_fixed_points_have_the_derivative_of_the_limit():
    def root(a):
        return fixed_point(lambda a: lambda x: 0.5 * (x + a / x), a, 10.0, lambda x, y: np.abs(x - y), 1e-10)

    np.testing.assert_allclose(root(2.0), np.sqrt(2))
    np.testing.assert_allclose(grad(root)(2.0), 0.5 / np.sqrt(2))
    np.testing.assert_allclose(grad(grad(root))(2.0), -0.25 / 2**1.5)


def test_trees_as_vectors():
    flat, unflatten = flatten(START)
    assert flat.tolist() == [3.0, -1.0, 2.0], "in the order of the keys"
    assert unflatten(flat)["b"] == 2.0
    f, back, at = flatten_func(lambda p: {"n": np.sum(p["a"]), "m": p["b"]}, START)
    assert f(at).tolist() == [2.0, 2.0] and back(at)["a"].tolist() == [3.0, -1.0]


def test_derivatives_are_checked():
    check_grads(lambda x, y: np.sin(x) * y, (0, 1))(np.array([0.3, 1.0]), 2.0)
    check_grads(np.sin, modes=["rev"], order=1)(0.4)
    combo_check(lambda x, axis: np.sum(x, axis=axis), modes=["fwd"])([np.ones((2, 2))], axis=[0, 1])
    with pytest.raises(AssertionError):
        check_grads(lambda x: np.where(x > 0.3, 5.0, 0.0) * np.round(x, 7))(np.array([0.3]))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3), (2, 1), (2, 3), (1, 1, 3)])
def test_cotangents_of_what_was_broadcast_are_summed(shape):
    g = np.arange(6.0).reshape(2, 3) if len(shape) < 3 else np.arange(6.0).reshape(1, 2, 3)
    x = np.zeros(shape)
    # The same as the transpose of broadcasting, written with a basis.
    full = [np.sum(g * np.broadcast_to(e.reshape(shape), g.shape)) for e in np.eye(x.size)]
    assert np.shape(unbroadcast(g, x)) == shape
    np.testing.assert_allclose(np.ravel(unbroadcast(g, x)), full)
    np.testing.assert_allclose(unbroadcast_f(x, lambda g: 2 * g)(g), 2 * unbroadcast(g, x))
