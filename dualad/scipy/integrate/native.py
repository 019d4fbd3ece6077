"""Solving by programs of ours, whose loop is machine code: what ``jit`` runs in place of SciPy's loop.

Not for: the methods (``runge_kutta.py``), or derivatives (``trajectories.py``).
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.integrate as si
from scipy.optimize import OptimizeResult

from ...base.frames import user_level
from ...control.control_flow import while_loop
from ...control.loops import scan
from ...control.subprograms import stage
from ...core.above import ABOVE
from ...core.aval import Aval, aval_of
from ...errors import ConvergenceError, PerformanceNote
from .functions import entries
from .rosenbrock import RODAS5P, RightHandSide
from .runge_kutta import EXPLICIT, NOT_FINITE, RUNNING, TOO_MANY, Control, State, advance, at, begin

__all__ = [
    "LOOPS", "OURS", "REACHED", "accepted_steps", "checked_control", "compiled", "compiled_rows", "in_steps",
    "is_solvable", "message_of", "note_scipys_loop", "rows_at", "run_native", "solve_in_steps",
    "stopped_early",
]  # fmt: skip

#: the methods whose loop is a program, by name
LOOPS = {**EXPLICIT, "Rodas5P": RODAS5P}
#: those that SciPy does not have
OURS = ("Tsit5", "Rodas5P")

#: what SciPy says where all went well
REACHED = "The solver successfully reached the end of the integration interval."
#: accepted steps that are recorded at once
_AT_ONCE = 128
#: states of more numbers are left to SciPy's loop: their steps are array operations, in which little is lost
_LARGEST = 256
#: and those of implicit methods, whose matrices are factorized in the loop
_LARGEST_MATRIX = 32


def is_solvable(problem: Any, y0: Any) -> bool:
    """Whether there may be machine code for a problem: its method has a loop, its state is real and not large."""
    base, implicit = problem, problem.settings.name not in EXPLICIT
    while base.base is not None:
        base = base.base[0]
    small = problem.n <= _LARGEST and not (implicit and base.n > _LARGEST_MATRIX)
    return problem.settings.native and small and aval_of(y0).dtype == np.dtype(float)


def rows_at(problem: Any, t0: Any, t1: Any, times: Any, y0: Any, *parameters: Any) -> tuple[Any, State]:
    """Solve in a program, as far as the last of times in order; return y there, and the last state."""
    method, control, forward = LOOPS[problem.settings.name], problem.settings.control, np.sign(t1 - t0)
    f = problem.right_side(parameters)

    def turn(s: State, t: Any) -> tuple[State, Any]:
        going = lambda s: (s.status == RUNNING) & (forward * (t - s.t) > 0)
        s = while_loop(going, lambda s: advance(method, f, s, t1, control), s)
        return s, at(method, f, s, t)

    s, rows = scan(turn, begin(method, f, t0, t1, y0, control), times)
    return rows, s._replace(status=np.where(forward * (times[-1] - s.t) > 0, s.status, RUNNING))


def compiled(problem: Any, key: Any, function: Callable, arrays: Sequence) -> Sequence:
    """Return ``function(*arrays)``, a list, by code that is compiled once for arrays like these."""
    arrays = [np.asarray(a, order="C") for a in arrays]

    def make() -> Callable:
        body = stage(function, [Aval(a.shape, a.dtype) for a in arrays], problem.name, problem.settings.where)
        return ABOVE.compiled(body.program).run

    return problem.once(("compiled", key, *[(a.shape, a.dtype) for a in arrays]), make)(*arrays)


def run_native(problem: Any, key: Any, function: Callable, arrays: Sequence, what: str = "the solver") -> Any:
    """Run ``function(*arrays)``, which returns a pair (result, last state), as machine code; None if there is none."""
    arrays, s = [np.asarray(a, order="C") for a in arrays], problem.settings
    key = ("machine code", key, *[(a.shape, a.dtype) for a in arrays])
    code = problem.once(key, lambda: _machine_code(problem, function, arrays))
    if code is None:
        return None
    with _no_singular_matrix(s.where):
        out, t, status = code(*arrays)
    if status != RUNNING and s.require_success:
        raise stopped_early(s.where, what, t, message_of(status, s.control))
    return out


def stopped_early(where: str, what: str, t: Any, message: str) -> ConvergenceError:
    """Return the error of a run that did not reach its end."""
    return ConvergenceError(
        f"{where}: {what} stopped at t = {t}: {message}",
        "there is no solution beyond that time, and so no derivative",
        "loosen rtol and atol, take a method for stiff problems (Radau, BDF), end earlier; or pass"
        " require_success=False for the part that was computed",
    )


@contextlib.contextmanager
def _no_singular_matrix(where: str) -> Iterator[None]:
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise ConvergenceError(
            f"{where}: the matrix 1 − γh ∂f/∂y of a step is singular.",
            "its systems have no solution for just that step size",
            "pass another first_step or max_step",
        ) from error


def note_scipys_loop(problem: Any) -> None:
    """Note that a program calls back SciPy's loop for a stiff method."""
    warnings.warn(
        f"{problem.settings.where}: compiled code calls SciPy's loop back for method={problem.settings.name!r}, whose"
        " steps branch on values\n  method='Rodas5P' is one for stiff problems, and its loop is machine code: a hundred"
        " times faster",
        PerformanceNote,
        stacklevel=user_level(),
    )


