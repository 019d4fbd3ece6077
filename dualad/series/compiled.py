"""Machine code for the series of functions of an entry, where large arrays ask for the same one again and again.

What is compiled is what would be done without: the recurrence or the derived series, written down as a program of the
rows of the operands' blocks. All orders of an entry are then computed at once, and nothing in between is stored. Not
for: small arrays, whose calls cost more than their arithmetic, or operators that are no functions of an entry.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.above import ABOVE
from ..core.aval import Aval
from ..core.contexts import active
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import PLAIN
from ..ops.kinds import is_finite
from ..ops.kinks import _convention
from ..program.ir import Program
from ..tensors.staged import StagedLevel
from .stream import Stream

__all__ = ["compiled_stream"]

#: how many entries make an array large; how often it is asked for before it is compiled, which costs as much as some
#: hundred calls; and the highest order, whose program is as long as its square
_LARGE, _OFTEN, _HIGHEST = 4096, 64, 16

_KINDS = frozenset({"binary", "quotient", "unary"})
_REAL = np.dtype(float)


def compiled_stream(call: Any) -> Stream | None:
    """Return the stream of a call of the function's by compiled code; ``None`` where there is none (yet)."""
    op, level = call.op, call.level
    if (op.kind not in _KINDS and op.name != "multiply") or op.multiple_results:
        return None
    moving = call.moving()
    shape = call.streams[moving[0]].shape
    size = math.prod(shape)
    if size < _LARGE or not 1 < level.order <= _HIGHEST or level.pick is not None or active() is not None:
        return None
    parts: tuple[Any, ...] = tuple([_part(call, i, i in moving, shape) for i in range(len(call.args))])
    if None in parts or (len(moving) == 1 and moving[0] in op.linear_positions(len(parts), call.params)):
        return None
    try:  # as text too: 0.0 and -0.0 are equal
        numbers = repr((parts, call.params))
        kernel = _kernel(op, tuple(sorted(call.params.items())), level.order, size, numbers, _convention.get())
    except TypeError:  # parameters that can't be looked up
        return None
    run = kernel.ready(call, parts, size)
    if run is None:
        return None
    first = bind(op, call.zeroth, call.params)
    arrays = [
        call.streams[i].upto(n).reshape(n + 1, size) if n else np.ascontiguousarray(call.zeroth[i]).reshape(size)
        for i, (kind, n) in enumerate(parts)
        if kind == "array"
    ]
    (block,) = run(*arrays, np.ascontiguousarray(first).reshape(size))
    if not is_finite(block):
        return None
    stream = Stream(first, None, level.order, block=block.reshape(len(block), *shape))
    stream.coefs[0] = first
    return stream


def _part(call: Any, i: int, moves: bool, shape: tuple) -> tuple[str | type, Any] | None:
    """Return an argument's kind: an array with its number of further orders, or a number; ``None`` for others."""
    s, x = call.streams[i], call.zeroth[i]
    if moves:
        return ("array", s.last) if s.plain and s.complete and s.shape == shape and s.dtype == _REAL else None
    if type(x) in (int, float):
        return type(x), x
    return ("array", 0) if type(x) in PLAIN and np.shape(x) == shape and x.dtype == _REAL else None


@functools.lru_cache(maxsize=64)
def _kernel(op: Primitive, params: tuple, order: int, size: int, numbers: str, convention: Hashable) -> _Kernel:
    return _Kernel()


@dataclass(slots=True)
class _Kernel:
    """The code of an operator's series for operands of one kind and size, and how often it was asked for."""

    calls: int = 0
    code: Any = None

    def ready(self, call: Any, parts: Sequence, size: int) -> Callable | None:
        """Return the code, once it was asked for often."""
        self.calls += 1
        if self.calls == _OFTEN:
            with contextlib.suppress(Exception):  # a rule that branches on values, or refuses to be written down
                self.code = ABOVE.machine_code(_record_series(call, parts, size))
        return self.code and self.code.run


def _record_series(call: Any, parts: Sequence, size: int) -> Program:
    """Write the series of a call down: a program of blocks of rows and of the value itself, whose result is a block."""
    order = call.level.order
    with StagedLevel("series") as staged, type(call.level)(call.level.transform, order) as level:
        args: list = []
        for kind, n in parts:
            if kind != "array":
                args.append(n)
                continue
            x = staged.new_input(Aval((n + 1, size) if n else (size,), _REAL))
            if n:
                stream = Stream(x[0], None, n)
                stream.coefs += [x[k] for k in range(1, n + 1)]
                x = call.wrap(stream, level)
            args.append(x)
        out = bind(call.op, args, call.params)
        rows: list[Any] = out.variable.through(order) if type(out) is call.wrap else [out]
        zero = np.zeros(size)
        rows = [zero if c is None else c for c in rows] + [zero] * (order + 1 - len(rows))
        first = rows[0].variable
        program = staged.finish([np.stack(rows)], call.op.name)
    # The value is the function's own, to the bit: it is given.
    steps = [step for step in program.steps if first not in step.outs]
    return Program([*program.inputs, first], steps, program.outputs, program.name)
