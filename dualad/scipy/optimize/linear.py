"""Linear programs and linear least squares: ``linprog``, ``lsq_linear``, ``nnls``, ``linear_sum_assignment``.

A linear program's answer is a vertex, the solution of as many equations as there are variables; it has a derivative
where it is the only one and not degenerate. Not for: integers (``milp`` is refused), or residuals that are functions
(``least_squares.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize as so
import scipy.sparse as ss

from ...control.factored_solve import LU
from ...core.aval import Aval
from ...core.primitive import Primitive
from ...errors import SingularMatrixError, UnsupportedError
from ...jvp import stop_gradient
from ...surface.arguments import operand
from ..linalg import solve_triangular
from ..mirror import refuses
from ..sparse import csr_array
from .constraints import bounds_of, box_of, floating
from .problem import SINGULAR, Condition, SolverCall, converged, fields, regular, solves, warn
from .stationary import Constraints, Limits, Stationary, forces_of, optimum

__all__ = ["linear_sum_assignment", "linprog", "lsq_linear", "milp", "nnls"]


def _floats(x: Any) -> Any:
    """Return an array in floating point; sparse ones as those that meet tensors."""
    return csr_array(x) if ss.issparse(x) else floating(x)


# ── least squares ────────────────────────────────────────────────────────────────────────────────────────────────


class _Normal(Stationary):
    """Aᵀ(A x − b) = 0 on the free variables: solved by the triangular factor of A's free columns."""

    __slots__ = ("matrix",)

    def __init__(self, matrix: Callable, *rest: Any) -> None:
        super().__init__(*rest)
        self.matrix = matrix

    def dense(self, residuals: Sequence, b):
        """Solve RᵀR v = b, R from A without its columns at bounds and with ones in their place.

        Variables at bounds move as these do, and what they change moves to the right-hand side.
        """
        code, inputs = residuals[1], residuals[5:]
        A = self.matrix(inputs)
        free = np.where(code == 0, 1.0, 0.0)
        rest = np.zeros((self.size, self.size)) + np.diag(1.0 - free)
        R = np.linalg.qr(np.concatenate([A * free, rest]), "r")
        checked = regular(R, *self.evidence(residuals, R), call=self)
        held = b * (1.0 - free)
        b = held + free * (b - A.T @ (A @ held))
        return solve_triangular(checked, solve_triangular(checked, b, trans=1))

    def evidence(self, residuals: Sequence, J: Any) -> tuple:
        """Return the values that are checked besides the factor: residual and point."""
        at = [stop_gradient(r) for r in residuals]
        return self.f(at[:1], at[1:])[0], at[0]

    def check(self, J: np.ndarray, *evidence: np.ndarray) -> None:
        """Raise if the free columns depend on each other."""
        if LU(J, rows=False).condition > SINGULAR:
            raise SingularMatrixError(
                f"{self.unknown.where}: the free columns of A depend on each other.",
                "there are many answers with the same residuals, so none has a derivative",
                "remove the columns that follow from others, or add rows that are small (Tikhonov's regularization)",
            )
        r, x = evidence
        step = abs(solve_triangular(J, solve_triangular(J, r, trans=1))).max(initial=0.0)
        if step > 1e-3 * (1 + abs(x).max(initial=0.0)):
            warn(
                f"{self.unknown.where}: a step of {step:.2g} is left at the answer, and derivatives are as inexact."
                " Lower the tolerance."
            )


def _linear_fit(
    where: str, A: Any, b: Any, bounds: Any, search: Any, require: bool, tangent_solve: Any
) -> tuple:  # fmt: skip
    """Apply the operator of a linear least squares problem; return x, the findings, the residuals and the runs."""
    A, b = _floats(A), _floats(b)
    n = A.shape[1]
    call = SolverCall(where, np.zeros(n))
    inputs = call.inputs
    matrix, target = inputs.add(A), inputs.add(b)
    box = bounds_of(inputs, bounds, n)
    call.leave()

    def residual(x: Any, values: Sequence) -> Any:
        return matrix(values) @ x - target(values)

    def run(x0: Any, values: Sequence) -> tuple[Any, Any]:
        given = matrix(values)
        out = search(ss.csr_array(given) if ss.issparse(given) else given, target(values), box, values)
        converged(out, where, require)
        return out.x, out

    found = optimum(
        call, run, lambda x, values: 0.5 * np.sum(residual(x, values) ** 2), box,
        near=1e-9 if where.endswith("nnls") else 1e-6, tangent_solve=tangent_solve,
        equation=Stationary if ss.issparse(A) else lambda *rest: _Normal(matrix, *rest),
    )  # fmt: skip
    return found, residual(found.x, inputs.arrays), call.runs


