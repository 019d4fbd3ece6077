"""Systems of equations: ``root``, ``fsolve``, ``newton_krylov`` and its kin, ``fixed_point``.

    f(x, θ) = 0:   ∂ₓf · ẋ = −∂_θf · θ̇

Not for: one equation in one unknown (``scalar.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize as so
from scipy.sparse.linalg import LinearOperator, splu

from ...control.linear_solve import Unknown
from ...core.above import ABOVE
from ...errors import ShapeError
from ...jacobians.jacobian import jacobian
from ...surface.arguments import operand
from ..mirror import as_args, is_own
from .interior import Program
from .native import Machine, counts_of, is_wanted, searched
from .problem import COUNTS, Condition, SolverCall, counters, fields, solves, start_of

__all__ = [
    "System", "anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "fixed_point", "fsolve",
    "linearmixing", "newton_krylov", "root",
]  # fmt: skip


class System(SolverCall):
    """A system of equations with its traced inputs: what every function here makes of its arguments.

    With ``shift`` f(x) = x is solved, not f(x) = 0; ``equation`` is the class of the equation.
    """

    def __init__(
        self, where: str, f: Callable, x0: Any, args: Any, tangent_solve: Any, shift: bool = False,
        equation: type[Condition] = Condition,
    ) -> None:  # fmt: skip
        super().__init__(where, start_of(x0))
        self._shift, self._made = shift, (equation, tangent_solve)
        self.f = self.inputs.close(f, [self.start], as_args(args))

    def value(self, x: Any, inputs: Sequence) -> Any:
        """Return f at x, in the shape of x."""
        out = operand(self.f(inputs, x))
        if np.size(out) != np.size(x):
            raise ShapeError(
                f"{self.where}: the function returned {np.size(out)} numbers for {np.size(x)} unknowns.",
                "there are as many equations as unknowns",
                "return one residual for every number in x0",
            )
        return np.reshape(out, np.shape(x))

    def residual(self, x: Any, inputs: Sequence) -> Any:
        """Return the residual, zero at the answer."""
        out = self.value(x, inputs)
        return out - x if self._shift else out

    def jacobian(self, inputs: Sequence) -> Callable:
        """Return the exact Jacobian as a function of x."""
        return jacobian(lambda x: self.residual(x, inputs))

    def plain(self, inputs: Sequence) -> Callable:
        """Return the user's function of plain x alone, for SciPy."""
        return self.guard(lambda x, *_: self.value(x, inputs)[()])

    def answer(self, options: dict | None, x0: Any, *inputs: Any) -> list:
        """Return x and the counts, in a program: f(x) = 0 is the constraint of a problem without an objective."""
        shape, n = np.shape(x0), np.size(x0)
        held = lambda x: np.reshape(self.residual(np.reshape(x, shape), inputs), (-1,))
        limit = np.concatenate([np.full(n, np.inf), np.zeros(n)])
        p = Program(
            lambda x: np.float64(0.0), held, np.zeros_like, jacobian(held), lambda x, factor, y: np.zeros((n, n)), None,
            -limit, limit,
        )  # fmt: skip
        a = searched(p, np.reshape(x0, (-1,)), options)
        return [np.reshape(a.x, shape), counts_of(a)]

    def solve(
        self, search: Callable[[Any, Sequence], tuple[Any, Any]], require: bool, native: dict | None = None
    ) -> tuple[Any, Any]:
        """Apply the operator: ``search(x0, inputs)`` returns x and a result of SciPy's. Return x and the counts.

        With ``native``, options of SciPy's, a program is run in place of that.
        """
        make, tangent_solve = self._made
        unknown = Unknown(self.start, "x0", self.where)

        def run(x0: list, inputs: list) -> list:
            x, result = self.run_checked(search, x0[0], inputs, require)
            self.runs.append(result)
            return [*unknown.found(np.reshape(x, unknown.avals[0].shape)[()], "the solver"), counters(result)]

        equation = make(
            self.where, lambda x, p: [self.residual(x[0], p[1:])], run, unknown, tangent_solve, [COUNTS]
        )  # fmt: skip
        if native is not None:
            function = functools.partial(self.answer, native)
            equation.found_by(Machine(self.where, function, run, require and self.depends))
        (x,), (numbers,) = self.apply(equation, [self.start])
        return x, numbers


@solves(so.root)
def root(
    fun, x0, args=(), method="hybr", jac=None, tol=None, callback=None, options=None, *, require_success=True,
    tangent_solve=None, solver="auto",
):  # fmt: skip
    """Solve f(x) = 0, and differentiate x in whatever f depends on; ``jac="dualad"`` is the exact Jacobian.

    With ``method="krylov"`` it is sparse, and its factors are the preconditioner, recomputed at each step.
    ``solver`` is as for :func:`minimize`.
    """
    where = "scipy.optimize.root"
    flat = method in ("hybr", "lm", "df-sane")
    value = fun if jac is not True else lambda *a: fun(*a)[0]
    system = System(where, value, np.reshape(operand(x0), (-1,)) if flat else x0, args, tangent_solve)
    derivative = system.close_given(jac, args, "jac")
    pair = system.inputs.close(fun, [system.start], as_args(args)) if jac is True else None
    is_native = is_wanted(system, solver, method in ("hybr", "lm") and callback is None, system.start.size)
    if not is_native:
        system.leave(jac)

    def search(x0: Any, inputs: Sequence) -> tuple[Any, Any]:
        f, own, more = system.plain(inputs), jac, options
        if jac is True:
            f = system.guard(lambda x, *_: pair(inputs, x))
        elif is_own(jac) and method == "krylov":
            own, inner = None, {"inner_M": _Factorized(lambda x: system.residual(x, inputs), x0)}
            given = options or {}
            more = {**given, "jac_options": {**inner, **given.get("jac_options", {})}}
        else:
            own = system.derivative(jac, derivative, inputs, lambda: system.jacobian(inputs))
        return (out := so.root(f, x0, (), method, own, tol, callback, more)).x, out

    if not system.depends and not is_native:
        return system.run(search, system.start, [])[1]
    x, numbers = system.solve(search, require_success, (options or {}) if is_native else None)
    return so.OptimizeResult(x=x, fun=system.residual(x, system.inputs.arrays), **fields(numbers, system.runs))


