"""``checkpoint``: run a function again in the backward pass in place of keeping what it computed.

A call is one operator. Linearized, it leaves a linear call whose residuals are the arguments (and what the policy
keeps); pulled back, that call runs the function again, lazily, so that only what the pullback reads is computed. Each
of these is a checkpoint in turn, so memory stays bounded at every level of nesting. Not for: residuals that are kept
elsewhere (``hooks.py``).
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..base.arguments import replace_at
from ..base.signatures import Args, Out
from ..base.tree import tree_map
from ..boundary.boundary import run, running
from ..boundary.randomness import States
from ..boundary.transformed import Transformed, transform
from ..core.above import ABOVE
from ..core.aval import Aval, aval_of, is_inexact
from ..core.contexts import silently, writing
from ..core.dispatch import bind
from ..core.tables import OPS
from ..core.tracer import Tracer, beneath
from ..dual import Dual, DualLevel, split
from ..errors import ArgumentError, ArgumentTypeError, NotRepeatableError
from ..guards.reach import Snapshot
from ..jvp import jvp
from ..ops.kinds import linear as linear_op
from ..program.ir import Program, evaluate
from ..program.variable import Variable
from ..tensors.lazy import FirstRun, LazyLevel, force_all
from ..tensors.staged import Staged, StagedLevel
from ..transforms.linearize import linearize
from ..vjp_via_transpose import vjp
from .calls import Call, call_primitive, flat_output, has_tensor, mapped_function, of_moving, partition, sample_calls
from .closures import reads, with_values
from .linear_call import LinearCall, linear_tangents

__all__ = ["Policies", "checkpoint", "checkpoint_name", "checkpoint_policies"]

#: the most bytes of a captured array that is compared when a function runs again
_COMPARED = 1 << 20


# ── names and policies ───────────────────────────────────────────────────────────────────────────────────────────

checkpoint_name_op = linear_op(
    "checkpoint_name",
    impl=lambda x, *, name: x,
    abstract_eval=lambda x, *, name: x,
    transpose=lambda ct, x, *, name: (ct,),
    batch=lambda size, x, *, name: bind(checkpoint_name_op, (x,), {"name": name}),
    samples=[((3,), {"name": "a"}), ((), {"name": "b"})],
    moves=True,
)


def checkpoint_name(x: Any, name: str) -> Any:
    """Name a value, so that ``checkpoint_policies.save_only_these_names`` can keep it.

    Parameters
    ----------
    x : tree of arrays
        The value.
    name : str
        Its name.

    Returns
    -------
    tree
        ``x``.

    Raises
    ------
    ArgumentTypeError
        If the name is no string.

    Examples
    --------
    >>> def f(x):
    ...     return np.sin(da.checkpoint_name(np.exp(x), "exponential"))
    >>> policy = da.checkpoint_policies.save_only_these_names("exponential")
    >>> float(da.grad(da.checkpoint(f, policy=policy))(0.0)) == float(np.cos(1.0))
    True
    """
    if not isinstance(name, str):
        raise ArgumentTypeError(f"checkpoint_name: the name is {name!r}.", "policies compare names", "pass a str")
    return tree_map(lambda v: bind(checkpoint_name_op, (v,), {"name": name}) if isinstance(v, Tracer) else v, x)


class Policies:
    """The policies of checkpoints; ``dualad.checkpoint_policies`` is the one instance.

    A policy is a function ``policy(name, params) -> bool`` of an operator's name and parameters, which says whether the
    results of its calls are kept; ``python -m dualad ops`` lists the names.

    Examples
    --------
    >>> f = lambda w, x: np.sum(np.tanh(w @ x))
    >>> g = da.checkpoint(f, policy=da.checkpoint_policies.dots_saveable)
    >>> da.grad(g)(np.eye(2), np.zeros(2))
    array([[0., 0.],
           [0., 0.]])
    """

    @staticmethod
    def nothing_saveable(name: str, params: dict) -> bool:
        """Keep the arguments only: the least memory."""
        return False

    @staticmethod
    def everything_saveable(name: str, params: dict) -> bool:
        """Keep everything, as without a checkpoint."""
        return True

    @staticmethod
    def dots_saveable(name: str, params: dict) -> bool:
        """Keep the results of matrix products and contractions, which cost most to compute."""
        return name in OPS and OPS[name].contracts

    @staticmethod
    def save_only_these_names(*names: str) -> Callable[[str, dict], bool]:
        """Keep the values that ``checkpoint_name`` gives one of these names."""
        for n in names:
            if not isinstance(n, str):
                raise ArgumentTypeError(f"save_only_these_names: {n!r} is no name.", "names are strings", "pass str")
        chosen = frozenset(names)
        return lambda name, params: name == "checkpoint_name" and params["name"] in chosen


checkpoint_policies = Policies()


# ── the operator ─────────────────────────────────────────────────────────────────────────────────────────────────
#
# rules = (policy, context). The function is run again in the context it was first called in: np.errstate and the like.


def _call_jvp(primals, tangents, *, call):
    moved = [i for i, t in enumerate(tangents) if t is not None]
    if not any(isinstance(beneath(tangents[i]), Staged) for i in moved):
        return _push(primals, tangents, call, moved)  # nothing that it is multiplied with would be kept
    return _postpone(primals, tangents, call, moved)


def _push(primals, tangents, call: Call, moved: list[int]):
    """Differentiate at once: the function runs on Duals, and the whole is a checkpoint for the levels below."""
    n = len(primals)
    counts: list[int] = []

    def function(*values):
        f, chosen = of_moving(call.function, values[:n], moved)
        out, out_tangents = jvp(f, chosen, list(values[n:]))
        counts[:] = [len(out)]
        return [*out, *[t for v, t in zip(out, out_tangents, strict=True) if is_inexact(aval_of(v).dtype)]]

    params = {"call": Call(call.name, function, call.rules)}
    both = bind(checkpoint_call, (*primals, *[tangents[i] for i in moved]), params)
    (count,) = counts
    return both[:count], _beside(both[:count], both[count:])


def _beside(out: Sequence, tangents: Sequence) -> tuple:
    """Return the tangent of each result, of those that have one."""
    rest = iter(tangents)
    return tuple([next(rest) if is_inexact(aval_of(v).dtype) else None for v in out])


def _postpone(primals, tangents, call: Call, moved: list[int]):
    """Write the tangent down as one linear call, which runs the function again when it is used."""
    policy, context = call.rules
    runs = [FirstRun(raised=True)]  # until it has run nothing is known of it
    found: list[Program | None] = [None]
    counts: list[int] = []

    def first(*values):
        out, found[0], runs[0], kept = _first_run(call, values, moved, policy)
        counts[:] = [len(out)]
        return [*out, *kept]

    results = bind(checkpoint_call, primals, {"call": Call(call.name, first, (None, context))})
    (count,) = counts
    out, kept = results[:count], results[count:]
    vectors = [tangents[i] for i in moved]
    if found[0] is not None and not any(isinstance(p, Tracer) for p in primals):
        return out, _beside(out, evaluate(found[0], vectors))  # nothing to keep: the tangent is written down as it is
    again = lambda live, outs: _derivative(call, moved, live, runs, len(primals))
    return out, linear_tangents(out, again, vectors, (*primals, *kept))


def _first_run(call: Call, primals: Sequence, moved: list[int], policy: Callable | None):
    """Run the function; return its values, its tangent's program if that reads nothing, and what the policy keeps.

    The levels are those of the later run, so that both meet the same calls in the same order.
    """
    f, chosen = of_moving(call.function, primals, moved)
    where = f"checkpoint of `{call.name}`"
    with LazyLevel(where, policy) as lazy, DualLevel(where, StagedLevel(where, linear=True)) as level:
        staged = level.tangents
        staged.steps = steps = _StepsWithoutResiduals()
        duals = []
        for x in chosen:
            a = aval_of(x)
            duals.append(Dual(lazy.given(x), staged.new_input(Aval(a.shape, a.dtype)), level))
        pairs = [split(x, level) for x in f(*duals)]
        lazy.end_of_function()
        program = None
        if not steps.needed:
            tangents = [
                np.zeros(v.shape, v.dtype)[()] if t is None else t for v, t in pairs if is_inexact(aval_of(v).dtype)
            ]
            program = staged.finish(tangents, where)
        out = force_all([v for v, _ in pairs])
        kept = lazy.kept()
        lazy.first.have_arguments(primals, moved)
    return out, program, lazy.first, kept


class _StepsWithoutResiduals(list):
    """The steps of a program, dropped as soon as one of them reads a value that would have to be kept."""

    needed = False

    def append(self, step: tuple) -> None:
        """Record a step."""
        if self.needed:
            return
        _, args, _, _ = step
        if any((type(a) is not Variable and np.ndim(a)) or isinstance(a, Tracer) for a in args):
            self.needed = True
            self.clear()
        else:
            super().append(step)


def _derivative(call: Call, moved: list[int], live: list[int], runs: list[FirstRun], n: int) -> LinearCall:
    """Return the linear map that runs the function again; its residuals are the arguments and the values kept."""
    policy, context = call.rules

    def differentiable(*values):
        out = call.function(*values)
        return [out[i] for i in live]

    def again(known, vectors, through: Callable):
        m = len(known)

        def function(*values):
            """Run it a second time, lazily, and push tangents or pull cotangents through it."""
            f, chosen = of_moving(differentiable, values[:n], moved)
            this = FirstRun()
            this.have_arguments(values[:n], moved)
            run = runs[0].beside(this)
            with LazyLevel(f"checkpoint of `{call.name}`", policy, run, values[n:m]) as lazy:
                linear_map = through(f, [lazy.given(x) for x in chosen])
                lazy.end_of_function()
                return force_all(linear_map(list(values[m:])))

        params = {"call": Call(call.name, functools.partial(silently, function), (None, context))}
        return list(bind(checkpoint_call, (*known, *vectors), params))

    push, pull = functools.partial(again, through=_pushed), functools.partial(again, through=_pulled)
    return LinearCall(call.name, push, pull, signed=True)


def _pushed(f: Callable, primals: list) -> Callable[[list], list]:
    line = linearize(f, *primals)[1]
    return lambda tangents: line(*tangents)


def _pulled(f: Callable, primals: list) -> Callable[[list], list]:
    pull = vjp(f, *primals)[1]
    return lambda cts: pull.apply(cts, seeds="signed")


def _run_again(f: Callable, args: Sequence, kwargs: dict) -> Any:
    """Run the user's function for the second time, when the transform has ended that may have lifted it the first."""
    inside = running.set(False)
    try:
        return run(f, args, kwargs)
    finally:
        running.reset(inside)