def _machine_code(problem: Any, function: Callable, arrays: Sequence) -> Callable | None:
    def flat(*values: Any) -> list:
        out, s = function(*values)
        return [out, s.t, s.status]

    try:
        body = stage(flat, [Aval(a.shape, a.dtype) for a in arrays], problem.name, problem.settings.where)
    except Exception as error:
        warnings.warn(
            f"{problem.settings.where}: `{problem.name}` can't be written down, so SciPy's loop calls it:"
            f" {str(error).partition(chr(10))[0]}\n  Written in plain NumPy, without branches on values, it is part of"
            " the compiled loop, a hundred times faster: np.where(condition, a, b), or dualad.cond",
            PerformanceNote,
            stacklevel=user_level(),
        )
        return None
    code = None if body.captured else ABOVE.machine_code(body.program)
    return None if code is None else code.run


def message_of(status: Any, control: Control) -> str:
    """Return what a run that has stopped says, in SciPy's words where it has some."""
    if status == TOO_MANY:
        return f"{control.max_steps} steps were tried, which is max_steps."
    ending = ": the right-hand side is not a finite number there." if status == NOT_FINITE else "."
    return "Required step size is less than spacing between numbers" + ending


# ── outside of programs ──────────────────────────────────────────────────────────────────────────────────────────


def in_steps(f: Callable, name: str) -> tuple[Callable, Callable]:
    """Return compiled functions for y' = f(t, y, *args): the state before the first step, and the next steps."""
    method = LOOPS[name]
    slopes = lambda y, args: RightHandSide(lambda t, y: f(t, y, *args), len(y))

    def steps(s: State, t1: Any, args: tuple, control: Control) -> tuple[State, Any]:
        forward = np.sign(t1 - s.t)

        def turn(s: State, _: None) -> tuple[State, Any]:
            going = lambda new: (new.status == RUNNING) & (new.t == s.t) & (forward * (t1 - new.t) > 0)
            s = while_loop(going, lambda s: advance(method, slopes(s.y, args), s, t1, control), s)
            return s, (s.t, s.y)

        return scan(turn, s, None, length=_AT_ONCE)

    start = lambda t0, t1, y0, args, control: begin(method, slopes(y0, args), t0, t1, y0, control)
    return ABOVE.jitted(start), ABOVE.jitted(steps)


def accepted_steps(
    code: tuple[Callable, Callable], t0: float, t1: float, y0: np.ndarray, args: tuple, control: Control
) -> tuple[np.ndarray, np.ndarray, State]:  # fmt: skip
    """Return times and states of the accepted steps, shape (steps, n), and the last state."""
    start, steps = code
    s = start(t0, t1, y0, args, control)
    times, states = [np.array([t0])], [y0[None]]
    while s.status == RUNNING and s.t != t1:
        s, (t, y) = steps(s, t1, args, control)
        times.append(t)
        states.append(y)
    t, y = np.concatenate(times), np.concatenate(states)
    kept = np.append(True, t[1:] != t[:-1])
    return t[kept], y[kept], s


@functools.lru_cache(maxsize=64)
def _users_steps(fun: Callable, name: str, where: str) -> tuple[Callable, Callable]:
    called = getattr(fun, "__name__", type(fun).__name__)
    return in_steps(lambda t, y, *args: entries(fun(t, y, *args), len(y), where, called), name)


@functools.lru_cache(maxsize=64)
def compiled_rows(solve_ivp: Callable, fun: Callable, method: str, choices: tuple) -> Callable:
    """Return ``rows(t0, t1, times, y0, args)``: compiled calls of ``solve_ivp``."""
    options = {name: np.array(x) if isinstance(x, tuple) else x for name, x in choices}
    return ABOVE.jitted(
        lambda t0, t1, times, y0, args: solve_ivp(fun, (t0, t1), y0, method, times, args=args, **options).y.T
    )


def checked_control(y0: Any, t_span: Any, max_steps: int, options: dict) -> Control:
    """Return the choices of a run; SciPy looks at them first."""
    solver = si.RK23(lambda t, y: y, 0.0, np.asarray(y0, float), abs(t_span[1] - t_span[0]), **options)
    return Control(solver.rtol, solver.atol, solver.max_step, options.get("first_step"), max_steps)


def solve_in_steps(
    fun: Callable, name: str, t_span: Any, y0: Any, args: tuple, control: Control, where: str
) -> OptimizeResult:  # fmt: skip
    """Solve by our own loop and return what SciPy returns."""
    t0, t1 = [float(t) for t in t_span]
    with _no_singular_matrix(where):
        t, y, s = accepted_steps(_users_steps(fun, name, where), t0, t1, np.asarray(y0, float), args, control)
    status, factored = 0 if s.t == t1 else -1, 0 if name in EXPLICIT else int(s.tried)
    return OptimizeResult(
        t=t, y=y.T, sol=None, t_events=None, y_events=None, status=status, success=status == 0, njev=factored,
        nlu=factored, nfev=int(s.tried) * LOOPS[name].calls + (2 if control.first_step is None else 1),
        message=REACHED if status == 0 else message_of(int(s.status), control),
    )  # fmt: skip
