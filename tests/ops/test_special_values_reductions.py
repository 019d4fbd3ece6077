"""Reductions, scans and order statistics at the points where a derivative is a matter of choice or of care.

Ties, NaN, zeros among factors, constant vectors, empty axes. The expected numbers are written down, not computed by
the library. Not for: ordinary points (`test_every_op.py`).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import dualad as da

NAN = np.nan
THREE_NANS = np.full(3, NAN)


def third_derivative(f, x, v):
    """Return d³/ds³ f(x + s v) at s = 0, by forward mode three times."""
    first = lambda y: da.jvp(f, (y,), (v,))[1]
    second = lambda y: da.jvp(first, (y,), (v,))[1]
    return da.jvp(second, (x,), (v,))[1]


# ── ties and NaN ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("f", [np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin])
def test_extrema_split_evenly_over_ties(f) -> None:
    x = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    g = da.grad(f)(x)
    np.testing.assert_array_equal(g, np.where(x == f(x), 1 / 3, 0.0))
    along = da.grad(lambda x: np.sum(f(x.reshape(2, 3), axis=1) * np.array([1.0, 10.0])))(x)
    rows = x.reshape(2, 3)
    tied = rows == f(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(along.reshape(2, 3), tied / tied.sum(1, keepdims=True) * [[1.0], [10.0]])


@pytest.mark.parametrize("f", [np.max, np.min, np.median, np.nanmedian])
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_all_nan_shares_the_derivative(f) -> None:
    np.testing.assert_allclose(da.grad(f)(THREE_NANS), np.full(3, 1 / 3))


def test_a_nan_takes_the_derivative_of_max() -> None:
    np.testing.assert_array_equal(da.grad(np.max)(np.array([3.0, NAN, 1.0])), [0, 1, 0])
    np.testing.assert_array_equal(da.grad(np.nanmax)(np.array([3.0, NAN, 1.0])), [1, 0, 0])


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([1.0, 1.0, 0.0], [0.5, 0.5, 0.0]),
        ([1.0, 0.0, 1.0, 0.0, 1.0, 0.0], [1 / 6] * 6),  # the mean of the two middle values, each shared by three
        ([3.0, 1.0, 2.0, 2.0, 5.0, 2.0], [0, 0, 1 / 3, 1 / 3, 0, 1 / 3]),
        ([4.0, 1.0, 3.0, 2.0], [0, 0, 0.5, 0.5]),
    ],
)
@pytest.mark.parametrize("f", [np.median, np.nanmedian, lambda x: np.quantile(x, 0.5), lambda x: np.percentile(x, 50)])
def test_median_splits_each_middle_rank_evenly(f, x, expected) -> None:
    np.testing.assert_allclose(da.grad(f)(np.array(x)), expected, rtol=1e-15)
    np.testing.assert_allclose(da.vmap(da.grad(f))(np.array([x, x]))[1], expected, rtol=1e-15)


def test_median_with_a_nan_is_the_nan() -> None:
    x = np.array([1.0, NAN, 2.0])
    value, tangent = da.jvp(np.median, (x,), (np.array([1.0, 5.0, 7.0]),))
    assert math.isnan(value)
    assert tangent == 5.0
    np.testing.assert_array_equal(da.grad(np.nanmedian)(x), [0.5, 0, 0.5])


def test_running_maximum_splits_over_the_ties_so_far() -> None:
    x = np.array([1.0, 1.0, 0.0, 2.0])
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(np.maximum.accumulate(x)))(x), [2, 1, 0, 1])
    np.testing.assert_array_equal(
        da.jacfwd(np.maximum.accumulate)(x), [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 1]]
    )


def test_sort_is_a_permutation_at_ties() -> None:
    jacobian = da.jacfwd(np.sort)(np.array([2.0, 1.0, 2.0, 1.0]))
    np.testing.assert_array_equal(np.sort(jacobian, axis=1)[:, -1], np.ones(4))
    np.testing.assert_array_equal(jacobian.sum(0), np.ones(4))
    np.testing.assert_array_equal(jacobian.sum(1), np.ones(4))


@pytest.mark.parametrize("kth", [0, 3, 9])
def test_partition_moves_tangents_with_the_values(kth) -> None:
    x = np.random.default_rng(3).integers(0, 5, 10).astype(float)
    value, tangent = da.jvp(lambda x: np.partition(x, kth), (x,), (10 * x,))
    np.testing.assert_array_equal(value, np.partition(x, kth))
    np.testing.assert_array_equal(tangent, 10 * value)


# ── zeros among factors ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 3), (0, 1, 2, 3)])
def test_prod_with_zeros_to_third_order(zeros) -> None:
    """Π (xᵢ + s vᵢ) is a polynomial in s, whose coefficients are known."""
    x, v = np.array([2.0, -1.5, 0.5, 3.0]), np.array([1.0, 2.0, -0.5, 0.25])
    x[list(zeros)] = 0.0
    polynomial = np.polynomial.Polynomial([1.0])
    for a, b in zip(x, v, strict=True):
        polynomial = polynomial * np.polynomial.Polynomial([a, b])
    coefficients = np.append(polynomial.coef, np.zeros(4))
    second = da.jvp(lambda y: da.jvp(np.prod, (y,), (v,))[1], (x,), (v,))[1]
    np.testing.assert_allclose(da.jvp(np.prod, (x,), (v,))[1], coefficients[1], atol=1e-14)
    np.testing.assert_allclose(second, 2 * coefficients[2], atol=1e-14)
    np.testing.assert_allclose(third_derivative(np.prod, x, v), 6 * coefficients[3], atol=1e-14)
    np.testing.assert_allclose(third_derivative(lambda y: np.cumprod(y)[-1], x, v), 6 * coefficients[3], atol=1e-14)
    hessian = da.hessian(np.prod)(x)
    np.testing.assert_allclose(v @ hessian @ v, 2 * coefficients[2], atol=1e-14)


def test_cumprod_with_zeros() -> None:
    x = np.array([2.0, 0.0, 3.0, 0.0, 1.5])
    expected = np.array([[np.prod(np.delete(x[: k + 1], i)) if i <= k else 0.0 for i in range(5)] for k in range(5)])
    np.testing.assert_array_equal(da.jacfwd(np.cumprod)(x), expected)
    np.testing.assert_array_equal(da.jacrev(np.cumprod)(x), expected)
    mixed = da.jacfwd(da.jacrev(lambda y: np.cumprod(y)[3]))(x)
    assert mixed[1, 3] == 6.0  # ∂²(x₀x₁x₂x₃)/∂x₁∂x₃ = x₀x₂


def test_logaddexp_accumulate_after_minus_infinity() -> None:
    g = da.grad(lambda x: np.sum(np.logaddexp.accumulate(x)[1:]))(np.array([-np.inf, 0.3]))
    np.testing.assert_array_equal(g, [0, 1])
    np.testing.assert_array_equal(da.jacfwd(np.logaddexp.accumulate)(np.array([-np.inf, 0.3])), np.eye(2))


def test_logaddexp_reduce_of_nothing_but_minus_infinity() -> None:
    value, tangent = da.jvp(np.logaddexp.reduce, (np.full(2, -np.inf),), (np.ones(2),))
    assert value == -np.inf
    assert tangent == 0.0


# ── constant vectors ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("f", [np.std, np.nanstd, lambda x: np.std(x, ddof=1)])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1])
def test_std_of_a_constant_vector(f, value) -> None:
    x = np.full(3, value)
    np.testing.assert_allclose(da.grad(f)(x), np.zeros(3), atol=1e-15)
    np.testing.assert_allclose(da.jvp(f, (x,), (np.array([1.0, -2.0, 5.0]),))[1], 0, atol=1e-15)


def test_var_and_mean_over_two_axes_of_six() -> None:
    x = np.random.default_rng(0).normal(size=(2, 1, 3, 2, 4, 1))
    both = lambda x: (np.var(x, axis=(2, 4), ddof=1), np.mean(x, axis=(-4, -2)))
    (variance, mean), pull = da.vjp(both, x)
    c, d = np.ones_like(variance), np.full_like(mean, 0.5)
    centred = x - x.mean((2, 4), keepdims=True)
    np.testing.assert_allclose(pull((c, d))[0], 2 * centred / 11 + 0.5 / 12, rtol=1e-12)


# ── empty axes and numbers ───────────────────────────────────────────────────────────────────────────────────────


def test_empty_axes() -> None:
    x = np.zeros((0, 2))
    for f, value in ((np.sum, 0.0), (np.prod, 1.0)):
        np.testing.assert_array_equal(da.jvp(lambda x: f(x, axis=0), (x,), (x,))[0], np.full(2, value))
        assert da.vjp(lambda x: f(x), x)[1](1.0)[0].shape == (0, 2)
    for f in (np.max, np.min):
        with pytest.raises(ValueError, match="no identity"):
            da.jvp(f, (x,), (x,))
        with pytest.raises(ValueError, match="no identity"):
            da.trace(f, x)
        assert da.jvp(lambda x: f(x, axis=1), (x,), (x,))[1].shape == (0,)
        assert da.jvp(lambda x: f(x, initial=3.0), (x,), (x,)) == (3.0, 0.0)
    with pytest.raises(ValueError, match="empty sequence"):
        da.trace(np.argmax, x)


@pytest.mark.parametrize("f", [np.sum, np.prod, np.mean, np.max, np.min, np.median, np.nansum, np.average])
def test_a_number_is_its_own_reduction(f) -> None:
    value, tangent = da.jvp(f, (2.0,), (3.0,))
    assert (value, tangent) == (2.0, 3.0)
    assert da.jvp(lambda x: f(x * np.ones(())), (2.0,), (3.0,))[1] == 3.0


def test_empty_tuple_of_axes_reduces_nothing() -> None:
    x = np.arange(3.0)
    for f in (np.sum, np.prod, np.max):
        np.testing.assert_array_equal(da.jvp(lambda x: f(x, axis=()), (x,), (x,))[1], x)


# ── where, initial, dtype, out ───────────────────────────────────────────────────────────────────────────────────


def test_initial_takes_part_in_ties() -> None:
    f = lambda x: np.max(x, initial=2.0)
    np.testing.assert_array_equal(da.grad(f)(np.array([1.0, 2.0, 2.0])), [0, 0.25, 0.25])
    np.testing.assert_array_equal(da.grad(f)(np.array([1.0, 3.0, 0.0])), [0, 1, 0])


def test_where_excludes_tangents_beside_a_pole() -> None:
    x = np.array([0.0, 4.0])
    g = da.grad(lambda x: np.sum(np.sqrt(x), where=np.array([False, True])))(x)
    np.testing.assert_array_equal(g, [0, 0.25])


@pytest.mark.parametrize("name", ["int8", "int32", "uint16", "bool"])
def test_integer_totals_have_numpys_dtype(name) -> None:
    x = np.array([[1, 0], [1, 1]], name)
    for f in (np.sum, np.prod, np.cumsum, np.cumprod, np.max, np.mean, np.any, np.argmax, np.count_nonzero):
        batched = da.vmap(f)(x)
        assert batched.dtype == np.asarray(f(x)).dtype, f
        assert da.trace(f, x)(x) == pytest.approx(f(x)), f
    assert da.vmap(lambda x: np.sum(x, dtype=np.int16))(x).dtype == np.int16


@pytest.mark.parametrize("f", [np.sum, np.mean, np.max, np.std, np.cumsum, np.median])
def test_out_is_refused(f) -> None:
    with pytest.raises(da.errors.InPlaceError, match="out="):
        da.jvp(da.plain(lambda x: f(x, out=np.zeros(()))), (np.ones(3),), (np.ones(3),))


@pytest.mark.parametrize("f", [np.sum, np.mean, np.max, np.std, np.median])
def test_out_is_lifted(f) -> None:
    x, t = np.array([1.0, 3.0, 2.0]), np.array([0.5, -1.0, 2.0])
    found, expected = (da.jvp(g, (x,), (t,)) for g in (lambda x: f(x, out=np.zeros(())), f))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:vmap:dualad.errors.PerformanceNote")
def test_shapes_that_depend_on_values() -> None:
    """A program can't have them; under vmap they are the shapes of the lanes, if these agree."""
    for f in (np.unique, np.unique_values, lambda x: np.bincount(x.astype(int))):
        with pytest.raises(da.errors.UnsupportedError, match="depends on the values"):
            da.trace(f, np.ones(3))
    x = np.array([[2.0, 1.0, 2.0], [0.0, 5.0, 5.0]])
    np.testing.assert_array_equal(da.vmap(np.unique)(x), [[1, 2], [0, 5]])
    counts = da.vmap(lambda x, w: np.bincount(x, w, minlength=4))(x.astype(int) % 4, x)
    np.testing.assert_array_equal(counts, [[0, 1, 4, 0], [0, 10, 0, 0]])


