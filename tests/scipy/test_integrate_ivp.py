"""`solve_ivp` and `odeint` of `dualad.scipy.integrate` against closed forms, matrix exponentials, JAX and SciPy.

Not for: what is refused (`test_integrate_refusals.py`).
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.integrate as si
import scipy.linalg as sl

import dualad as da
from dualad.core.tracer import Tracer
from dualad.scipy.integrate import odeint, solve_ivp
from tests.oracles.jax_side import jax, jnp

TIGHT = {"rtol": 1e-9, "atol": 1e-9}
MATRIX = np.array([[-0.5, 2.0], [-1.0, -0.3]])
START = np.array([1.0, 0.5])
TIMES = np.linspace(0.0, 2.0, 5)


def linear_system(y0, a, **options):
    return solve_ivp(lambda t, y: a @ y, (0.0, 2.0), y0, "DOP853", t_eval=TIMES, **TIGHT, **options).y


def test_plain_arguments_are_scipys() -> None:
    ours = solve_ivp(lambda t, y, k: -k * y, (0, 1), [1.0], args=(2.0,), dense_output=True)
    theirs = si.solve_ivp(lambda t, y, k: -k * y, (0, 1), [1.0], args=(2.0,), dense_output=True)
    np.testing.assert_array_equal(ours.y, theirs.y)
    assert type(ours) is type(theirs) and type(ours.sol) is type(theirs.sol)
    np.testing.assert_array_equal(odeint(lambda y, t: -y, 1.0, TIMES), si.odeint(lambda y, t: -y, 1.0, TIMES))


def test_values_are_scipys_to_the_bit() -> None:
    seen = {}

    def f(a):
        seen["sol"] = solve_ivp(lambda t, y: a @ y, (0.0, 2.0), START)
        return seen["sol"].y

    value = da.jvp(f, (MATRIX,), (MATRIX,))[0]
    theirs = si.solve_ivp(lambda t, y: MATRIX @ y, (0.0, 2.0), START)
    np.testing.assert_array_equal(value, theirs.y)
    sol = seen["sol"]
    assert type(sol) is type(theirs) and (sol.nfev, sol.status, sol.message) == (theirs.nfev, 0, theirs.message)
    np.testing.assert_array_equal(sol.t, theirs.t)


@pytest.mark.parametrize("sensitivity", ["forward", "adjoint"])
def test_linear_system_by_matrix_exponentials(sensitivity: str) -> None:
    f = lambda y0, a: linear_system(y0, a, sensitivity=sensitivity)
    push_y = np.stack([sl.expm(t * MATRIX) for t in TIMES], 1)  # y entry, time, y0 entry
    units = np.eye(4).reshape(4, 2, 2)
    push_a = np.stack([[sl.expm_frechet(t * MATRIX, t * e)[1] @ START for t in TIMES] for e in units], -1)
    push_a = np.moveaxis(push_a, 0, 1).reshape(2, 5, 2, 2)
    for jacobian in (da.jacfwd, da.jacrev):
        by_y, by_a = jacobian(f, (0, 1))(START, MATRIX)
        np.testing.assert_allclose(by_y, push_y, atol=2e-8)
        np.testing.assert_allclose(by_a, push_a, atol=2e-8)


@pytest.mark.parametrize("sensitivity", ["forward", "adjoint"])
def test_second_order_in_every_nesting(sensitivity: str) -> None:
    def f(k):
        return solve_ivp(
            lambda t, y: np.stack([y[1], -k * y[0]]), (0.0, 1.0), [0.4, 0.0], "DOP853", **TIGHT, sensitivity=sensitivity
        ).y[0, -1]

    closed = lambda k: 0.4 * np.cos(np.sqrt(k))
    expected = da.grad(da.grad(closed))(0.7)
    push = lambda g: lambda x: da.jvp(g, (x,), (1.0,))[1]
    for first in (da.grad, push):
        for second in (da.grad, push):
            np.testing.assert_allclose(second(first(f))(0.7), expected, atol=1e-9)
    np.testing.assert_allclose(push(push(push(f)))(0.7), push(push(push(closed)))(0.7), atol=1e-9)


def lotka_volterra(np):
    return lambda t, y, p: np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])


PREY, RATES = np.array([10.0, 5.0]), np.array([1.1, 0.4, 0.1, 0.4])


WEIGHTS = np.array([[1.0, -0.5], [0.3, 2.0], [0.7, 1.0]])
#: the gradients of a weighted sum of y at 0, 5 and 10, by JAX's odeint at 1e-12 (`test_jax_says_so`)
BY_JAX = (
    np.array([0.792408757249, -0.407553991776]),
    np.array([19.649745752857, -13.905134764968, -118.242604964946, 56.430895624501]),
)


def test_lotka_volterra() -> None:
    """Sensitivities at rtol 1e-8: forward within 1e-7, adjoint within 1e-6."""

    def ours(y0, p, sensitivity):
        sol = solve_ivp(
            lotka_volterra(np), (0.0, 10.0), y0, "DOP853", t_eval=np.linspace(0.0, 10.0, 3), args=(p,), rtol=1e-8,
            atol=1e-8, sensitivity=sensitivity,
        )  # fmt: skip
        return np.sum(WEIGHTS.T * sol.y)

    for sensitivity, limit in (("forward", 1e-7), ("adjoint", 1e-6)):
        found = da.grad(ours, (0, 1))(PREY, RATES, sensitivity)
        for x, y in zip(found, BY_JAX, strict=True):
            assert abs(x - y).max() <= limit * abs(y).max(), sensitivity


@pytest.mark.full
def test_jax_says_so() -> None:
    from jax.experimental.ode import odeint as solve

    def theirs(y0, p):
        f, times = lotka_volterra(jnp), np.linspace(0.0, 10.0, 3)
        return jnp.sum(WEIGHTS * solve(lambda y, t: f(t, y, p), y0, times, rtol=1e-12, atol=1e-12))

    for x, y in zip(jax.grad(theirs, (0, 1))(PREY, RATES), BY_JAX, strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-9)


#: y(40) and its derivatives times k, by Radau, BDF and LSODA at 1e-12 on equations written by hand, which agree
ROBERTSON = np.array([7.15827068726e-01, 9.185534764812e-06, 2.841637457393e-01])
ROBERTSON_BY_LOG_K = np.array([
    [-1.699023508633e-01, -6.865065266601e-02, 1.373080797321e-01],
    [1.836478499870e-06, -3.414178528149e-06, -2.357192113904e-06],
    [1.699005143848e-01, 6.865406684454e-02, -1.373057225400e-01],
])  # fmt: skip


@pytest.mark.parametrize(
    ("method", "options", "limit"),
    [
        ("Radau", {"rtol": 1e-6, "atol": 1e-10}, 1e-4),
        ("BDF", {"rtol": 1e-7, "atol": 1e-11, "jac": "dualad"}, 2e-5),
        ("LSODA", {"rtol": 1e-8, "atol": 1e-12}, 2e-5),
    ],
)
@pytest.mark.parametrize("sensitivity", ["forward", "adjoint"])
def test_stiff_robertson(method: str, options: dict, limit: float, sensitivity: str) -> None:
    """The rates differ by nine orders of magnitude: so do their tangents."""
    rates = np.array([0.04, 3e7, 1e4])

    def f(t, y, k):
        slow, fast, back = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
        return np.stack([back - slow, slow - back - fast, fast])

    def end(k):
        return solve_ivp(
            f, (0.0, 40.0), [1.0, 0.0, 0.0], method, t_eval=[40.0], args=(k,), sensitivity=sensitivity, **options
        ).y[:, 0]

    value, pull = da.vjp(end, rates)
    np.testing.assert_allclose(value, ROBERTSON, rtol=1e-4)
    found = np.stack([pull(e)[0] for e in np.eye(3)]) * rates
    size = abs(ROBERTSON_BY_LOG_K).max(1, keepdims=True)
    assert (abs(found - ROBERTSON_BY_LOG_K) / size).max() < limit
    if sensitivity == "forward":
        pushed = da.jacfwd(end)(rates) * rates
        assert (abs(pushed - ROBERTSON_BY_LOG_K) / size).max() < limit


@pytest.mark.parametrize("method", ["RK23", "RK45", "Radau", "BDF", "LSODA", si.RK45])
@pytest.mark.parametrize("sensitivity", ["forward", "adjoint"])
def test_every_method(method, sensitivity: str) -> None:
    f = lambda t, y, k: np.stack([y[1], -k * y[0]])
    end = lambda k: solve_ivp(f, (0, 1), [0.4, 0.0], method, args=(k,), rtol=1e-6, atol=1e-7, sensitivity=sensitivity)
    slope = da.grad(lambda k: 0.4 * np.cos(np.sqrt(k)))(0.7)
    np.testing.assert_allclose(da.grad(lambda k: end(k).y[0, -1])(0.7), slope, atol=1e-5)


def test_ends_and_times() -> None:
    def f(t0, t1, start, times):
        sol = solve_ivp(lambda t, y: -t * y, (t0, t1), start, **TIGHT)
        more = solve_ivp(lambda t, y: -t * y, (t0, t1), start, t_eval=times, **TIGHT)
        return sol.y[0, -1], sol.t[-1], more.y[0], more.t

    def closed(t0, t1, start, times):
        y = lambda t: start[0] * np.exp((t0**2 - t**2) / 2)
        return y(t1), t1, y(times), times

    at = (0.3, 1.2, np.array([2.0]), np.array([0.4, 0.9, 1.2]))
    for jacobian in (da.jacfwd, da.jacrev):
        found = da.tree.flatten(jacobian(f, (0, 1, 2, 3))(*at))[0]
        expected = da.tree.flatten(jacobian(closed, (0, 1, 2, 3))(*at))[0]
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-8)


def test_backwards_in_time_and_an_empty_interval() -> None:
    f = lambda k, t1: solve_ivp(lambda t, y: -k * y, (1.0, t1), [1.0], **TIGHT).y[0, -1]
    for mode in ("forward", "adjoint"):
        g = lambda k, t1, mode=mode: solve_ivp(
            lambda t, y: -k * y, (1.0, t1), [1.0], t_eval=np.array([0.8, 0.5]), sensitivity=mode, **TIGHT
        ).y.sum()
        np.testing.assert_allclose(da.grad(g)(0.5, 0.0), 0.2 * np.exp(0.1) + 0.5 * np.exp(0.25), atol=1e-8)
    np.testing.assert_allclose(da.grad(f, (0, 1))(0.5, 0.0), (np.exp(0.5), -0.5 * np.exp(0.5)), atol=1e-8)


def test_dense_output() -> None:
    def f(k, t):
        sol = solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0, 2.0], dense_output=True, **TIGHT).sol
        return sol(t), sol(np.stack([t, 0.5 * t]))

    (one, several), (d_one, d_several) = da.jvp(f, (0.5, 0.7), (1.0, 2.0))
    assert one.shape == (2,) and several.shape == (2, 2)
    np.testing.assert_allclose(several[:, 0], one, rtol=1e-12)
    np.testing.assert_allclose(one, np.array([1.0, 2.0]) * np.exp(-0.35), rtol=1e-8)
    np.testing.assert_allclose(d_one, -(0.7 + 0.5 * 2.0) * one, rtol=1e-7)
    np.testing.assert_allclose(d_several[:, 1], -(0.35 + 0.5 * 1.0) * several[:, 1], rtol=1e-7)


def test_lanes_are_solved_one_by_one() -> None:
    f = lambda y0, k: solve_ivp(lambda t, y: -k * y**2, (0, 1), y0, t_eval=[0.2, 1.0], **TIGHT).y
    starts, rates = np.array([[0.3, 1.0], [2.0, 0.1], [0.5, 0.6]]), np.array([0.2, 0.9, 1.4])
    rows = np.stack([f(y, k) for y, k in zip(starts, rates, strict=True)])
    np.testing.assert_array_equal(da.vmap(f)(starts, rates), rows)
    g = da.grad(lambda y, k: np.sum(f(y, k)), (0, 1))
    found, expected = da.vmap(g)(starts, rates), [g(y, k) for y, k in zip(starts, rates, strict=True)]
    for x, y in zip(found, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(x, np.stack(y), rtol=1e-9)


def test_programs_and_compiled_code() -> None:
    f = lambda y0, k: solve_ivp(lambda t, y: -k * y**2, (0, 1), y0, t_eval=[0.2, 1.0], **TIGHT).y
    expected = f(START, 0.3)
    np.testing.assert_allclose(da.trace(f, START, 0.3)(START, 0.3), expected, rtol=1e-14)
    np.testing.assert_allclose(da.jit(f)(START, 0.3), expected, rtol=1e-14)
    g = da.grad(lambda k: np.sum(f(START, k)))
    np.testing.assert_allclose(da.jit(g)(0.3), g(0.3), rtol=1e-9)


def test_both_modes_by_the_dot_product() -> None:
    def f(y0, k, t1):
        sol = solve_ivp(
            lambda t, y: np.stack([y[1], -k * np.sin(y[0]) - 0.1 * t * y[1]]), (0.0, t1), y0, "DOP853",
            t_eval=np.linspace(0, 1, 4), rtol=1e-10, atol=1e-10, sensitivity="adjoint",
        )  # fmt: skip
        return sol.y

    rng = np.random.default_rng(3)
    at, ts = (START, 1.3, 1.0), (rng.normal(size=2), rng.normal(), rng.normal())
    ct = rng.normal(size=(2, 4))
    left = np.sum(ct * da.jvp(f, at, ts)[1])
    right = sum([np.sum(c * t) for c, t in zip(da.vjp(f, *at)[1](ct), ts, strict=True)])
    np.testing.assert_allclose(left, right, rtol=1e-8)


def test_complex_states() -> None:
    f = lambda w, **k: solve_ivp(lambda t, y: 1j * w * y, (0.0, 1.0), [1.0 + 0j], **TIGHT, **k).y[0, -1]
    np.testing.assert_allclose(da.jvp(f, (2.0,), (1.0,))[1], 1j * np.exp(2j), atol=1e-8)
    for mode in ("forward", "adjoint"):
        np.testing.assert_allclose(
            da.grad(lambda w, mode=mode: np.real(f(w, sensitivity=mode)))(2.0), -np.sin(2.0), atol=1e-8
        )


@pytest.mark.parametrize("sensitivity", ["forward", "adjoint"])
def test_right_hand_sides_that_branch_are_run_as_they_are(sensitivity: str) -> None:
    def f(t, y, k):
        return [-k * y[0]] if y[0] > 0.5 else [-2 * k * y[0]]

    end = lambda k: solve_ivp(f, (0.0, 1.0), [0.4], args=(k,), sensitivity=sensitivity, **TIGHT).y[0, -1]
    np.testing.assert_allclose(da.grad(end)(0.7), -0.8 * np.exp(-1.4), atol=1e-7)


def test_the_right_hand_side_is_traced_once() -> None:
    calls = []

    def f(t, y, k):
        calls.append(isinstance(y, Tracer))
        return -k * y

    da.grad(lambda k: solve_ivp(f, (0.0, 1.0), [1.0], args=(k,), sensitivity="adjoint").y[0, -1])(0.7)
    assert calls.count(True) == 1


def test_tolerances_of_tangents() -> None:
    """With "state" the tangents take the steps of the state alone; both are right."""
    f = lambda k, how: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], sens_tol=how, **TIGHT).y[0, -1]
    for how in ("all", "state"):
        np.testing.assert_allclose(da.jvp(lambda k, how=how: f(k, how), (0.5,), (1.0,))[1], -np.exp(-0.5), atol=1e-8)


def test_tangents_of_any_size_are_linear() -> None:
    """Tolerances are relative to what a tangent moves, so a tangent of 1e-9 has as many digits as one of 1."""
    push = lambda s: da.jvp(lambda k: linear_system(START, k), (MATRIX,), (MATRIX * s,))[1] / s
    np.testing.assert_allclose(push(1e-9), push(1.0), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(push(1e9), push(1.0), rtol=1e-7, atol=1e-9)


def test_jacobians_of_the_users_and_our_own() -> None:
    matrix = np.array([[-100.0, 1.0], [0.0, -1.0]])
    for jac in ("dualad", lambda t, y, k: k * matrix, None):
        f = lambda k, jac=jac: solve_ivp(
            lambda t, y, k: k * (matrix @ y), (0, 1), START, "Radau", args=(k,), jac=jac, rtol=1e-5, atol=1e-7
        ).y[1, -1]
        np.testing.assert_allclose(da.grad(f)(1.0), -0.5 * np.exp(-1), atol=1e-4)
        plain = si.solve_ivp(
            lambda t, y, k: k * (matrix @ y), (0, 1), START, "Radau", args=(1.0,), rtol=1e-5, atol=1e-7
        )
        np.testing.assert_allclose(f(1.0), plain.y[1, -1], rtol=1e-4)


@pytest.mark.parametrize("sensitivity", ["forward", "adjoint"])
def test_large_stiff_systems_have_sparse_jacobians(sensitivity: str) -> None:
    """Heat in 150 cells: y(t) = exp(t c M) y0, by the eigenvectors of M."""
    n = 150
    start = np.sin(np.linspace(0, 3, n))

    def heat(t, y, c):
        left, right = np.concatenate([y[:1], y[:-1]]), np.concatenate([y[1:], y[-1:]])
        return c * n * (left - 2 * y + right)

    matrix = np.diag(np.full(n - 1, 1.0), 1) + np.diag(np.full(n - 1, 1.0), -1) - 2 * np.eye(n)
    matrix[0, 0] = matrix[-1, -1] = -1
    values, vectors = np.linalg.eigh(n * matrix)
    end = lambda c: solve_ivp(
        heat, (0, 0.5), start, "BDF", t_eval=[0.5], args=(c,), jac="dualad", rtol=1e-6, atol=1e-8,
        sensitivity=sensitivity,
    ).y[:, 0]  # fmt: skip
    expected = vectors @ (0.5 * values * np.exp(0.5 * values) * (vectors.T @ start))
    weights = np.cos(np.arange(n))
    np.testing.assert_allclose(da.grad(lambda c: weights @ end(c))(1.0), weights @ expected, rtol=1e-3)
    np.testing.assert_allclose(da.jvp(end, (1.0,), (1.0,))[1], expected, atol=1e-4)


def test_odeint() -> None:
    def f(y0, t, k, first=False):
        if first:
            return odeint(lambda t, y, k: -k * y, y0, t, args=(k,), tfirst=True, rtol=1e-10, atol=1e-10)
        return odeint(lambda y, t, k: -k * y, y0, t, (k,), rtol=1e-10, atol=1e-10)

    closed = lambda y0, t, k: (y0 * np.exp(-k * (t - t[0])))[:, None]
    at = (1.5, np.array([0.2, 0.9, 1.4]), 0.6)
    for jacobian in (da.jacfwd, da.jacrev):
        for first in (False, True):
            found = jacobian(lambda *a, first=first: f(*a, first), (0, 1, 2))(*at)
            for x, y in zip(found, jacobian(closed, (0, 1, 2))(*at), strict=True):
                np.testing.assert_allclose(x, y, atol=1e-7)
    value, info = da.jvp(
        lambda k: odeint(lambda y, t: -k * y, 1.0, at[1], full_output=1), (0.6,), (1.0,), has_aux=True
    )[::2]
    assert "nfe" in info
    np.testing.assert_allclose(value, si.odeint(lambda y, t: -0.6 * y, 1.0, at[1]), rtol=1e-12)


def test_single_precision_parameters_keep_their_dtype() -> None:
    f = lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], sensitivity="adjoint").y[0, -1]
    for g in (da.grad(f), lambda k: da.jvp(f, (k,), (np.float32(1),))[1]):
        np.testing.assert_allclose(g(np.float32(0.5)), -np.exp(-0.5), rtol=1e-3)
    assert da.grad(f)(np.float32(0.5)).dtype == np.float32


def test_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        da.grad(lambda k: solve_ivp(lambda t, y: [y[1], -k * y[0]], (0, 1), [1, 0]).y[0, -1])(0.5)
