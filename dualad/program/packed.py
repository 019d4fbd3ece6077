"""Programs whose constants are packed away: what ``residual_hooks`` makes of a linear program.

A residual is packed at the moment it is recorded, so that the original can be freed at once, and unpacked each time
the program is used. Not for: the context manager (``rules/hooks.py``).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..core.aval import aval_of
from ..core.tracer import Tracer
from ..errors import ShapeError
from .ir import Program, map_atoms
from .variable import Variable, WatchedSteps

__all__ = ["PackedProgram", "PackingSteps", "active", "unpack_constants"]

#: the innermost pair (pack, unpack); per thread and per asynchronous task
active: ContextVar[tuple[Callable, Callable] | None] = ContextVar("dualad_residual_hooks", default=None)

_NUMBERS = frozenset({float, complex})


class _Packed:
    """One constant, packed."""

    __slots__ = ("aval", "content", "number", "unpack")

    def __init__(self, x, pack: Callable, unpack: Callable) -> None:
        self.number = type(x) if type(x) in _NUMBERS else None  # Python's, which gives way to the dtype of others
        if self.number is not None:
            x = np.asarray(x)[()]
        self.aval, self.unpack = aval_of(x), unpack
        if type(x) is np.ndarray:
            x = x.view()
            x.setflags(write=False)
        self.content = pack(x)

    def open(self) -> Any:
        x = self.unpack(self.content)
        found = aval_of(x)
        if found != self.aval:
            raise ShapeError(
                f"residual_hooks: unpack returned {found!r} for a residual that was {self.aval!r}.",
                "the program reads what was recorded",
                "restore its shape and dtype in unpack: x.astype(dtype), x.reshape(shape)",
            )
        return x if self.number is None else self.number(x)


class PackingSteps(WatchedSteps):
    """The steps of a program being written, which pack every constant as it is recorded."""

    __slots__ = ("pack", "packed", "unpack")

    def __init__(self, pack: Callable, unpack: Callable) -> None:
        super().__init__()
        self.pack, self.unpack = pack, unpack
        # By identity, so that an array that is recorded twice is packed once; a weak reference tells whether the
        # identity is still that array's.
        self.packed: dict[int, tuple[weakref.ref, _Packed]] = {}

    def append(self, step: tuple) -> None:
        """Record a step."""
        op, args, params, outs = step
        super().append((op, [a if type(a) is Variable else self._pack(a) for a in args], params, outs))

    def _pack(self, a):
        if not isinstance(a, (np.ndarray, np.generic, Tracer)) and type(a) not in _NUMBERS:
            return a
        known = self.packed.get(id(a))
        if known is not None and known[0]() is a:
            return known[1]
        packed = _Packed(a, self.pack, self.unpack)
        if isinstance(a, (np.ndarray, Tracer)):
            self.packed[id(a)] = (weakref.ref(a), packed)
        return packed


class PackedProgram(Program):
    """A program with packed constants."""

    __slots__ = ()


def unpack_constants(program: Program) -> Program:
    """Return a program as it can be run: with its constants unpacked, each once."""
    if type(program) is not PackedProgram:
        return program
    opened = functools.cache(_Packed.open)
    steps, outputs = map_atoms(program, lambda a: opened(a) if type(a) is _Packed else a)
    return Program(program.inputs, steps, outputs, program.name)
