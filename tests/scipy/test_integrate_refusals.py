"""What `dualad.scipy.integrate` refuses: failures of solvers, wrong shapes, options that are traced."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dualad as da
from dualad.errors import (
    ArgumentError,
    ArgumentTypeError,
    CapturedTensorError,
    ConvergenceError,
    ConversionError,
    DtypeError,
    PerformanceNote,
    ShapeError,
    UnsupportedError,
)
from dualad.scipy.integrate import odeint, quad, solve_ivp


def pushed(f):
    return da.jvp(f, (0.5,), (1.0,))


def decay(t, y, k):
    return -k * y


HELD: dict = {}


def branching(t, y):
    return -HELD["k"] * y if y[0] > 0.5 else -y


def buffered(t, y, k):
    out = np.zeros(1)
    out[0] = k * y[0]
    return out


def blow_up(k, **options):
    return solve_ivp(lambda t, y: k * y**2, (0.0, 10.0), [1.0], **options)


REFUSED = {
    "blows up": (lambda k: blow_up(k).y, ConvergenceError, "step size"),
    "odeint blows up": (
        lambda k: odeint(lambda y, t: k * y**2, 1.0, np.linspace(0, 10, 5), mxstep=50), ConvergenceError, "odeint"
    ),
    "scalar y0": (lambda k: solve_ivp(decay, (0, 1), 1.0, args=(k,)), ShapeError, r"pass \[y0\]"),
    "matrix y0": (lambda k: solve_ivp(decay, (0, 1), np.eye(2), args=(k,)), ShapeError, "reshape"),
    "args without a comma": (lambda k: solve_ivp(decay, (0, 1), [1.0], args=k), ArgumentTypeError, "comma"),
    "too many slopes": (
        lambda k: solve_ivp(lambda t, y: [k, k, k], (0, 1), [1.0, 2.0]), ShapeError, "3"
    ),
    "traced rtol": (lambda k: solve_ivp(decay, (0, 1), [1.0], args=(k,), rtol=k), ArgumentTypeError, "rtol"),
    "a word": (lambda k: solve_ivp(decay, (0, 1), [1.0], args=(k,), sensitivity="both"), ArgumentError, "'auto'"),
    "another word": (lambda k: solve_ivp(decay, (0, 1), [1.0], args=(k,), sens_tol="none"), ArgumentError, "'state'"),
    "times of odeint": (lambda k: odeint(lambda y, t, k: -k * y, 1.0, 2.0, (k,)), ShapeError, "sequence of times"),
    "a branch, and a value of a global": (
        lambda k: HELD.update(k=k) or solve_ivp(branching, (0, 1), [1.0]).y, CapturedTensorError, "args="
    ),
    "a buffer of plain numbers": (
        lambda k: solve_ivp(buffered, (0, 1), [1.0], args=(k,)).y, ConversionError,
        r"^\[DAD008\] float\(\)[\s\S]*out\[0\] = k[\s\S]*np.zeros_like"
    ),
    "a function of math": (
        lambda k: quad(lambda x: math.exp(-k * x), 0, 1)[0], ConversionError, r"^\[DAD008\] float\(\)[\s\S]*np\.sin"
    ),
    "beyond the end": (
        lambda k: solve_ivp(decay, (0, 1), [1.0], args=(k,), dense_output=True).sol(2.0), ArgumentError, "extrapolation"
    ),
}  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    f, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        pushed(f)


def test_no_loop_is_without_end() -> None:
    """SciPy's LSODA tries the same step for ever; and every loop under a transform counts its steps."""
    cubic = lambda k, **options: solve_ivp(lambda t, y: k * y**3, (0.0, 2.0), [1.0], **options)
    assert cubic(5.0, method="LSODA").status == -1
    with pytest.raises(ConvergenceError, match="spacing between numbers"):
        da.grad(lambda k: cubic(k, method="LSODA").y[0, -1])(5.0)
    with (
        pytest.warns(PerformanceNote, match="'LSODA'"),
        pytest.raises(ConvergenceError, match="spacing between numbers"),
    ):
        da.jit(lambda k: cubic(k, method="LSODA").y[0, -1])(5.0)
    with pytest.raises(ConvergenceError, match="3 steps were taken, which is max_steps"):
        da.grad(lambda k: cubic(k, method="BDF", max_steps=3).y[0, -1])(0.1)


def test_what_was_reached_before_a_failure() -> None:
    sol = None

    def f(k):
        nonlocal sol
        sol = blow_up(k, require_success=False)
        return sol.y[0, 3]

    slope = pushed(f)[1]
    assert not sol.success and sol.status == -1
    t = sol.t[3]
    np.testing.assert_allclose(slope, t / (1 - 0.5 * t) ** 2, rtol=1e-2)


def test_shapes_that_depend_on_values_have_no_lanes() -> None:
    f = lambda k: solve_ivp(decay, (0, 1), [1.0], args=(k,)).y
    with pytest.raises(UnsupportedError, match="t_eval"):
        da.vmap(f)(np.array([0.5, 1.0]))
    with pytest.raises(UnsupportedError, match="in a program"):
        da.trace(f, 0.5)


def test_integers_become_floating_numbers() -> None:
    f = lambda k: solve_ivp(decay, (0, 1), [1, 2], args=(k,)).y[:, -1]
    np.testing.assert_allclose(pushed(f)[1], -np.array([1, 2]) * np.exp(-0.5), rtol=1e-3)


