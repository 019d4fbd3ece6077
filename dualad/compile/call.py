"""The operator ``call``: a compiled function inside a transform, and what the transforms make of it.

Its derivative is two calls, one of the values with their residuals and one that is linear in the tangents, whose
transpose is a call again: forward and backward passes both run compiled. Not for: functions of users', signatures
(``jit.py``), or code (``numpy_source.py``).
"""

from __future__ import annotations

import contextvars
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.arguments import replace_at
from ..base.frames import user_level
from ..base.garbage import less_collection, no_collection
from ..base.locks import new_lock
from ..base.log import log
from ..base.terminal import Timed
from ..batched import Batched
from ..control.control_ops import (
    as_declared,
    control,
    crosses_lanes,
    holds_staged,
    masked_cotangents,
    scatter_by_flags,
    select_by_flags,
    strong_avals,
)
from ..control.subprograms import (
    batch_program,
    jvp_program,
    mask_programs,
    partial_eval_jvp,
    runner,
    stage,
    transpose_program,
)
from ..core.aval import Aval, is_weak
from ..core.contexts import compiling, silently
from ..core.dispatch import bind
from ..core.tracer import PLAIN, beneath
from ..dual import Dual, DualLevel, split
from ..errors import PerformanceNote
from ..ops.arithmetic import divide
from ..ops.kinds import in_lanes, is_finite
from ..ops.kinks import _convention
from ..program.ir import Program, mentions
from ..program.variable import Variable
from .first_call import CHECKED
from .native.engine import engine
from .numpy_source import Compiled, compile_program
from .reroll import reroll
from .signature import has_nan
from .simplify import simplify
from .trust import proven

__all__ = ["CallProgram", "call", "machine_code"]

#: programs derived from one, at most: another number of lanes each time would keep them all
_KEPT = 64
#: equations of which it is said that they take a while, and about how many seconds each takes
_PATIENT, _EACH = 20_000, 1.2e-4


class CallProgram(Program):
    """A program that ``call`` runs, with its code and the programs that transforms have made of it.

    Its first run, and theirs, is checked if that is no more than ``most`` entries.
    """

    __slots__ = ("_compiled", "_derived", "_failed", "_lock", "_worker", "most")

    def __init__(self, program: Program, most: float = CHECKED) -> None:
        super().__init__(program.inputs, program.steps, program.outputs, program.name)
        self.most = most
        self._compiled: Compiled | None = None
        self._derived: dict[Any, Any] = {}
        self._lock = new_lock()
        self._worker: threading.Thread | None = None
        self._failed = False

    def __reduce__(self):
        return CallProgram, (Program(self.inputs, self.steps, self.outputs, self.name), self.most)

    @property
    def compiled(self) -> Compiled:
        """Its code, written when it is first run."""
        if self._compiled is None:
            with self._lock:
                if self._compiled is None:
                    # Beside a worker, other threads make garbage of their own, and write to the terminal.
                    aside = threading.current_thread() is self._worker
                    what = f"jit: compiling {self.name}, {len(self.steps):,} equations"
                    with less_collection() if aside else no_collection(), Timed(what, aside) as taken:
                        self._compiled = _compile(self)
                    log("DAL003", "jit: `%s` compiled: %d equations, %.3g s", self.name, len(self.steps), taken.seconds)
        return self._compiled

    def is_ready(self) -> bool:
        """Whether nobody has to wait for the code; if nobody is at work on it, a thread of its own is from now on.

        Where that has failed there is nothing to wait for either: who runs the program compiles it, and sees the error.
        """
        if self._compiled is not None or self._failed:
            return True
        worker = self._worker
        if worker is None or not worker.is_alive():  # as in a fork of the process that had begun it
            context = contextvars.copy_context()
            worker = threading.Thread(target=context.run, args=(self._work,), name=f"jit of {self.name}")
            self._worker = worker
            try:
                worker.start()
            except RuntimeError:  # the interpreter has no threads, or no more
                return True
        return False

    def _work(self) -> None:
        try:
            _ = self.compiled
        except BaseException as error:
            self._failed = True
            log(
                "DAL004",
                "jit: compiling `%s` aside failed: %s: %s",
                self.name,
                type(error).__name__,
                error,
                error=error,
            )
        self._worker = None

    def derived(self, make: Callable, *key: Any) -> Any:
        """Return ``_callable(make(), most)`` for a key, made once (for each convention about kinks)."""
        key = (*key, _convention.get())
        found = self._derived.get(key)
        if found is None:
            with self._lock:
                found = self._derived.get(key)
                if found is None:
                    if len(self._derived) >= _KEPT:
                        self._derived.clear()
                    found = self._derived[key] = _callable(_strongly(make), self.most)
        return found


