"""From TARGET to functions: ``file.py:function``, ``package.module:function``, a file, a module, a folder, a pattern.

A file declares points in a module-level dictionary::

    __dualad__ = {
        "spring": [(np.array([1.0, -2.0]), 3.0)],             # a list of points, each a tuple of arguments
        "rates": lambda: [(0.0, np.ones(2))],                 # or a function that makes the list
        "branchy": {"points": [(1.0,)], "skip": {"vmap-value": "branches on the value"}},
    }

Not for ``--at`` (``points.py``), and not for loading (``dualad/lift/loading.py``).
"""

from __future__ import annotations

import ast
import difflib
import glob
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from dualad.errors import UsageError
from dualad.lift.loading import load_module

from .points import parse_point

__all__ = ["DECLARATION", "Target", "find_targets", "points_of", "with_points"]

DECLARATION = "__dualad__"
_EXAMPLE = f'{DECLARATION} = {{"f": [(np.array([1.0, 2.0]),)]}}'
_NOT_SOURCE = {"__pycache__", "node_modules", "build", "dist", "site-packages"}


@dataclass(frozen=True)
class Target:
    """One function, and the points its file declares for it."""

    label: str
    name: str
    module: ModuleType
    function: Callable
    points: tuple[tuple[Any, ...], ...] = ()
    skip: Mapping[str, str] = field(default_factory=dict)


def find_targets(target: str) -> list[Target]:
    """Return the functions that TARGET names, in the order of their declaration."""
    if not target:
        raise UsageError("You named an empty target.", "There is nothing to load.", "Write path/to/file.py:function.")
    path = Path(target)
    if path.is_dir() and not (target.isidentifier() and (path / "__init__.py").is_file()):
        return _in_folder(path)
    where, name = _split(target)
    if glob.has_magic(where) and not Path(where).exists():
        return _matching(where, name)
    # `python -m dualad` finds modules in the current folder; the console script must too.
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = load_module(where)
    if name:
        return [_named(module, where, name)]
    found = _declared(module, where)
    if found:
        return found
    raise _nothing(
        f"You asked for all functions of {where}.",
        f"It declares no points, so there is nothing to say which functions, and where: it has no {DECLARATION}.",
        f"Add {_EXAMPLE} to it, or name a function and a point: {where}:f --at '[[1.0, 2.0]]'.",
    )


def points_of(target: Target, at: Sequence[str], targets: int = 1) -> list[tuple]:
    """Return the points of one function: those of ``--at``, else those its file declares."""
    if at and targets > 1:
        raise UsageError(
            f"You gave --at for {targets} functions.",
            "A point is the list of one function's arguments.",
            "Name one function: path/to/file.py:function.",
        )
    points = [parse_point(text, target.function) for text in at] or list(target.points)
    if not points:
        where, name = target.label.rpartition(":")[::2]
        raise UsageError(
            f"You asked for derivatives of {target.label}.",
            "There is no point to take them at: the file declares none for it, and there is no --at.",
            f"Write --at '[[1.0, 2.0]]' (a list of all arguments), or put into {where}:\n"
            f'    __dualad__ = {{"{name}": [(np.array([1.0, 2.0]),)]}}',
        )
    return points


def with_points(target: str, at: Sequence[str]) -> list[tuple[Target, tuple]]:
    """Return each function that TARGET names with each of its points."""
    targets = find_targets(target)
    return [(found, point) for found in targets for point in points_of(found, at, len(targets))]


def _nothing(what: str, why: str, instead: str) -> UsageError:
    """Make the error for a target in which there is nothing to check, which has an exit status of its own."""
    error = UsageError(what, why, instead)
    error.exit_status = 3
    return error


def _split(target: str) -> tuple[str, str]:
    """Cut ``where:function``; a drive letter's colon is no such cut."""
    if Path(target).exists():
        return target, ""
    where, colon, name = target.rpartition(":")
    if colon and len(where) > 1:
        if not name:
            raise UsageError(
                f"You wrote {target!r}.", "No function follows the colon.", f"Write {where}:function, or {where} alone."
            )
        return where, name
    return target, ""


def _named(module: ModuleType, where: str, name: str) -> Target:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            own = [n for n in names if getattr(getattr(module, n), "__module__", None) == module.__name__]
            close = difflib.get_close_matches(name, names, 3)
            offer = f"It has: {', '.join(sorted(own)[:12])}." if own else "It defines no functions."
            raise UsageError(
                f"You asked for {name!r} in {where}.",
                f"There is no such name. {offer}",
                f"Did you mean {where}:{close[0]}?" if close else f"Write {where}:NAME with a function it defines.",
            )
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(
            f"You asked for derivatives of {name!r} in {where}.",
            f"It is a {type(found).__name__}, not a function.",
            "Name a function.",
        )
    points, skip = _points(module, where, name)
    return Target(f"{where}:{name}", name, module, found, points, skip)


