"""How values stand in the source that ``numpy_source.py`` writes: their text and the form they are held in.

Not for: writing equations (``source_block.py``).
"""

from __future__ import annotations

import keyword
from typing import NamedTuple

import numpy as np

from ..core.aval import Aval
from .scalars import MATHEMATICS

__all__ = ["ARRAY", "BOOL", "BOOL_FORM", "DOUBLE", "ENTRIES", "FLOAT_FORM", "PYTHON", "Value", "identifier"]

#: how a value is held in the source
ARRAY, FLOAT_FORM, BOOL_FORM, PYTHON, ENTRIES = "array", "float", "bool", "python", "entries"

DOUBLE, BOOL = np.dtype(float), np.dtype(bool)


class Value(NamedTuple):
    """A value in the source: the text that stands for it, how it is held, and whose its memory is.

    ``fresh`` names the new array that it is, or is a view of; memory without a name may be somebody else's. A small
    array has no text of its own, but one for each of its entries.
    """

    text: str
    form: str
    aval: Aval
    fresh: str = ""
    entries: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether it is a Python int that stands in the source."""
        return self.form == PYTHON and self.aval.dtype.kind == "i" and self.text.strip("()-").isdigit()


def identifier(name: str) -> str:
    kept = "".join([c if c.isalnum() else "_" for c in name]).strip("_") or "program"
    kept = f"f_{kept}" if kept[0].isdigit() else kept
    return f"np_{kept}" if kept in _TAKEN else kept


_TAKEN = frozenset({
    *keyword.kwlist, *MATHEMATICS, "array", "bool", "bool_", "empty", "float", "float64", "int", "max", "min", "range",
    "zip",
})  # fmt: skip
