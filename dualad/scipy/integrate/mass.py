"""Mass matrices: M y' = f(t, y, θ), a differential-algebraic equation where M is singular, of index 1.

With P, the orthogonal projector onto what M does not reach (P M = 0), the algebraic equations are P f = 0, and

    index 1:   M + P ∂f/∂y is regular;
    start:     M (y − y₀) + P f(t₀, y) = 0          nearest to y₀ in what M sees, and on the algebraic equations
    slope:     (M + P ∂f/∂y) y' = f − P f − P ∂f/∂t

Hairer, Wanner, *Solving Ordinary Differential Equations II* (1996), VI.1. M and P are the last two parameters of such a
problem, so derivatives in M are like those in any. Not for: steps (``rosenbrock.py``), or F(t, y, y') = 0 (``dae.py``).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...control.control_flow import while_loop
from ...control.implicit import custom_root
from ...control.linear_solve import cast
from ...core.aval import Aval, aval_of
from ...core.dispatch import bind
from ...core.primitive import Primitive
from ...core.tracer import Tracer
from ...errors import ArgumentError, ConvergenceError, ShapeError, UnsupportedError
from ...jvp import jvp
from ...surface.arguments import operand
from ...vmap import vmap
from .native import compiled
from .problem import Problem, Settings

__all__ = ["check_mass", "check_written", "consistent", "mass_and_projector", "rate_of", "times_mass"]

#: how small a scaled singular value counts as zero
_ZERO = 1e-11
#: iterations of Newton's method for a start
_MOST = 60
#: changes of a start that are small, in the unit of the tolerances
_CLOSE = 1e-9
#: an inverse of a matrix with rows of size one is trusted up to this norm
_EASY = 1e8


def check_mass(s: Settings) -> None:
    """Refuse methods and sensitivities that there are not for a mass matrix."""
    if s.method != "Rodas5P":
        raise ArgumentError(
            f"{s.where}: mass with method={s.method!r}.",
            "the method that solves M y' = f(t, y), where M may be singular, is Rodas5P",
            "pass method='Rodas5P'; for a regular M and another method return np.linalg.solve(M, f)",
        )
    if s.sensitivity not in ("auto", "steps"):
        raise ArgumentError(
            f"{s.where}: sensitivity={s.sensitivity!r} with a mass matrix.",
            "reverse mode walks the steps back there, which is exact for what they computed",
            "pass sensitivity='steps', or leave it out",
        )


def check_written(where: str, name: str, is_written: bool) -> None:
    """Refuse a function that could not be written down: SciPy's loop, which would call it, takes no mass matrix."""
    if not is_written:
        raise UnsupportedError(
            f"{where}: `{name}` can't be written down as a program, and has a mass matrix.",
            "only our own loop solves such equations, and it is a program: branches on values have no place in it",
            "write it in plain NumPy: np.where(condition, a, b) in place of if, or dualad.cond",
        )


def mass_and_projector(mass: Any, n: int, where: str) -> tuple[Any, Any]:
    """Return M, and the projector onto what it does not reach."""
    if callable(mass):
        raise ArgumentError(
            f"{where}: mass is a function.", "the mass matrix M of M y' = f(t, y) is constant",
            "solve M(t, y) y' − f(t, y) = 0 by dualad.scipy.integrate.solve_dae",
        )  # fmt: skip
    mass = operand(mass.toarray() if sp.issparse(mass) else mass)
    if np.shape(mass) != (n, n):
        raise ShapeError(
            f"{where}: mass has shape {np.shape(mass)} for a state of {n} numbers.",
            "M y' = f(t, y) is an equation for each of them",
            f"pass a matrix of shape ({n}, {n}), such as np.diag([1.0, ..., 0.0])",
        )
    if aval_of(mass).dtype.kind == "c":
        raise ArgumentError(f"{where}: mass is complex.", "states are real", "write real and imaginary parts apart")
    mass = cast(mass, np.dtype(float))
    if isinstance(mass, Tracer):
        return mass, np.eye(n) - mass @ np.linalg.pinv(mass, rcond=n * np.finfo(float).eps)
    if not np.isfinite(mass).all():
        raise ArgumentError(f"{where}: mass is not finite.", "its entries are NaN or inf", "pass finite numbers")
    left, sizes, _ = np.linalg.svd(mass)
    rest = left[:, np.count_nonzero(sizes > n * np.finfo(float).eps * sizes.max(initial=0.0)) :]
    return mass, rest @ rest.T


