"""Least squares: ``least_squares`` with its loss functions and bounds, ``leastsq``, and ``curve_fit`` with covariances.

The tangents' matrix is the exact Hessian of the cost, JᵀJ + Σ r ∇²r with the loss in it, not the one of Gauss and
Newton that SciPy searches with. Not for: residuals that are linear in x (``linear.py``).
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize as so

from ...control.factored_solve import LU
from ...core.above import ABOVE
from ...core.tracer import Tracer
from ...errors import UnsupportedError
from ...jacobians.jacobian import jacfwd, jacobian
from ...jvp import jvp, stop_gradient
from ...surface.arguments import inexact_operand, operand
from ...vjp_via_transpose import grad
from ..linalg import solve_triangular
from ..mirror import as_args, is_own
from .constraints import bounds_of, box_of
from .native import is_wanted
from .problem import DENSE, SINGULAR, SolverCall, arguments_of, fields, is_jitted, solves, start_of
from .stationary import Limits, Native, Optimum, optimum, values_in

__all__ = ["curve_fit", "least_squares", "leastsq"]


def _huber(z: Any) -> Any:
    return np.where(z <= 1, z, 2 * np.sqrt(np.where(z > 1, z, 1.0)) - 1)


_LOSSES: dict[str, Callable] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": _huber,
    "cauchy": np.log1p,
    "arctan": np.arctan,
}


class _Fit(SolverCall):
    """Residuals with their traced inputs: what every function here makes of its arguments."""

    def __init__(self, where: str, f: Callable, x0: Any, args: Any, jac: Any, name: str = "jac") -> None:
        super().__init__(where, np.reshape(start_of(x0), (-1,)))
        self.jac, self.is_jitted = jac, is_jitted(f)
        self.f = self.inputs.close(f, [self.start], as_args(args))
        self.own_jac = self.close_given(jac, args, name)
        self.loss, self.f_scale = _LOSSES["linear"], self.inputs.add(1.0)
        self.box = Limits()

    def residual(self, x: Any, inputs: Sequence) -> Any:
        """Return the residuals at x as one vector."""
        return np.reshape(operand(self.f(inputs, x)), (-1,))

    def cost(self, x: Any, inputs: Sequence) -> Any:
        """Return half the sum of squares, with the loss in it."""
        scale = self.f_scale(inputs)
        return 0.5 * scale**2 * np.sum(self.loss((self.residual(x, inputs) / scale) ** 2))

    def jacobian_at(self, x: Any, inputs: Sequence) -> Any:
        """Return the Jacobian, weighted as SciPy weighs it where there is a loss."""
        J = jacfwd(lambda v: self.residual(v, inputs))(x)
        if self.loss is _LOSSES["linear"]:
            return J
        z = (self.residual(x, inputs) / self.f_scale(inputs)) ** 2
        one = np.ones(np.shape(z))
        slope = lambda v: jvp(self.loss, (v,), (one,))[1]
        first, second = jvp(slope, (z,), (one,))
        return J * np.sqrt(np.maximum(first + 2 * second * z, np.finfo(float).eps))[:, None]

    def plain(self, inputs: Sequence) -> tuple[Callable, Any]:
        """Return residuals and Jacobian of plain x alone, for SciPy."""
        f = lambda x, *_: self.residual(x, inputs)
        make = ABOVE.sparse_jacobian if self.start.size > DENSE else jacobian
        return self.guard(f), self.derivative(self.jac, self.own_jac, inputs, lambda: make(f))

    def solve(self, search: Callable, require: bool, tangent_solve: Any, is_native: bool = False) -> Optimum:
        """Apply the operator: ``search(x0, inputs)`` returns x and a result of SciPy's."""
        run = lambda x0, inputs: self.run_checked(search, x0, inputs, require)
        native = Native(require and self.depends, None, self._normal) if is_native else None
        return optimum(self, run, self.cost, self.box, minimal=True, tangent_solve=tangent_solve, native=native)

    def _normal(self, x: Any, inputs: Sequence) -> Any:
        J = self.jacobian_at(x, inputs)
        return J.T @ J

    def covariance(self, x: Any) -> Any:
        """Return (JᵀJ)⁻¹, or ``None`` if that does not exist."""
        J = self.jacobian_at(x, self.inputs.arrays)
        normal = J.T @ J
        known = values_in(normal)
        if known is not None and any([LU(m).condition > SINGULAR for m in known.reshape((-1, *normal.shape))]):
            return None
        return np.linalg.inv(normal)


_LEAST = inspect.signature(so.least_squares)


