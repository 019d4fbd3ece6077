"""Failures of the compiler's own: a log record and a plainer program; in our own tests, the error.

A pass whose program is not shown to be right is such a failure (``proven``). For: every place that can do without a
part of the compiler. Not for: the proof itself (``validate.py``), what a part refuses because it does not know it
(``Refused``), which is no failure, or errors of the function that is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeVar

from ..base.log import log
from ..program.ir import Program
from .validate import Runner, check_same

__all__ = ["STRICT", "attempt", "fall_back", "proven"]

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
    """Return ``make()``, or ``otherwise`` where that part of the compiler fails."""
    try:
        return make()
    except Exception as error:
        fall_back(part, error)
        return otherwise


def proven(
    program: Program,
    passes: Mapping[str, Callable[[Program], Program]],
    in_part: Mapping[str, Callable[[Program, Callable[[Program, Callable[[], Program]], bool]], Program]] = {},
) -> Program:
    """Return a program after all passes whose results are proven.

    Where that fails, ``in_part[name](program, is_right)`` is what a pass makes of the parts that are.
    """
    stages = [(program, "")]
    for name, make in passes.items():
        stages.append((attempt(name, functools.partial(make, stages[-1][0]), stages[-1][0]), name))
    runner = Runner()

    def is_right(before: Program, make: Callable[[], Program]) -> bool:
        try:
            check_same(before, make(), runner)
        except Exception:  # a proof that fails is none
            return False
        return True

    while stages[-1][0] is not program:
        found, name = stages.pop()
        try:
            check_same(program, found, runner)
        except Exception as error:
            fall_back(f"{name} (of the program `{program.name}`)", error)
            if name in in_part:
                before = stages[-1][0]
                stages.append(
                    (attempt(name, functools.partial(in_part[name], before, is_right), before), f"{name} in part")
                )
        else:
            return found
    return program
