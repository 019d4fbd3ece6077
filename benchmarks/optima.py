"""Tangents of answers that SciPy's solvers found, against what the solvers themselves take.

Not for: sparse Jacobians as such (`sparse.py`).
"""

import importlib

import numpy as np

import dualad as da
from benchmarks.harness import Budget, Work

__all__ = ["works"]


def reaction(u, source):
    """−u″ + u³ + eᵘ/10 = source: three unknowns in each equation."""
    edge = np.zeros(1)
    left, right = np.concatenate([edge, u[:-1]]), np.concatenate([u[1:], edge])
    return 2 * u - left - right + u**3 + 0.1 * np.exp(u) - source


def at_the_root(n):
    """Return a source, the root, and a function that makes one Newton step with the pattern known."""
    linalg = importlib.import_module("scipy.sparse.linalg")
    source = np.linspace(1.0, 2.0, n)
    jacobian = da.sparse_jacobian(reaction, format="csc")

    def step(u):
        return u - linalg.spsolve(jacobian(u, source), reaction(u, source))

    u = np.ones(n)
    for _ in range(20):
        u = step(u)
    return source, u, step


def tangent(n):
    """The whole of a jvp whose solver evaluates the equation once: pattern, Jacobian, factorization, one solve."""
    optimize = importlib.import_module("dualad.scipy.optimize")
    source, u, _ = at_the_root(n)
    solve = lambda s: optimize.linearmixing(lambda v: reaction(v, s), u, iter=1, alpha=1e-9, line_search=None)
    return lambda: da.jvp(solve, (source,), (np.ones(n),))[0]


def newton_step(n):
    _, u, step = at_the_root(n)
    return lambda: step(u)


def fitted(whole):
    optimize = importlib.import_module("dualad.scipy.optimize")
    t = np.linspace(0.0, 2.0, 200)
    y = 2.5 * np.exp(-1.3 * t) + 0.05 * np.random.default_rng(0).normal(size=200)
    decay = lambda t, size, rate: size * np.exp(-rate * t)
    fit = lambda y: optimize.curve_fit(decay, t, y, jac="dualad")[0]
    if whole == "dualad":
        return lambda: da.jacrev(fit)(y)

    def differences():
        h = 1e-5
        return np.stack([(fit(y + h * e) - fit(y - h * e)) / (2 * h) for e in np.eye(200)], 1)

    return differences


def works(quick):
    n = 2000 if quick else 20_000
    return [
        Work(
            "optimum-sparse", f"tangent of the root of a sparse system, n = {n}",
            {"dualad": lambda: tangent(n), "a Newton step": lambda: newton_step(n)},
            (Budget("≤ 2× a Newton step", "dualad", "a Newton step", at_most=2.0),), memory=True, agreement=1e-6,
        ),
        Work(
            "optimum-fit", "Jacobian of a fit in 200 measurements",
            {"dualad": lambda: fitted("dualad"), "differences": lambda: fitted("differences")},
            (Budget("≥ 20× faster than differences", "differences", "dualad", at_least=20.0),), agreement=1e-4,
        ),
    ]  # fmt: skip
