"""``custom_vmap``: a user's own batching rule for a user's own function.

The derivatives of such a function are those of its body; where a derivative is mapped, the derivative of the rule is
what runs, so that the rule is honoured in ``vmap(grad(f))`` as in ``grad(vmap(f))``. Not for: rules of derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..base.signatures import Args, Out
from ..base.tree import flatten_prefix
from ..core.axes import unavailable
from ..core.dispatch import bind
from ..errors import ShapeError, TreeError
from ..jvp import jvp
from ..ops.kinds import repeat_lanes
from ..vjp_via_transpose import vjp
from .calls import (
    Call,
    RuledFunction,
    Template,
    call_primitive,
    checked_pair,
    flat_output,
    innermost,
    mapped_function,
    of_moving,
)
from .linear_call import LinearCall, linear_tangents

__all__ = ["custom_vmap"]


# ── the operator; rules = (rule,): rule(size, mapped, *values) -> values, all with a leading axis ────────────────


def _call_jvp(primals, tangents, *, call):
    out = bind(custom_vmap_call, primals, {"call": call})
    moved = [i for i, t in enumerate(tangents) if t is not None]
    derivative = lambda live, outs: _derivative(call, moved, live)
    return out, linear_tangents(out, derivative, [tangents[i] for i in moved], primals)


def _derivative(call: Call, moved: Sequence[int], live: Sequence[int]) -> LinearCall:
    """Return the function's derivative as a linear map whose residuals are the primals."""

    def function(*values):
        out = call.function(*values)
        return [out[i] for i in live]

    def push(primals, tangents):
        f, chosen = of_moving(function, primals, moved)
        return jvp(f, chosen, tangents)[1]

    def pull(primals, cts):
        f, chosen = of_moving(function, primals, moved)
        return list(vjp(f, *chosen)[1](list(cts)))

    derivative = LinearCall(call.name, push, pull)

    def batcher(size, mapped):
        if not any(mapped):  # one point for all lanes: the function itself is not batched, only its derivative
            return LinearCall(call.name, push, pull).batched(size, mapped)
        # The tangents are mapped, so a point that is not is given to all lanes: the rule sees it as mapped.
        flags = [m or i in moved for i, m in enumerate(mapped)]

        def spread(primals):
            return [repeat_lanes(p, size) if f and not m else p for p, m, f in zip(primals, mapped, flags, strict=True)]

        whole = _derivative(_batched(call, size, flags), moved, live)
        return LinearCall(
            call.name,
            lambda primals, tangents: whole.forward(spread(primals), tangents),
            lambda primals, cts: whole.backward(spread(primals), cts),
        )

    derivative.batcher = batcher
    return derivative


def _batched(call: Call, size: int, mapped: Sequence[bool]) -> Call:
    """Return the call over lanes: its function is the rule, and is mapped again as any function is."""

    def function(*values):
        with unavailable(size, call.name):
            return list(call.rules[0](size, mapped, *values))

    def rule(outer, outer_mapped, *values):
        return list(mapped_function(function, outer_mapped, outer)(*values))

    return Call(call.name, function, (rule,), call.trees)


def _call_batch(size, values, mapped, *, call):
    batched = _batched(call, size, mapped)
    batched.inner = innermost(values)
    return bind(custom_vmap_call, values, {"call": batched})


def _samples():
    def function(x, y):
        return [np.sin(x) * y]

    def rule(size, mapped, x, y):
        return [np.sin(x) * y]

    call = Call("sample", function, (rule,))
    return [((3,), (3,), {"call": call}), ((2, 2), (2, 2), {"call": call})]


custom_vmap_call = call_primitive(
    "custom_vmap_call", jvp=_call_jvp, batch=_call_batch, samples=_samples, given=("batch",)
)


# ── the decorator ────────────────────────────────────────────────────────────────────────────────────────────────


class custom_vmap(RuledFunction[Args, Out]):
    """Give a function its own rule for ``vmap``.

    Parameters
    ----------
    f : callable
        The function of one example, of any trees. Keyword arguments and defaults are resolved to positions.

    Raises
    ------
    RuleMissingError
        When it is called and has no rule.

    Examples
    --------
    >>> @da.custom_vmap
    ... def total(x):
    ...     return np.sum(x)
    >>> @total.def_vmap
    ... def total_rule(axis_size, in_batched, x):
    ...     return np.sum(x, axis=1), True
    >>> da.vmap(total)(np.ones((2, 3)))
    array([3., 3.])
    """

    _operator = custom_vmap_call
    _rule, _decides, _define = "rule", "how it is batched", "@{}.def_vmap"

    def __init__(self, f: Callable[Args, Out]) -> None:
        super().__init__(f)
        self.rule: Callable | None = None

    def def_vmap(self, rule: Callable) -> Callable:
        """Set the rule; usable as a decorator.

        Parameters
        ----------
        rule : callable
            ``rule(axis_size, in_batched, *args) -> (out, out_batched)``. ``in_batched`` is a list with one tree of
            bools per argument: which of its arrays have the batch axis, in front. ``out_batched`` says the same of the
            result: a bool, or a tree of them with (the outer part of) its structure.

        Returns
        -------
        callable
            ``rule`` itself.
        """
        self.check_rule(rule, "def_vmap was given", "pass rule(axis_size, in_batched, *args) -> (out, out_batched)")
        self.rule = rule
        return rule

    def _rules(
        self, held: tuple, others: tuple, by_name: dict, template: Template, arrays: list, trees: list
    ) -> tuple[Callable, ...]:
        user_rule = self.given_names(self.rule, by_name, "its vmap rule")

        def rule(size, mapped, *values):
            given = user_rule(size, list(template.fill(mapped)), *template.fill(values))
            return _check(given, size, self.__name__, trees)

        return (rule,)


def _check(given, size: int, name: str, trees: list) -> list:
    """Check what a rule returned and return its results, all with the batch axis."""
    where = f"the vmap rule of `{name}`"
    checked_pair(
        given, where, "(out, out_batched)",
        "end it with `return out, True` (or a tree of bools, False for what is the same in all lanes)",
    )  # fmt: skip
    leaves = flat_output(given[0], where, trees)
    flags = flatten_prefix(given[1], trees[0], f"out_batched of {where}", "its result", lambda x: isinstance(x, bool))
    out = []
    for i, (x, m) in enumerate(zip(leaves, flags, strict=True)):
        if not isinstance(m, bool):
            raise TreeError(
                f"{where} returned {m!r} in out_batched.", "it says whether a result has the batch axis", "return bools"
            )
        shape = np.shape(x)
        if m and shape[:1] != (size,):
            raise ShapeError(
                f"{where} returned result {i} of shape {shape} and says that it is batched.",
                f"the batch axis is the leading one, of size {size}",
                "move it to the front, or return False for it in out_batched",
            )
        out.append(x if m else repeat_lanes(x, size))
    return out
