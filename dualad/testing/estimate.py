"""What an oracle answers: numbers with an error bar, or the reason why it has none; and the comparison with a result.

The comparison is entry by entry, so that a wrong small entry cannot hide beside a right large one. Its tolerance has
four parts: what the caller allows, rounding relative to the largest entry, rounding of the function's own values, and
the oracle's error estimate.

Not for computing derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Comparison", "Estimate", "Unavailable", "compare", "contracted", "scaled", "stacked"]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Unavailable:
    """An oracle could not run.

    Attributes
    ----------
    reason : str
        Why, in one line.
    """

    reason: str


@dataclass(frozen=True, eq=False)
class Estimate:
    """An oracle's answer.

    Attributes
    ----------
    value : ndarray of float
        The answer.
    error : ndarray of float or None
        Its estimated absolute error, entry by entry; None where it is exact up to rounding.
    settled : ndarray of bool or None
        Entries where the answer can be relied on; None means all.
    low, high : ndarray of float or None
        One-sided slopes, where the function has a kink: any number between them is a right answer.
    project : callable or None
        What to do to a result before comparing (an answer for a few random directions of a large Jacobian).
    note : str
        A remark for the report.
    """

    value: np.ndarray
    error: np.ndarray | None = None
    settled: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    project: Callable[[np.ndarray], np.ndarray] | None = None
    note: str = ""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The outcome of comparing a result with an estimate.

    Attributes
    ----------
    wrong : ndarray of bool
        Entries outside the tolerance.
    judged : ndarray of bool
        Entries that could be compared at all.
    max_error : float
        The largest difference among judged entries, relative to the largest reference entry of its group.
    worst : int or None
        Flat index of the entry that exceeds its tolerance most, None if none does.
    got, expected, tolerance : float
        The numbers at that entry.
    at_kinks : int
        Entries accepted because they lie between one-sided slopes.
    """

    wrong: np.ndarray
    judged: np.ndarray
    max_error: float
    worst: int | None
    got: float
    expected: float
    tolerance: float
    at_kinks: int


def compare(
    result: np.ndarray,
    estimate: Estimate,
    *,
    rtol: float,
    atol: float,
    floor: np.ndarray | float = 0.0,
    groups: np.ndarray | None = None,
) -> Comparison:
    """Compare a result with an oracle's answer, entry by entry.

    Parameters
    ----------
    result : ndarray of float
        What is to be judged; it is projected first if the estimate says so.
    estimate : Estimate
        The oracle's answer, of the same shape.
    rtol, atol : float
        Allowed relative and absolute error.
    floor : ndarray or float
        Rounding noise of the function itself, entry by entry (ignored for projected estimates).
    groups : ndarray of int, optional
        Entries of one group (one array of the user's) are rounded relative to the largest of the group; without
        groups, to the largest of all (and so for projected estimates).

    Returns
    -------
    Comparison
        Entries outside the tolerance, entries that could be judged, the largest error.

    Raises
    ------
    ValueError
        When the shapes differ.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing.estimate import Estimate, compare
    >>> outcome = compare(np.array([1.0, 2.1]), Estimate(np.array([1.0, 2.0])), rtol=1e-6, atol=0.0)
    >>> outcome.wrong
    array([False,  True])
    """
    if estimate.project is not None:
        result, floor, groups = estimate.project(result), 0.0, None
    reference = estimate.value
    if result.shape != reference.shape:
        raise ValueError(f"a result of shape {result.shape} is compared with a reference of shape {reference.shape}")
    finite = np.isfinite(reference)
    judged = ~np.isnan(reference)
    if estimate.settled is not None:
        judged = judged & estimate.settled
    scale = _largest(np.where(finite & judged, np.abs(reference), 0.0), groups)
    tolerance = atol + rtol * np.abs(np.where(finite, reference, 0.0)) + 64 * _EPS * scale + floor
    noise = np.broadcast_to(floor, reference.shape)
    if estimate.error is not None:
        tolerance = tolerance + 4 * estimate.error
        noise = noise + 4 * estimate.error
    with np.errstate(invalid="ignore"):
        difference = np.where(finite, np.abs(result - reference), np.where(result == reference, 0.0, np.inf))
    difference = np.where(np.isnan(difference), np.inf, difference)
    wrong = judged & (difference > tolerance)
    at_kinks = 0
    if estimate.low is not None and estimate.high is not None:
        slack = tolerance + 1e-5 * (np.abs(estimate.low) + np.abs(estimate.high))
        between = (result >= estimate.low - slack) & (result <= estimate.high + slack)
        accepted = wrong & between & (estimate.low < estimate.high)
        at_kinks = int(accepted.sum())
        wrong = wrong & ~accepted
        difference = np.where(accepted, 0.0, difference)
    # Relative to the largest entry; a difference within the noise around an exact zero is no relative error of 1.
    size = np.maximum(scale, noise / rtol if rtol > 0 else 0.0)
    max_error = float(np.max(difference / np.where(size > 0, size, 1.0), initial=0.0, where=judged))
    if not wrong.any():
        return Comparison(wrong, judged, max_error, None, np.nan, np.nan, np.nan, at_kinks)
    excess = np.where(wrong, difference / np.maximum(tolerance, np.finfo(np.float64).tiny), -1.0)
    worst = int(np.argmax(excess))
    at = np.unravel_index(worst, result.shape)
    return Comparison(
        wrong,
        judged,
        max_error,
        worst,
        float(result[at]),
        float(reference[at]),
        float(np.broadcast_to(tolerance, result.shape)[at]),
        at_kinks,
    )


