"""Constraints: round trips, Jacobians against determinants of differences, Stan's definitions, LKJ against integrals.

The determinants are of central differences of the map; where values have more entries than free numbers (simplexes,
Cholesky factors), of the entries that Stan's densities are over.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from scipy.integrate import quad

import dualad as da
from dualad.scipy.stats import constraints as c

RNG = np.random.default_rng(3)


def all_of(value):
    return np.ravel(value)


def all_but_last(value):
    return np.ravel(value[..., :-1])


def below_diagonal(value):
    return value[np.tril_indices(len(value), -1)]


CASES = {
    "real": (c.real(2, 3), all_of),
    "lower": (c.lower(1.5, 3), all_of),
    "positive": (c.positive(), all_of),
    "upper": (c.upper(np.array([2.0, -1.0]), 2), all_of),
    "interval": (c.interval(-1.0, np.array([3.0, 5.0]), 2), all_of),
    "ordered": (c.ordered(4), all_of),
    "rows in order": (c.ordered(2, 3), all_of),
    "positive_ordered": (c.positive_ordered(2, 3), all_of),
    "simplex": (c.simplex(5), all_but_last),
    "simplexes": (c.simplex(2, 3), all_but_last),
    "a simplex of one": (c.simplex(1), all_but_last),
    "cholesky_corr": (c.cholesky_corr(4), below_diagonal),
    "a factor of one": (c.cholesky_corr(1), below_diagonal),
}


def differences(f, x, h=1e-3):
    steps = h * np.eye(x.size)
    near, far = (np.array([f(x + k * s) - f(x - k * s) for s in steps]) for k in (1, 2))
    return (8 * near - far).T / (12 * h)


@pytest.mark.parametrize("name", CASES)
def test_maps_there_and_back_and_has_the_jacobian_of_differences(name):
    constraint, entries = CASES[name]
    for scale in (0.5, 3.0):
        free = RNG.normal(size=constraint.size, scale=scale)
        value, log_jacobian = constraint.constrain(free)
        assert np.allclose(constraint.unconstrain(value), free, rtol=1e-9, atol=1e-9)
        if free.size:
            expected = np.linalg.slogdet(differences(lambda y: entries(constraint.constrain(y)[0]), free))[1]
            assert np.isclose(log_jacobian, expected, rtol=1e-7, atol=1e-7)
            ours = da.jacobian(lambda y: entries(constraint.constrain(y)[0]))(free)
            assert np.isclose(log_jacobian, np.linalg.slogdet(ours)[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_the_jacobian_are_those_of_differences(name):
    constraint, _ = CASES[name]
    free = RNG.normal(size=constraint.size)

    def log_jacobian(y):
        value, out = constraint.constrain(y)
        return out + np.sum(np.sin(value))

    value, gradient = da.jit(da.value_and_grad(log_jacobian))(free)
    assert np.isclose(value, log_jacobian(free))
    assert np.allclose(gradient, differences(log_jacobian, free).reshape(free.shape), rtol=1e-8, atol=1e-8)
    assert np.allclose(da.hessian(log_jacobian)(free), differences(da.grad(log_jacobian), free), atol=1e-7)


def test_values_satisfy_their_constraints_far_out():
    for far in (-300.0, 300.0):
        assert np.isclose(np.sum(c.simplex(4).constrain(np.full(3, far))[0]), 1.0)
        low_to_high, log_jacobian = c.interval(-1.0, 2.0).constrain(np.array([far]))
        assert -1.0 <= low_to_high <= 2.0
        assert np.isclose(log_jacobian, np.log(3.0) - 300.0)
        factor, log_jacobian = c.cholesky_corr(3).constrain(np.full(3, far))
        assert np.allclose(np.diag(factor @ factor.T), 1.0)
        assert np.isfinite(log_jacobian)


def test_the_simplex_breaks_a_stick_as_stan_does():
    free = np.array([0.3, -1.2, 0.8])
    left, expected = 1.0, []
    for k, y in enumerate(free):
        expected.append(left * scipy.special.expit(y - np.log(3 - k)))
        left -= expected[-1]
    assert np.allclose(c.simplex(4).constrain(free)[0], [*expected, left], rtol=1e-14)


def test_rows_of_a_factor_are_filled_as_stan_does():
    free = np.array([0.4, -0.7, 1.1])
    z = np.tanh(free)
    expected = np.eye(3)
    expected[1, :2] = z[0], np.sqrt(1 - z[0] ** 2)
    expected[2, :2] = z[1], z[2] * np.sqrt(1 - z[1] ** 2)
    expected[2, 2] = np.sqrt(1 - expected[2, 0] ** 2 - expected[2, 1] ** 2)
    assert np.allclose(c.cholesky_corr(3).constrain(free)[0], expected, rtol=1e-14)


@pytest.mark.parametrize("eta", [0.5, 1.0, 3.5])
def test_the_density_of_correlations_integrates_to_one(eta):
    def density(r):
        return np.exp(c.lkj_cholesky_logpdf(np.array([[1.0, 0.0], [r, np.sqrt(1 - r * r)]]), eta))

    assert np.isclose(quad(density, -1, 1)[0], 1.0, rtol=1e-6)


def test_the_density_of_correlations_of_three_integrates_to_one_over_free_numbers():
    constraint = c.cholesky_corr(3)
    axis = np.linspace(-7.0, 7.0, 57)

    def density(free):
        factor, log_jacobian = constraint.constrain(free)
        return np.exp(c.lkj_cholesky_logpdf(factor, 2.0) + log_jacobian)

    grid = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
    assert np.isclose(np.sum(da.vmap(density)(grid)) * (axis[1] - axis[0]) ** 3, 1.0, rtol=1e-4)


def test_named_parameters_lie_one_after_another():
    parameters = c.Parameters(mu=c.real(2), sigma=c.positive(), theta=c.simplex(3))
    assert parameters.size == 5
    free = RNG.normal(size=5)
    values, log_jacobian = parameters.constrain(free)
    assert list(values) == ["mu", "sigma", "theta"]
    assert np.isclose(log_jacobian, free[2] + c.simplex(3).constrain(free[3:])[1])
    assert np.allclose(parameters.unconstrain(values), free)
