"""A call of which a derivative is taken: its options, the arrays among the arguments they choose, and their basis.

For: ``Options`` and ``Call``, of which every Jacobian and Hessian is made, ``derivative``, which makes the function
that users call, and functions mapped over the standard basis, some vectors at a time. Not for: transforms made of them
(``jacobian.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import optree

from ..base.arguments import check_callable
from ..base.selection import select
from ..base.tree import LeafName, flatten, is_array
from ..boundary.transformed import Transformed
from ..core.aval import Aval, aval_of
from ..core.constants import foreign
from ..errors import DtypeError
from ..surface.leaves import as_primal, check_differentiable
from ..tensors.chunks import Chunking, Plan, refuse_traced
from ..transforms.linearize import Linearization, stage_tangents
from ..vmap import vmap

__all__ = [
    "Call", "Options", "OverBasis", "derivative", "join", "over_basis", "slices_of", "split_flat", "split_last",
    "standard_basis",
]  # fmt: skip

#: how many entries a block of a lazy basis has at most: 128 MB of them
_BLOCK = 2**24


def standard_basis(
    avals: Sequence[Aval], start: int = 0, stop: int | None = None, likes: Sequence | None = None
) -> list:
    """Return vectors ``start`` to ``stop`` of the standard basis of the product of these spaces.

    Row i of all arrays together is a unit vector; array k has shape ``(stop - start, *avals[k].shape)``. ``stop`` is
    the total size by default. ``likes`` are arrays of other libraries that the vectors are to be of, each ``None``
    where they are NumPy's.
    """
    stop = sum(a.size for a in avals) if stop is None else stop
    basis, first = [], 0
    for a, like in zip(avals, likes or [None] * len(avals), strict=True):
        if like is None:
            block = np.zeros((stop - start, a.size), a.dtype)
            low, high = max(start, first), min(stop, first + a.size)
            if low < high:
                rows = np.arange(low, high)
                block[rows - start, rows - first] = 1
        else:
            block = _elsewhere(start, stop, first, first + a.size, like).astype(a.dtype)
        basis.append(block.reshape((stop - start, *a.shape)))
        first += a.size
    return basis


def _elsewhere(start: int, stop: int, first: int, last: int, like: Any) -> Any:
    """Say of each number from ``start`` on which of those from ``first`` on it is, in a matrix of another library's."""
    rows: Any = np.arange(start, stop, like=like)
    entries: Any = np.arange(first, last, like=like)
    if hasattr(like, "chunksize"):  # in blocks, or the matrix would be one
        width = max(1, math.prod(like.chunksize))
        rows, entries = rows.rechunk(max(1, _BLOCK // width)), entries.rechunk(width)
    return rows[:, None] == entries


def slices_of(spaces: Sequence[Aval | np.ndarray]) -> list[slice]:
    """Return where each of these spaces (or arrays) is in their product."""
    ends = accumulate([space.size for space in spaces])
    return [slice(end - space.size, end) for space, end in zip(spaces, ends, strict=True)]


def split_last(block: Any, avals: Sequence[Aval | np.ndarray]) -> list:
    """Cut the last axis into pieces of the avals' (or arrays') sizes and give each its aval's shape."""
    outer = block.shape[:-1]
    if len(avals) == 1:
        return [block.reshape(outer + avals[0].shape)]
    return [block[..., at].reshape(outer + a.shape) for a, at in zip(avals, slices_of(avals), strict=True)]


def split_flat(flat: Any, avals: Sequence[Aval]) -> list:
    """Cut the last axis likewise, into pieces of the avals' dtypes: real parts, where those are real."""
    real = lambda x, a: np.real(x) if x.dtype.kind == "c" and a.dtype.kind != "c" else x
    parts = zip(split_last(flat, avals), avals, strict=True)
    return [x if x.dtype == a.dtype else real(x, a).astype(a.dtype) for x, a in parts]


def over_basis(
    function: Callable, avals: Sequence[Aval], options: Chunking, unit: str = "columns", likes: Sequence | None = None,
    f: Any = None, other: Callable[[], Callable] | None = None,
) -> Any:  # fmt: skip
    """Map ``function`` over the standard basis, some vectors at a time, and join what it returns.

    For workers ``function`` can be pickled; ``other()`` makes one that does the same and is small, ``f`` is the user's.
    ``likes`` are arrays of other libraries that the vectors are to be of, each ``None`` where they are NumPy's.
    """
    small = None if other is None else lambda: OverBasis(other(), avals, likes)
    job = OverBasis(function, avals, likes)
    plan = Plan(job, sum([a.size for a in avals]), None, options.where, unit, f or function, other=small)
    return join(options.run(plan))


def join(parts: list) -> Any:
    """Put blocks of columns one after the other."""
    if len(parts) == 1:
        return parts[0]
    return optree.tree_map(lambda *blocks: np.concatenate(blocks), *parts, namespace="dualad")


class OverBasis:
    """A function mapped over some vectors of the standard basis of these spaces."""

    def __init__(self, function: Callable, avals: Sequence[Aval], likes: Sequence | None) -> None:
        self.function, self.avals = function, list(avals)
        self.likes = likes if likes is not None and any([like is not None for like in likes]) else None

    def __call__(self, start: int, stop: int) -> Any:
        """Map it over vectors ``start`` to ``stop``."""
        return vmap(self.function, randomness="same")(*standard_basis(self.avals, start, stop, self.likes))


@dataclass(frozen=True)
class Options(Chunking):
    """The options of a derivative, checked: its arguments, its results, and how it is computed."""

    argnums: int | Sequence[int] | None = None
    argnames: str | Sequence[str] | None = None
    has_aux: bool = False
    holomorphic: bool = False
    #: whether the function's value is returned, too
    with_value: bool = False
    #: whether arguments may be complex without ``holomorphic``: a row holds both real directions, a column can't
    allows_complex: bool = False

    @classmethod
    def of(cls, where: str, given: dict[str, Any], **fixed: Any) -> Options:
        """The options among the parameters of a function, which are named alike, and others that it fixes."""
        return cls(where, **{name: given[name] for name in _PARAMETERS if name in given}, **fixed)

    def result(self, value: Any, derivative: Any, aux: Any) -> Any:
        """The caller's result: the derivative, with the value and the auxiliary output if they are asked for."""
        if self.with_value:
            return ((value, aux) if self.has_aux else value), derivative
        return (derivative, aux) if self.has_aux else derivative


_PARAMETERS = frozenset({option.name for option in fields(Options)} - {"where"})


class Call:
    """A call ``f(*args, **kwargs)``, seen as a function of the arrays among the chosen arguments.

    Arguments without a derivative are refused; so are complex ones in forward mode, unless ``f`` is holomorphic. It is
    pickled as the call, without the executor.
    """

    def __init__(self, f: Callable, args: tuple, kwargs: dict, options: Options) -> None:
        self.f, self.args, self.kwargs, self.options = f, args, kwargs, options
        where, holomorphic = options.where, options.holomorphic
        selection = select(f, args, kwargs, options.argnums, options.argnames, where)
        for x, name in zip(selection.chosen, selection.names, strict=True):
            check_differentiable(x, name, holomorphic, where)
            if not (options.allows_complex or holomorphic):
                _check_real(x, name, where)
        refuse_traced((args, kwargs), options.executor, where)
        self.function, self._arrange = selection.function, selection.arrange
        self.chosen = selection.chosen
        self.leaves, self.tree = flatten(self.chosen)
        if any(
            [type(x) is np.ndarray and x.dtype == object for x in self.leaves]
        ):  # of numbers, whose dtype has the basis
            self.leaves = [as_primal(x, "an argument", where) if is_array(x) else x for x in self.leaves]
            chosen: Any = optree.tree_unflatten(self.tree, self.leaves)
            self.chosen = chosen
        self.arrays = [x for x in self.leaves if is_array(x)]
        self.avals = [Aval(a.shape, a.dtype) for a in map(aval_of, self.arrays)]

    @property
    def __wrapped__(self) -> Callable:
        return self.f

    def __reduce__(self):
        return type(self), (self.f, self.args, self.kwargs, self.options.here())

    @cached_property
    def foreign(self) -> list:
        """For each array, the array of another library beneath it, or ``None``."""
        return [foreign(x) for x in self.arrays]

    def with_arrays(self, values: Sequence) -> Any:
        """The chosen arguments with these values in place of their arrays."""
        rest = iter(values)
        return optree.tree_unflatten(self.tree, [next(rest) if is_array(x) else x for x in self.leaves])

    def directions(self, tangents: Sequence) -> Any:
        """Tangents of the arrays in the structure of the chosen arguments; ``None`` for static ones."""
        rest = iter(tangents)
        return optree.tree_unflatten(self.tree, [next(rest) if is_array(x) else None for x in self.leaves])

    def arrange(self, values: Sequence) -> Any:
        """Values, one for each array, as the caller named the chosen arguments: by position, by name or alone."""
        return self._arrange(self.with_arrays(values))

    def arrange_blocks(self, lines: Sequence[Sequence], out_tree: optree.PyTreeSpec) -> Any:
        """Blocks of shape out + in, a line for each leaf of the output: the output outside, the arguments inside."""
        return optree.tree_unflatten(out_tree, [self.arrange(line) for line in lines])

    def linearized(self, where: str = "") -> tuple[Any, Linearization]:
        """The value of the function, and its tangent written down as a program."""
        return stage_tangents(self.function, self.chosen, self.options.has_aux, where or self.options.where)


def _check_real(x: Any, name: str, where: str) -> None:
    for i, leaf in enumerate(flatten(x)[0]):
        if is_array(leaf) and aval_of(leaf).dtype.kind == "c":
            raise DtypeError(
                f"{where}: {LeafName(x, name, i)} is complex.",
                "a function of a complex number has two real directions, and one column can't hold both",
                "pass holomorphic=True if the function is complex-differentiable, or differentiate in real and"
                " imaginary parts",
            )


def derivative(compute: Callable[[Call], tuple[Any, Any, Any]], f: Callable, options: Options) -> Transformed:
    """Make the function of the arguments of ``f`` that returns what ``compute`` gives: value, derivative, aux."""
    check_callable(f, options.where)

    def run(*args, **kwargs):
        return options.result(*compute(Call(f, args, kwargs, options)))

    return Transformed(run, f, options.where)
