"""Free numbers for constrained parameters: positive, bounded, ordered, simplexes, Cholesky factors of correlations.

A sampler or an optimiser wants a density on all of Rⁿ; a model speaks of standard deviations and probabilities. Each
function here returns a `Constraint`: the smooth one-to-one map of free numbers onto the values it allows, and the
logarithm of its Jacobian determinant, which makes a density of the values one of the free numbers. The maps are those
of Stan's reference manual (before its version 2.37, which changed the simplex), so that a point means the same in both.
Not for: densities (`scipy.stats` has them), except that of Lewandowski, Kurowicka and Joe, which it lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.special._ufuncs as sp

__all__ = [
    "Constraint", "Parameters", "cholesky_corr", "interval", "lkj_cholesky_logpdf", "lower", "ordered", "positive",
    "positive_ordered", "real", "simplex", "upper",
]  # fmt: skip


class Constraint(NamedTuple):
    """A smooth map of ``size`` free numbers onto the values that a constraint allows.

    ``constrain(free)`` returns the value and the logarithm of the absolute Jacobian determinant, ``unconstrain(value)``
    the free numbers, a vector.

    Examples
    --------
    >>> from dualad.scipy.stats import constraints
    >>> value, log_jacobian = constraints.positive().constrain(np.array([0.5]))
    >>> print(value.round(4), log_jacobian)
    1.6487 0.5
    """

    size: int
    constrain: Callable[[Any], tuple[Any, Any]]
    unconstrain: Callable[[Any], Any]


class Parameters:
    """Named parameters, each with its constraint, one after another in one vector of free numbers.

    Examples
    --------
    >>> from dualad.scipy import stats
    >>> from dualad.scipy.stats.constraints import Parameters, positive, real
    >>> parameters = Parameters(mu=real(), sigma=positive())
    >>> y = np.array([0.5, 1.5, 4.0])
    >>> def log_density(free):
    ...     values, log_jacobian = parameters.constrain(free)
    ...     return stats.norm.logpdf(y, values["mu"], values["sigma"]).sum() + log_jacobian
    >>> print(da.grad(log_density)(np.zeros(parameters.size)))
    [ 6.  16.5]
    """

    def __init__(self, **constraints: Constraint) -> None:
        self.constraints = constraints
        self.size = sum(c.size for c in constraints.values())

    def constrain(self, free: Any) -> tuple[dict[str, Any], Any]:
        """Return the values by name, and the logarithm of the Jacobian determinant of them all."""
        values, total, start = {}, 0.0, 0
        for name, constraint in self.constraints.items():
            values[name], log_jacobian = constraint.constrain(free[start : start + constraint.size])
            total, start = total + log_jacobian, start + constraint.size
        return values, total

    def unconstrain(self, values: dict[str, Any]) -> Any:
        """Return the vector of free numbers of values by name."""
        return np.concatenate([np.ravel(c.unconstrain(values[name])) for name, c in self.constraints.items()])


def _elementwise(shape: tuple[int, ...], into: Callable[..., Any], back: Callable[..., Any]) -> Constraint:
    """Return the constraint that maps each number on its own."""

    def constrain(free):
        return into(np.reshape(free, shape))

    return Constraint(math.prod(shape), constrain, lambda value: np.ravel(back(np.asarray(value))))


def real(*shape: int) -> Constraint:
    """Numbers without a constraint, in this shape.

    Examples
    --------
    >>> from dualad.scipy.stats import constraints
    >>> constraints.real(2, 3).size
    6
    """
    return _elementwise(shape, lambda y: (y, 0.0), lambda x: x)


def lower(bound: Any, *shape: int) -> Constraint:
    """Numbers above a bound: x = bound + exp(y).

    Examples
    --------
    >>> from dualad.scipy.stats import constraints
    >>> print(constraints.lower(1.0, 2).constrain(np.zeros(2))[0])
    [2. 2.]
    """
    return _elementwise(shape, lambda y: (bound + np.exp(y), np.sum(y)), lambda x: np.log(x - bound))


def positive(*shape: int) -> Constraint:
    """Positive numbers: x = exp(y).

    Examples
    --------
    >>> from dualad.scipy.stats import constraints
    >>> print(constraints.positive(2).unconstrain(np.ones(2)))
    [0. 0.]
    """
    return _elementwise(shape, lambda y: (np.exp(y), np.sum(y)), np.log)


def upper(bound: Any, *shape: int) -> Constraint:
    """Numbers below a bound: x = bound - exp(y).

    Examples
    --------
    >>> from dualad.scipy.stats import constraints
    >>> print(constraints.upper(1.0, 2).constrain(np.zeros(2))[0])
    [0. 0.]
    """
    return _elementwise(shape, lambda y: (bound - np.exp(y), np.sum(y)), lambda x: np.log(bound - x))


def interval(low: Any, high: Any, *shape: int) -> Constraint:
    """Numbers between two bounds: x = low + (high - low) / (1 + exp(-y)).

    Examples
    --------
    >>> from dualad.scipy.stats import constraints
    >>> print(constraints.interval(0.0, 10.0, 2).constrain(np.zeros(2))[0])
    [5. 5.]
    """

    def into(y):  # the logistic function s has s' = s(1 - s), and log s(y) = -log(1 + exp(-y))
        slopes = np.log(high - low) - np.logaddexp(0.0, -y) - np.logaddexp(0.0, y)
        return low + (high - low) * sp.expit(y), np.sum(slopes)

    return _elementwise(shape, into, lambda x: sp.logit((x - low) / (high - low)))


def ordered(*shape: int) -> Constraint:
    """Vectors that increase along the last axis: x₁ = y₁, and each next is larger by exp(yₖ).

    Examples
    --------
    >>> from dualad.scipy.stats import constraints
    >>> print(constraints.ordered(3).constrain(np.zeros(3))[0])
    [0. 1. 2.]
    """

    def into(y):
        steps = np.concatenate([y[..., :1], np.exp(y[..., 1:])], axis=-1)
        return np.cumsum(steps, axis=-1), np.sum(y[..., 1:])

    return _elementwise(shape, into, lambda x: np.concatenate([x[..., :1], np.log(np.diff(x, axis=-1))], axis=-1))


def positive_ordered(*shape: int) -> Constraint:
    """Vectors of positive numbers that increase along the last axis, each by exp(yₖ).

    Examples
    --------
    >>> from dualad.scipy.stats import constraints
    >>> print(constraints.positive_ordered(3).constrain(np.zeros(3))[0])
    [1. 2. 3.]
    """

    def into(y):
        return np.cumsum(np.exp(y), axis=-1), np.sum(y)

    return _elementwise(shape, into, lambda x: np.log(np.concatenate([x[..., :1], np.diff(x, axis=-1)], axis=-1)))


def simplex(*shape: int) -> Constraint:
    """Probabilities that add up to one along the last axis, by breaking a stick; K of them from K - 1 numbers.

    The k-th piece is a share zₖ = 1 / (1 + exp(-yₖ + log(K - k))) of the rest of the stick, so that y = 0 gives
    equal pieces.

    Examples
    --------
    >>> from dualad.scipy.stats import constraints
    >>> print(constraints.simplex(4).constrain(np.zeros(3))[0])
    [0.25 0.25 0.25 0.25]
    """
    *leading, count = shape
    shift = np.log(np.arange(count - 1, 0, -1))
    free_shape = (*leading, count - 1)

    # log x = log(left before) + log z. The matrix of derivatives is triangular: its diagonal is (left before) z (1 - z)
    def constrain(free):
        y = np.reshape(free, free_shape) - shift
        share, rest = -np.logaddexp(0.0, -y), -np.logaddexp(0.0, y)
        left = np.cumsum(rest, axis=-1)
        pieces = np.concatenate([rest[..., :1] * 0.0, left], axis=-1)
        value = np.exp(np.concatenate([pieces[..., :-1] + share, pieces[..., -1:]], axis=-1))
        return value, np.sum(pieces[..., :-1] + share + rest)

    def unconstrain(value):
        value = np.asarray(value)
        left = np.cumsum(value[..., ::-1], axis=-1)[..., ::-1]
        return np.ravel(np.log(value[..., :-1]) - np.log(left[..., 1:]) + shift)

    return Constraint(math.prod(free_shape), constrain, unconstrain)


def cholesky_corr(count: int) -> Constraint:
    """Cholesky factors of correlation matrices: lower triangular, rows of length one, positive diagonal.

    Row by row, each entry left of the diagonal is a share tanh(y) of the length that the entries before it leave.

    Examples
    --------
    >>> from dualad.scipy.stats import constraints
    >>> print(constraints.cholesky_corr(2).constrain(np.zeros(1))[0])
    [[1. 0.]
     [0. 1.]]
    """
    rows, columns = np.tril_indices(count, -1)
    size = len(rows)
    place = np.full((count, count), size)  # where the free number of an entry is; after the last stands a zero
    place[rows, columns] = np.arange(size)
    below = np.tril(np.ones((count, count)), -1)

    # With aₗ = log(1 - zₗ²), the squared length left before entry j is exp(Σ aₗ, l < j): that of the diagonal is all.
    def constrain(free):
        y = np.concatenate([np.reshape(free, (size,)), np.zeros(1)])[place]
        shrink = 2.0 * (math.log(2.0) - np.logaddexp(y, -y)) * below
        before = np.cumsum(shrink, axis=1) - shrink
        value = (np.tanh(y) + np.eye(count)) * np.exp(0.5 * before)
        return value, np.sum((0.5 * before + shrink) * below)

    def unconstrain(value):
        value = np.asarray(value)
        left = 1.0 - np.cumsum(value**2, axis=1) + value**2
        return np.arctanh(value[rows, columns] / np.sqrt(left[rows, columns]))

    return Constraint(size, constrain, unconstrain)


def lkj_cholesky_logpdf(factor: Any, eta: Any) -> Any:
    """The log density of a Cholesky factor L where that of the correlation matrix L Lᵀ is ∝ det(L Lᵀ)^(η - 1).

    Parameters
    ----------
    factor : array
        Cholesky factor of a correlation matrix, as of `cholesky_corr`.
    eta : float
        Shape: 1 is uniform over correlation matrices, more prefers small correlations.

    Examples
    --------
    >>> from dualad.scipy.stats import constraints
    >>> print(constraints.lkj_cholesky_logpdf(np.eye(2), 1.0).round(6))
    -0.693147
    """
    count = factor.shape[-1]
    k = np.arange(1, count)
    powers = count - 1 - k + 2.0 * eta - 2.0
    normaliser = (
        0.5 * k * math.log(math.pi) + sp.gammaln(eta + 0.5 * (count - 1 - k)) - sp.gammaln(eta + 0.5 * (count - 1))
    )
    return np.sum(powers * np.log(np.diagonal(factor)[1:])) - np.sum(normaliser)
