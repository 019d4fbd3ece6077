"""``checkpoint``: run a function again in the backward pass in place of keeping what it computed.

A call is one operator. Linearized, it leaves a linear call whose residuals are the arguments (and what the policy
keeps); pulled back, that call runs the function again, lazily, so that only what the pullback reads is computed. Each
of these is a checkpoint in turn, so memory stays bounded at every level of nesting. Not for: residuals that are kept
elsewhere (``hooks.py``).
"""

from __future__ import annotations

import contextvars
import dis
import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..core.arguments import replaced
from ..core.aval import Aval, aval_of, is_inexact
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tables import OPS
from ..core.tracer import Tracer, beneath
from ..core.transformed import Transformed, transform
from ..dual import Dual, DualLevel
from ..errors import ArgumentError, ArgumentTypeError
from ..jvp import jvp, split
from ..lazy import FirstRun, LazyLevel, forced
from ..linearize import linearize
from ..ops.kinds import linear as linear_op
from ..program.ir import Program, evaluate
from ..program.variable import Variable
from ..signatures import Args, Out
from ..staged import Staged, StagedLevel
from ..tree import flatten
from ..vjp_via_transpose import vjp
from .calls import Call, Template, call_shape, flat_output, has_tensor, mapped_function, of_moving, partition
from .linear_call import LinearCall, linear

__all__ = ["Policies", "checkpoint", "checkpoint_name", "checkpoint_policies"]


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
    >>> import numpy as np
    >>> import dualad as da
    >>> def f(x):
    ...     return np.sin(da.checkpoint_name(np.exp(x), "exponential"))
    >>> policy = da.checkpoint_policies.save_only_these_names("exponential")
    >>> float(da.grad(da.checkpoint(f, policy=policy))(0.0)) == float(np.cos(1.0))
    True
    """
    if not isinstance(name, str):
        raise ArgumentTypeError(f"checkpoint_name: the name is {name!r}.", "policies compare names", "pass a str")
    return optree.tree_map(
        lambda v: bind(checkpoint_name_op, (v,), {"name": name}) if isinstance(v, Tracer) else v, x, namespace="dualad"
    )


class Policies:
    """What a checkpoint keeps; ``dualad.checkpoint_policies`` is the one instance.

    A policy is a function ``policy(name, params) -> bool`` of an operator's name and parameters, which says whether the
    results of its calls are kept; ``python -m dualad ops`` lists the names.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
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
        out, out_tangents = _jvp_of(call, values[:n], values[n:], moved)
        counts[:] = [len(out)]
        return [*out, *out_tangents]

    params = {"call": Call(call.name, function, call.rules)}
    both = bind(checkpoint_call, (*primals, *[tangents[i] for i in moved]), params)
    (count,) = counts
    rest = iter(both[count:])
    return both[:count], tuple([next(rest) if is_inexact(aval_of(v).dtype) else None for v in both[:count]])


def _jvp_of(call: Call, primals: Sequence, tangents: Sequence, moved: list[int]) -> tuple[list, list]:
    f, chosen = _of_moved(call, primals, moved)
    out, out_tangents = jvp(f, chosen, list(tangents))
    return out, [t for v, t in zip(out, out_tangents, strict=True) if is_inexact(aval_of(v).dtype)]


def _of_moved(call: Call, primals: Sequence, moved: Sequence[int]) -> tuple[Callable, list]:
    """Return the function of the arguments that move, and these."""
    return of_moving(lambda *values: list(call.function(*values)), primals, moved)


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

    params = {"call": Call(call.name, first, (None, context))}
    results = bind(checkpoint_call, primals, params)
    (count,) = counts
    out, kept = results[:count], results[count:]
    live = [i for i, v in enumerate(out) if is_inexact(aval_of(v).dtype)]
    if not live:
        return out, (None,) * count
    vectors = [tangents[i] for i in moved]
    if found[0] is not None and not any(isinstance(p, Tracer) for p in primals):
        pushed = evaluate(found[0], vectors)  # nothing to keep: the tangent is written down as it is
    else:
        outs = tuple([Aval(np.shape(out[i]), aval_of(out[i]).dtype) for i in live])
        again = _derivative(call, moved, live, policy, runs, len(primals))
        pushed = bind(
            linear, (*vectors, *primals, *kept), {"call": again, "outs": outs, "residuals": len(primals) + len(kept)}
        )
    return out, tuple(replaced([None] * count, live, pushed))