def times_mass(t: Any, v: Any, *parameters: Any) -> Any:
    """Return M v."""
    return parameters[-2] @ v


def rate_of(function: Callable) -> Callable:
    """Return y' on the solution, as a function of time, state and parameters."""

    def rate(t: Any, y: Any, *parameters: Any) -> Any:
        mass, beside = parameters[-2:]
        f, drift = jvp(lambda t: function(t, y, *parameters), (t * 1.0,), (np.ones(()),))
        matrix = mass + beside @ _jacobian(function, t, y, parameters)
        return np.linalg.solve(matrix, f - beside @ (f + drift))

    return rate


def _jacobian(function: Callable, t: Any, y: Any, parameters: Sequence) -> Any:
    push = lambda e: jvp(lambda y: function(t, y, *parameters), (y,), (e,))[1]
    return vmap(push, out_axes=1, randomness="same")(np.eye(y.shape[0]))


# ── a start that satisfies the algebraic equations ───────────────────────────────────────────────────────────────


def consistent(problem: Problem, t0: Any, y0: Any, parameters: Sequence) -> Any:
    """Return the consistent state that agrees with y0 in what the mass matrix sees."""
    beside = parameters[-1]
    if not isinstance(beside, Tracer) and not np.any(beside):
        return y0

    def residual(y: Any, t0: Any, y0: Any, *parameters: Any) -> Any:
        mass, beside = parameters[-2:]
        return mass @ (y - y0) + beside @ problem.function(t0, y, *parameters)

    found = bind(start, (t0, y0, *parameters), {"call": problem})
    return custom_root(residual, found, lambda f, x0: x0, args=(t0, y0, *parameters))


def _start(t0: Any, y0: Any, *parameters: Any, call: Problem) -> np.ndarray:
    """Solve M (y − y₀) = 0 and P f(t₀, y) = 0, by machine code where that is easy."""
    y0 = np.asarray(y0, float)
    with contextlib.suppress(np.linalg.LinAlgError):
        found, change, condition = compiled(call, "near", functools.partial(_near, call), [t0, y0, *parameters])
        if change <= _CLOSE and condition <= _EASY:
            return found
    return _search(call, t0, y0, parameters)


def _near(problem: Problem, t0: Any, y0: Any, *parameters: Any) -> list:
    """Return the state after some steps of Newton's method, the size of the last, and the condition of its matrix."""
    unit, (mass, beside) = _unit(problem.settings, y0), parameters[-2:]

    def turn(state: tuple) -> tuple:
        y, _, _, count = state
        slopes = beside @ _jacobian(problem.function, t0, y, parameters)
        weight = np.max(np.abs(slopes))
        matrix = weight * mass + slopes
        rows = np.max(np.abs(matrix), 1)
        inverse = np.linalg.inv(matrix / rows[:, None])
        residual = beside @ problem.function(t0, y, *parameters) + weight * (mass @ (y - y0))
        change = -(inverse @ (residual / rows))
        return y + change, np.max(np.abs(change) / unit), np.max(np.sum(np.abs(inverse), 1)), count + 1

    more = lambda state: (state[1] > _CLOSE) & (state[3] < 10)
    return list(while_loop(more, turn, (y0, np.inf, 0.0, 0)))[:3]


