"""Trees: what optree does not say. Kinds of leaves, paths for messages, prefix trees for ``in_axes``.

Nodes are tuples, lists, dicts, named tuples, dataclasses and whatever is registered in the namespace ``"dualad"``;
``None`` is a node without leaves. Leaves that are neither numbers nor arrays (strings, callables, ...) are static: they
pass through every transform as they are. Not for: anything about derivatives.
"""

from __future__ import annotations

import array
import collections
import contextlib
import dataclasses
import enum
import functools
import numbers
import pickle
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..errors import ArgumentError, ArgumentTypeError, TreeError
from .containers import has_own_arithmetic, remembered
from .records import STRUCTURED, Record, is_structured

__all__ = [
    "KINDS", "Kind", "LEAF", "LEAVES_SEEN_AS", "LeafName", "NAMESPACE", "flatten", "flatten_like", "flatten_prefix",
    "flatten_result", "flatten_up_to", "holds_records", "is_array", "is_picklable", "leaf", "leaf_names",
    "orders_of_keys", "refuse_hidden_numbers", "register_dataclass", "register_node", "static_leaves",
    "statics_wrapped", "tree_map", "treedef_outline", "unflatten", "with_structures",
]  # fmt: skip

NAMESPACE = "dualad"

#: type of a leaf -> what a transform sees in its place; filled by higher floors (a buffer is seen as its array)
LEAVES_SEEN_AS: dict[type, Callable] = {}

# ── kinds of leaves ──────────────────────────────────────────────────────────────────────────────────────────────


class Kind(enum.IntEnum):
    """Up to ``TENSOR`` values computed with as they are, up to ``FOREIGN`` all arrays and numbers, then objects."""

    #: exactly an ``np.ndarray``
    ARRAY = 0
    #: of Python or NumPy
    NUMBER = 1
    TENSOR = 2
    #: an ``np.ndarray`` of Python objects, which may be tensors
    OBJECTS = 3
    #: of a subclass of ndarray that computes as ndarrays do
    SUBCLASS = 4
    #: an array of another library that computes as NumPy's do
    CARRIER = 5
    #: an array that computes by rules of its own: with labels, masks or units
    FOREIGN = 6
    #: anything else with numbers in it, which can carry no derivative: a sparse matrix, PyTorch's tensors, a Fraction
    HOLDER = 7
    #: text, functions, other objects: passed through
    STATIC = 8


#: the kinds of types that are known without a look at them; tensors add their own
KINDS: dict[type, Kind] = {
    np.ndarray: Kind.ARRAY,
    **dict.fromkeys((bool, int, float, complex), Kind.NUMBER),
    **dict.fromkeys((np.bool_, np.int64, np.float32, np.float64, np.complex128), Kind.NUMBER),
}

_ndarray = np.ndarray
_ARRAY, _OBJECTS, _FOREIGN = Kind.ARRAY, Kind.OBJECTS, Kind.FOREIGN


def leaf(x: Any) -> Kind:
    """The kind of a leaf: what transforms take it for is decided here and nowhere else."""
    kind = KINDS.get(type(x))
    if kind is None:
        kind = _kind_of_type(type(x))
        if kind >= _FOREIGN and not isinstance(x, type) and all(hasattr(x, name) for name in _PROTOCOL):
            # What an object is asked for need not be an attribute of its class.
            kind = Kind.FOREIGN if has_own_arithmetic(type(x)) else Kind.CARRIER
    return _OBJECTS if kind is _ARRAY and x.dtype.char == "O" else kind


def is_array(x: Any) -> bool:
    """Whether a leaf is a number or an array (or a tensor), as opposed to a static leaf such as a string."""
    return type(x) in KINDS or leaf(x) <= _FOREIGN


_PROTOCOL = ("shape", "dtype", "__array_ufunc__")
_SAYS_ARRAY = (
    "__array_namespace__", "__dlpack__", "__array__", "__array_interface__", "__array_struct__", "__array_ufunc__",
)  # fmt: skip


