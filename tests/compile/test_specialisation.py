"""Compiled functions whose operations raise errors, which they catch or let out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dualad as da


@pytest.mark.parametrize(
    ("f", "usual", "other"),
    [
        (lambda x: np.linalg.cholesky(x).sum(), np.eye(2), -np.eye(2)),
        (lambda x: np.linalg.inv(x).sum(), np.eye(2), np.zeros((2, 2))),
        (lambda i: np.arange(5.0)[i] * 2, 1, 7),
        (lambda i: 7 // i, 2, 0),
    ],
    ids=["cholesky", "inv", "index", "zero"],
)
@pytest.mark.parametrize("first", [0, 1])
def test_functions_catch_the_errors_of_compiled_code(f, usual, other, first):
    def caught(x):
        try:
            return f(x)
        except (ArithmeticError, LookupError, ValueError) as error:
            return 10.0 * len(type(error).__name__) + 0 * x

    fast, plain = da.jit(caught), da.jit(f)
    for x in [other] * first + [usual, other, usual, usual, other]:
        assert np.array_equal(fast(x), caught(x))
    plain(usual), plain(usual)
    with pytest.raises((ArithmeticError, LookupError, ValueError)) as raised:
        plain(other)
    assert raised.value.__context__ is None


def test_gradients_and_draws_go_on_where_compiled_code_meets_an_error():
    def likelihood(x, rng):
        z = rng.normal(size=2)
        try:
            return np.sum(np.linalg.cholesky(x) @ z)
        except np.linalg.LinAlgError:
            return np.sum(x**2) * z[0] * rng.normal()

    rng, plain = np.random.default_rng(0), np.random.default_rng(0)
    fast, slow = da.jit(da.grad(likelihood)), da.grad(likelihood)
    for x in (np.eye(2), -np.eye(2), 2 * np.eye(2)):
        np.testing.assert_allclose(fast(x, rng), slow(x, plain), rtol=1e-14)


@pytest.mark.filterwarnings("ignore:jit")
@pytest.mark.parametrize("first", [0.0, 2.0])
@pytest.mark.parametrize("transform", [lambda f: f, da.grad])
def test_floating_point_errors_that_a_function_asks_for_are_raised(transform, first):
    def raises(x):
        with np.errstate(all="raise"):
            try:
                return np.log(x)
            except FloatingPointError:
                return 3.0 * x

    def warns(x):
        with np.errstate(all="warn"), warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                return np.log(x)
            except RuntimeWarning:
                return 5.0 * x

    for f in (raises, warns):
        fast = da.jit(transform(f))
        for x in (first, 0.0, 2.0):
            assert fast(x) == transform(f)(x)
