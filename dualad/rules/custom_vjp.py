"""``custom_vjp``: a user's own reverse-mode rule; forward mode follows by transposing the pullback.

fwd(x) = (y, r) and bwd(r, c) = Aᵀc, where A = ∂f(x). The tangent is A t, and A is the transpose of the linear map
c ↦ bwd(r, c): one rule serves both modes. As an operator the tangent is a linear call whose transpose is the user's
rule itself, so reverse mode never transposes twice. Also here: ``once_differentiable``. Not for: ``custom_jvp``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..base.arguments import check_callable, replace_at
from ..base.signatures import Args, Out
from ..base.tree import LeafName, flatten, flatten_like
from ..core.aval import Aval, aval_of, is_inexact
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..dual import float0
from ..errors import DualadError, TreeError
from ..ops.kinds import in_lanes
from ..vjp_via_transpose import linear_transpose
from .calls import (
    Call,
    RuledFunction,
    Template,
    accepted_names,
    call_primitive,
    checked_leaves,
    checked_pair,
    flat_output,
    has_tensor,
    innermost,
    map_lanes,
    map_linear,
    mapped_function,
    partition,
    sample_calls,
)
from .custom_jvp import SymbolicZero, shown_zero
from .linear_call import LinearCall, linear, linear_tangents

__all__ = ["ForwardArgument", "custom_vjp", "once_differentiable"]


_ARRAYS = (np.ndarray, np.generic, Tracer)


class ForwardArgument:
    """An array argument as the fwd rule of a ``symbolic_zeros=True`` function sees it.

    Parameters
    ----------
    value : array
        The argument.
    perturbed : bool
        Whether a derivative in it is being taken.
    """

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed

    def __repr__(self) -> str:
        return f"ForwardArgument({self.value!r}, perturbed={self.perturbed})"


class _Found:
    """The structures for bwd that a run of fwd at one point has shown; ``mapped`` is for batched calls."""

    __slots__ = ("count", "mapped", "out", "outs", "residuals")

    def __init__(self) -> None:
        self.count = 0
        self.out: optree.PyTreeSpec | None = None
        self.outs: list[Aval] = []
        self.residuals: Template | None = None
        self.mapped: dict[Callable, list[bool]] = {}


# ── the operator ─────────────────────────────────────────────────────────────────────────────────────────────────
#
# rules = (forward, backward):
#   forward(found, moved, *arguments)  -> [*results, *residuals]
#   backward(found, residuals, cts)    -> cotangents of the arguments; cts may be None (exactly zero)


def _call_jvp(primals, tangents, *, call):
    forward, backward = call.rules
    moved = tuple([i for i, t in enumerate(tangents) if t is not None])
    found = _Found()
    results = forward(found, moved, *primals)
    out, residuals = results[: found.count], results[found.count :]

    def derivative(live, outs):
        def pull(known, cts):
            given = backward(found, known, replace_at([None] * len(out), live, cts))
            return [given[i] for i in moved]

        def push(known, vectors):
            return _transposed_pullback(pull, known, vectors, outs, call.name)

        return LinearCall(call.name, push, pull, sparse=True)

    return tuple(out), linear_tangents(out, derivative, [tangents[i] for i in moved], residuals)


def _transposed_pullback(pull: Callable, known: Sequence, vectors: Sequence, outs: Sequence[Aval], name: str) -> list:
    """Push vectors forward through the transpose of a user's pullback."""
    try:
        transposed = linear_transpose(
            lambda *cts: pull(known, list(cts)), *[np.broadcast_to(np.zeros((), a.dtype), a.shape) for a in outs]
        )
        return list(transposed([v.astype(a.dtype) for v, a in zip(vectors, transposed.out_avals, strict=True)]))
    except DualadError as error:
        raise type(error)(
            f"the custom_vjp function `{name}` was differentiated in forward mode (jvp, jacfwd, hessian), which is"
            f" derived from its bwd rule by transposing it, and that failed:\n    {error.what}",
            error.why,
            "write bwd as a linear function of its cotangent in plain NumPy, use reverse mode (vjp, grad, jacrev), or"
            f" give the function a custom_jvp rule\n    ({error.instead})",
        ) from error


