"""np.fft on tensors: NumPy's values for every name, length, axis and norm, and JAX's derivatives."""

import numpy as np
import pytest

import dualad as da
from tests.oracles.jax_side import jax, jnp

RNG = np.random.default_rng(3)
X = RNG.normal(size=(3, 4, 5))
Z = X + 1j * RNG.normal(size=X.shape)

ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
MANY_AXES = ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"]
NORMS = [None, "backward", "ortho", "forward"]


def argument(name):
    return X if name in ("rfft", "ihfft", "rfftn", "rfft2") else Z


def calls():
    for name in ONE_AXIS:
        for n, axis, norm in [(None, -1, None), (3, 0, "ortho"), (7, 1, "forward"), (4, -2, "backward"), (1, 2, None)]:
            yield name, {"n": n, "axis": axis, "norm": norm}
    for name in MANY_AXES:
        for s, axes, norm in [
            (None, None, None),
            ((2, 6), (0, 2), "ortho"),
            (None, (1, 0), "forward"),
            ((3, 4), None, None),
        ]:
            if name.endswith("2") and axes is None:
                axes = (-2, -1)
            if s is not None and axes is None:
                axes = (-2, -1)
            yield name, {"s": s, "axes": axes, "norm": norm}
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 0, (0, -1)):
            yield name, {"axes": axes}


@pytest.mark.parametrize(("name", "kwargs"), list(calls()), ids=lambda v: v if isinstance(v, str) else None)
def test_values_tangents_and_batches_are_numpys(name, kwargs):
    f = getattr(np.fft, name)
    x = argument(name)
    t = RNG.normal(size=x.shape) * (1 + (1j if np.iscomplexobj(x) else 0))
    value, tangent = da.jvp(lambda a: f(a, **kwargs), (x,), (t,))
    np.testing.assert_allclose(value, f(x, **kwargs), atol=1e-13)
    np.testing.assert_allclose(tangent, f(t, **kwargs), atol=1e-13)  # the transforms are linear
    assert value.dtype == f(x, **kwargs).dtype
    batched = da.vmap(lambda a: f(a, **kwargs), in_axes=1)(np.stack([x, t], axis=1))
    np.testing.assert_allclose(batched, [f(x, **kwargs), f(t, **kwargs)], atol=1e-13)
    c = RNG.normal(size=value.shape) * (1 + (1j if np.iscomplexobj(value) else 0))
    (pulled,) = da.vjp(lambda a: f(a, **kwargs), x)[1](c)
    assert np.sum(pulled * t).real == pytest.approx(np.sum(c * f(t, **kwargs)).real)


@pytest.mark.parametrize("name", [*ONE_AXIS, *MANY_AXES])
def test_gradients_are_jaxs(name):
    f, x = getattr(np.fft, name), argument(name)
    g = getattr(jnp.fft, name)
    expected = jax.grad(lambda a: jnp.sum(jnp.abs(g(a)) ** 2 * 0.1))(x)
    ours = da.grad(lambda a: np.sum(np.abs(f(a)) ** 2 * 0.1))(x)
    np.testing.assert_allclose(ours, expected, atol=1e-10)


def test_single_precision_stays():
    assert da.jvp(np.fft.fft, (X.astype(np.float32),), (X.astype(np.float32),))[1].dtype == np.complex64
    assert da.grad(lambda a: np.sum(np.abs(np.fft.rfft(a)) ** 2))(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    "call", [lambda a: np.fft.fft(a, norm="other"), lambda a: np.fft.fft(a, n=0), lambda a: np.fft.rfft(a * 1j)]
)
def test_bad_calls_are_refused(call):
    with pytest.raises((ValueError, TypeError)):
        da.jvp(call, (X,), (X,))
