"""Derivatives in shape parameters against mpmath, over the whole domain: both tails, transition, tiny and huge shapes.

mpmath differentiates series of 1F1 and 2F1 by central differences at a hundred digits and more; the rules integrate.
Not for: every operator's modes, orders and dtypes, which `test_every_op` covers.
"""

from __future__ import annotations

import functools
import warnings

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st

import dualad as da
import dualad.scipy.stats as stats
from dualad.ops.hypergeometric import tricomi_derivative
from dualad.ops.shape_parameters import bessel_order, beta_integral, gamma_integral, student_shape

STEP = mp.mpf(10) ** -25


def lower_gamma(a, x):
    return mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1)) * mp.hyp1f1(1, a + 1, x)


def lower_beta(a, b, x, y):
    if x > 0.6:
        return 1 - lower_beta(b, a, y, x)
    scale = mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b)
    return mp.exp(a * mp.log(x) + b * mp.log(y) + scale) * mp.hyp2f1(a + b, 1, a + 1, x)


def at_odds_of_ratio(a, b, ratio):
    total = a * ratio + b
    return lower_beta(a, b, a * ratio / total, b / total)


def derivatives(f, point, i: int, j: int | None = None) -> tuple[float, float]:
    """Return the first derivative in argument i, and the second one in i and j."""
    j = i if j is None else j

    def moved(*steps):
        at = list(map(mp.mpf, point))
        for k, step in zip((i, j), steps, strict=True):
            at[k] += step * STEP * mp.mpf(point[k])
        return f(*at)

    hi, hj = (STEP * mp.mpf(point[k]) for k in (i, j))
    first = (moved(1, 0) - moved(-1, 0)) / (2 * hi)
    second = (moved(1, 1) - moved(1, -1) - moved(-1, 1) + moved(-1, -1)) / (4 * hi * hj)
    return float(first), float(second)


def close(found, expected, rel: float) -> None:
    expected = np.array(expected)
    shown = np.abs(expected) > 1e-290
    np.testing.assert_allclose(np.asarray(found)[shown], expected[shown], rtol=rel)
    assert np.all(np.isfinite(found)), "not finite"
    error = np.abs(found - expected)[shown] / np.abs(expected[shown])
    assert np.median(error) < 1e-14


def gamma_points() -> list[tuple[float, float]]:
    rng = np.random.default_rng(3)
    a = 10 ** rng.uniform(-8, 2, 60)
    near = a + 3 * np.sqrt(a + 0.1) * rng.normal(size=60)
    apart, small = a * 10 ** rng.uniform(-1, 1, 60), 10 ** rng.uniform(-30, 2, 60)
    x = np.choose(np.arange(60) % 3, [np.abs(near), apart, small])
    return list(zip(a.tolist(), x.tolist(), strict=True))


def test_gamma_integral() -> None:
    points = gamma_points()
    with mp.workdps(220):
        expected = [derivatives(lower_gamma, p, 0) for p in points]
    a, x = map(np.array, zip(*points, strict=True))
    close(gamma_integral(a, x, order=1), [e[0] for e in expected], 1e-12)
    close(gamma_integral(a, x, order=2), [e[1] for e in expected], 1e-10)


def beta_points(spread: float) -> list[tuple[float, float, float]]:
    rng = np.random.default_rng(4)
    a, b = 10 ** rng.uniform(-6, spread, (2, 40))
    x = np.where(np.arange(40) % 2, rng.beta(a, b), 10 ** rng.uniform(-30, 0, 40))
    return list(zip(a.tolist(), b.tolist(), np.clip(x, 1e-300, 1 - 2**-52).tolist(), strict=True))


@pytest.mark.parametrize(("i", "j"), [(0, 0), (1, 1), (0, 1)])
def test_beta_integral(i, j) -> None:
    points = beta_points(2)
    with mp.workdps(260):
        expected = [derivatives(lambda a, b, x: lower_beta(a, b, x, 1 - x), p, i, j) for p in points]
    a, b, x = map(np.array, zip(*points, strict=True))
    close(beta_integral(a, b, x, i=1 - i, j=i, form="x"), [e[0] for e in expected], 1e-11)
    close(beta_integral(a, b, x, i=2 - i - j, j=i + j, form="x"), [e[1] for e in expected], 1e-10)


@pytest.mark.parametrize("i", [0, 1])
def test_beta_integral_at_the_mean(i) -> None:
    """Shapes of 10⁸ beside ½, where the two parts of the derivative agree in half of their digits."""
    rng = np.random.default_rng(5)
    a = np.where(np.arange(30) % 2, 0.5, 10 ** rng.uniform(-2, 2, 30))
    b = np.where(np.arange(30) % 2, 10 ** rng.uniform(-2, 8, 30), 10 ** rng.uniform(-2, 2, 30))
    ratio = np.where(b > 1e3, rng.uniform(0.01, 9, 30), 10 ** rng.uniform(-3, 3, 30))
    with mp.workdps(160):
        expected = [
            derivatives(at_odds_of_ratio, p, i)[0] for p in zip(*[v.tolist() for v in (a, b, ratio)], strict=True)
        ]
    close(beta_integral(a, b, ratio, i=1 - i, j=i, form="ratio"), expected, 1e-10)


