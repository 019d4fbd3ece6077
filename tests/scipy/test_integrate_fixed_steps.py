"""Methods of fixed steps: orders, energy over 10⁶ steps, derivatives equal to those of the steps written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si

import dualad as da
from dualad.errors import ArgumentError, ConvergenceError, PerformanceNote, ShapeError
from dualad.scipy.integrate import solve_ivp
from dualad.scipy.integrate.fixed_steps import SYMPLECTIC

pytest.importorskip("llvmlite", reason="the loop is machine code where llvmlite is installed")

ORBIT = np.array([0.7, 0.0, 0.0, np.sqrt(1.3 / 0.7)])


def kepler(t: Any, y: Any, pull: Any = 1.0) -> Any:
    cube = (y[0] ** 2 + y[1] ** 2) ** 1.5
    return np.stack([y[2], y[3], -pull * y[0] / cube, -pull * y[1] / cube])


def energy(y: Any) -> Any:
    return (y[2] ** 2 + y[3] ** 2) / 2 - 1 / np.sqrt(y[0] ** 2 + y[1] ** 2)


def end(method: str, step: float, time: float = 3.0) -> Callable:
    return lambda y, pull=1.0: solve_ivp(kepler, (0.0, time), y, method, step=step, args=(pull,)).y[:, -1]


def by_hand(method: str, y: Any, h: float, count: int, pull: Any = 1.0) -> Any:
    """Take the steps in a Python loop, in the form in which textbooks have them."""
    f = lambda y: kepler(0.0, y, pull)
    root = 2 ** (1 / 3)
    sizes = {"Verlet": [1.0], "Yoshida4": [1 / (2 - root), -root / (2 - root), 1 / (2 - root)]}
    for _ in range(count):
        if method == "Euler":
            y = y + h * f(y)
        elif method == "RK4":
            a = f(y)
            b = f(y + h / 2 * a)
            c = f(y + h / 2 * b)
            y = y + h / 6 * (a + 2 * b + 2 * c + f(y + h * c))
        else:
            for size in sizes[method]:
                q, p = y[:2], y[2:]
                p = p + h * size / 2 * f(y)[2:]
                q = q + h * size * p
                p = p + h * size / 2 * f(np.concatenate([q, p]))[2:]
                y = np.concatenate([q, p])
    return y


@pytest.mark.parametrize(
    ("method", "order", "steps"),
    [
        ("Euler", 1, 6400),
        ("RK4", 4, 200),
        ("Verlet", 2, 200),
        ("Yoshida4", 4, 200),
        ("KahanLi6", 6, 100),
        ("KahanLi8", 8, 25),
    ],
)
def test_order(method: str, order: int, steps: int) -> None:
    exact = si.solve_ivp(kepler, (0.0, 3.0), ORBIT, "DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    errors = [np.max(abs(end(method, 3.0 / n)(ORBIT) - exact)) for n in (steps, 2 * steps)]
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.3


def test_energy_stays_over_a_million_steps() -> None:
    """It swings, and is at the end of the run what it is at its beginning; that of the classical method leaves."""
    h, count = 2 * np.pi / 100, 10**6
    times = np.append(h * np.arange(100), h * np.arange(count - 100, count))
    swings = {}
    for method in ("Verlet", "RK4"):
        run = da.jit(lambda y, method=method: solve_ivp(kepler, (0, count * h), y, method, times, step=h).y)
        change = abs(energy(run(ORBIT)) / energy(ORBIT) - 1)
        swings[method] = np.max(change[:100]), np.max(change[100:])
    assert swings["Verlet"][1] < 1.01 * swings["Verlet"][0] < 0.003
    assert swings["RK4"][1] > 100 * swings["RK4"][0]


@pytest.mark.parametrize("method", ["Euler", "RK4", "Verlet", "Yoshida4"])
def test_derivatives_are_those_of_the_steps(method: str) -> None:
    f, steps = end(method, 0.25), lambda y, pull=1.0: by_hand(method, y, 0.25, 12, pull)
    np.testing.assert_allclose(f(ORBIT), steps(ORBIT), rtol=1e-12)
    expected = da.jacfwd(steps, (0, 1))(ORBIT, 1.0)
    for derive in (da.jacfwd(f, (0, 1)), da.jit(da.jacrev(f, (0, 1)))):
        for a, b in zip(derive(ORBIT, 1.0), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    for derive in (da.hessian, lambda f: da.jacfwd(da.hessian(f)))[: 1 + (method == "Verlet")]:
        a, b = [derive(lambda p, g=g: np.sum(g(ORBIT, p) ** 2))(1.0) for g in (f, steps)]
        np.testing.assert_allclose(a, b, rtol=1e-10)
    orbits = np.stack([ORBIT, 1.01 * ORBIT])
    np.testing.assert_allclose(da.vmap(da.jacrev(f))(orbits)[1], da.jacfwd(steps)(orbits[1]), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("method", SYMPLECTIC)
def test_the_form_is_kept_and_time_runs_back(method: str) -> None:
    J = da.jacfwd(end(method, 0.1))(ORBIT)
    form = np.kron([[0, 1], [-1, 0]], np.eye(2))
    np.testing.assert_allclose(J.T @ form @ J, form, atol=1e-12)
    there = end(method, 0.125)(ORBIT)
    back = solve_ivp(kepler, (3.0, 0.0), there, method, step=0.125).y[:, -1]
    np.testing.assert_allclose(back, ORBIT, atol=1e-12)


def test_many_numbers() -> None:
    """States beyond what adaptive methods compile, and more parameters than are solved for forward."""

    def chain(stiff: Any) -> Any:
        f = lambda t, y: np.concatenate([y[130:], -stiff * y[:130]])
        return np.sum(solve_ivp(f, (0.0, 1.0), np.ones(260), "Verlet", step=0.1).y[:130, -1] ** 2)

    def turned(stiff: np.ndarray) -> np.ndarray:  # Verlet's map of an oscillator, as a matrix
        half = np.array([[1.0, 0.0], [-0.05 * stiff, 1.0]])
        return np.linalg.matrix_power(half @ [[1.0, 0.1], [0.0, 1.0]] @ half, 10)[0] @ np.ones(2)

    stiff = np.linspace(1.0, 2.0, 130)
    np.testing.assert_allclose(chain(stiff), sum([turned(s) ** 2 for s in stiff]), rtol=1e-12)
    slope = (turned(stiff[7] + 1e-5) ** 2 - turned(stiff[7] - 1e-5) ** 2) / 2e-5
    np.testing.assert_allclose(da.jit(da.grad(chain))(stiff)[7], slope, rtol=1e-7)


def test_times_events_and_dense_output() -> None:
    sol = solve_ivp(kepler, (0.0, 3.1), ORBIT, "KahanLi8", step=0.1, dense_output=True, events=lambda t, y: y[1])
    np.testing.assert_allclose(sol.t, np.append(0.1 * np.arange(31), 3.1), rtol=1e-12)
    exact = si.solve_ivp(kepler, (0.0, 3.5), ORBIT, "DOP853", rtol=1e-12, atol=1e-12, dense_output=True).sol
    np.testing.assert_allclose(sol.sol(np.array([0.05, 1.234, 3.1])), exact(np.array([0.05, 1.234, 3.1])), atol=2e-8)
    half = lambda pull: solve_ivp(
        kepler, (0.0, 3.5), ORBIT, "KahanLi6", step=0.02, events=lambda t, y, pull: y[1], args=(pull,)
    ).t_events[0][-1]
    np.testing.assert_allclose(half(1.0), np.pi, rtol=1e-9)
    np.testing.assert_allclose(da.grad(half)(1.0), (half(1.0001) - half(0.9999)) / 2e-4, rtol=1e-5)


def test_a_function_that_branches_on_values_takes_the_same_steps() -> None:
    branches = lambda t, y, k: -k * y if y[0] > 0 else y
    f = lambda k: solve_ivp(branches, (0.0, 1.0), [1.0], "Euler", step=0.1, args=(k,)).y[0, -1]
    for transform in (lambda f: f, da.grad, lambda f: da.jit(da.grad(f))):
        with pytest.warns(PerformanceNote, match="a loop in Python"):
            found = transform(f)(0.5)
        assert found == pytest.approx(0.95**10 if transform(f) is f else -(0.95**9), rel=1e-12)


def test_errors() -> None:
    with pytest.raises(ArgumentError, match="step=None"):
        solve_ivp(kepler, (0.0, 1.0), ORBIT, "Verlet")
    with pytest.raises(ArgumentError, match="step=-1"):
        solve_ivp(kepler, (0.0, 1.0), ORBIT, "Euler", step=-1)
    with pytest.raises(ArgumentError, match="chooses its steps by their errors"):
        solve_ivp(kepler, (0.0, 1.0), ORBIT, "RK45", step=0.1)
    with pytest.raises(ArgumentError, match="sensitivity='adjoint'"):
        da.grad(lambda p: solve_ivp(kepler, (0, 1), ORBIT, "RK4", step=0.1, args=(p,), sensitivity="adjoint").y[0, -1])(
            1.0
        )
    with pytest.raises(ShapeError, match="as many momenta"):
        solve_ivp(lambda t, y: y, (0.0, 1.0), np.ones(3), "Verlet", step=0.1)
    with pytest.raises(ArgumentError, match="complex"):
        solve_ivp(lambda t, y: y, (0.0, 1.0), np.ones(2, complex), "Verlet", step=0.1)
    with pytest.raises(ConvergenceError, match="not a finite number"):
        da.grad(lambda k: solve_ivp(lambda t, y: k * np.log(y), (0, 9), [0.5], "Euler", step=1.0).y[0, -1])(1.0)
