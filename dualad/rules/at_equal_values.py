"""Derivatives at repeated eigenvalues and singular values: found a little beside them, where those lie apart.

A function of a matrix that does not depend on the choice of eigenvectors (a trace, a norm, V g(w) Vᴴ) is smooth where
eigenvalues coincide, but the rules answer NaN there (``ops/equal_values.py``). For: ``at_equal_values``, which carries
such a function out again at eight points A + ε P, symmetric about A: P has A's eigenvectors and moves equal values
apart. Where the results are those of a smooth function of ε its value at ε = 0 is the derivative, to about ten digits;
where they are not, because the function depends on the basis or has a corner, NaN stays. Not for: kinks
(``ops/kinks.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from ..base.signatures import Args, Out
from ..base.tree import NAMESPACE
from ..boundary.rerun import Rerun
from ..boundary.transformed import Transformed, transform
from ..core.tracer import Tracer
from ..errors import ArgumentTypeError
from ..ops.equal_values import Look, coincided, looking

__all__ = ["at_equal_values"]

_STEP = 0.0125
#: with nodes ±k·_STEP, k = 1, 2, …: how the means of each pair are weighed, for 0 to be extrapolated from all of them,
#: and from all but the last
_WEIGHTS = (8 / 5, -4 / 5, 8 / 35, -1 / 35)
_FEWER = (3 / 2, -3 / 5, 1 / 10, 0.0)
#: from the nodes on one side only
_ONE_SIDE = (4.0, -6.0, 4.0, -1.0)


@transform
def at_equal_values(f: Callable[Args, Out]) -> Callable[Args, Out]:
    """Make a function that takes derivatives exact where eigenvalues or singular values coincide.

    Where ``f`` returns NaN because values coincided, it runs eight more times, with these values moved apart by one to
    five per cent along the same vectors, and its NaN become the limits, to about ten digits. They stay NaN where
    different ways to the limit disagree: ``f`` depends on the choice of vectors, or has a corner. Elsewhere ``f`` runs
    once.

    Parameters
    ----------
    f : callable
        The function that takes the derivatives: ``da.grad(g)``, ``da.hessian(g)``, or one that calls ``da.jvp``.

    Returns
    -------
    callable
        A function of the same arguments and results.

    Raises
    ------
    ArgumentTypeError
        If ``f`` is no function.

    Notes
    -----
    What ``f`` does besides is done nine times where values coincide. It has to be outermost: under another transform,
    and for functions that were compiled or written down before, NaN stays.

    Examples
    --------
    >>> def root(a):
    ...     w, v = np.linalg.eigh(a)
    ...     return np.trace((v * np.sqrt(w)) @ v.T)
    >>> bool(np.allclose(da.at_equal_values(da.grad(root))(4.0 * np.eye(3)), 0.25 * np.eye(3)))
    True
    """
    if not callable(f):
        raise ArgumentTypeError(
            f"at_equal_values was given {f!r}.", "it takes a function", "write at_equal_values(dualad.grad(f))(x)"
        )

    def run(*args: Any, **kwargs: Any) -> Any:
        if looking.get() is not None:
            return f(*args, **kwargs)  # the block outside will see to it
        look, again = Look(), Rerun(f, args, kwargs, largest=np.inf)
        token = looking.set(look)
        try:
            out = f(*args, **kwargs)
            leaves: list[Any]
            leaves, tree = optree.tree_flatten(out, namespace=NAMESPACE)
            if look.met and not any([isinstance(x, Tracer) for x in leaves]):

                def repeat() -> Any:
                    again.restore()
                    return f(*args, **kwargs)

                return optree.tree_unflatten(tree, _settle(repeat, look, leaves))
        finally:
            looking.reset(token)
        if look.met:
            coincided()  # under another transform
        return out

    return Transformed(run, f, "at_equal_values")


def _settle(repeat: Callable[[], Any], look: Look, leaves: list) -> list:
    """The results, with limits in place of the entries that are NaN."""
    broken = [i for i, x in enumerate(leaves) if _is_number(x) and np.isnan(x).any()]
    beside: list[list] = []
    with np.errstate(all="ignore"):
        for k in range(1, len(_WEIGHTS) + 1) if broken else ():
            for sign in (1, -1):
                look.step = sign * k * _STEP
                beside.append(optree.tree_leaves(repeat(), namespace=NAMESPACE))
                if len(beside[-1]) != len(leaves):
                    return leaves
        for i in broken:
            leaves[i] = _limit(leaves[i], [results[i] for results in beside])
    return leaves


def _is_number(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.inexact)) and x.dtype.kind in "fc"


def _limit(x: Any, beside: list) -> Any:
    """An array with its values at ε = 0 in place of NaN, where all ways to extrapolate agree."""
    right, left = beside[::2], beside[1::2]
    means = [(a + b) / 2 for a, b in zip(right, left, strict=True)]
    limit, fewer = (sum(w * m for w, m in zip(weights, means, strict=True)) for weights in (_WEIGHTS, _FEWER))
    sides = [sum(w * m for w, m in zip(_ONE_SIDE, side, strict=True)) for side in (right, left)]
    size = np.max(np.abs(np.stack(beside)), axis=0)
    if np.isnan(size).all():
        return x
    digits = np.finfo(x.dtype).eps
    scale = np.maximum(size, 1e-4 * np.nanmax(size))
    smooth = np.abs(limit - fewer) <= digits**0.4 * scale
    for side in sides:
        smooth = smooth & (np.abs(limit - side) <= 1e-3 * scale)
    # One entry that has no limit casts doubt on the others: some are zero by symmetry wherever equal values are moved.
    lost = np.isnan(x)
    return np.where(lost, limit, x).astype(x.dtype)[()] if np.all(smooth | np.isnan(size) | ~lost) else x
