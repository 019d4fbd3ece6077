"""The operators of an initial value problem: its solution, the tangent of that, and the adjoint.

    ivp(t₀, t₁, times, y₀, *θ)                        y at the times
    ivp_tangent(ẏ₀, *θ̇, t₀, times, y₀, *θ)            ẏ at the times, for times that stay: linear in ẏ₀ and θ̇
    ivp_adjoint(ȳ, t₀, times, y₀, *θ)                 cotangents of y₀ and θ: the transpose of that

Tangents and cotangents have a leading axis of lanes.

The derivative is that of the exact solution, to the solver's tolerance. A tangent is a part of the solution of the
variational equation, which is a problem again, so every order follows; the derivative of the adjoint is the symmetric
second derivative of a pairing. Not for: numbers (``problem.py``, ``adjoint.py``), SciPy's names
(``initial_value.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.arguments import replace_at
from ...batched import one_by_one
from ...control.control_flow import is_traced
from ...control.control_ops import for_unknown
from ...control.linear_solve import cast
from ...control.loops import map as map_rows
from ...control.subprograms import zeros
from ...core.aval import Aval, aval_of
from ...core.dispatch import bind
from ...core.primitive import Primitive
from ...errors import ConvergenceError
from ...ops.kinds import known_value, repeat_lanes
from ...rules.calls import push_moving
from ...rules.linear_call import LinearCall, linear
from ...vjp_via_transpose import vjp
from .adjoint import walk_back
from .compiled_adjoint import is_compiled, walk_back_compiled
from .functions import has_lanes, over_lanes
from .native import is_machine_code, is_solvable, prepared, rows_at, run_native
from .problem import Problem, Settings, in_order
from .steps import walk_back_steps, walks_back

__all__ = ["ivp", "ivp_adjoint", "ivp_tangent"]

#: up to this number of tangents reverse mode solves forward; above it, by the adjoint
_TANGENTS = 50
_OF_DERIVATIVES = "the solver of the derivatives' equation"


def _dtype(y0: Any) -> np.dtype:
    return np.result_type(aval_of(y0).dtype, float)


# ── the solution ─────────────────────────────────────────────────────────────────────────────────────────────────


def _ivp_jvp(primals, tangents, *, call):
    t0, _, times, y0, *parameters = primals
    dt0, _, dtimes, dy0, *directions = tangents
    y = bind(ivp, primals, {"call": call})
    if dt0 is not None:  # as if the solution had begun elsewhere: ẏ₀ − f(t₀) ṫ₀
        shift = call.slope(t0, y0, parameters) * dt0
        dy0 = -shift if dy0 is None else dy0 - shift
    moving = tuple([d is not None for d in directions])
    total = None
    if dy0 is not None or any(moving):
        vectors = [zeros(aval_of(y0)) if dy0 is None else dy0, *[d for d in directions if d is not None]]
        params = {"call": call, "moving": moving}
        total = bind(ivp_tangent, (*[v[None] for v in vectors], t0, times, y0, *parameters), params)[0]
    if dtimes is not None and np.shape(times)[0]:
        slide = call.slopes(times, y, parameters) * np.reshape(dtimes, (-1, 1))
        total = slide if total is None else total + slide
    return y, total


def _lane_by_lane(op: Any) -> Callable:
    """Make the rule under ``vmap``: each lane is a run of its own, in a program one turn of a loop."""

    def batch(size, values, mapped, **params):
        if not size or not is_traced(values):
            return one_by_one(op)(size, values, mapped, **params)

        def lane(rows):
            left = iter(rows)
            return bind(op, [next(left) if m else v for v, m in zip(values, mapped, strict=True)], params)

        return map_rows(lane, [v for v, m in zip(values, mapped, strict=True) if m])

    return batch


def _prepared_rows(avals, params, mapped=None, lanes=0):
    call = params["call"]
    return _prepare(ivp, avals, params, mapped, lanes, 0, call, "rows", functools.partial(rows_at, call))


def _prepare(op, avals, params, mapped, lanes, first, problem, key, function, what="the solver"):
    """Return what a program calls where there is machine code: ``first`` is the place of t₀ among the arguments."""
    call, there = params["call"], first + (2 if op is ivp else 1)
    count = avals[there].shape[0]
    if call.mass is not None or not count or not is_solvable(problem, avals[there + 1]):
        return None
    if mapped and count > 1 and (mapped[first] or mapped[there]):
        return None
    run = prepared(call, key, function, avals, what, mapped, lanes)

    def quick(*args: Any) -> Any:
        t0, times = args[first], args[there]
        moves = t0 != (args[1] if op is ivp else times[..., -1])
        if (moves if mapped is None else np.all(moves)) and (count == 1 or in_order(t0, times)[0] is None):
            return run(*args)
        if mapped is None:
            return op.impl(*args, **params)
        turn = lambda k: op.impl(*[x[k] if m else x for x, m in zip(args, mapped, strict=True)], **params)
        return np.stack([turn(k) for k in range(lanes)])

    return run and quick


# ── its tangent ──────────────────────────────────────────────────────────────────────────────────────────────────


def _split(args: Sequence, moving: Sequence[bool]) -> tuple[list, list]:
    """Return the vectors (ẏ0 and the moving θ̇) and the point (t0, times, y0, *θ)."""
    cut = 1 + sum(moving)
    return list(args[:cut]), list(args[cut:])


def _sizes(vectors: Sequence, point: Sequence, moving: Sequence[bool]) -> Any:
    """Return a factor per lane that makes tangents as large as what they move, if all of it is known."""
    primals = [point[2], *[p for p, m in zip(point[3:], moving, strict=True) if m]]
    known = [] if has_lanes(*vectors, *primals) else [known_value(x) for x in (*vectors, *primals)]
    if not known or any([x is None for x in known]):
        return None
    return _factors(known[: len(vectors)], known[len(vectors) :])


def _factors(vectors: Sequence, primals: Sequence) -> Any:
    lanes = np.shape(vectors[0])[0]
    largest = np.zeros(lanes)
    for v, p in zip(vectors, primals, strict=True):
        size = abs(p)
        most = np.max(size, initial=0.0)
        size = np.where(size > 0, size, np.where(most > 0, most, 1.0))
        ratios = abs(np.reshape(v, (lanes, -1))) / np.reshape(size, (-1,))
        largest = np.maximum(largest, np.max(ratios, 1, initial=0.0))
    return np.where((largest > 0) & np.isfinite(largest), largest, 1.0)


def _move(vectors: Sequence, point: Sequence, call: Problem, moving: tuple[bool, ...]) -> Any:
    """Return the tangents, as a part of the solution of the variational equation."""
    t0, times, *_ = point
    solve = lambda problem, *start: bind(ivp, (t0, _furthest(t0, times), times, *start), {"call": problem})
    return _move_by(solve, _sizes(vectors, point, moving), vectors, point, call, moving)


def _move_by(solve: Callable, sizes: Any, vectors: Sequence, point: Sequence, call: Problem, moving: tuple) -> Any:
    """Return the tangents by ``solve(problem, y0, *parameters)``."""
    _, times, y0, *parameters = point
    lanes = np.shape(vectors[0])[0]
    along = lambda x: np.reshape(sizes, (-1, *[1] * (np.ndim(x) - 1)))
    if sizes is not None:
        vectors = [cast(v / along(v), aval_of(v).dtype) for v in vectors]
    start = np.concatenate([y0, np.reshape(vectors[0], (-1,))])
    rows = solve(call.variational(moving, lanes), start, *parameters, *vectors[1:])
    rows = np.moveaxis(np.reshape(rows[:, call.n :], (np.shape(times)[0], lanes, call.n)), 1, 0)
    return rows if sizes is None else rows * along(rows)


def _furthest(t0: Any, times: Any) -> Any:
    if np.shape(times)[0] < 2:
        return times[0] if np.shape(times)[0] else t0
    return times[np.argmax(abs(times - t0))]


def _tangent_impl(*args, call, moving):
    vectors, (t0, times, y0, *parameters) = _split(args, moving)
    order, times = in_order(t0, times)
    found = None
    if is_solvable(call.variational(moving, len(vectors[0])), y0) and len(times) and t0 != times[-1]:
        move = functools.partial(_move_natively, call, moving)
        given = [*vectors, t0, times, y0, *parameters]
        found = run_native(call, ("tangent", moving), move, given, _OF_DERIVATIVES)
    if found is None:
        return _move(*_split(args, moving), call, moving)
    return found if order is None else np.take(found, order, axis=-2)


def _prepared_tangents(avals, params, mapped=None, lanes=0):
    call, moving = params["call"], params["moving"]
    problem = call.variational(moving, avals[0].shape[0])
    move = functools.partial(_move_natively, call, moving)
    own = problem, ("tangent", moving), move, _OF_DERIVATIVES
    return _prepare(ivp_tangent, avals, params, mapped, lanes, 1 + sum(moving), *own)


def _move_natively(call: Problem, moving: tuple[bool, ...], *args: Any) -> tuple:
    """Return the tangents in a program, and the last state of the solver."""
    vectors, point = _split(args, moving)
    t0, times, y0, *parameters = point
    primals = [y0, *[p for p, m in zip(parameters, moving, strict=True) if m]]
    ends: list = []

    def solve(problem: Problem, *start: Any) -> Any:
        rows, last = rows_at(problem, t0, times[-1], times, *start)
        ends.append(last)
        return rows

    return _move_by(solve, _factors(vectors, primals), vectors, point, call, moving), ends[0]


def _tangent_shape(*avals, call, moving):
    vectors, (_, times, y0, *_) = _split(avals, moving)
    dtype = np.result_type(_dtype(y0), *[v.dtype for v in vectors])
    return Aval((vectors[0].shape[0], *times.shape, *y0.shape), dtype)


def _tangent_jvp(primals, tangents, **params):
    vectors, point = _split(primals, params["moving"])
    moved, shifts = _split(tangents, params["moving"])
    out = bind(ivp_tangent, primals, params)
    total = None
    if any([t is not None for t in moved]):
        full = [zeros(aval_of(v)) if t is None else t for t, v in zip(moved, vectors, strict=True)]
        total = bind(ivp_tangent, (*full, *point), params)
    if any([t is not None for t in shifts]):
        more = push_moving(lambda *p: _move(vectors, p, **params), point, shifts)[1]
        total = more if total is None else total + more
    return out, total


def _tangent_transpose(ct, *args, call, moving):
    vectors, point = _split(args, moving)
    unknown = [type(v) is Aval for v in vectors]
    avals = [Aval(a.shape[1:], a.dtype) for a in map(aval_of, vectors)]
    count = sum([a.size for a, u in zip(avals, unknown, strict=True) if u])
    choice = call.settings.sensitivity
    few = count <= _TANGENTS or (choice == "steps" and not walks_back(call))
    # With a mass matrix unit vectors are no tangents: those have to satisfy the algebraic equations.
    if call.mass is None and (choice == "forward" or (choice != "adjoint" and few)):
        out = _through_tangents(ct, point, call, moving, avals, unknown)
    else:
        out = bind(ivp_adjoint, (ct, *point), {"call": call, "moving": moving})
    return for_unknown(out, vectors) + (None,) * len(point)


def _through_tangents(ct, point, call, moving, avals, unknown) -> list:
    """Return the cotangents of the unknowns, from one forward solve with the tangents of all their entries."""
    starts = np.cumsum([0, *[a.size * u for a, u in zip(avals, unknown, strict=True)]])
    count = int(starts[-1])
    basis = [
        np.eye(count, a.size, -(k if u else count), a.dtype).reshape(count, *a.shape)
        for a, u, k in zip(avals, unknown, starts[:-1], strict=True)
    ]
    rows = bind(ivp_tangent, (*basis, *point), {"call": call, "moving": moving})
    rows = np.reshape(rows, (count, -1)).T
    ct_rows, lost = np.reshape(ct, (np.shape(ct)[0], rows.shape[0])), 0.0
    if not call.settings.require_success:  # NaN where the run did not come: only for who looks there
        missing = np.any(np.isnan(rows), axis=1)
        rows = np.where(missing[:, None], 0.0, rows)
        lost = np.where(np.any(missing & (ct_rows != 0), axis=1, keepdims=True), np.nan, 0.0)
    flat = ct_rows @ rows + lost
    part = lambda a, k: cast(np.reshape(flat[:, k : k + a.size], (np.shape(ct)[0], *a.shape)), a.dtype)
    return [part(a, k) if u else None for a, u, k in zip(avals, unknown, starts[:-1].tolist(), strict=True)]


def _all_lanes(size: int, values: Sequence, mapped: Sequence[bool]) -> list:
    """Return batches of lanes with one leading axis of all of them."""
    wide = [v if m else repeat_lanes(v, size) for v, m in zip(values, mapped, strict=True)]
    return [np.reshape(v, (size * np.shape(v)[1], *np.shape(v)[2:])) for v in wide]


def _tangent_batch(size, values, mapped, **params):
    cut = 1 + sum(params["moving"])
    if any(mapped[cut:]) or not size:
        return _lane_by_lane(ivp_tangent)(size, values, mapped, **params)
    out = bind(ivp_tangent, (*_all_lanes(size, values[:cut], mapped[:cut]), *values[cut:]), params)
    return np.reshape(out, (size, np.shape(out)[0] // size, *np.shape(out)[1:]))


# ── its adjoint ──────────────────────────────────────────────────────────────────────────────────────────────────


def _adjoint_impl(ct, t0, times, y0, *parameters, call, moving):
    back = walk_back
    if _walks_steps(call, t0, times, y0, parameters):
        back = walk_back_steps
    elif is_compiled(call, ct, t0, times, y0, parameters):
        back = walk_back_compiled
    try:
        out = back(call, np.asarray(ct), t0, np.asarray(times), np.asarray(y0, _dtype(y0)), parameters, moving)
    except ConvergenceError:  # states that were not reached are NaN, and so are their derivatives
        if call.settings.require_success:
            raise
        moved = [y0, *[p for p, m in zip(parameters, moving, strict=True) if m]]
        out = [np.full((len(ct), *np.shape(p)), np.nan) for p in moved]
    return (cast(out[0], aval_of(y0).dtype), *out[1:])


def _walks_steps(call: Problem, t0: Any, times: Any, y0: Any, parameters: Sequence) -> bool:
    """Whether the adjoint is that of the steps: as was asked for, or as is quicker, because their loop is compiled."""
    choice = call.settings.sensitivity
    if choice == "steps" or call.mass is not None:
        return True
    return choice == "auto" and walks_back(call) and is_machine_code(call, t0, times, y0, parameters)


def _adjoint_shape(ct, t0, times, y0, *parameters, call, moving):
    kept = [y0, *[p for p, m in zip(parameters, moving, strict=True) if m]]
    return tuple([Aval((ct.shape[0], *a.shape), a.dtype) for a in kept])


def _adjoint_jvp(primals, tangents, **params):
    _, *point = primals
    out = bind(ivp_adjoint, primals, params)
    total: list = [None] * len(out)
    if tangents[0] is not None:
        total = list(bind(ivp_adjoint, (tangents[0], *point), params))
    shifts = tangents[1:]
    if any([t is not None for t in shifts]):
        places = [i for i, t in enumerate(shifts) if t is not None]
        second = LinearCall(f"{params['call'].name} (second derivative)", *_second(places, **params))
        given = {"call": second, "outs": tuple(map(aval_of, out)), "residuals": len(primals)}
        more = bind(linear, (*[shifts[i] for i in places], *primals), given)
        total = [b if a is None else a + b for a, b in zip(total, more, strict=True)]
    return out, tuple(total)


def _second(places: Sequence[int], call: Problem, moving: tuple[bool, ...]) -> tuple:
    """Return the derivative of the adjoint in its point, and the transpose of that.

    The adjoint of ȳ is the gradient of ⟨ȳ, y⟩ in y0 and θ. So its derivative along a shift of the point is the
    gradient of ⟨ȳ, ẏ⟩, and the transpose takes the gradient in the point of the tangent along a given one.
    """
    inner = [2, *[3 + i for i, m in enumerate(moving) if m]]  # y0 and the moving θ, as positions in the point

    def along(point: Sequence, shifts: Sequence) -> Any:
        tangents = replace_at([None] * len(point), places, shifts)
        solution = lambda t0, times, *rest: bind(ivp, (t0, _furthest(t0, times), times, *rest), {"call": call})
        return push_moving(solution, list(point), tangents)[1]

    def forward(residuals, shifts):
        ct, *point = residuals
        pull = vjp(lambda *values: along(replace_at(point, inner, values), shifts), *[point[i] for i in inner])[1]
        return list(over_lanes(pull, ct))

    def backward(residuals, cts):
        ct, *point = residuals
        params = {"call": call, "moving": moving}
        tangent = lambda *values: bind(ivp_tangent, (*cts, *replace_at(point, places, values)), params)
        return list(vjp(tangent, *[point[i] for i in places])[1](ct))

    return forward, backward


def _adjoint_transpose(ct, *args, **params):
    point = args[1:]
    return (bind(ivp_tangent, (*ct, *point), params), *[None] * len(point))


def _adjoint_batch(size, values, mapped, **params):
    if any(mapped[1:]) or not size:
        return _lane_by_lane(ivp_adjoint)(size, values, mapped, **params)
    out = bind(ivp_adjoint, (*_all_lanes(size, values[:1], mapped[:1]), *values[1:]), params)
    return tuple([np.reshape(x, (size, np.shape(x)[0] // size, *np.shape(x)[1:])) for x in out])


# ── declarations ─────────────────────────────────────────────────────────────────────────────────────────────────


def _sample_problems() -> list[Problem]:
    def pendulum(t, y, p):
        return np.stack([y[1], -p[0] * np.sin(y[0]) - p[1] * y[1] * t])

    settings = [Settings("samples", "DOP853", 1e-10, 1e-10, sensitivity=way) for way in ("forward", "adjoint")]
    return [Problem("sample", pendulum, 2, s) for s in settings]


def _samples(*before: Any, **params: Any) -> Callable[[], list]:
    """Make samples of an operator: arguments before y0 and θ, and parameters other than the problem."""
    return lambda: [(*before, (2,), (2,), {"call": call, **params}) for call in _sample_problems()]


_START, _TIMES = np.asarray(0.1), np.asarray([0.3, 0.7])

ivp = Primitive(
    "ivp",
    impl=lambda t0, t1, times, y0, *theta, call: call.rows(t0, t1, times, np.asarray(y0, _dtype(y0)), theta),
    abstract_eval=lambda t0, t1, times, y0, *theta, call: Aval((*times.shape, *y0.shape), _dtype(y0)),
    jvp=_ivp_jvp,
    samples=_samples(_START, np.asarray(1.5), _TIMES),
    prepared=_prepared_rows,
    blocks="one",
    kind="implicit",
)
ivp.batch = _lane_by_lane(ivp)

ivp_tangent = Primitive(
    "ivp_tangent",
    impl=_tangent_impl,
    abstract_eval=_tangent_shape,
    jvp=_tangent_jvp,
    linear_in=lambda count, params: range(1 + sum(params["moving"])),
    joint=True,
    transpose=_tangent_transpose,
    batch=_tangent_batch,
    samples=_samples((1, 2), (1, 2), _START, _TIMES, moving=(True,)),
    prepared=_prepared_tangents,
    blocks="one",
    kind="implicit",
)

ivp_adjoint = Primitive(
    "ivp_adjoint",
    impl=_adjoint_impl,
    abstract_eval=_adjoint_shape,
    jvp=_adjoint_jvp,
    linear_in=(0,),
    transpose=_adjoint_transpose,
    batch=_adjoint_batch,
    samples=_samples((1, 2, 2), _START, _TIMES, moving=(True,)),
    blocks="one",
    multiple_results=True,
    kind="implicit",
)
