"""`dualad.scipy.fft` against SciPy, JAX and central differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft as sf

import dualad as da
import dualad.scipy.fft as ours
from dualad.scipy.mirror import MIRRORED
from tests.oracles.jax_side import jax
from tests.oracles.mirrored import agrees

RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 4))
Z = X + 1j * RNG.normal(size=(3, 4))
ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = [
    "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2", "fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn",
]  # fmt: skip
NORMS = [None, "ortho", "forward"]


def argument(name: str):
    return X if name.startswith(("rfft", "ihfft")) else Z


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ONE_AXIS)
def test_fourier_transforms_along_one_axis(name: str, norm) -> None:
    f, g = getattr(ours, name), getattr(sf, name)
    agrees(lambda x: f(x, norm=norm), lambda x: g(x, norm=norm), argument(name))
    agrees(lambda x: f(x, 5, 0, norm), lambda x: g(x, 5, 0, norm), argument(name))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", SEVERAL)
def test_fourier_transforms_along_several_axes(name: str, norm) -> None:
    f, g, x = getattr(ours, name), getattr(sf, name), argument(name)
    agrees(lambda x: f(x, norm=norm), lambda x: g(x, norm=norm), x)
    agrees(lambda x: f(x, (3, 5), norm=norm), lambda x: g(x, (3, 5), norm=norm), np.stack([x, 2 * x]))
    agrees(lambda x: f(x, axes=(1, 0), norm=norm), lambda x: g(x, axes=(1, 0), norm=norm), x)


@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
def test_cosine_and_sine_transforms(name: str, type: int) -> None:
    f, g = getattr(ours, name), getattr(sf, name)
    for norm in NORMS:
        for orthogonalize in (None, True, False):
            options = {"norm": norm, "orthogonalize": orthogonalize}
            agrees(lambda x: f(x, type, **options), lambda x: g(x, type, **options), X)
    agrees(lambda x: f(x, type, 5, 0), lambda x: g(x, type, 5, 0), X)
    agrees(lambda x: f(x, type, 2, -1), lambda x: g(x, type, 2, -1), X)
    agrees(lambda x: f(x, type, norm="ortho"), lambda x: g(x, type, norm="ortho"), Z)


@pytest.mark.parametrize("name", ["dctn", "idctn", "dstn", "idstn"])
def test_cosine_and_sine_transforms_along_several_axes(name: str) -> None:
    f, g = getattr(ours, name), getattr(sf, name)
    for norm in NORMS:
        agrees(lambda x: f(x, norm=norm), lambda x: g(x, norm=norm), X)
    agrees(lambda x: f(x, 3, (5, 2), (0, 1)), lambda x: g(x, 3, (5, 2), (0, 1)), X)
    agrees(lambda x: f(x, 2, (5,)), lambda x: g(x, 2, (5,)), X)
    agrees(lambda x: f(x, axes=0), lambda x: g(x, axes=0), X)


def test_shifts() -> None:
    for f, g in ((ours.fftshift, sf.fftshift), (ours.ifftshift, sf.ifftshift)):
        agrees(lambda x: f(x), lambda x: g(x), X)
        agrees(lambda x: f(x, 1), lambda x: g(x, 1), Z)


@pytest.mark.slow
def test_cosine_transform_against_jax() -> None:
    found = da.grad(lambda x: np.sum(np.sin(ours.dct(x, norm="ortho"))))(X)
    expected = jax.grad(lambda x: jax.numpy.sin(jax.scipy.fft.dct(x, norm="ortho")).sum())(X)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_orthogonal_transforms_are_their_own_inverse() -> None:
    for type in (1, 2, 3, 4):
        matrix = da.jacrev(lambda x: ours.dst(x, type, norm="ortho"))(X[0])
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(4), atol=1e-14)


def test_single_precision_stays_single() -> None:
    x = X.astype(np.float32)
    assert da.jvp(ours.dct, (x,), (x,))[1].dtype == np.float32
    assert da.jvp(ours.fft, (x,), (x,))[1].dtype == np.complex64


def test_names_of_the_table() -> None:
    assert {f"scipy.fft.{name}" for name in [*ONE_AXIS, *SEVERAL, "dct", "idctn"]} <= set(MIRRORED)
    assert not any(name.endswith(".function") for name in MIRRORED if name.startswith("scipy.fft."))


def test_errors() -> None:
    with pytest.raises(ValueError, match="invalid type"):
        da.jvp(lambda x: ours.dct(x, 5), (X,), (X,))
    with pytest.raises(ValueError, match="DCT-I is not defined"):
        da.jvp(lambda x: ours.dct(x, 1, axis=0), (X[:1],), (X[:1],))
    with pytest.raises(ValueError, match="same length"):
        da.jvp(lambda x: ours.dctn(x, s=(3,), axes=(0, 1)), (X,), (X,))
    with pytest.raises(ValueError, match="norm"):
        da.jvp(lambda x: ours.dct(x, norm="half"), (X,), (X,))