@solves(so.lsq_linear)
def lsq_linear(
    A, b, bounds=(-np.inf, np.inf), method="trf", tol=1e-10, lsq_solver=None, lsmr_tol=None, max_iter=None, verbose=0,
    *, lsmr_maxiter=None, require_success=True, tangent_solve=None,
):  # fmt: skip
    """Minimize ‖A x − b‖ within bounds, and differentiate x in A, b and the bounds."""

    def search(A: Any, b: Any, box: Limits, values: Sequence) -> Any:
        return so.lsq_linear(
            A, b, box.plain(values), method, tol, lsq_solver, lsmr_tol, max_iter, verbose, lsmr_maxiter=lsmr_maxiter
        )  # fmt: skip

    where = "scipy.optimize.lsq_linear"
    found, r, runs = _linear_fit(where, A, b, box_of(bounds), search, require_success, tangent_solve)
    return so.OptimizeResult(
        x=found.x, cost=0.5 * np.sum(r**2), fun=r, active_mask=found.sides, **fields(found.counts, runs)
    )  # fmt: skip


@solves(so.nnls)
def nnls(A, b, *, maxiter=None, require_success=True, tangent_solve=None):
    """Minimize ‖A x − b‖ for x ≥ 0, and differentiate x and the norm in A and b."""

    def search(A: Any, b: Any, box: Limits, values: Sequence) -> Any:
        return so.OptimizeResult(x=so.nnls(A, b, maxiter=maxiter)[0], success=True)

    bounds = so.Bounds(0.0, np.inf)
    found, r, _ = _linear_fit("scipy.optimize.nnls", A, b, bounds, search, require_success, tangent_solve)
    return found.x, np.linalg.norm(r)


# ── linear programs ──────────────────────────────────────────────────────────────────────────────────────────────


class _Vertex(Stationary):
    """A vertex: as many active bounds and constraints as there are variables, each pushing."""

    __slots__ = ()

    def classify(self, x: np.ndarray, inputs: Sequence) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """Return the active set by distance alone: constraints that are active with zero multipliers belong to it."""
        side, equal, rows, g = self.sides(x, inputs)
        forces = forces_of(side, rows, g)
        idle = (side != 0) & ~equal & (abs(forces) <= 1e-9 * max(1.0, abs(g).max(initial=0.0)))
        n = self.size
        return side[:n], side[n:], forces[n:], bool(idle.any())

    tangent = Condition.tangent

    def dense(self, residuals: Sequence, b):
        """Solve by the matrix, once that is found to be good."""
        return self.divide(self.jacobian(residuals), self.evidence(residuals, None), b, residuals)

    def large(self, residuals: Sequence, b):
        """Solve without a dense matrix, if there are as many equations as variables."""
        at = regular(residuals[0], *self.evidence(residuals, None), call=self)
        return super().large([at, *residuals[1:]], b)

    def evidence(self, residuals: Sequence, J: Any) -> tuple:
        """Return the values that are checked: active bounds, active constraints, whether a multiplier is zero."""
        k = len(self.unknown.avals)
        return tuple([stop_gradient(r) for r in residuals[k : k + 3]])

    def check(self, J: np.ndarray, *evidence: np.ndarray) -> None:
        """Raise if the answer is not the only one, or changes from one set of equations to another here."""
        code, codes, idle = evidence
        count, n = int(np.count_nonzero(code) + np.count_nonzero(codes)), len(code)
        where = self.unknown.where
        if count > n:
            raise SingularMatrixError(
                f"{where}: the answer is degenerate: {count} bounds and constraints are active for {n} variables.",
                "which of them stay active depends on the direction of a change, so there is no derivative",
                "remove the constraints that follow from others, or move a limit a little",
            )
        if count < n or idle or (J.ndim == 2 and LU(J).condition > SINGULAR):
            raise SingularMatrixError(
                f"{where}: the answer is not the only one"
                + (f": {count} bounds and constraints are active for {n} variables." if count < n else "."),
                "all points of an edge are as good, and which of them is returned is the solver's choice",
                "change the objective a little, so that one vertex is best; differentiate .fun in the limits by the"
                " multipliers (.ineqlin.marginals) of a plain call",
            )


