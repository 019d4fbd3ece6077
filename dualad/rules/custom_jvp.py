"""``custom_jvp``: a user's own forward-mode rule for a user's own function; reverse mode follows by transposition.

A call of such a function is one operator whose parameter is the function with its rule; every level treats it as it
treats any other operator, so that the rule is honoured under every composition. Not for: reverse-mode rules
(``custom_vjp.py``), or rules of NumPy's functions, which are declarations in ``ops/``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..base.signatures import Args, Out
from ..base.tree import NAMESPACE, LeafName, flatten_like, is_array
from ..core.aval import Aval, aval_of, is_inexact
from ..core.dispatch import bind
from ..dual import float0
from ..errors import ArgumentError, DtypeError
from .calls import (
    Call,
    RuledFunction,
    Template,
    call_primitive,
    checked_leaves,
    checked_pair,
    flat_output,
    innermost,
    mapped_function,
    sample_calls,
)

__all__ = ["SymbolicZero", "custom_jvp", "shown_zero"]


class SymbolicZero:
    """A tangent or cotangent that is exactly zero and was never built; given to rules that ask for it.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : numpy.dtype
        Its dtype.

    Examples
    --------
    >>> da.SymbolicZero((2,), np.dtype(float)).instantiate()
    array([0., 0.])
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype

    def instantiate(self) -> np.ndarray:
        """Return it as an array of zeros."""
        return np.zeros(self.shape, self.dtype)[()]

    def __repr__(self) -> str:
        return f"SymbolicZero(shape={self.shape}, dtype={self.dtype})"


def shown_zero(aval: Aval, symbolic: bool) -> Any:
    """Return a tangent or cotangent that is exactly zero as a rule is to see it."""
    dtype = aval.dtype if is_inexact(aval.dtype) else float0
    return SymbolicZero(aval.shape, dtype) if symbolic else np.zeros(aval.shape, dtype)[()]


# ── the operator ─────────────────────────────────────────────────────────────────────────────────────────────────


def _call_jvp(primals, tangents, *, call):
    moved = tuple([i for i, t in enumerate(tangents) if t is not None])
    out = call.rules[0](moved, *primals, *[tangents[i] for i in moved])
    half = len(out) // 2
    return tuple(out[:half]), tuple(out[half:])


def _call_batch(size, values, mapped, *, call):
    rule = call.rules[0]

    def batched_rule(moved, *values):
        # A tangent has the batch axis where its primal has it: both came out of the same Batched tensor.
        flags = [*mapped, *[mapped[i] for i in moved]]
        zero: list[bool] = []

        def lane(*values):
            out = rule(moved, *values)
            zero[:] = [x is None for x in out]
            return [x for x in out if x is not None]

        results = iter(mapped_function(lane, flags, size)(*values))
        return [None if z else next(results) for z in zero]

    function = mapped_function(call.function, mapped, size)
    batched = Call(call.name, function, (batched_rule,), call.trees, innermost(values))
    return bind(custom_jvp_call, values, {"call": batched})


def _sample_rule(moved, x, y, *tangents):
    t = dict(zip(moved, tangents, strict=True))
    s, t = (t[i] if i in t else np.zeros_like(v)[()] for i, v in enumerate((x, y)))
    return [np.sin(x) * y, x + y, np.cos(x) * y * s + np.sin(x) * t, s + t]


_samples = sample_calls(lambda: (_sample_rule,))
custom_jvp_call = call_primitive("custom_jvp_call", jvp=_call_jvp, batch=_call_batch, samples=_samples, given=("jvp",))


# ── the decorator ────────────────────────────────────────────────────────────────────────────────────────────────


