"""Central differences with Richardson extrapolation: the oracle that knows nothing but the function's values.

First and second derivatives along directions, each with an error estimate per entry; kinks are noticed (the two
one-sided slopes do not meet) and reported as an interval instead of a number. A function takes a vector of R^n and
returns one of R^m; an exception or a NaN at one step only discards that step. A direction v is a natural change of the
point x: a step of 4 % of it should be small and visible. The answer is an `Estimate`, or `Unavailable` with a reason.

Not for speed, and not for functions with noise: there the estimate says that it did not settle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from dualad.errors import ShapeError

from .estimate import Answer, Estimate, Unavailable, scale_answer, stack, value_at

__all__ = ["along_each", "derivative", "jacobian", "second_derivative"]

_EPS = float(np.finfo(np.float64).eps)
_FIRST_STEP = 0.0437  # no round number: a step that is a period of the function would see nothing
_RATIO = 2.0

Vector = np.ndarray
Function = Callable[[Vector], Vector]


def derivative(
    f: Function, x: Vector, v: Vector, *, value: Vector | None = None, step: float | None = None
) -> Estimate | Unavailable:
    """Estimate the derivative of `f` at `x` along `v`, shape (m,); ``value`` is ``f(x)``, if known.

    With a ``step`` it is the one central difference between f(x ± step·v), whose error is not known.

    Examples
    --------
    >>> answer = da.testing.differences.derivative(np.sin, np.array([0.5]), np.array([1.0]))
    >>> bool(abs(answer.value[0] - np.cos(0.5)) < 1e-9)
    True
    """
    middle = value_at(f, x) if value is None else value
    if isinstance(middle, Unavailable):
        return Unavailable(f"the function raises at the point itself: {middle.reason}")

    def slope(h: float) -> tuple[Vector, Vector]:
        up, down = f(x + h * v), f(x - h * v)
        return (up - down) / (2 * h), _EPS * (np.abs(up) + np.abs(down) + np.abs(middle)) / h

    try:
        found = _richardson(slope, levels=17) if step is None else value_at(slope, step)
    except ShapeError as changed:
        return Unavailable(changed.what)
    if isinstance(found, Unavailable):
        return Unavailable(f"the function raises on one side of the point: {found.reason}")
    best, error = found
    if step is not None:
        return Estimate(best)
    magnitude = np.abs(middle[np.isfinite(middle)]).max(initial=0.0)
    size = np.maximum(np.abs(best), 1e-3 * np.abs(best[np.isfinite(best)]).max(initial=0.0))
    size = np.maximum(size, 1e-6 * magnitude)
    settled = np.isfinite(best) & (error <= 1e-4 * size + 1e-280)
    low, high, kinks = _one_sided(f, x, v, middle, size)
    settled = settled | kinks
    if not settled.any():
        worst = float(np.nanmin(error)) if np.isfinite(error).any() else np.inf
        return Unavailable(f"the differences do not settle (estimated error {worst:.1g}: noise, jumps or a boundary)")
    note = "some entries are at a kink, where any slope between the one-sided ones is right" if kinks.any() else ""
    return Estimate(best, np.where(kinks, 0.0, error), settled, low, high, note=note)


def jacobian(
    f: Function, x: Vector, scale: Vector, *, progress: Callable[[str], None] | None = None
) -> Estimate | Unavailable:
    """Estimate the (m, n) Jacobian of `f` at `x`, a column at a time; ``scale`` is a natural change of each input.

    ``progress`` is called with a line of text before each column.

    Examples
    --------
    >>> da.testing.differences.jacobian(lambda x: x * x, np.array([1.0, 3.0]), np.ones(2)).value.round(6)
    array([[2., 0.],
           [0., 6.]])
    """
    middle = f(x)
    columns: list[Answer] = []
    for j in range(x.size):
        if progress is not None:
            progress(f"central differences, column {j + 1} of {x.size}")
        columns.append(derivative(f, x, np.where(np.arange(x.size) == j, scale, 0.0), value=middle))
    known = [c for c in columns if isinstance(c, Estimate)]
    if not any(c.settled is not None and c.settled.any() for c in known):
        reasons = [c.reason for c in columns if isinstance(c, Unavailable)]
        return Unavailable(reasons[0] if reasons else "there is nothing to differentiate")
    nothing = Estimate(np.full(middle.shape, np.nan), None, np.zeros(middle.shape, bool))
    return scale_answer(stack([c if isinstance(c, Estimate) else nothing for c in columns], axis=1), 1.0 / scale)


def second_derivative(f: Callable[[Vector], float], x: Vector, v: Vector, directions: Vector) -> Estimate | Unavailable:
    """Estimate the second derivatives uᵀ H v of a scalar `f` at `x`, for each row u of ``directions``, shape (k,).

    Examples
    --------
    >>> f = lambda x: x[0] ** 2 * x[1]
    >>> x = np.array([1.0, 2.0])
    >>> da.testing.differences.second_derivative(f, x, np.array([1.0, 0.0]), np.eye(2)).value.round(6)
    array([4., 2.])
    """
    scalar = lambda y: np.atleast_1d(np.asarray(f(y), np.float64))
    middle = value_at(scalar, x)
    if isinstance(middle, Unavailable):
        return Unavailable(f"the function raises at the point itself: {middle.reason}")

    def curvature(u: Vector, h: float) -> tuple[Vector, Vector]:
        a, b, c, d = [scalar(x + h * (s * u + t * v)) for s, t in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
        noise = _EPS * (np.abs(a) + np.abs(b) + np.abs(c) + np.abs(d) + np.abs(middle)) / (4 * h * h)
        return (a - b - c + d) / (4 * h * h), noise

    found = along_each(directions, curvature, levels=11)
    if isinstance(found, Unavailable):
        return Unavailable(f"the function raises beside the point: {found.reason}")
    value, error = found
    size = np.maximum(np.abs(value), 1e-2 * np.abs(value[np.isfinite(value)]).max(initial=0.0))
    settled = np.isfinite(value) & (error <= 1e-3 * np.maximum(size, 1e-4 * np.abs(middle).max()) + 1e-280)
    if not settled.any():
        smallest = float(np.nanmin(error)) if np.isfinite(error).any() else np.inf
        return Unavailable(f"the second differences do not settle (estimated error {smallest:.1g}: a kink, or noise)")
    return Estimate(value, np.where(settled, error, 0.0), settled)


def _richardson(estimate: Callable[[float], tuple[Vector, Vector]], levels: int) -> tuple[Vector, Vector] | Unavailable:
    """Extrapolate an estimate with an even error expansion to step zero; keep the best entry of the whole table.

    `estimate` gives the value at a step and its rounding noise, or raises there. The error of a table entry is how far
    it moved from its two parents (Ridders), never less than the noise.
    """
    best = error = np.zeros(0)
    previous: list[Vector] = []
    trouble: Unavailable | None = None
    started = False
    for level in range(levels):
        h = _FIRST_STEP / _RATIO**level
        found = value_at(estimate, h)
        if isinstance(found, Unavailable):
            previous, trouble = [], found
            continue
        row, noise = [found[0]], found[1]
        if not started:
            started = True
            best, error = np.array(row[0], np.float64), np.full(row[0].shape, np.inf)
        with np.errstate(all="ignore"):
            for order, above in enumerate(previous, start=1):
                row.append(row[-1] + (row[-1] - above) / (_RATIO ** (2 * order) - 1))
                moved = np.maximum(np.abs(row[-1] - row[-2]), np.abs(row[-1] - above)) + noise
                better = moved < error
                best, error = np.where(better, row[-1], best), np.where(better, moved, error)
            previous = row
            if level >= 4 and (error <= 1e-11 * np.abs(best) + noise).all():
                break
    return (best, error) if started or trouble is None else trouble


def along_each(
    directions: Vector, estimate: Callable[[Vector, float], tuple[Vector, Vector]], levels: int
) -> tuple[Vector, Vector] | Unavailable:
    """Extrapolate one number, ``estimate(direction, step)``, for each direction; give up where one has none."""
    found = []
    for u in directions:
        best = _richardson(partial(estimate, u), levels)
        if isinstance(best, Unavailable):
            return best
        found.append((best[0][0], best[1][0]))
    return np.array([value for value, _ in found]), np.array([error for _, error in found])


def _one_sided(f: Function, x: Vector, v: Vector, middle: Vector, size: Vector) -> tuple[Vector, Vector, np.ndarray]:
    """Find entries whose forward and backward slopes do not meet as the step shrinks: kinks.

    Returns the lower and the upper slope (NaN where there is no kink) and the mask of kinks.
    """
    steps = (1e-4, 1e-5, 1e-6)
    slopes = value_at(lambda y: [((f(y + h * v) - middle) / h, (middle - f(y - h * v)) / h) for h in steps], x)
    if isinstance(slopes, Unavailable):
        nothing = np.full(middle.shape, np.nan)
        return nothing, nothing, np.zeros(middle.shape, bool)
    with np.errstate(all="ignore"):
        gaps = [np.abs(up - down) for up, down in slopes]
        noise = 64 * _EPS * np.abs(middle) / steps[-1]
        # A smooth function's gap shrinks tenfold with the step; a kink's stays.
        kinks = (gaps[2] > 0.9 * gaps[0]) & (gaps[2] < 1.1 * gaps[0]) & (gaps[2] > 1e-5 * size) & (gaps[2] > 20 * noise)
    low = np.where(kinks, np.minimum(*slopes[2]), np.nan)
    high = np.where(kinks, np.maximum(*slopes[2]), np.nan)
    return low, high, kinks
