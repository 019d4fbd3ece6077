"""What `dualad.scipy.integrate` refuses: failures of solvers, wrong shapes, options that are traced."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import (
    ArgumentError,
    ArgumentTypeError,
    CapturedTensorError,
    ConvergenceError,
    ShapeError,
    UnsupportedError,
)
from dualad.scipy.integrate import odeint, solve_ivp


def pushed(f):
    return da.jvp(f, (0.5,), (1.0,))


def decay(t, y, k):
    return -k * y


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
    "a branch on a captured value": (
        lambda k: solve_ivp(lambda t, y: -k * y if y[0] > 0.5 else -y, (0, 1), [1.0]), CapturedTensorError, "args="
    ),
    "beyond the end": (
        lambda k: solve_ivp(decay, (0, 1), [1.0], args=(k,), dense_output=True).sol(2.0), ArgumentError, "extrapolation"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    f, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        pushed(f)


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
