"""Small programs that only a compiler makes fast: derivatives of one number, of a system of three equations.

Not here: the sixty everyday functions (`everyday.py`), models (`models.py`), large arrays (`large.py`).
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
    return LINEAR @ x + np.sin(x) * (PRODUCTS @ x)


def quadratic_jacobian(x):
    return LINEAR + np.diag(np.cos(x) * (PRODUCTS @ x)) + np.sin(x)[:, None] * PRODUCTS


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
