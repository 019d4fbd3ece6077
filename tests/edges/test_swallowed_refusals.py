"""A refusal that the function catches: the transform says so at its exit, with both lines."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.boundary.swallowed import RefusalSwallowedWarning
from dualad.errors import (
    ConversionError,
    DualadError,
    PlainBufferError,
    RefusalSwallowedError,
)

X = np.array([1.0, 2.0, 3.0])


def as_floats(x):
    try:
        x = np.asarray(x, float)  # refused here
    except (TypeError, ValueError):  # caught here
        return 0 * np.sum(x)
    return np.sum(x**2)


def buffered(x):
    out = np.zeros(3)
    try:
        out[:] = x  # refused here
    except Exception:  # caught here
        return np.sum(x) * 0.0
    return np.sum(out**2)


def suppressed(x):
    total = 0.0 * np.sum(x)
    with contextlib.suppress(TypeError):  # caught here
        total = total + np.asarray(x, float).sum()  # refused here
    return total


def everything(x):
    try:
        return np.sum(np.frompyfunc(lambda v: v, 1, 1)(x))  # refused here
    except:  # noqa: E722  caught here
        return np.sum(x) * 0.0


def in_another_function(x):
    return as_floats(x) + np.sum(x)


def through_flat(x):
    out = np.zeros(3)
    try:
        out.flat[0] = x[0]  # refused here
    except ValueError:  # NumPy's, in place of the refusal; caught here
        return np.sum(x) * 0.0
    return np.sum(out)


FUNCTIONS = [as_floats, buffered, suppressed, everything, in_another_function, through_flat]
TRANSFORMS = {
    "jvp": lambda f: da.jvp(f, (X,), (X,)),
    "grad": lambda f: da.grad(f)(X),
    "vmap": lambda f: da.vmap(f)(np.stack([X, X])),
    "hessian": lambda f: da.hessian(f)(X),
    "trace": lambda f: da.trace(f, X),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_it_is_told_at_the_exit(f, transform):
    with pytest.warns(RefusalSwallowedWarning) as seen:
        TRANSFORMS[transform](f)
    message = str(seen[0].message)
    refused, caught = message.partition("Caught:")[::2]
    assert "refused here" in refused
    assert "caught here" in caught
    assert seen[0].filename == __file__
    assert "Instead:" in message


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_it_is_an_error_under_debug(f):
    with da.debug(), pytest.raises(RefusalSwallowedError, match="caught here") as caught:
        da.grad(f)(X)
    assert isinstance(caught.value.__cause__, DualadError)


def test_nothing_is_told_where_nothing_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_floats(X) == 14.0
        da.grad(lambda x: np.sum(x**2))(X)


def test_who_names_our_errors_knows_what_it_does():
    def careful(x):
        try:
            return np.sum(np.asarray(x, float))
        except PlainBufferError:
            return np.sum(x)

    def tuple_of(x):
        try:
            return np.asarray(x, float).sum()
        except (ValueError, DualadError):
            return np.sum(x)

    def suppress(x):
        with contextlib.suppress(DualadError):
            return np.asarray(x, float).sum()
        return np.sum(x)

    def expected(x):
        with pytest.raises(da.errors.PlainBufferError):
            np.asarray(x, float)
        return np.sum(x)

    for f in (careful, tuple_of, suppress, expected):
        np.testing.assert_array_equal(da.grad(f)(X), np.ones(3))


def test_a_refusal_of_an_inner_transform_that_the_outer_function_catches():
    def outer(x):
        try:
            return da.jvp(lambda v: np.asarray(v, float).sum(), (x,), (x,))[1]
        except TypeError:
            return np.sum(x) * 0.0

    with pytest.warns(RefusalSwallowedWarning) as seen:
        da.grad(outer)(X)
    assert len(seen) == 1

    def inner_only(x):
        da.grad(as_floats)(X)
        return np.sum(x)

    with pytest.warns(RefusalSwallowedWarning) as seen:
        da.grad(inner_only)(X)
    assert len(seen) == 1


class Mine(Exception):
    pass


def test_what_leaves_the_function_is_an_error_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConversionError):
            da.grad(lambda x: float(x[0]))(X)

        def wrapped(x):
            try:
                return float(x[0])
            except TypeError as error:
                raise Mine("of the user") from error

        with pytest.raises(Mine, match="of the user"):
            da.grad(wrapped)(X)


def test_code_without_source():
    namespace = {"np": np}
    exec(
        "def f(x):\n  try:\n    return np.asarray(x, float).sum()\n  except TypeError:\n    return 0 * x[0]",
        namespace,
    )
    with pytest.warns(RefusalSwallowedWarning, match="<string>:3"):
        da.grad(namespace["f"])(X)
