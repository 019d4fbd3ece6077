"""Work where the arithmetic dominates: whole Jacobians, and elementwise code on 10⁷ numbers (time and memory)."""

import numpy as np

from benchmarks.harness import Budget, Work
from benchmarks.peers import Dualad, peers

__all__ = ["works"]

RNG = np.random.default_rng(1)
WIDE, OTHER = RNG.normal(size=(1000, 100)) / 10, RNG.normal(size=(1000, 100)) / 10
NARROW, LAST = RNG.normal(size=(200, 1000)) / 30, RNG.normal(size=(10, 200)) / 14


def widening(np, x):
    """R^100 -> R^1000."""
    return np.sin(np.asarray(WIDE) @ x) * np.tanh(np.asarray(OTHER) @ x)


def widening_jacobian(x):
    a, b = WIDE @ x, np.tanh(OTHER @ x)
    return (np.cos(a) * b)[:, None] * WIDE + (np.sin(a) * (1.0 - b * b))[:, None] * OTHER


def narrowing(np, x):
    """R^1000 -> R^10."""
    return np.asarray(LAST) @ np.tanh(np.asarray(NARROW) @ np.sin(x))


def narrowing_jacobian(x):
    h = np.tanh(NARROW @ np.sin(x))
    return ((LAST * (1.0 - h * h)) @ NARROW) * np.cos(x)


def elementwise(np, x):
    """Fourteen elementwise operations, five of them transcendental."""
    y = np.exp(-x)
    z = np.tanh(x * y + 0.5)
    w = np.sin(z) / (1.0 + y)
    return w * z + np.log(1.0 + x * x) * np.cos(w)


def elementwise_derivative(x, t):
    """The derivative of `elementwise` in the direction `t`, by hand (it is diagonal: also its vjp)."""
    y = np.exp(-x)
    dy = -y * t
    z = np.tanh(x * y + 0.5)
    dz = (1.0 - z * z) * (t * y + x * dy)
    s, c = np.sin(z), 1.0 / (1.0 + y)
    w = s * c
    dw = (np.cos(z) * dz - w * dy) * c
    q = 1.0 + x * x
    return dw * z + w * dz + (2.0 * x * t / q) * np.cos(w) - np.log(q) * np.sin(w) * dw


def one_jvp_a_column(x):
    """What `jacfwd` would cost without batching: 100 separate jvps."""
    library = Dualad()
    columns = [library.jvp(widening, x, e) for e in np.eye(x.size)]
    return lambda: np.stack([column() for column in columns], axis=-1)


def works(quick):
    x = np.linspace(-1.0, 1.0, 100)
    yield Work(
        "jacfwd",
        "jacfwd, R¹⁰⁰ → R¹⁰⁰⁰",
        {
            **peers("jacfwd", widening, x),
            "NumPy primal": lambda: lambda: widening(np, x),
            "hand-written": lambda: lambda: widening_jacobian(x),
            "dualad, 100 jvps": lambda: one_jvp_a_column(x),
        },
        budgets=(Budget("≥ 3× faster than 100 jvps", "dualad, 100 jvps", "dualad", at_least=3),),
    )
    long = np.linspace(-1.0, 1.0, 1000)
    yield Work(
        "jacrev",
        "jacrev, R¹⁰⁰⁰ → R¹⁰",
        {
            **peers("jacrev", narrowing, long),
            "NumPy primal": lambda: lambda: narrowing(np, long),
            "hand-written": lambda: lambda: narrowing_jacobian(long),
        },
    )
    n = 10**6 if quick else 10**7
    power = "10⁶" if quick else "10⁷"
    big, t = np.linspace(0.1, 2.0, n), np.linspace(1.0, 2.0, n)
    for verb, bound in (("jvp", 3), ("vjp", 5)):
        yield Work(
            f"elementwise-{verb}",
            f"{verb} of 14 elementwise operations on {power} numbers",
            {
                **peers(verb, elementwise, big, t),
                "NumPy primal": lambda: lambda: elementwise(np, big),
                "hand-written": lambda: lambda: elementwise_derivative(big, t),
            },
            budgets=(Budget(f"≤ {bound}× the primal", "dualad", "NumPy primal", at_most=bound),),
            memory=True,
        )
