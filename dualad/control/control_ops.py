"""Operators that run programs: ``switch`` and ``while_loop``.

They stand in traced programs only; while values are known, control flow is Python (``control_flow.py``). Their
parameters are programs without captured tensors, so every rule is: make another program of the body, and apply the
operator to that. A derivative is split in two (``partial_eval_jvp``): the values with their residuals, and an operator
of the same name that is linear in its first arguments, which reverse mode transposes. Not for: ``scan`` (``scan.py``),
or functions of users', trees, and words about them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..batched import Batched, BatchLevel, LaneDivergence
from ..core.arguments import replaced
from ..core.aval import Aval, aval_of, is_inexact
from ..core.axes import rename
from ..core.blocks import refuse_lazy
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import Tracer, beneath
from ..errors import NotLinearError, RuleMissingError, UnsupportedError
from ..liveness import Marked
from ..ops.kinds import repeat_lanes
from ..program.ir import Program
from ..program.variable import Variable
from ..rules.calls import push_moving
from ..series.rules import declare
from ..staged import Staged
from .subprograms import (
    batch_program,
    jvp_program,
    mask_programs,
    mentions,
    output_avals,
    partial_eval_jvp,
    permute_inputs,
    runner,
    series_program,
    spread_orders,
    stage,
    strong_aval,
    together,
    transpose_program,
    zeros,
)

__all__ = [
    "all_plain", "as_declared", "as_it_runs", "eager_while", "either", "filled", "for_unknown", "given", "holds_staged",
    "marked", "not_linear", "sees_steps", "spread", "strong_avals", "switch", "switch_linearly", "while_loop",
]  # fmt: skip


def holds_staged(x) -> bool:
    """Say whether the value of a tensor (tangents aside) is a variable of a program."""
    return isinstance(beneath(x), Staged)


def strong_avals(program: Program) -> list[Aval]:
    """Return the avals of the arrays that a program returns."""
    return [strong_aval(a) for a in output_avals(program)]


def spread(values: Sequence, flags: Sequence[bool]) -> list:
    """Put values in the places that flags name; ``None`` elsewhere."""
    rest = iter(values)
    return [next(rest) if f else None for f in flags]


def given(values: Sequence, flags: Sequence[bool]) -> list:
    """Return the values that flags name."""
    return [v for v, f in zip(values, flags, strict=True) if f]


def filled(tangents: Sequence, primals: Sequence, flags: Sequence[bool]) -> list:
    """Return the tangents that flags name, zeros where they were never built."""
    return [zeros(aval_of(p)) if t is None else t for t, p, f in zip(tangents, primals, flags, strict=True) if f]


def not_linear(name: str) -> NotLinearError:
    """Make the error for a transpose of something that is not linear."""
    return NotLinearError(
        f"the transpose of a `{name}` was asked for that is not linear.",
        "only a linear map has a transpose",
        "write what depends on tangents as a linear function of them",
    )


def all_plain(values: Sequence) -> bool:
    """Say whether no value is a tensor: an ``impl`` also runs on tensors where a known loop is differentiated."""
    return not any([isinstance(v, Tracer) for v in values])


def sees_steps(op: Primitive, params: dict) -> bool:
    """Say whether an operator inside a body is differentiated only where the steps are seen: known values allow it."""
    return op.sees_steps or _crosses_lanes(op, params)


def _crosses_lanes(op: Primitive, params: dict) -> bool:
    return op.across is not None


def either(a: Sequence[bool], b: Sequence[bool]) -> list[bool]:
    """Join flags entry by entry."""
    return [x or y for x, y in zip(a, b, strict=True)]


# ── switch(*vectors, index, *others; branches, linear) ───────────────────────────────────────────────────────────
#
# Every branch is a program of (*vectors, *others). With linear = k it is linear in the first k arguments together. With
# results = n only the first n results are the branches'; each behind is a residual of one branch, for which the
# others return a zero that nobody reads.


def _switch_impl(*args, branches, linear, results=None):
    i = min(max(int(args[linear]), 0), len(branches) - 1)
    values = [*args[:linear], *args[linear + 1 :]]
    return tuple(as_declared(runner(branches[i], all_plain(values))(*values), branches[i].outputs))


def as_declared(out: Sequence, declared: Sequence) -> list:
    """Make Python numbers among results into NumPy's, of the dtypes that the outputs of a program declare."""
    return [
        x if hasattr(x, "dtype") else np.asarray(x, (o.aval if type(o) is Variable else aval_of(o)).dtype)[()]
        for x, o in zip(out, declared, strict=True)
    ]


