"""A zoo of plain NumPy functions, each taking the namespace as its first parameter so that JAX can run it too.

Not for: tests (`test_closure.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy  # noqa: ICN001  (np is the namespace that a function is given)

__all__ = ["ZOO", "Animal"]


class Animal(NamedTuple):
    """A function and how to make its arguments.

    ``make(rng)`` returns a tuple of trees of arrays inside the differentiable domain; every call another one.
    ``branches`` says that it branches on values, so that vmap and trace must refuse it.
    """

    function: Callable
    make: Callable
    branches: bool = False


ZOO: dict[str, Animal] = {}


def animal(*makers, branches: bool = False):
    """Register a function with a maker for each of its arguments."""

    def register(function):
        ZOO[function.__name__] = Animal(function, lambda rng: tuple(m(rng) for m in makers), branches)
        return function

    return register


def normal(*shape):
    return lambda rng: rng.normal(size=shape)[()]


def positive(*shape):
    return lambda rng: rng.uniform(0.5, 2.0, size=shape)[()]


def matrix(n):
    return lambda rng: rng.normal(size=(n, n)) / 2 + 2.5 * numpy.eye(n)


def spaced(n):
    """Distinct values in random order, far apart: sorting and maxima have no ties."""
    return lambda rng: rng.permutation(n) + rng.uniform(-0.2, 0.2, size=n)


def complexes(*shape):
    return lambda rng: rng.normal(size=shape) + 1j * rng.normal(size=shape)


# ── scalars ──────────────────────────────────────────────────────────────────────────────────────────────────────


@animal(normal())
def polynomial(np, x):
    return x**3 - 2 * x + 1


@animal(positive(), positive())
def power_tower(np, x, y):
    return x ** (y**x)


@animal(normal(), positive())
def angles(np, x, y):
    return np.arctan2(x, y) * np.hypot(x, y) + np.arcsin(x / (2 + x * x)) + np.cosh(y)


@animal(positive())
def heron(np, x):
    """Square root by Newton's iteration: a loop."""
    s = x
    for _ in range(4):
        s = 0.5 * (s + x / s)
    return s


@animal(normal(), branches=True)
def branching(np, x):
    if x > 0.5:
        return np.exp(x) * x
    return np.sin(x) - x**2


@animal(positive(), branches=True)
def halving(np, x):
    y = x * 8
    while y > 1:
        y = y * 0.5 * x
    return y * y


@animal(positive())
def horner(np, x):
    total = 0.0 * x
    for c in (1.0, -0.5, 0.25, 3.0, -1.0):
        total = total * x + c
    return total / (1 + x)


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────────────────────


