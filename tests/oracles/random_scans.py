"""Random scans: bodies that read, write, stack, join and multiply rows of what they carry, wherever they are.

A scan is written once over any module like NumPy, so that ``jit``, a Python loop and JAX run the same one. Not for:
comparing them (tests/compile/native/test_nests.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["SIZES", "RandomScan", "by_hand", "put"]

#: lengths of rows: in registers, on both sides of what they hold, and above
SIZES = (2, 3, 5, 8, 14, 90, 130, 300, 600)


def put(x: Any, i: Any, value: Any) -> Any:
    """Return a copy with one entry, or row, replaced."""
    x = x.copy()
    x[i] = value
    return x


def by_hand(f: Callable, carry: Any, xs: tuple) -> tuple:
    """Scan in Python."""
    ys = []
    for i in range(len(xs[0])):
        carry, y = f(carry, (xs[0][i], int(xs[1][i])))
        ys.append(y)
    return carry, np.stack(ys)


class RandomScan:
    """A function of some arrays, with a scan of random operations on a matrix S and a vector v."""

    def __init__(self, seed: int, size: int) -> None:
        rng = np.random.default_rng(seed)
        self.n, self.m, self.turns = size, int(rng.integers(1, 5)), int(rng.integers(2, 6))
        n, m = self.n, self.m
        self.operations = [
            (int(rng.integers(len(_OPERATIONS))), int(rng.integers(1000)), int(rng.integers(1000)))
            for _ in range(int(rng.integers(2, 9)))
        ]
        self.stacks_rows = bool(rng.integers(2))
        self.order, self.repeated = rng.permutation(n).tolist(), rng.integers(-n, n, n).tolist()
        self.captured, self.rows = rng.integers(-n, n, n), rng.integers(-m, m, m).tolist()
        self.places = rng.integers(0, n, self.turns)
        shapes = (m, n), (n, n), (m, n), (n,), (self.turns, n)
        self.args = tuple([rng.standard_normal(s) * (0.5 / n if s == (n, n) else 0.5) for s in shapes])

    def function(self, xp: Any, scan: Callable, put: Callable) -> Callable:
        """Return the function, for a module like NumPy."""

        def f(w, A, S, v, xs):
            def step(carry, row):
                S, v, total = carry
                x, i = row
                for k, a, b in self.operations:
                    S, v, more = _OPERATIONS[k](xp, put, self, a, b, w, A, S, v, x, i)
                    total = total + more
                return (S, v, total + xp.sum(xp.sin(v))), S[0] if self.stacks_rows else v * 0.5

            (S, v, total), ys = scan(step, (S, v, 0.0), (xs, self.places))
            return total + xp.sum(xp.sin(S)) + 0.3 * xp.sum(ys * ys)

        return f

    def __repr__(self) -> str:
        return f"n={self.n}, m={self.m}, {self.turns} turns of {self.operations}"


def _wrapped(xp, put, s, a, b, w, A, S, v, x, i):
    long = xp.reshape(S.T, -1)
    return S, (long[: s.n] + 0.3 * v if s.m * s.n >= s.n else v), 0.0


#: (module, put, scan, two numbers, constants w and A, carries S and v, row x, index i) -> S, v, and a number
_OPERATIONS: list[Callable] = [
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, xp.tanh(v + x), 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (
        S, xp.concatenate([v[: a % s.n + 1], S[b % s.m][a % s.n + 1 :]]), 0.0,
    ),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (
        xp.stack([S[(j + a) % s.m] * 0.9 for j in range(s.m)]), v, 0.0,
    ),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (put(S, b % s.m, v * 0.7 + S[a % s.m]), v, 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, xp.pad(v[a % s.n :], (a % s.n, 0)) + 0.1 * v, 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, A @ v + x, 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S @ A + 0.1 * w, v, 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, v[xp.array(s.order)] * w[a % s.m], 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, v[xp.array(s.repeated)] - 0.2 * x, 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S[xp.array(s.rows)] * 0.5 + 0.3 * S, v, 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, v * x[i] + x, 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, put(v, i, v[a % s.n] * 0.5), 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, v + S[i % s.m] * 0.3, 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, xp.where(v > 0, xp.sin(v), 0.5 * v), 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S + xp.outer(w[:, a % s.n], v) * 0.2, v, 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, v[::-1] + 0.2 * xp.sum(S, axis=0), 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, xp.concatenate([x[:0], v, x[s.n :]]) * 0.9, 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (xp.concatenate([S[1:], v[None] * 0.5]), v, 0.0),
    _wrapped,
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, v / (1.5 + xp.exp(-xp.max(v))), 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, v, xp.sum(v * v)),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, xp.cumsum(v) * (0.7 / s.n), 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, v[s.captured] + 0.1 * v, 0.0),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (S, v, v[(i * (a + 2) - b) % s.n] * x[i // 2], ),
    lambda xp, put, s, a, b, w, A, S, v, x, i: (put(S, i % s.m, S[(i + 1) % s.m] * 0.5 + v), v, 0.0),
]  # fmt: skip