def _compile(program: CallProgram) -> Compiled:
    if len(program.steps) > _PATIENT:
        count = len(program.steps)
        warnings.warn(
            f"jit: `{program.name}` is {count:,} equations, and compiling it takes up to {count * _EACH:.0f} s, once; a"
            " loop of Python is written down turn by turn. Write it as dualad.scan or dualad.fori_loop, whose code does"
            " not grow with the number of turns",
            PerformanceNote,
            stacklevel=user_level(),
        )
    loops = {"finding loops again": reroll}
    compiled = compile_program(proven(program, {"simplification": simplify, **loops}, loops))
    compiled.check(program, program.most)
    return compiled


def _strongly(make: Callable) -> Any:
    """Call a function; products of tangents in programs that it writes are strong, as in all that is compiled."""
    token = compiling.set(set())
    try:
        return make()
    finally:
        compiling.reset(token)


def _callable(made: Any, most: float) -> Any:
    """The same structure with each program in it as a `CallProgram`."""
    if type(made) is Program:
        return CallProgram(made, most)
    if not isinstance(made, (list, tuple)):
        return made
    parts = [_callable(x, most) for x in made]
    return type(made)(*parts) if hasattr(made, "_fields") else type(made)(parts)


def machine_code(program: Program) -> Compiled | None:
    """Compile a program if all of it becomes machine code; its inputs are arrays in C order."""
    if engine() is None:
        return None
    compiled = CallProgram(program).compiled
    return compiled if set(compiled.calls) == {"native"} else None


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
    moving = tuple([t is not None for t in tangents])
    vectors = select_by_flags(tangents, moving)
    if not any([holds_staged(t) for t in vectors]):
        both = program.derived(lambda: jvp_program(program, moving), "jvp", moving)
        # As `spread_orders` and `together` do for series, written out: this runs at every call.
        args = [x for p, t in zip(primals, tangents, strict=True) for x in ((p,) if t is None else (p, t))]
        rest = iter(bind(call, args, {"program": both.program, "linear": 0}))
        pairs = [(next(rest), next(rest) if m else None) for m in both.moving]
        if any([_holds_nan(t) for _, t in pairs]):  # 0 · ∞ of a program's plain product, perhaps: numbers tell
            return _strongly(lambda: silently(_push_forward, runner(program), primals, tangents))
        return tuple([value for value, _ in pairs]), tuple([tangent for _, tangent in pairs])
    n = len(program.outputs)
    part = program.derived(lambda: partial_eval_jvp(program, moving), "linearize", moving)
    values = bind(call, primals, {"program": part.known, "linear": 0})
    if not any(part.moving):
        return values[:n], (None,) * n
    residuals = part.residuals(values[n:], primals)
    own, *divisors = program.derived(lambda: _divisors(part.linear, len(vectors)), "divisors", moving)
    if (
        own
        or any([type(x) in PLAIN and not is_finite(x) for x in map(beneath, values[n:])])
        or any([type(x) in PLAIN and not np.all(x) for x in map(beneath, select_by_flags(residuals, divisors))])
    ):
        # A pole: zeros beside it are seen from numbers, which a program does not have when it is written.
        return _strongly(lambda: silently(_push_forward, runner(program), primals, tangents))
    moved = bind(call, (*vectors, *residuals), {"program": part.linear, "linear": len(vectors)})
    return values[:n], tuple(scatter_by_flags(moved, part.moving))


