"""The adjoint equation as machine code, against the variational equation and SciPy's walk back.

Not for: the derivative of steps (`test_integrate_native.py`), or adjoints of SciPy's loop (`test_integrate_long.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConvergenceError
from dualad.scipy.integrate import solve_ivp, trajectories

pytest.importorskip("llvmlite", reason="the loop is machine code where llvmlite is installed")

RATES = np.array([1.5, 1.0, 3.0, 1.0])
#: from the start itself, twice the same, in no order
TIMES = np.array([0.0, 2.5, 1.0, 1.0, 4.0])


def predators(t, y, p):
    return [p[0] * y[0] - p[1] * y[0] * y[1], -p[2] * y[1] + p[3] * y[0] * y[1] + 0.1 * np.sin(t)]


def solution(p: Any, start: Any, method: str, sensitivity: str, **options: Any) -> Any:
    options = {"rtol": 1e-9, "atol": 1e-9, **options}
    span = options.pop("span", (0.0, 4.0))
    return solve_ivp(predators, span, start, method, TIMES, args=(p,), sensitivity=sensitivity, **options).y[0]


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectories, "walk_back", lambda *_: pytest.fail("SciPy's loop walks back"))


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "Tsit5", "Vern7", "Rodas5P", "Radau", "BDF"])
def test_equals_the_variational_equation(method: str) -> None:
    options = {"rtol": 1e-6, "atol": 1e-6} if method in ("RK23", "BDF") else {}
    weights = np.array([1.0, -2.0, 0.5, 3.0, 1.0])
    y0 = np.array([4.0, 2.0])
    f = lambda p, y, how: weights @ solution(p, y, method, how, **options)
    back, forward = [
        da.jit(da.grad(lambda p, y, how=how: f(p, y, how), (0, 1)))(RATES, y0) for how in ("adjoint", "forward")
    ]
    close = 3e-3 if options else 2e-6
    for a, b in zip(back, forward, strict=True):
        np.testing.assert_allclose(a, b, rtol=close, atol=close)


def test_steps_are_recorded_again_where_few_are_held() -> None:
    """Many blocks of steps, of which one is held, backwards in time, with several cotangents at once."""
    y0 = np.array([4.0, 2.0])
    options: Any = {"span": (4.0, 0.0), "max_step": 0.005}
    f = lambda how, **more: da.jit(da.jacrev(lambda y: solution(RATES, y, "RK45", how, **options, **more)))(y0)
    expected = f("forward")
    few = f("adjoint", keep_steps=100)
    np.testing.assert_allclose(few, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(few, f("adjoint"))


@pytest.mark.parametrize("method", ["DOP853", "Radau"])
def test_lanes_and_second_derivatives(method: str) -> None:
    y0 = np.array([4.0, 2.0])
    f = lambda how: lambda k: np.sum(solution(k * RATES, y0, method, how, rtol=1e-8, atol=1e-8))
    lanes = da.jit(da.vmap(da.grad(f("adjoint"))))(np.array([0.8, 1.0]))
    slope = da.jit(da.grad(f("forward")))
    np.testing.assert_allclose(lanes, [slope(0.8), slope(1.0)], rtol=1e-5)
    if method == "DOP853":
        second = da.jit(da.grad(da.grad(f("adjoint"))))(1.0)
        assert second == pytest.approx((slope(1.001) - slope(0.999)) / 2e-3, rel=1e-4)


def test_what_is_not_reached() -> None:
    f = lambda k: solve_ivp(lambda t, y: k * y**2, (0.0, 2.0), [1.0], sensitivity="adjoint").y[0, -1]
    with pytest.raises(ConvergenceError, match="stopped at t"):
        da.jit(da.grad(f))(1.0)


@pytest.mark.parametrize("sensitivity", ["forward", "adjoint", "steps"])
def test_a_state_without_numbers(sensitivity: str) -> None:
    end = lambda y: solve_ivp(lambda t, y: -y, (0.0, 1.0), y, sensitivity=sensitivity).y[:, -1]
    assert da.jit(end)(np.zeros(0)).shape == (0,)
    for jacobian in (da.jacfwd(end), da.jacrev(end), da.jit(da.jacrev(end))):
        assert jacobian(np.zeros(0)).shape == (0, 0)
