"""Ask the value: what takes another way under a transform shows in its value, and the reason is named."""

from __future__ import annotations

import numbers
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.errors import DifferentValueError, GradcheckError
from dualad.testing import check_function, gradcheck

pytestmark = pytest.mark.filterwarnings(
    "ignore::dualad.boundary.swallowed.RefusalSwallowedWarning", "ignore::dualad.errors.PerformanceNote"
)
X = np.array([1.0, 2.0, 3.0])


def by_isinstance(x):
    if isinstance(x, np.ndarray):  # the ways part here
        return np.sum(x**2)
    return np.sum(x) * 0.5


def by_expression(x):
    scale = 2.0 if type(x) is np.ndarray else 3.0  # the ways part here
    return np.sum(x * scale)


def by_numbers(x):
    return np.sum(np.cos(x) if isinstance(x[0], (float, numbers.Number)) else x)


def by_isscalar(x):
    if np.isscalar(x[0]):
        return np.sum(np.cos(x))
    return np.sum(x**3)


def by_length(x):
    return np.sum(np.cos(x) if not hasattr(x[0], "__len__") else x)


def by_dtype(x):
    kind = np.asarray(x).dtype.kind  # the ways part here, or at the next line
    if kind == "f":  # the ways part here
        return np.sum(x**2)
    return np.sum(x)


def by_subdtype(x):
    if np.issubdtype(np.asarray(x).dtype, np.floating):  # the ways part here
        return np.sum(x**2)
    return np.sum(x)


def by_refusal(x):
    try:
        y = np.asarray(x, float)  # the ways part here
    except (TypeError, ValueError):
        return 0 * np.sum(x)
    return np.sum(y**2)


def by_flags(x):
    if hasattr(x, "flags"):  # the ways part here
        return np.sum(x**2)
    return np.sum(x)


REASONS = {
    by_isinstance: "type test", by_expression: "type test", by_numbers: "type test", by_isscalar: "", by_length: "",
    by_dtype: "", by_subdtype: "dtype", by_refusal: "refusal", by_flags: "what kind of object",
}  # fmt: skip
#: what a tensor answers as an array does is no difference at all
RIGHT = {by_isinstance, by_numbers, by_isscalar, by_length}
#: and these ways part where nothing is lifted, and no name replaced
PLAIN = (by_expression, by_dtype, by_subdtype, by_refusal)


def slopes(f):
    """Return the gradient of plain runs, by central differences."""
    return [(f(X + e) - f(X - e)) / 2e-6 for e in 1e-6 * np.eye(3)]


each = pytest.mark.parametrize(
    "f", [pytest.param(f, marks=pytest.mark.plain) if f in PLAIN else f for f in REASONS], ids=lambda f: f.__name__
)


def check(text, f):
    assert REASONS[f] in text
    assert "the ways part here" in text
    assert "test_values.py" in text


@each
def test_debug_says_so(f):
    if f in RIGHT:
        with da.debug(values=True):
            np.testing.assert_allclose(da.grad(f)(X), slopes(f), rtol=1e-6)
        return
    with warnings.catch_warnings(), pytest.raises((DifferentValueError, da.errors.RefusalSwallowedError)) as caught:
        warnings.simplefilter("ignore")
        with da.debug(values=True):
            da.grad(f)(X)
    check(str(caught.value), f)
    with pytest.raises((DifferentValueError, da.errors.RefusalSwallowedError)), da.debug(values=True):
        da.jvp(f, (X,), (X,))


@pytest.mark.parametrize("f", PLAIN, ids=lambda f: f.__name__)
def test_all_is_well_outside_of_plain(f):
    with da.debug(values=True):
        np.testing.assert_allclose(da.grad(f)(X), slopes(f), rtol=1e-6)
    assert gradcheck(f, (X,))
    assert check_function(f, (X,), oracles=["differences", "loop"]).ok
    assert da.explain(f, X).ok


@each
def test_gradcheck_says_so(f):
    if f in RIGHT:
        assert gradcheck(f, (X,))
        return
    with pytest.raises(GradcheckError) as caught:
        gradcheck(f, (X,))
    assert caught.value.check == "value"
    check(str(caught.value), f)


@each
def test_check_says_so(f):
    report = check_function(f, (X,), oracles=["differences", "loop"])
    if f in RIGHT:
        assert report.ok
        return
    assert not report.ok
    row = next(row for row in report.rows if row.quantity == "value")
    assert row.status == "mismatch"
    check(row.message, f)


@each
def test_explain_does_not_say_that_all_is_well(f):
    report = da.explain(f, X)
    if f in RIGHT:
        assert report.ok
        return
    assert not report.ok
    assert "Every derivative can be taken" not in str(report)
    if report.difference is not None:
        check(str(report.difference), f)
        assert report.difference.instead.split()[0] in str(report)
        assert report.to_dict()["difference"]["line"] == report.difference.line
        assert report.difference.reason in report._repr_html_()
    else:
        assert f is by_refusal
        assert report.count("refused")


def test_random_numbers_are_named():
    rng = np.random.default_rng(0)
    noisy = lambda x: np.sum(x * rng.standard_normal(3))
    assert "random" in da.explain(noisy, X).difference.reason
    with pytest.raises(DifferentValueError, match="random"), da.debug(values=True):
        da.grad(noisy)(X)


def test_vmap_is_compared_with_a_loop():
    def f(x):
        return np.sum(x**2) if hasattr(x, "flags") else np.sum(x)

    with pytest.raises(DifferentValueError, match=r"vmap\(f\).*value\[0\] is 14, and 6"), da.debug(values=True):
        da.vmap(f)(np.stack([X, X]))
    with da.debug(values=True):
        np.testing.assert_array_equal(da.vmap(lambda x, y: (x * y, y))(np.eye(3), X)[0], np.eye(3) * X)
        da.vmap(lambda x: x if x > 1 else -x)(X)


def test_transforms_within_transforms_and_writes():
    def f(x):
        y = np.zeros_like(x)
        y[1:] = x[:-1] ** 2
        x *= 2.0
        return np.sum(y) * np.sum(da.grad(lambda v: np.sum(v**3))(x))

    with da.debug(values=True):
        slope = da.grad(f)(X.copy())
        da.hessian(f)(X.copy())
        da.jacfwd(lambda x: np.outer(x, x))(X)
        da.vjp(lambda p: {"a": p[0] * 2, "b": p[1]}, (X, 2.0))
        da.trace(lambda x: x * 2, X)
    np.testing.assert_allclose(slope, da.grad(f)(X.copy()))
    with da.debug(values=True), da.debug(values=False):
        da.grad(by_flags)(X)


def test_rounding_is_no_difference():
    big = X.astype(np.float32) * 1e4
    with da.debug(values=True):
        da.grad(lambda x: np.sum(np.exp(np.sin(x)) ** 3) - np.mean(x))(big)
        da.grad(lambda x: np.nansum(x))(np.array([1.0, np.nan]))


def test_code_under_a_tracer_of_somebody_elses():
    import sys

    before = sys.gettrace()
    assert da.explain(by_flags, X).difference is not None
    assert sys.gettrace() is before
