"""dualad's own answers, as plain vectors and matrices: what the oracles are asked about.

Not for judging them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dualad.errors import ShapeError
from dualad.hessian import hvp
from dualad.jacobian import jacfwd, jacrev
from dualad.jvp import jvp
from dualad.vjp_via_transpose import vjp
from dualad.vmap import vmap

from .real_function import RealFunction

__all__ = ["Engine"]


class Engine:
    """The transforms of dualad on one function at one point, flattened to R^n → R^m.

    Parameters
    ----------
    function : RealFunction
        The function and the point.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing.engine import Engine
    >>> from dualad.testing.real_function import RealFunction
    >>> Engine(RealFunction(np.square, (np.array([1.0, 3.0]),))).jvp(np.array([1.0, 1.0]))
    array([2., 6.])
    """

    def __init__(self, function: RealFunction) -> None:
        self.function = function

    def values(self) -> np.ndarray:
        """Return the function's value as `jvp` and as `vjp` report it, shape (2 m,)."""
        f, point = self.function, self.function.point
        forward = jvp(f, point, tuple(np.zeros_like(leaf) for leaf in point))[0]
        backward = vjp(f, *point)[0]
        return np.concatenate([_join(forward, f.out_shapes), _join(backward, f.out_shapes)])

    def jvp(self, v: np.ndarray) -> np.ndarray:
        """Return J v, shape (m,)."""
        f = self.function
        return _join(jvp(f, f.point, f.split(v))[1], f.out_shapes)

    def vjp(self, w: np.ndarray) -> np.ndarray:
        """Return Jᵀ w, shape (n,)."""
        f = self.function
        return _join(vjp(f, *f.point)[1](f.split_out(w)), f.shapes)

    def jacfwd(self) -> np.ndarray:
        """Return the (m, n) Jacobian by forward mode."""
        return self._jacobian(jacfwd)

    def jacrev(self) -> np.ndarray:
        """Return the (m, n) Jacobian by reverse mode."""
        return self._jacobian(jacrev)

    def hvp(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the Hessian of ``w · f`` times v, shape (n,)."""
        f = self.function
        weights = f.split_out(w)
        return _join(hvp(lambda leaves: f.scalar(weights, leaves), f.point, f.split(v)), f.shapes)

    def vmap_jvp(self, tangents: np.ndarray) -> np.ndarray:
        """Return J V for all rows of V at once, shape (k, m)."""
        f = self.function
        batched = vmap(lambda t: jvp(f, f.point, t)[1])(_split_rows(tangents, f.shapes))
        return _join_rows(batched, f.out_shapes, len(tangents))

    def vmap_vjp(self, cotangents: np.ndarray) -> np.ndarray:
        """Return Jᵀ W for all rows of W at once, shape (k, n)."""
        f = self.function
        pull = vjp(f, *f.point)[1]
        return _join_rows(vmap(pull)(_split_rows(cotangents, f.out_shapes)), f.shapes, len(cotangents))

    def vmap_value(self, points: np.ndarray) -> np.ndarray:
        """Return the values at all rows at once, shape (k, m)."""
        f = self.function
        return _join_rows(vmap(f)(*_split_rows(points, f.shapes)), f.out_shapes, len(points))

    def _jacobian(self, transform: Any) -> np.ndarray:
        f = self.function
        blocks = transform(f, argnums=tuple(range(len(f.point))))(*f.point)
        rows = []
        for row, y_shape in zip(blocks, f.out_shapes, strict=True):
            parts = []
            for block, x_shape in zip(row, f.shapes, strict=True):
                _require_shape(block, y_shape + x_shape)
                parts.append(np.asarray(block, np.float64).reshape(int(np.prod(y_shape)), int(np.prod(x_shape))))
            rows.append(np.concatenate(parts, axis=1))
        return np.concatenate(rows, axis=0)


def _require_shape(array: Any, shape: tuple[int, ...]) -> None:
    if np.shape(array) != shape:
        raise ShapeError(
            f"A derivative came back with shape {np.shape(array)} where {shape} belongs.",
            "This is an error in dualad, or in a rule of your own.",
            "Check the shapes that your custom rules return; otherwise report it.",
        )


def _join(leaves: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> np.ndarray:
    for leaf, shape in zip(leaves, shapes, strict=True):
        _require_shape(leaf, shape)
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in leaves])


def _split_rows(rows: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, ...]:
    parts, start = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        parts.append(rows[:, start : start + size].reshape(len(rows), *shape))
        start += size
    return tuple(parts)


def _join_rows(leaves: Sequence[Any], shapes: Sequence[tuple[int, ...]], count: int) -> np.ndarray:
    for leaf, shape in zip(leaves, shapes, strict=True):
        _require_shape(leaf, (count, *shape))
    return np.concatenate([np.asarray(leaf, np.float64).reshape(count, -1) for leaf in leaves], axis=1)
