"""The common parts of all of SciPy's solvers: the functions they call, the equation they solve, their results.

For: ``SolverCall``, the record of a call and of SciPy's runs; ``Condition``, the equation at the answer, whose
tangent is a linear solve chosen by size and checked before it is divided by; and the numbers of a result object that
carry no tangent.
Not for: any solver.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.optimize as so

from ...base.frames import public, user_level
from ...base.log import log
from ...base.terminal import Progress
from ...base.tree import flatten
from ...batched import one_by_one
from ...boundary.boundary import running
from ...control.factored_solve import solve_factored
from ...control.implicit import Equation, root
from ...control.linear_solve import LinearSolve, linear_solve
from ...core.above import ABOVE
from ...core.aval import Aval
from ...core.dispatch import bind
from ...core.primitive import Primitive
from ...core.tracer import Tracer, tracer_in
from ...errors import ConvergenceError, DualadError, PerformanceNote, SingularMatrixError, SparsityError
from ...jacobians.hessian import hessian
from ...jacobians.jacobian import jacobian
from ...jvp import stop_gradient
from ...surface.arguments import operand
from ..closures import Closed, Inputs
from ..mirror import MIRRORED, Verdict, as_args, calling_scipy, is_own

__all__ = [
    "COUNTS", "Condition", "DENSE", "INACCURATE", "SINGULAR", "SciPys", "SolutionWarning", "SolverCall", "arguments_of",
    "compiled", "compiled_later", "converged", "convergence_error", "counters", "fields", "inside", "is_jitted",
    "null_direction", "regular", "solves", "start_of", "unguarded", "warn",
]  # fmt: skip

#: largest number of unknowns for which the matrix of the tangents' system is built
DENSE = 500
#: a matrix with a larger condition number, once its rows and columns are scaled, has no inverse
SINGULAR = 1e12
#: a larger share of entries than this is no sparse matrix
_SPARSE_SHARE = 0.1
#: a smaller condition number needs no second look, nor does a shorter Newton step
_GOOD, _ROUNDING = 1e9, 1e-9
#: how much of the Jacobian may change along the Newton step that is left at an answer: more, where that is multiple
INACCURATE = 0.25


class SolutionWarning(UserWarning):
    """A solver's answer has a derivative that deserves a second look: it is not accurate, or not the only one."""


def warn(text: str) -> None:
    """Warn at the user's line."""
    warnings.warn(text, SolutionWarning, stacklevel=user_level())


class SciPys(Exception):
    """Our version of a solver has nothing to do: nothing is traced, or SciPy's own error is better."""


def solves(original: Callable, words: str | None = None) -> Callable:
    """Decorate our version of a solver of SciPy's; ``words`` are its docstring, if another function made it.

    It is called if anything may be traced (an argument is, or a transform runs the function that calls the solver, and
    what closures read is not known), or if derivatives are to be dualad's. It raises ``SciPys`` where nothing is; then,
    and for plain arguments, SciPy's own is called.
    """
    name = original.__name__

    def decorate(ours: Callable) -> Callable:
        MIRRORED[f"scipy.optimize.{name}"] = Verdict("op")
        ours.__name__ = ours.__qualname__ = name
        takes_solver = "solver" in inspect.signature(ours).parameters

        @functools.wraps(ours)
        @public
        def function(*args: Any, progress: bool = False, **kwargs: Any) -> Any:
            if progress:
                with Progress(of=f"calls of functions by {name}") as bar:
                    token = _bar.set(bar)
                    try:
                        return function(*args, **kwargs)
                    finally:
                        _bar.reset(token)
            given = (*args, *kwargs.values())
            is_ours = is_own(*given, *inside(given)) or any([type(x) is str and x.lower() in _METHODS for x in given])
            is_ours = is_ours or (takes_solver and kwargs.get("solver", "auto") != "auto")
            if is_ours or running.get() or tracer_in(*given) is not None:
                try:
                    return ours(*args, **kwargs)
                except SciPys:
                    pass
            kwargs = {k: v for k, v in kwargs.items() if k not in _OURS and not (takes_solver and k == "solver")}
            if (bar := _bar.get()) is not None:
                args = tuple([bar.counting(x) if i == 0 and callable(x) else x for i, x in enumerate(args)])
                kwargs = {k: bar.counting(v) if k in _FUNCTIONS else v for k, v in kwargs.items()}
            return original(*args, **kwargs)

        function.__doc__ = (
            f"{words or inspect.getdoc(ours)}\n\nParameters and results are those of ``scipy.optimize.{name}``, and"
            " two more for traced calls: ``require_success=False`` takes an answer that has not converged,\n"
            "``tangent_solve`` is as for :func:`dualad.custom_root`. ``progress=True`` counts on a terminal the\n"
            "calls of the functions that the solver is given.\n"
        )
        if "given" in inspect.signature(ours).parameters:  # it takes SciPy's arguments as they come
            function.__signature__ = _with_ours(inspect.signature(original))
        return function

    return decorate