def _switch_jvp(primals, tangents, *, branches, linear, results=None):
    own = [*tangents[:linear], *tangents[linear + 1 :]]
    others = [*primals[:linear], *primals[linear + 1 :]]
    index, params = primals[linear], {"branches": branches, "linear": linear}
    if results is not None:
        params["results"] = results
    moving = [t is not None for t in own]
    if linear and not any(moving[linear:]):
        vectors = filled(own[:linear], others[:linear], [True] * linear)
        return bind(switch, primals, params), bind(switch, (*vectors, *primals[linear:]), params)
    if any([mentions(b, sees_steps) for b in branches]) and not any([holds_staged(p) for p in primals]):
        return as_it_runs(lambda *full: _select(index, full, branches, results), others, own)
    known, linears, residuals, out = _separate_branches(branches, moving, others, direct=False)
    n = len(out)
    values = bind(switch, (index, *others), _known(known, n if results is None else results))
    return values[:n], _linear_branches(linears, index, given(own, moving), residuals, values[n:], out)


def _separate_branches(branches, moving, others, direct):
    """Split all branches; their known programs return the residuals of all, zeros for those of another branch."""
    forced = [False] * len(branches[0].outputs)
    while True:
        parts = [partial_eval_jvp(b, moving, forced, direct) for b in branches]
        union = [any(flags) for flags in zip(*[p.moving for p in parts], strict=True)]
        if union == forced or all(p.moving == union for p in parts):
            break
        forced = union
    known, linears, computed, residuals = [], [], [], []
    for b, part in enumerate(parts):
        for aval, source in zip(part.residuals, part.sources, strict=True):
            residuals.append(None if source is None else others[source])
            computed.append((b, aval, source))
    for b, part in enumerate(parts):
        n = len(union)
        mine = iter(part.known.outputs[n:])
        outputs, inputs, k = list(part.known.outputs[:n]), [], len(part.linear.inputs) - len(part.residuals)
        tail = iter(part.linear.inputs[k:])
        for owner, aval, source in computed:
            variable = next(mine) if owner == b else zeros(aval)
            inputs.append(next(tail) if owner == b else Variable(aval))
            if source is None:
                outputs.append(variable)
        p = part.known
        known.append(Program(p.inputs, p.steps, outputs, p.name))
        p = part.linear
        linears.append(Program([*p.inputs[:k], *inputs], p.steps, p.outputs, p.name))
    return tuple(known), tuple(linears), residuals, union


def _known(branches: tuple, results: int) -> dict:
    """Return the parameters of a switch that returns results and, behind them, residuals if there are any."""
    params = {"branches": branches, "linear": 0}
    return params if results == len(branches[0].outputs) else {**params, "results": results}


def _linear_branches(linears, index, vectors, residuals, computed, out):
    """Apply the linear branches; what they read is known arguments and computed residuals, in order."""
    rest = iter(computed)
    full = [next(rest) if r is None else r for r in residuals]
    if not any(out):
        return (None,) * len(out)
    moved = bind(switch, (*vectors, index, *full), {"branches": linears, "linear": len(vectors)})
    return tuple(spread(moved, out))


def switch_linearly(index, args: list, unknown: list[bool], branches: tuple) -> tuple:
    """Apply a switch whose unknown arguments belong to a program that must be linear in them."""
    others = given(args, [not u for u in unknown])
    places = iter(range(len(others)))
    position = [None if u else next(places) for u in unknown]
    everything = [others[p] if p is not None else None for p in position]
    known, linears, residuals, out = _separate_branches(branches, unknown, everything, direct=True)
    n = len(out)
    values = bind(switch, (index, *others), _known(known, n))
    moved = _linear_branches(linears, index, given(args, unknown), residuals, values[n:], out)
    return tuple([v if m is None else m for v, m in zip(values[:n], moved, strict=True)])


def _switch_transpose(ct, *args, branches, linear, results=None):
    if not linear:
        raise not_linear("switch")
    back = tuple([transpose_program(b, linear).program for b in branches])
    out = bind(switch, (*ct, *args[linear:]), {"branches": back, "linear": len(ct)})
    return for_unknown(out, args)


