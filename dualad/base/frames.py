"""Whose frame it is: ours, a library's, or the user's, who is the one that reads messages.

For: ``public``, which every transform and every function that a transform returns is decorated with: an exception that
leaves it keeps the user's frames and loses the package's, so that one reads the lines that matter, and
``DUALAD_FULL_TRACEBACK=1`` keeps all; the user's line for errors, warnings, watches and programs. Not for: the words of
errors (``boundary.py``).
"""

from __future__ import annotations

import dis
import functools
import importlib
import os
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import optree

__all__ = [
    "ENGINES", "PACKAGE", "asked_by_formula", "calls_numpy", "hide_frames", "is_caught", "is_standard", "is_users",
    "public", "user_frame", "user_level", "user_line", "users_line_of",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


@functools.lru_cache(maxsize=100)
def _folder(file: str | None) -> str:
    return os.path.dirname(os.path.realpath(file or "")) + os.sep


#: this package's folder
PACKAGE = os.path.dirname(_folder(__file__).rstrip(os.sep)) + os.sep

#: where frames are nobody's who reads a message
_LIBRARIES = (
    PACKAGE, _folder(np.__file__), _folder(optree.__file__), "<__array_function__ internals>",
    *[os.path.join(os.path.dirname(os.__file__), name) for name in ("contextlib.py", "functools.py")],
)  # fmt: skip
#: where calls are only handed on
_PASSING_ON = (
    f"{PACKAGE}core{os.sep}", f"{PACKAGE}memory{os.sep}buffer.py", f"{PACKAGE}numpy{os.sep}",
    "<__array_function__ internals>",
)  # fmt: skip
_INSTALLED = f"{os.sep}site-packages{os.sep}"
_STANDARD = os.path.dirname(os.__file__) + os.sep


@functools.lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """Whether a source file is neither ours nor NumPy's nor SciPy's."""
    scipy = getattr(sys.modules.get("scipy"), "__file__", None)
    return not file.startswith((*_LIBRARIES, _folder(scipy)) if scipy else _LIBRARIES)


#: packages that compute by themselves, or run tests
ENGINES = frozenset(
    {"_pytest", "autograd", "coverage", "dualad", "execnet", "hypothesis", "jax", "jaxlib", "numba", "optree",
     "pluggy", "pytest", "torch", "xdist"}
)  # fmt: skip
#: and those whose arrays are not NumPy's: an object taken for one of NumPy's they read as memory
_OF_ARRAYS = frozenset({"array_api_strict", "cupy", "dask", "distributed", "sparse"})


def calls_numpy(file: str, module: Any) -> bool:
    """Whether code is the user's, or of a package whose functions are made of NumPy's, by its file and module."""
    package = str(module).partition(".")[0]
    return is_users(file) and package not in ENGINES and package not in _OF_ARRAYS


def is_standard(file: str) -> bool:
    """Whether a source file is one of Python's own library."""
    return file.startswith((_STANDARD, "<frozen")) and _INSTALLED not in file


def user_frame() -> tuple[types.FrameType, int]:
    """Return the innermost frame that is the user's (or else the outermost), and how far up it is from the caller."""
    frame, level = sys._getframe(1), 0
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return frame, level


def asked_by_formula() -> bool:
    """Whether the function of NumPy's whose handler asks was called by this package, not by the user's code."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_PASSING_ON):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(PACKAGE)


def user_line() -> str:
    """Return ``file:line`` of the user's that is being carried out."""
    frame, _ = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def user_level() -> int:
    """Return the ``stacklevel`` of the user's line for a warning in the function that calls this."""
    return user_frame()[1]


def users_line_of(error: BaseException) -> Any:
    """Return the entry of an exception's traceback, with ``filename``, ``lineno`` and ``line``, that the user reads."""
    entries = importlib.import_module("traceback").extract_tb(error.__traceback__)  # `import dualad` does without
    mine = [entry for entry in entries if is_users(entry.filename)]
    # To change pandas, sklearn or Python itself helps nobody.
    own = [e for e in mine if _INSTALLED not in e.filename and not e.filename.startswith(_STANDARD)]
    return (own or mine or entries)[-1]


def is_caught(stop: types.CodeType) -> bool:
    """Whether other code than ours and the standard library's catches what is raised here, in the call of ``stop``.

    The library's puts errors into its own words: what it raises for a mean of nothing, a compiled mean of it does not.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not stop:
        code = frame.f_code
        if not (code.co_filename.startswith(PACKAGE) or is_standard(code.co_filename)):
            if any([start <= frame.f_lasti < end for start, end in _caught(code)]):
                return True
        frame = frame.f_back
    return False


@functools.lru_cache(maxsize=4096)
def _caught(code: types.CodeType) -> tuple[tuple[int, int], ...]:
    """Return where code has an ``except`` clause, or a ``with`` that may suppress errors."""
    found, steps = [], None
    for entry in dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]
        steps = steps or [*dis.get_instructions(code)]
        names = [step.opname for step in steps if step.offset >= entry.target]
        if names[0] != "PUSH_EXC_INFO":  # what tidies up after a handler
            continue
        last = next((i for i, name in enumerate(names) if name in ("CHECK_EXC_MATCH", "RERAISE")), 0)
        if (
            names[1] == "POP_TOP"
            or names[last] == "CHECK_EXC_MATCH"
            or (names[1] == "WITH_EXCEPT_START" and "suppress" in code.co_names)
        ):
            found.append((entry.start, entry.end))
    return tuple(found)


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


def _without_ours(first: types.TracebackType | None) -> types.TracebackType | None:
    kept, tb = [], first
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(PACKAGE):
            kept.append(tb)
        tb = tb.tb_next
    rest = None
    for tb in reversed(kept):
        # Entries are made anew: somebody may hold the old ones.
        rest = types.TracebackType(rest, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return rest
