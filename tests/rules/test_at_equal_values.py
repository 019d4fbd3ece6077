"""Values that coincide: how they are moved apart, and what is made of what a function returns beside them.

Not for: functions of matrices (``tests/edges/test_equal_values.py``), whose derivatives come about in this way.
"""

from __future__ import annotations

import linecache
import math
import pickle
import threading
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.ops.equal_values import EqualValuesWarning, coincided, spread, tolerance

NAN = np.float64("nan")


def moved(w, singular: bool = False) -> np.ndarray:
    """Return values as a transform sees them that is carried out again, beside the point that was asked for."""
    seen = []

    @da.at_equal_values
    def transform():
        seen.append(spread(np.asarray(w), singular))
        coincided()
        return NAN

    transform()
    return seen[1]  # the first run sees them as they are, the second with the smallest step


def step() -> float:
    """Return the smallest distance that equal values of size 1 are moved apart."""
    return float(np.diff(moved([1.0, 1.0]))[0])


def limit(g, at=NAN):
    """Return what a transform returns that is ``at`` where values coincide, and ``g(ε)`` where they are ε apart."""

    @da.at_equal_values
    def transform():
        apart = float(np.diff(spread(np.ones(2)))[0])
        if apart:
            return g(apart)
        coincided()
        return at

    return transform()


# ── moving apart ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_equal_values_are_moved_apart_evenly_about_where_they_were():
    for n in (2, 3, 5):
        w = moved(np.full(n, 3.0))
        gaps = np.diff(w)
        assert (gaps > 0).all()
        np.testing.assert_allclose(np.abs(w - 3.0).max(), 3.0 * step() * (1.0 if n > 2 else 0.5), rtol=1e-9)
        np.testing.assert_allclose(gaps, gaps[0], rtol=1e-9)
        np.testing.assert_allclose(np.mean(w), 3.0, rtol=1e-14)


