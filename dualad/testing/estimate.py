"""An oracle's answer: numbers with an error bar, or the reason why it has none; and the comparison with a result.

The comparison is entry by entry, so that a wrong small entry cannot hide beside a right large one. Its tolerance has
four parts: what the caller allows, rounding relative to the largest entry, rounding of the function's own values, and
the oracle's error estimate.

Not for computing derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualad.errors import ShapeError

__all__ = [
    "Answer", "Comparison", "Estimate", "Unavailable", "compare", "each", "pull_back", "scale_answer", "stack",
    "transpose", "value_at",
]  # fmt: skip

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Unavailable:
    """An oracle could not run."""

    #: why, in one line
    reason: str


@dataclass(frozen=True, eq=False)
class Estimate:
    """An oracle's answer."""

    #: the answer
    value: np.ndarray
    #: its estimated absolute error, entry by entry; None where it is exact up to rounding
    error: np.ndarray | None = None
    #: entries where the answer can be relied on; None means all
    settled: np.ndarray | None = None
    #: one-sided slopes, where the function has a kink: any number between them is a right answer
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    #: what to do to a result before comparing (an answer for a few random directions of a large Jacobian)
    project: Callable[[np.ndarray], np.ndarray] | None = None
    #: a remark for the report
    note: str = ""


Answer = Estimate | Unavailable


@dataclass(frozen=True, eq=False)
class Comparison:
    """The outcome of comparing a result with an estimate."""

    #: entries outside the tolerance
    wrong: np.ndarray
    #: entries that could be compared at all
    judged: np.ndarray
    #: the largest difference among judged entries, relative to the largest reference entry of its group
    max_error: float
    #: flat index of the entry that exceeds its tolerance most, None if none does
    worst: int | None
    #: the result there, the estimate, and how far apart they may be
    got: float
    expected: float
    tolerance: float
    #: entries accepted because they lie between one-sided slopes
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
    """Return how a result, projected first if the estimate says so, compares with an oracle's answer entry by entry.

    ``rtol`` and ``atol`` are the allowed relative and absolute error; ``floor`` is the rounding noise of the function
    itself, entry by entry (ignored for projected estimates). Entries of one of the ``groups`` (one array of the user's)
    are rounded relative to the largest of the group; without groups, to the largest of all. Other shapes than the
    estimate's are a ValueError.

    Examples
    --------
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
    magnitude = np.where(finite & judged, np.abs(reference), 0.0)
    if groups is None or magnitude.size == 0:
        scale = np.full(magnitude.shape, magnitude.max(initial=0.0))
    else:
        groups = np.broadcast_to(groups, magnitude.shape)
        largest = np.zeros(int(groups.max()) + 1)
        np.maximum.at(largest, groups, magnitude)
        scale = largest[groups]
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
    worst, entry = None, (np.nan, np.nan, np.nan)
    if wrong.any():
        excess = np.where(wrong, difference / np.maximum(tolerance, np.finfo(np.float64).tiny), -1.0)
        worst = int(np.argmax(excess))
        allowed = np.broadcast_to(tolerance, result.shape)
        entry = float(result.flat[worst]), float(reference.flat[worst]), float(allowed.flat[worst])
    return Comparison(wrong, judged, max_error, worst, *entry, at_kinks)


def value_at(f: Callable[[Any], Any], x: Any) -> Any:
    """Return a function's value beside the point, or the Unavailable that holds what it raised."""
    try:
        with np.errstate(all="ignore"):
            return f(x)
    except ShapeError:  # it is another function there
        raise
    except Exception as error:
        return Unavailable(f"{type(error).__name__}: {error}".splitlines()[0])


def scale_answer(e: Estimate, factor: np.ndarray | float) -> Estimate:
    """Multiply an answer by positive numbers."""
    times = lambda x: None if x is None else x * factor
    return replace(e, value=e.value * factor, error=times(e.error), low=times(e.low), high=times(e.high))


def stack(answers: Sequence[Estimate], axis: int = 0) -> Estimate:
    """Put answers of one shape side by side."""

    def joined(name: str, default: float | bool) -> Any:
        parts = [getattr(a, name) for a in answers]
        if all(part is None for part in parts):
            return None
        filled = [np.full(a.value.shape, default) if p is None else p for a, p in zip(answers, parts, strict=True)]
        return np.stack(filled, axis=axis)

    error = joined("error", 0.0)
    return Estimate(
        joined("value", 0.0),
        None if error is None else np.nan_to_num(error),
        joined("settled", True),
        joined("low", np.nan),
        joined("high", np.nan),
        note=next((a.note for a in answers if a.note), ""),
    )


def each(rows: np.ndarray, ask: Callable[[np.ndarray], Answer], axis: int = 0) -> Answer:
    """Ask about each row, and put the answers side by side; one that there is none of is the answer."""
    answers: list[Estimate] = []
    for row in rows:
        answer = ask(row)
        if isinstance(answer, Unavailable):
            return answer
        answers.append(answer)
    project = answers[0].project
    if project is None:
        return stack(answers, axis)
    return replace(stack(answers, axis), project=lambda result: np.stack([project(row) for row in result]))


def transpose(jacobian: Answer) -> Answer:
    """Turn the Jacobian that an oracle knows entry by entry into its transpose."""
    if isinstance(jacobian, Unavailable):
        return jacobian
    e, turned = jacobian, lambda x: None if x is None else x.T
    return replace(
        e, value=e.value.T, error=turned(e.error), settled=turned(e.settled), low=turned(e.low), high=turned(e.high)
    )


def pull_back(jacobian: Answer, w: np.ndarray) -> Answer:
    """Turn an oracle's Jacobian (or its products with some directions) into Jᵀ w."""
    if isinstance(jacobian, Unavailable):
        return jacobian
    used = w != 0
    rows = lambda x: np.where(used[:, None], x, 0.0)
    value = rows(jacobian.value)
    error = None if jacobian.error is None else np.abs(w) @ rows(jacobian.error)
    settled = None if jacobian.settled is None else jacobian.settled[used].all(axis=0)
    low = high = project = None
    if jacobian.low is not None and jacobian.high is not None:
        kinks = used[:, None] & (jacobian.low < jacobian.high)
        ends = w[:, None] * np.stack([np.where(kinks, end, value) for end in (jacobian.low, jacobian.high)])
        sums = ends.min(axis=0).sum(axis=0), ends.max(axis=0).sum(axis=0)
        low, high = (np.where(kinks.any(axis=0), total, np.nan) for total in sums)
    if jacobian.project is not None:
        along = jacobian.project
        project = lambda g: along(g[None, :])[0]
    return Estimate(w @ value, error, settled, low, high, project, jacobian.note)
