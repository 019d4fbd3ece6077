"""`check_rule`: whether a custom rule is consistent, with its function, with itself in both modes, in batches, twice.

Not for finding out whether NumPy's own functions have right rules, nor for watching rules as they are used
(`dualad.debug(rules=True)`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dualad.core.arguments import replaced
from dualad.errors import ArgumentTypeError, DualadError, GradcheckError, RuleMissingError
from dualad.jvp import jvp
from dualad.tree import flatten
from dualad.vjp_via_transpose import vjp
from dualad.vmap import vmap

from .check_grads import check_dot_product
from .engine import SINGLE, Direction, Engine, chosen_modes, failure
from .gradcheck import Check, Settings, compare_with_values, warn_of_single_precision
from .gradgradcheck import first_derivative

__all__ = ["RuleCheck", "RuleReport", "check_rule"]

_LANES = 2


@dataclass(frozen=True)
class RuleCheck:
    """One check of a rule: its name, ``"ok"``, ``"failed"`` or ``"skipped"``, and the reason."""

    name: str
    status: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name:<26}{self.status}{': ' + self.reason if self.reason else ''}"


@dataclass(frozen=True)
class RuleReport:
    """What `check_rule` looked at.

    Attributes
    ----------
    name : str
        The function with the rule.
    checks : tuple of RuleCheck
        One per check.
    """

    name: str
    checks: tuple[RuleCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.status != "failed" for check in self.checks)

    def __str__(self) -> str:
        return "\n".join([f"the rule of {self.name}", *[f"  {check}" for check in self.checks]])


def check_rule(
    f: Callable,
    args: Any,
    *,
    modes: str | Sequence[str] = ("forward", "reverse"),
    order: int = 2,
    values: bool = True,
    batched: bool = True,
    rtol: float = 1e-7,
    atol: float = 1e-12,
    seed: int = 0,
    raise_exception: bool = True,
) -> RuleReport:
    """Check the rule of a function at a point: everything that a rule can get wrong, in one report.

    Parameters
    ----------
    f : callable
        A function with a rule (`custom_jvp`, `custom_vjp`, `custom_vmap`, `wrap`, …), or one that calls such functions.
    args : tuple or list, or one array
        Its positional arguments.
    modes : str or sequence of str
        ``"forward"``, ``"reverse"`` or both; name one if the other is out of reach by design.
    order : int
        1 or 2: whether the rule's own derivatives are checked too. A rule that is declared `once_differentiable` is
        checked at first order.
    values : bool
        Whether derivatives are compared with differences of the function's values. Turn it off for a rule that means
        something else than the derivative (clipped gradients, straight-through estimators).
    batched : bool
        Whether `vmap` over tangents, cotangents and points must equal a loop.
    rtol, atol : float
        Allowed relative and absolute error; in single precision at least 1e-3, and a warning says so.
    seed : int
        For random tangents and cotangents.
    raise_exception : bool
        Whether a failed check raises; otherwise the report tells.

    Returns
    -------
    RuleReport
        One entry per check: shapes, dtypes and trees; the value under each mode; linearity in tangents and in
        cotangents; forward against reverse mode (the dot-product test); absent tangents and cotangents; determinism;
        batches; differences of the values; and forward against reverse mode of the derivatives.

    Raises
    ------
    GradcheckError
        An AssertionError and a RuntimeError that lists every check that failed, with its reason.
    ArgumentTypeError
        If ``f`` can't be called.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> from dualad.testing import check_rule
    >>> @da.custom_vjp
    ... def double(x):
    ...     return 2.0 * x
    >>> double.defvjp(lambda x: (2.0 * x, None), lambda residuals, ct: (np.abs(2.0 * ct),))
    >>> report = check_rule(double, (np.ones(3),), modes="reverse", values=False, raise_exception=False)
    >>> [check.name for check in report.checks if check.status == "failed"]
    ['linear in cotangents']
    """
    if not callable(f):
        raise ArgumentTypeError(
            f"check_rule was given {f!r} of type {type(f).__name__}.",
            "a rule is checked by calling the function that has it",
            "pass the decorated function itself",
        )
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    check = _Rule(f, args, chosen_modes(modes), rtol, atol, seed)
    warn_of_single_precision(check.native)
    with np.errstate(all="ignore"):
        report = RuleReport(check.native.name, tuple(check.all(order, values, batched)))
    if raise_exception and not report.ok:
        failed = [c for c in report.checks if c.status == "failed"]
        raise failure(
            "rule",
            f"the rule of `{check.native.name}` is wrong:\n" + "\n".join(f"    {c.name}: {c.reason}" for c in failed),
            "a rule is linear in tangents and cotangents, says what its function's values say, and is one map, of which"
            " forward and reverse mode are the two ends",
            "mend the first of these; the others often follow from it",
        )
    return report


class _Rule:
    """One function with a rule at one point."""

    def __init__(self, f: Callable, args: tuple, modes: tuple[str, ...], rtol: float, atol: float, seed: int) -> None:
        self.native = Engine(f, args)
        self.f, self.args, self.modes = f, args, modes
        if self.native.single:
            rtol, atol = max(rtol, SINGLE), max(atol, SINGLE)
        self.rtol, self.atol, self.seed = rtol, atol, seed
        self.rng = np.random.default_rng(seed)
        self.shared = Check(self.native, Settings(modes=modes, rtol=rtol, atol=atol, seed=seed))

    def all(self, order: int, values: bool, batched: bool) -> list[RuleCheck]:
        """Run the checks; where structure is wrong already, nothing else can be asked of that mode."""
        checks: list[RuleCheck] = []
        native = self.native
        both = len(self.modes) == 2

        def run(name: str, question: Callable[[], Any]) -> bool:
            checks.append(_outcome(name, question))
            return checks[-1].status != "failed"

        if not native.size or not native.out_size:
            return [RuleCheck("derivatives", "skipped", "there is nothing to differentiate")]
        sound = True
        for mode in self.modes:
            way = native.going(mode)
            if not run(f"{mode} mode", partial(self.once, mode, way)):
                sound = False
                continue
            run(f"linear in {way.word}s", partial(self.linear, way))
            run(f"absent {way.word}s", partial(self.shared.absent, mode))
            run(f"{mode}, again", partial(self.twice, way))
            if batched:
                run(f"batched {way.word}s", partial(self.shared.batched, mode, way.random(self.rng, _LANES)))
        if not sound:
            return checks
        if both:
            run("forward against reverse", lambda: check_dot_product(self.f, self.args, self.rng))
        if batched:
            run("batched points", self.batched_points)
        if values:
            run("the function's values", lambda: self.by_differences(self.f, self.args))
        if order > 1 and all(c.status != "failed" for c in checks):
            for mode in self.modes:
                run(f"second order, over {mode}", partial(self.second, mode, values))
        return checks

    # -- the checks ---------------------------------------------------------------------------------------------------

    def once(self, mode: str, way: Direction) -> None:
        if mode == "reverse":
            self.shared.same_value(mode, self.native.learn())
        way.product(way.random(self.rng))
        if mode == "forward":
            self.shared.same_value(mode, self.native.pushed_value)

    def linear(self, way: Direction) -> None:
        whole, parts, terms = way.of_sum(*way.random(self.rng, 2))
        wrong = ~(np.abs(whole - parts) <= self.rtol * terms + self.atol)
        if wrong.any():
            k = int(np.argmax(wrong))
            raise failure(
                "linearity",
                f"at entry {k} it makes {whole[k]:.9g} of −250 a − 0.5 b, and {parts[k]:.9g} of a and b"
                f" apart; a rule is linear in its {way.word}s",
            )

    def twice(self, way: Direction) -> None:
        v = way.random(self.rng)
        first = way.product(v)
        self.shared.again("the rule", way.product(v), first)

    def by_differences(self, f: Callable, args: tuple) -> None:
        rtol = max(self.rtol, 1e-6)
        compare_with_values(f, args, modes=self.modes, rtol=rtol, atol=self.atol, seed=self.seed, kinks="accept")

    def second(self, mode: str, values: bool) -> None:
        found = first_derivative(self.f, self.args, mode, self.rng)
        if found is None:
            return
        if len(self.modes) == 2:
            check_dot_product(*found, self.rng)
        if values:
            self.by_differences(*found)

    def batched_points(self) -> None:
        """Compare vmap of derivatives, and derivatives of vmap, with a loop over points.

        Every input is mapped alone, and all together.
        """
        native = self.native
        count = len(native.ins.positions)
        rows = native.x + 1e-3 * native.scale * self.rng.standard_normal((_LANES, native.size))
        rows[0] = native.x
        points, t = native.tangents(rows), native.tangents(self.rng.standard_normal(native.size) * native.scale)
        w = native.cotangents(self.rng.standard_normal(native.out_size))
        for choice in [range(count), *([i] for i in range(count) if count > 1)]:
            mapped = [i in choice for i in range(count)]
            axes = tuple(0 if on else None for on in mapped)
            given = [m if on else m[0] for m, on in zip(points, mapped, strict=True)]
            alone = [
                self.products(self.leaves, [m[k if on else 0] for m, on in zip(points, mapped, strict=True)], t, w)
                for k in range(_LANES)
            ]
            where = f"with a batch of points in input {', '.join(str(native.ins.positions[i]) for i in choice)}"
            values = vmap(self.leaves, in_axes=axes)(*given)
            self.like_alone(f"{where}, under vmap,", [values, [], []], alone, [[True] * count] * 3)
            outside = vmap(lambda *leaves: self.products(self.leaves, leaves, t, w), in_axes=axes)(*given)
            everything = [[True] * count] * 3
            self.like_alone(f"{where}, under vmap of a derivative,", outside, alone, everything)
            over_lanes = lambda x: np.broadcast_to(x, (_LANES, *np.shape(x)))
            tangents = [over_lanes(x) if on else x for x, on in zip(t, mapped, strict=True)]
            inside = self.products(vmap(self.leaves, in_axes=axes), given, tangents, [over_lanes(x) for x in w])
            self.like_alone(f"{where}, in a derivative of vmap,", inside, alone, [*everything[:2], mapped])

    def like_alone(self, where: str, together: list, alone: list, in_lanes: list[list[bool]]) -> None:
        """Compare lanes (or, for what is shared by all lanes, their sum) with what the loop found."""
        for number, kind in enumerate(("value", "tangent", "cotangent")):
            for k, batch in enumerate(together[number]):
                each = np.stack([np.asarray(found[number][k]) for found in alone])
                each = each if number < 2 or in_lanes[number][k] else each.sum(axis=0)
                if not self.shared.close(np.asarray(batch), each):
                    raise failure("batched points", f"{where} the {kind} {k} is\n{batch}\nand in a loop\n{each}")

    def leaves(self, *values: Any) -> list[Any]:
        """Call the function with these floating-point arrays; return its floating-point results."""
        native = self.native
        unflatten: Callable[[list], Any] = native.treedef.unflatten
        out = flatten(self.f(*unflatten(replaced(native.leaves, native.ins.positions, values))))[0]
        return [out[i] for i in native.outs.positions]

    def products(self, function: Callable, point: Sequence[Any], t: Sequence[Any], w: list) -> list[list[Any]]:
        """Return value, J t and Jᵀ w, as lists."""
        out: list[Any] = [[], [], []]
        if "forward" in self.modes:
            out[:2] = jvp(function, tuple(point), tuple(t))
        if "reverse" in self.modes:
            value, pull = vjp(function, *point)
            out[0], out[2] = value, list(pull(w))
        return out


def _outcome(name: str, question: Callable[[], Any]) -> RuleCheck:
    try:
        question()
    except RuleMissingError as error:
        once = "once_differentiable" in error.what
        return RuleCheck(name, "skipped" if once and name.startswith("second") else "failed", _short(error))
    except GradcheckError as error:
        return RuleCheck(name, "failed", error.what)
    except Exception as error:
        return RuleCheck(name, "failed", _short(error))
    return RuleCheck(name, "ok")


def _short(error: Exception) -> str:
    if isinstance(error, DualadError):
        return f"[{error.code}] {error.what}"
    return f"{type(error).__name__}: {error}"
