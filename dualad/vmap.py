"""The batching transform: ``vmap``.

For: axis specifications, in and out. The batch axis is moved to the front once, here, so that no rule ever sees
another position. Not for: batching rules (``ops/``) or the Batched tensor (``batched.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from .batched import Batched, BatchLevel
from .core.boundary import run
from .errors import ArgumentError, ArgumentTypeError, OutputError
from .jvp import as_primal, output_leaves
from .tree import flatten, flatten_prefix, is_array, leaf_names

__all__ = ["vmap"]


def vmap(f: Callable, in_axes: Any = 0, out_axes: Any = 0, *, axis_size: int | None = None) -> Callable:
    """Batch a function: map it over an axis of its arguments without a loop.

    Parameters
    ----------
    f : callable
        The function of one example, in plain NumPy.
    in_axes : int, None, or tree of them
        Which axis of each positional argument is mapped; ``None`` is not mapped; negative axes count from the end. A
        tuple or list has one entry per argument, and each entry may be a tree that is a prefix of that argument.
        Arguments passed by keyword are mapped over axis 0. Leaves that are not arrays are never mapped.
    out_axes : int, None, or tree of them
        Where the batch axis goes in the result; ``None`` only for results that are the same in all lanes.
    axis_size : int, optional
        Number of lanes; needed only when nothing is mapped.

    Returns
    -------
    callable
        The batched function, of the same arguments.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        For axes that are out of range, inconsistent, of the wrong type or missing.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> dot = lambda a, b: np.sum(a * b)
    >>> da.vmap(dot, in_axes=(0, None))(np.eye(2), np.array([3.0, 4.0]))
    array([3., 4.])
    """
    _check_axis_types(in_axes, "in_axes")
    _check_axis_types(out_axes, "out_axes")
    name = getattr(f, "__name__", type(f).__name__)

    def batched(*args, **kwargs):
        leaves, treedef = flatten((args, kwargs))
        spec = (tuple(in_axes) if isinstance(in_axes, list) else in_axes, 0 if kwargs else {})
        if isinstance(spec[0], tuple) and len(spec[0]) != len(args):
            raise ArgumentError(
                f"vmap: in_axes has {len(spec[0])} entries, the call has {len(args)} positional arguments.",
                "a tuple in_axes has one entry per positional argument",
                f"write in_axes={(0,) * len(args)} (None for an argument that is not mapped), or a single axis for all",
            )
        names = leaf_names((args, kwargs), "")
        axes = flatten_prefix(spec, treedef, "in_axes", "the arguments", _is_axis)
        axes = [_in_axis(x, a, _argument_name(n)) for x, a, n in zip(leaves, axes, names, strict=True)]
        size = _size(leaves, axes, names, axis_size)
        with BatchLevel("vmap", size) as level:
            inputs = [
                x if a is None else Batched(np.moveaxis(x, a, 0) if a else x, level)
                for x, a in zip(leaves, axes, strict=True)
            ]
            inner_args, inner_kwargs = optree.tree_unflatten(treedef, inputs)
            out = run(f, inner_args, inner_kwargs)
            out_leaves, out_tree = output_leaves(out, "vmap")
            places = flatten_prefix(out_axes, out_tree, "out_axes", "the result", _is_axis)
            results = [_out(x, a, level, name) for x, a in zip(out_leaves, places, strict=True)]
        return optree.tree_unflatten(out_tree, results)

    batched.__name__ = f"vmap({name})"
    batched.__doc__ = f.__doc__
    batched.__wrapped__ = f
    return batched


def _is_axis(x) -> bool:
    return x is None or isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _check_axis_types(axes: Any, name: str) -> None:
    for leaf in optree.tree_leaves(axes, none_is_leaf=True, namespace="dualad"):
        if not _is_axis(leaf):
            raise ArgumentTypeError(
                f"vmap: {name} holds {leaf!r} of type {type(leaf).__name__}.",
                "an axis is an integer, or None for what is not mapped",
                f"write {name}=0, or a tuple such as (0, None)",
            )


def _in_axis(x, axis, name: str):
    """Return the axis to map a leaf over, made non-negative, or None."""
    if axis is None or not is_array(x):
        return None
    ndim = np.ndim(as_primal(x, name, "vmap"))
    if not -ndim <= axis < ndim:
        raise ArgumentError(
            f"vmap: in_axes has axis {axis} for {name}, which has {ndim} dimensions"
            f"{'' if ndim else ' (a number)'} and shape {np.shape(x)}.",
            "there is no such axis to map over",
            "use None for an argument that is the same in all lanes",
        )
    return axis % ndim


def _size(leaves, axes, names, axis_size) -> int:
    sizes = {n: x.shape[a] for x, a, n in zip(leaves, axes, names, strict=True) if a is not None}
    if axis_size is not None:
        sizes["axis_size"] = axis_size
    if not sizes:
        raise ArgumentError(
            "vmap: nothing is mapped (there are no array arguments, or in_axes is None for all of them).",
            "the number of lanes can't be known",
            "map at least one argument, or pass axis_size=",
        )
    if len(set(sizes.values())) > 1:
        raise ArgumentError(
            "vmap: the mapped axes have different sizes: "
            + ", ".join(f"{n if n == 'axis_size' else _argument_name(n)} has {s}" for n, s in sizes.items())
            + ".",
            "lane i takes entry i of every mapped argument",
            "choose axes of one size in in_axes, or None for an argument that is the same in all lanes",
        )
    return next(iter(sizes.values()))


def _out(x, axis, level: BatchLevel, name: str):
    mine = type(x) is Batched and x.level is level
    if axis is None:
        if mine:
            raise ArgumentError(
                f"vmap: out_axes is None for a result of shape {x.shape} that differs between lanes (in `{name}`).",
                "one value can't stand for all lanes",
                "give it an axis such as out_axes=0, or reduce it in the function",
            )
        return x
    value = x._value if mine else _repeat(x, level.size)
    ndim = len(value.shape)
    if not -ndim <= axis < ndim:
        raise ArgumentError(
            f"vmap: out_axes has axis {axis} for a result that has {ndim} dimensions with its batch axis.",
            "there is no such place for the batch axis",
            f"choose an axis from {-ndim} to {ndim - 1}",
        )
    if type(value) is Batched and not value.level.open:
        raise OutputError("vmap: the result belongs to a vmap that has returned.")
    return np.moveaxis(value, 0, axis) if axis % ndim else value


def _repeat(x, size: int):
    """Give an unmapped result its batch axis, as an array of its own (a broadcast view would be read-only)."""
    out = np.broadcast_to(x, (size, *np.shape(x)))
    return out.copy() if isinstance(out, np.ndarray) else out


def _argument_name(path: str) -> str:
    """Turn ``[0][1]['w']``, a path into (args, kwargs), into ``argument 1['w']``."""
    if path.startswith("[0][") and "]" in path[4:]:
        number, _, rest = path[4:].partition("]")
        return f"argument {number}{rest}"
    return f"argument {path.removeprefix('[1]')}"
