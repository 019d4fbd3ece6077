"""``solve_ivp`` with derivatives: in the initial state, in parameters, in the ends, in ``t_eval`` and through events.

Plain arguments go straight to SciPy. Otherwise the solution is an operator (``trajectories.py``), which SciPy solves on
plain numbers; in a program our own loop does (``native.py``). Not for: ``odeint`` (``lsoda.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.integrate as si
from scipy.optimize import OptimizeResult

from ...base.frames import public
from ...control.control_flow import is_traced
from ...control.linear_solve import cast
from ...core.aval import aval_of
from ...core.dispatch import bind
from ...core.tracer import Tracer, tracer_in
from ...errors import ArgumentError, ArgumentTypeError, BranchError, ConversionError, ShapeError
from ...jvp import stop_gradient
from ...surface.arguments import operand
from ..closures import Inputs
from ..mirror import is_own, mirrors
from .events import Asked, Watch, check_crossings, event_list, event_times, stopping_event
from .fixed_steps import with_steps
from .functions import depends, entries, has_lanes, number, numbers, reads_tensors, watch_results
from .mass import check_mass, check_written, consistent, mass_and_projector, rate_of, times_mass
from .native import LOOPS, OURS, REACHED, is_machine_code, no_singular_matrix, note_python, note_scipys_loop
from .own_times import OwnTimes
from .problem import Problem, Settings, check_run, counted, scipys_solver
from .recorded import compiled_rows, solver_class, users_steps
from .trajectories import ivp

__all__ = [
    "Trajectory", "check_choices", "exact_jacobian", "initial_state", "refuse_traced_options", "solve", "solve_ivp",
]  # fmt: skip


class Trajectory:
    """The dense output: the solution as a function of time, differentiable in all it depends on.

    Attributes
    ----------
    t_min, t_max : float
        The interval in which it can be called.
    """

    def __init__(self, at: Callable, t_min: float, t_max: float, ts: Any) -> None:
        self.rows, self.t_min, self.t_max, self.ts = at, t_min, t_max, ts

    @public
    def __call__(self, t: Any) -> Any:
        """Return y at a time, shape (n,), or at times, shape (n, times)."""
        t = operand(t)
        times = np.reshape(t, (-1,)) * 1.0
        plain = numbers([times])
        if plain is not None and plain[0].size and not self.t_min <= plain[0].min() <= plain[0].max() <= self.t_max:
            raise ArgumentError(
                f"the solution was called at t = {t}, outside [{self.t_min}, {self.t_max}].",
                "beyond its ends it is an extrapolation of the last step, which solves no equation",
                "solve on a longer t_span",
            )
        rows = self.rows(times)
        return rows[0] if np.ndim(t) == 0 else rows.T


@public
def solve_ivp(
    fun: Callable, t_span: Any, y0: Any, method: Any = "RK45", t_eval: Any = None, dense_output: bool = False,
    events: Any = None, vectorized: bool = False, args: tuple | None = None, *, sensitivity: str = "auto",
    sens_tol: str = "all", require_success: bool = True, keep_steps: int | None = None, solver: str = "auto",
    max_steps: int = 1_000_000, progress: bool = False, mass: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Solve y' = f(t, y), as ``scipy.integrate.solve_ivp`` does, and differentiate the solution.

    The derivative is that of the exact solution, to the tolerances that are given: forward mode solves the variational
    equation together with y, reverse mode the adjoint equation backwards along the dense output.

    Under ``jit`` the loop of every method but ``"LSODA"`` is machine code, and takes SciPy's steps. It is Python where
    a function branches on values, and for complex states and those of more than 32,768 numbers, tangents counted (32 of
    an implicit method, not counted). The steps are those of the method either way.

    Parameters
    ----------
    fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args, **options
        As of SciPy's; ``t_span``, ``y0``, ``t_eval`` and ``args`` may be traced, and the functions may read traced
        values from their closures. ``jac="dualad"`` gives implicit methods the exact Jacobian; in our loop they always
        have it, and ``jac`` and ``jac_sparsity`` are not looked at. The methods ``"Tsit5"``
        (Tsitouras 2011, of order 5), ``"Vern7"`` (Verner 2010, of order 7) and ``"Rodas5P"`` (Steinebach 2023, of
        order 5, for stiff problems, always with the exact Jacobian) run in our own loop (the adjoint equation takes the
        method of SciPy's that is nearest, RK45, DOP853 or Radau); so do those of fixed steps, of
        size ``step=``: ``"Euler"``, ``"RK4"``, and for Hamiltonians T(p) + V(q) with y = (q, p) the symplectic
        ``"Verlet"``, ``"Yoshida4"``, ``"KahanLi6"``, ``"KahanLi8"``.
    sensitivity : {"auto", "forward", "adjoint", "steps"}
        What reverse mode solves: the variational equation of everything that is asked for, or the adjoint. ``"auto"``
        takes the first for up to 50 numbers, and for more ``"steps"`` where the loop is compiled. That differentiates
        in both modes what a compiled method did, its step sizes held: the result, and not the solution, to rounding.
    sens_tol : {"all", "state"}
        Whether the errors of the tangents are controlled, or they take the steps of the state.
    require_success : bool
        Whether a solver that stops early is an error; otherwise what it reached is returned.
    keep_steps : int, optional
        Of how many steps the adjoint holds the dense output at once, by default up to 4096 and 32 MB. A longer solution
        keeps checkpoints at regular steps, from which the backward pass recomputes the others.
    solver : {"auto", "native"}
        ``"native"`` runs our own compiled loop outside of ``jit`` as well.
    max_steps : int
        How many steps a loop tries before it gives up; on plain numbers SciPy's tries as many as it takes.
    progress : bool
        Whether to draw a bar on a terminal: how far SciPy's solver has come. Our compiled loop draws none.
    mass : array, shape (n, n), optional
        M of M y' = f(t, y), for ``method="Rodas5P"``. It may be traced, and singular: a differential-algebraic equation
        of index 1. The start is then moved along the null space of M to where the algebraic equations hold.

    Returns
    -------
    OdeResult
        SciPy's; ``t``, ``y``, ``sol``, ``t_events`` and ``y_events`` carry derivatives. Under ``vmap``, and in a
        program, there are no counters; where how many times there are depends on values, the first and the last can be
        taken: ``sol.y[:, -1]``, ``sol.t_events[0][0]``.

    Raises
    ------
    ConvergenceError
        If the solver fails, an event grazes, no consistent start is found, or the index is above 1.
    UnsupportedError
        Under ``vmap``, and in a program, if all of an array is asked for whose length depends on values: of what was
        solved without ``t_eval``, of events that occur more often in one lane than in another.

    Examples
    --------
    >>> from dualad.scipy.integrate import solve_ivp
    >>> def end(rate):
    ...     return solve_ivp(lambda t, y: -rate * y, (0.0, 2.0), [1.0], rtol=1e-8, atol=1e-8).y[0, -1]
    >>> float(da.grad(end)(0.5).round(6)), float((-2 * np.exp(-1)).round(6))
    (-0.735759, -0.735759)
    """
    asked = Settings(
        "solve_ivp", method, sensitivity=sensitivity, sens_tol=sens_tol, require_success=require_success,
        keep_steps=keep_steps, max_steps=max_steps, progress=progress,
    )  # fmt: skip
    return solve(asked, fun, t_span, y0, t_eval, dense_output, events, vectorized, args, solver, mass, **options)


