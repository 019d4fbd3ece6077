"""Buffers: plain arrays that can receive traced values, made by the creation functions of ``dualad.numpy``.

A :class:`Buffer` is a tensor's box with a plain array in it, and computes as that array does. When a traced value is
written into it (``buf[0] = x``, ``buf += x``, ``out=buf``), the result is put into the box (``memory.py``): from
then on it is a Dual, Batched or Staged tensor, and so are its views. Its level is above all others, so dispatch hands
it every call it is an argument of; it then puts its array in its place and dispatches again. No tensor ever holds one.

Writes of plain values go into the array in place, as NumPy's do. An array that a tensor may have read is never written
again: the next write is made to a copy. Not for: creating buffers (``dualad/numpy``) or NumPy's functions on them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.tree import LEAVES_SEEN_AS
from ..core.above import ABOVE
from ..core.dispatch import bind
from ..core.tables import FUNCTIONS
from ..core.tracer import Tracer
from ..errors import InPlaceError
from .lines import pass_on, take_traced
from .memory import Topmost, live_views, record, root_of, target

__all__ = ["Buffer", "VIEWS", "WRITERS", "buffered", "call", "traced_in"]

#: NumPy functions whose result shares memory with their argument: they keep the link of a view to its base
VIEWS: set[Callable] = set()
#: NumPy functions that write into their first argument
WRITERS: set[Callable] = set()


_ABOVE = Topmost("dualad.numpy")

_NUMBERS = frozenset({bool, int, float, complex, np.float64})
_SIMPLE = frozenset({int, slice})


class Buffer(Tracer, opaque=True):
    """A plain array, its own from now on, that becomes a tensor when a traced value is written into it."""

    __slots__ = ()
    _plain_array = True

    def __init__(self, array: np.ndarray) -> None:
        self._value = array
        self.level = _ABOVE

    def class_in_numpy(self) -> type:
        """Return NumPy's array: what creation functions make is no scalar."""
        return np.ndarray

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _strides(self):
        return self._value.strides

    def give(self) -> np.ndarray:
        """Return the array for somebody who may keep it: the buffer will not write into it again."""
        record(root_of(self)).shared = True
        return self._value

    def _writable(self) -> np.ndarray:
        """Return the array for writing plain values into it."""
        root = root_of(self)
        memory = record(root)
        self._refuse_if_alive(memory.copies, "copies made by NumPy (np.asarray, compiled code)")
        if memory.unknown:
            raise InPlaceError(
                f"plain numbers were written into an argument of shape {root.shape}, by a function that writes traced"
                " values into plain arrays, or indexes them with traced integers, too.",
                "such a function runs twice, the second time with arguments that accept that; its first run has changed"
                " this array already, which is too large to be kept as it was",
                "write into a copy: a = np.copy(a)",
            )
        if memory.shared:
            self._refuse_if_alive(memory.strays, "views that are not followed")
            root._value = root._value.copy()
            memory.shared, memory.copies, memory.strays = False, None, None
            _renew_views(root)
        if not self._value.flags.writeable:
            raise ValueError("assignment destination is read-only")
        return self._value

    def stored(self, new: Any) -> bool:
        """Write a plain value into the whole array, in place; say whether it was plain."""
        if traced_in(new) is None:
            np.copyto(self._writable(), _plain(new), casting="unsafe")
            return True
        self._take_traced()
        return False

    def _take_traced(self) -> None:
        """Become a tensor, unless somebody holds what would not see it."""
        take_traced(self)
        memory = record(root_of(self))
        self._refuse_if_alive(memory.copies, "copies made by NumPy (np.asarray, compiled code)")
        self._refuse_if_alive(memory.strays, "views that are not followed")

    def _refuse_if_alive(self, references: list[weakref.ref] | None, what: str) -> None:
        if references is not None and any([r() is not None for r in references]):
            raise InPlaceError(
                f"a buffer of shape {self.shape} was written to while there were {what} of it.",
                "in NumPy they would see the write, and here they can't",
                "make them after the write, make them of a copy (buffer.copy()), or let go of them before the write",
            )

    # ── dispatch ─────────────────────────────────────────────────────────────────────────────────────────────────

    def process(self, op, args, params):
        """Run an operator on the arrays in the buffers' place."""
        if all([type(a) is Buffer or not isinstance(a, Tracer) for a in args]):
            return pass_on(buffered(bind(op, [_plain(a) for a in args], params)), args)
        return bind(op, [a.give() if type(a) is Buffer else a for a in args], params)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        tensor = traced_in(inputs, kwargs)
        if tensor is not None:
            return Tracer.__array_ufunc__(tensor, ufunc, method, *inputs, **kwargs)
        if method == "at":
            target = inputs[0]
            memory = target._writable() if type(target) is Buffer else target
            return ufunc.at(memory, *_plain(inputs[1:]), **_plain(kwargs))
        outs = kwargs.pop("out", None)
        if outs is not None:
            memory = tuple([o._writable() if type(o) is Buffer else o for o in outs])
            results = getattr(ufunc, method)(*_plain(inputs), out=memory, **_plain(kwargs))
            results = results if isinstance(results, tuple) else (results,)
            given = [pass_on(buffered(r), inputs) if o is None else o for o, r in zip(outs, results, strict=True)]
            return given[0] if len(given) == 1 else tuple(given)
        return pass_on(buffered(getattr(ufunc, method)(*_plain(inputs), **_plain(kwargs))), inputs)

    def __array_function__(self, function, types, args, kwargs):
        for t in types:
            if not issubclass(t, (Tracer, np.ndarray)):
                return NotImplemented
        return call(function, args, kwargs)

    def __array__(self, dtype=None, copy=None):
        """Give NumPy the array: read-only, and followed, where NumPy's own array would have shared its memory."""
        if copy is False:
            raise ValueError("Unable to avoid copy: a buffer does not give its memory away.")
        if copy or (dtype is not None and np.dtype(dtype) != self.dtype):
            return self._value.astype(dtype or self.dtype, copy=True)
        out = self.give().view()
        out.setflags(write=False)
        memory = record(root_of(self))
        memory.copies = [*[r for r in memory.copies or () if r() is not None], weakref.ref(out)]
        return out

    # ── what stands between brackets ─────────────────────────────────────────────────────────────────────────────

    def __getitem__(self, index):
        if type(index) is int and self._value.ndim == 1:
            return self._value[index]
        if traced_in(index) is not None:
            take_traced(self)
        return Tracer.__getitem__(self, index)

    def __setitem__(self, index, value):
        if type(value) in _NUMBERS and type(index) in _SIMPLE:  # by far the commonest write
            self._writable()[index] = value
            return
        if traced_in(index, value) is None:
            self._writable()[_plain(index)] = _plain(value)
            return
        value = ABOVE.operand(value)
        if not self.shape:
            target(self, value, "x[...] = v")
            return
        self._take_traced()  # the index may be traced and the value plain: nothing is written as it is
        Tracer.__setitem__(self, index, value)  # type: ignore[index]  # it comes from a table

    def __iter__(self):
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))  # one by one: a write in the loop is seen, as in NumPy

    # ── what a plain array can answer ────────────────────────────────────────────────────────────────────────────

    @property
    def shape(self):
        """The shape."""
        return self._value.shape

    @property
    def dtype(self):
        """The dtype."""
        return self._value.dtype

    def concretize(self, what: str):
        """Return the array: it is known."""
        return self._value

    def item(self, *args):
        """As ``ndarray.item``."""
        return self._value.item(*args)

    def tolist(self):
        """As ``ndarray.tolist``."""
        return self._value.tolist()

    def __reduce_ex__(self, protocol):
        return self._value.__reduce_ex__(protocol)

    def __bool__(self):
        return bool(self._value)

    def __float__(self):
        return float(self._value)

    def __int__(self):
        return int(self._value)

    def __complex__(self):
        return complex(self._value)

    def __index__(self):
        return self._value.__index__()

    def __format__(self, spec: str) -> str:
        return format(self._value, spec)

    def __str__(self) -> str:
        return str(self._value)

    def __repr__(self) -> str:
        return repr(self._value).replace("array(", "Buffer(")

    # What no tensor has; protocols that would give the memory away stay closed.
    flags = property(lambda self: self._value.flags, doc="As ``ndarray.flags``.")
    strides = property(lambda self: self._value.strides, doc="As ``ndarray.strides``.")


