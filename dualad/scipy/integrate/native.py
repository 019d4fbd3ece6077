"""Solving by programs of ours, whose loop is machine code: what ``jit`` runs in place of SciPy's loop.

Not for: the methods (``runge_kutta.py``), derivatives (``trajectories.py``), or runs outside of programs
(``recorded.py``).
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import optree

from ...base.frames import user_level
from ...base.tree import flatten
from ...control.control_flow import while_loop
from ...control.loops import map as map_rows
from ...control.loops import scan
from ...control.subprograms import stage
from ...core.above import ABOVE
from ...core.aval import Aval, aval_of
from ...errors import ConvergenceError, DtypeError, PerformanceNote
from .fixed_steps import FIXED
from .implicit import IMPLICIT_LOOPS
from .rosenbrock import RODAS5P
from .runge_kutta import EXPLICIT, NOT_FINITE, RUNNING, TOO_MANY, Control

__all__ = [
    "LARGEST_MATRIX", "LOOPS", "OURS", "REACHED", "SMALL", "compiled", "compiled_once", "is_machine_code",
    "is_solvable", "message_of", "no_singular_matrix", "note_python", "note_scipys_loop", "prepared", "rows_at",
    "run_native", "stopped_early", "written_down",
]  # fmt: skip

#: the methods whose loop is a program, by name
LOOPS: dict[str, Any] = {**EXPLICIT, **FIXED, "Rodas5P": RODAS5P, **IMPLICIT_LOOPS}
#: those that SciPy does not have
OURS = ("Tsit5", "Vern7", "Rodas5P", *FIXED)

#: what SciPy says where all went well
REACHED = "The solver successfully reached the end of the integration interval."
#: states of more numbers, tangents among them, are left to loops in Python: compiling takes seconds then
SMALL = 2**15
#: and those of implicit methods, whose matrices are factorized in the loop
LARGEST_MATRIX = 32


def is_solvable(problem: Any, y0: Any) -> bool:
    """Whether there may be machine code for a problem: its method has a loop, its state is real and not large."""
    name = problem.settings.name
    if name in FIXED or problem.mass is not None:  # no other loop replaces these
        return aval_of(y0).dtype == np.dtype(float)
    base, implicit = problem, name not in EXPLICIT
    while base.base is not None:
        base = base.base[0]
    small = problem.n <= SMALL and not (implicit and base.n > LARGEST_MATRIX)
    return problem.settings.native and small and aval_of(y0).dtype == np.dtype(float)


def rows_at(problem: Any, t0: Any, t1: Any, times: Any, y0: Any, *parameters: Any) -> tuple[Any, Any]:
    """Solve in a program, as far as the last of times in order; return y there, and the last state."""
    method, control, forward = LOOPS[problem.settings.name], problem.settings.control, np.sign(t1 - t0)
    f = problem.right_side(parameters)

    def turn(s: Any, t: Any) -> tuple[Any, Any]:
        going = lambda s: (s.status == RUNNING) & (forward * (t - s.t) > 0)
        s = while_loop(going, lambda s: method.advance(f, s, t1, control), s)
        return s, method.at(f, s, t)

    s, rows = scan(turn, method.begin(f, t0, t1, y0, control), times)
    return rows, s._replace(status=np.where(forward * (times[-1] - s.t) > 0, s.status, RUNNING))


def compiled(problem: Any, key: Any, function: Callable, arrays: Sequence) -> Any:
    """Return ``function(*arrays)`` by code that is compiled once for arrays like these."""
    code = problem.once(("compiled", key), lambda: compiled_once(function, problem.name, problem.settings.where))
    return code(*arrays)


def compiled_once(function: Callable, name: str, where: str) -> Callable:
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

            body = stage(flat, [Aval(a.shape, a.dtype) for a in arrays], name, where)
            made[key] = ABOVE.compiled(body.program).run, trees[-1]
        run, of_out = made[key]
        return optree.tree_unflatten(of_out, run(*arrays))

    return call


def run_native(problem: Any, key: Any, function: Callable, arrays: Sequence, what: str = "the solver") -> Any:
    """Run ``function(*arrays)``, which returns a pair (result, last state), as machine code; None if there is none."""
    arrays = [np.asarray(a, order="C") for a in arrays]
    run = prepared(problem, key, function, arrays, what)
    return None if run is None else run(*arrays)


def prepared(
    problem: Any, key: Any, function: Callable, avals: Sequence, what: str = "the solver",
    mapped: Sequence[bool] | None = None, lanes: int = 0,
) -> Callable | None:  # fmt: skip
    """Return the same as a function of arrays like these; if some are ``mapped``, of so many lanes at once."""
    code, s = _machine_code(problem, key, function, avals, mapped, lanes), problem.settings
    if code is None:
        return None

    def run(*arrays: Any) -> Any:
        try:
            out, t, status = code.run(*arrays)
        except np.linalg.LinAlgError:
            with no_singular_matrix(s.where):
                raise
        if s.require_success and (status != RUNNING if mapped is None else (status != RUNNING).any()):
            k = () if mapped is None else np.flatnonzero(status != RUNNING)[0]
            raise stopped_early(s.where, what, t[k], message_of(status[k], s.control))
        return out

    return run


def stopped_early(where: str, what: str, t: Any, message: str) -> ConvergenceError:
    """Return the error of a run that did not reach its end."""
    return ConvergenceError(
        f"{where}: {what} stopped at t = {t}: {message}",
        "there is no solution beyond that time, and so no derivative",
        "loosen rtol and atol, take a method for stiff problems (Radau, BDF), end earlier; or pass"
        " require_success=False for the part that was computed",
    )


@contextlib.contextmanager
def no_singular_matrix(where: str) -> Iterator[None]:
    """Say of a singular matrix which one that is."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise ConvergenceError(
            f"{where}: the matrix M − γh ∂f/∂y of a step is singular.",
            "its systems have no solution for just that step size",
            "pass another first_step or max_step",
        ) from error


