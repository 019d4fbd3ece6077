"""Fully implicit differential-algebraic equations F(t, y, y') = 0 of index 1, as equations with a mass matrix.

F reads y' through w = B y', if the null space of ∂F/∂y' is that of a constant B (with B Bᵀ = 1). Then, in (y, w),

    [B 0; 0 0] (y, w)' = (w, F(t, y, Bᵀ w)),   of index 1 where  [∂F/∂y N   ∂F/∂y' Bᵀ]  is regular,  N the null space

which is the condition of Griepentrog and März, *Differential-Algebraic Equations and Their Numerical Treatment* (1986),
for F itself. B is constant where F is linear in y' with constant coefficients, and where it holds the unknowns whose
slopes are read. w is no part of the error that is controlled: y, whose slope it is, is one. Not for: solving it
(``initial_value.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.frames import public
from ...control.linear_solve import cast
from ...control.subprograms import stage
from ...core.above import ABOVE
from ...core.aval import Aval
from ...core.tracer import Tracer
from ...errors import ArgumentError, ShapeError
from ...jvp import jvp
from ...surface.arguments import operand
from ...vmap import vmap
from ..mirror import mirrors
from .events import event_list
from .functions import entries
from .initial_value import Trajectory, initial_state, solve
from .problem import Settings

__all__ = ["solve_dae"]


@public
def solve_dae(
    fun: Callable, t_span: Any, y0: Any, yp0: Any, t_eval: Any = None, dense_output: bool = False, events: Any = None,
    args: tuple | None = None, *, rtol: float = 1e-3, atol: Any = 1e-6, sensitivity: str = "auto",
    sens_tol: str = "all", require_success: bool = True, max_steps: int = 1_000_000, **options: Any,
) -> Any:  # fmt: skip
    """Solve F(t, y, y') = 0, a differential-algebraic equation of index 1, and differentiate the solution.

    It is solved by ``"Rodas5P"``, whose compiled loop takes the exact Jacobian; so F is plain NumPy without branches on
    values. Which slopes it reads is found from F.

    Parameters
    ----------
    fun : callable
        ``F(t, y, yp, *args)`` returns as many residuals as there are unknowns.
    t_span, y0, t_eval, dense_output, events, args
        As of :func:`~dualad.scipy.integrate.solve_ivp`; all may be traced. Unknowns whose slopes are read start at
        ``y0``, the others at what the equations make of it.
    yp0 : array, shape (n,)
        The slopes at the start, from which the right ones are looked for.
    rtol, atol, sensitivity, sens_tol, require_success, max_steps
        As of :func:`~dualad.scipy.integrate.solve_ivp`; ``sensitivity`` is ``"auto"`` or ``"steps"``.
    **options
        ``first_step`` and ``max_step``.

    Returns
    -------
    OdeResult
        As of :func:`~dualad.scipy.integrate.solve_ivp`.

    Raises
    ------
    ArgumentError
        If F does not depend on y'.
    ConvergenceError
        If no consistent start is found, the index is above 1, or the solver fails.

    See Also
    --------
    dualad.scipy.integrate.solve_ivp : with ``mass=M``, for M y' = f(t, y).

    Examples
    --------
    >>> from dualad.scipy.integrate import solve_dae
    >>> def charge(t, y, yp):  # a capacitor behind a resistor: y[0] its voltage, y[1] the current
    ...     return [yp[0] - y[1], y[0] + y[1] - 1.0]
    >>> sol = solve_dae(charge, (0.0, 1.0), [0.0, 0.0], [0.0, 0.0], rtol=1e-8, atol=1e-8)
    >>> sol.y[:, -1].round(6), float((1 - np.exp(-1)).round(6))
    (array([0.632121, 0.367879]), 0.632121)
    """
    where = "solve_dae"
    given = () if args is None else tuple(args)
    y0 = initial_state(y0, where)
    n = y0.shape[0]
    yp0 = operand(yp0)
    if np.shape(yp0) != (n,):
        raise ShapeError(
            f"{where}: yp0 has shape {np.shape(yp0)} for a state of {n} numbers.", "it holds the slope of each",
            f"pass an array of shape ({n},), such as np.zeros({n})",
        )  # fmt: skip
    seen = _slopes_seen(fun, n, given, where)
    count = len(seen)
    mass = np.zeros((n + count, n + count))
    mass[:count, :n] = seen
    start = np.concatenate([y0, seen @ cast(yp0, np.dtype(float))])
    # SciPy's norm is a mean over all entries: y's part of it is to weigh what it weighs alone.
    share = np.sqrt(n / (n + count))
    sizes = np.concatenate([np.broadcast_to(np.asarray(atol, float), (n,)) * share, np.full(count, np.inf)])
    watched = [_of_state(event, n) for event in event_list(events)]
    asked = Settings(
        where, "Rodas5P", sensitivity=sensitivity, sens_tol=sens_tol, require_success=require_success,
        max_steps=max_steps,
    )  # fmt: skip
    sol = solve(
        asked, _explicit(fun, n, seen.tobytes(), where), t_span, start, t_eval, dense_output, watched or None,
        args=given, mass=mass, rtol=rtol * share, atol=sizes, **options,
    )  # fmt: skip
    sol.y = sol.y[:n]
    if sol.y_events is not None:
        sol.y_events = [y if isinstance(y, np.ndarray) and y.ndim < 2 else y[:, :n] for y in sol.y_events]
    if sol.sol is not None:
        whole = sol.sol
        sol.sol = Trajectory(lambda t: whole.rows(t)[:, :n], whole.t_min, whole.t_max, whole.ts)
    return sol


mirrors(None, "op")(solve_dae)


def _slopes_seen(fun: Callable, n: int, args: tuple, where: str) -> np.ndarray:
    """Return B, through which F reads y'."""
    name, found = getattr(fun, "__name__", type(fun).__name__), list[np.ndarray]()

    def probe(t: Any, y: Any, yp: Any) -> Any:
        f = lambda yp: entries(fun(t, y, yp, *args), n, where, name)
        matrix = vmap(lambda e: jvp(f, (yp,), (e,))[1], randomness="same")(np.eye(n))
        if isinstance(matrix, Tracer):
            found.append(np.eye(n)[np.any(ABOVE.sparsity(f, np.ones(n)).toarray(), 0)])
        else:
            _, sizes, right = np.linalg.svd(matrix.T)
            found.append(right[: np.count_nonzero(sizes > n * np.finfo(float).eps * sizes.max(initial=0.0))])
        return f(yp)

    stage(probe, [Aval(shape, np.dtype(float)) for shape in ((), (n,), (n,))], name, where)
    if not len(found[-1]):
        raise ArgumentError(
            f"{where}: `{name}` does not depend on y'.", "then it is an equation of each time by itself",
            "solve it by dualad.scipy.optimize.root; or check the order of the arguments, F(t, y, yp)",
        )  # fmt: skip
    return found[-1]


@functools.lru_cache(maxsize=64)
def _explicit(fun: Callable, n: int, seen: bytes, where: str) -> Callable:
    """Return the right-hand side for (y, w): the same function for the same equation, so that it is compiled once."""
    back, name = np.frombuffer(seen).reshape(-1, n).T, getattr(fun, "__name__", type(fun).__name__)

    def right_side(t: Any, both: Any, *args: Any) -> Any:
        return np.concatenate([both[n:], entries(fun(t, both[:n], back @ both[n:], *args), n, where, name)])

    right_side.__name__ = name
    return right_side


def _of_state(event: Any, n: int) -> Callable:
    """Return an event of y as one of (y, w)."""
    wrapped = lambda t, both, *args: event(t, both[:n], *args)
    wrapped.__dict__.update({name: getattr(event, name) for name in ("terminal", "direction") if hasattr(event, name)})
    wrapped.__name__ = getattr(event, "__name__", "event")
    return wrapped
