"""Leaves of a transform's arguments and results, by kind: made plain, passed through, or refused under their name.

For: every transform, of each leaf of what it is given (``plain_leaf``, ``as_primal``, ``static_leaf``) and of what the
function returns (``output_leaves``). Not for: the kinds themselves (``base/tree.py``), nor operands of a NumPy function
(``arguments.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import CellType, ModuleType
from typing import Any

import numpy as np
import optree

from ..base.containers import advice, cannot_carry, has_own_arithmetic
from ..base.tree import (
    KINDS,
    LEAF,
    LEAVES_SEEN_AS,
    Kind,
    LeafName,
    flatten,
    flatten_result,
    is_array,
    leaf,
    leaf_names,
    refuse_hidden_numbers,
    static_leaves,
)
from ..core.aval import aval_of, is_inexact
from ..core.level import escaped
from ..core.tracer import PRINT, tracer_in
from ..errors import ArgumentTypeError, DtypeError, OutputError
from .objects import join

__all__ = [
    "as_primal", "check_chosen", "check_differentiable", "is_plainly_real", "output_leaves", "plain_leaf", "split_aux",
    "static_leaf",
]  # fmt: skip

_NUMBER, _TENSOR, _SUBCLASS = Kind.NUMBER, Kind.TENSOR, Kind.SUBCLASS
_CARRIER, _FOREIGN, _STATIC = Kind.CARRIER, Kind.FOREIGN, Kind.STATIC


def plain_leaf(x: Any, name: object, where: str) -> Any:
    """One leaf of a transform's arguments, tangents or cotangents: plain subclasses of ndarray viewed as it.

    What computes by rules of its own, and what holds numbers without being an array that can carry a derivative, is
    refused under its ``name``; what holds no numbers is static and passes.
    """
    if type(x) in KINDS or (kind := leaf(x)) is _STATIC or kind is _NUMBER:
        return x
    if kind is _SUBCLASS:
        return x.view(np.ndarray)
    if kind is not _CARRIER:
        raise cannot_carry(type(x), name, where)
    if any([n != n for n in x.shape]):  # a lazy array, cut by a mask
        raise ArgumentTypeError(
            f"{where}: {name} has the shape {x.shape}, of which something is not known.",
            "a tangent or a batch axis has the shape of what it belongs to",
            "find the shape out: x.compute_chunk_sizes(), or compute the array",
        )
    return x


def as_primal(x, name: object, where: str):
    """Check and return one leaf of the primals: arrays as they are, subclasses viewed as ndarray or refused."""
    x = plain_leaf(x, name, where)
    if isinstance(x, np.ndarray) and x.dtype.kind not in "biufc":
        if x.dtype == object:
            return join(x)
        raise DtypeError(
            f"{where}: {name} has dtype {x.dtype}.",
            "it does not hold numbers",
            "pass it by closure, or as a static object; of a structured array select the fields of numbers:"
            " x[['position', 'mass']]",
        )
    return x


def static_leaf(x: Any, name: object, where: str) -> Any:
    """A leaf that is no array, as it is; refused if it holds numbers whose derivative would be lost."""
    x = plain_leaf(x, name, where)
    refuse_hidden_numbers(x, name, where)
    return x


def is_plainly_real(x: Any) -> bool:
    """Whether a leaf is a float or an array of them, as nearly every one is."""
    return type(x) is float or (type(x) in (np.ndarray, np.float64) and x.dtype.kind == "f")


def check_chosen(chosen: tuple, names: list[str], holomorphic: bool, where: str, allow_int: bool = False) -> None:
    """Refuse the arguments without a derivative; ``names`` are what they are called in messages."""
    if holomorphic or not all([x is not None and all(map(is_plainly_real, flatten(x)[0])) for x in chosen]):
        for x, name in zip(chosen, names, strict=True):
            check_differentiable(x, name, holomorphic, where, allow_int)


def check_differentiable(x, name: str, holomorphic: bool, where: str, allow_int: bool = False) -> None:
    """Refuse an argument without numbers, and one that has integers or booleans among its arrays."""
    leaves = flatten(x)[0]
    if x is None or (leaves and not any([is_array(y) for y in leaves])):
        if leaves:
            static_leaf(leaves[0], LeafName(x, name, 0), where)
        raise ArgumentTypeError(
            f"{where}: {name} is a {type(x).__name__}, in which there are no numbers.",
            "a derivative is taken with respect to numbers and arrays, in tuples, lists, dicts and dataclasses",
            "pass an array, or leave it out of argnums",
        )
    for i, y in enumerate(leaves):
        if not is_array(y):
            continue
        path = LeafName(x, name, i)
        dtype = aval_of(as_primal(y, path, where)).dtype
        if not is_inexact(dtype):
            if allow_int:
                continue
            raise DtypeError(
                f"{where}: {path} has dtype {dtype}.",
                "a function of integers or booleans has no derivative",
                "pass floats (x.astype(float), 3.0 instead of 3), or leave it out of argnums",
            )
        if holomorphic and dtype.kind != "c":
            raise DtypeError(
                f"{where}: holomorphic=True, but {path} has dtype {dtype}.",
                "a holomorphic function has complex arguments",
                "pass x.astype(complex), or drop holomorphic=True",
            )


def output_leaves(out: Any, where: str, passed: Sequence = (), statics: bool = False) -> tuple[list, optree.PyTreeSpec]:
    """Flatten what the function returned, packing object arrays and refusing anything but numbers.

    Static leaves among ``passed``, those of the arguments, may come back: a gradient has them where its argument has.
    With ``statics`` so may any other that is none of a traced value.
    """
    if KINDS.get(type(out)) is _TENSOR and out.level.open and type(out) not in LEAVES_SEEN_AS:  # most often
        return [out], LEAF
    leaves, treedef = flatten_result(out, passed, statics)
    if statics and treedef.num_nodes > treedef.num_leaves:
        for name, x in static_leaves(treedef, "output").items():
            _check_static(x, name, where)
    for i, x in enumerate(leaves):
        kind = leaf(x)
        if kind is _TENSOR:
            if not x.level.open:
                raise escaped(x.level, f"returning from `{where}`", x)
        elif kind >= _FOREIGN and has_own_arithmetic(type(x)):
            raise OutputError(
                f"{where}: the function returned a {type(x).__name__} at {leaf_names(out, 'output')[i]}.",
                "it computes by rules of its own (labels, masks, units), and has no room for a tangent or a batch axis",
                f"return {advice(type(x))}",
            )
        elif isinstance(x, np.ndarray) and x.dtype == object:
            leaves[i] = join(x)
        elif kind > _FOREIGN or (hasattr(x, "dtype") and x.dtype.kind not in "biufcV"):
            raise OutputError(
                f"{where}: the function returned {x!r} of type {type(x).__name__} at {leaf_names(out, 'output')[i]}.",
                "only numbers and arrays have derivatives and batch axes",
                _advice(x, where),
            )
    return leaves, treedef


#: how the text of a tensor ends
_TEXT_OF_TENSOR = re.compile(r"level=\d+ of \w")


def _check_static(x: Any, name: str, where: str) -> None:
    """Refuse a static leaf of a result that is made of a traced value, or will be."""
    if isinstance(x, str) and _TEXT_OF_TENSOR.search(x):
        what, instead = "text in which there is a traced value", PRINT
    elif tracer_in(*_held(x)) is not None:
        what, instead = "an object that holds a traced value", "make its class a dataclass, or use dualad.register_node"
    elif hasattr(x, "__next__") or hasattr(x, "send"):
        what, instead = "an iterator, which has not run yet", _advice(x, where)
    else:
        return
    raise OutputError(
        f"{where}: the function returned {what}, at {name}: {x!r}.",
        "what is no array is returned as it was when the function was traced, the same at each call and in each lane",
        instead,
    )


def _held(x: Any) -> list:
    """Return the contents of an object or a function."""
    if x is None or isinstance(x, (type, ModuleType)):
        return []
    names = [n for cls in type(x).__mro__ for n in vars(cls).get("__slots__", ()) if isinstance(n, str)]
    cells = [c.cell_contents for c in getattr(x, "__closure__", None) or () if c != CellType()]
    parts = [getattr(x, n, None) for n in ("args", "keywords", *names)]
    parts += _held(getattr(x, "__self__", None))  # of a method, its instance
    return [*getattr(x, "__dict__", {}).values(), *cells, *parts, *(x if isinstance(x, (set, frozenset)) else ())]


def _advice(x, where: str) -> str:
    """Return the advice for a result that is no number."""
    if hasattr(x, "__next__") or hasattr(x, "send"):
        return "collect what a generator yields (np.stack(list(f(x)))), or run a coroutine inside the function"
    if where in ("jvp", "vjp", "linearize", "grad", "value_and_grad"):
        return "return it through has_aux=True, or leave it out"
    return "leave it out"


def split_aux(out, where: str) -> tuple:
    """Split the pair that a function with has_aux returns."""
    if not (isinstance(out, tuple) and len(out) == 2):
        raise OutputError(
            f"{where}: has_aux=True, but the function returned a {type(out).__name__}.",
            "with has_aux it returns a pair (output, aux)",
            "return (output, aux), or drop has_aux",
        )
    return out
