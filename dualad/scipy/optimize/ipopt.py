"""Ipopt, and solvers that are called as it is: what they call back, filled with compiled and sparse derivatives.

The gradient of the objective f, the Jacobian of the constraints c and the lower triangle of the Hessian of

    σ f(x) + Σ μᵢ cᵢ(x)

fill a structure that the solver asks for first (``nonlinear.py``). The solver's multipliers μ are those of f + μᵀc;
ours, as everywhere here, those of f − λᵀc: λ = −μ. Not for: what constraints are written as (``constraints.py``), or
derivatives of the answer (``stationary.py``).
"""

from __future__ import annotations

import importlib
import inspect
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.optimize as so

from ...errors import ArgumentError, SparsityError
from .ipopt_in_c import InC, library_of
from .nonlinear import Curvature, Rows, model_of
from .problem import SolverCall, unguarded
from .stationary import Constraints, Limits, Part

__all__ = ["SOLVERS", "solve_by"]

#: method -> the module that is called, and the extra that installs it
SOLVERS = {"ipopt": ("cyipopt", "dualad[ipopt]"), "pounce": ("pounce", "dualad[pounce]")}
#: statuses of an answer: within the tolerance, or within the acceptable one
_SOLVED = (0, 1)
#: the status of a search that has met a NaN where it can't step back
_INVALID = -13
#: SciPy's names of options
_NAMES = {"maxiter": "max_iter", "disp": "print_level"}
#: what lets a search go on where another ended, if nothing else was chosen
_WARM = {
    "warm_start_init_point": "yes", "mu_init": 1e-6, "warm_start_bound_push": 1e-9, "warm_start_bound_frac": 1e-9,
    "warm_start_slack_bound_push": 1e-9, "warm_start_slack_bound_frac": 1e-9, "warm_start_mult_bound_push": 1e-9,
}  # fmt: skip


class _Callbacks(SimpleNamespace):
    """The functions that a solver calls, under its names, with a record of its progress."""

    def __init__(self, call: SolverCall, callback: Callable | None) -> None:
        super().__init__()
        self._call, self._callback = call, callback
        #: the number of calls of each function, and of iterations
        self.counts: Counter[str] = Counter()
        #: the point of the last gradient, which solvers ask for where they have arrived
        self.x: Any = None
        #: whether the search is to end at the next iterate, and whether a function was left for that
        self.stopped = self.broken = False
        #: what ended the search, which solvers may take for a number
        self.error: Exception | None = None
        self.current: Callable[[], dict | None] = lambda: None

    def add(self, name: str, f: Callable, bad: Any) -> None:
        """Let the solver call a function, with an array of its own at each call.

        ``bad`` is its value where it can't be computed, from which the solver steps back, and after an error.
        """
        f, counts, is_slope = self._call.counted(f), self.counts, name == "gradient"

        def function(x: np.ndarray, *more: Any) -> Any:  # one frame: a call may take a microsecond
            try:
                if self.error is not None:
                    return bad
                counts[name] += 1
                if is_slope:
                    self.x = x
                return f(x, *more)
            except (ArithmeticError, np.linalg.LinAlgError):
                return bad
            except KeyboardInterrupt:
                self.stopped = self.broken = True
                return bad
            except Exception as error:
                self._call.note(error)
                self.stopped, self.error = True, error
                return bad

        setattr(self, name, function)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let an interrupt stop the search; a second one, that of a function which takes long, is Python's.

        Python would raise it between the solver and the first line of a function, where none can catch it.
        """
        default = signal.default_int_handler
        if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) is not default:
            yield
            return

        def pressed(*given: Any) -> None:
            if self.stopped:
                default(*given)
            self.stopped = True

        signal.signal(signal.SIGINT, pressed)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, default)

    def fill(self, name: str, matrix: Curvature | Rows, entries: Callable, is_fixed: bool) -> None:
        """Let the solver fill a sparse matrix, whose structure may change if it is not fixed."""

        def values(x: np.ndarray, *more: Any) -> Any:
            found = entries(x, *more)
            if len(found) != len(matrix.rows):
                raise SparsityError(
                    f"{self._call.where}: the structure of the {name} has changed from one point to another.",
                    "the solver is told at the start which entries there are, and the function takes another branch",
                    "write the branch as np.where, whose two sides are both seen",
                )
            return found

        setattr(self, f"{name}structure", lambda: (matrix.rows, matrix.columns))
        self.add(name, entries if is_fixed else values, np.full(len(matrix.rows), np.nan))

    def intermediate(self, mode: int, iteration: int, value: float, *numbers: Any) -> bool:
        """Tell the user's callback where the search has come to; return whether it goes on."""
        self.counts["iterations"] = iteration
        if self._callback is None or self.stopped:
            return not self.stopped
        now = self.current()
        x = self.x if now is None else now["x"]
        try:
            if "intermediate_result" in inspect.signature(self._callback).parameters:
                out = self._callback(so.OptimizeResult(x=x, fun=value, nit=iteration))
            else:
                out = self._callback(x)
        except (StopIteration, KeyboardInterrupt):  # the last iterate is the result
            return False
        except Exception as error:
            self.error = error
            return False
        return out is not True


