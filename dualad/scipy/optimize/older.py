"""SciPy's older minimizers, which return x alone: ``fmin`` and its kin, ``brute``, ``direct``, ``golden``.

How an optimum was found does not matter to its derivative. Not for: those that return counts or take constraints
(``fmin_l_bfgs_b``, ``fmin_slsqp``, ...), in place of which ``minimize`` has the methods.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize as so

from ...errors import UnsupportedError
from ...jvp import stop_gradient
from .constraints import bounds_of
from .minimize import Objective, middle_of, minimum
from .problem import arguments_of, solves

__all__ = [
    "brent", "brute", "direct", "fmin", "fmin_bfgs", "fmin_cg", "fmin_ncg", "fmin_powell", "fminbound", "golden",
]  # fmt: skip

#: what an argument is of the functions' below -> of which derivative
_DERIVATIVES = {"fprime": "jac", "fhess": "hess", "fhess_p": "hessp"}
#: how near these come to a bound that is active
_NEAR = 1e-4


def _older(original: Callable, instead: str) -> Callable:
    name = original.__name__
    signature = inspect.signature(original)
    first = next(iter(signature.parameters))
    scalar = "x0" not in signature.parameters and name not in ("brute", "direct")

    def solver(*given: Any, require_success: bool = True, tangent_solve: Any = None, **named: Any) -> Any:
        where = f"scipy.optimize.{name}"
        call = arguments_of(signature, given, named)
        f = call[first]
        start = np.ones(1) if scalar else _start(call)
        derivatives = [call.get(key) for key in _DERIVATIVES]
        fun = (lambda x, *rest: f(x[0], *rest)) if scalar else f
        problem = Objective(where, fun, stop_gradient(start), call.get("args", ()), *derivatives)
        inputs = problem.inputs
        box = bounds_of(inputs, call["bounds"] if name == "direct" else None, problem.start.size)
        ends = {k: call[k] for k in ("brack", "x1", "x2", "ranges") if call.get(k) is not None}
        fixed = inputs.add(stop_gradient(ends))
        problem.leave()
        for asked in ("full_output", "retall"):
            if call.get(asked):
                raise UnsupportedError(
                    f"{where}: {asked} was asked for with traced values.",
                    "what it says is about one run, and there may be several, or none yet",
                    f"use dualad.scipy.optimize.{instead}, whose result has what there is",
                )
        if name == "brute" and call.get("finish", so.fmin) is None:
            raise UnsupportedError(
                f"{where}: finish=None with traced values.",
                "the best point of a grid stays where it is while the minimum moves: its derivative is zero, or none",
                "let it finish (scipy.optimize.fmin, by default)",
            )

        def search(x0: Any, values: Sequence) -> tuple[Any, Any]:
            plain = problem.plain(values)
            at = plain["fun"]
            whole = {**call, **fixed(values), first: (lambda x: at(np.reshape(x, (1,)))[()]) if scalar else at}
            changed = {"args": (), "x0": x0, "bounds": box.plain(values)}
            changed |= {key: plain[kind] for key, kind in _DERIVATIVES.items()}
            whole |= {key: value for key, value in changed.items() if key in call}
            out = original(**whole)
            if name == "direct":
                return out.x, out
            return np.reshape(out, problem.start.shape), so.OptimizeResult(success=True)

        strict = require_success and name != "direct"  # which ends when it has no more calls left
        out = minimum(problem, search, box, None, strict, tangent_solve, _NEAR)
        if name == "direct":
            return out
        return out.x[0] if scalar else out.x

    words = f"Search for a minimum as ``scipy.optimize.{name}`` does, and differentiate where it is."
    return solves(original, words)(solver)


def _start(call: dict[str, Any]) -> Any:
    """Return the point to start from, or the middle of where is searched."""
    return call["x0"] if "x0" in call else middle_of(_ranges(call.get("bounds", call.get("ranges"))))


def _ranges(bounds: Any) -> Any:
    """Return bounds as an object or as pairs; the slices of ``brute`` are that, too."""
    if isinstance(bounds, so.Bounds):
        return bounds
    return [(r.start, r.stop) if isinstance(r, slice) else tuple(r) for r in bounds]


_METHOD = "minimize(..., method={!r})"
fmin = _older(so.fmin, _METHOD.format("Nelder-Mead"))
fmin_powell = _older(so.fmin_powell, _METHOD.format("Powell"))
fmin_cg = _older(so.fmin_cg, _METHOD.format("CG"))
fmin_bfgs = _older(so.fmin_bfgs, _METHOD.format("BFGS"))
fmin_ncg = _older(so.fmin_ncg, _METHOD.format("Newton-CG"))
fminbound = _older(so.fminbound, "minimize_scalar(..., method='bounded')")
brent = _older(so.brent, "minimize_scalar(..., method='brent')")
golden = _older(so.golden, "minimize_scalar(..., method='golden')")
brute = _older(so.brute, "differential_evolution")
direct = _older(so.direct, "differential_evolution")
