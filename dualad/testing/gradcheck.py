"""`gradcheck` and `gradgradcheck`: Jacobians by forward and reverse mode against differences of the function's values.

Beside the numbers: batched derivatives against a loop, absent (exactly zero) tangents and cotangents against explicit
zeros, determinism, and the shape and dtype of the result beside the point. The first error is raised, with the numbers
of the output and the input, the mode, the part, and both Jacobians. Second derivatives are first derivatives of the
pullback (or of the tangent) in the arguments and in the cotangents.

Not for other oracles (`check_grads`), nor for a report of everything (`check`).
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from textwrap import indent
from typing import Any

import numpy as np

from dualad.base.arguments import replace_at
from dualad.base.tree import flatten, flatten_like, is_array
from dualad.core.aval import aval_of, is_inexact
from dualad.errors import GradcheckError
from dualad.jvp import jvp
from dualad.vjp_via_transpose import vjp

from . import differences
from .engine import SINGLE, Engine, argument_names, as_arguments, chosen_mode, chosen_modes, is_single, refuse_unknown
from .estimate import Estimate, Unavailable, compare, pull_back, scale_answer, stack
from .laws import Properties

__all__ = [
    "compare_with_values", "each_order", "first_derivative", "gradcheck", "gradgradcheck", "random_like",
    "warn_of_single_precision",
]  # fmt: skip

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
        Whether `vmap` of the pullback, and of `jvp`, must equal a loop; and `vmap` of the function, where it has one.
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
    >>> da.testing.gradcheck(lambda x, y: np.sin(x) * y, (np.array([0.3, 1.2]), 2.0))
    True
    """
    modes = chosen_modes(modes, check_forward_ad, check_backward_ad)
    refuse_unknown("treatment of kinks", [kinks], ("refuse", "accept"))
    function = Engine(f, as_arguments(args))
    warn_of_single_precision(function)
    check = _ByDifferences(function, fast_mode, eps, kinks, rtol, atol, nondet_tol, seed)
    batched = [("forward", check_batched_forward_grad), ("reverse", check_batched_grad)]
    try:
        check.run(modes, check_undefined_grad, [mode for mode, on in batched if on])
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    f: Callable,
    args: Any,
    cotangents: Any = None,
    *,
    inner: str = "reverse",
    noncontiguous_cotangents: bool = False,
    seed: int = 0,
    **switches: Any,
) -> bool:
    """Check a function's second derivatives: `gradcheck` of its first ones, in the arguments and in the cotangents.

    Parameters
    ----------
    f, args, seed
        As for :func:`gradcheck`.
    cotangents : tree, optional
        Of the structure of the function's result (with ``inner="forward"``, tangents like the tuple of arguments);
        random by default.
    inner : str
        ``"reverse"``: what is checked is the pullback; ``"forward"``: the tangent. The modes in ``modes`` run over it.
    noncontiguous_cotangents : bool
        Whether the generated cotangents have gaps in memory.
    **switches
        Those of :func:`gradcheck`.

    Returns
    -------
    bool
        As :func:`gradcheck`.

    Raises
    ------
    GradcheckError, UsageError
        As :func:`gradcheck`.

    Examples
    --------
    >>> da.testing.gradgradcheck(lambda x, y: np.sin(x) * y, (np.array([0.3, 1.2]), 2.0), fast_mode=True)
    True
    """
    args = as_arguments(args)
    mode = chosen_mode(inner)
    rng = np.random.default_rng(seed)
    found = first_derivative(f, args, mode, rng, given=cotangents, gaps=noncontiguous_cotangents)
    return True if found is None else gradcheck(*found, seed=seed, **switches)


def compare_with_values(f: Callable, args: Any, modes: Sequence[str], **switches: Any) -> None:
    """Compare products with random vectors with differences of the values, and nothing else."""
    _ByDifferences(Engine(f, args), **switches).run(modes)


