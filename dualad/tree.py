"""Trees: what optree does not say. Paths for messages, prefix trees for ``in_axes``, and which leaves are arrays.

Nodes are tuples, lists, dicts, named tuples and whatever is registered in the namespace ``"dualad"``; ``None`` is a
node without leaves. Leaves that are neither numbers nor arrays (strings, callables, ...) are static: they pass
through every transform as they are. Not for: anything about derivatives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from .errors import TreeError

__all__ = [
    "LEAVES_SEEN_AS",
    "LeafName",
    "NAMESPACE",
    "flatten",
    "flatten_like",
    "flatten_prefix",
    "is_array",
    "leaf_names",
    "register_dataclass",
    "register_node",
    "tree_map",
    "treedef_outline",
]

NAMESPACE = "dualad"

#: type of a leaf -> what a transform sees in its place; filled by higher floors (a buffer is seen as its array)
LEAVES_SEEN_AS: dict[type, Callable] = {}


def flatten(tree: Any) -> tuple[list, optree.PyTreeSpec]:
    """Return the leaves of a tree and its structure."""
    leaves, treedef = optree.tree_flatten(tree, namespace=NAMESPACE)
    for i, x in enumerate(leaves):
        if type(x) in LEAVES_SEEN_AS:
            leaves[i] = LEAVES_SEEN_AS[type(x)](x)
    return leaves, treedef


def tree_map(function: Callable, tree: Any) -> Any:
    """Apply a function to every leaf."""
    leaves, treedef = flatten(tree)
    return optree.tree_unflatten(treedef, [function(x) for x in leaves])


def is_array(x: Any) -> bool:
    """Say whether a leaf is a number or an array (or a tensor), as opposed to a static leaf such as a string."""
    return isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)) or (
        hasattr(x, "shape") and hasattr(x, "dtype") and hasattr(x, "__array_ufunc__")
    )


def leaf_names(tree: Any, name: str) -> list[str]:
    """Return how each leaf is reached from ``name``: ``params['w'][0]``."""
    accessors = optree.tree_accessors(tree, namespace=NAMESPACE)
    return [a.codify(name) if len(a) else name for a in accessors]


class LeafName:
    """How leaf ``i`` of a tree is reached from ``name``, worked out only if a message asks for it."""

    __slots__ = ("i", "name", "tree")

    def __init__(self, tree: Any, name: str, i: int) -> None:
        self.tree, self.name, self.i = tree, name, i

    def __str__(self) -> str:
        names = leaf_names(self.tree, self.name)
        return names[self.i] if self.i < len(names) else f"{self.name} leaf {self.i}"


def flatten_like(treedef: optree.PyTreeSpec, tree: Any, what: str, like: str) -> list:
    """Flatten ``tree`` up to the leaves of ``treedef``, refusing a different structure with both in words.

    A leaf position of ``treedef`` may hold ``None`` in ``tree``.
    """
    try:
        leaves = treedef.flatten_up_to(tree)
        if any([isinstance(x, (tuple, list, dict)) for x in leaves]):
            raise TypeError("a leaf there, a container here")
        return leaves
    except (ValueError, TypeError) as error:
        raise TreeError(
            f"{what} has another structure than {like}:\n    {what}: {_outline(tree)}\n"
            f"    {like}: {treedef_outline(treedef)}",
            f"they are matched leaf by leaf ({error})",
            f"give {what} the same nesting of tuples, lists and dicts as {like}",
        ) from None


def flatten_prefix(prefix: Any, treedef: optree.PyTreeSpec, what: str, like: str, is_leaf: Callable) -> list:
    """Broadcast a prefix tree (such as ``in_axes``, whose leaves may be ``None``) over the leaves of ``treedef``."""
    tree = optree.tree_unflatten(treedef, list(range(treedef.num_leaves)))
    leaves: list = [None] * treedef.num_leaves

    def spread(p, subtree) -> None:
        for i in optree.tree_leaves(subtree, namespace=NAMESPACE):
            leaves[i] = p

    try:
        if is_leaf(prefix):
            spread(prefix, tree)
        else:
            optree.tree_map_(spread, prefix, tree, is_leaf=is_leaf, none_is_leaf=True, namespace=NAMESPACE)
    except (ValueError, TypeError) as error:
        raise TreeError(
            f"{what} = {prefix!r} does not fit {like}, whose structure is {treedef_outline(treedef)}.",
            f"it must be a prefix of that structure: one entry serves everything below it ({error})",
            f"give {what} as a single axis, or as a tree that has the outer structure of {like}",
        ) from None
    return leaves


def treedef_outline(treedef: optree.PyTreeSpec) -> str:
    """Return the structure of a tree with ``*`` for leaves."""
    return repr(treedef).removeprefix("PyTreeSpec(").removesuffix(")").replace(f", namespace={NAMESPACE!r}", "")


def _outline(tree: Any) -> str:
    return treedef_outline(optree.tree_structure(tree, namespace=NAMESPACE))


def register_dataclass(cls: type) -> type:
    """Let instances of a dataclass be trees: its fields are the children. Usable as a decorator.

    Parameters
    ----------
    cls : type
        A dataclass. Fields that hold strings or other non-arrays are static automatically.

    Returns
    -------
    type
        ``cls`` itself.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import dualad as da
    >>> @da.register_dataclass
    ... @dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> da.grad(lambda p: p.x * p.y)(Point(2.0, 5.0))
    Point(x=np.float64(5.0), y=np.float64(2.0))
    """
    names = [field.name for field in dataclasses.fields(cls)]

    def unflatten(_, children):
        instance = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(instance, name, child)
        return instance

    def flatten_instance(instance):
        return [getattr(instance, n) for n in names], None, names

    return register_node(cls, flatten_instance, unflatten)


def register_node(cls: type, flatten_instance: Callable, unflatten: Callable) -> type:
    """Let instances of any class be trees.

    Parameters
    ----------
    cls : type
        The class.
    flatten_instance : callable
        ``instance -> (children, metadata)`` or ``(children, metadata, names)``.
    unflatten : callable
        ``(metadata, children) -> instance``.

    Returns
    -------
    type
        ``cls`` itself.

    Examples
    --------
    >>> import dualad as da
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _ = da.register_node(Pair, lambda p: ((p.a, p.b), None), lambda _, c: Pair(*c))
    >>> da.grad(lambda p: p.a * p.b)(Pair(3.0, 4.0)).a
    np.float64(4.0)
    """
    optree.register_pytree_node(cls, flatten_instance, unflatten, namespace=NAMESPACE)
    return cls
