"""One equation in one unknown: ``root_scalar``, ``newton``, and the solvers of a bracket.

    f(x, θ) = 0:   ẋ = −(∂_θf · θ̇) / ∂ₓf

Ends of a bracket and starting points have no influence on the answer, so it has no derivative in them. ``newton`` of an
array solves one equation for each of its entries. Not for: minima (``minimize.py``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize as so

from ...core.tracer import Tracer
from ...errors import SingularMatrixError
from ...jvp import jvp, stop_gradient
from ...surface.arguments import operand
from ..mirror import as_args
from .problem import INACCURATE, Condition, SciPys, arguments_of, convergence_error, fields, regular, solves
from .roots import System

__all__ = ["Entrywise", "bisect", "brenth", "brentq", "newton", "ridder", "root_scalar", "toms748"]


class Entrywise(Condition):
    """Equations of which each has one unknown: the Jacobian is its diagonal."""

    __slots__ = ()

    def dense(self, residuals: Sequence, b):
        """Divide by the diagonal, once that is found to be good."""
        unknown = self.unknown
        ones = [np.ones(a.shape, a.dtype)[()] for a in unknown.avals]
        slope = unknown.vector(self.product(residuals, ones))
        at = [stop_gradient(r) for r in residuals]
        here = stop_gradient(slope)
        x = unknown.vector(at[:1])
        step = -self.flat(x, *at[1:]) / np.where(here == 0, 1.0, here)
        moved = unknown.leaves(x + step)
        further = unknown.vector(self.product([*moved, *at[1:]], ones))
        return b / regular(slope, step, further, call=self)

    large = dense

    def check(self, J: np.ndarray, *evidence: np.ndarray) -> None:
        """Raise if a slope is zero, or another one a Newton step further."""
        step, further = evidence
        flat = ~np.isfinite(J) | (J == 0)
        bad = flat | (~(np.abs(further - J) <= INACCURATE * np.abs(J)) & (step != 0))
        if not bad.any():
            return
        i = int(np.argmax(bad))
        which = "" if len(J) == 1 else f" of equation {i}"
        raise SingularMatrixError(
            f"{self.unknown.where}: the slope ∂f/∂x{which} at the root is {J[i]:.3g}"
            + ("." if flat[i] else f", and {further[i]:.3g} after the Newton step of {step[i]:.2g} that is left."),
            "where the function only touches zero, or is flat, an infinitely small change moves the root infinitely"
            " fast; or the tolerance is too coarse for a derivative",
            "move the parameters off the multiple root, or solve to a smaller tolerance",
        )


class _Scalar(System):
    """One equation: a function of a number that returns a number."""

    def __init__(self, where: str, f: Callable, x0: Any, args: Any, tangent_solve: Any) -> None:
        super().__init__(where, f, x0, args, tangent_solve, equation=Entrywise)

    def own(self, given: Any, inputs: Sequence, closed: Any, second: bool = False) -> Any:
        """Return a derivative for SciPy: dualad's, the user's, or what else was given."""
        slope_of = lambda f: lambda x, *_: jvp(f, (x,), (np.ones_like(x)[()],))[1]
        slope = slope_of(lambda x: self.residual(x, inputs))
        return self.derivative(given, closed, inputs, lambda: slope_of(slope) if second else slope)


# ── brackets ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _with_bracket(original: Callable) -> Callable:
    name, signature = original.__name__, inspect.signature(original)

    def solver(*given, require_success=True, tangent_solve=None, **named):
        where = f"scipy.optimize.{name}"
        call = arguments_of(signature, given, named)
        f, a, b, args = call.pop("f"), call.pop("a"), call.pop("b"), call.pop("args", ())
        full_output, _ = call.pop("full_output", False), call.pop("disp", True)
        system = _Scalar(where, f, a, args, tangent_solve)
        if not isinstance(b, Tracer):
            system.leave()
        end = system.inputs.add(stop_gradient(b))

        def search(x0: Any, inputs: Sequence) -> tuple[Any, Any]:
            ends = float(x0), float(end(inputs))
            x, out = system.run_raising(
                lambda: original(system.plain(inputs), *ends, full_output=True, disp=require_success, **call)
            )
            return x, _as_result(out)

        x, numbers = system.solve(search, require_success)
        return (x, _results(x, numbers, system, name)) if full_output else x

    words = f"Find a root between two points as ``scipy.optimize.{name}`` does, and differentiate it."
    return solves(original, words)(solver)


def _as_result(out: so.RootResults) -> so.OptimizeResult:
    return so.OptimizeResult(
        success=bool(out.converged), nfev=out.function_calls, nit=out.iterations, message=out.flag
    )  # fmt: skip


def _results(x: Any, numbers: Any, system: System, method: str) -> so.RootResults:
    said = fields(numbers, system.runs)
    out = so.RootResults(x, said.get("nit"), said.get("nfev"), 0, method)
    out.converged, out.flag = said["success"], said["message"]
    return out


bisect = _with_bracket(so.bisect)
brenth = _with_bracket(so.brenth)
brentq = _with_bracket(so.brentq)
ridder = _with_bracket(so.ridder)
toms748 = _with_bracket(so.toms748)


# ── Newton's and Halley's methods, and the one that chooses ──────────────────────────────────────────────────────


@solves(so.newton)
def newton(
    func, x0, fprime=None, args=(), tol=1.48e-08, maxiter=50, fprime2=None, x1=None, rtol=0.0, full_output=False,
    disp=True, *, require_success=True, tangent_solve=None,
):  # fmt: skip
    """Find a root, or one for each entry of an array, and differentiate it; ``fprime="dualad"`` is the exact slope."""
    where = "scipy.optimize.newton"
    system = _Scalar(where, func, x0, args, tangent_solve)
    first, second = system.close_given(fprime, args, "fprime"), system.close_given(fprime2, args, "fprime2")
    system.leave(fprime, fprime2)
    other = system.inputs.add(operand(stop_gradient(x1))) if x1 is not None else lambda inputs: None

    def call(x0: Any, inputs: Sequence, full: bool, strict: bool) -> Any:
        return so.newton(
            system.plain(inputs), x0, system.own(fprime, inputs, first), (), tol, maxiter,
            system.own(fprime2, inputs, second, second=True), other(inputs), rtol, full, strict,
        )  # fmt: skip

    if not system.depends:
        return system.run(call, system.start, [], full_output, disp)

    def search(x0: Any, inputs: Sequence) -> tuple[Any, Any]:
        found = system.run_raising(lambda: call(x0, inputs, True, require_success))
        if np.ndim(x0) == 0:
            return found[0], _as_result(found[1])
        x, ended, _ = found
        if require_success and not ended.all():
            raise convergence_error(where, f"{int((~ended).sum())} of {ended.size} entries have not converged.")
        return x, so.OptimizeResult(success=bool(ended.all()), message="")

    x, numbers = system.solve(search, require_success)
    if not full_output:
        return x
    if np.ndim(x) == 0:
        return x, _results(x, numbers, system, "newton")
    ended = np.broadcast_to(fields(numbers, system.runs)["success"], np.shape(x))
    return x, ended, ~ended


@solves(so.root_scalar)
def root_scalar(
    f, args=(), method=None, bracket=None, fprime=None, fprime2=None, x0=None, x1=None, xtol=None, rtol=None,
    maxiter=None, options=None, *, require_success=True, tangent_solve=None,
):  # fmt: skip
    """Find a root of a function of one number, and differentiate it; ``fprime="dualad"`` is the exact slope."""
    where = "scipy.optimize.root_scalar"
    value = f if fprime is not True and fprime2 is not True else lambda *a: f(*a)[0]
    start = bracket[0] if bracket is not None else x0
    if start is None:
        raise SciPys  # whose error names the missing argument
    system = _Scalar(where, value, start, args, tangent_solve)
    first, second = system.close_given(fprime, args, "fprime"), system.close_given(fprime2, args, "fprime2")
    several = system.inputs.close(f, [system.start], as_args(args)) if value is not f else None
    rest = system.inputs.add(stop_gradient([*(bracket or ()), x0, x1]))
    system.leave(fprime, fprime2)

    def search(_: Any, inputs: Sequence) -> tuple[Any, Any]:
        *ends, a, b = rest(inputs)
        g = system.plain(inputs) if several is None else system.guard(lambda x, *_: several(inputs, x))
        out = so.root_scalar(
            g, (), method, [float(v) for v in ends] or None, system.own(fprime, inputs, first),
            system.own(fprime2, inputs, second, second=True), a, b, xtol, rtol, maxiter, options,
        )  # fmt: skip
        return out.root, out

    if not system.depends:
        return system.run(search, None, [])[1]

    def checked(start: Any, inputs: Sequence) -> tuple[Any, Any]:
        x, out = search(start, inputs)
        if require_success and not out.converged:
            raise convergence_error(where, f"{out.flag} after {out.iterations} iterations.")
        method_used[0] = out.method
        return x, _as_result(out)

    method_used = [method or "unknown"]
    x, numbers = system.solve(checked, require_success)
    return _results(x, numbers, system, method_used[0])
