"""``dualad jacobian``: a function's Jacobian as numbers and as a picture, flattened to outputs x inputs.

Not for checking it (``check.py``).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import io
import sys
from pathlib import Path

import numpy as np

from dualad.diagnose.pattern import choose_style, draw
from dualad.errors import DualadError, UsageError
from dualad.sparse.derivatives import sparse_jacobian
from dualad.testing.engine import Engine, RealFunction, Side

from ..base.terminal import aligned, width
from .files import write
from .targets import describe_point, with_points

__all__ = ["run"]


def has_matplotlib() -> bool:
    """Whether matplotlib is installed, without importing it."""
    return importlib.util.find_spec("matplotlib") is not None


def require_matplotlib(option: str) -> None:
    """Refuse an option that needs matplotlib when it is not installed."""
    if not has_matplotlib():
        raise UsageError(
            f"You asked for {option}.",
            "Pictures are drawn with matplotlib, which is not installed in this environment.",
            "Install it: pip install 'dualad[viz]'. The terminal's picture needs nothing.",
        )


def jacobian_png(matrix: np.ndarray, title: str) -> bytes:
    """Draw a matrix: colour by sign and magnitude (symmetric logarithm), white for exact zeros."""
    # Without pyplot: no window, no global state.
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(4.6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    values = np.ma.masked_where(matrix == 0, matrix)
    finite = np.abs(matrix[np.isfinite(matrix) & (matrix != 0)])
    largest = float(finite.max(initial=0.0)) or 1.0
    threshold = max(float(finite.min(initial=largest)), largest * 1e-6)
    norm = importlib.import_module("matplotlib.colors").SymLogNorm(linthresh=threshold, vmin=-largest, vmax=largest)
    image = axes.imshow(values, cmap="RdBu_r", norm=norm, aspect="auto", interpolation="nearest")
    axes.set(title=title, xlabel="inputs", ylabel="outputs")
    axes.title.set_fontsize(8)
    axes.locator_params(integer=True)
    middle = float(np.sqrt(largest * threshold))
    ticks = [-largest, -middle, 0.0, middle, largest] if middle < largest else [-largest, 0.0, largest]
    figure.colorbar(image, ticks=ticks, format="%.1e")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


_MOST_LABELLED = 12
#: entries of a sparse matrix that are listed
_MOST_ENTRIES = 40


def run(options: argparse.Namespace) -> int:
    """Print the matrix and its picture; return the exit status."""
    if options.png:
        require_matplotlib("--png")
    work = with_points(options.target, options.at)
    if options.png and options.sparse:
        raise UsageError(
            "You asked for --sparse and --png.", "The picture shows the values of a dense matrix.", "Leave one out."
        )
    if options.png and len(work) > 1:
        raise UsageError(
            f"You asked for one picture of {len(work)} Jacobians.",
            "A PNG holds one.",
            "Name one function with one point: path/to/file.py:function --at '[[1.0, 2.0]]'.",
        )
    for target, point in work:
        engine = Engine(target.function, point, lenient=False, double=True)
        try:
            lines = (_sparse if options.sparse else _dense)(engine, target.label, options)
        except UsageError:
            raise
        except DualadError as error:
            print(f"{target.label}: {error}", file=sys.stderr)
            return 1
        print(f"{target.label} at ({describe_point(point)})")
        print(f"outputs: {_parts(engine.outs)}")
        print(f"inputs:  {_parts(engine.ins)}")
        print("\n".join(lines))
    return 0


def _sparse(function: Engine, label: str, options: argparse.Namespace) -> list[str]:
    """Return pattern, colouring and entries; nothing of the size of the whole matrix is made."""
    mode = {"auto": "auto", "fwd": "forward", "rev": "reverse"}[options.mode]
    jac = sparse_jacobian(lambda leaves: function(*leaves), mode=mode)
    matrix = jac(function.point)
    lines = [str(jac.explain())]
    if not options.spy:
        rows, columns = jac.structure()
        shown = list(zip(rows[:_MOST_ENTRIES], columns[:_MOST_ENTRIES], matrix.data[:_MOST_ENTRIES], strict=True))
        lines += [f"  {function.outs.label(int(i))}  {function.ins.label(int(j))}  {x:.6g}" for i, j, x in shown]
        if matrix.nnz > len(shown):
            lines.append(f"  ... and {matrix.nnz - len(shown)} more")
    return [*lines, str(jac.sparsity.spy(columns=width(sys.stdout), style=options.style))]


def _dense(function: Engine, label: str, options: argparse.Namespace) -> list[str]:
    """Return the numbers and their picture; write the one that was asked for."""
    mode = options.mode if options.mode != "auto" else "fwd" if function.size <= function.out_size else "rev"
    matrix = function.jacfwd() if mode == "fwd" else function.jacrev()
    columns, nonzero = width(sys.stdout), int((matrix != 0).sum())
    share = f", {nonzero / matrix.size:.1%}" if matrix.size else ""
    lines = [f"Jacobian {matrix.shape[0]} x {matrix.shape[1]} by jac{mode}, {nonzero} entries not zero{share}"]
    if not options.spy:
        lines.append(_matrix(function, matrix, columns))
    style = options.style if options.style != "auto" else choose_style(sys.stdout.encoding)
    lines.append(draw(matrix, columns=columns, style=style))
    if options.png:
        write(options.png, jacobian_png(matrix, label))
        lines.append(f"picture: {Path(options.png)}")
    return lines


def _parts(side: Side) -> str:
    return ", ".join(
        f"{name}{list(a.shape)}" if a.shape else name for name, a in zip(side.names, side.arrays, strict=True)
    )


def _matrix(function: RealFunction, matrix: np.ndarray, columns: int) -> str:
    """Format the numbers, with the names of rows and columns where there is room."""
    m, n = matrix.shape
    if m <= 4 * _MOST_LABELLED and n <= _MOST_LABELLED:
        head = ["", *[function.ins.label(j) for j in range(n)]]
        body = [[function.outs.label(i), *[f"{value:.6g}" for value in row]] for i, row in enumerate(matrix)]
        lines = aligned([head, *body], right=range(1, n + 1))
        if max(map(len, lines)) <= columns:
            return "\n".join(lines)
    return np.array2string(matrix, max_line_width=columns, precision=6, threshold=2000, suppress_small=False)
