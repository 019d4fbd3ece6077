"""From TARGET to functions: ``file.py:function``, ``package.module:function``, a file, a module, a folder, a pattern.

And from ``--at`` to points: JSON text, a list of the arguments in order or an object of arguments by name, whose lists
of numbers become arrays; a ``.json`` file of it; an ``.npy`` file, the only argument; an ``.npz`` file, whose arrays
are arguments by name, or in order where NumPy named them ``arr_0``, ``arr_1``.

A file declares points in a module-level dictionary::

    __dualad__ = {
        "spring": [(np.array([1.0, -2.0]), 3.0)],             # a list of points, each a tuple of arguments
        "rates": lambda: [(0.0, np.ones(2))],                 # or a function that makes the list
        "branchy": {"points": [(1.0,)], "skip": {"vmap-value": "branches on the value"}},
    }

Not for loading (``dualad/lift/loading.py``).
"""

from __future__ import annotations

import ast
import difflib
import glob
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dualad.base.tree import tree_map
from dualad.errors import UsageError
from dualad.lift.loading import load_module

__all__ = [
    "DECLARATION", "Target", "describe_point", "find_targets", "nearby", "parse_point", "points_of", "with_points",
]  # fmt: skip

_EXAMPLES = "--at '[[1.0, 2.0], 3.0]' (one list of all arguments), --at x.npy, or --at arguments.npz"


def parse_point(text: str, function: Callable) -> tuple[Any, ...]:
    """Return the arguments that one ``--at`` describes."""
    if text.endswith((".npy", ".npz", ".json")):
        return _from_file(Path(text), function)
    return _from_json(text, text, function)


def describe_point(args: tuple[Any, ...]) -> str:
    """Say in a few words what a point is made of: ``float64[3], 2.0``."""
    words = []
    for arg in args:
        if isinstance(arg, np.ndarray):
            words.append(f"{arg.dtype}[{', '.join(map(str, arg.shape))}]")
        elif isinstance(arg, (int, float, complex, str, np.generic)) or arg is None:
            words.append(str(arg) if isinstance(arg, np.generic) else repr(arg))
        else:
            words.append(type(arg).__name__)
    text = ", ".join(words)
    return text if len(text) <= 60 else text[:57] + "..."


def nearby(args: tuple[Any, ...], seed: Sequence[int]) -> tuple[Any, ...]:
    """Return a point beside another: each floating number changed by about one percent, so that signs stay."""
    rng = np.random.default_rng(seed)

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, (float, complex, np.ndarray, np.inexact)) or np.asarray(leaf).dtype.kind not in "fc":
            return leaf
        out = np.asarray(leaf) * (1 + 0.01 * np.clip(rng.standard_normal(np.shape(leaf)), -3, 3))
        return out.astype(leaf.dtype) if isinstance(leaf, (np.ndarray, np.generic)) else type(leaf)(out)

    return tuple(tree_map(moved, args))


def _from_file(path: Path, function: Callable) -> tuple[Any, ...]:
    if not path.is_file():
        raise UsageError(f"You wrote --at {path}.", "There is no such file.", f"Write {_EXAMPLES}.")
    if path.suffix == ".json":
        return _from_json(path.read_text(encoding="utf-8"), str(path), function)
    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise UsageError(
            f"You wrote --at {path}.",
            f"NumPy can't read it ({error}); files with pickled objects are refused because loading one runs code.",
            "Write it with np.save or np.savez, from arrays of numbers.",
        ) from error
    if isinstance(loaded, np.ndarray):
        return (loaded,)
    with loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    positions = [re.fullmatch(r"arr_(\d+)", name) for name in arrays]
    if all(positions):
        order = sorted(arrays, key=lambda name: int(name.removeprefix("arr_")))
        return tuple(arrays[name] for name in order)
    return _to_positional(arrays, str(path), function)


def _from_json(text: str, shown: str, function: Callable) -> tuple[Any, ...]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"You wrote --at {shown}.",
            f"It is neither a .npy, .npz or .json file nor JSON ({error}).",
            f"Write {_EXAMPLES}.",
        ) from error
    if isinstance(data, dict):
        return _to_positional({name: _value(item) for name, item in data.items()}, shown, function)
    if not isinstance(data, list):
        raise UsageError(
            f"You wrote --at {shown}.",
            "A point is the list of all arguments, even when there is only one.",
            f"Write --at '[{text.strip()}]'.",
        )
    return tuple(_value(item) for item in data)


def _value(item: Any) -> Any:
    """Turn lists of numbers into arrays, at any depth; other lists stay lists."""
    if isinstance(item, dict):
        return {name: _value(inner) for name, inner in item.items()}
    if not isinstance(item, list):
        return item
    if _is_numeric(item):
        try:
            return np.array(item)
        except ValueError:  # ragged: a list of arrays
            pass
    return [_value(inner) for inner in item]


def _is_numeric(item: Any) -> bool:
    if isinstance(item, list):
        return all(_is_numeric(inner) for inner in item)
    return isinstance(item, (int, float)) and not isinstance(item, bool)


def _to_positional(arguments: Mapping[str, Any], shown: str, function: Callable) -> tuple[Any, ...]:
    """Put named arguments into the order of the function's parameters."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        parameters = {}  # type: ignore[assignment]
    unknown = [name for name in arguments if name not in parameters]
    if unknown:
        raise UsageError(
            f"You wrote --at {shown}, which names the argument {unknown[0]!r}.",
            f"The function's parameters are: {', '.join(parameters) or 'unknown to Python'}.",
            "Name the parameters, or give a JSON list in their order.",
        )
    values, gap = [], ""
    for name, parameter in parameters.items():
        if name in arguments:
            if gap:
                raise UsageError(
                    f"You wrote --at {shown}, which leaves out {gap!r} and gives {name!r} after it.",
                    "Arguments are passed in order.",
                    f"Give {gap!r} too.",
                )
            if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
                raise UsageError(
                    f"You wrote --at {shown}, which gives {name!r}.",
                    "It is a keyword-only parameter, and a point holds positional arguments.",
                    "Declare the point in the file, for a function that passes the keyword on.",
                )
            values.append(arguments[name])
        else:
            gap = gap or name
    return tuple(values)


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
    """Return a file's declarations, by the names of functions; none if it has none."""
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
        return True  # loading it will raise the error
    names = [
        target
        for node in body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return any(isinstance(target, ast.Name) and target.id == DECLARATION for target in names)
