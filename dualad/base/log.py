"""Records for ``logging.getLogger("dualad")``: each kind of event has a code that never changes.

For: ``log``, which costs a look into ``sys.modules`` where nobody has asked for records. Not for: warnings,
which are for whoever wrote the function; records are for whoever runs it.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

__all__ = ["EVENTS", "is_logged", "log"]

_DEBUG, _INFO, _WARNING = 10, 20, 30

#: code of each event, its level and its name
EVENTS: dict[str, tuple[int, str]] = {
    "DAL001": (_INFO, "traced"),
    "DAL002": (_INFO, "traced again"),
    "DAL003": (_INFO, "compiled"),
    "DAL004": (_WARNING, "fallback"),
    "DAL005": (_WARNING, "first call differs"),
    "DAL006": (_WARNING, "refusal swallowed"),
    "DAL007": (_DEBUG, "run again"),
    "DAL008": (_DEBUG, "transposed"),
    "DAL009": (_INFO, "no extension"),
    "DAL010": (_INFO, "lifted"),
}


def is_logged(code: str) -> bool:
    """Whether somebody wants the records of an event."""
    return _logger(EVENTS[code][0]) is not None


def log(code: str, message: str, *args: Any, error: BaseException | None = None, **extra: Any) -> None:
    """Write a record, with its code and further attributes; the traceback of an error goes to the level DEBUG."""
    level = EVENTS[code][0]
    logger = _logger(level)
    if logger is not None:
        logger.log(level, f"[{code}] {message}", *args, extra={"code": code, **extra})  # noqa: G004
        if error is not None:
            logger.debug("[%s] traceback", code, exc_info=error, extra={"code": code})


def _logger(level: int) -> Any:
    """Return the logger if it is enabled for a level."""
    # Whoever wants records below WARNING has imported logging; whoever has not does not pay for it.
    logging = sys.modules.get("logging") or (importlib.import_module("logging") if level >= _WARNING else None)
    logger = None if logging is None else logging.getLogger("dualad")
    return logger if logger is not None and logger.isEnabledFor(level) else None
