"""Writing into tensors, and views: tensors that share memory with another one, as NumPy's do.

A tensor is a box, and a write replaces what is in it, so that everybody who holds the tensor sees the write. A view is
linked to its base: writing into the view writes into the base too, and a write into the base reaches all its views.
What is in a box is never changed in place: arrays that a rule has already read stay as they were, which is what makes
writes right under every transform, forwards and backwards.

    x ──link──▶ x[1:] ──link──▶ x[1:].reshape(2, 2)        a write goes up to the root, then down to all views

A box keeps no list of its reads, so code that never writes pays only for the links of its views. Not for: the
operators that read and replace entries (``ops/indexing.py``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

from ..core.aval import aval_of
from ..core.buffer import Buffer, refuse_if_lent
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import PLAIN, Tracer
from ..errors import InPlaceError
from ..ops import indexing, shaping
from .arguments import operand

__all__ = ["Reading", "as_array", "assign", "is_scalar", "is_view_of", "link", "reshaped", "target", "viewed", "writer"]

#: operator whose result is a view -> function (base, params, value) -> the base with the view's entries replaced
_WRITERS: dict[Primitive, Callable] = {}


def writer(op: Primitive) -> Callable:
    """Declare how a write through the view that ``op`` gives reaches its base."""

    def register(function: Callable) -> Callable:
        _WRITERS[op] = function
        return function

    return register


class Reading:
    """A read-only view that is composed of NumPy calls: stands where an operator stands in a link."""

    __slots__ = ("impl",)

    def __init__(self, function: Callable) -> None:
        self.impl = function

    def __call__(self, base, **params):
        return self.impl(base, **params)


def link(view, base: Tracer, op: Primitive, params: dict):
    """Record that ``view`` is ``op(base, **params)`` and shares its memory; return the view.

    A 0-d view is a NumPy scalar, which shares nothing, and has no views.
    """
    if not isinstance(view, Tracer) or not view.shape or view is base or is_scalar(base):
        return view
    view._link = (base, op, params)
    try:
        views = base._views
    except AttributeError:
        base._views = [weakref.ref(view)]
        return view
    if len(views) >= 32 and len(views).bit_count() == 1:  # at 32, 64, 128, ...: forget the dead
        views[:] = [r for r in views if r() is not None]
    views.append(weakref.ref(view))
    return view


def is_scalar(x: Tracer) -> bool:
    """Say whether NumPy would have a scalar in place of a tensor: anything without axes, unless it was created so."""
    return not x.shape and type(x) is not Buffer and not hasattr(x, "_views")


def as_array(x: Tracer) -> Tracer:
    """Mark a 0-d tensor as an array, as NumPy's creation functions give: it can be written to, and have views."""
    if not hasattr(x, "_views"):
        x._views = []
    return x


def viewed(op: Primitive, base, params: dict):
    """Run an operator whose result is a view of its argument."""
    out = op(base, **params)
    return link(out, base, op, params) if isinstance(base, Tracer) else out


def is_view_of(value, base: Tracer, op: Primitive, params: dict) -> bool:
    """Say whether ``value`` is this very view of ``base``: then what would be written is there already."""
    known = getattr(value, "_link", None)
    return known is not None and known[0] is base and known[1] is op and known[2] == params


def assign(x: Tracer, new) -> None:
    """Put ``new`` (of the shape and dtype of ``x``) into the box ``x``, and into all that share its memory."""
    if type(x) is Buffer and x.stored(new):
        return
    _check_writable(x)
    _fill(x, new)
    _push_up(x)
    _push_down(x, None)


def _check_writable(x: Tracer) -> None:
    refuse_if_lent(x)
    known = getattr(x, "_link", None)
    if known is not None:
        if known[1] not in _WRITERS:
            raise ValueError("assignment destination is read-only (NumPy's views of this kind are, too: write a copy)")
        _check_writable(known[0])


