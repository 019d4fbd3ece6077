"""``dualad trace``: the linear program of a function's derivative, its transpose, or the function's own program.

Not for the grammar of programs (``dualad/program/``).
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from dualad.base.arguments import replace_at
from dualad.base.tree import tree_map
from dualad.errors import DualadError, UsageError
from dualad.program.ir import Program
from dualad.transforms.linearize import linearize
from dualad.transforms.trace import trace
from dualad.vjp_via_transpose import vjp

from .files import write
from .html import page
from .targets import describe_point, with_points

__all__ = ["run"]

_STYLE = (
    "body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 72rem; padding: 0 1rem;"
    " color: #1d2330; } h2 { font-size: 1.05rem; overflow-wrap: anywhere; }"
)


def run(options: argparse.Namespace) -> int:
    """Print the program; return the exit status."""
    programs: list[tuple[str, Any]] = []
    for target, point in with_points(options.target, options.at):
        chosen = _chosen(target.function, len(point), options.wrt)
        print(f"# {target.label} at ({describe_point(point)})")
        try:
            program = _program(_of_chosen(target.function, point, chosen), [point[i] for i in chosen], options)
        except DualadError as error:
            print(f"{target.label}: {error}", file=sys.stderr)
            return 1
        print(program)
        programs.append((target.label, program))
    if options.dot:
        _save(options.dot, _only(programs, "dot").to_dot())
    if options.svg:
        _save(options.svg, _only(programs, "svg").to_svg())
    if options.html:
        parts = [f"<h2>{escape(label)}</h2>{program._repr_html_()}" for label, program in programs]
        _save(options.html, page("dualad trace", "\n".join(parts), _STYLE))
    return 0


def _only(programs: Sequence[tuple[str, Program]], name: str) -> Program:
    if len(programs) != 1:
        raise UsageError(
            f"You asked for one picture of {len(programs)} programs.",
            f"A {name.upper()} file holds one.",
            "Name one function with one point, or write them all to a page with --html FILE.",
        )
    return programs[0][1]


def _save(path: str, text: str) -> None:
    write(path, text)
    print(f"picture: {Path(path)}")


def _program(f: Callable, primals: Sequence[Any], options: argparse.Namespace) -> Any:
    if options.nonlinear:
        return trace(f, *primals)
    if options.transpose:
        out, pull = vjp(f, *primals)

        def transpose(cotangent: Any) -> Any:
            return pull(cotangent)

        # Of a sample cotangent only shape and dtype are used.
        return trace(transpose, tree_map(lambda y: np.zeros_like(y) if np.asarray(y).dtype.kind in "fc" else None, out))
    return linearize(f, *primals)[1].program


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
        return f(*replace_at(point, chosen, values))

    function.__name__ = getattr(f, "__name__", "function")
    return function
