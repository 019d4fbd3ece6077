"""Linearization: ``jvp`` whose tangent writes itself down as a linear program.

A staged level is opened, then a dual level above it, and the function runs once. In a rule such as
``t * np.cos(x)``, ``np.cos(x)`` is an array and NumPy computes it now; the product meets the staged ``t`` and is
recorded. So partial evaluation is dispatch, and the recorded constants are the residuals.
Not for: walking the program backwards (``vjp_via_transpose.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np
import optree

from ..base.arguments import check_callable, own_results
from ..base.frames import public
from ..base.garbage import less_collection
from ..base.signatures import Args, Aux, Out
from ..base.tree import LeafName, flatten, flatten_like, is_array, unflatten, with_structures
from ..boundary.boundary import run
from ..core.above import ABOVE
from ..core.aval import Aval, aval_of, is_inexact
from ..core.constants import foreign
from ..core.contexts import active, in_use
from ..core.tracer import PLAIN
from ..dual import Dual, DualLevel, check_tangent, shown_tangent, split, strip
from ..memory.memory import pin, unshared
from ..program.ir import Program, evaluate
from ..program.packed import PackedProgram, PackingSteps, unpack_constants
from ..program.packed import active as hooks
from ..surface.leaves import as_primal, output_leaves, plain_leaf, split_aux, static_leaf
from ..tensors.staged import StagedLevel

__all__ = ["Linear", "linearize", "stage_tangents"]

#: types that share no memory
_NUMBERS = PLAIN - {np.ndarray}


class Linear:
    """The derivative of a function at a point: a linear map, made of a program.

    ``lin(*tangents)`` applies it; ``print(lin.program)`` shows it.
    """

    __slots__ = ("_in_leaves", "_in_tree", "_out_avals", "_out_tree", "program")

    def __init__(self, program: Program, in_leaves: list, in_tree, out_avals: list[Aval], out_tree) -> None:
        self.program = program
        self._in_leaves, self._in_tree = in_leaves, in_tree
        self._out_avals, self._out_tree = out_avals, out_tree

    def __reduce__(self):
        args = (self.program, self._in_leaves, self._in_tree, self._out_avals, self._out_tree)
        return with_structures(Linear, args, self._in_tree, self._out_tree)

    @public
    def __call__(self, *tangents):
        """Apply the linear map to tangents, one per argument of the function.

        Parameters
        ----------
        *tangents : trees
            As for ``jvp``.

        Returns
        -------
        tree
            The tangent of the function's result.
        """
        leaves = flatten_like(self._in_tree, tangents, "the tangents", "the primals")
        arguments = []
        for i, (aval, t) in enumerate(zip(self._in_leaves, leaves, strict=True)):
            if aval is None:
                continue
            if t is None:
                t = np.zeros(aval.shape, aval.dtype)
            t = plain_leaf(t, f"tangent leaf {i}", "linearize")
            check_tangent(aval, t, f"tangent leaf {i}", "linearize")
            arguments.append(t if hasattr(t, "shape") else np.asarray(t, aval.dtype)[()])
        results = iter(self.flat(arguments))
        outs = [next(results) if is_inexact(a.dtype) else shown_tangent(a, None) for a in self._out_avals]
        return optree.tree_unflatten(self._out_tree, own_results(outs, arguments))

    @property
    def in_avals(self) -> list[Aval | None]:
        """Shape and dtype of each leaf of the arguments; ``None`` where it has no tangent."""
        return list(self._in_leaves)

    @property
    def out_avals(self) -> list[Aval]:
        """Shape and dtype of each leaf of the result that has a tangent."""
        return [a for a in self._out_avals if is_inexact(a.dtype)]

    def flat(self, tangents: list) -> list:
        """Apply the map to the tangents of the leaves that have one, and return those of the results that have one."""
        program = unpack_constants(self.program)
        if (watch := active()) is not None:
            return watch.pushed(lambda: evaluate(program, tangents), program, tangents)
        return evaluate(program, tangents)

    def as_linear_operator(self) -> Any:
        """Return the map as a SciPy ``LinearOperator`` between flat vectors, with its adjoint.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator
            Of shape (entries of the result, entries of the arguments), both in the order of their leaves.
        """
        return ABOVE.linear_operator(self)

    def _repr_html_(self) -> str:
        return self.program._repr_html_(repr(self))

    def __repr__(self) -> str:
        ins = ", ".join([repr(a) for a in self._in_leaves if a is not None])
        outs = ", ".join(map(repr, self.out_avals))
        return f"<linear map ({ins}) -> ({outs}) of {len(self.program.recorded)} equations>"


@overload
def linearize(f: Callable[Args, Out], *primals, has_aux: Literal[False] = False) -> tuple[Out, Linear]: ...
@overload
def linearize(f: Callable[Args, tuple[Out, Aux]], *primals, has_aux: Literal[True]) -> tuple[Out, Linear, Aux]: ...
@overload
def linearize(f: Callable, *primals, has_aux: bool) -> tuple: ...
@public
def linearize(f: Callable, *primals, has_aux: bool = False) -> tuple:
    """Evaluate a function and its derivative at a point, as a linear function that can be applied many times.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy. It runs once.
    *primals : trees of numbers and arrays
        The point.
    has_aux : bool
        Whether ``f`` returns ``(out, aux)``.

    Returns
    -------
    out : tree
        ``f(*primals)``.
    lin : Linear
        ``lin(*tangents)`` equals ``jvp(f, primals, tangents)[1]``; ``lin.program`` is the linear program.
    aux : tree
        Only with ``has_aux``.

    Raises
    ------
    OutputError
        If ``f`` returns something that has no numbers.
    TreeError, ShapeError, DtypeError
        By ``lin``, for tangents that do not fit the primals.

    Notes
    -----
    Radul, Paszke, Frostig, Johnson and Maclaurin, *You only linearize once: tangents transpose to gradients* (2023).

    Examples
    --------
    >>> value, lin = da.linearize(np.sin, 0.0)
    >>> float(lin(1.0)), float(lin(2.0))
    (1.0, 2.0)
    """
    check_callable(f, "linearize")
    out, stage = stage_tangents(f, primals, has_aux, "linearize")
    return (out, stage.linear(), stage.aux) if has_aux else (out, stage.linear())


class Linearization:
    """The record of a linearization: the program, and the trees and avals of its two ends."""

    __slots__ = ("aux", "foreign", "in_avals", "in_tree", "out_avals", "out_foreign", "out_tree", "program")

    aux: Any
    #: of each argument with a tangent, the array of another library beneath it; None if all are NumPy's
    foreign: list | None
    #: of each leaf of the arguments, ``None`` where it has no tangent
    in_avals: list[Aval | None]
    #: of each leaf of the result, the array of another library beneath it
    out_foreign: list
    in_tree: optree.PyTreeSpec
    out_avals: list[Aval]
    out_tree: optree.PyTreeSpec
    program: Program

    def linear(self) -> Linear:
        """Return it as a function of tangents."""
        return Linear(self.program, self.in_avals, self.in_tree, self.out_avals, self.out_tree)

    def __reduce__(self):
        # The auxiliary output is the caller's, and may be anything.
        parts = {name: None if name == "aux" else getattr(self, name) for name in self.__slots__}
        return with_structures(_restore, (parts,), self.in_tree, self.out_tree)


def _restore(parts: dict) -> Linearization:
    stage = Linearization()
    for name, part in parts.items():
        setattr(stage, name, part)
    return stage


def stage_tangents(
    f: Callable, primals: tuple, has_aux: bool, where: str, once: bool = False
) -> tuple[Any, Linearization]:
    """Run ``f`` once at ``primals`` and write its tangent down, for one walk back or for any use."""
    stage = Linearization()
    leaves, stage.in_tree = flatten(tuple(primals))
    staged = StagedLevel(where, linear=True)
    with DualLevel(where, staged) as level:
        packing = None if (pair := hooks.get()) is None else PackingSteps(*pair)
        if packing is not None:  # inside residual_hooks
            staged.steps = packing
        staged.function = level.function = f
        stage.in_avals, others = [], []
        duals: list = []
        for i, x in enumerate(leaves):
            aval, plain = None, type(x) is np.ndarray and x.dtype.kind == "f"  # as nearly every leaf is
            if plain:
                aval = Aval(x.shape, x.dtype)
            elif not is_array(x):
                static_leaf(x, LeafName(primals, "arguments", i), where)
            else:
                x = as_primal(x, LeafName(primals, "arguments", i), where)
                if is_inexact((a := aval_of(x)).dtype):
                    aval = Aval(a.shape, a.dtype)
                    others.append((len(duals), None if type(x) in PLAIN else foreign(x)))
            if aval is not None:
                given, x = x, Dual(level.snapshot(x) if plain else level.kept(x), staged.new_input(aval), level)
                if type(given) is np.ndarray and not given.flags.c_contiguous:
                    pin(x, given.strides)
                x._origin = (stage.in_tree, i, False)
            stage.in_avals.append(aval)
            duals.append(x)
        stage.foreign = None
        if others and any([array is not None for _, array in others]):
            beneath = dict(others)
            stage.foreign = [beneath.get(i) for i, a in enumerate(stage.in_avals) if a is not None]
        with less_collection():  # the program holds most of what is made here
            out = run(f, unflatten(stage.in_tree, duals), {})
        out, aux = split_aux(out, where) if has_aux else (out, None)
        out_leaves, stage.out_tree = output_leaves(out, where, leaves)
        values, tangents, stage.out_avals, stage.out_foreign = [], [], [], []
        for x in out_leaves:
            p, t = split(x, level)
            aval = aval_of(p)
            values.append(p)
            stage.out_avals.append(aval)
            stage.out_foreign.append(None if type(p) in PLAIN else foreign(p))
            if t is not None or is_inexact(aval.dtype):
                tangents.append(shown_tangent(p, t) if t is None else t)
        stage.program = staged.finish(tangents, where, once and packing is None)
        if packing is not None:
            p = stage.program
            stage.program = PackedProgram(p.inputs, p.recorded, p.outputs, p.name)
        if has_aux:
            aux_leaves, aux_tree = flatten(aux)
            aux_leaves = [strip(x, level) for x in aux_leaves]
    if in_use and (watch := active()) is not None:
        watch.finished(where, values, final=False)
    # What the caller gets is the caller's to write to: it may be a residual, or share memory with one.
    stage.aux = aux_tree.unflatten([unshared(x) for x in aux_leaves]) if has_aux else None
    return unflatten(stage.out_tree, [p if type(p) in _NUMBERS else unshared(p) for p in values]), stage
