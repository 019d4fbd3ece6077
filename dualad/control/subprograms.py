"""Programs inside programs: bodies of loops and branches, and what the transforms make of them.

A body is staged once; traced values that it reads from its closure become inputs of its own (``stage``). What an
operator's rules need is then made by running that program on other tensors and writing the result down: its lanes
(``batch_program``), its derivative split into a part known before the tangents and a part linear in them
(``partial_eval_jvp``), and the transpose of a linear one (``transpose_program``). Not for: loops and branches
themselves (``control_ops.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from ..batched import Batched, BatchLevel
from ..boundary.boundary import run
from ..core.aval import Aval, aval_of
from ..core.axes import rename
from ..core.contexts import everywhere
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..core.watch import Watch
from ..dual import Dual, DualLevel, split
from ..ops.kinds import repeat_lanes
from ..program.check import check_linear
from ..program.ir import Program, live_steps, map_atoms, map_programs
from ..program.variable import Variable, aval_of_atom
from ..surface.leaves import output_leaves
from ..tensors.staged import Staged, StagedLevel
from ..transforms.backward import backward, in_dtype
from ..transforms.liveness import BodyLiveness

__all__ = [
    "Derived", "Separated", "StagedBody", "Transposed", "batch_program", "captured_inputs", "carry_fixpoint",
    "gather_orders", "inputs_read", "jvp_program", "mask_programs", "output_avals", "partial_eval_jvp",
    "permute_inputs", "runner", "spread_orders", "stage", "strong_aval", "transpose_program", "unify_branches",
    "without_effects", "zeros",
]  # fmt: skip


class StagedBody(NamedTuple):
    """A function written down: its program, whose last inputs stand for the captured tensors, and its result's tree."""

    program: Program
    captured: list[Tracer]
    tree: Any


class _Inside(Watch):
    """Keeps in a body what its function computes from tensors of the closure alone.

    Dispatch would leave that to the tensors' own, outer levels: outside of the body, and so whether it runs or not.
    What other threads do, and tensors of inner levels, goes on to the next watch.
    """

    def __init__(self, level: StagedLevel) -> None:
        self.level, self.thread = level, get_ident()

    def operation(self, top: Tracer | None, op, args: Sequence, params: dict) -> Any:
        """Carry out an operator, or record it in the body."""
        level = self.level
        if top is not None and top.level.open and top.level.number < level.number and get_ident() == self.thread:
            return level.record(op, args, params)
        watches = everywhere[:]
        after = watches[watches.index(self) + 1 :] if self in watches else []
        return (after[0] if after else super()).operation(top, op, args, params)

    def __enter__(self) -> None:
        everywhere.insert(0, self)

    def __exit__(self, *exc_info: object) -> None:
        everywhere[:] = [watch for watch in everywhere if watch is not self]


def stage(
    function: Callable, avals: Sequence[Aval], name: str, where: str, linear: bool = False, whole: bool = False
) -> StagedBody:
    """Write a function of flat arguments down; ``where`` names the transform in messages.

    With ``linear`` it must be linear in its arguments, whatever it captures. With ``whole`` the body also holds what is
    computed from captured tensors alone, as a branch must that isn't taken; a loop is quicker if that stays outside.
    """
    with StagedLevel(where, owning=True, linear=linear) as level, _Inside(level) if whole else nullcontext():
        inputs = [level.new_input(strong_aval(a)) for a in avals]
        out = run(function, [x.marked_number() if a.weak else x for x, a in zip(inputs, avals, strict=True)], {})
        leaves, tree = output_leaves(out, where)
        leaves = [x.copy() if type(x) is np.ndarray else x for x in leaves]
        program = level.finish(leaves, name)
    if linear:
        check_linear(program)
    program, captured = closure_convert(program)
    return StagedBody(program, captured, tree)


def closure_convert(program: Program) -> tuple[Program, list[Tracer]]:
    """Make inputs of the tensors that a program holds as constants; return them in the order of those inputs."""
    lists = [*[args for _, args, _, _ in program.recorded], program.outputs]
    if not any([isinstance(a, Tracer) for args in lists for a in args]):
        return program, []
    found: dict[int, tuple[Tracer, Variable]] = {}

    def atom(a):
        if not isinstance(a, Tracer):
            return a
        key = id(a.variable if type(a) is Staged else a)
        if key not in found:
            found[key] = (a, Variable(Aval(a.shape, a.dtype)))
        return found[key][1]

    steps, outputs = map_atoms(program, atom)
    inputs = [*program.inputs, *[v for _, v in found.values()]]
    return Program(inputs, steps, outputs, program.name), [t for t, _ in found.values()]


