"""Sums over directions, pushed through a function at the highest degree.

Along many directions at once the coefficients of degrees 1 to K − 1 have a lane for each direction. Those of degree K
are only wanted in sum, and everything of degree K is linear in what has degree K before it: so the sum over lanes is
taken as soon as they arise, and what is pushed on is one array. Not for: which directions (``directional.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..batched import Batched, BatchLevel
from ..ops.kinds import is_finite

__all__ = ["Collapse"]


class Collapse:
    """What is done to coefficients: those of degree ``order`` become weighted sums over the lanes of a level."""

    __slots__ = ("lanes", "order", "weights")

    def __init__(self, lanes: BatchLevel, order: int, weights: np.ndarray | None) -> None:
        self.lanes, self.order, self.weights = lanes, order, weights

    def __call__(self, c: Any, degree: int) -> Any:
        """Return a coefficient of a degree, summed if it is the highest one, and in one lane if it is the lowest.

        A value has no direction; where a program gives it lanes with all its results, they are equal.
        """
        if degree not in (0, self.order) or not self._has_lanes(c):
            return c
        if degree == 0:
            return c._value[0]
        return np.sum(c._value, 0) if self.weights is None else np.tensordot(self._weights(c), c._value, 1)

    def product(self, x: Any, y: Any, degree: int) -> Any:
        """Return Σ xᵣ yᵣ without the products in between; ``None`` where they are to be looked at one by one."""
        if degree != self.order or not (self._has_lanes(x) and self._has_lanes(y)):
            return None
        a, b = x._value, y._value
        if np.shape(a) != np.shape(b):
            return None
        if self.weights is None:
            total = np.einsum("r...,r...->...", a, b)
        else:
            total = np.einsum("r,r...,r...->...", self._weights(x), a, b)
        return total if is_finite(total) else None  # an infinity or a NaN in a factor is one in the sum

    def spread(self, c: Any, degree: int) -> Any:
        """Undo the sum for an input of a program, where it may lie in any lane."""
        if degree != self.order or c is None or self._has_lanes(c):
            return c
        if self.weights is None:
            scale = np.eye(1, self.lanes.size)[0]
        else:  # the lane of the largest weight: others may have none
            first = int(np.argmax(np.abs(self.weights)))
            scale = np.eye(1, self.lanes.size, first)[0] / self.weights[first]
        lanes = scale.astype(c.dtype).reshape(-1, *(1,) * np.ndim(c))
        return Batched(lanes * c, self.lanes)

    def _has_lanes(self, c: Any) -> bool:
        return type(c) is Batched and c.level is self.lanes

    def _weights(self, c: Any) -> Any:
        return self.weights.astype(c.dtype)  # type: ignore[union-attr]
