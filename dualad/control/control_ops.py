"""Operators that run programs: ``switch`` and ``while_loop``.

They stand in traced programs only; while values are known, control flow is Python (``control_flow.py``). Their
parameters are programs without captured tensors, so every rule is: make another program of the body, and apply the
operator to that. A derivative is split in two (``partial_eval_jvp``): the values with their residuals, and an operator
of the same name that is linear in its first arguments, which reverse mode transposes. Not for: ``scan`` (``scan.py``),
or functions of users', trees, and words about them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.arguments import replace_at
from ..batched import Batched, BatchLevel, LaneDivergence
from ..core.aval import Aval, aval_of, is_inexact
from ..core.axes import rename
from ..core.dispatch import bind
from ..core.libraries import refuse_lazy
from ..core.primitive import Primitive
from ..core.tracer import Tracer, beneath
from ..errors import NotLinearError, RuleMissingError, UnsupportedError
from ..ops.kinds import in_lanes, repeat_lanes
from ..program.ir import Program, mentions, programs_in
from ..program.variable import Variable, aval_of_atom
from ..rules.calls import push_moving
from ..tensors.staged import Staged
from ..transforms.backward import in_dtype
from ..transforms.liveness import Marked
from .subprograms import (
    Separated,
    batch_program,
    carry_fixpoint,
    gather_orders,
    jvp_program,
    mask_programs,
    output_avals,
    partial_eval_jvp,
    runner,
    spread_orders,
    stage,
    strong_aval,
    transpose_program,
    unify_branches,
    zeros,
)

__all__ = [
    "all_plain", "as_declared", "control", "crosses_lanes", "fill_zero_tangents", "for_unknown", "holds_staged",
    "masked_cotangents", "scatter_by_flags", "select_by_flags", "strong_avals", "switch", "switch_linearly",
    "while_loop", "while_with", "without_index",
]  # fmt: skip


# ── what operators that run programs have in common ──────────────────────────────────────────────────────────────


def control(
    name: str, *, jvp: Callable, transpose: Callable, vectors: Callable[[dict], int] | None = None, **fields: Any
) -> Primitive:
    """Declare an operator that runs the programs among its parameters.

    ``jvp`` is the rule where it is neither linear in all its differentiated arguments nor known: ``impl`` is run on
    Duals where it is known and a body asks for it. ``vectors`` says in how many of its first arguments a call is linear
    (together); then ``transpose`` is as ``marked_transpose`` of a primitive, ``hot`` being ``None`` in a plain walk.
    """
    linear_in = vectors or (lambda params: 0)

    def differentiate(primals, tangents, **params):
        # A body is a program for one dtype; the tangent of float32 + float64 is float32 if only that one moves.
        tangents = [
            None if t is None else in_dtype(t, aval_of(p).dtype) for t, p in zip(tangents, primals, strict=True)
        ]
        cut = linear_in(params)
        if cut and all([t is None for t in tangents[cut:]]):
            moved = fill_zero_tangents(tangents[:cut], primals[:cut], [True] * cut)
            return bind(op, primals, params), bind(op, (*moved, *primals[cut:]), params)
        steps = op.sees_steps or any([mentions(p, _sees_steps) for p in programs_in(params)])
        if steps and not any([holds_staged(p) for p in primals]):
            return _as_it_runs(functools.partial(op.impl, **params), primals, tangents)
        return jvp(primals, tangents, **params)

    def transpose_marked(ct, *args, live, hot, wanted, **params):
        if not linear_in(params):
            raise NotLinearError(
                f"the transpose of a `{name}` was asked for that is not linear.",
                "only a linear map has a transpose",
                "write what depends on tangents as a linear function of them",
            )
        return transpose(ct, *args, live=live, hot=hot, wanted=wanted, **params)

    def transpose_plainly(ct, *args, **params):
        live, wanted = [None] * len(ct), [False] * len(args)
        return transpose_marked(ct, *args, live=live, hot=None, wanted=wanted, **params).cotangents

    if vectors is None:
        fields["transpose"] = transpose
    else:
        fields |= {
            "linear_in": lambda count, params: range(linear_in(params)), "joint": True,
            "transpose": transpose_plainly, "marked_transpose": transpose_marked,
        }  # fmt: skip
    op = Primitive(name, jvp=differentiate, multiple_results=True, raises=True, kind="control", **fields)
    return op


def _as_it_runs(function: Callable, primals: Sequence, tangents: Sequence) -> tuple[tuple, tuple]:
    """Differentiate control flow on known values as it runs: reverse mode writes down the steps it takes."""
    out, moved = push_moving(lambda *values: list(function(*values)), primals, tangents)
    out = [v if hasattr(v, "dtype") else np.asarray(v)[()] for v in out]
    return tuple(out), tuple([t if is_inexact(v.dtype) else None for v, t in zip(out, moved, strict=True)])


def _sees_steps(op: Primitive, params: dict) -> bool:
    """Whether an operator inside a body is differentiated only where the steps are seen: known values allow it."""
    return op.sees_steps or crosses_lanes(op, params)


def crosses_lanes(op: Primitive, params: dict) -> bool:
    """Whether an operator is a collective."""
    return op.across is not None


def holds_staged(x) -> bool:
    """Whether the primal of a tensor is a variable of a program."""
    return isinstance(beneath(x), Staged)


def all_plain(values: Sequence) -> bool:
    """Whether no value is a tensor: an ``impl`` also runs on tensors where a known loop is differentiated."""
    return not any([isinstance(v, Tracer) for v in values])


def strong_avals(program: Program) -> list[Aval]:
    """Return the avals of the arrays that a program returns."""
    return [strong_aval(a) for a in output_avals(program)]


def scatter_by_flags(values: Sequence, flags: Sequence[bool]) -> list:
    """Put values in the places that flags name; ``None`` elsewhere."""
    rest = iter(values)
    return [next(rest) if f else None for f in flags]


def select_by_flags(values: Sequence, flags: Sequence[bool]) -> list:
    """Return the values that flags name."""
    return [v for v, f in zip(values, flags, strict=True) if f]


def fill_zero_tangents(tangents: Sequence, primals: Sequence, flags: Sequence[bool]) -> list:
    """Return the tangents that flags name, zeros where they were never built."""
    return [zeros(aval_of(p)) if t is None else t for t, p, f in zip(tangents, primals, flags, strict=True) if f]


def as_declared(out: Sequence, declared: Sequence) -> list:
    """Make Python numbers among results into NumPy's, of the dtypes that the outputs of a program declare."""
    return [
        x if hasattr(x, "dtype") else np.asarray(x, (o.aval if type(o) is Variable else aval_of(o)).dtype)[()]
        for x, o in zip(out, declared, strict=True)
    ]


