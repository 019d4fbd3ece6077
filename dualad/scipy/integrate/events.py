"""Events of an initial value problem: the times at which g(t, y(t), θ) = 0, as implicit functions.

    ġ = ∂g/∂t + ∂g/∂y · f:     ṫ* = −(∂g/∂y · ẏ + ∂g/∂θ · θ̇) / ġ

Of lanes, and in a program, what SciPy found is the result of two operators: ``ivp_found``, how often and where the
solver stopped, and ``ivp_crossings``, chosen times of one event. Not for: finding them, which SciPy's solver does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate as si

from ...control.implicit import custom_root
from ...core.aval import Aval
from ...core.dispatch import bind
from ...core.libraries import refuse_lazy
from ...core.primitive import Primitive
from ...core.tracer import Tracer, beneath, layers
from ...dual import Dual
from ...errors import ConvergenceError
from ...jvp import jvp, stop_gradient
from ...vjp_via_transpose import vjp
from ..closures import Closed
from .problem import Problem, Settings, check_run, key_of
from .trajectories import ivp

__all__ = ["Asked", "Found", "Watch", "check_crossings", "event_list", "event_times", "stopping_event"]

#: a rate of g below this part of what its gradients allow is a trajectory that touches the event without crossing it
_GRAZING = 1e-6


def event_list(events: Any) -> list[Callable]:
    """Return the events that were given as one function, or as a sequence of them."""
    if events is None:
        return []
    return [events] if callable(events) else list(events)


def event_times(
    g: Closed, found: np.ndarray, problem: Problem, t0: Any, stop: float, y0: Any, parameters: Sequence
) -> Any:
    """Return the times of one event with their derivatives; ``found`` are SciPy's."""

    def residual(t, t0, y0, *parameters):
        rows = bind(ivp, (t0, stop, t, y0, *parameters), {"call": problem})
        return np.stack([g.of_all(t[i], rows[i], *parameters) for i in range(len(found))])

    return custom_root(residual, found, lambda f, x0: x0, args=(t0, y0, *parameters))


def check_crossings(g: Closed, times: np.ndarray, rows: np.ndarray, problem: Problem, parameters: Sequence) -> None:
    """Refuse events whose g does not change at a rate: their times are not differentiable."""
    where = problem.settings.where
    for t, y in zip(times, rows, strict=True):
        f = np.asarray(problem.slope(t, y, parameters))
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


# ── of lanes, and in a program ───────────────────────────────────────────────────────────────────────────────────

#: what ended a run, where no event has
_REACHED, _FAILED = -1, -2
#: how many runs a call remembers the events of
_REMEMBERED = 4096


class Found(NamedTuple):
    """The events of a run: how many, the times and states of each, where it stopped and by which event."""

    count: int
    times: list
    states: list
    stop: float
    ending: int


@dataclass(eq=False, repr=False, slots=True)
class Watch:
    """The events of a call of ``solve_ivp``: a parameter of the operators."""

    #: the problem that is solved
    problem: Problem
    #: the user's events
    functions: list[Callable]
    #: the same as functions of everything they read
    crossings: Sequence[Closed]
    #: ``run(t0, t1, times, y0, parameters)`` has SciPy solve it with its events, on plain arrays
    run: Callable
    _found: dict[tuple, Found] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"<events of {self.problem.name}>"

    @property
    def may_stop(self) -> bool:
        """Whether an event is terminal."""
        return any([_stops(f) for f in self.functions])

    def found(self, t0, t1, times, y0, parameters: Sequence) -> Found:
        """Return the events of a run on plain arrays, which is made once per point."""
        key = (float(t1), None if times is None else times.tobytes(), *key_of(t0, y0, parameters))
        if key not in self._found:
            settings = self.problem.settings
            run = self.run(float(t0), float(t1), times, y0, parameters)
            if settings.require_success:
                check_run(run, settings)
            ending, stop = stopping_event(self.functions, run), float(t1)
            if ending is not None:
                stop = float(run.t_events[ending][-1])
            elif run.status == -1:
                stop = float(run.t[-1]) if len(run.t) else float(t0)
            code = _FAILED if run.status == -1 else _REACHED if ending is None else ending
            if len(self._found) >= _REMEMBERED:
                self._found.pop(next(iter(self._found)))
            self._found[key] = Found(
                len(run.t), list(run.t_events or ()), list(run.y_events or ()), stop, code
            )  # fmt: skip
        return self._found[key]


