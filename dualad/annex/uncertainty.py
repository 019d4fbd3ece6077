"""First-order propagation of uncertainty: means and covariances through a function, by one batched forward pass.

For: ``propagate``. If y = f(x) and x has mean μ and covariance C = L Lᵀ, then to first order y has mean f(μ) and
covariance J C Jᵀ = (J L)(J L)ᵀ, and J L is a batch of tangents, one for each column of L. Not for: distributions that
are not described by two moments, or functions that bend within a standard deviation (sample those).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optree

from ..base.tree import LeafName, flatten, flatten_like, is_array
from ..core.aval import Aval, aval_of
from ..core.tracer import Tracer
from ..errors import ArgumentError, DtypeError, OutputError, ShapeError
from ..jacobians.call import split_flat, split_last
from ..jvp import jvp
from ..surface.leaves import as_primal, check_differentiable
from ..tensors.chunks import Chunking
from ..transforms.linearize import stage_tangents
from ..vmap import vmap

__all__ = ["Propagated", "propagate"]


class Propagated(NamedTuple):
    """The result of :func:`propagate`.

    Attributes
    ----------
    mean : tree
        The mean of the result, of the structure and shapes of ``f``'s.
    cov : tree or None
        Its covariance, with blocks as a Jacobian has them: the result's structure outside and again inside, each leaf
        of shape ``a.shape + b.shape``. For one array of n entries that is the (n, n) matrix, for a number the variance.
        ``None`` with ``full=False``.
    std : tree
        The standard deviations, of the structure and shapes of the result.
    contributions : tree or None
        The share of every entry of the arguments in every variance: the result's structure outside, the arguments'
        inside, each leaf of shape ``out.shape + in.shape``. Summed over all arguments it is ``std**2``. With correlated
        arguments a share may be negative. ``None`` unless asked for.
    """

    mean: Any
    cov: Any
    std: Any
    contributions: Any = None


def propagate(
    f: Callable, mean: Any, cov: Any = None, *, std: Any = None, corr: Any = None, full: bool = True,
    contributions: bool = False, second_order: bool = False, chunk_size: int | None = None,
) -> Propagated:  # fmt: skip
    """Propagate uncertainty through a function, to first order: correlations inside, correlations outside.

    Parameters
    ----------
    f : callable
        A function of one tree, in plain NumPy.
    mean : tree of numbers and arrays
        The mean of its argument; n numbers altogether.
    cov : array, shape (n, n)
        The covariance of all numbers of ``mean``, in the order of its leaves; a variance, if there is one number. It
        may be singular: as many tangents are pushed as it has rank.
    std : tree like ``mean``, optional
        In place of ``cov``: the standard deviations; a number stands for every entry of its leaf.
    corr : array, shape (n, n), optional
        With ``std``: the correlations; none by default.
    full : bool
        Whether to compute the whole covariance of the result, or its diagonal only (``std``).
    contributions : bool
        Whether to say which argument contributes how much to which variance.
    second_order : bool
        Whether to add to the mean what curvature does to it, ½ tr(H C) for each entry. The covariance stays that of
        first order.
    chunk_size : int, optional
        How many tangents to push at a time; all by default.

    Returns
    -------
    Propagated
        The named tuple ``(mean, cov, std, contributions)``.

    Raises
    ------
    ArgumentError
        If ``cov`` is not symmetric, has a negative eigenvalue or an entry that is not finite, if a standard deviation
        is negative, or if it is not clear which of ``cov`` and ``std`` to take.
    ShapeError, TreeError
        If they do not fit ``mean``.
    DtypeError, OutputError
        If ``mean`` or the result is not real.

    Notes
    -----
    It may be batched with :func:`dualad.vmap` and differentiated, in ``mean``, ``cov``, ``std`` and whatever ``f``
    closes over; of a traced covariance only the shape is checked.

    It is the law of propagation of uncertainty: JCGM 100:2008 (the GUM), 5.1 and 5.2.

    Examples
    --------
    >>> ohm = lambda m: {"R": m["U"] / m["I"], "P": m["U"] * m["I"]}
    >>> out = da.propagate(ohm, {"U": 12.0, "I": 2.0}, std={"U": 0.3, "I": 0.04})
    >>> print(f"R = {out.mean['R']:.2f} ± {out.std['R']:.2f}, P = {out.mean['P']:.1f} ± {out.std['P']:.2f}")
    R = 6.00 ± 0.19, P = 24.0 ± 0.77
    >>> print(f"{out.cov['R']['P']:.3f}")
    0.032
    """
    Chunking("propagate", chunk_size)
    check_differentiable(mean, "mean", False, "propagate")
    leaves, in_tree = flatten(mean)
    leaves = [as_primal(x, LeafName(mean, "mean", i), "propagate") if is_array(x) else x for i, x in enumerate(leaves)]
    mean = in_tree.unflatten(leaves)
    avals = [aval_of(x) for x in leaves if is_array(x)]
    for i, a in enumerate(avals):
        if a.dtype.kind == "c":
            raise DtypeError(
                f"propagate: {LeafName(mean, 'mean', i)} has dtype {a.dtype}.",
                "the covariance of complex numbers is not one matrix",
                "propagate their real and imaginary parts",
            )
    spread = _spread(mean, avals, cov, std, corr, contributions)
    value, stage = stage_tangents(f, (mean,), False, "propagate")
    value_leaves, out_tree = flatten(value)
    outs = [aval_of(x) for x in value_leaves]
    for i, a in enumerate(outs):
        if a.dtype.kind != "f":
            raise OutputError(
                f"propagate: {LeafName(value, 'the result', i)} has dtype {a.dtype}.",
                "a covariance is one of real numbers that move",
                "return floats; take complex results apart with np.real and np.imag",
            )
    # Rows of `moved` are tangents of the result, all its entries side by side.
    line = stage.linear()
    push = vmap(lambda *tangents: line.flat(list(tangents)), chunk_size=chunk_size, randomness="same")
    moved = np.concatenate([t.reshape(t.shape[0], -1) for t in push(*split_flat(spread.directions, avals))], axis=1)
    weighted = moved if spread.matrix is None else spread.matrix @ moved
    variances = np.sum(moved * weighted, axis=0)
    covariance = None
    if full:
        blocks = _blocks(np.swapaxes(moved, 0, 1) @ weighted, outs)
        covariance = out_tree.unflatten([out_tree.unflatten(row) for row in blocks])
    shares = None
    if contributions:
        each = np.swapaxes(moved * weighted, 0, 1)
        rows = _blocks(each, outs, avals)
        shares = out_tree.unflatten([_fill(leaves, in_tree, row) for row in rows])
    if second_order:
        added = _bent(f, leaves, in_tree, avals, spread, chunk_size)
        value_leaves = [(v + b).astype(a.dtype) for v, b, a in zip(value_leaves, added, outs, strict=True)]
    deviations = out_tree.unflatten(split_flat(np.sqrt(variances), outs))
    return Propagated(out_tree.unflatten(value_leaves), covariance, deviations, shares)


# ── how the argument varies ──────────────────────────────────────────────────────────────────────────────────────


class _Spread(NamedTuple):
    """The covariance as ``directionsᵀ · matrix · directions``, with a matrix of ``None`` for the identity."""

    directions: Any
    matrix: Any


def _spread(mean: Any, avals: list[Aval], cov: Any, std: Any, corr: Any, by_entry: bool) -> _Spread:
    n = sum(a.size for a in avals)
    if (cov is None) == (std is None):
        raise ArgumentError(
            f"propagate was given {'both cov and std' if cov is not None else 'neither cov nor std'}.",
            "one of them says how the argument varies",
            "pass cov=, a covariance matrix, or std=, standard deviations, with corr= if they are correlated",
        )
    if std is None:
        if corr is not None:
            raise ArgumentError(
                "propagate was given cov and corr.", "a covariance has its correlations in it", "pass std= and corr="
            )
        matrix, factor = _taken_apart(cov, n, "cov")
        return _Spread(np.eye(n), matrix) if by_entry or factor is None else _Spread(factor, None)
    deviations = _deviations(mean, avals, std)
    if corr is None:
        return _Spread(np.diag(deviations), None)
    matrix, factor = _taken_apart(corr, n, "corr")
    return _Spread(np.diag(deviations), matrix) if by_entry or factor is None else _Spread(factor * deviations, None)


def _taken_apart(given: Any, n: int, name: str) -> tuple[Any, np.ndarray | None]:
    """Return a covariance, checked, and a factor of it; of a traced one only the shape is known."""
    matrix = _square(given, n, name)
    if isinstance(matrix, Tracer):
        return matrix, None
    if name == "corr" and not np.allclose(np.diagonal(matrix), 1.0):
        raise ArgumentError(
            "propagate: the diagonal of corr is not 1.",
            "a number is correlated with itself by 1",
            "pass correlations, or covariances as cov=",
        )
    return _check(matrix, name)


def _square(matrix: Any, n: int, name: str) -> Any:
    if not isinstance(matrix, Tracer):
        try:
            matrix = np.asarray(matrix)
        except ValueError as error:
            raise ShapeError(
                f"propagate: {name} is a {type(matrix).__name__} of rows that are not of one length.",
                "it has a row and a column for each number of mean, in the order of its leaves",
                f"pass shape ({n}, {n})",
            ) from error
    if matrix.dtype.kind not in "biuf":
        raise DtypeError(f"propagate: {name} has dtype {matrix.dtype}.", "it holds real numbers", "pass floats")
    if n == 1 and matrix.shape == ():
        matrix = np.reshape(matrix, (1, 1))
    if matrix.shape != (n, n):
        what = "variances are not a matrix: pass std=np.sqrt(...)" if matrix.shape == (n,) else f"pass shape ({n}, {n})"
        raise ShapeError(
            f"propagate: {name} has shape {matrix.shape}, mean holds {n} number{'s' * (n != 1)}.",
            "it has a row and a column for each number of mean, in the order of its leaves",
            what,
        )
    return matrix


def _check(matrix: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a covariance, made exactly symmetric, and a factor L of it as rows: Lᵀ, one for each unit of rank."""
    matrix = matrix.astype(np.result_type(matrix.dtype, np.float32))
    if not np.isfinite(matrix).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
        raise ArgumentError(
            f"propagate: {name} is not finite, first at {at}.", "nothing follows from it", "leave that number constant"
        )
    scale = float(np.abs(matrix).max(initial=0.0))
    precision = float(np.finfo(matrix.dtype).eps) ** 0.5
    apart = np.abs(matrix - matrix.T)
    if apart.max(initial=0.0) > precision * scale:
        i, j = (int(k) for k in np.unravel_index(apart.argmax(), apart.shape))
        raise ArgumentError(
            f"propagate: {name} is not symmetric: {matrix[i, j]:.6g} at {(i, j)}, {matrix[j, i]:.6g} at {(j, i)}.",
            "the covariance of a and b is that of b and a",
            "pass (C + C.T) / 2 if the difference is rounding",
        )
    matrix = (matrix + matrix.T) / 2
    values, vectors = np.linalg.eigh(matrix)
    if values.min(initial=0.0) < -precision * scale:
        raise ArgumentError(
            f"propagate: {name} has the negative eigenvalue {values.min():.6g}.",
            "some combination of the numbers would have a negative variance",
            "check its entries: no covariance is larger than the product of the two standard deviations",
        )
    moving = values > len(matrix) * float(np.finfo(matrix.dtype).eps) * values.max(initial=0.0)
    moving[-1:] = True  # one tangent at least, if only of zeros
    return matrix, (vectors[:, moving] * np.sqrt(np.maximum(values[moving], 0.0))).T


