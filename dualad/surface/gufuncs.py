"""The keywords of generalized ufuncs: ``axes=``, ``axis=`` and ``keepdims=`` of ``np.matmul`` and its relatives.

The core axes are moved to the end, where the operators expect them, and those of the result moved to where they are
asked for. Not for: what is computed (``contraction.py``).
"""

from __future__ import annotations

import operator

import numpy as np

from .arguments import normalize_axis, operand

__all__ = ["along_axes"]


def along_axes(ufunc: np.ufunc, inputs: tuple, kwargs: dict, call):
    """Call a generalized ufunc of one result by ``call(ufunc, inputs, kwargs)``, on the axes that keywords name."""
    axes, axis, keepdims = kwargs.pop("axes", None), kwargs.pop("axis", None), bool(kwargs.pop("keepdims", False))
    before, after = ufunc.signature.split("->")
    cores = [_names(part) for part in (*before[1:-1].split("),("), after[1:-1])]
    single = all(core == cores[0] and len(core) == 1 for core in cores[:-1]) and not cores[-1]
    if axis is not None and axes is not None:
        raise TypeError("cannot specify both 'axis' and 'axes'")
    for name, given in (("axis", axis is not None), ("keepdims", keepdims)):
        if given and not single:
            raise TypeError(
                f"{ufunc.__name__}: {name} can only be used with a single shared core dimension, not with the"
                f" signature {ufunc.signature}"
            )
    inputs = tuple([operand(x) for x in inputs])
    if axis is not None:
        places = [(axis,)] * ufunc.nin + [(axis,) if keepdims else ()]
    elif axes is None:
        places = [tuple(range(-len(core), 0)) for core in cores[:-1]] + [(-1,) if keepdims else ()]
    else:
        places = _places(ufunc, axes, 0 if not (cores[-1] or keepdims) else None)
    moved = [_to_the_end(x, p, ufunc.__name__) for x, p in zip(inputs, places[:-1], strict=True)]
    out = call(ufunc, tuple(moved), kwargs)
    if keepdims:
        out = np.reshape(out, (*np.shape(out), 1))
    where = tuple([normalize_axis(i, np.ndim(out), f"np.{ufunc.__name__}") for i in places[-1]])
    last = tuple(range(np.ndim(out) - len(where), np.ndim(out)))
    return out if where == last else np.moveaxis(out, last, where)


def _names(core: str) -> list[str]:
    return [name for name in core.split(",") if name]


def _places(ufunc: np.ufunc, axes, of_result: int | None) -> list[tuple[int, ...]]:
    """Return ``axes=`` as a tuple for each operand and for the result, whose own may be left out if it has none."""
    if not isinstance(axes, list):
        raise TypeError("axes should be a list.")
    count = ufunc.nin + ufunc.nout
    if of_result == 0 and len(axes) == ufunc.nin:
        axes = [*axes, ()]
    if len(axes) != count:
        raise ValueError(f"axes should be a list with an entry for all {count} inputs and outputs")
    return [tuple(map(operator.index, a)) if isinstance(a, tuple) else (operator.index(a),) for a in axes]


def _to_the_end(x, axes: tuple[int, ...], name: str):
    axes = tuple([normalize_axis(i, np.ndim(x), f"np.{name}") for i in axes])
    last = tuple(range(np.ndim(x) - len(axes), np.ndim(x)))
    return x if axes == last else np.moveaxis(x, axes, last)