@solves(so.least_squares)
def least_squares(*given, require_success=True, tangent_solve=None, solver="auto", **named):
    """Minimize a sum of squares, and differentiate where its minimum is; ``jac="dualad"`` is the exact Jacobian.

    ``solver`` is as for :func:`minimize`.
    """
    where = "scipy.optimize.least_squares"
    call = arguments_of(_LEAST, given, named)
    jac, extra, loss = call.get("jac", "2-point"), call.get("kwargs") or {}, call.get("loss", "linear")
    with_extra = lambda f: (lambda *a: f(*a, **extra)) if extra and callable(f) else f
    fit = _Fit(where, with_extra(call["fun"]), call["x0"], call.get("args", ()), with_extra(jac))
    if "bounds" in call:
        fit.box = bounds_of(fit.inputs, box_of(call["bounds"]), fit.start.size)
    fit.f_scale = fit.inputs.add(operand(call.get("f_scale", 1.0)))
    fit.loss = _LOSSES.get(loss, fit.loss) if isinstance(loss, str) else lambda z: loss(z)[0]
    is_native = is_wanted(fit, solver, call.get("callback") is None)
    if not is_native:
        fit.leave(jac)

    def search(x0: Any, inputs: Sequence) -> tuple[Any, Any]:
        f, derivative = fit.plain(inputs)
        changed = {"fun": f, "x0": x0, "jac": derivative, "args": (), "kwargs": {}}
        if fit.box.limits is not None:
            changed["bounds"] = fit.box.plain(inputs)
        if "f_scale" in call:
            changed["f_scale"] = fit.f_scale(inputs)
        out = so.least_squares(**{**call, **changed})
        return out.x, out

    if not fit.depends and not is_native:
        return fit.run(search, fit.start, [])[1]
    found = fit.solve(search, require_success, tangent_solve, is_native)
    x, arrays = found.x, fit.inputs.arrays
    out = so.OptimizeResult(x=x, cost=fit.cost(x, arrays), fun=fit.residual(x, arrays))
    if fit.start.size <= DENSE:
        out["jac"] = fit.jacobian_at(x, arrays)
    out["grad"] = grad(lambda v: fit.cost(v, arrays))(x)
    out["active_mask"] = found.sides
    out.update(fields(found.counts, fit.runs))
    return out


@solves(so.leastsq)
def leastsq(
    func, x0, args=(), Dfun=None, full_output=False, col_deriv=False, ftol=1.49012e-8, xtol=1.49012e-8, gtol=0.0,
    maxfev=0, epsfcn=None, factor=100, diag=None, *, require_success=True, tangent_solve=None,
):  # fmt: skip
    """Minimize a sum of squares, and differentiate where its minimum is; ``Dfun="dualad"`` is the exact Jacobian."""
    where = "scipy.optimize.leastsq"
    fit = _Fit(where, func, x0, args, Dfun, "Dfun")
    fit.leave(Dfun)

    def call(x0: Any, inputs: Sequence, full: bool) -> Any:
        f, derivative = fit.plain(inputs)
        if is_own(Dfun) and col_deriv:
            exact = derivative
            derivative = lambda x: exact(x).T
        return so.leastsq(
            f, x0, (), derivative, full, col_deriv, ftol, xtol, gtol, maxfev, epsfcn, factor, diag
        )  # fmt: skip

    if not fit.depends:
        return fit.run(call, fit.start, [], full_output)

    def search(x0: Any, inputs: Sequence) -> tuple[Any, Any]:
        x, _, info, message, flag = call(x0, inputs, True)
        return x, so.OptimizeResult(success=flag in (1, 2, 3, 4), status=flag, message=message, nfev=info["nfev"])

    found = fit.solve(search, require_success, tangent_solve)
    said = fields(found.counts, fit.runs)
    if not full_output:
        return found.x, said["status"]
    info = {"nfev": said["nfev"], "fvec": fit.residual(found.x, fit.inputs.arrays)}
    return found.x, fit.covariance(found.x), info, said["message"], said["status"]


# ── curves ───────────────────────────────────────────────────────────────────────────────────────────────────────


