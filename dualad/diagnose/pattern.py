"""Pictures of a matrix's pattern, of a Jacobian's above all: in the terminal, in a notebook, with matplotlib.

For: ``dualad.spy``, and the text that the command line prints. Not for: pictures of programs (``program/picture.py``).
"""

from __future__ import annotations

import importlib
import math
import sys
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..jacobians.call import over_basis
from ..tensors.chunks import Chunking
from ..transforms.linearize import Linear

__all__ = ["Spy", "choose_style", "draw", "spy"]

# Bits of a braille character by (row, column) of its 4 x 2 dots.
_BRAILLE = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_BLOCKS = {0: " ", 1: "▀", 2: "▄", 3: "█"}
#: a pattern with at most this many rows and columns is spelled with a character for each entry
_SPELLED = 24
#: a sparse matrix with room for more entries is never made dense, and of more rows or columns drawn without markers
_HELD, _MARKED = 1_000_000, 1000
_CELLS = {"braille": (4, 2), "block": (2, 1), "ascii": (1, 1)}


class Spy:
    """The picture of a matrix: printed, shown by a notebook, or drawn by ``plot``.

    Attributes
    ----------
    pattern : bool array or sparse bool array, shape (m, n)
        Where entries are not zero; NaN is not zero. A large sparse matrix is never made dense.
    """

    __slots__ = ("_columns", "_rows", "_style", "pattern")

    def __init__(self, pattern: Any, columns: int, rows: int, style: str) -> None:
        self.pattern, self._columns, self._rows, self._style = pattern, columns, rows, style

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the pattern with matplotlib, which is optional: ``pip install 'dualad[viz]'``.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; axes of a new figure by default, made without pyplot's global state.
        **options
            For ``Axes.spy``: ``markersize``, ``color``, ...

        Returns
        -------
        matplotlib.axes.Axes
            The axes; ``ax.figure.savefig("jacobian.png")`` writes them to a file.

        Raises
        ------
        ArgumentError
            If matplotlib is not installed.
        """
        if ax is None:
            try:
                figures = importlib.import_module("matplotlib.figure")
            except ImportError as error:
                raise ArgumentError(
                    "spy(...).plot needs matplotlib, which can't be imported.",
                    str(error),
                    "pip install 'dualad[viz]', or print(spy(...)), which needs nothing",
                ) from error
            ax = figures.Figure(layout="constrained").add_subplot()
        m, n = self.pattern.shape
        if isinstance(self.pattern, np.ndarray) or max(m, n) <= _MARKED:
            ax.spy(self.pattern, **options)
        else:  # a marker for each entry would take minutes, and cover the others
            shrunk = _shrink(self.pattern, _MARKED, _MARKED)
            ax.imshow(shrunk, cmap="binary", extent=(-0.5, n - 0.5, m - 0.5, -0.5), interpolation="nearest", **options)
        ax.set(xlabel=f"{n} inputs", ylabel=f"{m} outputs")
        ax.xaxis.set_ticks_position("bottom")
        return ax

    def _repr_html_(self) -> str:
        m, n = self.pattern.shape
        shrunk = _shrink(self.pattern, 200, 200)
        size = max(2, min(12, 400 // max(1, *shrunk.shape)))
        dots = "".join(f"M{j} {i}h1v1h-1z" for i, j in np.argwhere(shrunk))
        high, wide = shrunk.shape
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide * size + 2}" height="{high * size + 2}"'
            f' viewBox="-0.1 -0.1 {wide + 0.2} {high + 0.2}" style="max-width:100%;height:auto;background:#fff"'
            f' role="img"><title>pattern, {m} x {n}</title><rect width="{wide}" height="{high}" fill="none"'
            f' stroke="#98a2b3" stroke-width="0.08"/><path d="{dots}" fill="#3b5bdb"/></svg>'
            f"<p>{self._said()}</p>"
        )

    def _said(self) -> str:
        m, n = self.pattern.shape
        count = int(self.pattern.sum()) if isinstance(self.pattern, np.ndarray) else self.pattern.nnz
        return f"{m} x {n}, {count} not zero" + (f" ({count / (m * n):.1%})" if m * n else "")

    def __str__(self) -> str:
        style = choose_style(getattr(sys.stdout, "encoding", None)) if self._style == "auto" else self._style
        return draw(self.pattern, columns=self._columns, rows=self._rows, style=style)

    def __repr__(self) -> str:
        return f"{self}\n{self._said()}"


def spy(matrix: Any, *, columns: int = 80, rows: int = 40, style: str = "auto") -> Spy:
    """Draw which entries of a matrix are not zero: of a Jacobian, which output depends on which input.

    Parameters
    ----------
    matrix : array, sparse matrix or Sparsity, shape (m, n), or linear map
        A Jacobian, a Hessian, a pattern, or the second result of :func:`dualad.linearize`, whose matrix is computed:
        all entries of the results against all entries of the arguments, in the order of their leaves.
    columns, rows : int
        The most characters that the printed picture takes; a larger matrix is drawn in blocks, a dot where any entry
        of the block is not zero.
    style : {"auto", "braille", "block", "ascii"}
        What it is printed with; ``"auto"`` is the finest that the terminal can show.

    Returns
    -------
    Spy
        Printable; a notebook draws it; ``.plot()`` draws it with matplotlib.

    Raises
    ------
    ArgumentError
        If it is no matrix, or the style is unknown.

    Examples
    --------
    >>> J = da.jacfwd(lambda x: np.diff(x) ** 2)(np.arange(5.0))
    >>> da.spy(J, style="ascii")
    +-----+
    |##...|
    |.##..|
    |..##.|
    |...##|
    +-----+
    4 x 5, 8 not zero (40.0%)
    """
    if style != "auto" and style not in _CELLS:
        raise ArgumentError(f"spy: style={style!r}.", "there is no such style", "use 'braille', 'block' or 'ascii'")
    if isinstance(matrix, Linear):
        ins = [a for a in matrix.in_avals if a is not None]
        images = over_basis(lambda *tangents: matrix.flat(list(tangents)), ins, Chunking("spy"))
        matrix = np.concatenate([c.reshape(len(c), -1) for c in images], axis=1).T
    elif hasattr(matrix, "to_scipy") or hasattr(matrix, "tocsr"):
        # of a pattern all entries count
        entries = matrix.to_scipy() if hasattr(matrix, "to_scipy") else matrix.tocsr() != 0
        if style == "auto" and hasattr(matrix, "to_scipy") and max(entries.shape) <= _SPELLED:
            style = "ascii"
        return Spy(entries.toarray() if math.prod(entries.shape) <= _HELD else entries, columns, rows, style)
    pattern = np.asarray(matrix) != 0
    if pattern.ndim != 2:
        raise ArgumentError(
            f"spy was given an array of shape {pattern.shape}.",
            "a pattern has rows and columns",
            "reshape a block of a Jacobian to (entries of the output, entries of the input): J.reshape(y.size, x.size)",
        )
    return Spy(pattern, columns, rows, style)


# ── in text ──────────────────────────────────────────────────────────────────────────────────────────────────────


def choose_style(encoding: str | None) -> str:
    """Return the finest style that an output encoding can show."""
    for style, sample in (("braille", "⠿┌"), ("block", "▀▄█┌")):
        try:
            sample.encode(encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            continue
        return style
    return "ascii"


def draw(matrix: Any, *, columns: int = 80, rows: int = 40, style: str = "braille") -> str:
    """Draw the pattern of a matrix's entries that are not zero (NaN counts as not zero).

    A matrix that is larger than the picture is drawn in blocks: a dot where any entry of the block is not zero.
    """
    pattern = matrix if hasattr(matrix, "tocoo") else np.asarray(matrix) != 0
    high, wide = _CELLS[style]
    pattern = _shrink(pattern, max(1, rows) * high, max(1, columns - 2) * wide)
    m, n = pattern.shape
    lines = _rows(np.pad(pattern, ((0, -m % high), (0, -n % wide))), high, wide, style)
    across = len(lines[0]) if lines else 0
    if style == "ascii":
        edge = "+" + "-" * across + "+"
        framed = [edge, *(f"|{line}|" for line in lines), edge]
    else:
        framed = ["┌" + "─" * across + "┐", *(f"│{line}│" for line in lines), "└" + "─" * across + "┘"]
    return "\n".join(framed)


def _shrink(pattern: Any, rows: int, columns: int) -> np.ndarray:
    """Merge entries into blocks until the pattern fits; sparse parts become dense."""
    if not isinstance(pattern, np.ndarray):
        blocks = [max(1, -(-size // limit)) for size, limit in zip(pattern.shape, (rows, columns), strict=True)]
        small = np.zeros([-(-size // block) for size, block in zip(pattern.shape, blocks, strict=True)], bool)
        entries = pattern.tocoo()
        small[entries.row // blocks[0], entries.col // blocks[1]] = True
        return small
    for axis, limit in ((0, rows), (1, columns)):
        size = pattern.shape[axis]
        if size > limit:
            block = -(-size // limit)
            pattern = np.logical_or.reduceat(pattern, np.arange(0, size, block), axis=axis)
    return pattern


def _rows(pattern: np.ndarray, high: int, wide: int, style: str) -> list[str]:
    m, n = pattern.shape
    cells = pattern.reshape(m // high, high, n // wide, wide).transpose(0, 2, 1, 3)
    if style == "braille":
        return ["".join(chr(0x2800 + int((cell * _BRAILLE).sum())) for cell in row) for row in cells]
    if style == "block":
        return ["".join(_BLOCKS[int(cell[0, 0]) + 2 * int(cell[1, 0])] for cell in row) for row in cells]
    return ["".join("#" if cell[0, 0] else "." for cell in row) for row in cells]
