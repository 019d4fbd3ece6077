"""`gradcheck`: Jacobians by forward and reverse mode against differences of the function's values.

Beside the numbers: batched derivatives against a loop, absent (exactly zero) tangents and cotangents against explicit
zeros, determinism, and the shape and dtype of the result beside the point. The first thing that is wrong is raised,
with the numbers of the output and the input, the mode, the part, and both Jacobians.

Not for second derivatives (`gradgradcheck`), other oracles (`check_grads`), nor a report of everything
(`check_function`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dualad.errors import GradcheckError

from . import differences
from .describe import describe, refuse_unknown
from .engine import SINGLE, Engine, chosen_modes, is_single, said
from .estimate import Estimate, Unavailable, compare, scaled, stack, weighted
from .properties import Properties

__all__ = ["compare_with_values", "gradcheck", "warn_of_single_precision"]

_LANES = 3


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
    tolerances = {
        "rtol": default[0] if rtol is None else rtol,
        "atol": (default[1] if atol is None else atol) + nondet_tol,
    }
    check = _ByDifferences(function, fast_mode, eps, kinks, nondet_tol=nondet_tol, seed=seed, **tolerances)
    batched = {"forward": check_batched_forward_grad, "reverse": check_batched_grad}
    try:
        check.run(modes, check_undefined_grad, batched)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def compare_with_values(f: Callable, args: Any, **switches: Any) -> None:
    """Compare products with random vectors with differences of the values, and nothing else."""
    nothing_else: dict[str, Any] = dict.fromkeys(
        ("check_batched_grad", "check_batched_forward_grad", "check_undefined_grad"), False
    )
    with warnings.catch_warnings():
        # Of single precision warns, once for all its checks, who calls this.
        warnings.filterwarnings("ignore", message=".*Differences need double precision", category=UserWarning)
        gradcheck(f, args, fast_mode=True, **nothing_else, **switches)


class _ByDifferences(Properties):
    """The steps of one check; the first that fails raises."""

    def __init__(self, f: Engine, fast: bool, eps: float | None, kinks: str, **tolerances: Any) -> None:
        super().__init__(f, **tolerances)
        self.fast, self.eps, self.kinks = fast, eps, kinks
        self.noise = 1e-14 * np.abs(np.nan_to_num(f.flat_value, posinf=0.0, neginf=0.0))

    def run(self, modes: Sequence[str], absent: bool, batched: Mapping[str, bool]) -> None:
        """Check the modes, and on request absent and batched vectors."""
        f = self.f
        if not f.spread <= self.nondet_tol:
            self.fail("determinism", "the function itself returned two different values at one point.",
                      "what draws random numbers or keeps state has no derivative to compare with",
                      "pass the random numbers (or the seed) in as an argument")  # fmt: skip
        if f.size == 0 or f.out_size == 0:
            return
        with np.errstate(all="ignore"):
            apart = f.difference()
            if apart is not None:
                self.fail("value", str(apart), "a derivative of other code is no derivative", apart.instead)
            directions, numerical = self.numerical()
            for mode in modes:
                vector, product = getattr(self, mode)(directions, numerical)
                self.again(f"{mode} mode", f.going(mode).product(vector), product)
                if mode == "reverse":  # and of a linearization of its own
                    f.learn()
                    self.again("reverse mode", f.vjp(vector), product)
                if absent:
                    self.absent(mode)
                if batched[mode]:
                    self.batched(mode, _LANES)

    # -- what the values say ----------------------------------------------------------------------------------------

    def along(self, v: np.ndarray) -> Estimate:
        """Return the derivative of the values along v; v is a natural change of the point."""
        f = self.f
        if self.eps is None:
            answer = differences.derivative(f.evaluate, f.x, v, value=f.flat_value)
        else:
            answer = self.plain_difference(v, self.eps)
        if f.changed:
            self.fail("values", f.changed,
                      "a result whose shape, dtype or structure depends on the values has no derivative",
                      "return arrays of one shape and one dtype")  # fmt: skip
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

    def numerical(self) -> tuple[np.ndarray, Estimate]:
        """Return the unit vectors and the Jacobian, or a random vector in each real array and the products."""
        f = self.f
        if not self.fast:
            columns = stack([self.along(v) for v in np.diag(f.scale)], axis=1)
            return np.eye(f.size), scaled(columns, 1.0 / f.scale)
        groups = f.ins.groups()
        vectors = [np.where(groups == g, f.going("forward").random(self.rng), 0.0) for g in np.unique(groups)]
        return np.stack(vectors), stack([self.along(v) for v in vectors], axis=1)

    # -- the two modes ----------------------------------------------------------------------------------------------

    def forward(self, directions: np.ndarray, numerical: Estimate) -> tuple[np.ndarray, np.ndarray]:
        """Compare one product per vector with the values'; return the first of each."""
        columns = []
        for v in directions:
            columns.append(self.f.jvp(v))
            self.value("forward", self.f.pushed_value)
        self.judge("forward", np.stack(columns, axis=1), numerical, self.floor(), directions if self.fast else None)
        return directions[0], columns[0]

    def reverse(self, directions: np.ndarray, numerical: Estimate) -> tuple[np.ndarray, np.ndarray]:
        """Compare one product per entry of the result, or w·(J v) for a random w in each real array; return one."""
        f = self.f
        self.value("reverse", f.learn())
        if not self.fast:
            rows = [f.vjp(w) for w in np.eye(f.out_size)]
            self.judge("reverse", np.stack(rows), numerical, self.floor())
            return np.eye(f.out_size)[0], rows[0]
        groups = f.outs.groups()
        w = got = np.zeros(0)
        for g in np.unique(groups):
            w = np.where(groups == g, self.rng.standard_normal(f.out_size), 0.0)
            got = f.vjp(w)
            product = weighted(numerical, w)
            assert isinstance(product, Estimate)
            rounding = 1e-12 * np.abs(w) @ np.abs(np.nan_to_num(np.where(w[:, None] != 0, numerical.value, 0.0)))
            floor = rounding + np.abs(w) @ self.noise + 1e-14 * (np.abs(directions) @ np.abs(got))
            self.judge("reverse", (directions @ got)[None], stack([product]), floor[None], directions, w)
        return w, got

    def floor(self) -> np.ndarray:
        """Return the rounding of the values in the entries of a Jacobian, or of products with vectors."""
        return self.noise[:, None] / (1.0 if self.fast else self.f.scale)

    def judge(
        self,
        mode: str,
        got: np.ndarray,
        estimate: Estimate,
        floor: np.ndarray,
        vectors: np.ndarray | None = None,
        w: np.ndarray | None = None,
    ) -> None:
        """Compare a Jacobian, or products with random vectors, with what the values say; name the worst entry."""
        f = self.f
        groups = f.entry_groups() if vectors is None else None
        outcome = compare(got, estimate, rtol=self.rtol, atol=self.atol, floor=floor, groups=groups)
        one_sided = (estimate.low, estimate.high) if estimate.low is not None and estimate.high is not None else None
        kinks = np.zeros(got.shape, bool) if one_sided is None else one_sided[0] < one_sided[1]
        bad = outcome.wrong | ~outcome.judged | (kinks if self.kinks == "refuse" else False)
        if not bad.any():
            return
        size = np.abs(got - estimate.value) / (np.abs(estimate.value) + floor + 1e-300)
        worst = int(np.argmax(np.where(outcome.wrong, size + 3.0, np.where(bad, 1.0, -1.0))))
        at = row, column = np.unravel_index(worst, got.shape)
        out_k = int(row) if w is None else int(np.flatnonzero(w)[0])
        in_k = int(column) if vectors is None else int(np.flatnonzero(vectors[column])[0])
        (output, out_part), (number, in_part) = f.outs.leaf_of(out_k), f.ins.leaf_of(in_k)
        if vectors is None:  # the block of one array of results and one of arguments, or the products with one vector
            block = np.ix_(f.outs.groups() == f.outs.groups()[out_k], f.ins.groups() == f.ins.groups()[in_k])
        else:
            block = np.ix_(np.full(len(got), True), np.arange(got.shape[1]) == column)
        what, why, instead = describe(
            f"the {mode}-mode derivative of output {_place(output, out_part, f.outs.label(out_k))} with respect to"
            f" input {_place(number, in_part, f.ins.label(in_k))}",
            "Jacobian" if vectors is None else "Jacobian, times a random vector",
            got[block],
            estimate.value[block],
            bad[block],
            entry=(float(got[at]), float(estimate.value[at])),
            kink=tuple([float(ends[at]) for ends in one_sided]) if one_sided and kinks[block].any() else None,
            judged=bool(outcome.judged[at]),
        )
        part = "imaginary" if "imaginary" in (out_part, in_part) else out_part or in_part
        matrices = {"analytical": got[block], "numerical": estimate.value[block]}
        self.fail(mode, what, why, instead, output=output, input=number, part=part, **matrices)


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
