"""One place that a value was read from, and the question whether it still holds what it held.

For: ``Place``, whose kinds the machine code of ``jit`` knows too (``compile/native/front.py``), and ``same``, which
compares their contents. Not for: which places there are (``reach.py``).
"""

from __future__ import annotations

import collections
import types
import warnings
import weakref
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..core.above import ABOVE

__all__ = [
    "ATTRIBUTE", "CELL", "CODE", "DEFAULTS", "ENTRY", "ITEMS", "LENGTH", "LIST", "MISSING", "Place", "SAID", "all_hold",
    "bytes_of", "contents_of", "entries_of", "header_of", "is_changed", "items_of", "local_of", "parts_of",
    "referent_of", "same", "state_of", "unlifted",
]  # fmt: skip

#: kinds of places: a cell; an entry of an exact dict, by key; its entries, in their order; its length; the entries of
#: an exact list; a function's code and defaults; an attribute of an object; what a function says of a thing
CELL, ENTRY, ITEMS, LENGTH, LIST, CODE, DEFAULTS, ATTRIBUTE, SAID = range(9)

_PLAIN = (bool, int, float, complex, np.generic, str, bytes)
#: types of which equal values are the same
_EXACT = frozenset({int, str, bytes})


class _Missing:
    """The content of an empty place."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<missing>"


MISSING = _Missing()


class Place(NamedTuple):
    """A place and what it held.

    ``key`` is the key of an entry, the name of an attribute, or the function that is asked.
    """

    kind: int
    holder: Any
    key: Any
    value: Any

    def now(self) -> Any:
        """Return the present content."""
        return _LOOK[self.kind](self.holder, self.key)


def _in_cell(cell: Any, key: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return MISSING


#: the attribute that a place is, by its kind
_NAMES = {CELL: "cell_contents", CODE: "__code__", DEFAULTS: "__defaults__"}

#: how a place is looked at, by its kind
_LOOK: tuple[Callable[[Any, Any], Any], ...] = (
    _in_cell,
    lambda holder, key: holder.get(key, MISSING),
    lambda holder, key: items_of(holder),
    lambda holder, key: len(holder),
    lambda holder, key: tuple(holder),
    lambda holder, key: holder.__code__,
    lambda holder, key: holder.__defaults__,
    lambda holder, key: getattr(holder, key, MISSING),
    lambda holder, key: key(holder),
)


def all_hold(places: Iterable[Place]) -> bool:
    """Whether places hold what they held; entries of dicts, which most of them are, are looked at here."""
    try:
        for place in places:
            kind, holder, key, value = place
            if (kind != ENTRY or holder.get(key, MISSING) is not value) and is_changed(place):
                return False
    except Exception:  # a key that can't be compared any more
        return False
    return True


def is_changed(place: Place) -> bool:
    """Whether a place holds something else."""
    try:
        now = _LOOK[place[0]](place[1], place[2])
    except Exception:  # what can't be looked at any more is another thing
        return True
    if now is place[3] or same(now, place[3]):
        return False
    return not same(unlifted(place[0], place[1], place[2], now), place[3])


def unlifted(kind: int, holder: Any, key: Any, value: Any) -> Any:
    """Return the content of a place as outside of lifted code, which finds other things there."""
    if kind == ITEMS:
        return tuple([x for k, v in holder.items() for x in (k, ABOVE.original(holder, k, v))])
    if kind == LIST:
        return tuple([ABOVE.original(holder, i, x) for i, x in enumerate(value)])
    return ABOVE.original(holder, _NAMES.get(kind, key), value) if kind != SAID else value


def same(a: Any, b: Any) -> bool:
    """Whether a function can't tell two values apart: numbers with their signed zeros, texts, tuples of such."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    if kind in _EXACT:
        return a == b
    return isinstance(a, _PLAIN) and repr(a) == repr(b)


# ── questions to objects ─────────────────────────────────────────────────────────────────────────────────────────


def items_of(mapping: Any) -> tuple:
    """Return keys and values by turns, in the order of the mapping."""
    return tuple([x for pair in mapping.items() for x in pair])


def entries_of(a: np.ndarray) -> tuple:
    """Return the entries of an array of objects, whose bytes are addresses: those may be had again."""
    return tuple(a.flat)


def header_of(a: np.ndarray) -> tuple:
    """Return the attributes of an array that can be set in place."""
    return a.dtype, a.shape, a.strides


def contents_of(a: np.ndarray) -> bytes | int:
    """Return the bytes of an array; of a large one, a checksum."""
    a = a.view(np.ndarray)  # a masked array would fill its gaps
    return a.tobytes() if a.nbytes <= 1 << 24 else zlib.crc32(np.ascontiguousarray(a).view(np.uint8).reshape(-1))  # type: ignore[arg-type]


def bytes_of(thing: Any) -> bytes:
    """Return the bytes of a buffer."""
    return bytes(thing)


def parts_of(frame: Any) -> tuple:
    """Return the axes and the columns of pandas' objects, which share them with every view that is made of one."""
    manager = frame._mgr
    return (*manager.axes, *manager.arrays)


def referent_of(reference: weakref.ref) -> Any:
    """Return the referent of a weak reference."""
    return reference()


def local_of(thing: Any) -> tuple:
    """Return the attributes that a ``threading.local`` has in this thread."""
    return items_of(thing.__dict__)


def state_of(thing: Any) -> tuple:
    """Return how far an iterator or a generator has come."""
    if isinstance(thing, types.GeneratorType):
        frame = thing.gi_frame
        return (MISSING,) if frame is None else (frame.f_lasti, items_of(frame.f_locals))
    with warnings.catch_warnings():  # of Python 3.12 and 3.13, which still let iterators say how far they are
        warnings.simplefilter("ignore", DeprecationWarning)
        return _flat(thing.__reduce_ex__(2))


def _flat(state: Any) -> tuple:
    """Return a state with lists and dicts in it as tuples."""
    if isinstance(state, (list, tuple, collections.deque)):
        return tuple([_flat(x) if isinstance(x, (list, tuple, dict)) else x for x in state])
    if isinstance(state, dict):
        return _flat(items_of(state))
    return (state,)
