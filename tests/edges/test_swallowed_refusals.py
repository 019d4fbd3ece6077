"""A refusal that the function catches: the transform says so at its exit, with its line."""

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

pytestmark = pytest.mark.plain

X = np.array([1.0, 2.0, 3.0])


def as_floats(x):
    try:
        x = np.asarray(x, float)  # refused here
    except (TypeError, ValueError):
        return 0 * np.sum(x)
    return np.sum(x**2)


def buffered(x):
    out = np.zeros(3)
    try:
        out[:] = x  # refused here
    except Exception:
        return np.sum(x) * 0.0
    return np.sum(out**2)


def suppressed(x):
    total = 0.0 * np.sum(x)
    with contextlib.suppress(TypeError):
        total = total + np.asarray(x, float).sum()  # refused here
    return total


def everything(x):
    try:
        return np.sum(np.union1d(x, x))  # refused here
    except:  # noqa: E722
        return np.sum(x) * 0.0


def in_another_function(x):
    return as_floats(x) + np.sum(x)


def through_flat(x):
    out = np.zeros(3)
    try:
        out.flat[0] = x[0]  # refused here
    except ValueError:  # NumPy's, in place of the refusal
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
    assert "refused here" in message
    assert seen[0].filename == __file__
    assert "Instead:" in message


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_it_is_an_error_under_debug(f):
    with da.debug(), pytest.raises(RefusalSwallowedError, match="refused here") as caught:
        da.grad(f)(X)
    assert isinstance(caught.value.__cause__, DualadError)


def test_nothing_is_told_where_nothing_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_floats(X) == 14.0
        da.grad(lambda x: np.sum(x**2))(X)


def test_who_means_to_catch_refusals_switches_it_off():
    def careful(x):
        try:
            return np.sum(np.asarray(x, float))
        except PlainBufferError:
            return np.sum(x)

    with pytest.warns(RefusalSwallowedWarning, match="test_swallowed_refusals.py"):
        da.grad(careful)(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RefusalSwallowedWarning)
        np.testing.assert_array_equal(da.grad(careful)(X), np.ones(3))


def test_what_is_asked_and_not_refused_is_not_told():
    def remembers(x):
        try:
            return {x: 1.0}[x] + 0.0 * x
        except TypeError:  # as of an array, which has no hash either
            return x * 2.0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert da.grad(remembers)(1.0) == 2.0


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
