"""Where the first NaN (or infinity) came from: what ``debug(nan=True)`` knows.

Every operation that makes a non-finite number of finite ones is an *origin*. A result computed from a non-finite number
carries the origin on, by the identity of its array, so that a result that is not finite names the one operation it
comes from, and a NaN that never reaches a result (the branch not taken of ``np.where``, a zero cotangent beside a pole)
is nobody's trouble. Linear programs are looked at while they run, equation by equation, and their equations remember
the user's line and the operands of the operation that recorded them.

Not for: the contexts that switch it on (``debug.py``), or who calls it (``core/watch.py``).
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..base.frames import user_line
from ..batched import Batched
from ..boundary.boundary import running
from ..core.aval import aval_of
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..core.watch import run_rule
from ..errors import NonFiniteError
from ..program.ir import Program
from ..program.variable import Step, Variable

__all__ = ["Finder", "Origin"]

#: how a checkpointed function is called: what happens inside it on the way back is computed later, and not seen
_AGAIN = "checkpoint of "
_KINDS = {"primal": "value", "tangent": "tangent", "transpose": "cotangent"}


#: in place of a level, for operations of a program rather than a tensor
_NO_LEVEL = types.SimpleNamespace(transform="a linear program", number=0)


class Origin(NamedTuple):
    """The operation that made a non-finite number of finite ones.

    Attributes
    ----------
    operation : str
        The operator, or the name of the function with a custom rule.
    phase : {"primal", "tangent", "transpose"}
        Whether it is a value, a tangent, or a cotangent on its way back.
    output : int
        Which of the operation's results; of a cotangent, which argument it belongs to.
    index : tuple of int
        Of the first bad entry; the lanes of ``vmap`` it is in stand in ``lanes``.
    lanes : tuple of int
        See ``index``.
    number : str
        ``"nan"``, ``"inf"`` or ``"-inf"``.
    line : str
        ``file:line`` of the user's code that applied the operation, also for a cotangent.
    transform, level : str, int
        The transform it happened under, and the number of its level.
    operands : tuple of str
        Shape, dtype and range of each operand.
    custom : bool
        Whether ``operation`` has a custom rule.
    inside : tuple of str
        The operators of the operation's rule in which it happened, outermost first.
    entered : str
        What the non-finite number already was when the operation met it, where it was not made by an operation.
    """

    operation: str
    phase: str
    output: int
    index: tuple[int, ...]  # type: ignore[assignment]  # tuple.index, which nobody asks of an origin
    lanes: tuple[int, ...]
    number: str
    line: str
    transform: str
    level: int
    operands: tuple[str, ...]
    custom: bool
    inside: tuple[str, ...] = ()
    entered: str = ""

    def __str__(self) -> str:
        name = f"`{self.operation}`" + (", a custom rule," if self.custom else "")
        kind = _KINDS[self.phase]
        lanes = self.lanes[0] if len(self.lanes) == 1 else self.lanes
        at = f"first at {self.index}" + (f" of lane {lanes}" if self.lanes else "")
        if self.entered:
            text = f"{name} met {self.entered} that is {self.number} already, {at}"
        elif self.phase == "transpose":
            text = f"the cotangent that {name} sends back became non-finite ({self.number}), {at}"
        else:
            text = f"the {kind} of {name} became non-finite ({self.number}), {at}"
        lines = [f"{text} (phase {self.phase}, output {self.output}, under `{self.transform}`, level {self.level})"]
        if self.inside:
            lines.append(f"In its rule: {' → '.join(f'`{op}`' for op in self.inside)}")
        lines.append(f"At: {self.line or 'no forward information: the program was recorded outside of debug()'}")
        lines += [f"Operand: {operand}" for operand in self.operands]
        return "\n  ".join(lines)


class _Frame:
    """An operation that is being carried out, as far as a message may want to know of it."""

    __slots__ = ("custom", "inner", "level", "line", "moved", "name", "operands", "primals", "tangents", "transform")

    def __init__(self, op, params: dict, primals: Sequence, tangents: Sequence, level) -> None:
        name = getattr(params.get("call"), "name", None)
        self.name: str = f"{_AGAIN}{name}" if op.reruns else name if isinstance(name, str) else op.name
        self.custom = isinstance(name, str) and not op.reruns
        self.primals, self.tangents = primals, tangents
        self.moved = [i for i, t in enumerate(tangents) if t is not None]
        self.transform, self.level = level.transform, level.number
        self.line = user_line()
        self.operands: tuple[str, ...] | None = None
        #: the operator of the rule at which the trouble was first seen
        self.inner: tuple[str, ...] = ()

    def described(self) -> tuple[str, ...]:
        """Describe the operands; once, for all equations of the rule."""
        if self.operands is None:
            texts = [describe_operand(f"argument {i}", p) for i, p in enumerate(self.primals)]
            texts += [
                describe_operand(f"tangent of argument {i}", t) for i, t in enumerate(self.tangents) if t is not None
            ]
            self.operands = tuple([t for t in texts if t])
        return self.operands


class _Cause(NamedTuple):
    """An equation's note of the operation whose rule recorded it."""

    name: str
    custom: bool
    line: str
    operands: tuple[str, ...]
    moved: list[int]
    transform: str
    level: int
    origin: Origin | None