def _switch_marked_transpose(ct, *args, live, hot, wanted, branches, linear, results=None):
    if not linear:
        raise not_linear("switch")
    told = [m is not None for m in live], [hot] * len(ct)
    parts = [transpose_program(b, linear, told=told) for b in branches]
    given = [m for m in live if m is not None]
    index, known = args[linear], args[linear + 1 :]
    chosen = [i for i in range(linear) if wanted[i] and any([p.partial[i] for p in parts])]
    masks = [None] * linear
    if chosen:
        marks, kept = mask_programs(parts, chosen, len(known))
        out = bind(switch, (index, *[known[i] for i in kept], *given), {"branches": tuple(marks), "linear": 0})
        masks = replaced(masks, chosen, out)
    back = tuple([p.program for p in parts])
    out = bind(switch, (*ct, index, *known, *given), {"branches": back, "linear": len(ct)})
    return marked(out, masks, [any(flags) for flags in zip(*[p.hot for p in parts], strict=True)], args)


def marked(cotangents: Sequence, masks: Sequence, hot: Sequence[bool], args: Sequence) -> Marked:
    """Return the cotangents of an operator that is linear in its first arguments, and what is known of their zeros."""
    rest = len(args) - len(cotangents)
    return Marked(for_unknown(cotangents, args), [*masks, *[None] * rest], [*hot, *[False] * rest])


def for_unknown(cotangents: Sequence, args: Sequence) -> tuple:
    """Return cotangents for the arguments that are to have one; a vector may be a known zero."""
    rest = [None] * (len(args) - len(cotangents))
    return tuple([c if type(a) is Aval else None for c, a in zip([*cotangents, *rest], args, strict=True)])


def _switch_batch(size, values, mapped, *, branches, linear, results=None):
    flags = [*mapped[:linear], *mapped[linear + 1 :]]
    others = [*values[:linear], *values[linear + 1 :]]
    n = len(branches[0].outputs)
    if not mapped[linear]:
        forced = [False] * n
        while True:
            parts = [batch_program(b, flags, size, forced) for b in branches]
            union = [any(own) for own in zip(*[own for _, own in parts], strict=True)]
            if all(own == union for _, own in parts):
                break
            forced = union
        params = {"branches": tuple([p for p, _ in parts]), "linear": linear}
        out = bind(switch, values, params if results is None else {**params, "results": results})
        return tuple([x if m else repeat_lanes(x, size) for x, m in zip(out, union, strict=True)])
    if linear and any([mentions(b, _crosses_lanes) for b in branches]):
        # Transposed, a branch would sum over the cotangents of lanes that did not take it.
        raise UnsupportedError(
            "a branch with a collective (psum, ...) in it, which lanes take or not, was differentiated in a program.",
            "a lane's cotangent goes through its own branch only, and the collective mixes those of all lanes",
            "call the collective outside of the branch, or select with np.where(condition, a, b)",
        )
    with BatchLevel("vmap", size) as lanes, rename(lanes):
        inner = [Batched(v, lanes) if m else v for v, m in zip(others, flags, strict=True)]
        try:
            result = _select(Batched(values[linear], lanes), inner, branches, results)
        except LaneDivergence as split:
            if split.level is not lanes or split.error is None:
                raise
            raise split.error from None  # perhaps in a branch that a lane does not take: one by one they will tell
        return tuple([x._value if type(x) is Batched and x.level is lanes else repeat_lanes(x, size) for x in result])


def _select(index, args: Sequence, branches: Sequence[Program], results: int | None) -> list:
    """Run all branches and select, lane by lane; run one, if the index is plain.

    A residual is read by its own branch alone, which takes it as it is also in lanes that chose another: zeros put
    there could make a matrix singular.
    """
    if not isinstance(index, Tracer):
        return list(_switch_impl(index, *args, branches=branches, linear=0))
    runs = [as_declared(runner(b)(*args), b.outputs) for b in branches]
    selected = []
    for k, values in enumerate(zip(*runs, strict=True)):
        owners = [i for i, b in enumerate(branches) if type(b.outputs[k]) is Variable]
        if results is not None and k >= results and len(owners) == 1:
            selected.append(values[owners[0]])
            continue
        value = values[-1]
        for i in range(len(branches) - 2, -1, -1):
            value = np.where(index <= i, values[i], value)
        selected.append(value)
    return selected


def _switch_samples():
    ints, vector, scalar = Aval((), np.dtype(int)), Aval((3,), np.dtype(float)), Aval((), np.dtype(float))
    plain = tuple([
        stage(f, [vector, scalar], f.__name__, "samples").program for f in (_sine, _scale, _shift)
    ])  # fmt: skip
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


