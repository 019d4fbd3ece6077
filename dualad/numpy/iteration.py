"""``nditer`` over tensors and buffers: NumPy's own iterator, over arrays of positions in their place.

NumPy decides all of an iteration (its order, broadcasting, flags, indices) by shapes and strides, so it is given arrays
that hold positions, laid out as the operands are. An entry is a view of an operand, which sees a write into it. Not
for: iterations of plain arrays, which NumPy makes, or ``ndenumerate`` (``creation.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.tracer import Tracer
from ..errors import UnsupportedError
from ..memory.buffer import Buffer
from ..memory.memory import layout
from ..surface.arguments import operand

__all__ = ["nditer"]

_WRITTEN = frozenset({"allocate", "readwrite", "writeonly"})


class nditer:
    """As ``numpy.nditer``; entries of tensors are traced, and take traced values."""

    def __new__(cls, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Return NumPy's iterator where no operand is a tensor."""
        operands = op if isinstance(op, (list, tuple)) else [op]
        return object.__new__(cls) if any([isinstance(x, Tracer) for x in operands]) else np.nditer(op, *args, **kwargs)

    def __init__(
        self, op: Any, flags: Sequence[str] = (), op_flags: Any = None, op_dtypes: Any = None, order: str = "K",
        casting: str = "safe", op_axes: Any = None, itershape: Any = None, buffersize: int = 0,
    ) -> None:  # fmt: skip
        """Iterate over positions; the dtypes of operands that are read stay what they are, if they are floats."""
        self._single = not isinstance(op, (list, tuple))
        given = [op] if self._single else [*op]
        if op_flags is None:
            op_flags = [["writeonly", "allocate"] if x is None else ["readonly"] for x in given]
        elif op_flags and isinstance(op_flags[0], str):
            op_flags = [op_flags] * len(given)
        self._written = [not _WRITTEN.isdisjoint(wanted) for wanted in op_flags]
        known: list[Any] = [None if x is None else x if isinstance(x, Tracer) else _kept(x) for x in given]
        self._chunks = "external_loop" in flags
        plain: Any = np.nditer  # whose arguments have other types in NumPy's stubs
        self._it = plain(
            [None if x is None else _positions(x) for x in known],
            [*flags],
            [["writeonly", "allocate"] if x is None else ["readonly"] for x in known],
            order=order, op_axes=op_axes, itershape=itershape, buffersize=buffersize,
            op_dtypes=[np.intp] * len(known),
        )  # fmt: skip
        dtypes = op_dtypes if isinstance(op_dtypes, (list, tuple)) else [op_dtypes] * len(known)
        common = np.result_type(*[x.dtype for x in known if x is not None])
        for k, x in enumerate(known):
            if x is None:
                shape = self._it.operands[k].shape
                self._it.operands[k].flat = np.arange(self._it.operands[k].size)
                known[k] = Buffer(np.empty(shape, dtypes[k] or common))
            elif dtypes[k] is not None and not self._written[k]:
                known[k] = x.astype(dtypes[k], copy=False)
        self.operands = tuple(known)

    def _at(self, k: int) -> Any:
        """Return the entry of an operand, or the chunk, at which the iteration is."""
        x, places = self.operands[k], self._it[k]
        if self._chunks:
            if self._written[k] and not np.array_equal(places, np.arange(x.size)):
                raise UnsupportedError(
                    "np.nditer: with external_loop a part of a tensor is to be written to.",
                    "a part of several rows is no view of a tensor",
                    "leave external_loop out, or write to the whole array: y[...] = f(x)",
                )
            return np.reshape(x, -1) if self._written[k] else np.reshape(x, -1)[places]
        return x[(*np.unravel_index(int(places), x.shape), ...)]

    def _now(self) -> Any:
        values = tuple([self._at(k) for k in range(len(self.operands))])
        return values[0] if self._single else values

    value = property(_now, doc="The entries at which the iteration is.")

    def __iter__(self) -> nditer:
        return self

    def __next__(self) -> Any:
        next(self._it)
        return self._now()

    def __getitem__(self, k: Any) -> Any:
        return self._at(k) if isinstance(k, int) else tuple([self._at(i) for i in range(len(self.operands))[k]])

    def __setitem__(self, k: int, value: Any) -> None:
        self._at(k)[...] = value

    def __len__(self) -> int:
        return len(self.operands)

    def __enter__(self) -> nditer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Do nothing: writes are immediate."""

    def close(self) -> None:
        """Do nothing: writes are immediate."""

    def copy(self) -> nditer:
        """Return an iterator of the same operands that has come as far."""
        new = object.__new__(nditer)
        new.__dict__.update(vars(self), _it=self._it.copy())
        return new

    def __getattr__(self, name: str) -> Any:
        return getattr(self._it, name)  # multi_index, index, finished, iternext, reset, shape, ndim, itersize, ...

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("index", "iterindex", "iterrange", "multi_index"):
            setattr(self._it, name, value)
        else:
            object.__setattr__(self, name, value)


def _kept(x: Any) -> Any:
    """Return an operand that is no tensor, an array as itself."""
    x = operand(x)
    return x if isinstance(x, np.ndarray) else np.asarray(x)


def _positions(x: Any) -> np.ndarray:
    """Return an array that lies in memory as another one does, and holds where its entries are."""
    like = layout(x) if isinstance(x, Tracer) else x
    steps = [s // like.itemsize for s in like.strides]
    reach = [(n - 1) * step for n, step in zip(like.shape, steps, strict=True)]
    if not like.size:
        return np.empty(like.shape, np.intp)
    memory = np.empty(1 + sum(map(abs, reach)), np.intp)
    first = -sum([step for step in reach if step < 0])
    strides = [step * memory.itemsize for step in steps]
    places = np.lib.stride_tricks.as_strided(memory[first:], like.shape, strides)
    places[...] = np.arange(like.size).reshape(like.shape)
    return places
