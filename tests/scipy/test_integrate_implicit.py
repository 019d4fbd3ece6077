"""SciPy's implicit methods as compiled loops: their steps against SciPy's, and derivatives of solutions and of steps.

Not for: Rodas5P (`test_integrate_stiff.py`), or Radau and BDF by SciPy's own loop (`test_integrate_ivp.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si
from scipy.integrate._ivp import radau

import dualad as da
from benchmarks.stiff import PROBLEMS
from dualad.errors import PerformanceNote
from dualad.scipy.integrate import solve_ivp

pytest.importorskip("llvmlite", reason="the loop is machine code where llvmlite is installed")

METHODS = ["Radau", "BDF"]


def exact(f: Callable) -> Callable:
    """Return the Jacobian, as SciPy takes it."""
    jacobian = da.jit(da.jacfwd(lambda y, t, *args: np.stack(f(t, y, *args))))
    return lambda t, y, *args: jacobian(np.real(y), t, *args)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (name == "orego")) for name in PROBLEMS]
)
def test_steps_are_scipys(name: str, method: str) -> None:
    """As many of everything; Oregonator's and van der Pol's jumps make a rounding a different step."""
    f, span, y0, p, size = PROBLEMS[name]
    span = (span[0], {"orego": 20.0, "van der pol": 700.0}.get(name, span[1]))
    options: Any = {"rtol": 1e-4, "atol": 1e-4 * size}
    theirs = si.solve_ivp(f, span, y0, method, args=(p,), jac=exact(f), **options)
    ours = solve_ivp(f, span, y0, method, args=(p,), solver="native", **options)
    assert (ours.nfev, ours.nlu, ours.status, ours.message) == (theirs.nfev, theirs.nlu, 0, theirs.message)
    np.testing.assert_allclose(ours.t, theirs.t, rtol=1e-5)
    np.testing.assert_allclose(ours.y[:, -1], theirs.y[:, -1], rtol=1e-6, atol=1e-6 * size)


def stiff(t, y, k):
    return [y[1], k * ((1 - y[0] ** 2) * y[1] - y[0]) + np.sin(t)]


JACOBIAN = exact(stiff)
START = np.array([2.0, 0.0])
OPTIONS: dict[str, dict] = {
    "first step": {"first_step": 1e-3}, "largest step": {"max_step": 0.04}, "backwards": {"t_span": (1.0, 0.9)},
    "times": {"t_eval": np.linspace(0.1, 3.9, 17)}, "tolerances of each entry": {"atol": [1e-9, 1e-4]},
}  # fmt: skip


# BDF begins to count equal steps again where a sum of times rounds one to more than the largest: chance.
@pytest.mark.parametrize(
    ("name", "method"), [pair for pair in itertools.product(OPTIONS, METHODS) if pair != ("largest step", "BDF")]
)
def test_options_are_scipys(name: str, method: str) -> None:
    options: Any = {"t_span": (0.0, 4.0), "rtol": 1e-5, "events": lambda t, y, k: y[0] - 1.7, **OPTIONS[name]}
    theirs, ours = [
        solve(stiff, y0=START, method=method, args=(20.0,), dense_output=True, **options, **more)
        for solve, more in ((si.solve_ivp, {"jac": JACOBIAN}), (solve_ivp, {"solver": "native"}))
    ]  # fmt: skip
    assert ours.nlu == theirs.nlu
    assert ours.nfev == pytest.approx(theirs.nfev, abs=2)
    np.testing.assert_allclose(ours.t, theirs.t, rtol=1e-8)
    np.testing.assert_allclose(ours.y, theirs.y, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.t_events[0], theirs.t_events[0], rtol=1e-8)
    np.testing.assert_allclose(ours.sol(0.95), theirs.sol(0.95), rtol=1e-8)
    options.pop("events")
    end = da.jit(lambda k: solve_ivp(stiff, y0=START, method=method, args=(k,), **options).y[:, -1])(20.0)
    np.testing.assert_allclose(end, theirs.y[:, -1], rtol=1e-8, atol=1e-8)


def at(k: Any, method: str, **options: Any) -> Any:
    times = np.linspace(0.5, 4.0, 8)
    options = {"rtol": 1e-8, "atol": 1e-10, **options}
    return solve_ivp(stiff, (0.0, 4.0), START, method, times, args=(k,), **options).y[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sensitivity", ["forward", "adjoint", "steps"])
def test_derivatives(method: str, sensitivity: str) -> None:
    k, options = 20.0, dict[str, Any](sensitivity=sensitivity)
    ends = [at(k + h, "DOP853", rtol=1e-12, atol=1e-12) for h in (2e-3, 1e-3, -1e-3, -2e-3)]
    expected = (8 * (ends[1] - ends[2]) - (ends[0] - ends[3])) / 12e-3
    close = {"rtol": 1e-4, "atol": (5e-3 if sensitivity == "steps" else 1e-4) * np.max(abs(expected))}
    for jacobian in (da.jacfwd, da.jacrev):
        np.testing.assert_allclose(da.jit(jacobian(lambda k: at(k, method, **options)))(k), expected, **close)
    lanes = da.jit(da.vmap(da.jacfwd(lambda k: at(k, method, **options))))(np.array([15.0, k]))
    np.testing.assert_allclose(lanes[1], expected, **close)


@pytest.mark.parametrize("method", METHODS)
def test_second_derivatives_and_events(method: str) -> None:
    options: Any = {"rtol": 1e-7, "atol": 1e-9, "t_span": (0.0, 20.0), "y0": START, "method": method}
    when = lambda k: solve_ivp(stiff, events=lambda t, y, k: y[0] - 1.2, args=(k,), **options).t_events[0][0]
    time, slope = da.jit(when), da.jit(da.grad(lambda k: at(k, method)[3]))
    assert da.jit(da.grad(when))(20.0) == pytest.approx((time(20.01) - time(19.99)) / 0.02, rel=1e-2)
    assert da.jit(da.jacfwd(slope))(20.0) == pytest.approx((slope(20.1) - slope(19.9)) / 0.2, rel=1e-3)


# ── the derivative of the steps ──────────────────────────────────────────────────────────────────────────────────


def hires(method: str) -> tuple:
    f, _, y0, p, size = PROBLEMS["hires"]
    span, options = (0.0, 80.0), dict[str, Any](rtol=1e-4, atol=1e-4 * size)
    end = lambda y: solve_ivp(f, span, y, method, args=(p,), sensitivity="steps", **options).y[:, -1]
    return f, span, y0, p, options, da.jit(da.jvp)(end, (y0,), (np.cos(np.arange(8.0)),))[1]


def test_steps_of_bdf() -> None:
    """SciPy's BDF takes complex states: a complex step through its run, whose matrices are real, and sizes as well."""
    f, span, y0, p, options, found = hires("BDF")
    start = y0 + 1e-40j * np.cos(np.arange(8.0))
    run = si.solve_ivp(f, span, start, "BDF", args=(p,), jac=exact(f), **options)
    np.testing.assert_allclose(found, run.y[:, -1].imag / 1e-40, rtol=1e-9)


