"""Mass matrices and fully implicit equations: against closed forms, ODEs of the same solution, and a published one.

Not for: Rodas5P without a mass matrix (`test_integrate_stiff.py`).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si
import scipy.sparse as sp

import dualad as da
from benchmarks.stiff import DAES, by_dualad, by_ida
from dualad.errors import ArgumentError, BranchError, ConvergenceError, DualadError, ShapeError, UnsupportedError
from dualad.scipy.integrate import solve_dae, solve_ivp

robertson, _, _, RATES, *_ = DAES["robertson"]
TIGHT = {"rtol": 1e-8, "atol": 1e-12}


def implicit_robertson(t: Any, y: Any, yp: Any, k: Any) -> list:
    a, b, c = robertson(t, y, k)
    return [yp[0] - a, yp[1] - b, c]


def by_mass(k: Any, **more: Any) -> Any:
    mass = np.diag([1, 1, 0])
    return solve_ivp(robertson, (0.0, 40.0), [1.0, 0.0, 0.3], "Rodas5P", args=(k,), mass=mass, **TIGHT, **more)


def by_residual(k: Any, **more: Any) -> Any:
    return solve_dae(implicit_robertson, (0.0, 40.0), [1.0, 0.0, 0.3], np.zeros(3), args=(k,), **TIGHT, **more)


def by_ode(k: Any) -> np.ndarray:
    def f(t, y):
        a, b, _ = robertson(t, y, k)
        return [a, b, -a - b]

    return si.solve_ivp(f, (0.0, 40.0), [1.0, 0.0, 0.0], "Radau", rtol=1e-11, atol=1e-15).y[:, -1]


@pytest.mark.parametrize("solve", [by_mass, by_residual])
def test_robertson(solve: Callable) -> None:
    """The start does not satisfy the third equation, and has no part in the derivative."""
    end = lambda k: solve(k).y[:, -1]
    fast = da.jit(end)
    np.testing.assert_allclose(fast(RATES), by_ode(RATES), rtol=1e-6)
    np.testing.assert_allclose(end(RATES), fast(RATES), rtol=1e-9)
    assert solve(RATES).y[:, 0] == pytest.approx([1.0, 0.0, 0.0], abs=1e-15)
    along = RATES * np.array([1.0, -0.5, 0.3])
    ends = [by_ode(RATES + h * along) for h in (2e-3, 1e-3, -1e-3, -2e-3)]
    expected = (8 * (ends[1] - ends[2]) - (ends[0] - ends[3])) / 12e-3
    for jacobian in (da.jacfwd, da.jacrev):
        np.testing.assert_allclose(da.jit(jacobian(end))(RATES) @ along, expected, rtol=1e-5)
    lanes = RATES * np.array([[1.0], [1.1], [0.9]])
    np.testing.assert_allclose(da.jit(da.vmap(end))(lanes), [fast(k) for k in lanes], rtol=1e-12)


def linear(m: Any, a: Any, b: Any, start: Any, t0: Any, t1: Any, **more: Any) -> Any:
    """m y₀' = −a y₀ + y₁ + sin t, and y₁ = b y₀ + cos t, with a mass matrix that is not diagonal."""
    mass = np.stack([np.stack([m, m]), np.stack([m, m])]) / 2
    f = lambda t, z: (
        np.stack([-a * (z[0] + z[1]) + z[0] - z[1] + np.sin(t)] * 2)
        + np.array([1.0, -1.0]) * (z[0] - z[1] - b * (z[0] + z[1]) - np.cos(t))
    )
    start = np.stack([start, start]) / 2  # z₀ + z₁ = y₀ and z₀ − z₁ = y₁
    options = {"rtol": 1e-9, "atol": 1e-9, **more}
    z = solve_ivp(f, (t0, t1), start, "Rodas5P", mass=mass, **options).y[:, -1]
    return np.stack([z[0] + z[1], z[0] - z[1]])