class Leaf(NamedTuple):
    """A plain array or number inside nested tensors: how many leading axes are lanes, and whether it is a tangent."""

    value: Any
    lanes: int
    moving: bool


def leaves(x: Any, lanes: int = 0, moving: bool = False) -> Iterator[Leaf]:
    """Yield the plain arrays and numbers inside nested tensors."""
    if isinstance(x, Tracer):
        lanes += type(x) is Batched
        for slot in ("_primal", "_tangent", "_value"):
            inner = getattr(x, slot, None)
            if inner is not None:
                yield from leaves(inner, lanes, moving or slot == "_tangent")
    elif isinstance(x, (tuple, list)):
        for part in x:
            yield from leaves(part, lanes, moving)
    elif isinstance(x, (np.ndarray, np.generic, float, complex)):
        yield Leaf(x, lanes, moving)


def describe_operand(name: str, x: Any) -> str:
    """Describe an operand: shape, dtype, smallest and largest entry; nothing where it is not known yet."""
    texts = []
    for leaf in leaves(x):
        a = np.asarray(leaf.value)
        if a.dtype.kind not in "biufc":
            continue
        magnitudes, note = (np.abs(a), "magnitude ") if a.dtype.kind == "c" else (a, "")
        finite = magnitudes[np.isfinite(magnitudes)]
        text = f"{aval_of(a)!r} {note}in [{finite.min():.6g}, {finite.max():.6g}]" if finite.size else f"{aval_of(a)!r}"
        wrong = a.size - finite.size
        text = f"its tangent {text}" if leaf.moving else text
        texts.append(text + (f", {wrong} of {a.size} not finite" if wrong else ""))
    return f"{name}: {', '.join(texts)}" if texts else ""