def _with_ours(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature of SciPy's with the parameters that SciPy does not have."""
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=x) for name, x in _OURS.items()]
    theirs = list(signature.parameters.values())
    end = len(theirs) - any(p.kind is inspect.Parameter.VAR_KEYWORD for p in theirs)
    return signature.replace(parameters=[*theirs[:end], *more, *theirs[end:]])


def arguments_of(signature: inspect.Signature, given: tuple, named: dict) -> dict[str, Any]:
    """Return the arguments of a call by name."""
    try:
        return signature.bind(*given, **named).arguments
    except TypeError:
        raise SciPys from None


def inside(given: Sequence) -> list:
    """Return the contents of the dictionaries and constraints among the arguments."""
    out: list = []
    for x in given:
        if isinstance(x, dict):
            out += x.values()
        elif isinstance(x, so.NonlinearConstraint):
            out += [x.jac, x.hess]
        elif type(x) in (list, tuple) and any([isinstance(v, (dict, so.NonlinearConstraint)) for v in x]):
            out += inside(x)
    return out


#: methods that SciPy does not have
_METHODS = ("ipopt", "pounce")
#: the parameters that SciPy does not have, and what they are by default
_OURS = {"require_success": True, "tangent_solve": None, "progress": False}
#: what SciPy calls the function that a solver is given first
_FUNCTIONS = ("fun", "f", "func", "F")
#: where the calls of the solver that is running are counted
_bar: ContextVar[Progress | None] = ContextVar("dualad_solver_bar", default=None)


def start_of(x: Any) -> Any:
    """Return where a search begins, in floating point and without tangents."""
    x = operand(x)
    x = stop_gradient(x) if isinstance(x, Tracer) else np.asarray(x)
    dtype = np.result_type(x.dtype, np.float64)
    return x if x.dtype == dtype else x.astype(dtype)


def compiled(f: Callable, *at: Any) -> Callable:
    """Return a function compiled for arguments like these; as it is, with a record in the log, if it can't be.

    What jit warns of, such as side effects at each call, is a reason to let it be.
    """
    fast = ABOVE.jitted(f)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.filterwarnings("ignore", "np.array", PerformanceNote)  # its objects are those of the trace
            fast(*at)
    except (DualadError, UserWarning) as error:
        log("DAL004", "solver: `%s` is not compiled: %s", getattr(f, "__name__", f), str(error).partition("\n")[0])
        return f
    return fast


def compiled_later(f: Callable) -> Callable:
    """Return a function that is compiled at its first call."""
    fast: list[Callable] = []

    def function(*at: Any) -> Any:
        if not fast:
            fast.append(compiled(f, *at))
        return fast[0](*at)

    return function


def unguarded(functions: dict[str, tuple[Callable, Sequence]]) -> dict[str, Callable]:
    """Return functions, given with arguments, that compare nothing they read; none, if one of them runs Python.

    They are for a search in which nothing else does: then nothing writes to what they read, which is compared here.
    """
    bare: dict[str, Any] = {name: is_jitted(f) and f.unguarded(*at) for name, (f, at) in functions.items()}
    return bare if all(bare.values()) else {}


