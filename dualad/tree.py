"""Trees, for users: ``da.tree``, with JAX's names and arguments.

Nodes are tuples, lists, dicts, named tuples, dataclasses, ``None`` (which has no leaves) and instances of registered
classes; all else is a leaf. Not for: what transforms ask of trees (``base/tree.py``).
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable
from typing import Any

import optree

from .base.frames import public
from .base.tree import NAMESPACE, flatten_up_to, register_dataclass, register_node, treedef_outline
from .base.tree import flatten as flatten_tree
from .errors import TreeError

__all__ = [
    "all", "flatten", "leaves", "map", "reduce", "register_dataclass", "register_node", "structure", "transpose",
    "unflatten",
]  # fmt: skip

IsLeaf = Callable[[Any], bool] | None


@public
def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list, optree.PyTreeSpec]:
    """Take a tree apart.

    Parameters
    ----------
    tree : tree
        The tree to flatten.
    is_leaf : callable, optional
        Asked of every node, the tree itself included: whether it counts as a leaf.

    Returns
    -------
    leaves : list
        The leaves, those of a dict in the order of its sorted keys.
    structure : PyTreeSpec
        What :func:`unflatten` puts them together by.

    Examples
    --------
    >>> leaves, structure = da.tree.flatten({"b": [1.0, None], "a": 2.0})
    >>> leaves, da.tree.unflatten(structure, leaves)
    ([2.0, 1.0], {'b': [1.0, None], 'a': 2.0})
    """
    found = flatten_tree(tree)  # a dataclass is registered by this, whatever is a leaf
    return found if is_leaf is None else optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)


@public
def unflatten(structure: optree.PyTreeSpec, leaves: Iterable) -> Any:
    """Put a tree together: the other way of :func:`flatten`.

    Parameters
    ----------
    structure : PyTreeSpec
        Its structure.
    leaves : iterable
        As many leaves as it has.

    Returns
    -------
    tree
        The tree.

    Raises
    ------
    TreeError
        If the number of leaves is another one.

    Examples
    --------
    >>> da.tree.unflatten(da.tree.structure((0, {"a": 0})), [1.0, 2.0])
    (1.0, {'a': 2.0})
    """
    leaves = list(leaves)
    if len(leaves) != structure.num_leaves:
        raise TreeError(
            f"tree.unflatten was given {len(leaves)} leaves for {treedef_outline(structure)}.",
            f"this structure has {structure.num_leaves}",
            "pass the leaves that flatten has returned, each changed or not",
        )
    return optree.tree_unflatten(structure, leaves)


@public
def leaves(tree: Any, is_leaf: IsLeaf = None) -> list:
    """Return the leaves of a tree.

    Parameters
    ----------
    tree, is_leaf
        As for :func:`flatten`.

    Returns
    -------
    list
        The leaves.

    Examples
    --------
    >>> da.tree.leaves({"w": [1.0, 2.0], "b": 3.0})
    [3.0, 1.0, 2.0]
    """
    return flatten(tree, is_leaf)[0]


@public
def structure(tree: Any, is_leaf: IsLeaf = None) -> optree.PyTreeSpec:
    """Return the structure of a tree, without its leaves.

    Parameters
    ----------
    tree, is_leaf
        As for :func:`flatten`.

    Returns
    -------
    PyTreeSpec
        It can be compared, hashed and given to :func:`unflatten`.

    Examples
    --------
    >>> da.tree.structure([1.0, 2.0]) == da.tree.structure(["a", "b"])
    True
    """
    return flatten(tree, is_leaf)[1]


@public
def map(f: Callable, tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to every leaf, or to the leaves that several trees have in one place.

    Parameters
    ----------
    f : callable
        A function of a leaf of ``tree``, and of what each of ``rest`` has there.
    tree : tree
        It says where the leaves are.
    *rest : tree
        Further trees: of the structure of ``tree``, or with whole trees where that has leaves.
    is_leaf : callable, optional
        As for :func:`flatten`.

    Returns
    -------
    tree
        Of the structure of ``tree``.

    Raises
    ------
    TreeError
        If the trees don't fit.

    Examples
    --------
    >>> params, slope = {"w": 2.0, "b": [1.0]}, {"w": 10.0, "b": [20.0]}
    >>> da.tree.map(lambda p, g: p - 0.1 * g, params, slope)
    {'w': 1.0, 'b': [-1.0]}
    """
    first, treedef = flatten(tree, is_leaf)
    others = [flatten_up_to(treedef, x, f"tree.map: tree {i} of the rest", "tree") for i, x in enumerate(rest, 1)]
    return optree.tree_unflatten(treedef, [f(*xs) for xs in zip(first, *others, strict=True)])


_MISSING = object()


@public
def reduce(f: Callable, tree: Any, initializer: Any = _MISSING, is_leaf: IsLeaf = None) -> Any:
    """Reduce the leaves of a tree to one value, as ``functools.reduce`` does.

    Parameters
    ----------
    f : callable
        A function of what there is so far, and a leaf.
    tree, is_leaf
        As for :func:`flatten`.
    initializer : optional
        What there is before the first leaf.

    Returns
    -------
    object
        What there is after the last one.

    Examples
    --------
    >>> da.tree.reduce(lambda total, x: total + x**2, {"w": [1.0, 2.0], "b": 3.0}, 0.0)
    14.0
    """
    return functools.reduce(f, leaves(tree, is_leaf), *[x for x in (initializer,) if x is not _MISSING])


@public
def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves of a tree are true.

    Parameters
    ----------
    tree, is_leaf
        As for :func:`flatten`.

    Returns
    -------
    bool
        True of a tree without leaves.

    Examples
    --------
    >>> da.tree.all(da.tree.map(np.isfinite, {"w": [1.0, 2.0], "b": np.inf}))
    False
    """
    return builtins.all(leaves(tree, is_leaf))


@public
def transpose(outer: optree.PyTreeSpec, inner: optree.PyTreeSpec | None, tree: Any) -> Any:
    """Turn a tree of trees inside out: a list of dicts becomes a dict of lists.

    Parameters
    ----------
    outer, inner : PyTreeSpec
        The structure of the outer nodes of ``tree``, and that which each of their leaves has; None is looked up in the
        first.
    tree : tree
        The tree to transpose.

    Returns
    -------
    tree
        ``inner`` outside, ``outer`` in its leaves.

    Raises
    ------
    TreeError
        If ``tree`` is not of these structures.

    Examples
    --------
    >>> steps = [{"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 4.0}]
    >>> da.tree.transpose(da.tree.structure([0, 0]), None, steps)
    {'x': [1.0, 3.0], 'y': [2.0, 4.0]}
    """
    flatten(tree)  # a dataclass in it is registered
    rows = flatten_up_to(outer, tree, "tree.transpose: the tree", "outer")
    inner = structure(rows[0]) if inner is None and rows else inner or structure(None)
    columns = [flatten_up_to(inner, row, "tree.transpose: a tree in it", "inner") for row in rows]
    across = [optree.tree_unflatten(outer, list(column)) for column in zip(*columns, strict=True)]
    return optree.tree_unflatten(inner, across)