def solve(
    s: Settings, fun: Callable, t_span: Any, y0: Any, t_eval: Any = None, dense_output: bool = False,
    events: Any = None, vectorized: bool = False, args: tuple | None = None, solver: str = "auto",
    mass: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Solve as ``solve_ivp`` does, for the function and the choices that the settings name."""
    check_choices(s, solver)
    where, method, given = s.where, s.method, () if args is None else args

    def first_calls() -> list:
        start = float(t_span[0]), np.asarray(y0) * 1.0, *given
        return [(f, *start) for f in (fun, *event_list(events))]

    known = not depends((t_span, y0, t_eval, given, mass), first_calls)
    s, options = with_steps(s, y0, options)
    ours, rows = solver == "native" or method in OURS or (s.sensitivity == "steps" and not known), None
    if mass is not None:
        check_mass(s)
    if ours:
        check_native(s, y0)
        options.pop("jac", None)  # the exact one belongs to the method
        options.pop("jac_sparsity", None)
        fixed = tuple([(name, _static(x)) for name, x in options.items()])
        compiled = compiled_rows(solve, s._replace(require_success=s.require_success and not known), fun, fixed)
        rows = lambda t0, t1, times, y0: compiled(t0, t1, times, y0, given, mass)
        if known:
            theta = given
            if mass is not None:
                theta = (*given, *mass_and_projector(mass, np.size(y0), where))
                y0 = rows(t_span[0], t_span[0], np.array([t_span[0]], float), np.asarray(y0, float))[0]

            def run(in_python: bool) -> Any:
                loop = solver_class(users_steps(fun, method, where, len(given), in_python), theta, s.max_steps)
                asked = (t_eval, dense_output) if in_python else (None, False)
                return si.solve_ivp(fun, t_span, y0, loop, *asked, events, False, args, **options)

            with no_singular_matrix(where):
                try:
                    found = run(in_python=False)
                except (BranchError, ConversionError) as error:
                    note_python(where, getattr(fun, "__name__", type(fun).__name__), error)
                    return run(in_python=True)
            t0, t1, t, y0 = float(t_span[0]), float(t_span[1]), found.t[-1], np.asarray(y0, float)
            at = lambda times: rows(t0, t1, times, y0)
            if dense_output:
                found.sol = Trajectory(at, min(t0, t), max(t0, t), found.t)
            if t_eval is not None:
                times = np.asarray(t_eval) * 1.0
                if times.size and not min(t0, t1) <= times.min() <= times.max() <= max(t0, t1):
                    raise ValueError("Values in `t_eval` are not within `t_span`.")
                found.t = times[abs(times - t0) <= abs(t - t0)]
                found.y = at(found.t).T
            return found
    if known:
        if is_own(options.get("jac")):
            options["jac"] = exact_jacobian(fun, y0, given, where)
        with counted(watch_results(fun, where), t_span, s) as fun:
            made = scipys_solver(method)
            return si.solve_ivp(fun, t_span, y0, made, t_eval, dense_output, events, vectorized, args, **options)
    refuse_traced_options(options, where)
    t0, t1 = [operand(t) for t in (t_span if isinstance(t_span, Tracer) else list(t_span))]
    t0, t1, y0 = cast(t0, np.dtype(float)), cast(t1, np.dtype(float)), initial_state(y0, where)
    s = s._replace(
        native=ours, first_step=options.get("first_step", options.get("step")),
        sens_tol="state" if s.sensitivity == "steps" else s.sens_tol,
        **{name: options[name] for name in ("rtol", "atol", "max_step") if name in options},
    )  # fmt: skip
    if not isinstance(given, tuple):
        raise ArgumentTypeError(
            f"{where}: args={type(given).__name__}.", "the extra arguments of the function are a tuple",
            "write args=(value,), with a comma",
        )  # fmt: skip
    times = None if t_eval is None else operand(t_eval) * 1.0
    call = _Call(fun, (t0, t1, times), y0, given, events, vectorized, options, s, mass)
    if ours and not call.is_staged:
        call.rows = rows
    if mass is not None:
        y0 = consistent(call.problem, t0, y0, call.theta)
    return call.result(t0, t1, times, y0, dense_output)


class _Call:
    """A call of ``solve_ivp`` on tensors."""

    def __init__(
        self, fun: Callable, ends: Sequence, y0: Any, args: tuple, events: Any, vectorized: bool, options: dict,
        settings: Settings, mass: Any = None,
    ) -> None:  # fmt: skip
        where, n, inputs = settings.where, y0.shape[0], Inputs(settings.where)
        self.vectorized, self.options, self.settings = vectorized, options, settings
        self.functions, self.theta, self.fill = event_list(events), inputs.arrays, inputs.add(args)
        finish = lambda out, name: number(out, where, name)
        real = aval_of(y0).dtype.kind == "f"
        self.f = inputs.close(fun, (0.0, y0), args, finish=lambda out, name: entries(out, n, where, name, real))
        self.crossings = [inputs.close(e, (0.0, y0), args, "events", finish) for e in self.functions]
        massive = {}
        if mass is not None:
            for g in (self.f, *self.crossings):
                check_written(where, g.name, g.avals is not None)
            self.theta = [*self.theta, *mass_and_projector(mass, n, where)]
            massive = {"mass": times_mass, "rate": rate_of(self.f.of_all)}
        #: ``rows(t0, t1, times, y0)``, if given, is the solution at times by code that is compiled once
        self.rows: Callable | None = None
        self.is_staged = is_traced([*ends, y0, *self.theta])
        if settings.name in LOOPS and self.is_staged:
            self.settings = settings = settings._replace(native=True)
        self.problem = Problem(self.f.name, self.f.of_all, n, settings, given=self.given, **massive)
        if self.is_staged:
            note_scipys_loop(self.problem, y0)
        self.watch = Watch(self.problem, self.functions, self.crossings, self.find)

    def find(self, t0, t1, times, y0, values: Sequence) -> Any:
        """Run it on plain arrays to its end, or to the event that ends it."""
        ours = is_machine_code(self.problem, t0, np.zeros(1), y0, values)
        with no_singular_matrix(self.settings.where):
            run = self.problem.integrate(t0, t1, times, y0, values, False, self._events(values), ours)
        if not ours:
            self.problem.remember(run, t0, y0, values)
        return run

    def given(self, t0, y0, values: Sequence) -> tuple[Callable, dict]:
        """Return the right-hand side for SciPy, and options."""
        options = {**self.options, "vectorized": self.vectorized and not self.f.captures}
        if "jac" in options:
            options["jac"] = self._jacobian(options["jac"], y0, values)
        return self.f.plain(values), options

    def _jacobian(self, jac: Any, y0, values: Sequence) -> Any:
        if is_own(jac):
            return self.problem.jacobian(y0, values)
        if not callable(jac):
            return jac
        args = self.fill(values)
        if self.f.captures and reads_tensors(jac, 0.0, y0, *args):
            return self.problem.jacobian(y0, values)  # a function of the same captured values: what it means is known
        return lambda t, y: jac(t, y, *args)

    def _events(self, values: Sequence) -> list | None:
        made = []
        for event, g in zip(self.functions, self.crossings, strict=True):
            plain = g.plain(values)
            wrapped = lambda t, y, plain=plain: float(np.reshape(plain(t, y), ()))
            for name in ("terminal", "direction"):
                if hasattr(event, name):
                    setattr(wrapped, name, getattr(event, name))
            made.append(wrapped)
        return made or None

    def result(self, t0: Any, t1: Any, times: Any, y0: Any, dense: bool) -> Any:
        """Return SciPy's result object."""
        operands = [t0, t1, y0, *self.theta, *([] if times is None else [times])]
        plain = numbers(operands)
        if plain is None or self.rows is not None:
            return self._without_numbers(t0, t1, times, y0, dense, operands)
        start, stop, state, *rest = plain
        theta = rest[: len(self.theta)]
        at = None if times is None else np.asarray(rest[-1])
        run = self.problem.integrate(
            float(start), float(stop), at, np.asarray(state), theta, dense, self._events(theta)
        )  # fmt: skip
        if self.settings.require_success:
            check_run(run, self.settings)
        self.problem.remember(run, start, state, theta)
        result = type(run)(run)
        stop = float(stop)
        last = t1
        if self.functions:
            ending = stopping_event(self.functions, run)
            stop = stop if ending is None else float(run.t_events[ending][-1])
            result.t_events, result.y_events = list(run.t_events), list(run.y_events)
            for i, (g, at, rows) in enumerate(zip(self.crossings, run.t_events, run.y_events, strict=True)):
                if len(at):
                    check_crossings(g, at, rows, self.problem, theta)
                    result.t_events[i] = t = event_times(g, at, self.problem, t0, stop, y0, self.theta)
                    result.y_events[i] = self._rows(t0, stop, t, y0)
            last = t1 if ending is None else result.t_events[ending][-1]
        if times is not None:
            times = times[: len(run.t)]
        elif run.status == -1 or len(run.t) < 2:
            times = run.t if len(run.t) != 1 else np.reshape(t0, (1,))
        elif isinstance(t0, Tracer) or isinstance(last, Tracer):
            times = np.concatenate([t0[None], run.t[1:-1], last[None]])
        else:
            times = run.t
        result.t = times
        result.y = self._rows(t0, stop, times, y0).T
        if dense:
            low, high = min(float(start), stop), max(float(start), stop)
            result.sol = Trajectory(lambda t: self._rows(t0, stop, t, y0), low, high, run.sol.ts)
        elif "sol" in result:
            result.sol = None
        return result

    def _rows(self, t0, t1, times, y0) -> Any:
        if self.rows is not None:
            return self.rows(t0, t1, times, y0)
        if not self.problem.n:
            return np.zeros((np.shape(times)[0], 0))
        return bind(ivp, (t0, t1, times, y0, *self.theta), {"call": self.problem})

    def _without_numbers(self, t0, t1, times, y0, dense: bool, operands: list) -> Any:
        """Solve in a program, or with a start of its own in each lane."""
        lanes = has_lanes(*operands)
        what = "under vmap, where every lane takes steps of its own" if lanes else "in a program"
        words = _unknown_times(what, times is not None)
        asked, stop, last = None, t1, t1
        status: Any = 0
        several = self.watch.may_stop
        if self.functions or (times is None and not self.settings.require_success):
            asked = Asked(self.watch, t0, t1, times, y0, self.theta)
            stop = asked.stop
            if self.watch.may_stop or not self.settings.require_success:
                last = asked.last()
        states = lambda at: self._rows(t0, stop, at, y0)
        of_own = lambda at, along, ndim: OwnTimes(at, words, along, ndim)
        if times is None:
            t = of_own(lambda place: last if place else t0, 0, 1)
            y = of_own(lambda place: states(last[None])[0] if place else y0, 1, 2)
        elif self.watch.may_stop and (count := asked.how_many(None)) != np.shape(times)[0]:
            t = of_own(None, 0, 1) if count is None else times[:count]
            y = of_own(None, 1, 2) if count is None else states(t).T
        else:
            t, y = times, states(times).T
            if not self.settings.require_success and asked is None:  # states that were not reached are NaN
                status, several = np.where(np.any(np.isnan(stop_gradient(y))), -1, 0), True
        events = None if not self.functions else self._occurrences(asked, states, what)
        sol = Trajectory(states, -np.inf, np.inf, None) if dense else None
        return OptimizeResult(
            t=t, y=y, sol=sol, t_events=events and [e[0] for e in events], y_events=events and [e[1] for e in events],
            nfev=None, njev=None, nlu=None, status=status if asked is None else asked.status,
            message="of several runs, or of one yet to come" if several else REACHED, success=status >= 0,
        )  # fmt: skip

    def _occurrences(self, asked: Asked, states: Callable, what: str) -> list[tuple]:
        """Return times and states of each event."""
        out = []
        for i, g in enumerate(self.crossings):
            count = asked.how_many(i)
            if count is not None:
                at = asked.times(i, range(count))
                out.append((at, states(at)))
                continue
            words = _unknown_occurrences(what, i, g.name, asked)
            one = lambda place, i=i: asked.times(i, (place,))[0]
            state = lambda place, one=one: states(one(place)[None])[0]
            out.append((OwnTimes(one, words, 0, 1), OwnTimes(state, words, 0, 2)))
        return out


def _unknown_times(what: str, given: bool) -> tuple[str, str, str]:
    why = "that is known when it has been solved, and shapes can't depend on it; where the solution begins and ends is"
    if given:
        return (
            f"solve_ivp was called {what}, with events that end it: how many times are before that is not known.",
            why + " asked for without t_eval",
            "leave t_eval out and take the end, sol.y[:, -1]; or ask for y at times before the event",
        )
    return (
        f"solve_ivp was called {what}, without t_eval: how many times there are is not known.",
        why + " known: sol.y[:, 0] and sol.y[:, -1]",
        "take the end, sol.y[:, -1], or say at which times y is wanted: t_eval=np.linspace(t0, t1, 50)",
    )


def _unknown_occurrences(what: str, event: int, name: str, asked: Asked) -> tuple[str, str, str]:
    often = "is not known"
    if asked.most is not None:
        often = f"differs from lane to lane, from {asked.least[1 + event]} to {asked.most[1 + event]}"
    ends = f"take the first or the last of them, sol.t_events[{event}][0] or sol.y_events[{event}][-1]"
    return (
        f"solve_ivp was called {what}: how often the event `{name}` occurs {often}.",
        "arrays are of one length in all lanes, and shapes can't depend on values",
        f"{ends}; or solve lane by lane in a Python loop",
    )


mirrors(None, "op")(solve_ivp)


def _static(x: Any) -> Any:
    return tuple(np.ravel(x).tolist()) if isinstance(x, (list, np.ndarray)) else x


# ── checks, shared with odeint ───────────────────────────────────────────────────────────────────────────────────


def check_choices(s: Settings, solver: str = "auto") -> None:
    """Refuse words that are none of the choices, and no number of steps."""
    where, keep_steps = s.where, s.keep_steps
    if keep_steps is not None and not (isinstance(keep_steps, (int, np.integer)) and keep_steps > 0):
        raise ArgumentError(
            f"{where}: keep_steps={keep_steps!r}.", "it is a number of steps, 1 or more", "pass keep_steps=1000"
        )
    for name, value, choices in (
        ("solver", solver, ("auto", "native")),
        ("sensitivity", s.sensitivity, ("auto", "forward", "adjoint", "steps")),
        ("sens_tol", s.sens_tol, ("all", "state")),
    ):
        if value not in choices:
            raise ArgumentError(
                f"{where}: {name}={value!r}.", "it is one of " + ", ".join(map(repr, choices)), f"pass {choices[0]!r}"
            )


def check_native(s: Settings, y0: Any) -> None:
    """Refuse what our own loop does not do."""
    if s.method not in LOOPS:
        wrong, why = f"method={s.method!r}", f"the methods whose loop is ours are {', '.join(LOOPS)}"
    elif aval_of(operand(y0)).dtype.kind == "c":
        wrong, why = "a complex y0", "our own loop is one of real numbers"
    else:
        return
    raise ArgumentError(
        f"{s.where}: {wrong} with solver='native', sensitivity='steps' or a method of ours.", why,
        "leave solver out, and take a method of SciPy's; or write the state as its real and imaginary parts",
    )  # fmt: skip


def refuse_traced_options(options: dict, where: str) -> None:
    """Refuse tolerances and step sizes that are traced."""
    for name, value in options.items():
        if tracer_in(value) is not None:
            raise ArgumentTypeError(
                f"{where}: {name} is traced.",
                "the derivative is that of the exact solution, which does not depend on how it is approached",
                f"pass a plain number: dualad.stop_gradient does not make one, so compute {name} outside the transform",
            )


def initial_state(y0: Any, where: str) -> Any:
    """Return y0 as a vector of floating or complex numbers."""
    y0 = operand(y0)
    if np.ndim(y0) != 1:
        raise ShapeError(
            f"{where}: y0 has shape {np.shape(y0)}.",
            "the state is a vector",
            "pass y0.reshape(-1), and reshape y inside the function" if np.ndim(y0) else "pass [y0]",
        )
    return cast(y0, np.dtype(complex if aval_of(y0).dtype.kind == "c" else float))


def exact_jacobian(fun: Callable, y0: Any, args: tuple, where: str) -> Callable:
    """Return ``jac(t, y, *args)`` of a plain right-hand side."""
    state = initial_state(y0, where)
    n, name = state.shape[0], getattr(fun, "__name__", type(fun).__name__)
    function = lambda t, y: entries(fun(t, y, *args), n, where, name)
    jacobian = Problem(name, function, n, Settings(where, "BDF")).jacobian(state, ())
    return lambda t, y, *args: jacobian(t, y)
