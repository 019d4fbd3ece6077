"""What a wrong Jacobian looks like, in words: which block, by how much, and the likely cause.

Also here: the refusal of a name that does not exist. Not for deciding that a derivative is wrong.
"""

from __future__ import annotations

from collections.abc import Collection
from textwrap import indent

import numpy as np

from dualad.errors import ArgumentError

__all__ = ["describe", "likely_cause", "refuse_unknown"]


def describe(
    where: str,
    kind: str,
    got: np.ndarray,
    expected: np.ndarray,
    bad: np.ndarray,
    *,
    entry: tuple[float, float],
    kink: tuple[float, ...] | None,
    judged: bool,
) -> tuple[str, str, str]:
    """Return what is wrong with a block of a Jacobian, or with its products with random vectors, why, and what to do.

    ``bad`` are the entries that fail, and ``entry`` is the worst of them (got, expected); ``kink`` holds the one-sided
    slopes there, if they differ, and ``judged`` says whether the differences could judge it.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing.describe import describe
    >>> got, expected = np.array([[2.2]]), np.array([[2.0]])
    >>> describe("dy/dx", "Jacobian", got, expected, got > 2, entry=(2.2, 2.0), kink=None, judged=True)[1]
    'the analytical derivative is 1.1 times the numerical one'
    """
    both = f"\n  analytical {kind}:\n{_shown(got)}\n  numerical {kind}:\n{_shown(expected)}"
    if kink is not None:
        low, high = kink
        what = f"{where} is at a kink: {entry[0]:.9g}, where the one-sided slopes are {low:.6g} and {high:.6g}."
        return (
            what + both,
            "the slopes from the two sides differ, so there is no derivative to compare with",
            "move the point away from the kink, or pass kinks='accept' to take any slope between the two",
        )
    if not judged:
        what = f"{where} could not be judged: it is {entry[0]:.9g}, and central differences do not settle."
        return (
            what + both,
            "the function is noisy, jumps, or ends beside the point",
            "choose another point, or a step with eps=",
        )
    count = f"; {int(bad.sum())} of {bad.size} entries are wrong" if bad.size > 1 else ""
    what = f"{where} is {entry[0]:.9g}, central differences have {entry[1]:.9g}{count}."
    return what + both, likely_cause(got, expected), "look at the rule (or the code) on the way between the two"


def likely_cause(got: np.ndarray, expected: np.ndarray) -> str:
    """Return what would turn one Jacobian into the other, if it is something simple, in one clause.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing.describe import likely_cause
    >>> likely_cause(np.zeros((2, 2)), np.eye(2))[:37]
    'the analytical derivative is exactly '
    """
    if not np.any(got):
        return (
            "the analytical derivative is exactly zero, and the values move: a stop_gradient, a constant made of a"
            " traced value, or a rule that returns None"
        )
    big = np.abs(expected) > 1e-6 * np.abs(expected).max(initial=0.0)
    if big.any() and np.allclose(got[~big], expected[~big], atol=1e-6 * np.abs(expected).max(initial=0.0)):
        ratios = got[big] / expected[big]
        if np.allclose(ratios, ratios[0], rtol=1e-5) and not np.isclose(ratios[0], 1.0, rtol=1e-7):
            times = (
                "minus the numerical one" if np.isclose(ratios[0], -1.0) else f"{ratios[0]:.6g} times the numerical one"
            )
            return f"the analytical derivative is {times}"
    shift = got - expected
    if np.allclose(shift, shift.flat[0], rtol=1e-5, atol=0.0):
        return f"the analytical derivative differs by {shift.flat[0]:.6g} everywhere"
    if got.shape[0] == got.shape[1] > 1 and np.allclose(got, expected.T, rtol=1e-5):
        return "the analytical Jacobian is the transpose of the numerical one"
    return "the derivative does not describe how the values change"


def _shown(matrix: np.ndarray) -> str:
    return indent(np.array2string(matrix, precision=6, threshold=100, edgeitems=3, max_line_width=100), "    ")


def refuse_unknown(what: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse names that are not among those known."""
    for name in given:
        if name not in known:
            raise ArgumentError(
                f"You named the {what} {name!r}.", "There is none of this name.", f"Choose from {', '.join(known)}."
            )