def is_jitted(f: Any) -> bool:
    """Whether a function is what ``jit`` returns."""
    return hasattr(f, "lower") and isinstance(f, _jitted())


@functools.cache
def _jitted() -> type:
    return type(ABOVE.jitted(abs))


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────


class SolverCall:
    """One call of a solver: where it starts, the traced values it depends on, and what happens while SciPy runs."""

    def __init__(self, where: str, start: Any) -> None:
        self.where, self.start, self.inputs = where, start, Inputs(where)
        #: SciPy's results, one for each lane
        self.runs: list = []
        #: whether the solver takes sparse matrices, and there are variables enough for them
        self.takes_sparse = False
        #: whether the function is compiled already, so that its derivatives are worth it
        self.is_jitted = False
        #: what the user's functions raised in SciPy's hands
        self._raised: list = []

    @property
    def depends(self) -> bool:
        """Whether anything is traced."""
        return bool(self.inputs.arrays) or isinstance(self.start, Tracer)

    def leave(self, *given: Any) -> None:
        """Leave the call to SciPy if nothing is traced, and none of the derivatives given is to be dualad's."""
        if not self.depends and not is_own(*given):
            raise SciPys

    def close_given(self, f: Any, args: Any, name: str, *more: Any) -> Closed | None:
        """Take a function of x (and ``more``), such as a derivative, if one was given."""
        return self.inputs.close(f, [self.start, *more], as_args(args), name) if callable(f) else None

    def guard(self, f: Callable) -> Callable:
        """Return a function for SciPy to call, whose first error is noted."""
        f = self.counted(f)

        def function(*args: Any) -> Any:
            try:
                return f(*args)
            except Exception as error:
                self.note(error)
                raise

        return function

    def counted(self, f: Callable) -> Callable:
        """Return a function whose calls are counted on a terminal, if that was asked for."""
        bar = _bar.get()
        return f if bar is None else bar.counting(f)

    def note(self, error: Exception) -> None:
        """Keep what a function raised, in place of which the solver may raise something else."""
        if isinstance(error, DualadError):
            error.told = True
        self._raised.append(error)

    def quickly(self, f: Callable) -> Callable:
        """Return a derivative that is compiled at its first call, if there are variables enough to be worth it."""
        return compiled_later(f) if self.start.size > DENSE or self.is_jitted else f

    def jacobian_of(self, f: Callable) -> Callable:
        """Return the Jacobian function of constraints as the solver takes it."""
        return ABOVE.sparse_jacobian(f) if self.takes_sparse else jacobian(f)

    def hessian_of(self, f: Callable) -> Callable:
        """Return the Hessian function in the first argument as the solver takes it."""
        return ABOVE.sparse_hessian(f) if self.takes_sparse else hessian(f)

    def derivative(self, given: Any, closed: Closed | None, inputs: Sequence, exact: Callable[[], Callable]) -> Any:
        """Return a derivative for SciPy: dualad's, which ``exact()`` makes, the user's, or what else was given."""
        if is_own(given):
            return self.guard(self.quickly(exact()))
        return given if closed is None else self.guard(lambda *x: closed(inputs, *x[: closed.own]))

    def run(self, search: Callable, *args: Any) -> Any:
        """Call SciPy; raise what one of the user's functions raised, where SciPy says something else."""
        self._raised.clear()
        try:
            with calling_scipy():
                return search(*args)
        except Exception as error:
            if self._raised and error is not self._raised[0]:
                raise self._raised[0] from None
            raise

    def run_checked(self, search: Callable, x0: Any, inputs: Sequence, require: bool) -> tuple[Any, Any]:
        """Run a search that returns x and a result of SciPy's, which is to say that it has converged."""

        def checked() -> tuple[Any, Any]:
            x, result = search(x0, inputs)
            converged(result, self.where, require)
            return x, result

        return self.run(checked)

    def apply(self, equation: Condition, start: Sequence) -> tuple[list, list]:
        """Apply the operator; return the leaves of x, and what else was found."""
        self.runs.clear()
        k = len(equation.unknown.avals)
        out = bind(root, (*start, *self.inputs.arrays), {"call": equation})
        return list(out[:k]), list(out[k:])

    def run_raising(self, call: Callable[[], Any], **instead: str) -> Any:
        """Call a function of SciPy's that says by a ``RuntimeError`` that it has not converged."""
        try:
            return call()
        except RuntimeError as error:
            if self._raised:
                raise
            raise convergence_error(self.where, error, **instead) from None


