"""`solve_ivp` under `vmap` and in programs where the solver chooses the times: ends, events, what is of one length.

Each lane against a Python loop of calls outside, and derivatives against closed forms. Not for: events as such
(`test_integrate_events.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConvergenceError, UnsupportedError
from dualad.scipy.integrate import solve_ivp
from dualad.scipy.integrate.events import Asked
from tests.scipy.test_integrate_events import TIGHT, ground, third_bounce, third_bounce_in_closed_form

HEIGHTS = np.array([1.0, 2.0, 3.0])


def falling(h, v=1.0, g=9.81, end=10.0, **options):
    return solve_ivp(
        lambda t, y, g: [y[1], -g], (0.0, end), np.stack([h, v + 0.0 * h]), args=(g,), events=ground, **TIGHT, **options
    )


def landing(h, v=1.0, g=9.81):
    return (v + np.sqrt(v * v + 2 * g * h)) / g


FOUND = {
    "time of the event": (lambda h: falling(h).t_events[0][0], landing),
    "all times of the event": (lambda h: falling(h).t_events[0], lambda h: landing(h)[None]),
    "end of the times": (lambda h: falling(h).t[-1], landing),
    "end of the states": (lambda h: falling(h).y[:, -1], lambda h: np.stack([0.0 * h, 1.0 - 9.81 * landing(h)])),
    "row by row": (lambda h: falling(h).y[1][-1], lambda h: 1.0 - 9.81 * landing(h)),
    "turned": (lambda h: falling(h).y.T[-1, 1], lambda h: 1.0 - 9.81 * landing(h)),
    "dots": (lambda h: falling(h).y[..., -1][1], lambda h: 1.0 - 9.81 * landing(h)),
    "state at the event": (lambda h: falling(h).y_events[0][0, 1], lambda h: 1.0 - 9.81 * landing(h)),
    "beginning": (lambda h: falling(h).y[:, 0], lambda h: np.stack([h, 1.0 + 0.0 * h])),
    "dense": (lambda h: falling(h, dense_output=True).sol(0.5 * landing(h))[0],
              lambda h: h + 0.5 * landing(h) - 9.81 * landing(h) ** 2 / 8),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_balls_that_fall_from_several_heights(case: str) -> None:
    f, closed = FOUND[case]
    np.testing.assert_allclose(da.vmap(f)(HEIGHTS), da.vmap(closed)(HEIGHTS), atol=1e-9)
    for jacobian in (da.jacfwd, da.jacrev):
        np.testing.assert_allclose(
            da.vmap(jacobian(f))(HEIGHTS), da.vmap(da.jacfwd(closed))(HEIGHTS), atol=1e-8, rtol=1e-8
        )


def test_other_orders_of_transforms() -> None:
    f = FOUND["end of the times"][0]
    expected = da.vmap(da.grad(landing))(HEIGHTS)
    for jacobian in (da.jacfwd, da.jacrev):
        np.testing.assert_allclose(np.diag(jacobian(da.vmap(f))(HEIGHTS)), expected, rtol=1e-9)
    np.testing.assert_allclose(da.vmap(da.hessian(f))(HEIGHTS), da.vmap(da.hessian(landing))(HEIGHTS), rtol=1e-8)
    both = da.vmap(da.vmap(da.grad(lambda h, v: falling(h, v).t_events[0][0]), (0, None)), (None, 0))
    speeds = np.array([0.5, 1.5])
    exact = da.vmap(da.vmap(da.grad(landing), (0, None)), (None, 0))
    np.testing.assert_allclose(both(HEIGHTS, speeds), exact(HEIGHTS, speeds), rtol=1e-9)


@pytest.mark.parametrize("case", ["time of the event", "end of the states"])
def test_in_a_program(case: str) -> None:
    """How often an event occurs is not known there: the first and the last occurrence are."""
    f, closed = FOUND[case]
    compiled, push = da.jit(f), da.jit(da.jacfwd(f))
    for h in (1.0, 3.0):
        np.testing.assert_allclose(compiled(h), closed(h), atol=1e-9)
        np.testing.assert_allclose(push(h), da.jacfwd(closed)(h), atol=1e-8)
    np.testing.assert_allclose(da.jit(da.vmap(f))(HEIGHTS), da.vmap(closed)(HEIGHTS), atol=1e-9)


def test_bouncing_balls() -> None:
    """Three bounces in each lane, differentiated in the height and in what a bounce leaves."""
    slopes = da.vmap(da.grad(third_bounce, (0, 1)), (0, None))(HEIGHTS, 0.8)
    for ours, theirs in zip(
        slopes, da.vmap(da.grad(third_bounce_in_closed_form, (0, 1)), (0, None))(HEIGHTS, 0.8), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7)


def test_lanes_that_end_in_different_ways() -> None:
    """The first ball is on the ground before the end, which is given; the second is not, and one flies too high."""

    def ceiling(t, y, g):
        return y[0] - 5.0

    ceiling.terminal = True

    def end(h, v, until):
        sol = solve_ivp(
            lambda t, y, g: [y[1], -g], (0.0, until), np.stack([h, v]), args=(9.81,), events=[ground, ceiling], **TIGHT
        )
        return sol.t[-1], sol.y[0, -1], sol.status

    lanes = np.array([1.0, 4.0, 1.0]), np.array([1.0, 0.0, 12.0]), np.array([0.8, 0.8, 0.8])
    t, y, status = da.vmap(end)(*lanes)
    up = lambda h, v: (v - np.sqrt(v * v - 2 * 9.81 * (5.0 - h))) / 9.81
    np.testing.assert_array_equal(status, [1, 0, 1])
    np.testing.assert_allclose(t, [landing(1.0, 1.0), 0.8, up(1.0, 12.0)], rtol=1e-9)
    np.testing.assert_allclose(y, [0.0, 4.0 - 0.5 * 9.81 * 0.64, 5.0], atol=1e-9)
    by_h, by_v, by_end = da.vmap(da.grad(lambda *a: end(*a)[0], (0, 1, 2)))(*lanes)
    np.testing.assert_allclose(by_h, [da.grad(landing)(1.0, 1.0), 0.0, da.grad(up)(1.0, 12.0)], rtol=1e-8)
    np.testing.assert_allclose(by_v, [da.grad(landing, 1)(1.0, 1.0), 0.0, da.grad(up, 1)(1.0, 12.0)], rtol=1e-8)
    np.testing.assert_array_equal(by_end, [0.0, 1.0, 0.0])
    fall = da.vmap(da.grad(lambda *a: end(*a)[1], (0, 1, 2)))(*lanes)
    np.testing.assert_allclose(np.stack(fall), [[0, 1, 0], [0, 0.8, 0], [0, -9.81 * 0.8, 0]], atol=1e-8)


def swings(k, **options):
    """Return a solution that passes a level twice for k = 1, and more often for larger k."""
    level = lambda t, y: y[0] - 0.5
    return solve_ivp(lambda t, y: [y[1], -k * y[0]], (0.0, 4.5), [0.0, 1.0], events=level, **TIGHT, **options)


def test_events_that_end_nothing() -> None:
    closed = lambda k: np.stack([
        np.arcsin(0.5 * np.sqrt(k)) / np.sqrt(k), (np.pi - np.arcsin(0.5 * np.sqrt(k))) / np.sqrt(k)
    ])  # fmt: skip
    same, other = np.array([0.8, 1.0]), np.array([0.8, 3.5])
    np.testing.assert_allclose(
        da.vmap(da.jacfwd(lambda k: swings(k).t_events[0]))(same), da.vmap(da.jacfwd(closed))(same), rtol=1e-7
    )
    first = lambda k: swings(k).t_events[0][0]
    np.testing.assert_allclose(
        da.vmap(da.grad(first))(other), da.vmap(da.grad(lambda k: closed(k)[0]))(other), rtol=1e-7
    )
    with pytest.raises(UnsupportedError, match="differs from lane to lane, from 2 to 4"):
        da.vmap(lambda k: np.sum(swings(k).t_events[0]))(other)
    with pytest.raises(UnsupportedError, match=r"occurs is not known[\s\S]*t_events\[0\]\[0\]"):
        da.jit(lambda k: len(swings(k).t_events[0]))(1.0)
    with pytest.raises(ConvergenceError, match="occurred 0 times"):
        da.jit(lambda k: swings(k).t_events[0][-1])(5.0)


def test_times_that_are_given() -> None:
    """What comes after the event is left out, as by SciPy; where that is another number in each lane, it is refused."""
    times = np.array([0.1, 0.2, 0.7])
    push = da.vmap(da.jacfwd(lambda h: falling(h, t_eval=times).y[0]))
    np.testing.assert_allclose(push(np.array([2.0, 3.0])), np.ones((2, 3)), atol=1e-9)
    np.testing.assert_allclose(push(np.array([0.5, 0.6])), np.ones((2, 2)), atol=1e-9)
    with pytest.raises(UnsupportedError, match="with events that end it"):
        push(np.array([0.5, 3.0]))


REFUSED = {
    "all of it": lambda sol: sol.y,
    "a sum": lambda sol: np.sum(sol.y),
    "a step": lambda sol: sol.y[:, 3],
    "a part": lambda sol: sol.y[:, 1:],
    "a mask": lambda sol: sol.t[np.array([True])],
    "its length": lambda sol: len(sol.t),
    "its shape": lambda sol: sol.y.shape,
    "a product": lambda sol: 2.0 * sol.t,
    "as an array": lambda sol: np.asarray(sol.t),
    "one after the other": lambda sol: list(sol.t),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_arrays_of_unknown_length_are_refused(case: str) -> None:
    f = lambda k: REFUSED[case](solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0]))
    with pytest.raises(UnsupportedError, match=r"under vmap[\s\S]*sol\.y\[:, -1\]"):
        da.vmap(f)(np.array([0.5, 1.0]))
    with pytest.raises(UnsupportedError, match=r"in a program[\s\S]*t_eval=np\.linspace"):
        da.jit(f)(0.5)


def test_the_end_of_a_solution_without_events() -> None:
    def end(k, until):
        sol = solve_ivp(lambda t, y: -k * y, (0.0, until), [1.0], **TIGHT)
        return sol.y[0, -1]

    closed = lambda k, until: np.exp(-k * until)
    k, until = np.array([0.5, 1.0]), np.array([1.0, 2.0])
    for f, args in ((da.vmap(da.grad(end, (0, 1))), (k, until)), (da.jit(da.grad(end, (0, 1))), (0.5, 2.0))):
        expected = np.vectorize(da.grad(closed, (0, 1)))(*args)
        np.testing.assert_allclose(f(*args), expected, rtol=1e-8)
    shown: list = []
    da.vmap(lambda k: shown.append(repr(solve_ivp(lambda t, y: -k * y, (0, 1), [1.0]).t)) or k)(k)
    assert "how many times there are is not known" in shown[0]


def test_lanes_that_fail() -> None:
    """y' = y² leaves all bounds at t = 1/y₀: in one lane before the end."""
    f = lambda y0, **more: solve_ivp(lambda t, y: y**2, (0.0, 0.9), y0[None], **TIGHT, **more)
    with pytest.raises(ConvergenceError, match="step size"):
        da.vmap(lambda y0: f(y0).y[0, -1])(np.array([1.0, 2.0]))
    reached, status = da.vmap(lambda y0: (lambda s: (s.t[-1], s.status))(f(y0, require_success=False)))(
        np.array([1.0, 2.0])
    )
    np.testing.assert_allclose(reached, [0.9, 0.5], rtol=1e-6)
    np.testing.assert_array_equal(status, [0, -1])


def test_an_event_that_grazes_in_one_lane() -> None:
    level = lambda t, y: y[0] - 1.5
    f = lambda v: solve_ivp(
        lambda t, y: [y[1], -1.0 + 0.0 * v], (0.0, 1.0), np.stack([1.0, v]), events=level, **TIGHT
    ).t_events[0][0]  # fmt: skip
    speeds = np.array([1.0 + 1e-14, 1.2])
    assert da.vmap(f)(speeds).shape == (2,)  # the times are what they are
    with pytest.raises(ConvergenceError, match="grazes"):
        da.vmap(da.grad(f))(speeds)


def test_a_planted_fault_is_caught(monkeypatch) -> None:
    """An end that does not know which event was met does not pass."""
    right = Asked.last

    def wrong(self):
        self.ending = 0 * self.ending
        return right(self)

    monkeypatch.setattr(Asked, "last", wrong)
    with pytest.raises(AssertionError):
        test_lanes_that_end_in_different_ways()
