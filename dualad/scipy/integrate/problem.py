"""An initial value problem y' = f(t, y, θ) as a parameter of the operators, and the problems derived from it.

For: running a problem by SciPy on plain arrays (once for each point), the right-hand sides of its tangents and of its
adjoint as code that was traced once, exact Jacobians for implicit methods. Not for: derivatives as operators
(``trajectories.py``) or the adjoint's walk back (``adjoint.py``).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate as si
import scipy.sparse as sp

from ...base.terminal import Progress
from ...core.above import ABOVE
from ...jvp import jvp
from ...rules.calls import of_moving
from ...vjp_via_transpose import vjp
from ...vmap import vmap
from ..mirror import calling_scipy
from .fixed_steps import FIXED
from .functions import compile_callback, over_lanes
from .native import OURS, is_solvable, rows_at, run_native, stopped_early
from .path import Path, steps_at_once
from .recorded import problem_steps, solver_class
from .rosenbrock import RightHandSide
from .runge_kutta import Control

__all__ = [
    "IMPLICIT", "Problem", "Settings", "check_run", "counted", "in_order", "key_of", "method_name",
    "scipys_solver",
]  # fmt: skip

METHODS = {name: getattr(si, name) for name in ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")}
IMPLICIT = ("Radau", "BDF", "LSODA")
#: systems up to this size have a dense Jacobian in an implicit method, larger ones a matrix of blocks
_DENSE = 64
#: a sparse Jacobian has at most this part of its entries
_FULL = 0.1
#: bytes of results kept
_KEPT = 2**24


class Settings(NamedTuple):
    """How a problem and its derivatives are solved."""

    where: str
    method: Any
    rtol: float = 1e-3
    atol: Any = 1e-6
    max_step: float = np.inf
    sensitivity: str = "auto"
    sens_tol: str = "all"
    require_success: bool = True
    keep_steps: int | None = None
    #: whether its loop is a program of ours
    native: bool = False
    first_step: float | None = None
    max_steps: int = 1_000_000
    progress: bool = False
    #: the relative tolerance that iterations are for, if it is not the one of the errors
    newton: Any = None

    @property
    def name(self) -> str:
        """The name of the method."""
        return method_name(self.method)

    @property
    def control(self) -> Control:
        """How steps are chosen."""
        newton = self.rtol if self.newton is None else self.newton
        return Control(self.rtol, self.atol, self.max_step, self.first_step, self.max_steps, newton)


def method_name(method: Any) -> str:
    """Return the name of a method, given by name or as SciPy's class."""
    return method if isinstance(method, str) else method.__name__


@functools.lru_cache
def scipys_solver(method: Any, most: float = np.inf) -> Any:
    """Return SciPy's class of a method, whose runs fail after ``most`` steps, and where SciPy's would not end.

    LSODA repeats a step that does not move t; where slopes are NaN at the start, the others look for a step of length
    NaN. A name that SciPy does not know is returned.
    """
    made = METHODS.get(method, method)
    if isinstance(made, str):
        return made

    def step(self: Any) -> str | None:
        if np.isnan(getattr(self, "h_abs", 0.0)):
            self.status = "failed"
            return "the right-hand side is not a finite number there."
        before, self.taken = self.t, getattr(self, "taken", 0) + 1
        message = made.step(self)
        if self.status == "running" and (self.t == before or self.taken >= most):
            self.status = "failed"
            message = self.TOO_SMALL_STEP if self.t == before else f"{most} steps were taken, which is max_steps."
        return message

    return type(made.__name__, (made,), {"step": step})


@contextlib.contextmanager
def counted(slopes: Callable, span: Any, s: Settings) -> Iterator[Callable]:
    """Draw a bar, if it is asked for: the function shows how much of the span lies behind it."""
    share = lambda t, *_: (t - span[0]) / (span[1] - span[0]) if span[1] != span[0] else 1.0
    with Progress(total=100, quiet=not s.progress, of="percent of solve_ivp") as bar:
        yield bar.counting(slopes, share)


def check_run(run: Any, settings: Settings, what: str = "the solver") -> None:
    """Refuse a run that did not reach its end."""
    if not run.success:
        raise stopped_early(settings.where, what, run.t[-1] if len(run.t) else "the start", run.message)