# ── what is made of them ─────────────────────────────────────────────────────────────────────────────────────────


def slope(f, x, order: int = 1):
    for _ in range(order):
        f = functools.partial(lambda g, x: da.jvp(g, (x,), (np.ones_like(x),))[1], f)
    return f(np.float64(x))


QUANTILES = {
    "gammaincinv": (lambda a, x: lower_gamma(a, x), (2.3,)),
    "betaincinv": (lambda a, b, x: lower_beta(a, b, x, 1 - x), (0.7, 31.0)),
    "chdtri": (lambda v, x: 1 - lower_gamma(v / 2, x / 2), (5.2,)),
    "stdtrit": (lambda v, t: at_odds_of_ratio(mp.mpf(1) / 2, v / 2, t * t) / 2 + mp.mpf(1) / 2, (3.7,)),
    "fdtri": (lambda n, m, x: at_odds_of_ratio(n / 2, m / 2, x), (3.7, 8.1)),
    "gdtrix": (lambda a, b, x: lower_gamma(b, a * x), (1.7, 0.4)),
}


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles(name) -> None:
    theirs, shapes = QUANTILES[name]
    ufunc = getattr(sp, name)
    for p in (0.55, 0.9, 0.9999):
        x = float(ufunc(*shapes, p))
        for i, s in enumerate(shapes):
            with mp.workdps(60):
                at = (*shapes, x)
                partials = [derivatives(theirs, at, k)[0] for k in (i, len(shapes))]
            found = slope(lambda v, i=i, p=p: ufunc(*shapes[:i], v, *shapes[i + 1 :], p), s)
            assert found == pytest.approx(-partials[0] / partials[1], rel=1e-11)


@pytest.mark.parametrize("t", [0.0, 1e-9, 0.4, -2.5, 60.0])
def test_derivatives_of_student_commute(t) -> None:
    """In df and t, in either order, at t = 0 too, where the distribution function is odd about ½."""
    in_df = lambda t: slope(lambda df: sp.stdtr(df, t), 3.0)
    in_t = lambda df: slope(lambda t: sp.stdtr(df, t), t)
    assert slope(in_df, t) == pytest.approx(slope(in_t, 3.0), rel=1e-12)
    in_df_twice = lambda t: slope(lambda df: sp.stdtr(df, t), 3.0, 2)
    assert slope(in_df_twice, t) == pytest.approx(slope(in_t, 3.0, 2), rel=1e-11)
    assert slope(in_df, t, 2) == pytest.approx(slope(lambda df: slope(lambda t: sp.stdtr(df, t), t, 2), 3.0), rel=1e-11)


def test_student_of_many_degrees_of_freedom() -> None:
    """∂F/∂ν tends to φ(t) (t³ + t)/(4ν²), the first term of the expansion in 1/ν."""
    t = np.array([-3.0, -0.1, 0.5, 4.0])
    for df in (1e6, 1e9, 1e12):
        expected = st.norm.pdf(t) * (t**3 + t) / (4 * df * df)
        np.testing.assert_allclose(student_shape(df, t), expected, rtol=100 / df + 1e-12)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("gamma", (0.3,)),
        ("chi2", (7.0,)),
        ("beta", (2.0, 0.4)),
        ("f", (3.0, 11.0)),
        ("t", (2.5,)),
        ("invgamma", (4.0,)),
    ],
)
@pytest.mark.parametrize("method", ["logcdf", "logsf"])
def test_logarithms_in_the_tails(name, shapes, method) -> None:
    """The derivative of the logarithm is finite, and that of differences, far out."""
    ours, theirs = getattr(stats, name), getattr(st, name)
    for q in (1e-12, 0.3, 1 - 1e-6):
        x = theirs.ppf(q, *shapes)
        for i, s in enumerate(shapes):
            f = lambda v, d, i=i, x=x: getattr(d, method)(x, *shapes[:i], v, *shapes[i + 1 :])
            h = 1e-4 * s
            near = (8 * (f(s + h, theirs) - f(s - h, theirs)) - f(s + 2 * h, theirs) + f(s - 2 * h, theirs)) / (12 * h)
            assert slope(lambda v, f=f: f(v, ours), s) == pytest.approx(near, rel=1e-6, abs=1e-10 * abs(f(s, theirs)))


def test_counts_that_are_real_in_the_mass() -> None:
    f = lambda n: stats.nbinom.cdf(4, n, 0.3)
    h = 1e-5
    expected = (st.nbinom.cdf(4, 2.5 + h, 0.3) - st.nbinom.cdf(4, 2.5 - h, 0.3)) / (2 * h)
    assert da.grad(f)(2.5) == pytest.approx(expected, rel=1e-8)


# ── everywhere finite, nowhere a warning ─────────────────────────────────────────────────────────────────────────


