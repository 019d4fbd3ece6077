"""The conditions of Karush, Kuhn and Tucker at an optimum, and the tangents that follow from them.

    ∇f − Aᵀλ = 0  for free variables,      x = bound  for the others,
        c = limit  for active constraints,  λ = 0      for the others

Which bounds and constraints are active is read off the answer once, by distance and by the sign of multipliers, and is
constant from there on: derivatives are those of the piece that the answer lies on. For: everything that minimizes.
Not for: roots (``roots.py``), or arguments of any one solver.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize as so
import scipy.sparse as ss
from scipy.sparse.linalg import splu

from ...control.linear_solve import Unknown
from ...core.above import ABOVE
from ...core.aval import Aval
from ...core.tracer import Tracer, beneath
from ...errors import SingularMatrixError
from ...jacobians.hessian import hessian
from ...jacobians.jacobian import jacobian, jacrev
from ...jvp import stop_gradient
from ...ops.kinks import chosen, convention
from ...vjp_via_transpose import grad
from .interior import Program
from .native import Machine, counts_of, searched
from .problem import COUNTS, DENSE, INACCURATE, SINGULAR, Condition, SolverCall, counters, null_direction, warn

__all__ = ["Constraints", "Limits", "Native", "Optimum", "Part", "Stationary", "forces_of", "optimum", "values_in"]

#: the residuals before the inputs: which bounds and constraints are active, whether one hardly is, counts
_FOUND = 4
#: an active inequality whose multiplier is smaller than this, in units of the gradient, may as well be inactive
_WEAK = 1e-5
#: a Newton step longer than this, in units of x, is left where a solver stopped early
_UNFINISHED = 1e-3
#: least squares with a smaller eigenvalue, relative to the largest, may not determine their answer
_DEFICIENT = 1e-8
#: nearer than this an inequality holds as an equation, whatever its multiplier
_EXACT = 1e-9
#: marks a variable or constraint near its limit but not at it
_NEARLY = 2
#: a smaller condition number needs no second look, nor does a shorter Newton step
_GOOD, _ROUNDING = 1e9, 1e-9


class Limits(NamedTuple):
    """Bounds of all variables, if there are any: ``limits(inputs)`` are arrays, ``plain(inputs)`` SciPy's object."""

    limits: Callable[[Sequence], tuple[Any, Any]] | None = None
    plain: Callable[[Sequence], so.Bounds | None] = lambda inputs: None


class Constraints(NamedTuple):
    """Constraints ``low ≤ c(x) ≤ high``, one or all of them, in one vector of ``size`` numbers.

    ``value(x, inputs)`` returns c, ``limits(inputs)`` the pair of low and high, and ``plain(inputs, call)`` what SciPy
    is given of them, where it takes constraints. ``apart(inputs)`` lists what they are made of.
    """

    size: int
    value: Callable[[Any, Sequence], Any]
    limits: Callable[[Sequence], tuple[Any, Any]]
    plain: Callable[[Sequence, SolverCall], Any] | None = None
    apart: Callable[[Sequence], list[Part]] = lambda inputs: []


class Part(NamedTuple):
    """One of several constraints: a function and its arguments, with derivatives if a user gave some; or a matrix."""

    size: int
    function: Callable | None
    given: Any
    jac: Callable | None = None
    hess: Callable | None = None


class Optimum(NamedTuple):
    """An optimum: x and the multipliers of the constraints, which move; and the parts that don't.

    ``sides`` says which bounds are active: -1 the lower, 1 the upper, 0 none.
    """

    x: Any
    multipliers: Any
    sides: Any
    counts: Any


class Native(NamedTuple):
    """How a program finds an optimum: whether it has to, SciPy's options, a convex matrix near the Hessian."""

    require: bool
    options: dict | None = None
    convex: Callable[[Any, Sequence], Any] | None = None


