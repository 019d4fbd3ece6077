"""Dispatch: the one function every operator call goes through.

For: finding the tensor of the highest level among the arguments and handing it the call. Not for: deciding
what happens then; that is the tensor's ``process``.
"""

from __future__ import annotations

from .contexts import everywhere, process_wide
from .tracer import Tracer

__all__ = ["bind"]


def bind(op, args, params):
    """Run ``op`` on ``args``: through the innermost tensor among them, or as plain NumPy if there is none."""
    if len(args) == 1:
        top = args[0] if isinstance(args[0], Tracer) else None
    else:
        top, number = None, 0
        for a in args:
            if isinstance(a, Tracer) and a.level.number > number:
                top, number = a, a.level.number
    if everywhere and (watch := process_wide()) is not None:
        return watch.operation(top, op, args, params)
    if top is None:
        return op.impl(*args, **params)
    return top.process(op, args, params)
