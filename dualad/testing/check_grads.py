"""`check_grads`: derivatives of any order, in chosen modes, against the oracles one chooses.

Not for whole Jacobians (`gradcheck`) nor for a report of everything (`check_function`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import indent
from typing import Any

import numpy as np

from dualad.errors import ArgumentError
from dualad.jvp import jvp
from dualad.vjp_via_transpose import vjp

from . import differences
from .check import assert_matches_jax
from .engine import Engine, chosen_modes, failure, refuse_unknown
from .estimate import Estimate
from .gradcheck import compare_with_values, warn_of_single_precision
from .gradgradcheck import each_order
from .properties import Properties
from .real_function import as_arguments, join_entries
from .rows import QUANTITIES, check_function
from .taylor import expansion_test

__all__ = ["GRADIENT_ORACLES", "check_grads"]

GRADIENT_ORACLES = ("differences", "complex-step", "taylor", "dot", "jax")

_PRODUCT = {"forward": "jvp", "reverse": "vjp"}


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
        Who is asked: ``"differences"``, central differences with Richardson extrapolation; ``"complex-step"``
        (real code that is complex-analytic); ``"taylor"``, the rate at which the remainder of the expansion
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
    if order < 1 or (order > 2 and "jax" in names):
        raise ArgumentError(
            f"You asked for order {order}{' of the oracle jax' if order > 2 else ''}.",
            "It judges orders 1 and 2." if order > 2 else "The first derivative is the lowest.",
            "Use 'differences', 'complex-step', 'taylor' or 'dot'." if order > 2 else "Write order=1 or more.",
        )
    args = as_arguments(args)
    chosen = chosen_modes(modes)
    tolerances: dict[str, Any] = {name: x for name, x in (("rtol", rtol), ("atol", atol)) if x is not None}
    rng = np.random.default_rng(seed)
    function = Engine(f, args)
    warn_of_single_precision(function)
    with np.errstate(all="ignore"):
        if "jax" in names:
            transforms = [_PRODUCT[mode] for mode in chosen] + ["hvp"] * (order == 2)
            assert_matches_jax(f, args, transforms=transforms, seed=seed, **tolerances)
        if not function.size or not function.out_size:
            return
        if "taylor" in names:
            function = Engine(f, args, double=True)
            for mode in chosen:
                _taylor(function, mode, order, rng)
        for g, point, over in each_order(f, args, order, chosen, rng):
            if "differences" in names:
                compare_with_values(g, point, eps=eps, kinks=kinks, seed=seed, modes=chosen, **tolerances)
            if "dot" in names:
                Properties(Engine(g, point), seed=rng).dot(**tolerances)
            if "complex-step" in names:
                _complex_step(g, point, chosen, len(over) + 1, seed=seed, **tolerances)


def _complex_step(f: Callable, args: tuple, modes: Sequence[str], order: int, **settings: Any) -> None:
    """Ask the complex step about products with random vectors; what it can't judge is not passed."""
    left_out = {q: "not asked for" for q in QUANTITIES if q not in [_PRODUCT[mode] for mode in modes]}
    report = check_function(f, args, oracles=["complex-step"], skip=left_out, **settings)
    if not report.ok:
        raise failure(
            "complex step",
            f"check_grads: a derivative of order {order}: " + "\n".join(report.failures),
            "the imaginary part of f(x + ihv) is h times the derivative",
            "look at the rules on the way; where it could not judge, use 'differences', 'taylor' or 'jax'",
        )


def _taylor(f: Engine, mode: str, order: int, rng: np.random.Generator) -> None:
    """Compare the derivatives along one random direction, up to an order, with the expansion of the values.

    Forward mode gives vectors of R^m; reverse mode a random weighted sum of their entries, as one number.
    """
    if f.spread > 0:
        raise failure("determinism", f"check_grads of `{f.name}`: it returned two values at one point.")
    forward = mode == "forward"
    v, w = rng.standard_normal(f.size) * f.scale, rng.standard_normal(f.out_size)
    tangents, weights = f.ins.split(v), f.outs.split(w)

    def along(g: Callable) -> Callable:
        if forward:
            return lambda *leaves: jvp(g, leaves, tangents)[1]
        slopes = lambda *leaves: zip(vjp(g, *leaves)[1](np.float64(1.0)), tangents, strict=True)
        return lambda *leaves: sum(np.sum(slope * t) for slope, t in slopes(*leaves))

    derivative: Callable = f if forward else lambda *leaves: f.scalar(weights, leaves)
    values: Callable = f.evaluate if forward else lambda x: np.atleast_1d(f.evaluate(x) @ w)
    found = [values(f.x)]
    for _ in range(order):
        derivative = along(derivative)
        value = derivative(*f.point)
        found.append(join_entries(value if forward else [value]))
    table = expansion_test(values, f.x, v, found)
    if table.ok:
        return
    why = f"halving h must divide the remainder to order {order} by {2 ** (order + 1)}"
    sides = differences.derivative(f.evaluate, f.x, v, value=f.flat_value)
    if isinstance(sides, Estimate) and sides.low is not None and (sides.low < sides.high).any():
        why = "the point is at a kink: the one-sided slopes differ, so there is no expansion"
    wrong = next(k for k in range(order + 1) if k == order or not table.reaches(k))
    raise failure(
        "taylor",
        f"check_grads of `{f.name}`: the {mode}-mode derivative of order {max(wrong, 1)} leaves a Taylor"
        f" remainder of a lower power:\n{indent(str(table), '    ')}",
        why,
        "look at the rules on the way, or move the point away from a kink",
    )
