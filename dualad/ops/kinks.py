"""Kinks: what a derivative is where a function has none.

At a corner (``abs`` at 0, a tie of ``maximum``, a norm at 0) the rules choose the subgradient of least norm; ``kinks``
lets a program ask for NaN there, or for an error, instead. Each rule with a corner passes its tangent through
``chosen``, which looks at nothing while nobody asked. Not for: poles, where the derivative is infinite and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from ..errors import ArgumentError, KinkError

__all__ = ["chosen", "convention", "kinks"]

_CONVENTIONS = ("subgradient", "nan", "raise")

#: per thread and per asynchronous task
_convention: ContextVar[str] = ContextVar("dualad_kinks", default="subgradient")


@contextmanager
def kinks(convention: str) -> Iterator[None]:
    """Choose what a derivative is at a kink, for the derivatives taken inside a block.

    Parameters
    ----------
    convention : {"subgradient", "nan", "raise"}
        ``"subgradient"``, the default elsewhere: the subgradient of least norm, ties shared evenly. ``"nan"``: the
        tangent is NaN there. ``"raise"``: a ``KinkError`` names the operation.

    Raises
    ------
    KinkError
        With ``"raise"``, when a derivative is taken at a kink.

    Examples
    --------
    >>> float(da.grad(abs)(0.0))
    0.0
    >>> with da.kinks("nan"):
    ...     float(da.grad(abs)(0.0))
    nan
    """
    if convention not in _CONVENTIONS:
        raise ArgumentError(
            f"kinks({convention!r}): there is no such convention.",
            f"a kink has one of the conventions {', '.join(map(repr, _CONVENTIONS))}",
            'write kinks("nan"), for instance',
        )
    token = _convention.set(convention)
    try:
        yield
    finally:
        _convention.reset(token)


def convention() -> str:
    """Return the convention in force for derivatives at kinks."""
    return _convention.get()


def chosen(t, at_kink: Callable, name: str):
    """Return a tangent as the convention has it where ``at_kink()`` is true; by default as the rule made it."""
    wanted = _convention.get()
    if wanted == "subgradient" or t is None:
        return t
    mask = at_kink()
    if wanted == "raise":
        if bool(np.any(mask)):
            raise KinkError(
                f"a derivative of `{name}` was taken at a kink.",
                "the function has a corner there: derivatives from different sides differ",
                "move the point off the corner, use a smooth function, or choose kinks('subgradient')",
            )
        return t
    return t * np.where(mask, np.nan, 1.0)  # a product, so that a tangent that is being recorded stays linear