class _ByDifferences(Properties):
    """The steps of one check; the first that fails raises.

    Compared are products of the Jacobian with ``vectors``: the unit vectors or, to be fast, a random one per array.
    """

    def __init__(
        self, f: Engine, fast: bool = True, eps: float | None = None, kinks: str = "refuse", rtol: float | None = None,
        atol: float | None = None, nondet_tol: float = 0.0, seed: Any = 0,
    ) -> None:  # fmt: skip
        default = (SINGLE, SINGLE) if f.single else (1e-6, 1e-12) if eps is None else (1e-3, 1e-5)
        rtol, atol = (x if given is None else given for x, given in zip(default, (rtol, atol), strict=True))
        super().__init__(f, rtol=rtol, atol=atol + nondet_tol, nondet_tol=nondet_tol, seed=seed)
        self.fast, self.eps, self.kinks = fast, eps, kinks
        self.noise = 1e-14 * np.abs(np.nan_to_num(f.flat_value, posinf=0.0, neginf=0.0))
        self.vectors = f.ins.apart(f.going("forward").random(self.rng)) if fast else np.eye(f.size)

    def run(self, modes: Sequence[str], absent: bool = False, batched: Collection[str] = ()) -> None:
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
            steps = np.ones(len(self.vectors)) if self.fast else f.scale
            numerical = scale_answer(
                stack([self.along(v * h) for v, h in zip(self.vectors, steps, strict=True)], axis=1), 1.0 / steps
            )
            for mode in modes:
                vector, product = getattr(self, mode)(numerical, self.noise[:, None] / steps)
                self.again(f"{mode} mode", f.going(mode).product(vector), product)
                if mode == "reverse":  # and of a linearization of its own
                    f.learn()
                    self.again("reverse mode", f.vjp(vector), product)
                if absent:
                    self.absent(mode)
                if mode in batched:
                    self.batched(mode, _LANES)
            if batched:
                self.points()

    def points(self) -> None:
        """Expect vmap over points to be a loop, where there is a vmap: a ``custom_vmap`` rule may mix lanes."""
        f = self.f
        points = f.x + 1e-3 * f.scale * self.rng.standard_normal((_LANES, f.size))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got, looped = f.vmap_value(points), np.stack([f.evaluate(x) for x in points])
        except Exception:  # of a function that takes one point at a time; its derivatives were mapped at one
            return
        self.expect(
            "batched values", got, looped,
            lambda k: (
                f"the value in lane {k[0]}, {f.outs.label(k[1])} is {got[k]:.9g} under vmap and {looped[k]:.9g} in a"
                " loop."
            ),
            "a batch of points is a loop over them, so no lane may see another one",
            "look at the vmap rule of what your function calls: `custom_vmap` rules get a leading axis of lanes",
        )  # fmt: skip

    def along(self, v: np.ndarray) -> Estimate:
        """Return the derivative of the values along v; v is a natural change of the point."""
        f = self.f
        answer = differences.derivative(f.evaluate, f.x, v, value=f.flat_value, step=self.eps)
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

    def forward(self, numerical: Estimate, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compare one product per vector with the values'; return the first of each."""
        columns = []
        for v in self.vectors:
            columns.append(self.f.jvp(v))
            self.value("forward", self.f.pushed_value)
        self.judge("forward", np.stack(columns, axis=1), numerical, floor, np.arange(self.f.out_size))
        return self.vectors[0], columns[0]

    def reverse(self, numerical: Estimate, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compare one product per entry of the result, or w·(J v) for a random w in each array; return one."""
        f = self.f
        self.value("reverse", f.learn())
        weights = f.outs.apart(f.going("reverse").random(self.rng)) if self.fast else np.eye(f.out_size)
        got = rows = np.stack([f.vjp(w) for w in weights])
        if self.fast:
            got = rows @ self.vectors.T
            terms = np.abs(np.nan_to_num(numerical.value))
            floor = np.abs(weights) @ (floor + 1e-12 * terms) + 1e-14 * (np.abs(rows) @ np.abs(self.vectors.T))
            products = [pull_back(numerical, w) for w in weights]
            numerical = stack([answer for answer in products if isinstance(answer, Estimate)])
        self.judge("reverse", got, numerical, floor, np.argmax(weights != 0, axis=1))
        return weights[0], rows[0]

    def judge(self, mode: str, got: np.ndarray, estimate: Estimate, floor: np.ndarray, outputs: np.ndarray) -> None:
        """Compare products with what the values say; name the worst entry, in a row of one of the ``outputs``."""
        f, value = self.f, estimate.value
        groups = None if self.fast else f.entry_groups()
        outcome = compare(got, estimate, rtol=self.rtol, atol=self.atol, floor=floor, groups=groups)
        low, high = (value, value) if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)
        bad = outcome.wrong | ~outcome.judged | ((low < high) if self.kinks == "refuse" else False)
        if not bad.any():
            return
        size = np.abs(got - value) / (np.abs(value) + floor + 1e-300)
        worst = int(np.argmax(np.where(outcome.wrong, size + 3.0, np.where(bad, 1.0, -1.0))))
        at = row, column = np.unravel_index(worst, got.shape)
        inputs = np.argmax(self.vectors != 0, axis=1)
        block = np.ix_(*[
            side.groups()[ends] == side.groups()[ends[k]]
            for side, ends, k in ((f.outs, outputs, row), (f.ins, inputs, column))
        ])  # fmt: skip
        (output, out_part), (number, in_part) = f.outs.leaf_of(int(outputs[row])), f.ins.leaf_of(int(inputs[column]))
        where = (
            f"the {mode}-mode derivative of output {_place(output, out_part, f.outs.label(int(outputs[row])))} with"
            f" respect to input {_place(number, in_part, f.ins.label(int(inputs[column])))}"
        )
        analytical, numerical, wrong = got[block], value[block], bad[block]
        if (low < high)[block].any():
            what = f"is at a kink: {got[at]:.9g}, where the one-sided slopes are {low[at]:.6g} and {high[at]:.6g}."
            why = "the slopes from the two sides differ, so there is no derivative to compare with"
            instead = "move the point away from the kink, or pass kinks='accept' to take any slope between the two"
        elif not outcome.judged[at]:
            what = f"could not be judged: it is {got[at]:.9g}, and central differences do not settle."
            why = "the function is noisy, jumps, or ends beside the point"
            instead = "choose another point, or a step with eps="
        else:
            count = f"; {int(wrong.sum())} of {wrong.size} entries are wrong" if wrong.size > 1 else ""
            what = f"is {got[at]:.9g}, central differences have {value[at]:.9g}{count}."
            why = _likely_cause(analytical, numerical)
            instead = "look at the rule (or the code) on the way between the two"
        kind = f"Jacobian{', times a random vector' if self.fast else ''}"
        for name, matrix in (("analytical", analytical), ("numerical", numerical)):
            shown = np.array2string(matrix, precision=6, threshold=100, edgeitems=3, max_line_width=100)
            what += f"\n  {name} {kind}:\n{indent(shown, '    ')}"
        part = "imaginary" if "imaginary" in (out_part, in_part) else out_part or in_part
        attributes = {"output": output, "input": number, "part": part}
        self.fail(mode, f"{where} {what}", why, instead, analytical=analytical, numerical=numerical, **attributes)


def _likely_cause(got: np.ndarray, expected: np.ndarray) -> str:
    """Return a simple change that turns one Jacobian into the other, in one clause; nothing if there is none."""
    if not np.any(got):
        return (
            "the analytical derivative is exactly zero, and the values move: a stop_gradient, a constant made of a"
            " traced value, or a rule that returns None"
        )
    big = np.abs(expected) > 1e-6 * np.abs(expected).max(initial=0.0)
    if big.any() and np.allclose(got[~big], expected[~big], atol=1e-6 * np.abs(expected).max(initial=0.0)):
        ratios = got[big] / expected[big]
        if np.allclose(ratios, ratios[0], rtol=1e-5) and not np.isclose(ratios[0], 1.0, rtol=1e-7):
            times = "minus" if np.isclose(ratios[0], -1.0) else f"{ratios[0]:.6g} times"
            return f"the analytical derivative is {times} the numerical one"
    shift = got - expected
    if np.allclose(shift, shift.flat[0], rtol=1e-5, atol=0.0):
        return f"the analytical derivative differs by {shift.flat[0]:.6g} everywhere"
    if got.shape[0] == got.shape[1] > 1 and np.allclose(got, expected.T, rtol=1e-5):
        return "the analytical Jacobian is the transpose of the numerical one"
    return "the derivative does not describe how the values change"


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


def first_derivative(
    f: Callable, args: tuple, mode: str, rng: np.random.Generator, *, given: Any = None, gaps: bool = False
) -> tuple[Callable, tuple] | None:
    """Return a function's first derivative as a function of the arguments and the vectors, and where to check it.

    In ``"reverse"`` mode it is (arguments, cotangents) ↦ the pullback, in ``"forward"`` mode (arguments, tangents) ↦
    the tangent. The vectors are ``given``, or random, on request with gaps in memory. There is none (None) if no result
    is floating-point.
    """
    reverse = mode == "reverse"
    like = f(*args) if reverse else args
    leaves, treedef = flatten(like)
    unflatten: Callable[[list], Any] = treedef.unflatten
    places = [i for i, x in enumerate(leaves) if _is_floating(x)]
    if not places:
        return None
    vectors = [random_like(leaves[i], rng, gaps) for i in places]
    if given is not None:
        what, owner = ("the cotangent", "the function's result") if reverse else ("the tangents", "the arguments")
        all_given = flatten_like(treedef, given, what, owner)
        vectors = [np.zeros_like(leaves[i]) if all_given[i] is None else all_given[i] for i in places]

    def derivative(*values: Any) -> list[Any]:
        point = values[: len(args)]
        full = replace_at([None] * len(leaves), places, values[len(args) :])
        if not reverse:
            return _floating(jvp(f, point, unflatten(full))[1])
        out, pull = vjp(f, *point)
        for i, y in enumerate(flatten(out)[0]):
            # Differences are taken in double precision; a function may have casts of its own.
            if full[i] is not None and aval_of(full[i]).dtype != aval_of(y).dtype:
                full[i] = full[i].astype(aval_of(y).dtype)
        return _floating(pull(unflatten(full)))

    word = "cotangent" if reverse else "tangent"
    names = [*argument_names(f, len(args)), *[f"{word}{k}" for k in range(len(places))]]
    named: Any = derivative
    named.__name__ = f"{'pullback' if reverse else 'jvp'} of {getattr(f, '__name__', type(f).__name__)}"
    kind = inspect.Parameter.POSITIONAL_ONLY
    named.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in dict.fromkeys(names)])
    return derivative, (*args, *vectors)


def each_order(
    f: Callable, args: tuple, order: int, modes: Sequence[str], rng: np.random.Generator
) -> Iterator[tuple[Callable, tuple, tuple[str, ...]]]:
    """Yield a function, then its derivatives below an order in every composition of the modes.

    Each comes with the point to check it at, as `first_derivative` has it, and the modes it was taken in.
    """
    yield f, args, ()
    for mode in modes if order > 1 else ():
        found = first_derivative(f, args, mode, rng)
        if found is not None:
            for g, point, over in each_order(*found, order - 1, modes, rng):
                yield g, point, (mode, *over)


def random_like(x: Any, rng: np.random.Generator, gaps: bool = False) -> Any:
    """Return random numbers of an array's shape and dtype, on request with gaps in memory."""
    shape, dtype = np.shape(x), np.asarray(x).dtype
    full = (*shape, 2) if gaps else shape
    values = rng.standard_normal(full)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(full)
    values = np.asarray(values, dtype)
    return values[..., 0] if gaps and shape else values.reshape(-1)[0] if gaps else values[()]


def _is_floating(x: Any) -> bool:
    return is_array(x) and is_inexact(aval_of(x).dtype)


def _floating(tree: Any) -> list[Any]:
    return [x for x in flatten(tree)[0] if _is_floating(x)]
