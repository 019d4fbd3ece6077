"""The oracles of one function at one point, all asked in the same way: `value`, `jvp`, `vjp`, `jacobian`, `hvp`.

`ByValues` evaluates the function (central differences, complex steps), `JaxOracle` runs it in JAX. Each answer is
worked out once. Large Jacobians are asked for by products with a few random directions instead of column by column.

Not for comparing answers with results (`rows.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from . import complex_step, differences
from .estimate import Answer, Estimate, Unavailable, each, pull_back, scale_answer
from .jax_oracle import JaxOracle
from .real_function import RealFunction

__all__ = ["ByValues", "LANES", "nearby", "oracles_of"]

LANES = 3
_DIRECTIONS = 4
_COLUMN_LIMIT = 100
_SECOND_LIMIT = 40


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
