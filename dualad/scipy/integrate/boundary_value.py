"""``solve_bvp`` with derivatives: in parameters, in the data of the boundary conditions, in both ends.

    y' = f(x, y, p) + S y / (x − a),   bc(y(a), y(b), p) = 0

SciPy finds the mesh and y on it; what holds there are Simpson's formulas on the intervals and the boundary conditions
(Kierzenka and Shampine, *A BVP solver based on residual control and the Matlab PSE*, 2001), which determine y and p
together:

    yᵢ₊₁ − yᵢ = h/6 (fᵢ + 4 f(xᵢ + h/2, m) + fᵢ₊₁),   m = (yᵢ + yᵢ₊₁)/2 − h/8 (fᵢ₊₁ − fᵢ)

Their derivative is a sparse linear system, by the implicit function theorem on a mesh that moves with the ends alone.
Where it is not known how many nodes SciPy takes, they are filled up to ``max_nodes`` with copies of the last one: an
interval of length zero says that y stays. Not for: initial values (``initial_value.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.integrate as si
from scipy.optimize import OptimizeResult

from ...base.frames import public
from ...boundary.boundary import running
from ...control.linear_solve import Unknown, cast
from ...core.aval import Aval, aval_of
from ...core.tracer import tracer_in
from ...errors import ShapeError
from ...jvp import jvp
from ...rules.custom_jvp import custom_jvp
from ...surface.arguments import operand
from ...vmap import vmap
from ..mirror import is_own, mirrors
from ..optimize.problem import COUNTS, Condition, SolverCall, convergence_error, counters, fields, start_of
from .functions import numbers
from .initial_value import Trajectory, refuse_traced_options
from .own_times import OwnTimes

__all__ = ["solve_bvp"]

#: what the functions return, and how to write it
_SLOPES = (
    "fun(x, y) returns the derivative of every row of y, at every node",
    "return np.stack([...]) of the rows, a constant one as np.full_like(x, c)",
)
_CONDITIONS = (
    "there is one condition for every row of y, and one more for every number in p",
    "return np.stack([...]) of n + k residuals, each zero at the solution; pass p= where something more is unknown",
)
#: why there is no array of nodes
_UNKNOWN_MESH = (
    "solve_bvp was called under vmap, or in a program: which mesh it takes is not known.",
    "it is known when it has been solved, and shapes can't depend on it; its first and its last node are known before",
    "take y[:, 0] and y[:, -1], or ask for values at places of your own: sol.sol(np.linspace(a, b, 50))",
)


@public
def solve_bvp(
    fun: Callable, bc: Callable, x: Any, y: Any, p: Any = None, S: Any = None, fun_jac: Any = None, bc_jac: Any = None,
    tol: float = 1e-3, max_nodes: int = 1000, verbose: int = 0, bc_tol: float | None = None, *,
    require_success: bool = True,
) -> Any:  # fmt: skip
    """Solve a boundary value problem, as ``scipy.integrate.solve_bvp`` does, and differentiate the solution.

    Parameters
    ----------
    fun, bc, x, y, p, S, fun_jac, bc_jac, tol, max_nodes, verbose, bc_tol
        As of SciPy's. The functions may read traced values from their closures, and the ends ``x[0]`` and ``x[-1]``
        may be traced; the solution has no derivative in the guess. In a transform SciPy is given exact Jacobians;
        on plain numbers it is with ``fun_jac="dualad", bc_jac="dualad"``.
    require_success : bool
        Whether a traced call that does not converge is an error; otherwise what it reached is returned.

    Returns
    -------
    BVPResult
        SciPy's; ``x``, ``y``, ``yp``, ``p`` and ``sol`` carry derivatives. Under ``vmap``, and in a program, there is
        no mesh to be shown: take ``p``, the ends ``y[:, 0]`` and ``y[:, -1]``, and values ``sol(x)``.

    Raises
    ------
    ConvergenceError
        If the solver fails in a traced call.
    SingularMatrixError
        If the solution is not isolated, as at a turning point, so that it has no derivative.

    Examples
    --------
    >>> from dualad.scipy.integrate import solve_bvp
    >>> def middle(k):  # y'' = k² y, y(0) = 0, y(1) = 1
    ...     fun, bc = lambda x, y: np.stack([y[1], k**2 * y[0]]), lambda ya, yb: np.stack([ya[0], yb[0] - 1])
    ...     return solve_bvp(fun, bc, np.linspace(0, 1, 5), np.zeros((2, 5)), tol=1e-8).sol(0.5)[0]
    >>> float(da.grad(middle)(2.0).round(6)), float((-np.sinh(1.0) / (4 * np.cosh(1.0) ** 2)).round(6))
    (-0.123389, -0.123389)
    """
    where = "solve_bvp"
    known = not running.get() and tracer_in(x, y, p, S) is None  # in a transform sol(x) may be called with a tensor
    if known and not is_own(fun_jac, bc_jac):
        return si.solve_bvp(fun, bc, x, y, p, S, fun_jac, bc_jac, tol, max_nodes, verbose, bc_tol)
    options = {"tol": tol, "max_nodes": max_nodes, "verbose": verbose, "bc_tol": bc_tol}
    refuse_traced_options(options, where)
    given = (fun_jac, bc_jac) if known else ("dualad", "dualad")
    call = _Boundary(where, fun, bc, x, y, p, S, given, options)
    return call.run(call.search, []) if known else call.result(require_success)


mirrors(None, "op")(solve_bvp)


class _Boundary(SolverCall):
    """A call of ``solve_bvp`` with its traced inputs."""

    def __init__(
        self, where: str, fun: Callable, bc: Callable, x: Any, y: Any, p: Any, S: Any, jacobians: tuple, options: dict
    ) -> None:  # fmt: skip
        x, y = cast(operand(x), np.dtype(float)), start_of(y)
        if np.ndim(x) != 1 or np.ndim(y) != 2 or np.shape(y)[1] != np.shape(x)[0] or np.shape(x)[0] < 2:
            raise ShapeError(
                f"{where}: x has shape {np.shape(x)}, and y {np.shape(y)}.",
                "x is a mesh of two nodes or more, and y has a column for each of them",
                "pass x of shape (m,) and y of shape (n, m)",
            )
        super().__init__(where, y)
        dtype, self.has_p = aval_of(y).dtype, p is not None
        p = cast(start_of(p), dtype) if self.has_p else np.zeros(0, dtype)
        if np.ndim(p) != 1:
            raise ShapeError(f"{where}: p has shape {np.shape(p)}.", "it is a vector", "pass p=[value]")
        self.n, self.k, self.options, self.jacobians = y.shape[0], p.shape[0], options, jacobians
        self.given = self.inputs.add((x, y, p, None if S is None else cast(operand(S), dtype)))
        self.f = self.inputs.close(fun, [x[:1], y[:, :1], *self._if_given(p)])
        self.conditions = self.inputs.close(
            bc, [y[:, 0], y[:, -1], *self._if_given(p)], (), "bc",
            lambda out, name: _of_shape((self.n + self.k,), out, where, name, *_CONDITIONS),
        )  # fmt: skip

    def _if_given(self, p: Any) -> list:
        return [p] if self.has_p else []

    # ── functions of vectors, and of all that is traced ──────────────────────────────────────────────────────────

    def columns(self, inputs: Sequence, x: Any, y: Any, p: Any) -> Any:
        """Return f at nodes; of a function that reads tensors there is a program, of one node."""
        f = lambda x, y: self.f(inputs, x, y, *self._if_given(p))
        call = lambda x, y: _of_shape(y.shape, f(x, y), self.where, self.f.name, *_SLOPES)
        if self.f.captures and self.f.avals is not None:
            return vmap(lambda x, y: call(x[None], y[:, None])[:, 0], (0, 1), 1, randomness="same")(x, y)
        return call(x, y)

    def slopes(self, inputs: Sequence, x: Any, y: Any, p: Any) -> Any:
        """Return y' at nodes: at x = a the singular term is the limit, (1 − S) y' = f."""
        f = self.columns(inputs, x, y, p)
        mesh, *_, S = self.given(inputs)
        if S is None:
            return f
        start = x == mesh[0]
        limit = np.linalg.pinv(np.eye(self.n) - S) @ f
        return np.where(start, limit, f + S @ y / np.where(start, 1.0, x - mesh[0]))

    def ends(self, inputs: Sequence, ya: Any, yb: Any, p: Any) -> Any:
        """Return the residuals of the boundary conditions."""
        return self.conditions(inputs, ya, yb, *self._if_given(p))

    def nodes(self, inputs: Sequence, u: Any) -> Any:
        """Return the mesh, of which u are the places between its ends."""
        x = self.given(inputs)[0]
        return np.where(u == 1, x[-1], x[0] + (x[-1] - x[0]) * u)

    def residual(self, unknown: Sequence, parameters: Sequence) -> list:
        """Return the residual, zero at the solution; the parameters are u, counts, and the inputs."""
        y, p = unknown
        u, _, *inputs = parameters
        x = self.nodes(inputs, u)
        h, f = np.diff(x), self.slopes(inputs, x, y, p)
        middle = 0.5 * (y[:, :-1] + y[:, 1:]) - h / 8 * (f[:, 1:] - f[:, :-1])
        between = self.slopes(inputs, x[:-1] + 0.5 * h, middle, p)
        simpson = y[:, 1:] - y[:, :-1] - h / 6 * (f[:, :-1] + 4 * between + f[:, 1:])
        return [simpson, self.ends(inputs, y[:, 0], y[:, -1], p)]

    # ── SciPy ────────────────────────────────────────────────────────────────────────────────────────────────────

    def search(self, inputs: Sequence) -> Any:
        """Have SciPy solve it on plain arrays."""
        x, y, p, S = self.given(inputs)
        n, basis = self.n, lambda size: np.eye(size, dtype=y.dtype)
        push = lambda f, at, cut: vmap(lambda e: jvp(f, at, cut(e))[1], out_axes=1, randomness="same")

        def fun_jac(x: Any, y: Any, p: Any = p) -> Any:  # one direction for all nodes: each depends on its own column
            cut = lambda e: (np.broadcast_to(e[:n, None], y.shape), e[n:])
            J = np.array(push(lambda y, p: self.columns(inputs, x, y, p), (y, p), cut)(basis(n + self.k)))
            return (J[:, :n], J[:, n:]) if self.has_p else J

        def bc_jac(ya: Any, yb: Any, p: Any = p) -> Any:
            cut = lambda e: (e[:n], e[n : 2 * n], e[2 * n :])
            J = push(lambda *at: self.ends(inputs, *at), (ya, yb, p), cut)(basis(2 * n + self.k))
            return (J[:, :n], J[:, n : 2 * n], *self._if_given(J[:, 2 * n :]))

        own = [self.guard(f) if is_own(j) else j for j, f in zip(self.jacobians, (fun_jac, bc_jac), strict=True)]
        return si.solve_bvp(
            self.guard(lambda x, y, p=p: self.columns(inputs, x, y, p)),
            self.guard(lambda ya, yb, p=p: self.ends(inputs, ya, yb, p)),
            x, np.array(y), p if self.has_p else None, S, *own, **self.options,
        )  # fmt: skip

    # ── the operator ─────────────────────────────────────────────────────────────────────────────────────────────

    def result(self, require: bool) -> Any:
        """Return SciPy's result object."""
        plain = numbers(self.inputs.arrays)
        known = None if plain is None else self.solution(plain, require)
        size = max(self.options["max_nodes"], self.start.shape[1]) if known is None else len(known.x)
        zero = [np.zeros((self.n, size), self.start.dtype), np.zeros(self.k, self.start.dtype)]
        unknown = Unknown(zero, "y, p", self.where)

        def solve(_: Any, inputs: Sequence) -> list:
            run = self.solution(inputs, require) if known is None else known
            more = (0, size - len(run.x))
            u = np.pad((run.x - run.x[0]) / (run.x[-1] - run.x[0]), more, mode="edge")
            y = np.pad(run.y, ((0, 0), more), mode="edge")
            return [*unknown.found([y, zero[1] if run.p is None else run.p], "the solver"), u, counters(run)]

        equation = Condition(self.where, self.residual, solve, unknown, None, [Aval((size,), np.dtype(float)), COUNTS])
        (y, p), (u, counts) = self.apply(equation, zero)
        inputs = self.inputs.arrays
        x, along = self.nodes(inputs, u), self.along()
        yp = self.slopes(inputs, x, y, p)
        at = lambda places: along(places, x, y, yp, p, *inputs)
        found = {"x": x, "y": y, "yp": yp, "p": p if self.has_p else None}
        if known is not None:
            return type(known)({**known, **found, "sol": Trajectory(at, known.x[0], known.x[-1], known.x)})
        for name, v in (("x", x), ("y", y), ("yp", yp)):
            found[name] = OwnTimes(lambda place, v=v: v[..., place], _UNKNOWN_MESH, v.ndim - 1, v.ndim)
        sol = Trajectory(at, -np.inf, np.inf, None)
        return OptimizeResult(**found, sol=sol, rms_residuals=None, niter=None, **fields(counts, self.runs))

    def solution(self, inputs: Sequence, require: bool) -> Any:
        """Return SciPy's result for plain arrays, which is to have converged."""
        run = self.run(self.search, inputs)
        if require and not run.success:
            instead = "start nearer, raise max_nodes, or tol; require_success=False takes what was found"
            raise convergence_error(self.where, run.message, instead)
        self.runs.append(run)
        return run

    def along(self) -> Callable:
        """Return y at places t, one row each, as a function of t, the mesh with y, y' and p, and the inputs.

        Its derivative in t is f(t, y(t)), and not the spline's, so that there is one of every order.
        """
        rows = custom_jvp(_spline)

        def rule(primals: Any, tangents: Any) -> tuple:
            t, *nodes, p = primals[:5]
            moved = jvp(lambda *nodes: _spline(t, *nodes), tuple(nodes), tuple(tangents[1:4]))[1]
            y = rows(*primals)
            return y, moved + self.slopes(primals[5:], t, y.T, p).T * tangents[0][:, None]

        rows.defjvp(rule)
        return rows


def _spline(t: Any, x: Any, y: Any, yp: Any, *_: Any) -> Any:
    """Return Hermite's cubic of the interval that each t lies in, one row for each t."""
    last = np.sum(x < x[-1]) - 1
    i = np.clip(np.sum(x[None, :] < t[:, None], axis=1) - 1, 0, last)
    h = x[i + 1] - x[i]
    s = (t - x[i]) / h
    value = (1 + 2 * s) * (1 - s) ** 2 * y[:, i] + s**2 * (3 - 2 * s) * y[:, i + 1]
    return (value + h * s * (1 - s) * ((1 - s) * yp[:, i] - s * yp[:, i + 1])).T


def _of_shape(shape: tuple, out: Any, where: str, name: str, why: str, instead: str) -> Any:
    out = operand(out)
    if np.shape(out) == shape:
        return out
    raise ShapeError(f"{where}: `{name}` returned shape {np.shape(out)}; expected {shape}.", why, instead)
