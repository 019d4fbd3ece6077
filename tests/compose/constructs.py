"""Functions written with dualad's own constructs, each beside the plain NumPy function that it must not be told from.

A construct (a rule of one's own, a checkpoint, a branch, a loop, a solver, a hook, a collective) is invisible in values
and derivatives: under every word both functions give the same number. Not for: tests (`test_constructs.py`); the
functions shared with JAX (`zoo.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import dualad as da

from .zoo import Animal, normal, positive

__all__ = ["CONSTRUCTS", "Construct"]


class Construct(NamedTuple):
    """A function with a construct, the same without, and whether reverse mode in a program has to be refused."""

    function: Animal
    plain: Animal
    unbounded: bool = False


CONSTRUCTS: dict[str, Construct] = {}


def construct(plain: Callable, *makers, unbounded: bool = False):
    """Register a function of (namespace, arguments) beside its plain form."""

    def register(function):
        make = lambda rng: tuple(m(rng) for m in makers)
        pair = Animal(function, make), Animal(lambda np, *xs: plain(*xs), make)
        CONSTRUCTS[function.__name__] = Construct(*pair, unbounded)
        return function

    return register


# ── rules of one's own ───────────────────────────────────────────────────────────────────────────────────────────

weighted = da.custom_jvp(lambda x, w: np.sin(x) * w)
weighted.defjvp(lambda p, t: (weighted(*p), np.cos(p[0]) * p[1] * t[0] + np.sin(p[0]) * t[1]))

dotted = da.custom_vjp(lambda x, w: {"out": x * w["a"], "sum": np.sum(x * x)})


def _dotted_backward(residuals, c):
    x, a = residuals
    return c["out"] * a + 2 * x * c["sum"], {"a": np.sum(c["out"] * x)}


dotted.defvjp(lambda x, w: (dotted(x, w), (x, w["a"])), _dotted_backward)

#: forward and reverse mode inside one another: a rule whose rule has a rule
outer_rule = da.custom_vjp(lambda x: weighted(x, x))
outer_rule.defvjp(
    lambda x: (outer_rule(x), x),
    lambda x, c: (c * (weighted(x, 1.0) + weighted(x + np.pi / 2, x)),),
)

lanes_at_once = da.custom_vmap(lambda x, y: np.sin(x) @ y)


@lanes_at_once.def_vmap
def _lanes(size, mapped, x, y):
    x = x if mapped[0] else np.broadcast_to(x, (size, *x.shape))
    y = y if mapped[1] else np.broadcast_to(y, (size, *y.shape))
    return np.sum(np.sin(x) * y, -1), True


@construct(lambda x, w: np.sin(x) * w * x, normal(2), normal(2))
def with_custom_jvp(np, x, w):
    return weighted(x, w) * x


@construct(lambda x, a: (x * a * np.sum(x * x), np.sum(x * x) ** 2), normal(3), normal())
def with_custom_vjp(np, x, a):
    out = dotted(x, {"a": a})
    return out["out"] * out["sum"], out["sum"] ** 2


@construct(lambda x: np.sin(x) * x * x, normal(2))
def with_a_rule_of_rules(np, x):
    return outer_rule(x) * x


@construct(lambda x, y: (np.sin(x) @ y) ** 2 * x, normal(2), normal(2))
def with_custom_vmap(np, x, y):
    return lanes_at_once(x, y) ** 2 * x


@construct(lambda a, b: b / a * b, positive(2), normal(2))
def with_linear_call(np, a, b):
    return da.linear_call(lambda a, b: b / a, lambda a, c: c / a, a, b) * b


@construct(lambda x: np.tanh(x) * x, normal(2))
def with_wrap(np, x):
    return opaque(x) * x


opaque = da.wrap(lambda x: np.tanh(np.asarray(x)), jac=lambda x: np.diag(1 - np.tanh(x) ** 2))


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _block(w, x):
    return np.exp(np.sin(w @ x) * x)


def _under_checkpoint(name: str, **options) -> None:
    def function(np, w, x):
        named = lambda w, x: da.checkpoint_name(np.sin(w @ x), "kept") * x
        return np.exp(da.checkpoint(named, **options)(w, x))

    function.__name__ = name
    construct(_block, normal(2, 2), normal(2))(function)


_under_checkpoint("with_checkpoint")
_under_checkpoint("with_dots_saved", policy=da.checkpoint_policies.dots_saveable)
_under_checkpoint("with_names_saved", policy=da.checkpoint_policies.save_only_these_names("kept"))
_under_checkpoint("with_everything_saved", policy=da.checkpoint_policies.everything_saveable)


@construct(lambda w, x: np.sum(np.exp(_block(w, x))) * x, normal(2, 2), normal(2))
def with_nested_checkpoints(np, w, x):
    inner = da.checkpoint(_block)
    return da.checkpoint(lambda x: np.sum(np.exp(inner(w, x))))(x) * x


@construct(lambda x: np.sin(x) ** 2 * x, normal(2))
def with_residual_hooks(np, x):
    with da.residual_hooks(lambda r: [r], lambda packed: packed[0]):
        return np.sin(x) ** 2 * x


# ── control flow ─────────────────────────────────────────────────────────────────────────────────────────────────


@construct(lambda x, y: np.where(x > 0, np.sin(x) * y, x * x), normal(), normal())
def with_cond(np, x, y):
    return da.cond(x > 0, lambda x: np.sin(x) * y, lambda x: x * x, x)


@construct(lambda x: np.where(x > 0.7, x**3, np.where(x > 0, np.sin(x), x)), normal())
def with_switch(np, x):
    index = np.where(x > 0.7, 2, np.where(x > 0, 1, 0))
    return da.switch(index, [lambda x: x, np.sin, lambda x: x**3], x)


@construct(lambda x: x * np.where(x > 1.0, 1.0, x * x), positive(), unbounded=True)
def with_while_loop(np, x):
    body = lambda c: {"n": c["n"] + 1, "y": c["y"] * x}
    return da.while_loop(lambda c: (c["n"] < 2) & (x <= 1.0), body, {"n": 0, "y": x})["y"]


@construct(lambda x, w: w @ np.sin(w @ np.sin(w @ x)), normal(2), normal(2, 2))
def with_fori_loop(np, x, w):
    return w @ da.fori_loop(0, 2, lambda i, c: np.sin(w @ c), x)


@construct(lambda a, xs: np.stack([a, a * xs[0], a * xs[0] * xs[1] + np.sin(a)]), normal(), normal(2))
def with_scan(np, a, xs):
    last, ys = da.scan(lambda c, x: (c * x, c), a, xs)
    return np.concatenate([ys, (last + np.sin(a))[None]])


@construct(lambda xs: np.cumprod(xs) * xs, positive(3))
def with_associative_scan(np, xs):
    return da.associative_scan(np.multiply, xs) * xs


# ── solutions of equations ───────────────────────────────────────────────────────────────────────────────────────


def _newton(f, x):
    for _ in range(8):
        x = x - f(x) / da.jvp(f, (x,), (np.ones_like(x)[()],))[1]
    return x


@construct(lambda a: np.cbrt(a) * a, positive())
def with_custom_root(np, a):
    return da.custom_root(lambda x: x**3 - a, 1.0, _newton) * a


@construct(lambda a: np.sqrt(a) * a, positive())
def with_fixed_point(np, a):
    return da.fixed_point(lambda x: 0.5 * (x + a / x), 1.0, tolerance=1e-15) * a


# ── hooks and collectives ────────────────────────────────────────────────────────────────────────────────────────


@construct(lambda x: np.sin(x) * x, normal(2))
def with_grad_hook(np, x):
    return np.sin(da.grad_hook(x, lambda c: c)) * x


@construct(lambda x: np.sin(x) / np.sum(x * x) * np.mean(x), positive(3))
def with_collectives(np, x):
    lane = lambda v: np.sin(v) / da.psum(v * v, "of its own") * da.pmean(v, "of its own")
    return da.vmap(lane, axis_name="of its own")(x)


# ── one inside the other ─────────────────────────────────────────────────────────────────────────────────────────


@construct(lambda x, w: np.sin(np.sin(x) * w) * w, normal(2), normal(2))
def with_a_checkpointed_rule_in_a_loop(np, x, w):
    step = da.checkpoint(lambda c: weighted(da.grad_hook(c, lambda ct: ct), w))
    return da.scan(lambda c, _: (step(c), None), x, None, length=2)[0]


@construct(lambda x, y: np.where(x > 0, np.cbrt(x * x + 1) * y, np.sin(x) * y), normal(), normal())
def with_a_solver_in_a_branch(np, x, y):
    solved = lambda x: da.custom_root(lambda r: r**3 - (x * x + 1), 1.0, _newton)
    return dotted(da.cond(x > 0, solved, np.sin, x), {"a": y})["out"]
