"""Events of `solve_ivp`: their times and states in closed form, what ends at them, and what grazes."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConvergenceError
from dualad.scipy.integrate import solve_ivp

TIGHT = {"rtol": 1e-10, "atol": 1e-10}


def ground(t, y, *args):
    return y[0]


ground.terminal, ground.direction = True, -1


def falling(h, v, g):
    return solve_ivp(lambda t, y, g: [y[1], -g], (0.0, 10.0), np.stack([h, v]), args=(g,), events=ground, **TIGHT)


def landing(h, v, g):
    return (v + np.sqrt(v * v + 2 * g * h)) / g


AT = (2.0, 1.0, 9.81)


def test_the_time_of_a_fall_in_closed_form() -> None:
    for f in (lambda *a: falling(*a).t_events[0][0], lambda *a: falling(*a).t[-1]):
        np.testing.assert_allclose(f(*AT), landing(*AT), rtol=1e-12)
        for jacobian in (da.jacfwd, da.jacrev):
            np.testing.assert_allclose(jacobian(f, (0, 1, 2))(*AT), da.grad(landing, (0, 1, 2))(*AT), rtol=1e-9)
    first = lambda x: falling(*x).t_events[0][0]
    np.testing.assert_allclose(
        da.hessian(first)(np.array(AT)), da.hessian(lambda x: landing(*x))(np.array(AT)), rtol=1e-8
    )


def test_the_state_at_the_event() -> None:
    speed = lambda h, v, g: -np.sqrt(v * v + 2 * g * h)
    for f in (lambda *a: falling(*a).y_events[0][0], lambda *a: falling(*a).y[:, -1]):
        height, velocity = da.jacfwd(lambda *a, f=f: tuple(f(*a)), (0, 1, 2))(*AT)
        np.testing.assert_allclose(height, 0.0, atol=1e-9)  # it is on the ground, wherever it fell from
        np.testing.assert_allclose(velocity, da.grad(speed, (0, 1, 2))(*AT), rtol=1e-8)


def third_bounce(h, e):
    """When a ball that falls from a height meets the ground for the third time; ``e`` is what a bounce leaves."""
    t, y = 0.0, np.stack([h, 0.0 * h])
    for _ in range(3):
        sol = solve_ivp(lambda t, y: [y[1], -9.81], (t, t + 5.0), y, events=ground, **TIGHT)
        t, y = sol.t_events[0][0], np.stack([1e-12, -e * sol.y_events[0][0][1]])
    return t


def third_bounce_in_closed_form(h, e):
    return np.sqrt(2 * h / 9.81) * (1 + 2 * e + 2 * e * e)


def test_bounces_are_calls_one_after_the_other() -> None:
    """Restarting with a jump is the next call; the derivative of the whole follows by composition."""
    np.testing.assert_allclose(third_bounce(1.0, 0.8), third_bounce_in_closed_form(1.0, 0.8), rtol=1e-9)
    np.testing.assert_allclose(
        da.grad(third_bounce, (0, 1))(1.0, 0.8), da.grad(third_bounce_in_closed_form, (0, 1))(1.0, 0.8), rtol=1e-7
    )


def test_several_events_and_parameters_of_their_own() -> None:
    """A level that is traced and read from a closure; crossings that end nothing."""

    def times(level, k):
        up = lambda t, y: y[0] - level
        never = lambda t, y: y[0] + 5.0
        sol = solve_ivp(lambda t, y: [y[1], -k * y[0]], (0.0, 5.0), [0.0, 1.0], events=[never, up], **TIGHT)
        assert sol.t_events[0].size == 0 and len(sol.t_events[1]) == 2
        return sol.t_events[1]

    closed = lambda level, k: np.stack([
        np.arcsin(level * np.sqrt(k)) / np.sqrt(k), (np.pi - np.arcsin(level * np.sqrt(k))) / np.sqrt(k)
    ])  # fmt: skip
    np.testing.assert_allclose(times(0.5, 1.2), closed(0.5, 1.2), rtol=1e-8)
    for jacobian in (da.jacfwd, da.jacrev):
        for x, y in zip(jacobian(times, (0, 1))(0.5, 1.2), jacobian(closed, (0, 1))(0.5, 1.2), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-7)


def test_events_that_depend_on_time() -> None:
    """A line that falls meets a platform that rises: (1 - v t) = k t."""
    meet = lambda v, k: solve_ivp(lambda t, y: [-v], (0.0, 5.0), [1.0], events=lambda t, y: y[0] - k * t).t_events[0][0]
    closed = lambda v, k: 1 / (v + k)
    np.testing.assert_allclose(da.grad(meet, (0, 1))(0.3, 0.5), da.grad(closed, (0, 1))(0.3, 0.5), rtol=1e-8)


def test_times_up_to_a_terminal_event() -> None:
    def f(h):
        return solve_ivp(
            lambda t, y: [y[1], -9.81], (0.0, 10.0), np.stack([h, 0.0 * h]), t_eval=[0.1, 0.2, 5.0], events=ground,
            **TIGHT,
        ).y  # fmt: skip

    value, push = da.jvp(f, (2.0,), (1.0,))
    assert value.shape == (2, 2)
    np.testing.assert_allclose(push, [[1.0, 1.0], [0.0, 0.0]], atol=1e-9)


@pytest.mark.parametrize(("below", "grazes"), [(1e-14, True), (1e-6, False)])
def test_an_event_that_grazes_is_an_error(below: float, grazes: bool) -> None:
    """A ball that is thrown up turns at the height 1.5, at t = 1: a level just below that it hardly crosses."""
    level = lambda t, y: y[0] - (1.5 - below)
    f = lambda v: solve_ivp(lambda t, y: [y[1], -1.0 + 0.0 * v], (0.0, 1.0), np.stack([1.0, v]), events=level, **TIGHT)
    if grazes:
        with pytest.raises(ConvergenceError, match="grazes"):
            da.jvp(lambda v: f(v).t_events[0], (1.0,), (1.0,))
    else:
        assert da.jvp(lambda v: f(v).t_events[0], (1.0,), (1.0,))[1].shape == (1,)
