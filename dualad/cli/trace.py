"""``dualad trace``: the linear program of a function's derivative, its transpose, or the function's own program.

Not for the grammar of programs (``dualad/program/``).
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualad.errors import DualadError, UsageError
from dualad.linearize import linearize
from dualad.trace import trace
from dualad.tree import tree_map
from dualad.vjp_via_transpose import vjp

from .check import points_of
from .points import describe_point
from .targets import find_targets

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Print the program; return the exit status."""
    targets = find_targets(options.target)
    for target in targets:
        for point in points_of(target, options.at, len(targets)):
            chosen = _chosen(target.function, len(point), options.wrt)
            f = _of_chosen(target.function, point, chosen)
            primals = [point[i] for i in chosen]
            print(f"# {target.label} at ({describe_point(point)})")
            try:
                print(_program(f, primals, options))
            except DualadError as error:
                print(f"{target.label}: {error}", file=sys.stderr)
                return 1
    return 0


def _program(f: Callable, primals: Sequence[Any], options: argparse.Namespace) -> Any:
    if options.nonlinear:
        return trace(f, *primals)
    if options.transpose:
        out, pull = vjp(f, *primals)

        def transpose(cotangent: Any) -> Any:
            return pull(cotangent)

        return trace(transpose, tree_map(_cotangent, out))
    return linearize(f, *primals)[1].program


def _cotangent(leaf: Any) -> Any:
    """Return a sample cotangent: only its shape and dtype are used."""
    array = np.asarray(leaf)
    return np.zeros_like(array) if array.dtype.kind in "fc" else None


def _chosen(f: Callable, count: int, wrt: str | None) -> list[int]:
    """Return the positions of the arguments to differentiate: numbers or names, separated by commas."""
    if wrt is None:
        return list(range(count))
    try:
        names = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        names = []
    chosen = []
    for word in wrt.split(","):
        word = word.strip()
        position = names.index(word) if word in names else int(word) if word.lstrip("-").isdigit() else count
        if not -count <= position < count:
            raise UsageError(
                f"You wrote --wrt {wrt}.",
                f"{word!r} is none of the point's {count} arguments ({', '.join(names[:count])}).",
                "Write positions or names, separated by commas: --wrt 0,2 or --wrt x,y.",
            )
        chosen.append(position % count)
    return chosen


def _of_chosen(f: Callable, point: tuple, chosen: Sequence[int]) -> Callable:
    def function(*values: Any) -> Any:
        args = list(point)
        for i, value in zip(chosen, values, strict=True):
            args[i] = value
        return f(*args)

    function.__name__ = getattr(f, "__name__", "function")
    return function
