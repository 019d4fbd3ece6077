"""SciPy's older minimizers: the derivative of a minimum does not depend on how it was found."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize as so

import dualad as da
from dualad.errors import ConversionError, UnsupportedError
from dualad.scipy import optimize

A = np.array([1.0, 2.0])


def cost(x, a):
    return np.sum((x - a) ** 2) + 0.1 * np.sum(x**4)


def slope(x, a):
    return 2 * (x - a) + 0.4 * x**3


def curvature(x, a):
    return np.diag(2 + 1.2 * x**2)


SMALL = {"xtol": 1e-9, "ftol": 1e-12, "disp": 0}
SEARCHES = {
    "fmin": lambda a: optimize.fmin(cost, np.zeros(2), (a,), **SMALL),
    "fmin_powell": lambda a: optimize.fmin_powell(cost, np.zeros(2), (a,), **SMALL),
    "fmin_cg": lambda a: optimize.fmin_cg(lambda x: cost(x, a), np.zeros(2), disp=0, gtol=1e-7),
    "fmin_bfgs": lambda a: optimize.fmin_bfgs(cost, np.zeros(2), slope, (a,), disp=0, gtol=1e-10),
    "fmin_ncg": lambda a: optimize.fmin_ncg(cost, np.zeros(2), slope, None, curvature, (a,), disp=0, avextol=1e-10),
    "brute": lambda a: optimize.brute(cost, [(-1, 3), (-1, 3)], (a,), Ns=8),
    "direct": lambda a: optimize.direct(cost, [(-1, 3), (-1, 3)], args=(a,)).x,
}  # fmt: skip


def exact(f, a):
    """Return the derivative where the answer is."""
    return np.diag(2 / (2 + 1.2 * f(a) ** 2))


@pytest.mark.parametrize("name", SEARCHES)
def test_minima_of_several_variables(name: str) -> None:
    f = SEARCHES[name]
    for jacobian in (da.jacfwd, da.jacrev):
        np.testing.assert_allclose(jacobian(f)(A), exact(f, A), atol=2e-4)
    np.testing.assert_allclose(da.vmap(da.jacfwd(f))(np.stack([A, 0.5 * A]))[1], exact(f, 0.5 * A), atol=2e-4)


@pytest.mark.parametrize("name", ["fminbound", "brent", "golden"])
def test_minima_of_one_variable(name: str) -> None:
    ends = {"fminbound": {"x1": 0.0, "x2": 3.0, "xtol": 1e-9}}.get(name, {})
    f = lambda a: getattr(optimize, name)(lambda x: (x - a) ** 2 + 0.1 * x**4, **ends)
    expected = 2 / (2 + 1.2 * f(1.5) ** 2)
    np.testing.assert_allclose(da.grad(f)(1.5), expected, rtol=1e-4)
    np.testing.assert_allclose(da.grad(da.grad(f))(1.5), -2.4 * f(1.5) * expected**3 / 2, rtol=1e-3)
    assert f(1.5) == getattr(so, name)(lambda x: (x - 1.5) ** 2 + 0.1 * x**4, **ends)


def test_what_is_taught() -> None:
    with pytest.raises(UnsupportedError, match=r"full_output[\s\S]*minimize\(\.\.\., method='Nelder-Mead'\)"):
        da.jacfwd(lambda a: optimize.fmin(cost, np.zeros(2), (a,), full_output=True)[0])(A)
    with pytest.raises(UnsupportedError, match=r"finish=None"):
        da.jacfwd(lambda a: optimize.brute(cost, [(-1, 3), (-1, 3)], (a,), finish=None))(A)
    for name, method, options in (
        ("fmin_l_bfgs_b", "L-BFGS-B", {"approx_grad": True}), ("fmin_slsqp", "SLSQP", {}),
        ("fmin_tnc", "TNC", {"approx_grad": True}),
    ):  # fmt: skip
        f = lambda a, name=name, options=options: getattr(optimize, name)(lambda x: cost(x, a), np.zeros(2), **options)[
            0
        ]
        with pytest.raises(ConversionError, match=rf"minimize\(\.\.\., method='{method}'\)"):
            da.jacfwd(f)(A)
