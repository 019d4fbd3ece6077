"""Explicit Runge–Kutta methods as programs: a step in plain NumPy, and SciPy's control of its size for any method.

    kᵢ = f(t + cᵢ h, y + h Σⱼ aᵢⱼ kⱼ),   y⁺ = y + h Σ bᵢ kᵢ,   ε = ‖error / scale‖ < 1,   h⁺ = h · 0.9 ε^(−1/(q+1))

Hairer, Nørsett, Wanner, *Solving Ordinary Differential Equations I* (1993), II.4 and II.5. The tables of RK23, RK45 and
DOP853 are SciPy's, and so are the norm, the first step and the controller: the accepted steps are SciPy's too. Nothing
branches on values, so that the loop is one ``while_loop``. Not for: who runs the loop (``native.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate as si

from .tables import Tsit5, Vern7

__all__ = [
    "Control", "EXPLICIT", "Method", "NOT_FINITE", "RUNNING", "State", "TOO_MANY", "TOO_SMALL", "first_size",
    "norm", "spacing", "weighted",
]  # fmt: skip

#: what a run has come to
RUNNING, TOO_SMALL, NOT_FINITE, TOO_MANY = 0, 1, 2, 3
#: the part of the interval over which y' at the start is a mean, where a mass matrix does not let it be known at once
_BRIEF = 1e-10


class State(NamedTuple):
    """Where a run is.

    The last accepted step went from (t_old, y_old) to (t, y) by the stages k, of which the last is f(t, y).
    """

    t: Any
    y: Any
    h: Any
    k: tuple
    t_old: Any
    y_old: Any
    rejected: Any
    tried: Any
    status: Any


class Method(NamedTuple):
    """A method of one step: how many stages it has, and the order q of its error.

    ``step(f, t, y, h, end, slope)`` returns the state after a step from (t, y), where the slope is known, and its
    stages k; ``measure(k, h, scale)`` the norm of its error, and ``dense(f, state)`` the last step as a function of the
    part of it.
    """

    stages: int
    q: int
    step: Callable
    measure: Callable
    dense: Callable
    #: evaluations of f in a step, and factorizations
    calls: int
    matrices: int = 0

    def begin(self, f: Any, t0: Any, t1: Any, y0: Any, control: Control) -> State:
        """Return the state before the first step."""
        slope = f(t0, y0)
        h = first_size(self.q, f, t0, t1, y0, slope, control)
        k = (*[np.zeros_like(y0) for _ in range(self.stages - 1)], slope)
        return State(t0, y0, h, k, t0, y0, np.bool_(False), np.int64(0), np.int64(RUNNING))

    def advance(self, f: Callable, s: State, t1: Any, control: Control) -> State:
        """Try one step: it is accepted, or the next one is smaller."""
        d, least = np.sign(t1 - s.t), spacing(s.t, t1)
        size = np.where(s.rejected, s.h, np.maximum(np.minimum(s.h, control.max_step), least))
        t = s.t + d * size
        t = np.where(d * (t - t1) > 0, t1, t)
        h = t - s.t
        y, k = self.step(f, s.t, s.y, h, t, s.k[-1])
        error = self.measure(k, h, control.atol + np.maximum(np.abs(s.y), np.abs(y)) * control.rtol)
        # An error of zero is the best, one that is NaN the worst.
        known = np.where(error >= 0, np.maximum(error, 1e-300), np.inf)
        factor = 0.9 * known ** (-1 / (self.q + 1))
        most = np.where(s.rejected, 1.0, 10.0)
        larger = np.minimum(factor, most)
        smaller = np.maximum(factor, 0.2)
        fails = ~(size >= least)
        good = (error < 1) & ~fails
        choose = lambda new, old: np.where(good, new, old)
        tried, why = s.tried + 1, np.where(error == error, TOO_SMALL, NOT_FINITE)
        return State(
            choose(t, s.t), choose(y, s.y), np.abs(h) * choose(larger, smaller),
            tuple([choose(a, b) for a, b in zip(k, s.k, strict=True)]), choose(s.t, s.t_old), choose(s.y, s.y_old),
            ~good, tried, np.where(fails, why, np.where(tried < control.max_steps, RUNNING, TOO_MANY)),
        )  # fmt: skip

    def at(self, f: Callable, s: State, t: Any) -> Any:
        """Return the solution at a time in the last step, NaN beyond it, and where there was no step."""
        return self._along(f, s)(t)

    def _along(self, f: Callable, s: State) -> Callable:
        dense, h = self.dense(f, s), s.t - s.t_old

        def at(t: Any) -> Any:
            x = np.where(h == 0, 0.0, (t - s.t_old) / np.where(h == 0, 1.0, h))
            return np.where((t == s.t) | ((h != 0) & (x <= 1)), np.where(t == s.t, s.y, dense(x)), np.nan)

        return at

    def piece(self, s: State) -> tuple:
        """Return the arguments of the last step's dense output."""
        return s.t_old, s.y_old, s.t

    def along(self, f: Callable, piece: tuple) -> Callable:
        """Return the solution in a step, which is taken again, as a function of time."""
        begin, y, end = piece
        after, k = self.step(f, begin, y, end - begin, end, f(begin, y))
        return self._along(f, State(end, after, end - begin, k, begin, y, False, 0, RUNNING))

    def work(self, s: State) -> Any:
        """Return the calls of f, the Jacobians and the factorizations of the steps that were tried."""
        return s.tried * np.array([self.calls, self.matrices, self.matrices])


