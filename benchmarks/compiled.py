"""Programs that only a compiler makes fast: small ones, loops over large arrays, stacks of small matrices.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks --only scalar --only three --only compiled

The table has first calls too, which compile; with `DUALAD_CACHE=0` they find nothing on the disk. Not here: the sixty
everyday functions (`everyday.py`), models (`models.py`), elementwise code and Jacobians of large arrays (`large.py`).
"""

import numpy as np

from benchmarks.harness import Budget, Work
from benchmarks.peers import peers

__all__ = ["works"]


def ten_operations(np, x):
    """Ten operations on one number (in an array of one)."""
    y = np.sin(x) * np.exp(-x) + np.cos(2.0 * x)
    return np.sum(np.tanh(y) / (1.5 + y * y))


def ten_operations_gradient(x):
    y = np.sin(x) * np.exp(-x) + np.cos(2.0 * x)
    t, d = np.tanh(y), 1.5 + y * y
    return ((1 - t * t) / d - 2 * y * t / d**2) * ((np.cos(x) - np.sin(x)) * np.exp(-x) - 2 * np.sin(2.0 * x))


def quadratic(np, x):
    """A right side like that of the Lorenz system."""
    return np.asarray(LINEAR) @ x + np.sin(x) * (np.asarray(PRODUCTS) @ x)


def quadratic_jacobian(x):
    return LINEAR + np.diag(np.cos(x) * (PRODUCTS @ x)) + np.sin(x)[:, None] * PRODUCTS


def logsumexp(np, x):
    m = np.max(x)
    return np.log(np.sum(np.exp(x - m))) + m


def running(np, x):
    return np.sum(np.cumsum(x) ** 2) / x.shape[0]


def smoothed(np, x):
    return np.tanh(np.convolve(x, np.asarray(TAPS), mode="same"))


def solved(np, x):
    """One solution for each of many right sides and matrices."""
    return np.linalg.solve(np.asarray(MATRICES) + np.sin(x)[:, :, None] * np.eye(10), x[:, :, None])


def factored(np, x):
    return np.linalg.cholesky(np.asarray(MATRICES) + np.exp(x)[:, :, None] * np.eye(10))


def logsumexp_jvp(x, v):
    e = np.exp(x - np.max(x))
    return np.sum(e * v) / np.sum(e)


def running_gradient(x):
    return np.cumsum(np.cumsum(x)[::-1])[::-1] * (2 / x.shape[0])


def smoothed_jvp(x, v):
    return (1 - smoothed(np, x) ** 2) * np.convolve(v, TAPS, mode="same")


def solved_jvp(x, v):
    a = MATRICES + np.sin(x)[:, :, None] * np.eye(10)
    return np.linalg.solve(a, (v - np.cos(x) * v * np.linalg.solve(a, x[:, :, None])[:, :, 0])[:, :, None])


def factored_jvp(x, v):
    low = factored(np, x)
    inside = np.linalg.solve(low, (np.exp(x) * v)[:, :, None] * np.linalg.inv(low).transpose(0, 2, 1))
    return low @ (np.tril(inside, -1) + 0.5 * np.eye(10) * inside)


def with_all_of_numpy(verb, f, *args):
    """Contenders that have every name of NumPy's."""
    return {name: build for name, build in peers(verb, f, *args).items() if name in ("dualad", "dualad jit", "JAX jit")}


TAPS = np.exp(-(np.linspace(-2, 2, 33) ** 2)) / 10
MATRICES = np.random.default_rng(2).normal(size=(1000, 10, 10)) / 8
MATRICES = MATRICES @ MATRICES.transpose(0, 2, 1) + 3 * np.eye(10)
LINEAR = np.array([[-10.0, 10.0, 0.0], [28.0, -1.0, 0.0], [0.0, 0.0, -8.0 / 3.0]])
PRODUCTS = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])


def works(quick):
    x = np.array([0.7])
    yield Work(
        "scalar-grad",
        "gradient of ten operations on one number",
        {
            **peers("grad", ten_operations, x, of_one_vector=True),
            "NumPy primal": lambda: lambda: ten_operations(np, x),
            "hand-written": lambda: lambda: ten_operations_gradient(x),
        },
        (Budget("≤ 0.1 of JAX jit, compiled", "dualad jit", "JAX jit", at_most=0.1),),
    )
    state = np.array([1.0, 2.0, 3.0])
    yield Work(
        "three-jacfwd",
        "Jacobian of a system of three equations",
        {
            **peers("jacfwd", quadratic, state),
            "NumPy primal": lambda: lambda: quadratic(np, state),
            "hand-written": lambda: lambda: quadratic_jacobian(state),
        },
        (Budget("≤ 0.1 of JAX jit, compiled", "dualad jit", "JAX jit", at_most=0.1),),
    )
    n = 100_000 if quick else 1_000_000
    many, v = np.random.default_rng(3).normal(size=(2, n))
    small, direction = np.random.default_rng(4).normal(size=(2, 1000, 10))
    for name, title, verb, f, by_hand, args, most in (
        ("logsumexp", f"jvp of logsumexp, n = {n}", "jvp", logsumexp, logsumexp_jvp, (many, v), 0.55),
        ("cumsum", f"gradient through a running sum, n = {n}", "grad", running, running_gradient, (many,), 0.5),
        ("convolution", f"jvp of a convolution, 33 taps, n = {n}", "jvp", smoothed, smoothed_jvp, (many, v), 0.7),
        ("solve", "jvp of 1000 solutions of 10 equations", "jvp", solved, solved_jvp, (small, direction), 0.35),
        ("cholesky", "jvp of 1000 Cholesky factors, 10 × 10", "jvp", factored, factored_jvp, (small, direction), 0.35),
    ):
        yield Work(
            f"compiled-{name}",
            title,
            {
                **with_all_of_numpy(verb, f, *args),
                "hand-written": lambda by_hand=by_hand, args=args: lambda: by_hand(*args),
            },
            (Budget(f"≤ {most} of JAX jit, compiled", "dualad jit", "JAX jit", at_most=most),),
        )
