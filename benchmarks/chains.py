"""Many small operations: what a call into the library costs when the arrays are too small to hide it.

A chain of 100 operations on ten numbers (jvp and vjp, reported per operation), the gradient through a Python loop of
1000 time steps on a state of four, and a loop that fills an array of 10⁵ entries one by one (reported per entry).
"""

import numpy as np

from benchmarks.harness import Budget, Work
from benchmarks.peers import Dualad, peers

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
DECAY = 0.5


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


def fill(np, x):
    """The sum of the squares of an array filled by a recurrence, one entry after the other."""
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = DECAY * y[i - 1] + x[i]
    return np.sum(y * y)


def fill_and_tangent(x, t):
    """The derivative of `fill` by hand: the recurrence is linear, so its tangent is the same recurrence."""
    y, s = np.zeros_like(x), np.zeros_like(x)
    y[0], s[0] = x[0], t[0]
    for i in range(1, len(x)):
        y[i] = DECAY * y[i - 1] + x[i]
        s[i] = DECAY * s[i - 1] + t[i]
    return 2.0 * np.sum(y * s)


def fill_adjoint(x):
    """The gradient of `fill` by hand: the recurrence, then the same one backwards."""
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = DECAY * y[i - 1] + x[i]
    ct = 2.0 * y
    for i in range(len(x) - 1, 0, -1):
        ct[i - 1] += DECAY * ct[i]
    return ct


def works(quick):
    x, v = np.linspace(0.1, 0.9, 10), np.linspace(1.0, 2.0, 10)
    steps = 200 if quick else 1000
    start = np.array([0.5, -0.3, 0.8, 0.1])
    yield Work(
        "chain-jvp",
        f"jvp of a chain of {OPERATIONS} operations, n = 10 (time an operation)",
        {
            **peers("jvp", chain, x, v, of_one_vector=True),
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
            **peers("vjp", chain, x, v, of_one_vector=True),
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
            **peers("grad", simulate(steps), start, of_one_vector=True),
            "NumPy primal": lambda: lambda: simulate(steps)(np, start),
            "hand-written": lambda: lambda: simulate_adjoint(start, steps),
        },
    )
    entries = 1000 if quick else 100_000
    long, along = np.linspace(0.0, 1.0, entries), np.linspace(1.0, 2.0, entries)
    # No other library writes into arrays, so there is nobody to compare with but NumPy.
    yield Work(
        "fill-jvp",
        f"jvp of a loop that fills an array of {entries} (time an entry)",
        {
            "dualad": lambda: Dualad().jvp(fill, long, along),
            "NumPy primal": lambda: lambda: fill(np, long),
            "hand-written": lambda: lambda: fill_and_tangent(long, along),
        },
        per=entries,
    )
    yield Work(
        "fill-grad",
        f"grad of a loop that fills an array of {entries} (time an entry)",
        {
            "dualad": lambda: Dualad().grad(fill, long),
            "NumPy primal": lambda: lambda: fill(np, long),
            "hand-written": lambda: lambda: fill_adjoint(long),
        },
        per=entries,
    )