def linear_exactly(m, a, b, start, t0, t1):
    """y₀' = r y₀ + (2 / m)(sin t + cos t) with r = 2 (b − a) / m; for M has the entries m/2, and rows add up to m."""
    r, c = 2 * (b - a) / m, 2 / m
    forced = lambda t: c * ((1 - r) * np.sin(t) - (1 + r) * np.cos(t)) / (1 + r**2)
    y = forced(t1) + (start - forced(t0)) * np.exp(r * (t1 - t0))
    return np.stack([y, b * y + np.cos(t1)])


POINT = (2.0, 1.5, 0.7, 1.2, 0.3, 1.9)
EVERY = tuple(range(6))


def test_derivatives_in_the_mass_matrix_the_start_the_ends_and_parameters() -> None:
    np.testing.assert_allclose(linear(*POINT), linear_exactly(*POINT), rtol=1e-8)
    expected = np.stack(da.jacfwd(linear_exactly, EVERY)(*POINT))
    for transformed in (da.jacfwd(linear, EVERY), da.jit(da.jacrev(linear, EVERY))):
        np.testing.assert_allclose(np.stack(transformed(*POINT)), expected, atol=2e-8)
    second = lambda f: np.array(da.hessian(lambda *x: f(*x)[1], (0, 5))(*POINT))
    np.testing.assert_allclose(second(da.jit(linear)), second(linear_exactly), atol=1e-6)


def test_derivatives_of_the_steps() -> None:
    """Steps of one size are a smooth function of what they start from, whatever the tolerance."""
    options = {"rtol": 1e3, "atol": 1e3, "first_step": 0.1, "max_step": 0.1, "sensitivity": "steps"}
    end = lambda m, b: linear(m, 1.5, b, 1.2, 0.0, 0.6, **options)
    forward, backward = [da.jit(j(end, (0, 1)))(2.0, 0.7) for j in (da.jacfwd, da.jacrev)]
    np.testing.assert_allclose(forward, backward, rtol=1e-12)
    value, h = da.jit(end), 1e-3
    for found, (i, j) in zip(forward, ((1, 0), (0, 1)), strict=True):
        near, far = [value(2.0 + h * s * i, 0.7 + h * s * j) - value(2.0 - h * s * i, 0.7 - h * s * j) for s in (1, 2)]
        np.testing.assert_allclose(found, (8 * near - far) / (12 * h), rtol=1e-10)


def test_order_of_convergence() -> None:
    """Of order 5, in the algebraic unknown as well: y' = z and a cubic equation for z; solution sin t, cos t."""
    f = lambda t, y: [y[1], y[1] + y[1] ** 3 - np.cos(t) - np.cos(t) ** 3 + np.sin(y[0] - np.sin(t))]
    errors = []
    for h in (0.05, 0.025, 0.0125):
        options = {"rtol": 1e3, "atol": 1e3, "first_step": h, "max_step": h}
        found = solve_ivp(f, (0.0, 2.0), [0.0, 1.0], "Rodas5P", mass=np.diag([1.0, 0.0]), **options)
        errors.append(np.max(np.abs(found.y - [np.sin(found.t), np.cos(found.t)]), 1))
    orders = np.log2([a / b for a, b in itertools.pairwise(errors)])
    assert orders.min() > 4.6


def pendulum(index: int) -> Callable:
    """A pendulum of length 1 with the constraint, or its first or second derivative."""

    def f(t, s, gravity=9.81):
        x, y, u, v, force = s
        constraints = [u * u + v * v - force - gravity * y, x * u + y * v, x * x + y * y - 1]
        return [u, v, -force * x, -force * y - gravity, constraints[index - 1]]

    return f


