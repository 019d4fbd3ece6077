"""Eigenvalues and singular values that coincide: what the rules say of them, and how they are moved apart.

No rule that knows single values and vectors can say what a function of all of them together is there: between equal
values stands 1/0, and what it is multiplied with vanishes only in the sum. So the rules answer NaN, and ``coincided``
tells so at the user's line. Not for: the limit from beside (``rules/at_equal_values.py``), nor the rules themselves
(``spectral.py``).
"""

from __future__ import annotations

import warnings
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..base.frames import user_level

__all__ = ["EqualValuesWarning", "Look", "coincided", "looking", "spread", "tolerance"]


class EqualValuesWarning(RuntimeWarning):
    """A derivative was taken at equal eigenvalues or singular values, and is NaN in what depends on their vectors.

    Examples
    --------
    >>> import warnings
    >>> root = lambda a: np.sum(np.linalg.eigvalsh((a + a.T) / 2) ** 3)
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     bool(np.isnan(da.hessian(root)(np.eye(2))).any())
    True
    >>> "da.at_equal_values" in str(seen[0].message)
    True
    """


class Look:
    """One call of ``at_equal_values``: how far it moves equal values apart, relative to their size, if any were met."""

    __slots__ = ("met", "step")

    def __init__(self) -> None:
        self.step, self.met = 0.0, False


#: the call of ``at_equal_values`` that this runs in, if there is one
looking: ContextVar[Look | None] = ContextVar("dualad_looking", default=None)


def tolerance(w: Any) -> float:
    """Return how near values are, relative to the largest, that are equal to rounding: 1/gap would have no digits."""
    return 1e3 * w.shape[-1] * float(np.finfo(w.dtype).eps)


def coincided() -> None:
    """Tell that a rule has answered NaN because values coincide."""
    look = looking.get()
    if look is not None:
        look.met = True
        return
    warnings.warn(
        "eigenvalues or singular values coincide here: what is differentiated through their vectors, and second"
        " derivatives, are NaN, although those of a function that does not depend on the choice of vectors exist."
        " da.at_equal_values(f), of the function f that takes the derivatives, finds them",
        EqualValuesWarning,
        stacklevel=user_level(),
    )


def spread(w: np.ndarray, singular: bool = False) -> np.ndarray:
    """Eigenvalues (or singular values), moved apart where they coincide if ``at_equal_values`` asks for it."""
    look = looking.get()
    step = look.step if look is not None else 0.0
    if not step or not w.shape[-1]:
        return w
    size = np.abs(w)
    largest = np.max(size, axis=-1, keepdims=True)
    near = np.abs(w[..., :, None] - w[..., None, :]) <= tolerance(w) * largest[..., None]
    members = np.sum(near, axis=-1)
    rank = np.sum(np.tril(near, -1), axis=-1)
    place = rank - (members - 1) / 2
    sized = size > 1e-8 * largest
    if singular:  # beside zero they keep one sign, for 1/(sᵢ + sⱼ) stands in their derivatives too
        place = np.where(sized, place, rank + 1)
    unit = np.where(sized, size, np.where(largest > 0, largest, 1.0))
    return np.where(members > 1, w + step * unit * place / np.maximum((members - 1) / 2, 1), w).astype(w.dtype)
