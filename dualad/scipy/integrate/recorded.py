"""Accepted steps of our own loop, recorded, and the events along them: what is done outside of programs.

Blocks of steps are machine code. A step has an event if g changes its sign in it; its time is a root of g along the
dense output, by SciPy's finder of roots, so the times are SciPy's. Not for: solutions at given times (``native.py``),
or derivatives of events (``events.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import optree
import scipy.integrate as si
from scipy.optimize import OptimizeResult, brentq

from ...base.tree import flatten
from ...control.control_flow import while_loop
from ...control.loops import scan
from ...control.subprograms import stage
from ...core.above import ABOVE
from ...core.aval import Aval
from ...vmap import vmap
from .fixed_steps import FIXED
from .functions import entries, number
from .native import LOOPS, REACHED, message_of, no_singular_matrix, written_down
from .rosenbrock import RightHandSide
from .runge_kutta import EXPLICIT, RUNNING, Control, State, advance, at, begin

__all__ = [
    "Recorder", "accepted_steps", "checked_control", "compiled_rows", "problem_steps", "run_to_events",
    "solve_in_steps",
]  # fmt: skip

#: accepted steps that are recorded at once
_AT_ONCE = 128
#: how exact the time of an event is, as SciPy has it
_CLOSE = 4 * np.finfo(float).eps


class Recorder(NamedTuple):
    """Compiled functions for y' = f(t, y, *args) and its events."""

    #: the method
    name: str
    #: ``start(t0, t1, y0, args, control)`` returns the state before the first step
    start: Callable
    #: ``steps(state, t1, args, control)`` returns the state after the next steps, and times, states and tries of each
    steps: Callable
    #: ``values(t, y, args)`` returns the values of events at times
    values: Callable
    #: ``inside(t, begin, y, end, args)`` returns the state at a time in a step, and the values of events there
    inside: Callable

    def blocks(self, t0: float, t1: float, y0: np.ndarray, args: tuple, control: Control) -> Iterator[tuple]:
        """Yield times, states and tries of the accepted steps, some at a time, with the last state."""
        s = self.start(t0, t1, y0, args, control)
        yield np.full(_AT_ONCE, t0), np.tile(y0, (_AT_ONCE, 1)), np.zeros(_AT_ONCE, np.int64), s
        while s.status == RUNNING and s.t != t1:
            s, (t, y, tried) = self.steps(s, t1, args, control)
            yield t, y, tried, s


def compiled_once(function: Callable, where: str) -> Callable:
    """Return a function of trees of arrays, compiled once for their shapes: what it reads besides does not change."""
    made: dict[Any, tuple] = {}

    def call(*given: Any) -> Any:
        leaves, tree = flatten(given)
        arrays = [np.asarray(x, order="C") for x in leaves]
        key = tree, *[(a.shape, a.dtype) for a in arrays]
        if key not in made:
            trees: list = []

            def flat(*values: Any) -> list:
                out, of_out = flatten(function(*optree.tree_unflatten(tree, values)))
                trees.append(of_out)
                return out

            body = stage(flat, [Aval(a.shape, a.dtype) for a in arrays], "steps", where)
            made[key] = ABOVE.compiled(body.program).run, trees[-1]
        run, of_out = made[key]
        return optree.tree_unflatten(of_out, run(*arrays))

    return call


def in_steps(slopes: Callable, name: str, events: Sequence[Callable], compiled: Callable) -> Recorder:
    """Return functions for the right-hand side ``slopes(y0, args)`` with events g(t, y, *args), ``compiled``."""
    method = LOOPS[name]

    def steps(s: State, t1: Any, args: tuple, control: Control) -> tuple[State, Any]:
        forward = np.sign(t1 - s.t)

        def turn(s: State, _: None) -> tuple[State, Any]:
            going = lambda new: (new.status == RUNNING) & (new.t == s.t) & (forward * (t1 - new.t) > 0)
            s = while_loop(going, lambda s: advance(method, slopes(s.y, args), s, t1, control), s)
            return s, (s.t, s.y, s.tried)

        return scan(turn, s, None, length=_AT_ONCE)

    def inside(t: Any, begin: Any, y: Any, end: Any, args: tuple) -> tuple:
        rhs = slopes(y, args)
        after, k = method.step(rhs, begin, y, end - begin, end, rhs(begin, y))
        y = at(method, rhs, State(end, after, end - begin, k, begin, y, False, 0, RUNNING), t)
        return y, np.stack([g(t, y, *args) for g in events])

    start = lambda t0, t1, y0, args, control: begin(method, slopes(y0, args), t0, t1, y0, control)
    values = lambda t, y, args: np.stack([vmap(lambda t, y, g=g: g(t, y, *args))(t, y) for g in events])
    return Recorder(name, *[compiled(x) for x in (start, steps, values, inside)])


