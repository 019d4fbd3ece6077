"""Map and reduce: a loss and its gradient over shards of the data, one shard a chunk, sums by a fixed tree.

For: ``value_and_grad(in_axes=...)``. The derivative of a sum over shards is the sum of their derivatives; nothing else
is claimed. Sums go pairwise over neighbours, in the same order whoever was first, so that the result does not depend on
it. The partitions of a Dask array are its shards, and stay where they are. Not for: the gradient of one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import optree

from ..base.selection import select
from ..base.tree import LeafName, flatten, flatten_prefix, is_array, with_structures
from ..errors import ArgumentError, ArgumentTypeError, ShapeError
from ..tensors.chunks import Chunking, Plan, refuse_traced

__all__ = ["over_shards", "tree_sum"]

_SHARED = -1


def over_shards(
    both: Callable, f: Callable, selected: tuple, has_aux: bool, in_axes: Any, reduce: str | None, chunks: Chunking
) -> Callable:
    """Make the function that computes ``both`` (value and gradient of ``f``) over shards, and reduces."""
    where, executor = chunks.where, chunks.executor
    if reduce not in ("sum", "mean", None):
        raise ArgumentError(
            f"{where}: reduce={reduce!r}.",
            "shards are summed, averaged by their lengths, or left as they are",
            "use 'sum', 'mean' or None",
        )
    if in_axes is None and not chunks.is_whole:
        raise ArgumentError(
            f"{where}: {'executor' if executor is not None else 'chunk_size'}= was given without in_axes=.",
            "a gradient is one pass; what can be shared out is data that the loss is a sum over",
            "say which arguments hold it: in_axes=(None, 0, 0) cuts the second and the third along axis 0",
        )
    name = f"{where}({getattr(f, '__name__', type(f).__name__)})"

    def sharded(*args, **kwargs):
        leaves, treedef = flatten((args, kwargs))
        refuse_traced(leaves, executor, where)
        axes = _axes(leaves, treedef, args, kwargs, in_axes, name)
        cut, lengths = _cuts(leaves, axes, (args, kwargs), executor, name)
        gradient_axes = _gradient_axes(f, axes, treedef, selected, where)
        shared = [x if a == _SHARED else None for x, a in zip(leaves, axes, strict=True)]
        ranges = list(pairwise(accumulate(lengths, initial=0))) if isinstance(lengths, list) else None
        total = sum(lengths) if isinstance(lengths, list) else lengths
        plan = Plan(_Shards(both, treedef, shared, axes), total, cut, name, "rows", f, ranges=ranges)
        return _reduced(chunks.run(plan), reduce, total, gradient_axes, has_aux)

    return sharded


def _axes(leaves: list, treedef: optree.PyTreeSpec, args: tuple, kwargs: dict, in_axes: Any, name: str) -> list[int]:
    """Return the axis that each leaf is cut along, non-negative, or ``_SHARED``; keyword arguments are shared."""
    spec = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    if isinstance(spec, tuple) and len(spec) != len(args):
        raise ArgumentError(
            f"{name}: in_axes has {len(spec)} entries, the call has {len(args)} positional arguments.",
            "a tuple in_axes has one entry per positional argument",
            "write None for an argument that all shards share",
        )
    is_axis = lambda a: a is None or (isinstance(a, (int, np.integer)) and not isinstance(a, bool))
    entries: Any = spec
    for a in optree.tree_leaves(entries, none_is_leaf=True, namespace="dualad"):
        if not is_axis(a):
            raise ArgumentTypeError(
                f"{name}: in_axes holds {a!r} of type {type(a).__name__}.",
                "an axis is an integer, or None for what is shared",
                "write in_axes=(None, 0, 0)",
            )
    given = flatten_prefix((spec, None if kwargs else {}), treedef, "in_axes", "the arguments", is_axis)
    axes = []
    for i, (x, a) in enumerate(zip(leaves, given, strict=True)):
        if a is None or not is_array(x):
            axes.append(_SHARED)
        elif not -np.ndim(x) <= a < np.ndim(x):
            raise ArgumentError(
                f"{name}: in_axes has axis {a} for {LeafName((args, kwargs), 'arguments', i)}, which has shape"
                f" {np.shape(x)}.",
                "there is no such axis to cut",
                "use None for an argument that all shards share",
            )
        else:
            axes.append(int(a) % np.ndim(x))
    if all([a == _SHARED for a in axes]):
        raise ArgumentError(
            f"{name}: in_axes cuts no argument.", "there are no shards", "write in_axes=(None, 0, 0), for instance"
        )
    return axes


def _cuts(leaves: list, axes: list[int], tree: Any, executor: Any, name: str) -> tuple[Callable, Any]:
    """Return a function that cuts a range out of the data, and its length; lengths of partitions, if there are some."""
    across = [(x, a) for x, a in zip(leaves, axes, strict=True) if a != _SHARED]
    if any([_is_dask(x) for x, _ in across]):
        return _cut_partitions(across, executor, name)
    sizes = [(np.shape(x)[a], LeafName(tree, "arguments", i)) for i, (x, a) in enumerate(zip(leaves, axes, strict=True))
             if a != _SHARED]  # fmt: skip
    if len({n for n, _ in sizes}) > 1:
        raise ShapeError(
            f"{name}: the arguments that are cut have different lengths: "
            + ", ".join([f"{n} has {size}" for size, n in sizes])
            + ".",
            "a shard has the same rows of each of them",
            "pass arrays of one length along the axes that are cut, or None for what all shards share",
        )

    def cut(ranges: list) -> list[tuple]:
        return [tuple([x[(*[slice(None)] * a, slice(*r))] for x, a in across]) for r in ranges]

    return cut, sizes[0][0]


def _is_dask(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "dask" and hasattr(x, "to_delayed")


def _cut_partitions(across: Sequence[tuple], executor: Any, name: str) -> tuple[Callable, list[int]]:
    pool = executor.pool if hasattr(executor, "retries") else executor
    client = getattr(pool, "_client", pool)
    if not hasattr(client, "scheduler_info"):
        raise ArgumentError(
            f"{name}: an argument is a Dask array, and the executor is not Dask's.",
            "its partitions are computed by Dask's workers, and stay there",
            "pass executor=client.get_executor(), or x.compute()",
        )
    lengths: list | None = None
    for x, a in across:
        if not _is_dask(x):
            continue
        others = [c for i, c in enumerate(x.chunks) if i != a and len(c) > 1]
        mine = list(x.chunks[a])
        if others or np.isnan(mine).any() or (lengths is not None and lengths != mine):
            raise ArgumentError(
                f"{name}: a Dask array has the chunks {x.chunks}"
                + (f", another one {lengths} along its axis." if lengths is not None and lengths != mine else "."),
                "a shard is one partition, of known length, with the same rows of every array",
                "rechunk: x.rechunk({0: n, 1: -1}); x.compute_chunk_sizes() finds unknown lengths",
            )
        lengths = mine
    assert lengths is not None
    blocks = [list(np.ravel(x.to_delayed())) if _is_dask(x) else None for x, _ in across]
    order = {start: i for i, start in enumerate(accumulate(lengths, initial=0))}

    def cut(ranges: list) -> list[tuple]:
        # All blocks at once: to ask takes as long for one as for many.
        asked = [b[order[start]] for start, _ in ranges for b in blocks if b is not None]
        found = iter(client.compute(asked))
        return [
            tuple([
                x[(*[slice(None)] * a, slice(*r))] if b is None else next(found)
                for (x, a), b in zip(across, blocks, strict=True)
            ])
            for r in ranges
        ]  # fmt: skip

    return cut, lengths


def _gradient_axes(f: Callable, axes: list[int], treedef: optree.PyTreeSpec, selected: tuple, where: str) -> list[int]:
    """Return the axis of each leaf of the gradient: axes are chosen as the arguments are."""
    tree: Any = optree.tree_unflatten(treedef, axes)
    argnums, argnames = selected
    selection = select(f, tree[0], tree[1], argnums, argnames, where)
    return flatten(selection.arrange(selection.chosen))[0]


class _Shards:
    """Value and gradient of a shard."""

    def __init__(self, both: Callable, treedef: optree.PyTreeSpec, leaves: list, axes: list[int]) -> None:
        self.both, self.treedef, self.leaves, self.axes = both, treedef, leaves, axes

    def __reduce__(self):
        return with_structures(_Shards, (self.both, self.treedef, self.leaves, self.axes), self.treedef)

    def __call__(self, start: int, stop: int, *across: Any) -> _Shard:
        rest = iter(across)
        leaves = list(self.leaves)
        for i, a in enumerate(self.axes):
            if a == _SHARED:
                continue
            leaves[i] = x = next(rest)
            if np.shape(x)[a] != stop - start:
                raise ShapeError(
                    f"the shard of rows {start}:{stop} has shape {np.shape(x)}, another length along axis {a}.",
                    "a partition has the length that its array says",
                    "x.compute_chunk_sizes() finds the lengths of a Dask array",
                )
        args, kwargs = optree.tree_unflatten(self.treedef, leaves)
        value, gradient = self.both(*args, **kwargs)
        return _Shard(stop - start, value, *flatten(gradient))


class _Shard:
    """The results of one shard."""

    def __init__(self, length: int, value: Any, leaves: list, tree: optree.PyTreeSpec) -> None:
        self.length, self.value, self.leaves, self.tree = length, value, leaves, tree

    def __reduce__(self):
        return with_structures(_Shard, (self.length, self.value, self.leaves, self.tree), self.tree)


def _reduced(shards: list[_Shard], reduce: str | None, total: int, axes: list[int], has_aux: bool) -> tuple:
    """Return value and gradient of all; with auxiliary output (a list of it) ``((value, aux), gradient)``."""
    weights = [s.length / total if reduce == "mean" and total else None for s in shards]
    value = _joined([s.value[0] if has_aux else s.value for s in shards], weights, reduce)
    leaves = []
    for i, axis in enumerate(axes):
        column = [s.leaves[i] for s in shards]
        if not is_array(column[0]):
            leaves.append(column[0])
            continue
        widths = [np.shape(x) for x in column]
        if axis == _SHARED:
            _check_widths(widths)
            leaves.append(_joined(column, weights, reduce))
        else:
            _check_widths([w[:axis] + w[axis + 1 :] for w in widths])
            leaves.append(np.concatenate([_times(x, w) for x, w in zip(column, weights, strict=True)], axis))
    gradient = optree.tree_unflatten(shards[0].tree, leaves)
    return ((value, [s.value[1] for s in shards]) if has_aux else value), gradient


def _joined(column: list, weights: list, reduce: str | None) -> Any:
    if reduce is None:
        return np.stack(column)
    if np.asarray(column[0]).dtype.kind == "V":  # no tangent, no sum
        return column[0]
    return tree_sum([_times(x, w) for x, w in zip(column, weights, strict=True)])


def _check_widths(shapes: list[tuple]) -> None:
    other = next((s for s in shapes if s != shapes[0]), None)
    if other is not None:
        raise ShapeError(
            f"shards have gradients of the shapes {shapes[0]} and {other}.",
            "they are added up, or joined along the axis that was cut",
            "let partitions differ in length only",
        )


def _times(x: Any, weight: float | None) -> Any:
    return x if weight is None or np.asarray(x).dtype.kind == "V" else x * weight


def tree_sum(terms: list) -> Any:
    """The sum of terms, added pairwise over neighbours.

    Examples
    --------
    >>> from dualad.transforms.shards import tree_sum
    >>> tree_sum([1.0, 10.0, 100.0])
    111.0
    """
    while len(terms) > 1:
        # The last of an odd number goes up as it is.
        terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)] + terms[len(terms) & ~1 :]
    return terms[0]
