"""Models of a size people fit: Rosenbrock's Hessian, and the gradients of a multilayer perceptron."""

import itertools

import numpy as np

from benchmarks.harness import Work
from benchmarks.peers import peers

__all__ = ["works"]


def rosenbrock(np, x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_hessian(x):
    H = np.zeros((x.size, x.size))
    i = np.arange(x.size - 1)
    H[i, i] = 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
    H[i + 1, i + 1] += 200.0
    H[i, i + 1] = H[i + 1, i] = -400.0 * x[:-1]
    return H


def perceptron(np, params, inputs, targets):
    """Mean cross-entropy of a two-hidden-layer perceptron; also of one example, when the batch axis is absent."""
    W1, b1, W2, b2, W3, b3 = params
    hidden = np.tanh(inputs @ W1 + b1)
    hidden = np.tanh(hidden @ W2 + b2)
    logits = hidden @ W3 + b3
    return np.mean(np.log(np.sum(np.exp(logits), axis=-1)) - np.sum(logits * targets, axis=-1))


def layers(params, inputs, targets):
    """The hidden activations and the backward signals of each layer, by hand."""
    W1, b1, W2, b2, W3, b3 = params
    h1 = np.tanh(inputs @ W1 + b1)
    h2 = np.tanh(h1 @ W2 + b2)
    odds = np.exp(h2 @ W3 + b3)
    d3 = odds / odds.sum(axis=-1, keepdims=True) - targets
    d2 = (d3 @ W3.T) * (1.0 - h2 * h2)
    d1 = (d2 @ W2.T) * (1.0 - h1 * h1)
    return h1, h2, d1, d2, d3


def perceptron_gradient(params, inputs, targets):
    h1, h2, d1, d2, d3 = layers(params, inputs, targets)
    sums = (inputs.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ d3, d3.sum(0))
    return [part / len(inputs) for part in sums]


def perceptron_gradients(params, inputs, targets):
    """One gradient an example: outer products instead of matrix products."""
    h1, h2, d1, d2, d3 = layers(params, inputs, targets)
    outer = [a[:, :, None] * d[:, None, :] for a, d in ((inputs, d1), (h1, d2), (h2, d3))]
    return outer[0], d1, outer[1], d2, outer[2], d3


def problem(sizes, batch):
    """Parameters, inputs and one-hot targets of a perceptron with these layer sizes, from a fixed seed."""
    rng = np.random.default_rng(0)
    params = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        params += [rng.normal(size=(fan_in, fan_out)) / np.sqrt(fan_in), rng.normal(size=fan_out) / 10]
    return params, rng.normal(size=(batch, sizes[0])), np.eye(sizes[-1])[rng.integers(sizes[-1], size=batch)]


def works(quick):
    for n in (10, 100):
        x = np.linspace(-1.0, 1.5, n)
        yield Work(
            f"rosenbrock-{n}",
            f"Hessian of Rosenbrock's function, n = {n}",
            {
                **peers("hessian", rosenbrock, x, of_one_vector=True),
                "NumPy primal": lambda x=x: lambda: rosenbrock(np, x),
                "hand-written": lambda x=x: lambda: rosenbrock_hessian(x),
            },
        )
    sizes = (64, 256, 256, 10)
    params, inputs, targets = problem(sizes, 256)
    yield Work(
        "mlp-grad",
        f"gradient of a perceptron {'-'.join(map(str, sizes))}, batch 256",
        {
            **peers("grad", perceptron, params, inputs, targets),
            "NumPy primal": lambda: lambda: perceptron(np, params, inputs, targets),
            "hand-written": lambda: lambda: perceptron_gradient(params, inputs, targets),
        },
    )
    small, batch = (32, 64, 64, 10), 64 if quick else 256
    theirs, examples, labels = problem(small, batch)
    yield Work(
        "mlp-per-example",
        f"per-example gradients (vmap of grad) of a perceptron {'-'.join(map(str, small))}, batch {batch}",
        {
            **peers("per_example", perceptron, theirs, examples, labels),
            "NumPy primal": lambda: lambda: perceptron(np, theirs, examples, labels),
            "hand-written": lambda: lambda: perceptron_gradients(theirs, examples, labels),
        },
    )
