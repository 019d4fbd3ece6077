"""Orders in memory: those of results, conversions that may return their argument, and ``x.shape = ...``.

Not for: ``np.reshape`` (``surface/shaping.py``), or writes to entries (``memory.py``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.contexts import note
from ..core.tables import OPS
from ..core.tracer import Tracer
from ..errors import InPlaceError
from .memory import (
    apply_view,
    as_array,
    flush_writes,
    is_scalar,
    laid_out,
    layout,
    live_views,
    record,
    replace_box,
    unshared,
)

__all__ = ["convert_like_numpy", "in_order", "like_copy", "order_of", "reshape_in_place", "second"]


def convert_like_numpy(x: Tracer, ask: Callable) -> Tracer:
    """Return the box itself, a view or a copy of it, whichever NumPy's function ``ask`` returns of an array.

    It keeps the entries, and may change the dtype, the order in memory, and the shape by axes of length one.
    """
    note("order")
    x = x.numpy_number()
    out = ask(like := layout(x))
    if out.dtype.kind not in "biufc":
        raise TypeError(f"a tensor can't be made an array of dtype {out.dtype}")
    shares = out is like or np.may_share_memory(out, like)
    if out.shape == x.shape and shares:
        return as_array(unshared(x)) if is_scalar(x) else x if out is like else second(x)
    reshape = OPS["reshape"]
    if shares:
        return apply_view(reshape, x, {"shape": out.shape})
    copy = OPS["copy"](x) if out.dtype == x.dtype else OPS["astype"](x, dtype=out.dtype)
    return as_array(laid_out(copy if out.shape == x.shape else reshape(copy, shape=out.shape), out.strides))


def second(x: Any) -> Any:
    """Return the stand-in for a second array of the same memory, shape and order: the box itself."""
    if isinstance(x, Tracer):
        x = x.numpy_number()  # of a Python number NumPy makes an array
        record(x).twice = True
    return x


def reshape_in_place(x: Tracer, shape: Any) -> None:
    """Give a box another shape: it becomes a view of a new box, which takes over what it held, and its place."""
    like = layout(flush_writes(x))
    like = like.view()  # what would be a new array is refused by NumPy itself
    like.shape = shape
    if like.shape == x.shape:
        return
    memory = getattr(x, "_memory", None)
    if memory is not None and memory.twice:
        raise InPlaceError(
            f"the shape of a {x._kind()} of shape {x.shape} was set to {like.shape}, after np.ravel, np.reshape or"
            " np.squeeze of it, or as the result of one, that changed nothing.",
            "such a result is the tensor itself here, so what is a second array in NumPy would change its shape too",
            "use the result of x.reshape(shape), which is a view",
        )
    old = object.__new__(type(x))
    replace_box(old, x)
    if memory is not None:
        old._memory = memory
        for view in live_views(x):
            view._memory.base = old
        if memory.base is not None:
            record(memory.base).views.append(weakref.ref(old))
        del x._memory
    new = apply_view(OPS["reshape"], as_array(old), {"shape": like.shape})
    replace_box(x, new)
    x._memory = new._memory
    record(old).views.append(weakref.ref(x))


# ── the order that NumPy gives a result ──────────────────────────────────────────────────────────────────────────────


def in_order(x: Any, order: str | None) -> Any:
    """Note on a new array in which order NumPy would have put its entries in memory, if it is told which."""
    if order in ("C", "F", "c", "f") and isinstance(x, Tracer) and len(x.shape) > 1:
        return laid_out(x, np.empty(x.shape, x.dtype, order).strides)
    return x


def order_of(a: Any) -> str:
    """Return the order that NumPy's functions written in Python give a result: Fortran's of an array in it alone."""
    return "F" if (layout(a) if isinstance(a, Tracer) else a).flags.fnc else "C"


def like_copy(x: Any, a: Any) -> Any:
    """Note on a new array that NumPy makes it as a copy of ``a``, with its axes in the same order in memory."""
    if isinstance(a, Tracer) and len(x.shape) > 1:
        return laid_out(x, np.empty_like(layout(a)).strides)
    return x
