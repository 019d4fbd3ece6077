"""The stopwatch: contenders for one piece of work, checked against each other, then timed in turns.

A `Work` names what is computed and how to build a callable for each library. `run_work` builds them (a library that is
not installed is left out with its reason), compares every result with the first contender's in float64, and only then
times them: each round gives every contender a slice of time, one after the other, so that a slow spell of the machine
falls on all of them. What is reported are medians over the rounds, of times and of *ratios within a round*.

Not here: what is measured (`chains.py`, `models.py`, `large.py`, `imports.py`), the peers' spelling (`peers.py`), and
the tables (`report.py`).
"""

import gc
import math
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Budget", "Measured", "Work", "run_work"]


@dataclass(frozen=True)
class Budget:
    """A promise of the design: the ratio ``over / under`` of two contenders' times against a bound.

    With ``under=None`` the bound is on seconds.
    """

    says: str
    over: str
    under: str | None
    at_least: float = 0.0
    at_most: float = math.inf

    def judge(self, measured: dict[str, "Measured"]) -> tuple[float, bool] | None:
        """The ratio found and whether the promise holds; None when a contender is missing."""
        if not {self.over, self.under or self.over} <= measured.keys():
            return None
        over = measured[self.over]
        found = over.median if self.under is None else over.ratio_to(measured[self.under])
        return found, self.at_least <= found <= self.at_most


@dataclass(frozen=True)
class Work:
    """One row: `contenders` maps a library to a function that sets up and returns the callable to time.

    `per` divides the times (100 for "an operation" of a chain of 100). `memory` also measures the peak of each call.
    `self_timed` work returns its own seconds instead of a result (importing), so there is nothing to cross-check.
    """

    name: str
    title: str
    contenders: dict[str, Callable[[], Callable[[], Any]]]
    budgets: tuple[Budget, ...] = ()
    per: int = 1
    memory: bool = False
    self_timed: bool = False
    agreement: float = 1e-9


@dataclass
class Measured:
    """What one contender took: seconds of each round (divided by `per`), the first call, peak bytes if asked."""

    seconds: list[float] = field(default_factory=list)
    first: float = 0.0
    peak: int | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def ratio_to(self, other: "Measured") -> float:
        """Median over the rounds of this contender's time over the other's."""
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))


def run_work(
    work: Work, rounds: int, slice_seconds: float, without: frozenset[str] = frozenset()
) -> tuple[dict[str, Measured], dict[str, str]]:
    """Build, cross-check and time the contenders of `work`.

    Returns the measurements, and for each contender that is left out the reason. A contender that raises stops the
    row (the exception names it), and so does one that computes something else.
    """
    calls, measured, left = {}, {}, {}
    for name, build in work.contenders.items():
        if name in without:
            left[name] = "not asked for"
            continue
        try:
            calls[name] = build()
            start = time.perf_counter()
            calls[name]()
            measured[name] = Measured(first=time.perf_counter() - start)
        except ModuleNotFoundError as reason:
            left[name] = f"not installed ({reason})"
        except Exception as error:
            error.add_note(f"(the contender {name!r} of the benchmark {work.name!r})")
            raise
    if work.self_timed:
        for _ in range(rounds):
            for name, call in calls.items():
                measured[name].seconds.append(call())
    else:
        _agree(work, calls)
        _time_in_turns(work, calls, measured, rounds, slice_seconds)
    if work.memory:
        for name, call in calls.items():
            measured[name].peak = _peak(call)
    return measured, left


def _agree(work, calls):
    """Stop the row when two contenders computed different numbers: their times would say nothing."""
    leaves = {name: _leaves(call()) for name, call in calls.items() if name != "NumPy primal"}
    (first, expected), *others = leaves.items()
    for name, found in others:
        if len(found) != len(expected):
            raise AssertionError(f"{work.name}: {name} returned {len(found)} arrays and {first} {len(expected)}")
        for a, b in zip(expected, found, strict=True):
            scale = float(np.max(np.abs(a), initial=1e-300))
            np.testing.assert_allclose(
                b, a, rtol=work.agreement, atol=work.agreement * scale, err_msg=f"{work.name}: {name} against {first}"
            )


def _leaves(result):
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in _leaves(part)]
    return [np.asarray(result, dtype=float)]


def _time_in_turns(work, calls, measured, rounds, slice_seconds):
    repeats = {}
    for name, call in calls.items():
        start = time.perf_counter()
        call()
        repeats[name] = max(1, round(slice_seconds / (time.perf_counter() - start)))
    collecting = gc.isenabled()
    for _ in range(rounds):
        for name, call in calls.items():
            gc.collect()
            gc.disable()
            try:
                start = time.perf_counter()
                for _ in range(repeats[name]):
                    call()
                stop = time.perf_counter()
            finally:
                if collecting:
                    gc.enable()
            measured[name].seconds.append((stop - start) / repeats[name] / work.per)


def _peak(call):
    """Peak bytes that Python and NumPy allocate during one call, its result included.

    NumPy reports its buffers to `tracemalloc`; JAX and torch allocate theirs out of its sight: None for them.
    """
    gc.collect()
    tracemalloc.start()
    try:
        call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak if peak > 1_000_000 else None
