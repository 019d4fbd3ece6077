"""Points from ``--at``: JSON text, or a ``.json``, ``.npy`` or ``.npz`` file.

JSON is a list of the arguments in order, or an object of arguments by name; lists of numbers become arrays. An
``.npy`` file is the only argument; the arrays of an ``.npz`` file are arguments by name, or in order where NumPy named
them ``arr_0``, ``arr_1``.

Not for points that a file declares (``targets.py``).
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dualad.base.tree import tree_map
from dualad.errors import UsageError

__all__ = ["describe_point", "nearby", "parse_point"]

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
