"""`dualad.scipy.signal` against SciPy, JAX and central differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal as sg

import dualad as da
import dualad.scipy.signal as ours
from dualad.errors import UnsupportedError
from tests.oracles.jax_side import jax
from tests.oracles.mirrored import agrees

RNG = np.random.default_rng(17)
X = RNG.normal(size=9)
IMAGE = RNG.normal(size=(4, 5))
B, A = np.array([0.3, -0.2, 0.5]), np.array([1.3, -0.4, 0.2, 0.1])
MODES = ["full", "same", "valid"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_convolution(name: str, mode: str) -> None:
    f, g = getattr(ours, name), getattr(sg, name)
    for method in ("auto", "direct", "fft"):
        for x, y in ((X, X[:4]), (X[:3], X), (IMAGE, IMAGE[:2, :3]), (IMAGE[:3, :2], IMAGE[1:])):
            if mode == "same" and name == "correlate" and method == "direct" and y.size > x.size:
                continue  # SciPy's "direct" and "fft" then differ in where the middle is
            agrees(lambda x, y: f(x, y, mode, method), lambda x, y: g(x, y, mode, method), x, y)
    agrees(lambda x, y: f(x, y, mode), lambda x, y: g(x, y, mode), X + 1j * X[::-1], X[:3] - 2j * X[3:6])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["fftconvolve", "oaconvolve"])
def test_fast_convolution(name: str, mode: str) -> None:
    f, g = getattr(ours, name), getattr(sg, name)
    agrees(lambda x, y: f(x, y, mode), lambda x, y: g(x, y, mode), X, X[:4])
    agrees(lambda x, y: f(x, y, mode), lambda x, y: g(x, y, mode), IMAGE, IMAGE[:2, :3])
    agrees(lambda x, y: f(x, y, mode, axes=1), lambda x, y: g(x, y, mode, axes=1), IMAGE, IMAGE[:1, :3])
    agrees(lambda x, y: f(x, y, mode, axes=0), lambda x, y: g(x, y, mode, axes=0), IMAGE, IMAGE[:2])


def test_fast_convolution_along_any_axes() -> None:
    """A thousand choices of shapes (1 on either side), axes and modes: SciPy's values; bilinear; transposed."""
    rng, done = np.random.default_rng(5), 0
    while done < 1000:
        d = int(rng.integers(1, 4))
        chosen = rng.permutation(d)[: rng.integers(1, d + 1)]
        first = rng.integers(1, 5, d)
        second = np.where(np.isin(range(d), chosen), rng.integers(1, 5, d), np.where(rng.random(d) < 0.7, first, 1))
        if rng.random() < 0.2:
            first = np.where(np.isin(range(d), chosen), first, 1)
        x, y = rng.normal(size=first), rng.normal(size=second)
        axes = None if rng.random() < 0.1 else tuple(int(a) - d * int(rng.integers(2)) for a in chosen)
        mode, name = MODES[rng.integers(3)], ("fftconvolve", "oaconvolve")[rng.integers(2)]
        f = lambda x, y, m=mode, n=name, axes=axes: getattr(ours, n)(x, y, m, axes=axes)
        try:
            expected = getattr(sg, name)(x, y, mode, axes=axes)
        except ValueError:
            with pytest.raises(ValueError, match=r"valid|incompatible"):
                da.jvp(f, (x, y), (x, y))
            continue
        value, tangent = da.jvp(f, (x, y), (2 * x, 3 * y))
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected, atol=1e-12)
        np.testing.assert_allclose(tangent, 5 * expected, atol=1e-11)
        seed = rng.normal(size=expected.shape)
        back = da.vjp(f, x, y)[1](seed)
        np.testing.assert_allclose([np.sum(b * z) for b, z in zip(back, (x, y), strict=True)], np.sum(seed * expected))
        done += 1


@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_convolution_of_matrices(name: str, mode: str, boundary: str) -> None:
    f, g = getattr(ours, name), getattr(sg, name)
    for shape in ((3, 3), (2, 4), (1, 2)):
        for fill in (0, 0.7):
            y = RNG.normal(size=shape)
            agrees(lambda x, y: f(x, y, mode, boundary, fill), lambda x, y: g(x, y, mode, boundary, fill), IMAGE, y)


