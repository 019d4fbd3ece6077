"""Memory: the one room that knows who shares memory with whom, and what a read, a write, a view and a copy are.

For: views (``viewed``), writes (``assign``, ``target``), writes that wait (``defer``, ``flush_writes``), and the
copies that keep a derivative right (``snapshot``, ``unshared``). A tensor is a box, and a write replaces its content,
so that everybody who holds the tensor sees the write. A view knows its base, and a base its views:

    x ◀──base── x[1:] ◀──base── x[1:].reshape(2, 2)        a write goes up to the root, then down to all views

A box's content is never changed in place: arrays that a rule has already read stay as they were, which is what makes
writes right under every transform. A box keeps no list of its reads: code that never writes pays for views only.

Whether NumPy's result would be a view or a copy is asked of NumPy itself, with a *stand-in*: an empty array with the
strides of the array that NumPy would have in the box's place (``layout``). It is asked when something is written.

Writing n entries one by one would cost n copies of the array. So a write of a single entry is only noted, and the box
turns into a :class:`Deferred` tensor until somebody reads it. Its level is above all others, so dispatch hands it every
call it is an argument of; it then carries out the noted writes, in one scatter, turns back into what it was, and
dispatches the call again. Entries that are read one by one are answered from the notes, so recurrences
(``y[i] = a * y[i - 1]``) cost no copies either.

Not for: plain arrays that can receive traced values (``buffer.py``); the operators that read and replace entries
(``ops/indexing.py``), which are known here by name; what NumPy's functions that write compute (``surface/writing.py``).
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..base.tree import LEAVES_SEEN_AS
from ..core.above import ABOVE
from ..core.aval import Aval, as_entries, aval_of
from ..core.constants import foreign
from ..core.contexts import note
from ..core.dispatch import bind
from ..core.tables import OPS
from ..core.tracer import Tracer
from ..errors import InPlaceError

__all__ = [
    "Deferred", "Reading", "Topmost", "apply_view", "as_array", "assign", "defer", "dense", "flush_writes",
    "is_entry", "is_scalar", "is_unchanged", "is_view_of", "laid_out", "layout", "lent",
    "link", "live_views", "pin", "plain_target", "read", "record", "refuse_if_lent", "replace_box", "root_of",
    "snapshot", "snapshot_once", "stand_in", "target", "unshared", "writer",
]  # fmt: skip


# ── copies ───────────────────────────────────────────────────────────────────────────────────────────────────────


def snapshot(a: Any) -> Any:
    """Return an array or a tensor as it is now, for who reads it later, whatever is written to the original."""
    if isinstance(a, Tracer):
        return unshared(a)
    return a if not a.flags.writeable and a.base is None else _frozen_copy(a)


def _frozen_copy(a: np.ndarray) -> np.ndarray:
    if 0 in a.strides and a.size > 1 and not any(a.strides):  # one number, repeated: it stays one
        copy = np.broadcast_to(a[(0,) * a.ndim], a.shape)
    else:
        copy = a.copy("K")  # in the order in memory that NumPy's results take over from it
    copy.setflags(write=False)
    return copy


def snapshot_once(a: np.ndarray, copies: dict[int, tuple[Any, Any]]) -> np.ndarray:
    """Return ``snapshot(a)`` of what can be written to: the one made before (among ``copies``), if it is equal."""
    if a.size <= 64:
        return _frozen_copy(a)
    # The same large constant is typically met in every step of a loop: one copy serves as long as it is equal.
    known = copies.get(id(a))
    if known is not None and _identical(known[1], a):
        return known[1]
    copy = _frozen_copy(a)
    copies[id(a)] = (a, copy)  # held, so that no other array gets its number
    return copy


def _identical(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    same = a == b
    return bool(same.all() or (same | ((a != a) & (b != b))).all())


def unshared(x: Any) -> Any:
    """Return a value in memory of its own: a write to it is not seen by the holders of the original."""
    if isinstance(x, Tracer):
        return replace_box(object.__new__(type(flush_writes(x))), x)
    return x.copy() if isinstance(x, np.ndarray) or foreign(x) is not None else x


def is_unchanged(box: Tracer, x: Tracer) -> bool:
    """Whether a box made by ``unshared`` still holds what the original holds."""
    return type(box) is type(x) and all([getattr(box, slot, None) is getattr(x, slot, None) for slot in _CONTENT])


def replace_box(box: Tracer, other: Tracer) -> Tracer:
    """Put the content of another box into this one, which becomes a tensor of that kind; return it."""
    box.__class__ = type(other)
    box.level = other.level
    for slot in _CONTENT:
        if hasattr(other, slot):
            setattr(box, slot, getattr(other, slot))
    return box


#: what the kinds of tensors hold
_CONTENT = ("_primal", "_tangent", "_value", "variable")


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Memory:
    """The record of a box's memory; most boxes have none, and a record holds only differences from these defaults."""

    #: the box this one is a view of, the operator that takes the view, and its parameters
    base: Tracer | None = None
    op: Any = None
    params: dict = {}
    #: what NumPy does to the base, if that is not ``op.impl``; and, once asked, whether the view is read-only
    ask: Callable | None = None
    readonly: bool | None = None
    views: list[weakref.ref] | None = None  #: references to the views of this box
    array: bool = False  #: whether a box without axes is an array, as creation functions make, and not a scalar
    #: whether the box stands for two of NumPy's arrays, which can't be told apart but by a write to ``x.shape``
    twice: bool = False
    #: strides of NumPy's array in place of the box, where they can't be read off what it holds
    strides: tuple[int, ...] | None = None
    writes: int = 0  #: how often the box was written to, itself or through what shares its memory
    copies: list[weakref.ref] | None = None  #: references to the copies that NumPy has where it would have this memory
    #: deferred writes: (class, level, aval, {position: value})
    notes: tuple[type, Any, Aval, dict] | None = None
    #: of a buffer: whether a tensor may have read its memory, and references to views that are not followed
    shared: bool = False
    strays: list[weakref.ref] | None = None
    #: of a buffer: whether it is the caller's, and an earlier run may have written into it (``rerun.py``)
    unknown: bool = False
    #: of a buffer: the instructions that have made it, and what it was computed of (``lines.py``)
    lines: frozenset = frozenset()
    before: Tracer | bool = False  #: whether it was written to; of a transform's argument, what it held before


