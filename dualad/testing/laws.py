"""Laws that derivatives obey, each as an assertion about a function at a point.

They need no oracle: linearity, duality, the chain rule, a batch is a loop, the two Jacobians are one, the Hessian is
symmetric, stopping twice is stopping once. Each takes a function of trees of arrays and the sequence of its arguments;
``rtol`` is the error allowed relative to the terms (in single precision at least 1e-3), ``seed`` that of random
vectors. A broken law is a GradcheckError that names the quantity, the entry, or the output and the input. With
Hypothesis (`strategies`) they become property tests of one line.

    >>> da.testing.laws.linearity(lambda x: np.sin(x) * x, (np.ones(3),))
    >>> da.testing.laws.chain_rule(np.sin, np.cumsum, (np.ones(3),))
    >>> da.testing.laws.check_laws(lambda x, y: np.tanh(x) @ y, (np.ones((2, 3)), np.arange(3.0)))

Not for finding wrong derivatives that obey the laws (a rule scaled by 1.1 does): that takes an oracle
(`gradcheck`, `check_grads`, `check`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from dualad.base.arguments import replace_at
from dualad.base.tree import flatten
from dualad.errors import GradcheckError
from dualad.jvp import jvp, stop_gradient
from dualad.vjp_via_transpose import vjp
from dualad.vmap import vmap

from .engine import MODES, SINGLE, Direction, Engine, failure, one_line, refuse_unknown, same

__all__ = [
    "LAWS", "Properties", "chain_rule", "check_laws", "duality", "expect", "idempotent_stop_gradient",
    "jacfwd_is_jacrev", "linearity", "symmetric_hessian", "vmap_is_a_loop",
]  # fmt: skip

_RTOL = 1e-9


def linearity(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that `jvp` is linear in the tangents, and the pullback in the cotangents."""
    for law in _of(f, args, rtol, seed):
        for mode in MODES:
            law.linear(law.f.going(mode))


