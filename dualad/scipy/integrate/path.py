"""The dense output of a run, as the adjoint reads it: from the end to the beginning.

Of a long run only a part is held at a time. States are kept at regular steps, and the steps from one of them to the
next are taken again when the walk back comes there: memory for the dense output of those, and for the states. Not for:
the equation that is solved along it (``adjoint.py``).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...errors import ConvergenceError

__all__ = ["Path", "steps_at_once"]

#: bytes of dense output held at once
_HELD = 2**25
#: but of no more steps than this: their Python objects weigh more than their numbers
_MOST, _FEWEST = 4096, 16


def steps_at_once(y0: np.ndarray) -> int:
    """Return the dense output of how many steps is held at once, for a state of this size."""
    return int(np.clip(_HELD // (8 * y0.nbytes + 1024), _FEWEST, _MOST))


class _Mark(NamedTuple):
    """A state from which steps can be taken again: when it was, and how long the step was that came next."""

    t: float
    y: np.ndarray
    step: float | None


class _Part(NamedTuple):
    """The dense output between two marks; times are signed so that they rise."""

    begin: float
    end: float
    ends: list
    interpolants: list


class Path:
    """y(t) from y0 at t0 to t1, of which the dense output of ``keep`` steps is held at once.

    ``start(t, y, stop, first_step)`` returns a solver of SciPy's that is about to leave ``t``; ``first_step`` may be
    ``None``.
    """

    def __init__(self, where: str, start: Callable, t0: float, t1: float, y0: np.ndarray, keep: int) -> None:
        self._where, self._start, self.t0, self.t1, self._keep = where, start, t0, t1, keep
        self._sign = 1.0 if t1 >= t0 else -1.0
        #: the largest size of each entry
        self.largest = np.abs(y0)
        self._marks = [_Mark(t0, y0, None)]
        first = self._run(t0, y0, t1, None, self._mark)
        self._times = [self._sign * m.t for m in self._marks]
        #: rounding may ask for times just outside a part
        self._slack = 4 * np.finfo(float).eps * max(abs(t0), abs(t1))
        #: the part that is held
        self._part = first if len(self._marks) == 1 else self._again(self._sign * t1)

    def reaches(self, t: float) -> bool:
        """Whether a time lies on the path."""
        return self._sign * self.t0 <= self._sign * t <= self._sign * self.t1

    def pieces(self, start: float, stop: float) -> list[tuple[float, float]]:
        """Cut a way back at the marks on it: each piece has its dense output at once."""
        cuts = [m.t for m in reversed(self._marks) if self._sign * stop < self._sign * m.t < self._sign * start]
        return list(zip([start, *cuts], [*cuts, stop], strict=True))

    def __call__(self, t: float) -> np.ndarray:
        """Return the state at a time."""
        s, part = self._sign * t, self._part
        if not part.begin - self._slack <= s <= part.end + self._slack:
            part = self._part = self._again(s)
        return part.interpolants[min(bisect.bisect_left(part.ends, s), len(part.ends) - 1)](t)

    def _mark(self, solver: Any) -> None:
        """Keep the state that a solver has reached."""
        self._marks.append(_Mark(float(solver.t), solver.y.copy(), getattr(solver, "h_abs", None)))

    def _run(self, t: float, y: np.ndarray, stop: float, step: float | None, mark: Callable | None) -> _Part:
        """Take steps; hold their dense output, and in a first run mark states once there are too many of them."""
        sign, solver = self._sign, self._start(t, y, self.t1, step)
        ends: list = []
        interpolants: list = []
        count = 0
        while solver.status == "running" and sign * solver.t < sign * stop:
            message = solver.step()
            if solver.status == "failed":
                raise ConvergenceError(
                    f"{self._where}: the solver stopped at t = {solver.t} on the way back: {message}",
                    "the adjoint equation is solved along the solution",
                    "loosen rtol and atol, take a method for stiff problems (Radau, BDF), or sensitivity='forward'",
                )
            count += 1
            if mark is None or len(self._marks) == 1:
                interpolants.append(solver.dense_output())
                ends.append(sign * float(solver.t))
            if mark is not None:
                self.largest = np.maximum(self.largest, np.abs(solver.y))
                if count % self._keep == 0 and solver.status == "running":
                    mark(solver)
                    if count == self._keep:  # too long to be held as a whole
                        interpolants, ends = [], []
        return _Part(sign * t, sign * stop, ends, interpolants)

    def _again(self, s: float) -> _Part:
        """Take the steps again between the marks around a time."""
        k = min(max(bisect.bisect_left(self._times, s) - 1, 0), len(self._marks) - 1)
        mark = self._marks[k]
        stop = self._marks[k + 1].t if k + 1 < len(self._marks) else self.t1
        step = None if mark.step is None else min(mark.step, abs(self.t1 - mark.t))
        return self._run(mark.t, mark.y, stop, step, None)