def record(x: Tracer) -> _Memory:
    """Return the record of a box's memory, making it if need be."""
    try:
        return x._memory
    except AttributeError:
        x._memory = made = _Memory()
        return made


def root_of(x: Tracer) -> Tracer:
    """Return the box that owns the memory."""
    while (view := _as_view(x)) is not None:
        x = view.base
    return x


class Reading:
    """A view that is composed of NumPy calls: stands where an operator stands in a record."""

    __slots__ = ("impl",)

    def __init__(self, function: Callable) -> None:
        self.impl = function

    def __call__(self, base, **params):
        return self.impl(base, **params)


def link(view, base: Tracer, op, params: dict, ask: Callable | None = None):
    """Record that ``view`` is ``op(base, **params)``, and shares its memory if NumPy's result would; return it.

    A NumPy scalar shares nothing, and has no views: a 0-d view is one unless NumPy says that it is an array. ``ask`` is
    what NumPy is asked, a function of the stand-in, where that is not the operator itself.
    """
    if not isinstance(view, Tracer) or view is base or is_scalar(base):
        return view
    memory = _Memory()
    memory.base, memory.op, memory.params = base, op, params
    if ask is not None:
        memory.ask = ask
    if not view.shape:
        if type(_stand_in_result(memory, layout(base))) is not np.ndarray:
            return view
        memory.array = True
    view._memory = memory
    of = record(base)
    views = of.views
    if views is None:
        of.views = [weakref.ref(view)]
        return view
    if len(views) >= 32 and len(views).bit_count() == 1:  # at 32, 64, 128, ...: forget the dead
        views[:] = [r for r in views if r() is not None]
    views.append(weakref.ref(view))
    return view


def apply_view(op, base, params: dict, ask: Callable | None = None):
    """Run an operator whose result NumPy would, or might, have as a view of its argument."""
    out = op(base, **params)
    return link(out, base, op, params, ask) if isinstance(base, Tracer) else out


def is_scalar(x: Tracer) -> bool:
    """Whether NumPy would have a scalar in place of a tensor: anything without axes, unless it was created so."""
    return not x.shape and not x._plain_array and not getattr(x, "_memory", _Memory).array


def as_array(x: Any) -> Any:
    """Mark a 0-d tensor as an array, as NumPy's creation functions give: it can be written to, and have views."""
    if isinstance(x, Tracer) and not x.shape:
        record(x).array = True
    return x