def _call_batch(size, values, mapped, *, call):
    forward, backward = call.rules

    def batched_forward(found, moved, *values):
        results, own = map_lanes(functools.partial(forward, found, moved), values, mapped, size)
        n = found.count
        found.mapped[batched_forward] = own[n:]
        return [*in_lanes(results[:n], own[:n], size), *results[n:]]

    def batched_backward(found, known, cts):
        pull = map_linear(functools.partial(backward, found), found.mapped[batched_forward], size)
        back = pull(known, cts)
        # An argument shared by all lanes receives the sum of what they send back.
        return [c if m else c.sum(0) for c, m in zip(back, mapped, strict=True)]

    function = mapped_function(call.function, mapped, size)
    rules = (batched_forward, batched_backward)
    batched = Call(call.name, function, rules, call.trees, innermost(values))
    return bind(custom_vjp_call, values, {"call": batched})


def _sample_forward(found, moved, x, y):
    found.count = 2
    return [np.sin(x) * y, x + y, x, y]


def _sample_backward(found, known, cts):
    x, y = known
    c, d = [np.zeros_like(x) if c is None else c for c in cts]
    return [np.cos(x) * y * c + d, np.sin(x) * c + d]


_samples = sample_calls(lambda: (_sample_forward, _sample_backward))
custom_vjp_call = call_primitive(
    "custom_vjp_call", jvp=_call_jvp, batch=_call_batch, samples=_samples, given=("transpose",)
)


# ── the decorator ────────────────────────────────────────────────────────────────────────────────────────────────


