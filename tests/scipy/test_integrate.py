"""`dualad.scipy.integrate` against SciPy, JAX and central differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate as si

import dualad as da
import dualad.scipy.integrate as ours
from dualad.errors import UnsupportedError
from tests.oracles.jax_side import jax, jnp
from tests.oracles.mirrored import agrees

RNG = np.random.default_rng(5)
Y = RNG.normal(size=9)
GRID = np.sort(RNG.uniform(0, 3, 9)) + 0.1 * np.arange(9)
TABLE = RNG.normal(size=(2, 6, 3))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 9])
@pytest.mark.parametrize("name", ["trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson"])
def test_samples_and_points(name: str, n: int) -> None:
    f, g = getattr(ours, name), getattr(si, name)
    agrees(lambda y: f(y), lambda y: g(y), Y[:n])
    agrees(lambda y, dx: f(y, dx=dx), lambda y, dx: g(y, dx=dx), Y[:n], np.asarray(0.3))
    agrees(lambda y, x: f(y, x=x), lambda y, x: g(y, x=x), Y[:n], GRID[:n], order=3, near=0.001)


@pytest.mark.parametrize("name", ["trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson"])
def test_axes(name: str) -> None:
    f, g = getattr(ours, name), getattr(si, name)
    for axis in (0, 1, -1):
        n = TABLE.shape[axis]
        agrees(lambda y, x: f(y, x=x, axis=axis), lambda y, x: g(y, x=x, axis=axis), TABLE, GRID[:n], near=0.001)
    x = np.cumsum(RNG.uniform(0.5, 1, TABLE.shape), 1)
    agrees(lambda y, x: f(y, x=x, axis=1), lambda y, x: g(y, x=x, axis=1), TABLE, x, near=0.001)
    agrees(lambda y: f(y, axis=1), lambda y: g(y, axis=1), TABLE[:, :, 0] + 1j * TABLE[:, :, 1])


def test_initial_values() -> None:
    agrees(lambda y: ours.cumulative_trapezoid(y, initial=0), lambda y: si.cumulative_trapezoid(y, initial=0), Y)
    agrees(
        lambda y, i: ours.cumulative_simpson(y, initial=i), lambda y, i: si.cumulative_simpson(y, initial=i),
        Y, np.asarray(0.7),
    )  # fmt: skip
    agrees(
        lambda y, i: ours.cumulative_simpson(y, initial=i, axis=1),
        lambda y, i: si.cumulative_simpson(y, initial=i, axis=1),
        TABLE,
        TABLE[:, :1],
    )


@pytest.mark.parametrize("n", [2, 3, 5, 9])
def test_romberg(n: int) -> None:
    agrees(lambda y, dx: ours.romb(y, dx), lambda y, dx: si.romb(y, dx), Y[:n], np.asarray(0.5))
    agrees(lambda y: ours.romb(y, axis=0), lambda y: si.romb(y, axis=0), RNG.normal(size=(n, 2)))


@pytest.mark.slow
def test_against_jax() -> None:
    found = da.grad(lambda y, x: ours.trapezoid(y**2, x), (0, 1))(Y, GRID)
    expected = jax.grad(lambda y, x: jnp.trapezoid(y**2, x), (0, 1))(Y, GRID)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_neighbouring_points_that_coincide_count_as_nothing() -> None:
    x = np.array([0.0, 1.0, 1.0, 2.0, 3.0])
    value, tangent = da.jvp(lambda y: ours.simpson(y, x=x), (Y[:5],), (np.ones(5),))
    np.testing.assert_allclose(value, si.simpson(Y[:5], x=x))
    np.testing.assert_allclose(tangent, si.simpson(np.ones(5), x=x))


def test_single_precision() -> None:
    y = Y.astype(np.float32)
    for f in (ours.trapezoid, ours.simpson, ours.cumulative_trapezoid, ours.cumulative_simpson):
        assert da.jvp(f, (y,), (y,))[1].dtype == f(y).dtype


def test_errors() -> None:
    with pytest.raises(ValueError, match="length of x along axis"):
        da.jvp(lambda y: ours.simpson(y, x=GRID[:4]), (Y,), (Y,))
    with pytest.raises(ValueError, match="one plus a non-negative power of 2"):
        da.jvp(ours.romb, (Y[:4],), (Y[:4],))
    with pytest.raises(ValueError, match="At least one point"):
        da.jvp(ours.cumulative_trapezoid, (Y[:0],), (Y[:0],))
    with pytest.raises(UnsupportedError, match=r"scipy\.integrate\.tanhsinh"):
        da.jvp(lambda x: ours.tanhsinh(np.sin, 0, x), (1.0,), (1.0,))


def test_a_rule_of_fixed_order() -> None:
    f = lambda x, k: np.sin(k * x) + x**2
    agrees(
        lambda a, b, k: ours.fixed_quad(f, a, b, (k,), 7)[0], lambda a, b, k: si.fixed_quad(f, a, b, (k,), 7)[0],
        np.asarray(0.2), np.asarray(1.3), np.asarray(2.0),
    )  # fmt: skip
