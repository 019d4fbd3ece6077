"""Trees as vectors: one array of all their numbers, and the way back.

For: ``ravel_pytree``, for solvers and statistics that know vectors only. Not for: derivatives, which take trees as they
are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.frames import public
from ..errors import ShapeError
from ..tree import flatten, is_array

__all__ = ["ravel_pytree"]


@public
def ravel_pytree(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Join the arrays of a tree into one vector.

    Parameters
    ----------
    tree : tree of arrays
        Leaves without numbers (strings, ...) stay out of the vector.

    Returns
    -------
    flat : array, shape (n,)
        All entries, in the order of the leaves, in the dtype that holds them all.
    unravel : callable
        ``unravel(flat)`` is a tree like ``tree``, of its shapes and dtypes.

    Raises
    ------
    ShapeError
        If ``unravel`` is given an array of another shape.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> flat, unravel = da.ravel_pytree({"a": np.ones(2), "b": 3.0})
    >>> flat, unravel(flat * 2)["b"]
    (array([1., 1., 3.]), np.float64(6.0))
    """
    leaves, treedef = flatten(tree)
    arrays = [x if hasattr(x, "dtype") else np.asarray(x) for x in leaves if is_array(x)]
    bounds = [0, *itertools.accumulate([int(np.size(x)) for x in arrays])]

    def unravel(flat: Any) -> Any:
        if np.shape(flat) != (bounds[-1],):
            raise ShapeError(
                f"unravel was given an array of shape {np.shape(flat)}; the tree has {bounds[-1]} numbers.",
                "each entry has its place in the tree",
                f"pass an array of shape ({bounds[-1]},)",
            )
        parts = iter(zip(arrays, bounds, bounds[1:], strict=False))

        def part() -> Any:
            like, start, stop = next(parts)
            out = np.reshape(flat[start:stop], like.shape)
            # Numbers that must not be cast as a whole (complex beside real) are what their leaf was.
            out = np.real(out) if out.dtype.kind == "c" and like.dtype.kind != "c" else out
            return out.astype(like.dtype)[()]

        return treedef.unflatten([part() if is_array(x) else x for x in leaves])

    return (np.concatenate([np.ravel(x) for x in arrays]) if arrays else np.zeros(0)), unravel
