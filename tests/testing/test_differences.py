"""Central differences: right to their own error estimate, and honest where they can't be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualad.errors import ShapeError
from dualad.testing import Unavailable, differences

CASES = {
    "sin": (np.sin, np.cos),
    "exp": (np.exp, np.exp),
    "fast": (lambda x: np.sin(300 * x), lambda x: 300 * np.cos(300 * x)),
    "stiff": (lambda x: np.exp(-1e4 * x), lambda x: -1e4 * np.exp(-1e4 * x)),
    "tiny": (lambda x: 1e-200 * x**2, lambda x: 2e-200 * x),
    "huge": (lambda x: 1e200 * x**2, lambda x: 2e200 * x),
    "constant": (lambda x: 0 * x + 3.0, lambda x: 0 * x),
    "rational": (lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("at", [0.3, 1.0, 2.7])
def test_the_truth_lies_within_the_estimated_error(name, at):
    f, df = CASES[name]
    x = np.array([at])
    found = differences.derivative(f, x, x.copy())
    if isinstance(found, Unavailable):
        pytest.fail(found.reason)
    error = abs(found.value[0] - df(x)[0] * x[0])
    assert error <= 4 * found.error[0] + 1e-10 * abs(df(x)[0] * x[0])


@given(
    st.lists(st.floats(-3, 3), min_size=2, max_size=5),
    st.floats(-2, 2, allow_subnormal=False),
)
def test_polynomials(coefficients, at):
    p = np.polynomial.Polynomial(coefficients)
    found = differences.derivative(p, np.array([at]), np.array([1.0]))
    if isinstance(found, Unavailable):
        assert abs(p.deriv()(at)) < 1e-3, found.reason
    else:
        np.testing.assert_allclose(found.value[0], p.deriv()(at), atol=4 * found.error[0] + 1e-11, rtol=1e-9)


def test_the_domain_ends_beside_the_point():
    found = differences.derivative(np.log, np.array([1e-3]), np.array([1.0]))
    np.testing.assert_allclose(found.value, 1e3, rtol=1e-6)


@pytest.mark.parametrize(
    ("f", "x", "low", "high"),
    [
        (np.abs, 0.0, -1.0, 1.0),
        (lambda x: np.maximum(x, 2.0), 2.0, 0.0, 1.0),
        (lambda x: np.minimum(3 * x, x + 2), 1.0, 1.0, 3.0),
    ],
)
def test_a_kink_is_an_interval(f, x, low, high):
    found = differences.derivative(f, np.array([x]), np.array([1.0]))
    np.testing.assert_allclose([found.low[0], found.high[0]], [low, high], atol=1e-4)
    assert "kink" in found.note


@pytest.mark.parametrize("f", [np.sin, np.exp, lambda x: np.sin(1000 * x), lambda x: x**3, lambda x: np.abs(x - 1e-2)])
def test_a_smooth_point_is_no_kink(f):
    found = differences.derivative(f, np.array([0.5]), np.array([1.0]))
    assert np.isnan(found.low).all() and not found.note


def test_noise_is_not_settled():
    rng = np.random.default_rng(0)
    found = differences.derivative(
        lambda x: np.sin(x) + 1e-3 * rng.standard_normal(1), np.array([1.0]), np.array([1.0])
    )
    assert isinstance(found, Unavailable) and "do not settle" in found.reason


def test_a_jump_is_not_settled():
    found = differences.derivative(np.sign, np.array([0.0]), np.array([1.0]))
    assert isinstance(found, Unavailable)


def test_one_side_that_raises_is_said():
    def f(x):
        if x[0] < 1.0:
            raise ValueError("below the bound")
        return x

    found = differences.derivative(f, np.array([1.0]), np.array([1.0]))
    assert isinstance(found, Unavailable) and "below the bound" in found.reason


def test_a_shape_that_changes_is_said():
    def f(x):
        raise ShapeError("out has shape (2,) at the point and (3,) beside it.")

    found = differences.derivative(f, np.array([1.0]), np.array([1.0]), value=np.array([1.0]))
    assert isinstance(found, Unavailable) and "(3,) beside it" in found.reason


def test_jacobian_with_inputs_of_very_different_size():
    f = lambda x: np.array([x[0] * x[1], x[0] + x[2] ** 2])
    x = np.array([1e6, 1e-6, 2.0])
    found = differences.jacobian(f, x, np.abs(x))
    np.testing.assert_allclose(found.value, [[1e-6, 1e6, 0.0], [1.0, 0.0, 4.0]], rtol=1e-8, atol=1e-9)


def test_second_derivatives():
    f = lambda x: np.exp(x[0] * x[1]) + x[0] ** 4
    x, v = np.array([0.7, 1.3]), np.array([0.5, -0.25])
    a, b = x
    e = np.exp(a * b)
    hessian = np.array([[b * b * e + 12 * a * a, e * (1 + a * b)], [e * (1 + a * b), a * a * e]])
    found = differences.second_derivative(f, x, v, np.eye(2))
    np.testing.assert_allclose(found.value, hessian @ v, atol=4 * found.error.max() + 1e-9)


def test_second_derivatives_at_a_kink_do_not_settle():
    found = differences.second_derivative(lambda x: np.abs(x[0]), np.array([0.0]), np.array([1.0]), np.eye(1))
    assert isinstance(found, Unavailable)
