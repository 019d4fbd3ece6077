"""Deferred writes: element after element into one array, at the cost of one write.

A write replaces what is in a tensor's box by a copy with one entry changed; filling an array of n entries that way
would cost n copies. So a write of a single entry is only noted, and the box turns into a :class:`Deferred` tensor until
somebody reads it. Its level is above all others, so dispatch hands it every call it is an argument of; it then carries
out what was noted, in one scatter, turns back into what it was, and dispatches the call again. Entries that are read
one by one are answered from the notes, so recurrences (``y[i] = a * y[i - 1]``) cost no copies either.

Code that never writes never meets any of this. Not for: arrays with views, whose writes are carried out at once.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.aval import Aval, aval_of
from ..core.buffer import Buffer
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..ops import indexing
from .arguments import operand

__all__ = ["Deferred", "defer", "flush_writes", "is_entry", "read"]


class _Above:
    """The level of tensors with deferred writes: dispatch asks them first."""

    __slots__ = ()
    number = math.inf
    open = True
    transform = "a write"


_ABOVE = _Above()


class Deferred(Tracer):
    """A tensor with noted writes: ``_notes`` is (class, level, aval, {position: value})."""

    __slots__ = ()

    def process(self, op, args, params):
        flush_writes(self)
        return bind(op, args, params)

    inner = property(lambda self: flush_writes(self).inner)

    @property
    def aval(self) -> Aval:
        return self._notes[2]

    @property
    def shape(self):
        return self._notes[2].shape

    @property
    def dtype(self):
        return self._notes[2].dtype

    def __getattr__(self, name: str):
        # What only the tensor's own kind knows (.primal, .tangent, ...): be that again, and ask anew. The slots that
        # may be empty stay missing.
        if name in Tracer.__slots__:
            raise AttributeError(name)
        flush_writes(self)
        return getattr(self, name)

    def concretize(self, what: str):
        return flush_writes(self).concretize(what)

    def __bool__(self):
        return bool(flush_writes(self))

    def _text(self) -> str:
        kind, level, aval, notes = self._notes
        late = f"{len(notes)} writes to carry out"
        return f"{kind.__name__}({aval!r} with {late}, level={level.number} of {level.transform}"

    def __repr__(self) -> str:
        try:
            return repr(flush_writes(self)) if self._notes[1].open else f"{self._text()}, escaped)"
        except Exception as error:
            return f"<tensor with deferred writes that can't be shown: {type(error).__name__}: {error}>"


def is_entry(template: tuple, x: Tracer) -> bool:
    """Say whether an index without arrays names one entry."""
    return len(template) == len(x.shape) and all([type(e) is int for e in template])


def defer(x: Tracer, position: tuple[int, ...], value) -> bool:
    """Note the write of one entry, if it can wait; say whether it was noted."""
    if hasattr(x, "_given"):
        return False
    if type(x) is Deferred:  # it has no views, and is none: who made one would have read it
        _, _, aval, notes = x._notes
        if isinstance(value, Tracer) and value.shape == () and value.dtype is aval.dtype:
            notes[position] = _own(value)
            return True
    elif hasattr(x, "_link") or any([r() is not None for r in getattr(x, "_views", ())]):
        return False
    else:
        aval, notes = Aval(x.shape, x.dtype), {}
    value = operand(value)
    if np.shape(value) != ():
        return False
    if aval_of(value).dtype != aval.dtype:
        value = (value if hasattr(value, "shape") else np.asarray(value)).astype(aval.dtype)
    if not isinstance(value, Tracer):
        # A number of its own, which a later write to the caller's array does not change; of NumPy's, as an entry is.
        value = value[()] if type(value) is np.ndarray else aval.dtype.type(value)
    else:
        value = _own(value)
    if type(x) is not Deferred:
        x._notes = (type(x), x.level, aval, notes)
        x.__class__, x.level = Deferred, _ABOVE
    notes[position] = value
    return True


def _own(value: Tracer):
    """Return what a 0-d tensor holds in a box of its own: a 0-d array may be written to later (``out=``)."""
    if type(value) is Buffer:
        return value.give()[()]
    box = object.__new__(type(value))
    box.become(value)
    return box


def read(x: Deferred, position: tuple[int, ...]):
    """Return one entry without carrying out the writes."""
    cls, level, _, notes = x._notes
    if position in notes:
        return notes[position]
    x.__class__, x.level = cls, level
    try:
        return bind(indexing.index, (x,), {"template": position})
    finally:
        x.__class__, x.level = Deferred, _ABOVE


def flush_writes(x: Tracer) -> Tracer:
    """Carry out the noted writes, if there are any, and return the tensor, which is what it was before them."""
    if type(x) is not Deferred:
        return x
    cls, level, aval, notes = x._notes
    x.__class__, x.level = cls, level
    del x._notes
    if len(notes) == 1:
        ((position, value),) = notes.items()
        new = bind(indexing.index_set, (x, value), {"template": position})
    else:
        positions = np.array(list(notes), dtype=np.intp)
        values = np.stack(list(notes.values()))
        template = (indexing.ARRAY,) * len(aval.shape)
        new = bind(indexing.index_set, (x, values, *positions.T), {"template": template})
    x.become(new)
    return x