def is_view_of(value, base: Tracer, op, params: dict) -> bool:
    """Whether ``value`` is this very view of ``base``: then what would be written is there already."""
    memory = getattr(value, "_memory", _Memory)
    return memory.base is base and memory.op is op and memory.params == params


# ── view or copy: NumPy is asked ─────────────────────────────────────────────────────────────────────────────────


def layout(x: Tracer) -> np.ndarray:
    """Return the stand-in for a box: an array, of unknown entries, with the strides that NumPy's would have there."""
    memory = _as_view(flush_writes(x))
    if memory is not None:
        return _stand_in_result(memory, layout(memory.base))
    memory = getattr(x, "_memory", _Memory)
    return stand_in(x.shape, x.dtype, x._strides() if memory.strides is None else memory.strides)


def _stand_in_result(memory: _Memory, base: np.ndarray) -> np.ndarray:
    """Return the view of a stand-in for its base, as NumPy makes it."""
    return memory.ask(base) if memory.ask is not None else memory.op.impl(base, **memory.params)


def stand_in(shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None) -> np.ndarray:
    """Return an array of unknown entries (whole numbers are zero: they may be indices) with the given strides.

    It is in C order where they are ``None``.
    """
    if strides is None:
        return np.zeros(shape, dtype) if dtype.kind in "iub" else np.empty(shape, dtype)
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    before = -sum([r for r in reach if r < 0])
    size = before + sum([r for r in reach if r > 0]) + dtype.itemsize
    memory = np.zeros(size, np.uint8) if dtype.kind in "iub" else np.empty(size, np.uint8)
    return np.ndarray(shape, dtype, memory, before, strides)