@remembered
def _kind_of_type(cls: type) -> Kind:
    own = has_own_arithmetic(cls)
    if issubclass(cls, (np.ndarray, np.generic, bool, int, float, complex)):
        if own:
            return Kind.FOREIGN
        return Kind.SUBCLASS if issubclass(cls, np.ndarray) else Kind.NUMBER
    like = any(hasattr(cls, name) for name in _SAYS_ARRAY) or issubclass(cls, (numbers.Number, memoryview, array.array))
    return Kind.HOLDER if (like or own) and not issubclass(cls, type) else Kind.STATIC


# ── flattening ───────────────────────────────────────────────────────────────────────────────────────────────────

_tree_structure: Any = optree.tree_structure  # whose types know collections only
#: the structures of a leaf by itself, and of one as the only argument
LEAF, _ONE_ARGUMENT = [_tree_structure(tree, namespace=NAMESPACE) for tree in (0.0, (0.0,))]


def flatten(tree: Any) -> tuple[list, optree.PyTreeSpec]:
    """Return the leaves of a tree and its structure; a dataclass is registered when it is first met."""
    # An array, a number or a tensor, by itself or as the only argument, is nearly every tree.
    alone = tree[0] if type(tree) is tuple and len(tree) == 1 else tree
    kind = type(alone)
    if kind in KINDS and kind not in LEAVES_SEEN_AS and (kind is not _ndarray or alone.dtype.names is None):
        return [alone], LEAF if alone is tree else _ONE_ARGUMENT
    leaves, treedef = optree.tree_flatten(tree, namespace=NAMESPACE)
    for i, x in enumerate(leaves):
        kind = type(x)
        if kind in LEAVES_SEEN_AS:
            leaves[i] = LEAVES_SEEN_AS[kind](x)
        elif kind in STRUCTURED and is_structured(x):
            apart = lambda y: Record.of(y) if is_structured(y) else y
            return flatten(optree.tree_map(apart, tree, namespace=NAMESPACE))
        elif kind not in KINDS and hasattr(kind, "__dataclass_fields__") and not (is_array(x) or _beside_fields(x)):
            with contextlib.suppress(ValueError):  # another thread was quicker
                register_dataclass(kind)
            return flatten(tree)
    return leaves, treedef


def orders_of_keys(tree: Any) -> Any:
    """Return the orders that the keys of the dicts in a tree have, None if all are sorted: a structure has none."""
    kind = type(tree)
    if kind in KINDS:
        return None
    if kind in (dict, collections.defaultdict):
        inside = tuple([orders_of_keys(x) for x in tree.values()])
        keys: Any = tuple(tree)
        try:
            keys = None if len(keys) < 2 or list(keys) == sorted(keys) else keys
        except TypeError:  # they can't be compared
            pass
        return None if keys is None and not any(inside) else (keys, inside)
    if kind not in (tuple, list):
        if optree.tree_is_leaf(tree, namespace=NAMESPACE):
            return None
        tree = optree.tree_flatten_one_level(tree, namespace=NAMESPACE)[0]
    inside = tuple([orders_of_keys(x) for x in tree])
    return inside if any(inside) else None


def unflatten(treedef: optree.PyTreeSpec, leaves: list) -> Any:
    """Return the tree of a structure and its leaves; nearly every tree is done without asking optree."""
    if treedef is LEAF:
        return leaves[0]
    return tuple(leaves) if treedef is _ONE_ARGUMENT else optree.tree_unflatten(treedef, leaves)


def tree_map(function: Callable, tree: Any) -> Any:
    """Apply a function to every leaf."""
    leaves, treedef = flatten(tree)
    return optree.tree_unflatten(treedef, [function(x) for x in leaves])


#: what holds no numbers that anybody would differentiate
_NO_NUMBERS = (
    str, bytes, type, enum.Enum, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    np.ufunc,
)  # fmt: skip


