"""A function of the user's that runs again: its arguments are put back as they were before.

One rule for all who repeat a function: each run begins with the arguments as they were given, only what the last run
computes counts, and what a run does to anything else (it prints, appends, draws) is done each time. It is for
``boundary.run``, where a write into a plain argument was refused, what ``lift`` cures was refused, or a run gave itself
up (``StartAgain``: lanes of ``vmap`` that disagree, names that ``jit`` lifts), and for ``at_equal_values``.

``vmap(f, in_axes=(0, None))`` and ``grad(f, argnums=1)`` hand some arguments on as they are: plain arrays, which can
hold no tangent and take no traced index. So that code which never writes pays nothing, and gets real arrays (NumPy's
and SciPy's compiled functions take them as they are, ``isinstance`` is true), the function gets these first. Only where
it is refused a write or an index does it run again, from its beginning, with a buffer in place of each of them, and of
all that is computed from them (``buffer.py``).

Small arrays are kept, tensors get boxes of their own. A large array is not copied; if the function writes plain numbers
into it, that is an error. So is a write that the function's other names for the same memory don't see: another
argument, or a variable from outside. Not for: arrays that the function makes itself or finds in its closure, which only
``dualad.numpy`` and ``lift`` reach.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import optree

from ..base.tree import NAMESPACE
from ..core.above import ABOVE
from ..core.tracer import Tracer
from ..errors import InPlaceError
from ..memory.buffer import Buffer
from ..memory.memory import record, replace_box, unshared
from .randomness import States

__all__ = ["Rerun"]

#: the most entries of an array that is copied
_SMALL = 10_000

#: how hard it is looked for an entry that two arrays share
_WORK = 1000

#: of a function that fills in nothing
_NOTHING: tuple[Any, tuple] = (None, ())


class _Kept:
    """A plain array among the arguments, as it was before the function ran."""

    __slots__ = ("array", "before", "copy", "made")

    def __init__(self, array: np.ndarray, largest: float) -> None:
        self.array = array
        self.copy = array.copy("K") if array.size <= largest else None

    def restore(self) -> None:
        """Give the caller the array back as it was."""
        if self.copy is not None:
            self.before = self.copy.tobytes()
            if self.array.flags.writeable and self.array.tobytes() != self.before:
                self.array[...] = self.copy

    def buffer(self) -> Buffer:
        """Return a buffer of it, and give the caller the array back as it was."""
        self.restore()
        out = Buffer(self.array if self.copy is None else self.copy.copy("K"))
        memory = record(out)
        memory.unknown, memory.strides = self.copy is None, self.array.strides
        self.made = out
        return out

    def passed_by(self) -> bool:
        """Whether the array was written to by another name than the buffer."""
        return self.copy is not None and self.array.tobytes() != self.before

    def written(self) -> bool:
        """Whether the buffer was written to."""
        return type(self.made) is not Buffer or (self.copy is not None and self.made._value.tobytes() != self.before)


class Rerun:
    """The arguments of a call ``f(*args, **kwargs)``, for another one; arrays of up to ``largest`` entries are kept.

    Where ``select`` has made the function, it says which arguments it fills in.
    """

    __slots__ = ("_f", "_fill", "_given", "_leaves", "_tensors", "_tree", "arrays", "states")

    def __init__(self, f: Callable, args: Any, kwargs: dict, largest: float = _SMALL) -> None:
        #: arrays that a buffer could stand for
        self.arrays: dict[int, _Kept] = {}
        self._f = f
        self._fill, rest = getattr(f, "filled", _NOTHING)
        self._given: list[Any]
        self._given, self._tree = optree.tree_flatten((tuple(args), kwargs, rest), namespace=NAMESPACE)
        for x in self._given:
            if type(x) is np.ndarray and x.shape and x.dtype.kind in "biufc":
                self.arrays[id(x)] = _Kept(x, largest)
        #: of generators of random numbers, whose draws are seen
        self.states = States(self._given)
        if self.states.generators:
            self._given = [ABOVE.seeing(x) for x in self._given]
        #: tensors, each with the level that it has
        self._tensors = [(x, x.level) for x in self._given if isinstance(x, Tracer)]
        self._leaves = [_box(x) if isinstance(x, Tracer) else x for x in self._given] if self.arrays else self._given

    def restore(self) -> None:
        """Put the plain arrays among the arguments back as they were."""
        for kept in self.arrays.values():
            kept.restore()

    def rewind(self) -> bool:
        """Restore all arguments; return whether that could be done."""
        self.restore()
        self.states.restore()
        tensors = [x for x, _ in self._tensors]
        done = all([_rewind(x) for x in tensors])
        for x in tensors if done else ():
            x.level.objects = False  # entries of the abandoned run are no reason to refuse anything in the next
        return done

    def first(self) -> tuple[Callable, tuple, dict]:
        """Return the function and its arguments, as they are."""
        return self._filled(self._given)

    def call(self) -> tuple[Callable, tuple, dict]:
        """Return the function and its arguments, with buffers in place of the plain arrays."""
        self.states.restore()
        buffers = {key: kept.buffer() for key, kept in self.arrays.items()}
        leaves = [buffers[id(x)] if id(x) in buffers else _box(x) if buffers and isinstance(x, Tracer) else x
                  for x in self._leaves]  # fmt: skip
        return self._filled(leaves)

    def _filled(self, leaves: list) -> tuple[Callable, tuple, dict]:
        args, kwargs, rest = cast(Any, optree.tree_unflatten(self._tree, leaves))
        return self._f if self._fill is None else self._fill(*rest), args, kwargs

    def release(self) -> None:
        """Give tensors of the transforms around this one back as they were, where its own values were written to them.

        So it is with plain arrays, for which a buffer is written to.
        """
        own = max([level.number for _, level in self._tensors], default=0)
        for x, level in self._tensors:
            if x.level is not level and level.number < own <= x.level.number:
                _rewind(x)

    def check(self) -> None:
        """Raise if the function wrote to memory that it has by two names, of which one can't have seen it."""
        kept = list(self.arrays.values())
        pairs = [(a, b) for a, b in itertools.permutations(kept, 2) if np.may_share_memory(a.array, b.array, _WORK)]
        twice = [a for a, _ in pairs if a.written()] or [a for a in kept if a.passed_by()]
        if twice:
            raise InPlaceError(
                f"an array of shape {twice[0].array.shape} was written to, of which the function has the memory by two"
                " names: as an argument, and by another argument or from outside.",
                "what stands for an argument that takes traced values or indices has memory of its own, so a write by"
                " one name is not seen by the other",
                "pass a copy (np.copy(a)), or make the second name inside the function, from the argument: b = a[1:]",
            )


def _rewind(x: Tracer) -> bool:
    """Undo all writes to a transform's argument, and forget its views and copies; return whether that could be done."""
    old = getattr(x, "_memory", None)
    if old is None or old.base is not None or old.before is True:
        return old is None  # else it has another shape by now, or is nobody's argument
    if old.notes is not None:
        x.__class__, x.level = old.notes[:2]
    if isinstance(old.before, Tracer):
        replace_box(x, old.before)
    del x._memory
    new = record(x)
    new.array, new.strides = old.array, old.strides
    return True


def _box(x: Tracer) -> Tracer:
    """Return a tensor in a box of its own, which knows what the original knows of where it comes from."""
    box = unshared(x)
    if hasattr(x, "_memory"):
        record(box).strides = x._memory.strides
    if hasattr(x, "_origin"):
        box._origin = x._origin
    return box
