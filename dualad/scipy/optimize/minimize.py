"""Minima: ``minimize`` with bounds and constraints, ``minimize_scalar``, and the global optimizers.

Not for: the conditions at a minimum (``stationary.py``), or what constraints are written as (``constraints.py``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize as so

from ...core.tracer import Tracer
from ...jacobians.hessian import hvp
from ...jvp import stop_gradient
from ...surface.arguments import operand
from ...vjp_via_transpose import grad, value_and_grad
from ..closures import Closed
from ..mirror import as_args, is_own
from .constraints import bounds_of, constraints_of
from .ipopt import SOLVERS, solve_by
from .native import is_wanted
from .nonlinear import known_result, model_of, one_number
from .problem import DENSE, SciPys, SolverCall, arguments_of, converged, fields, inside, is_jitted, solves, start_of
from .stationary import Constraints, Limits, Native, Part, optimum

__all__ = [
    "Objective", "basinhopping", "differential_evolution", "dual_annealing", "middle_of", "minimize", "minimize_scalar",
    "minimum", "shgo",
]  # fmt: skip

#: a gradient that BFGS is content with by default
_SMALL = 1e-5
#: methods that compare values, of functions that may have no derivative
_WITHOUT_DERIVATIVES = ("nelder-mead", "powell", "cobyla", "cobyqa")
#: how near a solver comes to a bound or constraint that is active
_NEAR = {"trust-constr": 1e-4, "cobyla": 1e-3, "cobyqa": 1e-4, "bounded": 1e-4}


class Objective(SolverCall):
    """A function to be minimized, with its traced inputs and its derivatives as SciPy is to be given them."""

    def __init__(self, where: str, fun: Callable, x0: Any, args: Any, jac: Any, hess: Any, hessp: Any) -> None:
        super().__init__(where, np.reshape(start_of(x0), (-1,)))
        self.jac, self.hess, self.is_jitted = jac, hess, is_jitted(fun)
        pair, args = jac is True, as_args(args)
        self.pair = self.inputs.close(fun, [self.start], args) if pair else None
        known = lambda: None if pair else known_result(fun, self.start, args)
        self.fun = self.inputs.close((lambda *a: fun(*a)[0]) if pair else fun, [self.start], args, result=known)
        quasi = isinstance(hess, so.HessianUpdateStrategy)
        self.own_jac = self.close_given(jac, args, "jac")
        self.own_hess = None if quasi else self.close_given(hess, args, "hess")
        self.own_hessp = self.close_given(hessp, args, "hessp", self.start)

    def value(self, x: Any, inputs: Sequence) -> Any:
        """Return the objective at x."""
        return one_number(self.fun(inputs, x), self.where)

    @property
    def own_fun(self) -> Closed:
        """The user's function, which returns a pair if ``jac`` is true."""
        return self.fun if self.pair is None else self.pair

    def ended_by_rounding(self, out: Any, inputs: Sequence, box: Limits) -> bool:
        """Whether a line search failed at a gradient that satisfies SciPy's default tolerance."""
        if out.get("success", True) or out.get("status") != 2:
            return False
        value, slope = value_and_grad(lambda x: self.value(x, inputs))(out.x)
        if box.limits is not None:
            slope = out.x - np.clip(out.x - slope, *box.limits(inputs))  # at a bound it may push outwards
        return bool(np.max(abs(slope), initial=0.0) <= _SMALL * max(1.0, abs(float(value))))

    def plain(self, inputs: Sequence) -> dict[str, Any]:
        """Return SciPy's arguments: functions of plain x alone."""
        value = lambda x: self.value(x, inputs)
        fun = lambda x, *_: value(x)
        if is_own(self.jac) and (self.start.size > DENSE or self.is_jitted):
            model, numbers = model_of(
                self.where, self.pair is not None, [Part(1, *self.own_fun.apart(inputs))], self.start
            )
            fun = lambda x, *_: model.value_and_gradient(x, *numbers)
        elif is_own(self.jac):
            fun = value_and_grad(value)
        elif self.pair is not None:
            fun = lambda x, *_: self.pair(inputs, x)
        hess = self.derivative(self.hess, self.own_hess, inputs, lambda: self.hessian_of(value))
        hessp = self.derivative(None, self.own_hessp, inputs, lambda: value)
        jac = True if is_own(self.jac) else self.derivative(self.jac, self.own_jac, inputs, lambda: value)
        return {"fun": self.guard(fun), "jac": jac, "hess": hess, "hessp": hessp}