class _Static:
    """A static leaf of a result, as a node without leaves: it belongs to the structure, and comes back with it."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and (self.value is other.value or bool(self.value == other.value))

    def __hash__(self) -> int:
        return hash(type(self.value))

    def __repr__(self) -> str:
        return repr(self.value)


_register_node: Any = optree.register_pytree_node  # whose types know collections only
_register_node(
    Record,
    lambda record: (record.fields.values(), record.dtype, record.fields),
    lambda dtype, children: Record(dict(zip(dtype.names, children, strict=True)), dtype),
    path_entry_type=optree.MappingEntry,
    namespace=NAMESPACE,
)
_register_node(_Static, lambda static: ((), static), lambda static, children: static.value, namespace=NAMESPACE)


def flatten_result(tree: Any, passed: Sequence | None = None, statics: bool = False) -> tuple[list, optree.PyTreeSpec]:
    """Flatten what a function returned: static leaves become part of the structure, where there are numbers too.

    Given ``passed``, the leaves of the arguments, only those among them do: they have come through unchanged. With
    ``statics`` all that hold no numbers do, also where there are none.
    """
    leaves, treedef = flatten(tree)
    if statics or len(leaves) > 1:
        numbers = sum([is_array(x) for x in leaves])
        if numbers < len(leaves) and (statics or numbers):
            return flatten(statics_wrapped(tree, passed, statics))
    return leaves, treedef


def holds_records(treedef: optree.PyTreeSpec) -> bool:
    """Whether there are structured arrays in a structure."""
    kind: Any = treedef.type
    return kind is Record or any([holds_records(child) for child in treedef.children()])


def static_leaves(treedef: optree.PyTreeSpec, name: str) -> dict[str, Any]:
    """Return the static leaves that belong to a structure, by how each is reached from ``name``."""
    tree = optree.tree_unflatten(treedef, [0.0] * treedef.num_leaves)
    return {n: x for n, x in zip(leaf_names(tree, name), flatten(tree)[0], strict=True) if not is_array(x)}


def refuse_hidden_numbers(x: Any, name: Any, where: str) -> None:
    """Refuse a static leaf that is to be differentiated and holds numbers where no transform sees them."""
    if isinstance(x, _NO_NUMBERS):
        return
    attributes = getattr(x, "__dict__", None)
    if not isinstance(attributes, dict):
        return
    counts = (int, np.integer, np.bool_)
    hidden = [n for n, v in attributes.items() if any(is_array(x) and not isinstance(x, counts) for x in flatten(v)[0])]
    if hidden:
        kind = type(x).__name__
        raise TreeError(
            f"{where}: {name} is an object of the class `{kind}`, with numbers in its attributes"
            f" {', '.join(sorted(hidden))}.",
            "transforms look into tuples, lists, dicts and dataclasses whose attributes are their fields; in another"
            " object the numbers would be taken for constants, and their derivative would be lost",
            f"make `{kind}` a dataclass, or say how it is taken apart: dualad.register_node({kind}, ...)",
        )


def leaf_names(tree: Any, name: str) -> list[str]:
    """Return how each leaf is reached from ``name``: ``params['w'][0]``."""
    accessors = flatten(tree)[1].accessors()
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
    leaves = flatten_up_to(treedef, tree, what, like)
    if any([isinstance(x, (tuple, list, dict)) for x in leaves]):
        raise _another_structure(treedef, tree, what, like, "a leaf there, a container here")
    return leaves


def flatten_up_to(treedef: optree.PyTreeSpec, tree: Any, what: str, like: str) -> list:
    """Return the subtrees of a tree at the leaves of ``treedef``."""
    try:
        try:
            return treedef.flatten_up_to(tree)
        except ValueError:  # perhaps only because static leaves of a result belong to its structure
            return treedef.flatten_up_to(statics_wrapped(tree))
    except (ValueError, TypeError) as error:
        raise _another_structure(treedef, tree, what, like, error) from None


def _another_structure(treedef: optree.PyTreeSpec, tree: Any, what: str, like: str, error: object) -> TreeError:
    return TreeError(
        f"{what} has another structure than {like}:\n"
        f"    {what}: {treedef_outline(_tree_structure(tree, namespace=NAMESPACE))}\n"
        f"    {like}: {treedef_outline(treedef)}",
        f"they are matched leaf by leaf ({error})",
        f"give {what} the same nesting of tuples, lists and dicts as {like}",
    )


def statics_wrapped(tree: Any, passed: Sequence | None = None, statics: bool = False) -> Any:
    """Return a tree in which static leaves (of those ``passed``; with ``statics``, all) belong to the structure."""

    def is_wrapped(x):
        return passed is None or any([x is p for p in passed]) or (statics and leaf(x) is Kind.STATIC)

    return tree_map(lambda x: _Static(x) if not is_array(x) and is_wrapped(x) else x, tree)


def flatten_prefix(prefix: Any, treedef: optree.PyTreeSpec, what: str, like: str, is_leaf: Callable) -> list:
    """Broadcast a prefix tree (such as ``in_axes``, whose leaves may be ``None``) over the leaves of ``treedef``."""
    tree = optree.tree_unflatten(treedef, list(range(treedef.num_leaves)))
    leaves: list = [None] * treedef.num_leaves

    def spread(p, subtree) -> None:
        for i in optree.tree_leaves(subtree, namespace=NAMESPACE):
            if type(i) is int:  # and not a static leaf of the structure
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


def _beside_fields(instance: Any) -> set[str]:
    """Return the attributes of a dataclass that are neither fields nor cached properties, and would get lost."""
    kind = type(instance)
    others = set(getattr(instance, "__dict__", ())) - set(kind.__dataclass_fields__)
    return {n for n in others if not isinstance(getattr(kind, n, None), functools.cached_property)}


#: the dataclasses that are registered, with the names of their static fields
_dataclasses: weakref.WeakKeyDictionary[type, tuple[str, ...]] = weakref.WeakKeyDictionary()


def register_dataclass(cls: type, static: Sequence[str] = ()) -> type:
    """Let instances of a dataclass be trees: its fields are the children. Usable as a decorator.

    Most dataclasses need no registration: one is a tree as soon as a transform meets it. This is for those that keep
    attributes beside their fields, which are then left behind: inside a transform an instance has its fields alone.

    Parameters
    ----------
    cls : type
        A dataclass. Fields that hold text, functions or classes belong to the structure and pass through. One that is
        registered already stays as it is.
    static : sequence of str
        Further fields that belong to the structure whatever they hold: a size, a switch. A field with
        ``metadata={"static": True}`` is one, too.

    Returns
    -------
    type
        ``cls`` itself.

    Raises
    ------
    ArgumentTypeError
        If ``cls`` is no dataclass.
    ArgumentError
        If a static name is no field of it.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @da.register_dataclass
    ... @dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> da.grad(lambda p: p.x * p.y)(Point(2.0, 5.0))
    Point(x=np.float64(5.0), y=np.float64(2.0))
    """
    given: object = cls
    if not (isinstance(given, type) and dataclasses.is_dataclass(given)):
        raise ArgumentTypeError(
            f"register_dataclass: {cls!r} is no dataclass.",
            "its fields are the children of the tree",
            "decorate the class with @dataclass, below @register_dataclass, or use register_node",
        )
    names = [field.name for field in dataclasses.fields(cls)]
    fixed = {*static, *[field.name for field in dataclasses.fields(cls) if field.metadata.get("static")]}
    if unknown := sorted(fixed - {*names}):
        raise ArgumentError(
            f"register_dataclass: static names {unknown}, which `{cls.__name__}` does not have.",
            "a static field is one of the dataclass",
            f"choose from {names}",
        )

    def unflatten(static, children):
        instance: Any = object.__new__(cls)
        rest = iter(children)
        for name, known in zip(names, static, strict=True):
            object.__setattr__(instance, name, next(rest) if known is None else known.value)
        return instance

    def flatten_instance(instance):
        values = [getattr(instance, n) for n in names]
        known = [n in fixed or isinstance(v, _NO_NUMBERS) for v, n in zip(values, names, strict=True)]
        static = tuple([_Static(v) if k else None for v, k in zip(values, known, strict=True)])
        children = [(v, n) for v, n, k in zip(values, names, known, strict=True) if not k]
        return [v for v, _ in children], static, [n for _, n in children]

    if cls not in _dataclasses:
        register_node(cls, flatten_instance, unflatten)
        _dataclasses[cls] = tuple(fixed)
    return cls


def register_node(cls: type, flatten_instance: Callable | None = None, unflatten: Callable | None = None) -> type:
    """Let instances of any class be trees. Usable as a decorator of a class that has both functions as methods.

    Parameters
    ----------
    cls : type
        The class.
    flatten_instance : callable, optional
        ``instance -> (children, metadata)`` or ``(children, metadata, names)``; by default ``cls.tree_flatten``.
    unflatten : callable, optional
        ``(metadata, children) -> instance``; by default the class method ``cls.tree_unflatten``.

    Returns
    -------
    type
        ``cls`` itself.

    Raises
    ------
    ArgumentTypeError
        If ``cls`` is no class, or one of the others can't be called.
    ArgumentError
        If its instances are trees already.

    Examples
    --------
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _ = da.register_node(Pair, lambda p: ((p.a, p.b), None), lambda _, c: Pair(*c))
    >>> da.grad(lambda p: p.a * p.b)(Pair(3.0, 4.0)).a
    np.float64(4.0)
    """
    apart: Any = getattr(cls, "tree_flatten", None) if flatten_instance is None else flatten_instance
    together: Any = getattr(cls, "tree_unflatten", None) if unflatten is None else unflatten
    for name, x, right, what in (
        ("cls", cls, isinstance(cls, type), "a class"),
        ("flatten_instance", apart, callable(apart), "a function"),
        ("unflatten", together, callable(together), "a function"),
    ):
        if not right:
            raise ArgumentTypeError(
                f"register_node: {name} is {x!r} of type {type(x).__name__}.",
                "a class is registered with the functions that take its instances apart and make new ones",
                f"pass {what}",
            )
    try:
        optree.register_pytree_node(cls, apart, together, namespace=NAMESPACE)
    except ValueError as error:
        raise ArgumentError(
            f"register_node: instances of `{cls.__qualname__}` are trees already.",
            "a class is registered once, and Python's own containers are from the start",
            "leave the call out, or derive a class and register that",
        ) from error
    return cls


# ── structures that travel ───────────────────────────────────────────────────────────────────────────────────────


def with_structures(cls: Callable, args: tuple, *treedefs: optree.PyTreeSpec | None) -> tuple:
    """Return how ``cls(*args)`` is pickled, where some of ``args`` are structures: their classes come first.

    A structure can be read only where its classes are registered. Those that are met on the way are not, elsewhere.
    """
    kinds: dict[type, _Kind] = {}
    pending = [t for t in treedefs if t is not None]
    while pending:
        treedef = pending.pop()
        pending += treedef.children()
        kind: Any = treedef.type
        entry = None if kind is None else optree.register_pytree_node.get(kind, namespace=NAMESPACE)
        if entry is not None and entry.kind == optree.PyTreeKind.CUSTOM and kind is not _Static:
            kinds[kind] = _Kind(kind)
    return _made_of, (tuple(kinds.values()), cls, *args)


def is_picklable(thing: Any) -> bool:
    """Whether a thing arrives where it is sent by plain pickle."""
    try:
        pickle.loads(pickle.dumps(thing))
    except Exception:
        return False
    return True


def _made_of(kinds: tuple, cls: Callable, *args: Any) -> Any:
    return cls(*args)


class _Kind:
    """A class whose instances are nodes; where it is read again, it is registered."""

    def __init__(self, cls: type, static: Sequence[str] | None = None, functions: tuple = ()) -> None:
        self.cls = cls
        if optree.register_pytree_node.get(cls, namespace=NAMESPACE) is None:
            if static is not None:
                register_dataclass(cls, static)
            elif functions:
                register_node(cls, *functions)

    def __reduce__(self):
        if self.cls in _dataclasses:
            return _Kind, (self.cls, _dataclasses[self.cls])
        if self.cls.__module__ != "__main__" and "<" not in self.cls.__qualname__:
            return _Kind, (self.cls,)  # its module registers it
        entry: Any = optree.register_pytree_node.get(self.cls, namespace=NAMESPACE)
        return _Kind, (self.cls, None, (entry.flatten_func, entry.unflatten_func))