class custom_jvp(RuledFunction[Args, Out]):
    """Give a function its own forward-mode rule; reverse mode follows by transposition.

    Parameters
    ----------
    f : callable
        The function, of any trees. Keyword arguments and defaults are resolved to positions before the rule sees
        them. Called with plain arrays, it is called as it is.
    nondiff_argnums : int or tuple of int
        Positions of arguments the rule is given as they are, in front of the others: settings, shapes, functions.
        They must not be traced.

    Raises
    ------
    RuleMissingError
        When it is called and has no rule.
    CapturedTensorError
        When the function or its rule reads a traced value that is not one of its arguments.

    Examples
    --------
    >>> @da.custom_jvp
    ... def log1pexp(x):
    ...     return np.log1p(np.exp(x))
    >>> @log1pexp.defjvp
    ... def log1pexp_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * (1 - 1 / (1 + np.exp(x)))
    >>> float(da.grad(log1pexp)(100.0))
    1.0
    """

    _operator = custom_jvp_call
    _rule, _decides, _define = "rule", "its derivative", "@{}.defjvp"

    def __init__(self, f: Callable[Args, Out], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(f, nondiff_argnums)
        self.rule: Callable | None = None
        self.symbolic_zeros = False

    def defjvp(self, rule: Callable, symbolic_zeros: bool = False) -> Callable:
        """Set the rule: ``rule(primals, tangents) -> (out, tangent_out)``; usable as a decorator.

        Parameters
        ----------
        rule : callable
            Given the tuples of primals and of tangents (zeros where nothing moves, of dtype ``float0`` for integers),
            it returns the value and its tangent. The tangent is linear in the tangents and has the value's structure,
            shapes and dtypes, with ``None`` where it is zero. Arguments of ``nondiff_argnums`` come first; keyword-only
            arguments that a call gives are given by name.
        symbolic_zeros : bool
            Whether tangents that are exactly zero are given as :class:`SymbolicZero`, for a rule that can save work.

        Returns
        -------
        callable
            ``rule`` itself.
        """
        self.check_rule(rule, "defjvp was given", "pass rule(primals, tangents)")
        self.rule, self.symbolic_zeros = rule, symbolic_zeros
        return rule

    def defjvps(self, *rules: Callable | None) -> None:
        """Set the rule argument by argument: ``rules[i](t, out, *primals)`` is what argument ``i`` adds to the tangent.

        Parameters
        ----------
        *rules : callable or None
            One for each argument, in order; ``None`` where the value does not move with it. Each is linear in ``t``.
        """
        for one in rules:
            if one is not None:
                self.check_rule(one, "defjvps was given", "pass one rule(t, out, *primals) for each argument, or None")

        def rule(*given, **by_name):
            *held, primals, tangents = given
            if len(rules) != len(primals):
                raise ArgumentError(
                    f"`{self.__name__}`.defjvps was given {len(rules)} rules; the call has {len(primals)} arguments.",
                    "there is a rule for each argument",
                    "pass None for an argument with which the value does not move",
                )
            out: Any = self(*self.joined(tuple(held), primals), **by_name)
            parts = [
                self.given_names(r, by_name, f"rule {i} of its defjvps")(t, out, *primals)
                for i, (r, t) in enumerate(zip(rules, tangents, strict=True))
                if r is not None
            ]
            return out, functools.reduce(_sum, parts) if parts else None

        self.defjvp(rule)

    def _rules(
        self, held: tuple, others: tuple, by_name: dict, template: Template, arrays: list, trees: list
    ) -> tuple[Callable, ...]:
        user_rule = self.given_names(self.rule, by_name, "its jvp rule")

        def rule(moved, *values):
            n = len(arrays)
            primals = values[:n]
            given = dict(zip(moved, values[n:], strict=True))
            tangents = [
                given[i] if i in given else shown_zero(aval_of(p), self.symbolic_zeros) for i, p in enumerate(primals)
            ]
            pair = user_rule(*held, template.fill(primals), template.fill(tangents))
            return _check_pair(pair, self.__name__, trees)

        return (rule,)


def _sum(a: Any, b: Any) -> Any:
    return optree.tree_map(operator.add, a, b, namespace=NAMESPACE)


def _check_pair(pair, name: str, trees: list) -> list:
    """Check a rule's value and tangent against each other and return both, flat; a zero tangent is ``None``."""
    where = f"the jvp rule of `{name}`"
    checked_pair(pair, where, "(value, tangent)", "end the rule with `return value, tangent`")
    values, tree = flat_output(pair[0], where, trees), trees[0]
    names = [LeafName(pair[0], "the tangent of the value", i) for i in range(len(values))]
    given = flatten_like(tree, pair[1], f"the tangent of {where}", "its value")
    tangents = [None if isinstance(t, SymbolicZero) else t for t in given]
    wanted = [a if is_inexact(a.dtype) else None for a in map(aval_of, values)]
    for v, t, a, path in zip(values, tangents, wanted, names, strict=True):
        if a is None and t is not None and not (is_array(t) and aval_of(t).dtype == float0):
            raise DtypeError(
                f"{where} returned dtype {aval_of(t).dtype} for {path}, whose value has dtype {aval_of(v).dtype}.",
                "integers and booleans have no tangent",
                "return None there (or zeros of dtype dualad.float0)",
            )
    return [*values, *checked_leaves(tangents, wanted, names, where)]