def note_scipys_loop(problem: Any, y0: Any) -> None:
    """Note where a program calls back SciPy's loop: for its own method, a complex state, or a large matrix."""
    where, name = problem.settings.where, problem.settings.name
    what, why = f"method={name!r}", "which changes its formulas as it goes"
    instead = "method='Radau', 'BDF' or 'Rodas5P' is one for stiff problems, and its loop is machine code"
    if aval_of(y0).dtype.kind == "c":
        what, why, instead = "a complex y0", "where machine code is of real numbers", "write the state as its two parts"
    elif name in IMPLICIT_LOOPS and problem.n > LARGEST_MATRIX:
        what, why = f"a state of {problem.n} numbers", f"where matrices in machine code have {LARGEST_MATRIX} rows"
        instead = "a method that is not for stiff problems has no matrices: its loop is machine code"
    elif name in LOOPS:
        return
    text = f"{where}: compiled code calls SciPy's loop back for {what}, {why}\n  {instead}: a hundred times faster"
    warnings.warn(text, PerformanceNote, stacklevel=user_level())


def written_down(problem: Any, function: Callable, arrays: Sequence) -> Any:
    """Return ``function(*arrays)``, a list, as a program; None, and a note, where it can't be written down."""
    try:
        return stage(function, [Aval(a.shape, a.dtype) for a in arrays], problem.name, problem.settings.where)
    except DtypeError:  # in a loop in Python an imaginary part would be lost
        raise
    except Exception as error:
        note_python(problem.settings.where, problem.name, error)
        return None


def note_python(where: str, name: str, error: Exception) -> None:
    """Note that a loop in Python calls a function, which can't be written down."""
    text = (
        f"{where}: `{name}` can't be written down, so a loop in Python calls it: {str(error).partition(chr(10))[0]}\n"
        "  Written in plain NumPy, without branches on values, it is part of the compiled loop, a hundred times faster:"
        " np.where(condition, a, b), or dualad.cond"
    )
    warnings.warn(text, PerformanceNote, stacklevel=user_level())


def _machine_code(
    problem: Any, key: Any, function: Callable, avals: Sequence, mapped: Sequence[bool] | None = None, lanes: int = 0
) -> Any:
    def one(*values: Any) -> list:
        out, s = function(*values)
        return [out, s.t, s.status]

    def flat(*values: Any) -> list:
        if mapped is None:
            return one(*values)
        turn = lambda rows: one(*[next(rows) if m else v for v, m in zip(values, mapped, strict=True)])
        return map_rows(lambda rows: turn(iter(rows)), [v for v, m in zip(values, mapped, strict=True) if m])

    def make() -> Any:
        if problem.mass is not None:
            return ABOVE.compiled(stage(flat, given, problem.name, problem.settings.where).program)
        body = written_down(problem, flat, given)
        return None if body is None or body.captured else ABOVE.machine_code(body.program)

    given = [Aval(a.shape, a.dtype) for a in avals]
    if mapped is not None:
        given = [Aval((lanes, *a.shape), a.dtype) if m else a for a, m in zip(given, mapped, strict=True)]
    return problem.once(("machine code", key, mapped, *[(a.shape, a.dtype) for a in given]), make)


def is_machine_code(problem: Any, t0: Any, times: np.ndarray, y0: Any, parameters: Sequence) -> bool:
    """Whether the solution at these times is machine code; it is compiled once for them."""
    arrays = [np.asarray(a, order="C") for a in (t0, t0, times, y0, *parameters)]
    rows = functools.partial(rows_at, problem)
    return is_solvable(problem, y0) and _machine_code(problem, "rows", rows, arrays) is not None


def message_of(status: Any, control: Control) -> str:
    """Return the message of a run that has stopped, in SciPy's words where it has some."""
    if status == TOO_MANY:
        return f"{control.max_steps} steps were tried, which is max_steps."
    ending = ": the right-hand side is not a finite number there." if status == NOT_FINITE else "."
    return "Required step size is less than spacing between numbers" + ending
