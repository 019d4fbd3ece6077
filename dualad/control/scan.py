"""The operator ``scan``: a program run once per row, in traced programs.

Its derivative is two scans: one that stacks the residuals of each step, and one that is linear in the tangents and
reads them; reverse mode runs the second one backwards. Not for: functions of users' (``loops.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arguments import replaced
from ..core.aval import Aval, aval_of
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import Tracer
from ..ops.kinds import known as plain
from ..ops.kinds import repeat_lanes
from ..program.ir import Program, live_steps
from ..program.variable import Variable
from ..series.rules import declare
from ..staged import Staged
from .control_ops import (
    all_plain,
    as_declared,
    as_it_runs,
    either,
    filled,
    for_unknown,
    given,
    holds_staged,
    marked,
    not_linear,
    sees_steps,
    spread,
    strong_avals,
)  # fmt: skip
from .subprograms import (
    Transposed,
    batch_program,
    inputs_read,
    mask_programs,
    mentions,
    partial_eval_jvp,
    permute_inputs,
    runner,
    series_program,
    spread_orders,
    stage,
    strong_aval,
    together,
    transpose_program,
    without_effects,
    zeros,
)

__all__ = ["scan"]

#: so many steps are run while a program is written, to know its masks there; more are left to the program
_FEW = 64


# ── scan(*constants, *carry, *xs, *residual constants, *residual xs; body, length, reverse, counts, linear) ──────
#
# counts = (constants, carry, xs, residual constants). A body is a program of one step's arguments in the same order and
# returns (*carry, *ys). With linear, the scan is linear in its constants, carry and xs together; the residuals are what
# else the body reads. Without it there are no residuals.


def _groups(values: Sequence, counts: Sequence[int]) -> list[list]:
    """Cut values into constants, carry, xs, residual constants and residual xs."""
    out, start = [], 0
    for n in counts:
        out.append(list(values[start : start + n]))
        start += n
    return [*out, list(values[start:])]


def _scan_impl(*args, body, length, reverse, counts, linear):
    constants, carry, xs, more, rows = _groups(args, counts)
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


def _scan_shape(*avals, body, length, reverse, counts, linear):
    out, n = strong_avals(body), counts[1]
    return (*out[:n], *[Aval((length, *a.shape), a.dtype) for a in out[n:]])


def _scan_jvp(primals, tangents, *, body, length, reverse, counts, linear):
    params = {"body": body, "length": length, "reverse": reverse, "counts": counts, "linear": linear}
    vectors = sum(counts[:3])
    if linear and all([t is None for t in tangents[vectors:]]):
        moved = filled(tangents[:vectors], primals[:vectors], [True] * vectors)
        return bind(scan, primals, params), bind(scan, (*moved, *primals[vectors:]), params)
    if mentions(body, sees_steps) and not any([holds_staged(p) for p in primals]):
        return as_it_runs(lambda *full: _scan_impl(*full, **params), primals, tangents)
    # Order the residuals among the constants and the xs: the scan is then one without residuals.
    positions = _groups(range(len(primals)), counts)
    order = [*positions[0], *positions[3], *positions[1], *positions[2], *positions[4]]
    body = permute_inputs(body, order)
    primals, tangents = [primals[i] for i in order], [tangents[i] for i in order]
    nc, nk = counts[0] + counts[3], counts[1]
    nx = len(primals) - nc - nk
    moving = [t is not None for t in tangents]
    free = [False] * (len(body.outputs) - nk)
    while True:
        part = partial_eval_jvp(body, moving, [*moving[nc : nc + nk], *free])
        if part.moving[:nk] == moving[nc : nc + nk]:
            break
        moving[nc : nc + nk] = either(moving[nc : nc + nk], part.moving[:nk])
    n = len(body.outputs)
    # What the linear scan reads: constants, xs and what does not change as they are, the rest stacked by the known one.
    fixed = _unchanging(part.known, nc, nk) if length else set()
    outputs = list(part.known.outputs[:n])
    constants: list[tuple[int, Any]] = []
    rows: list[tuple[int, Any]] = []
    hoisted: list[tuple[int, Variable]] = []
    for j, (source, residual) in enumerate(zip(part.sources, part.known.outputs[n:], strict=True)):
        if type(residual) is not Variable:
            constants.append((j, residual))
        elif source is not None and (source < nc or residual in fixed):
            constants.append((j, primals[source]))
        elif source is not None and source >= nc + nk:
            rows.append((j, primals[source]))
        elif residual in fixed:
            hoisted.append((j, residual))
        else:
            place = next((i for i in range(nk, len(outputs)) if outputs[i] is residual), len(outputs))
            outputs += [residual] if place == len(outputs) else []
            rows.append((j, place))
    constants += _hoisted(part.known, hoisted, nc + nk, primals)
    known = Program(part.known.inputs, live_steps(part.known.steps, outputs), outputs, part.known.name)
    plain = {"length": length, "reverse": reverse}
    values = bind(scan, primals, {"body": known, **plain, "counts": (nc, nk, nx, 0), "linear": False})
    k = sum(moving)
    order = [*range(k), *[k + j for j, _ in constants], *[k + j for j, _ in rows]]
    moved = bind(
        scan,
        (
            *filled(tangents, primals, moving),
            *[value for _, value in constants],
            *[values[r] if type(r) is int else r for _, r in rows],
        ),
        {
            "body": permute_inputs(part.linear, order), **plain,
            "counts": (sum(moving[:nc]), sum(moving[nc : nc + nk]), sum(moving[nc + nk :]), len(constants)),
            "linear": True,
        },
    )  # fmt: skip
    return values[:n], tuple(spread(moved, part.moving))


def _unchanging(program: Program, constants: int, carry: int) -> set[Variable]:
    """Return what is the same in all steps: constants, what is carried as it is, and what is computed from these."""
    inputs = program.inputs[: constants + carry]
    same = {v for i, v in enumerate(inputs) if i < constants or program.outputs[i - constants] is v}
    for op, args, params, outs in program.steps:
        if not (op.effect or "call" in params or op.across) and all([a in same for a in args if type(a) is Variable]):
            same.update(outs)
    return same


def _hoisted(program: Program, wanted: list, inputs: int, primals: Sequence) -> list:
    """Compute residuals that are the same in all steps once: positions and values."""
    if not wanted:
        return []
    variables = [v for _, v in wanted]
    before = Program(program.inputs[:inputs], live_steps(program.steps, variables), variables, program.name)
    return list(zip([j for j, _ in wanted], runner(before)(*primals[:inputs]), strict=True))


def _scan_transpose(ct, *args, body, length, reverse, counts, linear):
    if not linear:
        raise not_linear("scan")
    found = transpose_program(body, sum(counts[:3]), range(counts[0]))
    params = {"length": length, "reverse": reverse}
    return for_unknown(_run_back(found.program, ct, args, [], counts, **params), args)


def _run_back(back: Program, ct: Sequence, args: Sequence, masks: Sequence, counts: Sequence[int], length, reverse):
    """Bind (sums for constants, cotangents of carry and ys, residuals) → cotangents of constants, carry and xs."""
    nc, nk, nx, more = counts
    started = [zeros(aval_of(a)) for a in args[:nc]]
    return bind(
        scan,
        (*started, *ct, *args[nc + nk + nx :], *masks),
        {
            "body": back, "length": length, "reverse": not reverse,
            "counts": (0, nc + nk, len(ct) - nk, more), "linear": True,
        },
    )  # fmt: skip


def _scan_marked_transpose(ct, *args, live, hot, wanted, body, length, reverse, counts, linear):
    if not linear:
        raise not_linear("scan")
    nc, nk, nx, _ = counts
    # Which cotangents are dead in all steps, which have dead entries in any step, and which may be infinite in any.
    dead = [m is not None and (numbers := plain(m)) is not None and not np.any(numbers) for m in live]
    partial, may = [m is not None and not d for m, d in zip(live, dead, strict=True)], [hot] * len(ct)
    hooked = mentions(body, lambda op, params: op.effect)
    tried = without_effects(body) if hooked else body
    while True:
        found = transpose_program(tried, nc + nk + nx, range(nc), (partial, may), dead)
        out = slice(nc, nc + nk)
        stay = [d and f for d, f in zip(dead, found.dead[out], strict=False)]
        some = [not s and (d or p or f) for s, d, p, f in zip(stay, dead, partial, found.partial[out], strict=False)]
        burn = either(may[:nk], found.hot[out])
        if [*stay, *some, *burn] == [*dead[:nk], *partial[:nk], *may[:nk]]:
            break
        dead[:nk], partial[:nk], may[:nk] = stay, some, burn
    if hooked:  # a hook is called once
        found = transpose_program(body, nc + nk + nx, range(nc), (partial, may), dead)
    params = {"length": length, "reverse": reverse}
    cut = len(found.program.inputs) - sum(partial)
    read = inputs_read([found.program], range(cut, len(found.program.inputs)))
    # Of what is wanted outside, and of what the transposed body reads, only what a mask is carried for needs a scan.
    wanted = [w and f and not d for w, f, d in zip(wanted, found.partial, found.dead, strict=False)]
    masks, rows = (
        [np.broadcast_to(False, aval_of(a).shape) if d else None for a, d in zip(args, found.dead, strict=False)],
        [],
    )
    if any(wanted) or any([i - cut < sum(partial[:nk]) for i in read]):
        run = _as_written(ct) if length > _FEW else bind
        masks, rows = _masks(found, masks, live, partial, wanted, args, counts, run, **params)
    else:
        rows = [*[None] * sum(partial[:nk]), *given(live[nk:], partial[nk:])]
    back = permute_inputs(found.program, [*range(cut), *read])
    out = _run_back(back, ct, args, [rows[i - cut] for i in read], counts, **params)
    return marked(out, masks, found.hot, args)


def _as_written(cotangents: Sequence) -> Callable:
    """Return what binds an operator in the program that is being written, also where all its arguments are known."""
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
    of_ys = given(live[nk:], partial[nk:])
    known = args[nc + nk + nx :]
    chosen = [*[nc + i for i in carried], *sums, *[nc + nk + i for i in outer]]
    (marks,), kept = mask_programs([found], chosen, len(known))
    run, a, b = runner(marks), sum([i < more for i in kept]), len(carried)

    def step(*flat):
        constants, now, totals, rows, more_rows = _groups(flat, (a, b, len(sums), len(kept) - a))
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
    last, totals, rows, of_xs, _ = _groups(out, (b, len(sums), b, len(outer)))
    return replaced(masks, chosen, (*last, *totals, *of_xs)), [*rows, *of_ys]


def _scan_batch(size, values, mapped, *, body, length, reverse, counts, linear):
    flags = _groups(mapped, counts)
    free = [False] * (len(body.outputs) - counts[1])
    while True:
        program, out = batch_program(body, [f for group in flags for f in group], size, [*flags[1], *free])
        if out[: counts[1]] == flags[1]:
            break
        flags[1] = out[: counts[1]]
    paired = _groups(list(zip(values, mapped, strict=True)), counts)
    constants, more = [[v for v, _ in paired[i]] for i in (0, 3)]
    carry = [repeat_lanes(v, size) if f and not m else v for (v, m), f in zip(paired[1], flags[1], strict=True)]
    xs, rows = [[np.moveaxis(v, 0, 1) if m else v for v, m in paired[i]] for i in (2, 4)]
    params = {"body": program, "length": length, "reverse": reverse, "counts": counts, "linear": linear}
    results = bind(scan, (*constants, *carry, *xs, *more, *rows), params)
    return tuple([
        (np.moveaxis(x, 1, 0) if i >= counts[1] else x) if m else repeat_lanes(x, size)
        for i, (x, m) in enumerate(zip(results, out, strict=True))
    ])  # fmt: skip


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


scan = Primitive(
    "scan",
    impl=_scan_impl,
    abstract_eval=_scan_shape,
    jvp=_scan_jvp,
    linear_in=lambda count, params: range(sum(params["counts"][:3])) if params["linear"] else (),
    joint=True,
    transpose=_scan_transpose,
    marked_transpose=_scan_marked_transpose,
    batch=_scan_batch,
    samples=_scan_samples,
    multiple_results=True,
    raises=True,
    kind="control",
)


@declare(scan)
def _scan_series(order, values, params):
    """Scan with all coefficients of the carry as the carry."""
    moving = [type(v) is list for v in values]
    flags = _groups(moving, params["counts"])
    carried = len(flags[1])
    free = [False] * (len(params["body"].outputs) - carried)
    while True:
        now = [f for group in flags for f in group]
        program, out = series_program(params["body"], now, [*flags[1], *free], order)
        if out[:carried] == flags[1]:
            break
        flags[1] = out[:carried]
    counts = tuple([sum([order + 1 if f else 1 for f in group]) for group in flags[:4]])
    results = bind(
        scan, spread_orders(values, now, order), {**params, "body": program, "counts": counts, "linear": False}
    )
    return together(results, out, order)