def _first_run(call: Call, primals: Sequence, moved: list[int], policy: Callable | None):
    """Run the function; return its values, its tangent's program if that reads nothing, and what the policy keeps.

    The levels are those of the later run, so that both meet the same calls in the same order.
    """
    f, chosen = _of_moved(call, primals, moved)
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
        out = forced([v for v, _ in pairs])
        kept = lazy.kept()
        lazy.first.have_arguments(primals, moved)
    return out, program, lazy.first, kept


class _StepsWithoutResiduals(list):
    """The steps of a program, dropped as soon as one of them reads a value that would have to be kept."""

    __slots__ = ("needed",)

    def __init__(self) -> None:
        super().__init__()
        self.needed = False

    def append(self, step: tuple) -> None:
        """Record a step."""
        if self.needed:
            return
        if any((type(a) is not Variable and np.ndim(a)) or isinstance(a, Tracer) for a in step[1]):
            self.needed = True
            self.clear()
        else:
            super().append(step)


def _derivative(call: Call, moved: list[int], live: list[int], policy, runs: list[FirstRun], n: int) -> LinearCall:
    """Return the linear map that runs the function again; its residuals are the arguments and what was kept."""
    context = call.rules[1]

    def again(known, vectors, through: Callable):
        m = len(known)

        def function(*values):
            return _run_again(call, values[:n], values[n:m], values[m:], moved, live, policy, runs[0], through)

        params = {"call": Call(call.name, function, (None, context))}
        return list(bind(checkpoint_call, (*known, *vectors), params))

    push, pull = functools.partial(again, through=_pushed), functools.partial(again, through=_pulled)
    return LinearCall(call.name, push, pull, signed=True)


def _run_again(call, primals, kept, vectors, moved, live, policy, run: FirstRun, through: Callable) -> list:
    """Run the function a second time, lazily, and push tangents or pull cotangents through it."""
    f, chosen = _of_moved(call, primals, moved)
    this = FirstRun()
    this.have_arguments(primals, moved)
    run = run.beside(this)
    with LazyLevel(f"checkpoint of `{call.name}`", policy, run, kept) as lazy:

        def differentiable(*values):
            out = f(*values)
            return [out[i] for i in live]

        linear_map = through(differentiable, [lazy.given(x) for x in chosen])
        lazy.end_of_function()
        return forced(linear_map(list(vectors)))


def _pushed(f: Callable, primals: list) -> Callable[[list], list]:
    line = linearize(f, *primals)[1]
    return lambda tangents: line(*tangents)


def _pulled(f: Callable, primals: list) -> Callable[[list], list]:
    pull = vjp(f, *primals)[1]
    return lambda cts: pull.apply(cts, seeds="signed")


def _call_batch(size, values, mapped, *, call):
    batched = Call(call.name, mapped_function(call.function, mapped, size), call.rules, call.trees)
    return bind(checkpoint_call, values, {"call": batched})


def _impl(*leaves, call):
    context = call.rules[1]
    if context is None:
        return tuple(call.function(*leaves))
    # A context can be entered once at a time; its copy is as good.
    return tuple(context.copy().run(call.function, *leaves))


def _samples():
    def function(x, y):
        return [np.sin(x) * y, x + y]

    samples = []
    for policy in (None, lambda name, params: name == "sin"):
        call = Call("sample", function, (policy, None), [flatten([0.0, 0.0])[1]])
        samples += [((3,), (3,), {"call": call}), ((), (), {"call": call})]
    return samples


checkpoint_call = Primitive(
    "checkpoint_call",
    impl=_impl,
    abstract_eval=call_shape,
    jvp=_call_jvp,
    batch=_call_batch,
    samples=_samples,
    multiple_results=True,
    reruns=True,
    raises=True,
    kind="custom",
)


# ── values that a function closes over ───────────────────────────────────────────────────────────────────────────