# ── the equation at the answer ───────────────────────────────────────────────────────────────────────────────────


class Condition(Equation):
    """The equation at the answer of a solver: f(x, found, inputs) = 0.

    The system of its tangents is dense up to ``DENSE`` unknowns; beyond, it is factorized as a sparse matrix if the
    pattern that is found is sparse, and else solved by GMRES. Of a ``machine``'s answers the small system is solved in
    the program as well; a lane without an answer has none, and is warned of.
    """

    __slots__ = ("machine",)

    def found_by(self, machine: Any) -> None:
        """Have a ``Machine`` find the answers."""
        self.machine, self.solve = machine, machine.run

    @property
    def solve_lanes(self) -> Callable | None:  # type: ignore[override]
        """The solver of lanes at once, if it is machine code."""
        return self.machine.run_lanes if self.is_native else None

    @property
    def is_native(self) -> bool:
        """Whether a program finds the answers."""
        return getattr(self, "machine", None) is not None

    def reached(self, residuals: Sequence) -> Any:
        """Whether there is an answer, which the last of the findings says first."""
        return residuals[len(self.unknown.avals) + len(self.found) - 1][0] == 1

    def jacobian(self, residuals: Sequence) -> Any:
        """Return ∂f/∂x as a matrix, the identity where there is no answer."""
        J = super().jacobian(residuals)
        return np.where(self.reached(residuals), J, np.eye(self.unknown.size)) if self.is_native else J

    def solved(self, J: Any, b: Any) -> Any:
        """Solve by a matrix."""
        return np.linalg.solve(J, b) if self.is_native else solve_factored(J, b, self.factors)

    def tangent(self, residuals: Sequence, b):
        """Solve ∂f/∂x·v = b for vectors; the residuals are x, the solver's findings, and the inputs."""
        if self.tangent_solve is not None:
            return super().tangent(residuals, b)
        if self.unknown.size <= DENSE:
            return self.dense(residuals, b)
        return self.large(residuals, b)

    def dense(self, residuals: Sequence, b):
        """Solve by the matrix, once that is found to be good."""
        J = self.jacobian(residuals)
        return self.divide(J, self.evidence(residuals, J), b, residuals)

    def divide(self, J: Any, evidence: tuple, b: Any, residuals: Sequence) -> Any:
        """Solve by a matrix, looked at first."""
        v = self.solved(self.looked_at(J, evidence, residuals), b)
        return np.where(self.reached(residuals), v, 0.0) if self.is_native else v

    def looked_at(self, J: Any, evidence: tuple, residuals: Sequence) -> Any:
        """Return a matrix that was found to be good."""
        if self.is_native:
            return regular(J, *evidence, self.reached(residuals), call=_Lanes(self))
        return regular(J, *evidence, call=self)

    def large(self, residuals: Sequence, b):
        """Solve without a dense matrix."""
        unknown = self.unknown
        k = len(unknown.avals)
        look = lambda data, pattern: regular(data, call=_Sparse(unknown.where, pattern))
        try:
            v = ABOVE.sparse_solve(
                self.flat, unknown.vector(residuals[:k]), list(residuals[k:]), b, self.factors, _SPARSE_SHARE, look
            )  # fmt: skip
        except SparsityError:
            v = None
        if v is not None:
            return v

        def solve(matvec: Callable, b: Any, _: Any) -> Any:
            flat = lambda tree: unknown.vector(flatten(tree)[0])
            tree = lambda v: unknown.fill(unknown.leaves(np.reshape(v, -1)))
            return tree(_gmres(lambda v: flat(matvec(tree(v))), flat(b)))

        system = LinearSolve(self.name, self.product, solve, solve, unknown)
        return unknown.vector(bind(linear_solve, (*unknown.leaves(b), *residuals), {"call": system}))

    def evidence(self, residuals: Sequence, J: Any) -> tuple:
        """Return the values that are checked besides the matrix: the Newton step, and J(x + step) @ step."""
        return self.newton(residuals, self.looked_at(stop_gradient(J), (), residuals))[1:]

    def newton(self, residuals: Sequence, J: Any) -> tuple:
        """Return (residual, newton_step, J(x + step) @ step) at the answer."""
        unknown, k = self.unknown, len(self.unknown.avals)
        at = [stop_gradient(r) for r in residuals]
        x = unknown.vector(at[:k])
        left = self.flat(x, *at[k:])
        if self.is_native:
            left = np.where(self.reached(residuals), left, 0.0)
        step = self.solved(J, -left)
        moved = [*unknown.leaves(x + step), *at[k:]]
        return left, step, unknown.vector(self.product(moved, unknown.leaves(step)))

    def are_good(self, J: np.ndarray, *evidence: np.ndarray) -> np.ndarray:
        """Whether nothing is wrong with the matrices of lanes: those of which this is not certain are checked."""
        good = np.linalg.cond(J) < _GOOD
        return good & (np.max(abs(evidence[0]), axis=1) <= _ROUNDING) if evidence else good

    def check(self, J: np.ndarray, *evidence: np.ndarray) -> None:
        """Raise if the tangents would mean nothing: no inverse, or another one a Newton step further."""
        if not evidence:
            if not (number := self.factors.of(J).condition) <= SINGULAR:
                raise _singular(self.unknown.where, number, null_direction(J))
            return
        step, product = evidence
        if changed := self.change(J, step, product):
            raise SingularMatrixError(
                f"{self.unknown.where}: a Newton step from the answer, of length {np.linalg.norm(step):.2g}, changes"
                f" the Jacobian by {changed:.0%}.",
                "the root is a multiple one (its derivative is infinite), or the tolerance too coarse for a derivative",
                "solve to a smaller tolerance; if the root is multiple, move the parameters off it",
            )

    def change(self, J: np.ndarray, step: np.ndarray, product: np.ndarray) -> float:
        """Return which share of a Jacobian changes along Newton's step, 0 if that is little."""
        size, change = np.linalg.norm(step), np.linalg.norm(self.factors.of(J).solve(product) - step)
        return float(change / size) if size > 0 and not change <= INACCURATE * size else 0.0


