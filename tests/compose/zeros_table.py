"""Compositions of poles, zero factors, selections and norms, each at the point where they meet.

For: the tests that reverse mode returns forward mode's numbers there (``test_reverse_equals_forward.py``).
Not for: the special values of single operators (``tests/ops/test_special_values_*.py``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["TABLE", "random_composition"]

_W = np.array([[2.0, 0.0], [1.0, 3.0]])
_POINTS = np.array([[0.0, 1.0], [2.0, -1.0], [0.0, 1.0]])
_ZERO = np.zeros(2)


def _pairwise(p):
    return np.sum((p[:, None] - p[None]) ** 2, axis=-1)


def _gram(p):
    g = p @ p.T
    square = np.diagonal(g)
    return square[:, None] + square[None] - 2.0 * g


#: name -> (function, point): a real scalar or vector function of one vector or matrix
TABLE: dict[str, tuple[Callable, np.ndarray]] = {
    # a pole, then a factor that is zero: 0·∞ is not a number, whatever the limit
    "sqrt squared": (lambda x: np.sqrt(x) ** 2, _ZERO),
    "sqrt cubed": (lambda x: np.sqrt(x) ** 3, np.array([0.0, 4.0])),
    "exp of log": (lambda x: np.exp(np.log(x)), np.array([0.0, 2.0])),
    "cos of sqrt": (lambda x: np.cos(np.sqrt(x)), np.array([0.0, 1.0])),
    "arccos squared": (lambda x: np.arccos(x) ** 2, np.array([1.0, 0.5])),
    "arcsin times zero": (lambda x: np.arcsin(x) * 0.0, np.array([1.0, 0.5])),
    "sqrt times sqrt": (lambda x: np.sqrt(x) * np.sqrt(x), np.array([0.0, 1.0])),
    "cbrt cubed": (lambda x: np.cbrt(x) ** 3, np.array([0.0, 8.0])),
    "power a half, squared": (lambda x: np.square(x**0.5), np.array([0.0, 1.0])),
    "product of roots": (lambda x: np.sum(np.sqrt(x[0]) * np.sqrt(x[1])), _ZERO),
    "zero weights": (lambda x: np.array([0.0, 1.0]) @ np.sqrt(x), _ZERO),
    "a matrix with zeros": (lambda x: _W @ np.sqrt(x), _ZERO),
    "prod of roots": (lambda x: np.prod(np.sqrt(x)), np.array([0.0, 4.0])),
    # a factor that is zero, then a pole: the tangent is zero before the pole
    "sqrt of square": (lambda x: np.sum(np.sqrt(x * x)), _ZERO),
    "norm by sum": (lambda x: np.sqrt(np.sum(x**2)), _ZERO),
    "norm by mean": (lambda x: np.sqrt(np.mean(np.square(x))), _ZERO),
    "norm by @": (lambda x: np.sqrt(x @ x), _ZERO),
    "norm by dot": (lambda x: np.sqrt(np.dot(x, x)), _ZERO),
    "norm by einsum": (lambda x: np.sqrt(np.einsum("i,i->", x, x)), _ZERO),
    "norm by vdot": (lambda x: np.sqrt(np.vdot(x, x)), _ZERO),
    "quadratic form": (lambda x: np.sqrt(x @ (_W @ x)), _ZERO),
    "standard deviation": (lambda x: np.sqrt(np.var(x)), np.array([1.0, 1.0])),
    "np.std": (np.std, np.array([1.0, 1.0])),
    "np.linalg.norm": (np.linalg.norm, _ZERO),
    "norm of a difference": (lambda x: np.linalg.norm(x - np.ones(2)), np.ones(2)),
    "a zero row before a pole": (lambda x: np.sum(np.sqrt(np.array([[0.0, 0.0], [1.0, 1.0]]) @ x)), _ZERO),
    "times zero before a pole": (lambda x: np.sqrt(0.0 * x) + x, _ZERO),
    "equal paths to a division by zero": (lambda x: np.ptp(x[:1]) / 0.0 + x[1], np.array([2.0, 3.0])),
    "a square divided by a zero": (lambda x: x * x / np.greater(x, 9.0), np.array([0.0, 1.0])),
    "a quotient before a pole": (lambda x: np.sqrt(x * x / 2.0), _ZERO),
    "distances": (lambda p: np.sum(np.sqrt(_pairwise(p))), _POINTS),
    "gaussian kernel": (lambda p: np.sum(np.exp(-(np.sqrt(_pairwise(p)) ** 2))), _POINTS),
    "gram distances": (lambda p: np.sum(np.sqrt(_gram(p))), np.array([[0.0, 1.0], [2.0, -1.0]])),
    "arccos of a cosine": (lambda x: np.arccos(x @ x / 2.0), np.array([1.0, 1.0])),
    "log of square": (lambda x: np.log(x * x), np.array([0.0, 1.0])),
    # both, and neighbours
    "a norm beside a cube": (lambda x: np.sum(np.sqrt(x * x)) + np.sqrt(x[1]) ** 3, _ZERO),
    "a norm beside a root": (lambda x: np.sum(np.sqrt(x * x)) + np.sqrt(x[1]), _ZERO),
    "a norm squared": (lambda x: np.sqrt(x @ x) ** 2, _ZERO),
    "a root plus a linear term, times zero": (lambda x: (np.sqrt(x[0]) + x[1]) * 0.0, np.array([0.0, 1.0])),
    "roots of opposite sign": (lambda x: np.sqrt(x[0]) - np.cbrt(x[0]) + x[1], _ZERO),
    "differences of roots": (lambda x: np.sum(np.sqrt(x - x[::-1])), np.ones(2)),
    "cancellation before a pole": (lambda x: np.sqrt(x - x) + x, np.ones(2)),
    "infinite stays infinite": (lambda x: np.sqrt(2 * x[0] + x[1] ** 2), _ZERO),
    # selections
    "where root": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), np.array([0.0, 4.0])),
    "where root, squared": (lambda x: np.where(x > 0, np.sqrt(x), 0.0) ** 2, np.array([0.0, 4.0])),
    "where root squared": (lambda x: np.where(x > 0, np.sqrt(x) ** 2, 0.0), np.array([0.0, 4.0])),
    "where not root squared": (lambda x: np.where(x > 1, x, np.sqrt(x) ** 2), np.array([0.0, 4.0])),
    "where reciprocal": (lambda x: np.where(x > 0, 1 / x, 0.0), np.array([0.0, 4.0])),
    "where x log x": (lambda x: np.where(x > 0, x * np.log(x), 0.0), np.array([0.0, 2.0])),
    "where of a norm": (lambda x: np.where(x > 1, x, np.sqrt(x * x)), np.array([0.0, 2.0])),
    "where then a sum": (lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)) * 0.0, np.array([0.0, 2.0])),
    "an index": (lambda x: np.sqrt(x)[1], np.array([0.0, 4.0])),
    "an index of a zero": (lambda x: np.sqrt(x)[0] ** 2, np.array([0.0, 4.0])),
    "a slice, reversed": (lambda x: np.log(x)[::-1][:1] * 3.0, np.array([0.0, 4.0])),
    "fancy index": (lambda x: np.cbrt(x)[np.array([1, 1])] ** 2, np.array([0.0, 8.0])),
    "maximum": (lambda x: np.maximum(np.sqrt(x), 1.0), np.array([0.0, 4.0])),
    "maximum at a tie": (lambda x: np.maximum(np.sqrt(x), 0.0), np.array([0.0, 4.0])),
    "max of roots": (lambda x: np.max(np.sqrt(x)), np.array([0.0, 4.0])),
    "clip": (lambda x: np.clip(np.sqrt(x), 0.5, 1.5), np.array([0.0, 1.0])),
    "clip before a root": (lambda x: np.sqrt(np.clip(x, 0.0, 1.0)), np.array([-1.0, 0.25])),
    "relu before a root": (lambda x: np.sqrt(np.maximum(x, 0.0)), np.array([-1.0, 0.25])),
    "sort then index": (lambda x: np.sort(np.sqrt(x))[1] ** 2, np.array([0.0, 4.0])),
    "concatenate, one part": (lambda x: np.concatenate([np.sqrt(x), x])[2:], np.array([0.0, 4.0])),
    "stack of two": (lambda x: np.stack([np.sqrt(x[0]), x[1]]) * np.array([1.0, 0.0]), np.array([0.0, 4.0])),
    "cumsum of roots": (lambda x: np.cumsum(np.sqrt(x)) * np.array([1.0, 0.0]), np.array([1.0, 0.0])),
    "smooth": (lambda x: np.sum(np.sqrt(1.0 + x * x) * np.log(2.0 + x)), np.array([0.0, 1.0])),
}


# ── random compositions ──────────────────────────────────────────────────────────────────────────────────────────

_STEPS: list[tuple[str, Callable]] = [
    ("sqrt", np.sqrt),
    ("cbrt", np.cbrt),
    ("square", np.square),
    ("log1p", np.log1p),
    ("arccos(1 - x)", lambda v: np.arccos(1.0 - v)),
    ("cos", np.cos),
    ("exp(-x)", lambda v: np.exp(-v)),
    ("sin", np.sin),
    ("abs", np.abs),
    ("x**1.5", lambda v: v**1.5),
    ("x**3", lambda v: v**3),
    ("x * x", lambda v: v * v),
    ("x * 0", lambda v: v * 0.0),
    ("x * (0, 1, 2)", lambda v: v * np.array([0.0, 1.0, 2.0])),
    ("x + x[::-1]", lambda v: v + v[::-1]),
    ("x * x[::-1]", lambda v: v * v[::-1]),
    ("x + sum", lambda v: v + np.sum(v)),
    ("W @ x", lambda v: np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 0.0, 1.0]]) @ v),
    ("norm", lambda v: v + np.sqrt(v @ v)),
    ("where(x > 0.5)", lambda v: np.where(v > 0.5, v, 0.0)),
    ("where(x > 0, sqrt)", lambda v: np.where(v > 0, np.sqrt(v), 0.0)),
    ("where(x > 0, 1 / x)", lambda v: np.where(v > 0, 1.0 / v, 0.0)),
    ("maximum(x, 0.5)", lambda v: np.maximum(v, 0.5)),
    ("clip", lambda v: np.clip(v, 0.0, 1.0)),
    ("x[[1, 1, 0]]", lambda v: v[np.array([1, 1, 0])]),
    ("shift", lambda v: np.concatenate([v[1:], v[:1]])),
    ("cumsum", np.cumsum),
    ("x / 2", lambda v: v / 2.0),
    ("write", lambda v: np.where(np.arange(3) == 1, 0.0, v)),
]


def random_composition(seed: int) -> tuple[Callable, np.ndarray, str]:
    """Return a random composition, a point with zeros among its entries at which it has a value, and its text."""
    rng = np.random.default_rng(seed)
    while True:
        f, x, text = _composed(rng)
        with np.errstate(all="ignore"):
            if np.isfinite(f(x)).all():
                return f, x, text


def _composed(rng: np.random.Generator) -> tuple[Callable, np.ndarray, str]:
    chosen = [_STEPS[i] for i in rng.integers(0, len(_STEPS), rng.integers(2, 6))]
    x = rng.choice([0.0, 0.0, 1.0, 0.25, 2.0], 3)

    def f(v):
        for _, step in chosen:
            v = step(v)
        return v

    return f, x, f"{' → '.join([name for name, _ in chosen])} at {x}"
