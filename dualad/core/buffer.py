"""Buffers: plain arrays that can receive traced values, made by the creation functions of ``dualad.numpy``.

A :class:`Buffer` is a tensor's box with a plain array in it, and computes as that array does. When a traced value is
written into it (``buf[0] = x``, ``buf += x``, ``out=buf``), the box takes over the result (``Tracer.become``): from
then on it is a Dual, Batched or Staged tensor, and so are its views. Its level is above all others, so dispatch hands
it every call it is an argument of; it then puts its array in its place and dispatches again. No tensor ever holds one.

Writes of plain values go into the array in place, as NumPy's do. An array that a tensor may have read is never written
again: the next write is made to a copy. Not for: creating buffers (``dualad/numpy``) or NumPy's functions on them.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InPlaceError
from ..tree import LEAVES_SEEN_AS
from .above import ABOVE
from .dispatch import bind
from .tables import FUNCTIONS
from .tracer import Tracer

__all__ = ["Buffer", "VIEWS", "WRITERS", "buffered", "call", "lent", "refuse_if_lent", "traced_in"]

#: NumPy functions whose result shares memory with their argument: they keep the link of a view to its base
VIEWS: set[Callable] = set()
#: NumPy functions that write into their first argument
WRITERS: set[Callable] = set()


class _Above:
    """The level of buffers: dispatch asks them first."""

    __slots__ = ()
    number = math.inf
    open = True
    transform = "dualad.numpy"


_ABOVE = _Above()


_NUMBERS = frozenset({bool, int, float, complex, np.float64})
_SIMPLE = frozenset({int, slice})


class _Given:
    """What has been given out of a buffer's memory: to tensors, to NumPy as copies, and as views without a link."""

    __slots__ = ("copies", "shared", "views")

    def __init__(self) -> None:
        self.shared = False
        self.copies: list[weakref.ref] = []
        self.views: list[weakref.ref] = []


def lent(x: Tracer, copy: np.ndarray) -> None:
    """Note that NumPy has a copy of a tensor where it would have had its memory; a write while it lives refuses."""
    while True:
        if not hasattr(x, "_given"):
            x._given = _Given()
        x._given.copies.append(weakref.ref(copy))
        if not hasattr(x, "_link"):
            return
        x = x._link[0]


def refuse_if_lent(x: Tracer) -> None:
    """Refuse a write that a copy which NumPy has of a tensor would not see."""
    given = getattr(x, "_given", None)
    if given is not None and any([r() is not None for r in given.copies]):
        raise InPlaceError(
            f"a {x._kind()} of shape {x.shape} was written to while there was an array of its entries, made by"
            " np.asarray(x).",
            "NumPy would have given the array itself, which sees the write; that copy can't",
            "write before np.asarray, use x itself (or dualad.numpy.asarray, which returns it), or lift the function",
        )