def captured_inputs(bodies: Sequence[StagedBody], own: int) -> tuple[list[Program], list[Tracer]]:
    """Give several bodies, each with ``own`` inputs of its own, the union of their captured tensors as inputs."""
    union: dict[int, Tracer] = {id(t): t for body in bodies for t in body.captured}
    programs = []
    for body in bodies:
        mine = {id(t): v for t, v in zip(body.captured, body.program.inputs[own:], strict=True)}
        extra = [mine[i] if i in mine else Variable(Aval(t.shape, t.dtype)) for i, t in union.items()]
        p = body.program
        programs.append(Program([*p.inputs[:own], *extra], p.recorded, p.outputs, p.name))
    return programs, list(union.values())


def runner(program: Program, plain: bool = False) -> Callable:
    """Make a function of flat arguments that runs a program, quicker than ``evaluate`` when it is called often.

    With ``plain`` all arguments are arrays of NumPy's, and no transform needs to be asked.
    """
    plain = plain and not any([op.across is not None for op, *_ in program.recorded])
    slots: dict[Variable, int] = {}
    for v in (*program.inputs, *[v for _, _, _, outs in program.recorded for v in outs]):
        slots.setdefault(v, len(slots))
    size, first = len(slots), len(program.inputs)
    steps = []
    for op, args, params, outs in program.recorded:
        reads = tuple([slots[a] if type(a) is Variable else -1 for a in args])
        steps.append((op, reads, tuple(args), params, op.multiple_results, [slots[v] for v in outs]))
    outputs = [(slots[o], None) if type(o) is Variable else (-1, o) for o in program.outputs]

    def run_program(*arguments):
        values = [*arguments, *[None] * (size - first)]
        direct = plain and not everywhere
        for call, reads, args, params, multiple, outs in steps:
            given = [values[r] if r >= 0 else a for r, a in zip(reads, args, strict=True)]
            out = call.impl(*given, **params) if direct else bind(call, given, params)
            if multiple:
                for i, x in zip(outs, out, strict=True):
                    values[i] = x
            else:
                values[outs[0]] = out
        return [values[i] if i >= 0 else o for i, o in outputs]

    return run_program


def output_avals(program: Program) -> list[Aval]:
    """Return the avals of a program's results."""
    return [aval_of_atom(o) for o in program.outputs]


def without_effects(program: Program) -> Program:
    """Return a program without hooks: what goes through one passes by. A compiled program stays as it is."""
    if type(program) is not Program:
        return program
    passed: dict[Variable, Any] = {}
    steps = []
    for op, args, params, outs in program.recorded:
        read = [passed.get(a, a) if type(a) is Variable else a for a in args]
        if op.effect:
            passed[outs[0]] = read[0]
        else:
            steps.append((op, read, map_programs(params, without_effects), outs))
    outputs = [passed.get(o, o) if type(o) is Variable else o for o in program.outputs]
    return Program(program.inputs, steps, outputs, program.name)


def permute_inputs(program: Program, order: Sequence[int]) -> Program:
    """Return a program with its inputs in another order."""
    return Program([program.inputs[i] for i in order], program.recorded, program.outputs, program.name)


def zeros(aval: Aval):
    """Return zeros that take no memory."""
    return np.broadcast_to(np.zeros((), aval.dtype), aval.shape)


# ── what a transform makes of a body ─────────────────────────────────────────────────────────────────────────────
#
# Makers of programs take a program, which of its inputs move (are mapped, have a tangent, are series), and which of
# its results are to move whatever they are (``forced``); what they make says which results do.


class Derived(NamedTuple):
    """A program made of another, and which of its results move."""

    program: Program
    moving: list[bool]


def unify_branches(make: Callable, branches: Sequence[Program], flags: Sequence[bool]) -> tuple[list, list[bool]]:
    """Make programs of all branches in which the same results move, and say which: all that move in any branch."""
    union = None
    while True:
        parts = [make(b, flags, union) for b in branches]
        union = [any(own) for own in zip(*[p.moving for p in parts], strict=True)]
        if all([p.moving == union for p in parts]):
            return parts, union


def carry_fixpoint(make: Callable, body: Program, flags: Sequence[bool], carry: slice) -> tuple[Any, list[bool]]:
    """Make a program of a loop's body in which what moves in the new carry moves in the old one; also say what moves.

    The body's first results are the new carry.
    """
    flags = list(flags)
    k = len(flags[carry])
    free = [False] * (len(body.outputs) - k)
    while True:
        made = make(body, flags, [*flags[carry], *free])
        if made.moving[:k] == flags[carry]:
            return made, flags
        flags[carry] = made.moving[:k]


