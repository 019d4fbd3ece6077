"""The carry of a loop from step to step: a tree that keeps its structure, shapes and dtypes.

For: checking that with words, giving each step boxes of its own, so that a body may write in place, and Python numbers
as first values, which take the dtype that the first step gives them. Not for: running anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import optree

from ..base.tree import flatten, leaf_names, tree_map, treedef_outline
from ..batched import Batched
from ..core.aval import Aval, aval_of
from ..core.tracer import is_python_number, python_number
from ..errors import DtypeError, OutputError, ShapeError, TreeError
from ..memory.memory import unshared
from ..rules.calls import partition
from ..surface.arguments import operand
from ..tensors.staged import Staged

__all__ = ["Carry", "as_dtype", "as_numbers", "fresh", "signature"]

_ORDER = "biufc"

#: types whose dtype and shape say everything about them
_KNOWN = frozenset({np.ndarray, np.float64, np.float32, np.int64, Batched})


def signature(x) -> Aval:
    """Return the aval of a value, weak also where a Python number is inside a tensor."""
    aval = aval_of(x)
    return Aval(aval.shape, aval.dtype, True) if is_python_number(x) else aval


def as_numbers(values: Sequence, numbers: Sequence[bool]) -> list:
    """Return new values, with those that are Python numbers as such."""
    made = lambda x: x.marked_number() if type(x) is Staged else python_number(x)
    return [made(x) if n else x for n, x in zip(numbers, values, strict=True)]


def fresh(tree: Any) -> Any:
    """Return a tree with every array in a box of its own."""
    return tree_map(lambda x: unshared(operand(x) if isinstance(x, np.ndarray) else x), tree)


def as_dtype(x, dtype: np.dtype):
    """Return a value as an array of a dtype, or as it is if it has it."""
    if not hasattr(x, "dtype"):
        return np.asarray(x, dtype)[()]
    return x if x.dtype == dtype else x.astype(dtype)


class Carry:
    """The carry of one loop: ``init`` is the first one, ``where`` the loop's name, for messages."""

    __slots__ = ("_names", "arrays", "avals", "init", "plain", "template", "where")

    def __init__(self, init: Any, where: str) -> None:
        self.init, self.where = init, where
        self.template, self.arrays = partition(init)
        self.arrays = [operand(x) if isinstance(x, np.ndarray) else x for x in self.arrays]
        self.avals = [signature(x) for x in self.arrays]
        self._names: list[str] | None = None
        #: whether every leaf is an array, as is usual: steps then take a short way
        self.plain = len(self.template.arrays) == len(self.template.statics)

    def start(self) -> list:
        """Return the first values, in boxes of their own."""
        self.avals = [signature(x) for x in self.arrays]
        return [unshared(x) for x in self.arrays]

    def tree(self, values: Sequence) -> Any:
        """Return values as the tree that the user's functions see."""
        return optree.tree_unflatten(self.template.tree, values) if self.plain else self.template.fill(values)

    def result(self, values: Sequence) -> Any:
        """Return a recorded loop's result, in which Python numbers of the carry are Python numbers again."""
        return self.tree(as_numbers(values, [a.weak for a in self.avals]))

    def accept(self, out: Any) -> list:
        """Check a new carry against the old one and return its values."""
        avals = self.avals
        if self.plain:
            values, tree = flatten(out)
            if tree == self.template.tree:
                for x, a in zip(values, avals, strict=True):
                    if type(x) not in _KNOWN or a.weak or x.dtype is not a.dtype or x.shape != a.shape:
                        break
                else:
                    return values
        template, values = partition(out)
        mine = self.template
        if template.tree != mine.tree or template.arrays != mine.arrays or template.statics != mine.statics:
            raise self._other_structure(out, template)
        for i, x in enumerate(values):
            a = avals[i]
            if type(x) is np.ndarray and x.dtype == object:
                x = values[i] = operand(x)
            b = signature(x)
            if a.shape != b.shape:
                raise ShapeError(
                    f"{self.where}: {self._name(i)} went in as {a!r} and came out as {b!r}.",
                    "a carry has one shape for all steps, however many there are",
                    f"start with an array of shape {b.shape}, or keep the shape in the body; what grows from step to"
                    " step is collected by scan",
                )
            if a.dtype is b.dtype and a.weak == b.weak:
                continue
            if a.weak and (b.dtype == a.dtype or _fits(a, b)):
                avals[i] = b
            elif b.weak and (b.dtype == a.dtype or _fits(b, a)):
                values[i] = as_dtype(x, a.dtype)
            elif a.dtype != b.dtype:
                raise DtypeError(
                    f"{self.where}: {self._name(i)} went in as {a!r} and came out as {b!r}.",
                    "a carry has one dtype for all steps, however many there are",
                    f"start with a value of dtype {b.dtype}, or cast in the body: .astype(np.{a.dtype.name})",
                )
        return values

    def _name(self, i: int) -> str:
        if self._names is None:
            names = leaf_names(self.init, "carry")
            self._names = [names[k] for k in self.template.arrays]
        return self._names[i]

    def _other_structure(self, out: Any, template) -> TreeError | OutputError:
        if template.tree == self.template.tree:
            return OutputError(
                f"{self.where}: the carry went in as {self.init!r} and came out as {out!r}.",
                "leaves other than numbers must stay the same in every step",
                "carry numbers and arrays; keep everything else in the closure of the body",
            )
        return TreeError(
            f"{self.where}: the carry went in as {treedef_outline(self.template.tree)} and came out as"
            f" {treedef_outline(template.tree)}.",
            "a carry has one structure for all steps, however many there are",
            "return from the body what it was given, in the same nesting of tuples, lists and dicts",
        )


def _fits(number: Aval, array: Aval) -> bool:
    """Whether a Python number of one kind may become an array of the other."""
    return _ORDER.index(number.dtype.kind) <= _ORDER.index(array.dtype.kind)
