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

from . import differences
from .against_jax import assert_matches_jax
from .describe import refuse_unknown
from .engine import Engine, chosen_modes, failure
from .estimate import Answer, Estimate
from .gradcheck import compare_with_values, warn_of_single_precision
from .gradgradcheck import each_order
from .properties import Properties
from .real_function import joined
from .rows import Entries, Questions, Rows
from .taylor import expansion_test

__all__ = ["GRADIENT_ORACLES", "check_grads"]

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
    f, args, kinks, seed
        As for :func:`gradcheck`.
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
            if name == "jax":
                transforms = [{"forward": "jvp", "reverse": "vjp"}[m] for m in chosen] + ["hvp"] * (order == 2)
                assert_matches_jax(f, args, transforms=transforms, seed=seed, **tolerances)
            elif name in ("taylor", "complex-step"):
                function = Engine(f, args, double=True)
                if function.spread > 0:
                    raise failure("determinism", f"check_grads of `{f!r}`: it returned two values at one point.")
                for mode in chosen if function.size and function.out_size else ():
                    along = _Along(function, mode, order, rng, tolerances)
                    along.taylor() if name == "taylor" else along.complex_step()
            else:
                for g, point, _ in each_order(f, args, order, chosen, rng):
                    if name == "differences":
                        compare_with_values(g, point, **switches)
                    else:
                        Properties(Engine(g, point), seed=rng).dot(**tolerances)


class _Along:
    """Derivatives of one function along random directions, in one mode, for oracles that work along a line."""

    def __init__(self, f: Engine, mode: str, order: int, rng: np.random.Generator, tolerances: dict[str, Any]) -> None:
        self.f, self.mode, self.order = f, mode, order
        self.v, self.u = (rng.standard_normal(f.size) * f.scale for _ in range(2))
        self.w = rng.standard_normal(f.out_size)
        self.rows = Rows(f, rng, **tolerances)

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
        if self.mode == "forward":
            self.settle(1, f.jvp(self.v), lambda oracle: oracle.jvp(self.v), f.outs.label)
        else:
            self.settle(1, f.vjp(self.w), lambda oracle: oracle.vjp(self.w), f.ins.label)
        if self.order == 2:
            got = self.derivatives([self.v, self.u])[2]
            got = np.atleast_1d(got @ self.w) if self.mode == "forward" else got
            self.settle(2, got, lambda oracle: oracle.curvature(self.w, self.v, self.u[None]), lambda k: "uᵀ H v")

    def settle(self, order: int, got: np.ndarray, ask: Callable[[Any], Answer], label: Callable[[int], str]) -> None:
        """Ask the complex step, with differences as a witness that the code is complex-analytic."""
        questions: Questions = {name: partial(lambda make: ask(make()), make) for name, make in self.rows.asked.items()}
        # A sum may cancel: what is small beside its terms is rounding.
        entries = Entries(label, 1e-9 * float(np.abs(got).max(initial=0.0)))
        outcome, *_ = self.rows.judge("complex-step", got, questions, entries)
        if outcome.status == "unavailable":
            raise failure(
                "complex step",
                f"check_grads of `{self.f.name}`: the complex step could not judge: {outcome.reason}.",
                "what nobody judged is not passed",
                "choose another oracle: 'differences', 'taylor' or 'jax'",
            )
        if (bad := outcome.mismatch) is not None:
            raise failure(
                "complex step",
                f"check_grads of `{self.f.name}`: the {self.mode}-mode derivative of order {order} with random vectors,"
                f" at {bad.entry}, is {bad.got:.10g}; the complex step has {bad.expected:.10g} ± {bad.tolerance:.2g}.",
                "the imaginary part of f(x + ihv) is h times the derivative",
                "look at the rules on the way",
                analytical=got,
                numerical=getattr(questions["complex-step"](), "value", None),
            )


def _push(f: Callable, tangents: tuple) -> Callable:
    return lambda *leaves: jvp(f, leaves, tangents)[1]


def _pull(f: Callable, tangents: tuple) -> Callable:
    def along(*leaves: Any) -> Any:
        gradient = vjp(f, *leaves)[1](np.float64(1.0))
        return sum(np.sum(g * t) for g, t in zip(gradient, tangents, strict=True))

    return along
