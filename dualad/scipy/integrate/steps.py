"""The discrete adjoint: the derivative of what an explicit method did, its step sizes held, walked back step by step.

    y⁺ = Φ(t, h, y, θ):   λ = Φ_yᵀ λ⁺,   θ̄ += Φ_θᵀ λ⁺

The steps are taken again and recorded first: a time and a state each. A state inside of a step is read off its dense
output, which is a function of the step's start as well. Tangents need nothing of their own: a Runge–Kutta method that
takes the state's steps for the variational equation computes the tangent of what it computes for the state. Not for:
the adjoint equation (``adjoint.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...control.control_flow import while_loop
from ...control.linear_solve import cast
from ...control.loops import scan
from ...rules.calls import of_moving
from ...vjp_via_transpose import vjp
from .functions import over_lanes
from .native import LOOPS, compiled, message_of, stopped_early
from .problem import Problem, in_order
from .recorded import accepted_steps, problem_steps
from .runge_kutta import RUNNING, Method, State

__all__ = ["walk_back_steps", "walks_back"]

#: steps that are walked back at once
_AT_ONCE = 256


def walks_back(problem: Problem) -> bool:
    """Whether steps can be walked back: those that read nothing of the step before, and iterate nothing."""
    return isinstance(LOOPS.get(problem.settings.name), Method)


def walk_back_steps(
    problem: Problem, cotangents: np.ndarray, t0: Any, times: np.ndarray, y0: np.ndarray, parameters: Sequence,
    moving: tuple[bool, ...],
) -> list[np.ndarray]:  # fmt: skip
    """Pull cotangents of y at the times, shape (lanes, times, n), back to y0 and to the moving parameters."""
    theta = [np.asarray(p, order="C") for p in parameters]
    order, times = in_order(t0, times)
    if order is not None:
        cotangents = cotangents[:, np.argsort(order)]
    live = np.flatnonzero(cotangents.any((0, 2)))
    times = times[: live[-1] + 1] if len(live) else times[:0]
    cotangents = cotangents[:, : len(times)]
    moved = [p for p, m in zip(theta, moving, strict=True) if m]
    bars = [np.zeros((len(cotangents), *p.shape)) for p in moved]
    if not len(times) or times[-1] == t0:
        return [cotangents.sum(1), *bars]
    s = problem.settings
    code = problem_steps(problem, y0, theta := tuple(theta))
    t, y, last = accepted_steps(code, float(t0), float(times[-1]), y0, theta, s.control)
    if last.t != times[-1]:
        raise stopped_early(s.where, "the solver", last.t, message_of(last.status, s.control))
    forward = 1.0 if t[-1] >= t[0] else -1.0
    inside = np.clip(np.searchsorted(forward * t, forward * times) - 1, 0, len(t) - 2)
    at_times = [np.ascontiguousarray(x) for x in (t[inside], t[inside + 1], y[inside], times)]
    extra, bars = _pull(problem, 0, at_times, np.moveaxis(cotangents, 1, 0), None, bars, theta, moving)
    jumps = np.zeros((len(t), len(cotangents), problem.n))
    np.add.at(jumps, inside, extra)
    lam = jumps[-1]
    for first in reversed(range(0, len(t) - 1, _AT_ONCE)):
        part = [_padded(x[first : first + _AT_ONCE + 1], _AT_ONCE + 1) for x in (t, y, jumps)]
        rows = [part[0][:-1], part[0][1:], part[1][:-1], part[0][1:]]
        count = min(_AT_ONCE, len(t) - 1 - first)
        lam, bars = _pull(problem, count, rows, part[2][:-1], lam, bars, theta, moving)
    return [lam, *[cast(b, p.dtype) for b, p in zip(bars, moved, strict=True)]]


def _padded(rows: np.ndarray, length: int) -> np.ndarray:
    """Return rows with others behind them, which nobody reads."""
    more = length - len(rows)
    return np.ascontiguousarray(np.concatenate([rows, np.repeat(rows[-1:], more, 0)]) if more else rows)


def _pull(
    problem: Problem, count: int, rows: list, cotangents: np.ndarray, lam: Any, bars: list, theta: list, moving: tuple
) -> tuple[Any, list]:  # fmt: skip
    """Pull cotangents back through steps from t to ``end`` each, from the last to the first.

    λ goes through ``count`` of them, and the cotangents are added before each. If there are none, each cotangent is of
    the solution at a time in a step, and what it is at the start of that is returned.
    """
    method, places = LOOPS[problem.settings.name], [1 + i for i, m in enumerate(moving) if m]
    dense = not count

    def run(count, *values):
        t, end, y, at_time, ct, lam, *rest = values
        bars, theta = rest[: len(moved)], rest[len(moved) :]

        def turn(carry, row):
            lam, *bars = carry
            t, end, y, at_time, ct = row

            def one(y, *theta):
                f = problem.right_side(theta)
                after, k = method.step(f, t, y, end - t, end, f(t, y))
                if not dense:
                    return after
                state = State(end, after, end - t, k, t, y, False, 0, RUNNING)
                return method.at(f, state, at_time)

            g, chosen = of_moving(one, (y, *theta), [0, *places])
            pull = vjp(g, *chosen)[1]
            back, *more = over_lanes(pull, ct if dense else lam)
            bars = [b + m for b, m in zip(bars, more, strict=True)]
            return (lam if dense else back + ct, *bars), back if dense else None

        rows = t, end, y, at_time, ct
        if dense:
            (_, *bars), out = scan(turn, (lam, *bars), rows)
            return [out, *bars]
        back = lambda c: (c[0] - 1, *turn(c[1:], [x[c[0] - 1] for x in rows])[0])
        return list(while_loop(lambda c: c[0] > 0, back, (count, lam, *bars))[1:])

    moved = bars
    if dense:
        lam = np.zeros_like(cotangents[0])
    given = [np.int64(count), *rows, np.ascontiguousarray(cotangents), lam, *bars, *theta]
    out, *bars = compiled(problem, ("dense" if dense else "steps", moving), run, given)
    return out, list(bars)