def _push_up(x: Tracer) -> None:
    known = getattr(x, "_link", None)
    if known is not None:
        base, op, params = known
        _fill(base, _WRITERS[op](base, params, x))
        _push_up(base)
        _push_down(base, x)


def _push_down(base: Tracer, source: Tracer | None) -> None:
    for ref in getattr(base, "_views", ()):
        view = ref()
        if view is not None and view is not source:
            _, op, params = view._link
            _fill(view, op(base, **params))
            _push_down(view, None)


def _fill(x: Tracer, new) -> None:
    """Replace the content of a box, even by that of another kind of tensor: their boxes have one layout."""
    if not isinstance(new, Tracer):
        new = indexing.index_set(x, new, template=())  # a constant, as a tensor of the same kind
        if not isinstance(new, Tracer):
            raise InPlaceError(
                f"a {x._kind()} of shape {x.shape} was written to inside no_tangents().",
                "the whole of it would become a constant, for all who hold it",
                "write outside of no_tangents(), or into a copy made inside it",
            )
    x.become(new)


def target(out, result, name: str):
    """Write ``result`` into ``out``, as ``out=`` and the augmented operators do, with NumPy's rules; return ``out``."""
    if not isinstance(out, Tracer):
        if type(out) is np.ndarray and out.dtype == object and np.shape(result) == out.shape:
            out[...] = np.asarray(result, object)  # np.array([x, 1.0]) += y: its entries may be tensors
            return out
        raise InPlaceError(
            f"{name}: out= (or an augmented assignment such as +=) has a plain array of shape {np.shape(out)} as its"
            " target, and the result is traced.",
            "a plain array can hold neither a tangent nor a batch axis",
            "use the result (y = f(x), or a = a + x), or make the target with np.zeros_like(x) or np.zeros(n, like=x)",
        )
    result = operand(result)
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
        result = (result if type(result) in PLAIN or isinstance(result, Tracer) else np.asarray(result)).astype(
            wanted.dtype
        )
    assign(out, result)
    return out


# ── how a write through a view reaches its base ──────────────────────────────────────────────────────────────────


@writer(indexing.index)
def _write_index(base, params, value):
    return indexing.index_set(base, value, template=params["template"])


@writer(shaping.reshape)
def _write_reshape(base, params, value):
    return shaping.reshape(value, shape=base.shape)


@writer(shaping.transpose)
def _write_transpose(base, params, value):
    axes = params["axes"]
    return shaping.transpose(value, axes=tuple(sorted(range(len(axes)), key=axes.__getitem__)))


# ── layout: whether a reshape can be a view ──────────────────────────────────────────────────────────────────────


def _layout(x: Tracer) -> np.ndarray:
    """Return an array without memory of its own that has the strides NumPy's array in place of ``x`` would have."""
    known = getattr(x, "_link", None)
    if known is None:
        strides, step = [], 1
        for n in reversed(x.shape):
            strides.append(step)
            step *= max(n, 1)
        return np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), x.shape, tuple(reversed(strides)), writeable=False)
    base, op, params = known
    return op.impl(_layout(base), **params)


def reshaped(x, shape: tuple[int, ...]):
    """Reshape a tensor: a view where NumPy's would be one, a copy otherwise."""
    params = {"shape": shape}
    out = bind(shaping.reshape, (x,), params)
    if not isinstance(x, Tracer) or not x.size:
        return out
    if getattr(x, "_link", None) is not None:
        try:
            _reshape_in_place(_layout(x), shape)
        except (AttributeError, ValueError):
            return out
    return link(out, x, shaping.reshape, params)


def _reshape_in_place(layout: np.ndarray, shape: tuple[int, ...]) -> None:
    """Reshape without reading memory, which a layout does not have; raise if that would need a copy."""
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        layout.reshape(shape, copy=False)
    else:  # NumPy 2.0 has no copy=
        layout.shape = shape
