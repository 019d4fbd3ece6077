"""`check_grads`: derivatives of any order, in chosen modes, against the oracles one chooses.

Not for whole Jacobians (`gradcheck`) nor for a report of everything (`check_function`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from textwrap import indent
from typing import Any

import numpy as np

from dualad.errors import ArgumentError
from dualad.jvp import jvp
from dualad.vjp_via_transpose import vjp

from . import complex_step, differences
from .against_jax import assert_matches_jax
from .describe import refuse_unknown
from .engine import SINGLE, Engine, chosen_modes, failure
from .estimate import Estimate, Unavailable, compare
from .gradcheck import compare_with_values, warn_of_single_precision
from .gradgradcheck import first_derivative
from .real_function import joined
from .taylor import expansion_test

__all__ = ["GRADIENT_ORACLES", "check_dot_product", "check_grads"]

GRADIENT_ORACLES = ("differences", "complex-step", "taylor", "dot", "jax")


def check_grads(
    f: Callable,
    args: Any,
    order: int = 2,
    modes: str | Sequence[str] = ("forward", "reverse"),
    oracle: str | Sequence[str] = "differences",
    *,
    eps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    kinks: str = "refuse",
    seed: int = 0,
) -> None:
    """Check a function's derivatives along random directions, up to an order, in every composition of the modes.

    Parameters
    ----------
    f : callable
        A function of trees of arrays, in plain NumPy.
    args : tuple or list, or one array
        Its positional arguments.
    order : int
        The highest derivative to check. With both modes, order 2 is forward and reverse over each of them.
    modes : str or sequence of str
        ``"forward"`` and ``"reverse"`` (or ``"fwd"`` and ``"rev"``).
    oracle : str or sequence of str
        Who is asked: ``"differences"``, central differences with Richardson extrapolation; ``"complex-step"`` (order 1
        and 2, real code that is complex-analytic); ``"taylor"``, the rate at which the remainder of the expansion
        shrinks; ``"dot"``, ⟨Jv, u⟩ = ⟨v, Jᵀu⟩, which needs no values; ``"jax"`` (order 1 and 2).
    eps : float, optional
        For ``"differences"``: a fixed step, relative to the size of each input.
    rtol, atol : float, optional
        Allowed relative and absolute error; the defaults are each oracle's own.
    kinks : str
        For ``"differences"``: ``"refuse"`` or ``"accept"``, as for :func:`gradcheck`.
    seed : int
        For random directions.

    Raises
    ------
    GradcheckError
        An AssertionError and a RuntimeError: a derivative is wrong, or the oracle can't judge it, and which.
    CheckError
        An AssertionError: JAX disagrees.
    ArgumentError
        For an oracle of unknown name, or an order that it does not reach.
    UsageError
        A ValueError: no argument has a floating-point leaf.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import check_grads
    >>> check_grads(lambda x, y: np.sin(x) * y, (np.array([0.3, 1.2]), 2.0), order=2)
    >>> check_grads(np.exp, (0.5,), order=3, oracle=["taylor", "dot"])
    """
    names = [oracle] if isinstance(oracle, str) else list(oracle)
    refuse_unknown("oracle", names or ["(none)"], GRADIENT_ORACLES)
    far = [name for name in names if order > 2 and name in ("complex-step", "jax")]
    if order < 1 or far:
        raise ArgumentError(
            f"You asked for order {order}{f' of the oracle {far[0]!r}' if far else ''}.",
            "It judges orders 1 and 2." if far else "The first derivative is the lowest.",
            "Use 'differences', 'taylor' or 'dot'." if far else "Write order=1 or more.",
        )
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    chosen = chosen_modes(modes)
    tolerances: dict[str, Any] = {name: x for name, x in (("rtol", rtol), ("atol", atol)) if x is not None}
    rng = np.random.default_rng(seed)
    switches = {"eps": eps, "kinks": kinks, "seed": seed, "modes": chosen, **tolerances}
    warn_of_single_precision(Engine(f, args))
    with np.errstate(all="ignore"):
        for name in names:
            if name == "differences":
                _each_order(partial(compare_with_values, **switches), f, args, order, chosen, rng)
            elif name == "dot":
                _each_order(partial(check_dot_product, rng=rng, **tolerances), f, args, order, chosen, rng)
            elif name == "jax":
                firsts = {"forward": "jvp", "reverse": "vjp"}
                seconds = ["hvp"] if order == 2 else []
                assert_matches_jax(f, args, transforms=[firsts[m] for m in chosen] + seconds, seed=seed, **tolerances)
            else:
                function = Engine(f, args, double=True)
                if function.spread > 0:
                    raise failure("determinism", f"check_grads of `{f!r}`: it returned two values at one point.")
                for mode in chosen if function.size and function.out_size else ():
                    along = _Along(function, mode, order, rng, tolerances)
                    if name == "taylor":
                        along.taylor()
                    else:
                        along.complex_step()


def check_dot_product(
    f: Callable, args: tuple, rng: np.random.Generator, *, rtol: float = 1e-9, atol: float = 1e-300
) -> None:
    """Check that forward and reverse mode agree: ⟨Jv, u⟩ = ⟨v, Jᵀu⟩ for random v and u, array by array.

    The relative error is one of the terms of the sums, in single precision at least 1e-3. A GradcheckError names the
    output and the input for which the modes disagree.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing.check_grads import check_dot_product
    >>> check_dot_product(lambda x: np.cumsum(x**2), (np.ones(3),), np.random.default_rng(0))
    """
    function = Engine(f, args)
    if not function.size or not function.out_size:
        return
    function.learn()
    rtol = max(rtol, SINGLE) if function.single else rtol
    in_groups, out_groups = function.ins.groups(), function.outs.groups()
    v, u = rng.standard_normal(function.size) * function.scale, rng.standard_normal(function.out_size)
    pulled = {g: function.vjp(np.where(out_groups == g, u, 0.0)) for g in np.unique(out_groups)}
    for i in np.unique(in_groups):
        direction = np.where(in_groups == i, v, 0.0)
        pushed = function.jvp(direction)
        for o, back in pulled.items():
            left, right = (u * pushed)[out_groups == o], back * direction
            size = float(np.abs(left).sum() + np.abs(right).sum())
            if not abs(left.sum() - right.sum()) <= rtol * size + atol:
                output, _ = function.outs.leaf_of(int(np.argmax(out_groups == o)))
                number, _ = function.ins.leaf_of(int(np.argmax(in_groups == i)))
                raise failure(
                    "dot product",
                    f"forward and reverse mode of `{function.name}` disagree in output {output} with respect to"
                    f" input {number} ({function.ins.names[i]}): ⟨Jv, u⟩ is {left.sum():.12g}, ⟨v, Jᵀu⟩ is"
                    f" {right.sum():.12g}.",
                    "the two are one number, worked out from its two ends",
                    "look for a rule whose forward and reverse part were written separately (linear_call, wrap, a"
                    " linear solve), or whose tangent is not linear",
                    output=output,
                    input=number,
                )


# ── the oracles ──────────────────────────────────────────────────────────────────────────────────────────────────


def _each_order(
    check: Callable, f: Callable, args: tuple, order: int, modes: Sequence[str], rng: np.random.Generator
) -> None:
    """Check a function, then its derivatives as functions of point and vectors, in every composition of the modes."""
    check(f, args)
    if order > 1:
        for mode in modes:
            found = first_derivative(f, args, mode, rng)
            if found is not None:
                _each_order(check, *found, order - 1, modes, rng)


class _Along:
    """Derivatives of one function along random directions, in one mode, for oracles that work along a line."""

    def __init__(
        self, function: Engine, mode: str, order: int, rng: np.random.Generator, tolerances: dict[str, float]
    ) -> None:
        self.f, self.mode, self.order = function, mode, order
        self.rtol, self.atol = tolerances.get("rtol", 1e-7), tolerances.get("atol", 1e-12)
        self.v, self.u = (rng.standard_normal(function.size) * function.scale for _ in range(2))
        self.w = rng.standard_normal(function.out_size)

    def derivatives(self, directions: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the value and its derivatives along the first, the first two, … directions.

        Forward mode gives vectors of R^m; reverse mode the sum weighted with w, as one number each.
        """
        f = self.f
        found = [f.flat_value if self.mode == "forward" else np.atleast_1d(f.flat_value @ self.w)]
        weights = f.outs.split(self.w)
        current: Callable = f if self.mode == "forward" else lambda *leaves: f.scalar(weights, leaves)
        for v in directions:
            current = _push(current, f.ins.split(v)) if self.mode == "forward" else _pull(current, f.ins.split(v))
            value = current(*f.point)
            found.append(joined(value) if self.mode == "forward" else np.atleast_1d(np.asarray(value, np.float64)))
        return found

    def taylor(self) -> None:
        f = self.f
        if self.mode == "forward":
            values: Callable = f.evaluate
        else:
            values = lambda x: np.atleast_1d(f.evaluate(x) @ self.w)
        table = expansion_test(values, f.x, self.v, self.derivatives([self.v] * self.order))
        if table.ok:
            return
        why = f"halving h must divide the remainder to order {self.order} by {2 ** (self.order + 1)}"
        sides = differences.derivative(f.evaluate, f.x, self.v, value=f.flat_value)
        if isinstance(sides, Estimate) and sides.low is not None and (sides.low < sides.high).any():
            why = "the point is at a kink: the one-sided slopes differ, so there is no expansion"
        wrong = next(k for k in range(self.order + 1) if k == self.order or not table.reaches(k))
        raise failure(
            "taylor",
            f"check_grads of `{self.f.name}`: the {self.mode}-mode derivative of order {max(wrong, 1)} leaves a Taylor"
            f" remainder of a lower power:\n{indent(str(table), '    ')}",
            why,
            "look at the rules on the way, or move the point away from a kink",
        )

    def complex_step(self) -> None:
        f = self.f
        if f.has_complex:
            self.cannot("the function itself takes or returns complex numbers")
        got = self.f.jvp(self.v) if self.mode == "forward" else np.atleast_1d(self.f.vjp(self.w) @ self.v)
        answer = complex_step.derivative(f.evaluate, f.x, self.v)
        other = differences.derivative(f.evaluate, f.x, self.v, value=f.flat_value)
        self.compare(1, got, self.in_mode(answer), self.in_mode(other))
        if self.order == 1:
            return
        weights = f.outs.split(self.w)
        scalar = lambda x: f.scalar(weights, f.ins.split(x))
        got = self.derivatives([self.v, self.u])[2]
        got = np.atleast_1d(got @ self.w) if self.mode == "forward" else got
        answer = complex_step.second_derivative(scalar, f.x, self.v, self.u[None])
        other = differences.second_derivative(scalar, f.x, self.v, self.u[None])
        self.compare(2, got, answer, other)

    def in_mode(self, answer: Estimate | Unavailable) -> Estimate | Unavailable:
        if isinstance(answer, Unavailable) or self.mode == "forward":
            return answer
        error = None if answer.error is None else np.atleast_1d(np.abs(self.w) @ answer.error)
        return Estimate(np.atleast_1d(answer.value @ self.w), error)

    def compare(
        self, order: int, got: np.ndarray, answer: Estimate | Unavailable, other: Estimate | Unavailable
    ) -> None:
        if isinstance(answer, Unavailable):
            self.cannot(answer.reason)
            return
        # A sum may cancel: what is small beside its terms is rounding.
        floor = 1e-9 * float(np.abs(answer.value).max(initial=0.0))
        outcome = compare(got, answer, rtol=self.rtol, atol=self.atol, floor=floor)
        if outcome.worst is None:
            return
        if isinstance(other, Unavailable):
            self.cannot(f"it disagrees, but nothing shows that the code is complex-analytic: {other.reason}")
            return
        if compare(answer.value, other, rtol=1e-5, atol=self.atol, floor=floor).worst is not None:
            self.cannot("the code is not complex-analytic (abs, conj, .real, a comparison): differences say otherwise")
        raise failure(
            "complex step",
            f"check_grads of `{self.f.name}`: the {self.mode}-mode derivative of order {order} along a random direction"
            f" is {outcome.got:.10g}; the complex step has {outcome.expected:.10g} ± {outcome.tolerance:.2g}.",
            "the imaginary part of f(x + ihv) is h times the derivative",
            "look at the rules on the way",
            analytical=got,
            numerical=answer.value,
        )

    def cannot(self, reason: str) -> None:
        raise failure(
            "complex step",
            f"check_grads of `{self.f.name}`: the complex step could not judge: {reason}.",
            "what nobody judged is not passed",
            "choose another oracle: 'differences', 'taylor' or 'jax'",
        )


def _push(f: Callable, tangents: tuple) -> Callable:
    return lambda *leaves: jvp(f, leaves, tangents)[1]


def _pull(f: Callable, tangents: tuple) -> Callable:
    def along(*leaves: Any) -> Any:
        gradient = vjp(f, *leaves)[1](np.float64(1.0))
        return sum(np.sum(g * t) for g, t in zip(gradient, tangents, strict=True))

    return along