def test_errors_of_the_users_own_are_left_alone() -> None:
    def f(t, y, k):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        pushed(lambda k: solve_ivp(f, (0, 1), [1.0], args=(k,)).y)


def test_branches_that_read_closures() -> None:
    """A right-hand side that branches can't be written down: what its closure holds is found all the same."""

    def f(a):
        late = lambda t, y: -y if t < 0.5 else -a * y  # at its beginning it reads nothing
        return solve_ivp(late, (0.0, 1.0), [1.0], rtol=1e-8, atol=1e-8, max_step=0.05).y[0, -1]

    closed = lambda a: np.exp(-0.5 - 0.5 * a)
    for jacobian in (da.jacfwd, da.jacrev):
        np.testing.assert_allclose(jacobian(f)(1.5), da.grad(closed)(1.5), rtol=1e-5)
    np.testing.assert_allclose(da.vmap(da.grad(f))(np.array([1.0, 2.0]))[1], da.grad(closed)(2.0), rtol=1e-5)
    with pytest.warns(PerformanceNote, match="can't be written down"):
        compiled = da.jit(da.grad(f))(1.5)
    np.testing.assert_allclose(compiled, da.grad(closed)(1.5), rtol=1e-5)


def test_buffers_like_the_state() -> None:
    """`np.zeros_like(y)` is a plain array where SciPy calls, and takes tangents where the derivative does."""

    def f(p):
        def rhs(t, y):
            out = np.zeros_like(y)
            out[0], out[1] = p[0] * y[1], -p[1] * y[0]
            return out

        return solve_ivp(rhs, (0.0, 1.0), [0.0, 1.0], rtol=1e-9, atol=1e-9).y[0, -1]

    closed = lambda p: np.sqrt(p[0] / p[1]) * np.sin(np.sqrt(p[0] * p[1]))
    rates = np.array([1.3, 0.7])
    np.testing.assert_allclose(da.jacrev(f)(rates), da.jacrev(closed)(rates), rtol=1e-7)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF", "Tsit5", "Rodas5P"])
def test_a_run_that_can_not_begin_reached_nothing(method, native, monkeypatch) -> None:
    """NaN slopes at the start: with machine code or without, an error, or NaN at all later times."""
    monkeypatch.setenv("DUALAD_NATIVE", "1" if native else "0")

    def values(k, **options):
        slope = lambda t, y: np.stack([y[1], -y[0]]) * np.where(k > 1, np.nan, k)
        options = {"t_eval": [0.0, 0.4, 1.0], "method": method, **options}
        return solve_ivp(slope, (0.0, 1.0), np.array([1.0, 2.0]), **options).y

    lanes = da.vmap(lambda k: values(k, require_success=False))(np.array([0.5, 2.0]))
    assert np.isfinite(lanes[0]).all()
    assert np.isnan(lanes[1, :, 1:]).all()
    alive = lambda k: np.nansum(np.where(np.isnan(y := values(k, require_success=False)), 0.0, y))
    assert np.isfinite(da.grad(alive)(2.0))
    with pytest.raises(ConvergenceError, match="not a finite number"):
        da.grad(lambda k: np.sum(values(k)))(2.0)


WRONG = {
    "a longer vector": (lambda t, y: np.concatenate([y, y]), ShapeError, r"shape \(4,\) for a state of 2"),
    "a number": (lambda t, y: y[0], ShapeError, r"shape \(\) for a state of 2"),
    "a matrix": (lambda t, y: np.outer(y, y)[:, :1] * np.ones(3), ShapeError, r"shape \(2, 3\)"),
}


@pytest.mark.parametrize("method", ["RK45", "Radau", "Rodas5P", "Verlet"])
@pytest.mark.parametrize("case", WRONG)
def test_slopes_of_another_shape(case: str, method: str) -> None:
    f, error, words = WRONG[case]
    step = {"step": 0.1} if method == "Verlet" else {}
    end = lambda y0: solve_ivp(f, (0.0, 1.0), y0, method, solver="native", **step).y[:, -1]
    for call in (end, da.jit(end), da.jacfwd(end), da.jit(da.jacrev(end))):
        with pytest.raises(error, match=words):
            call(np.ones(2))


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
@pytest.mark.parametrize("method", ["RK45", "Radau", "Rodas5P"])
def test_slopes_of_another_dtype(method: str) -> None:
    """Integers and short floats are numbers."""
    ends = [
        da.jit(lambda y0, f=f: solve_ivp(f, (0.0, 1.0), y0, method).y[:, -1])(np.array([1.0, 2.0]))
        for f in (lambda t, y: np.sign(y).astype(int), lambda t, y: np.sign(y).astype(np.float32), lambda t, y: [1, 1])
    ]
    np.testing.assert_allclose(ends, [[2.0, 3.0]] * 3, rtol=1e-12)


@pytest.mark.parametrize("method", ["RK45", "Rodas5P"])
def test_complex_slopes_of_a_real_state(method: str) -> None:
    turn = lambda y0: solve_ivp(lambda t, y: 1j * y, (0.0, 1.0), y0, method).y[:, -1]
    for call in (da.jit(turn), da.jit(da.jacfwd(turn))):
        with pytest.raises(DtypeError, match="returned complex numbers"):
            call(np.ones(2))
