"""`dualad.scipy.interpolate` against SciPy, JAX and central differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.interpolate as si

import dualad as da
import dualad.scipy.interpolate as ours
from dualad.errors import UnsupportedError
from tests.oracles.jax_side import jax
from tests.oracles.mirrored import agrees

RNG = np.random.default_rng(19)
KNOTS = np.cumsum(RNG.uniform(0.5, 1.2, 7))
Y = RNG.normal(size=7)
TABLE = RNG.normal(size=(2, 7, 3))
AT = np.array([KNOTS[0] + 0.11, KNOTS[2] + 0.13, KNOTS[5] + 0.2])
BEYOND = np.array([KNOTS[0] - 0.7, KNOTS[3] + 0.1, KNOTS[-1] + 0.6])
CONDITIONS = ["not-a-knot", "natural", "clamped", ((1, 0.4), (2, -0.3)), ("not-a-knot", (1, 0.2))]


def closed(y):
    """Make data periodic."""
    return np.concatenate([y, y[:1]])


# ── the cubic spline ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bc", CONDITIONS, ids=str)
def test_cubic_spline(bc) -> None:
    f = lambda k, y, x: ours.CubicSpline(k, y, bc_type=bc)(x)
    agrees(f, lambda k, y, x: si.CubicSpline(k, y, bc_type=bc)(x), KNOTS, Y, AT, order=3, near=1e-3, rtol=1e-9)
    for n in (2, 3, 4):
        f, g = (lambda k, y, x, m=m: m.CubicSpline(k, y, bc_type=bc)(x) for m in (ours, si))
        agrees(f, g, KNOTS[:n], Y[:n], KNOTS[:1] + 0.2, near=1e-3, rtol=1e-9)
    for nu in (1, 2, 3, 4):
        f, g = (lambda y, x, m=m: m.CubicSpline(KNOTS, y, bc_type=bc)(x, nu) for m in (ours, si))
        agrees(f, g, Y, AT, near=1e-3)


def test_periodic_spline() -> None:
    for n in (2, 3, 4, 7):
        y = Y[: n - 1]
        f, g = (lambda k, y, x, m=m: m.CubicSpline(k, closed(y), bc_type="periodic")(x) for m in (ours, si))
        agrees(f, g, KNOTS[:n], y, KNOTS[:1] + 0.2, near=1e-3, rtol=1e-9)
    f, g = (lambda y, x, m=m: m.CubicSpline(KNOTS, closed(y), bc_type="periodic")(x) for m in (ours, si))
    agrees(f, g, Y[:-1], BEYOND, order=3, near=1e-3)
    with pytest.raises(ValueError, match="must be identical"):
        da.jvp(lambda y: ours.CubicSpline(KNOTS, y, bc_type="periodic")(1.0), (Y,), (Y,))


def test_slopes_at_the_ends_may_move() -> None:
    f, g = (lambda v, m=m: m.CubicSpline(KNOTS, Y, bc_type=((1, v[0]), (2, v[1])))(AT) for m in (ours, si))
    agrees(f, g, np.array([0.3, -0.4]))


@pytest.mark.parametrize("name", ["CubicSpline", "PchipInterpolator", "Akima1DInterpolator"])
def test_axes_and_extrapolation(name: str) -> None:
    for points in (AT, np.stack([AT, BEYOND]), np.asarray(AT[1])):
        for options in ({"axis": 1}, {"axis": 1, "extrapolate": False}, {"axis": -2, "extrapolate": "periodic"}):
            f, g = (lambda y, x, m=m: getattr(m, name)(KNOTS, y, **options)(x) for m in (ours, si))
            agrees(f, g, TABLE, points, near=1e-3)


@pytest.mark.parametrize("name", ["PchipInterpolator", "Akima1DInterpolator"])
def test_local_interpolants(name: str) -> None:
    for n in (2, 3, 4, 7):
        f, g = (lambda k, y, x, m=m: getattr(m, name)(k, y)(x) for m in (ours, si))
        agrees(f, g, KNOTS[:n], Y[:n], KNOTS[:1] + np.array([0.1, 0.3]), order=3, near=1e-3)
    f, g = (lambda y, x, m=m: getattr(m, name)(KNOTS, y)(x, 1) for m in (ours, si))
    agrees(f, g, Y, AT, near=1e-3)


def test_more_local_interpolants() -> None:
    f, g = (lambda y, x, m=m: m.Akima1DInterpolator(KNOTS, y, method="makima")(x) for m in (ours, si))
    agrees(f, g, Y, AT, near=1e-3)
    f, g = (lambda k, y, d, x, m=m: m.CubicHermiteSpline(k, y, d)(x) for m in (ours, si))
    agrees(f, g, KNOTS, Y, Y[::-1].copy(), AT, order=3, near=1e-3)


def test_flat_data_give_finite_derivatives() -> None:
    for y in (np.zeros(7), np.array([0.0, 0, 0, 1, 1, 1, 1])):
        for f in (ours.PchipInterpolator, ours.Akima1DInterpolator):
            value, tangent = da.jvp(lambda y: f(KNOTS, y)(AT), (y,), (Y,))
            assert np.isfinite(tangent).all()
            np.testing.assert_allclose(value, getattr(si, f.__name__)(KNOTS, y)(AT), atol=1e-14)


@pytest.mark.slow
def test_against_jax() -> None:
    """A natural spline by a dense solve in JAX."""

    def g(y):
        h = jax.numpy.diff(KNOTS)
        chord = jax.numpy.diff(y) / h
        n = len(KNOTS)
        m = np.eye(n)
        for i in range(1, n - 1):
            m[i, i - 1 : i + 2] = h[i - 1], 2 * (h[i - 1] + h[i]), h[i]
        right = jax.numpy.concatenate([jax.numpy.zeros(1), 6 * jax.numpy.diff(chord), jax.numpy.zeros(1)])
        second = jax.numpy.linalg.solve(m, right)
        i = np.searchsorted(KNOTS, AT, side="right") - 1
        a, b = (KNOTS[i + 1] - AT) / h[i], (AT - KNOTS[i]) / h[i]
        curved = ((a**3 - a) * second[i] + (b**3 - b) * second[i + 1]) * h[i] ** 2 / 6
        return (a * y[i] + b * y[i + 1] + curved) ** 2

    f = lambda y: ours.CubicSpline(KNOTS, y, bc_type="natural")(AT) ** 2
    np.testing.assert_allclose(da.jacrev(f)(Y), jax.jacrev(g)(Y), rtol=1e-9, atol=1e-12)


# ── piecewise polynomials ────────────────────────────────────────────────────────────────────────────────────────


def test_piecewise_polynomials() -> None:
    c = RNG.normal(size=(3, 6, 2))
    for nu in (0, 1, 2, 3):
        f, g = (lambda c, k, x, m=m: m.PPoly(c, k, None)(x, nu) for m in (ours, si))
        agrees(f, g, c, KNOTS, BEYOND, near=1e-3)
    for method, nu in (("derivative", 1), ("derivative", 3), ("antiderivative", 1), ("antiderivative", 2)):
        f, g = (lambda c, x, m=m: getattr(m.PPoly(c, KNOTS), method)(nu)(x) for m in (ours, si))
        agrees(f, g, c, AT)
    f, g = (lambda c, x, m=m: m.PPoly(c, KNOTS, axis=1)(x) for m in (ours, si))
    agrees(f, g, RNG.normal(size=(3, 2, 6)), AT)


def test_integrals() -> None:
    a, b = np.asarray(KNOTS[0] + 0.3), np.asarray(KNOTS[-1] + 0.4)
    for bc in ("natural", "not-a-knot"):
        f, g = (lambda y, a, b, m=m: m.CubicSpline(KNOTS, y, bc_type=bc).integrate(a, b) for m in (ours, si))
        agrees(f, g, Y, a, b, order=3, near=1e-3)
    for a, b in ((KNOTS[0] + 0.3, KNOTS[-1] + 20.0), (KNOTS[2] - 30, KNOTS[1]), (KNOTS[3] + 0.1, KNOTS[3] - 9)):
        f, g = (
            lambda y, a, b, m=m: m.CubicSpline(KNOTS, closed(y), bc_type="periodic").integrate(a, b) for m in (ours, si)
        )
        agrees(f, g, Y[:-1], np.asarray(a), np.asarray(b), near=1e-3)


def test_points_at_the_knots() -> None:
    """A knot belongs to the interval on its right, the last one to the last interval."""
    for name in ("CubicSpline", "PchipInterpolator"):
        value, slope = da.jvp(getattr(ours, name)(KNOTS, Y), (KNOTS,), (np.ones(7),))
        np.testing.assert_allclose(value, Y, atol=1e-12)
        np.testing.assert_allclose(slope, getattr(si, name)(KNOTS, Y)(KNOTS, 1), rtol=1e-10)
    third = da.grad(da.grad(da.grad(lambda x: ours.CubicSpline(KNOTS, Y)(x))))
    np.testing.assert_allclose(third(KNOTS[3]), si.CubicSpline(KNOTS, Y)(KNOTS[3], 3), rtol=1e-9)


# ── B-splines ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4])
def test_bsplines(k: int) -> None:
    t = np.concatenate([[KNOTS[0]] * k, KNOTS, [KNOTS[-1]] * k])
    c = RNG.normal(size=(len(t) - k - 1, 2))
    for points in (AT, BEYOND):
        for nu in range(k + 2):
            f, g = (lambda c, x, m=m: m.BSpline(t, c, k)(x, nu) for m in (ours, si))
            agrees(f, g, c, points, near=1e-3)
    for extrapolate in (False, "periodic"):
        f, g = (lambda c, x, m=m: m.BSpline(t, c, k, extrapolate)(x) for m in (ours, si))
        agrees(f, g, c, BEYOND, near=1e-3)
    for method in ("derivative", "antiderivative")[not k :]:
        f, g = (lambda c, x, m=m: getattr(m.BSpline(t, c, k), method)()(x) for m in (ours, si))
        agrees(f, g, c, AT, near=1e-3)
    f, g = (lambda c, a, b, m=m: m.BSpline(t, c, k).integrate(a, b) for m in (ours, si))
    agrees(f, g, c, np.asarray(AT[0]), np.asarray(BEYOND[2]), near=1e-3)


def test_knots_of_a_bspline_may_move() -> None:
    t = np.concatenate([KNOTS[0] - [0.9, 0.5, 0.2], KNOTS, KNOTS[-1] + [0.1, 0.4, 0.7]])
    c = RNG.normal(size=len(t) - 4)
    f, g = (lambda t, c, x, m=m: m.BSpline(t, c, 3)(x) for m in (ours, si))
    agrees(f, g, t, c, AT, order=3, near=1e-3)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 5])
def test_interpolating_splines(k: int) -> None:
    f, g = (lambda y, x, m=m: m.make_interp_spline(KNOTS, y, k)(x) for m in (ours, si))
    agrees(f, g, Y, AT, near=1e-3, rtol=1e-9)
    f, g = (lambda y, m=m: m.make_interp_spline(KNOTS, y, k, axis=1)(AT) for m in (ours, si))
    agrees(f, g, TABLE, near=1e-3, rtol=1e-9)
    if k:
        f, g = (lambda y, x, m=m: m.make_interp_spline(KNOTS, closed(y), k, bc_type="periodic")(x) for m in (ours, si))
        agrees(f, g, Y[:-1], AT, near=1e-3, rtol=1e-9)


def test_interpolating_splines_with_end_conditions() -> None:
    for bc in ("natural", "clamped", ([(1, 0.3)], [(2, -0.4)]), ([(2, 0.1), (1, 0.3)], None)):
        f, g = (lambda y, x, m=m: m.make_interp_spline(KNOTS, y, 3, bc_type=bc)(x, 1) for m in (ours, si))
        agrees(f, g, Y, AT, near=1e-3, rtol=1e-9)
    f, g = (lambda v, m=m: m.make_interp_spline(KNOTS, Y, bc_type=([(1, v[0])], [(2, v[1])]))(AT) for m in (ours, si))
    agrees(f, g, np.array([0.3, -0.4]), rtol=1e-9)
    t = si.make_interp_spline(KNOTS, Y, 3).t
    f, g = (lambda y, m=m: m.make_interp_spline(KNOTS, y, 3, t)(AT) for m in (ours, si))
    agrees(f, g, Y, rtol=1e-9)
    with pytest.raises(UnsupportedError, match="traced points x"):
        da.jvp(lambda x: ours.make_interp_spline(x, Y)(AT), (KNOTS,), (KNOTS,))


# ── tables and grids ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "kind", ["linear", "nearest", "nearest-up", "next", "previous", "zero", "slinear", "quadratic", "cubic", 5]
)
def test_interp1d(kind) -> None:
    options = {"kind": kind, "fill_value": "extrapolate"}
    splines = kind in ("slinear", "quadratic", "cubic", 5)
    f, g = (lambda y, x, m=m: m.interp1d(KNOTS, y, **options)(x) for m in (ours, si))
    agrees(f, g, Y, AT, near=1e-3, rtol=1e-9)
    agrees(f, g, Y, BEYOND, near=1e-3, rtol=1e-9)
    f, g = (lambda y, m=m: m.interp1d(KNOTS[::-1], y, kind, axis=1, assume_sorted=False)(AT) for m in (ours, si))
    agrees(f, g, TABLE, near=1e-3, rtol=1e-9)
    if not splines:
        f, g = (lambda k, x, m=m: m.interp1d(k, Y, **options)(x) for m in (ours, si))
        agrees(f, g, KNOTS, AT, near=1e-3)
    f, g = (
        lambda y, m=m: m.interp1d(KNOTS, y, kind, bounds_error=False, fill_value=(0.3, 0.7))(BEYOND) for m in (ours, si)
    )
    agrees(f, g, Y, near=1e-3, rtol=1e-9)


def test_bounds_of_interp1d() -> None:
    with pytest.raises(ValueError, match="outside the interpolation range"):
        da.jvp(lambda y: ours.interp1d(KNOTS, y)(BEYOND), (Y,), (Y,))
    found = da.vmap(lambda x: ours.interp1d(KNOTS, Y)(x))(BEYOND)
    assert np.isnan(found).tolist() == [True, False, True]
    f, g = (lambda v, m=m: m.interp1d(KNOTS, Y, bounds_error=False, fill_value=v)(BEYOND) for m in (ours, si))
    agrees(lambda v: f((v[0], v[1])), lambda v: g((v[0], v[1])), np.array([0.3, 0.7]))


GRID = (np.array([0.0, 0.7, 1.9, 2.2]), np.array([3.0, 1.8, 1.1]))
VALUES = RNG.normal(size=(4, 3))
POINTS = np.array([[0.31, 1.47], [1.2, 2.05], [2.1, 2.81]])


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_grids(method: str) -> None:
    f, g = (lambda v, x, m=m: m.RegularGridInterpolator(GRID, v, method)(x) for m in (ours, si))
    agrees(f, g, VALUES, POINTS, order=3, near=1e-3)
    agrees(f, g, VALUES, POINTS.reshape((3, 1, 2)), near=1e-3)
    agrees(f, g, RNG.normal(size=(4, 3, 2)), POINTS, near=1e-3)
    for fill in (None, 0.4):
        options = {"method": method, "bounds_error": False, "fill_value": fill}
        f, g = (lambda v, x, m=m: m.interpn(GRID, v, x, **options) for m in (ours, si))
        agrees(f, g, VALUES, POINTS + [[0.0, 0.0], [1.3, 0.0], [-3.0, 1.0]], near=1e-3)
    f, g = (lambda p, v, m=m: m.interpn((p, GRID[1]), v, (POINTS[:, 0], POINTS[:, 1]), method) for m in (ours, si))
    agrees(f, g, GRID[0] + 0.01, VALUES, near=1e-4)
    f, g = (lambda v, m=m: m.interpn((KNOTS,), v, AT, method) for m in (ours, si))
    agrees(f, g, Y)


def test_bounds_of_grids() -> None:
    with pytest.raises(ValueError, match="out of bounds in dimension 0"):
        da.jvp(lambda v: ours.interpn(GRID, v, [[5.0, 2.0]]), (VALUES,), (VALUES,))
    with pytest.raises(UnsupportedError, match="cubic"):
        da.jvp(lambda v: ours.interpn(GRID, v, POINTS, "cubic"), (VALUES,), (VALUES,))


@pytest.mark.slow
def test_grid_against_jax() -> None:
    grid = (GRID[0], GRID[1][::-1])
    f = lambda v, x: np.sum(ours.RegularGridInterpolator(grid, v)(x) ** 2)
    g = lambda v, x: (jax.scipy.interpolate.RegularGridInterpolator(grid, v)(x) ** 2).sum()
    for a, b in zip(da.grad(f, (0, 1))(VALUES, POINTS), jax.grad(g, (0, 1))(VALUES, POINTS), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


# ── how they are used ────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_plain_is_scipys() -> None:
    spline = ours.CubicSpline(KNOTS, Y)
    np.testing.assert_array_equal(spline.c, si.CubicSpline(KNOTS, Y).c)
    np.testing.assert_array_equal(spline.roots(), si.CubicSpline(KNOTS, Y).roots())
    np.testing.assert_array_equal(spline(AT, 1), si.CubicSpline(KNOTS, Y)(AT, 1))
    assert ours.splrep(KNOTS, Y)[2] == 3
    np.testing.assert_array_equal(ours.make_interp_spline(KNOTS, Y).t, si.make_interp_spline(KNOTS, Y).t)
    for make in (ours.CubicSpline, ours.make_interp_spline):
        slope = da.jvp(make(KNOTS, Y), (AT,), (np.ones(3),))[1]
        np.testing.assert_allclose(slope, si.CubicSpline(KNOTS, Y)(AT, 1), rtol=1e-10)
    with pytest.raises(UnsupportedError, match="roots"):
        da.jvp(lambda y: ours.CubicSpline(KNOTS, y).roots(), (Y,), (Y,))
    with pytest.raises(AttributeError):
        spline.knots_of_it  # noqa: B018
    with pytest.raises(UnsupportedError, match="splrep"):
        da.jvp(lambda y: ours.splrep(KNOTS, y), (Y,), (Y,))


def test_errors() -> None:
    jvp = lambda f: da.jvp(f, (Y,), (Y,))
    with pytest.raises(ValueError, match="strictly increasing"):
        jvp(lambda y: ours.CubicSpline(KNOTS[::-1], y)(1.0))
    with pytest.raises(ValueError, match="doesn't match"):
        jvp(lambda y: ours.PchipInterpolator(KNOTS[:4], y)(1.0))
    with pytest.raises(ValueError, match="not allowed"):
        jvp(lambda y: ours.CubicSpline(KNOTS, y, bc_type="loose")(1.0))
    with pytest.raises(ValueError, match="finite"):
        da.jvp(lambda y: ours.CubicSpline(KNOTS, y)(1.0), (Y * np.nan,), (Y,))
    with pytest.raises(ValueError, match="Need at least"):
        jvp(lambda c: ours.BSpline(KNOTS[:4], c, 3)(1.0))
    with pytest.raises(NotImplementedError, match="unsupported"):
        jvp(lambda y: ours.interp1d(KNOTS, y, "wavy")(AT))


@pytest.mark.parametrize(
    "name", ["CloughTocher2DInterpolator", "LinearNDInterpolator", "NearestNDInterpolator", "RBFInterpolator"]
)
def test_scattered_data_is_refused_by_name(name: str) -> None:
    points = np.random.default_rng(0).normal(size=(12, 2))
    values, at = points[:, 0] * points[:, 1], np.array([[0.1, 0.2]])
    plain = getattr(ours, name)(points, values)
    assert isinstance(plain, getattr(si, name))
    np.testing.assert_array_equal(plain(at), getattr(si, name)(points, values)(at))
    for f, x in ((lambda v: getattr(ours, name)(points, v)(at), values), (plain, at)):
        with pytest.raises(UnsupportedError, match=rf"scipy\.interpolate\.{name} was called on a") as caught:
            da.jvp(f, (x,), (x,))
        assert caught.value.instead


@pytest.mark.parametrize("name", ["InterpolatedUnivariateSpline", "UnivariateSpline"])
def test_fitpack_is_refused_by_name(name: str) -> None:
    x = np.arange(6.0)
    with pytest.raises(UnsupportedError, match="CubicSpline"):
        da.grad(lambda y: getattr(ours, name)(x, y)(1.5))(x**2)
    assert abs(getattr(ours, name)(x, x**2)(1.5) - 2.25) < 0.1
