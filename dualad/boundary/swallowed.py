"""Refusals that somebody caught: a transform whose function goes on after one may differentiate another function.

``try: x = np.asarray(x, float)`` with an ``except TypeError`` that returns something else takes the other way under
every transform, and there only. So each refusal that is raised while a function of the user's runs is noted, and when
the function returns all the same, its line is told. Not for: errors that leave the function (``boundary.py``).
"""

from __future__ import annotations

import linecache
import sys
import warnings
from types import FrameType
from typing import Any

from ..base.frames import PACKAGE, is_users, user_level
from ..base.log import log
from ..core.contexts import StartAgain, active
from ..errors import DualadError, noted

__all__ = ["RefusalSwallowedWarning", "Refusals", "SwallowedRefusals"]

#: what compiled code calls on a tensor; it may drop what they raise, or raise something of its own in its place
_ASKED_BY_COMPILED_CODE = frozenset({"__array__", "__bool__", "__complex__", "__float__", "__index__", "__int__"})
_MOST_FRAMES = 30


class RefusalSwallowedWarning(UserWarning):
    """A function caught a refusal and returned all the same: it may have computed another function than without.

    Code that means to catch refusals switches it off, as any warning.

    Examples
    --------
    >>> import warnings
    >>> from dualad.boundary.swallowed import RefusalSwallowedWarning
    >>> def energy(x):
    ...     try:
    ...         return np.sum(np.asarray(x, float) ** 2)
    ...     except TypeError:
    ...         return 0.0 * np.sum(x)
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     slope = da.grad(da.plain(energy))(np.ones(3))
    >>> [w.category is RefusalSwallowedWarning for w in seen]
    [True]
    """


class Refusals(list):
    """The refusals made while one function of the user's runs, each with the frames and lines it was made in."""

    __slots__ = ()

    def append(self, error: DualadError) -> None:
        """Note an error that is being made."""
        places: list[tuple[FrameType, int]] = []
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and len(places) < _MOST_FRAMES:
            if not frame.f_code.co_filename.startswith(PACKAGE):
                places.append((frame, frame.f_lineno))
            elif frame.f_code.co_name == "run" and places:
                break
            frame = frame.f_back
        super().append((error, places))

    def caught(self) -> list:
        """Return those that were raised and that the user's code has caught."""
        return [(error, places) for error, places in self if places and _is_caught_by_others(error)]

    def settle(self, returned: bool) -> None:
        """Hand them to the run around this one: if the function has returned, the first of those that it caught."""
        # One is enough: what comes after the first is a consequence of it.
        made = self.caught()[:1] if returned else list(self)
        self.clear()  # an error's traceback may hold whoever holds this list
        outer = noted.get()
        if outer is not None:
            outer.extend(made)


class SwallowedRefusals(StartAgain):
    """The function of the outermost transform has returned ``out``, and caught a refusal before."""

    def __init__(self, out: Any, error: DualadError, places: list[tuple[FrameType, int]]) -> None:
        self.out, self.error, self._places = out, error, places

    @property
    def frames(self) -> list[FrameType]:
        """The frames that the refusal was made in."""
        return [frame for frame, _ in self._places]

    def tell(self) -> Any:
        """Warn that what the function went on to compute may be another function; return it."""
        error, places = self.error, self._places
        frame, line = next((p for p in places if is_users(p[0].f_code.co_filename)), places[0])
        message = (
            f"the function went on after a refusal, and what was computed may be another function than without the"
            f" transform.\n  Refused: {error.what.partition(chr(10))[0]}\n  At: {_shown(frame, line)}\n"
            f"  Instead: {error.instead or error.why}"
        )
        if (watch := active()) is not None:
            watch.swallowed(message, error)
        log("DAL006", "%s", message)
        warnings.warn(message, RefusalSwallowedWarning, stacklevel=user_level())
        return self.out


def _shown(frame: FrameType, line: int) -> str:
    file = frame.f_code.co_filename
    return f"{file}:{line}: {linecache.getline(file, line).strip()}"


def _is_caught_by_others(error: DualadError) -> bool:
    """Whether an error was raised, and not caught by this package: the traceback begins where it was caught."""
    if error.__traceback__ is None:
        return False  # made, and not raised
    code = error.__traceback__.tb_frame.f_code
    return not code.co_filename.startswith(PACKAGE) or code.co_name in _ASKED_BY_COMPILED_CODE
