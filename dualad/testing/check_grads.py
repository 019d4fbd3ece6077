"""`check_grads`: derivatives of any order, in chosen modes, against the oracles one chooses.

Among them is the Taylor remainder test: f(x + hv) minus its expansion must shrink like the first power that was left
out. With derivatives up to order k the remainder is O(h^(k+1)); one wrong derivative leaves a lower power, which shows
in the rate at which halving h makes it smaller. Not for whole Jacobians (`gradcheck`) nor for a report of everything
(`check`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import numpy as np

from dualad.errors import ArgumentError
from dualad.jvp import jvp
from dualad.vjp_via_transpose import vjp

from . import differences
from .check import assert_matches_jax
from .engine import Engine, as_arguments, chosen_modes, failure, join_entries, refuse_unknown
from .estimate import Estimate, Unavailable, value_at
from .gradcheck import compare_with_values, each_order, warn_of_single_precision
from .laws import Properties
from .rows import QUANTITIES, check_function

__all__ = ["GRADIENT_ORACLES", "Remainders", "check_grads", "expansion_test"]

_EPS = float(np.finfo(np.float64).eps)
_FIRST_STEP = 0.0437
_LEVELS = 13
_CLEAR = 30.0  # times the rounding: the least that counts as a remainder

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
    >>> da.testing.check_grads(lambda x, y: np.sin(x) * y, (np.array([0.3, 1.2]), 2.0), order=2)
    >>> da.testing.check_grads(np.exp, (0.5,), order=3, oracle=["taylor", "dot"])
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
                compare_with_values(g, point, chosen, eps=eps, kinks=kinks, seed=seed, **tolerances)
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


@dataclass(frozen=True, eq=False)
class Remainders:
    """A table of Taylor remainders."""

    #: the steps h, shape (s,), each half of the one before
    steps: np.ndarray
    #: the remainder of the expansion to order 0, 1, … k, shape (k + 1, s), the largest over all entries, relative to
    #: how much each entry moves over the first step
    sizes: np.ndarray
    #: the rounding of the values, in the same units
    noise: np.ndarray

    @property
    def order(self) -> int:
        """The order of the longest expansion."""
        return len(self.sizes) - 1

    def rates(self, order: int) -> np.ndarray:
        """Return the observed powers of h, shape (s - 1,); NaN where the remainder is rounding."""
        r, noise = self.sizes[order], _CLEAR * self.noise
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = np.log2(r[:-1] / r[1:])
        return np.where((r[1:] > noise[1:]) & (r[:-1] > noise[:-1]), rates, np.nan)

    def reaches(self, order: int) -> bool:
        """Whether the remainder to an order shrinks with the next power of h, or is nothing but rounding."""
        seen = self.rates(order)
        seen = seen[~np.isnan(seen)][-3:]
        return bool(seen.size == 0 or np.median(seen) > order + 0.5)

    @property
    def ok(self) -> bool:
        """Whether the remainder of the longest expansion is of its order."""
        return bool(np.isfinite(self.sizes).all()) and self.reaches(self.order)

    def __str__(self) -> str:
        titles = "".join(f"{f'to order {k}':>14}{'rate':>7}" for k in range(self.order + 1))
        lines = [f"{'h':>10}{titles}"]
        rates = [np.concatenate([[np.nan], self.rates(k)]) for k in range(self.order + 1)]
        for i, h in enumerate(self.steps):
            cells = "".join(
                f"{self.sizes[k][i]:>14.3e}{'' if np.isnan(rates[k][i]) else format(rates[k][i], '.2f'):>7}"
                for k in range(self.order + 1)
            )
            lines.append(f"{h:>10.2e}{cells}")
        expected = "".join(f"{'expected':>14}{k + 1:>7}" for k in range(self.order + 1))
        return "\n".join([*lines, f"{'':>10}{expected}"])


def expansion_test(
    f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, v: np.ndarray, derivatives: Sequence[np.ndarray]
) -> Remainders:
    """Tabulate the Taylor remainders of a function from (n,) to (m,) along a direction, a natural change of the point.

    The derivatives are those of f(x + hv) in h at 0, of order 0 (the value), 1, … k, each of shape (m,).
    """
    steps: list[float] = []
    values: list[np.ndarray] = []
    for step in _FIRST_STEP / 2.0 ** np.arange(_LEVELS):
        value = value_at(f, x + step * v)
        if isinstance(value, Unavailable):  # outside the function's domain: a smaller step may be inside
            steps.clear()
            values.clear()
            continue
        values.append(value)
        steps.append(float(step))
    if not steps:
        nothing = np.full(1, np.inf)
        return Remainders(np.full(1, _FIRST_STEP), np.tile(nothing, (len(derivatives), 1)), nothing)
    F = np.stack(values)
    h: np.ndarray = np.array(steps)
    terms = np.stack([np.multiply.outer(h**k / math.factorial(k), d) for k, d in enumerate(derivatives)])
    # An entry counts by how much it moves, so that a wrong small one cannot hide beside a right large one.
    moved = np.maximum(np.abs(F[0] - derivatives[0]), np.abs(terms[1:, 0]).max(axis=0, initial=0.0))
    rounding = 4 * _EPS * np.maximum(np.abs(F), np.abs(derivatives[0]))
    unit = np.where(moved > rounding.max(axis=0), moved, np.maximum(rounding.max(axis=0), 1e-300))
    sizes = np.abs(F - np.cumsum(terms, axis=0)) / unit
    return Remainders(h, sizes.max(axis=-1, initial=0.0), (rounding / unit).max(axis=-1, initial=_EPS))
