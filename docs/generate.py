"""Write the reference pages that are tables of what the code declares: errors, operators, NumPy's names, usage.

Sphinx runs it before each build (`conf.py`); `python docs/generate.py FOLDER` writes the pages anywhere. The pages
are not in version control, so they can't be stale. Not for prose.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np

import dualad
from dualad.cli.main import main
from dualad.core.tables import OPS, VERDICTS
from dualad.errors import DualadError

ROOT = Path(dualad.__file__).resolve().parents[1]

ERRORS_INTRODUCTION = """\
# Errors

Every error that dualad raises on purpose is a `dualad.errors.DualadError`. Its message says what you did, why it can't
work, and what to write instead; it begins with a code, which is the anchor of its entry here."""

OPERATORS_INTRODUCTION = """\
# Operators

The {count} operators, as declared. *Derivative: zero* marks steps, predicates and indices, whose derivative vanishes
wherever it exists. A linear operator has a transpose; the others need none. *Batch: loop* means one call for each
member of the batch."""

COVERAGE_INTRODUCTION = """\
# NumPy coverage

Every name of NumPy that asks its arguments before it computes, with its verdict. *op*: an operator with rules of its
own. *composite*: written with other NumPy calls, so that every transformation applies. *metadata*: answered from shape
and dtype. *unsupported*: refused, with the reason."""


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Format a Markdown table, with the bars inside cells escaped."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"

    head = list(header)
    return "\n".join([line(head), "|" + "---|" * len(head), *(line(row) for row in rows)])


# --- errors ----------------------------------------------------------------------------------------------------------


def all_errors() -> list[type[DualadError]]:
    """Every error class of the package, in the order of the codes; modules are imported so that all exist."""
    for info in pkgutil.walk_packages(dualad.__path__, "dualad."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)

    def family(cls: type[DualadError]) -> Iterator[type[DualadError]]:
        yield cls
        for child in cls.__subclasses__():
            yield from family(child)

    return sorted(set(family(DualadError)), key=lambda cls: (cls.code, cls.__name__))


def errors_page() -> str:
    """Describe each error, with its code as the anchor."""
    parts = [ERRORS_INTRODUCTION]
    for cls in all_errors():
        bases = ", ".join(f"`{base.__name__}`" for base in cls.__mro__[1:] if base not in (object, BaseException))
        meaning = inspect.cleandoc(cls.__doc__ or "").splitlines()[0]
        parts.append(f"({cls.code.lower()})=\n## {cls.code} · {cls.__name__}\n\n{meaning}\n\nCatch it as: {bases}.")
    return "\n\n".join(parts) + "\n"


# --- operators -------------------------------------------------------------------------------------------------------


def numpy_name(function: Callable) -> str:
    """Return the name a user would write for a NumPy or SciPy callable."""
    if isinstance(function, np.ufunc):
        if getattr(np, function.__name__, None) is function:
            return f"np.{function.__name__}"
        return f"scipy.special.{function.__name__}"
    module = (getattr(function, "__module__", None) or "numpy").replace("numpy", "np", 1)
    return f"{module}.{function.__name__}"


def operators_page() -> str:
    """List every operator with its kind, its linearity, its batching and where it is declared."""
    rows = []
    for name, op in sorted(OPS.items()):
        path, _, line = op.place.rpartition(":")
        linear = "in all" if -1 in op.linear_in else ", ".join(f"in {i}" for i in op.linear_in)
        rows.append(
            (
                f"`{name}`",
                ", ".join(f"`{numpy_name(f)}`" for f in op.numpy),
                op.kind,
                "yes" if op.jvp else "zero",
                linear,
                "yes" if op.batch else "loop",
                f"`{Path(path).resolve().relative_to(ROOT).as_posix()}:{line}`",
            )
        )
    head = ("operator", "NumPy's name", "kind", "derivative", "linear", "batch", "declared at")
    return f"{OPERATORS_INTRODUCTION.format(count=len(rows))}\n\n{table(head, rows)}\n"


# --- NumPy's names ---------------------------------------------------------------------------------------------------


def dispatching(module: ModuleType) -> Iterator[tuple[str, Callable]]:
    """Yield the public callables of a NumPy module that ask their arguments before they compute."""
    for name in sorted(dir(module)):
        function = getattr(module, name)
        if not name.startswith("_") and (isinstance(function, np.ufunc) or hasattr(function, "_implementation")):
            yield name, function


def coverage_page() -> str:
    """Give the verdict of every dispatching name of NumPy."""
    parts = [COVERAGE_INTRODUCTION]
    for title, module in (("numpy", np), ("numpy.linalg", np.linalg), ("numpy.fft", np.fft)):
        rows, count = [], 0
        for name, function in dispatching(module):
            verdict = VERDICTS.get(function)
            kind = verdict.kind if verdict else "unsupported"
            count += kind != "unsupported"
            said = ". ".join(part.rstrip(".") for part in (verdict.reason, verdict.instead) if part) if verdict else ""
            rows.append((f"`{name}`", kind, said))
        parts.append(
            f"## {title}\n\n{count} of {len(rows)} names are supported.\n\n{table(('name', 'verdict', 'note'), rows)}"
        )
    return "\n\n".join(parts) + "\n"


# --- the command line ------------------------------------------------------------------------------------------------


def usage(command: str) -> str:
    """Return what `dualad COMMAND --help` prints, at a width that does not depend on the terminal."""
    printed = io.StringIO()
    width = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([command, "--help"])
    finally:
        if width is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = width
    return printed.getvalue()


PAGES: dict[str, Callable[[], str]] = {
    "errors.md": errors_page,
    "operators.md": operators_page,
    "numpy-coverage.md": coverage_page,
    **{f"usage-{command}.txt": partial(usage, command) for command in ("check", "jacobian", "trace", "ops")},
}


def write_all(folder: Path) -> None:
    """Write every page whose text has changed, so that an unchanged page is not read again."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        text = make()
        page = folder / name
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