class Finder:
    """Follows non-finite numbers to their origin, under one ``debug``.

    Infinities count with ``inf``; ``at_once`` raises at the origin, rather than when a result of a transform turns out
    not to be finite.
    """

    def __init__(self, inf: bool, at_once: bool) -> None:
        self.inf, self.at_once = inf, at_once
        #: origins that no result has named so far
        self.origins: list[Origin] = []
        self._tags: dict[int, tuple[Any, Origin]] = {}
        self._local = threading.local()

    def _stack(self) -> list[_Frame]:
        if not hasattr(self._local, "frames"):
            self._local.frames, self._local.muted = [], False
        return self._local.frames

    @contextmanager
    def _muted(self) -> Iterator[None]:
        """See nothing in a block: of a first try, whose numbers will be computed again if they are wrong."""
        self._stack()
        before, self._local.muted = self._local.muted, True
        try:
            yield
        finally:
            self._local.muted = before

    def _bad(self, x: Any) -> Iterator[tuple[Leaf, np.ndarray]]:
        """Yield the arrays inside nested tensors that are not finite, each with its mask."""
        for leaf in leaves(x):
            a = np.asarray(leaf.value)
            if a.dtype.kind in "fc" and (mask := ~np.isfinite(a) if self.inf else np.isnan(a)).any():
                yield leaf, mask

    def _first(self, xs: Any) -> tuple[int, Any] | None:
        """Return position and value of the first operand that holds an array that is not finite."""
        return next(((i, leaf.value) for i, x in enumerate(xs) for leaf, _ in self._bad(x)), None)

    def _tag(self, value: Any) -> Origin | None:
        known = self._tags.get(id(value))
        return known[1] if known is not None else None

    def _known(self, met: tuple[int, Any] | None) -> Origin | None:
        """Return the origin of an operand; a copy or a cast of something known comes from the last origin there was."""
        if met is None:
            return None
        return self._tag(met[1]) or (self.origins[-1] if self.origins else None)

    def _mark(self, value: Any, origin: Origin, new: bool) -> None:
        self._tags[id(value)] = (value, origin)
        if new:
            self.origins.append(origin)
            if self.at_once:
                raise error_of(origin)

    # ── operations ───────────────────────────────────────────────────────────────────────────────────────────────

    def dual(self, level, op, primals: Sequence, tangents: Sequence, params: dict) -> tuple:
        """Run an operator of a dual level and look at what came out."""
        stack = self._stack()
        frame = _Frame(op, params, primals, tangents, level)
        stack.append(frame)
        try:
            value, tangent = run_rule(op, primals, tangents, params)
        finally:
            stack.pop()
        if not self._local.muted:
            self._look("primal", value, primals, (), frame)
            self._look("tangent", tangent, primals, tangents, frame)
        return value, tangent

    def batched(self, level, op, values: Sequence, params: dict, out: Any) -> None:
        """Look at what an operator made of the lanes of a batched level."""
        outs = out if op.multiple_results else (out,)
        self._stack()
        if not self._local.muted and self._first(outs) is not None:
            self._look("primal", outs, values, (), _Frame(op, params, values, (), level), lanes=1)

    def cause(self) -> _Cause | None:
        """Return the cause to keep with the equation that is being recorded."""
        stack = self._stack()
        if not stack:
            return None
        outer = stack[0]
        met = self._first([frame.primals for frame in stack])
        origin = None if met is None else self._tag(met[1])
        return _Cause(
            outer.name, outer.custom, outer.line, outer.described(), outer.moved, outer.transform, outer.level, origin
        )

    def _look(self, phase: str, out: Any, primals: Any, tangents: Any, frame: _Frame, lanes: int = 0) -> None:
        stack = self._stack()
        for i, part in enumerate(out if isinstance(out, (tuple, list)) else [out]):
            for leaf, mask in self._bad(part):
                if self._tag(leaf.value) is not None:
                    continue
                met, what = self._first(primals), "argument"
                if met is None:
                    met, what = self._first(tangents), "the tangent of argument"
                origin = self._known(met)
                if origin is not None:
                    self._mark(leaf.value, origin, new=False)
                elif stack:  # in a rule: whether it is the value or a derivative is known when the rule has returned
                    stack[0].inner = stack[0].inner or (*[f.name for f in stack[1:]], frame.name)
                else:
                    kind, entered = "tangent" if leaf.moving else phase, "" if met is None else f"{what} {met[0]}"
                    origin = _origin(frame, kind, i, leaf, mask, lanes, frame.described(), frame.inner, entered)
                    self._mark(leaf.value, origin, new=True)

    # ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────

    def pulled(self, run: Callable[[Callable], list], again: Callable[[Callable], list]) -> list:
        """Run a pullback; where what it returns is not finite, walk back once more and look at every step."""
        with self._muted():
            results = run(self._quiet_walk)
        if not self._local.muted and self._first(results) is not None:
            with np.errstate(all="ignore"):
                results = again(self._walk)
        self.finished("pullback", results)
        return results

    def _quiet_walk(self, steps: Sequence[Step], pending: dict) -> Iterator[Step]:
        """Yield the steps last to first; steps recorded meanwhile have the cause that they have."""
        for step in reversed(steps):
            with self._equation(step):
                yield step

    def _walk(self, steps: Sequence[Step], pending: dict) -> Iterator[Step]:
        """Yield the steps last to first, and look at the cotangents that each has sent back."""
        for step in reversed(steps):
            cts = [pending.get(v) for v in step.outs]
            inputs = [a for a in step.args if type(a) is Variable]
            before = [pending.get(v) for v in inputs]
            with self._equation(step):
                yield step
            if any([c is not None for c in cts]):
                for i, (v, old) in enumerate(zip(inputs, before, strict=True)):
                    now = pending.get(v)
                    if now is not None and now is not old:
                        self._look_at_equation("transpose", step, i, now, [*cts, *before])

    def pushed(self, run: Callable[[], list], program: Program, tangents: list, phase: str = "tangent") -> list:
        """Run a program, a linear one on tangents; where a result is not finite, again and step by step."""
        with self._muted():
            results = run()
        if not self._local.muted and self._first(results) is not None:
            env = dict(zip(program.inputs, tangents, strict=True))
            for step in program.steps:
                with self._equation(step):
                    out = bind(step.op, [env[a] if type(a) is Variable else a for a in step.args], step.params)
                out = out if step.op.multiple_results else (out,)
                env.update(zip(step.outs, out, strict=True))
                for i, x in enumerate(out):
                    self._look_at_equation(phase, step, i, x, [env[a] for a in step.args if type(a) is Variable])
            results = [env[a] if type(a) is Variable else a for a in program.outputs]
        if phase == "primal":
            self.finished("program", results)
        else:
            self.finished("linear map", (), results)
        return results

    @contextmanager
    def _equation(self, step: Step) -> Iterator[None]:
        """Take what happens in a block for the work of one equation."""
        stack = self._stack()
        frame = _Frame(step.op, step.params, (), (), _NO_LEVEL)
        cause: _Cause | None = step.cause
        if cause is not None:
            frame.name, frame.custom, frame.line, frame.operands, frame.moved, frame.transform, frame.level, _ = cause
        stack.append(frame)
        try:
            yield
        finally:
            stack.pop()

    def _look_at_equation(self, phase: str, step: Step, i: int, now: Any, moving: Sequence) -> None:
        for leaf, mask in self._bad(now):
            if self._tag(leaf.value) is not None:
                continue
            op, args, params, _ = step
            known = [a for a in args if type(a) is not Variable]
            recorded: _Cause | None = getattr(step, "cause", None)
            name = getattr(params.get("call"), "name", None)
            cause = recorded or _Cause(
                name or op.name, name is not None, getattr(step, "line", ""), (), [], _RUNS[phase], 0, None
            )
            met = self._first(moving)
            origin = self._known(met)
            residual = None if met is not None else self._first(known)
            if origin is None and residual is not None:
                origin = self._tag(residual[1]) or cause.origin
            if origin is not None:
                self._mark(leaf.value, origin, new=False)
                continue
            kind = _KINDS[phase]
            operands = [*cause.operands, *[describe_operand(f"{kind} that arrived", x) for x in moving]]
            if recorded is None:
                operands += [describe_operand("known operand", x) for x in known]
            elif cause.custom and len(cause.moved) > i:
                i = cause.moved[i]
            inside = () if op.name == cause.name or cause.custom else (op.name,)
            entered = "" if met is None else f"a {kind}"
            origin = _origin(cause, phase, i, leaf, mask, 0, tuple(filter(None, operands)), inside, entered)
            self._mark(leaf.value, origin, new=True)

    # ── the end of a transform ───────────────────────────────────────────────────────────────────────────────────

    def finished(self, transform: str, *results: Any, inner: bool | None = None, final: bool = True) -> None:
        """Raise if a result of the outermost transform is not finite, or the value of a function differentiated inside.

        What becomes of the derivatives of an inner transform is decided by whoever runs it; its value is often dropped,
        and a derivative at a point where the function has no value is worth nothing.
        """
        inner = running.get() if inner is None else inner
        self._stack()
        if self._local.muted:
            return
        if inner:
            results = results[:1] if transform == "jvp" or not final else ()
        phases = ("transpose",) if transform == "pullback" else ("primal", "tangent")
        for phase, result in zip(phases, results, strict=False):
            for i, part in enumerate(result):
                for leaf, mask in self._bad(part):
                    origin = self._known((i, leaf.value))
                    if origin is None:
                        made = _Cause(transform, False, user_line(), (), [], transform, 0, None)
                        entered = "a result, made by no operation on traced values,"
                        origin = _origin(made, phase, i, leaf, mask, 0, (), (), entered)
                    self.clear()
                    raise error_of(origin)
        if final and not inner:
            self.clear()

    def clear(self) -> None:
        """Forget the record: it has reached no result."""
        self._tags.clear()
        self.origins.clear()


