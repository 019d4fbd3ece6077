"""Sums of derivatives of one order over many directions: ``directional``, ``laplacian``, ``biharmonic``.

The directions are pushed through the function together, and summed at the highest degree. Not
for: derivatives along one curve (``jet.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import optree

from ..base.arguments import check_callable
from ..base.frames import public
from ..base.signatures import Args
from ..base.tree import LeafName, flatten, flatten_like, is_array, tree_map
from ..batched import Batched, BatchLevel
from ..boundary.boundary import run
from ..boundary.transformed import transform
from ..core.aval import aval_of, is_inexact
from ..errors import ArgumentError, DtypeError, ShapeError
from ..jacobians.call import Call, Options, derivative, split_flat
from ..jacobians.hessian import DIRECTIONS, from_diagonal
from ..ops.kinds import is_finite
from ..surface.leaves import output_leaves, plain_leaf, split_aux
from ..tensors.chunks import Chunking, Plan
from .jet import check_order, coefficients, series_of
from .tracer import Series, SeriesLevel

__all__ = ["biharmonic", "directional", "laplacian"]

# Along many directions at once the coefficients of degrees 1 to K − 1 have a lane for each direction. Those of degree
# K are only wanted in sum, and everything of degree K is linear in what has degree K before it: so the sum over lanes
# is taken as soon as they arise, and a single array is pushed on.


class Collapse:
    """A reduction of coefficients: those of degree ``order`` become weighted sums over the lanes of a level."""

    __slots__ = ("lanes", "order", "weights")

    def __init__(self, lanes: BatchLevel, order: int, weights: np.ndarray | None) -> None:
        self.lanes, self.order, self.weights = lanes, order, weights

    def __call__(self, c: Any, degree: int) -> Any:
        """Return a coefficient of a degree, summed if it is the highest one, and in one lane if it is the lowest.

        A value has no direction; where a program gives it lanes with all its results, they are equal.
        """
        if degree not in (0, self.order) or not self._has_lanes(c):
            return c
        if degree == 0:
            return c._value[0]
        return np.sum(c._value, 0) if self.weights is None else np.tensordot(self._weights(c), c._value, 1)

    def product(self, x: Any, y: Any, degree: int) -> Any:
        """Return Σ xᵣ yᵣ without the products in between; ``None`` where they are to be looked at one by one."""
        if degree != self.order or not (self._has_lanes(x) and self._has_lanes(y)):
            return None
        a, b = x._value, y._value
        if np.shape(a) != np.shape(b):
            return None
        if self.weights is None:
            total = np.einsum("r...,r...->...", a, b)
        else:
            total = np.einsum("r,r...,r...->...", self._weights(x), a, b)
        return total if is_finite(total) else None  # an infinity or a NaN in a factor is one in the sum

    def spread(self, c: Any, degree: int) -> Any:
        """Undo the sum for an input of a program, where it may lie in any lane."""
        if degree != self.order or c is None or self._has_lanes(c):
            return c
        if self.weights is None:
            scale = np.eye(1, self.lanes.size)[0]
        else:  # the lane of the largest weight: others may have none
            first = int(np.argmax(np.abs(self.weights)))
            scale = np.eye(1, self.lanes.size, first)[0] / self.weights[first]
        lanes = scale.astype(c.dtype).reshape(-1, *(1,) * np.ndim(c))
        return Batched(lanes * c, self.lanes)

    def _has_lanes(self, c: Any) -> bool:
        return type(c) is Batched and c.level is self.lanes

    def _weights(self, c: Any) -> Any:
        return self.weights.astype(c.dtype)  # type: ignore[union-attr]


@public
def directional(
    f: Callable, x: Any, directions: Any, *, order: int, weights: Any = None, chunk_size: int | None = None,
    max_memory: int | None = None,
) -> Any:  # fmt: skip
    """Sum the derivatives of one order along several directions: Σᵣ wᵣ ∂ᵏ f(x + t vᵣ)/∂tᵏ at t = 0.

    Many differential operators are such sums; in high dimensions, random directions estimate them.

    Parameters
    ----------
    f : callable
        A function of one argument, in plain NumPy, of any result.
    x : tree
        The point.
    directions : tree
        Like ``x``, with one more leading axis: the directions.
    order : int
        The order k, at least 1.
    weights : array, optional
        One for each direction; 1 by default.
    chunk_size, max_memory : int, optional
        How many directions, or about how many bytes, to take at a time: 128 directions by default.

    Returns
    -------
    tree
        The sum: like ``f(x)``.

    Raises
    ------
    ArgumentError, ShapeError, DtypeError, TreeError
        If the order is less than 1, there are no directions, or they are not like ``x``.

    Notes
    -----
    Series along lines: Griewank, Utke and Walther, *Evaluating higher derivative tensors by forward propagation of
    univariate Taylor series* (2000). Random directions: Shi, Hu, Lin and Kawaguchi, *Stochastic Taylor derivative
    estimator* (2024).

    Examples
    --------
    >>> f = lambda x: x[0] ** 2 * x[1]
    >>> float(da.directional(f, np.array([1.0, 2.0]), np.eye(2), order=2))  # the Laplacian
    4.0
    """
    check_callable(f, "directional")
    check_order(order, "directional")
    if order < 1:
        raise ArgumentError(
            "directional: order=0.", "it is the value, which has no direction", "call the function, or pass order=1"
        )
    chunks = Chunking("directional", chunk_size, max_memory)
    leaves, tree = flatten(x)
    given = flatten_like(tree, directions, "the directions", "x")
    count, moved = _lanes(leaves, given, directions)
    if weights is not None:
        weights = plain_leaf(weights, "weights", "directional")
        if np.shape(weights) != (count,):
            raise ShapeError(
                f"directional: weights has shape {np.shape(weights)} for {count} directions.",
                "there is one weight for each direction",
                "pass an array of that length",
            )
    part = lambda start, stop: [None if t is None else t[start:stop] for t in moved]
    return _sum_up(f, leaves, tree, part, count, weights, order, chunks)[0]


@transform
def laplacian(
    f: Callable[Args, Any], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None, method: Literal["taylor", "hessian"] | None = None,
) -> Callable[Args, Any]:  # fmt: skip
    """Make the function that gives the Laplacian, the trace of the Hessian: Σᵢ ∂²f/∂xᵢ².

    Parameters
    ----------
    f, argnums, argnames, has_aux, chunk_size, max_memory, executor
        As for :func:`hessian_diag`.
    method : {"taylor", "hessian"}, optional
        ``"taylor"``, the default without ``executor``, pushes series of second order along all entries through ``f``,
        their second derivatives as one sum. ``"hessian"`` applies the linearized gradient to all unit vectors; ``f``
        then returns a number.

    Returns
    -------
    callable
        A function of the same arguments; the result, a sum over all chosen arguments, is like that of ``f``.

    Raises
    ------
    ArgumentError
        For another method, or ``"taylor"`` with an executor.

    Examples
    --------
    >>> float(da.laplacian(lambda x: x[0] ** 2 - x[1] ** 2 + x[0] * x[1])(np.array([1.0, 2.0])))
    0.0
    """
    if method not in (None, "taylor", "hessian"):
        raise ArgumentError(
            f"laplacian: method={method!r}.", "there are two ways to compute it", 'use "taylor" or "hessian"'
        )
    options = Options.of("laplacian", locals())
    if method == "hessian" or (method is None and executor is not None):
        trace = lambda diagonal: sum([np.sum(x) for x in flatten(diagonal)[0] if is_array(x)])
        return from_diagonal(trace, f, options)
    if executor is not None:
        raise ArgumentError(
            'laplacian: method="taylor" was given together with an executor.',
            "its directions share all that is computed of the value, and are not sent elsewhere one by one",
            'leave one of them out, or use method="hessian"',
        )
    return _operator(f, options, None, 2)


@transform
def biharmonic(
    f: Callable[Args, Any], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
) -> Callable[Args, Any]:  # fmt: skip
    """Make the function that gives the biharmonic operator, the Laplacian of the Laplacian: Σᵢⱼ ∂⁴f/∂xᵢ²∂xⱼ².

    Fourth derivatives along d² directions are summed as they are pushed through the function, d being the number of
    all entries of the chosen arguments.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy.
    argnums, argnames, has_aux
        As for :func:`dualad.grad`.
    chunk_size, max_memory : int, optional
        How many directions, or about how many bytes, to take at a time: 128 directions by default.

    Returns
    -------
    callable
        A function of the same arguments; the result is like that of ``f``.

    Raises
    ------
    DtypeError
        If an argument to differentiate is an integer or boolean.

    Examples
    --------
    >>> f = lambda x: x[0] ** 4 + x[0] ** 2 * x[1] ** 2
    >>> float(da.biharmonic(f)(np.array([1.0, 2.0])))
    32.0
    """
    options = Options.of("biharmonic", locals())
    return _operator(f, options, _squares_of_squares, 4)


def _operator(f: Callable, options: Options, table: Callable | None, order: int) -> Callable:
    """Make the function that sums derivatives along combinations of the entries of the chosen arguments.

    ``table(d)`` returns the directions in the space of all d entries, and their weights; without it they are the unit
    vectors. With ``has_aux`` the auxiliary output is returned with the sum.
    """

    def compute(call: Call) -> tuple[Any, Any, Any]:
        avals = call.avals
        total = sum([a.size for a in avals])
        directions, weights = (None, None) if table is None else table(total)
        count = total if directions is None else len(directions)

        def part(start: int, stop: int) -> list:
            rows = np.eye(stop - start, total, start) if directions is None else directions[start:stop]
            rest = iter(split_flat(rows, avals))
            return [next(rest) if is_array(x) else None for x in call.leaves]

        function = lambda chosen: call.function(*chosen)
        out, aux = _sum_up(function, call.leaves, call.tree, part, count, weights, order, options, options.has_aux)
        return None, out, aux

    return derivative(compute, f, options)


def _squares_of_squares(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return directions and weights for Σᵢⱼ ∂ᵢ²∂ⱼ², by polarization.

    Σᵢⱼ ∂ᵢ²∂ⱼ² = (4 − d)/3 Σᵢ ∂⁴(eᵢ) + 1/6 Σ_{i<j} [∂⁴(eᵢ + eⱼ) + ∂⁴(eᵢ − eⱼ)], with ∂⁴(v) the derivative along v.
    """
    one = np.eye(d)
    i, j = np.triu_indices(d, 1)
    directions = np.concatenate([one, one[i] + one[j], one[i] - one[j]])
    return directions, np.concatenate([np.full(d, (4 - d) / 3), np.full(2 * len(i), 1 / 6)])