class custom_vjp(RuledFunction[Args, Out]):
    """Give a function its own reverse-mode rule; forward mode follows by transposing the pullback.

    Parameters
    ----------
    f : callable
        The function, of any trees. Keyword arguments and defaults are resolved to positions before the rule sees
        them. Called with plain arrays, it is called as it is.
    nondiff_argnums : int or tuple of int
        Positions of arguments that ``bwd`` is given as they are, in front of the residuals: settings, shapes,
        functions. They must not be traced.

    Raises
    ------
    RuleMissingError
        When it is called and has no rule.
    CapturedTensorError
        When the function or its rule reads a traced value that is not one of its arguments.

    Examples
    --------
    >>> @da.custom_vjp
    ... def clipped(x):
    ...     return x * 1.0
    >>> clipped.defvjp(lambda x: (clipped(x), None), lambda residuals, ct: (np.clip(ct, -1.0, 1.0),))
    >>> float(da.grad(lambda x: 10.0 * clipped(x))(2.0))
    1.0
    """

    _operator = custom_vjp_call
    _rule, _decides, _define = "bwd", "its derivative", "{}.defvjp(fwd, bwd)"

    def __init__(self, f: Callable[Args, Out], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(f, nondiff_argnums)
        self.fwd: Callable | None = None
        self.bwd: Callable | None = None
        self.symbolic_zeros = False

    def defvjp(self, fwd: Callable, bwd: Callable, symbolic_zeros: bool = False) -> None:
        """Set the rule.

        Parameters
        ----------
        fwd : callable
            ``fwd(*args) -> (out, residuals)``: the value, and a tree of whatever ``bwd`` needs. Keyword-only arguments
            that a call gives it is given by name, and so is ``bwd`` if it has parameters for them.
        bwd : callable
            ``bwd(residuals, ct) -> cotangents``: a tuple with one cotangent per argument (``None`` for zero). Arguments
            of ``nondiff_argnums`` come first, and have no cotangent. Where ``ct`` has leaves for integers they are
            zeros of dtype ``float0``.
        symbolic_zeros : bool
            Whether ``bwd`` is given a :class:`SymbolicZero` for a cotangent that is exactly zero, in place of zeros;
            ``fwd`` then gets every array as an object with the attributes ``value`` and ``perturbed``.
        """
        for rule, name in ((fwd, "fwd"), (bwd, "bwd")):
            self.check_rule(
                rule, f"defvjp: {name} is", "pass fwd(*args) -> (out, residuals) and bwd(residuals, ct) -> cotangents"
            )
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros

    def _rules(
        self, held: tuple, others: tuple, by_name: dict, template: Template, arrays: list, trees: list
    ) -> tuple[Callable, ...]:
        avals = [aval_of(x) for x in arrays]
        fwd = self.given_names(self.fwd, by_name, "its fwd rule")
        # What bwd does not ask for it has from fwd, among the residuals.
        bwd = functools.partial(self.bwd, **{n: by_name[n] for n in accepted_names(self.bwd, by_name)})

        def forward(found, moved, *values):
            if self.symbolic_zeros:
                values = [ForwardArgument(v, i in moved) for i, v in enumerate(values)]
            pair = fwd(*self.joined(held, template.fill(values)))
            checked_pair(
                pair, f"the fwd rule of `{self.__name__}`", "(value, residuals)",
                "end it with `return value, residuals` (None if nothing is needed)",
            )  # fmt: skip
            out = flat_output(pair[0], f"the fwd rule of `{self.__name__}`", trees)
            found.count, found.out = len(out), trees[0]
            found.residuals, residuals = partition(pair[1])
            found.outs = [aval_of(x) for x in out]
            return [*out, *residuals]

        def backward(found, known, cts):
            full = [
                shown_zero(a, self.symbolic_zeros) if c is None else c for c, a in zip(cts, found.outs, strict=True)
            ]
            given = bwd(*held, found.residuals.fill(known), optree.tree_unflatten(found.out, full))
            return self._cotangents(given, others, template, avals)

        return forward, backward

    def _cotangents(self, given, others: tuple, template: Template, avals: list) -> list:
        """Check what ``bwd`` returned and return one cotangent per array argument, zeros for ``None``."""
        if type(given) is tuple and len(given) == len(others) == len(avals):
            # Arrays in, arrays of their shapes and dtypes out: nothing to take apart.
            ready = [
                isinstance(x, _ARRAYS) and isinstance(y, _ARRAYS) and y.dtype == a.dtype and y.shape == a.shape
                and a.dtype.kind in "fc"
                for x, y, a in zip(others, given, avals, strict=True)
            ]  # fmt: skip
            if all(ready):
                return list(given)
        where = f"the bwd rule of `{self.__name__}`"
        given = tuple(given) if type(given) is list and len(given) == len(others) else given
        if not isinstance(given, tuple) or len(given) != len(others):
            returned = f"{len(given)} values" if isinstance(given, tuple) else f"a {type(given).__name__}"
            raise TreeError(
                f"{where} returned {returned} for {len(others)} arguments.",
                "it returns a tuple with one cotangent per argument of the function"
                + (", those of nondiff_argnums left out" if self.nondiff_argnums else ""),
                "write `return (ct_x,)` for one argument, with None in place of a cotangent that is zero",
            )
        spread: list = []
        for x, g in zip(others, given, strict=True):
            leaves, tree = flatten(x)
            if g is None:
                spread += [None] * len(leaves)
            else:
                spread += flatten_like(tree, g, f"a cotangent of {where}", "its argument")
        cts = [None if isinstance(spread[i], SymbolicZero) else spread[i] for i in template.arrays]
        names = [LeafName(others, "the arguments", i) for i in template.arrays]
        checked = checked_leaves(cts, [a if is_inexact(a.dtype) else None for a in avals], names, where)
        return [np.zeros(a.shape, a.dtype)[()] if c is None else c for c, a in zip(checked, avals, strict=True)]


# ── once_differentiable ──────────────────────────────────────────────────────────────────────────────────────────


def once_differentiable(rule: Callable) -> Callable:
    """Declare that a bwd rule must not be differentiated: a second derivative is an error, never silently wrong.

    Parameters
    ----------
    rule : callable
        ``bwd(residuals, ct)``, with the arguments of ``nondiff_argnums`` in front where there are any.

    Returns
    -------
    callable
        A rule of the same arguments. It may be mapped, traced and transposed, but not differentiated.

    Raises
    ------
    RuleMissingError
        When a derivative of the rule is asked for.

    Examples
    --------
    >>> @da.custom_vjp
    ... def square(x):
    ...     return x * x
    >>> square.defvjp(lambda x: (square(x), x), da.once_differentiable(lambda x, ct: (2 * x * ct,)))
    >>> float(da.grad(square)(3.0))
    6.0
    """
    check_callable(rule, "once_differentiable", "rule")
    name = getattr(rule, "__name__", type(rule).__name__)

    @functools.wraps(rule)
    def once(*args):
        if not has_tensor(args):
            return rule(*args)
        known, known_arrays = partition(args[:-1])
        moved, moved_arrays = partition(args[-1])
        # float0 cotangents, of integer results, are constants.
        static = [x if aval_of(x).dtype == float0 else None for x in moved_arrays]
        places: list = [None]

        def forward(residuals, vectors):
            rest = iter(vectors)
            cts = [next(rest) if s is None else s for s in static]
            places[0], out = partition(rule(*known.fill(residuals), moved.fill(cts)))
            return out

        def backward(residuals, cts):
            examples = [np.broadcast_to(np.zeros((), x.dtype), np.shape(x)) for x in vectors]
            return list(linear_transpose(lambda *v: forward(residuals, list(v)), *examples)(list(cts)))

        call = LinearCall(name, forward, backward, opaque=True, once=True)
        vectors = [x for x, s in zip(moved_arrays, static, strict=True) if s is None]
        out = bind(linear, (*vectors, *known_arrays), {"call": call, "outs": None, "residuals": len(known_arrays)})
        return places[0].fill(list(out))

    return once