def dense(shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a new array with its axes in the same order in memory: what NumPy's results have."""
    return np.empty_like(stand_in(shape, dtype, strides)).strides


def _as_view(x: Tracer) -> _Memory | None:
    """Return the record of a box that is a view, and None for any other: here it is decided."""
    memory = getattr(x, "_memory", None)
    if memory is None or memory.base is None:
        return None
    if memory.readonly is None:
        base = layout(memory.base)
        out = _stand_in_result(memory, base)
        if memory.op is OPS["reshape"]:
            note("order")
        if out.size and not np.may_share_memory(out, base):
            memory.strides, memory.base = out.strides, None
            return None
        memory.readonly = not out.flags.writeable
    return memory


def live_views(x: Tracer) -> Iterator[Tracer]:
    """Yield the views of a box that somebody holds."""
    for reference in getattr(x, "_memory", _Memory).views or ():
        view = reference()
        if view is not None:
            memory = _as_view(view)
            if memory is not None and memory.base is x:
                yield view


def pin(x: Any, strides: tuple[int, ...]) -> Any:
    """Note which strides NumPy's array in place of a new box has, which is no view; return the box."""
    if isinstance(x, Tracer) and x.shape and strides != layout(x).strides:
        memory = record(x)
        memory.strides, memory.base = strides, None
    return x


def laid_out(x: Any, strides: tuple[int, ...]) -> Any:
    """Return a new array with its axes in memory in the order of NumPy's, which all take over that read it."""
    if not isinstance(x, Tracer) or len(x.shape) < 2 or 0 in x.shape or strides == layout(x).strides:
        return x
    axes = tuple(sorted(range(len(strides)), key=lambda k: -abs(strides[k])))
    return OPS["copy"](x, axes=axes)


# ── writes ───────────────────────────────────────────────────────────────────────────────────────────────────────

#: operator whose result is a view -> function (base, params, value) -> the base with the view's entries replaced
_WRITERS: dict[Any, Callable] = {}


def writer(op) -> Callable:
    """Declare how a write through the view that ``op`` gives reaches its base."""

    def register(function: Callable) -> Callable:
        _WRITERS[op] = function
        return function

    return register


def assign(x: Tracer, new) -> None:
    """Put ``new`` (of the shape and dtype of ``x``) into the box ``x``, and into all that share its memory."""
    if x._plain_array and x.stored(new):
        return
    _check_writable(x)
    _fill(x, new)
    _push_up(x)
    _push_down(x, None)


def _check_writable(x: Tracer) -> None:
    refuse_if_lent(x)
    view = _as_view(x)
    if view is not None:
        if view.readonly:
            raise ValueError("assignment destination is read-only (NumPy's views of this kind are, too: write a copy)")
        _check_writable(view.base)


def _push_up(x: Tracer) -> None:
    view = _as_view(x)
    if view is not None:
        base = view.base
        _fill(base, _WRITERS[view.op](base, view.params, x))
        _push_up(base)
        _push_down(base, x)


def _push_down(base: Tracer, source: Tracer | None) -> None:
    for view in live_views(base):
        if view is not source:
            memory = view._memory
            _fill(view, memory.op(base, **memory.params))
            _push_down(view, None)


def _fill(x: Tracer, new) -> None:
    """Replace the content of a box, even by that of another kind of tensor: their boxes have one layout."""
    if not isinstance(new, Tracer):
        new = OPS["index_set"](x, new, template=())  # a constant, as a tensor of the same kind
        if not isinstance(new, Tracer):
            raise InPlaceError(
                f"a {x._kind()} of shape {x.shape} was written to inside no_tangents().",
                "the whole of it would become a constant, for all who hold it",
                "write outside of no_tangents(), or into a copy made inside it",
            )
    memory = record(x)
    memory.writes += 1
    if memory.before is False:
        memory.before = replace_box(object.__new__(type(x)), x) if hasattr(x, "_origin") else True
    memory.array = memory.array or x._plain_array  # a buffer without axes stays an array as a tensor
    new = flush_writes(new)
    if memory.base is None:  # the new content may have other strides
        if memory.strides is None:
            memory.strides = stand_in(x.shape, x.dtype, x._strides()).strides
        if len(x.shape) > 1 and x._strides() != new._strides():
            new = laid_out(new, dense(x.shape, x.dtype, memory.strides))
    replace_box(x, new)


def plain_target(out, name: str) -> InPlaceError:
    """Return the refusal to write a traced value into a plain array."""
    return InPlaceError(
        f"{name}: out= (or an assignment such as +=) has a plain array of shape {np.shape(out)} as its target.",
        "a plain array can hold neither a tangent nor a batch axis",
        "use the result (y = f(x), or a = a + x), or make the target with np.zeros_like(x) or np.zeros(n, like=x)",
    )


def target(out, result, name: str):
    """Write ``result`` into ``out``, as ``out=`` and the augmented operators do, with NumPy's rules; return ``out``."""
    if not isinstance(out, Tracer):
        objects = type(out) is np.ndarray and out.dtype == object and np.shape(result) == out.shape  # of tensors
        if objects or (type(out) is np.ndarray and not isinstance(result, Tracer)):
            np.copyto(out, np.asarray(result, object) if objects else result, "same_kind")
            return out
        raise plain_target(out, name)
    result = ABOVE.operand(result)
    found, wanted = aval_of(result), out.aval
    if found.shape != wanted.shape:
        if np.broadcast_shapes(found.shape, wanted.shape) != wanted.shape:
            raise ValueError(
                f"non-broadcastable output operand with shape {wanted.shape} doesn't match the broadcast shape"
                f" {found.shape}"
            )
        result = np.broadcast_to(result, wanted.shape)
    if found.dtype != wanted.dtype:
        if not np.can_cast(found.dtype, wanted.dtype, "same_kind"):
            raise InPlaceError(
                f"{name}: a result of dtype {found.dtype} was to be written into a {out._kind()} of {wanted.dtype}.",
                "part of the value would be lost",
                "make the target of the result's dtype, or cast the result with .astype first",
            )
        result = (result if hasattr(result, "astype") else np.asarray(result)).astype(wanted.dtype)
    assign(out, result)
    return out


# ── copies that NumPy has ────────────────────────────────────────────────────────────────────────────────────────


def lent(x: Tracer, copy: np.ndarray) -> None:
    """Note that NumPy has a copy of a tensor where it would have had its memory; a write while it lives refuses."""
    while True:
        memory = record(x)
        memory.copies = [*(memory.copies or ()), weakref.ref(copy)]
        view = _as_view(x)
        if view is None:
            return
        x = view.base


def refuse_if_lent(x: Tracer) -> None:
    """Refuse a write that a copy which NumPy has of a tensor would not see."""
    copies = getattr(x, "_memory", _Memory).copies
    if copies is not None and any([r() is not None for r in copies]):
        raise InPlaceError(
            f"a {x._kind()} of shape {x.shape} was written to while there was an array of its entries, made by"
            " np.asarray(x).",
            "NumPy would have given the array itself, which sees the write; that copy can't",
            "write before np.asarray, or use x itself (or dualad.numpy.asarray, which returns it)",
        )


# ── writes that wait ─────────────────────────────────────────────────────────────────────────────────────────────


class Topmost:
    """The level of boxes that must be asked before any other: their writes wait, or they hold a plain array."""

    __slots__ = ("transform",)
    number = math.inf
    objects = False
    open = True
    linear = False

    def __init__(self, transform: str) -> None:
        self.transform = transform


_WAITING = Topmost("a write")


class Deferred(Tracer):
    """A tensor with noted writes."""

    __slots__ = ()

    def process(self, op, args, params):
        flush_writes(self)
        return bind(op, args, params)

    inner = property(lambda self: flush_writes(self).inner)

    @property
    def aval(self) -> Aval:
        return self._memory.notes[2]

    @property
    def shape(self):
        return self._memory.notes[2].shape

    @property
    def dtype(self):
        return self._memory.notes[2].dtype

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
        kind, level, aval, notes = self._memory.notes
        late = f"{len(notes)} writes to carry out"
        return f"{kind.__name__}({aval!r} with {late}, level={level.number} of {level.transform}"

    def __repr__(self) -> str:
        try:
            return repr(flush_writes(self)) if self._memory.notes[1].open else f"{self._text()}, escaped)"
        except Exception as error:
            return f"<tensor with deferred writes that can't be shown: {type(error).__name__}: {error}>"


def is_entry(template: tuple, x: Tracer) -> bool:
    """Whether an index without arrays names one entry."""
    return len(template) == len(x.shape) and all([type(e) is int for e in template])


def defer(x: Tracer, position: tuple[int, ...], value) -> bool:
    """Note the write of one entry, if it can wait; say whether it was noted."""
    memory = record(x)
    memory.writes += 1
    if memory.copies is not None:
        return False
    if type(x) is Deferred:  # it has no views, and is none: who made one would have read it
        _, _, aval, notes = memory.notes
        if isinstance(value, Tracer) and value.shape == () and value.dtype is aval.dtype:
            notes[position] = _entry(value)
            return True
    elif x._plain_array or memory.base is not None or any([r() is not None for r in memory.views or ()]):
        return False
    else:
        aval, notes = Aval(x.shape, x.dtype), {}
    value = ABOVE.operand(value)
    if np.shape(value) != ():
        return False
    value = as_entries(value, aval.dtype, True)
    # A number of its own, which a later write to the caller's array does not change.
    value = _entry(value) if isinstance(value, Tracer) else value[()]
    if type(x) is not Deferred:
        memory.notes = (type(x), x.level, aval, notes)
        x.__class__, x.level = Deferred, _WAITING
    notes[position] = value
    return True


def _entry(value: Tracer):
    """Return a 0-d tensor's value in a box of its own: a 0-d array may be written to later (``out=``)."""
    return value.give()[()] if value._plain_array else unshared(value)


def read(x: Deferred, position: tuple[int, ...]):
    """Return one entry without carrying out the writes."""
    cls, level, _, notes = x._memory.notes
    if position in notes:
        return notes[position]
    x.__class__, x.level = cls, level
    try:
        return bind(OPS["index"], (x,), {"template": position})
    finally:
        x.__class__, x.level = Deferred, _WAITING


def flush_writes(x: Tracer) -> Tracer:
    """Carry out the noted writes, if there are any, and return the tensor, which is what it was before them."""
    if type(x) is not Deferred:
        return x
    memory = x._memory
    cls, level, aval, notes = memory.notes
    x.__class__, x.level = cls, level
    memory.notes = None
    if len(notes) == 1:
        ((position, value),) = notes.items()
        new = bind(OPS["index_set"], (x, value), {"template": position})
    else:
        positions = np.array(list(notes), dtype=np.intp)
        values = np.stack(list(notes.values()))
        template = ("array",) * len(aval.shape)
        new = bind(OPS["index_set"], (x, values, *positions.T), {"template": template})
    _fill(x, new)
    return x


# Whatever crosses the boundary of a transform is a leaf of a tree: noted writes are carried out there.
LEAVES_SEEN_AS[Deferred] = flush_writes
