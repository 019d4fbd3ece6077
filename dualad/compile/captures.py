"""A compiled function's captures: its reads besides its arguments, and whether all of that is still as it was.

A compiled function has the values of the moment it was traced in its code. ``Captures`` keeps the places that they came
from (``guards/``) and the content of arrays; if one of them has changed, ``jit`` traces again. Not for: arrays that
meet a traced value directly; those are inputs (``tracing.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..guards.places import all_hold
from ..guards.reach import Reach

__all__ = ["Captures", "memory_of", "writeable"]

#: the most bytes of an array whose contents are compared at each call
SMALL = 1 << 16


class Captures:
    """The places that a function's values come from, and what they held.

    The arrays among ``inputs`` are read at each call: of the large ones only the header is watched, if nothing can have
    been made of their numbers but what the program says: it has no constants that may have been computed from them
    (``derived``), and the code has nothing that makes Python's numbers of NumPy's.
    """

    __slots__ = ("contents", "inputs", "places")

    def __init__(self, reach: Reach, inputs: Sequence[np.ndarray], derived: bool) -> None:
        self.places = list(reach.places.values())
        #: (array, its bytes as they are in memory)
        self.contents: list[tuple[np.ndarray, bytes]] = []
        read = () if derived or reach.names.converts else {id(a) for a in inputs}
        for a in reach.arrays:
            if a.nbytes <= SMALL or id(a) not in read:
                self.contents.append((a, np.ndarray.tobytes(a, "A")))
        compared = {id(a) for a, _ in self.contents}
        #: the values read at each call; of strided views into compared arrays, copies, which are in order once for all
        self.inputs = tuple(
            [
                a.copy() if not a.flags.c_contiguous and any([id(x) in compared for x in memory_of(a)]) else a
                for a in inputs
            ]
        )

    def unchanged(self) -> bool:
        """Whether everything is as it was."""
        return all_hold(self.places) and all([np.ndarray.tobytes(a, "A") == c for a, c in self.contents])

    @property
    def size(self) -> int:
        """The bytes of arrays that are compared at each call."""
        return sum([len(c) for _, c in self.contents])

    def __bool__(self) -> bool:
        return bool(self.places or self.contents)


def memory_of(a: Any) -> list:
    """Return an array, the array that it is a view of, and so on, down to what has the memory."""
    chain = [a]
    while isinstance(chain[-1], np.ndarray) and chain[-1].base is not None:
        chain.append(chain[-1].base)
    return chain


def writeable(a: np.ndarray) -> bool:
    """Whether somebody could write to the memory of an array."""
    chain = memory_of(a)
    if any([isinstance(x, np.ndarray) and x.flags.writeable for x in chain]):
        return True
    # An array made of one of NumPy's numbers, repeated, stays that.
    return not isinstance(chain[-1], (np.ndarray, np.number, np.bool_))