@solves(so.minimize)
def minimize(
    fun, x0, args=(), method=None, jac=None, hess=None, hessp=None, bounds=None, constraints=(), tol=None,
    callback=None, options=None, *, require_success=True, tangent_solve=None, solver="auto",
):  # fmt: skip
    """Minimize a function, and differentiate where its minimum is and how low.

    ``jac="dualad"`` and ``hess="dualad"`` give SciPy exact derivatives. With ``method="ipopt"`` (and ``"pounce"``, of
    the extras of these names) all derivatives are exact, sparse and compiled; ``options`` are Ipopt's. In a program
    (``jit``) problems of up to 20 unknowns are solved by an interior point method in machine code, in lanes of ``vmap``
    too, whichever method with derivatives is named; ``solver="native"`` asks for it elsewhere.
    """
    where = "scipy.optimize.minimize"
    problem = Objective(where, fun, x0, args, jac, hess, hessp)
    inputs, start = problem.inputs, problem.start
    box = bounds_of(inputs, bounds, start.size)
    held = constraints_of(inputs, constraints, start)
    name = (method if isinstance(method, str) else "").lower()
    possible = callback is None and name not in (*SOLVERS, *_WITHOUT_DERIVATIVES) and not callable(method)
    is_native = is_wanted(problem, solver, possible, 0 if held is None else held.size)
    if name not in SOLVERS and not is_native:
        problem.leave(jac, hess, *inside([constraints]))

    problem.takes_sparse = name == "trust-constr" and start.size > DENSE
    if problem.takes_sparse and is_own(*inside([constraints])):  # all of them are to be
        options = {"sparse_jacobian": True, **(options or {})}

    def search(x0: Any, values: Sequence) -> tuple[Any, Any]:
        if name in SOLVERS:
            out = solve_by(name, problem, box, held, values, x0, tol, callback, options)
            return out.x, out
        given = problem.plain(values)
        if is_own(hess) and x0.size > DENSE and not problem.takes_sparse:
            at = lambda x: problem.value(x, values)
            given["hess"], given["hessp"] = None, problem.quickly(lambda x, v: hvp(at, x, v))
        out = so.minimize(
            given["fun"], x0, (), method, given["jac"], given["hess"], given["hessp"],
            box.plain(values), held.plain(values, problem) if held else (), tol, callback, options,
        )  # fmt: skip
        return out.x, out

    if not problem.depends and not is_native:
        return problem.run(search, start, [])[1]
    native = Native(require_success and problem.depends, options) if is_native else None
    return minimum(problem, search, box, held, require_success, tangent_solve, _NEAR.get(name, 1e-6), native)


def minimum(
    problem: Objective, search: Callable, box: Limits, constraints: Constraints | None, require: bool,
    tangent_solve: Any, near: float, native: Native | None = None,
) -> so.OptimizeResult:  # fmt: skip
    """Apply the operator and make SciPy's result of it."""

    def checked(x0: Any, values: Sequence) -> tuple[Any, Any]:
        x, out = problem.run(search, x0, values)
        if not problem.ended_by_rounding(out, values, box):
            converged(out, problem.where, require)
        return x, out

    found = optimum(
        problem, checked, problem.value, box, constraints, near=near, tangent_solve=tangent_solve, native=native
    )
    x, arrays = found.x, problem.inputs.arrays
    out = so.OptimizeResult(x=x, fun=problem.value(x, arrays), jac=grad(lambda v: problem.value(v, arrays))(x))
    if constraints is not None:
        out["multipliers"] = found.multipliers
    out.update(fields(found.counts, problem.runs))
    return out


