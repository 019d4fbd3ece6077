"""What each oracle answers about one function at one point, worked out at most once, in the shape of dualad's results.

Large Jacobians are asked for by their products with a few random directions instead of column by column.

Not for comparing answers with results, and not for wording the report.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from . import complex_step, differences
from .estimate import Answer, Estimate, Unavailable, each
from .jax_oracle import JaxOracle
from .real_function import RealFunction

__all__ = ["Answers", "LANES"]

LANES = 3
_DIRECTIONS = 4
_COLUMN_LIMIT = 100
_SECOND_LIMIT = 40


class Answers:
    """The oracles of one function at one point; `rng` is for random directions.

    ``source`` and ``shared`` are those of `check_function`; ``progress`` is told a line of text during long work.
    """

    def __init__(
        self,
        function: RealFunction,
        rng: np.random.Generator,
        source: tuple[ModuleType, str] | Callable | None,
        progress: Callable[[str], None],
        shared: dict[Any, Any] | None,
    ) -> None:
        self.function, self.source, self.progress, self.shared = function, source, progress, shared
        self.x, self.scale = function.x, function.scale
        self.directions = rng.standard_normal((_DIRECTIONS, function.size)) * self.scale
        self.wiggle = rng.standard_normal((LANES, function.size)) * self.scale
        self.known: dict[str, Any] = {}

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """Work out an answer the first time it is asked for."""
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    def jax(self) -> JaxOracle:
        """Return JAX's oracle, with the module loaded a second time."""
        return self.once("jax", lambda: JaxOracle(self.function, self.source, self.shared))

    def difference(self, v: np.ndarray) -> Answer:
        """Return J v by central differences."""
        f = self.function
        return self.once(
            f"difference {v.tobytes()!r}", lambda: differences.derivative(f.evaluate, self.x, v, value=f.flat_value)
        )

    def difference_jacobian(self) -> Answer:
        """Return the Jacobian by central differences, or its products with random directions."""
        f = self.function
        whole = lambda: differences.jacobian(f.evaluate, self.x, self.scale, progress=self.progress)
        return self.jacobian("differences", whole, self.difference)

    def complex(self, v: np.ndarray) -> Answer:
        """Return J v by a complex step."""
        f = self.function
        if f.has_complex:
            return Unavailable("the function itself takes or returns complex numbers")
        return complex_step.derivative(f.evaluate, self.x, v)

    def complex_jacobian(self) -> Answer:
        """Return the Jacobian by complex steps, or its products with random directions."""
        f = self.function
        if f.has_complex:
            return Unavailable("the function itself takes or returns complex numbers")
        return self.jacobian("complex", lambda: complex_step.jacobian(f.evaluate, self.x), self.complex)

    def jacobian(self, key: str, whole: Callable[[], Answer], along: Callable[[np.ndarray], Answer]) -> Answer:
        """Return the whole Jacobian or, of a large one, its products with random directions."""
        return self.once(key, whole if self.function.size <= _COLUMN_LIMIT else lambda: self.products(along))

    def products(self, derivative: Callable[[np.ndarray], Answer]) -> Answer:
        """Return a large Jacobian's products with a few random directions."""
        answer = each(self.directions, derivative, axis=1)
        if isinstance(answer, Unavailable):
            return answer
        note = f"{_DIRECTIONS} random products instead of all {self.function.size} columns"
        return Estimate(answer.value, answer.error, answer.settled, project=lambda J: J @ self.directions.T, note=note)

    def curvature(self, second_derivative: Callable[..., Answer], w: np.ndarray, v: np.ndarray) -> Answer:
        """Return uᵀ H v for every input's direction u, or for a few random ones."""
        f, few = self.function, self.function.size <= _SECOND_LIMIT
        directions = np.diag(self.scale) if few else self.directions
        weights = f.outs.split(w)
        answer = self.once(
            f"curvature {second_derivative.__module__}",
            lambda: second_derivative(lambda x: f.scalar(weights, f.ins.split(x)), self.x, v, directions),
        )
        if isinstance(answer, Unavailable):
            return answer
        if few:
            error = None if answer.error is None else answer.error / self.scale
            return Estimate(answer.value / self.scale, error, answer.settled)
        note = f"{_DIRECTIONS} random products instead of all {f.size} columns"
        return Estimate(answer.value, answer.error, answer.settled, project=lambda g: directions @ g, note=note)

    def complex_curvature(self, w: np.ndarray, v: np.ndarray) -> Answer:
        """Return the Hessian times v by complex steps and differences."""
        if self.function.has_complex:
            return Unavailable("the function itself takes or returns complex numbers")
        return self.curvature(complex_step.second_derivative, w, v)

    def without_second_derivative(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the inputs along which the slope jumps, so that second differences do not settle."""
        slopes, curvature = self.difference_jacobian(), self.curvature(differences.second_derivative, w, v)
        nowhere = np.zeros(self.function.size, bool)
        if isinstance(slopes, Unavailable) or slopes.low is None or slopes.high is None or slopes.project is not None:
            return nowhere
        kinks = np.any(slopes.low < slopes.high, axis=0)
        if isinstance(curvature, Unavailable):
            return kinks
        return nowhere if curvature.project is not None or curvature.settled is None else kinks & ~curvature.settled

    def dot(
        self, project: Callable[[np.ndarray], Any], other_way: Callable[[], tuple[np.ndarray, np.ndarray]]
    ) -> Answer:
        """Compare one number that dualad can work out in two ways: here as the dot product of two vectors."""
        try:
            left, right = other_way()
        except Exception as error:
            return Unavailable(f"the other side raises {type(error).__name__}")
        # The sum may cancel: rounding is relative to its terms.
        rounding = np.atleast_1d(1e-12 * (np.abs(left) @ np.abs(right)))
        return Estimate(np.atleast_1d(left @ right), rounding, project=lambda r: np.atleast_1d(project(r)))

    def points(self) -> np.ndarray:
        """Return three distinct points near the declared one at which the function has finite values."""
        f = self.function

        def make() -> np.ndarray:
            for size in (1e-2, 1e-5):
                rows = self.x + size * self.wiggle
                rows[0] = self.x
                try:
                    values = [f.evaluate(row) for row in rows]
                except Exception:
                    continue
                if all(np.isfinite(value).all() for value in values):
                    return rows
            return np.tile(self.x, (LANES, 1))

        return self.once("points", make)
