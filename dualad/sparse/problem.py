"""One function of flat arrays at one call: what detection and evaluation start from.

For: ``SparseOptions``, checked, and ``Problem``, which hands out the two programs a pattern can be read from. Not for:
patterns (``detect.py``) or values (``coloured.py``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from ..base.arguments import replace_at
from ..base.selection import select
from ..base.tree import flatten, flatten_result, is_array, orders_of_keys
from ..core.aval import Aval, aval_of, is_inexact
from ..errors import ArgumentError
from ..jacobians.call import Call, Options
from ..jacobians.jacobian import check_inexact
from ..jvp import jvp
from ..program.ir import Program
from ..tensors.chunks import Chunking
from ..transforms.linearize import Linearization, stage_tangents
from ..transforms.trace import trace
from ..vjp_via_transpose import gradients
from .arrange import FORMATS

__all__ = ["Problem", "SparseOptions", "form_of"]

#: a number in the text of a program, but for zero and for whole numbers, which are places and lengths
_NUMBER = re.compile(r"(?<![\w.])-?(?=\d*[1-9.])\d+(?:\.\d*)?(?:e[+-]?\d+)?j?(?![\w.])")


@dataclass(frozen=True, kw_only=True)
class SparseOptions(Options):
    """Options of sparse derivatives: ``max_memory`` is for finding the pattern; ``chunk_size`` may stand beside it."""

    modes: tuple[str, ...]
    mode: str
    format: str
    scope: str
    check: str
    sparsity: Any
    prepared: Any
    blocks: bool
    triangle: str = "full"
    decompression: str = "direct"

    def __post_init__(self) -> None:
        Chunking(self.where, self.chunk_size, None, self.executor)
        Chunking(self.where, None, self.max_memory)
        for name, known in (
            ("format", FORMATS),
            ("check", ("auto", "raise", "never")),
            ("mode", self.modes),
            ("scope", ("auto", "global", "local")),
        ):
            if (given := getattr(self, name)) not in known:
                raise ArgumentError(
                    f"{self.where}: {name}={given!r}.", "there is none", f"use one of {', '.join(map(repr, known))}"
                )
        if self.triangle not in ("full", "lower", "upper") or (self.blocks and self.triangle != "full"):
            raise ArgumentError(
                f"{self.where}: triangle={self.triangle!r}{' with blocks=True' * self.blocks}.",
                "a Hessian has two triangles; a block beside the diagonal has none",
                "use 'full', 'lower' or 'upper'",
            )
        if self.sparsity is not None and self.prepared is not None:
            raise ArgumentError(
                f"{self.where}: both sparsity and prepared are given.", "what was prepared has a pattern",
                "give one of them",
            )  # fmt: skip


class Problem(Call):
    """A call ``f(*args, **kwargs)`` as a function of flat arrays, whose Jacobian or Hessian (``second``) is sparse."""

    def __init__(self, f: Callable, args: tuple, kwargs: dict, options: Options, second: bool) -> None:
        super().__init__(f, args, kwargs, options)
        self.second, self.where, self.has_aux = second, options.where, options.has_aux
        self.sizes = [a.size for a in self.avals]
        self.n = sum(self.sizes)

    def of_arrays(self, *moving: Any) -> Any:
        """Call the user's function, or its gradient together with its value, on flat arrays."""
        return self._call(self.function, moving)

    def _call(self, function: Callable, moving: Sequence) -> Any:
        chosen = self.with_arrays(moving)
        if not self.second:
            return function(*chosen)
        gradient = gradients(function, tuple(range(len(chosen))), None, self.has_aux, False, self.where)
        value, found = gradient(*chosen)
        return [g for g, x in zip(flatten(found)[0], self.leaves, strict=True) if is_array(x)], value

    def traced(self) -> Program:
        """Write the tangent of the function down for any arguments of these shapes.

        Numbers among the other arguments may be others at the next call, so they are unknown too; integers and booleans
        are what they are (``signature`` tells them apart).
        """
        rest, tree = flatten((self.args, self.kwargs))
        unknown = [i for i, x in enumerate(rest) if is_array(x) and is_inexact(aval_of(x).dtype)]

        def tangent(others, primals, tangents):
            call: Any = optree.tree_unflatten(tree, replace_at(rest, unknown, others))
            function = select(
                self.f, call[0], call[1], self.options.argnums, self.options.argnames, self.where
            ).function
            has_aux = self.has_aux or self.second
            moved = jvp(lambda *moving: self._call(function, moving), primals, tangents, has_aux=has_aux)[1]
            return flatten_result(moved)[0]

        def blank(a):
            return np.broadcast_to(np.zeros((), a.dtype), a.shape)

        zeros = tuple([blank(a) for a in self.avals])
        return trace(tangent, [blank(aval_of(rest[i])) for i in unknown], zeros, zeros)

    def signature(self) -> list:
        """Return a pattern's key: shapes and dtypes of numbers, and all other arguments themselves."""
        rest, tree = flatten((self.args, self.kwargs))
        kept = [np.array(x) if isinstance(x, np.ndarray) else x for x in rest]  # it may be written to
        return [
            tree, orders_of_keys((self.args, self.kwargs)),
            *[Aval(a.shape, a.dtype) if is_array(x) and is_inexact((a := aval_of(x)).dtype) else x for x in kept],
        ]  # fmt: skip

    def roots(self) -> list:
        """Return the sources of a pattern other than numbers: the function, and arguments that are objects."""
        return [self.f, *[x for x in flatten((self.args, self.kwargs))[0] if not is_array(x)]]

    def linearized(self, where: str = "") -> tuple[Any, Linearization]:
        """Run the function once, and write its tangent down at this point."""
        out, stage = stage_tangents(self.of_arrays, tuple(self.arrays), self.has_aux or self.second, self.where)
        check_inexact([a.dtype for a in stage.out_avals], lambda: out, self.where)
        return out, stage


def form_of(program: Program) -> str:
    """Return a hash of what a pattern can be read from: programs that differ in their numbers alone have the same.

    Numbers count as far as they are zero; integers and truths, which may be places, count as they are.
    """
    text = program.to_text().partition("\nwhere:")[0]
    found = hashlib.sha256(
        _NUMBER.sub(lambda m: "#" if set(m[0]) & set(".ej") and complex(m[0]) else m[0], text).encode()
    )
    for a in _arrays(program):
        found.update((a if a.dtype.kind in "iub" else a != 0).tobytes())
    return found.hexdigest()


def _arrays(x: Any) -> Iterator[np.ndarray]:
    """Yield the arrays in a program, those in parameters and in the programs there too."""
    if isinstance(x, Program):
        for step in x.steps:
            yield from _arrays([*step.args, step.params])
        yield from _arrays(x.outputs)
    elif isinstance(x, np.ndarray) and x.dtype.kind in "iubfc":
        yield x
    elif isinstance(x, dict):
        yield from _arrays(list(x.values()))
    elif isinstance(x, (list, tuple)):
        for part in x:
            yield from _arrays(part)
