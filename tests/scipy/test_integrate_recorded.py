"""Events along compiled steps: against SciPy's, and their derivatives in closed form.

Not for: events of SciPy's own loop (`test_integrate_events.py`), or the steps themselves (`test_integrate_native.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si

import dualad as da
from dualad.core.above import ABOVE
from dualad.errors import ConvergenceError
from dualad.scipy.integrate import problem, solve_ivp, trajectories

pytest.importorskip("llvmlite", reason="the loop is machine code where llvmlite is installed")

TIGHT = {"rtol": 1e-9, "atol": 1e-9}


def event(g: Callable, **marks: Any) -> Callable:
    """Return a function with an event's attributes."""
    marked = lambda t, y, *args: g(t, y, *args)
    for name, value in marks.items():
        setattr(marked, name, value)
    return marked


def swing(t, y):
    return [y[1], -np.sin(y[0])]


level, top = lambda t, y: y[0] - 0.3, lambda t, y: y[1]
EVENTS: dict[str, list] = {
    "one that ends nothing": [level],
    "upwards": [event(level, direction=1)],
    "downwards": [event(level, direction=-1)],
    "several": [level, event(top, direction=-1), lambda t, y: y[0] + 7.0],
    "one that ends it": [top, event(level, terminal=True, direction=-1)],
    "the third ends it": [event(level, terminal=3), event(top, direction=1)],
    "two that end it in the same step": [event(level, terminal=True), event(lambda t, y: y[0] - 0.301, terminal=True)],
    "zero at the start": [event(lambda t, y: y[0] - 1.2), event(lambda t, y: y[0] - 1.2, terminal=2)],
    "of time": [lambda t, y: np.sin(3 * t) - y[0]],
}


@pytest.mark.parametrize("span", [(0.0, 20.0), (5.0, -15.0)])
@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853"])
@pytest.mark.parametrize("name", EVENTS)
def test_events_are_scipys(name: str, method: str, span: tuple) -> None:
    options = {"events": EVENTS[name], "rtol": 1e-5, "atol": 1e-7}
    ours = solve_ivp(swing, span, [1.2, 0.0], method, solver="native", **options)
    theirs = si.solve_ivp(swing, span, [1.2, 0.0], method, **options)
    assert (ours.status, ours.message, len(ours.t)) == (theirs.status, theirs.message, len(theirs.t))
    assert method == "DOP853" or ours.nfev == theirs.nfev  # SciPy counts the stages of its dense output
    close = 1e-6 if method == "DOP853" else 1e-9
    for a, b in zip((*ours.t_events, *ours.y_events), (*theirs.t_events, *theirs.y_events), strict=True):
        np.testing.assert_allclose(a, b, rtol=close, atol=close)
    np.testing.assert_allclose(ours.y[:, -1], theirs.y[:, -1], rtol=10 * close, atol=10 * close)