@solves(so.linprog)
def linprog(
    c, A_ub=None, b_ub=None, A_eq=None, b_eq=None, bounds=(0, None), method="highs", callback=None, options=None,
    x0=None, integrality=None, *, require_success=True, tangent_solve=None,
):  # fmt: skip
    """Minimize cᵀx under linear constraints, and differentiate the vertex, the value and the multipliers."""
    where = "scipy.optimize.linprog"
    n = np.size(operand(c))
    call = SolverCall(where, np.zeros(n))
    inputs = call.inputs
    cost = inputs.add(np.reshape(_floats(c), (-1,)))
    matrices, sides, counts = [], [], []
    for A, b in ((A_ub, b_ub), (A_eq, b_eq)):
        A, b = (np.zeros((0, n)), []) if A is None else (A.toarray() if ss.issparse(A) else A, b)
        matrices.append(inputs.add(_floats(A)))
        sides.append(inputs.add(np.reshape(_floats(b), (-1,))))
        counts.append(np.shape(A)[0])
    box = bounds_of(inputs, _pairs(bounds, n), n)
    call.leave()
    if integrality is not None and np.any(operand(integrality)):
        raise UnsupportedError(f"{where}: integrality is given, and something is traced.", *_INTEGERS)

    def value(x: Any, values: Sequence) -> Any:
        return np.concatenate([A(values) @ x for A in matrices])

    def limits(values: Sequence) -> tuple[Any, Any]:
        right = np.concatenate([b(values) for b in sides])
        return np.where(np.arange(sum(counts)) < counts[0], -np.inf, right), right

    def search(_: Any, values: Sequence) -> tuple[Any, Any]:
        low, high = box.limits(values) if box.limits is not None else (np.full(n, -np.inf), np.full(n, np.inf))
        plain = [part(values) for pair in zip(matrices, sides, strict=True) for part in pair]
        out = so.linprog(cost(values), *plain, np.stack([low, high], 1), method, callback, options, x0)
        converged(out, where, require_success)
        return out.x, out

    found = optimum(
        call, search, lambda x, values: np.sum(cost(values) * x), box, Constraints(sum(counts), value, limits),
        near=1e-9, tangent_solve=tangent_solve, equation=_Vertex,
    )  # fmt: skip
    x, arrays = found.x, inputs.arrays
    slack, con = [b(arrays) - A(arrays) @ x for A, b in zip(matrices, sides, strict=True)]
    multipliers = found.multipliers[: counts[0]], found.multipliers[counts[0] :]
    pushed = cost(arrays)
    for A, m in zip(matrices, multipliers, strict=True):
        pushed = pushed - m @ A(arrays)
    low, high = box.limits(arrays) if box.limits is not None else (-np.inf, np.inf)
    held = lambda gap, marginals: so.OptimizeResult(residual=gap, marginals=marginals)
    return so.OptimizeResult(
        x=x, fun=np.sum(cost(arrays) * x), slack=slack, con=con, ineqlin=held(slack, multipliers[0]),
        eqlin=held(con, multipliers[1]), lower=held(x - low, np.where(found.sides < 0, pushed, 0.0)),
        upper=held(high - x, np.where(found.sides > 0, pushed, 0.0)), **fields(found.counts, call.runs),
    )  # fmt: skip


def _pairs(bounds: Any, n: int) -> Any:
    """Return bounds as pairs, of which SciPy takes one for all variables too."""
    if bounds is None:
        bounds = (0, None)
    if isinstance(bounds, so.Bounds):
        return bounds
    bounds = list(bounds)
    if len(bounds) == 2 and all([b is None or np.ndim(b) == 0 for b in bounds]):
        return [tuple(bounds)] * n
    return bounds * n if len(bounds) == 1 else bounds


# ── integers ─────────────────────────────────────────────────────────────────────────────────────────────────────

_INTEGERS = (
    "where variables are integers the answer jumps, and has no derivative between the jumps but zero",
    "fix the integers, outside of the transform, and differentiate linprog in the remaining variables",
)
milp = refuses(so.milp, "scipy.optimize.milp", *_INTEGERS)

_WHOLE = np.dtype(np.int64)


assignment = Primitive(
    "linear_sum_assignment",
    impl=lambda cost, *, maximize: tuple([x.astype(_WHOLE) for x in so.linear_sum_assignment(cost, maximize)]),
    abstract_eval=lambda cost, *, maximize: (Aval((min(cost.shape),), _WHOLE),) * 2,
    jvp=None,
    samples=[((3, 3), {"maximize": False}), ((2, 4), {"maximize": True})],
    multiple_results=True,
    blocks="one",
)


@solves(so.linear_sum_assignment)
def linear_sum_assignment(cost_matrix, maximize=False):
    """Assign rows to columns at least cost; the indices have no derivative, the cost ``C[rows, columns]`` does.

    Where several assignments cost the same, the derivative is that of the one which SciPy returns: a subgradient of the
    least cost, and not the only one. Nothing warns of that; ties of computed costs are as rare as they are unstable.
    """
    return tuple(assignment(_floats(cost_matrix), maximize=bool(maximize)))
