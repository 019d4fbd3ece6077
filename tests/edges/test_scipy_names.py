"""Functions of SciPy that people call on tensors: zeta functions, harmonics, statistics of samples, and their errors.

Not for: SciPy's other functions (``tests/scipy``).
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats

import dualad as da
import dualad.scipy.special as special
import dualad.scipy.stats as stats
from dualad.errors import ConversionError, RuleMissingError, UnsupportedError


@pytest.mark.parametrize(("x", "q"), [(1.2, 0.3), (2.5, 1.0), (4.0, 10.0), (30.0, 0.7), (1.0001, 2.0), (60.0, 1.5)])
def test_hurwitz_zeta_in_both_arguments(x, q):
    mp = pytest.importorskip("mpmath")
    z = scipy.special.zeta
    order = [float(mp.zeta(x, q, k)) for k in range(4)]
    assert da.grad(z)(x, q) == pytest.approx(order[1], rel=1e-13)
    assert da.jacfwd(da.grad(z))(x, q) == pytest.approx(order[2], rel=1e-13)
    assert da.grad(da.grad(da.grad(z)))(x, q) == pytest.approx(order[3], rel=1e-13)
    with mp.workdps(40):
        mixed = float(mp.diff(lambda q: mp.zeta(x, q, 1), q))
    assert da.grad(da.grad(z, 1), 0)(x, q) == pytest.approx(mixed, rel=1e-12)
    assert da.grad(da.grad(z, 0), 1)(x, q) == pytest.approx(mixed, rel=1e-12)


@pytest.mark.parametrize("x", [20.0, 2.5, 1.5, 0.5, 0.01, -0.3, -2.0, -3.7, -6.0, -12.3])
def test_riemann_zeta_on_the_whole_line(x):
    mp = pytest.importorskip("mpmath")
    z = lambda x: scipy.special.zeta(x)
    assert da.grad(z)(x) == pytest.approx(float(mp.zeta(x, 1, 1)), rel=1e-12)
    assert da.grad(da.grad(z))(x) == pytest.approx(float(mp.zeta(x, 1, 2)), rel=1e-11)


def test_zeta_outside_its_domain():
    assert np.isnan(da.grad(scipy.special.zeta)(0.5, 2.0))
    with pytest.raises(RuleMissingError, match="complex"):
        da.jvp(lambda x: scipy.special.zeta(x), (2.0 + 1j,), (1.0 + 0j,))


@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 0), (1, -1), (3, 2), (3, -3), (4, 4), (2, 3)])
def test_spherical_harmonics(n, m):
    point = np.array([0.7, 1.3])
    parts = lambda p: np.stack([(y := special.sph_harm_y(n, m, p[0], p[1])).real, y.imag])
    _, first, second = scipy.special.sph_harm_y(n, m, *point, diff_n=2)
    for jacobian in (da.jacfwd, da.jacrev):
        np.testing.assert_allclose(jacobian(parts)(point), [first.real, first.imag], atol=1e-14)
        np.testing.assert_allclose(jacobian(jacobian(parts))(point), [second.real, second.imag], atol=1e-13)


@pytest.mark.parametrize("name", ["spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_second_derivatives_of_spherical_bessel_functions(name, n):
    f = lambda x: getattr(special, name)(n, x)
    x = 1.7
    first = getattr(scipy.special, name)(n, x, derivative=True)
    assert da.grad(f)(x) == pytest.approx(first, rel=1e-12)
    # z² f″ + 2 z f′ + (±z² − n(n+1)) f = 0
    sign = 1 if name[-2] in "jy" else -1
    assert da.grad(da.grad(f))(x) == pytest.approx(-2 / x * first - (sign - n * (n + 1) / x**2) * f(x), rel=1e-11)


SAMPLE = np.random.default_rng(0).gamma(2.0, size=(6, 4)) + 0.3
OTHER = SAMPLE[::-1] ** 1.5
STATISTICS = [
    ("moment", (), {"order": 3}), ("moment", (), {"order": [1, 2, 4]}), ("moment", (), {"order": 2, "center": 0.5}),
    ("skew", (), {}), ("skew", (), {"bias": False, "axis": 1}), ("skew", (), {"axis": None, "keepdims": True}),
    ("kurtosis", (), {}), ("kurtosis", (), {"bias": False, "fisher": False}), ("variation", (), {}),
    ("variation", (), {"ddof": 1, "axis": None}), ("sem", (), {}), ("sem", (), {"axis": (0, 1)}), ("zscore", (), {}),
    ("zscore", (), {"axis": None, "ddof": 1}), ("zmap", (OTHER,), {}), ("gmean", (), {}),
    ("gmean", (), {"weights": OTHER}), ("hmean", (), {}), ("pmean", (3,), {"axis": 1}), ("pmean", (0,), {}),
    ("gstd", (), {}), ("trim_mean", (0.2,), {}), ("trim_mean", (0.2,), {"axis": None}), ("tmean", ((0.5, 3.0),), {}),
    ("tvar", ((0.5, 3.0),), {}), ("tstd", ((None, 3.0),), {}), ("tsem", ((0.5, None),), {}),
    ("median_abs_deviation", (), {}), ("median_abs_deviation", (), {"scale": "normal", "axis": None}), ("iqr", (), {}),
    ("iqr", (), {"axis": 0, "rng": (10, 80), "scale": "normal"}), ("entropy", (), {}),
    ("entropy", (), {"base": 2, "axis": 1}), ("entropy", (OTHER,), {}), ("circmean", (), {}),
    ("circmean", (), {"axis": 0, "high": 3, "low": -1}), ("circvar", (), {"axis": 0}), ("circstd", (), {"axis": 0}),
    ("circstd", (), {"axis": 1, "normalize": True}), ("pearsonr", (OTHER,), {}),
    ("pearsonr", (OTHER,), {"alternative": "less", "axis": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), STATISTICS)
def test_statistics_of_samples(name, args, kwargs):
    def of(module):
        def f(x):
            out = getattr(module, name)(x, *args, **kwargs)
            return np.stack([out.statistic, out.pvalue]) if name == "pearsonr" else out

        return f

    ours, theirs, t = of(stats), of(scipy.stats), np.cos(SAMPLE)
    value, tangent = da.jvp(ours, (SAMPLE,), (t,))
    expected = theirs(SAMPLE)
    assert np.shape(value) == np.shape(expected)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    h = 1e-6
    np.testing.assert_allclose(
        tangent, (theirs(SAMPLE + h * t) - theirs(SAMPLE - h * t)) / (2 * h), rtol=1e-6, atol=1e-8
    )
    w = np.random.default_rng(1).normal(size=np.shape(expected))
    gradient = da.grad(lambda x: np.sum(w * ours(x)))(SAMPLE)
    assert np.sum(gradient * t) == pytest.approx(np.sum(w * tangent), rel=1e-10)
    h = 1e-4
    second = da.jvp(lambda x: da.jvp(ours, (x,), (t,))[1], (SAMPLE,), (t,))[1]
    estimate = (theirs(SAMPLE + h * t) - 2 * expected + theirs(SAMPLE - h * t)) / h**2
    np.testing.assert_allclose(second, estimate, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(estimate).max()))
    np.testing.assert_allclose(da.vmap(ours)(np.stack([SAMPLE, 2 * SAMPLE]))[1], theirs(2 * SAMPLE), rtol=1e-12)


def test_statistics_that_can_not_be_had():
    with pytest.raises(UnsupportedError, match="nan_policy"):
        da.grad(lambda x: stats.skew(x, nan_policy="omit"))(np.ones(4))
    assert np.isnan(da.jvp(stats.skew, (np.ones(4),), (np.ones(4),))[0])


@pytest.mark.plain
@pytest.mark.parametrize(
    "call",
    [
        lambda x: scipy.special.sph_harm_y(2, 1, x, 0.2).real, lambda x: scipy.special.polygamma(1, x),
        lambda x: scipy.special.logsumexp(x), lambda x: scipy.special.multigammaln(x, 2), scipy.stats.skew,
        lambda x: scipy.stats.zscore(x), lambda x: scipy.stats.gmean(x), lambda x: scipy.stats.iqr(x),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("under", "shape"), [(da.vmap, (3, 3)), (da.make_program, 3), (da.jacrev, 3)])
def test_scipys_own_function_names_ours(call, under, shape):
    with pytest.raises(ConversionError, match=r"use dualad\.scipy\."):
        under(call)(np.full(shape, 2.5))
