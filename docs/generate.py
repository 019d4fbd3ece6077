"""Write the reference pages that are tables of what the code declares: operators, NumPy's and SciPy's names.

Sphinx runs it before each build (`conf.py`); `python docs/generate.py FOLDER` writes the pages anywhere. The pages
are not in version control, so they can't be stale. Not for prose.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import itertools
import json
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np

import dualad
from dualad.base.later import load_everything
from dualad.cli.main import main
from dualad.core.tables import OPS, UFUNCS, Verdict
from dualad.errors import RuleMissingError
from dualad.ops.samples import realize
from dualad.surface.unsupported import public_name, verdict_of

ROOT = Path(dualad.__file__).resolve().parents[1]

OPERATORS_INTRODUCTION = """\
# Operators

The {count} operators, as declared. *Derivative: zero* marks steps, predicates and indices, whose derivative vanishes
wherever it exists. A linear operator has a transpose; the others need none
(*depends*: on the parameters of the call). *Batch: loop* means one call for each
member of the batch."""

COVERAGE_INTRODUCTION = """\
# NumPy coverage

Every name of NumPy that dispatches on the types of its arguments (`__array_ufunc__`, `__array_function__`), with
its verdict. *op*: an operator with rules of its own. *composite*: written with other NumPy calls, so that every
transformation applies. *metadata*: answered from shape and dtype. *unsupported*: refused, with the reason and what
to write instead. *not yet*: refused, as no rule has been declared so far. The other functions of
`numpy.polynomial` don't dispatch: they are arithmetic, which tensors do."""

SCIPY_INTRODUCTION = """\
# SciPy coverage

What is differentiated is every array of floating-point numbers, unless the table says less; what configures a call
(orders, sizes, modes, windows) is constant. Where `dualad.scipy` has no version of a function, its name there is
SciPy's own, which refuses tensors with words."""

UFUNCS_INTRODUCTION = """\
## Ufuncs of scipy.special

Called as SciPy's, or from `dualad.scipy.special`. Being differentiated in another argument than those listed is an
error that names it. Without a derivative, and so refused: {others}."""

DIRECT_INTRODUCTION = """\
## SciPy's own functions on tensors

What happens if tensors are given to functions of SciPy that are neither ufuncs nor taken from `dualad.scipy`, by
default and if the environment variable `SCIPY_ARRAY_API` was `1` when SciPy was imported. *Yes*: value, both modes of
differentiation and `vmap` are right. *No* is an error, never a number without its derivative. Without the variable
`dualad.scipy` answers in SciPy's place where SciPy refuses tensors, since transforms lift by themselves; with it all
arrays of a call must be tensors. The table was measured with SciPy {release}, and the tests measure it again."""


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Format a Markdown table, with the bars inside cells escaped."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"

    head = list(header)
    return "\n".join([line(head), "|" + "---|" * len(head), *(line(row) for row in rows)])


# --- operators -------------------------------------------------------------------------------------------------------


def linearity(positions: tuple[int, ...] | Callable) -> str:
    """Say in which arguments an operator is linear."""
    if callable(positions):
        return "depends"
    return "in all" if -1 in positions else ", ".join(f"in {i}" for i in positions)