def _singular(where: str, number: float, direction: str) -> SingularMatrixError:
    return SingularMatrixError(
        f"{where}: the Jacobian at the answer is singular (condition {number:.1e}); it maps {direction} to zero.",
        "the answer can move along that direction at no cost, so it has no derivative",
        "add the equation that fixes it, or differentiate a quantity that does not depend on it",
    )


class _Sparse:
    """The check of a sparse matrix, by its entries."""

    def __init__(self, where: str, pattern: Any) -> None:
        self.where, self.pattern = where, pattern

    def check(self, data: np.ndarray) -> None:
        """Raise if it has no inverse."""
        number = importlib.import_module("dualad.ops.sparse_product").condition(data, self.pattern)
        if not number <= SINGULAR:
            raise _singular(self.where, number, "some direction")


def _gmres(times: Callable, b: np.ndarray) -> np.ndarray:
    linalg = importlib.import_module("scipy.sparse.linalg")
    A = linalg.LinearOperator((len(b), len(b)), times, dtype=b.dtype)
    v, info = linalg.gmres(A, b, rtol=1e-12, atol=0.0, restart=100, maxiter=50)
    if info != 0 and np.linalg.norm(times(v) - b) > 1e-8 * np.linalg.norm(b):
        raise ConvergenceError(
            f"the tangents' system of {len(b)} unknowns was not solved by GMRES.",
            "its matrix is not sparse, and too ill-conditioned for products alone",
            "pass tangent_solve=, a solver with a preconditioner of yours",
        )
    return v


