"""The bar of ``progress=True``: tqdm's if it is installed, otherwise one line on a terminal, and nothing in a pipe.

For: ``driver.py``. Not for: drawing (``base/terminal.py``).
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

from ..base import terminal

__all__ = ["Progress"]


class Progress:
    """A context that counts the units of a call that are done, and shows them if it is to."""

    def __init__(self, where: str, total: int, unit: str, shown: bool) -> None:
        self.where, self.unit, self.began = where, unit, time.monotonic()
        self.line, self.theirs = terminal.Progress(total=total, quiet=not shown), None
        if self.line.live and importlib.util.find_spec("tqdm") is not None:
            tqdm = importlib.import_module("tqdm.auto").tqdm
            self.theirs = tqdm(total=total, desc=where, unit=f" {unit}", leave=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.theirs is not None:
            self.theirs.close()
        else:
            self.line.end(self._text())

    def step(self, count: int) -> None:
        """Count some as done."""
        if self.theirs is not None:
            self.theirs.update(count)
        else:
            self.line.advance(self._text(), count)

    def counting(self, run: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
        """Return ``run(start, stop)``, which counts."""

        def counted(start: int, stop: int) -> Any:
            result = run(start, stop)
            self.step(stop - start)
            return result

        return counted

    def _text(self) -> str:
        return f"{self.unit} of {self.where}, {time.monotonic() - self.began:.1f} s"