def _array_method(name: str) -> Callable:
    """Make a method that is ndarray's where everything is plain, and the tensor's where it is not."""

    def method(self, *args, **kwargs):
        if traced_in(args, kwargs) is not None:
            take_traced(self)
            return getattr(Tracer, name)(self, *args, **kwargs)
        out = kwargs.pop("out", None)
        if out is not None:
            memory = out._writable() if type(out) is Buffer else out
            getattr(self._value, name)(*_plain(args), out=memory, **_plain(kwargs))
            return out
        result = getattr(self._value, name)(*_plain(args), **_plain(kwargs))
        return self if result is self._value else pass_on(buffered(result, self), self, args)

    method.__name__ = name
    method.__doc__ = f"As ``ndarray.{name}``."
    return method


for _name in (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "byteswap", "choose", "clip", "compress",
    "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "flatten", "max", "mean", "min", "nonzero",
    "prod", "repeat", "round", "searchsorted", "std", "sum", "take", "tobytes", "trace", "var",
):  # fmt: skip
    setattr(Buffer, _name, _array_method(_name))


def _renew_views(base: Tracer) -> None:
    """Point the views of a buffer to its new memory."""
    for view in live_views(base):
        if type(view) is Buffer:
            view._value = view._memory.op.impl(base._value, **view._memory.params)
            _renew_views(view)


