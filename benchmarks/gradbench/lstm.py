"""The loss of a recurrent network with diagonal weights that predicts a text, character by character."""

import numpy as np

import dualad as da
from benchmarks.gradbench.evaluation import evaluation

__all__ = ["jacobian", "objective"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell_step(weight, bias, hidden, cell, x):
    """Return the layer's new hidden and cell state; weights and biases are of the forget, in, out and change gates."""
    forget = sigmoid(x * weight[0] + bias[0])
    ingate = sigmoid(hidden * weight[1] + bias[1])
    outgate = sigmoid(x * weight[2] + bias[2])
    change = np.tanh(hidden * weight[3] + bias[3])
    cell = cell * forget + ingate * change
    return outgate * np.tanh(cell), cell


def loss(main, extra, state, sequence):
    layers, size = len(main) // 2, sequence.shape[1]
    gates = main.reshape(layers, 2, 4, size)

    def step(carry, characters):
        x, following = characters
        x, states = x * extra[0], []
        for i in range(layers):
            states.append(cell_step(gates[i, 0], gates[i, 1], *carry[i], x))
            x = states[-1][0]
        y = x * extra[1] + extra[2]
        return states, np.sum(following * (y - np.log(np.sum(np.exp(y)) + 2)))

    start = [(state[2 * i], state[2 * i + 1]) for i in range(layers)]
    likelihoods = da.scan(step, start, (sequence[:-1], sequence[1:]))[1]
    return -np.sum(likelihoods) / sequence[1:].size


value, slope = da.jit(loss), da.jit(da.grad(loss, argnums=(0, 1)))


def prepare(given):
    return [np.array(given[name]) for name in ("main_params", "extra_params", "state", "sequence")]


@evaluation(prepare, float)
def objective(argument):
    return value(*argument)


@evaluation(prepare, lambda slopes: np.concatenate([np.ravel(s) for s in slopes]).tolist())
def jacobian(argument):
    return slope(*argument)