def test_unique_takes_the_first_of_equal_entries() -> None:
    x = np.array([2.0, 1.0, 2.0, 1.0])
    value, tangent = da.jvp(np.unique, (x,), (np.array([10.0, 20.0, 30.0, 40.0]),))
    np.testing.assert_array_equal(value, [1, 2])
    np.testing.assert_array_equal(tangent, [20, 10])


# ── interpolation ────────────────────────────────────────────────────────────────────────────────────────────────


def test_interp_at_knots_and_outside() -> None:
    xp, fp = np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, 0.0])
    x = np.array([-1.0, 0.0, 1.0, 3.0, 4.0])
    value, slope = da.jvp(lambda x: np.interp(x, xp, fp), (x,), (np.ones(5),))
    np.testing.assert_array_equal(value, np.interp(x, xp, fp))
    np.testing.assert_array_equal(slope, [0, 1, -1, -1, 0])


def test_interp_with_a_repeated_knot() -> None:
    xp, fp = np.array([0.0, 1.0, 1.0]), np.array([1.0, 2.0, 5.0])
    x = np.array([0.5, 1.0])
    value, slope = da.jvp(lambda x: np.interp(x, xp, fp), (x,), (np.ones(2),))
    np.testing.assert_array_equal(value, [1.5, 5.0])
    assert np.isfinite(slope).all()


def test_interp_of_values_that_are_not_finite() -> None:
    """A knot has its own value, and what is NaN from one end may be a number from the other, as NumPy has it."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = rng.integers(1, 5)
        xp, fp = rng.integers(-2, 3, (2, n)).astype(float)
        xp[rng.integers(n)], fp[rng.integers(n)] = rng.choice([1.0, np.inf, -np.inf], 2)
        fp[rng.integers(n)] = rng.choice([0.0, 1.0, NAN])
        xp.sort()
        x = np.concatenate([rng.uniform(-3, 3, 4), xp, [np.inf, -np.inf, NAN]])
        with np.errstate(invalid="ignore"):
            expected = np.interp(x, xp, fp)
            value = da.jvp(np.interp, (x, xp, fp), (np.ones_like(x), xp, fp))[0]
            written = da.trace(np.interp, x, xp, fp)(x, xp, fp)
        np.testing.assert_array_equal(value, expected)
        np.testing.assert_array_equal(written, expected)
