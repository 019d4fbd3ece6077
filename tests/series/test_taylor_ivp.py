"""Differential equations by power series: closed forms, conserved orbits, events, derivatives, refusals."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import dualad as da
from dualad.compile.tracing import EffectWarning
from dualad.errors import ArgumentError, ArgumentTypeError, OutputError, ShapeError, UnsupportedError

ivp = sys.modules["dualad.series.taylor_ivp"]


def kepler(t, z):
    q, p = z[:2], z[2:]
    r2 = q[0] * q[0] + q[1] * q[1]
    return np.concatenate([p, -q / (r2 * np.sqrt(r2))])


CLOSED_FORMS = {
    "exp(t²/2)": (lambda t, y: [t * y[0]], 0.0, 2.0, [1.0], lambda t: [np.exp(t * t / 2)]),
    "tan": (lambda t, y: 1 + y**2, 0.0, 1.5, [0.0], lambda t: [np.tan(t)]),
    "backwards": (lambda t, y: -2 * t * y, 1.0, -1.0, [np.exp(-1.0)], lambda t: [np.exp(-t * t)]),
    "oscillator": (lambda t, y: [y[1], -y[0]], 0.0, 30.0, [0.0, 1.0], lambda t: [np.sin(t), np.cos(t)]),
    "complex": (lambda t, y: 1j * y, 0.0, 5.0, [1.0 + 0j], lambda t: [np.exp(1j * t)]),
    "polynomial": (lambda t, y: [3 * t**2 + 0 * y[0]], 0.0, 4.0, [1.0], lambda t: [1 + t**3]),
    "zeros of both signs": (lambda t, y: np.copysign(y, 0.0) + np.copysign(y, -0.0), 0.0, 2.0, [1.0], lambda t: [1.0]),
    "at rest": (lambda t, y: 0 * y, 0.0, 4.0, [1.0], lambda t: [1.0]),
    "logistic": (lambda t, y: y * (1 - y), 0.0, 8.0, [0.1], lambda t: [1 / (1 + 9 * np.exp(-t))]),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms(name: str) -> None:
    fun, start, end, y0, exact = CLOSED_FORMS[name]
    sol = da.taylor_ivp(fun, (start, end), np.array(y0))
    assert sol.success and sol.status == 0 and sol.t[-1] == end
    expected = np.stack([exact(t) for t in sol.t], axis=-1)
    np.testing.assert_allclose(sol.y, expected, rtol=3e-13, atol=3e-13)
    between = np.linspace(start, end, 7)
    np.testing.assert_allclose(sol.sol(between), np.stack([exact(t) for t in between], -1), rtol=3e-13, atol=3e-13)
    np.testing.assert_array_equal(sol.sol(between[2]), sol.sol(between)[:, 2])


def test_ten_orbits_take_the_steps_that_theory_says() -> None:
    start = np.array([0.5, 0, 0, np.sqrt(3.0)])
    sol = da.taylor_ivp(kepler, (0, 4 * np.pi), start, rtol=1e-15)
    assert sol.order == 19 and 74 <= sol.nfev <= 78  # 378 for ten orbits, as heyoka
    np.testing.assert_allclose(sol.y[:, -1], start, atol=1e-12)


def test_t_eval_chooses_the_times() -> None:
    sol = da.taylor_ivp(lambda t, y: y, (0.0, 1.0), [1.0], t_eval=[0.25, 0.5])
    np.testing.assert_array_equal(sol.t, [0.25, 0.5])
    np.testing.assert_allclose(sol.y, [np.exp(sol.t)])


def test_events_are_found_to_rounding() -> None:
    def lands(t, y):
        return y[0]

    lands.terminal, lands.direction = True, -1
    fall = lambda t, y: [y[1], -9.81 + 0 * y[0]]
    sol = da.taylor_ivp(fall, (0, 10), [1.0, 2.0], events=[lands, lambda t, y: y[1]])
    ground, top = (2 + np.sqrt(4 + 2 * 9.81)) / 9.81, 2 / 9.81
    np.testing.assert_allclose([sol.t_events[0][0], sol.t_events[1][0]], [ground, top], rtol=1e-14)
    assert sol.status == 1 and sol.success and sol.t[-1] == sol.t_events[0][0]
    np.testing.assert_allclose(sol.y_events[0][0], [0.0, 2 - 9.81 * ground], atol=1e-14)
    crossings = da.taylor_ivp(
        lambda t, y: [y[1], -y[0]], (0.1, 40), [np.sin(0.1), np.cos(0.1)], events=lambda t, y: y[0]
    )
    np.testing.assert_allclose(crossings.t_events[0], np.pi * np.arange(1, 13), rtol=1e-13)


def test_a_bouncing_ball_stops_at_its_second_bounce() -> None:
    bounces = lambda t, y: y[0]
    bounces.terminal, bounces.direction = 2, 1
    sol = da.taylor_ivp(lambda t, y: [y[1], -y[0]], (0.5, 50.0), [1.0, 0.0], events=bounces)
    np.testing.assert_allclose(sol.t_events[0], 0.5 + np.pi * np.array([1.5, 3.5]))
    assert sol.t[-1] == sol.t_events[0][1]


def test_derivatives_in_the_start_and_in_what_the_function_reads() -> None:
    end = lambda y0, w: da.taylor_ivp(lambda t, y: [y[1], -w * y[0]], (0.0, 2.0), y0).y[:, -1]
    y0 = np.array([1.0, 0.5])
    flow = np.array([[np.cos(2.0), np.sin(2.0)], [-np.sin(2.0), np.cos(2.0)]])
    columns = [da.jvp(lambda y: end(y, 1.0), (y0,), (e,))[1] for e in np.eye(2)]
    np.testing.assert_allclose(np.stack(columns, 1), flow, rtol=1e-12)
    exact = lambda w: y0[0] * np.cos(2 * np.sqrt(w)) + y0[1] * np.sin(2 * np.sqrt(w)) / np.sqrt(w)
    np.testing.assert_allclose(da.grad(lambda w: end(y0, w)[0])(1.3), da.grad(exact)(1.3), rtol=1e-11)
    np.testing.assert_allclose(da.grad(da.grad(lambda w: end(y0, w)[0]))(1.3), da.grad(da.grad(exact))(1.3), rtol=1e-10)


@pytest.mark.parametrize(
    "cube", [lambda q: q**1.5, lambda q: q * np.sqrt(q), lambda q: np.exp(1.5 * np.log(q)), lambda q: 1 / q**-1.5]
)
def test_reverse_mode_ends_whatever_the_rules_write(cube) -> None:
    """Each derivative of a power is another power: what rules write is asked for, not swept."""
    pull = lambda t, y: [y[2], y[3], *(-y[:2] / cube(y[0] ** 2 + y[1] ** 2))]
    end = lambda y: da.taylor_ivp(pull, (0.0, 0.3), y, rtol=1e-6).y[:, -1]
    y0 = np.array([0.5, 0.0, 0.0, 1.7])
    np.testing.assert_allclose(da.jacrev(end)(y0), da.jacfwd(end)(y0), rtol=1e-11, atol=1e-11)
    with pytest.raises(UnsupportedError, match="the size of a step can't be chosen"):
        da.jit(end)(y0)


def test_a_singularity_ends_it_without_success() -> None:
    sol = da.taylor_ivp(lambda t, y: 1 + y**2, (0.0, 2.0), [0.0])
    assert not sol.success and sol.status == -1 and sol.message
    np.testing.assert_allclose(sol.t[-1], np.pi / 2, rtol=1e-9)
    short = da.taylor_ivp(kepler, (0, 100.0), [0.5, 0, 0, 1.7], max_steps=3)
    assert not short.success and "max_steps" in short.message


def test_lanes_take_the_steps_of_the_one_that_needs_the_shortest() -> None:
    starts = np.array([[0.5, 0, 0, np.sqrt(3.0)], [1.0, 0, 0, 1.0], [0.8, 0, 0, np.sqrt(1.5)]])  # e = 0.5, 0, 0.2
    lanes = da.vmap(lambda y: da.taylor_ivp(kepler, (0, 1.0), y, rtol=1e-15).y)(starts)
    alone = da.taylor_ivp(kepler, (0, 1.0), starts[0], rtol=1e-15)
    assert lanes.shape == (3, 4, alone.nfev + 1)
    np.testing.assert_allclose(lanes[0], alone.y, atol=1e-13)
    table = lambda y: da.taylor_ivp(kepler, (0, 0.5), y, t_eval=[0.2, 0.4]).y
    np.testing.assert_allclose(da.vmap(table)(starts), np.stack([table(y) for y in starts]), atol=1e-12)
    rates = np.array([0.5, 2.0])
    end = lambda w: da.taylor_ivp(lambda t, y: -w * y, (0.0, 1.0), [1.0]).y[0, -1]
    np.testing.assert_allclose(da.vmap(da.grad(end))(rates), -np.exp(-rates), rtol=1e-13)
    both = da.vmap(lambda w: da.vmap(lambda y: da.taylor_ivp(lambda t, z: w * z, (0, 1.0), y).y[:, -1])(np.eye(2)))
    np.testing.assert_allclose(both(rates), np.exp(rates)[:, None, None] * np.eye(2), rtol=1e-13)


# ── compiled steps ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_that_is_taken_often_is_compiled(monkeypatch) -> None:
    monkeypatch.setattr(ivp, "_COMPILED", 3)
    scale = np.array([1.0])
    runs = []

    def pendulum(t, y):
        runs.append(1)
        return [y[1], -scale[0] * np.sin(y[0]) + 0.1 * np.cos(t)]

    height = lambda t, y: y[0]
    solve = lambda: da.taylor_ivp(pendulum, (0.0, 30.0), [1.0, 0.0], events=height)
    with pytest.warns(EffectWarning, match="changes a list"):
        first = solve()
    calls = len(runs)
    assert calls < first.nfev / 2  # eager steps, and those that write it down
    again = solve()
    assert len(runs) == calls
    assert again.nfev == first.nfev
    np.testing.assert_allclose(again.y, first.y, atol=1e-12)
    np.testing.assert_allclose(again.t_events[0], first.t_events[0], atol=1e-12)
    np.testing.assert_allclose(again.sol(1.7), first.sol(1.7), atol=1e-12)
    exact = da.taylor_ivp(lambda t, y: [y[1], -2 * np.sin(y[0]) + 0.1 * np.cos(t)], (0.0, 30.0), [1.0, 0.0])
    scale[0] = 2.0  # what the function reads has changed
    np.testing.assert_allclose(solve().y[:, -1], exact.y[:, -1], atol=1e-11)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms_of_compiled_steps(name: str, monkeypatch) -> None:
    fun, start, end, y0, exact = CLOSED_FORMS[name]
    monkeypatch.setattr(ivp, "_COMPILED", 2)
    monkeypatch.setattr(ivp, "_NUMBERS", 10**9)
    own = lambda t, y, one: fun(t, one * y)
    for _ in range(3):
        sol = da.taylor_ivp(own, (start, end), np.array(y0), args=(1.0,))
    np.testing.assert_allclose(sol.y[:, -1], exact(end), rtol=3e-13, atol=3e-13)


def test_a_function_that_branches_is_run_every_time(monkeypatch) -> None:
    monkeypatch.setattr(ivp, "_COMPILED", 2)
    decay = lambda t, y: -y if y[0] > 0 else y
    for _ in range(2):
        np.testing.assert_allclose(da.taylor_ivp(decay, (0.0, 3.0), [1.0]).y[0, -1], np.exp(-3.0), rtol=1e-12)
    broken = []

    def breaks(t, y):
        if broken:
            raise ZeroDivisionError("the user's own")
        return -y

    for _ in range(3):
        da.taylor_ivp(breaks, (0.0, 3.0), [1.0])
    broken.append(True)
    with pytest.raises(ZeroDivisionError, match="the user's own"):
        da.taylor_ivp(breaks, (0.0, 3.0), [1.0])


REFUSED = {
    "t_span": (lambda: da.taylor_ivp(kepler, 3.0, [1.0]), ArgumentError, "t_span=3.0"),
    "endless": (lambda: da.taylor_ivp(kepler, (0, np.inf), [1.0]), ArgumentError, "t_span"),
    "rtol": (lambda: da.taylor_ivp(kepler, (0, 1), [1.0], rtol=0.0), ArgumentError, "rtol=0.0"),
    "order": (lambda: da.taylor_ivp(kepler, (0, 1), [1.0], order=1), ArgumentError, "order=1"),
    "y0": (lambda: da.taylor_ivp(kepler, (0, 1), np.eye(2)), ShapeError, "shape"),
    "rate": (lambda: da.taylor_ivp(lambda t, y: y[:1], (0, 1), [1.0, 2.0]), OutputError, r"shape \(1,\)"),
    "function": (lambda: da.taylor_ivp(1.0, (0, 1), [1.0]), ArgumentTypeError, "the function"),
    "event": (lambda: da.taylor_ivp(kepler, (0, 1), [1.0], events=[1.0]), ArgumentTypeError, "an event"),
    "unknown": (
        lambda: da.jit(lambda y: da.taylor_ivp(lambda t, y: y * y, (0.0, 0.5), y).y)(np.array([1.0])),
        UnsupportedError, "in a traced program no value is known",
    ),
    "events in lanes": (
        lambda: da.vmap(lambda y: da.taylor_ivp(lambda t, y: -y, (0.0, 0.5), y, events=lambda t, y: y[0]).y)(
            np.array([[1.0], [0.5]])
        ),
        UnsupportedError, "under vmap each lane has zeros of its own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        call()
