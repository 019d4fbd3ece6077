"""`dualad.scipy.stats` against SciPy, JAX and central differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as st

import dualad as da
import dualad.scipy.stats as ours
from dualad.errors import UnsupportedError
from tests.oracles.jax_side import jax
from tests.oracles.mirrored import agrees

RNG = np.random.default_rng(11)
LINE = np.array([-1.4, -0.3, 0.8])
HALF = np.array([0.3, 1.1, 2.4])
UNIT = np.array([0.15, 0.4, 0.83])
Q = np.array([0.1, 0.35, 0.8])

#: name -> (points inside the support of the standard form, shapes, shapes that distribution functions are
#: differentiated in)
CONTINUOUS = {
    "norm": (LINE, (), ()),
    "cauchy": (LINE, (), ()),
    "laplace": (LINE, (), ()),
    "logistic": (LINE, (), ()),
    "gumbel_r": (LINE, (), ()),
    "gumbel_l": (LINE, (), ()),
    "t": (LINE, (3.4,), None),
    "vonmises": (LINE, (1.7,), None),
    "expon": (HALF, (), ()),
    "halfnorm": (HALF, (), ()),
    "rayleigh": (HALF, (), ()),
    "gamma": (HALF, (2.3,), None),
    "chi2": (HALF, (3.1,), None),
    "invgamma": (HALF, (2.3,), None),
    "f": (HALF, (3.5, 6.2), None),
    "lognorm": (HALF, (0.8,), ()),
    "weibull_min": (HALF, (1.7,), ()),
    "pareto": (HALF + 1, (2.6,), ()),
    "uniform": (UNIT, (), ()),
    "beta": (UNIT, (2.3, 1.6), None),
    "truncnorm": (UNIT, (-0.9, 1.4), ()),
}
DISCRETE = {
    "bernoulli": (np.array([0, 1]), (), 0.3),
    "binom": (np.array([0, 2, 5]), (5,), 0.3),
    "poisson": (np.array([0, 2, 7]), (), 2.6),
    "nbinom": (np.array([0, 2, 7]), (2.4,), 0.3),
    "geom": (np.array([1, 2, 7]), (), 0.3),
}


@pytest.mark.parametrize("method", ["logpdf", "pdf"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities(name: str, method: str) -> None:
    x, shapes, _ = CONTINUOUS[name]
    f, g = getattr(getattr(ours, name), method), getattr(getattr(st, name), method)
    parameters = [np.asarray(s) for s in (*shapes, 0.2, 1.3)]
    agrees(lambda *a: f(*a), lambda *a: g(*a), 0.2 + 1.3 * x, *parameters, order=3, near=0.001)


@pytest.mark.parametrize("method", ["cdf", "sf", "logcdf", "logsf", "ppf", "isf"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution_functions(name: str, method: str) -> None:
    x, shapes, moving = CONTINUOUS[name]
    ours_one, theirs = getattr(ours, name), getattr(st, name)
    if method not in ours_one._offered:
        with pytest.raises(UnsupportedError, match=f"{name}.{method}"):
            da.jvp(lambda q: getattr(ours_one, method)(q, *shapes), (Q,), (Q,))
        return
    point = Q if method in ("ppf", "isf") else 0.2 + 1.3 * x
    f, g = getattr(ours_one, method), getattr(theirs, method)
    if moving is None:
        agrees(lambda x, m, s: f(x, *shapes, m, s), lambda x, m, s: g(x, *shapes, m, s),
               point, np.asarray(0.2), np.asarray(1.3), near=0.001)  # fmt: skip
    else:
        parameters = [np.asarray(s) for s in (*shapes, 0.2, 1.3)]
        agrees(lambda *a: f(*a), lambda *a: g(*a), point, *parameters, near=0.001)


@pytest.mark.parametrize("method", ["logpmf", "pmf", "cdf", "sf", "logcdf", "logsf"])
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str, method: str) -> None:
    k, shapes, p = DISCRETE[name]
    f, g = getattr(getattr(ours, name), method), getattr(getattr(st, name), method)
    k = k[:-1] if method == "logsf" else k  # its last value is the end of the support, where logsf is −∞
    agrees(lambda p: f(k, *shapes, p), lambda p: g(k, *shapes, p), np.asarray(p), order=3)
    agrees(
        lambda p: f(k + 2, *shapes, p, 2), lambda p: g(k + 2, *shapes, p, 2), np.array([p, p * 1.1, p * 0.9])[: k.size]
    )
    if name == "nbinom" and "pmf" in method:
        agrees(lambda n, p: f(k, n, p), lambda n, p: g(k, n, p), np.asarray(2.4), np.asarray(p))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_outside_the_support_nothing_moves(name: str) -> None:
    _, shapes, moving = CONTINUOUS[name]
    low, high = getattr(st, name).support(*shapes)
    outside = np.array([low - 1, high + 1, -np.inf, np.inf])
    outside = outside[(outside < low) | (outside > high)]
    if not outside.size:
        return
    for method in ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"):
        if method not in getattr(ours, name)._offered:
            continue
        f, g = getattr(getattr(ours, name), method), getattr(getattr(st, name), method)
        constant = shapes if moving is None and "pdf" not in method else ()
        h = lambda x, m, s, *rest, c=constant, f=f: f(x, *c, *rest, m, s)
        args = (outside, 0.0, 1.0, *(() if constant else map(float, shapes)))
        value, tangent = da.jvp(h, args, [np.ones_like(a) for a in args])
        np.testing.assert_array_equal(value, g(outside, *shapes))
        np.testing.assert_array_equal(tangent, np.zeros_like(outside))
        for back in da.vjp(h, *args)[1](np.ones_like(outside)):
            assert not np.any(back)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_mixed_points_and_invalid_parameters(name: str) -> None:
    x, shapes, _ = CONTINUOUS[name]
    points = np.array([-np.inf, -7.0, x[0], 90.0, np.inf, np.nan])
    scale = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    for method in ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"):
        if method not in getattr(ours, name)._offered:
            continue
        f, g = getattr(getattr(ours, name), method), getattr(getattr(st, name), method)
        at = np.array([-0.1, 0.0, 0.4, 1.0, 1.2, np.nan]) if method in ("ppf", "isf") else points
        with np.errstate(all="ignore"):
            expected = g(at, *shapes, 0.1, scale), g(at, *shapes, 0.1, -scale)
        for s, value in zip((scale, -scale), expected, strict=True):
            found, tangent = da.jvp(lambda x: f(x, *shapes, 0.1, s), (at,), (np.ones(6),))
            # At an infinite point SciPy's density is sometimes NaN (∞ − ∞); here it is zero. Where SciPy takes the
            # logarithm of a number that is too small for double precision, ours is finite.
            nan = np.isinf(at) & np.isnan(value) if "pdf" in method and s[0] > 0 else np.zeros(6, bool)
            assert not np.any(found[nan] != (0 if method == "pdf" else -np.inf))
            small = np.isneginf(value) & (-1e5 < found) & (found < -700)
            same = ~(nan | small)
            np.testing.assert_allclose(found[same], value[same], rtol=1e-9, atol=1e-14)
            assert not np.any(np.isnan(tangent[[0, 1, 3, 4]])), (method, tangent)
    if shapes:
        f, g = getattr(ours, name), getattr(st, name)
        bad = [np.array([s, -1.0 if name != "truncnorm" or i else 2.0]) for i, s in enumerate(shapes)]
        found, tangent = da.jvp(lambda *a: f.logpdf(x[0], *a), bad, [np.ones(2) for _ in bad])
        np.testing.assert_allclose(found, g.logpdf(x[0], *bad), rtol=1e-12)
        assert np.isfinite(tangent[0])


def test_ends_of_the_support() -> None:
    """The density of gamma(2) at 0 is 0 and rises with slope 1, though its logarithm has a pole."""
    value, slope = da.jvp(lambda x: ours.gamma.pdf(x, 2.0), (0.0,), (1.0,))
    assert (value, slope) == (0.0, 1.0)
    assert da.jvp(lambda x: ours.gamma.logpdf(x, 2.0), (0.0,), (1.0,))[0] == -np.inf
    assert da.grad(lambda x: ours.gamma.logpdf(x, 1.0))(0.0) == -1.0
    assert da.grad(lambda x: ours.beta.pdf(x, 2.0, 1.0))(0.0) == 2.0
    assert da.grad(lambda x: ours.beta.pdf(x, 2.0, 1.0))(1.0) == 2.0
    assert da.grad(lambda x: ours.rayleigh.pdf(x))(0.0) == 1.0
    np.testing.assert_allclose(da.grad(lambda x: ours.weibull_min.pdf(x, 2.0))(0.0), 2.0)
    np.testing.assert_allclose(da.grad(lambda x: ours.f.pdf(x, 2.0, 4.0))(0.0), -1.5)
    assert ours.lognorm.pdf(0.0, 1.0) == 0 == da.grad(lambda x: ours.lognorm.pdf(x, 1.0))(0.0)


def test_probabilities_of_zero_and_one() -> None:
    assert da.grad(lambda p: ours.bernoulli.pmf(1, p))(0.0) == 1.0
    assert da.grad(lambda p: ours.bernoulli.logpmf(0, p))(0.0) == -1.0
    np.testing.assert_allclose(da.grad(lambda p: ours.binom.pmf(1, 3, p))(0.0), 3.0)
    np.testing.assert_allclose(da.grad(lambda m: ours.poisson.pmf(1, m))(0.0), 1.0)
    assert da.grad(lambda m: ours.poisson.logpmf(0, m))(0.0) == -1.0
    assert da.grad(lambda p: ours.geom.pmf(2, p))(1.0) == -1.0
    np.testing.assert_allclose(da.grad(lambda p: ours.nbinom.pmf(1, 2.0, p))(1.0), -2.0)


def test_smooth_where_the_formula_is_even() -> None:
    """Second derivatives at the centre, where |z| would give a wrong one."""
    for f, expected in (
        (ours.logistic.logpdf, -0.5), (ours.norm.logpdf, -1.0), (ours.cauchy.logpdf, -2.0),
        (lambda x: ours.t.logpdf(x, 3.0), -4 / 3),
    ):  # fmt: skip
        np.testing.assert_allclose(da.grad(da.grad(f))(0.0), expected)
    concentrated = lambda kappa: ours.vonmises.logpdf(0.7, kappa)
    np.testing.assert_allclose(da.grad(concentrated)(0.0), np.cos(0.7))
    np.testing.assert_allclose(da.grad(da.grad(concentrated))(0.0), -0.5)
    np.testing.assert_allclose(da.grad(lambda x: ours.t.cdf(x, 3.0))(0.0), st.t.pdf(0, 3.0))


def test_far_out() -> None:
    for name in ("norm", "logistic", "gumbel_r", "gumbel_l", "laplace", "cauchy"):
        for x in (-1000.0, 1000.0):
            with np.errstate(over="ignore"):
                expected = -1000 - np.log(2) if name == "laplace" else getattr(st, name).logpdf(x)
            value, slope = da.jvp(getattr(ours, name).logpdf, (x,), (1.0,))
            np.testing.assert_allclose(value, expected)
            assert not np.isnan(slope)
    value, slope = da.jvp(lambda a: ours.truncnorm.logpdf(40.5, a, np.inf), (40.0,), (1.0,))
    np.testing.assert_allclose(value, st.truncnorm.logpdf(40.5, 40.0, np.inf))
    np.testing.assert_allclose(slope, np.exp(st.norm.logpdf(40.0) - st.norm.logsf(40.0)), rtol=1e-9)


@pytest.mark.parametrize("case", ["both", "left", "right", "far left", "none"])
def test_truncated_normal(case: str) -> None:
    a, b = {"both": (-1.0, 2.0), "left": (-np.inf, 0.5), "right": (0.3, np.inf), "far left": (-9.0, -7.0),
            "none": (-np.inf, np.inf)}[case]  # fmt: skip
    x = np.array([-7.9, -7.4]) if case == "far left" else np.array([0.35, 0.45])
    f, g = ours.truncnorm, st.truncnorm
    for method in ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"):
        move = lambda d: lambda x, s: getattr(d, method)(x, a, b, 0.0, s)
        agrees(move(f), move(g), x, np.asarray(1.01), near=1e-4, rtol=1e-8)
    if np.isfinite(a) and np.isfinite(b):
        agrees(lambda *v: f.logpdf(x, *v), lambda *v: g.logpdf(x, *v), np.asarray(a), np.asarray(b), order=3, near=1e-4)


JAX_NAMES = ["norm", "gamma", "beta", "t", "cauchy", "laplace", "logistic", "chi2", "expon", "pareto", "uniform"]


@pytest.mark.parametrize("name", JAX_NAMES)
@pytest.mark.slow
def test_against_jax(name: str) -> None:
    x, shapes, _ = CONTINUOUS[name]
    args = (0.2 + 1.3 * x, *shapes, 0.2, 1.3)
    positions = tuple(range(len(args)))
    f = lambda *a: getattr(ours, name).logpdf(*a).sum()
    g = lambda *a: getattr(jax.scipy.stats, name).logpdf(*a).sum()
    for found, expected in zip(da.grad(f, positions)(*args), jax.grad(g, positions)(*args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────────────────────

ROOT = RNG.normal(size=(3, 3)) + 2 * np.eye(3)
POINTS = RNG.normal(size=(4, 3))
MEAN = RNG.normal(size=3)


@pytest.mark.parametrize("method", ["logpdf", "pdf"])
def test_multivariate_normal(method: str) -> None:
    f, g = getattr(ours.multivariate_normal, method), getattr(st.multivariate_normal, method)
    agrees(lambda x, m, r: f(x, m, r @ r.T), lambda x, m, r: g(x, m, r @ r.T), POINTS, MEAN, ROOT, near=1e-3, rtol=1e-8)
    agrees(
        lambda x, m, r: f(x, m, r @ r.T), lambda x, m, r: g(x, m, r @ r.T), POINTS[0], MEAN, ROOT, near=1e-3, rtol=1e-8
    )
    agrees(lambda x, s: f(x, MEAN, s), lambda x, s: g(x, MEAN, s), POINTS[0], np.asarray(1.7), near=1e-3)
    agrees(
        lambda x, s: f(x, MEAN, cov=s), lambda x, s: g(x, MEAN, cov=s), POINTS[0], np.array([1.7, 0.6, 2.1]), near=1e-3
    )
    agrees(lambda x, s: f(x, 0.3, s), lambda x, s: g(x, 0.3, s), POINTS[0], np.asarray(1.7), near=1e-3)
    agrees(lambda x: f(x), lambda x: g(x), np.asarray(0.7))


@pytest.mark.slow
def test_multivariate_normal_against_jax() -> None:
    f = lambda x, m, c: ours.multivariate_normal.logpdf(x, m, c)
    g = lambda x, m, c: jax.scipy.stats.multivariate_normal.logpdf(x, m, c)
    cov = ROOT @ ROOT.T
    for a, b in zip(da.grad(f, (0, 1))(POINTS[0], MEAN, cov), jax.grad(g, (0, 1))(POINTS[0], MEAN, cov), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)


def test_dirichlet() -> None:
    alpha, y = np.array([1.4, 2.2, 0.7]), np.array([0.5, 0.9, 0.3])
    for method in ("logpdf", "pdf"):
        f, g = getattr(ours.dirichlet, method), getattr(st.dirichlet, method)
        agrees(lambda y, a: f(y / y.sum(), a), lambda y, a: g(y / y.sum(), a), y, alpha, order=3)
        agrees(lambda y, a: f(y, a), lambda y, a: g(y, a), np.array([0.3, 0.5]), alpha)
        agrees(lambda y, a: f(y / y.sum(0), a), lambda y, a: g(y / y.sum(0), a), np.stack([y, y[::-1]], 1), alpha)
    with pytest.raises(ValueError, match="simplex"):
        da.jvp(lambda x: ours.dirichlet.logpdf(x, alpha), (y,), (y,))


def test_multinomial() -> None:
    x, y = np.array([[1, 2, 2], [3, 1, 1]]), np.array([0.5, 0.9, 0.3])
    for method in ("logpmf", "pmf"):
        f, g = getattr(ours.multinomial, method), getattr(st.multinomial, method)
        agrees(lambda y: f(x, 5, y / y.sum()), lambda y: g(x, 5, y / y.sum()), y, order=3)
    value, tangent = da.jvp(lambda p: ours.multinomial.logpmf([[1, 1, 1], [2, 2, 1]], 5, p), (y / y.sum(),), (y,))
    assert value[0] == -np.inf and tangent[0] == 0 and np.isfinite(value[1])
    assert np.isnan(da.jvp(lambda p: ours.multinomial.logpmf(x[0], 5, p), (y,), (y,))[0])


# ── how they are called ──────────────────────────────────────────────────────────────────────────────────────────


def test_frozen_distributions_and_keywords() -> None:
    expected = st.norm.logpdf(LINE, 0.3, 2.0)
    for f in (
        lambda m: ours.norm(m, 2.0).logpdf(LINE), lambda m: ours.norm(loc=m, scale=2.0).logpdf(x=LINE),
        lambda m: ours.norm.logpdf(LINE, scale=2.0, loc=m), lambda m: ours.norm.freeze(m, 2.0).logpdf(LINE),
    ):  # fmt: skip
        value, tangent = da.jvp(f, (0.3,), (1.0,))
        np.testing.assert_allclose(value, expected)
        np.testing.assert_allclose(tangent, (LINE - 0.3) / 4)
    assert ours.norm(0.3, 2.0).mean() == 0.3
    np.testing.assert_array_equal(ours.norm(0.3, 2.0).logpdf(LINE), expected)
    value, _ = da.jvp(lambda x: ours.multivariate_normal(MEAN, ROOT @ ROOT.T).logpdf(x), (POINTS,), (POINTS,))
    np.testing.assert_allclose(value, st.multivariate_normal(MEAN, ROOT @ ROOT.T).logpdf(POINTS))


def test_everything_else_is_scipys() -> None:
    assert ours.norm.rvs(size=3, random_state=0).shape == (3,)
    assert ours.norm.name == "norm"
    assert ours.gamma.fit(HALF, floc=0)[1] == 0
    assert ours.describe(LINE).nobs == 3
    for f in (
        lambda m: ours.norm(m).expect(),
        lambda m: ours.multivariate_normal.rvs(m),
    ):
        with pytest.raises(UnsupportedError, match="methods that have"):
            da.jvp(f, (0.3,), (1.0,))
    assert da.jvp(lambda m: ours.norm.interval(0.9, m), (0.3,), (1.0,))[1] == (1.0, 1.0)  # the ends move with the mean
    with pytest.raises(TypeError):
        da.jvp(lambda x: ours.norm.logpdf(x, mean=0.0), (0.3,), (1.0,))
    with pytest.raises(AttributeError):
        ours.norm.logdensity  # noqa: B018


def test_results_are_of_double_precision_as_scipys() -> None:
    x = LINE.astype(np.float32)
    assert da.jvp(ours.norm.logpdf, (x,), (x,))[1].dtype == st.norm.logpdf(x).dtype == np.float64


@pytest.mark.parametrize("name", ["gumbel_r", "gumbel_l"])
@pytest.mark.parametrize("x", [-1000.0, -40.0, 0.3, 40.0, 1000.0])
def test_gumbel_far_out(name, x) -> None:
    """What underflows is zero with its derivatives, and the logarithm of the thin tail keeps its digits."""
    mine, theirs = getattr(ours, name), getattr(st, name)
    thin = "logsf" if name == "gumbel_r" else "logcdf"
    away = x if name == "gumbel_r" else -x
    with np.errstate(all="ignore"):
        for method in ("pdf", "cdf", "sf", thin):
            f = getattr(mine, method)
            assert np.isfinite(da.grad(f)(x)) and np.isfinite(da.grad(da.grad(f))(x))
        assert da.grad(mine.cdf)(x) == pytest.approx(theirs.pdf(x), rel=1e-9)
        if away > 0:  # there log(1 − exp(−e⁻ᶻ)) is −z to rounding, from some z on
            found = da.jvp(getattr(mine, thin), (x,), (1.0,))[0]
            assert found == pytest.approx(-away, abs=0.6 * np.exp(-away) + 1e-12)


@pytest.mark.parametrize("df", [0.5, 3.0, 1e6, 1e10])
def test_students_distribution_of_many_degrees_of_freedom(df) -> None:
    for x in (-2.5, 0.3):
        value, slope = da.jvp(lambda x: ours.t.logpdf(x, df), (x,), (1.0,))
        assert value == pytest.approx(st.t.logpdf(x, df), rel=1e-9)
        assert slope == pytest.approx(-(df + 1) * x / (df + x * x), rel=1e-12)
        value, slope = da.jvp(lambda x: ours.t.cdf(x, df), (x,), (1.0,))
        assert value == pytest.approx(st.t.cdf(x, df), rel=1e-9)
        assert slope == pytest.approx(st.t.pdf(x, df), rel=1e-9)