def _call_batch(size, values, mapped, *, call):
    batched = Call(call.name, mapped_function(call.function, mapped, size), call.rules, call.trees)
    return bind(checkpoint_call, values, {"call": batched})


def _impl(*leaves, call):
    context = call.rules[1]
    if context is None:
        return tuple(call.function(*leaves))
    # A context can be entered once at a time; its copy is as good. Writes are those made here.
    context = context.copy()
    context.run(writing.set, writing.get())
    return tuple(context.run(call.function, *leaves))


def _samples():
    policies = None, lambda name, params: name == "sin"
    return [sample for policy in policies for sample in sample_calls(lambda policy=policy: (policy, None))()]


checkpoint_call = call_primitive(
    "checkpoint_call", impl=_impl, jvp=_call_jvp, batch=_call_batch, samples=_samples, reruns=True
)


def _noted(f: Callable, known: list[Snapshot]) -> Snapshot | None:
    """Return a snapshot of a function's reads; the last one if it still holds. Large arrays are left out."""
    if known and known[0].roots[0] is f and known[0].holds():
        return known[0]
    found = Snapshot.of([f], most=_COMPARED)
    known[:] = [] if found is None else [found]
    return found


def _changed(name: str, before: Snapshot) -> NotRepeatableError:
    places, _ = before.changed()
    what = next((f" ({place.key!r})" for place in places.values() if isinstance(place.key, str)), "")
    return NotRepeatableError(
        f"checkpoint of `{name}`: something that it reads besides its arguments{what} has changed since it ran first.",
        "it runs again for its derivative, which would be that of another function",
        "pass what changes as an argument, or use the derivative before it changes",
    )