def masked_cotangents(cotangents: Sequence, masks: Sequence, hot: Sequence[bool], args: Sequence) -> Marked:
    """Return the cotangents of an operator that is linear in its first arguments, with the masks of their zeros."""
    rest = len(args) - len(cotangents)
    return Marked(for_unknown(cotangents, args), [*masks, *[None] * rest], [*hot, *[False] * rest])


def for_unknown(cotangents: Sequence, args: Sequence) -> tuple:
    """Return cotangents for the arguments that are to have one; a vector may be a known zero."""
    rest = [None] * (len(args) - len(cotangents))
    return tuple([c if type(a) is Aval else None for c, a in zip([*cotangents, *rest], args, strict=True)])


# ── switch(*vectors, index, *others; branches, linear) ───────────────────────────────────────────────────────────
#
# Every branch is a program of (*vectors, *others). With linear = k it is linear in the first k arguments together. With
# results = n only the first n results are the branches'; each behind is a residual of one branch, for which the
# others return a zero that nobody reads.


def without_index(values: Sequence, linear: int) -> tuple:
    """Split the operands into those of the index and the rest."""
    return values[linear], [*values[:linear], *values[linear + 1 :]]


def _switch_impl(*args, branches, linear, results=None):
    """Run a branch. Where the index is one for each lane, run all and select.

    A residual is read by its own branch alone, which takes it as it is also in lanes that chose another: zeros put
    there could make a matrix singular.
    """
    index, values = without_index(args, linear)
    if not isinstance(index, Tracer):
        branch = branches[min(max(int(index), 0), len(branches) - 1)]
        return tuple(as_declared(runner(branch, all_plain(values))(*values), branch.outputs))
    runs = [as_declared(runner(b)(*values), b.outputs) for b in branches]
    selected = []
    for k, found in enumerate(zip(*runs, strict=True)):
        owners = [i for i, b in enumerate(branches) if type(b.outputs[k]) is Variable]
        if results is not None and k >= results and len(owners) == 1:
            selected.append(found[owners[0]])
            continue
        value = found[-1]
        for i in range(len(branches) - 2, -1, -1):
            value = np.where(index <= i, found[i], value)
        selected.append(value)
    return tuple(selected)


