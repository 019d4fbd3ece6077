"""``debug(values=True)``: what stands in the tensors that a transform gives its function, for a plain call of it.

Not for: the comparison (``values.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from ..batched import Batched
from ..core.contexts import watching
from ..core.tracer import Tracer
from ..dual import Dual
from ..tree import NAMESPACE, flatten, tree_map
from .values import copied, difference, packed

__all__ = ["value_check"]


def value_check(f: Callable, args: tuple, kwargs: dict) -> Callable[[Any], None] | None:
    """Return a function that compares the result of a call with a plain one; ``None`` where values are not known."""
    leaves, treedef = flatten((args, kwargs))
    tensors = [x for x in leaves if isinstance(x, Tracer)]
    if not tensors:
        return None
    level = tensors[0].level
    plain = [_plain(x) for x in leaves]
    if any([isinstance(x, Tracer) for x in plain]) or any([x.level is not level for x in tensors]):
        return None  # variables of a program, or tensors of several transforms
    lanes = level.size if any([type(x) is Batched for x in tensors]) else None
    mapped = [type(x) is Batched for x in leaves]

    def once(values: list) -> Any:
        call_args, call_kwargs = copied(treedef.unflatten(values))
        return f(*call_args, **call_kwargs)

    def without() -> Any:
        if lanes is None:
            return once(plain)
        results = [once([x[i] if m else x for x, m in zip(plain, mapped, strict=True)]) for i in range(lanes)]
        return optree.tree_map(lambda *parts: np.stack(parts), *results, namespace=NAMESPACE)

    def shown(out: Any) -> Any:
        values, tree = flatten(tree_map(packed, out))
        if lanes is not None:
            values = [_plain(x) if type(x) is Batched else np.broadcast_to(x, (lanes, *np.shape(x))) for x in values]
        return tree.unflatten([_plain(x) for x in values])

    given: Any = treedef.unflatten([np.copy(x) if isinstance(x, Tracer) else x for x in leaves])

    def again() -> Any:
        return f(*given[0], **given[1])

    def look(out: Any) -> None:
        if lanes == 0:
            return
        token = watching.set(None)
        try:
            apart = difference(without, shown(out), again)
        finally:
            watching.reset(token)
        if apart is not None:
            raise apart.error(f"{level.transform}({getattr(f, '__name__', type(f).__name__)})")

    return look


def _plain(x: Any) -> Any:
    if type(x) is Dual:
        return x._primal
    return x._value if type(x) is Batched else x