class Stationary(Condition):
    """The conditions at an optimum.

    ``objective(x, inputs)`` is minimized, ``bounds(inputs)`` the pair of lower and upper ones. With
    ``minimal``, as for least squares, a singular Hessian means the tangent of least norm and a warning.
    """

    __slots__ = ("bounds", "constraints", "minimal", "near", "objective", "runs", "search")

    def __init__(
        self, where: str, unknown: Unknown, search: Callable, objective: Callable, bounds: Callable | None,
        constraints: Constraints | None, runs: list, near: float, minimal: bool, tangent_solve: Any,
    ) -> None:  # fmt: skip
        m, integers = 0 if constraints is None else constraints.size, np.dtype(np.int64)
        found = [Aval((unknown.avals[0].size,), integers), Aval((m,), integers), Aval((), np.dtype(bool)), COUNTS]
        super().__init__(where, self.residual, self.run, unknown, tangent_solve, found)
        self.search, self.objective, self.bounds, self.constraints = search, objective, bounds, constraints
        self.runs, self.near, self.minimal = runs, near, minimal

    def run(self, start: list, inputs: list) -> list:
        """Call the solver; return the variables, the multipliers if there are constraints, and the active set."""
        x, result = self.search(start[0], inputs)
        x = np.reshape(np.asarray(x, float), (self.size,))
        self.runs.append(result)
        code, codes, multipliers, weak = self.classify(x, inputs)
        at = [x] if self.constraints is None else [x, multipliers]
        return [*at, code, codes, np.bool_(weak), counters(result)]

    @property
    def size(self) -> int:
        """The number of variables."""
        return self.unknown.avals[0].size

    def answer(self, native: Native, x0: Any, *values: Any) -> list:
        """Return the results of ``run`` in a program; multipliers to start with are ignored."""
        n, c = self.size, self.constraints
        inputs = values[1:] if c is not None else values
        m = 1 if c is None else c.size
        fill = lambda pair, size: [np.broadcast_to(v, (size,)) for v in pair]
        free = -np.inf, np.inf
        limits = (
            fill(free if self.bounds is None else self.bounds(inputs), n),
            fill(free if c is None else c.limits(inputs), m),
        )
        low, high = [np.concatenate([a, b]) for a, b in zip(*limits, strict=True)]
        objective = lambda x: self.objective(x, inputs)
        held = lambda x: np.zeros(1) if c is None else c.value(x, inputs)
        lagrangian = lambda x, factor, y: factor * objective(x) + (0.0 if c is None else np.sum(y * held(x)))
        p = Program(
            objective, held, grad(objective), lambda x: np.zeros((1, n)) if c is None else jacobian(held)(x),
            hessian(lagrangian), native.convex and (lambda x: native.convex(x, inputs)), low, high,
        )  # fmt: skip
        a = searched(p, x0, native.options)
        weak = _WEAK * np.maximum(1.0, np.max(abs(p.gradient(a.x))))
        is_weak = np.any((a.sides != 0) & (low != high) & (abs(a.forces) <= weak))
        sides = a.sides.astype(np.int64)
        found = [sides[:n], np.zeros(0, np.int64) if c is None else sides[n:], is_weak, counts_of(a)]
        return [a.x, *found] if c is None else [a.x, a.forces[n:], *found]

    def gradient(self, x: Any, multipliers: Any, inputs: Sequence) -> Any:
        """Return the gradient of the Lagrangian."""
        c = self.constraints

        def lagrangian(v: Any) -> Any:
            out = self.objective(v, inputs)
            return out if c is None else out - np.sum(multipliers * c.value(v, inputs))

        return grad(lagrangian)(x)

    def residual(self, at: list, parameters: list) -> list:
        """Return the residuals of the optimality conditions: one per variable, one per constraint."""
        (code, codes, weak, _), inputs = parameters[:_FOUND], parameters[_FOUND:]
        x, multipliers = at[0], at[1] if self.constraints else None
        out = self.gradient(x, multipliers, inputs)
        if self.bounds is not None:
            low, high = [_finite(v) for v in self.bounds(inputs)]
            free = out
            out = np.where(code < 0, x - low, np.where(code > 0, x - high, free))
            if convention() == "nan":  # the branch not taken depends on the inputs too, up to the kink
                there = self.gradient(stop_gradient(x), stop_gradient(multipliers), inputs)
                out = out + chosen(there, lambda: weak, self.name) - there
        if self.constraints is None:
            return [out]
        low, high = [_finite(v) for v in self.constraints.limits(inputs)]
        held = self.constraints.value(x, inputs) - np.where(codes < 0, low, high)
        return [out, np.where(codes == 0, multipliers, held)]

    # ── active bounds ────────────────────────────────────────────────────────────────────────────────────────────

    def sides(self, x: np.ndarray, inputs: Sequence) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Say which bounds, then constraints, are near: -1 the lower limit, 1 the upper, 0 none.

        Return as well which are equations, the rows of their gradients, and the gradient of the objective.
        """
        n, c = self.size, self.constraints
        g = np.asarray(grad(lambda v: self.objective(v, inputs))(x))
        is_large = n > DENSE
        rows: Any = ss.eye_array(n, format="csr") if is_large else np.eye(n)
        values, low, high = x, np.full(n, -np.inf), np.full(n, np.inf)
        if self.bounds is not None:
            low, high = [np.broadcast_to(v, (n,)) for v in self.bounds(inputs)]
        if c is not None:
            at = lambda v: c.value(v, inputs)
            if is_large:
                rows = ss.vstack([rows, ABOVE.sparse_jacobian(at)(x)], format="csr")
            else:
                rows = np.concatenate([rows, np.reshape(jacrev(at)(x), (c.size, n))])
            values = np.concatenate([x, c.value(x, inputs)])
            limits = [np.broadcast_to(v, (c.size,)) for v in c.limits(inputs)]
            low, high = np.concatenate([low, limits[0]]), np.concatenate([high, limits[1]])
        below, above = _distance(values, low), _distance(values, high)
        side = np.where(np.minimum(below, above) > self.near, 0, np.where(below <= above, -1, 1))
        equal = low == high
        side[equal] = -1
        side[(np.minimum(below, above) > _EXACT) & (side != 0) & ~equal] *= _NEARLY
        return side, equal, rows, g

    def classify(self, x: np.ndarray, inputs: Sequence) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """Say which bounds and which constraints are active, return the multipliers of these and whether one is zero.

        What is near counts if its multiplier pushes: a lower limit's is positive. What is near and pulls, or does
        nothing, is inactive; what holds exactly and does nothing is weakly active.
        """
        side, equal, rows, g = self.sides(x, inputs)
        weak = _WEAK * max(1.0, float(np.max(abs(g), initial=0.0)))
        while True:
            forces = forces_of(side, rows, g)
            pulls = np.where((side != 0) & ~equal, forces * np.sign(side), -np.inf)
            pulls[(abs(side) == _NEARLY) & (pulls > -weak)] += 2 * weak
            worst = int(np.argmax(pulls))
            if pulls[worst] <= weak:
                break
            side[worst] = 0
        side = np.sign(side)
        n = self.size
        return side[:n], side[n:], forces[n:], bool(((side != 0) & ~equal & (abs(forces) <= weak)).any())

    # ── tangents ─────────────────────────────────────────────────────────────────────────────────────────────────

    def tangent(self, residuals: Sequence, b):
        """Solve ∂f/∂x·v = b for vectors; the residuals are x, the active set, and the inputs."""
        v = super().tangent(residuals, b)
        weak = residuals[len(self.unknown.avals) + 2]
        return chosen(v, lambda: weak, self.name)

    def dense(self, residuals: Sequence, b):
        """Solve by the matrix, once that is found to be good."""
        J = self.jacobian(residuals)
        k = len(self.unknown.avals)
        if self.minimal and (number := self._deficient(residuals, J)):
            warn(
                f"{self.unknown.where}: the residuals do not determine the answer: the Hessian is singular (condition"
                f" {number:.1e}). The tangent of least norm is taken."
            )
            return np.linalg.pinv(J, rcond=_DEFICIENT) @ b
        J = self.looked_at(J, tuple([stop_gradient(r) for r in residuals[k : k + 2]]), residuals)
        return self.divide(J, self.evidence(residuals, J), b, residuals)

    def evidence(self, residuals: Sequence, J: Any) -> tuple:
        """Return the values that are checked besides the matrix: residual, point, active set, Newton step."""
        k = len(self.unknown.avals)
        x, code, codes = [stop_gradient(residuals[i]) for i in (0, k, k + 1)]
        left, step, product = self.newton(residuals, stop_gradient(J))
        return left, x, code, codes, step, product

    def _deficient(self, residuals: Sequence, J: Any) -> float:
        """Return the condition number of a Hessian that does not determine the answer, 0 of one that does."""
        J = stop_gradient(J)
        n = J.shape[0]
        known = values_in(J)
        if known is None:
            return 0.0  # in a program that is yet to run, it is an error when it does
        numbers = [self.factors.of(m).condition for m in known.reshape((-1, n, n))]
        if max(numbers) <= 1 / _DEFICIENT:
            return 0.0
        if max(numbers) <= SINGULAR:
            *_, step, product = self.evidence(residuals, J)
            step, change = values_in(step), values_in(self.solved(J, product) - step)
            if np.linalg.norm(change) <= INACCURATE * np.linalg.norm(step):
                return 0.0
        return max(numbers)

    def are_good(self, J: np.ndarray, *evidence: np.ndarray) -> np.ndarray:
        """Whether nothing is wrong with the matrices of lanes: those of which this is not certain are checked.

        The matrix of free variables and active constraints is symmetric, if signs of rows are changed; at a minimum it
        has as many negative eigenvalues as there are constraints.
        """
        code, codes = evidence if len(evidence) == 2 else evidence[2:4]
        inside = np.concatenate([code == 0, codes != 0], axis=1)
        S = np.where(inside[:, :, None] & inside[:, None, :], J, np.eye(J.shape[1]))
        S[:, self.size :, : self.size] *= -1
        e = np.linalg.eigvalsh(S)
        sizes = abs(e)
        good = sizes.max(axis=1) < _GOOD * sizes.min(axis=1)
        good &= np.count_nonzero(e < 0, axis=1) == np.count_nonzero(codes, axis=1)
        if len(evidence) > 2:
            good &= np.max(abs(evidence[4]), axis=1) <= _ROUNDING * (1 + np.max(abs(evidence[1]), axis=1))
        return good

    def check(self, J: np.ndarray, *evidence: np.ndarray) -> None:
        """Raise if the conditions do not determine the answer; warn if it is no minimum, or not yet one."""
        code, codes = evidence if len(evidence) == 2 else evidence[2:4]
        n = self.size
        free = np.flatnonzero(code == 0)
        A = J[n:, :n][np.ix_(np.flatnonzero(codes), free)]
        if len(evidence) == 2:
            if len(A):
                self._check_constraints(A, int(np.count_nonzero(code)))
            if (number := self.factors.of(J).condition) > SINGULAR:
                raise SingularMatrixError(
                    f"{self.unknown.where}: the Hessian at the answer is singular (condition {number:.1e}); it"
                    f" maps {null_direction(J)} to zero.",
                    "the answer can move along that direction at no cost to first order, so it has no derivative",
                    "make the optimum unique (add a term that is small along it), or differentiate a quantity that does"
                    " not depend on it",
                )
            return
        r, x, _, _, step, product = evidence
        if changed := self.change(J, step, product):
            raise SingularMatrixError(
                f"{self.unknown.where}: a Newton step from the answer, of length {np.linalg.norm(step):.2g}, changes"
                f" the Hessian by {changed:.0%}.",
                "the optimum is flat (its Hessian vanishes there), or the solver is too far from it for a derivative",
                'solve to a smaller tolerance, with jac="dualad"; if the optimum is flat, it has no derivative',
            )
        left = abs(step[:n]).max(initial=0.0)
        if left > _UNFINISHED * (1 + abs(x).max(initial=0.0)):
            warn(
                f"{self.unknown.where}: the gradient at the answer is {abs(r).max():.2g}, from which a Newton step of"
                f' {left:.2g} is left; derivatives are as inexact. Lower the tolerance, or pass jac="dualad".'
            )
        H = J[np.ix_(free, free)]
        if len(A):
            Z = scipy.linalg.null_space(A)
            H = Z.T @ H @ Z
        if H.size:
            e = np.linalg.eigvalsh((H + H.T) / 2)
            if e[0] < -1e-10 * max(abs(e[-1]), 1e-300):
                warn(
                    f"{self.unknown.where}: the answer is no minimum: the Hessian has the eigenvalue {e[0]:.3g} along"
                    " free directions. The derivative is that of a saddle point or a maximum."
                )

    def _check_constraints(self, A: np.ndarray, bounds: int) -> None:
        sizes = np.linalg.norm(A, axis=1, keepdims=True)
        S = A / np.where(sizes > 0, sizes, 1.0)
        u, s, _ = np.linalg.svd(S)
        if len(S) <= S.shape[1] and s[-1] > 1e-10:
            return
        combination = u[:, -1] / u[np.argmax(abs(u[:, -1])), -1]
        raise SingularMatrixError(
            f"{self.unknown.where}: the gradients of the {len(A)} active constraints depend on each other"
            f" ({bounds} variables are at bounds): their combination {np.array2string(combination.round(3) + 0.0)} is"
            " zero.",
            "the multipliers are not unique, and a small change of one constraint may leave no solution at all (LICQ)",
            "remove the constraints that follow from others",
        )


def forces_of(side: np.ndarray, rows: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return the multipliers of the active constraints, whose gradients (``rows``) combine to the objective's."""
    active = np.flatnonzero(side)
    forces = np.zeros(len(side))
    if len(active) and ss.issparse(rows):
        forces[active] = _sparse_forces(rows[active], g)
    elif len(active):
        forces[active] = np.linalg.lstsq(rows[active].T, g, rcond=1e-12)[0]
    return forces


