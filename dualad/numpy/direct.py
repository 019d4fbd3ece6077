"""Calls that need nothing of ours go straight to NumPy, in C: plain arrays of lifted code cost what NumPy's do.

For: ``direct``, what stands for a function of NumPy's or Python's, and ``is_direct``. Without the extension
(``direct.c``) every call runs ours. Not for: what ours do (``creation.py``, ``forward.py``), nor which lines make
buffers (``memory/lines.py``).
"""

from __future__ import annotations

import functools
import importlib
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.log import log
from ..memory.lines import DIRECTLY, MARKED, NOTING, made_by, making

__all__ = ["direct", "is_direct"]

#: what the extension is compiled from, where this is a clone
_SOURCE = Path(__file__).with_name("direct.c")


@functools.cache
def _extension() -> Any:
    """Return the module that ``direct.c`` becomes; None where it was not built, or Python runs without its lock."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    try:
        found = importlib.import_module("._direct", __package__)
    except (ImportError, RuntimeError) as error:  # built for another NumPy
        log("DAL009", "lifted calls of NumPy go through Python: %s", error)
        return None
    if _SOURCE.exists() and zlib.crc32(_SOURCE.read_bytes()) & 0x7FFFFFFF != found.SOURCE:
        log("DAL009", "a C extension is older than its source, and left alone: run python hatch_build.py")
        return None
    found.connect(making, DIRECTLY, NOTING, made_by)
    MARKED.append(found.mark)
    return found


def is_direct() -> bool:
    """Whether calls go straight to NumPy where they can."""
    return _extension() is not None


def direct(original: Callable, ours: Callable, makes: bool = True) -> Callable:
    """Return a function that runs the original where all arguments are plain, and else ours.

    What ``makes`` new arrays runs ours in a transform, too, unless code makes them ``DIRECTLY``, and this line NumPy's.
    """
    extension = _extension()
    return ours if extension is None else functools.update_wrapper(extension.Direct(original, ours, makes), ours)