def _declared(module: ModuleType, where: str) -> list[Target]:
    return [_named(module, where, name) for name in _declaration(module, where)]


def _declaration(module: ModuleType, where: str) -> Mapping[str, Any]:
    """Return what a file declares, by the names of functions; nothing if it declares nothing."""
    declaration = getattr(module, DECLARATION, None)
    if declaration is None:
        return {}
    if not isinstance(declaration, Mapping) or not all(isinstance(name, str) for name in declaration):
        raise UsageError(
            f"{DECLARATION} of {where} is a {type(declaration).__name__}.",
            "It must be a dictionary from the names of functions to their points.",
            f"Write {_EXAMPLE}.",
        )
    return declaration


def _points(module: ModuleType, where: str, name: str) -> tuple[tuple[tuple[Any, ...], ...], Mapping[str, str]]:
    """Return the declared points of a function, and the quantities its file says to skip."""
    declaration = _declaration(module, where)
    if name not in declaration:
        return (), {}
    value, skip = declaration[name], {}
    if isinstance(value, Mapping):
        unknown = set(value) - {"points", "skip"}
        skip = value.get("skip", {})
        if unknown or "points" not in value or not isinstance(skip, Mapping):
            raise UsageError(
                f"{DECLARATION}[{name!r}] of {where} has the keys {sorted(map(str, value))}.",
                "A dictionary there has 'points' and, if some quantity can't be had, 'skip' with a reason for each.",
                '{"points": [(1.0,)], "skip": {"vmap-value": "branches on the value"}}',
            )
        value = value["points"]
    if callable(value):
        try:
            value = value()
        except Exception as error:
            raise UsageError(
                f"{DECLARATION}[{name!r}] of {where} is a function that raised {type(error).__name__}: {error}",
                "It is called without arguments and returns the list of points.",
                "Make it run by itself first.",
            ) from error
    if not isinstance(value, (list, tuple)) or not value:
        raise UsageError(
            f"{DECLARATION}[{name!r}] of {where} is {'empty' if value == [] else 'a ' + type(value).__name__}.",
            "It must be a list of points.",
            f"Write a list of tuples of arguments: {_EXAMPLE}.",
        )
    for k, point in enumerate(value, start=1):
        if not isinstance(point, (list, tuple)):
            raise UsageError(
                f"Point {k} of {DECLARATION}[{name!r}] in {where} is a {type(point).__name__}.",
                "A point is the tuple of all arguments, even when there is only one.",
                "Write (x,) with the comma instead of x.",
            )
    return tuple(tuple(point) for point in value), dict(skip)


def _in_folder(folder: Path) -> list[Target]:
    """Return the declared functions of all files in a folder and below it."""
    files = [path for path in sorted(_sources(folder)) if _declares(path)]
    if not files:
        raise _nothing(
            f"You asked for all functions in the folder {folder}.",
            f"No .py file in it declares points ({DECLARATION}), so nothing says which functions, and where.",
            f"Add {_EXAMPLE} to a file, or name one: {folder}/file.py:f --at '[[1.0, 2.0]]'.",
        )
    return _all_declared(files)


def _matching(pattern: str, name: str) -> list[Target]:
    """Return the declared functions of all files that match a pattern, or the one of that name in each."""
    found = [Path(p) for p in sorted(glob.glob(pattern, recursive=True))]
    sources = {p for path in found for p in (_sources(path) if path.is_dir() else [path]) if p.suffix == ".py"}
    files = [path for path in sorted(sources) if not _NOT_SOURCE & set(path.parts)]
    if not files:
        raise _nothing(
            f"You asked for the files {pattern!r}.",
            f"No .py file matches this pattern from the current folder, {os.getcwd()}.",
            "Write a pattern of files: 'src/**/model_*.py', where ** is any number of folders; in quotes, so that "
            "dualad and not the shell expands it.",
        )
    if name:
        return [_named(load_module(path), str(path), name) for path in files]
    declaring = [path for path in files if _declares(path)]
    if not declaring:
        raise _nothing(
            f"You asked for all functions in the files {pattern!r}.",
            f"{len(files)} .py files match it, and none declares points ({DECLARATION}).",
            f"Add {_EXAMPLE} to a file, or name a function and a point: {files[0]}:f --at '[[1.0, 2.0]]'.",
        )
    return _all_declared(declaring)


def _all_declared(files: Iterable[Path]) -> list[Target]:
    return [target for path in files for target in _declared(load_module(path), str(path))]


def _sources(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith(".") or entry.name in _NOT_SOURCE or (entry / "pyvenv.cfg").is_file():
            continue
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.suffix == ".py":
            yield entry


def _declares(path: Path) -> bool:
    """Whether a file assigns ``__dualad__``, without running it."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if DECLARATION not in text:
        return False
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return True  # loading it will say what is wrong
    names = [
        target
        for node in body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return any(isinstance(target, ast.Name) and target.id == DECLARATION for target in names)