def _sparse_forces(A: Any, g: np.ndarray) -> np.ndarray:
    """Return λ of the least |g − Aᵀλ|: r + Aᵀλ = g and Ar = 0, with the residual r as an unknown.

    The rows of A are of length one there, so that an answer to random numbers is large where they depend on each other.
    """
    n, (m, _) = len(g), A.shape
    sizes = np.sqrt((A * A).sum(axis=1))
    A = ss.diags_array(1 / np.where(sizes > 0, sizes, 1.0)) @ A
    probe = np.random.default_rng(m).normal(size=n + m)
    try:
        factors = splu(ss.block_array([[ss.eye_array(n), A.T], [A, None]], format="csc"))
        is_regular = np.max(abs(factors.solve(probe))) <= SINGULAR
    except RuntimeError:  # a pivot is zero
        is_regular = False
    if is_regular:
        return factors.solve(np.concatenate([g, np.zeros(m)]))[n:] / sizes
    raise SingularMatrixError(
        f"scipy.optimize: the gradients of the {m} active bounds and constraints depend on each other.",
        "the multipliers are not unique, and a small change of one may leave no solution at all (LICQ)",
        "remove the constraints that follow from others",
    )


def values_in(x: Any) -> Any:
    """Return the values inside a tensor, those of its lanes; ``None`` in a program that is yet to run."""
    value = beneath(x) if isinstance(x, Tracer) else x
    return None if isinstance(value, Tracer) else np.asarray(value)


