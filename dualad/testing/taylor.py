"""The Taylor remainder test: f(x + hv) minus its expansion must shrink like the first power that was left out.

With derivatives up to order k the remainder is O(h^(k+1)); one wrong derivative leaves a lower power, which shows in
the rate at which halving h makes it smaller. Not for entry-by-entry comparison (`differences`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .estimate import Unavailable, value_at

__all__ = ["Remainders", "expansion_test"]

_EPS = float(np.finfo(np.float64).eps)
_FIRST_STEP = 0.0437
_LEVELS = 13
_CLEAR = 30.0  # times the rounding: what counts as a remainder


@dataclass(frozen=True, eq=False)
class Remainders:
    """A table of Taylor remainders."""

    #: the steps h, shape (s,), each half of the one before
    steps: np.ndarray
    #: the remainder of the expansion to order 0, 1, … k, shape (k + 1, s), the largest over all entries, relative to
    #: how much each entry moves over the first step
    sizes: np.ndarray
    #: the rounding of the values, in the same units
    noise: np.ndarray

    @property
    def order(self) -> int:
        """The order of the longest expansion."""
        return len(self.sizes) - 1

    def rates(self, order: int) -> np.ndarray:
        """Return the observed powers of h, shape (s - 1,); NaN where the remainder is rounding."""
        r, noise = self.sizes[order], _CLEAR * self.noise
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = np.log2(r[:-1] / r[1:])
        return np.where((r[1:] > noise[1:]) & (r[:-1] > noise[:-1]), rates, np.nan)

    def reaches(self, order: int) -> bool:
        """Whether the remainder to an order shrinks with the next power of h, or is nothing but rounding."""
        seen = self.rates(order)
        seen = seen[~np.isnan(seen)][-3:]
        return bool(seen.size == 0 or np.median(seen) > order + 0.5)

    @property
    def ok(self) -> bool:
        """Whether the remainder of the longest expansion is of its order."""
        return bool(np.isfinite(self.sizes).all()) and self.reaches(self.order)

    def __str__(self) -> str:
        titles = "".join(f"{f'to order {k}':>14}{'rate':>7}" for k in range(self.order + 1))
        lines = [f"{'h':>10}{titles}"]
        rates = [np.concatenate([[np.nan], self.rates(k)]) for k in range(self.order + 1)]
        for i, h in enumerate(self.steps):
            cells = "".join(
                f"{self.sizes[k][i]:>14.3e}{'' if np.isnan(rates[k][i]) else format(rates[k][i], '.2f'):>7}"
                for k in range(self.order + 1)
            )
            lines.append(f"{h:>10.2e}{cells}")
        expected = "".join(f"{'expected':>14}{k + 1:>7}" for k in range(self.order + 1))
        return "\n".join([*lines, f"{'':>10}{expected}"])


def expansion_test(
    f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, v: np.ndarray, derivatives: Sequence[np.ndarray]
) -> Remainders:
    """Tabulate the Taylor remainders of a function from (n,) to (m,) along a direction, a natural change of the point.

    The derivatives are those of f(x + hv) in h at 0, of order 0 (the value), 1, … k, each of shape (m,).
    """
    steps: list[float] = []
    values: list[np.ndarray] = []
    for step in _FIRST_STEP / 2.0 ** np.arange(_LEVELS):
        value = value_at(f, x + step * v)
        if isinstance(value, Unavailable):  # outside the function's domain: a smaller step may be inside
            steps.clear()
            values.clear()
            continue
        values.append(value)
        steps.append(float(step))
    if not steps:
        nothing = np.full(1, np.inf)
        return Remainders(np.full(1, _FIRST_STEP), np.tile(nothing, (len(derivatives), 1)), nothing)
    F = np.stack(values)
    h: np.ndarray = np.array(steps)
    terms = np.stack([np.multiply.outer(h**k / math.factorial(k), d) for k, d in enumerate(derivatives)])
    # An entry counts by how much it moves, so that a wrong small one cannot hide beside a right large one.
    moved = np.maximum(np.abs(F[0] - derivatives[0]), np.abs(terms[1:, 0]).max(axis=0, initial=0.0))
    rounding = 4 * _EPS * np.maximum(np.abs(F), np.abs(derivatives[0]))
    unit = np.where(moved > rounding.max(axis=0), moved, np.maximum(rounding.max(axis=0), 1e-300))
    sizes = np.abs(F - np.cumsum(terms, axis=0)) / unit
    return Remainders(h, sizes.max(axis=-1, initial=0.0), (rounding / unit).max(axis=-1, initial=_EPS))
