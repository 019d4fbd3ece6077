"""Least squares and curves: against closed forms, central differences of SciPy's solvers, both modes, two orders.

Not for: other minima (`test_optimize_minimize.py`), or linear residuals (`test_optimize_linear.py`).
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.optimize

import dualad as da
from dualad.errors import ConvergenceError, UnsupportedError
from dualad.scipy import optimize
from dualad.scipy.optimize import SolutionWarning
from tests.oracles.implicit import verify

T = np.linspace(0.0, 1.0, 8)
Y = 2 * np.exp(-3 * T) + 0.1 * np.cos(20 * T)
B = np.float64(1.2)
TIGHT = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15, "jac": "dualad"}


def decay(t, size, rate):
    return size * np.exp(-rate * t)


def residual(x, b):
    return decay(T, *x) - Y * b - 0.1 * np.sin(5 * T * b)


@pytest.mark.parametrize(
    "loss",
    ["linear", *[pytest.param(n, marks=pytest.mark.full) for n in ("soft_l1", "huber", "arctan", "own")], "cauchy"],
)
def test_losses(loss) -> None:
    own = lambda z: np.stack([z + 0.1 * z**2, 1 + 0.2 * z, 0.2 + 0 * z])
    options = {**TIGHT, "loss": own if loss == "own" else loss, "f_scale": 0.07}
    f = lambda b: optimize.least_squares(residual, [1.0, 1.0], args=(b,), **options).x
    verify(f, B, second=loss == "cauchy", compiled=False, rtol=1e-7, accuracy=1e-4)


@pytest.mark.parametrize(
    "solve",
    [
        lambda f, b: optimize.least_squares(f, [1.0, 1.0], method="lm", **TIGHT).x,
        lambda f, b: optimize.least_squares(f, [1.0, 1.0], method="dogbox", **TIGHT).x,
        lambda f, b: optimize.least_squares(f, [1.0, 1.0], bounds=([0.0, 0.0], [b, 9.0]), **TIGHT).x,
        lambda f, b: optimize.least_squares(f, [1.0, 1.0], bounds=optimize.Bounds([0.0, 0.0], [b, 9.0]), **TIGHT).cost,
        lambda f, b: optimize.leastsq(f, [1.0, 1.0], Dfun="dualad", ftol=1e-15, xtol=1e-15)[0],
        lambda f, b: optimize.leastsq(f, [1.0, 1.0], ftol=1e-15, xtol=1e-15, full_output=True)[1] * 1e-3,
    ],
    ids=["lm", "dogbox", "bounds", "cost", "leastsq", "cov_x"],
)
def test_methods_and_bounds(solve) -> None:
    verify(lambda b: solve(lambda x: residual(x, b), b), B, second=False, compiled=False, rtol=1e-7, accuracy=1e-4)


def test_the_hessian_is_exact() -> None:
    """Residuals that are far from zero and curved: Gauss and Newton's matrix would be wrong by half."""
    f = lambda a: optimize.least_squares(lambda x: np.stack([x[0] - a, x[0] ** 2 + 1.0]), [0.5], **TIGHT).x[0]
    x = f(1.0)
    assert da.grad(f)(1.0) == pytest.approx(1 / (1 + 4 * x**2 + 2 * (x**2 + 1)), rel=1e-9)


def test_results_are_scipys() -> None:
    fit = lambda b: optimize.least_squares(residual, [1.0, 1.0], args=(b,), loss="cauchy", f_scale=0.1, **TIGHT)
    fields, theirs = ("x", "jac", "fun", "cost", "grad", "active_mask"), fit(B)
    mine = da.jvp(lambda b: [fit(b)[name] for name in fields], (B,), (1.0,))[0]
    for name, a in zip(fields, mine, strict=True):
        np.testing.assert_allclose(a, theirs[name], atol=1e-7)
    seen = []
    da.jvp(lambda b: seen.append(fit(b)) or b, (B,), (1.0,))
    assert seen[0].success is True
    assert seen[0].keys() <= theirs.keys()
    plain = lambda x: residual(x, B)
    assert repr(optimize.least_squares(plain, [1.0, 1.0])) == repr(scipy.optimize.least_squares(plain, [1.0, 1.0]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sigma": lambda b: 0.1 + T * b},
        {"sigma": lambda b: 0.1 + T * b, "absolute_sigma": True},
        pytest.param(
            {"sigma": lambda b: (np.diag(0.1 + T) + 0.02) * b, "absolute_sigma": True}, marks=pytest.mark.full
        ),
        pytest.param({"bounds": lambda b: (0.0, [9.0, 9.0 * b])}, marks=pytest.mark.full),
        {"bounds": lambda b: ([0.0, 0.0], [1.6 * b, 9.0])},
    ],
    ids=["plain", "sigma", "absolute", "matrix", "free bounds", "bounds"],
)
def test_curves_and_their_covariances(options) -> None:
    def f(b):
        made = {k: v(b) if callable(v) else v for k, v in options.items()}
        out = optimize.curve_fit(decay, T * b, Y * b, ftol=1e-15, xtol=1e-15, jac="dualad", **made)
        return np.concatenate([out[0], np.reshape(out[1], (-1,))])

    verify(f, B, second=not options, compiled=not options, rtol=1e-7, accuracy=1e-4)


