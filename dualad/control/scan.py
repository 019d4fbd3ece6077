"""The operator ``scan``: a program run once per row, in traced programs.

Its derivative is two scans: one that stacks the residuals of each step, and one that is linear in the tangents and
reads them; reverse mode runs the second one backwards. Not for: functions of users' (``loops.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.arguments import replace_at
from ..core.aval import Aval, aval_of
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..ops.kinds import in_lanes, repeat_lanes
from ..ops.kinds import known_value as plain
from ..program.ir import Program, live_steps, mentions, stays
from ..program.variable import Variable
from ..tensors.staged import Staged
from .control_ops import (
    all_plain,
    as_declared,
    control,
    fill_zero_tangents,
    masked_cotangents,
    scatter_by_flags,
    select_by_flags,
    strong_avals,
)
from .subprograms import (
    Transposed,
    batch_program,
    carry_fixpoint,
    inputs_read,
    mask_programs,
    partial_eval_jvp,
    permute_inputs,
    runner,
    stage,
    strong_aval,
    transpose_program,
    without_effects,
    zeros,
)

__all__ = ["carry_slice", "operand_groups", "scan"]

#: longest loop that is run while a program is recorded, to know its masks there; longer ones are left to the program
_FEW = 64


# ── scan(*constants, *carry, *xs, *residual constants, *residual xs; body, length, reverse, counts, linear) ──────
#
# With recompute, its derivative stacks the carries alone, and computes the residuals of a step where it is linear.
#
# counts = (constants, carry, xs, residual constants). A body is a program of one step's arguments in the same order and
# returns (*carry, *ys). With linear, the scan is linear in its constants, carry and xs together; the residuals are what
# else the body reads. Without it there are no residuals.


def operand_groups(values: Sequence, counts: Sequence[int]) -> list[list]:
    """Cut values into constants, carry, xs, residual constants and residual xs."""
    out, start = [], 0
    for n in counts:
        out.append(list(values[start : start + n]))
        start += n
    return [*out, list(values[start:])]


def _scan_impl(*args, body, length, reverse, counts, linear, recompute=False):
    constants, carry, xs, more, rows = operand_groups(args, counts)
    step, cut = runner(body, all_plain(args)), len(constants) + len(carry)
    # A loop index is a Python number, as in Python's loops: it does not widen a dtype.
    weak = [v.aval.weak for v in body.inputs[cut : cut + len(xs)]]
    stacks: list[list] = [[] for _ in body.outputs[len(carry) :]]
    for i in range(length - 1, -1, -1) if reverse else range(length):
        now = [x[i].item() if w else x[i] for x, w in zip(xs, weak, strict=True)]
        out = step(*constants, *carry, *now, *more, *[r[i] for r in rows])
        carry = out[: len(carry)]
        for stack, y in zip(stacks, out[len(carry) :], strict=True):
            stack.append(y)
    avals = strong_avals(body)[len(carry) :]
    ys = [
        np.stack(stack[::-1] if reverse else stack) if stack else np.zeros((0, *a.shape), a.dtype)
        for stack, a in zip(stacks, avals, strict=True)
    ]
    return (*as_declared(carry, body.outputs[: len(carry)]), *ys)


def _scan_shape(*avals, body, length, reverse, counts, linear, recompute=False):
    out, n = strong_avals(body), counts[1]
    return (*out[:n], *[Aval((length, *a.shape), a.dtype) for a in out[n:]])


def _scan_jvp(primals, tangents, *, body, length, reverse, counts, linear, recompute=False):
    # Order the residuals among the constants and the xs: the scan is then one without residuals.
    positions = operand_groups(range(len(primals)), counts)
    order = [*positions[0], *positions[3], *positions[1], *positions[2], *positions[4]]
    body = permute_inputs(body, order)
    primals, tangents = [primals[i] for i in order], [tangents[i] for i in order]
    nc, nk = counts[0] + counts[3], counts[1]
    nx = len(primals) - nc - nk
    part, moving = carry_fixpoint(partial_eval_jvp, body, [t is not None for t in tangents], slice(nc, nc + nk))
    n, plain = len(body.outputs), {"length": length, "reverse": reverse}
    tangents = fill_zero_tangents(tangents, primals, moving)
    flags = [sum(moving[:nc]), sum(moving[nc : nc + nk]), sum(moving[nc + nk :])]
    if recompute:
        line = _recomputing(part, body, moving)
        read = inputs_read([line], range(sum(flags), len(line.inputs)))
        chosen = [i - sum(flags) for i in read]
        fixed_ones = [i for i in chosen if i < nc]
        kept = [body.inputs[i] for i in chosen if nc <= i < nc + nk]
        plain["recompute"] = True
        known = {"body": _with_outputs(body, [*body.outputs, *kept]), "counts": (nc, nk, nx, 0), "linear": False}
        values = bind(scan, primals, known | plain)
        stacked = [*values[n:], *[primals[i] for i in chosen if i >= nc + nk]]
        line = permute_inputs(line, [*range(sum(flags)), *read])
        given = {"body": line, "counts": (*flags, len(fixed_ones)), "linear": True}
        moved = bind(scan, (*tangents, *[primals[i] for i in fixed_ones], *stacked), given | plain)
        return values[:n], tuple(scatter_by_flags(moved, part.moving))
    # What the linear scan reads: constants, xs and what does not change as they are, the rest stacked by the known one.
    fixed = _unchanging(part.known, nc, nk) if length else set()
    outputs = list(part.known.outputs[:n])
    constants, rows, hoisted = {}, {}, {}
    for j, residual in enumerate(part.residuals(part.known.outputs[n:], part.known.inputs)):
        source = part.sources[j]
        if type(residual) is not Variable:
            constants[j] = residual
        elif source is not None and (source < nc or residual in fixed):
            constants[j] = primals[source]
        elif source is not None and source >= nc + nk:
            rows[j] = primals[source]
        elif residual in fixed:
            hoisted[j] = residual
        else:
            place = next((i for i in range(nk, len(outputs)) if outputs[i] is residual), len(outputs))
            outputs += [residual] if place == len(outputs) else []
            rows[j] = place
    known = _with_outputs(part.known, outputs)
    values = bind(scan, primals, {"body": known, **plain, "counts": (nc, nk, nx, 0), "linear": False})
    if hoisted:  # they are the same in all steps, and computed once
        before = _with_outputs(part.known, list(hoisted.values()), nc + nk)
        constants.update(zip(hoisted, runner(before)(*primals[: nc + nk]), strict=True))
    k = sum(moving)
    line = permute_inputs(part.linear, [*range(k), *[k + j for j in (*constants, *rows)]])
    stacked = [values[r] if type(r) is int else r for r in rows.values()]
    moved = bind(
        scan,
        (*tangents, *constants.values(), *stacked),
        {"body": line, **plain, "counts": (*flags, len(constants)), "linear": True},
    )
    return values[:n], tuple(scatter_by_flags(moved, part.moving))


def _recomputing(part: Any, body: Program, moving: Sequence[bool]) -> Program:
    """Return the linear half of a body as a program of tangents and of all its inputs."""
    quiet = _with_outputs(part.known, part.known.outputs, len(part.known.inputs))
    known, linear, n, k = runner(quiet), runner(part.linear), len(body.outputs), sum(moving)

    def line(*flat: Any) -> Any:
        return linear(*flat[:k], *part.residuals(known(*flat[k:])[n:], flat[k:]))

    avals = [strong_aval(v.aval) for v, m in zip(body.inputs, moving, strict=True) if m]
    return stage(line, [*avals, *[v.aval for v in body.inputs]], body.name, "scan").program


def _with_outputs(program: Program, outputs: Sequence, inputs: int | None = None) -> Program:
    """Return a program with other results; where it has only the first ``inputs``, without what it does besides."""
    steps = live_steps(program.recorded, outputs, effects=inputs is None)
    return Program(program.inputs[:inputs], steps, outputs, program.name)


def _unchanging(program: Program, constants: int, carry: int) -> set[Variable]:
    """Return the loop-invariant variables: constants, carries passed through, and all that is computed from these."""
    inputs = program.inputs[: constants + carry]
    same = {v for i, v in enumerate(inputs) if i < constants or program.outputs[i - constants] is v}
    for op, args, params, outs in program.recorded:
        if not (op.effect or "call" in params or op.across or stays(op, params)) and all(
            [a in same for a in args if type(a) is Variable]
        ):
            same.update(outs)
    return same


def _is_hook(op: Any, params: dict) -> bool:
    return op.effect


def _scan_transpose(ct, *args, live, hot, wanted, body, length, reverse, counts, linear, recompute=False):
    nc, nk, nx, more = counts
    # Which cotangents are dead in all steps, which have dead entries in any step, and which may be infinite in any.
    dead = [m is not None and (numbers := plain(m)) is not None and not np.any(numbers) for m in live]
    partial, may = [m is not None and not d for m, d in zip(live, dead, strict=True)], [bool(hot)] * len(ct)
    told = None if hot is None else (partial, may)
    hooked = told is not None and mentions(body, _is_hook)
    tried = without_effects(body) if hooked else body
    while True:
        found = transpose_program(tried, nc + nk + nx, range(nc), told, dead)
        out = slice(nc, nc + nk)
        stay = [d and f for d, f in zip(dead, found.dead[out], strict=False)]
        some = [not s and (d or p or f) for s, d, p, f in zip(stay, dead, partial, found.partial[out], strict=False)]
        burn = [m or h for m, h in zip(may, found.hot[out], strict=False)]
        if [*stay, *some, *burn] == [*dead[:nk], *partial[:nk], *may[:nk]]:
            break
        dead[:nk], partial[:nk], may[:nk] = stay, some, burn
    if hooked:  # a hook is called once
        found = transpose_program(body, nc + nk + nx, range(nc), told, dead)
    cut = len(found.program.inputs) - sum(partial)
    read = inputs_read([found.program], range(cut, len(found.program.inputs)))
    # Of the results wanted outside or read by the transposed body, only those with a mask in the carry need a scan.
    wanted = [w and f and not d for w, f, d in zip(wanted, found.partial, found.dead, strict=False)]
    masks = [np.broadcast_to(False, aval_of(a).shape) if d else None for a, d in zip(args, found.dead, strict=False)]
    if any(wanted) or any([i - cut < sum(partial[:nk]) for i in read]):
        run = _as_written(ct) if length > _FEW else bind
        masks, rows = _masks(found, masks, live, partial, wanted, args, counts, run, length, reverse)
    else:
        rows = [*[None] * sum(partial[:nk]), *select_by_flags(live[nk:], partial[nk:])]
    # (sums for constants, cotangents of carry and ys, residuals, masks) → cotangents of constants, carry and xs
    started = [zeros(aval_of(a)) for a in args[:nc]]
    out = bind(
        scan,
        (*started, *ct, *args[nc + nk + nx :], *[rows[i - cut] for i in read]),
        {
            "body": permute_inputs(found.program, [*range(cut), *read]), "length": length, "reverse": not reverse,
            "counts": (0, nc + nk, len(ct) - nk, more), "linear": True, **({"recompute": True} if recompute else {}),
        },
    )  # fmt: skip
    return masked_cotangents(out, masks, found.hot, args)


def _as_written(cotangents: Sequence) -> Callable:
    """Return a ``bind`` that records the operator even where all its arguments are known."""
    staged = next((c for c in cotangents if type(c) is Staged), None)

    def run(op, args, params):
        if staged is None or len(args) < 2 or any([isinstance(a, Tracer) for a in args]):
            return bind(op, args, params)
        return staged.process(op, args, params)

    return run


def _masks(found: Transposed, masks, live, partial, wanted, args, counts, run_scan, length, reverse) -> tuple:
    """Scan the masks of the cotangents, which do not depend on these; return those of the vectors, and all steps' rows.

    Their scan comes first, so that the cotangents' is linear and reads the masks like any other residual.
    """
    nc, nk, nx, more = counts
    carried = [i for i in range(nk) if partial[i]]
    sums = [i for i in range(nc) if wanted[i]]
    outer = [i for i in range(nx) if wanted[nc + nk + i]]
    of_ys = select_by_flags(live[nk:], partial[nk:])
    known = args[nc + nk + nx :]
    chosen = [*[nc + i for i in carried], *sums, *[nc + nk + i for i in outer]]
    (marks,), kept = mask_programs([found], chosen, len(known))
    run, a, b = runner(marks), sum([i < more for i in kept]), len(carried)

    def step(*flat):
        constants, now, totals, rows, more_rows = operand_groups(flat, (a, b, len(sums), len(kept) - a))
        out = run(*constants, *rows, *now, *more_rows)
        totals = [np.logical_or(t, m) for t, m in zip(totals, out[b : b + len(sums)], strict=True)]
        return [*out[:b], *totals, *now, *out[b + len(sums) :]]

    first = [
        np.ones(ct.shape, bool) if m is None else m
        for i in carried
        for m, ct in [(live[i], found.program.inputs[nc + i].aval)]
    ]
    totals = [np.zeros(aval_of(args[i]).shape, bool) for i in sums]
    read = [known[i] for i in kept]
    stacks = [*read[a:], *of_ys]
    avals = [
        *[strong_aval(aval_of(x)) for x in (*read[:a], *first, *totals)],
        *[Aval(x.shape[1:], x.dtype) for x in map(aval_of, stacks)],
    ]
    body = stage(step, avals, marks.name, "scan").program
    out = run_scan(
        scan,
        (*read[:a], *first, *totals, *stacks),
        {
            "body": body, "length": length, "reverse": not reverse,
            "counts": (a, b + len(sums), len(stacks), 0), "linear": False,
        },
    )  # fmt: skip
    last, totals, rows, of_xs, _ = operand_groups(out, (b, len(sums), b, len(outer)))
    return replace_at(masks, chosen, (*last, *totals, *of_xs)), [*rows, *of_ys]


def carry_slice(counts: Sequence[int]) -> slice:
    """Return the positions of the carry among the operands of a scan."""
    return slice(counts[0], counts[0] + counts[1])


def _scan_batch(size, values, mapped, **params):
    counts = params["counts"]
    lanes, flags = carry_fixpoint(
        functools.partial(batch_program, size=size), params["body"], mapped, carry_slice(counts)
    )
    constants, carry, xs, more, rows = operand_groups(list(zip(values, mapped, flags, strict=True)), counts)
    carry = [repeat_lanes(v, size) if f and not m else v for v, m, f in carry]
    xs, rows = [[np.moveaxis(v, 0, 1) if m else v for v, m, _ in group] for group in (xs, rows)]
    constants, more = [[v for v, *_ in group] for group in (constants, more)]
    out = list(bind(scan, (*constants, *carry, *xs, *more, *rows), {**params, "body": lanes.program}))
    for i in range(counts[1], len(out)):
        if lanes.moving[i]:
            out[i] = np.moveaxis(out[i], 1, 0)
    return in_lanes(out, lanes.moving, size)


def _scan_samples():
    real, vector = Aval((), np.dtype(float)), Aval((2,), np.dtype(float))
    avals = [real, vector, real]
    body = stage(lambda c, h, x: [np.sin(h) * c + x, np.sum(h) * x], avals, "body", "samples").program
    line = stage(
        lambda c, h, x, r, s: [h * r + c * s, x * s + h[0] * r], [real, vector, real, real, real], "line", "samples"
    ).program
    plain = {"body": body, "length": 3, "counts": (1, 1, 1, 0), "linear": False}
    linear = {"body": line, "length": 3, "counts": (1, 1, 1, 1), "linear": True}
    return [
        ((), (2,), (3,), {**plain, "reverse": False}),
        ((), (2,), (3,), {**plain, "reverse": True}),
        ((), (2,), (0,), {**plain, "length": 0, "reverse": False}),
        ((), (2,), (3,), (), (3,), {**linear, "reverse": False}),
        ((), (2,), (3,), (), (3,), {**linear, "reverse": True}),
    ]


scan = control(
    "scan",
    impl=_scan_impl,
    abstract_eval=_scan_shape,
    jvp=_scan_jvp,
    vectors=lambda params: sum(params["counts"][:3]) if params["linear"] else 0,
    transpose=_scan_transpose,
    batch=_scan_batch,
    samples=_scan_samples,
)
