"""A call of which a derivative is taken: its options, and the arrays among the arguments they choose.

For: ``Options`` and ``Call``, of which every Jacobian and Hessian is made, and ``derivative``, which makes the function
that users call. Not for: computing anything (``jacobian.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import optree

from ..base.arguments import check_callable
from ..base.selection import select
from ..base.tree import LeafName, flatten, is_array
from ..boundary.transformed import Transformed
from ..core.aval import Aval, aval_of
from ..core.constants import foreign
from ..errors import DtypeError
from ..surface.leaves import check_differentiable
from ..tensors.chunks import Chunking, refuse_traced
from ..transforms.linearize import Linearization, stage_tangents

__all__ = ["Call", "Options", "derivative"]


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

    def result(self, value: Any, derivative: Any, aux: Any) -> Any:
        """The caller's result: the derivative, with the value and the auxiliary output if they are asked for."""
        if self.with_value:
            return ((value, aux) if self.has_aux else value), derivative
        return (derivative, aux) if self.has_aux else derivative


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
        self.function, self.chosen, self._arrange = selection.function, selection.chosen, selection.arrange
        self.leaves, self.tree = flatten(self.chosen)
        self.arrays = [x for x in self.leaves if is_array(x)]
        self.avals = [Aval(a.shape, a.dtype) for a in map(aval_of, self.arrays)]

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
        """Tangents of the arrays in the structure of the chosen arguments; ``None`` for what is static."""
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