def _lanes(leaves: list, given: list, directions: Any) -> tuple[int, list]:
    """Check directions against the point; return how many there are, and those of each leaf that moves."""
    moved: list = []
    counts: dict[str, int] = {}
    for i, (x, t) in enumerate(zip(leaves, given, strict=True)):
        name = LeafName(directions, "directions", i)
        aval = aval_of(x) if is_array(x) else None
        if aval is None or not is_inexact(aval.dtype) or t is None:
            moved.append(None)
            continue
        t = plain_leaf(t, name, "directional")
        found = aval_of(t)
        if found.shape[1:] != aval.shape or not found.shape:
            raise ShapeError(
                f"directional: {name} has shape {found.shape} for an x of shape {aval.shape}.",
                "directions are like x, with one more axis in front",
                f"pass an array of shape (number of directions, {', '.join(map(str, aval.shape))})",
            )
        if found.dtype != aval.dtype:
            raise DtypeError(
                f"directional: {name} has dtype {found.dtype} for an x of dtype {aval.dtype}.",
                "a direction has its point's dtype",
                f"cast it: directions.astype(np.{aval.dtype.name})",
            )
        counts[str(name)] = found.shape[0]
        moved.append(t)
    if len(set(counts.values())) != 1 or not next(iter(counts.values())):
        raise ArgumentError(
            f"directional: the numbers of directions are {counts or 'none'}.",
            "all leaves move along the same directions, and there is at least one",
            "pass arrays with one common leading axis, for a floating-point x",
        )
    return next(iter(counts.values())), moved


