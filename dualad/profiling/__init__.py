"""Profiling derivatives: what each operation costs, in which phase, and which line of the user's it comes from.

``with dualad.profile() as p:`` measures; ``print(p.table())`` shows. While no profiler is on, nothing is measured and
no operation asks whether one is: the watching versions of a few methods are put in place when a profiler starts and
taken away when the last one stops. Not for: finding what is wrong with a derivative (``diagnose/``, ``testing/``).
"""

from __future__ import annotations

from .averages import Average
from .event import Event
from .session import profile

__all__ = ["Average", "Event", "profile"]
