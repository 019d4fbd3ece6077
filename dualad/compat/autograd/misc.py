"""``autograd.misc``, ``autograd.test_util`` and ``autograd.numpy.numpy_vjps``: small helpers that code relies on.

``flatten`` and the optimizers sgd, rmsprop and adam, of trees; ``fixed_point``; ``check_grads``; ``unbroadcast_f``.
Not for: new code, which has ``dualad.ravel_pytree``, SciPy's optimizers, ``dualad.fixed_point`` and
``dualad.testing.check_grads``.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from dualad.annex.ravel import ravel_pytree as flatten
from dualad.control.implicit import fixed_point as solve_fixed_point
from dualad.testing.check_grads import check_grads as check

from .differential_operators import as_numbers, nary

__all__ = [
    "adam", "check_grads", "combo_check", "fixed_point", "flatten", "flatten_func", "rmsprop", "sgd", "unbroadcast",
    "unbroadcast_f",
]  # fmt: skip


def flatten_func(func: Callable, example: Any) -> tuple[Callable, Callable, Any]:
    """Return a function of trees as one of vectors, the way from a vector to a tree, and the example's vector."""
    flat, unflatten = flatten(example)
    return (lambda x, *args: flatten(func(unflatten(x), *args))[0]), unflatten, flat


# ── optimizers: grad(x, i) is called at each iteration i ─────────────────────────────────────────────────────────


def _of_trees(steps: Callable) -> Callable:
    """Make an optimizer of trees from a generator: it is sent the gradient at each vector that it yields."""

    @functools.wraps(steps)
    def optimize(grad: Callable, x0: Any, callback: Callable | None = None, *settings, **named) -> Any:
        x, unflatten = flatten(as_numbers(x0))
        path, g, i = steps(x, *settings, **named), None, 0
        while True:
            try:
                x = path.send(g)
            except StopIteration as done:
                return unflatten(done.value)
            g = flatten(grad(unflatten(x), i))[0]
            if callback:
                callback(unflatten(x), i, unflatten(g))
            i += 1

    return optimize


@_of_trees
def sgd(x, num_iters=200, step_size=0.1, mass=0.9) -> Generator[Any, Any, Any]:
    """Minimize by stochastic gradient descent with momentum: v ← mass·v − (1 − mass)·g, x ← x + step_size·v."""
    velocity = np.zeros_like(x)
    for _ in range(num_iters):
        g = yield x
        velocity = mass * velocity - (1.0 - mass) * g
        x = x + step_size * velocity
    return x


@_of_trees
def rmsprop(x, num_iters=100, step_size=0.1, gamma=0.9, eps=1e-8) -> Generator[Any, Any, Any]:
    """Minimize by RMSProp: the step is divided by the root of a running mean of g²."""
    mean_square = np.ones_like(x)
    for _ in range(num_iters):
        g = yield x
        mean_square = gamma * mean_square + (1 - gamma) * g**2
        x = x - step_size * g / (np.sqrt(mean_square) + eps)
    return x


@_of_trees
def adam(x, num_iters=100, step_size=0.001, b1=0.9, b2=0.999, eps=1e-8) -> Generator[Any, Any, Any]:
    """Minimize by Adam: running means m of g and v of g², each divided by the weight it has gathered so far."""
    m, v = np.zeros_like(x), np.zeros_like(x)
    for i in range(1, num_iters + 1):
        g = yield x
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * g**2 + b2 * v
        x = x - step_size * (m / (1 - b1**i)) / (np.sqrt(v / (1 - b2**i)) + eps)
    return x


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────


def fixed_point(f: Callable, a: Any, x0: Any, distance: Callable, tol: float) -> Any:
    """Iterate x ← f(a)(x) until it moves by ``tol`` at most, with the derivative of the limit in ``a``."""

    def solve(step, x):
        x, last = step(x), x
        while distance(x, last) > tol:
            x, last = step(x), x
        return x

    return solve_fixed_point(lambda x, a: f(a)(x), x0, solve, args=(a,))


@nary
def _checked(f: Callable, x: Any, modes: Sequence[str], order: int) -> None:
    check(f, (x,), order, modes)


def check_grads(f: Callable, argnum: int | Sequence[int] = 0, modes: Sequence[str] = ("fwd", "rev"), order: int = 2):
    """Make the function that checks derivatives of ``f`` at a point against central differences."""
    return _checked(f, argnum, modes, order)


def combo_check(fun: Callable, *args, **kwargs) -> Callable:
    """Make the function that checks derivatives for every combination of the given arguments."""

    def all_of(*choices, **named):
        for point in itertools.product(*choices):
            for settings in itertools.product(*[[(k, x) for x in xs] for k, xs in named.items()]):
                check_grads(functools.partial(fun, **dict(settings)), *args, **kwargs)(*point)

    return all_of


def unbroadcast(g: Any, like: Any) -> Any:
    """Return a cotangent of a broadcast argument summed to the argument's shape."""
    shape = np.shape(like)
    if np.ndim(g) > len(shape):
        g = np.sum(g, axis=tuple(range(np.ndim(g) - len(shape))))
    spread = tuple([i for i, n in enumerate(shape) if n == 1 and np.shape(g)[i] != 1])
    return np.sum(g, axis=spread, keepdims=True) if spread else g


def unbroadcast_f(target: Any, f: Callable) -> Callable:
    """Return a pullback whose results are summed to the shape of ``target``."""
    return lambda g: unbroadcast(f(g), target)