def _sum_up(
    f: Callable, leaves: list, tree: Any, part: Callable, count: int, weights: Any, order: int,
    chunks: Chunking, has_aux: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the sum, and the auxiliary output."""
    where, aux = chunks.where, None
    trees: list = []

    def run_chunk(start: int, stop: int) -> list:
        nonlocal aux
        some = None if weights is None else weights[start:stop]
        with BatchLevel(where, stop - start) as lanes:
            collapse = Collapse(lanes, order, some)
            with SeriesLevel(where, order, pick=collapse) as level:
                level.function = f
                inputs = [
                    x if t is None else series_of([x, Batched(t, lanes)], level)
                    for x, t in zip(leaves, part(start, stop), strict=True)
                ]
                out = run(f, (optree.tree_unflatten(tree, inputs),), {})
                if has_aux:
                    out, aux = split_aux(out, where)
                    aux = tree_map(lambda x: x.inner if type(x) is Series and x.level is level else x, aux)
                out_leaves, out_tree = output_leaves(out, where, leaves)
                trees[:] = [out_tree]
                return [coefficients(x, level)[order] for x in out_leaves]

    parts = chunks.or_chunks_of(DIRECTIONS).run(Plan(run_chunk, count, None, where, "directions", f))
    scale = float(math.factorial(order))
    total = []
    for first, *more in zip(*parts, strict=True):
        dtype = aval_of(first).dtype
        total.append(sum(more, first) * dtype.type(scale) if is_inexact(dtype) else first)
    return optree.tree_unflatten(trees[0], total), aux
