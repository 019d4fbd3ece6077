"""`solve_ivp` as a compiled loop: its steps against SciPy's, its derivatives against closed forms and differences.

Not for: SciPy's own loop under transforms (`test_integrate_ivp.py`).
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si
import scipy.linalg as sl

import dualad as da
from dualad.errors import ArgumentError, ConvergenceError, PerformanceNote
from dualad.scipy.integrate import solve_ivp, tables, trajectories

pytest.importorskip("llvmlite", reason="the loop is machine code where llvmlite is installed")

RATES = np.array([1.5, 1.0, 3.0, 1.0])
START = np.array([10.0, 5.0])


def predators(t, y, p):
    return [p[0] * y[0] - p[1] * y[0] * y[1], -p[2] * y[1] + p[3] * y[0] * y[1]]


def two_bodies(t, y):
    cube = (y[0] ** 2 + y[1] ** 2) ** 1.5
    return [y[2], y[3], -y[0] / cube, -y[1] / cube]


def arenstorf(t, y):
    """The restricted problem of three bodies: Hairer, Nørsett, Wanner, II.0."""
    m, n = 0.012277471, 1 - 0.012277471
    d1, d2 = ((y[0] + m) ** 2 + y[1] ** 2) ** 1.5, ((y[0] - n) ** 2 + y[1] ** 2) ** 1.5
    return [
        y[2], y[3], y[0] + 2 * y[3] - n * (y[0] + m) / d1 - m * (y[0] - n) / d2,
        y[1] - 2 * y[2] - n * y[1] / d1 - m * y[1] / d2,
    ]  # fmt: skip


def lorenz(t, y):
    return [10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]


def ring(t, y):
    return np.roll(y, 1) - 2 * y + np.roll(y, -1) + np.sin(t)


#: right-hand side, interval, initial state; backwards too, and where f is zero at the start
PROBLEMS: dict[str, tuple[Callable, tuple, Any]] = {
    "decay": (lambda t, y: -0.5 * y, (0, 5), [1.0, 3.0]),
    "growth": (lambda t, y: 0.3 * y, (0, 4), [2.0]),
    "backwards": (lambda t, y: -0.5 * y, (3, -1), [1.0]),
    "oscillator": (lambda t, y: [y[1], -y[0]], (0, 20), [1.0, 0.0]),
    "damped": (lambda t, y: [y[1], -0.2 * y[1] - 4 * y[0]], (0, 12), [1.0, 0.0]),
    "forced": (lambda t, y: [y[1], np.cos(1.3 * t) - y[0]], (0, 15), [0.0, 0.0]),
    "predators": (lambda t, y: predators(t, y, RATES), (0, 10), START),
    "predators, backwards": (lambda t, y: predators(t, y, RATES), (5, 0), START),
    "van der Pol": (lambda t, y: [y[1], 2 * (1 - y[0] ** 2) * y[1] - y[0]], (0, 10), [2.0, 0.0]),
    "pendulum": (lambda t, y: [y[1], -np.sin(y[0])], (0, 10), [2.5, 0.0]),
    "logistic": (lambda t, y: y * (1 - y), (-3, 6), [0.05]),
    "time alone": (lambda t, y: np.array([1.0]) * np.cos(t), (0, 6), [0.0]),
    "constant": (lambda t, y: 0.0 * y, (0, 6), [1.0, 2.0]),
    "a zero state": (lambda t, y: 1.0 - y, (0, 3), [0.0]),
    "two bodies": (two_bodies, (0, 10), [0.4, 0.0, 0.0, 2.0]),
    "arenstorf": (arenstorf, (0, 6), [0.994, 0.0, 0.0, -2.00158510637908]),
    "rigid body": (lambda t, y: [y[1] * y[2], -y[0] * y[2], -0.51 * y[0] * y[1]], (0, 12), [0.0, 1.0, 1.0]),
    "lorenz": (lorenz, (0, 1.5), [1.0, 1.0, 1.0]),
    "brusselator": (lambda t, y: [1 + y[0] ** 2 * y[1] - 4 * y[0], 3 * y[0] - y[0] ** 2 * y[1]], (0, 10), [1.5, 3.0]),
    "fitzhugh": (lambda t, y: [3 * (y[0] - y[0] ** 3 / 3 + y[1]), (0.2 - y[0] - 0.2 * y[1]) / 3], (0, 9), [-1.0, 1.0]),
    "a ring of 12": (ring, (0, 3), np.linspace(0, 1, 12)),
    "a fast part": (lambda t, y: [-40 * y[0] + y[1], -y[1]], (0, 2), [1.0, 1.0]),
    "a power of time": (lambda t, y: 2.5 * t**1.5 + 0 * y, (0, 2), [0.0]),
    "large numbers": (lambda t, y: 1e6 * np.cos(t) + 0 * y, (1e3, 1e3 + 5), [1e7]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(name, method, marks=[] if method == "RK45" or (i + j) % 4 == 0 else [pytest.mark.full])
        for i, name in enumerate(PROBLEMS)
        for j, method in enumerate(["RK23", "RK45", "DOP853"])
    ],
)
def test_steps_are_scipys(name: str, method: str) -> None:
    f, span, y0 = PROBLEMS[name]
    options = {"rtol": 1e-5, "atol": 1e-7}
    ours = solve_ivp(f, span, y0, method, solver="native", **options)
    theirs = si.solve_ivp(f, span, y0, method, **options)
    assert (ours.nfev, ours.status, ours.message, ours.success) == (theirs.nfev, 0, theirs.message, True)
    # Of order 8 an error is a difference of nearly equal numbers, whose rounding shows in the size of the next step.
    close = 1e-4 if method == "DOP853" else 1e-9
    np.testing.assert_allclose(ours.t, theirs.t, rtol=close, atol=close)
    np.testing.assert_allclose(ours.y, theirs.y, rtol=10 * close, atol=10 * close)


OPTIONS: dict[str, dict] = {
    "tolerances of each entry": {"rtol": [1e-4, 1e-7], "atol": np.array([1e-8, 1e-3])},
    "first step": {"first_step": 0.01},
    "largest step": {"max_step": 0.07},
    "both": {"first_step": 0.5, "max_step": 0.05, "rtol": 1e-6},
}


@pytest.mark.parametrize(
    ("name", "span"), [*[(name, (0.0, 3.0)) for name in OPTIONS], ("tolerances of each entry", (3.0, 0.0))]
)
def test_options_are_scipys(name: str, span: tuple) -> None:
    f = lambda t, y: predators(t, y, RATES)
    ours, theirs = [
        s(f, span, START, **OPTIONS[name], **more)
        for s, more in ((solve_ivp, {"solver": "native"}), (si.solve_ivp, {}))
    ]
    assert ours.nfev == theirs.nfev
    np.testing.assert_allclose(ours.t, theirs.t, rtol=1e-9, atol=1e-9)
    compiled = da.jit(lambda p: solve_ivp(predators, span, START, args=(p,), **OPTIONS[name]).y[:, -1])(RATES)
    np.testing.assert_allclose(compiled, theirs.y[:, -1], rtol=1e-9)


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853"])
def test_dense_output_is_scipys(method: str) -> None:
    f, times = lambda t, y: predators(t, y, RATES), np.linspace(0.0, 4.0, 23)
    options = {"t_eval": times, "dense_output": True, "rtol": 1e-4}
    ours, theirs = (
        solve_ivp(f, (0, 4), START, method, solver="native", **options),
        si.solve_ivp(f, (0, 4), START, method, **options),
    )
    np.testing.assert_allclose(ours.y, theirs.y, rtol=1e-9)
    np.testing.assert_allclose(ours.sol(2.345), theirs.sol(2.345), rtol=1e-9)
    at = np.array([3.3, 0.2, 0.2, 4.0])  # in no order
    compiled = da.jit(
        lambda p, t: solve_ivp(predators, (0, 4), START, method, dense_output=True, args=(p,), rtol=1e-4).sol(t)
    )
    np.testing.assert_allclose(compiled(RATES, at), theirs.sol(at), rtol=1e-9)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "order", "size"),
    [("RK23", 3, 1 / 16), ("RK45", 5, 1 / 8), ("Tsit5", 5, 1 / 8), ("DOP853", 8, 1 / 2), ("Rodas5P", 5, 1 / 8)],
)
def test_orders_of_convergence(method: str, order: int, size: float) -> None:
    """Fixed steps: the tolerances are so large that every step is accepted and as large as is allowed."""
    f = lambda t, y: np.cos(t) * y

    def error(h: float) -> float:
        run = solve_ivp(f, (0, 3), [1.0], method, solver="native", max_step=h, first_step=h, rtol=1e3, atol=1e3)
        assert len(run.t) == round(3 / h) + 1
        return abs(float(run.y[0, -1]) - np.exp(np.sin(3.0)))

    assert np.log2(error(size) / error(size / 2)) == pytest.approx(order, abs=0.5)


def test_weights_of_tsit5() -> None:
    """Conditions of order: of the method, the embedded one, the dense output (Hairer, Nørsett, Wanner, II.1)."""
    table = tables.Tsit5
    b, c = np.append(table.B, 0.0), np.append(table.C, 1.0)
    a = np.array([*[[*row, *[0.0] * (7 - len(row))] for row in table.A], b])
    np.testing.assert_allclose(a.sum(1), c, atol=1e-14)
    for weights, order in ((b, 5), (b + table.E, 4)):
        for k in range(order):
            assert weights @ c**k == pytest.approx(1 / (k + 1), abs=1e-13)
        for left, right in ((a @ c, 1 / 6), (a @ c**2, 1 / 12), (c * (a @ c), 1 / 8), (a @ a @ c, 1 / 24)):
            assert weights @ left == pytest.approx(right, abs=1e-13)
    assert abs((b + table.E) @ c**4 - 1 / 5) > 1e-4
    np.testing.assert_allclose(np.array(table.P).sum(1), b, atol=1e-13)
    for x in (0.3, 0.8):
        weights = table.P @ x ** np.arange(1, 5)
        for k in range(4):
            assert weights @ c**k == pytest.approx(x ** (k + 1) / (k + 1), abs=1e-13)


# ── derivatives ──────────────────────────────────────────────────────────────────────────────────────────────────

MATRIX = np.array([[-0.5, 2.0], [-1.0, -0.3]])
TIMES = np.linspace(0.0, 2.0, 5)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Tsit5"])
@pytest.mark.parametrize("sensitivity", ["forward", "adjoint"])
def test_linear_system_by_matrix_exponentials(method: str, sensitivity: str) -> None:
    def f(y0, a):
        options = {"rtol": 1e-10, "atol": 1e-10, "sensitivity": sensitivity}
        return solve_ivp(lambda t, y: a @ y, (0.0, 2.0), y0, method, t_eval=TIMES, **options).y

    y0 = np.array([1.0, 0.5])
    push_y = np.stack([sl.expm(t * MATRIX) for t in TIMES], 1)
    units = np.eye(4).reshape(4, 2, 2)
    push_a = np.stack([[sl.expm_frechet(t * MATRIX, t * e)[1] @ y0 for t in TIMES] for e in units], -1)
    push_a = np.moveaxis(push_a, 0, 1).reshape(2, 5, 2, 2)
    for jacobian in (da.jacfwd, da.jacrev):
        by_y, by_a = da.jit(jacobian(f, (0, 1)))(y0, MATRIX)
        np.testing.assert_allclose(by_y, push_y, atol=1e-8)
        np.testing.assert_allclose(by_a, push_a, atol=1e-8)


def final(p, **options):
    return solve_ivp(
        predators, (0.0, 3.0), START, args=(p,), **{"method": "DOP853", "rtol": 1e-10, "atol": 1e-10, **options}
    ).y[:, -1]


def energy(p):
    return np.sum(final(p) ** 2)


def test_every_transform_agrees_with_scipys_loop() -> None:
    plain = lambda p: np.sum(
        si.solve_ivp(predators, (0, 3), START, "DOP853", args=(p,), rtol=1e-12, atol=1e-12).y[:, -1] ** 2
    )
    step = 1e-5 * np.eye(4)
    differences = [(plain(RATES + e) - plain(RATES - e)) / 2e-5 for e in step]
    for transform in (da.grad, da.jacfwd, da.jacrev):
        np.testing.assert_allclose(da.jit(transform(energy))(RATES), differences, rtol=1e-5)
    value, push = da.jit(lambda p, v: da.jvp(energy, (p,), (v,)))(RATES, np.ones(4))
    np.testing.assert_allclose([value, push], [plain(RATES), np.sum(differences)], rtol=1e-5)
    np.testing.assert_allclose(da.jit(da.hessian(energy))(RATES), da.hessian(energy)(RATES), rtol=1e-6)


def test_third_order() -> None:
    end = lambda k: solve_ivp(lambda t, y: k * y, (0.0, 1.0), [1.0], rtol=1e-9, atol=1e-9).y[0, -1]
    push = lambda g: lambda x: da.jvp(g, (x,), (1.0,))[1]
    for nested in (push(push(push(end))), da.grad(push(da.grad(end)))):
        assert da.jit(nested)(0.7) == pytest.approx(np.exp(0.7), rel=1e-7)


def test_moving_ends_times_and_start() -> None:
    """y = y₀ exp(k (t₁ − t₀)): backwards as well, by values from closures, by arguments, by t_eval."""

    def f(t0, t1, y0, k, share):
        between = np.stack([t0 + share * (t1 - t0), t1])
        return solve_ivp(lambda t, y: k * y, (t0, t1), np.stack([y0]), "DOP853", between, rtol=1e-11, atol=1e-12).y[0]

    closed = lambda t0, t1, y0, k, share: np.stack([y0 * np.exp(k * share * (t1 - t0)), y0 * np.exp(k * (t1 - t0))])
    every = (0, 1, 2, 3, 4)
    for point in ((0.2, 1.5, 0.7, -0.8, 0.3), (1.5, 0.2, 0.7, -0.8, 0.6)):
        for jacobian in (da.jacfwd, da.jacrev):
            ours, theirs = da.jit(jacobian(f, every))(*point), jacobian(closed, every)(*point)
            np.testing.assert_allclose(np.stack(ours), np.stack(theirs), atol=1e-8)


def test_lanes_end_by_themselves() -> None:
    points = RATES * np.array([[1.0], [1.2], [0.7]])
    ends = np.array([3.0, 0.5, 1.7])
    end = lambda p, t: solve_ivp(predators, (0.0, t), START, args=(p,), rtol=1e-8).y[:, -1]
    for f in (end, da.jacfwd(end), da.jacrev(end, 1), da.grad(lambda p, t: end(p, t).sum())):
        one = da.jit(f)
        np.testing.assert_allclose(
            da.jit(da.vmap(f))(points, ends), [one(p, t) for p, t in zip(points, ends, strict=True)], rtol=1e-12
        )
    total = da.jit(da.grad(lambda p: np.sum(da.vmap(end)(p, ends))))(points)
    np.testing.assert_allclose(total, da.vmap(da.grad(lambda p, t: end(p, t).sum()))(points, ends), rtol=1e-6)


def test_many_lanes_are_the_lanes_alone() -> None:
    """Blocks of lanes, which threads share, do what one lane does, to the bit; one of them begins where it ends."""
    points, ends = RATES * np.linspace(0.7, 1.2, 150)[:, None], np.linspace(0.0, 2.0, 150)
    end = lambda p, t: solve_ivp(predators, (0.0, t), START, "DOP853", args=(p,), rtol=1e-6).y[:, -1]
    at = lambda p, t: solve_ivp(predators, (0.0, 2.0), START, t_eval=[0.5, 2.0], args=(p * t,)).y
    for f in (end, at, da.grad(lambda p, t: end(p, t).sum())):
        one, many = da.jit(f), da.jit(da.vmap(f))(points, ends)
        np.testing.assert_array_equal(many, [one(p, t) for p, t in zip(points, ends, strict=True)])
    with pytest.raises(ConvergenceError, match=r"stopped at t = \S+: 9 steps were tried"):
        few = lambda p: solve_ivp(predators, (0.0, 9.0), START, args=(p,), rtol=1e-9, max_steps=9).y[0, -1]
        da.jit(da.vmap(few))(points)


@pytest.mark.parametrize("lanes", [0, 2000])
def test_a_long_solution_can_be_interrupted(lanes: int) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in what runs in the background
    step = 1e-4 if lanes else 1e-7
    end = lambda p: solve_ivp(predators, (0.0, p[0]), START, "RK4", args=(p,), step=step, max_steps=10**9).y[0, -1]
    f = da.jit(da.vmap(end) if lanes else end)
    points = lambda size: np.tile(RATES, (lanes, 1)) * size if lanes else RATES * size
    f(points(1e-6))
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.process_time()
    with pytest.raises(KeyboardInterrupt):
        f(points(5.0))
    assert time.process_time() - start < 1.2  # of two threads
    timer.join()
    signal.signal(signal.SIGINT, before)


def test_outside_of_jit() -> None:
    """What is asked for by name: compiled once, differentiated as it is."""
    end = lambda p: solve_ivp(predators, (0.0, 3.0), START, args=(p,), rtol=1e-9, solver="native").y[:, -1]
    there = lambda p: solve_ivp(predators, (0.0, 3.0), START, args=(p,), rtol=1e-9).y[:, -1]
    np.testing.assert_allclose(da.jacfwd(end)(RATES), da.jacfwd(there)(RATES), rtol=1e-9)
    np.testing.assert_allclose(da.vmap(end)(RATES[None]), [there(RATES)], rtol=1e-9)
    ours = lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 2.0), [1.0], "Tsit5", [0.5, 2.0], rtol=1e-9, atol=1e-9).y[0]
    np.testing.assert_allclose(da.jacrev(ours)(0.5), [-0.5 * np.exp(-0.25), -2 * np.exp(-1.0)], rtol=1e-7)


# ── the derivative of the steps ──────────────────────────────────────────────────────────────────────────────────


def unrolled(p, times, y, table):
    """The steps of SciPy's table between given times, in complex numbers as well."""
    for t, end in itertools.pairwise(times):
        h, k = end - t, []
        for row, c in zip(table.A, table.C, strict=True):
            k.append(
                np.stack(predators(t + c * h, y + h * sum([a * x for a, x in zip(row, k, strict=False)], 0 * y), p))
            )
        y = y + h * sum([b * x for b, x in zip(table.B, k, strict=True)])
    return y