def scaled(e: Estimate, factor: float) -> Estimate:
    """Multiply an answer by a positive number."""
    times = lambda x: None if x is None else x * factor
    return Estimate(e.value * factor, times(e.error), e.settled, times(e.low), times(e.high))


def stacked(columns: Sequence[Estimate]) -> Estimate:
    """Put answers of shape (m,) side by side: one of shape (m, k)."""

    def stack(name: str, default: float | bool) -> np.ndarray:
        parts = [getattr(c, name) for c in columns]
        filled = [np.full(c.value.shape, default) if p is None else p for c, p in zip(columns, parts, strict=True)]
        return np.stack(filled, axis=1)

    error = np.nan_to_num(stack("error", 0.0))
    return Estimate(stack("value", 0.0), error, stack("settled", True), stack("low", np.nan), stack("high", np.nan))


def contracted(e: Estimate, w: np.ndarray) -> tuple[Estimate, float]:
    """Return the dot product of w with an answer of shape (m,), as an answer of shape (1, 1), and its rounding."""
    used = w != 0
    value = np.where(used, e.value, 0.0)
    error = 0.0 if e.error is None else float(np.abs(w) @ np.where(used, np.nan_to_num(e.error), 0.0))
    settled = True if e.settled is None else bool(e.settled[used].all())
    low = high = np.nan
    if e.low is not None and e.high is not None and (kinks := used & (e.low < e.high)).any():
        ends = np.stack([w * np.where(kinks, e.low, value), w * np.where(kinks, e.high, value)])
        low, high = float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())
    one = lambda x: np.full((1, 1), x)
    estimate = Estimate(one(w @ value), one(error), one(settled), one(low), one(high))
    return estimate, 1e-12 * float(np.abs(w) @ np.abs(np.nan_to_num(value)))


def _largest(magnitude: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return, for each entry, the largest magnitude of its group."""
    if groups is None or magnitude.size == 0:
        return np.full(magnitude.shape, magnitude.max(initial=0.0))
    groups = np.broadcast_to(groups, magnitude.shape)
    largest = np.zeros(int(groups.max()) + 1)
    np.maximum.at(largest, groups, magnitude)
    return largest[groups]
