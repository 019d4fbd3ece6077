"""Gradients of scans whose bodies read, join and stack rows, or are about arrays of more than a thousand entries.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks --only bodies

Not here: scans of numbers, and Python loops that are found again (`models.py`, `chains.py`).
"""

import numpy as np

import dualad as da
from benchmarks.harness import Budget, Work

__all__ = ["works"]

_WIDTH = 14


def lstm(xp, scan):
    """Two layers of gates that are numbers for each entry, as in ADBench; the state is stacked anew at each step."""
    gate = lambda x: 1 / (1 + xp.exp(-x))

    def layer(weight, bias, hidden, cell, x):
        gates = xp.concatenate((x, hidden, x, hidden)) * weight + bias
        forget, enter, leave, change = [gates[i * _WIDTH : (i + 1) * _WIDTH] for i in range(4)]
        cell = cell * gate(forget) + gate(enter) * xp.tanh(change)
        return gate(leave) * xp.tanh(cell), cell

    def loss(weights, scales, state, sequence):
        def step(carry, rows):
            state, total = carry
            x, new = rows[0] * scales[0], []
            for i in (0, 2):
                x, cell = layer(weights[i], weights[i + 1], state[i], state[i + 1], x)
                new += [x, cell]
            guess = x * scales[1] + scales[2]
            return (xp.stack(new), total + xp.sum(rows[1] * (guess - xp.log(2 + xp.sum(xp.exp(guess)))))), None

        return -scan(step, (state, 0.0), (sequence[:-1], sequence[1:]))[0][1]

    return loss


def integration(steps):
    def build(xp, scan):
        rate = lambda u: 0.3 * xp.concatenate([u[1:], u[:1]]) - 0.2 * u * u + xp.sin(u)

        def step(u, _):
            a = rate(u)
            b = rate(u + 0.005 * a)
            c = rate(u + 0.005 * b)
            return u + 0.01 / 6 * (a + 2 * b + 2 * c + rate(u + 0.01 * c)), None

        return lambda u: xp.sum(scan(step, u, None, length=steps)[0] ** 2)

    return build


def recurrence(xp, scan):
    """A recurrent network: a matrix times a vector at each step."""

    def loss(matrix, state, rows):
        step = lambda h, x: (xp.tanh(matrix @ h + x), xp.sum(h))
        last, sums = scan(step, state, rows)
        return xp.sum(last**2) + xp.sum(sums**2)

    return loss


def gradient(name, title, build, args, at_most):
    first = tuple(range(min(2, len(args))))

    def ours():
        f = da.jit(da.grad(build(np, da.scan), argnums=first))
        return lambda: f(*args)

    def jax_jit():
        import jax

        jax.config.update("jax_enable_x64", True)
        f = jax.jit(jax.grad(build(jax.numpy, jax.lax.scan), first))
        return lambda: jax.block_until_ready(f(*args))

    budgets = (Budget(f"≤ {at_most} of JAX jit, compiled", "dualad jit", "JAX jit", at_most=at_most),)
    return Work(f"bodies-{name}", title, {"dualad jit": ours, "JAX jit": jax_jit}, budgets)


def works(quick):
    rng = np.random.default_rng(0)
    some = lambda *shape: 0.3 * rng.standard_normal(shape)
    steps = 128 if quick else 1024
    gates = some(4, 4 * _WIDTH), some(3, _WIDTH), some(4, _WIDTH), some(steps + 1, _WIDTH)
    yield gradient("lstm", f"gradient of an LSTM of {steps} steps", lstm, gates, 0.7)
    for n in (1_000, 1_100, 10_000, *([] if quick else [100_000])):
        yield gradient(f"ode-{n}", f"gradient through 20 steps of {n} equations", integration(20), (some(n),), 0.7)
    for n in (60, 200):
        network = some(n, n) / np.sqrt(n), some(n), some(100, n)
        yield gradient(f"rnn-{n}", f"gradient through 100 steps of a {n} × {n} network", recurrence, network, 0.7)