def operators_page() -> str:
    """List every operator with its kind, its linearity, its batching and where it is declared."""
    rows = []
    load_everything()
    for name, op in sorted(OPS.items()):
        path, _, line = op.place.rpartition(":")
        rows.append(
            (
                f"`{name}`",
                ", ".join(f"`{public_name(f)}`" for f in op.numpy),
                op.kind,
                "yes" if op.jvp else "zero",
                linearity(op.linear_in),
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


def note(verdict: Verdict | None) -> str:
    """Join the reason and the rewrite of a name that is refused."""
    return "; ".join(part for part in (verdict.reason, verdict.instead) if part) if verdict else ""


NUMPY_MODULES = {
    "numpy": np,
    "numpy.linalg": np.linalg,
    "numpy.fft": np.fft,
    "numpy.emath": np.emath,
    "numpy.lib.stride_tricks": np.lib.stride_tricks,
    "numpy.polynomial.polynomial": np.polynomial.polynomial,
}


def coverage_page() -> str:
    """Give the verdict of every dispatching name of NumPy."""
    parts = [COVERAGE_INTRODUCTION]
    for title, module in NUMPY_MODULES.items():
        verdicts = [(name, verdict_of(function)) for name, function in dispatching(module)]
        rows = [(f"`{name}`", verdict.kind if verdict else "not yet", note(verdict)) for name, verdict in verdicts]
        supported = sum(verdict is not None and verdict.kind != "unsupported" for _, verdict in verdicts)
        summary = f"{supported} of {len(rows)} names are supported."
        parts.append(f"## {title}\n\n{summary}\n\n{table(('name', 'verdict', 'note'), rows)}")
    return "\n\n".join(parts) + "\n"


# --- SciPy's names ---------------------------------------------------------------------------------------------------


def differentiable_in(ufunc: np.ufunc) -> list[str]:
    """Name the arguments of a ufunc that have a derivative rule, as its own signature names them."""
    op = UFUNCS[ufunc]
    # NumPy puts a signature with x1, x2 before the one that SciPy wrote.
    signature = re.findall(rf"^\s*{ufunc.__name__}\((.*?)\)", ufunc.__doc__ or "", re.MULTILINE)[-1]
    names = [name.strip(" [") for name in signature.split(",")][: ufunc.nin]
    args = realize(op)[0].args
    found = []
    for i, name in enumerate(names):
        if op.jvp is None or np.asarray(args[i]).dtype.kind not in "fc":
            continue
        with contextlib.suppress(RuleMissingError), np.errstate(all="ignore"):
            op.jvp(list(args), [np.ones_like(a) if j == i else None for j, a in enumerate(args)])
            found.append(name)
    return found


def ufuncs_section() -> str:
    """List the ufuncs of scipy.special with what they can be differentiated in."""
    import scipy.special
    from scipy.special import _ufuncs

    public = {name: getattr(_ufuncs, name, None) for name in dir(scipy.special) if not name.startswith("_")}
    ufuncs = {name: f for name, f in public.items() if isinstance(f, np.ufunc)}
    rows = [(f"`{name}`", ", ".join(differentiable_in(f)) or "zero") for name, f in ufuncs.items() if f in UFUNCS]
    others = ", ".join(f"`{name}`" for name, f in ufuncs.items() if f not in UFUNCS)
    introduction = UFUNCS_INTRODUCTION.format(others=others)
    return f"{introduction}\n\n{table(('name', 'differentiable in'), rows)}"


def mirrored() -> dict[str, tuple[str, Verdict]]:
    """Return the functions of `dualad.scipy` by SciPy's public path: what ours says of itself, and its verdict."""
    from dualad.scipy.mirror import MIRRORED

    found = {}
    for name, verdict in MIRRORED.items():
        home, _, function = name.rpartition(".")
        # A function may be in a room of its package that SciPy has not: linalg.systems.solve is SciPy's linalg.solve.
        parts = home.split(".")
        homes = [".".join(parts[:n]) for n in range(2, len(parts) + 1)]
        path = next(p for p in homes if hasattr(resolve(f"dualad.{p}"), function))
        ours = getattr(resolve(f"dualad.{path}"), function)
        summary = inspect.cleandoc(ours.__doc__ or "").partition("\n\n")[0]
        found[f"{path}.{function}"] = (summary, verdict)
    return found


def resolve(path: str) -> object:
    """Return what a dotted path names; an object without the attribute gives None."""
    package, *names = path.split(".")
    thing: object = importlib.import_module(package)
    for name in names:
        with contextlib.suppress(ImportError):
            if isinstance(thing, ModuleType):
                importlib.import_module(f"{thing.__name__}.{name}")
        thing = getattr(thing, name, None)
    return thing


def mirrored_sections() -> Iterator[str]:
    """Yield a section for each subpackage of SciPy of which dualad has functions."""
    names = mirrored()
    methods: dict[str, list[str]] = {}
    for name in [n for n in names if n.startswith("scipy.stats.") and n.count(".") == 3]:
        distribution, _, method = name.rpartition(".")
        methods.setdefault(distribution, []).append(f"`{method}`")
        del names[name]
    for name, offered in methods.items():
        names[name] = (
            "with tensors as argument and as parameters: " + ", ".join(sorted(offered)),
            Verdict("composite"),
        )
    for home, group in itertools.groupby(sorted(names), key=lambda name: name.rpartition(".")[0]):
        rows = []
        for name in group:
            summary, verdict = names[name]
            rows.append((f"`{name.rpartition('.')[2]}`", verdict.kind, note(verdict) or summary))
        yield f"## {home}\n\n{table(('name', 'verdict', 'note'), rows)}"


def direct_section() -> str:
    """List what SciPy's own functions do on tensors, as measured."""
    from scipy import __version__ as release

    outcomes = json.loads((ROOT / "tests" / "scipy" / "direct.json").read_text())
    rows = [(f"`scipy.{name}`", default, flagged) for name, (default, flagged) in sorted(outcomes.items())]
    introduction = DIRECT_INTRODUCTION.format(release=".".join(release.split(".")[:2]))
    return f"{introduction}\n\n{table(('function', 'by default', 'SCIPY_ARRAY_API=1'), rows)}"


def scipy_page() -> str:
    """Say of SciPy's names what dualad does with them."""
    return "\n\n".join([SCIPY_INTRODUCTION, *mirrored_sections(), ufuncs_section(), direct_section()]) + "\n"


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
    "operators.md": operators_page,
    "numpy-coverage.md": coverage_page,
    "scipy-coverage.md": scipy_page,
    **{
        f"usage-{command}.txt": partial(usage, command)
        for command in ("check", "jacobian", "trace", "explain", "ops", "migrate", "bug", "help")
    },
}


def write_all(folder: Path) -> None:
    """Write every page whose text has changed, so that an unchanged page is not read again."""
    # What is declared on first use only (scipy.special's operators) is declared now.
    for info in pkgutil.walk_packages(dualad.__path__, "dualad."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)
    folder.mkdir(parents=True, exist_ok=True)
    for page in folder.iterdir():
        if page.name not in PAGES:
            page.unlink()  # left by an older version
    for name, make in PAGES.items():
        text = make()
        page = folder / name
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