def _search(call: Problem, t0: Any, y0: Any, parameters: Sequence) -> np.ndarray:
    """Solve the same by Newton's method, damped, on equations of equal size; name the cause where it fails."""
    s, mass = call.settings, np.asarray(parameters[-2])
    left, sizes, right = np.linalg.svd(mass)
    rank = np.count_nonzero(sizes > len(mass) * np.finfo(float).eps * sizes.max(initial=0.0))
    beside, seen = left[:, rank:].T, right[:rank]
    unit = _unit(s, y0)

    def evaluate(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = lambda t, y, *p: [call.function(t, y, *p), _jacobian(call.function, t, y, p)]
        f, jacobian = compiled(call, "start", both, [t0, y, *parameters])
        return beside @ f, beside @ jacobian

    y = y0
    g, slopes = evaluate(y)
    if not (np.isfinite(g).all() and np.isfinite(slopes).all()):
        raise _failed(s, t0, y0, g, "the right-hand side, or its Jacobian, is not finite there")
    for _ in range(_MOST):
        rows = np.max(np.abs(slopes), 1, initial=0.0)
        matrix = np.concatenate([seen, slopes / np.where(rows > 0, rows, 1.0)[:, None]])
        _check_index(s, t0, mass, beside, slopes, right[rank:])
        change = -np.linalg.solve(matrix, np.concatenate([np.zeros(rank), g / np.where(rows > 0, rows, 1.0)]))
        if _size(change / unit) < _CLOSE:
            return y + change
        for half in 0.5 ** np.arange(12):
            more = evaluate(y + half * change)
            if np.linalg.norm(more[0] / rows) < (1 - 0.25 * half) * np.linalg.norm(g / rows):
                break
        else:
            if _size(change / unit) < 1e-3:  # as near as rounding lets it come
                return y
            break
        y, (g, slopes) = y + half * change, more
    raise _failed(s, t0, y0, g, "Newton's method does not come nearer to a root of them")


def _unit(s: Settings, y: Any) -> Any:
    """Return how exact each entry of a start is to be, of those as well whose error is not controlled."""
    return np.where(np.isfinite(s.atol), s.atol, s.rtol) + s.rtol * np.abs(y)


def _size(x: np.ndarray) -> float:
    return float(np.max(np.abs(x), initial=0.0))


def _failed(s: Settings, t0: Any, y0: Any, g: np.ndarray, why: str) -> ConvergenceError:
    return ConvergenceError(
        f"{s.where}: no consistent start at t = {float(t0):.6g} was found near y0 = {np.array2string(y0, precision=6)}:"
        f" {why} (residual {_size(g):.3g}).",
        "rows that the mass matrix does not reach are equations that the start has to satisfy as well",
        "pass a y0 that nearly satisfies 0 = f(t0, y0) in those rows",
    )


def _check_index(
    s: Settings, t0: Any, mass: np.ndarray, beside: np.ndarray, slopes: np.ndarray, free: np.ndarray
) -> None:  # fmt: skip
    """Refuse algebraic equations that do not determine the algebraic unknowns."""
    block = slopes @ free.T
    for axis in (1, 0, 1, 0):  # of a scale that has no meaning: units of equations and of unknowns
        size = np.max(np.abs(block), axis, keepdims=True)
        block = block / np.where(size > 0, size, 1.0)
    left, sizes, right = np.linalg.svd(block)
    if sizes[-1] > _ZERO * sizes[0]:
        return
    count = np.count_nonzero(sizes > _ZERO * sizes[0])
    named = lambda vectors: np.flatnonzero(np.max(np.abs(vectors), 0) > 1e-6).tolist()
    rows, columns = left[:, count:].T @ beside, right[count:] @ free
    unknowns = f"y{named(columns)}"
    if s.where == "solve_dae":  # of a system in y and w = B y', whose first rows are those
        n = len(beside)
        parts = {"y": columns[:, :n], "yp": columns[:, n:] @ mass[:-n, :n]}
        unknowns = " and ".join([f"{name}{named(part)}" for name, part in parts.items() if named(part)])
        rows = rows[:, -n:]
    raise ConvergenceError(
        f"{s.where}: the equation has an index above 1, or a singular start, at t = {float(t0):.6g}: the block of"
        f" rows {named(rows)} and unknowns {unknowns} in the Jacobian is singular.",
        "of index 1 the algebraic equations determine the algebraic unknowns, those whose slopes M does not see;"
        " here they do not contain some of them, or contain them in the same way",
        "differentiate these equations in t and insert the slopes, until the unknowns appear (of a pendulum, its"
        " constraint twice)",
    )


def _sample() -> tuple:
    function = lambda t, y, p, *_: np.stack([-p[0] * y[0], p[1] * y[0] - y[1]])
    problem = Problem("sample", function, 2, Settings("samples", "Rodas5P", 1e-8, 1e-8, native=True), mass=times_mass)
    mass = np.diag([1.0, 0.0])
    return np.asarray(0.0), np.array([1.0, 0.0]), np.array([0.5, 2.0]), mass, np.eye(2) - mass, {"call": problem}


start = Primitive(
    "ivp_start",
    impl=_start,
    abstract_eval=lambda t0, y0, *parameters, call: Aval(y0.shape, np.dtype(float)),
    jvp=None,
    samples=lambda: [_sample()],
    raises=True,
    blocks="one",
    kind="implicit",
)