def _switch_jvp(primals, tangents, *, branches, linear, results=None):
    index, others = without_index(primals, linear)
    own = without_index(tangents, linear)[1]
    moving = [t is not None for t in own]
    parts = _separate_branches(branches, moving)
    return _switch_separated(parts, index, select_by_flags(own, moving), others, results)


def switch_linearly(index, args: list, unknown: list[bool], branches: tuple) -> tuple:
    """Apply a switch whose unknown arguments belong to a program that must be linear in them."""
    parts = _separate_branches(branches, unknown, direct=True)
    out = _switch_separated(
        parts, index, select_by_flags(args, unknown), select_by_flags(args, [not u for u in unknown])
    )
    return tuple([v if m is None else m for v, m in zip(*out, strict=True)])


def _separate_branches(branches, moving, direct: bool = False) -> Separated:
    """Split all branches; their known programs return the residuals of all, zeros for those of another branch."""
    parts, out = unify_branches(functools.partial(partial_eval_jvp, direct=direct), branches, moving)
    n, k = len(out), sum(moving)
    computed = [(part, x) for part in parts for x in part.known.outputs[n:]]
    read = [(part, v) for part in parts for v in part.linear.inputs[k:]]
    known, linear = [], []
    for part in parts:
        residuals = [x if owner is part else zeros(aval_of_atom(x)) for owner, x in computed]
        inputs = [v if owner is part else Variable(v.aval) for owner, v in read]
        p, q = part.known, part.linear
        known.append(Program(p.inputs, p.recorded, [*p.outputs[:n], *residuals], p.name))
        linear.append(Program([*q.inputs[:k], *inputs], q.recorded, q.outputs, q.name))
    return Separated(tuple(known), tuple(linear), out, [s for part in parts for s in part.sources])


def _switch_separated(parts: Separated, index, vectors: list, others: list, results: int | None = None) -> tuple:
    """Return the values of a switch that was split, and its tangents."""
    n, branches = len(parts.moving), parts.known
    params = {"branches": branches, "linear": 0}
    if results is not None or len(branches[0].outputs) > n:
        params["results"] = n if results is None else results
    values = bind(switch, (index, *others), params)
    if not any(parts.moving):
        return values[:n], (None,) * n
    args = (*vectors, index, *parts.residuals(values[n:], others))
    moved = bind(switch, args, {"branches": parts.linear, "linear": len(vectors)})
    return values[:n], tuple(scatter_by_flags(moved, parts.moving))


def _switch_transpose(ct, *args, live, hot, wanted, branches, linear, results=None):
    told = None if hot is None else ([m is not None for m in live], [hot] * len(ct))
    parts = [transpose_program(b, linear, told=told) for b in branches]
    given = [m for m in live if m is not None]
    index, known = args[linear], args[linear + 1 :]
    chosen = [i for i in range(linear) if wanted[i] and any([p.partial[i] for p in parts])]
    masks = [None] * linear
    if chosen:
        marks, kept = mask_programs(parts, chosen, len(known))
        out = bind(switch, (index, *[known[i] for i in kept], *given), {"branches": tuple(marks), "linear": 0})
        masks = replace_at(masks, chosen, out)
    back = tuple([p.program for p in parts])
    out = bind(switch, (*ct, index, *known, *given), {"branches": back, "linear": len(ct)})
    return masked_cotangents(out, masks, [any(flags) for flags in zip(*[p.hot for p in parts], strict=True)], args)


