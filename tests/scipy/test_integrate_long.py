"""Adjoints of long solutions: steps that are taken again from states that are kept, and what memory that takes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.integrate as si

import dualad as da
from dualad.errors import ArgumentError
from dualad.scipy.integrate import odeint, path, solve_ivp

START, RATES = np.array([0.8, 0.1]), np.array([1.3, 0.2])


def pendulum(t, y, p):
    return np.stack([y[1], -p[0] * np.sin(y[0]) - p[1] * y[1] * np.cos(t)])


def swing(y0, p, ends=(0.0, 3.0), method="RK45", **options):
    options = {"rtol": 1e-7, "atol": 1e-8} | options
    return solve_ivp(pendulum, ends, y0, method, args=(p,), t_eval=np.linspace(*ends, 4), **options).y


@pytest.mark.parametrize("method", ["RK23", "DOP853", "Radau", "BDF", "LSODA"])
@pytest.mark.parametrize("ends", [(0.0, 3.0), (3.0, 0.0)])
def test_steps_are_taken_again(method: str, ends: tuple) -> None:
    """As from the whole of the dense output; the pull is the transpose of the push."""
    f = lambda y0, p, keep: swing(y0, p, ends, method, sensitivity="adjoint", keep_steps=keep)
    out = np.random.default_rng(0).normal(size=(2, 4))
    whole = da.vjp(lambda *a: f(*a, None), START, RATES)[1](out)
    tangents = np.array([0.3, -1.0]), np.array([0.7, 0.4])
    push = da.jvp(lambda *a: swing(*a, ends, method), (START, RATES), tangents)[1]
    for keep in (1, 7):
        parts = da.vjp(lambda *a, keep=keep: f(*a, keep), START, RATES)[1](out)
        for a, b in zip(parts, whole, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5)
        pairing = sum([np.sum(a * t) for a, t in zip(parts, tangents, strict=True)])
        np.testing.assert_allclose(pairing, np.sum(out * push), atol=2e-5)


def test_steps_of_one_step_methods_are_the_same_again() -> None:
    """So the path is the same to the last bits, wherever it is cut."""
    whole, cut = made(10**6), made(5)
    assert len(whole._marks) == 1 and len(cut._marks) > 5
    for t in np.linspace(4.0, 0.0, 50):
        np.testing.assert_allclose(cut(t), whole(t), rtol=1e-13)
        assert len(cut._part.ends) <= 6
    np.testing.assert_array_equal(cut.largest, whole.largest)
    np.testing.assert_allclose(cut(-1e-17), START, rtol=1e-12)  # rounding may ask a little beside the ends


def made(keep: int) -> path.Path:
    def start(t, y, stop, first_step):
        return si.RK45(lambda t, y: pendulum(t, y, RATES), t, y, stop, rtol=1e-8, atol=1e-8, first_step=first_step)

    return path.Path("here", start, 0.0, 4.0, START, keep)


def test_each_part_is_taken_again_once(monkeypatch) -> None:
    taken: list = []
    right = path.Path._again
    monkeypatch.setattr(path.Path, "_again", lambda self, s: taken.append(s) or right(self, s))
    gradient = da.grad(lambda p: np.sum(swing(START, p, sensitivity="adjoint", keep_steps=10, max_step=0.02)))
    gradient(RATES)
    assert 12 <= len(taken) <= 20  # 150 steps


def test_odeint_and_second_order() -> None:
    t = np.linspace(0.0, 3.0, 4)
    f = lambda p, keep: np.sum(
        odeint(pendulum, START, t, (p,), tfirst=True, sensitivity="adjoint", keep_steps=keep) ** 2
    )  # fmt: skip
    np.testing.assert_allclose(da.grad(f)(RATES, 5), da.grad(f)(RATES, None), rtol=1e-5)
    g = lambda p, keep: np.sum(swing(START, p, sensitivity="adjoint", keep_steps=keep, rtol=1e-9, atol=1e-9) ** 2)
    np.testing.assert_allclose(da.hessian(g)(RATES, 5), da.hessian(g)(RATES, None), rtol=1e-5)


def test_what_is_no_number_of_steps() -> None:
    for wrong in (0, -3, 2.5, "all"):
        with pytest.raises(ArgumentError, match="keep_steps"):
            swing(START, RATES, keep_steps=wrong)


def peak(steps: int, keep: int | None) -> tuple[np.ndarray, int]:
    """Return a gradient by the adjoint and the most memory that was in use at once."""
    end = lambda p: swing(START, p, (0.0, 10.0), "RK23", sensitivity="adjoint", keep_steps=keep, max_step=10.0 / steps)
    tracemalloc.start()
    try:
        gradient = da.grad(lambda p: end(p)[0, -1])(RATES)
        return gradient, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_steps() -> None:
    peak(50, None)  # what is made once
    whole, most = peak(500, 10**6)
    parts, least = peak(500, 20)
    np.testing.assert_allclose(parts, whole, rtol=1e-7)
    assert most > 2 * least


@pytest.mark.full
def test_a_hundred_thousand_steps() -> None:
    """By default less than 10 MB, where all of the dense output is more than 100 MB (150 s)."""
    gradient, most = peak(100_000, None)
    assert most < 20e6
    np.testing.assert_allclose(gradient, peak(1000, None)[0], rtol=1e-5)


def test_a_planted_fault_is_caught(monkeypatch) -> None:
    """Steps that begin at the wrong state do not pass."""
    right = path.Path._mark

    def wrong(self, solver):
        right(self, solver)
        self._marks[-1] = self._marks[-1]._replace(y=self._marks[-1].y * 1.01)

    monkeypatch.setattr(path.Path, "_mark", wrong)
    with pytest.raises(AssertionError):
        test_steps_are_taken_again("DOP853", (0.0, 3.0))
