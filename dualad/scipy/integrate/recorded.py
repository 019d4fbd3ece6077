"""Our own methods as SciPy's ``solve_ivp`` takes them: classes of solvers, which give it accepted steps.

Blocks of steps are machine code; of a function that can't be written down they are plain NumPy, and a block is a step.
Events, times that are asked for and dense output are SciPy's code. Not for: solutions at given times in programs
(``native.py``), or derivatives of events (``events.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate as si

from ...control.control_flow import while_loop
from ...control.loops import scan
from ...core.above import ABOVE
from .functions import entries
from .native import LOOPS, SMALL, compiled_once, message_of, written_down
from .rosenbrock import RightHandSide
from .runge_kutta import RUNNING, Control

__all__ = ["Recorder", "accepted_steps", "compiled_rows", "problem_steps", "solver_class", "users_steps"]

#: accepted steps that are recorded at once
_AT_ONCE = 128


class Recorder(NamedTuple):
    """Functions, perhaps compiled, for y' = f(t, y, *args)."""

    #: the method
    name: str
    #: ``start(t0, t1, y0, args, control)`` returns the state before the first step
    start: Callable
    #: ``steps(state, t1, args, control)`` returns the state after the next steps, and of each the time, the state, the
    #: work that was done until then, and what the dense output takes
    steps: Callable
    #: ``inside(t, piece, args)`` returns the state at a time in a step
    inside: Callable

    def blocks(self, t0: float, t1: float, y0: np.ndarray, args: tuple, control: Control) -> Iterator[tuple]:
        """Yield times, states, work and dense output of the accepted steps, some at a time, with the last state."""
        s = self.start(t0, t1, y0, args, control)
        while s.status == RUNNING and s.t != t1:
            before = s.t
            s, (t, y, work, pieces) = self.steps(s, t1, args, control)
            kept = t != np.append(before, t[:-1])
            yield t[kept], y[kept], work[kept], [x[kept] for x in pieces], s


def in_steps(slopes: Callable, name: str, compiled: Callable, length: int = _AT_ONCE) -> Recorder:
    """Return functions for the right-hand side ``slopes(y0, args)``, ``compiled``, in blocks of this length."""
    method = LOOPS[name]

    def steps(s: Any, t1: Any, args: tuple, control: Control) -> tuple[Any, Any]:
        forward = np.sign(t1 - s.t)

        def turn(s: Any, _: None) -> tuple[Any, Any]:
            going = lambda new: (new.status == RUNNING) & (new.t == s.t) & (forward * (t1 - new.t) > 0)
            s = while_loop(going, lambda s: method.advance(slopes(s.y, args), s, t1, control), s)
            return s, (s.t, s.y, method.work(s), method.piece(s))

        return scan(turn, s, None, length=length)

    inside = lambda t, piece, args: method.along(slopes(piece[1], args), piece)(t)
    start = lambda t0, t1, y0, args, control: method.begin(slopes(y0, args), t0, t1, y0, control)
    return Recorder(name, *[compiled(x) for x in (start, steps, inside)])


def problem_steps(problem: Any, y0: Any, args: tuple) -> Recorder:
    """Return the same for a problem, whose function reads nothing but its arguments."""
    s, slopes = problem.settings, lambda y, args: problem.right_side(args)

    def make() -> Recorder:
        body = written_down(problem, lambda *given: [problem.function(*given)], [np.zeros(()), y0, *args])
        if body is None or body.captured or problem.n > SMALL:
            return in_steps(slopes, s.name, lambda f: f, 1)
        return in_steps(slopes, s.name, lambda f: compiled_once(f, problem.name, s.where))

    return problem.once("in steps", make)


