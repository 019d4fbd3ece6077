"""Events of an initial value problem: the times at which g(t, y(t), θ) = 0, as implicit functions.

    ġ = ∂g/∂t + ∂g/∂y · f:     ṫ* = −(∂g/∂y · ẏ + ∂g/∂θ · θ̇) / ġ

Not for: finding them, which SciPy's solver does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...control.implicit import custom_root
from ...core.dispatch import bind
from ...errors import ConvergenceError
from ...jvp import jvp
from ...vjp_via_transpose import vjp
from .functions import Closing
from .problem import Problem
from .trajectories import ivp

__all__ = ["check_crossings", "event_list", "event_times", "stopping_event"]

#: a rate of g below this part of what its gradients allow is a trajectory that touches the event without crossing it
_GRAZING = 1e-6


def event_list(events: Any) -> list[Callable]:
    """Return the events that were given as one function, or as a sequence of them."""
    if events is None:
        return []
    return [events] if callable(events) else list(events)


def event_times(
    g: Closing, found: np.ndarray, problem: Problem, t0: Any, stop: float, y0: Any, parameters: Sequence
) -> Any:
    """Return the times of one event with their derivatives; ``found`` are SciPy's."""

    def residual(t, t0, y0, *parameters):
        rows = bind(ivp, (t0, stop, t, y0, *parameters), {"call": problem})
        return np.stack([g.of_all(t[i], rows[i], *parameters) for i in range(len(found))])

    return custom_root(residual, found, lambda f, x0: x0, args=(t0, y0, *parameters))


def check_crossings(
    g: Closing, times: np.ndarray, rows: np.ndarray, problem: Problem, parameters: Sequence, where: str
) -> None:
    """Refuse events whose g does not change at a rate: their times are not differentiable."""
    for t, y in zip(times, rows, strict=True):
        f = np.asarray(problem.function(t, y, *parameters))
        of_both = lambda t, y: g.of_all(t, y, *parameters)
        rate = float(np.real(jvp(of_both, (float(t), y), (1.0, f))[1]))
        by_t, by_y = vjp(of_both, float(t), y)[1](1.0)
        if not abs(rate) > _GRAZING * (abs(by_t) + np.linalg.norm(by_y) * np.linalg.norm(f)):
            raise ConvergenceError(
                f"{where}: the event `{g.name}` at t = {float(t):.6g} grazes: along the solution it changes at the rate"
                f" {rate:.3g}.",
                "where a trajectory touches an event without crossing it, the time of the event has no derivative (it"
                " appears or vanishes as the parameters change)",
                "differentiate elsewhere, or leave the event out and use y at a time that is given",
            )


def stopping_event(functions: Sequence[Callable], run: Any) -> int | None:
    """Return which event has ended a run, if one has."""
    if run.status != 1:
        return None
    last = {i: at[-1] for i, (e, at) in enumerate(zip(functions, run.t_events, strict=True)) if len(at) and _stops(e)}
    rising = run.t[-1] >= run.t[0] if len(run.t) else True
    return (max if rising else min)(last, key=lambda i: last[i])


def _stops(event: Callable) -> bool:
    return bool(getattr(event, "terminal", False))