def _deviations(mean: Any, avals: list[Aval], std: Any) -> Any:
    """Return the standard deviations of all numbers, side by side."""
    leaves = flatten(mean)[0]
    given = [s for s, x in zip(flatten_like(flatten(mean)[1], std, "std", "mean"), leaves, strict=True) if is_array(x)]
    parts = []
    for i, (s, a) in enumerate(zip(given, avals, strict=True)):
        if not isinstance(s, Tracer):
            s = np.asarray(s, dtype=float)
        if s.shape not in ((), a.shape):
            raise ShapeError(
                f"propagate: {LeafName(std, 'std', i)} has shape {s.shape}, its mean has shape {a.shape}.",
                "a standard deviation belongs to each entry, and nothing is broadcast silently but one number",
                f"pass shape {a.shape}, or a number for all entries",
            )
        if not isinstance(s, Tracer) and not (np.isfinite(s) & (s >= 0)).all():
            raise ArgumentError(
                f"propagate: {LeafName(std, 'std', i)} is negative or not finite.",
                "a standard deviation is 0 or more",
                "pass its absolute value; correlations of either sign are corr=",
            )
        parts.append(np.reshape(np.broadcast_to(s, a.shape), -1))
    return np.concatenate(parts) if parts else np.zeros(0)


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _blocks(matrix: Any, rows: list[Aval], columns: list[Aval] | None = None) -> list[list]:
    """Cut a matrix into blocks of shape ``row.shape + column.shape``, in the rows' dtype."""
    blocks, top = [], 0
    for a in rows:
        band = np.reshape(matrix[top : top + a.size], (*a.shape, matrix.shape[1]))
        blocks.append([block.astype(a.dtype) for block in split_last(band, rows if columns is None else columns)])
        top += a.size
    return blocks


def _fill(leaves: list, in_tree: optree.PyTreeSpec, arrays: list, tangent: bool = True) -> Any:
    """Return the tree of the argument with these in place of its arrays; other leaves have no tangent."""
    parts = iter(arrays)
    return optree.tree_unflatten(in_tree, [next(parts) if is_array(x) else None if tangent else x for x in leaves])


def _bent(f: Callable, leaves: list, in_tree, avals: list[Aval], spread: _Spread, chunk_size: int | None) -> list:
    """Return ½ tr(H C) for each entry of the result: second derivatives along pairs whose outer products sum to C."""
    seconds = spread.directions if spread.matrix is None else spread.matrix @ spread.directions
    point = lambda arrays: _fill(leaves, in_tree, arrays, tangent=False)
    numbers = [x for x in leaves if is_array(x)]

    def along(one, other):
        first = lambda *x: jvp(f, (point(list(x)),), (_fill(leaves, in_tree, one),))[1]
        return flatten(jvp(first, tuple(numbers), tuple(other))[1])[0]

    bends = vmap(along, chunk_size=chunk_size, randomness="same")(
        split_flat(spread.directions, avals), split_flat(seconds, avals)
    )
    return [np.sum(b, axis=0) / 2 for b in bends]