@pytest.fixture(params=["by tangents", "by the adjoint"])
def backwards(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which way reverse mode goes; for few numbers it would take tangents."""
    if request.param == "by the adjoint":
        monkeypatch.setattr(trajectories, "_TANGENTS", 0)


@pytest.mark.usefixtures("backwards")
@pytest.mark.parametrize(("method", "tol"), [("RK23", 1e-3), ("RK45", 1e-6), ("DOP853", 1e-3)])
def test_derivatives_of_the_steps(method: str, tol: float) -> None:
    """Equal to the derivative of the unrolled steps, by complex steps; that of the solution is far from it."""
    options = {"args": (RATES,), "rtol": tol, "atol": tol}
    times = solve_ivp(predators, (0.0, 6.0), START, method, solver="native", **options).t
    at = lambda e: unrolled(RATES + 1e-40j * e, times, START + 0j, getattr(si, method))
    expected = np.stack([at(e).imag / 1e-40 for e in np.eye(4)], 1)

    def f(p, sensitivity="steps"):
        options = {"args": (p,), "rtol": tol, "atol": tol, "sensitivity": sensitivity}
        return solve_ivp(predators, (0.0, 6.0), START, method, **options).y[:, -1]

    largest = np.max(abs(expected))
    for jacobian in (da.jacfwd, da.jacrev):
        np.testing.assert_allclose(da.jit(jacobian(f))(RATES), expected, atol=1e-12 * largest)
    np.testing.assert_allclose(da.jacrev(f)(RATES), expected, atol=1e-12 * largest)
    np.testing.assert_allclose(da.jit(da.vmap(da.jacrev(f)))(np.stack([RATES])), [expected], atol=1e-12 * largest)
    assert np.max(abs(da.jit(da.jacrev(lambda p: f(p, "forward")))(RATES) - expected)) > 1e-8 * largest


@pytest.mark.usefixtures("backwards")
@pytest.mark.parametrize("span", [(0.0, 6.0), (1.0, 0.0)])
def test_second_derivatives_of_the_steps(span: tuple) -> None:
    times = solve_ivp(predators, span, START, args=(RATES,), rtol=1e-4, solver="native").t
    at = lambda p, e: np.sum(unrolled(p + 1e-40j * e, times, START + 0j, si.RK45)).imag / 1e-40
    slope = lambda p: np.stack([at(p, e) for e in np.eye(4)])
    expected = np.stack([(slope(RATES + e) - slope(RATES - e)) / 2e-5 for e in 1e-5 * np.eye(4)])
    options = {"rtol": 1e-4, "sensitivity": "steps"}
    f = lambda p: np.sum(solve_ivp(predators, span, START, args=(p,), **options).y[:, -1])
    ways = (da.hessian(f), da.jacrev(da.grad(f))) if span[0] == 0 else (da.jacfwd(da.grad(f)), da.jacfwd(da.jacfwd(f)))
    for second in ways:
        np.testing.assert_allclose(da.jit(second)(RATES), expected, atol=1e-6 * np.max(abs(expected)))


@pytest.mark.usefixtures("backwards")
@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "Tsit5"])
def test_dense_output_of_the_steps(method: str) -> None:
    """Several times in a step, the ends, a time that comes twice, and all in no order."""
    times = np.array([0.11, 0.1, 0.0, 1.5, 0.11, 0.12, 3.0])
    options = {"rtol": 1e-3, "sensitivity": "steps", "dense_output": True}
    f = lambda y, p: solve_ivp(predators, (0.0, 3.0), y, method, args=(p,), **options).sol(times)
    forward, backward = [da.jit(jacobian(f, (0, 1)))(START, RATES) for jacobian in (da.jacfwd, da.jacrev)]
    for a, b in zip(forward, backward, strict=True):
        np.testing.assert_allclose(b, a, atol=1e-12 * np.max(abs(a)))


def test_many_parameters_take_the_adjoint() -> None:
    """A ring of 60 cells, over more steps than are walked back at once, against forward mode."""

    def f(p):
        rhs = lambda t, y: p * (np.roll(y, 1) - 2 * y + np.roll(y, -1)) + np.sin(t)
        return np.sum(
            solve_ivp(rhs, (0.0, 4.0), np.linspace(0, 1, 60), max_step=0.01, sensitivity="steps").y[:, -1] ** 2
        )

    p, v = np.linspace(0.5, 1.5, 60), np.linspace(1.0, 2.0, 60)
    gradient = da.jit(da.grad(f))(p)
    np.testing.assert_allclose(gradient @ v, da.jit(lambda p, v: da.jvp(f, (p,), (v,))[1])(p, v), rtol=1e-11)


def test_steps_of_a_method_that_is_scipys() -> None:
    f = lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], "LSODA", sensitivity="steps").y[0, -1]
    for transform in (da.grad(f), da.jit(da.grad(f))):
        with pytest.raises(ArgumentError, match="whose loop is ours"):
            transform(0.5)


def test_steps_of_what_stops() -> None:
    f = lambda k: solve_ivp(lambda t, y: k[0] * y**2, (0.0, 2.0), [1.0], sensitivity="steps").y[0, -1]
    with pytest.raises(ConvergenceError, match="stopped at t"):
        da.jit(da.grad(f))(np.ones(60))


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────

STOPS: dict[str, tuple[Callable, dict, str, float]] = {
    "a pole": (lambda t, y, k: k * y**2, {}, "spacing between numbers.", 1.0),
    "NaN at the start": (lambda t, y, k: k * np.sqrt(t - 1.0) + y, {}, "not a finite number", 0.0),
    "NaN later": (lambda t, y, k: k * np.sqrt(1.0 - t) + y, {}, "spacing between numbers", 1.0),
    "too many steps": (lambda t, y, k: k * y, {"max_steps": 3, "max_step": 0.1}, "max_steps", 0.3),
}  # fmt: skip


@pytest.mark.parametrize("name", STOPS)
def test_a_run_that_stops(name: str) -> None:
    f, options, words, t = STOPS[name]
    with np.errstate(invalid="ignore"):
        run = solve_ivp(f, (0.0, 2.0), [1.0], args=(1.0,), solver="native", **options)
    assert (run.status, run.success) == (-1, False)
    assert words in run.message
    assert run.t[-1] <= t + 1e-3
    solve = lambda k, **more: solve_ivp(f, (0.0, 2.0), [1.0], args=(k,), **options, **more)
    for g in (lambda k: solve(k).y[0, -1], da.grad(lambda k: solve(k).y[0, -1])):
        with pytest.raises(ConvergenceError, match="stopped at t"):
            da.jit(g)(1.0)
    partly = da.jit(
        lambda k: (lambda sol: (sol.y[0], sol.status, sol.success))(solve(k, t_eval=[0.0, 1.9], require_success=False))
    )
    y, status, success = partly(1.0)
    assert y[0] == 1.0 or name == "NaN at the start"
    assert np.isnan(y[1])
    assert (int(status), bool(success)) == (-1, False)


@pytest.mark.parametrize(
    ("method", "sensitivity"),
    [("RK45", "forward"), ("RK45", "adjoint"), ("RK45", "steps"), ("Radau", "forward"), ("Radau", "adjoint")],
)
def test_a_run_that_stops_has_the_derivative_of_what_it_reached(method: str, sensitivity: str) -> None:
    """y' = k y² from 1 is 1/(1 − k t): finite at 0.4 for all k here, and never reached at 0.8 for k = 2."""

    def density(k, keep):
        sol = solve_ivp(
            lambda t, y: k * y**2, (0.0, 0.8), [1.0], method=method, t_eval=[0.4, 0.8], rtol=1e-8, atol=1e-8,
            sensitivity=sensitivity, require_success=False,
        )  # fmt: skip
        return np.where(keep & sol.success, np.sum(sol.y), np.sum(sol.y[:, 0]))

    k = np.array([1.0, 2.0])
    first, second = 0.4 / (1 - 0.4 * k) ** 2, 0.8 / (1 - 0.8 * k) ** 2
    expected = first + np.where(k < 1.5, second, 0.0)
    got = da.jit(da.vmap(da.value_and_grad(density), (0, None)))(k, True)
    np.testing.assert_allclose(got[0], 1 / (1 - 0.4 * k) + np.where(k < 1.5, 1 / (1 - 0.8 * k), 0.0), rtol=1e-6)
    np.testing.assert_allclose(got[1], expected, rtol=1e-5)
    end = lambda k: solve_ivp(
        lambda t, y: k * y**2, (0.0, 0.8), [1.0], method=method, t_eval=[0.8], sensitivity=sensitivity,
        require_success=False,
    ).y[0, -1]  # fmt: skip
    for derivative in (da.value_and_grad(end), lambda k: da.jvp(end, (k,), (1.0,))):
        np.testing.assert_array_equal(np.isnan(da.vmap(derivative)(k)), [[False, True]] * 2)


def test_the_last_step_that_is_allowed_is_enough() -> None:
    f = lambda t, y: -y
    tried = (solve_ivp(f, (0.0, 1.0), [1.0], solver="native").nfev - 2) // 6
    assert solve_ivp(f, (0.0, 1.0), [1.0], solver="native", max_steps=tried).success
    assert not solve_ivp(f, (0.0, 1.0), [1.0], solver="native", max_steps=tried - 1).success


def test_branches_on_values_are_scipys_loop() -> None:
    def f(t, y, k):
        return -k * y if y[0] > 0.5 else -y

    end = lambda k: solve_ivp(f, (0.0, 0.5), [1.0], args=(k,), rtol=1e-8).y[0, -1]
    with pytest.warns(PerformanceNote, match="branches|truth value"):
        value = da.jit(end)(0.3)
    assert value == pytest.approx(np.exp(-0.15), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "LSODA"}, "whose loop is ours"), ({"y0": [1j]}, "real numbers"), ({"solver": "ours"}, "'native'"),
        ({"sensitivity": "steps", "method": "LSODA"}, "whose loop is ours"),
    ],
)  # fmt: skip
def test_refusals(options: dict, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        solve_ivp(lambda t, y: -y, (0.0, 1.0), **{"y0": [1.0], "solver": "native", **options})


def test_what_is_left_to_scipy_under_jit() -> None:
    """Complex states, of which a note says why, and states that are too large for one loop."""
    turn = lambda k: solve_ivp(lambda t, y: 1j * k * y, (0.0, 1.0), [1.0 + 0j], rtol=1e-8, atol=1e-8).y[0, -1].real
    with pytest.warns(PerformanceNote, match="its two parts"):
        assert da.jit(turn)(0.5) == pytest.approx(np.cos(0.5), rel=1e-6)
    many = lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), np.ones(40_000), rtol=1e-8, atol=1e-8).y[0, -1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert da.jit(da.grad(many))(0.5) == pytest.approx(-np.exp(-0.5), rel=1e-6)


def test_large_states_are_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more numbers than one loop over registers takes: their programs are several pieces of machine code."""
    start, rates = np.sin(np.linspace(0, 3, 600)), np.linspace(0.5, 1.5, 600)

    def heat(t, y, k):
        left, right = np.concatenate([y[:1], y[:-1]]), np.concatenate([y[1:], y[-1:]])
        return k * (left - 2 * y + right) - y + np.sin(t)

    expected = si.solve_ivp(heat, (0.0, 3.0), start, args=(rates,), rtol=1e-8, atol=1e-8).y[:, -1]
    step = si.solve_ivp(heat, (0.0, 3.0), start, args=(rates * (1 + 1e-5),), rtol=1e-8, atol=1e-8).y[:, -1]
    monkeypatch.setattr(si, "solve_ivp", lambda *a, **k: pytest.fail("SciPy's loop was run"))
    end = lambda k: solve_ivp(heat, (0.0, 3.0), start, args=(k,), rtol=1e-8, atol=1e-8).y[:, -1]
    np.testing.assert_allclose(da.jit(end)(rates), expected, rtol=1e-12)
    slope = da.jit(da.grad(lambda k: np.sum(end(k) ** 2)))(rates) @ rates
    assert slope == pytest.approx(np.sum(step**2 - expected**2) / 1e-5, rel=1e-4)


def test_a_global_that_changes_is_read_again() -> None:
    held = {"k": 1.0}
    f = lambda t, y: -held["k"] * y
    first = solve_ivp(f, (0.0, 1.0), [1.0], solver="native", rtol=1e-8, atol=1e-8).y[0, -1]
    held["k"] = 2.0
    second = solve_ivp(f, (0.0, 1.0), [1.0], solver="native", rtol=1e-8, atol=1e-8).y[0, -1]
    np.testing.assert_allclose([first, second], np.exp([-1.0, -2.0]), rtol=1e-6)


def perceptron(p, sensitivity="auto", method="RK45", tol=1e-6, **options):
    """The square of the end of a small network's trajectory: 80 weights."""
    f = lambda t, y: p[:40].reshape(2, 20) @ np.tanh(p[40:80].reshape(20, 2) @ y)
    options = {"rtol": tol, "atol": tol, "sensitivity": sensitivity, **options}
    return np.sum(solve_ivp(f, (0.0, 2.0), [1.0, 0.3], method, **options).y[:, -1] ** 2)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Rodas5P"])
def test_many_numbers_take_the_adjoint_of_the_steps(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the loop is compiled: as exact as forward mode is, and without a step of SciPy's."""
    p = np.random.default_rng(0).normal(size=80) / 3
    exact = da.jit(da.grad(lambda p: perceptron(p, "forward", tol=1e-11)))(p)
    monkeypatch.setattr(trajectories, "walk_back", lambda *_: pytest.fail("the adjoint equation is not solved"))
    found = da.jit(da.grad(lambda p: perceptron(p, "auto", method)))(p)
    np.testing.assert_allclose(found, exact, atol=2e-5 * np.max(abs(exact)))
    np.testing.assert_allclose(da.jit(da.grad(lambda p: perceptron(p, "steps", method)))(p), found, rtol=1e-9)


@pytest.mark.parametrize("method", ["Tsit5", "Vern7", "Rodas5P"])
def test_methods_of_ours_take_their_own_steps_in_python_too(method: str) -> None:
    """Where the function branches on values: no method of SciPy's stands in."""
    smooth, branches = lambda t, y, k: -k * y * y, lambda t, y, k: -k * y * y if y[0] > 0 else y
    end = lambda f: lambda k: solve_ivp(f, (0.0, 2.0), [1.0], method, args=(k,), rtol=1e-3).y[0, -1]
    for transform in (da.value_and_grad, lambda f: da.jit(da.value_and_grad(f)), lambda f: da.jit(da.jacfwd(f))):
        with pytest.warns(PerformanceNote, match="a loop in Python"):
            found = transform(end(branches))(0.7)
        np.testing.assert_allclose(found, transform(end(smooth))(0.7), rtol=1e-10)


def test_many_numbers_of_a_function_that_branches_on_values() -> None:
    """It can't be written down, so the adjoint equation is solved, by SciPy."""
    f = lambda t, y, p: -p @ p * y if y[0] > 0.1 else -y
    end = lambda p: solve_ivp(f, (0.0, 1.0), [1.0], args=(p,), rtol=1e-8, atol=1e-8).y[0, -1]
    p = np.full(60, 0.1)
    with pytest.warns(PerformanceNote, match="branches|truth value"):
        found = da.jit(da.grad(end))(p)
    np.testing.assert_allclose(found, -2 * p * np.exp(-0.6), rtol=1e-5)