def _divisors(linear: Program, count: int) -> tuple[bool, ...]:
    """Return whether a linear program divides by a zero that stands in it, and by which of its residuals it divides.

    The first ``count`` inputs are what it is linear in, the others the residuals.
    """
    moving = set(linear.inputs[:count])
    sources = {v: {v} for v in linear.inputs[count:]}
    found: set[Variable] = set()
    own = False
    for op, args, _, outs in linear.recorded:
        if moving.isdisjoint([a for a in args if type(a) is Variable]):
            behind = set().union(*[sources[a] for a in args if type(a) is Variable])
            sources.update(dict.fromkeys(outs, behind))
            continue
        moving.update(outs)
        if op is divide:
            if type(args[1]) is Variable:
                found |= sources[args[1]]
            elif not np.all(args[1]):
                own = True
    return own, *[v in found for v in linear.inputs[count:]]


def _holds_nan(x: Any) -> bool:
    """Whether the numbers beneath a tensor are known, and there is a NaN among them."""
    while isinstance(x, (Dual, Batched)):
        if isinstance(x, Dual) and _holds_nan(x._tangent):
            return True
        x = x._primal if isinstance(x, Dual) else x._value
    return has_nan(x)


def _push_forward(f: Callable, primals: Sequence, tangents: Sequence) -> tuple[tuple, tuple]:
    """Return the values and the tangents of a function's results, operator by operator."""
    with DualLevel("jvp") as level:
        out = f(*[p if t is None else Dual(p, t, level) for p, t in zip(primals, tangents, strict=True)])
        pairs = [split(x, level) for x in out]
    return tuple([value for value, _ in pairs]), tuple([tangent for _, tangent in pairs])


def _call_transpose(ct, *args, live, hot, wanted, program, linear):
    hot, partial = bool(hot), tuple([m is not None for m in live])
    make = lambda: transpose_program(program, linear, told=(partial, [hot] * len(partial)))
    found = program.derived(make, "transpose", linear, partial, hot)
    masks, marks = [m for m in live if m is not None], [None] * linear
    chosen = tuple([i for i in range(linear) if found.partial[i] and wanted[i]])
    if chosen:
        marks_of = lambda: mask_programs([found], chosen, len(args) - linear)
        (marking,), kept = program.derived(marks_of, "marks", linear, partial, hot, chosen)
        known = [args[linear + i] for i in kept]
        marks = replace_at(marks, chosen, bind(call, (*known, *masks), {"program": marking, "linear": 0}))
    out = bind(call, (*ct, *args[linear:], *masks), {"program": found.program, "linear": len(ct)})
    return masked_cotangents(out, marks, found.hot, args)


def _call_batch(size, values, mapped, *, program, linear):
    flags = tuple(mapped)
    make = lambda: batch_program(program, flags, size=size)
    # Which lanes collectives speak to is the running transform's business, so these are written anew.
    lanes = (
        _callable(make(), program.most)
        if mentions(program, crosses_lanes)
        else program.derived(make, "batch", flags, size)
    )
    return in_lanes(bind(call, values, {"program": lanes.program, "linear": linear}), lanes.moving, size)


def _call_samples():
    real, vector = Aval((), np.dtype(float)), Aval((3,), np.dtype(float))
    plain = stage(lambda v, s: [np.sin(v) * s, np.sum(v * v)], [vector, real], "f", "samples").program
    line = stage(lambda v, s, w: [v * w, np.sum(v) * s], [vector, real, vector], "line", "samples").program
    return [
        ((3,), (), {"program": CallProgram(plain), "linear": 0}),
        ((3,), (), (3,), {"program": CallProgram(line), "linear": 1}),
    ]


call = control(
    "call",
    impl=_call_impl,
    abstract_eval=lambda *avals, program, linear: tuple(strong_avals(program)),
    jvp=_call_jvp,
    vectors=lambda params: params["linear"],
    transpose=_call_transpose,
    batch=_call_batch,
    samples=_call_samples,
)
