"""A function of trees as a function of one real vector."""

from __future__ import annotations

import numpy as np
import pytest

from dualad.errors import OutputError, UsageError
from dualad.testing.engine import RealFunction, join_entries


def trees(params, n, label, z):
    return {"a": params["w"] * n, "b": (z * z, label, n)}


ARGS = ({"w": np.array([1.0, 2.0]), "k": np.array([1, 2])}, 3, "name", np.array([1 + 2j]))


def test_leaves_names_and_sizes():
    f = RealFunction(trees, ARGS)
    assert (f.size, f.out_size) == (4, 4)
    assert [f.ins.label(k) for k in range(4)] == ["params['w'][0]", "params['w'][1]", "real(z)[0]", "imag(z)[0]"]
    assert [f.outs.label(k) for k in range(4)] == [
        "out['a'][0]",
        "out['a'][1]",
        "real(out['b'][0])[0]",
        "imag(out['b'][0])[0]",
    ]
    np.testing.assert_array_equal(f.flat_value, [3.0, 6.0, -3.0, 4.0])


def test_vectors_go_in_and_come_out():
    f = RealFunction(trees, ARGS)
    np.testing.assert_array_equal(f.evaluate(np.array([1.0, 1.0, 0.0, 1.0])), [3.0, 3.0, -1.0, 0.0])
    np.testing.assert_array_equal(join_entries(f.ins.split(f.x)), f.x)
    assert f.ins.groups().tolist() == [0, 0, 1, 2]


def test_single_precision_points_become_double():
    f = RealFunction(lambda x: x * x, (np.float32(0.5),))
    assert f.point[0].dtype == np.float64 and f.value[0].dtype == np.float64


def test_a_function_that_writes_its_argument_sees_a_fresh_one_each_time():
    def f(x):
        x += 1.0
        return x

    x = np.zeros(2)
    function = RealFunction(f, (x,))
    for _ in range(3):
        np.testing.assert_array_equal(function.evaluate(np.zeros(2)), [1.0, 1.0])
    np.testing.assert_array_equal(x, 0.0)


def test_scale_is_each_entrys_own_magnitude():
    f = RealFunction(lambda x, y: x[0] * y, (np.array([1e-8, 0.0, 1e6]), 0.0))
    np.testing.assert_allclose(f.scale, [1e-8, 1.0, 1e6, 1.0])
    small = RealFunction(lambda x: x, (np.array([1e-8, 2e-8, 0.0]),))
    np.testing.assert_allclose(small.scale, [1e-8, 2e-8, 2e-8])


def test_no_float_in_the_arguments_is_said():
    with pytest.raises(UsageError, match=r"1\.0 instead of 1"):
        RealFunction(lambda x: x, (np.array([1, 2]),))


def test_no_float_in_the_result_is_said():
    with pytest.raises(OutputError, match="Only floating-point results"):
        RealFunction(lambda x: (3, "word"), (1.0,))


def test_a_random_function_is_said():
    rng = np.random.default_rng(0)
    with pytest.raises(OutputError, match="two different values"):
        RealFunction(lambda x: x * rng.standard_normal(), (1.0,))
