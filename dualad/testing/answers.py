"""The oracles of one function at one point, all asked in the same way: `value`, `jvp`, `vjp`, `jacobian`, `hvp`.

`ByValues` evaluates the function (central differences, complex steps), `JaxOracle` runs it in JAX. Each answer is
worked out once. Large Jacobians are asked for by products with a few random directions instead of column by column.

Not for comparing answers with results (`check.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from . import complex_step, differences
from .estimate import Answer, Estimate, Unavailable, each, scaled, weighted
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
    by: Callable = partial(ByValues, function, directions=directions, progress=progress)
    makers: dict[str, Callable[[], Any]] = {
        "jax": jax,
        "differences": partial(by, "differences"),
        "complex-step": partial(by, "complex-step"),
    }
    return {name: cache(make) for name, make in makers.items()}


class ByValues:
    """An oracle that knows nothing but the function's values: central ``"differences"``, or the ``"complex-step"``.

    ``directions`` stand for the columns of a large Jacobian; ``progress`` is told a line of text during long work.
    """

    def __init__(
        self, function: RealFunction, name: str, directions: np.ndarray, progress: Callable[[str], None]
    ) -> None:
        self.function, self.name, self.directions, self.progress = function, name, directions, progress
        self.known: dict[bytes, Answer] = {}
        is_real = name == "differences" or not function.has_complex
        self.trouble = None if is_real else Unavailable("the function itself takes or returns complex numbers")

    def jvp(self, v: np.ndarray) -> Answer:
        """Return J v."""
        f = self.function
        if self.trouble:
            return self.trouble
        if self.name == "complex-step":
            return complex_step.derivative(f.evaluate, f.x, v)
        if v.tobytes() not in self.known:
            self.known[v.tobytes()] = differences.derivative(f.evaluate, f.x, v, value=f.flat_value)
        return self.known[v.tobytes()]

    def vjp(self, w: np.ndarray) -> Answer:
        """Return Jᵀ w."""
        return weighted(self.jacobian(), w)

    def jacobian(self) -> Answer:
        """Return the whole Jacobian or, of a large one, its products with random directions."""
        return self._jacobian

    @cached_property
    def _jacobian(self) -> Answer:
        f = self.function
        if self.trouble:
            return self.trouble
        if f.size > _COLUMN_LIMIT:
            answer = each(self.directions, self.jvp, axis=1)
            return self._projected(answer, lambda J: J @ self.directions.T, "columns")
        if self.name == "complex-step":
            return complex_step.jacobian(f.evaluate, f.x)
        return differences.jacobian(f.evaluate, f.x, f.scale, progress=self.progress)

    def hvp(self, w: np.ndarray, v: np.ndarray) -> Answer:
        """Return the Hessian of ``w · f`` times v, or its products with a few random directions."""
        f = self.function
        if self.trouble:
            return self.trouble
        few = f.size <= _SECOND_LIMIT
        answer = self.curvature(w, v, np.diag(f.scale) if few else self.directions)
        if isinstance(answer, Unavailable) or few:
            return answer if isinstance(answer, Unavailable) else scaled(answer, 1.0 / f.scale)
        return self._projected(answer, lambda g: self.directions @ g, "columns")

    def curvature(self, w: np.ndarray, v: np.ndarray, directions: np.ndarray) -> Answer:
        """Return uᵀ H v for the Hessian H of ``w · f`` and each row u of ``directions``."""
        f = self.function
        key = b"".join(x.tobytes() for x in (w, v, directions))
        if key not in self.known:
            weights, method = f.outs.split(w), differences if self.name == "differences" else complex_step
            scalar = lambda x: f.scalar(weights, f.ins.split(x))
            self.known[key] = self.trouble or method.second_derivative(scalar, f.x, v, directions)
        return self.known[key]

    def _projected(self, answer: Answer, project: Callable, of_what: str) -> Answer:
        if isinstance(answer, Unavailable):
            return answer
        note = f"{_DIRECTIONS} random products instead of all {self.function.size} {of_what}"
        return Estimate(answer.value, answer.error, answer.settled, project=project, note=note)

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