@solves(so.minimize_scalar)
def minimize_scalar(
    fun, bracket=None, bounds=None, args=(), method=None, tol=None, options=None, *, require_success=True,
    tangent_solve=None,
):  # fmt: skip
    """Minimize a function of a number, and differentiate where its minimum is and how low."""
    where = "scipy.optimize.minimize_scalar"
    scalar = lambda x, *rest: fun(x[0], *rest)
    start = np.array([_interior_point(bounds, bracket)])
    problem = Objective(where, scalar, start, args, None, None, None)
    inputs = problem.inputs
    box = bounds_of(inputs, None if bounds is None else [tuple(bounds)], 1)
    points = inputs.add(stop_gradient(list(bracket or ())))
    problem.leave()

    def search(_: Any, values: Sequence) -> tuple[Any, Any]:
        f = problem.plain(values)["fun"]
        ends = None if box.limits is None else [float(v[0]) for v in box.limits(values)]
        out = so.minimize_scalar(
            lambda x: f(np.reshape(np.asarray(x, float), (1,)))[()], points(values) or None, ends, (), method, tol,
            options,
        )  # fmt: skip
        return np.reshape(out.x, (1,)), out

    out = minimum(problem, search, box, None, require_success, tangent_solve, _NEAR["bounded"])
    out["x"] = out.x[0]
    del out["jac"]
    return out


def _interior_point(bounds: Any, bracket: Any) -> float:
    """Return a point at which the function is written down."""
    for v in (*(bounds if bounds is not None else ()), *(bracket or ())):
        if not isinstance(v, Tracer) and np.isfinite(v):
            return float(v)
    return 1.0


# ── global optimizers ────────────────────────────────────────────────────────────────────────────────────────────


def _global(original: Callable) -> Callable:
    name = original.__name__
    signature = inspect.signature(original)

    def solver(*given, require_success=True, tangent_solve=None, **named):
        where = f"scipy.optimize.{name}"
        given = arguments_of(signature, given, named)
        inner: dict[str, Any] = dict(given.get("minimizer_kwargs") or {})
        bounds = given.get("bounds", inner.get("bounds"))
        x0 = given.get("x0")
        if x0 is None:
            x0 = np.asarray(stop_gradient(middle_of(bounds)))
        args = given.get("args", inner.get("args", ()))
        problem = Objective(where, given["func"], x0, args, inner.get("jac"), inner.get("hess"), inner.get("hessp"))
        inputs = problem.inputs
        box = bounds_of(inputs, bounds, problem.start.size)
        held = constraints_of(inputs, given.get("constraints", inner.get("constraints")) or (), problem.start)
        problem.leave()
        if np.any(given.get("integrality")) or given.get("vectorized"):
            raise SciPys

        def search(x0: Any, values: Sequence) -> tuple[Any, Any]:
            functions = problem.plain(values)
            local: dict[str, Any] = {**inner, **{k: functions[k] for k in ("jac", "hess", "hessp") if k in inner}}
            whole: dict[str, Any] = dict(given, func=functions["fun"])
            changed = {
                "bounds": box.plain(values), "constraints": held.plain(values, problem) if held else (), "args": (),
                "x0": x0,
            }  # fmt: skip
            for key, value in changed.items():
                if given.get(key) is not None:
                    whole[key] = value
                elif key in inner:
                    local[key] = value
            if inner:
                whole["minimizer_kwargs"] = local
            out = original(**whole)
            return out.x, out

        return minimum(problem, search, box, held, require_success, tangent_solve, 1e-6)

    words = f"Search a region for a minimum as ``scipy.optimize.{name}`` does, and differentiate it as a local one."
    return solves(original, words)(solver)


def middle_of(bounds: Any) -> Any:
    """Return the point in the middle of a region."""
    if isinstance(bounds, so.Bounds):
        return 0.5 * (operand(bounds.lb) + operand(bounds.ub))
    return np.stack([0.5 * (operand(a) + operand(b)) for a, b in bounds])


basinhopping = _global(so.basinhopping)
differential_evolution = _global(so.differential_evolution)
dual_annealing = _global(so.dual_annealing)
shgo = _global(so.shgo)