def null_direction(J: np.ndarray) -> str:
    """Return, for messages, the direction that a matrix maps (nearly) to zero."""
    if not np.isfinite(J).all():
        return "infinities or NaN"
    v = np.linalg.svd(J)[2][-1].conj()
    v = v / v[np.argmax(np.abs(v))]
    if len(v) <= 6:
        return f"the direction {np.array2string(v.round(3) + 0.0, separator=', ')}"
    top = np.argsort(-np.abs(v))[:4]
    return "a direction mostly along " + ", ".join([f"x[{i}] ({v[i]:.3g})" for i in top])


def _regular_impl(J, *evidence, call):
    with np.errstate(all="ignore"):
        call.check(J, *evidence)
    return J


class _Lanes:
    """The check of one lane or many: together, and each of those by itself that are not certainly good.

    The last of the evidence is whether there is an answer.
    """

    def __init__(self, call: Condition, is_one: bool = True) -> None:
        self.call, self.is_one = call, is_one

    def check(self, J: np.ndarray, *evidence: np.ndarray) -> None:
        """Raise what the first bad lane raises; warn of those without an answer."""
        if self.is_one:
            J, evidence = J[None], tuple([x[None] for x in evidence])
        *evidence, reached = evidence
        if not reached.all():
            warn(
                f"{self.call.unknown.where}: {np.count_nonzero(~reached)} of {len(reached)} lanes have no answer"
                " (`success` says which). What they found is a constant here: its derivative is zero."
            )
        try:
            good = ~reached | self.call.are_good(J, *evidence)
        except np.linalg.LinAlgError:
            good = ~reached
        for i in np.flatnonzero(~good):
            self.call.check(J[i], *[x[i] for x in evidence])


def _regular_batch(size, values, mapped, *, call):
    if not getattr(call, "is_one", False):
        return one_by_one(regular)(size, values, mapped, call=call)
    whole = [v if m else np.broadcast_to(v, (size, *np.shape(v))) for v, m in zip(values, mapped, strict=True)]
    return bind(regular, whole, {"call": _Lanes(call.call, is_one=False)})


#: the matrix as it is, once it has been looked at; an operator, so that compiled programs and lanes look too
regular = Primitive(
    "regular",
    impl=_regular_impl,
    abstract_eval=lambda J, *evidence, call: J,
    jvp=lambda primals, tangents, *, call: (bind(regular, primals, {"call": call}), tangents[0]),
    batch=_regular_batch,
    samples=[((3, 3), {"call": SimpleNamespace(check=lambda J: None)})],
    raises=True,
    kind="implicit",
)


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────

#: what a result object says in whole numbers; -1 where a solver does not count it
_COUNTERS = ("success", "status", "nfev", "njev", "nhev", "nit")
COUNTS = Aval((len(_COUNTERS),), np.dtype(np.int64))


def counters(result: Any) -> np.ndarray:
    """Return the whole numbers of a result of SciPy's."""
    found = [result.get(name, -1) for name in _COUNTERS]
    return np.array([-1 if v is None else int(v) for v in found], np.int64)


def fields(numbers: Any, runs: Sequence) -> dict[str, Any]:
    """Return the entries of a result object that carry no tangent."""
    out: dict[str, Any] = {}
    for i, name in enumerate(_COUNTERS):
        if name != "success" and runs and not any([name in run for run in runs]):
            continue
        value = numbers[i] == 1 if name == "success" else numbers[i]
        out[name] = value if isinstance(value, Tracer) else value.item()
    out["message"] = runs[0].get("message", "") if len(runs) == 1 else "of several runs, or of one yet to come"
    return out


def convergence_error(where: str, said: Any, instead: str = "start nearer, or raise maxiter") -> ConvergenceError:
    """Return the error for a search that has not converged, of which SciPy said this."""
    return ConvergenceError(
        f"{where}: {str(said).strip()}", "the answer has a derivative only where its equation holds", instead
    )  # fmt: skip


def converged(result: Any, where: str, require: bool) -> None:
    """Raise if a solver says that it has not converged."""
    if require and not result.get("success", True):
        raise convergence_error(
            where, result.get("message", "it has not converged"),
            'start nearer, give exact derivatives (jac="dualad") or more iterations; require_success=False takes what'
            " was found",
        )  # fmt: skip