switch = Primitive(
    "switch",
    impl=_switch_impl,
    abstract_eval=lambda *avals, branches, linear, results=None: tuple(strong_avals(branches[0])),
    jvp=_switch_jvp,
    linear_in=lambda count, params: range(params["linear"]),
    joint=True,
    transpose=_switch_transpose,
    marked_transpose=_switch_marked_transpose,
    batch=_switch_batch,
    samples=_switch_samples,
    multiple_results=True,
    raises=True,
    kind="control",
)


@declare(switch)
def _switch_series(order, values, params):
    """Choose among the branches' programs of series."""
    branches, linear, results = params["branches"], params["linear"], params.get("results")
    others = [*values[:linear], *values[linear + 1 :]]
    moving = [type(v) is list for v in others]
    forced = [False] * len(branches[0].outputs)
    while True:
        parts = [series_program(b, moving, forced, order) for b in branches]
        union = [any(own) for own in zip(*[own for _, own in parts], strict=True)]
        if all([own == union for _, own in parts]):
            break
        forced = union
    now = {"branches": tuple([p for p, _ in parts]), "linear": 0}
    if results is not None:
        now["results"] = sum([order + 1 if m else 1 for m in union[:results]])
    out = bind(switch, (values[linear], *spread_orders(others, moving, order)), now)
    return together(out, union, order)


# ── while_loop(*test constants, *body constants, *carry; test, body, constants) ──────────────────────────────────


def eager_while(test: Callable, body: Callable, carry: list) -> list:
    """Loop in Python while a test of flat values holds; lanes for which it does not stay as they are.

    ``test`` returns a bool, or a batched one of known values; ``body`` returns a new carry.
    """
    while True:
        going = test(*carry)
        truth = beneath(going)
        refuse_lazy(truth, "how often while_loop runs")
        if not np.any(truth):
            return carry
        new = body(*carry)
        carry = new if np.all(truth) else [np.where(going, a, b) for a, b in zip(new, carry, strict=True)]


def _while_parts(args, constants):
    a, b = constants
    return args[:a], args[a : a + b], args[a + b :]


def _while_impl(*args, test, body, constants):
    for_test, for_body, carry = _while_parts(args, constants)
    ask, step = runner(test, plain=True), runner(body, plain=True)
    carry = list(carry)
    while True:
        going = ask(*for_test, *carry)[0]
        refuse_lazy(going, "how often while_loop runs")
        if not going:
            return tuple(as_declared(carry, body.outputs))
        carry = step(*for_body, *carry)


def _while_jvp(primals, tangents, *, test, body, constants):
    params = {"test": test, "body": body, "constants": constants}
    if not any([holds_staged(p) for p in primals]):
        return as_it_runs(lambda *full: _known_while(full, test, body, constants), primals, tangents)
    for_test, for_body, carry = _while_parts(primals, constants)
    _, t_body, t_carry = _while_parts(tangents, constants)
    moving_body, moving = [t is not None for t in t_body], [t is not None for t in t_carry]
    while True:
        program, out = jvp_program(body, [*moving_body, *moving], moving)
        if out == moving:
            break
        moving = either(moving, out)
    n, k = len(for_body), len(carry)
    # The program takes (constants, carry, their tangents); the loop's carry is the carry and its tangents.
    order = [*range(n), *range(n + k, n + k + sum(moving_body)), *range(n, n + k)]
    program = permute_inputs(program, [*order, *range(n + k + sum(moving_body), len(program.inputs))])
    extra = [Variable(strong_aval(v.aval)) for v, m in zip(body.inputs[n:], moving, strict=True) if m]
    asked = Program([*test.inputs, *extra], test.steps, test.outputs, test.name)
    both = bind(
        while_loop,
        (
            *for_test, *for_body, *given(t_body, moving_body), *carry, *filled(t_carry, carry, moving),
        ),
        {"test": asked, "body": program, "constants": (constants[0], n + sum(moving_body))},
    )  # fmt: skip
    return bind(while_loop, primals, params), tuple(spread(both[k:], moving))


def _known_while(args: Sequence, test: Program, body: Program, constants) -> list:
    for_test, for_body, carry = _while_parts(args, constants)
    ask, step = runner(test), runner(body)
    out = eager_while(lambda *c: ask(*for_test, *c)[0], lambda *c: step(*for_body, *c), list(carry))
    return as_declared(out, body.outputs)


