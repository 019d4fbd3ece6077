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

from dualad.errors import ArgumentTypeError, DualadError, GradcheckError, RuleMissingError

from .engine import MODES, SINGLE, Direction, Engine, as_arguments, chosen_modes, failure
from .gradcheck import compare_with_values, first_derivative, warn_of_single_precision
from .laws import Properties

__all__ = ["RuleCheck", "RuleReport", "check_rule", "check_rule_in_use"]

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
    """The subject of `check_rule`."""

    #: the function with the rule
    name: str
    #: one per check
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
    seed, raise_exception
        As for :func:`gradcheck`, with the report in place of False.

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
    >>> @da.custom_vjp
    ... def double(x):
    ...     return 2.0 * x
    >>> double.defvjp(lambda x: (2.0 * x, None), lambda residuals, ct: (np.abs(2.0 * ct),))
    >>> report = da.testing.check_rule(double, (np.ones(3),), modes="reverse", values=False, raise_exception=False)
    >>> [check.name for check in report.checks if check.status == "failed"]
    ['linear in cotangents']
    """
    if not callable(f):
        raise ArgumentTypeError(
            f"check_rule was given {f!r} of type {type(f).__name__}.",
            "a rule is checked by calling the function that has it",
            "pass the decorated function itself",
        )
    engine = Engine(f, as_arguments(args))
    warn_of_single_precision(engine)
    if engine.single:
        rtol, atol = max(rtol, SINGLE), max(atol, SINGLE)
    check = _Rule(engine, rtol=rtol, atol=atol, seed=seed)
    with np.errstate(all="ignore"):
        report = RuleReport(engine.name, tuple(check.all(chosen_modes(modes), order, values, batched)))
    if raise_exception and not report.ok:
        failed = [c for c in report.checks if c.status == "failed"]
        raise failure(
            "rule",
            f"the rule of `{engine.name}` is wrong:\n" + "\n".join(f"    {c.name}: {c.reason}" for c in failed),
            "a rule is linear in tangents and cotangents, says what its function's values say, and is one map, of which"
            " forward and reverse mode are the two ends",
            "mend the first of these; the others often follow from it",
        )
    return report


class _Rule(Properties):
    """One function with a rule at one point."""

    def all(self, modes: Sequence[str], order: int, values: bool, batched: bool) -> list[RuleCheck]:
        """Run the checks; where structure is wrong already, nothing else can be asked of that mode."""
        checks: list[RuleCheck] = []
        f = self.f

        def run(name: str, question: Callable[[], Any]) -> bool:
            status, reason = "ok", ""
            try:
                question()
            except Exception as error:
                once = isinstance(error, RuleMissingError) and "once_differentiable" in error.what
                status = "skipped" if once and name.startswith("second") else "failed"
                reason = error.what if isinstance(error, DualadError) else f"{type(error).__name__}: {error}"
                if isinstance(error, DualadError) and not isinstance(error, GradcheckError):
                    reason = f"[{error.code}] {reason}"
            checks.append(RuleCheck(name, status, reason))
            return status != "failed"

        if not f.size or not f.out_size:
            return [RuleCheck("derivatives", "skipped", "there is nothing to differentiate")]
        sound = True
        for mode in modes:
            way = f.going(mode)
            if not run(f"{mode} mode", partial(self.once, mode)):
                sound = False
                continue
            run(f"linear in {way.word}s", partial(self.linear, way))
            run(f"absent {way.word}s", partial(self.absent, mode))
            run(f"{mode}, again", partial(self.twice, way))
            if batched:
                run(f"batched {way.word}s", partial(self.batched, mode, _LANES))
        if not sound:
            return checks
        if len(modes) == 2:
            run("forward against reverse", self.dot)
        if batched:
            run("batched points", partial(self.batched_points, modes, _LANES))
        if values:
            run("the function's values", lambda: self.by_differences(f.f, f.arguments(), modes))
        if order > 1 and all(c.status != "failed" for c in checks):
            for mode in modes:
                run(f"second order, over {mode}", partial(self.second, mode, modes, values))
        return checks

    def once(self, mode: str) -> None:
        way = self.f.going(mode)
        if mode == "reverse":
            self.value(mode, self.f.learn())
        way.product(way.random(self.rng))
        if mode == "forward":
            self.value(mode, self.f.pushed_value)

    def twice(self, way: Direction) -> None:
        v = way.random(self.rng)
        first = way.product(v)
        self.again("the rule", way.product(v), first)

    def by_differences(self, f: Callable, args: tuple, modes: Sequence[str]) -> None:
        compare_with_values(f, args, modes, rtol=max(self.rtol, 1e-6), atol=self.atol, kinks="accept")

    def second(self, mode: str, modes: Sequence[str], values: bool) -> None:
        found = first_derivative(self.f.f, self.f.arguments(), mode, self.rng)
        if found is None:
            return
        if len(modes) == 2:
            Properties(Engine(*found), seed=self.rng).dot()
        if values:
            self.by_differences(*found, modes)


#: what a rule does that breaks a law, by the name of the check, in a mode
_BROKEN = {
    "value": "gives the value of another function in {mode} mode",
    "linearity": "is not linear in its {word}s",
    "dot product": "says different things in forward and reverse mode",
}


def check_rule_in_use(who: str, function: Callable, point: tuple) -> bool:
    """Raise unless a rule, which ``who`` names, returns its function's value and is one linear map in both modes.

    Returns whether both modes could be compared: where there is but one by design, there is nothing to compare.
    """
    with np.errstate(all="ignore"):
        engine = Engine(function, point)
        if not engine.out_size:
            return False
        check, seen = _Rule(engine, rtol=SINGLE if engine.single else 1e-9, atol=1e-12), 0
        for mode in (*MODES, ""):
            way = engine.going(mode or MODES[0])
            try:
                if mode:
                    check.once(mode)
                    check.linear(way)
                    seen += 1
                elif seen == len(MODES):
                    check.dot()
            except RuleMissingError:
                continue
            except DualadError as error:
                broken = _BROKEN.get(getattr(error, "check", ""), "can't be used in {mode} mode")
                raise failure(
                    "rule",
                    f"{who} {broken.format(mode=mode, word=way.word)}: {error.what}",
                    error.why,
                    "find the entry with dualad.testing.check_rule(function, args), and mend the rule",
                ) from error
    return seen == len(MODES)
