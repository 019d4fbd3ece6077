"""Problems with sparse derivatives, and a checker of colourings that shares nothing with the library.

Not for: tests.
"""

from __future__ import annotations

import numpy as np


def burgers(n):
    h = 1.0 / (n + 1)

    def f(u):
        right, left = np.concatenate((u[1:], np.zeros(1))), np.concatenate((np.zeros(1), u[:-1]))
        return 0.01 / h**2 * (right - 2.0 * u + left) - u * (right - left) * (0.5 / h)

    x = h * np.arange(1, n + 1)
    return f, np.sin(np.pi * x) + 0.3 * np.sin(3 * np.pi * x)


def brusselator(side):
    def laplacian(u):
        return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u

    def f(y):
        u, v = y.reshape((2, side, side))
        du = 1.0 + u * u * v - 4.4 * u + 0.1 * laplacian(u)
        dv = 3.4 * u - u * u * v + 0.1 * laplacian(v)
        return np.stack((du, dv)).reshape(-1)

    return f, np.random.default_rng(1).uniform(0.5, 2.0, 2 * side * side)


def rosenbrock(n):
    return lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), np.linspace(0.5, 1.5, n)


def arrow(n):
    return lambda x: np.sum((x[0] * x[1:]) ** 2 + x[1:] ** 4) + x[0] ** 2, np.linspace(0.5, 1.5, n)


def springs(side):
    """The energy of a mesh of springs, as a function of its coordinates."""
    index = np.arange(side * side).reshape(side, side)
    ends = [(index[:, :-1], index[:, 1:]), (index[:-1], index[1:]), (index[:-1, :-1], index[1:, 1:])]
    a, b = (np.concatenate([pair[k].ravel() for pair in ends]) for k in (0, 1))
    rest = np.stack(np.meshgrid(np.arange(side) * 1.0, np.arange(side) * 1.0), -1).reshape(-1, 2)
    length = np.sqrt(((rest[a] - rest[b]) ** 2).sum(1))

    def f(x):
        p = x.reshape((-1, 2))
        d = p[a] - p[b]
        return np.sum(0.5 * (np.sqrt(np.sum(d * d, axis=1)) - length) ** 2)

    return f, (rest + 0.1 * np.random.default_rng(0).normal(size=rest.shape)).ravel()


def bundle(cameras, points, observations):
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, cameras, observations), rng.integers(0, points, observations)

    def f(x):
        c = x[: 9 * cameras].reshape((cameras, 9))[i]
        p = x[9 * cameras :].reshape((points, 3))[j]
        moved = (
            p * np.cos(c[:, :1]) + np.stack((p[:, 1], -p[:, 0], p[:, 2]), 1) * np.sin(c[:, 1:2] + c[:, 2:3]) + c[:, 3:6]
        )
        q = -moved[:, :2] / moved[:, 2:3]
        r = np.sum(q * q, axis=1, keepdims=True)
        return (c[:, 6:7] * (1 + c[:, 7:8] * r + c[:, 8:9] * r * r) * q).reshape(-1)

    return f, rng.uniform(0.5, 1.5, 9 * cameras + 3 * points)


def collocation(n):
    """A banded residual with two free parameters (dense columns) and an integral constraint (a dense row)."""

    def f(z):
        u, a, b = z[:n], z[n], z[n + 1]
        left, right = np.concatenate((np.zeros(1), u[:-1])), np.concatenate((u[1:], np.zeros(1)))
        return np.concatenate([left - 2 * u + right + a * np.sin(u) + b, np.sum(u**2)[None] - 1 + a])

    return f, np.linspace(0.5, 1.5, n + 2)


def tells_all(C) -> bool:
    """Recover a random matrix of the pattern from the products of a colouring, with dense linear algebra."""
    S = C.sparsity
    m, n = S.shape
    A = np.where(S.toarray(), np.random.default_rng(7).normal(size=(m, n)), 0)
    if C.mode == "symmetric":
        A = np.triu(A) + np.triu(A, 1).T
    forward = [A @ (C.column_colors == c) for c in range(C.forward)]
    reverse = [A.T @ (C.row_colors == c) for c in range(C.reverse)]
    numbers = np.concatenate([*forward, *reverse, np.zeros(0)])
    if C.substitution is not None:
        found = C.substitution.entries(numbers[C.places])
    else:
        found = numbers[C.places]
    return bool(np.allclose(found, A[S.rows, S.indices], rtol=1e-9, atol=1e-9))