def test_pendulum() -> None:
    mass, start = sp.diags([1.0, 1, 1, 1, 0]), np.array([1.0, 0, 0, 0, 5.0])
    end = lambda g: solve_ivp(
        pendulum(1), (0.0, 2.0), start, "Rodas5P", args=(g,), mass=mass, rtol=1e-9, atol=1e-9
    ).y[:, -1]  # fmt: skip
    swing = lambda t, s: [s[1], -9.81 * np.cos(s[0])]
    angle, speed = si.solve_ivp(swing, (0.0, 2.0), [0.0, 0.0], "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    expected = [np.cos(angle), np.sin(angle), -np.sin(angle) * speed, np.cos(angle) * speed]
    np.testing.assert_allclose(end(9.81)[:4], expected, atol=1e-7)
    slope, step = da.jit(da.jacfwd(end))(9.81), 1e-4
    np.testing.assert_allclose(slope, (end(9.81 + step) - end(9.81 - step)) / (2 * step), atol=1e-4)
    for index in (2, 3):
        for f in (end, da.jit(end)):
            with pytest.raises(ConvergenceError, match=r"index above 1.*rows \[4\] and unknowns y\[4\]"):
                _ = f and solve_ivp(pendulum(index), (0.0, 2.0), start, "Rodas5P", mass=mass)


#: a transistor amplifier (Rentrop, Roche, Steinebach 1989); Mazzia and Magherini, *Test Set for IVP Solvers*
AMPLIFIED = [
    -0.5562145012262709e-2, 3.006522471903042, 2.849958788608128, 2.926422536206241, 2.704617865010554,
    2.761837778393145, 4.770927631616772, 1.236995868091548,
]  # fmt: skip


def test_transistor_amplifier() -> None:
    """Its mass matrix has capacities between nodes: neither diagonal nor regular."""
    f, span, start, p, _, mass = DAES["amplifier"]
    options = {"args": (p,), "rtol": 1e-6, "atol": 1e-6}
    end = da.jit(lambda y0: solve_ivp(f, span, y0, "Rodas5P", mass=mass, **options).y[:, -1])
    np.testing.assert_allclose(end(start), AMPLIFIED, atol=1e-6)
    residual = lambda t, y, yp, p: mass @ yp - np.stack(f(t, y, p))
    found = solve_dae(residual, span, start, np.zeros(8), **options)
    np.testing.assert_allclose(found.y[:, -1], AMPLIFIED, atol=1e-6)


@pytest.mark.parametrize("name", DAES)
def test_sundials(name: str) -> None:
    """SUNDIALS's IDA, as scikit-sundae calls it."""
    pytest.importorskip("sksundae")
    f, span, start, p, size, mass = DAES[name]
    ours, theirs = [
        make(f, span, start, {"rtol": 1e-6, "atol": 1e-6 * size, "mass": mass})[0](p)
        for make in (by_dualad("Rodas5P"), by_ida)
    ]
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * size)


def test_slopes_that_are_not_linear() -> None:
    """y' + y'³ = a (cos t + cos³ t), where a = 1 has the solution sin t."""
    equation = lambda t, y, yp, a: yp**3 + yp - a * (np.cos(t) ** 3 + np.cos(t))
    end = lambda a: solve_dae(equation, (0.0, 2.0), [0.0], [0.5], args=(a,), rtol=1e-9, atol=1e-9).y[0, -1]
    assert end(1.0) == pytest.approx(np.sin(2.0), abs=1e-8)
    slope = si.quad(lambda t: (np.cos(t) ** 3 + np.cos(t)) / (3 * np.cos(t) ** 2 + 1), 0, 2)[0]
    for transform in (da.grad(end), da.jit(da.grad(end)), da.jit(lambda a: da.jvp(end, (a,), (1.0,))[1])):
        assert transform(1.0) == pytest.approx(slope, rel=1e-7)


def test_events_dense_output_and_times() -> None:
    """A capacitor that is charged through a resistor: y₀ = 1 − exp(−t / c), and the current y₁."""
    half = lambda t, y, c: y[0] - 0.5
    half.terminal = True

    def circuit(t, y, yp, c):
        return [c * yp[0] - y[1], y[0] + y[1] - 1.0]

    def solve(c, **more):
        return solve_dae(circuit, (0.0, 3.0), [0.0, 0.0], [0.0, 0.0], args=(c,), rtol=1e-9, atol=1e-9, **more)

    found = solve(2.0, events=half, dense_output=True)
    assert found.status == 1
    assert found.t_events[0] == pytest.approx([2 * np.log(2)])
    np.testing.assert_allclose(found.y_events[0], [[0.5, 0.5]], rtol=1e-8)
    assert found.sol(0.7) == pytest.approx([1 - np.exp(-0.35), np.exp(-0.35)], abs=1e-7)
    when = lambda c: solve(c, events=half).t_events[0][0]
    assert da.grad(when)(2.0) == pytest.approx(np.log(2), rel=1e-7)
    assert da.jit(da.grad(when))(2.0) == pytest.approx(np.log(2), rel=1e-7)
    times = np.array([0.5, 1.0, 2.5])
    rows = da.jacfwd(lambda c: solve(c, t_eval=times).y)(2.0)
    np.testing.assert_allclose(rows[1], times / 4 * np.exp(-times / 2), rtol=1e-6)


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────


