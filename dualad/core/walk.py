"""Going through a program's equations, to run or to transpose them, with an eye on it if somebody profiles.

For: the two loops over programs (``program/ir.py``, ``vjp_via_transpose.py``), which ask once per program, not once per
equation. Not for: what is measured (``profiling/``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["walked", "walkers"]

#: ``walker(program, steps, what)`` yields the steps; empty while nobody profiles
walkers: list[Callable[[Any, Iterable, str], Iterable]] = []


def walked(program, steps: Iterable, what: str) -> Iterable:
    """Return the steps of a program, watched one by one while a profiler is on."""
    return walkers[0](program, steps, what) if walkers else steps