@pytest.mark.slow
def test_convolution_against_jax() -> None:
    f = lambda x, y: np.sum(np.sin(ours.convolve(x, y, "same")))
    g = lambda x, y: jax.numpy.sin(jax.scipy.signal.convolve(x, y, "same")).sum()
    args = IMAGE, IMAGE[:2, :3]
    for found, expected in zip(da.grad(f, (0, 1))(*args), jax.grad(g, (0, 1))(*args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_scalars_and_whole_numbers() -> None:
    assert da.jvp(ours.convolve, (2.0, 3.0), (1.0, 0.0))[1] == 3.0
    whole = np.arange(12).reshape((3, 4))
    found = da.vmap(lambda x: ours.convolve(x, np.array([1, 2])))(whole)
    np.testing.assert_array_equal(found, np.stack([sg.convolve(x, np.array([1, 2])) for x in whole]))
    assert found.dtype == whole.dtype


# ── filters ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lfilter() -> None:
    f, g = ours.lfilter, sg.lfilter
    agrees(lambda b, a, x: f(b, a, x), lambda b, a, x: g(b, a, x), B, A, X, order=3)
    agrees(lambda b, x: f(b, 2.0, x), lambda b, x: g(b, 2.0, x), B, X)
    agrees(lambda a, x: f([1.0], a, x), lambda a, x: g([1.0], a, x), A, X[:2])
    for axis in (0, 1):
        agrees(lambda b, a, x: f(b, a, x, axis), lambda b, a, x: g(b, a, x, axis), B, A, IMAGE)
    agrees(lambda b, a, x: f(b, a, x), lambda b, a, x: g(b, a, x), B, A, X + 1j * X[::-1])


@pytest.mark.parametrize("n", [1, 2, 9])
def test_lfilter_with_a_state(n: int) -> None:
    f, g = ours.lfilter, sg.lfilter
    zi = RNG.normal(size=3)
    agrees(lambda *v: f(*v[:3], zi=v[3]), lambda *v: g(*v[:3], zi=v[3]), B, A, X[:n], zi)
    agrees(lambda b, x, z: f(b, 1.0, x, zi=z), lambda b, x, z: g(b, 1.0, x, zi=z), B, X[:n], zi[:2])
    z = RNG.normal(size=(3, 5))
    agrees(lambda x, z: f(B, A, x, 0, z), lambda x, z: g(B, A, x, 0, z), IMAGE, z)
    first, state = da.jvp(lambda x: f(B, A, x, zi=zi), (X[:4],), (X[:4],))[0]
    second = da.jvp(lambda x: f(B, A, x, zi=state)[0], (X[4:],), (X[4:],))[0]
    np.testing.assert_allclose(np.concatenate([first, second]), g(B, A, X, zi=zi)[0])


def test_filtfilt_and_states_at_rest() -> None:
    agrees(lambda b, a: ours.lfilter_zi(b, a), lambda b, a: sg.lfilter_zi(b, a), B, A)
    agrees(lambda b, a: ours.lfilter_zi(b, a), lambda b, a: sg.lfilter_zi(b, a), B, A[:2])
    for y, x in ((X[:3], X[3:6]), (X[:1], X[2:9]), (X[:5], X[:1])):
        agrees(lambda b, a, y, x: ours.lfiltic(b, a, y, x), lambda b, a, y, x: sg.lfiltic(b, a, y, x), B, A, y, x)
        agrees(lambda a, y: ours.lfiltic([1.0], a, y), lambda a, y: sg.lfiltic([1.0], a, y), A, y)
    x = RNG.normal(size=(2, 16))
    for padtype in ("odd", "even", "constant", None):
        f = lambda b, a, x: ours.filtfilt(b, a, x, padtype=padtype)
        agrees(f, lambda b, a, x: sg.filtfilt(b, a, x, padtype=padtype), B, A, x)
    agrees(lambda x: ours.filtfilt(B, A, x, 0, padlen=4), lambda x: sg.filtfilt(B, A, x, 0, padlen=4), x.T)


def test_sosfilt() -> None:
    sos = sg.butter(4, 0.3, output="sos")
    join = lambda b, a: np.concatenate([b, np.ones((2, 1)), a], 1)  # SciPy takes sections whose a₀ is one only
    f, g = lambda b, a, x: ours.sosfilt(join(b, a), x), lambda b, a, x: sg.sosfilt(join(b, a), x)
    agrees(f, g, sos[:, :3], sos[:, 4:], X)
    agrees(lambda x: ours.sosfilt(sos, x, 0), lambda x: sg.sosfilt(sos, x, 0), IMAGE)
    zi = RNG.normal(size=(2, 2))
    agrees(lambda x, z: ours.sosfilt(sos, x, zi=z), lambda x, z: sg.sosfilt(sos, x, zi=z), X, zi)


@pytest.mark.slow
def test_filter_against_a_python_loop_in_jax() -> None:
    def g(b, a, x):
        y = []
        for n in range(len(x)):
            total = sum(b[k] * x[n - k] for k in range(len(b)) if n >= k)
            y.append((total - sum(a[k] * y[n - k] for k in range(1, len(a)) if n >= k)) / a[0])
        return jax.numpy.sin(jax.numpy.stack(y)).sum()

    f = lambda b, a, x: np.sum(np.sin(ours.lfilter(b, a, x)))
    for found, expected in zip(da.grad(f, (0, 1, 2))(B, A, X), jax.grad(g, (0, 1, 2))(B, A, X), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", ["interp", "mirror", "constant", "nearest", "wrap"])
def test_savgol(mode: str) -> None:
    for window, order, deriv in ((5, 2, 0), (5, 3, 1), (4, 2, 0), (7, 2, 2)):
        f = lambda x: ours.savgol_filter(x, window, order, deriv, 0.5, mode=mode)
        agrees(f, lambda x: sg.savgol_filter(x, window, order, deriv, 0.5, mode=mode), X)
    agrees(
        lambda x: ours.savgol_filter(x, 3, 1, axis=0, mode=mode),
        lambda x: sg.savgol_filter(x, 3, 1, axis=0, mode=mode),
        IMAGE,
    )


def test_detrend_and_hilbert() -> None:
    for kind in ("linear", "constant"):
        agrees(lambda x: ours.detrend(x, type=kind), lambda x: sg.detrend(x, type=kind), IMAGE)
        agrees(lambda x: ours.detrend(x, 0, kind), lambda x: sg.detrend(x, 0, kind), IMAGE)
    agrees(lambda x: ours.detrend(x, bp=[3, 6]), lambda x: sg.detrend(x, bp=[3, 6]), X)
    for n in (None, 6, 12):
        agrees(lambda x: ours.hilbert(x, n), lambda x: sg.hilbert(x, n), X)
    agrees(lambda x: ours.hilbert(x, axis=0), lambda x: sg.hilbert(x, axis=0), IMAGE)


def test_single_precision() -> None:
    x, b, a = X.astype(np.float32), B.astype(np.float32), A.astype(np.float32)
    for f in (
        lambda x: ours.convolve(x, b), lambda x: ours.lfilter(b, a, x), lambda x: ours.savgol_filter(x, 5, 2),
        ours.detrend, ours.hilbert,
    ):  # fmt: skip
        value, tangent = da.jvp(f, (x,), (x,))
        assert value.dtype == tangent.dtype == f(x).dtype


def test_errors() -> None:
    jvp = lambda f: da.jvp(f, (X,), (X,))
    with pytest.raises(ValueError, match="same dimensionality"):
        jvp(lambda x: ours.convolve(x, IMAGE))
    with pytest.raises(ValueError, match="mode flags"):
        jvp(lambda x: ours.convolve(x, X, "some"))
    with pytest.raises(ValueError, match="method flags"):
        jvp(lambda x: ours.convolve(x, X, "full", "magic"))
    with pytest.raises(ValueError, match="greater than padlen"):
        jvp(lambda x: ours.filtfilt(B, A, x))
    with pytest.raises(ValueError, match="zi"):
        jvp(lambda x: ours.lfilter(B, A, x, zi=np.zeros(2)))
    with pytest.raises(ValueError, match="every dimension"):
        da.jvp(lambda x: ours.convolve(x, IMAGE.T, "valid"), (IMAGE,), (IMAGE,))
    with pytest.raises(UnsupportedError, match="welch"):
        jvp(ours.welch)