def solve_by(
    method: str, call: Any, box: Limits, held: Constraints | None, values: Sequence, x0: np.ndarray, tol: float | None,
    callback: Callable | None, options: dict | None,
) -> so.OptimizeResult:  # fmt: skip
    """Minimize the objective of a call by a solver, for plain values of its inputs."""
    package = _package(method, call.where)
    options = {_NAMES.get(k, k): v for k, v in (options or {}).items()}
    before = options.pop("warm_start", None)
    n, m = x0.size, 0 if held is None else held.size
    quasi = isinstance(call.hess, so.HessianUpdateStrategy)
    options.setdefault("hessian_approximation", "limited-memory" if quasi else "exact")
    parts = [] if held is None else held.apart(values)
    second = call.own_hess and (lambda x: call.own_hess(values, x))
    objective = Part(1, *call.own_fun.apart(values), hess=second)
    curved = [p for p in parts if p.function is not None]
    model, numbers = model_of(call.where, call.pair is not None, [objective, *curved], x0)
    back = _Callbacks(call, callback)
    back.x = x0
    given, at = call.own_jac or call.pair, (x0, *numbers)
    ours: dict[str, tuple] = {"objective": (model.value, at)}
    if given is None:
        ours["gradient"] = model.gradient(*at), at
    c = Rows(model, parts, x0, numbers, call.where) if m else None
    H = None
    if options["hessian_approximation"] == "exact":
        H = Curvature(model, objective, parts, x0, numbers, call.where)
        if H.ours is not None:
            ours["hessian"] = H.ours.data, H.at
    if curved:
        ours["constraints"] = model.held, at
    if c is not None and c.ours is not None:
        ours["jacobian"] = c.ours.data, at
    is_alone = callback is None and given is None and not [u for M in (c, H) if M is not None for u in M.users]
    bare = unguarded(ours) if is_alone else {}
    functions = {name: _with(bare.get(name, f), numbers) for name, (f, _) in ours.items()}
    back.add("objective", functions["objective"] if bare else lambda x: float(functions["objective"](x)), np.nan)
    if given is not None:
        own = (lambda x: given(values, x)) if call.pair is None else (lambda x: given(values, x)[1])
        functions["gradient"] = lambda x: np.reshape(own(x), (n,))
    back.add("gradient", functions["gradient"], np.full(n, np.nan))
    limits: dict[str, Any] = {}
    if c is not None:
        assert held is not None
        c.functions = functions
        back.add("constraints", functions["constraints"] if c.is_curved else c.values, np.full(m, np.nan))
        back.fill("jacobian", c, functions["jacobian"] if c.is_ours else c.entries, bool(bare))
        low, high = held.limits(values)
        limits = {"cl": np.broadcast_to(low, (m,)), "cu": np.broadcast_to(high, (m,))}
    if H is not None:
        H.functions = functions
        back.fill("hessian", H, functions["hessian"] if H.is_ours else H.entries, bool(bare))
    low, high = (np.full(n, -np.inf), np.full(n, np.inf)) if box.limits is None else box.limits(values)
    limits |= {"lb": np.array(low, float), "ub": np.array(high, float)}
    in_parts = {"constraints": c and not c.is_curved, "jacobian": c and not c.is_ours, "hessian": H and not H.is_ours}
    codes = {name: (f, ours[name][1]) for name, f in bare.items() if not in_parts.get(name)}
    library = library_of(package) if codes and method == "ipopt" else None
    if library is None:
        problem = package.Problem(n=n, m=m, problem_obj=back, **limits)
    else:
        problem = InC(library, back, codes, n, m, **limits)
    back.current = getattr(problem, "get_current_iterate", back.current)
    options.setdefault("print_level", 0)
    options.setdefault("sb", "yes")
    options["print_level"] = 5 if options["print_level"] is True else int(options["print_level"])
    if tol is not None:
        options.setdefault("tol", tol)
    start = {} if before is None else _multipliers(before)
    for name, choice in {**(_WARM if before is not None else {}), **options}.items():
        problem.add_option(name, choice)
    with back.interruptible():
        x, info = problem.solve(x0, **start)
    if back.broken and info["status"] == _INVALID:  # where it was before
        x, info["obj_val"] = back.x, back.objective(back.x)
        info["g"] = back.constraints(x) if m else info["g"]
    slope = np.array(back.gradient(x))
    if back.error is not None:
        raise back.error
    message = info["status_msg"]
    return so.OptimizeResult(
        x=np.array(x), fun=float(info["obj_val"]), jac=slope, success=info["status"] in _SOLVED,
        status=int(info["status"]), message=message.decode() if isinstance(message, bytes) else str(message),
        nit=back.counts["iterations"], nfev=back.counts["objective"], njev=back.counts["gradient"] - 1,
        nhev=back.counts["hessian"], constr=np.array(info["g"]), multipliers=-np.array(info["mult_g"]),
        lower_multipliers=np.array(info["mult_x_L"]), upper_multipliers=np.array(info["mult_x_U"]),
    )  # fmt: skip


def _with(f: Callable, numbers: list) -> Callable:
    """Return a function for these numbers."""
    return (lambda *at: f(*at, *numbers)) if numbers else f


def _multipliers(before: Any) -> dict[str, np.ndarray]:
    """Return the multipliers to begin with, from a result or a dict of the same names."""
    names = {"lagrange": "multipliers", "zl": "lower_multipliers", "zu": "upper_multipliers"}
    found = {name: before[key] for name, key in names.items() if before.get(key) is not None}
    return {name: -np.asarray(v) if name == "lagrange" else np.asarray(v) for name, v in found.items()}


def _package(method: str, where: str) -> Any:
    name, extra = SOLVERS[method]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ArgumentError(
            f"{where}: method={method!r} needs {name}, which can't be imported.",
            f"the solver is not part of SciPy ({error})",
            f"pip install {extra!r}, or use method='trust-constr', SciPy's own for sparse constraints",
        ) from error
