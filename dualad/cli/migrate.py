"""``dualad migrate``: programs written for autograd or JAX, with NumPy's and dualad's names; a diff first.

Not for: the names (``moved_names.py``) or how a text is changed (``rewriting.py``).
"""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from dualad.errors import UsageError

from .files import write
from .moved_names import LIBRARIES
from .rewriting import Rewriting, rewrite

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Print what would change, or change it; return 1 if something is left to a human."""
    changed = left = 0
    for path in _files(options.files):
        old = _read(path)
        made = _rewritten(path, old, options.library)
        left += len(made.decisions)
        if made.text != old:
            changed += 1
            if options.write:
                write(str(path), made.text)
            else:
                _print_diff(str(path), old, made.text)
        for line, words in made.decisions:
            print(f"{path}:{line}: {words}", file=sys.stderr)
    files = f"{changed} file{'s' * (changed != 1)}"
    done = f"{files} changed" if options.write else f"{files} would change (--write)"
    print(f"{done}, {left} place{'s' * (left != 1)} to decide", file=sys.stderr)
    return 1 if left else 0


def _files(names: list[str]) -> list[Path]:
    found: list[Path] = []
    for name in names:
        path = Path(name)
        if not path.exists():
            raise UsageError(f"You asked to migrate {name}.", "There is no such file.", "Name files, or folders.")
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"You asked to migrate {path}.", f"It can't be read: {error}.", "Name a text file.") from error


def _rewritten(path: Path, old: str, name: str) -> Rewriting:
    try:
        return rewrite(old, LIBRARIES[name], name)
    except SyntaxError as error:
        raise UsageError(
            f"You asked to migrate {path}.", f"It is no Python program: {error}.", "Name files of Python programs."
        ) from error


def _print_diff(name: str, old: str, new: str) -> None:
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, name)
    sys.stdout.writelines(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
