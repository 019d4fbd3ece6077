"""What a kind of adversary hands over, and running a number of its programs in this process.

For: ``Case``, ``Report``, the table of kinds. Not for: comparing (``compare.py``), processes (``__main__.py``).
"""

from __future__ import annotations

import importlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "KINDS",
    "NIGHTLY",
    "Case",
    "Difference",
    "LeftOut",
    "Report",
    "Void",
    "kind",
    "programs",
    "run",
    "shrunk",
    "words",
]

#: name of a kind (a module of this folder) -> how many of its programs the gate runs
KINDS = {
    "aliases": 4,
    "control": 8,
    "derivatives": 10,
    "errors": 12,
    "inplace": 3,
    "large": 4,
    "numpy_calls": 100,
    "objects": 8,
    "state": 40,
    "textbook": 6,
}
#: name of a kind -> how many of its programs a night runs
NIGHTLY = {
    "aliases": 2000,
    "control": 2000,
    "derivatives": 4000,
    "errors": 3000,
    "inplace": 2000,
    "large": 400,
    "numpy_calls": 9000,
    "objects": 3000,
    "state": 10_000,
    "textbook": 2000,
}
#: smaller programs that are tried for one difference
_TRIED = 120


class Difference(AssertionError):
    """Compiled code and eager code are not the same."""


class Void(Exception):
    """A text that is no program: plain NumPy raises."""


def _nothing() -> Iterator[Case]:
    return iter(())


class Case(NamedTuple):
    """One program to try.

    ``text`` is its source, as a report shows it; ``check`` raises where compiled and eager code differ; ``smaller``
    yields cases with less in them, the smallest first, for the search for the least that still differs.
    """

    name: str
    text: str
    check: Callable[[], None]
    smaller: Callable[[], Iterator[Case]] = _nothing


class LeftOut(logging.Handler):
    """Notes what the compiler has left out since it was last asked: each is a slower program, and right."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.parts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        part, error = (*[str(a) for a in record.args or ()], "?", "?")[:2]
        self.parts.append(f"{part.partition(' (')[0]}: {error}")

    def taken(self) -> list[str]:
        """Return the notes, and begin anew."""
        parts, self.parts = self.parts, []
        return parts


@dataclass
class Report:
    """What a run found: programs, those that NumPy refuses, and (seed, words, smallest text) of each difference."""

    kind: str
    count: int = 0
    void: int = 0
    seconds: float = 0.0
    found: list[tuple[int, str, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        void = f" ({self.void} that NumPy refuses)" if self.void else ""
        head = f"{self.kind}: {self.count} programs{void}, {len(self.found)} different, {self.seconds:.0f} s"
        head += "".join([f"\n  left out {count} times: {part}" for part, count in self.left_out.most_common()])
        return "\n\n".join([head, *[f"# seed {seed}: {what}\n{text}" for seed, what, text in self.found]])


def kind(name: str) -> Callable[[int], Case]:
    """Return the function that makes a kind's case from a seed."""
    return importlib.import_module(f"{__package__}.{name}").case


def programs(name: str, seed: int) -> Iterator[Case]:
    """Return a kind's cases from a seed on."""
    case = kind(name)
    while True:
        yield case(seed)
        seed += 1


def words(case: Case) -> str | None:
    """Return what is different, in a line; None if nothing is, and "" of a text that is no program."""
    try:
        case.check()
    except Void:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]
    return None


def shrunk(case: Case, what: str, seconds: float = 30.0) -> tuple[Case, str]:
    """Return a smaller case that is still different, and how: first come, first taken, as often as it helps."""
    end = time.monotonic() + seconds
    tried, again = 0, True
    while again:
        again = False
        for smaller in case.smaller():
            tried += 1
            if tried > _TRIED or time.monotonic() > end:
                return case, what
            found = words(smaller)
            # Another family of exception may be another fault, or one that only the smaller text has.
            if found and found.split(":")[0] == what.split(":")[0]:
                case, what, again = smaller, found, True
                break
    return case, what


def run(name: str, count: int, seed: int = 0, seconds: float = float("inf"), shrink: bool = True) -> Report:
    """Return a report of ``count`` programs of a kind, or of as many as there is time for, in this process."""
    report, start = Report(name), time.monotonic()
    for number, case in zip(range(seed, seed + count), programs(name, seed), strict=False):
        if time.monotonic() - start > seconds:
            break
        report.count += 1
        what = words(case)
        report.void += what == ""
        if what:
            least, what = shrunk(case, what) if shrink else (case, what)
            report.found.append((number, what, least.text))
    report.seconds = time.monotonic() - start
    return report
