"""Every kind of derivative of one function at one point, against every oracle that applies: `check_function`.

The oracles share nothing with the rules under test, and are all asked in the same way: `value`, `jvp`, `vjp`,
`jacobian`, `hvp`. `ByValues` evaluates the function (central differences, complex steps), `JaxOracle` runs it in JAX;
each answer is worked out once, and a large Jacobian is asked for by products with a few random directions. A row fails
when an oracle disagrees, when dualad raises, *and* when no oracle could judge it: "could not run" may not hide a wrong
derivative.

Not for choosing what to ask (`check`).
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from dualad.base.frames import is_users, users_line_of
from dualad.errors import DualadError, UsageError

from . import complex_step, differences
from .engine import Engine, RealFunction, refuse_unknown
from .estimate import Answer, Estimate, Unavailable, compare, each, pull_back, scale_answer
from .jax_oracle import JaxOracle
from .report import CheckReport, Mismatch, Outcome, Row

__all__ = ["ByValues", "Entries", "ORACLES", "QUANTITIES", "Questions", "Rows", "check_function"]

ORACLES = ("jax", "differences", "complex-step", "dot", "loop")
QUANTITIES = ("value", "jvp", "vjp", "jacfwd", "jacrev", "hvp", "vmap-jvp", "vmap-vjp", "vmap-value")

# `dot` compares dualad with itself, so it can convict but not acquit.
_INDEPENDENT = {"jax", "differences", "complex-step", "loop", "numpy"}

Questions = dict[str, Callable[[], Answer]]

LANES = 3
_DIRECTIONS = 4
_COLUMN_LIMIT = 100
_SECOND_LIMIT = 40


def check_function(
    f: Callable,
    args: Any,
    *,
    target: str | None = None,
    point: str = "point 1",
    seed: int = 0,
    oracles: Collection[str] = ORACLES,
    skip: Mapping[str, str] | None = None,
    jacobian_limit: int = 250_000,
    **options: Any,
) -> CheckReport:
    """Return the rows of all oracles and all derivatives of a function at a point: `check` without its choices.

    Parameters
    ----------
    f, args, rtol, atol, seed
        As for :func:`check`, the arguments as one sequence.
    target, point : str
        Names for the report.
    oracles : collection of str
        A subset of `ORACLES`; nobody else is asked.
    skip : mapping of str to str, optional
        Quantities (of `QUANTITIES`) to leave out, each with the reason.
    jacobian_limit : int
        Jacobians with more entries are skipped; the products are always checked.
    source : callable or tuple of (module, str), optional
        The function written for ``jax.numpy``; by default `f`, with JAX's names in place of NumPy's and SciPy's. Where
        `f` is found, as a module and a name, need not be said, and changes nothing.
    progress : callable, optional
        Called with a line of text as the work goes on.
    shared : dict, optional
        Keeps what several points of one function can share (code that JAX compiled): an empty dictionary at first,
        the same one for all points.

    Returns
    -------
    CheckReport
        One row per quantity, one outcome per oracle.

    Raises
    ------
    UsageError
        When the point has no floating-point number in it.
    ArgumentError
        When an oracle or a quantity has an unknown name.

    Examples
    --------
    >>> report = da.testing.check_function(lambda x: np.sin(x) * x, (np.ones(2),), oracles=["differences", "loop"])
    >>> report.ok
    True
    """
    refuse_unknown("oracle", oracles, ORACLES)
    refuse_unknown("quantity", skip or {}, QUANTITIES)
    name = target if target is not None else getattr(f, "__qualname__", type(f).__name__)
    try:
        engine = Engine(f, args, lenient=False, double=True)
    except UsageError:
        raise
    except Exception as error:
        return CheckReport(name, point, (Row("value", "error", message=_error_words(error)),))
    n, m = engine.size, engine.out_size
    if n * m > jacobian_limit:
        limit = f"{m} x {n} is more than the limit of {jacobian_limit} entries"
        skip = {"jacfwd": limit, "jacrev": limit, **(skip or {})}
    rows = Rows(engine, np.random.default_rng(seed), oracles=oracles, skip=skip, **options)
    return CheckReport(name, point, tuple(rows.all()), n, m, rows.matrix)


@dataclasses.dataclass(frozen=True)
class Entries:
    """The entries of a quantity: their names, the rounding of the values in them, whose array they are."""

    label: Callable[[int], str]
    floor: np.ndarray | float = 0.0
    groups: np.ndarray | None = None


class Rows:
    """One function at one point: dualad's answers, and a row for each, with what the oracles say of it."""

    def __init__(
        self,
        engine: Engine,
        rng: np.random.Generator,
        *,
        rtol: float = 1e-7,
        atol: float = 1e-12,
        oracles: Collection[str] = ORACLES,
        skip: Mapping[str, str] | None = None,
        source: Callable | tuple[ModuleType, str] | None = None,
        progress: Callable[[str], None] | None = None,
        shared: dict[Any, Any] | None = None,
    ) -> None:
        self.engine, self.rtol, self.atol, self.oracles, self.skip = engine, rtol, atol, oracles, skip or {}
        self.progress = progress or (lambda text: None)
        n, m = engine.size, engine.out_size
        self.tangents = rng.standard_normal((LANES, n)) * engine.scale
        self.cotangents = rng.standard_normal((LANES, m))
        self.v, self.w = self.tangents[0], self.cotangents[0]
        self.u = rng.standard_normal(n) * engine.scale
        self.weights = np.ones(1) if m == 1 else rng.standard_normal(m)
        jax_f = source if callable(source) else None
        self.asked = oracles_of(engine, rng, self.progress, lambda: JaxOracle(engine, jax_f, shared))
        self.steps = rng.standard_normal((LANES, n)) * engine.scale
        self.matrix: np.ndarray | None = None

    def all(self) -> list[Row]:
        """Work through all quantities."""
        e, w, v, weights, row = self.engine, self.w, self.v, self.weights, self.row
        noise = 1e-14 * np.abs(np.nan_to_num(e.flat_value, posinf=0.0, neginf=0.0))
        by_input = lambda cotangent: float(np.abs(cotangent) @ noise) / e.scale
        tangent = lambda k: f"the tangent of {e.outs.label(k)}"
        cotangent = lambda k: f"the cotangent of {e.ins.label(k)}"
        in_lanes = lambda label, size: lambda k: f"lane {k // size}, {label(k % size)}"
        outputs = lambda label: Entries(label, noise, e.outs.groups())
        inputs = lambda label, floor: Entries(label, floor, e.ins.groups())
        entry = lambda k: f"d {e.outs.label(k // e.size)} / d {e.ins.label(k % e.size)}"
        jacobian = Entries(entry, noise[:, None] / e.scale, e.entry_groups())
        both = lambda k: f"{e.outs.label(k % e.out_size)} of {'jvp' if k < e.out_size else 'vjp'}"
        vjp_floors = np.stack([by_input(c) for c in self.cotangents])
        ask, dot, points = self.ask, self.dot, functools.cache(lambda: nearby(e, self.steps))
        value: Questions = {"numpy": lambda: Estimate(np.tile(e.flat_value, 2))}
        on_points = {
            "loop": lambda: each(points(), lambda x: Estimate(e.evaluate(x))),
            "jax": lambda: each(points(), self.asked["jax"]().value),
        }
        by_jvp = lambda: (w, e.jvp(v))
        return [
            self.explained(row("value", e.values, value, Entries(both, np.tile(noise, 2)))),
            row("jvp", partial(e.jvp, v), ask("jvp", v), outputs(tangent)),
            row("vjp", partial(e.vjp, w), ask("vjp", w) | dot(lambda g: g @ v, by_jvp), inputs(cotangent, by_input(w))),
            row("jacfwd", self.remember(e.jacfwd), ask("jacobian"), jacobian),
            row("jacrev", self.remember(e.jacrev), ask("jacobian") | dot(lambda J: (w @ J) @ v, by_jvp), jacobian),
            row(
                "hvp",
                partial(e.hvp, weights, v),
                ask("hvp", weights, v) | dot(lambda g: g @ self.u, lambda: (v, e.hvp(weights, self.u))),
                inputs(lambda k: f"H v at {e.ins.label(k)}", by_input(weights)),
                excused=lambda: self.asked["differences"]().without_second_derivative(weights, v),
            ),
            row(
                "vmap-jvp",
                partial(e.vmap_jvp, self.tangents),
                self.lanes("jvp", e.jvp, self.tangents),
                outputs(in_lanes(tangent, e.out_size)),
            ),
            row(
                "vmap-vjp",
                partial(e.vmap_vjp, self.cotangents),
                self.lanes("vjp", e.vjp, self.cotangents),
                inputs(in_lanes(cotangent, e.size), vjp_floors),
            ),
            row("vmap-value", lambda: e.vmap_value(points()), on_points, outputs(in_lanes(e.outs.label, e.out_size))),
        ]

    # -- questions ----------------------------------------------------------------------------------------------

    def ask(self, method: str, *xs: np.ndarray) -> Questions:
        """Return a question for each oracle, by name."""
        return {name: partial(_ask, made, method, *xs) for name, made in self.asked.items()}

    def lanes(self, method: str, loop: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> Questions:
        """Return questions about each of many vectors: a loop of dualad's own products comes first."""
        oracles = {name: partial(_ask, made, method) for name, made in self.asked.items()}
        asked: dict[str, Callable] = {"loop": lambda x: Estimate(loop(x)), **oracles}
        return {name: partial(each, rows, question) for name, question in asked.items()}

    def dot(
        self, project: Callable[[np.ndarray], Any], other_way: Callable[[], tuple[np.ndarray, np.ndarray]]
    ) -> Questions:
        """Return the question whether one number, worked out in two ways, is the dot product of two vectors."""

        def answer() -> Answer:
            try:
                left, right = other_way()
            except Exception as error:
                return Unavailable(f"the other side raises {type(error).__name__}")
            # The sum may cancel: rounding is relative to its terms.
            rounding = np.atleast_1d(1e-12 * (np.abs(left) @ np.abs(right)))
            return Estimate(np.atleast_1d(left @ right), rounding, project=lambda r: np.atleast_1d(project(r)))

        return {"dot": answer}

    def explained(self, row: Row) -> Row:
        """Say of a value that is not the function's which of the known reasons it looks like."""
        apart = self.engine.difference() if row.status == "mismatch" else None
        return row if apart is None else dataclasses.replace(row, message=f"{apart}\n  Instead: {apart.instead}")

    def remember(self, compute: Callable[[], np.ndarray]) -> Callable[[], np.ndarray]:
        """Keep a Jacobian for pictures."""

        def kept() -> np.ndarray:
            matrix = compute()
            self.matrix = matrix if self.matrix is None else self.matrix
            return matrix

        return kept

    # -- one row ------------------------------------------------------------------------------------------------

    def row(
        self,
        quantity: str,
        compute: Callable[[], np.ndarray],
        questions: Questions,
        entries: Entries,
        *,
        excused: Callable[[], np.ndarray] | None = None,
    ) -> Row:
        """Compute one quantity with dualad, and ask the oracles about it."""
        if quantity in self.skip:
            return Row(quantity, "skipped", message=self.skip[quantity])
        self.progress(quantity)
        start = time.perf_counter()
        try:
            with np.errstate(all="ignore"):
                result = compute()
        except Exception as error:
            return Row(quantity, "error", message=_error_words(error), seconds=time.perf_counter() - start)
        seconds = time.perf_counter() - start
        judged = np.zeros(result.shape, bool)
        outcomes = []
        for oracle in questions:
            if oracle not in self.oracles and oracle != "numpy":
                continue
            self.progress(f"{quantity}: {oracle}")
            outcome, seen, wrong = self.judge(oracle, result, questions, entries)
            if excused is not None and wrong.shape == result.shape and wrong.any() and excused()[wrong].all():
                reason = "it differs only where a kink leaves no second derivative"
                outcome, seen = dataclasses.replace(outcome, status="unavailable", reason=reason, mismatch=None), ~wrong
            outcomes.append(outcome)
            if oracle in _INDEPENDENT or _INDEPENDENT.isdisjoint(self.oracles):
                judged |= seen
        if any(outcome.status == "mismatch" for outcome in outcomes):
            return Row(quantity, "mismatch", tuple(outcomes), seconds=seconds)
        if judged.all():
            return Row(quantity, "ok", tuple(outcomes), seconds=seconds)
        if excused is not None and excused()[~judged].all():
            message = f"a kink leaves no second derivative at {int((~judged).sum())} of {judged.size} entries"
            return Row(quantity, "ok" if judged.any() else "skipped", tuple(outcomes), message, seconds)
        k = int(np.argmin(judged.ravel()))
        reasons = "; ".join(f"{o.oracle}: {o.reason}" for o in outcomes if o.reason) or "no oracle applies"
        message = (
            f"no oracle could judge {int((~judged).sum())} of {judged.size} entries, for example {entries.label(k)} = "
            f"{result.ravel()[k]:.6g} ({reasons})"
        )
        return Row(quantity, "unchecked", tuple(outcomes), message, seconds)

    def judge(
        self,
        oracle: str,
        result: np.ndarray,
        questions: Questions,
        entries: Entries,
    ) -> tuple[Outcome, np.ndarray, np.ndarray]:
        """Ask one oracle; return its outcome, the entries it judged and (of the result or its projection) the wrong."""
        start = time.perf_counter()
        nothing = np.zeros(result.shape, bool)

        def unavailable(reason: str, total: int = 0, seen: np.ndarray = nothing) -> tuple:
            seconds = time.perf_counter() - start
            return Outcome(oracle, "unavailable", reason=reason, total=total, seconds=seconds), seen, nothing

        with np.errstate(all="ignore"):
            answer = questions[oracle]()
            if isinstance(answer, Unavailable):
                return unavailable(answer.reason)
            outcome = compare(
                result, answer, rtol=self.rtol, atol=self.atol, floor=entries.floor, groups=entries.groups
            )
            if outcome.worst is not None and oracle == "complex-step":
                doubt = self.doubt_complex_step(answer, outcome.wrong, questions["differences"])
                if doubt:
                    return unavailable(doubt)
        seconds = time.perf_counter() - start
        count, total = int(outcome.judged.sum()), outcome.judged.size
        if total and not count:
            return unavailable(answer.note or "it gives NaN here", total)
        seen = outcome.judged if answer.project is None else np.full(result.shape, outcome.judged.all())
        note = answer.note
        if count < total:
            note = "; ".join(filter(None, [note, f"judged {count} of {total} entries"]))
        bad = None
        if outcome.worst is not None:
            if self.rescued(oracle, outcome.wrong, result, answer, questions):
                reason = "it takes another slope at a kink, where any slope between the one-sided ones is right"
                return unavailable(reason, total, seen & ~outcome.wrong)
            entry = entries.label(outcome.worst) if answer.project is None else f"random product {outcome.worst}"
            bad = Mismatch(entry, outcome.got, outcome.expected, outcome.tolerance, int(outcome.wrong.sum()))
        status = "ok" if bad is None else "mismatch"
        return Outcome(oracle, status, outcome.max_error, note, bad, count, total, seconds), seen, outcome.wrong

    def rescued(self, oracle: str, wrong: np.ndarray, result: np.ndarray, answer: Estimate, asked: Questions) -> bool:
        """Whether an oracle disagrees only at kinks, with a result between the one-sided slopes."""
        if oracle not in {"jax", "complex-step"} or "differences" not in asked or answer.project is not None:
            return False
        slopes = asked["differences"]()
        if isinstance(slopes, Unavailable) or slopes.low is None or slopes.project is not None:
            return False
        outcome = compare(result, slopes, rtol=self.rtol, atol=self.atol)
        return bool((~outcome.wrong & (slopes.low < slopes.high))[wrong].all())

    def doubt_complex_step(self, answer: Estimate, wrong: np.ndarray, ask: Callable[[], Answer]) -> str:
        """Say why the complex step may not contradict dualad here; nothing if it may."""
        second = ask()
        if isinstance(second, Unavailable):
            return f"it disagrees, but nothing shows that the code is complex-analytic ({second.reason})"
        check = compare(answer.value, Estimate(second.value, second.error, second.settled), rtol=1e-5, atol=self.atol)
        if check.worst is not None:
            at = np.unravel_index(check.worst, answer.value.shape)
            return (
                "the code is not complex-analytic (abs, conj, .real, norm, a comparison): "
                f"{answer.value[at]:.6g} where differences have {second.value[at]:.6g}"
            )
        if not check.judged[wrong].all():
            return "it disagrees where differences do not settle, so nothing shows that the code is complex-analytic"
        return ""


def _ask(made: Callable[[], Any], method: str, *xs: np.ndarray) -> Answer:
    return getattr(made(), method)(*xs)


def _error_words(error: Exception) -> str:
    """Return an exception's words, and the user's line it came from."""
    last = users_line_of(error)
    text = str(error) if isinstance(error, DualadError) else f"{type(error).__name__}: {error}"
    return f"{text}\n  at {last.filename}:{last.lineno}: {last.line}" if is_users(last.filename) else text


def oracles_of(
    function: RealFunction, rng: np.random.Generator, progress: Callable[[str], None], jax: Callable[[], JaxOracle]
) -> Mapping[str, Callable[[], Any]]:
    """Return the oracles by name, each to be called for: JAX is started by the first question only."""
    directions = rng.standard_normal((_DIRECTIONS, function.size)) * function.scale
    columns = partial(differences.jacobian, scale=function.scale, progress=progress)
    makers: dict[str, Callable[[], Any]] = {
        "jax": jax,
        "differences": lambda: ByValues(function, differences, columns, directions),
        "complex-step": lambda: ByValues(function, complex_step, complex_step.jacobian, directions),
    }
    return {name: cache(make) for name, make in makers.items()}


class ByValues:
    """An oracle that knows nothing but the function's values, by a method: `differences` or `complex_step`.

    ``columns`` is the method's Jacobian; ``directions`` stand for its columns where it is large.
    """

    def __init__(self, function: RealFunction, method: ModuleType, columns: Callable, directions: np.ndarray) -> None:
        self.function, self.method, self.columns, self.directions = function, method, columns, directions
        self.known: dict[Any, Answer] = {}
        self.trouble: Unavailable | None = None
        if method is complex_step and (function.ins.complex or function.outs.complex):
            self.trouble = Unavailable("the function itself takes or returns complex numbers")

    def _once(self, key: Any, question: Callable[[], Answer], project: Callable | None = None) -> Answer:
        """Ask a question that was not asked before; on request the answer is about products with the directions."""
        if key not in self.known:
            answer = self.trouble or question()
            if project is not None and isinstance(answer, Estimate):
                note = f"{_DIRECTIONS} random products instead of all {self.function.size} columns"
                answer = Estimate(answer.value, answer.error, answer.settled, project=project, note=note)
            self.known[key] = answer
        return self.known[key]

    def jvp(self, v: np.ndarray) -> Answer:
        """Return J v."""
        f = self.function
        return self._once(v.tobytes(), lambda: self.method.derivative(f.evaluate, f.x, v))

    def vjp(self, w: np.ndarray) -> Answer:
        """Return Jᵀ w."""
        return pull_back(self.jacobian(), w)

    def jacobian(self) -> Answer:
        """Return the whole Jacobian or, of a large one, its products with random directions."""
        f = self.function
        if f.size <= _COLUMN_LIMIT:
            return self._once("J", lambda: self.columns(f.evaluate, f.x))
        along = lambda: each(self.directions, self.jvp, axis=1)
        return self._once("J", along, lambda J: J @ self.directions.T)

    def hvp(self, w: np.ndarray, v: np.ndarray) -> Answer:
        """Return the Hessian of ``w · f`` times v, or its products with a few random directions."""
        f, weights, key = self.function, self.function.outs.split(w), (w.tobytes(), v.tobytes())
        curvature = partial(self.method.second_derivative, lambda x: f.scalar(weights, f.ins.split(x)), f.x, v)
        if f.size > _SECOND_LIMIT:
            return self._once(key, lambda: curvature(self.directions), lambda g: self.directions @ g)
        answer = self._once(key, lambda: curvature(np.diag(f.scale)))
        return answer if isinstance(answer, Unavailable) else scale_answer(answer, 1.0 / f.scale)

    def without_second_derivative(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the mask of inputs along which the slope jumps, so that second differences do not settle."""
        slopes, curvature = self.jacobian(), self.hvp(w, v)
        nowhere = np.zeros(self.function.size, bool)
        if isinstance(slopes, Unavailable) or slopes.low is None or slopes.high is None or slopes.project is not None:
            return nowhere
        kinks = np.any(slopes.low < slopes.high, axis=0)
        if isinstance(curvature, Unavailable):
            return kinks
        return nowhere if curvature.project is not None or curvature.settled is None else kinks & ~curvature.settled


def nearby(f: RealFunction, steps: np.ndarray) -> np.ndarray:
    """Return distinct points near the declared one, which is the first, at which the function has finite values."""
    for size in (1e-2, 1e-5):
        rows = f.x + size * steps
        rows[0] = f.x
        try:
            values = [f.evaluate(row) for row in rows]
        except Exception:
            continue
        if all(np.isfinite(value).all() for value in values):
            return rows
    return np.tile(f.x, (len(steps), 1))