def test_values_apart_stay_as_they_are():
    w = moved([1.0, 2.0, 2.0, 2.0 * (1 + 1e-9), 4.0])
    assert [w[0], w[3], w[4]] == [1.0, 2.0 * (1 + 1e-9), 4.0]
    assert w[1] < 2.0 < w[2]
    assert moved([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert moved(np.zeros((2, 0))).shape == (2, 0)


@pytest.mark.parametrize("singular", [False, True])
def test_sizes_do_not_matter(singular):
    w = np.array([3.0, 3.0, 1.0, 0.0, 0.0])
    for scale in (2.0**-40, 2.0**40):
        np.testing.assert_array_equal(moved(scale * w, singular), scale * moved(w, singular))
    assert len(set(moved(w, singular))) == len(set(moved(np.zeros(5), singular))) == 5


def test_singular_values_of_zero_become_positive():
    for w in ([2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 2.0, 1e-17, 0.0]):
        one = moved(w, singular=True)
        assert len(set(one)) == len(one)
        assert (one > 0).all()
        assert one.min() < 1.5 * step() * (max(w) or 1.0)  # and stay near
    assert moved([2.0, 0.0], singular=True).tolist() == [2.0, 0.0]  # which coincides with nothing
    assert moved([0.0, 0.0])[0] < 0.0  # an eigenvalue has both signs


@pytest.mark.parametrize("singular", [False, True])
def test_a_stack_is_moved_matrix_by_matrix(singular):
    stack = np.array([[1.0, 1.0], [1e-20, 0.0], [5.0, 2.0], [0.0, 0.0]])
    np.testing.assert_array_equal(moved(stack, singular), [moved(w, singular) for w in stack])
    assert moved(stack.astype(np.float32)).dtype == np.float32
    assert tolerance(np.ones((500, 2))) == tolerance(np.ones(2)) < tolerance(np.ones(3)) < 1e-11


def test_complex_values():
    w = moved(np.array([1j, 1j, 2.0]))
    np.testing.assert_allclose(w, [1j - step() / 2, 1j + step() / 2, 2.0], rtol=1e-12)


# ── what is made of it ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_a_smooth_function_has_its_limit(size):
    assert limit(lambda e: 0.0) == 0.0
    for g in (lambda e: 3.0, lambda e: 3.0 + e, lambda e: 3.0 * math.cos(e), lambda e: 3.0 * math.exp(-2 * e)):
        assert limit(lambda e, g=g: size * g(e)) == pytest.approx(3.0 * size, rel=1e-9)


ROUGH = {
    "jump": lambda e: 2.0 + (e > 0),
    "corner": lambda e: 2.0 + 10 * abs(e),
    "corner to one side": lambda e: 2.0 + 10 * max(e, 0.0),
    "faint corner": lambda e: 2.0 + 0.01 * abs(e),
    "pole": lambda e: 1 / e,
    "even pole": lambda e: 1 / e**2,
    "another NaN": lambda e: NAN if abs(e) > 0.02 else 1.0,
}


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("name", ROUGH)
def test_what_has_no_limit_stays_nan(name, size):
    assert math.isnan(limit(lambda e: size * ROUGH[name](e)))


def test_only_what_was_nan_is_replaced():
    at = np.array([1.0, NAN, np.inf])
    got = limit(lambda e: np.array([7.0, 2.0 + e, 5.0]), at)
    np.testing.assert_allclose(got, [1.0, 2.0, np.inf], rtol=1e-12)
    tree = limit(lambda e: {"a": 1.0 + e, "b": (2 + e, "text")}, {"a": NAN, "b": (4, "text")})
    assert tree == {"a": pytest.approx(1.0), "b": (4, "text")}
    single = limit(lambda e: np.float32(2.0 + e), np.float32(NAN))
    assert type(single) is np.float32 and single == pytest.approx(2.0, rel=1e-5)
    twisted = limit(lambda e: np.array([1j + e]), np.array([NAN + 0j]))
    np.testing.assert_allclose(twisted, [1j], atol=1e-12)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_an_entry_is_judged_by_its_size_and_by_that_of_the_largest(size):
    """Noise in an entry that is zero is nothing; a small entry that jumps casts doubt on all."""
    noise = lambda e: size * np.array([1.0 + e, 1e-13 * math.sin(1 / e)])
    np.testing.assert_allclose(limit(noise, np.full(2, NAN)), [size, 0.0], atol=1e-12 * size)
    jumps = lambda e: size * np.array([1.0 + e, 1e-5 * (e > 0)])
    assert np.isnan(limit(jumps, np.full(2, NAN))).all()


def test_nan_for_other_reasons_stays_beside_what_has_a_limit():
    got = limit(lambda e: np.array([1.0 + e, NAN]), np.full(2, NAN))
    np.testing.assert_allclose(got, [1.0, NAN], rtol=1e-12)
    assert np.isnan(limit(lambda e: np.full(2, NAN), np.full(2, NAN))).all()


def test_nothing_is_carried_out_again_unless_values_have_coincided():
    calls = []

    @da.at_equal_values
    def transform(meets, value):
        calls.append(1)
        if meets:
            coincided()
        return value

    assert math.isnan(transform(False, NAN)) and len(calls) == 1
    assert transform(True, 2.0) == 2.0 and len(calls) == 2
    assert math.isnan(transform(True, NAN)) and len(calls) == 2 + 9
    other = threading.Thread(target=transform, args=(False, NAN))  # which has met nothing either
    other.start()
    other.join()
    assert len(calls) == 2 + 9 + 1
    assert transform.__name__ == "at_equal_values(transform)"


def test_only_the_outermost_is_carried_out_again():
    inner_saw = []

    @da.at_equal_values
    def inner():
        coincided()
        return NAN

    @da.at_equal_values
    def outer():
        inner_saw.append(inner())
        return NAN

    outer()
    assert len(inner_saw) == 9


def test_another_number_of_results_beside_it_is_left_alone():
    assert math.isnan(limit(lambda e: (1.0, 2.0)))


# ── without it, and under transforms ─────────────────────────────────────────────────────────────────────────────


def cubes(a):
    return np.sum(np.linalg.eigvalsh((a + a.T) / 2) ** 3)  # the line that is told


def test_a_derivative_at_equal_values_is_nan_and_told_at_the_line() -> None:
    calls = []
    with pytest.warns(EqualValuesWarning, match=r"da\.at_equal_values") as seen:
        found = da.hessian(lambda a: (calls.append(0), cubes(a))[1])(np.eye(2))
    assert np.isnan(found).any() and len(calls) == 1
    line = linecache.getline(seen[0].filename, seen[0].lineno)
    assert "the line that is told" in line
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(da.hessian(cubes)(np.diag([1.0, 2.0]))).all()
        assert np.isfinite(da.at_equal_values(da.hessian(cubes))(np.eye(2))).all()
        assert np.isfinite(da.grad(cubes)(np.eye(2))).all()  # values alone, at first order


def test_it_has_to_be_outermost() -> None:
    stack = np.stack([np.eye(2), np.diag([1.0, 2.0])])
    expected = da.at_equal_values(da.vmap(da.hessian(cubes)))(stack)
    assert np.isfinite(expected).all()
    with pytest.warns(EqualValuesWarning):
        inner = da.vmap(da.at_equal_values(da.hessian(cubes)))(stack)
    assert np.isnan(inner[0]).any() and np.array_equal(inner[1], expected[1])


def test_it_is_a_transform_as_others_are() -> None:
    f = da.at_equal_values(da.hessian(cubes))
    assert pickle.loads(pickle.dumps(f))(np.eye(2)).tolist() == f(np.eye(2)).tolist()
    with pytest.raises(da.errors.ArgumentTypeError, match="it takes a function"):
        da.at_equal_values(3.0)
