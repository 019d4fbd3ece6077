"""Bounds and constraints as SciPy takes them, with traced numbers in them: as functions of the operator's inputs.

For: ``Bounds`` and ``LinearConstraint``, which keep tensors where SciPy's make plain arrays, and what minimizers read
of all the ways to write one. Not for: which of them are active (``stationary.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize as so
import scipy.sparse as ss

from ...core.tracer import tracer_in
from ...errors import ArgumentError
from ...surface.arguments import operand
from ..closures import Closed, Inputs
from ..mirror import as_args
from .nonlinear import known_result
from .problem import SolverCall
from .stationary import Constraints, Limits, Part

__all__ = ["Bounds", "LinearConstraint", "bounds_of", "box_of", "constraints_of", "floating"]


class Bounds(so.Bounds):
    """Bounds lb ≤ x ≤ ub, as ``scipy.optimize.Bounds``; lb and ub may be traced.

    Parameters
    ----------
    lb, ub : array_like
        Lower and upper bounds, lists with tensors in them too.
    keep_feasible : bool or array of bool
        Whether a solver may step outside.

    Examples
    --------
    >>> from dualad.scipy import optimize
    >>> def nearest(edge):
    ...     box = optimize.Bounds([0.0, -np.inf], [edge, np.inf])
    ...     return optimize.minimize(lambda x: np.sum((x - 3.0) ** 2), np.zeros(2), bounds=box, jac="dualad").x
    >>> da.jacfwd(nearest)(1.0) + 0.0
    array([1., 0.])
    """

    def __init__(self, lb: Any = -np.inf, ub: Any = np.inf, keep_feasible: Any = False) -> None:
        if tracer_in(lb, ub) is None:
            super().__init__(lb, ub, keep_feasible)
            return
        self.lb, self.ub = np.atleast_1d(operand(lb)), np.atleast_1d(operand(ub))
        self.keep_feasible = np.atleast_1d(keep_feasible).astype(bool)


class LinearConstraint(so.LinearConstraint):
    """Constraints lb ≤ A x ≤ ub, as ``scipy.optimize.LinearConstraint``; A, lb and ub may be traced.

    Parameters
    ----------
    A : array_like, shape (m, n)
        The matrix.
    lb, ub : array_like
        The limits.
    keep_feasible : bool or array of bool
        Whether a solver may step outside.

    Examples
    --------
    >>> from dualad.scipy import optimize
    >>> def shortest(total):
    ...     held = optimize.LinearConstraint([[1.0, 1.0]], total, total)
    ...     return optimize.minimize(lambda x: np.sum(x**2), np.zeros(2), constraints=held, jac="dualad").x
    >>> da.jacfwd(shortest)(1.0).round(6)
    array([0.5, 0.5])
    """

    def __init__(self, A: Any, lb: Any = -np.inf, ub: Any = np.inf, keep_feasible: Any = False) -> None:
        if tracer_in(A, lb, ub) is None:
            super().__init__(A, lb, ub, keep_feasible)
            return
        self.A = A if ss.issparse(A) else np.atleast_2d(operand(A))
        self.lb, self.ub = np.atleast_1d(operand(lb)), np.atleast_1d(operand(ub))
        self.keep_feasible = np.atleast_1d(keep_feasible).astype(bool)


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────────────────────


def box_of(bounds: Any) -> so.Bounds:
    """Return bounds that are SciPy's object or a pair of arrays as an object."""
    return bounds if isinstance(bounds, so.Bounds) else Bounds(*bounds)


def bounds_of(inputs: Inputs, bounds: Any, n: int) -> Limits:
    """Read bounds in any of SciPy's ways: an object, pairs with ``None`` for none, or nothing at all."""
    if bounds is None:
        return Limits()
    if isinstance(bounds, so.Bounds):
        low, high, keep = bounds.lb, bounds.ub, bounds.keep_feasible
    else:
        pairs = list(bounds)
        if len(pairs) != n:
            raise ArgumentError(
                f"{inputs.where}: {len(pairs)} bounds for {n} variables.", "each variable has two bounds",
                "pass a pair (low, high) for each, with None where there is none",
            )  # fmt: skip
        low = [-np.inf if a is None else a for a, _ in pairs]
        high = [np.inf if b is None else b for _, b in pairs]
        keep = False
    fill = inputs.add((floating(low), floating(high)))

    def limits(values: Sequence) -> tuple[Any, Any]:
        a, b = fill(values)
        return np.broadcast_to(a, (n,)), np.broadcast_to(b, (n,))

    return Limits(limits, lambda values: so.Bounds(*limits(values), keep))


def floating(x: Any) -> Any:
    """Return an array in floating point."""
    x = operand(x)
    x = x if hasattr(x, "astype") else np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(float)


# ── constraints ──────────────────────────────────────────────────────────────────────────────────────────────────


