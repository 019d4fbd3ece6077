"""Derivatives of noncentral t and F in their shapes, against sums and quadrature of many digits.

Not for: the laws that are not mixed (`test_shape_parameters.py`).
"""

from __future__ import annotations

import warnings

import mpmath as mp
import numpy as np
import pytest

import dualad as da
import dualad.scipy.stats as stats
from dualad.ops.noncentral_t import noncentral_t
from dualad.ops.poisson_mixture import beta_mixture, beta_mixture_step, gamma_mixture
from dualad.ops.shape_parameters import beta_integral, gamma_integral
from tests.ops.test_shape_parameters import derivatives, lower_beta, slope


def noncentral_f(x, n, m, nc):
    """Add up incomplete beta functions, which follow from one another with sixty digits to lose."""
    a, b, y = n / 2, m / 2, n * x / (n * x + m)
    weight, part, total, j = mp.exp(-nc / 2), lower_beta(a, b, y, 1 - y), mp.mpf(0), 0
    step = y**a * (1 - y) ** b * mp.exp(mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b))
    while j < nc + 30 or weight > 1e-60:
        total += weight * part
        part, step, j = part - step, step * y * (a + j + b) / (a + j + 1), j + 1
        weight *= nc / (2 * j)
    return total


@pytest.mark.parametrize(
    ("x", "n", "m", "nc"),
    [(1.3, 3.0, 5.0, 2.0), (40.0, 0.3, 0.6, 90.0), (0.02, 7.0, 50.0, 30.0), (9.0, 99.0, 4.0, 0.1),
     (1.1, 60.0, 80.0, 7.0)],
)  # fmt: skip
def test_noncentral_f(x: float, n: float, m: float, nc: float) -> None:
    at, f = (x, n, m, nc), stats.ncf.cdf
    slopes, second = np.empty(4), np.empty(4)
    with mp.workdps(90):
        for i in range(4):
            slopes[i], second[i] = derivatives(noncentral_f, at, i, 1)
    np.testing.assert_allclose(da.grad(f, argnums=(0, 1, 2, 3))(*at), slopes, rtol=3e-12)
    np.testing.assert_allclose(
        da.grad(lambda *p: da.grad(f, argnums=1)(*p), argnums=(0, 1, 2, 3))(*at), second, rtol=1e-10
    )
    compiled = da.jit(da.grad(lambda n: stats.ncf.sf(x, n, m, nc)))(n)
    assert compiled == pytest.approx(-slopes[1], rel=3e-12)
    lanes = da.vmap(da.grad(lambda n, x: f(x, n, m, nc)), in_axes=(None, 0))(n, np.array([0.5 * x, x]))
    assert lanes[1] == pytest.approx(slopes[1], rel=3e-12)


def test_mixtures_everywhere() -> None:
    """Finite, without a warning, from shapes of 1e-5 to 1e5 and without noncentrality; of the sign that they have."""
    rng = np.random.default_rng(9)
    a, b, lam, x = 10 ** rng.uniform(-5, [[5], [5], [3], [5]], (4, 400))
    lam[:20] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [beta_mixture(lam, a, b, x, i=i, j=1 - i) for i in (1, 0)]
        found += [beta_mixture_step(lam, a, b, x, i=0, j=0, power=1), gamma_mixture(lam, a, x, order=1)]
        twice = beta_mixture(lam, a, b, x, i=1, j=1), gamma_mixture(lam, a, x, order=2)
    assert all(np.all(np.isfinite(f)) for f in (*found, *twice))
    assert all(np.all(sign * f >= 0) for sign, f in zip((-1, 1, 1, -1), found, strict=True))
    np.testing.assert_allclose(found[0][:20], beta_integral(a, b, x, i=1, j=0, form="odds")[:20], rtol=1e-13)
    np.testing.assert_allclose(found[3][:20], gamma_integral(a, x, order=1)[:20], rtol=1e-13)
    assert beta_mixture(np.float32(1), np.float32(2), 3.0, 0.5, i=1, j=0).dtype == np.float32
    assert beta_mixture(np.ones((0, 3)), np.ones(3), 2.0, 0.5, i=1, j=0).shape == (0, 3)
    assert beta_mixture(1.0, 2.0, 3.0, 0.0, i=1, j=0) == 0.0 and np.isnan(beta_mixture(-1.0, 2.0, 3.0, 1.0, i=1, j=0))