def duality(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that ⟨Jv, u⟩ = ⟨v, Jᵀu⟩."""
    for law in _of(f, args, rtol, seed):
        law.dot(rtol)


def chain_rule(f: Callable, g: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that the derivative of g∘f, for g of the one value of f, is that of g after that of f, in both modes."""
    for law in _of(f, args, rtol, seed):
        first, second, both = law.f, Engine(g, (f(*args),)), Engine(lambda *xs: g(f(*xs)), args)
        v, w = first.going("forward").random(law.rng), both.going("reverse").random(law.rng)
        pushed = second.jvp(first.jvp(v))
        _agree("chain rule, forward", both, both.jvp(v), pushed, rtol)
        _agree("chain rule, forward", both, both.pushed_value, second.pushed_value, rtol)
        _agree("chain rule, reverse", both, both.vjp(w), first.vjp(second.vjp(w)), rtol)


def vmap_is_a_loop(f: Callable, args: Sequence[Any], *, size: int = 3, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that `vmap` of a function, and of its two derivatives, is a loop over points.

    The first of ``size`` points is ``args``, the others lie beside it.
    """
    for law in _of(f, args, rtol, seed):
        for mode in MODES:
            law.batched_points([mode], size, one_by_one=False)


def jacfwd_is_jacrev(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that the Jacobian is the same by columns and by rows."""
    for law in _of(f, args, rtol, seed, double=True):
        _agree("jacfwd is jacrev", law.f, law.f.jacfwd(), law.f.jacrev(), rtol)


def symmetric_hessian(f: Callable, args: Sequence[Any], *, rtol: float = 1e-8, seed: int = 0) -> None:
    """Assert that uᵀ H v = vᵀ H u, of a random weighted sum if the function returns several numbers."""
    for law in _of(f, args, rtol, seed, double=True):
        w = law.rng.standard_normal(law.f.out_size)
        u, v = law.rng.standard_normal((2, law.f.size))
        left, right = u * law.f.hvp(w, v), v * law.f.hvp(w, u)
        size = np.abs(left).sum() + np.abs(right).sum()
        _agree("symmetry of the Hessian", law.f, left.sum(keepdims=True), right.sum(keepdims=True), rtol, size)


def idempotent_stop_gradient(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that stopping changes no value, lets no derivative through, and does no more when it is done twice."""
    for law in _of(f, args, rtol, seed):
        v = law.f.going("forward").random(law.rng)
        once = Engine(lambda *xs: stop_gradient(f(*xs)), args)
        twice = Engine(lambda *xs: stop_gradient(stop_gradient(f(*xs))), args)
        _agree("stop_gradient lets no derivative through", law.f, once.jvp(v), np.zeros(law.f.out_size), 0.0)
        _agree("stop_gradient keeps values", law.f, once.pushed_value, law.f.flat_value, rtol)
        _agree("stop_gradient twice is once", law.f, twice.jvp(v), once.jvp(v), 0.0)
        _agree("stop_gradient twice is once", law.f, twice.pushed_value, once.pushed_value, 0.0)


#: the laws of one function at one point, by name
LAWS: Mapping[str, Callable] = MappingProxyType(
    {
        "linearity": linearity,
        "duality": duality,
        "vmap is a loop": vmap_is_a_loop,
        "jacfwd is jacrev": jacfwd_is_jacrev,
        "symmetric Hessian": symmetric_hessian,
        "stop_gradient": idempotent_stop_gradient,
    }
)


def check_laws(f: Callable, args: Sequence[Any], laws: Collection[str] = tuple(LAWS), *, seed: int = 0) -> None:
    """Assert several laws, all by default.

    Parameters
    ----------
    f : callable
        A function of trees of arrays, in plain NumPy.
    args : sequence
        Its positional arguments.
    laws : collection of str
        Names of `LAWS`.
    seed : int
        For random vectors.

    Raises
    ------
    GradcheckError
        By the first law that is broken.
    ArgumentError
        For a law of unknown name.
    """
    refuse_unknown("law", laws, LAWS)
    for name in laws:
        LAWS[name](f, args, seed=seed)


def _of(f: Callable, args: Sequence[Any], rtol: float, seed: int, *, double: bool = False) -> list[Properties]:
    """Return the properties of a function at a point, in a list; an empty one if there is nothing to differentiate."""
    engine = Engine(f, args, double=double)
    if not engine.size or not engine.out_size:
        return []
    engine.learn()
    return [Properties(engine, rtol=max(rtol, SINGLE) if engine.single else rtol, seed=seed)]


def _agree(law: str, f: Engine, a: np.ndarray, b: np.ndarray, rtol: float, size: float | None = None) -> None:
    allowed = max(rtol, SINGLE) if f.single and rtol else rtol
    expect(
        "law",
        a,
        b,
        allowed * (np.abs(b[np.isfinite(b)]).max(initial=0.0) if size is None else size) + 1e-300,
        lambda k: f"`{f.name}` breaks a law: {law}: {a[k]:.12g} is not {b[k]:.12g} at entry {k}.",
        "every derivative obeys it",
        "look at the rules on the way (dualad.testing.check_rule)",
    )


def expect(
    check: str,
    got: np.ndarray,
    expected: np.ndarray,
    tolerance: Any,
    what: Callable[[Any], str],
    why: str,
    instead: str,
    details: Callable[[Any], dict] = lambda k: {},
) -> None:
    """Raise unless two arrays are the same, entry by entry, or within a tolerance.

    ``what`` words the worst entry, and ``details`` are the error's attributes for it.
    """
    with np.errstate(invalid="ignore"):
        apart = np.abs(got - expected)
        wrong = ~(same(got, expected) | (np.isfinite(apart) & (apart <= tolerance)))
    if wrong.any():
        worst = int(np.argmax(np.where(wrong, np.nan_to_num(apart, nan=np.inf), -1.0)))
        k = worst if got.ndim == 1 else tuple(map(int, np.unravel_index(worst, got.shape)))
        raise failure(check, what(k), why, instead, analytical=got, numerical=expected, **details(k))


class Properties:
    """The properties of one function's derivatives at one point, compared with tolerances and with random vectors."""

    def __init__(
        self, f: Engine, *, rtol: float = 1e-9, atol: float = 1e-300, nondet_tol: float = 0.0, seed: Any = 0
    ) -> None:
        self.f, self.nondet_tol, self.rng = f, nondet_tol, np.random.default_rng(seed)
        self.rtol, self.atol = rtol, atol

    def fail(self, check: str, what: str, why: str, instead: str, **details: Any) -> None:
        """Raise, naming the function."""
        raise failure(check, f"gradcheck of `{self.f.name}`: {what}", why, instead, **details)

    def expect(self, check: str, got: np.ndarray, expected: np.ndarray, what: Callable, why: str, instead: str) -> None:
        """Raise, naming the function, unless two of dualad's answers agree within the tolerances."""
        tolerance = self.allowed(expected) + self.atol
        expect(check, got, expected, tolerance, lambda k: f"gradcheck of `{self.f.name}`: {what(k)}", why, instead)

    def allowed(self, expected: np.ndarray) -> np.ndarray:
        """Return the relative error of finite numbers, and their rounding beside the largest of them."""
        size = np.where(np.isfinite(expected), np.abs(expected), 0.0)
        return self.rtol * size + 1e-12 * size.max(initial=0.0)

    def value(self, mode: str, value: np.ndarray) -> None:
        """Expect a mode to report the value that the function returns."""
        f = self.f
        expect(
            "value",
            value,
            f.flat_value,
            self.allowed(f.flat_value),
            lambda k: (
                f"gradcheck of `{f.name}`: under {mode} mode {f.outs.label(k)} is {value[k]:.9g}, called plainly"
                f" {f.flat_value[k]:.9g}."
            ),
            "a rule returns the value that its function returns",
            "look at the value that your rule returns",
            lambda k: {"output": f.outs.leaf_of(k)[0]},
        )

    def again(self, what: str, second: np.ndarray, first: np.ndarray) -> None:
        """Expect a derivative, computed again, to be the same."""
        expect(
            "determinism",
            second,
            first,
            self.nondet_tol,
            lambda k: (
                f"gradcheck of `{self.f.name}`: {what} is not re-entrant: the same derivative, computed again,"
                f" differs by {abs(second[k] - first[k]):.3g}."
            ),
            "a derivative is a function of the point; this one draws random numbers or keeps state",
            "make the rule deterministic, or pass nondet_tol= for noise that is known and harmless",
        )

    def linear(self, way: Direction) -> None:
        """Expect products to be linear: the product with −250 a − ½ b is made of those with a and b."""
        a, b = way.random(self.rng, 2)
        whole, left, right = way.product(-250.0 * a - 0.5 * b), -250.0 * way.product(a), -0.5 * way.product(b)
        expect(
            "linearity",
            whole,
            left + right,
            self.rtol * (np.abs(left) + np.abs(right)) + self.atol,
            lambda k: (
                f"linearity in the {way.word} is broken: at entry {k} it makes {whole[k]:.9g} of −250 a − 0.5 b,"
                f" and {(left + right)[k]:.9g} of a and b apart; a rule is linear in its {way.word}s"
            ),
            "every derivative is linear",
            "look at the rules on the way (dualad.testing.check_rule)",
        )

    def absent(self, mode: str) -> None:
        """Expect a tangent or cotangent of None to be one of zeros, array by array; cotangents all together too."""
        way = self.f.going(mode)
        v, positions = way.random(self.rng), way.source.positions
        owners = np.array([position for position, _ in way.source.slots])[way.source.groups()]
        for number, position in enumerate(positions):
            name = f"the {way.word} of {way.owner} {position}"
            self.zeros(name, mode, partial(way.product, v, [number]), way.product(v * (owners != position)))
        if mode == "reverse" and len(positions) > 1:
            everything = partial(way.product, v, range(len(positions)))
            self.zeros("the cotangents of all outputs", mode, everything, way.product(np.zeros_like(v)))

    def zeros(self, name: str, mode: str, compute: Callable[[], np.ndarray], expected: np.ndarray) -> None:
        """Expect a product with something absent to be that with explicit zeros."""
        check, where = f"undefined {mode}", f"with {name} undefined, {mode} mode"
        why = "a tangent or cotangent that is exactly zero may be absent: None to a pullback, a SymbolicZero to a rule"
        instead = "let the rule treat an absent one as zeros"
        try:
            got = compute()
        except Exception as error:
            what = f"gradcheck of `{self.f.name}`: {where} raised: {one_line(error)}"
            raise failure(check, what, why, instead) from error
        words = lambda k: f"{where} gives {got[k]:.9g} where explicit zeros give {expected[k]:.9g}."
        self.expect(check, got, expected, words, why, instead)

    def batched(self, mode: str, lanes: int) -> None:
        """Expect vmap over products to be a loop."""
        way = self.f.going(mode)
        rows = way.random(self.rng, lanes)
        check, word = f"batched {mode}", "gradient" if mode == "reverse" else "forward gradient"
        switch = "check_batched_grad" if mode == "reverse" else "check_batched_forward_grad"
        try:
            got = way.batched(rows)
        except GradcheckError:
            raise
        except Exception as error:
            raise failure(
                check,
                f"gradcheck of `{self.f.name}`: the batched {word} (vmap over {mode} mode) raised: {one_line(error)}",
                "a Jacobian is vmap over products, so a rule must be batchable",
                f"write the rule in NumPy, give it a vmap rule, or pass {switch}=False",
            ) from error
        looped = np.stack([way.product(row) for row in rows])
        self.expect(
            check,
            got,
            looped,
            lambda k: (
                f"the batched {word} is not the loop's: lane {k[0]}, {way.target.label(k[1])} is {got[k]:.9g}"
                f" under vmap and {looped[k]:.9g} in a loop."
            ),
            "vmap of a derivative is the stack of the derivatives",
            "look at the vmap rule of what your rule calls",
        )

    def dot(self, rtol: float = 1e-9, atol: float = 1e-300) -> None:
        """Expect forward and reverse mode to agree: ⟨Jv, u⟩ = ⟨v, Jᵀu⟩ for random v and u, array by array.

        The relative error is one of the terms of the sums, in single precision at least 1e-3.
        """
        f = self.f
        if not f.size or not f.out_size:
            return
        f.learn()
        rtol = max(rtol, SINGLE) if f.single else rtol
        tangents, cotangents = (way.source.apart(way.random(self.rng)) for way in map(f.going, MODES))
        pulled = [f.vjp(u) for u in cotangents]
        for v in tangents:
            pushed = f.jvp(v)
            for u, back in zip(cotangents, pulled, strict=True):
                self._two_ends(v, u, pushed * u, back * v, rtol, atol)

    def _two_ends(
        self, v: np.ndarray, u: np.ndarray, left: np.ndarray, right: np.ndarray, rtol: float, atol: float
    ) -> None:
        f, at, out = self.f, int(np.argmax(v != 0)), int(np.argmax(u != 0))
        ends = {"output": f.outs.leaf_of(out)[0], "input": f.ins.leaf_of(at)[0]}
        expect(
            "dot product",
            np.atleast_1d(left.sum()),
            np.atleast_1d(right.sum()),
            rtol * (np.abs(left).sum() + np.abs(right).sum()) + atol,
            lambda k: (
                f"forward and reverse mode of `{f.name}` disagree in output {ends['output']} with respect to input"
                f" {ends['input']} ({f.ins.names[f.ins.groups()[at]]}): ⟨Jv, u⟩ is {left.sum():.12g}, ⟨v, Jᵀu⟩ is"
                f" {right.sum():.12g}."
            ),
            "the two are one number, worked out from its two ends",
            "look for a rule whose forward and reverse part were written separately (linear_call, wrap, a solve),"
            " or whose tangent is not linear",
            lambda k: ends,
        )

    # -- batches of points --------------------------------------------------------------------------------------------

    def batched_points(self, modes: Sequence[str], lanes: int, one_by_one: bool = True) -> None:
        """Expect vmap of derivatives, and derivatives of vmap, to be a loop over points.

        All inputs are mapped together and, on request, each alone. The first of the points is the declared one.
        """
        f = self.f
        count = len(f.ins.positions)
        rows = f.x + 1e-3 * f.scale * self.rng.standard_normal((lanes, f.size))
        rows[0] = f.x
        points, t = f.tangents(rows), f.tangents(self.rng.standard_normal(f.size) * f.scale)
        w = f.cotangents(self.rng.standard_normal(f.out_size))
        products = partial(self._products, modes)
        for choice in [range(count), *([i] for i in range(count) if count > 1 and one_by_one)]:
            mapped = [i in choice for i in range(count)]
            axes = tuple(0 if on else None for on in mapped)
            given = [m if on else m[0] for m, on in zip(points, mapped, strict=True)]
            alone = [
                products(self._leaves, [m[k if on else 0] for m, on in zip(points, mapped, strict=True)], t, w)
                for k in range(lanes)
            ]
            where = f"with a batch of points in input {', '.join(str(f.ins.positions[i]) for i in choice)}"
            values = vmap(self._leaves, in_axes=axes)(*given)
            self._like_alone(f"{where}, under vmap,", [values, [], []], alone, None)
            outside = vmap(lambda *leaves: products(self._leaves, leaves, t, w), in_axes=axes)(*given)
            self._like_alone(f"{where}, under vmap of a derivative,", outside, alone, None)
            over_lanes = lambda x: np.broadcast_to(x, (lanes, *np.shape(x)))
            tangents = [over_lanes(x) if on else x for x, on in zip(t, mapped, strict=True)]
            inside = products(vmap(self._leaves, in_axes=axes), given, tangents, [over_lanes(x) for x in w])
            self._like_alone(f"{where}, in a derivative of vmap,", inside, alone, mapped)

    def _like_alone(self, where: str, together: list, alone: list, mapped: list[bool] | None) -> None:
        """Compare lanes (or, for a cotangent that is shared by all lanes, their sum) with what the loop found."""
        for number, kind in enumerate(("value", "tangent", "cotangent")):
            for k, batch in enumerate(together[number]):
                loop = np.stack([np.asarray(found[number][k]) for found in alone])
                loop = loop.sum(axis=0) if kind == "cotangent" and mapped is not None and not mapped[k] else loop
                what = lambda _, kind=kind, k=k, batch=batch, loop=loop: (
                    f"{where} the {kind} {k} is\n{batch}\nand in a loop\n{loop}"
                )
                self.expect("batched points", np.asarray(batch), loop, what, "a batch is a loop", "look at vmap rules")

    def _leaves(self, *values: Any) -> list[Any]:
        """Call the function with these floating-point arrays; return its floating-point results."""
        f = self.f
        out = flatten(f.f(*f.unflatten(replace_at(f.leaves, f.ins.positions, values))))[0]
        return [out[i] for i in f.outs.positions]

    def _products(self, modes: Sequence[str], function: Callable, point: Any, t: Any, w: list) -> list[list[Any]]:
        """Return value, J t and Jᵀ w, as lists."""
        out: list[Any] = [[], [], []]
        if "forward" in modes:
            out[:2] = jvp(function, tuple(point), tuple(t))
        if "reverse" in modes:
            value, pull = vjp(function, *point)
            out[0], out[2] = value, list(pull(w))
        return out