def _switch_batch(size, values, mapped, **params):
    branches, linear = params["branches"], params["linear"]
    differ, flags = without_index(mapped, linear)
    if not differ:
        parts, out = unify_branches(functools.partial(batch_program, size=size), branches, flags)
        results = bind(switch, values, {**params, "branches": tuple([p.program for p in parts])})
        return in_lanes(results, out, size)
    if linear and any([mentions(b, crosses_lanes) for b in branches]):
        # Transposed, a branch would sum over the cotangents of lanes that did not take it.
        raise UnsupportedError(
            "a branch with a collective (psum, ...) in it, which lanes take or not, was differentiated in a program.",
            "a lane's cotangent goes through its own branch only, and the collective mixes those of all lanes",
            "call the collective outside of the branch, or select with np.where(condition, a, b)",
        )
    with BatchLevel("vmap", size) as lanes, rename(lanes):
        try:
            out = _switch_impl(*[Batched(v, lanes) if m else v for v, m in zip(values, mapped, strict=True)], **params)
        except LaneDivergence as split:
            if split.level is not lanes or split.error is None:
                raise
            raise split.error from None  # perhaps in a branch that a lane does not take: one by one they will tell
        return tuple([x._value if type(x) is Batched and x.level is lanes else repeat_lanes(x, size) for x in out])


def _switch_samples():
    ints, vector, scalar = Aval((), np.dtype(int)), Aval((3,), np.dtype(float)), Aval((), np.dtype(float))
    plain = tuple([stage(f, [vector, scalar], f.__name__, "samples").program for f in (_sine, _scale, _shift)])
    linear = tuple([stage(f, [vector, scalar], f.__name__, "samples").program for f in (_scale, _halve)])
    pick = lambda k: lambda rng: np.asarray(k, ints.dtype)
    return [
        *[(pick(k), (3,), (), {"branches": plain, "linear": 0}) for k in (-1, 0, 1, 2, 5)],
        *[((3,), pick(k), (), {"branches": linear, "linear": 1}) for k in (0, 1)],
    ]


def _sine(v, s):
    return [np.sin(v) * s, np.sum(v)]


def _scale(v, s):
    return [v * s, v[0] * 2.0]


def _shift(v, s):
    return [v + 1.0, s]


def _halve(v, s):
    return [v * 0.5, np.sum(v) * s]


switch = control(
    "switch",
    impl=_switch_impl,
    abstract_eval=lambda *avals, branches, linear, results=None: tuple(strong_avals(branches[0])),
    jvp=_switch_jvp,
    vectors=lambda params: params["linear"],
    transpose=_switch_transpose,
    batch=_switch_batch,
    samples=_switch_samples,
)


# ── while_loop(*test constants, *body constants, *carry; test, body, constants) ──────────────────────────────────


def _while_parts(args, constants):
    a, b = constants
    return args[:a], args[a : a + b], args[a + b :]


def _while_impl(*args, test, body, constants):
    """Loop in Python; lanes of known values for which the test does not hold stay as they are."""
    for_test, for_body, carry = _while_parts(args, constants)
    plain = all_plain(args)
    ask, step = runner(test, plain), runner(body, plain)
    while True:
        going = ask(*for_test, *carry)[0]
        lanes = isinstance(going, Tracer)
        truth = beneath(going) if lanes else going
        refuse_lazy(truth, "how often while_loop runs")
        if not (np.any(truth) if lanes else truth):
            return tuple(as_declared(carry, body.outputs))
        new = step(*for_body, *carry)
        carry = [np.where(going, a, b) for a, b in zip(new, carry, strict=True)] if lanes and not np.all(truth) else new


def _while_jvp(primals, tangents, **params):
    pairs = [p if t is None else [p, t] for p, t in zip(primals, tangents, strict=True)]
    both = while_with(jvp_program, pairs, 1, **params)
    return bind(while_loop, primals, params), tuple([x[1] if type(x) is list else None for x in both])


