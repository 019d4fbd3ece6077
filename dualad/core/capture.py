"""Tensors that a function reached around its arguments: noticed where an operator that calls the user returns.

A tensor of level n holds values of lower levels only; that is what nesting means. A custom rule (or a loop body, or
a checkpointed function) that reads a tensor of level n or above from its closure breaks this, and every transform
would then take the wrong one for its own. Not for: constants of lower levels, which are right as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import CapturedTensorError
from .level import Level
from .tracer import Tracer

__all__ = ["check_inside"]


def check_inside(values: Iterable, level: Level, op, params: dict) -> None:
    """Raise unless every value belongs to a lower level than the one that is about to hold it."""
    for v in values:
        if isinstance(v, Tracer) and v.level.number >= level.number:
            name = params["call"].name if "call" in params else op.name
            raise CapturedTensorError(
                f"`{name}` reads a {v._kind()} of shape {v.shape} that is not one of its arguments.",
                f"its rule is applied to its arguments, at the level of `{level.transform}`; a traced value that comes"
                " in through a closure, a global or an attribute would be differentiated or batched wrongly",
                f"make it an argument: {name}(x, w) in place of a function of x that reads w",
            )
