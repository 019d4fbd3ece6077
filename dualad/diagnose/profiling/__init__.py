"""Profiling derivatives: what each operation costs, in which phase, and which line of the user's it comes from.

``with dualad.profile() as p:`` measures; ``print(p.table())`` shows. While no profiler is on, nothing is measured. Not
for: finding a fault in a derivative (``diagnose/``, ``testing/``).
"""

from __future__ import annotations

from .event import Average, Event
from .session import profile

__all__ = ["Average", "Event", "profile"]