def as_it_runs(function: Callable, primals: Sequence, tangents: Sequence) -> tuple[tuple, tuple]:
    """Differentiate control flow on known values as it runs: reverse mode writes down the steps it takes."""
    out, moved = push_moving(lambda *values: list(function(*values)), primals, tangents)
    out = [v if hasattr(v, "dtype") else np.asarray(v)[()] for v in out]
    return tuple(out), tuple([t if is_inexact(v.dtype) else None for v, t in zip(out, moved, strict=True)])


def _while_batch(size, values, mapped, *, test, body, constants):
    for_test, for_body, carry = _while_parts(values, constants)
    flags_test, flags_body, flags = _while_parts(mapped, constants)
    while True:
        asked, (several,) = batch_program(test, [*flags_test, *flags], size, [False])
        if several and not all(flags):
            flags = [True] * len(flags)
            continue
        stepped, out = batch_program(body, [*flags_body, *flags], size, flags)
        if out == list(flags):
            break
        flags = out
    own = mapped[sum(constants) :]
    carry = [repeat_lanes(c, size) if f and not m else c for c, f, m in zip(carry, flags, own, strict=True)]
    if not several:
        params = {"test": asked, "body": stepped, "constants": constants}
        out = bind(while_loop, (*for_test, *for_body, *carry), params)
        return tuple([x if f else repeat_lanes(x, size) for x, f in zip(out, flags, strict=True)])

    # The loop goes on while any lane does; a lane that is done keeps its carry.
    ask, step = runner(asked), runner(stepped)
    a, b = constants

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
        "body": stage(only_going, [v.aval for v in (*asked.inputs[:a], *stepped.inputs)], body.name, "vmap").program,
        "constants": (a, a + b),
    }
    return bind(while_loop, (*for_test, *for_test, *for_body, *carry), params)


def _no_while_transpose(ct, *args, test, body, constants):
    raise RuleMissingError(
        "reverse mode met a while_loop in a traced program, whose number of steps is not known when it is written.",
        "running it backwards takes the values of every step, and their number has no bound",
        "use dualad.fori_loop or dualad.scan with a fixed number of steps, forward mode (jvp, jacfwd), or reverse mode"
        " without trace, where the loop is a Python loop",
    )


def _while_samples():
    real, vector = Aval((), np.dtype(float)), Aval((2,), np.dtype(float))
    test = stage(lambda c, x, v: [x < c], [real, real, vector], "test", "samples").program
    body = stage(lambda c, x, v: [x + 1.0, v * c + np.sin(v) * x], [real, real, vector], "body", "samples").program
    above = lambda rng: np.asarray(2.0 + rng.uniform(0.2, 2.0))
    below = lambda rng: np.asarray(rng.uniform(-0.3, 0.3))
    params = {"test": test, "body": body, "constants": (1, 1)}
    return [(above, (), below, (2,), params), (below, (), above, (2,), params)]


while_loop = Primitive(
    "while_loop",
    impl=_while_impl,
    abstract_eval=lambda *avals, test, body, constants: tuple(strong_avals(body)),
    jvp=_while_jvp,
    transpose=_no_while_transpose,
    batch=_while_batch,
    samples=_while_samples,
    multiple_results=True,
    sees_steps=True,
    raises=True,
    kind="control",
)


@declare(while_loop)
def _while_series(order, values, params):
    """Loop with all coefficients of the carry; the test sees those of order 0."""
    body, constants = params["body"], params["constants"]
    for_test, for_body, carry = _while_parts(values, constants)
    flags_body, flags = [[type(v) is list for v in group] for group in (for_body, carry)]
    while True:
        program, out = series_program(body, [*flags_body, *flags], flags, order)
        if out == flags:
            break
        flags = out
    inputs = list(params["test"].inputs[: constants[0]])
    for v, m in zip(params["test"].inputs[constants[0] :], flags, strict=True):
        inputs += [v, *[Variable(strong_aval(v.aval)) for _ in range(order)]] if m else [v]
    test = Program(inputs, params["test"].steps, params["test"].outputs, params["test"].name)
    first = [v[0] if type(v) is list else v for v in for_test]
    full = spread_orders([*for_body, *carry], [*flags_body, *flags], order)
    count = len(full) - sum([order + 1 if f else 1 for f in flags])
    now = {"test": test, "body": program, "constants": (constants[0], count)}
    return together(bind(while_loop, (*first, *full), now), flags, order)
