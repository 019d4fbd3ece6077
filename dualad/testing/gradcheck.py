"""`gradcheck`: Jacobians by forward and reverse mode against differences of the function's values.

Beside the numbers: batched derivatives against a loop, absent (exactly zero) tangents and cotangents against explicit
zeros, determinism, and the shape and dtype of the result beside the point. The first thing that is wrong is raised,
with the numbers of the output and the input, the mode, the part, and both Jacobians.

Not for second derivatives (`gradgradcheck`), other oracles (`check_grads`), nor a report of everything
(`check_function`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dualad.errors import GradcheckError

from . import differences
from .describe import describe, refuse_unknown
from .engine import SINGLE, Engine, chosen_modes, failure, is_single, said
from .estimate import Estimate, Unavailable, compare, scaled, stack, weighted
from .real_function import same

__all__ = ["Check", "Settings", "compare_with_values", "gradcheck", "warn_of_single_precision"]

_LANES = 3


@dataclass(frozen=True)
class Settings:
    """What one check was asked for; the switches of `gradcheck`."""

    modes: tuple[str, ...]
    rtol: float
    atol: float
    seed: int
    fast: bool = False
    eps: float | None = None
    batched_reverse: bool = True
    batched_forward: bool = True
    absent: bool = True
    nondet_tol: float = 0.0
    kinks: str = "refuse"


def gradcheck(
    f: Callable,
    args: Any,
    *,
    modes: str | Sequence[str] = ("forward", "reverse"),
    check_forward_ad: bool | None = None,
    check_backward_ad: bool | None = None,
    fast_mode: bool = False,
    eps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    check_batched_grad: bool = True,
    check_batched_forward_grad: bool = True,
    check_undefined_grad: bool = True,
    nondet_tol: float = 0.0,
    kinks: str = "refuse",
    seed: int = 0,
    raise_exception: bool = True,
) -> bool:
    """Check a function's first derivatives at a point against central differences of its values.

    Parameters
    ----------
    f : callable
        A function of trees of arrays, in plain NumPy.
    args : tuple or list, or one array
        Its positional arguments. Floating-point leaves are differentiated, in their own dtype; for a complex one, along
        1 and i. Single precision is compared with looser tolerances, and a warning says so.
    modes : str or sequence of str
        ``"forward"`` (columns of the Jacobian by `jvp`), ``"reverse"`` (rows by `vjp`), or both; ``"fwd"`` and
        ``"rev"`` mean the same.
    check_forward_ad, check_backward_ad : bool, optional
        Add a mode to ``modes``, or take it out.
    fast_mode : bool
        Compare products with random vectors, one per array, instead of whole Jacobians.
    eps : float, optional
        The step of plain central differences, relative to the size of each input. By default the step is chosen by
        scale and the differences are extrapolated (Richardson), with an estimate of their own error.
    rtol, atol : float, optional
        Allowed relative and absolute error: 1e-6 and 1e-12 beside the differences' estimate of their error; 1e-3 and
        1e-5 with ``eps``; 1e-3 and 1e-3 in single precision.
    check_batched_grad, check_batched_forward_grad : bool
        Whether `vmap` of the pullback, and of `jvp`, must equal a loop.
    check_undefined_grad : bool
        Whether cotangents (and tangents) that are absent, one at a time and all together, must give what explicit
        zeros give.
    nondet_tol : float
        By how much a derivative may differ when it is computed again.
    kinks : str
        At a kink, where the two one-sided slopes differ: ``"refuse"`` reports it, ``"accept"`` takes any slope between
        them.
    seed : int
        For random vectors.
    raise_exception : bool
        Whether a failed check raises; otherwise it returns False. Other errors are raised in any case.

    Returns
    -------
    bool
        True, or False with ``raise_exception=False`` if a check failed.

    Raises
    ------
    GradcheckError
        If a derivative is wrong. It is an AssertionError and a RuntimeError, and has the attributes ``output``,
        ``input``, ``check``, ``part``, ``analytical`` and ``numerical``. Raised in any case if no mode is left.
    UsageError
        A ValueError: no argument has a floating-point leaf.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import gradcheck
    >>> gradcheck(lambda x, y: np.sin(x) * y, (np.array([0.3, 1.2]), 2.0))
    True
    """
    modes = chosen_modes(modes, check_forward_ad, check_backward_ad)
    refuse_unknown("treatment of kinks", [kinks], ("refuse", "accept"))
    function = Engine(f, args if isinstance(args, (tuple, list)) else (args,))
    warn_of_single_precision(function)
    default = (SINGLE, SINGLE) if function.single else (1e-6, 1e-12) if eps is None else (1e-3, 1e-5)
    chosen = Settings(
        modes=modes,
        fast=fast_mode,
        eps=eps,
        rtol=default[0] if rtol is None else rtol,
        atol=(default[1] if atol is None else atol) + nondet_tol,
        batched_reverse=check_batched_grad,
        batched_forward=check_batched_forward_grad,
        absent=check_undefined_grad,
        nondet_tol=nondet_tol,
        kinks=kinks,
        seed=seed,
    )
    try:
        Check(function, chosen).run()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def compare_with_values(f: Callable, args: Any, **switches: Any) -> None:
    """Compare products with random vectors with differences of the values, and nothing else."""
    with warnings.catch_warnings():
        # Of single precision warns, once for all its checks, who calls this.
        warnings.filterwarnings("ignore", message=".*Differences need double precision", category=UserWarning)
        gradcheck(
            f, args, fast_mode=True, check_batched_grad=False, check_batched_forward_grad=False,
            check_undefined_grad=False, **switches,
        )  # fmt: skip


# ── one check ────────────────────────────────────────────────────────────────────────────────────────────────────


class Check:
    """The steps of one check; the first that fails raises."""

    def __init__(self, function: Engine, settings: Settings) -> None:
        self.f, self.s = function, settings
        self.rng = np.random.default_rng(settings.seed)
        self.noise = 1e-14 * np.abs(np.nan_to_num(function.flat_value, posinf=0.0, neginf=0.0))

    def run(self) -> None:
        """Run all steps that were asked for."""
        f = self.f
        if not f.spread <= self.s.nondet_tol:
            self.fail("determinism", "the function itself returned two different values at one point.",
                      "what draws random numbers or keeps state has no derivative to compare with",
                      "pass the random numbers (or the seed) in as an argument")  # fmt: skip
        if f.size == 0 or f.out_size == 0:
            return
        with np.errstate(all="ignore"):
            apart = f.difference()
            if apart is not None:
                self.fail("value", str(apart), "a derivative of other code is no derivative", apart.instead)
            directions, numerical = self.products() if self.s.fast else self.jacobian()
            for mode in self.s.modes:
                if mode == "forward":
                    self.forward(directions, numerical)
                else:
                    self.reverse(directions, numerical)

    def fail(self, check: str, what: str, why: str, instead: str, **details: Any) -> None:
        """Raise, naming the function."""
        raise failure(check, f"gradcheck of `{self.f.name}`: {what}", why, instead, **details)

    # -- what the values say ----------------------------------------------------------------------------------------

    def along(self, v: np.ndarray) -> Estimate:
        """Return the derivative of the values along v; v is a natural change of the point."""
        f = self.f
        if self.s.eps is None:
            answer = differences.derivative(f.evaluate, f.x, v, value=f.flat_value)
        else:
            answer = self.plain_difference(v, self.s.eps)
        if f.changed:
            self.fail(
                "values",
                f.changed,
                "a result whose shape, dtype or structure depends on the values has no derivative",
                "return arrays of one shape and one dtype",
            )
        if isinstance(answer, Unavailable):
            self.fail("values", f"central differences could not judge: {answer.reason}.",
                      "a derivative is compared with the function's values on both sides of the point",
                      "choose a point inside the function's domain, where it is smooth")  # fmt: skip
        assert isinstance(answer, Estimate)
        return answer

    def plain_difference(self, v: np.ndarray, eps: float) -> Estimate | Unavailable:
        """Return one central difference along v."""
        f = self.f
        try:
            return Estimate((f.evaluate(f.x + eps * v) - f.evaluate(f.x - eps * v)) / (2 * eps))
        except Exception as error:
            return Unavailable(f"the function raises beside the point: {said(error)}")

    def jacobian(self) -> tuple[np.ndarray, Estimate]:
        """Return the unit vectors, and the Jacobian that the values give."""
        units = np.eye(self.f.size)
        columns = stack([self.along(v) for v in units * self.f.scale], axis=1)
        return units, scaled(columns, 1.0 / self.f.scale)

    def products(self) -> tuple[np.ndarray, Estimate]:
        """Return, for each real array of the inputs, a random vector in it, and their products as columns."""
        groups = self.f.ins.groups()
        vectors = [
            np.where(groups == g, self.rng.standard_normal(self.f.size), 0.0) * self.f.scale for g in np.unique(groups)
        ]
        return np.stack(vectors), stack([self.along(v) for v in vectors], axis=1)

    # -- forward ----------------------------------------------------------------------------------------------------

    def forward(self, directions: np.ndarray, numerical: Estimate) -> None:
        """Check forward mode, one product per vector."""
        f, s = self.f, self.s
        columns = []
        for v in directions:
            columns.append(f.jvp(v))
            self.same_value("forward", f.pushed_value)
        self.judge("forward", np.stack(columns, axis=1), numerical, self.floor(), directions if s.fast else None)
        self.again("forward mode", f.jvp(directions[0]), columns[0])
        if s.absent:
            self.absent("forward")
        if s.batched_forward:
            self.batched("forward", f.going("forward").random(self.rng, _LANES))

    # -- reverse ----------------------------------------------------------------------------------------------------

    def reverse(self, directions: np.ndarray, numerical: Estimate) -> None:
        """Check reverse mode, one product per entry of the result (or random ones)."""
        f, s = self.f, self.s
        self.same_value("reverse", f.learn())
        if s.fast:
            first, got = self.random_rows(directions, numerical)
        else:
            first = np.eye(f.out_size)[0]
            rows = [f.vjp(w) for w in np.eye(f.out_size)]
            got = rows[0]
            self.judge("reverse", np.stack(rows), numerical, self.floor())
        self.again("reverse mode", f.vjp(first), got)
        f.learn()
        self.again("reverse mode", f.vjp(first), got)
        if s.absent:
            self.absent("reverse")
        if s.batched_reverse:
            self.batched("reverse", f.going("reverse").random(self.rng, _LANES))

    def random_rows(self, directions: np.ndarray, numerical: Estimate) -> tuple[np.ndarray, np.ndarray]:
        """Compare w·(J v) for a random w in each real array of the results; return the last w and its pullback."""
        groups = self.f.outs.groups()
        w = got = np.zeros(0)
        for g in np.unique(groups):
            w = np.where(groups == g, self.rng.standard_normal(self.f.out_size), 0.0)
            got = self.f.vjp(w)
            product = weighted(numerical, w)
            assert isinstance(product, Estimate)
            rounding = 1e-12 * np.abs(w) @ np.abs(np.nan_to_num(np.where(w[:, None] != 0, numerical.value, 0.0)))
            floor = rounding + np.abs(w) @ self.noise + 1e-14 * (np.abs(directions) @ np.abs(got))
            self.judge("reverse", (directions @ got)[None], stack([product]), floor[None], directions, w)
        return w, got

    def absent(self, mode: str) -> None:
        """Check that a tangent or cotangent of None is one of zeros, array by array; cotangents all together too."""
        way = self.f.going(mode)
        v, positions = way.random(self.rng), way.source.positions
        owners = np.array([position for position, _ in way.source.slots])[way.source.groups()]
        for number, position in enumerate(positions):
            name = f"the {way.word} of {way.owner} {position}"
            self.equal_to_zeros(name, mode, partial(way.product, v, [number]), way.product(v * (owners != position)))
        if mode == "reverse" and len(positions) > 1:
            everything = partial(way.product, v, range(len(positions)))
            self.equal_to_zeros("the cotangents of all outputs", mode, everything, way.product(np.zeros_like(v)))

    def floor(self) -> np.ndarray:
        """Return the rounding of the values in the entries of a Jacobian, or of products with vectors."""
        return self.noise[:, None] / (1.0 if self.s.fast else self.f.scale)

    # -- verdicts ---------------------------------------------------------------------------------------------------

    def judge(
        self,
        mode: str,
        got: np.ndarray,
        estimate: Estimate,
        floor: np.ndarray,
        vectors: np.ndarray | None = None,
        w: np.ndarray | None = None,
    ) -> None:
        """Compare a Jacobian, or products with random vectors, with what the values say."""
        f, s = self.f, self.s
        products = vectors is not None
        groups = None if products else f.entry_groups()
        outcome = compare(got, estimate, rtol=s.rtol, atol=s.atol, floor=floor, groups=groups)
        kinks = np.zeros(got.shape, bool)
        if estimate.low is not None and estimate.high is not None:
            kinks = estimate.low < estimate.high
        bad = outcome.wrong | ~outcome.judged | (kinks if s.kinks == "refuse" else False)
        if not bad.any():
            return
        size = np.abs(got - estimate.value) / (np.abs(estimate.value) + floor + 1e-300)
        worst = int(np.argmax(np.where(outcome.wrong, size + 3.0, np.where(bad, 1.0, -1.0))))
        row, column = np.unravel_index(worst, got.shape)
        out_k = int(row) if w is None else int(np.flatnonzero(w)[0])
        in_k = int(column) if vectors is None else int(np.flatnonzero(vectors[column])[0])
        output, out_part = f.outs.leaf_of(out_k)
        number, in_part = f.ins.leaf_of(in_k)
        part = "imaginary" if "imaginary" in (out_part, in_part) else out_part or in_part
        if products:  # of one vector
            block = np.ix_(np.full(len(got), True), np.arange(got.shape[1]) == column)
        else:
            block = np.ix_(f.outs.groups() == f.outs.groups()[out_k], f.ins.groups() == f.ins.groups()[in_k])
        a, b, bad, kinks = got[block], estimate.value[block], bad[block], kinks[block]
        low_high = None
        if kinks.any() and estimate.low is not None and estimate.high is not None:
            low_high = float(estimate.low[row, column]), float(estimate.high[row, column])
        what, why, instead = describe(
            mode=mode,
            output=_place(output, out_part, f.outs.label(out_k)),
            input=_place(number, in_part, f.ins.label(in_k)),
            got=a,
            expected=b,
            bad=bad,
            entry=(float(got[row, column]), float(estimate.value[row, column])),
            products=products,
            kink=low_high,
            judged=bool(outcome.judged[row, column]),
        )
        self.fail(mode, what, why, instead, output=output, input=number, part=part, analytical=a, numerical=b)

    def same_value(self, mode: str, value: np.ndarray) -> None:
        """Check that a mode reports the value that the function returns."""
        f, s = self.f, self.s
        expected = f.flat_value
        tolerance = s.rtol * np.abs(expected) + 1e-12 * np.abs(expected).max(initial=0.0)
        wrong = ~((np.abs(value - expected) <= tolerance) | same(value, expected))
        if wrong.any():
            k = int(np.argmax(wrong))
            self.fail(
                "value",
                f"under {mode} mode {f.outs.label(k)} is {value[k]:.9g}, called plainly {expected[k]:.9g}.",
                "a rule returns the value that its function returns",
                "look at the value that your rule returns",
                output=f.outs.leaf_of(k)[0],
            )

    def again(self, what: str, second: np.ndarray, first: np.ndarray) -> None:
        """Check that a derivative, computed again, is the same."""
        moved = np.where(same(second, first), 0.0, np.nan_to_num(np.abs(second - first), nan=np.inf))
        worst = float(np.max(moved, initial=0.0))
        if worst > self.s.nondet_tol:
            self.fail(
                "determinism",
                f"{what} is not re-entrant: the same derivative, computed again, differs by {worst:.3g}.",
                "a derivative is a function of the point; this one draws random numbers or keeps state",
                "make the rule deterministic, or pass nondet_tol= for noise that is known and harmless",
            )

    def equal_to_zeros(self, name: str, mode: str, compute: Callable[[], np.ndarray], expected: np.ndarray) -> None:
        """Check a product with something absent against explicit zeros."""
        check, where = f"undefined {mode}", f"with {name} undefined, {mode} mode"
        why = "a tangent or cotangent that is exactly zero may be absent: None to a pullback, a SymbolicZero to a rule"
        instead = "let the rule treat an absent one as zeros"
        try:
            got = compute()
        except Exception as error:
            what = f"gradcheck of `{self.f.name}`: {where} raised: {said(error)}"
            raise failure(check, what, why, instead) from error
        if not self.close(got, expected):
            k = int(np.argmax(np.abs(got - expected)))
            what = f"{where} gives {got[k]:.9g} where explicit zeros give {expected[k]:.9g}."
            self.fail(check, what, why, instead, analytical=got, numerical=expected)

    def batched(self, mode: str, rows: np.ndarray) -> None:
        """Check vmap over products against a loop."""
        way = self.f.going(mode)
        check, word = f"batched {mode}", "gradient" if mode == "reverse" else "forward gradient"
        switch = "check_batched_grad" if mode == "reverse" else "check_batched_forward_grad"
        try:
            got = way.batched(rows)
        except GradcheckError:
            raise
        except Exception as error:
            raise failure(
                check,
                f"gradcheck of `{self.f.name}`: the batched {word} (vmap over {mode} mode) raised: {said(error)}",
                "a Jacobian is vmap over products, so a rule must be batchable",
                f"write the rule in NumPy, give it a vmap rule, or pass {switch}=False",
            ) from error
        looped = np.stack([way.product(row) for row in rows])
        if not self.close(got, looped):
            lane, k = np.unravel_index(int(np.argmax(np.abs(got - looped))), got.shape)
            self.fail(
                check,
                f"the batched {word} is not the loop's: lane {lane}, {way.target.label(int(k))} is"
                f" {got[lane, k]:.9g} under vmap and {looped[lane, k]:.9g} in a loop.",
                "vmap of a derivative is the stack of the derivatives",
                "look at the vmap rule of what your rule calls",
                analytical=got,
                numerical=looped,
            )

    def close(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Say whether two answers of dualad agree within the tolerances."""
        size = np.abs(b).max(initial=0.0)
        return bool(np.all((np.abs(a - b) <= self.s.rtol * np.abs(b) + self.s.atol + 1e-12 * size) | same(a, b)))


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────────────


def warn_of_single_precision(f: Engine) -> None:
    """Warn of each input in single precision, or else of each result, and say what becomes of the tolerances."""
    found = [f"input {p} has dtype {d}" for p, d in f.in_dtypes.items() if is_single(d)]
    found = found or [f"output {i} has dtype {d}" for i, d in enumerate(f.dtypes) if is_single(d)]
    for what in found:
        warnings.warn(
            f"{what}. Differences need double precision to mean anything: they are taken in it where the function"
            f" allows, and compared with tolerances of {SINGLE}.",
            UserWarning,
            stacklevel=3,
        )


def _place(number: int, part: str, label: str) -> str:
    return f"{number}{f' ({part} part)' if part else ''}, {label}"
