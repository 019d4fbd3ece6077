"""Trees as vectors: one array of all their numbers, and the way back.

For: ``ravel_pytree``, for solvers and statistics that know vectors only. Not for: derivatives, which take trees as they
are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from ..base.frames import public
from ..base.tree import LeafName, flatten, is_array, with_structures
from ..errors import ShapeError
from ..surface.leaves import plain_leaf

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
    >>> flat, unravel = da.ravel_pytree({"a": np.ones(2), "b": 3.0})
    >>> flat, unravel(flat * 2)["b"]
    (array([1., 1., 3.]), np.float64(6.0))
    """
    leaves, treedef = flatten(tree)
    leaves = [plain_leaf(x, LeafName(tree, "the tree", i), "ravel_pytree") for i, x in enumerate(leaves)]
    arrays = [x if hasattr(x, "dtype") else np.asarray(x) for x in leaves if is_array(x)]
    flat = np.concatenate([np.ravel(x) for x in arrays]) if arrays else np.zeros(0)
    rest = [None if is_array(x) else x for x in leaves]
    places = [i for i, x in enumerate(leaves) if is_array(x)]
    return flat, _Unravel(treedef, rest, places, [x.shape for x in arrays], [x.dtype for x in arrays])


class _Unravel:
    """The way back from a vector to the tree that it was made of."""

    __name__ = "unravel"

    def __init__(self, treedef: optree.PyTreeSpec, rest: list, places: list[int], shapes: list, dtypes: list) -> None:
        self.treedef, self.rest, self.places, self.shapes, self.dtypes = treedef, rest, places, shapes, dtypes
        self.bounds = [0, *itertools.accumulate([math.prod(shape) for shape in shapes])]

    def __reduce__(self):
        return with_structures(_Unravel, (self.treedef, self.rest, self.places, self.shapes, self.dtypes), self.treedef)

    def __call__(self, flat: Any) -> Any:
        if np.shape(flat) != (self.bounds[-1],):
            raise ShapeError(
                f"unravel was given an array of shape {np.shape(flat)}; the tree has {self.bounds[-1]} numbers.",
                "each entry has its place in the tree",
                f"pass an array of shape ({self.bounds[-1]},)",
            )
        leaves = list(self.rest)
        for i, shape, dtype, start, stop in zip(
            self.places, self.shapes, self.dtypes, self.bounds, self.bounds[1:], strict=False
        ):
            out = np.reshape(flat[start:stop], shape)
            # Numbers that must not be cast as a whole (complex beside real) are what their leaf was.
            out = np.real(out) if out.dtype.kind == "c" and dtype.kind != "c" else out
            leaves[i] = out.astype(dtype)[()]
        return self.treedef.unflatten(leaves)
