"""What becomes of a failure of the compiler's own: a log record, and a plainer program; in our own tests, the error.

For: every place that can do without a part of the compiler. Not for: what a part refuses because it does not know it
(``Refused``), which is no failure, or errors of the function that is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..base.log import log

__all__ = ["STRICT", "attempt", "fall_back"]

T = TypeVar("T")

#: whether failures are raised: our own tests set it, so that no fault of the compiler hides behind the plain program
STRICT = False


def fall_back(part: str, error: Exception) -> None:
    """Log that a part of the compiler has failed, so that its caller goes on without it; raise the error if ``STRICT``.

    The traceback is logged at the level DEBUG.
    """
    if STRICT:
        raise error
    log("DAL004", "jit: %s failed, and is left out: %s: %s", part, type(error).__name__, error, error=error)


def attempt(part: str, make: Callable[[], T], otherwise: T) -> T:
    """Return what ``make()`` returns, or ``otherwise`` where that part of the compiler fails."""
    try:
        return make()
    except Exception as error:
        fall_back(part, error)
        return otherwise