#: what runs the equations of a program
_RUNS = {"transpose": "pullback", "tangent": "linear map", "primal": "program"}


def _origin(
    of: _Frame | _Cause, phase: str, output: int, leaf: Leaf, mask: np.ndarray, lanes: int, operands: tuple[str, ...],
    inside: tuple[str, ...], entered: str,
) -> Origin:  # fmt: skip
    """Make the origin that the first bad entry of a leaf has in an operation; ``lanes`` are leading axes beside its."""
    first = tuple([int(i) for i in np.argwhere(mask)[0]]) if mask.ndim else ()
    lanes += leaf.lanes
    entry = np.asarray(leaf.value)[mask].ravel()[0]
    number = "nan" if np.isnan(entry) else str(entry)
    return Origin(
        of.name, phase, output, first[lanes:], first[:lanes], number, of.line, of.transform, of.level, operands,
        of.custom, inside, entered,
    )  # fmt: skip


def error_of(origin: Origin) -> NonFiniteError:
    """Make the error that names an origin."""
    if origin.entered:
        why = "it was not finite before it met a traced value: a constant, an argument, or the result of plain NumPy"
        instead = "look at where that value is computed; da.debug(nan=False) inside the block leaves a part unwatched"
    elif origin.operation.startswith(_AGAIN):
        why = "one of its operations made it of finite numbers, when they were computed again"
        instead = "take the derivative once without checkpoint: the message then names the operation"
    elif origin.custom:
        why = "its rule made it of finite numbers"
        instead = "look at the rule's own arithmetic, at these operands"
    else:
        why = "its operands lie outside the operation's domain, or at a point where its derivative is infinite"
        instead = (
            "keep them inside (np.where on the *argument* as well as on the result), or use a form that is smooth there"
        )
    error = NonFiniteError(str(origin), why, instead)
    error.origin = origin
    return error