def constraints_of(inputs: Inputs, constraints: Any, start: Any) -> Constraints | None:
    """Read constraints in any of SciPy's ways: an object or a dictionary, or several of them, or none."""
    if isinstance(constraints, (dict, so.LinearConstraint, so.NonlinearConstraint)):
        constraints = [constraints]
    parts = [_one(inputs, c, start) for c in constraints]
    if not parts:
        return None

    def value(x: Any, values: Sequence) -> Any:
        return np.concatenate([p.value(x, values) for p in parts])

    def limits(values: Sequence) -> tuple[Any, Any]:
        pairs = [p.limits(values) for p in parts]
        low = [np.broadcast_to(a, (p.size,)) for (a, _), p in zip(pairs, parts, strict=True)]
        high = [np.broadcast_to(b, (p.size,)) for (_, b), p in zip(pairs, parts, strict=True)]
        return np.concatenate(low), np.concatenate(high)

    plain = lambda values, call: [p.plain(values, call) for p in parts]
    apart = lambda values: [x for p in parts for x in p.apart(values)]
    return Constraints(sum([p.size for p in parts]), value, limits, plain, apart)


def _one(inputs: Inputs, c: Any, start: Any) -> Constraints:
    if isinstance(c, dict):
        return _of_dict(inputs, c, start)
    if isinstance(c, so.LinearConstraint):
        A = c.A if ss.issparse(c.A) else floating(c.A)
        fill = inputs.add((A, floating(c.lb), floating(c.ub)))

        def linear(values: Sequence, call: SolverCall) -> so.LinearConstraint:
            matrix, low, high = fill(values)
            return so.LinearConstraint(matrix.toarray() if ss.issparse(matrix) else matrix, low, high, c.keep_feasible)

        times, size = lambda x, values: fill(values)[0] @ x, np.shape(A)[0]
        apart = lambda values: [Part(size, None, fill(values)[0])]
        return Constraints(size, times, lambda values: fill(values)[1:], linear, apart)
    if not isinstance(c, so.NonlinearConstraint):
        raise ArgumentError(
            f"{inputs.where}: a constraint of type {type(c).__name__}.", "it is none of the ways to write one",
            "use LinearConstraint, NonlinearConstraint, or a dictionary with type and fun",
        )  # fmt: skip
    closed, value, size = _function(inputs, c.fun, start, ())
    fill = inputs.add((floating(c.lb), floating(c.ub)))
    own = inputs.close(c.jac, [start], (), "jac") if callable(c.jac) else None
    multipliers = np.zeros(size)
    curved = callable(c.hess) and not isinstance(c.hess, so.HessianUpdateStrategy)
    hess = inputs.close(c.hess, [start, multipliers], (), "hess") if curved else None

    def plain(values: Sequence, call: SolverCall) -> so.NonlinearConstraint:
        at = lambda x: value(x, values)
        curvature = lambda x, v: np.sum(v * at(x))
        jac = call.derivative(c.jac, own, values, lambda: call.jacobian_of(at))
        second = call.derivative(c.hess, hess, values, lambda: call.hessian_of(curvature))
        return so.NonlinearConstraint(
            call.guard(lambda x: closed(values, x)), *fill(values), jac, second, c.keep_feasible,
            c.finite_diff_rel_step, c.finite_diff_jac_sparsity,
        )  # fmt: skip

    apart = lambda values: [Part(size, *closed.apart(values), jac=_filled(own, values), hess=_filled(hess, values))]
    return Constraints(size, value, fill, plain, apart)


def _of_dict(inputs: Inputs, c: dict, start: Any) -> Constraints:
    args = as_args(c.get("args", ()))
    closed, value, size = _function(inputs, c["fun"], start, args)
    own = inputs.close(c["jac"], [start], args, "jac") if callable(c.get("jac")) else None
    high = 0.0 if str(c.get("type", "")).lower() == "eq" else np.inf

    def plain(values: Sequence, call: SolverCall) -> dict:
        out = {**c, "fun": call.guard(lambda x: closed(values, x)), "args": ()}
        if "jac" in c:
            out["jac"] = call.derivative(c["jac"], own, values, lambda: call.jacobian_of(lambda x: value(x, values)))
        return out

    apart = lambda values: [Part(size, *closed.apart(values), jac=_filled(own, values))]
    return Constraints(size, value, lambda values: (0.0, high), plain, apart)


def _filled(f: Closed | None, values: Sequence) -> Callable | None:
    return None if f is None else lambda *x: f(values, *x)


def _function(inputs: Inputs, f: Callable, start: Any, args: tuple) -> tuple[Any, Callable, int]:
    closed = inputs.close(f, [start], args, result=lambda: known_result(f, start, args))
    value = lambda x, values: np.reshape(operand(closed(values, x)), (-1,))
    size = closed.avals[0].size if closed.avals is not None else np.size(operand(closed(inputs.arrays, start)))
    return closed, value, size
