"""``dualad help``: the page of an error's code, in the terminal.

Not for the usage of a command (``dualad COMMAND --help``).
"""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

from dualad.errors import UsageError, catalogue

__all__ = ["page_of", "run"]

_HERE = Path(__file__).resolve().parent
#: in an installed package beside this file, in a source tree among the documentation
_FOLDERS = (_HERE / "errors", _HERE.parents[1] / "docs" / "reference" / "errors")


def run(options: argparse.Namespace) -> int:
    """Print the page of a code, or the list of codes."""
    classes = {cls.code: cls for cls in catalogue()}
    if options.code is None:
        for code, cls in classes.items():
            print(f"{code}  {cls.__name__:<20}  {cls.title}")
        return 0
    code = options.code.strip("[]").upper()
    code = {cls.__name__.upper(): code for code, cls in classes.items()}.get(code, code)
    if code not in classes:
        close = difflib.get_close_matches(code, classes, 1)
        raise UsageError(
            f"You asked for the error {options.code!r}.",
            f"There is none of this code; they go from {min(classes)} to {max(classes)}.",
            f"Did you mean {close[0]}?" if close else "Write  dualad help  for the list.",
        )
    print(page_of(code), end="")
    return 0


def page_of(code: str) -> str:
    """Return the text of a code's page, in Markdown; a UsageError where the pages are not there."""
    for folder in _FOLDERS:
        page = folder / f"{code}.md"
        if page.is_file():
            return page.read_text(encoding="utf-8")
    raise UsageError(
        f"You asked for the page of {code}.",
        f"It is in none of {', '.join(map(str, _FOLDERS))}.",
        "Install dualad as a whole, or read the page in the documentation: reference/errors.",
    )
