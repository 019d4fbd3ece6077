"""A scan in segments, whose residuals are computed again where they are read: ``checkpoints=k`` of loops.

Of n steps the k carries at the starts of k segments are kept, and the way back takes the steps of a segment once more:
k carries and the residuals of n/k steps, for one run more. Segments of segments divide again: with L levels of k/L
carries each, residuals of n/(k/L)^L steps are held at a time, and every step runs L + 1 times. (Griewank and Walther,
*Algorithm 799: Revolve*, 2000, whose binomial schedule needs the fewest runs; a program is to be short and the same for
all n, so here the parts of a level are equal, which costs about one run more.) Not for: the scan itself (``scan.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.arguments import replace_at
from ..core.aval import Aval, aval_of
from ..core.dispatch import bind
from ..core.tracer import Tracer, beneath
from ..errors import ArgumentError
from ..tensors.staged import Staged
from .carry import signature
from .scan import operand_groups
from .scan import scan as scan_op
from .subprograms import stage

__all__ = ["check_checkpoints", "levels", "recomputed", "scan_in_segments"]

#: whose bodies are written down once, for all of their steps; and a checkpoint in one of those
_LOOPS = ("scan", "while_loop", "fori_loop", "map", "checkpoint")


def check_checkpoints(where: str, checkpoints: Any) -> None:
    """Refuse anything but a number of carries."""
    if checkpoints is not None and not (isinstance(checkpoints, (int, np.integer)) and checkpoints >= 1):
        raise ArgumentError(
            f"{where}: checkpoints={checkpoints!r}.", "it is how many carries are kept, 1 or more",
            "pass about the square root of the number of steps: checkpoints=100 for 10,000",
        )  # fmt: skip


def levels(length: int, checkpoints: int | None) -> list[int]:
    """Return how many segments each level has: as few levels as leave no more steps to record than carries."""
    if checkpoints is None:
        return []
    deepest = max(1, checkpoints // 2)
    left = [-(-length // (checkpoints // n) ** n) for n in range(1, deepest + 1)]
    count = next((n for n, steps in enumerate(left, 1) if steps <= checkpoints), 1 + int(np.argmin(left)))
    return [checkpoints // count] * count


def scan_in_segments(args: Sequence, params: dict, sizes: Sequence[int]) -> list:
    """Bind a scan of ``sizes[0]`` segments at most, each of which is scanned in ``sizes[1:]`` again."""
    body, length, reverse, counts = [params[name] for name in ("body", "length", "reverse", "counts")]
    if not sizes or length <= sizes[0]:
        return list(bind(scan_op, args, params))
    nk = counts[1]
    constants, carry, xs, _, _ = operand_groups(args, counts)
    each = -(-length // sizes[0])
    parts, rest = divmod(length, each)

    def within(values: Sequence, steps: int) -> list:
        return scan_in_segments(values, {**params, "length": steps}, sizes[1:])

    # In reverse, the last rows come first.
    rows = [x if not rest else x[rest:] if reverse else x[: length - rest] for x in xs]
    rows = [np.reshape(x, (parts, each, *np.shape(x)[1:])) for x in rows]
    avals = [*[v.aval for v in body.inputs[: counts[0] + nk]]]
    avals += [Aval(a.shape[1:], a.dtype) for a in map(aval_of, rows)]
    outer = stage(lambda *flat: within(flat, each), avals, body.name, "scan").program
    out = bind(scan_op, (*constants, *carry, *rows), {**params, "body": outer, "length": parts, "recompute": True})
    carry, ys = list(out[:nk]), [np.reshape(y, (parts * each, *np.shape(y)[2:])) for y in out[nk:]]
    if rest:
        last = within([*constants, *carry, *[x[:rest] if reverse else x[length - rest :] for x in xs]], rest)
        carry, more = last[:nk], last[nk:]
        ys = [np.concatenate([b, a] if reverse else [a, b]) for a, b in zip(ys, more, strict=True)]
    return [*carry, *ys]


def recomputed(function: Callable, values: list, name: str) -> list | None:
    """Return a function's results as those of a scan of one step; None outside of the body of a loop.

    That is what ``checkpoint`` is in a loop: machine code, as the loop is.
    """
    found = [v for v in [beneath(x) for x in values if isinstance(x, Tracer)] if type(v) is Staged]
    if not any([v.level.transform in _LOOPS and not v.level.linear for v in found]):
        return None
    moving = [i for i, x in enumerate(values) if isinstance(x, Tracer)]
    given = [values[i] for i in moving]
    call = lambda *flat: function(*replace_at(values, moving, flat))
    body = stage(call, [signature(x) for x in given], name, "checkpoint")
    args = [*given, *body.captured]
    params = {"length": 1, "reverse": False, "counts": (len(args), 0, 0, 0), "linear": False, "recompute": True}
    return [y[0] for y in bind(scan_op, args, {"body": body.program, **params})]