def in_order(t0: Any, times: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return times as a solution comes to them, and where among those each one is (None: it is where it was)."""
    if len(times) < 2 or (np.diff(times) * (1.0 if times[-1] >= t0 else -1.0) >= 0).all():
        return None, times
    order = np.argsort(abs(times - t0), kind="stable")
    return np.argsort(order), times[order]


@dataclass(eq=False, repr=False, slots=True)
class Problem:
    """A problem: a parameter of the operators."""

    #: for messages
    name: str
    #: ``function(t, y, *parameters)``, in plain NumPy, for vectors y of ``n`` numbers
    function: Callable
    n: int
    #: how it is solved
    settings: Settings
    #: ``solve(t0, t1, times, y0, parameters)`` returns SciPy's result, in place of ``solve_ivp``
    solve: Callable | None = None
    #: ``given(t0, y0, parameters)`` returns what SciPy gets: the right-hand side on plain arrays, and options
    given: Callable | None = None
    #: what this is the variational equation of, and how many parameters that has: its Jacobian is made of blocks of
    #: the base's
    base: tuple[Problem, int] | None = None
    #: ``mass(t, v, *parameters)`` returns M v, if the problem is M y' = f(t, y): a matrix that does not depend on t
    mass: Callable | None = None
    #: ``rate(t, y, *parameters)`` returns y' there
    rate: Callable | None = None
    _made: dict[Any, Any] = field(default_factory=dict, init=False)
    #: for each point, its last runs
    _runs: dict[tuple, tuple] = field(default_factory=dict, init=False)
    #: the last point whose dense output was asked for
    _path: tuple[tuple, Path] | None = field(default=None, init=False)

    def __repr__(self) -> str:
        return f"<initial value problem of {self.name}>"

    def once(self, key: Any, make: Callable) -> Any:
        """Return ``make()``, made once for a key."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def right_side(self, parameters: Sequence) -> RightHandSide:
        """Return f(t, y) as the steps of a method take it."""
        base = None if self.base is None else self.base[0].right_side(parameters[: self.base[1]])
        mass = None if self.mass is None else lambda v: self.mass(0.0, v, *parameters)
        return RightHandSide(lambda t, y: self.function(t, y, *parameters), self.n, base, mass)

    # ── runs on plain arrays ─────────────────────────────────────────────────────────────────────────────────────

    def remember(self, run: Any, t0: Any, y0: Any, parameters: Sequence) -> None:
        """Keep a run for the operators that will ask for the same: those of many lanes, if they are short."""
        run.y = np.reshape(run.y, (self.n, len(run.t)))  # SciPy's is an empty list where no time was reached
        key, kept = key_of(t0, y0, parameters), self._runs
        if sum([_bytes(r) for runs in kept.values() for r in runs[:1]]) + _bytes(run) > _KEPT:
            kept = dict(list(kept.items())[-1:])
        self._runs = {**kept, key: (run, *kept.get(key, ()))[:3]}

    def known(self, t0: Any, y0: Any, parameters: Sequence) -> tuple:
        """Return the runs that are kept of a point."""
        return self._runs.get(key_of(t0, y0, parameters), ())

    def rows(self, t0: Any, t1: Any, times: np.ndarray, y0: np.ndarray, parameters: Sequence) -> np.ndarray:
        """Return y at the times, shape (times, n)."""
        if not len(times):
            return np.zeros((0, self.n), np.asarray(y0).dtype)
        if float(t0) == float(t1):
            return np.tile(y0, (len(times), 1))
        if is_solvable(self, y0):
            order, ordered = in_order(t0, times)
            found = run_native(self, "rows", functools.partial(rows_at, self), [t0, t1, ordered, y0, *parameters])
            if found is not None:
                return found if order is None else found[order]
        for run in self.known(t0, y0, parameters):
            if np.array_equal(run.t, times):
                return np.ascontiguousarray(run.y.T)
            for at, y in zip(getattr(run, "t_events", None) or (), getattr(run, "y_events", None) or (), strict=True):
                if len(at) and np.array_equal(at, times):
                    return y
            if run.sol is not None and _covers(run, times):
                return np.ascontiguousarray(run.sol(times).T)
        distinct, places = np.unique(times, return_inverse=True)
        if float(t1) < float(t0):
            distinct, places = distinct[::-1], len(distinct) - 1 - places
        run = self.run(t0, t1, distinct, y0, parameters)
        out = np.full((len(times), self.n), np.nan, run.y.dtype)  # NaN where the run ended early, if that is allowed
        reached = places < run.y.shape[1]
        out[reached] = run.y.T[places[reached]]
        return out

    def run(self, t0, t1, times, y0, parameters: Sequence) -> Any:
        """Solve it by SciPy."""
        run = (self.solve or self.integrate)(float(t0), float(t1), times, y0, parameters)
        if self.settings.require_success:
            check_run(run, self.settings, "the solver" + ("" if self.base is None else " of the derivatives' equation"))
        self.remember(run, t0, y0, parameters)
        return run

    def integrate(
        self, t0, t1, times, y0, parameters: Sequence, dense: bool = False, events: Any = None, ours: bool = False
    ) -> Any:  # fmt: skip
        """Have SciPy solve it on plain arrays; the loop of a method of SciPy's may be our compiled one."""
        slopes, options = self._given(t0, y0, parameters)
        with calling_scipy(), counted(slopes, (t0, t1), self.settings) as f:
            solver = self.solver(y0, parameters, ours)
            return si.solve_ivp(f, (t0, t1), y0, solver, times, dense, events, **options)

    def _given(self, t0, y0, parameters: Sequence) -> tuple[Callable, dict]:
        if self.given is not None:
            return self.given(t0, y0, parameters)
        return self._slopes(t0, y0, parameters), self._options(y0, parameters)

    def solver(self, y0: np.ndarray, parameters: Sequence, ours: bool = False) -> Any:
        """Return the class of solvers of the method: SciPy's, or one of our loop."""
        s = self.settings
        if not ours and s.name not in OURS:
            return scipys_solver(s.method, s.max_steps)
        theta = tuple([np.asarray(p, order="C") for p in parameters])
        return solver_class(problem_steps(self, y0, theta), theta, s.max_steps)

    def _slopes(self, t0: Any, y0: np.ndarray, parameters: Sequence) -> Callable:
        rhs = self.once("rhs", lambda: self._prepared("rhs", lambda *a: [self.function(*a)], t0, y0, parameters))
        return lambda t, y: rhs(t, y, *parameters)[0]

    def _options(self, y0: np.ndarray, parameters: Sequence) -> dict:
        s = self.settings
        options = {"rtol": s.rtol, "atol": s.atol, "max_step": s.max_step}
        if s.first_step is not None and s.sensitivity == "steps":
            options["step" if s.name in OURS else "first_step"] = s.first_step
        if method_name(s.method) in IMPLICIT:
            options["jac"] = self.jacobian(y0, parameters)
        return options

    def path(self, t0: Any, t1: float, y0: np.ndarray, parameters: Sequence) -> Path:
        """Return the dense output of a run that reaches ``t1``."""
        key = key_of(t0, y0, parameters)
        if self._path is not None and self._path[0] == key and self._path[1].reaches(t1):
            return self._path[1]

        made, (slopes, options) = self.solver(y0, parameters), self._given(t0, y0, parameters)

        def start(t: float, y: np.ndarray, stop: float, first_step: float | None) -> Any:
            first = options.get("first_step") if first_step is None else first_step
            more = {} if first is None else {"first_step": min(first, abs(stop - t))}
            return made(slopes, t, y, stop, **options | more)

        path = Path(self.settings.where, start, float(t0), float(t1), y0, self.settings.keep_steps or steps_at_once(y0))
        self._path = key, path
        return path

    def _prepared(self, what: str, function: Callable, t0: Any, y0: Any, more: Sequence) -> Callable:
        return compile_callback(function, [np.float64(t0), y0, *more], f"{self.name} ({what})", self.settings.where)

    # ── derived problems ─────────────────────────────────────────────────────────────────────────────────────────

    def jacobian(self, y0: np.ndarray, parameters: Sequence) -> Callable:
        """Return ``jac(t, y)``: exact; of a large system as a sparse matrix, if it is one and the method takes it."""
        if self.base is not None and len(y0) > _DENSE:
            return self._blocks(*self.base, y0, parameters)
        if self.takes_sparse(len(y0)):
            sparse = self.once("sparse jacobian", lambda: self._sparse(y0, parameters))
            if sparse is not None:
                return lambda t, y: sparse(y, t, *parameters).tocsc()

        def matrix(t, y, *p):
            push = lambda e: jvp(lambda y: self.function(t, y, *p), (y,), (e,))[1]
            return [vmap(push, out_axes=1, randomness="same")(np.eye(len(y0), dtype=y0.dtype))]

        code = self.once("jacobian", lambda: self._prepared("jacobian", matrix, 0.0, y0, parameters))
        return lambda t, y: np.asarray(code(t, y, *parameters)[0])

    def takes_sparse(self, size: int) -> bool:
        """Whether the method takes a sparse Jacobian for a system of this size."""
        return size > _DENSE and method_name(self.settings.method) in IMPLICIT[:2]

    def _sparse(self, y0: np.ndarray, parameters: Sequence) -> Callable | None:
        jacobian = ABOVE.sparse_jacobian(lambda y, t, *p: self.function(t, y, *p))
        try:
            first = jacobian(y0, np.float64(0.0), *parameters)
        except Exception:  # a function that the search for the pattern does not understand
            return None
        return jacobian if first.nnz < _FULL * first.shape[0] * first.shape[1] else None

    def _blocks(self, base: Problem, shared: int, y0: np.ndarray, parameters: Sequence) -> Callable:
        """Return the Jacobian without the second derivatives, which a Newton iteration does not need."""
        count, inner = len(y0) // base.n, base.jacobian(y0[: base.n], parameters[:shared])
        identity = sp.identity(count, format="csc")
        dense = method_name(self.settings.method) == "LSODA"

        def matrix(t, y):
            block = inner(t, y[: base.n])
            return np.kron(np.eye(count), block) if dense else sp.kron(identity, block, format="csc")

        return matrix

    def variational(self, moving: tuple[bool, ...], lanes: int) -> Problem:
        """Return the problem of y with ``lanes`` tangents: its parameters are θ and tangents of the moving ones."""
        return self.once(("variational", moving, lanes), lambda: self._variational(moving, lanes))

    def _variational(self, moving: tuple[bool, ...], lanes: int) -> Problem:
        n, count = self.n, len(moving)
        places = [1 + i for i, m in enumerate(moving) if m]

        def pushed(f: Callable | None) -> Callable | None:
            """Return f with its tangents behind it, as a function of y with tangents."""

            def function(t, z, *parameters):
                theta, directions = parameters[:count], parameters[count:]
                y, s = z[:n], np.reshape(z[n:], (lanes, n))
                g, chosen = of_moving(lambda *p: f(t, p[0], *p[1:]), (y, *theta), [0, *places])
                slopes = over_lanes(lambda s, *d: jvp(g, tuple(chosen), (s, *d))[1], s, *directions)
                return np.concatenate([f(t, y, *theta), np.reshape(slopes, (-1,))])

            return None if f is None else function

        function, mass, rate = map(pushed, (self.function, self.mass, self.rate))
        settings = self._variational_settings(lanes)
        return Problem(self.name, function, n * (1 + lanes), settings, base=(self, count), mass=mass, rate=rate)

    def _variational_settings(self, lanes: int) -> Settings:
        s, n = self.settings, self.n
        atol = np.broadcast_to(np.asarray(s.atol, float), (n,))
        rtol = s.rtol if np.ndim(s.rtol) == 0 else np.tile(s.rtol, 1 + lanes)
        tangents, share = np.tile(atol, lanes), 1.0
        if s.sens_tol == "state":
            # SciPy's norm is a mean over all entries: the state's part of it is to weigh what it weighs alone.
            tangents, share = np.full(n * lanes, np.inf), (1 + lanes) ** -0.5
        steps = s.sensitivity == "steps" or s.name in FIXED  # its derivative takes the same steps as well
        return s._replace(
            atol=np.concatenate([atol * share, tangents]), rtol=rtol * share,
            sens_tol="state" if steps else "all", first_step=s.first_step if steps else None, progress=False,
            newton=s.control.newton,
        )  # fmt: skip

    def pulled(self, moving: tuple[bool, ...]) -> Callable:
        """Return the function ``(t, y, *parameters, λ)`` of the slopes of λ (lanes, n) and of the integrals for θ."""
        places = [1 + i for i, m in enumerate(moving) if m]

        def function(t, y, *more):
            *theta, lam = more
            g, chosen = of_moving(lambda *p: self.function(t, p[0], *p[1:]), (y, *theta), [0, *places])
            pull = vjp(g, *chosen)[1]
            back, *integrands = over_lanes(pull, lam)
            rows = [np.reshape(x, (len(lam), -1)) for x in integrands]
            return [-back, *([-np.concatenate(rows, 1)] if rows else [])]

        return function

    def pulling(self, moving: tuple[bool, ...], t0, y0, parameters: Sequence, cotangents: np.ndarray) -> Callable:
        """Return code for the same."""
        key = "pulling", moving, cotangents.shape
        make = lambda: self._prepared("adjoint", self.pulled(moving), t0, y0, [*parameters, cotangents])
        return self.once(key, make)

    def slope(self, t: Any, y: Any, parameters: Sequence) -> Any:
        """Return y' at a point of a solution."""
        return (self.rate or self.function)(t, y, *parameters)

    def slopes(self, times: Any, y: Any, parameters: Sequence) -> Any:
        """Return y' along a solution, shape (times, n)."""
        return vmap(lambda t, y: self.slope(t, y, parameters), randomness="same")(times, y)


def _bytes(run: Any) -> int:
    return int(run.y.nbytes) * (1 if run.sol is None else 8)


def key_of(t0: Any, y0: Any, parameters: Sequence) -> tuple:
    """Return the key that equal points share."""
    return (float(t0), np.asarray(y0).tobytes(), *[np.asarray(p).tobytes() for p in parameters])


def _covers(run: Any, times: np.ndarray) -> bool:
    low, high = run.sol.t_min, run.sol.t_max
    return bool(np.all((times >= low) & (times <= high)))
