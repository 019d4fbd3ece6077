"""Compiled functions whose operations raise errors, which they catch or let out."""

from __future__ import annotations

import contextlib
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


@pytest.mark.filterwarnings("ignore:jit")
@pytest.mark.parametrize(
    ("f", "usual", "other"),
    [
        (np.linalg.cholesky, np.eye(2), -np.eye(2)),
        (lambda i: np.arange(5.0)[i], 1, 7),
        (lambda i: 7 // i, 2, 0),
        (lambda z: 1 / z, 0.5, 0.0),
        (lambda z: z**-1, 0.5, 0.0),
    ],
)
@pytest.mark.parametrize("suppresses", [False, True])
def test_functions_catch_errors_of_what_nothing_reads(f, usual, other, suppresses):
    def caught(x, y):
        try:
            f(x)
        except (ArithmeticError, LookupError, ValueError):
            return 2.0 * y
        return 3.0 * y

    def suppressed(x, y):
        y = 2.0 * y
        with contextlib.suppress(ArithmeticError, LookupError, ValueError):
            y = y + 0.0 * np.sum(f(x)) + 1.0
        return y

    g = suppressed if suppresses else caught
    for transform in (lambda f: f, lambda f: da.grad(f, argnums=1)):
        fast, slow = da.jit(transform(g)), transform(g)
        for x in (usual, other, usual):
            assert fast(x, 0.5) == slow(x, 0.5)


def test_what_nothing_reads_is_left_out_where_no_clause_catches_its_errors():
    @da.jit
    def f(x, y):
        try:
            np.linalg.cholesky(x)
        finally:
            y = y * 2.0
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(-np.eye(2), 1.5) == 3.0


def test_integers_of_compiled_functions_raise_under_a_transform():
    f = da.jit(lambda x, i: x * (6 // i))
    assert da.jvp(lambda x: f(x, 2), (1.5,), (1.0,)) == (4.5, 3.0)
    with pytest.raises(ZeroDivisionError):
        da.jvp(lambda x: f(x, 0), (1.5,), (1.0,))
