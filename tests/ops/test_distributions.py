"""Derivatives in shape parameters beside the ends of a support, where a difference has the digits and x has not.

Not for: the rest of the domain (``test_shape_parameters.py``).
"""

from __future__ import annotations

import functools

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp

import dualad as da
import dualad.scipy.stats as stats


def slope(f, x: float, order: int = 1):
    for _ in range(order):
        f = functools.partial(lambda g, x: da.jvp(g, (x,), (np.ones_like(x),))[1], f)
    return f(np.float64(x))


def test_quantiles_of_beta_beside_one() -> None:
    """x = 1 − s^(1/b) for a = 1, where 1 − x, not x, has the digits; and 1 − x is the other one's quantile."""
    for b, s in ((0.5, 1e-8), (4.5, 1e-60), (0.01, 0.7)):
        y = s ** (1 / b)
        for f in (lambda b, s: sp.betainccinv(1.0, b, s), lambda b, s: stats.beta.isf(s, 1.0, b)):
            assert slope(lambda v, f=f, s=s: f(v, s), b) == pytest.approx(y * np.log(s) / b**2, rel=1e-12)
            assert slope(lambda v, f=f, b=b: f(b, v), s) == pytest.approx(-y / (b * s), rel=1e-12)
            second = -y * np.log(s) / b**3 * (2 + np.log(s) / b)
            assert slope(lambda v, f=f, s=s: f(v, s), b, 2) == pytest.approx(second, rel=1e-10)
    rng = np.random.default_rng(6)
    a, b, s = 10 ** rng.uniform(-4, 2, 200), 10 ** rng.uniform(-1, 2, 200), 10 ** rng.uniform(-12, 0, 200)
    one = np.ones(200)
    for f, g in ((sp.betainccinv, sp.betaincinv), (sp.betaincinv, sp.betainccinv)):
        found = da.jvp(lambda a: f(a, b, s), (a,), (one,))[1], da.jvp(lambda b: f(a, b, s), (b,), (one,))[1]
        other = da.jvp(lambda a: g(b, a, s), (a,), (one,))[1], da.jvp(lambda b: g(b, a, s), (b,), (one,))[1]
        np.testing.assert_allclose(found, np.negative(other), rtol=1e-11, atol=1e-290)


def test_two_degrees_of_freedom_in_the_tail() -> None:
    """The leading terms of the derivative cancel: of 1 − (1 + 2x/m)^(−m/2) in m, and of its mirror image."""
    m, x = 2858.5, 1.99e-8
    with mp.workdps(60):
        exact = float(mp.diff(lambda m: -((1 + 2 * mp.mpf(x) / m) ** (-m / 2)), mp.mpf(m)))
    np.testing.assert_allclose(da.grad(lambda m: sp.fdtr(2.0, m, x))(m), exact, rtol=1e-13)
    np.testing.assert_allclose(da.grad(lambda m: sp.fdtr(m, 2.0, 1 / x))(m), -exact, rtol=1e-13)


@pytest.mark.parametrize("df", [0.1, 31.9, 32.1, 1e6])
def test_density_of_student(df: float) -> None:
    t = mp.mpf(0.7)
    with mp.workdps(60):
        n = mp.mpf(df)
        density = mp.gammaprod([(n + 1) / 2], [n / 2]) * mp.power(1 + t * t / n, -(n + 1) / 2) / mp.sqrt(mp.pi * n)
    np.testing.assert_allclose(da.grad(lambda t: sp.stdtr(df, t))(0.7), float(density), rtol=3e-15)


@pytest.mark.parametrize(("law", "sign"), [("genextreme", -1), ("genpareto", 1)])
def test_beside_the_end_of_a_support(law: str, sign: int) -> None:
    """1 + cx is a small difference there, and the derivative in c the larger the smaller it is."""

    def log_survival(c, x):
        rest = 1 + sign * c * x
        return -(rest ** (sign * -1 / c)) if law == "genextreme" else -mp.log(rest) / c

    method = stats.genextreme.logcdf if law == "genextreme" else stats.genpareto.logsf
    for c in (1.9455828489349083, 0.3, 8.1, 4.758374742397422):
        for gap in (0.0, 1e-13, 1e-6, 0.3, 0.6):
            x = (1 - gap) / c
            with mp.workdps(60):
                if mp.mpf(c) * x >= 1:  # 1/c is rounded up, and outside
                    assert slope(lambda c, x=x: method(x, c), -sign * c) == 0
                    continue
                expected = mp.diff(lambda c, x=x: log_survival(c, mp.mpf(x)), mp.mpf(-sign * c), h=mp.mpf(10) ** -40)
            assert slope(lambda c, x=x: method(x, c), -sign * c) == pytest.approx(float(expected), rel=1e-13)
