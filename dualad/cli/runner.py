"""One function at one point, checked.

Not for the order of the tasks (``check.py``), nor for the checks themselves (``dualad.testing``).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dualad.testing import CheckReport, check_function

from .points import describe_point, nearby
from .targets import Target, find_targets, points_of

__all__ = ["Runner", "Settings", "Task", "tasks_of"]


@dataclass(frozen=True)
class Settings:
    """What holds for all tasks of a run."""

    rtol: float
    atol: float
    seed: int
    oracles: tuple[str, ...]
    skip: Mapping[str, str]
    jacobian_limit: int
    at: tuple[str, ...] = ()
    samples: int = 0
    keeps_stdout: bool = False


class Task(NamedTuple):
    """One function at one of its points: the text it was named by, its label, and of how many functions it is one."""

    text: str
    label: str
    point: int
    name: str
    functions: int


class Runner:
    """Carries out tasks, keeping what those of one function share: the loaded module, what JAX compiled."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._targets: dict[str, dict[str, Target]] = {}
        self._points: dict[str, list[tuple[str, tuple]]] = {}
        self._shared: dict[str, dict] = {}

    def find(self, text: str) -> list[Target]:
        """Return the functions that a TARGET names, loading their files once."""
        if text not in self._targets:
            self._targets[text] = {target.label: target for target in find_targets(text)}
        return list(self._targets[text].values())

    def points(self, target: Target, functions: int) -> list[tuple[str, tuple]]:
        """Return the points of a function, each with its name: those it has, and samples near them."""
        if target.label not in self._points:
            named = []
            given = points_of(target, self.settings.at, functions)
            for k, point in enumerate(given, start=1):
                named.append((f"point {k} ({describe_point(point)})", point))
                for n in range(1, self.settings.samples + 1):
                    name = f"point {k}, sample {n} ({describe_point(point)})"
                    named.append((name, nearby(point, (self.settings.seed, k, n))))
            self._points[target.label] = named
        return self._points[target.label]

    def run(self, task: Task, progress: Callable[[str], None] | None = None) -> CheckReport:
        """Check one function at one point."""
        target = next(t for t in self.find(task.text) if t.label == task.label)
        _, point = self.points(target, task.functions)[task.point]
        settings = self.settings
        # Where standard output is a JSON document, what the user's functions print goes elsewhere.
        output = contextlib.redirect_stdout(sys.stderr) if settings.keeps_stdout else contextlib.nullcontext()
        with output:
            return check_function(
                target.function,
                point,
                target=target.label,
                point=task.name,
                rtol=settings.rtol,
                atol=settings.atol,
                seed=settings.seed,
                oracles=settings.oracles,
                skip={**target.skip, **settings.skip},
                jacobian_limit=settings.jacobian_limit,
                progress=progress,
                shared=self._shared.setdefault(task.label, {}),
            )


def tasks_of(runner: Runner, texts: Sequence[str]) -> tuple[list[Task], dict[str, Target]]:
    """Return one task for each point of each function that is named, and the functions by label.

    A function that is named twice (by its file and by its folder) is checked once.
    """
    found: dict[tuple[Any, str], tuple[str, Target]] = {}
    for text in texts:
        for target in runner.find(text):
            found.setdefault((getattr(target.module, "__file__", target.module), target.name), (text, target))
    functions = len(found)
    tasks = [
        Task(text, target.label, k, name, functions)
        for text, target in found.values()
        for k, (name, _) in enumerate(runner.points(target, functions))
    ]
    return tasks, {target.label: target for _, target in found.values()}
