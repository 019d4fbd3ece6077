"""Many small operations: what a call into the library costs when the arrays are too small to hide it.

A chain of 100 operations on ten numbers (jvp and vjp, reported per operation), and the gradient through a Python
loop of 1000 time steps on a state of four.
"""

import numpy as np

from benchmarks.harness import Budget, Work
from benchmarks.peers import peers

__all__ = ["works"]

OPERATIONS = 100


def chain(np, x):
    """Ten operations, ten times: half of them transcendental, half arithmetic with scalars and with itself."""
    for _ in range(OPERATIONS // 10):
        y = np.sin(x)
        y = y * 1.01
        y = y + x
        y = np.tanh(y)
        y = 0.5 - y
        y = np.exp(y)
        y = y * x
        y = y / 2.0
        y = np.cos(y)
        x = y + 0.1
    return x


def chain_and_tangent(x, t):
    """The derivative of `chain` as one would write it by hand (diagonal, so the vjp is the jvp)."""
    for _ in range(OPERATIONS // 10):
        y, s = np.sin(x), t * np.cos(x)
        y, s = y * 1.01, s * 1.01
        y, s = y + x, s + t
        y = np.tanh(y)
        s = s * (1.0 - y * y)
        y, s = 0.5 - y, -s
        y = np.exp(y)
        s = s * y
        y, s = y * x, s * x + y * t
        y, s = y / 2.0, s / 2.0
        y, s = np.cos(y), -s * np.sin(y)
        x, t = y + 0.1, s
    return t


MIXING = np.array([[-1.0, 0.5, 0.0, 0.2], [0.3, -1.0, 0.4, 0.0], [0.0, 0.6, -1.0, 0.3], [0.5, 0.0, 0.2, -1.0]])
STEP = 0.01


def simulate_adjoint(x, steps):
    """The gradient of `simulate` by hand: forward keeping the states, backward with the transposed step."""
    states = []
    for _ in range(steps):
        states.append(np.tanh(x))
        x = x + STEP * (MIXING @ states[-1] + 0.1)
    ct = np.ones_like(x)
    for y in reversed(states):
        ct = ct + STEP * (ct @ MIXING) * (1.0 - y * y)
    return ct


def simulate(steps):
    """The sum of four numbers after explicit steps of ``x' = M tanh(x) + 0.1``, as a function of their start."""

    def run(np, x):
        mixing = np.asarray(MIXING)
        for _ in range(steps):
            x = x + STEP * (mixing @ np.tanh(x) + 0.1)
        return np.sum(x)

    return run


def works(quick):
    x, v = np.linspace(0.1, 0.9, 10), np.linspace(1.0, 2.0, 10)
    steps = 200 if quick else 1000
    start = np.array([0.5, -0.3, 0.8, 0.1])
    yield Work(
        "chain-jvp",
        f"jvp of a chain of {OPERATIONS} operations, n = 10 (time an operation)",
        {
            **peers("jvp", chain, x, v),
            "NumPy primal": lambda: lambda: chain(np, x),
            "hand-written": lambda: lambda: chain_and_tangent(x, v),
        },
        budgets=(
            Budget("≥ 3× faster than autograd", "autograd", "dualad", at_least=3),
            Budget("≥ 20× faster than JAX eager", "JAX eager", "dualad", at_least=20),
            Budget("≥ 20× faster than torch.func", "torch.func", "dualad", at_least=20),
        ),
        per=OPERATIONS,
    )
    yield Work(
        "chain-vjp",
        f"vjp of a chain of {OPERATIONS} operations, n = 10 (time an operation)",
        {
            **peers("vjp", chain, x, v),
            "NumPy primal": lambda: lambda: chain(np, x),
            "hand-written": lambda: lambda: chain_and_tangent(x, v),
        },
        budgets=(Budget("≥ 2× faster than autograd", "autograd", "dualad", at_least=2),),
        per=OPERATIONS,
    )
    yield Work(
        "loop-grad",
        f"grad through a Python loop of {steps} steps, state of 4",
        {
            **peers("grad", simulate(steps), start),
            "NumPy primal": lambda: lambda: simulate(steps)(np, start),
            "hand-written": lambda: lambda: simulate_adjoint(start, steps),
        },
    )
