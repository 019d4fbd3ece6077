"""What stands between brackets, and NumPy's functions that select entries.

For: ``x[...]``, iteration, ``np.take`` and its relatives. Not for: writing into tensors, nor the operators
(``ops/indexing.py``).
"""

from __future__ import annotations

import numpy as np

from ..core.aval import aval_of
from ..core.dispatch import apply
from ..core.tracer import Tensor
from ..errors import UnsupportedError
from ..ops import indexing, joining
from ..ops.indexing import ARRAY, indexed_shape
from .arguments import operand

__all__ = ["parse_index", "set_at"]

_ONLY = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid"
    " indices"
)


def parse_index(x, index) -> tuple[tuple, list]:
    """Split an index into its static template and its integer arrays.

    Parameters
    ----------
    x : array or tensor
        What is indexed; only its shape is read.
    index : anything NumPy accepts between brackets
        Integer arrays may be tensors; masks may not, because the shape of the result would depend on their values.

    Returns
    -------
    template : tuple
        As described in ``ops/indexing.py``; hashable.
    arrays : list
        The integer arrays, plain or traced, one for each ``"array"`` in the template.
    """
    shape = x.shape
    entries = index if type(index) is tuple else (index,)
    parsed = [_parsed(e) for e in entries]
    taken = 0
    ellipsis = None
    for i, e in enumerate(parsed):
        if e is Ellipsis:
            if ellipsis is not None:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis = i
        else:
            taken += _axes_taken(e)
    if taken > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {taken} were indexed")
    template, arrays, axis = [], [], 0
    for i, e in enumerate(parsed):
        kind = type(e)
        if kind is int:
            template.append(_int(e, axis, shape[axis]))
        elif kind is slice:
            template.append(_slice(e, shape[axis]))
        elif e is None:
            template.append(None)
        elif e is Ellipsis:
            if i + 1 < len(parsed):  # trailing full slices are left out
                filled = len(shape) - taken
                template.extend([(0, n, 1) for n in shape[axis : axis + filled]])
                axis += filled
            continue
        elif kind is bool:
            template.append("true" if e else "false")
        elif kind is tuple:  # the positions of a mask
            mask_shape, positions = e
            if mask_shape != shape[axis : axis + len(mask_shape)]:
                raise IndexError(
                    "boolean index did not match indexed array: the mask has shape"
                    f" {mask_shape}, the indexed axes {shape[axis : axis + len(mask_shape)]}"
                )
            template.extend([ARRAY] * len(positions))
            arrays.extend(positions)
        else:
            template.append(ARRAY)
            arrays.append(e)
        axis += _axes_taken(e)
    return tuple(template), arrays


def _parsed(e):
    """Return an entry as int, slice, None, Ellipsis, bool, an integer array, or (shape, positions) of a mask."""
    kind = type(e)
    if kind is int or kind is slice or e is None or e is Ellipsis:
        return e
    if kind is bool or kind is np.bool:
        return bool(e)
    if isinstance(e, (list, tuple)):
        e = operand(e)
        if type(e) is np.ndarray and not e.size and e.dtype.kind == "f":
            e = e.astype(np.intp)
    elif not isinstance(e, (Tensor, np.ndarray)):
        try:
            return e.__index__()
        except AttributeError:
            if not hasattr(e, "dtype") or e.dtype.kind not in "biu":
                raise IndexError(_ONLY) from None
    elif isinstance(e, np.ndarray) and e.dtype == object:
        e = operand(e)
    if e.dtype.kind == "b":
        if isinstance(e, Tensor):
            raise UnsupportedError(
                f"an array was indexed with a boolean mask of shape {e.shape} that is a {e._kind()}.",
                "the number of entries it selects depends on values that differ between lanes or are not known yet, so"
                " the result would have no shape",
                "keep the shape with np.where(mask, x, other), for instance np.sum(np.where(mask, x, 0)) in place of"
                " np.sum(x[mask])",
            )
        return bool(e) if not e.shape else (e.shape, e.nonzero())
    if e.dtype.kind not in "iu":
        raise IndexError(f"{_ONLY} (an array of dtype {e.dtype} was given)")
    return int(e) if not e.shape and not isinstance(e, Tensor) else e


def _axes_taken(e) -> int:
    if e is None or type(e) is bool:
        return 0
    return len(e[0]) if type(e) is tuple else 1


def _int(i: int, axis: int, n: int) -> int:
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
    return i + n if i < 0 else i


def _slice(s: slice, n: int) -> tuple:
    start, stop, step = s.indices(n)
    if not len(range(start, stop, step)):
        return (0, 0, 1)
    return (start, None if stop < 0 else stop, step)


def _getitem(self, index):
    # The commonest indices of all, an int or a slice of the first axis, need no parsing.
    kind = type(index)
    if (kind is int or kind is slice) and self.shape:
        n = self.shape[0]
        template, arrays = (_int(index, 0, n) if kind is int else _slice(index, n),), None
    else:
        template, arrays = parse_index(self, index)
    if arrays:
        return apply(indexing.index, (self, *arrays), {"template": template})
    return self.process(indexing.index, (self,), {"template": template})


def _iter(self):
    if not self.shape:
        raise TypeError("iteration over a 0-d array")
    return iter(joining.unstack(self, axis=0))


Tensor.__getitem__ = _getitem
Tensor.__iter__ = _iter


def set_at(x, index, value):
    """Return a copy of ``x`` in which ``x[index]`` is ``value``, cast to the dtype of ``x`` and broadcast."""
    x, value = operand(x), operand(value)
    template, arrays = parse_index(x, index)
    shape = indexed_shape(x.shape, arrays, template)
    if aval_of(value).dtype != x.dtype:
        value = np.astype(value if hasattr(value, "shape") else np.asarray(value), x.dtype)
    value_shape = np.shape(value)
    if value_shape != shape:
        extra = max(0, len(value_shape) - len(shape))
        if value_shape[:extra] == (1,) * extra and extra:  # NumPy drops leading axes of size one in assignments
            value = np.reshape(value, value_shape[extra:])
        value = np.broadcast_to(value, shape)
    return apply(indexing.index_set, (x, value, *arrays), {"template": template})