def test_nothing_is_infinite_and_no_sign_is_wrong() -> None:
    """P, I fall in a, I rises in b; at 12,000 points, shapes between 1e-12 and 1e12, and 1e±300 for gamma."""
    rng = np.random.default_rng(6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a, x = 10 ** rng.uniform(-300, 300, (2, 4000))
        x[::2] = a[::2] * np.abs(1 + rng.normal(size=2000) * 10 ** rng.uniform(-16, 0, 2000))
        assert np.all(np.isfinite(gamma_integral(a, x, order=2)))
        assert np.all(gamma_integral(a, x, order=1) <= 0) and np.all(np.isfinite(gamma_integral(a, x, order=1)))
        a, b = 10 ** rng.uniform(-12, 12, (2, 8000))
        x = np.clip(a / (a + b) * (1 + rng.normal(size=8000) * 10 ** rng.uniform(-16, 0, 8000)), 1e-300, 1 - 2**-53)
        x[::2] = 10 ** rng.uniform(-300, 0, 4000)
        found = [beta_integral(a, b, x, i=i, j=j, form="x") for i, j in ((1, 0), (0, 1), (1, 1), (2, 0))]
    assert all(np.all(np.isfinite(f)) for f in found)
    assert np.all(found[0] <= 0) and np.all(found[1] >= 0)


def test_ends_of_the_domain() -> None:
    np.testing.assert_array_equal(gamma_integral(2.0, np.array([0.0, np.inf]), order=1), 0.0)
    np.testing.assert_allclose(gamma_integral(0.0, np.array([0.5, 3.0]), order=1), -sp.exp1([0.5, 3.0]), rtol=1e-14)
    np.testing.assert_array_equal(beta_integral(2.0, 3.0, np.array([0.0, 1.0]), i=1, j=0, form="x"), 0.0)
    assert np.all(np.isnan(gamma_integral(np.array([np.nan, -1.0, 1.0]), np.array([1.0, 1.0, -1.0]), order=1)))
    assert gamma_integral(np.float32(2), np.float32(3), order=1).dtype == np.float32
    assert gamma_integral(2.0, 3.0, order=1) == gamma_integral(np.float64(2.0), 3.0, order=1)  # not in float32
    assert slope(lambda x: sp.gammainc(2.0, x), 0.0, 2) == 1.0  # of 1 − (1 + x) exp(−x)


def test_densities_that_are_the_last_numbers_above_zero() -> None:
    """Their numerators are zero, or have no digits left, before x divides them."""
    densities = (
        (4.6, lambda x: sp.gammainc(51.0, x), lambda x: x**50 * mp.exp(-x) / mp.gamma(51)),
        (5.8, lambda x: sp.betainc(52.0, 2.0, x), lambda x: x**51 * (1 - x) / mp.beta(52, 2)),
    )
    for first, integral, density in densities:
        x = 10.0 ** -np.arange(first, first + 0.6, 0.01)
        expected = np.array([float(density(mp.mpf(point))) for point in x])
        assert expected.min() < 1e-322 < 1e-300 < expected.max()
        found = da.jvp(integral, (x,), (np.ones_like(x),))[1]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-323)


def test_lanes_and_compiled_calls() -> None:
    a, x = np.array([0.4, 3.0, 70.0]), np.array([1.0, 2.5, 66.0])
    f = lambda a, x: da.grad(lambda a: sp.gammainc(a, x) * sp.betainc(a, x, 0.3))(a)
    one_by_one = [f(*p) for p in zip(a, x, strict=True)]
    np.testing.assert_allclose(da.vmap(f)(a, x), one_by_one, rtol=1e-13)
    np.testing.assert_allclose(da.jit(da.vmap(f))(a, x), one_by_one, rtol=1e-13)


# ── Bessel functions in their order ──────────────────────────────────────────────────────────────────────────────