def while_with(make: Callable, values: Sequence, order: int, *, test, body, constants) -> list:
    """Loop with programs of series (or of values and tangents, of order 1); the test sees values alone."""
    a, b = constants
    moving = [type(v) is list for v in values]
    program, flags = carry_fixpoint(make, body, moving[a:], slice(b, None))
    inputs = list(test.inputs[:a])
    for v, m in zip(test.inputs[a:], flags[b:], strict=True):
        inputs += [v, *[Variable(strong_aval(v.aval)) for _ in range(order)]] if m else [v]
    params = {
        "test": Program(inputs, test.recorded, test.outputs, test.name),
        "body": program.program,
        "constants": (a, b + order * sum(flags[:b])),
    }
    for_test = [v[0] if type(v) is list else v for v in values[:a]]
    results = bind(while_loop, (*for_test, *spread_orders(values[a:], flags, order)), params)
    return gather_orders(results, flags[b:], order)


def _while_batch(size, values, mapped, *, test, body, constants):
    a, b = constants
    over = functools.partial(batch_program, size=size)
    stepped, flags = carry_fixpoint(over, body, mapped[a:], slice(b, None))
    asked, (several,) = over(test, [*mapped[:a], *flags[b:]])
    if several and not all(flags[b:]):  # lanes end by themselves, so each has a carry of its own
        flags[b:] = [True] * len(flags[b:])
        stepped, asked = over(body, flags, flags[b:]), over(test, [*mapped[:a], *flags[b:]]).program
    for_test, for_body, carry = _while_parts(values, constants)
    own = mapped[a + b :]
    carry = [repeat_lanes(c, size) if f and not m else c for c, f, m in zip(carry, flags[b:], own, strict=True)]
    if not several:
        params = {"test": asked, "body": stepped.program, "constants": constants}
        return in_lanes(bind(while_loop, (*for_test, *for_body, *carry), params), flags[b:], size)

    # The loop goes on while any lane does; a lane that is done keeps its carry.
    ask, step = runner(asked), runner(stepped.program)

    def any_going(*xs):
        return [np.any(ask(*xs)[0])]

    def only_going(*xs):
        tests, rest, now = xs[:a], xs[a : a + b], xs[a + b :]
        going = ask(*tests, *now)[0]
        new = step(*rest, *now)
        return [
            np.where(np.reshape(going, (size, *[1] * (len(np.shape(y)) - 1))), x, y)
            for x, y in zip(new, now, strict=True)
        ]

    params = {
        "test": stage(any_going, [v.aval for v in asked.inputs], test.name, "vmap").program,
        "body": stage(
            only_going, [v.aval for v in (*asked.inputs[:a], *stepped.program.inputs)], body.name, "vmap"
        ).program,
        "constants": (a, a + b),
    }
    return bind(while_loop, (*for_test, *for_test, *for_body, *carry), params)


def _no_while_transpose(ct, *args, test, body, constants):
    raise RuleMissingError(
        "reverse mode met a while_loop in a traced program, whose number of steps is not known when it is written.",
        "running it backwards takes the values of every step, and their number has no bound",
        "pass while_loop(..., max_steps=1000), use dualad.fori_loop or dualad.scan with a fixed number of steps,"
        " forward mode (jvp, jacfwd), or reverse mode without trace, where the loop is a Python loop",
    )


def _while_samples():
    real, vector = Aval((), np.dtype(float)), Aval((2,), np.dtype(float))
    test = stage(lambda c, x, v: [x < c], [real, real, vector], "test", "samples").program
    body = stage(lambda c, x, v: [x + 1.0, v * c + np.sin(v) * x], [real, real, vector], "body", "samples").program
    above = lambda rng: np.asarray(2.0 + rng.uniform(0.2, 2.0))
    below = lambda rng: np.asarray(rng.uniform(-0.3, 0.3))
    params = {"test": test, "body": body, "constants": (1, 1)}
    return [(above, (), below, (2,), params), (below, (), above, (2,), params)]


while_loop = control(
    "while_loop",
    impl=_while_impl,
    abstract_eval=lambda *avals, test, body, constants: tuple(strong_avals(body)),
    jvp=_while_jvp,
    transpose=_no_while_transpose,
    batch=_while_batch,
    samples=_while_samples,
    sees_steps=True,
)