def _captured(f: Callable, seen: frozenset = frozenset()) -> tuple[list, Callable[[list, bool], Callable]]:
    """Find the tensors that a function closes over; return them, and a maker of the function with others in place.

    The maker's second argument says whether what else it closes over is to be what it is now, whatever the names will
    stand for later: the variable of a loop around it, for one.
    """
    if isinstance(f, functools.partial):
        template, arrays = partition((f.args, f.keywords))
        inner, rebuild = _captured(f.func, seen)

        def partial(values, now):
            args, keywords = template.fill(values[: len(arrays)])
            return functools.partial(rebuild(values[len(arrays) :], now), *args, **keywords)

        if inner or any(isinstance(a, Tracer) for a in arrays):
            return [*arrays, *inner], partial
        return [], lambda values, now: functools.partial(rebuild([], True), *f.args, **f.keywords) if now else f
    if isinstance(f, types.MethodType):
        inner, rebuild = _captured(f.__func__, seen)
        return inner, lambda values, now: types.MethodType(rebuild(values, now), f.__self__) if inner or now else f
    if isinstance(f, Transformed):
        inner, rebuild = _captured(f.transform[1][0], seen)
        return inner, lambda values, now: f.of(rebuild(values, now)) if inner or now else f
    if not isinstance(f, types.FunctionType) or f in seen:
        return [], lambda values, now: f
    makers: list[tuple[int, int, Callable]] = []
    tensors: list = []
    written = _written_cells(f.__code__) if f.__closure__ else ()
    for i, cell in enumerate(f.__closure__ or ()):
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if isinstance(content, (types.FunctionType, types.MethodType, functools.partial, Transformed)):
            found, make = _captured(content, seen | {f})
        else:
            template, found = partition(content)
            make = functools.partial(_filled, template, content)
        if any(isinstance(x, Tracer) for x in found):
            makers.append((i, len(found), make))
            tensors += found
        elif f.__code__.co_freevars[i] not in written:
            makers.append((i, 0, make))
    template, found = partition((f.__defaults__, f.__kwdefaults__))
    defaults = template if any(isinstance(x, Tracer) for x in found) else None
    if defaults is not None:
        tensors += found
    if not (tensors or makers):
        return [], lambda values, now: f
    return tensors, functools.partial(_with_cells, f, makers, defaults)


def _filled(template: Template, content: Any, values: list, now: bool) -> Any:
    return template.fill(values) if values else content


@functools.lru_cache(maxsize=1000)
def _written_cells(code: types.CodeType) -> frozenset[str]:
    """Return the names of outer variables that a function, or one in it, assigns to."""
    inner = [_written_cells(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    own = [i.argval for i in dis.get_instructions(code) if i.opname == "STORE_DEREF"]
    return frozenset(own).union(*inner)


def _with_cells(f: types.FunctionType, makers: list, defaults: Template | None, values: list, now: bool) -> Callable:
    """Return the function with other contents in some of its cells."""
    if not (values or now):
        return f
    cells = list(f.__closure__ or ())
    rest = list(values)
    for i, count, make in makers:
        if count or now:
            cells[i] = types.CellType(make(rest[:count], now))
        rest = rest[count:]
    positional, by_name = (f.__defaults__, f.__kwdefaults__) if defaults is None else defaults.fill(rest)
    new = types.FunctionType(f.__code__, f.__globals__, f.__name__, positional, tuple(cells))
    new.__kwdefaults__ = by_name
    return new


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
    >>> import numpy as np
    >>> import dualad as da
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

    def checkpointed(*args, **kwargs):
        if policy is checkpoint_policies.everything_saveable:
            return f(*args, **kwargs)
        tensors, rebuild = _captured(f)
        if not tensors and not has_tensor((args, kwargs)):
            return f(*args, **kwargs)
        for n in static:
            if isinstance(n, bool) or not hasattr(n, "__index__"):
                raise ArgumentTypeError(
                    f"checkpoint of `{name}`: static_argnums holds {n!r}.", "a position is an integer",
                    "write static_argnums=1, or a tuple of them",
                )  # fmt: skip
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
        template, arrays = partition((dynamic, kwargs))
        trees: list = [None]
        again = False

        def function(*values):
            g = rebuild(list(values[len(arrays) :]), again)
            given, keywords = template.fill(values[: len(arrays)])
            given = [args[i] if i in static else a for i, a in enumerate(given)]
            return flat_output(g(*given, **keywords), f"checkpoint of `{name}`", trees)

        call = Call(name, function, (policy, contextvars.copy_context()), trees)
        out = bind(checkpoint_call, (*arrays, *tensors), {"call": call})
        again = True
        return optree.tree_unflatten(trees[0], list(out))

    return Transformed(checkpointed, f, "")
