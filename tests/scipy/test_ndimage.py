"""`dualad.scipy.ndimage` against SciPy, JAX and central differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as nd

import dualad as da
import dualad.scipy.ndimage as ours
from dualad.errors import InPlaceError, UnsupportedError
from tests.oracles.jax_side import jax
from tests.oracles.mirrored import agrees

RNG = np.random.default_rng(13)
X = RNG.normal(size=(4, 5))
WEIGHTS = RNG.normal(size=3)
MODES = ["reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["correlate1d", "convolve1d"])
def test_filters_along_one_axis(name: str, mode: str) -> None:
    f, g = getattr(ours, name), getattr(nd, name)
    for size, axis, origin in ((3, 0, 0), (3, 1, 1), (4, -1, 0), (4, 0, -1), (11, 1, 0)):
        options = {"axis": axis, "mode": mode, "origin": origin, "cval": 0.7}
        agrees(lambda x, w: f(x, w, **options), lambda x, w: g(x, w, **options), X, RNG.normal(size=size))


def test_complex_images_and_weights() -> None:
    z, w = X + 1j * X[::-1], WEIGHTS + 0.4j
    for name in ("correlate1d", "convolve1d"):
        f, g = getattr(ours, name), getattr(nd, name)
        agrees(lambda x, w: f(x, w), lambda x, w: g(x, w), z, WEIGHTS)
        agrees(lambda x, w: f(x, w), lambda x, w: g(x, w), X, w)
        agrees(lambda x, w: f(x, w), lambda x, w: g(x, w), z, w)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["correlate", "convolve"])
def test_filters_along_several_axes(name: str, mode: str) -> None:
    f, g = getattr(ours, name), getattr(nd, name)
    for shape, origin in (((3, 3), 0), ((2, 4), 0), ((3, 2), (1, 0))):
        options = {"mode": mode, "origin": origin, "cval": 0.7}
        agrees(lambda x, w: f(x, w, **options), lambda x, w: g(x, w, **options), X, RNG.normal(size=shape))


def test_filters_along_some_axes() -> None:
    x = RNG.normal(size=(3, 2, 4))
    f, g = ours.correlate, nd.correlate
    agrees(lambda x, w: f(x, w, axes=(0, 2)), lambda x, w: g(x, w, axes=(0, 2)), x, RNG.normal(size=(3, 2)))
    agrees(lambda x: ours.gaussian_filter(x, 1.0, axes=(0, 2)), lambda x: nd.gaussian_filter(x, 1.0, axes=(0, 2)), x)


@pytest.mark.parametrize("mode", MODES)
def test_gaussians(mode: str) -> None:
    agrees(lambda x: ours.gaussian_filter(x, 1.1, mode=mode), lambda x: nd.gaussian_filter(x, 1.1, mode=mode), X)
    for order in (0, 1, 2, 3):
        f = lambda x, s: ours.gaussian_filter1d(x, s, 0, order, mode=mode, radius=3)
        agrees(
            f,
            lambda x, s: nd.gaussian_filter1d(x, float(s), 0, order, mode=mode, radius=3),
            X,
            np.asarray(1.1),
            order=3,
        )
    f = lambda x: ours.gaussian_filter(x, (0.7, 1.6), (1, 0), mode=(mode, "nearest"), truncate=2.0)
    agrees(f, lambda x: nd.gaussian_filter(x, (0.7, 1.6), (1, 0), mode=(mode, "nearest"), truncate=2.0), X)
    agrees(lambda x: ours.gaussian_laplace(x, 0.9, mode=mode), lambda x: nd.gaussian_laplace(x, 0.9, mode=mode), X)


def test_the_width_of_a_gaussian() -> None:
    """Its derivative: the radius follows from its value where that is known, and must be given where it is not."""
    f = lambda s: ours.gaussian_filter(X, s)
    t = da.jvp(f, (1.1,), (1.0,))[1]
    h = 1e-5
    np.testing.assert_allclose(
        t, (nd.gaussian_filter(X, 1.1 + h) - nd.gaussian_filter(X, 1.1 - h)) / (2 * h), atol=1e-8
    )
    with pytest.raises(UnsupportedError, match="give radius="):
        da.vmap(f)(np.array([1.0, 2.0]))
    found = da.vmap(lambda s: ours.gaussian_filter(X, s, radius=4))(np.array([1.0, 0.7]))
    np.testing.assert_allclose(found[1], nd.gaussian_filter(X, 0.7, radius=4))


@pytest.mark.parametrize("mode", ["reflect", "constant", "wrap"])
@pytest.mark.parametrize("name", ["sobel", "prewitt", "laplace", "uniform_filter", "uniform_filter1d"])
def test_small_filters(name: str, mode: str) -> None:
    f, g = getattr(ours, name), getattr(nd, name)
    size = {"uniform_filter": (3,), "uniform_filter1d": (4,)}.get(name, ())
    agrees(lambda x: f(x, *size, mode=mode, cval=0.3), lambda x: g(x, *size, mode=mode, cval=0.3), X)
    if name.startswith("uniform"):
        agrees(lambda x: f(x, 3, origin=1), lambda x: g(x, 3, origin=1), X)
    elif name != "laplace":
        agrees(lambda x: f(x, 0), lambda x: g(x, 0), X)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_interpolation_at_coordinates(mode: str, order: int) -> None:
    inside = np.array([[0.3, 1.7, 2.2], [3.4, 0.6, 2.9]])
    far = np.array([[-0.3, 8.6, 3.2, -11.3, 1.4, 17.7], [4.2, -0.8, 2.4, 1.7, -6.4, 9.3]])
    for c in (inside, far, far[:, :, None]):
        f = lambda x, c: ours.map_coordinates(x, c, order=order, mode=mode, cval=0.6)
        agrees(f, lambda x, c: nd.map_coordinates(x, c, order=order, mode=mode, cval=0.6), X, c, order=3, near=0.001)
    line = np.linspace(-13, 13, 53)[None] + 0.07
    f = lambda x, c: ours.map_coordinates(x, c, order=order, mode=mode)
    agrees(f, lambda x, c: nd.map_coordinates(x, c, order=order, mode=mode), X[0], line, near=1e-4)


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("mode", MODES)
def test_splines(mode: str, order: int) -> None:
    """Differences see the derivatives of SciPy's own interpolation; the second ones, those of our first."""
    rng = np.random.default_rng(order)
    image, c = rng.normal(size=(6, 5)), rng.uniform(-3, 8, size=(2, 12))
    t, tc = rng.normal(size=image.shape), rng.normal(size=c.shape)
    ours_at, scipys_at = (
        lambda h, at=at: at(image + h * t, c + h * tc, order=order, mode=mode, cval=0.6)
        for at in (ours.map_coordinates, nd.map_coordinates)
    )
    value, slope = da.jvp(ours_at, (0.0,), (1.0,))
    h = 1e-6
    np.testing.assert_allclose(value, scipys_at(0.0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(slope, (scipys_at(h) - scipys_at(-h)) / (2 * h), rtol=1e-5, atol=1e-6)
    first = lambda h: da.jvp(ours_at, (h,), (1.0,))[1]
    np.testing.assert_allclose(da.jvp(first, (0.0,), (1.0,))[1], (first(h) - first(-h)) / (2 * h), rtol=1e-4, atol=1e-4)
    f = lambda x: ours.map_coordinates(x, c, order=order, mode=mode)
    weights = rng.normal(size=12)
    np.testing.assert_allclose(np.sum(da.vjp(f, image)[1](weights)[0] * t), weights @ da.jvp(f, (image,), (t,))[1])
    stack = np.stack([image, t])
    np.testing.assert_allclose(da.vmap(f)(stack), [f(image), f(t)], rtol=1e-9, atol=1e-12)
    agrees(lambda x: ours.spline_filter(x, order, mode=mode), lambda x: nd.spline_filter(x, order, mode=mode), image)


@pytest.mark.filterwarnings("ignore:promoting specified output")  # SciPy's, of complex images
def test_splines_without_filter_of_one_axis_and_of_complex_images() -> None:
    c = np.array([[0.3, 2.6, 4.9]])
    line, z = X[0], X[0] + 1j * X[0][::-1]
    for f, g in (
        (lambda x: ours.map_coordinates(x, c, prefilter=False), lambda x: nd.map_coordinates(x, c, prefilter=False)),
        (lambda x: ours.spline_filter1d(x, 4), lambda x: nd.spline_filter1d(x, 4)),
        (lambda x: ours.spline_filter1d(x, 1), lambda x: nd.spline_filter1d(x, 1)),
    ):
        for x in (line, line.astype(np.float32), z):
            value, tangent = da.jvp(f, (x,), (x,))
            assert value.dtype == tangent.dtype == g(x).dtype
            np.testing.assert_allclose(value, g(x), rtol=1e-5)
            np.testing.assert_allclose(tangent, g(x), rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_coordinates_on_the_grid(mode: str) -> None:
    """At an entry the value is exact; the slope is that of the next interval, at the last entry of the last one."""
    x = np.array([1.0, 3.0, 4.0, 9.0])
    c = np.array([[0.0, 1.0, 2.0, 3.0]])
    value, slope = da.jvp(lambda c: ours.map_coordinates(x, c, order=1, mode=mode), (c,), (np.ones_like(c),))
    np.testing.assert_array_equal(value, nd.map_coordinates(x, c, order=1, mode=mode))
    np.testing.assert_array_equal(slope[:3], [2.0, 1.0, 5.0])
    last = {"constant": 5.0, "wrap": 5.0, "mirror": -5.0, "grid-wrap": -8.0, "grid-constant": -9.0}.get(mode, 0.0)
    assert slope[3] == last


def test_one_entry() -> None:
    for mode in MODES:
        f = lambda x, c: ours.map_coordinates(x, c, order=1, mode=mode, cval=2.0)
        agrees(
            f, lambda x, c: nd.map_coordinates(x, c, order=1, mode=mode, cval=2.0), X[0, :1], np.array([[0.4, -0.3]])
        )


@pytest.mark.parametrize("mode", ["nearest", "mirror", "constant"])
@pytest.mark.slow
def test_against_jax(mode: str) -> None:
    c = np.array([[0.3, 1.7, 2.2], [3.4, 0.6, 2.9]])
    f = lambda x, c: np.sum(np.sin(ours.map_coordinates(x, c, order=1, mode=mode)))
    g = lambda x, c: jax.numpy.sin(jax.scipy.ndimage.map_coordinates(x, list(c), 1, mode)).sum()
    for found, expected in zip(da.grad(f, (0, 1))(X, c), jax.grad(g, (0, 1))(X, c), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_dtypes() -> None:
    x = X.astype(np.float32)
    for f in (lambda x: ours.gaussian_filter(x, 1.0), lambda x: ours.map_coordinates(x, [[0.5], [1.5]], order=1)):
        value, tangent = da.jvp(f, (x,), (x,))
        assert value.dtype == tangent.dtype == f(x).dtype == np.float32
    assert da.jvp(lambda x: ours.sobel(x, output=np.float64), (x,), (x,))[1].dtype == np.float64
    whole = np.arange(12).reshape((2, 6))
    found = da.vmap(lambda x: ours.correlate1d(x, [1, 2, 1]))(whole)
    np.testing.assert_array_equal(found, nd.correlate1d(whole, [1, 2, 1], axis=1))
    assert found.dtype == whole.dtype


def test_errors() -> None:
    jvp = lambda f: da.jvp(f, (X,), (X,))
    with pytest.raises(InPlaceError, match="output="):
        jvp(lambda x: ours.gaussian_filter(x, 1.0, output=np.zeros_like(X)))
    for f in (lambda x: ours.map_coordinates(x, [[0.5], [1.5]], order=6), lambda x: ours.spline_filter(x, 1)):
        with pytest.raises(RuntimeError, match="spline order not supported"):
            jvp(f)
    with pytest.raises(RuntimeError, match="mode not supported"):
        jvp(lambda x: ours.correlate1d(x, WEIGHTS, mode="odd"))
    with pytest.raises(ValueError, match="origin"):
        jvp(lambda x: ours.correlate1d(x, WEIGHTS, origin=3))
    with pytest.raises(RuntimeError, match="coordinate array"):
        jvp(lambda x: ours.map_coordinates(x, [[0.5]], order=1))
    with pytest.raises(UnsupportedError, match="median_filter"):
        jvp(lambda x: ours.median_filter(x, 3))