def test_events_of_a_long_run_and_of_a_stiff_one() -> None:
    """More steps than are recorded at once; and the compiled stiff method."""
    options = {"events": EVENTS["several"], "rtol": 1e-9, "atol": 1e-9}
    ours, theirs = (
        solve_ivp(swing, (0.0, 60.0), [1.2, 0.0], solver="native", **options),
        si.solve_ivp(swing, (0.0, 60.0), [1.2, 0.0], **options),
    )
    assert len(ours.t) == len(theirs.t) > 300
    for a, b in zip(ours.t_events, theirs.t_events, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
    stiff = lambda t, y: [-1e4 * (y[0] - np.cos(t)), y[0] - y[1]]
    crossing = event(lambda t, y: y[1] - 0.4, terminal=True)
    found = solve_ivp(stiff, (0.0, 9.0), [0.0, 0.0], "Rodas5P", events=crossing, rtol=1e-8, atol=1e-8)
    right = si.solve_ivp(stiff, (0.0, 9.0), [0.0, 0.0], "Radau", events=crossing, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.t_events[0], right.t_events[0], rtol=1e-6)


def test_times_up_to_the_event() -> None:
    options = {"t_eval": np.linspace(0.0, 20.0, 41), "events": EVENTS["the third ends it"], "rtol": 1e-6}
    ours = solve_ivp(swing, (0.0, 20.0), [1.2, 0.0], solver="native", dense_output=True, **options)
    theirs = si.solve_ivp(swing, (0.0, 20.0), [1.2, 0.0], dense_output=True, **options)
    np.testing.assert_allclose(ours.t, theirs.t)
    np.testing.assert_allclose(ours.y, theirs.y, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.sol(ours.t[3]), theirs.sol(ours.t[3]), rtol=1e-9)


# ── derivatives ──────────────────────────────────────────────────────────────────────────────────────────────────

ground = event(lambda t, y, *args: y[0], terminal=True, direction=-1)


def falling(h, v, g, method="DOP853", **options):
    return solve_ivp(
        lambda t, y: [y[1], -g], (0.0, 10.0), np.stack([h, v]), method, events=ground, **TIGHT, **options
    )  # fmt: skip


def landing(h, v, g):
    return (v + np.sqrt(v * v + 2 * g * h)) / g


AT = (2.0, 1.0, 9.81)


@pytest.mark.parametrize(
    "method", ["RK45", "Rodas5P", *[pytest.param(m, marks=pytest.mark.full) for m in ("DOP853", "Tsit5")]]
)
def test_derivatives_under_jit(method: str) -> None:
    speed = lambda h, v, g: -np.sqrt(v * v + 2 * g * h)
    cases = (
        (lambda *a: falling(*a, method).t_events[0][0], landing), (lambda *a: falling(*a, method).t[-1], landing),
        (lambda *a: falling(*a, method).y_events[0][0][1], speed), (lambda *a: falling(*a, method).y[1, -1], speed),
    )  # fmt: skip
    for f, closed in cases:
        assert da.jit(f)(*AT) == pytest.approx(closed(*AT), rel=1e-8)
        for jacobian in (da.jacfwd, da.jacrev):
            np.testing.assert_allclose(da.jit(jacobian(f, (0, 1, 2)))(*AT), da.grad(closed, (0, 1, 2))(*AT), rtol=1e-7)
    first = lambda x: falling(*x, method).t_events[0][0]
    second = da.hessian(lambda x: landing(*x))(np.array(AT))
    np.testing.assert_allclose(da.jit(da.hessian(first))(np.array(AT)), second, rtol=1e-6)


def test_lanes_end_by_themselves() -> None:
    heights = np.array([0.5, 1.0, 7.0])
    f = lambda h: falling(h, 1.0, 9.81).t_events[0][0]
    expected = [da.grad(landing)(h, 1.0, 9.81) for h in heights]
    for transform in (da.vmap(da.grad(f)), da.jit(da.vmap(da.grad(f)))):
        np.testing.assert_allclose(transform(heights), expected, rtol=1e-7)


def test_outside_of_jit() -> None:
    f = lambda h: falling(h, 1.0, 9.81, "Tsit5").t_events[0][0]
    assert da.grad(f)(2.0) == pytest.approx(da.grad(landing)(2.0, 1.0, 9.81), rel=1e-7)


def test_the_end_without_success_under_jit() -> None:
    def reached(y0):
        sol = solve_ivp(lambda t, y: y**2, (0.0, 0.9), y0[None], **TIGHT, require_success=False)
        return sol.t[-1], sol.status

    for y0, t, status in ((1.0, 0.9, 0), (2.0, 0.5, -1)):
        found = da.jit(reached)(np.float64(y0))
        assert (float(found[0]), int(found[1])) == (pytest.approx(t, rel=1e-6), status)


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────


def test_an_event_that_branches_on_values() -> None:
    high = lambda t, y: y[0] - 0.5 if t < 5 else y[0] - 0.4
    f = lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 3.0), [1.0], events=high, **TIGHT).t_events[0][0]
    assert da.jit(f)(0.7) == pytest.approx(np.log(2) / 0.7, rel=1e-7)


def test_an_event_that_does_not_occur() -> None:
    f = lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], events=lambda t, y: y[0] - 2.0).t_events[0][0]
    with pytest.raises(ConvergenceError, match="occurred 0 times"):
        da.jit(f)(0.7)


def test_a_run_that_fails_after_its_event_has_not_failed() -> None:
    """Beyond the event the right-hand side is no number; what was computed there ahead does not matter."""
    stop = event(lambda t, y: y[0] - 0.5, terminal=True)
    f = lambda k: solve_ivp(lambda t, y: -k / np.sqrt(y), (0.0, 3.0), [1.0], events=stop, **TIGHT)
    closed = lambda k: (1 - 0.5**1.5) / 1.5 / k
    with np.errstate(invalid="ignore"):
        for transform in (lambda g: g, da.grad):
            found = da.jit(transform(lambda k: f(k).t_events[0][0]))(0.7)
            assert found == pytest.approx(transform(closed)(0.7), rel=1e-7)


def test_without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without llvmlite: SciPy's loop finds the events, also of times that are given, and solves the adjoint."""
    monkeypatch.setattr(ABOVE, "machine_code", lambda program: None)
    monkeypatch.setattr(problem, "problem_steps", lambda *_: pytest.fail("our own loop runs"))
    monkeypatch.setattr(trajectories, "walk_back_steps", lambda *_: pytest.fail("our own loop runs"))
    assert da.jit(da.grad(lambda h: falling(h, 1.0, 9.81).t_events[0][0]))(2.0) == pytest.approx(
        da.grad(landing)(2.0, 1.0, 9.81), rel=1e-7
    )
    passing = event(lambda t, y: y[0] - 1.0)
    high = lambda h: solve_ivp(
        lambda t, y: [y[1], -9.81], (0.0, 0.5), np.stack([h, 0.0]), "DOP853", [0.1, 0.5], events=passing, **TIGHT
    )  # fmt: skip
    found = da.jit(lambda h: (high(h).y[0], high(h).t_events[0][0]))(2.0)
    np.testing.assert_allclose(found[0], 2.0 - 9.81 / 2 * np.array([0.01, 0.25]))
    assert found[1] == pytest.approx(np.sqrt(2 / 9.81))
    f = lambda p: solve_ivp(lambda t, y: -np.sum(p) * y, (0.0, 1.0), [1.0], **TIGHT).y[0, -1]
    np.testing.assert_allclose(da.jit(da.grad(f))(np.full(60, 0.01)), np.full(60, -np.exp(-0.6)), rtol=1e-6)
