"""A matrix's picture in a terminal: a dot for each entry, or each block of entries, that is not zero.

Not for files (``plots.py``).
"""

from __future__ import annotations

import numpy as np

__all__ = ["choose_style", "spy"]

# Bits of a braille character by (row, column) of its 4 x 2 dots.
_BRAILLE = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_BLOCKS = {0: " ", 1: "▀", 2: "▄", 3: "█"}


def choose_style(encoding: str | None) -> str:
    """Return the finest style that an output encoding can show."""
    for style, sample in (("braille", "⠿┌"), ("block", "▀▄█┌")):
        try:
            sample.encode(encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            continue
        return style
    return "ascii"


def spy(matrix: np.ndarray, *, columns: int = 80, rows: int = 40, style: str = "braille") -> str:
    """Draw the pattern of a matrix's entries that are not zero (NaN counts as not zero).

    A matrix that is larger than the picture is drawn in blocks: a dot where any entry of the block is not zero.
    """
    pattern = np.asarray(matrix) != 0
    high, wide = {"braille": (4, 2), "block": (2, 1), "ascii": (1, 1)}[style]
    pattern = _shrink(pattern, max(1, rows) * high, max(1, columns - 2) * wide)
    lines = _rows(_pad(pattern, high, wide), high, wide, style)
    across = len(lines[0]) if lines else 0
    if style == "ascii":
        edge = "+" + "-" * across + "+"
        framed = [edge, *(f"|{line}|" for line in lines), edge]
    else:
        framed = ["┌" + "─" * across + "┐", *(f"│{line}│" for line in lines), "└" + "─" * across + "┘"]
    return "\n".join(framed)


def _shrink(pattern: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Merge entries into blocks until the pattern fits."""
    for axis, limit in ((0, rows), (1, columns)):
        size = pattern.shape[axis]
        if size > limit:
            block = -(-size // limit)
            pattern = np.logical_or.reduceat(pattern, np.arange(0, size, block), axis=axis)
    return pattern


def _pad(pattern: np.ndarray, high: int, wide: int) -> np.ndarray:
    m, n = pattern.shape
    return np.pad(pattern, ((0, -m % high), (0, -n % wide)))


def _rows(pattern: np.ndarray, high: int, wide: int, style: str) -> list[str]:
    m, n = pattern.shape
    cells = pattern.reshape(m // high, high, n // wide, wide).transpose(0, 2, 1, 3)
    if style == "braille":
        return ["".join(chr(0x2800 + int((cell * _BRAILLE).sum())) for cell in row) for row in cells]
    if style == "block":
        return ["".join(_BLOCKS[int(cell[0, 0]) + 2 * int(cell[1, 0])] for cell in row) for row in cells]
    return ["".join("#" if cell[0, 0] else "." for cell in row) for row in cells]
