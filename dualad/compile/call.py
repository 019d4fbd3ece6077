"""The operator ``call``: a compiled function inside a transform, and what the transforms make of it.

Its derivative is two calls, one of the values with their residuals and one that is linear in the tangents, whose
transpose is a call again: forward and backward passes both run compiled. Not for: functions of users', signatures
(``jit.py``), or code (``numpy_source.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..control.control_ops import (
    as_declared,
    as_it_runs,
    filled,
    given,
    holds_staged,
    marked,
    not_linear,
    sees_steps,
    spread,
    strong_avals,
)
from ..control.subprograms import (
    Transposed,
    batch_program,
    jvp_program,
    mask_programs,
    mentions,
    partial_eval_jvp,
    repeat_lanes,
    runner,
    series_program,
    spread_orders,
    stage,
    together,
    transpose_program,
)
from ..core.arguments import replaced
from ..core.aval import Aval, is_weak
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import PLAIN
from ..locks import new_lock
from ..ops.kinks import _convention
from ..program.ir import Program
from ..series.rules import declare
from .native.engine import engine
from .numpy_source import Compiled, compile_program
from .reroll import reroll
from .simplify import simplify

__all__ = ["CallProgram", "call", "machine_code"]

#: programs derived from one, at most: another number of lanes each time would keep them all
_KEPT = 64


class CallProgram(Program):
    """A program that ``call`` runs, with its code and the programs that transforms have made of it."""

    __slots__ = ("_compiled", "_derived", "_lock")

    def __init__(self, program: Program) -> None:
        super().__init__(program.inputs, program.steps, program.outputs, program.name)
        self._compiled: Compiled | None = None
        self._derived: dict[Any, Any] = {}
        self._lock = new_lock()

    def __reduce__(self):
        return CallProgram, (Program(self.inputs, self.steps, self.outputs, self.name),)

    @property
    def compiled(self) -> Compiled:
        """Its code, written when it is first run."""
        if self._compiled is None:
            with self._lock:
                if self._compiled is None:
                    self._compiled = compile_program(reroll(simplify(self)))
        return self._compiled

    def derived(self, make: Callable, *key: Any) -> Any:
        """Return ``_callable(make())`` for a key, made once (for each convention about kinks)."""
        key = (*key, _convention.get())
        found = self._derived.get(key)
        if found is None:
            with self._lock:
                found = self._derived.get(key)
                if found is None:
                    if len(self._derived) >= _KEPT:
                        self._derived.clear()
                    found = self._derived[key] = _callable(make())
        return found


def _callable(made: Any) -> Any:
    """Return what was made of a program, the programs in it as such that can be called."""
    if type(made) is Program:
        return CallProgram(made)
    if not isinstance(made, (list, tuple)):
        return made
    parts = [_callable(x) for x in made]
    return type(made)(*parts) if isinstance(made, Transposed) else type(made)(parts)


def machine_code(program: Program) -> Callable | None:
    """Compile a program if all of it becomes machine code; its inputs are arrays in C order."""
    if engine() is None:
        return None
    compiled = CallProgram(program).compiled
    return compiled.run if compiled.calls == {"native": 1} else None


# ── call(*vectors, *others; program, linear) ─────────────────────────────────────────────────────────────────────
#
# With linear = k the program is linear in its first k arguments together.


def _call_impl(*args, program, linear):
    if all([type(a) in PLAIN for a in args]):
        # A number is NumPy's unless the program was written for a Python number.
        args = tuple(
            [
                a if hasattr(a, "dtype") or is_weak(v.aval) else np.asarray(a, v.aval.dtype)[()]
                for a, v in zip(args, program.inputs, strict=True)
            ]
        )
        out = program.compiled.run(*args)
    else:  # arrays of another library
        out = runner(program)(*args)
    return tuple(as_declared(out, program.outputs))


def _call_jvp(primals, tangents, *, program, linear):
    params = {"program": program, "linear": linear}
    moving = tuple([t is not None for t in tangents])
    if linear and not any(moving[linear:]):
        vectors = filled(tangents[:linear], primals[:linear], [True] * linear)
        return bind(call, primals, params), bind(call, (*vectors, *primals[linear:]), params)
    if mentions(program, sees_steps) and not any([holds_staged(p) for p in primals]):
        return as_it_runs(runner(program), primals, tangents)
    n = len(program.outputs)
    vectors, forced = given(tangents, moving), [False] * n
    if not any([holds_staged(t) for t in vectors]):
        both, out = program.derived(lambda: jvp_program(program, moving, forced), "jvp", moving)
        results = bind(call, (*primals, *vectors), {"program": both, "linear": 0})
        return results[:n], tuple(spread(results[n:], out))
    known, rest, out, sources = program.derived(lambda: _separate(program, moving, forced), "linearize", moving)
    values = bind(call, primals, {"program": known, "linear": 0})
    computed = iter(values[n:])
    residuals = [next(computed) if s is None else primals[s] for s in sources]
    if not any(out):
        return values[:n], (None,) * n
    moved = bind(call, (*vectors, *residuals), {"program": rest, "linear": len(vectors)})
    return values[:n], tuple(spread(moved, out))


def _separate(program: Program, moving: Sequence[bool], forced: Sequence[bool]) -> tuple:
    part = partial_eval_jvp(program, moving, forced)
    n = len(program.outputs)
    computed = [o for o, s in zip(part.known.outputs[n:], part.sources, strict=True) if s is None]
    known = Program(part.known.inputs, part.known.steps, [*part.known.outputs[:n], *computed], program.name)
    return known, part.linear, part.moving, part.sources


def _call_transpose(ct, *args, program, linear):
    live = [None] * len(ct)
    return _call_marked_transpose(ct, *args, live=live, hot=False, wanted=(), program=program, linear=linear).cotangents


def _call_marked_transpose(ct, *args, live, hot, wanted, program, linear):
    if not linear:
        raise not_linear("call")
    partial = tuple([m is not None for m in live])
    make = lambda: transpose_program(program, linear, told=(partial, [hot] * len(partial)))
    found = program.derived(make, "transpose", linear, partial, hot)
    masks, marks = [m for m in live if m is not None], [None] * linear
    chosen = tuple([i for i in range(linear) if found.partial[i] and wanted and wanted[i]])
    if chosen:
        marks_of = lambda: mask_programs([found], chosen, len(args) - linear)
        (marking,), kept = program.derived(marks_of, "marks", linear, partial, hot, chosen)
        known = [args[linear + i] for i in kept]
        marks = replaced(marks, chosen, bind(call, (*known, *masks), {"program": marking, "linear": 0}))
    out = bind(call, (*ct, *args[linear:], *masks), {"program": found.program, "linear": len(ct)})
    return marked(out, marks, found.hot, args)


def _call_batch(size, values, mapped, *, program, linear):
    flags = tuple(mapped)
    make = lambda: batch_program(program, flags, size, [False] * len(program.outputs))
    # Which lanes collectives speak to is the running transform's business, so these are written anew.
    crosses = mentions(program, lambda op, params: hasattr(op, "across"))
    lanes, out = _callable(make()) if crosses else program.derived(make, "batch", flags, size)
    results = bind(call, values, {"program": lanes, "linear": linear})
    return tuple([x if m else repeat_lanes(x, size) for x, m in zip(results, out, strict=True)])


def _call_samples():
    real, vector = Aval((), np.dtype(float)), Aval((3,), np.dtype(float))
    plain = stage(lambda v, s: [np.sin(v) * s, np.sum(v * v)], [vector, real], "f", "samples").program
    line = stage(lambda v, s, w: [v * w, np.sum(v) * s], [vector, real, vector], "line", "samples").program
    return [
        ((3,), (), {"program": CallProgram(plain), "linear": 0}),
        ((3,), (), (3,), {"program": CallProgram(line), "linear": 1}),
    ]


call = Primitive(
    "call",
    impl=_call_impl,
    abstract_eval=lambda *avals, program, linear: tuple(strong_avals(program)),
    jvp=_call_jvp,
    linear_in=lambda count, params: range(params["linear"]),
    joint=True,
    transpose=_call_transpose,
    marked_transpose=_call_marked_transpose,
    batch=_call_batch,
    samples=_call_samples,
    multiple_results=True,
    raises=True,
    kind="control",
)


@declare(call)
def _call_series(order, values, params):
    """Run the program of series, compiled too."""
    program = params["program"]
    moving = tuple([type(v) is list for v in values])
    make = lambda: series_program(program, moving, [False] * len(program.outputs), order)
    series, out = program.derived(make, "series", moving, order)
    results = bind(call, spread_orders(values, moving, order), {"program": series, "linear": 0})
    return together(results, out, order)