class _Factorized(LinearOperator):
    """The inverse of the exact sparse Jacobian, which a Krylov method has brought up to date at every step."""

    def __init__(self, f: Callable, x0: np.ndarray) -> None:
        super().__init__(float, (x0.size, x0.size))
        self._jacobian = ABOVE.sparse_jacobian(lambda v: np.reshape(f(np.reshape(v, x0.shape)), (-1,)))
        self.update(x0, None)

    def update(self, x: np.ndarray, _: Any) -> None:
        """Factorize at x, as SciPy asks before each step; a singular matrix leaves the previous factors."""
        try:
            self._factors = splu(self._jacobian(np.reshape(x, (-1,))).tocsc())
        except RuntimeError:
            self._factors = getattr(self, "_factors", None)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        v = np.reshape(v, (-1,))
        return v if self._factors is None else self._factors.solve(v)


@solves(so.fsolve)
def fsolve(
    func, x0, args=(), fprime=None, full_output=0, col_deriv=0, xtol=1.49012e-8, maxfev=0, band=None, epsfcn=None,
    factor=100, diag=None, *, require_success=True, tangent_solve=None,
):  # fmt: skip
    """Solve f(x) = 0, and differentiate x in whatever f depends on; ``fprime="dualad"`` is the exact Jacobian."""
    where = "scipy.optimize.fsolve"
    system = System(where, func, np.reshape(operand(x0), (-1,)), args, tangent_solve)
    derivative = system.close_given(fprime, args, "fprime")
    system.leave(fprime)

    def search(x0: Any, inputs: Sequence, full: bool = True) -> Any:
        exact = system.jacobian(inputs)
        own = system.derivative(fprime, derivative, inputs, lambda: (lambda x: exact(x).T) if col_deriv else exact)
        return so.fsolve(
            system.plain(inputs), x0, (), own, full, col_deriv, xtol, maxfev, band, epsfcn, factor, diag
        )  # fmt: skip

    if not system.depends:
        return system.run(search, system.start, [], full_output)

    def found(x0: Any, inputs: Sequence) -> tuple[Any, Any]:
        x, info, flag, message = search(x0, inputs)
        return x, so.OptimizeResult(success=flag == 1, status=flag, message=message, nfev=info["nfev"])

    x, numbers = system.solve(found, require_success)
    if not full_output:
        return x
    said = fields(numbers, system.runs)
    info = {"nfev": said["nfev"], "fvec": system.residual(x, system.inputs.arrays)}
    return x, info, said["status"], said["message"]


# ── solvers of many unknowns, which return x alone ───────────────────────────────────────────────────────────────


def _nonlinear(original: Callable) -> Callable:
    name = original.__name__

    def solver(F, xin, *options, require_success=True, tangent_solve=None, **named):
        where = f"scipy.optimize.{name}"
        system = System(where, F, xin, (), tangent_solve)
        system.leave()

        def search(x0: Any, inputs: Sequence) -> tuple[Any, Any]:
            try:
                x, ended = original(system.plain(inputs), x0, *options, **named), True
            except so.NoConvergence as error:
                x, ended = error.args[0], False
            return x, so.OptimizeResult(success=ended, message="it has not converged within maxiter")

        return system.solve(search, require_success)[0]

    return solves(original, f"Solve F(x) = 0 as ``scipy.optimize.{name}`` does, and differentiate x.")(solver)


newton_krylov = _nonlinear(so.newton_krylov)
anderson = _nonlinear(so.anderson)
broyden1 = _nonlinear(so.broyden1)
broyden2 = _nonlinear(so.broyden2)
diagbroyden = _nonlinear(so.diagbroyden)
excitingmixing = _nonlinear(so.excitingmixing)
linearmixing = _nonlinear(so.linearmixing)


@solves(so.fixed_point)
def fixed_point(
    func, x0, args=(), xtol=1e-08, maxiter=500, method="del2", *, require_success=True, tangent_solve=None
):  # fmt: skip
    """Solve x = f(x), and differentiate x in whatever f depends on."""
    where = "scipy.optimize.fixed_point"
    system = System(where, func, x0, args, tangent_solve, shift=True)
    system.leave()

    def search(x0: Any, inputs: Sequence) -> tuple[Any, Any]:
        x = system.run_raising(lambda: so.fixed_point(system.plain(inputs), x0, (), xtol, maxiter, method))
        return x, {"success": True}

    return system.solve(search, require_success)[0]