def batch_program(
    program: Program, mapped: Sequence[bool], forced: Sequence[bool] | None = None, *, size: int
) -> Derived:
    """Map a program over lanes: what moves has a leading axis."""
    forced = forced or [False] * len(program.outputs)
    with StagedLevel("vmap", owning=True) as level:
        inputs = [
            level.new_input(Aval((size, *v.aval.shape), v.aval.dtype) if m else v.aval)
            for v, m in zip(program.inputs, mapped, strict=True)
        ]
        with BatchLevel("vmap", size) as lanes, rename(lanes):
            out = runner(program)(*[Batched(x, lanes) if m else x for x, m in zip(inputs, mapped, strict=True)])
            own = [type(x) is Batched and x.level is lanes for x in out]
            out = [
                x._value if m else repeat_lanes(x, size) if f else x for x, m, f in zip(out, own, forced, strict=True)
            ]
        result = level.finish(out, program.name)
    return Derived(result, [m or f for m, f in zip(own, forced, strict=True)])


class Separated(NamedTuple):
    """A program split in two.

    ``known`` takes the known inputs and returns its results followed by the residuals that it computes; ``linear``
    takes the vectors followed by all residuals and returns the moving results. A residual that is one of the inputs of
    ``known`` has its position in ``sources``, the others have ``None``.
    """

    known: Any
    linear: Any
    moving: list[bool]
    sources: list[int | None]

    def residuals(self, computed: Sequence, inputs: Sequence) -> list:
        """Return all residuals: those that were computed, and those that are inputs."""
        rest = iter(computed)
        return [next(rest) if s is None else inputs[s] for s in self.sources]


def partial_eval_jvp(
    program: Program, moving: Sequence[bool], forced: Sequence[bool] | None = None, *, direct: bool = False
) -> Separated:
    """Split the derivative of a program.

    With ``direct`` the moving inputs are themselves what the program must be linear in: there are no tangents, and a
    result is either known or linear (of the other kind, ``known`` returns a zero).
    """
    forced = forced or [False] * len(program.outputs)
    with StagedLevel("control flow", owning=True) as outer:
        inner = StagedLevel("control flow", linear=True)
        with DualLevel("control flow", inner) as dual:
            values = []
            for v, m in zip(program.inputs, moving, strict=True):
                if m and direct:
                    values.append(inner.new_input(v.aval))
                elif m:
                    values.append(Dual(outer.new_input(v.aval), inner.new_input(v.aval), dual))
                else:
                    values.append(outer.new_input(v.aval))
            out = runner(program)(*values)
            if direct:
                own = [f or (isinstance(x, Tracer) and x.level is inner) for x, f in zip(out, forced, strict=True)]
                pairs = [(zeros(aval_of(x)), x) if m else (x, None) for x, m in zip(out, own, strict=True)]
            else:
                pairs = [split(x, dual) for x in out]
                own = [t is not None or f for (_, t), f in zip(pairs, forced, strict=True)]
            tangents = [zeros(aval_of(p)) if t is None else t for (p, t), m in zip(pairs, own, strict=True) if m]
            linear = inner.finish(tangents, program.name)
        if direct:
            check_linear(linear)
        linear, residuals = closure_convert(linear)
        places = {v: i for i, v in enumerate(outer.inputs)}
        sources = [places.get(r.variable) if type(r) is Staged else None for r in residuals]
        computed = [r for r, s in zip(residuals, sources, strict=True) if s is None]
        known = outer.finish([*[p for p, _ in pairs], *computed], program.name)
    return Separated(known, linear, own, sources)


def jvp_program(program: Program, moving: Sequence[bool], forced: Sequence[bool] | None = None) -> Derived:
    """Return the program of values and tangents together: the tangent of what moves comes behind its value."""
    forced = forced or [False] * len(program.outputs)
    with StagedLevel("control flow", owning=True) as level, DualLevel("control flow") as dual:
        values: list = []
        for v, m in zip(program.inputs, moving, strict=True):
            primal = level.new_input(v.aval)
            values.append(Dual(primal, level.new_input(strong_aval(v.aval)), dual) if m else primal)
        pairs = [split(x, dual) for x in runner(program)(*values)]
        own = [t is not None or f for (_, t), f in zip(pairs, forced, strict=True)]
        return Derived(level.finish(spread_orders(list(map(list, pairs)), own, 1), program.name), own)


def strong_aval(aval: Aval) -> Aval:
    """Return an aval that stands for an array also where it stood for a Python number."""
    return Aval(aval.shape, aval.dtype)


def spread_orders(values: Sequence, moving: Sequence[bool], order: int) -> list:
    """Return values with the coefficients of those that move, one by one; a value that is no list is a constant."""
    full: list = []
    for v, m in zip(values, moving, strict=True):
        coefs = v if type(v) is list else [v]
        if m:
            coefs = [*coefs, *[None] * (order + 1 - len(coefs))]
            full += [zeros(aval_of(coefs[0])) if c is None else c for c in coefs]
        else:
            full.append(coefs[0])
    return full


def gather_orders(values: Sequence, moving: Sequence[bool], order: int) -> list:
    """Undo ``spread_orders``."""
    rest = iter(values)
    return [[next(rest) for _ in range(order + 1)] if m else next(rest) for m in moving]