# ── for users ────────────────────────────────────────────────────────────────────────────────────────────────────


@transform
def checkpoint(
    f: Callable[Args, Out],
    *,
    policy: Callable[[str, dict], bool] | None = None,
    static_argnums: int | Sequence[int] = (),
) -> Callable[Args, Out]:
    """Make a function whose reverse-mode derivative computes again in place of keeping.

    Parameters
    ----------
    f : callable
        The function, of any trees. It runs once for its value, and once more each time its pullback is used; it
        does not run again where its derivative reads nothing of what it computed (a linear function).
    policy : callable, optional
        What to keep nevertheless: one of ``checkpoint_policies`` (:class:`Policies`), or a function
        ``policy(name, params) -> bool`` of an operator's name and parameters. By default nothing but the arguments.
    static_argnums : int or tuple of int
        Positions of arguments that are passed as they are, such as numbers of steps; they must not be traced.

    Returns
    -------
    callable
        A function of the same arguments. Traced values that ``f`` closes over, directly or in functions it closes
        over, are treated as arguments.

    Raises
    ------
    ArgumentTypeError
        If the policy is no function.
    NotRepeatableError
        By the pullback, if ``f`` does something else when it is run again.
    CapturedTensorError
        If ``f`` reads a traced value from a global or an attribute.

    Notes
    -----
    The second run happens in the context of the first: ``np.errstate`` and context variables are as they were.

    Griewank, *Achieving logarithmic growth of temporal and spatial complexity in reverse automatic differentiation*
    (1992).

    Examples
    --------
    >>> block = da.checkpoint(lambda x: np.sin(np.exp(np.sin(x))))
    >>> float(da.grad(block)(0.0)) == float(np.cos(1.0))
    True
    """
    if not callable(f):
        raise ArgumentTypeError(f"checkpoint was given {f!r}.", "it takes a function", "write checkpoint(f)(x)")
    if policy is not None and not callable(policy):
        raise ArgumentTypeError(
            f"checkpoint: policy={policy!r} of type {type(policy).__name__}.",
            "a policy is a function of an operator's name and parameters",
            "use one of dualad.checkpoint_policies, such as dots_saveable or save_only_these_names('a', 'b')",
        )
    if policy is checkpoint_policies.nothing_saveable:
        policy = None
    name = getattr(f, "__name__", type(f).__name__)
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    known: list[Snapshot] = []

    def checkpointed(*args, **kwargs):
        if policy is checkpoint_policies.everything_saveable:
            return f(*args, **kwargs)
        tensors = reads(f, attributes=False)
        if not tensors and not has_tensor((args, kwargs)):
            return f(*args, **kwargs)
        for n in static:
            if isinstance(n, bool) or not hasattr(n, "__index__"):
                raise ArgumentTypeError(
                    f"checkpoint of `{name}`: static_argnums holds {n!r}.",
                    "a position is an integer",
                    "write static_argnums=1, or a tuple of them",
                )
            if not 0 <= n < len(args):
                raise ArgumentError(
                    f"checkpoint of `{name}`: static_argnums has {n}, but the call has {len(args)} arguments.",
                    "it names positions of arguments",
                    "count from 0",
                )
            if has_tensor(args[n]):
                raise ArgumentTypeError(
                    f"checkpoint of `{name}`: argument {n} is in static_argnums, and is traced in this call.",
                    "its derivative would be dropped silently",
                    "leave it out of static_argnums",
                )
        dynamic = tuple([None if i in static else a for i, a in enumerate(args)])
        template, leaves = partition((dynamic, kwargs))
        moving = [i for i, x in enumerate(leaves) if hasattr(x, "dtype")]  # a Python number widens no dtype
        arrays = [leaves[i] for i in moving]
        trees: list = [None]
        places = {id(t): i for i, t in enumerate(tensors, len(arrays))}
        again, later = False, with_values(f, attributes=False, fixed=True)
        before = _noted(later, known)
        states = States([*template.statics, *[args[i] for i in static]])

        def function(*values):
            if again and before is not None and not before.holds():
                raise _changed(name, before)
            g, put = later if again else f, lambda t: values[places[id(t)]] if id(t) in places else t
            g = with_values(g, put, attributes=False) if tensors else g
            given, keywords = template.fill(replace_at(leaves, moving, values[: len(arrays)]))
            given = [args[i] if i in static else a for i, a in enumerate(given)]
            where = f"checkpoint of `{name}`"
            if not again:
                return flat_output(g(*given, **keywords), where, trees)
            moved = States(states.generators)
            states.restore()  # the second run draws what the first one drew
            try:
                return flat_output(_run_again(g, given, keywords), where, trees)
            finally:
                moved.restore()

        out = ABOVE.recomputed(function, [*arrays, *tensors], name) if policy is None else None
        if out is None:
            call = Call(name, function, (policy, contextvars.copy_context()), trees)
            out = bind(checkpoint_call, (*arrays, *tensors), {"call": call})
        if before is not None:
            before.without(before.changed()[0])  # by the function itself
        again = True
        return optree.tree_unflatten(trees[0], list(out))

    return Transformed(checkpointed, f, "")