@animal(normal(4))
def rosenbrock(np, x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@animal(normal(4))
def softmax(np, x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


@animal(normal(5))
def log_sum_exp(np, x):
    m = np.max(x)
    return m + np.log(np.sum(np.exp(x - m)))


@animal(normal(4), normal(4))
def logistic_loss(np, x, w):
    return np.mean(np.logaddexp(0.0, -x * w)) + 0.1 * np.dot(w, w)


@animal(normal(3))
def beside_a_pole(np, x):
    """The square root's derivative is infinite where it is not selected."""
    x = np.stack([x[0] * 0.0, x[1] ** 2 + 0.5, -(x[2] ** 2) - 0.5])
    return np.where(x > 0, np.sqrt(np.abs(x)), 2.0 * x * x)


@animal(normal(6))
def sliced(np, x):
    return x[::2] * x[1::2] + x[-1] * x[2:5] - x[::-1][:3] ** 2


@animal(normal(4))
def gathered(np, x):
    return x[numpy.array([0, 2, 0, -1])] * x + x[numpy.array([True, False, True, False])].sum()


@animal(positive(4))
def scanned(np, x):
    return np.cumsum(x * x) / np.cumprod(x)


@animal(spaced(5))
def sorted_weights(np, x):
    return np.sort(np.sin(x / 4)) @ numpy.arange(5.0) + np.sort(x)[::-1] * x[0]


@animal(spaced(5))
def reductions(np, x):
    return np.stack([np.mean(x), np.var(x), np.prod(x + 0.5), np.max(x) * np.min(x), np.std(x), np.sum(x) ** 2])


@animal(spaced(6))
def clipped(np, x):
    return np.maximum(x, 1.5) * np.clip(x, 0.5, 3.5) + np.minimum(x * x, 6.3) * np.abs(x - 2.5)


@animal(normal(3), normal(3))
def pendulum(np, x, v):
    """Four leapfrog steps: a loop that carries two arrays."""
    for _ in range(4):
        v = v - 0.05 * np.sin(x)
        x = x + 0.1 * v
        v = v - 0.05 * np.sin(x)
    return x, v


@animal(complexes(3), normal(3))
def interference(np, z, x):
    wave = np.exp(1j * x) + z * z
    return np.real(wave * np.conj(wave)), np.imag(wave) * np.abs(z), z * np.sin(z)


@animal(normal(3))
def norms(np, x):
    return np.linalg.norm(x) + np.sqrt(np.sum(x**2)) * x


# ── matrices ─────────────────────────────────────────────────────────────────────────────────────────────────────


@animal(normal(2, 3), normal(3, 2), normal(2))
def products(np, a, b, v):
    return (a @ b) @ v + np.tanh(b.T @ a.T @ v) * np.trace(a @ b)


@animal(matrix(3), normal(3))
def solved(np, a, b):
    return np.linalg.solve(a, b) * np.linalg.det(a)


@animal(matrix(3))
def inverses(np, a):
    sign, logdet = np.linalg.slogdet(a)
    return np.linalg.inv(a) * logdet + sign * a


@animal(matrix(3), normal(3))
def gaussian(np, a, x):
    """The log density of a normal distribution, through a Cholesky factor."""
    factor = np.linalg.cholesky(a @ a.T)
    white = np.linalg.solve(factor, x)
    return -0.5 * np.sum(white**2) - np.sum(np.log(np.diagonal(factor)))


@animal(normal(3, 2), normal(3, 2), normal(3, 2))
def attention(np, q, k, v):
    scores = np.einsum("id,jd->ij", q, k) / 2.0
    scores = scores - np.max(scores, axis=1, keepdims=True)
    weights = np.exp(scores)
    return np.einsum("ij,jd->id", weights / weights.sum(axis=1, keepdims=True), v)


@animal(normal(3, 2), normal(4, 2))
def distances(np, x, y):
    return np.sqrt(np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1) + 0.1)


@animal(normal(2, 3))
def reshaped(np, x):
    y = np.concatenate([x.reshape(3, 2), np.transpose(x) ** 2], axis=1)
    return np.squeeze(np.expand_dims(np.swapaxes(y, 0, 1), 0)) * np.broadcast_to(x[:1, :], (4, 3))


@animal(normal(4, 2), normal(2, 2), normal(2))
def recurrent(np, xs, w, h):
    states = []
    for i in range(4):
        h = np.tanh(w @ h + xs[i])
        states.append(h)
    return np.stack(states)


# ── trees ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _parameters(rng):
    return {
        "layers": [(rng.normal(size=(3, 2)), rng.normal(size=3)), (rng.normal(size=(1, 3)), rng.normal(size=1))],
        "scale": rng.normal(),
    }


@animal(_parameters, normal(2))
def network(np, parameters, x):
    for w, b in parameters["layers"]:
        x = np.tanh(w @ x + b)
    return {"out": x * parameters["scale"], "penalty": sum(np.sum(w * w) for w, _ in parameters["layers"])}


@animal(lambda rng: {"a": rng.normal(), "b": (rng.normal(size=2), rng.normal(size=(2, 2)))})
def tree_to_tree(np, p):
    a, (v, m) = p["a"], p["b"]
    return [a * v, {"quadratic": v @ m @ v, "constant": numpy.ones(2)}, (np.sin(m) * a,)]