@pytest.mark.parametrize(
    ("df", "nc", "x"),
    [(0.8, 1.0, 40.0), (0.8, -3.0, -2.0), (0.8, 0.5, 0.3), (0.9, 6.0, 0.1), (80.0, -1.0, 4.0),
     (2e3, 6.0, 5.0), (5.0, 0.0, 1e-3), (1.2, 12.0, -3.0)],
)  # fmt: skip
def test_noncentral_t(df: float, nc: float, x: float) -> None:
    """Against sums of the integrand at equal steps in the logarithm of the gamma variable, 25 digits long."""
    a, step = df / 2, min(0.2, 1 / np.sqrt(df), 1 / (1 + abs(nc)))
    slopes = np.zeros(3, object)
    with mp.workdps(25):
        centre = mp.log(a) + 1 - mp.digamma(a)
        front = step * mp.exp(a * mp.log(a) - mp.loggamma(a))
        for u in np.arange(-50 / a - 3, 6, step):
            root, gamma = mp.exp(u / 2), front * mp.exp(a * (u - mp.exp(u)))
            z = x * root - nc
            density, tail = gamma * mp.npdf(z), gamma * (mp.ncdf(z) if x < nc else -mp.ncdf(-z))
            slopes += [tail * (centre + u - root * root) / 2, -density, root * density]
    slopes, at = slopes.astype(float), (df, nc, x)
    f = lambda *p: stats.nct.cdf(p[2], *p[:2])
    np.testing.assert_allclose(da.grad(f, argnums=(0, 1, 2))(*at), slopes, rtol=2e-12)
    g = lambda *p: stats.nct.sf(-p[2], p[0], -p[1])  # the other tail of the mirror image
    np.testing.assert_allclose(da.grad(g, argnums=(0, 1, 2))(*at), slopes, rtol=2e-12)
    steps = [slope(lambda v, i=i: da.grad(f, argnums=1)(*at[:i], v, *at[i + 1 :]), s) for i, s in enumerate(at)]
    mixed = da.jacfwd(lambda v: np.array(da.grad(f, argnums=(0, 1, 2))(df, v, x)))(nc)
    np.testing.assert_allclose(steps, mixed, rtol=1e-9)


def test_noncentral_t_everywhere() -> None:
    """Finite, without a warning, from shapes of 1e-3 to 1e12, and monotonic in the noncentrality."""
    rng = np.random.default_rng(8)
    a, nc = 10 ** rng.uniform(-3, 12, 3000), rng.normal(size=3000) * 10 ** rng.uniform(-3, 2, 3000)
    t = np.where(
        rng.random(3000) < 0.5, nc + rng.normal(size=3000), rng.normal(size=3000) * 10 ** rng.uniform(-9, 9, 3000)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [
            noncentral_t(a, t, nc, k=k, i=i, n=n) for k, i, n in ((1, 0, 0), (2, 0, 0), (0, 1, 0), (0, 1, 1), (1, 1, 1))
        ]
    assert all(np.all(np.isfinite(f)) for f in found)
    assert np.all(found[2] >= 0) and np.all(found[3] >= 0)
    assert noncentral_t(np.float32(2), np.float32(1), 0.5, k=1, i=0, n=0).dtype == np.float32
    assert noncentral_t(np.ones((0, 3)), np.ones(3), 0.5, k=1, i=0, n=0).shape == (0, 3)
    lanes = da.vmap(da.grad(lambda a, t: stats.nct.cdf(t, a, 0.7)))(a[:4], t[:4])
    np.testing.assert_allclose(
        lanes, [da.grad(lambda a, t=t: stats.nct.cdf(t, a, 0.7))(a) for a, t in zip(a[:4], t[:4], strict=True)]
    )
    assert np.isnan(noncentral_t(-1.0, 1.0, 0.5, k=1, i=0, n=0)) and np.isnan(
        noncentral_t(1.0, np.nan, 0.5, k=0, i=1, n=1)
    )