def _distance(x: np.ndarray, limit: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(limit), abs(x - _finite(limit)) / (1 + abs(_finite(limit))), np.inf)


def _finite(v: Any) -> Any:
    """Return limits with zeros for infinite ones, which are never active."""
    return np.where(np.isfinite(v), v, 0.0)


def optimum(
    call: SolverCall, search: Callable[[Any, Sequence], tuple[Any, Any]], objective: Callable, box: Limits,
    constraints: Constraints | None = None, *, near: float = 1e-6, minimal: bool = False, tangent_solve: Any = None,
    equation: Callable[..., Stationary] = Stationary, native: Native | None = None,
) -> Optimum:  # fmt: skip
    """Apply the operator of a minimization: ``search(x0, inputs)`` returns x and a result of SciPy's.

    With ``native`` a program is run in place of that.
    """
    constraints = constraints if constraints is not None and constraints.size else None
    parts = [call.start] if constraints is None else [call.start, np.zeros(constraints.size)]
    made = equation(
        call.where, Unknown(parts, "x0", call.where), search, objective, box.limits,
        constraints, call.runs, near, minimal, tangent_solve,
    )  # fmt: skip
    if native is not None:
        made.found_by(Machine(call.where, functools.partial(made.answer, native), made.run, native.require))
    at, found = call.apply(made, parts)
    return Optimum(at[0], at[1] if constraints is not None else np.zeros(0), found[0], found[-1])
