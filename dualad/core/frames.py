"""The frames of this package in tracebacks: hidden from whoever called a transform, unless they ask for them.

For: ``public``, which every transform and every function that a transform returns is decorated with: an exception that
leaves it keeps the user's frames and loses the package's, so that what is read are the lines that matter, and
``DUALAD_FULL_TRACEBACK=1`` keeps all; ``user_level``, by which a warning names the user's line. Not for: the words of
errors (``boundary.py``).
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["hide_frames", "public", "user_level"]

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep


def public(function: F) -> F:
    """Decorate a function that users call: exceptions that leave it show no frame of this package.

    Nested calls do the same work again for what little is left; only exceptions cost anything.
    """

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            # A bare `raise` goes on with the traceback that the exception has now, without this frame.
            hide_frames(error)
            raise

    return call  # type: ignore[return-value]


def hide_frames(error: BaseException) -> None:
    """Take the package's frames out of an exception's traceback, and of those it is chained to."""
    if os.environ.get("DUALAD_FULL_TRACEBACK", "0") not in ("", "0"):
        return
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        e = pending.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        # No frame of a chained exception is the caller's, unless the caller was handling it already: those stay too.
        e.__traceback__ = _without_ours(e.__traceback__)
        pending += [e.__cause__, e.__context__]
        if isinstance(e, BaseExceptionGroup):
            pending += e.exceptions


def user_level() -> int:
    """Return the ``stacklevel`` of the user's line for a warning in the function that calls this."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(_PACKAGE) or f"{os.sep}numpy{os.sep}" in frame.f_code.co_filename
    ):
        frame, level = frame.f_back, level + 1
    return level


def _without_ours(first: types.TracebackType | None) -> types.TracebackType | None:
    kept, tb = [], first
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            kept.append(tb)
        tb = tb.tb_next
    rest = None
    for tb in reversed(kept):
        # Entries are made anew: somebody may hold the old ones.
        rest = types.TracebackType(rest, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return rest
