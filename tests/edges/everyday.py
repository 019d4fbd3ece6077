"""Thirty-three everyday functions of a vector, in plain NumPy: what arrays of every library should go through.

``FUNCTIONS`` maps a name to ``f(x, k)``, where ``x`` has six entries and ``k`` holds constants, which ``constants``
makes of arrays of the same library. Not for: tests; `test_other_arrays.py` uses these.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

N = 6
_rng = np.random.default_rng(0)
_M = _rng.normal(size=(N, N))
X = np.array([0.7, -1.3, 0.4, 2.1, -0.6, 1.5])
V = _rng.normal(size=N)


def constants(make):
    """Return the constants, each as ``make`` has it."""
    rng = np.random.default_rng(1)
    values = {
        "A": _M @ _M.T + N * np.eye(N), "B": rng.normal(size=(4, N)), "w": rng.normal(size=N),
        "y": (rng.normal(size=4) > 0).astype(float),
    }  # fmt: skip
    return SimpleNamespace(**{name: make(value) for name, value in values.items()})


def _softmax(x, k):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


def _in_place(x, k):
    y = np.zeros_like(x)
    y[1:] = x[:-1] ** 2
    y[0] += x[2]
    return y * k.w


def _loop(x, k):
    for _ in range(3):
        x = x + 0.1 * np.tanh(k.A @ x)
    return x


FUNCTIONS = {
    "polynomial": lambda x, k: x**3 - 2 * x + 1,
    "waves": lambda x, k: np.sin(x) * np.exp(-x) + np.cos(k.w * x),
    "sigmoid": lambda x, k: 1 / (1 + np.exp(-x)),
    "softplus": lambda x, k: np.logaddexp(x, 0.0),
    "relu": lambda x, k: np.maximum(x, 0.0) * k.w,
    "root of size": lambda x, k: np.sqrt(np.abs(x)) + np.log1p(x * x),
    "power": lambda x, k: np.abs(x) ** 1.5 + np.hypot(x, k.w),
    "clip": lambda x, k: np.clip(x, -1.0, 1.0) * x,
    "where": lambda x, k: np.where(x > 0, np.sqrt(np.abs(x)), x * x),
    "strong zero": lambda x, k: np.where(x > 0, np.sqrt(np.maximum(x, 0.0)), 0.0) * k.w,
    "sum": lambda x, k: np.sum(x * k.w),
    "mean": lambda x, k: np.mean(x**2),
    "variance": lambda x, k: np.var(x) + np.std(x),
    "product": lambda x, k: np.prod(x),
    "largest": lambda x, k: np.max(x) - np.min(x),
    "norm": lambda x, k: np.linalg.norm(x),
    "log-sum-exp": lambda x, k: np.log(np.sum(np.exp(x))),
    "softmax": _softmax,
    "running sum": lambda x, k: np.cumsum(x) * k.w,
    "running product": lambda x, k: np.cumprod(x),
    "differences": lambda x, k: np.diff(x) ** 2,
    "quadratic form": lambda x, k: x @ k.A @ x,
    "layer": lambda x, k: np.tanh(k.B @ x),
    "einsum": lambda x, k: np.einsum("ij,j->i", k.B, x**2),
    "outer": lambda x, k: np.sum(np.outer(x, x) * k.A, axis=1),
    "reshape": lambda x, k: np.sum(x.reshape(2, 3).T * 2.0, axis=0),
    "stack": lambda x, k: np.concatenate([x, np.stack([x, x * x]).sum(axis=0)]),
    "neighbours": lambda x, k: x[1:] * x[:-1] - x[2],
    "solve": lambda x, k: np.linalg.solve(k.A, x),
    "inverse": lambda x, k: np.linalg.inv(k.A) @ np.tanh(x),
    "in place": _in_place,
    "loop": _loop,
    "regression": lambda x, k: np.mean(np.logaddexp(0.0, k.B @ x) - k.y * (k.B @ x)) + 0.1 * np.sum(x * x),
}
