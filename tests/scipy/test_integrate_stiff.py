"""The compiled Rosenbrock method: stiff problems against SciPy's Radau, derivatives against differences and the steps.

Not for: the control of steps, which all compiled methods share (`test_integrate_native.py`).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si

import dualad as da
from benchmarks.stiff import PROBLEMS as STIFF
from dualad.errors import ConvergenceError, PerformanceNote
from dualad.scipy.integrate import solve_ivp, trajectories
from dualad.scipy.integrate.tables import Rodas5P

pytest.importorskip("llvmlite", reason="the loop is machine code where llvmlite is installed")


def ours(name: str, tol: float, **options: Any) -> Callable:
    f, span, y0, _, size = STIFF[name]
    options = {"rtol": tol, "atol": tol * size, **options}
    return lambda p: solve_ivp(f, span, y0, "Rodas5P", args=(p,), **options).y[:, -1]


def radau(name: str, p: Any) -> np.ndarray:
    f, span, y0, _, size = STIFF[name]
    return si.solve_ivp(lambda t, y: f(t, y, p), span, y0, "Radau", rtol=1e-10, atol=1e-10 * size).y[:, -1]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.full] * (n in ("orego", "pollution", "e5"))) for n in STIFF]
)
def test_errors_follow_the_tolerance(name: str) -> None:
    p, size = STIFF[name][3:]
    exact = radau(name, p)
    for tol in (1e-5, 1e-8):
        assert np.max(abs(da.jit(ours(name, tol))(p) - exact) / (abs(exact) + size)) < 5 * tol
    np.testing.assert_allclose(ours(name, 1e-5)(p), da.jit(ours(name, 1e-5))(p), rtol=1e-9)


@pytest.mark.parametrize("name", ["robertson", *[pytest.param(n, marks=pytest.mark.full) for n in ("e5", "orego")]])
def test_derivatives_are_those_of_tight_solutions(name: str) -> None:
    """Along a direction in the parameters' own units, which are as far apart as the rates of stiff problems are."""
    p = STIFF[name][3]
    along = p * np.cos(np.arange(len(p)))
    ends = [radau(name, p + h * along) for h in (2e-3, 1e-3, -1e-3, -2e-3)]
    expected = (8 * (ends[1] - ends[2]) - (ends[0] - ends[3])) / 12e-3
    for jacobian in (da.jacfwd, da.jacrev):
        found = da.jit(jacobian(ours(name, 1e-8)))(p) @ along
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.max(abs(expected)))


def test_every_transform() -> None:
    p = STIFF["robertson"][3]
    f = lambda p: ours("robertson", 1e-9)(p)[0]
    slopes = da.jit(da.grad(f))
    gradient, hessian = slopes(p) * p, da.jit(da.hessian(f))(p) * np.outer(p, p)
    shifted = lambda e: slopes(p + e) * p
    columns = [(shifted(e) - shifted(-e)) / 2e-4 for e in np.diag(1e-4 * p)]
    np.testing.assert_allclose(hessian, np.stack(columns, 1), atol=1e-5 * np.max(abs(hessian)))
    np.testing.assert_allclose(da.grad(f)(p) * p, gradient, rtol=1e-10)
    lanes = p * np.array([[1.0], [1.1], [0.9]])
    np.testing.assert_allclose(da.jit(da.vmap(da.value_and_grad(f)))(lanes)[1], [slopes(x) for x in lanes], rtol=1e-11)
    push = da.jit(lambda p, v: da.jvp(f, (p,), (v,))[1])(p, p)
    assert push == pytest.approx(np.sum(gradient), rel=1e-7)


def test_moving_start_end_and_times() -> None:
    """y' = −1000 (y − cos t) has the solution (10⁶ cos t + 1000 sin t) / (10⁶ + 1), and a fast part before that."""
    limit = lambda t: (1e6 * np.cos(t) + 1e3 * np.sin(t)) / (1e6 + 1)
    closed = lambda y0, t: limit(t) + (y0 - limit(0.0)) * np.exp(-1e3 * t)

    def f(y0, t):
        rhs = lambda s, y: -1e3 * (y - np.cos(s))
        times = np.stack([0.001, t])
        return solve_ivp(rhs, (0.0, 2.0), np.stack([y0]), "Rodas5P", times, rtol=1e-10, atol=1e-10).y[0]

    expected = lambda y0, t: np.stack([closed(y0, 0.001), closed(y0, t)])
    for jacobian in (da.jacfwd, da.jacrev):
        found = da.jit(jacobian(f, (0, 1)))(1.5, 1.2)
        np.testing.assert_allclose(np.stack(found), np.stack(jacobian(expected, (0, 1))(1.5, 1.2)), atol=1e-7)


def test_stiffness_does_not_cost_steps() -> None:
    counts = [
        solve_ivp(lambda t, y, k=k: -k * (y - np.cos(t)), (0.0, 3.0), [1.0], "Rodas5P", rtol=1e-6).t.size
        for k in (1e2, 1e5, 1e8)
    ]
    assert max(counts) < 80


