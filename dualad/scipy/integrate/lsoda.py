"""``odeint`` with derivatives: SciPy's older interface to LSODA, on the operators of ``solve_ivp``.

Not for: new code, in which ``solve_ivp`` has more methods, events and dense output.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.integrate as si
from scipy.optimize import OptimizeResult

from ...base.frames import public
from ...core.dispatch import bind
from ...errors import ShapeError
from ...surface.arguments import operand
from ..closures import Inputs
from ..mirror import as_args, calling_scipy, mirrors
from .functions import depends, entries, numbers, refuse_full_output, watch_results
from .initial_value import check_choices, initial_state, refuse_traced_options
from .problem import Problem, Settings, check_run
from .trajectories import ivp

__all__ = ["odeint"]

#: SciPy's tolerance where none is given
_TOLERANCE = 1.49012e-8


@public
def odeint(
    func: Callable, y0: Any, t: Any, args: tuple = (), Dfun: Callable | None = None, col_deriv: int = 0,
    full_output: int = 0, ml: int | None = None, mu: int | None = None, rtol: Any = None, atol: Any = None,
    tcrit: Any = None, h0: float = 0.0, hmax: float = 0.0, hmin: float = 0.0, ixpr: int = 0, mxstep: int = 0,
    mxhnil: int = 0, mxordn: int = 12, mxords: int = 5, printmessg: int = 0, tfirst: bool = False, *,
    sensitivity: str = "auto", sens_tol: str = "all", require_success: bool = True, keep_steps: int | None = None,
) -> Any:  # fmt: skip
    """Solve y' = f(y, t), as ``scipy.integrate.odeint`` does, and differentiate the solution.

    Parameters
    ----------
    func, y0, t, args, Dfun, ..., tfirst
        As of SciPy's; ``y0``, ``t`` and ``args`` may be traced, and ``func`` may read traced values from its closure.
    sensitivity, sens_tol, require_success, keep_steps
        As of :func:`dualad.scipy.integrate.solve_ivp`.

    Returns
    -------
    array, shape (len(t), len(y0))
        y at the times; with ``full_output`` a pair with SciPy's dictionary, which needs plain numbers.

    Raises
    ------
    ConvergenceError
        If LSODA gives up, where SciPy only warns.

    Examples
    --------
    >>> from dualad.scipy.integrate import odeint
    >>> end = lambda rate: odeint(lambda y, t, k: -k * y, 1.0, np.array([0.0, 2.0]), args=(rate,))[-1, 0]
    >>> float(da.grad(end)(0.5).round(6))
    -0.735759
    """
    where = "odeint"
    settings = Settings(
        where, "LSODA", _TOLERANCE if rtol is None else float(np.min(rtol)), _TOLERANCE if atol is None else atol,
        hmax or np.inf, sensitivity, sens_tol, require_success, keep_steps,
    )  # fmt: skip
    check_choices(settings)
    options = {
        "Dfun": Dfun, "col_deriv": col_deriv, "ml": ml, "mu": mu, "rtol": rtol, "atol": atol, "tcrit": tcrit,
        "h0": h0, "hmax": hmax, "hmin": hmin, "ixpr": ixpr, "mxstep": mxstep, "mxhnil": mxhnil, "mxordn": mxordn,
        "mxords": mxords, "printmessg": printmessg,
    }  # fmt: skip

    def first_call() -> list:
        state, time = np.atleast_1d(np.asarray(y0) * 1.0), float(t[0])
        return [(func, *((time, state) if tfirst else (state, time)), *as_args(args))]

    if not depends((y0, t, args), first_call):
        return si.odeint(watch_results(func, where), y0, t, args, full_output=full_output, tfirst=tfirst, **options)
    refuse_traced_options(options, where)
    args = as_args(args)
    t = operand(t) * 1.0
    if np.ndim(t) != 1 or not np.shape(t)[0]:
        raise ShapeError(
            f"odeint: t has shape {np.shape(t)}.", "it is a sequence of times, of which the first is where y0 holds",
            "pass np.array([t0, t1, ...])",
        )  # fmt: skip
    y0 = operand(y0)
    y0 = initial_state(np.reshape(y0, (1,)) if np.ndim(y0) == 0 else y0, where)
    inputs, n = Inputs(where), y0.shape[0]
    fill = inputs.add(args)
    ordered = func if tfirst else _time_first(func)
    f = inputs.close(ordered, (0.0, y0), args, "func", lambda out, name: entries(out, n, where, name))
    infos: list = []

    def given(t0, state, values: Sequence) -> tuple[Callable, dict]:
        return f.plain(values), {"rtol": settings.rtol, "atol": settings.atol, "max_step": settings.max_step}

    def solve(t0, t1, times, state, values: Sequence) -> Any:
        plain = f.plain(values)
        jac, args = Dfun if tfirst or Dfun is None else _time_first(Dfun), fill(values)
        derivative = {} if jac is None else {"Dfun": lambda t, y: jac(t, y, *args)}
        at = times if times[0] == t0 else np.concatenate([[t0], times])
        with warnings.catch_warnings(), calling_scipy():
            warnings.simplefilter("ignore", si.ODEintWarning)
            y, info = si.odeint(plain, state, at, full_output=1, tfirst=True, **{**options, **derivative})
        infos.append(info)
        return OptimizeResult(
            t=times, y=y[len(at) - len(times) :].T, sol=None, message=info["message"],
            success=info["message"] == "Integration successful.",
        )  # fmt: skip

    problem = Problem(f.name, f.of_all, n, settings, solve, given)
    plain = numbers([t, y0, *inputs.arrays])
    if plain is not None:
        at, state, *theta = [np.asarray(x) for x in plain]
        run = solve(at[0], at[-1], at, state, theta)
        if require_success:
            check_run(run, settings)
        problem.remember(run, at[0], state, theta)
    elif full_output:
        refuse_full_output(where)
    y = bind(ivp, (t[0], t[-1], t, y0, *inputs.arrays), {"call": problem})
    return (y, infos[0]) if full_output else y


def _time_first(func: Callable) -> Callable:
    ordered = lambda t, y, *args: func(y, t, *args)
    ordered.__name__ = getattr(func, "__name__", type(func).__name__)
    return ordered


mirrors(None, "op")(odeint)