def ivp(f: Callable, y0: Any, mass: Any, method: str = "Rodas5P", **more: Any) -> Any:
    return solve_ivp(f, (0.0, 1.0), y0, method, mass=mass, **more)


def dae(f: Callable, y0: Any, yp0: Any) -> Any:
    return solve_dae(f, (0.0, 1.0), y0, yp0)


BOTH, SECOND = np.diag([1.0, 0.0]), lambda t, y: [-y[0], y[1] - y[0]]
REFUSED: list[tuple[Callable, type[DualadError], str]] = [
    (lambda: ivp(SECOND, [1.0, 1.0], BOTH, "RK45"), ArgumentError, "Rodas5P"),
    (lambda: ivp(SECOND, [1.0, 1.0], BOTH, sensitivity="adjoint"), ArgumentError, "sensitivity='steps'"),
    (lambda: ivp(SECOND, [1.0, 1.0], np.eye(3)), ShapeError, r"\(3, 3\)"),
    (lambda: ivp(SECOND, [1.0, 1.0], np.diag([1.0, np.nan])), ArgumentError, "not finite"),
    (lambda: ivp(SECOND, [1.0, 1.0], 1j * BOTH), ArgumentError, "complex"),
    (lambda: ivp(SECOND, [1.0, 1.0], lambda t, y: BOTH), ArgumentError, "solve_dae"),
    (lambda: ivp(lambda t, y: [y[1], y[0] if y[0] > 0 else y[1]], [1.0, 1.0], BOTH), UnsupportedError, "np.where"),
    (lambda: ivp(lambda t, y: [y[1], y[1] ** 2 + 1], [1.0, 2.0], BOTH), ConvergenceError, "no consistent start"),
    (lambda: ivp(lambda t, y: [y[1], np.sqrt(y[1])], [1.0, -2.0], BOTH), ConvergenceError, "not finite"),
    (lambda: ivp(lambda t, y: [y[1], y[0] - 1], [1.0, 1.0], BOTH), ConvergenceError, r"rows \[1\] and unknowns y\[1\]"),
    (lambda: dae(lambda t, y, yp: y, [1.0], [1.0]), ArgumentError, "does not depend on y'"),
    (lambda: dae(lambda t, y, yp: y + yp, [1.0, 1.0], [1.0]), ShapeError, "yp0"),
    (lambda: dae(lambda t, y, yp: [y[0]], [1.0, 1.0], [1.0, 1.0]), ShapeError, "shape"),
    (lambda: dae(lambda t, y, yp: yp if yp[0] > 0 else y, [1.0], [1.0]), BranchError, "np.where"),
    (
        lambda: dae(lambda t, y, yp: [yp[0] ** 2 - y[1], y[0] - t], [0.0, 1.0], [1.0, 0.0]), ConvergenceError,
        r"rows \[1\] and unknowns y\[1\] and yp\[0\]",
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(number: int) -> None:
    call, error, words = REFUSED[number]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with pytest.raises(error, match=words):
            call()


def test_a_singular_point_on_the_way_ends_the_run() -> None:
    """0 = y² − 1 + t has no real solution beyond t = 1."""
    f = lambda k: solve_ivp(lambda t, y: [-y[0], y[1] ** 2 - 1 + k * t], (0.0, 5.0), [1.0, 0.8], "Rodas5P", mass=BOTH)
    found = f(1.0)
    assert found.status == -1
    assert found.t[-1] == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(ConvergenceError, match=r"stopped at t = 0\.99999"):
        da.jit(lambda k: f(k).y[:, -1])(1.0)