def problem_steps(problem: Any, events: Sequence[Callable] = ()) -> Recorder:
    """Return the same for a problem, whose function reads nothing but its arguments."""
    where = problem.settings.where
    slopes = lambda y, args: problem.right_side(args)
    return in_steps(slopes, problem.settings.name, events, lambda f: compiled_once(f, where))


def accepted_steps(
    code: Recorder, t0: float, t1: float, y0: np.ndarray, args: tuple, control: Control
) -> tuple[np.ndarray, np.ndarray, State]:  # fmt: skip
    """Return times and states of the accepted steps, shape (steps, n), and the last state."""
    blocks = list(code.blocks(t0, t1, y0, args, control))
    t, y = [np.concatenate([b[i] for b in blocks]) for i in (0, 1)]
    kept = np.append(True, t[1:] != t[:-1])
    return t[kept], y[kept], blocks[-1][3]


def _limit(event: Callable) -> float:
    """Return how many occurrences of an event end the run."""
    terminal = getattr(event, "terminal", None)
    return float(terminal) if terminal else np.inf


def run_recorded(
    code: Recorder, events: Sequence[Callable], t0: float, t1: float, y0: np.ndarray, args: tuple, control: Control
) -> OptimizeResult:  # fmt: skip
    """Solve as far as t1, or to an event that ends the run, and return what SciPy returns without ``t_eval``."""
    way = np.array([getattr(e, "direction", 0.0) for e in events], float)
    limits = np.array([_limit(e) for e in events])
    counts, times, states = np.zeros(len(events), int), [np.array([t0])], [y0[None]]
    t_events: list[list] = [[] for _ in events]
    y_events: list[list] = [[] for _ in events]
    status, tries, g = 0, 0, np.zeros((len(events), 1))
    t_last, y_last, ended = np.array([t0]), y0[None], RUNNING
    for block, (t, y, tried, s) in enumerate(code.blocks(t0, t1, y0, args, control)):
        ended = int(s.status)
        values = code.values(t, y, args) if events else np.zeros((0, len(t)))
        if block:
            t, y, tried = np.append(t_last, t), np.concatenate([y_last, y]), np.append(tries, tried)
            kept = np.append(True, t[1:] != t[:-1])
            t, y, tried, g = t[kept], y[kept], tried[kept], np.concatenate([g, values], 1)[:, kept]
            up, down = (g[:, :-1] <= 0) & (g[:, 1:] >= 0), (g[:, :-1] >= 0) & (g[:, 1:] <= 0)
            w = way[:, None]
            found, end = (up & (w >= 0)) | (down & (w <= 0)), len(t)
            for i in np.flatnonzero(found.any(0)):
                active = np.flatnonzero(found[:, i])
                counts[active] += 1
                roots = np.array([_root(code, k, t[i], y[i], t[i + 1], args) for k in active])
                order = np.argsort(roots if t[i + 1] > t[i] else -roots)
                over = np.flatnonzero(counts[active[order]] >= limits[active[order]])
                for k in order if not len(over) else order[: over[0] + 1]:
                    t_events[active[k]].append(roots[k])
                    y_events[active[k]].append(code.inside(roots[k], t[i], y[i], t[i + 1], args)[0])
                if len(over):
                    k = active[order[over[0]]]
                    t[i + 1], y[i + 1] = t_events[k][-1], y_events[k][-1]
                    status, end = 1, i + 2
                    break
            times.append(t[1:end])
            states.append(y[1:end])
            tries = tried[end - 1] if status else s.tried
            if status:
                break
        t_last, y_last, g = t[-1:], y[-1:], values[:, -1:]
    if not status and t_last[0] != t1:
        status = -1
    factored = 0 if code.name in EXPLICIT or code.name in FIXED else int(tries)
    message = (REACHED, "A termination event occurred.", message_of(ended, control))[status]
    return OptimizeResult(
        t=np.concatenate(times), y=np.concatenate(states).T, sol=None, status=status, success=status >= 0,
        t_events=[np.array(x) for x in t_events] if events else None, message=message, njev=factored, nlu=factored,
        y_events=[np.array(x) for x in y_events] if events else None,
        nfev=int(tries) * LOOPS[code.name].calls + (2 if control.first_step is None else 1),
    )  # fmt: skip