# ── transposes ───────────────────────────────────────────────────────────────────────────────────────────────────


class Transposed(NamedTuple):
    """A transposed program, and what becomes of the masks of its cotangents (``liveness.py``).

    ``program`` takes sums to add to, the cotangents of the results, the known inputs, and a mask for each result that
    has one. ``marks`` takes the same known inputs and masks and returns a mask for every vector. ``partial`` says
    for which vectors that is not true everywhere, ``hot`` which of their cotangents may be infinite, and ``dead`` to
    which nothing leads.
    """

    program: Program
    marks: Program
    partial: list[bool]
    hot: list[bool]
    dead: list[bool]


def transpose_program(
    program: Program,
    vectors: int,
    sums: Sequence[int] = (),
    told: tuple[Sequence[bool], Sequence[bool]] | None = None,
    dead: Sequence[bool] = (),
) -> Transposed:
    """Transpose a linear program in its first inputs, and add to sums those at the positions ``sums``.

    ``told`` says for each result whether its cotangent comes with a mask of what is live in it, and whether it may be
    infinite; without it the walk back is plain. ``dead`` says whether its cotangent is zero whenever this runs.
    """
    places = {i: k for k, i in enumerate(sums)}
    partial, hot = told or ([False] * len(program.outputs),) * 2
    with StagedLevel("control flow", owning=True, linear=False) as level:
        started = [level.new_input(strong_aval(program.inputs[i].aval)) for i in sums]
        cts = [level.new_input(strong_aval(a)) for a in output_avals(program)]
        rest = {v: level.new_input(v.aval) for v in program.inputs[vectors:]}
        live = [
            level.new_input(Aval(a.shape, np.dtype(bool))) if p else None
            for a, p in zip(output_avals(program), partial, strict=True)
        ]
        inputs = list(level.inputs)
        steps = []
        for op, args, params, outs in program.recorded:
            args = [rest.get(a, a) if type(a) is Variable else a for a in args]
            if any([type(a) is Variable for a in args]):
                steps.append((op, args, params, outs))
            else:  # what a transpose has computed of a residual, such as the inverse of a permutation
                found = bind(op, args, params)
                rest.update(zip(outs, found if op.multiple_results else [found], strict=True))
        outputs = [rest.get(o, o) if type(o) is Variable else o for o in program.outputs]
        bound = Program(program.inputs[:vectors], steps, outputs, program.name)
        given = [None if d else c for c, d in zip(cts, dead or [False] * len(cts), strict=True)]
        zeros_of = None if told is None else BodyLiveness(bound, given, live, hot)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            back = backward(bound, given, zeros_of)
        results = []
        for i, (c, v) in enumerate(zip(back, bound.inputs, strict=True)):
            if i in places:
                start = started[places[i]]
                results.append(start if c is None else start + in_dtype(c, v.aval.dtype))
            else:
                results.append(zeros(v.aval) if c is None else in_dtype(c, v.aval.dtype))
        found = [(None, False) if zeros_of is None else zeros_of.of(v) for v in bound.inputs]
        masks = [
            np.broadcast_to(True if m is None else m, v.aval.shape)
            for (m, _), v in zip(found, bound.inputs, strict=True)
        ]
        both = level.finish([*results, *masks], program.name)
    cut, skipped = len(results), len(started) + len(cts)
    of_cotangents, of_masks = [
        Program(ins, live_steps(both.recorded, outs), outs, program.name)
        for ins, outs in ((inputs, both.outputs[:cut]), (inputs[skipped:], both.outputs[cut:]))
    ]
    partial, hot = [m is not None for m, _ in found], [h for _, h in found]
    return Transposed(of_cotangents, of_masks, partial, hot, [c is None for c in back])


def mask_programs(
    transposed: Sequence[Transposed], wanted: Sequence[int], known: int
) -> tuple[list[Program], list[int]]:
    """Return programs of the masks of some vectors, and which of the known inputs they read: few, and often none."""
    programs = []
    for t in transposed:
        outputs = [t.marks.outputs[i] for i in wanted]
        programs.append(Program(t.marks.inputs, live_steps(t.marks.recorded, outputs), outputs, t.marks.name))
    kept = inputs_read(programs, range(known))
    order = [*kept, *range(known, len(transposed[0].marks.inputs))]
    return [permute_inputs(p, order) for p in programs], kept


def inputs_read(programs: Sequence[Program], positions: Sequence[int]) -> list[int]:
    """Return those of some positions at which an input of any of these programs is read."""
    atoms = [a for p in programs for args in (*[args for _, args, _, _ in p.recorded], p.outputs) for a in args]
    read = {a for a in atoms if type(a) is Variable}
    return [i for i in positions if any([p.inputs[i] in read for p in programs])]