def test_curves_of_several_kinds() -> None:
    fit = lambda b: optimize.curve_fit(lambda t, a: a * t * b, T, Y, jac=lambda t, a: (t * b)[:, None])[0][0]
    assert da.grad(fit)(B) == pytest.approx(-(T @ Y) / (T @ T) / B**2)
    everything = lambda b: optimize.curve_fit(decay, T, Y * b, p0=[b, b], full_output=True)
    info = da.jvp(lambda b: everything(b)[2], (B,), (1.0,))[0]
    assert info["fvec"].shape == T.shape
    assert da.vmap(lambda b: everything(b)[0])(np.array([1.0, B])).shape == (2, 2)
    x = optimize.curve_fit(decay, T, Y, jac="dualad")[0]
    np.testing.assert_allclose(x, scipy.optimize.curve_fit(decay, T, Y)[0], rtol=1e-6)


def test_data_that_do_not_determine_the_answer() -> None:
    f = lambda a: optimize.least_squares(lambda x: x[0] * x[1] - a * np.ones(2), [1.0, 2.0], **TIGHT).x
    with pytest.warns(SolutionWarning, match="least norm"):
        x, v = da.jvp(f, (2.5,), (1.0,))
    np.testing.assert_allclose(v, x[::-1] / (x @ x), rtol=1e-6)
    one = lambda a: optimize.curve_fit(lambda t, p, q: (p + q) * t, T, a * T)
    with pytest.warns() as seen:
        cov = da.jvp(lambda a: one(a)[1], (1.0,), (1.0,))[0]
    assert np.isinf(cov).all()
    assert {w.category for w in seen} >= {SolutionWarning, scipy.optimize.OptimizeWarning}


def test_bad_input() -> None:
    with pytest.raises(ConvergenceError):
        da.grad(lambda b: optimize.least_squares(residual, [1.0, 1.0], args=(b,), max_nfev=1).cost)(B)
    with pytest.raises(ConvergenceError):
        da.grad(lambda b: optimize.curve_fit(decay, T, Y * b, maxfev=3)[0][0])(B)
    with pytest.raises(UnsupportedError, match="nan_policy"):
        da.grad(lambda b: optimize.curve_fit(decay, T, Y * b, nan_policy="omit")[0][0])(B)


def test_a_planted_fault_is_caught(monkeypatch) -> None:
    """Gauss and Newton's matrix in place of the exact one does not pass."""
    module = sys.modules["dualad.scipy.optimize.least_squares"]
    right = module._Fit.cost

    def wrong(self, x, inputs):
        r = self.residual(x, inputs)
        straight = r - self.residual(da.stop_gradient(x), inputs) + da.stop_gradient(r)
        return right(self, x, inputs) + 0.05 * np.sum((straight - da.stop_gradient(straight)) ** 2)

    monkeypatch.setattr(module._Fit, "cost", wrong)
    with pytest.raises(AssertionError):
        test_losses("linear")


def test_leastsq_with_jacobians_of_users_and_their_columns() -> None:
    def residual(x, a):
        return np.stack([x[0] - a, x[1] ** 2 - a])

    given = lambda a: optimize.leastsq(residual, np.ones(2), (a,), lambda x, a: np.diag(np.stack([1.0, 2 * x[1]])))[0]
    own = lambda a: optimize.leastsq(residual, np.ones(2), (a,), "dualad", col_deriv=True)[0]
    for solve in (given, own):
        np.testing.assert_allclose(da.jacfwd(solve)(2.0), [1.0, 0.5 / np.sqrt(2.0)], rtol=1e-8)