def _root(code: Recorder, event: int, begin: float, y: np.ndarray, end: float, args: tuple) -> float:
    return brentq(lambda t: code.inside(t, begin, y, end, args)[1][event], begin, end, xtol=_CLOSE, rtol=_CLOSE)


def run_to_events(
    problem: Any, events: Sequence[Callable], crossings: Sequence, t0: float, t1: float, times: Any, y0: Any,
    parameters: Sequence,
) -> OptimizeResult | None:  # fmt: skip
    """Run a problem to its end, or to the event that ends it; None where it can't be written down."""
    gs, args = [g.of_all for g in crossings], tuple([np.asarray(p) for p in parameters])

    def make() -> Recorder | None:
        everything = lambda t, y, *p: [problem.function(t, y, *p), *[g(t, y, *p) for g in gs]]
        body = written_down(problem, everything, [np.zeros(()), y0, *args])
        return None if body is None or body.captured else problem_steps(problem, gs)

    code = problem.once("steps with events", make)
    if code is None:
        return None
    with no_singular_matrix(problem.settings.where):
        run = run_recorded(code, events, t0, t1, y0, args, problem.settings.control)
    if times is not None:
        run.t = times[abs(times - t0) <= abs(run.t[-1] - t0)]
    return run


# ── called with plain arguments ──────────────────────────────────────────────────────────────────────────────────


@functools.lru_cache(maxsize=64)
def _users_steps(fun: Callable, events: tuple, name: str, where: str, count: int) -> Recorder:
    """Return the functions of a user's: of ``count`` arguments, and perhaps of a mass matrix and its projector."""
    called = getattr(fun, "__name__", type(fun).__name__)
    gs = [
        lambda t, y, *args, g=g: number(g(t, y, *args[:count]), where, getattr(g, "__name__", "event")) for g in events
    ]

    def slopes(y: Any, args: tuple) -> RightHandSide:
        f = lambda t, y: entries(fun(t, y, *args[:count]), len(y), where, called)
        return RightHandSide(f, len(y), None, (lambda v: args[count] @ v) if len(args) > count else None)

    return in_steps(slopes, name, gs, ABOVE.jitted)


@functools.lru_cache(maxsize=64)
def compiled_rows(solve_ivp: Callable, fun: Callable, method: str, choices: tuple) -> Callable:
    """Return ``rows(t0, t1, times, y0, args, mass)``: compiled calls of ``solve_ivp``."""
    options = {name: np.array(x) if isinstance(x, tuple) else x for name, x in choices}
    return ABOVE.jitted(
        lambda t0, t1, times, y0, args, mass: (
            solve_ivp(fun, (t0, t1), y0, method, times, args=args, mass=mass, **options).y.T
        )
    )


def checked_control(y0: Any, t_span: Any, max_steps: int, options: dict) -> Control:
    """Return the choices of a run; SciPy looks at them first."""
    scipys = {name: x for name, x in options.items() if name != "step"}
    solver = si.RK23(lambda t, y: y, 0.0, np.asarray(y0, float), abs(t_span[1] - t_span[0]), **scipys)
    return Control(solver.rtol, solver.atol, solver.max_step, options.get("first_step", options.get("step")), max_steps)


def solve_in_steps(
    fun: Callable, events: Sequence[Callable], name: str, t_span: Any, y0: Any, args: tuple, control: Control,
    where: str, massive: tuple = (),
) -> OptimizeResult:  # fmt: skip
    """Solve by our own loop and return what SciPy returns."""
    t0, t1 = [float(t) for t in t_span]
    code, args = _users_steps(fun, tuple(events), name, where, len(args)), (*args, *massive)
    with no_singular_matrix(where):
        return run_recorded(code, events, t0, t1, np.asarray(y0, float), args, control)