@functools.lru_cache(maxsize=64)
def users_steps(fun: Callable, name: str, where: str, count: int, in_python: bool) -> Recorder:
    """Return the same for a function of a user's: of ``count`` arguments, and perhaps a mass matrix and its projector.

    It is compiled again where what it reads has changed.
    """
    called = getattr(fun, "__name__", type(fun).__name__)

    def slopes(y: Any, args: tuple) -> RightHandSide:
        f = lambda t, y: entries(fun(t, y, *args[:count]), len(y), where, called, real=True)
        return RightHandSide(f, len(y), None, (lambda v: args[count] @ v) if len(args) > count else None)

    return in_steps(slopes, name, lambda f: f, 1) if in_python else in_steps(slopes, name, ABOVE.jitted)


def accepted_steps(
    code: Recorder, t0: float, t1: float, y0: np.ndarray, args: tuple, control: Control
) -> tuple[np.ndarray, np.ndarray, Any]:  # fmt: skip
    """Return times and states of the accepted steps, shape (steps, n), and the last state."""
    blocks = list(code.blocks(t0, t1, y0, args, control))
    t, y = [np.concatenate([[first], *[b[i] for b in blocks]]) for i, first in enumerate((t0, y0))]
    return t, y, blocks[-1][4]


@functools.lru_cache(maxsize=64)
def compiled_rows(solve: Callable, settings: Any, fun: Callable, fixed: tuple) -> Callable:
    """Return ``rows(t0, t1, times, y0, args, mass)``: compiled calls of ``solve``."""
    options = {name: np.array(x) if isinstance(x, tuple) else x for name, x in fixed}
    return ABOVE.jitted(
        lambda t0, t1, times, y0, args, mass: (
            solve(settings, fun, (t0, t1), y0, times, args=args, mass=mass, **options).y.T
        )
    )


# ── as SciPy has it ──────────────────────────────────────────────────────────────────────────────────────────────


class _Loop(si.OdeSolver):
    """A solver that takes recorded steps: a base class."""

    code: Recorder
    args: tuple
    max_steps: int
    _last: Any

    def __init__(
        self, fun: Callable, t0: float, y0: Any, t_bound: float, vectorized: bool = False, step: float | None = None,
        jac: Any = None, jac_sparsity: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(fun, t0, y0, t_bound, vectorized)
        # SciPy looks at the options first; it would look for the size of a first step as well.
        length, first = abs(t_bound - t0), options.pop("first_step", step)
        known = si.RK23(lambda t, y: y, 0.0, self.y, length, first_step=first or length or None, **options)
        self.control = Control(known.rtol, known.atol, known.max_step, first, self.max_steps, known.rtol)
        self._steps, self._piece = self._accepted(), ()

    def _accepted(self) -> Iterator[tuple]:
        for t, y, work, pieces, last in self.code.blocks(self.t, self.t_bound, self.y, self.args, self.control):
            self._last = last
            yield from zip(t.tolist(), y, work.tolist(), zip(*pieces, strict=True), strict=True)

    def _step_impl(self) -> tuple[bool, str | None]:
        step = next(self._steps, None)
        work = LOOPS[self.code.name].work(self._last) if step is None else step[2]
        self.nfev, self.njev, self.nlu = map(int, work)
        self.nfev += 2 if self.control.first_step is None else 1
        if step is None:
            return False, message_of(self._last.status, self.control)
        self.t, self.y, _, self._piece = step
        return True, None

    def _dense_output_impl(self) -> si.DenseOutput:
        return _Inside(self)


class _Inside(si.DenseOutput):
    """The solution in the last step of a solver."""

    def __init__(self, solver: _Loop) -> None:
        super().__init__(solver.t_old, solver.t)
        piece = solver._piece
        self._at = lambda t: solver.code.inside(t, piece, solver.args)

    def _call_impl(self, t: np.ndarray) -> np.ndarray:
        return np.stack([self._at(x) for x in t], -1) if t.ndim else self._at(t)


def solver_class(code: Recorder, args: tuple, max_steps: int) -> type:
    """Return a class of solvers, in SciPy's sense, that takes the steps of this code."""
    return type(code.name, (_Loop,), {"code": code, "args": args, "max_steps": max_steps})