class Control(NamedTuple):
    """The choices of a run: SciPy's, and how many steps are tried."""

    rtol: Any
    atol: Any
    max_step: float
    first_step: float | None
    max_steps: int
    #: the relative tolerance that iterations are for
    newton: Any


def weighted(weights: Sequence, k: Sequence) -> Any:
    """Return Σ wᵢ kᵢ."""
    terms = [w * slope for w, slope in zip(weights, k, strict=False) if w != 0]
    return sum(terms[1:], terms[0])


def norm(x: Any) -> Any:
    """Return the root of the mean of squares."""
    return np.sqrt(np.sum(x * x) / x.size)


# ── the size of a step ───────────────────────────────────────────────────────────────────────────────────────────


def first_size(q: int, f: Any, t0: Any, t1: Any, y0: Any, slope: Any, control: Control) -> Any:
    """Return the size of the first step of a method with an error of order q: Hairer, Nørsett and Wanner, II.4."""
    d, interval = np.sign(t1 - t0), np.abs(t1 - t0)
    if control.first_step is not None:
        return np.minimum(control.first_step, interval)
    rate = slope if f.mass is None else f.slope(t0, y0, _BRIEF * interval * d)
    scale = control.atol + np.abs(y0) * control.rtol
    d0, d1 = norm(y0 / scale), norm(rate / scale)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = np.minimum(np.where(small, 1e-6, 0.01 * d0 / np.where(small, 1.0, d1)), interval)
    d2 = norm((f.slope(t0 + h0 * d, y0 + h0 * d * rate, h0 * d) - rate) / scale) / h0
    flat, largest = (d1 <= 1e-15) & (d2 <= 1e-15), np.maximum(d1, d2)
    h1 = np.where(flat, np.maximum(1e-6, h0 * 1e-3), (0.01 / np.where(flat, 1.0, largest)) ** (1 / (q + 1)))
    return np.minimum(np.minimum(100 * h0, h1), np.minimum(interval, control.max_step))


def spacing(t: Any, t1: Any) -> Any:
    """Return the size of the smallest step: ten times the distance to the next number.

    That is by Rump, Zimmermann, Boldo, Melquiond (2009), algorithm 3.3, of succ and pred.
    """
    return 10 * np.abs((t + np.sign(t1 - t) * (2.0**-53 * (1 + 2.0**-52) * np.abs(t) + 5e-324)) - t)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _explicit(table: Any, measure: Callable, dense: Callable) -> Method:
    def step(f: Callable, t: Any, y: Any, h: Any, end: Any, slope: Any) -> tuple[Any, tuple]:
        k = [slope]
        for row, c in zip(table.A[1:], table.C[1:], strict=True):
            k.append(f(t + c * h, y + weighted(row, k) * h))
        y = y + h * weighted(table.B, k)
        return y, (*k, f(end, y))

    return Method(len(table.B) + 1, table.error_estimator_order, step, measure, dense, len(table.B))


def _more_stages(table: Any, f: Callable, s: State) -> list:
    """Return the stages of the last step, and those that the dense output has besides."""
    k, h = list(s.k), s.t - s.t_old
    for row, c in zip(getattr(table, "A_EXTRA", ()), getattr(table, "C_EXTRA", ()), strict=True):
        k.append(f(s.t_old + c * h, s.y_old + weighted(row, k) * h))
    return k


def _pair(table: Any) -> Method:
    """Return a pair with one estimate of the error, and its dense output ``y + h Σ kᵢ Σ pᵢⱼ x^(j+1)``."""

    def measure(k: Sequence, h: Any, scale: Any) -> Any:
        return norm(weighted(table.E, k) * h / scale)

    def dense(f: Callable, s: State) -> Callable:
        k = _more_stages(table, f, s)

        def at(x: Any) -> Any:
            powers = [x ** (j + 1) for j in range(table.P.shape[1])]
            weights = [weighted(row, powers) if np.any(row) else 0.0 for row in table.P]
            moving = [(w, slope) for w, slope, row in zip(weights, k, table.P, strict=True) if np.any(row)]
            return s.y_old + (s.t - s.t_old) * sum([w * slope for w, slope in moving[1:]], moving[0][0] * moving[0][1])

        return at

    return _explicit(table, measure, dense)


def _dop853(table: Any) -> Method:
    """Return the method of order 8 with errors of orders 5 and 3, and a dense output of three more stages (II.10)."""

    def measure(k: Sequence, h: Any, scale: Any) -> Any:
        fifth, third = weighted(table.E5, k) / scale, weighted(table.E3, k) / scale
        fifth, third = np.sum(fifth * fifth), np.sum(third * third)
        both = fifth + 0.01 * third
        return np.abs(h) * fifth / np.sqrt(np.where(both > 0, both, 1.0) * scale.size)

    def dense(f: Callable, s: State) -> Callable:
        k, h, change = _more_stages(table, f, s), s.t - s.t_old, s.y - s.y_old
        parts = [
            change,
            h * k[0] - change,
            2 * change - h * (s.k[-1] + k[0]),
            *[h * weighted(row, k) for row in table.D],
        ]

        def at(x: Any) -> Any:
            out = 0.0 * change
            for i, part in enumerate(reversed(parts)):
                out = (out + part) * (1 - x if i % 2 else x)
            return s.y_old + out

        return at

    return _explicit(table, measure, dense)


#: the explicit methods, by name
EXPLICIT: dict[str, Method] = {
    "RK23": _pair(si.RK23), "RK45": _pair(si.RK45), "DOP853": _dop853(si.DOP853), "Tsit5": _pair(Tsit5),
    "Vern7": _pair(Vern7),
}  # fmt: skip