def test_dense_output() -> None:
    f = lambda t, y: [-50 * (y[0] - np.cos(t)), y[0] - y[1]]
    times = np.linspace(0.0, 2.0, 41)
    found = solve_ivp(f, (0.0, 2.0), [0.0, 1.0], "Rodas5P", times, dense_output=True, rtol=1e-7, atol=1e-7)
    exact = si.solve_ivp(f, (0.0, 2.0), [0.0, 1.0], "Radau", times, rtol=1e-11, atol=1e-11).y
    np.testing.assert_allclose(found.y, exact, atol=2e-5)
    np.testing.assert_allclose(found.sol(times[7]), exact[:, 7], atol=2e-5)


def test_a_jacobian_that_is_given_is_not_needed() -> None:
    jac = lambda t, y: pytest.fail("the exact Jacobian belongs to the method")
    f = lambda k, **more: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], "Rodas5P", rtol=1e-8, **more).y[0, -1]
    assert da.jit(lambda k: f(k, jac=jac))(2.0) == f(2.0, jac="dualad") == f(2.0)


# ── the derivative of the steps ──────────────────────────────────────────────────────────────────────────────────


def unrolled(p: Any, times: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The steps of the method for van der Pol's oscillator between given times, in complex numbers as well."""
    table, f = Rodas5P, STIFF["van der pol"][0]
    for t, end in itertools.pairwise(times):
        h, k = end - t, []
        jacobian = np.array([[0.0, 1.0], [-2 * p[0] * y[0] * y[1] - 1, p[0] * (1 - y[0] ** 2)]])
        matrix = np.eye(2) / (table.gamma * h) - jacobian
        for a, e in zip(table.A, table.E, strict=True):
            total = lambda row, k=k: sum([w * u for w, u in zip(row, k, strict=True)], 0 * y)
            k.append(np.linalg.solve(matrix, np.stack(f(t, y + total(a), p)) + total(e) / h))
        y = y + total(table.A[-1], k[:-1]) + k[-1]
    return y


@pytest.mark.parametrize(("tol", "tangents"), [(1e-6, 50), (1e-3, 0)])
def test_derivatives_of_the_steps(tol: float, tangents: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectories, "_TANGENTS", tangents)
    f, p, y0 = STIFF["van der pol"][0], np.array([20.0]), np.array([2.0, 0.5])
    options = {"rtol": tol, "atol": tol}
    times = solve_ivp(f, (0.0, 30.0), y0, "Rodas5P", args=(p,), **options).t
    expected = unrolled(p + 1e-40j, times, y0 + 0j).imag / 1e-40
    end = lambda p: solve_ivp(
        f, (0.0, 30.0), y0, "Rodas5P", args=(p,), sensitivity="steps", **options
    ).y[:, -1]  # fmt: skip
    for jacobian in (da.jacfwd, da.jacrev):
        found = da.jit(jacobian(end))(p)[:, 0]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.max(abs(expected)))
    at = lambda p: unrolled(p + 1e-40j, times, y0 + 0j).imag[0] / 1e-40
    second = (8 * (at(p + 1e-4) - at(p - 1e-4)) - (at(p + 2e-4) - at(p - 2e-4))) / 12e-4
    np.testing.assert_allclose(da.jit(da.hessian(lambda p: end(p)[0]))(p)[0, 0], second, rtol=1e-6)


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_singular_matrix() -> None:
    """Of a rate that is so large that 1 − γh ∂f/∂y has equal rows when it is rounded."""
    relax = lambda k: lambda t, y: [k * (y[1] - y[0]), k * (y[0] - y[1])]
    end = lambda k: solve_ivp(relax(k), (0.0, 2.0), [1.0, 1.0], "Rodas5P").y[0, -1]
    for f in (end, da.jit(end), da.jit(da.grad(end))):
        assert np.isfinite(f(1e8))
        with pytest.raises(ConvergenceError, match="singular"):
            f(1e40)


@pytest.mark.parametrize("transform", [lambda f: f, da.grad, lambda f: da.jit(da.grad(f))])
@pytest.mark.parametrize("method", ["RK45", "Radau", "Rodas5P"])
def test_slopes_that_are_nan_at_the_start_end_the_run(method: str, transform: Callable) -> None:
    """SciPy would look for the size of a first step for ever."""
    end = lambda k: solve_ivp(lambda t, y: k * np.sqrt(t - 1.0) + y, (0.0, 2.0), [1.0], method, rtol=1e-6).y[0, -1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if transform(end) is end:
            assert np.isfinite(end(1.0))  # what was reached: the start
            return
        with pytest.raises(ConvergenceError, match="not a finite number"):
            transform(end)(1.0)


def test_large_systems() -> None:
    end = lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), np.ones(40), "Rodas5P", rtol=1e-8, atol=1e-8).y[0, -1]
    for f in (end, da.jit(end)):
        assert f(0.5) == pytest.approx(np.exp(-0.5), rel=1e-6)
    assert da.jit(da.grad(end))(0.5) == pytest.approx(-np.exp(-0.5), rel=1e-5)


def test_lsoda_names_compiled_methods_under_jit() -> None:
    end = lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], "LSODA", rtol=1e-8, atol=1e-8).y[0, -1]
    with pytest.warns(PerformanceNote, match="Rodas5P"):
        assert da.jit(da.grad(end))(0.5) == pytest.approx(-np.exp(-0.5), rel=1e-5)