class Buffer(Tracer, opaque=True):
    """A plain array that becomes a tensor when a traced value is written into it.

    Parameters
    ----------
    array : ndarray
        The content, which belongs to the buffer from now on.
    """

    __slots__ = ()

    def __init__(self, array: np.ndarray) -> None:
        self._value = array
        self.level = _ABOVE

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _root(self) -> Buffer:
        x = self
        while hasattr(x, "_link"):
            x = x._link[0]
        return x

    def _record(self) -> _Given:
        root = self._root()
        if not hasattr(root, "_given"):
            root._given = _Given()
        return root._given

    def give(self) -> np.ndarray:
        """Return the array for somebody who may keep it: the buffer will not write into it again."""
        self._record().shared = True
        return self._value

    def _writable(self) -> np.ndarray:
        """Return the array for writing plain values into it."""
        root = self._root()
        if hasattr(root, "_given"):
            given = root._given
            self._refuse_if_alive(given.copies, "copies made by NumPy (np.asarray, compiled code)")
            if given.shared:
                self._refuse_if_alive(given.views, "views that are not followed")
                root._value = root._value.copy()
                del root._given
                _renew_views(root)
        if not self._value.flags.writeable:
            raise ValueError("assignment destination is read-only")
        return self._value

    def stored(self, new: Any) -> bool:
        """Write a plain value into the whole array, in place; say whether it was plain."""
        if traced_in(new) is None:
            np.copyto(self._writable(), _plain(new), casting="unsafe")
            return True
        self._refuse_if_kept()
        return False

    def _refuse_if_kept(self) -> None:
        given = getattr(self._root(), "_given", None)
        if given is not None:
            self._refuse_if_alive(given.copies, "copies made by NumPy (np.asarray, compiled code)")
            self._refuse_if_alive(given.views, "views that are not followed")

    def _refuse_if_alive(self, references: list[weakref.ref], what: str) -> None:
        if any(r() is not None for r in references):
            raise InPlaceError(
                f"a buffer of shape {self.shape} was written to while there were {what} of it.",
                "in NumPy they would see the write, and here they can't",
                "make them after the write, make them of a copy (buffer.copy()), or let go of them before the write",
            )

    # ── dispatch ─────────────────────────────────────────────────────────────────────────────────────────────────

    def process(self, op, args, params):
        """Run an operator on the arrays in the buffers' place."""
        if all([type(a) is Buffer or not isinstance(a, Tracer) for a in args]):
            return buffered(bind(op, [_plain(a) for a in args], params))
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
            given = [buffered(r) if o is None else o for o, r in zip(outs, results, strict=True)]
            return given[0] if len(given) == 1 else tuple(given)
        return buffered(getattr(ufunc, method)(*_plain(inputs), **_plain(kwargs)))

    def __array_function__(self, function, types, args, kwargs):
        for t in types:
            if not issubclass(t, (Tracer, np.ndarray)):
                return NotImplemented
        return call(function, args, kwargs)

    def __array__(self, dtype=None, copy=None):
        """Give NumPy a copy: read-only, and followed, where NumPy's own array would have shared its memory."""
        if copy is False:
            raise ValueError("Unable to avoid copy: a buffer does not give its memory away.")
        out = self._value.astype(dtype or self.dtype, copy=True)
        if copy is None and out.dtype == self.dtype:
            out.setflags(write=False)
            self._record().copies.append(weakref.ref(out))
        return out

    # ── what stands between brackets ─────────────────────────────────────────────────────────────────────────────

    def __getitem__(self, index):
        if type(index) is int and self._value.ndim == 1:
            return self._value[index]
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
            ABOVE.target(self, value, "x[...] = v")
            return
        self._refuse_if_kept()  # the index may be traced and the value plain: nothing is written as it is
        Tracer.__setitem__(self, index, value)

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
        return repr(self._value).replace("array(", "Buffer(", 1)

    # What no tensor has; protocols that would give the memory away stay closed.
    flags = property(lambda self: self._value.flags, doc="As ``ndarray.flags``.")
    strides = property(lambda self: self._value.strides, doc="As ``ndarray.strides``.")


def _array_method(name: str) -> Callable:
    """Make a method that is ndarray's where everything is plain, and the tensor's where it is not."""

    def method(self, *args, **kwargs):
        if traced_in(args, kwargs) is not None:
            return getattr(Tracer, name)(self, *args, **kwargs)
        out = kwargs.pop("out", None)
        if out is not None:
            memory = out._writable() if type(out) is Buffer else out
            getattr(self._value, name)(*_plain(args), out=memory, **_plain(kwargs))
            return out
        result = getattr(self._value, name)(*_plain(args), **_plain(kwargs))
        return self if result is self._value else buffered(result, self)

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
    for ref in getattr(base, "_views", ()):
        view = ref()
        if type(view) is Buffer:
            _, op, params = view._link
            view._value = op.impl(base._value, **params)
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


def _replaced(x: Any, change: Callable) -> Any:
    """Return ``x`` with ``change`` applied to the buffers in it."""
    kind = type(x)
    if kind is Buffer:
        return change(x)
    if kind is list or kind is tuple:
        return kind([_replaced(item, change) for item in x])
    if kind is dict:
        return {key: _replaced(item, change) for key, item in x.items()}
    return x


def _plain(x: Any) -> Any:
    """Return arrays in place of buffers, for a call that keeps none of them."""
    return _replaced(x, lambda b: b._value)


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
                source._record().views.append(weakref.ref(out))
                return out
        return Buffer(x if x.base is not None or x.flags.c_contiguous else np.ascontiguousarray(x))
    if kind is list or kind is tuple:
        return kind([buffered(item, *sources) for item in x])
    if isinstance(x, tuple) and hasattr(x, "_make"):
        return x._make([buffered(item, *sources) for item in x])
    return x


def call(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Call a NumPy function on arguments among which there may be buffers and tensors."""
    tensor = traced_in(args, kwargs)
    if tensor is not None:
        kept = args[:1] if function in WRITERS else ()
        rest = _replaced(args[len(kept) :], Buffer.give)
        keywords = {k: v if k == "out" else _replaced(v, Buffer.give) for k, v in kwargs.items()}
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
    return buffered(function(*_plain(args), **_plain(kwargs)), *sources)


LEAVES_SEEN_AS[Buffer] = Buffer.give