@solves(so.curve_fit)
def curve_fit(
    f, xdata, ydata, p0=None, sigma=None, absolute_sigma=False, check_finite=None, bounds=(-np.inf, np.inf),
    method=None, jac=None, *, full_output=False, nan_policy=None, require_success=True, tangent_solve=None,
    solver="auto", **kwargs,
):  # fmt: skip
    """Fit a curve to data, and differentiate parameters and covariances in the data and in what the curve depends on.

    ``jac="dualad"`` is the exact Jacobian; ``solver`` is as for :func:`minimize`.
    """
    where = "scipy.optimize.curve_fit"
    data = inexact_operand(xdata) if isinstance(xdata, (list, tuple, np.ndarray, Tracer)) else xdata
    y = np.reshape(inexact_operand(ydata), (-1,))
    weights = None if sigma is None else inexact_operand(sigma)
    start = _first_guess(f, p0, bounds)

    def residual(p: Any, x: Any, y: Any, weights: Any) -> Any:
        r = np.reshape(operand(f(x, *p)), (-1,)) - y
        if weights is None:
            return r
        if np.ndim(weights) == 2:
            return solve_triangular(np.linalg.cholesky(weights), r, lower=True)
        return r / weights

    fit = _Fit(where, residual, start, (data, y, weights), None)
    model = fit.inputs.close(lambda p, x: f(x, *p), [fit.start], (data,))
    own = fit.inputs.close(lambda p, x: jac(x, *p), [fit.start], (data,), "jac") if callable(jac) else None
    given, errors = fit.inputs.add(y), fit.inputs.add(weights)
    bounded = not (isinstance(bounds, tuple) and all([np.ndim(b) == 0 and np.isinf(stop_gradient(b)) for b in bounds]))
    if bounded:
        fit.box = bounds_of(fit.inputs, box_of(bounds), fit.start.size)
    is_native = is_wanted(fit, solver, "callback" not in kwargs)
    if not is_native:
        fit.leave(jac)
    if nan_policy not in (None, "raise"):
        raise UnsupportedError(
            f"{where}: nan_policy={nan_policy!r} with traced values.", "which data count would depend on values",
            "leave out missing data before the call",
        )  # fmt: skip

    def call(x0: Any, inputs: Sequence, full: bool) -> Any:
        derivative = jac
        if own is not None:
            derivative = fit.guard(lambda x, *p: own(inputs, np.array(p)))
        elif is_own(jac):
            exact = jacobian(lambda p: np.reshape(operand(model(inputs, p)), (-1,)))
            derivative = fit.guard(lambda x, *p: exact(np.array(p)))
        curve = fit.guard(lambda x, *p: np.reshape(operand(model(inputs, np.array(p))), (-1,)))
        limits = {"bounds": fit.box.plain(inputs)} if fit.box.limits is not None else {}
        return so.curve_fit(
            curve, None, given(inputs), x0, errors(inputs), absolute_sigma, check_finite, method=method,
            jac=derivative, full_output=full, nan_policy=nan_policy, **limits, **kwargs,
        )  # fmt: skip

    if not fit.depends and not is_native:
        return fit.run(call, fit.start, [], full_output)

    def search(x0: Any, inputs: Sequence) -> tuple[Any, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", so.OptimizeWarning)  # of the covariance, which is not used
            p, _, info, message, flag = fit.run_raising(
                lambda: call(x0, inputs, True),
                instead='start nearer (p0), or give exact derivatives (jac="dualad") or more evaluations (maxfev)',
            )
        return p, so.OptimizeResult(success=True, status=flag, message=message, nfev=info["nfev"])

    found = fit.solve(search, require_success, tangent_solve, is_native)
    p = found.x
    cov = fit.covariance(p)
    count, n = np.size(y), fit.start.size
    if cov is None or (not absolute_sigma and count <= n):
        warnings.warn("Covariance of the parameters could not be estimated", so.OptimizeWarning, stacklevel=3)
        cov = np.full((n, n), np.inf)
    elif not absolute_sigma:
        cov = cov * (2 * fit.cost(p, fit.inputs.arrays) / (count - n))
    if not full_output:
        return p, cov
    said = fields(found.counts, fit.runs)
    return p, cov, {"nfev": said["nfev"], "fvec": fit.residual(p, fit.inputs.arrays)}, said["message"], said["status"]


def _first_guess(f: Callable, p0: Any, bounds: Any) -> Any:
    """Return where the search begins, as SciPy chooses it."""
    if p0 is not None:
        return np.reshape(start_of(p0), (-1,))
    count = len(inspect.getfullargspec(f).args)
    n = count - (2 if inspect.ismethod(f) else 1)
    pair = (bounds.lb, bounds.ub) if isinstance(bounds, so.Bounds) else bounds
    low, high = [np.broadcast_to(stop_gradient(operand(b)), (n,)) for b in pair]
    below, above = np.isfinite(low), np.isfinite(high)
    low, high = np.where(below, low, 0.0), np.where(above, high, 0.0)
    return np.where(below & above, 0.5 * (low + high), np.where(below, low + 1, np.where(above, high - 1, 1.0)))