def bessel_points(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    v, x = 10 ** rng.uniform(-4, 2.3, count), 10 ** rng.uniform(-5, 2.3, count)
    third = count // 3
    beside = rng.choice([1e-3, 0.3, 3.0], third) * rng.normal(size=third)
    x[:third] = v[:third] * np.abs(1 + beside * v[:third] ** (-2 / 3))  # the transition, both sides of it
    v[third : 2 * third] *= rng.choice([-1.0, 1.0], third)
    return v, x


@pytest.mark.parametrize("kind", ["jv", "yv", "iv", "kv", "hankel1"])
def test_bessel_order(kind: str) -> None:
    theirs = {"j": mp.besselj, "y": mp.bessely, "i": mp.besseli, "k": mp.besselk, "h": mp.hankel1}[kind[0]]
    v, x = bessel_points(24)
    found = [bessel_order(v, x, kind=kind, order=n) for n in (1, 2)]
    errors = []
    with mp.workdps(60):
        for i, (order, point) in enumerate(zip(v, x, strict=True)):
            h = mp.mpf(10) ** -15 * max(abs(order), 1e-4)
            low, at, high = (theirs(mp.mpf(order) + s * h, mp.mpf(point)) for s in (-1, 0, 1))
            first, second = (high - low) / (2 * h), (high - 2 * at + low) / (h * h)
            if not 1e-250 < abs(first) < 1e250:
                continue
            scale = abs(second) + abs(first) ** 2 / abs(at)
            errors.append([abs(found[0][i] - first) / abs(first), abs(found[1][i] - second) / scale])
    first, second = np.array(errors, float).T
    assert np.median(first) < 1e-14 and np.median(second) < 1e-14
    assert np.max(first) < 3e-12 and np.max(second) < 3e-12


def test_scaled_bessel_functions_and_reflections() -> None:
    v, x = bessel_points(24)
    v, x = v[np.abs(x) < 20], x[np.abs(x) < 20]
    f = lambda kind, v=v, order=1: bessel_order(v, x, kind=kind, order=order)
    near = functools.partial(np.testing.assert_allclose, rtol=1e-12)
    near(f("ive"), f("iv") * np.exp(-x))
    near(f("kve"), f("kv") * np.exp(x))
    near(f("hankel1e"), f("hankel1") * np.exp(-1j * x))
    for sign, kind in ((1, "hankel1"), (-1, "hankel2")):
        near(np.real(f(kind)), f("jv"))
        near(np.imag(f(kind)), sign * f("yv"))
    near(f("kv", -v, 3), -f("kv", v, 3))


def test_bessel_functions_at_special_points() -> None:
    f = lambda kind, v, x: bessel_order(v, x, kind=kind, order=1)
    assert f("kv", 0.0, 1.3) == 0.0
    for x in (1.3, 12.0, 100.0):  # where it is far below the function
        assert f("iv", 0.0, x) == pytest.approx(-sp.k0(x), rel=1e-14)
    assert f("ive", -549.0, 130.5) == pytest.approx(f("iv", -549.0, 130.5) * np.exp(-130.5), rel=1e-12)
    assert f("jv", 0.0, 1.3) == pytest.approx(np.pi / 2 * sp.y0(1.3), rel=1e-14)
    assert f("yv", 0.0, 1.3) == pytest.approx(-np.pi / 2 * sp.j0(1.3), rel=1e-14)
    assert f("jv", 1e10, 1e10) == pytest.approx(-sp.jvp(1e10, 1e10), rel=1e-6)  # it depends on x − ν there
    assert f("jv", 2.0, 0.0) == 0.0 and f("kv", 2.0, 0.0) == np.inf and f("yv", 2.0, 0.0) == -np.inf
    assert np.isnan(f("jv", 2.0, -1.0)) and np.isnan(f("kv", np.nan, 1.0))
    for kind in ("jv", "yv", "iv", "kv"):
        v, x = map(np.ravel, np.meshgrid([1e-12, 1e-3, 0.5, 7.0, 1e3, 1e8], [1e-12, 1e-3, 0.5, 7.0, 7.001, 1e3, 1e8]))
        value, slope = getattr(sp, kind)(v, x), f(kind, v, x)
        shown = np.isfinite(value) & (np.abs(value) < 1e290)
        assert np.all(np.isfinite(slope[shown]))


def test_bessel_functions_in_order_and_argument() -> None:
    v, x = 0.7, 1.3
    for f in (sp.jv, sp.yv, sp.ive, sp.kve, lambda v, x: np.imag(sp.hankel1e(v, x))):
        mixed = da.grad(lambda x, f=f: da.grad(lambda v: f(v, x))(v))(x)
        assert mixed == pytest.approx(da.grad(lambda v, f=f: da.grad(lambda x: f(v, x))(x))(v), rel=1e-12)
        third = da.grad(da.grad(da.grad(lambda v, f=f: f(v, x))))(v)
        second = da.grad(da.grad(lambda v, f=f: f(v, x)))
        assert third == pytest.approx((second(v + 1e-4) - second(v - 1e-4)) / 2e-4, rel=1e-6)
    matern = lambda nu: 2 ** (1 - nu) / sp.gamma(nu) * x**nu * sp.kv(nu, x)
    assert da.grad(matern)(1.5) == pytest.approx((matern(1.5 + 1e-6) - matern(1.5 - 1e-6)) / 2e-6, rel=1e-8)


# ── hypergeometric functions in their parameters ─────────────────────────────────────────────────────────────────


def hypergeometric_points(name: str) -> list[tuple[float, ...]]:
    rng = np.random.default_rng(7)
    count = 20
    parameters = [10 ** rng.uniform(-2, 1, count) for _ in range(2 if name == "hyperu" else int(name[3]) + 1)]
    sign = rng.choice([-1.0, 1.0], count)
    if name == "hyperu":
        return list(zip(parameters[0], sign * parameters[1], 10 ** rng.uniform(-4, 2, count), strict=True))
    if name == "hyp2f1":
        z = np.where(sign > 0, 1 - 10 ** rng.uniform(-6, 0, count), -(10 ** rng.uniform(-3, 3, count)))
    else:
        z = sign * 10 ** rng.uniform(-3, 2, count)
    return list(zip(*parameters, z, strict=True))


@pytest.mark.parametrize(("name", "count"), [("hyp0f1", 1), ("hyp1f1", 2), ("hyp2f1", 3), ("hyperu", 2)])
def test_hypergeometric_parameters(name: str, count: int) -> None:
    theirs, points = getattr(mp, name), hypergeometric_points(name)
    arguments = [np.array(a) for a in zip(*points, strict=True)]
    for i in range(count):
        found = da.jvp(
            lambda p, i=i: getattr(sp, name)(*arguments[:i], p, *arguments[i + 1 :]), (arguments[i],), (np.ones(20),)
        )[1]
        errors = []
        with mp.workdps(50):
            for point, value in zip(points, found, strict=True):
                h = abs(mp.mpf(point[i])) * mp.mpf(10) ** -15
                low, high = (theirs(*[mp.mpf(p) + s * h * (i == k) for k, p in enumerate(point)]) for s in (-1, 1))
                slope = (high - low) / (2 * h)
                errors.append(float(abs(value - slope) / abs(slope)))
        assert np.median(errors) < 1e-13 and np.max(errors) < 3e-10, name


def test_hypergeometric_functions_at_special_points() -> None:
    slope = lambda f, a: da.grad(f)(a)
    assert slope(lambda a: sp.hyp1f1(a, 1.3, 0.0), 0.7) == 0.0
    assert slope(lambda a: sp.hyp2f1(a, 2.0, 2.0, 0.5), 0.7) == pytest.approx(-np.log(0.5) * 0.5**-0.7, rel=1e-14)
    assert slope(lambda a: sp.hyp1f1(a, 2.0, 0.5), -1.0) == pytest.approx(  # a polynomial for a = −1, but not beside it
        float(mp.diff(lambda a: mp.hyp1f1(a, 2, 0.5), -1)), rel=1e-10
    )
    whole = slope(lambda c: sp.hyp2f1(0.5, 1.5, c, 0.999), 2.0)  # c − a − b = 0
    assert whole == pytest.approx(float(mp.diff(lambda c: mp.hyp2f1(0.5, 1.5, c, 0.999), 2)), rel=1e-11)
    oscillating = slope(lambda a: sp.hyp1f1(a, 0.005, -31.0), 51.0)  # where all digits of the series cancel
    with mp.workdps(80):
        assert oscillating == pytest.approx(float(mp.diff(lambda a: mp.hyp1f1(a, mp.mpf(0.005), -31), 51)), rel=1e-12)
        decaying = float(mp.diff(lambda b: mp.hyp2f1(18, b, 0.5, -20), 17))
    assert slope(lambda b: sp.hyp2f1(18.0, b, 0.5, -20.0), 17.0) == pytest.approx(decaying, rel=1e-12)
    for v, z in ((-116.26950891711998, 1256.2824663984152), (-257.18, 6811.3), (-4.7, 20.0)):
        with mp.workdps(60):
            mixed = float(mp.diff(lambda v, z=z: mp.hyp0f1(v, z), v))
        assert slope(lambda v, z=z: sp.hyp0f1(v, z), v) == pytest.approx(mixed, rel=1e-10)
    for a, b, x in (
        (79.3, 7.1, 0.13),
        (30.0, 25.0, 80.0),
        (60.2, 3.0, 250.0),
        (2.5, 40.0, 5e3),
        (9.0, 10.0, 2e4),
        (0.3, 0.1, 31.0),
    ):
        with mp.workdps(150):  # saddle points of all kinds, coalescing ones too, and where eˣ overflows
            h = mp.mpf(10) ** -40
            moved = lambda s, r, a=a, b=b, x=x: mp.hyp1f1(mp.mpf(a) + s, mp.mpf(b) + r, -mp.mpf(x))
            expected = [(moved(s * h, r * h) - moved(-s * h, -r * h)) / (2 * h) for s, r in ((1, 0), (0, 1))]
            mixed = (moved(h, h) - moved(h, -h) - moved(-h, h) + moved(-h, -h)) / (4 * h * h)
        f = lambda a, b, x=x: sp.hyp1f1(a, b, -x)
        np.testing.assert_allclose(da.grad(f, argnums=(0, 1))(a, b), np.array(expected, float), rtol=1e-11)
        assert da.grad(lambda b, a=a, f=f: da.grad(f)(a, b))(b) == pytest.approx(float(mixed), rel=1e-9)
    for a, b, c, z in (  # powers of 1 − z, and where one solution's power grows in steps that the other allows
        (-20.3, 3.0, 2.0, 0.9),
        (-7.0, 0.5, 0.5, 0.99),
        (-220.2, 40.1, 5.3, 0.97),
        (-131.4, -17.7, 12.0, 0.9999),
    ):
        with mp.workdps(200):
            h = mp.mpf(10) ** -60
            power = float((mp.hyp2f1(a + h, b, c, z) - mp.hyp2f1(a - h, b, c, z)) / (2 * h))
        assert slope(lambda a, b=b, c=c, z=z: sp.hyp2f1(a, b, c, z), a) == pytest.approx(power, rel=1e-10)
    for a, b, x in ((1e-6, 80.0, -0.9), (-1e-6, 60.0, -9.0), (79.3, 78.1, -80.0), (-6.0, 4.4, 159.4)):
        with mp.workdps(80):  # beside 1, where saddle points are few, beside a polynomial
            beside = float(mp.diff(lambda b, a=a, x=x: mp.hyp1f1(mp.mpf(a), b, x), mp.mpf(b), h=mp.mpf(10) ** -30))
        assert slope(lambda b, a=a, x=x: sp.hyp1f1(a, b, x), b) == pytest.approx(beside, rel=1e-11)
    with mp.workdps(60):
        small = float(mp.diff(lambda a: mp.hyperu(a, mp.mpf(-0.46), mp.mpf(4e-6)), mp.mpf(1e-7), h=mp.mpf(10) ** -25))
        before = float(mp.diff(lambda v: mp.hyp0f1(v, mp.mpf(-30.8)), mp.mpf(-76.00002), h=mp.mpf(10) ** -25))
    assert slope(lambda a: sp.hyperu(a, -0.46, 4e-6), 1e-7) == pytest.approx(small, rel=1e-12)
    assert slope(lambda v: sp.hyp0f1(v, -30.8), -76.00002) == pytest.approx(before, rel=1e-11)
    with mp.workdps(60):  # where a power underflows
        late = float(mp.diff(lambda v: mp.hyp0f1(v, mp.mpf(-8133.2)), mp.mpf(163.0625), h=mp.mpf(10) ** -25))
    assert slope(lambda v: sp.hyp0f1(v, -8133.2), 163.0625) == pytest.approx(late, rel=1e-11)
    for a, b, x in ((-0.5, 0.5, 2.0), (-2.0, 0.5, 0.4), (-40.2, 3.0, 50.0)):  # the integral needs a > 0
        with mp.workdps(60):
            h = mp.mpf(10) ** -20
            left = mp.re(mp.hyperu(a + h, b, x) - mp.hyperu(a - h, b, x)) / (2 * h)
        assert tricomi_derivative(a, b, x, order=(1, 0, 0)) == pytest.approx(float(left), rel=1e-13)
    assert np.isnan(tricomi_derivative(-26.93, -7.8435, 0.148, order=(1, 0, 0)))  # where it has lost half of its digits
    power = slope(lambda a: sp.hyperu(a, a + 1, 0.7), 1.3)  # U(a, a + 1, x) = x⁻ᵃ
    assert power == pytest.approx(-np.log(0.7) * 0.7**-1.3, rel=1e-13)
    third = da.grad(da.grad(da.grad(lambda a: sp.hyp2f1(a, 1.2, 2.3, -3.0))))(0.8)
    assert third == pytest.approx(float(mp.diff(lambda a: mp.hyp2f1(a, 1.2, 2.3, -3), 0.8, 3)), rel=1e-9)


def test_tricomi_polynomials() -> None:
    """U(−n, b, x) = (−1)ⁿ Σ C(n, k) (b + k)ₙ₋ₖ (−x)ᵏ, whose neighbours in a are x¹⁻ᵇ times larger for small x."""
    for n, b, x in ((0, 2.5, 0.1), (1, 7.5, 1e-3), (6, 12.25, 1e-4), (4, -3.5, 0.7), (9, 20.0, 0.02)):
        with mp.workdps(60):
            of = lambda b, n=n, x=x: sum(
                mp.binomial(n, k) * mp.rf(b + k, n - k) * mp.mpf(-x) ** k for k in range(n + 1)
            )
            for order in (1, 2, 3):
                expected = float((-1) ** n * mp.diff(of, mp.mpf(b), order, h=mp.mpf(10) ** -15))
                found = slope(lambda b, n=n, x=x: sp.hyperu(-float(n), b, x), b, order)
                assert found == pytest.approx(expected, rel=1e-11, abs=0), (n, b, x, order)


# ── Struve functions in their order ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["struve", "modstruve"])
def test_struve_order(name: str) -> None:
    """Series, their integrals, the saddle, poles of Γ, and the vanishing derivative near ν = 0."""
    theirs = {"struve": mp.struveh, "modstruve": mp.struvel}[name]
    points = [(0.7, 1.3), (-1.5, 2.0), (-7.3, 30.0), (40.0, 90.0), (80.0, 50.0), (1e-4, 20.0), (0.0, 3.0), (3.0, 1e-3)]
    points += [(70.76, 56.87), (99.95, 87.9)]  # where (1 + t²)ᵖ e⁻ˣᵗ has a second maximum
    v, x = map(np.array, zip(*points, strict=True))
    f = lambda v: getattr(sp, name)(v, x)
    first = lambda v: da.jvp(f, (v,), (np.ones_like(v),))[1]
    found = first(v), da.jvp(first, (v,), (np.ones_like(v),))[1]
    with mp.workdps(60):
        h = mp.mpf(10) ** -18
        for i, (order, point) in enumerate(points):
            low, at, high = (theirs(mp.mpf(order) + s * h, mp.mpf(point)) for s in (-1, 0, 1))
            assert found[0][i] == pytest.approx(float((high - low) / (2 * h)), rel=1e-12), points[i]
            assert found[1][i] == pytest.approx(float((high - 2 * at + low) / (h * h)), rel=1e-11), points[i]
    g = getattr(sp, name)
    mixed = da.grad(lambda x: da.grad(lambda v: g(v, x))(0.7))(1.3)
    assert mixed == pytest.approx(da.grad(lambda v: da.grad(lambda x: g(v, x))(1.3))(0.7), rel=1e-12)
    assert np.isnan(da.grad(lambda v: g(v, -1.0))(2.0))  # where the real function ends


# ── distribution functions by the integral of the density's derivative ───────────────────────────────────────────


@pytest.mark.parametrize("kappa", [1e-3, 2.0, 100.0, 499.0, 501.0, 1e5])
def test_von_mises_in_kappa(kappa: float) -> None:
    def theirs(k, x):
        edges = [0, *[x * mp.mpf(n) / 6 for n in range(1, 7)]]
        return mp.quad(lambda t: mp.exp(k * (mp.cos(t) - 1)), edges) / (2 * mp.pi * mp.besseli(0, k) * mp.exp(-k))

    for share in (0.3, 1.5, 4.0):
        x = min(share / np.sqrt(kappa), 3.0)
        with mp.workdps(30):
            expected = float(mp.diff(lambda k, x=x: theirs(k, mp.mpf(x)), kappa, h=mp.mpf(kappa) * mp.mpf(10) ** -8))
        assert da.grad(lambda k, x=x: stats.vonmises.cdf(x, k))(kappa) == pytest.approx(expected, rel=1e-11)
        moved = da.grad(lambda k, x=x: stats.vonmises.cdf(-x - 2 * np.pi, k))(kappa)
        assert moved == pytest.approx(-expected, rel=1e-9)


@pytest.mark.parametrize(("df", "nc", "x"), [(3.0, 2.0, 4.0), (0.4, 5.0, 0.01), (50.0, 3.0, 90.0), (4.0, 20.0, 100.0)])
def test_noncentral_chi_squared_in_its_degrees_of_freedom(df: float, nc: float, x: float) -> None:
    def theirs(df):
        weight = lambda k: mp.exp(-mp.mpf(nc) / 2 + k * mp.log(mp.mpf(nc) / 2) - mp.loggamma(k + 1))
        return sum(weight(k) * mp.gammainc(df / 2 + k, 0, mp.mpf(x) / 2, regularized=True) for k in range(90))

    with mp.workdps(40):
        first, second = (float(mp.diff(theirs, mp.mpf(df), n, h=mp.mpf(10) ** -10)) for n in (1, 2))
    f = lambda df: stats.ncx2.cdf(x, df, nc)
    assert da.grad(f)(df) == pytest.approx(first, rel=1e-12)
    assert da.grad(da.grad(f))(df) == pytest.approx(second, rel=1e-10)
    assert da.jit(da.grad(f))(df) == pytest.approx(first, rel=1e-12)
    quantile = stats.ncx2.ppf(0.3, df, nc)
    slope = -da.grad(lambda df: stats.ncx2.cdf(quantile, df, nc))(df) / st.ncx2.pdf(quantile, df, nc)
    assert da.grad(lambda df: stats.ncx2.ppf(0.3, df, nc))(df) == pytest.approx(slope, rel=1e-9)


def test_python_floats_are_of_double_precision() -> None:
    from dualad.ops.zeta import zeta_derivative

    assert zeta_derivative(2.5, 1.3, order=1) == zeta_derivative(np.float64(2.5), 1.3, order=1)
    assert zeta_derivative(np.float32(2.5), 1.3, order=1).dtype == np.float32
    assert bessel_order(0.5, 2.0, kind="kv", order=1) == bessel_order(np.float64(0.5), 2.0, kind="kv", order=1)
    assert bessel_order(np.float32(0.5), 2.0, kind="hankel1", order=1).dtype == np.complex64


# ── incomplete elliptic integrals in their parameter ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["ellipkinc", "ellipeinc"])
def test_elliptic_parameter(name: str) -> None:
    theirs = {"ellipkinc": mp.ellipf, "ellipeinc": mp.ellipe}[name]
    first = lambda phi, m: da.grad(lambda m: getattr(sp, name)(phi, m))(m)
    points = [(0.7, 0.3), (1.5707, 0.999999), (1e-4, -3.0), (-7.3, 0.5), (2.0, -1e7), (1.2, 1e-9), (np.pi / 2, -0.4)]
    for phi, m in points:
        with mp.workdps(40):
            step = mp.mpf(10) ** -12 * min(1 - mp.mpf(m), 1)
            expected = [float(mp.diff(lambda m, phi=phi: theirs(mp.mpf(phi), m), m, n, h=step)) for n in (1, 2)]
        assert first(phi, m) == pytest.approx(expected[0], rel=1e-12)
        assert da.grad(lambda m, phi=phi: first(phi, m))(m) == pytest.approx(expected[1], rel=1e-10)
    for phi, m in points[:5]:
        mixed = da.grad(lambda phi, m=m: first(phi, m))(phi)
        sine = np.sin(phi) ** 2
        slope = sine / 2 * (1 - m * sine) ** -1.5 if name == "ellipkinc" else -sine / 2 / np.sqrt(1 - m * sine)
        assert mixed == pytest.approx(slope, rel=1e-13)
    assert (
        first(0.0, 0.5) == 0.0
        and np.isnan(first(0.5, 1.5))
        and first(np.pi / 2, 0.0) == pytest.approx(np.pi / 8 if name == "ellipkinc" else -np.pi / 8, rel=1e-15)
    )


# ── samples that move with their parameters ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["gamma", "t", "vonmises"])
def test_samples_by_inversion_have_pathwise_derivatives(name: str) -> None:
    """The derivative of a mean of draws is that of the mean: E cos X of von Mises is I₁/I₀, E √X of gamma a ratio."""
    u, law, at = (np.arange(4000) + 0.5) / 4000, getattr(stats, name), 3.0
    statistic = {"gamma": np.sqrt, "t": lambda x: np.exp(-x * x), "vonmises": np.cos}[name]
    slope = da.grad(lambda s: np.mean(statistic(law.ppf(u, s))))(at)
    expectation = lambda s: getattr(st, name)(s).expect(
        statistic, **({"lb": -np.pi, "ub": np.pi} if name[0] == "v" else {})
    )
    assert slope == pytest.approx((expectation(at + 1e-3) - expectation(at - 1e-3)) / 2e-3, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [("gamma", (2.3, 1.5)), ("beta", (2.0, 0.7)), ("chisquare", (3.0,)), ("f", (3.0, 7.0)), ("standard_t", (4.0,)),
     ("vonmises", (0.0, 2.0)), ("noncentral_chisquare", (3.0, 2.0)), ("weibull", (1.5,)), ("pareto", (2.5,))],
)  # fmt: skip
def test_draws_are_numpys_and_move_with_their_parameters(name: str, shapes: tuple) -> None:
    """By differences of quantiles at fixed probabilities, to second order."""
    laws = {
        "gamma": lambda a, b: st.gamma(a, 0, b), "chisquare": st.chi2, "standard_t": st.t, "weibull": st.weibull_min,
        "noncentral_chisquare": st.ncx2, "pareto": st.lomax, "vonmises": lambda m, k: st.vonmises(k, m),
    }  # fmt: skip
    law = laws.get(name) or getattr(st, name)
    draws = getattr(np.random.default_rng(0), name)(*shapes, size=20)
    u = law(*shapes).cdf(draws)
    for i, s in enumerate(shapes):
        at = lambda v, i=i: (*shapes[:i], v, *shapes[i + 1 :])
        ours = lambda v, at=at: getattr(da.numpy.random.default_rng(0), name)(*at(v), size=20)
        np.testing.assert_allclose(da.jvp(ours, (s,), (1.0,))[0], draws, rtol=1e-14)
        low, mid, high = (law(*at(s + h)).ppf(u) for h in (-1e-3, 0.0, 1e-3))
        np.testing.assert_allclose(slope(ours, s), (high - low) / 2e-3, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(slope(ours, s, 2), (high - 2 * mid + low) / 1e-6, rtol=1e-2, atol=1e-4)


def test_draws_in_lanes_and_of_laws() -> None:
    draw = lambda a: da.numpy.random.default_rng(0).dirichlet(a, size=4)
    alpha = np.array([2.0, 0.5, 3.0])
    np.testing.assert_allclose(da.jvp(draw, (alpha,), (alpha,))[0], np.random.default_rng(0).dirichlet(alpha, size=4))
    np.testing.assert_allclose(np.sum(da.jacfwd(draw)(alpha), axis=1), 0.0, atol=1e-13)
    seeded = lambda a: stats.gamma.rvs(a, size=3, random_state=1)
    np.testing.assert_array_equal(da.jvp(seeded, (0.7,), (1.0,))[0], st.gamma.rvs(0.7, size=3, random_state=1))
    rng, shapes = da.numpy.random.default_rng(0), np.array([1.0, 2.0])
    lanes = da.vmap(da.value_and_grad(lambda a: rng.gamma(a)), randomness="different")(shapes)
    expected = [
        -da.grad(lambda a, x=x: sp.gammainc(a, x))(a) / st.gamma.pdf(x, a)
        for x, a in zip(lanes[0], shapes, strict=True)
    ]
    np.testing.assert_allclose(lanes[1], expected, rtol=1e-10)
    with pytest.raises(da.errors.UnsupportedError, match="default_rng"):
        da.grad(lambda a: stats.gamma(a).rvs(3).sum())(2.0)
    with pytest.raises(da.errors.UnsupportedError, match="ppf"):
        da.jit(lambda a: stats.gamma(a).rvs(3, random_state=0).sum())(2.0)