class Asked:
    """Events found for tensors: each time an implicit function of everything."""

    def __init__(self, watch: Watch, t0: Any, t1: Any, times: Any, y0: Any, parameters: Sequence) -> None:
        self._watch, self._params = watch, {"call": watch, "timed": times is not None}
        self._operands = (t0, t1, np.zeros(0) if times is None else times, y0, *parameters)
        counts, self.stop, self.ending = bind(found, self._operands, self._params)
        self.status = np.where(self.ending >= 0, 1, np.where(self.ending == _FAILED, -1, 0))
        numbers = beneath(counts)
        rows = None if isinstance(numbers, Tracer) else np.reshape(numbers, (-1, 1 + len(watch.functions)))
        #: for the times, then for each event, the smallest and the largest number of occurrences; ``None`` in a program
        self.least: Any = None if rows is None else np.min(rows, 0, initial=np.iinfo(int).max) * bool(len(rows))
        self.most: Any = None if rows is None else np.max(rows, 0, initial=0)

    def how_many(self, event: int | None) -> int | None:
        """Return how often an event occurred (``None``: how many times there are), where that is one number."""
        i = 0 if event is None else 1 + event
        return int(self.most[i]) if self.most is not None and self.least[i] == self.most[i] else None

    def times(self, event: int, places: Sequence[int]) -> Any:
        """Return chosen times of an event."""
        if not len(places):
            return np.zeros(0)
        moving = any([type(x) is Dual for given in self._operands for x in layers(given)])
        params = {**self._params, "event": event, "places": tuple(places), "checked": moving}
        at = bind(crossings, self._operands, params)
        t0, _, _, y0, *parameters = self._operands
        watch = self._watch
        return event_times(watch.crossings[event], at, watch.problem, t0, self.stop, y0, parameters)

    def last(self) -> Any:
        """Return the time at which the solver stopped: of an event, or the end."""
        watch, (t0, t1, _, y0, *parameters) = self._watch, self._operands
        terminal = [i for i, f in enumerate(watch.functions) if _stops(f)]
        stop = stop_gradient(self.stop)

        def residual(t, ending, t0, t1, y0, *parameters):
            out = t - np.where(ending == _FAILED, stop, t1)
            y = bind(ivp, (t0, stop, t[None], y0, *parameters), {"call": watch.problem})[0]
            for i in terminal:
                out = np.where(ending == i, watch.crossings[i].of_all(t, y, *parameters), out)
            return out

        return custom_root(residual, stop, lambda f, x0: x0, args=(self.ending, t0, t1, y0, *parameters))


def _point(t0, t1, times, y0, parameters: Sequence, timed: bool) -> tuple:
    for x in (t0, t1, times, y0, *parameters):
        refuse_lazy(x, "how the solution goes")
    return t0, t1, np.asarray(times) if timed else None, np.asarray(y0), parameters


def _found_impl(t0, t1, times, y0, *parameters, call, timed):
    it = call.found(*_point(t0, t1, times, y0, parameters, timed))
    counts = np.array([it.count, *[len(at) for at in it.times]], np.int64)
    return counts, np.float64(it.stop), np.int64(it.ending)


def _crossings_impl(t0, t1, times, y0, *parameters, call, timed, event, places, checked):
    it = call.found(*_point(t0, t1, times, y0, parameters, timed))
    at, where, g = it.times[event], call.problem.settings.where, call.crossings[event]
    if not all([-len(at) <= p < len(at) for p in places]):
        raise ConvergenceError(
            f"{where}: the event `{g.name}` occurred {len(at)} times, and number {max(places)} of them was asked for.",
            "an event that does not occur has no time",
            "lengthen t_span; or leave out the points at which it does not occur",
        )
    if checked:
        check_crossings(g, at[list(places)], it.states[event][list(places)], call.problem, parameters)
    return np.asarray(at[list(places)], float)


def _sample() -> tuple:
    def run(t0, t1, times, y0, parameters):
        k, c = parameters[0]
        swing = lambda t, y: [y[1], -k * np.sin(y[0]) - c * y[1]]
        return si.solve_ivp(swing, (t0, t1), y0, "DOP853", times, events=level, rtol=1e-8, atol=1e-8)

    level = lambda t, y: y[0] - 0.1 * t
    problem = Problem("sample", lambda t, y, p: y, 2, Settings("samples", "DOP853", 1e-8, 1e-8))
    named: Any = SimpleNamespace(name="level")
    watch = Watch(problem, [level], [named], run)
    point = np.asarray(0.0), np.asarray(4.0), np.zeros(0), np.array([0.5, 0.0]), np.array([2.0, 0.1])
    return *point, {"call": watch, "timed": False}


found = Primitive(
    "ivp_found",
    impl=_found_impl,
    abstract_eval=lambda *avals, call, timed: (
        Aval((1 + len(call.functions),), np.dtype(np.int64)), Aval((), np.dtype(float)), Aval((), np.dtype(np.int64))
    ),
    jvp=None,
    samples=lambda: [_sample()],
    multiple_results=True,
    raises=True,
    kind="implicit",
)  # fmt: skip

crossings = Primitive(
    "ivp_crossings",
    impl=_crossings_impl,
    abstract_eval=lambda *avals, call, timed, event, places, checked: Aval((len(places),), np.dtype(float)),
    jvp=None,
    samples=lambda: [(*_sample()[:-1], {**_sample()[-1], "event": 0, "places": (0,), "checked": False})],
    raises=True,
    kind="implicit",
)