# ── arguments and results ────────────────────────────────────────────────────────────────────────────────────────


def traced_in(*values: Any) -> Tracer | None:
    """Return the first tensor that is not a buffer among values, in containers and object arrays too, or ``None``."""
    for x in values:
        kind = type(x)
        if kind is Buffer or kind is np.ndarray:
            if x.dtype.kind != "O":
                continue
            found = traced_in(*x.ravel().tolist())
        elif isinstance(x, Tracer):
            return x
        elif isinstance(x, (list, tuple)):
            found = traced_in(*x)
        elif kind is dict:
            found = traced_in(*x.values())
        else:
            continue
        if found is not None:
            return found
    return None


def _replace(x: Any, change: Callable) -> Any:
    """Return ``x`` with ``change`` applied to the buffers in it."""
    kind = type(x)
    if kind is Buffer:
        return change(x)
    if kind is list or kind is tuple:
        return kind([_replace(item, change) for item in x])
    if kind is dict:
        return {key: _replace(item, change) for key, item in x.items()}
    return x


def _plain(x: Any) -> Any:
    """Return arrays in place of buffers, for a call that keeps none of them."""
    return _replace(x, lambda b: b._value)


def _arrays_in(x: Any) -> list:
    """Return the buffers and plain arrays among arguments."""
    if isinstance(x, (list, tuple)):
        return [a for item in x for a in _arrays_in(item)]
    if isinstance(x, dict):
        return _arrays_in(list(x.values()))
    return [x] if isinstance(x, (Buffer, np.ndarray)) else []


def buffered(x: Any, *sources: Any) -> Any:
    """Return buffers in place of the arrays in a result.

    ``sources`` are the arrays it was computed from. What shares memory with a plain array stays plain, because that
    belongs to somebody else; what shares memory with a buffer, without a link, is noted there.
    """
    kind = type(x)
    if kind is np.ndarray:
        if x.dtype.kind not in "biufc":
            return x
        for source in sources:
            memory = source._value if type(source) is Buffer else source
            if x is memory:
                return source
            if x.base is not None and np.may_share_memory(x, memory):
                if memory is source:
                    return x
                out = Buffer(x)
                memory = record(root_of(source))
                memory.strays = [*(memory.strays or ()), weakref.ref(out)]
                return out
        return Buffer(x if x.base is not None or x.flags.c_contiguous else np.ascontiguousarray(x))
    if kind is list or kind is tuple:
        return kind([buffered(item, *sources) for item in x])
    if hasattr(x, "_make"):
        return x._make([buffered(item, *sources) for item in x])
    return x


def call(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Call a NumPy function on arguments among which there may be buffers and tensors."""
    tensor = traced_in(args, kwargs)
    if tensor is not None:
        kept = args[:1] if function in WRITERS else ()
        rest = _replace(args[len(kept) :], Buffer.give)
        keywords = {k: v if k == "out" else _replace(v, Buffer.give) for k, v in kwargs.items()}
        return Tracer.__array_function__(tensor, function, (type(tensor),), (*kept, *rest), keywords)
    sources = _arrays_in((args, kwargs))
    if function in VIEWS and any([type(a) is Buffer for a in sources]):
        return FUNCTIONS[function](*args, **kwargs)
    if function in WRITERS:
        first, *rest = args
        return function(first._writable() if type(first) is Buffer else first, *_plain(rest), **_plain(kwargs))
    out = kwargs.get("out")
    if type(out) is Buffer:
        function(*_plain(args), **_plain(kwargs) | {"out": out._writable()})
        return out
    return pass_on(buffered(function(*_plain(args), **_plain(kwargs)), *sources), sources)


LEAVES_SEEN_AS[Buffer] = Buffer.give
