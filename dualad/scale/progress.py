"""A bar for long maps: tqdm's if it is installed, otherwise a line of text on a terminal, and nothing in a pipe.

For: ``progress=True``. Not for: what is counted.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["Progress"]

_WIDTH = 30
#: seconds between two drawings
_EVERY = 0.1


class Progress:
    """How much of a call is done, as a context: of so many units of something, if it is to be shown at all."""

    def __init__(self, where: str, total: int, unit: str, shown: bool) -> None:
        self.where, self.total, self.unit = where, total, unit
        self.done, self._drawn, self._began = 0, 0.0, time.monotonic()
        self._theirs: Any = None
        self._file = sys.stderr
        self._shown = shown and self._file is not None and self._file.isatty()
        if self._shown and importlib.util.find_spec("tqdm") is not None:
            tqdm = importlib.import_module("tqdm.auto").tqdm
            self._theirs = tqdm(total=total, desc=where, unit=f" {unit}", leave=True)

    def __enter__(self) -> Progress:
        self._draw()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._theirs is not None:
            self._theirs.close()
        elif self._shown:
            self._draw(last=True)
            self._file.write("\n")
            self._file.flush()

    def step(self, count: int) -> None:
        """Count some as done."""
        self.done += count
        if self._theirs is not None:
            self._theirs.update(count)
        else:
            self._draw()

    def counting(self, run: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
        """Return ``run(start, stop)``, which counts."""

        def counted(start: int, stop: int) -> Any:
            result = run(start, stop)
            self.step(stop - start)
            return result

        return counted

    def _draw(self, last: bool = False) -> None:
        now = time.monotonic()
        if not self._shown or self._theirs is not None or (now - self._drawn < _EVERY and not last):
            return
        self._drawn = now
        full = _WIDTH * self.done // max(self.total, 1)
        bar = "#" * full + "-" * (_WIDTH - full)
        took = now - self._began
        self._file.write(f"\r{self.where} [{bar}] {self.done}/{self.total} {self.unit}, {took:.1f} s")
        self._file.flush()