def test_steps_of_radau(monkeypatch: pytest.MonkeyPatch) -> None:
    """SciPy's iterations are recorded, and repeated from neighbouring states."""
    f, span, y0, p, options, found = hires("Radau")
    iterate, records = radau.solve_collocation_system, []

    def recording(fun, t, y, h, start, scale, tol, real, pair, solve):
        out = iterate(fun, t, y, h, start, scale, tol, real, pair, solve)
        records.append((t, h, out[1], real, pair, solve))
        return out

    monkeypatch.setattr(radau, "solve_collocation_system", recording)
    run = si.solve_ivp(f, span, y0, "Radau", args=(p,), jac=exact(f), **options)
    accepted = {t: rest for t, *rest in records}  # the last attempt at each time
    assert len(accepted) == len(run.t) - 1

    def repeat(y):
        z, before, y_old = np.zeros((3, 8)), 1.0, y
        for t, (h, count, real, pair, solve) in accepted.items():
            x = 1 + radau.C * h / before
            start = y_old + np.stack([x, x**2, x**3], 1) @ (radau.P.T @ z) - y
            w = radau.TI @ start
            for _ in range(count):
                slopes = np.stack([f(t + c * h, y + row, p) for c, row in zip(radau.C, radau.T @ w, strict=True)])
                forces = radau.TI @ slopes
                both = forces[1] + 1j * forces[2] - radau.MU_COMPLEX / h * (w[1] + 1j * w[2])
                change = solve(pair, both)
                w = w + np.stack([solve(real, forces[0] - radau.MU_REAL / h * w[0]), change.real, change.imag])
            z, before, y_old = radau.T @ w, h, y
            y = y + z[2]
        return y

    np.testing.assert_allclose(repeat(y0), run.y[:, -1], rtol=1e-12)
    step = 1e-7 * np.cos(np.arange(8.0))
    np.testing.assert_allclose(found, (repeat(y0 + step) - repeat(y0 - step)) / 2e-7, rtol=1e-6)


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", METHODS)
def test_runs_that_stop(method: str) -> None:
    stops = {
        "spacing between numbers.": lambda t, y: y**2,
        "not a finite number": lambda t, y: np.sqrt(t - 1.0) + y,
        "max_steps": lambda t, y: -y,
    }
    for words, f in stops.items():
        options: Any = {"max_steps": 4, "max_step": 0.1} if words == "max_steps" else {}
        with np.errstate(invalid="ignore"):
            run = solve_ivp(f, (0.0, 2.0), [1.0], method, solver="native", **options)
        assert run.status == -1
        assert words in run.message


@pytest.mark.parametrize("method", METHODS)
def test_large_systems_are_scipys_under_jit(method: str) -> None:
    end = lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), np.ones(40), method, rtol=1e-8, atol=1e-8).y[0, -1]
    with pytest.warns(PerformanceNote, match="40 numbers"):
        assert da.jit(da.grad(end))(0.5) == pytest.approx(-np.exp(-0.5), rel=1e-5)
    assert solve_ivp(
        lambda t, y: -0.5 * y, (0.0, 1.0), np.ones(40), method, solver="native", rtol=1e-8
    ).y[0, -1] == pytest.approx(np.exp(-0.5), rel=1e-6)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_many_numbers(method: str) -> None:
    """Over 50 numbers in reverse mode: the tangents of the steps, and the adjoint."""

    def f(p, sensitivity):
        rhs = lambda t, y: np.stack([-np.sum(p) * y[0] + y[1], -y[1] * p[0]])
        return np.sum(
            solve_ivp(rhs, (0.0, 1.0), [1.0, 2.0], method, sensitivity=sensitivity, rtol=1e-8, atol=1e-8).y[:, -1]
        )

    p = np.linspace(0.5, 1.5, 60)
    expected = da.grad(lambda p: f(p, "forward"))(p)
    for sensitivity, close in (("steps", 1e-3), ("adjoint", 1e-5), ("auto", 1e-5)):
        np.testing.assert_allclose(
            da.jit(da.grad(lambda p: f(p, sensitivity)))(p), expected, rtol=close, atol=close * np.max(abs(expected))
        )
