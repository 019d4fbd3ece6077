"""The files that commands write, and standard output in place of one. Not for their contents."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dualad.errors import UsageError

__all__ = ["require_writable", "write", "write_json"]


def require_writable(name: str | None) -> None:
    """Refuse a file that can't be written before the work is done, not after."""
    if name is None:
        return
    path = Path(name)
    if path.is_dir() or (path.parent.exists() and not path.parent.is_dir()):
        raise UsageError(
            f"You asked for the report {name}.",
            "It is a folder." if path.is_dir() else f"{path.parent} is no folder.",
            "Name a file in a folder.",
        )


def write(name: str, content: str | bytes, mode: str = "w") -> None:
    """Write a file, and the folders that it is in."""
    path = Path(name)
    data = content.encode("utf-8", errors="replace") if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode + "b") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(
            f"You asked for the report {name}.", f"It can't be written: {error}.", "Name another file."
        ) from error


def write_json(name: str, data: Any, indent: int) -> None:
    """Write data as JSON into a file, or to standard output for ``-``."""
    text = json.dumps(data, indent=indent, allow_nan=False) + "\n"
    if name == "-":
        sys.stdout.write(text)
    else:
        write(name, text)
