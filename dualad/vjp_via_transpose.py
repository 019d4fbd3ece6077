"""Reverse mode, derived: linearize a function, then walk its linear program backwards.

For: ``vjp``, ``grad``, ``value_and_grad``, ``linear_transpose``. No operator has a hand-written reverse rule for its
nonlinear form: reverse mode is the transpose of forward mode. Not for: recording (``linearize.py``), the walk itself
(``backward.py``) or any operator's transpose (``ops/``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np
import optree

from .base.arguments import check_callable
from .base.frames import public
from .base.selection import select
from .base.signatures import Args, Aux, Out
from .base.tree import (
    LEAF,
    LeafName,
    flatten,
    flatten_like,
    is_array,
    leaf_names,
    unflatten,
    with_structures,
)
from .boundary.boundary import run
from .boundary.transformed import Transformed, transform
from .core.aval import Aval, aval_of, is_inexact
from .core.constants import foreign, match_library, zeros_matching_library
from .core.tracer import Tracer
from .dual import float0
from .errors import ArgumentTypeError, DtypeError, OutputError, ShapeError
from .memory.memory import unshared
from .program.check import check_linear
from .program.ir import Program
from .surface.leaves import as_primal, check_chosen, is_plainly_real, output_leaves, plain_leaf
from .tensors.chunks import Chunking
from .tensors.staged import StagedLevel
from .transforms.backward import in_dtype, pull_back
from .transforms.linearize import Linearization, stage_tangents
from .transforms.shards import over_shards

__all__ = ["grad", "gradients", "linear_transpose", "pull", "value_and_grad", "vjp"]


# ── vjp ──────────────────────────────────────────────────────────────────────────────────────────────────────────


_MISSING: Any = object()


def _check_one(ct, more: tuple, who: str) -> None:
    if ct is _MISSING or more:
        raise ArgumentTypeError(
            f"{who} was called with {1 + len(more) if more else 'no'} cotangents.",
            "it takes one, of the structure of what the function returned",
            "pass one cotangent: for a function that returns a pair, pull((ct0, ct1))",
        )


class Pullback:
    """The transposed derivative of a function at a point: ``pull(ct)`` returns a cotangent per argument.

    It is a pure function: it may be called again, with other cotangents, from any thread, and under any transform.
    """

    __slots__ = ("_leaves", "_stage")

    def __init__(self, stage: Linearization, primals: tuple) -> None:
        self._stage = stage
        # Of the arguments without derivative only their avals, or static values, are kept: no array stays alive.
        self._leaves = [aval_of(x) if is_array(x) else x for x in flatten(primals)[0]]

    @property
    def program(self) -> Program:
        """The linear program that is walked backwards."""
        return self._stage.program

    @public
    def __call__(self, ct=_MISSING, *more):
        """Pull a cotangent of the output back to the arguments.

        Parameters
        ----------
        ct : tree
            Of the structure, shapes and dtypes of the function's output; ``None`` in place of a leaf is zero.

        Returns
        -------
        tuple
            One cotangent per argument, of its structure, shapes and dtypes; zeros where the output does not depend
            on it, ``float0`` for integers and booleans.
        """
        _check_one(ct, more, "the pullback")
        return self.apply(ct)

    def apply(self, ct, seeds: str = "dead") -> Any:
        """Do what a call does; ``seeds`` as for ``pull_back``."""
        stage = self._stage
        leaves = flatten_like(stage.out_tree, ct, "the cotangent", "the function's output")
        given = _check_cotangents(leaves, stage.out_avals, ct)
        inexact = [x for x, a in zip(stage.out_foreign, stage.out_avals, strict=True) if is_inexact(a.dtype)]
        # A number is at home everywhere; an array meets its like.
        given = [match_library(c, x) if isinstance(c, np.generic) else c for c, x in zip(given, inexact, strict=True)]
        results = iter(pull(stage, given, seeds))
        full = [
            next(results) if aval is not None else np.zeros(x.shape, float0)[()] if type(x) is Aval else x
            for x, aval in zip(self._leaves, stage.in_avals, strict=True)
        ]
        return optree.tree_unflatten(stage.in_tree, full)

    def _repr_html_(self) -> str:
        return self.program._repr_html_(repr(self))

    def __repr__(self) -> str:
        ins = ", ".join([repr(a) for a in self._stage.in_avals if a is not None])
        outs = ", ".join(map(repr, self._stage.out_avals))
        return f"<pullback ({outs}) -> ({ins}) through {len(self.program.recorded)} equations>"


@overload
def vjp(f: Callable[Args, Out], *primals, has_aux: Literal[False] = False) -> tuple[Out, Pullback]: ...
@overload
def vjp(f: Callable[Args, tuple[Out, Aux]], *primals, has_aux: Literal[True]) -> tuple[Out, Pullback, Aux]: ...
@overload
def vjp(f: Callable, *primals, has_aux: bool) -> tuple: ...
@public
def vjp(f: Callable, *primals, has_aux: bool = False) -> tuple:
    """Evaluate a function and its vector-Jacobian product, as a function of the cotangent.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy. It runs once.
    *primals : trees of numbers and arrays
        Its arguments.
    has_aux : bool
        Whether ``f`` returns ``(out, aux)``.

    Returns
    -------
    out : tree
        ``f(*primals)``.
    pull : callable
        ``pull(ct)`` returns a tuple with one cotangent per argument. For complex values the cotangent is multiplied
        by the derivative, unconjugated.
    aux : tree
        Only with ``has_aux``.

    Raises
    ------
    TreeError, ShapeError, DtypeError
        By ``pull``, for a cotangent that does not fit the output.

    Notes
    -----
    The linear program of :func:`linearize`, walked backwards through the transposes of its operations.

    Examples
    --------
    >>> value, pull = da.vjp(lambda x, y: np.sum(x * y), np.array([1.0, 2.0]), 3.0)
    >>> pull(1.0)
    (array([3., 3.]), np.float64(3.0))
    """
    check_callable(f, "vjp")
    out, stage = stage_tangents(f, primals, has_aux, "vjp")
    pull = Pullback(stage, primals)
    return (out, pull, stage.aux) if has_aux else (out, pull)


def _check_cotangents(leaves: list, avals: list[Aval], ct) -> list:
    """Check the cotangents of all outputs and return those of the differentiable ones, as arrays."""
    given: list = []
    for i, (c, aval) in enumerate(zip(leaves, avals, strict=True)):
        if c is None:
            if is_inexact(aval.dtype):
                given.append(None)
            continue
        c = plain_leaf(c, LeafName(ct, "the cotangent", i), "vjp")
        a = aval_of(c)
        if not is_inexact(aval.dtype):
            if a.dtype != float0 and (foreign(c) is not None or np.any(c)):
                raise DtypeError(
                    f"vjp: {_leaf(ct, i)} has dtype {a.dtype}, but the output there has dtype {aval.dtype}.",
                    "integers and booleans have no derivative",
                    "pass None (or zeros of dtype dualad.float0) as its cotangent",
                )
            continue
        if a.shape != aval.shape:
            raise ShapeError(
                f"vjp: {_leaf(ct, i)} has shape {a.shape}, the output there has shape {aval.shape}.",
                "a cotangent has its output's shape, and nothing is broadcast silently",
                f"pass shape {aval.shape}; for a batch of cotangents map the pullback: dualad.vmap(pull)(cotangents)",
            )
        if a.dtype != aval.dtype and not (a.weak and aval.dtype.kind >= a.dtype.kind):
            raise DtypeError(
                f"vjp: {_leaf(ct, i)} has dtype {a.dtype}, the output there has dtype {aval.dtype}.",
                "a cotangent has its output's dtype, so that no precision is lost or invented silently",
                f"cast it: ct.astype(np.{aval.dtype.name})",
            )
        given.append(c if hasattr(c, "shape") and c.shape else np.asarray(c, aval.dtype)[()] if a.weak else c)
    return given


def _leaf(tree, i: int) -> str:
    return leaf_names(tree, "the cotangent")[i]


def _in_library_of(result, aval: Aval, other):
    """Return a result as an array of the library of its argument, which is None where that is NumPy."""
    if other is None or foreign(result) is not None:
        return result
    return zeros_matching_library(aval.shape, aval.dtype, other) if result is None else match_library(result, other)


def pull(stage: Linearization, cotangents: list, seeds: str = "dead") -> list:
    """Pull cotangents of the inexact results back to the inexact arguments; ``seeds`` as of ``pull_back``."""
    results = pull_back(stage.program, cotangents, seeds, stage.foreign)
    return _finish(results, stage.in_avals, cotangents, stage.foreign)


def _finish(results: list, in_avals: list, given: list, others: list | None = None) -> list:
    """Give each result its argument's dtype and library, zeros where nothing arrived, and memory of its own."""
    out, taken = [], set(map(id, given))
    if others is not None:
        results = [_in_library_of(r, *more) for r, *more in zip(results, filter(None, in_avals), others, strict=True)]
    for r, aval in zip(results, filter(None, in_avals), strict=True):
        if r is None:
            r = zeros_matching_library(aval.shape, aval.dtype, *given)[()]
        elif r.dtype is not aval.dtype:
            r = in_dtype(r, aval.dtype)
        if type(r) is np.ndarray:
            r = r.copy() if r.base is not None or id(r) in taken else r
        elif isinstance(r, Tracer):
            r = unshared(r)
        taken.add(id(r))
        out.append(r)
    return out


# ── grad ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@transform
def grad(
    f: Callable[Args, Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Args, Any]:
    """Make the gradient function of a scalar-valued function.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy; it returns a real scalar (with ``holomorphic``, a complex one). An array with
        one entry counts as that entry, whatever its axes are.
    argnums : int or tuple of int, optional
        Which positional arguments to differentiate; 0 by default. An int gives the gradient, a tuple a tuple.
    argnames : str or tuple of str, optional
        Which keyword arguments to differentiate. A name gives the gradient, a tuple a dict by name; together with
        ``argnums`` the result is the pair of both.
    has_aux : bool
        Whether ``f`` returns ``(out, aux)``; then the result is ``(gradient, aux)``.
    holomorphic : bool
        Whether ``f`` is complex-differentiable; then the result is f′.
    allow_int : bool
        Whether integers and booleans may be among the arguments; their gradients are zeros of dtype ``float0``.

    Returns
    -------
    callable
        A function of the same arguments that returns the gradient: trees, shapes and dtypes as the arguments'. For
        complex arguments of a real function it is ∂f/∂a − i ∂f/∂b at a + ib (JAX's convention); its conjugate is the
        direction of steepest ascent.

    Raises
    ------
    OutputError
        If the result is not one real number.
    DtypeError
        If an argument to differentiate is an integer or boolean, without ``allow_int``.

    Examples
    --------
    >>> da.grad(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """
    check_callable(f, "grad")
    gradient = gradients(f, argnums, argnames, has_aux, holomorphic, "grad", allow_int, value=False)
    return Transformed(gradient, f, "grad")


@transform
def value_and_grad(
    f: Callable[Args, Out], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False, in_axes: Any = None,
    reduce: str | None = "sum", chunk_size: int | None = None, executor: Any = None,
) -> Callable[Args, tuple[Out, Any]]:  # fmt: skip
    """Make a function that returns the value of ``f`` and its gradient.

    Parameters
    ----------
    f, argnums, argnames, has_aux, holomorphic, allow_int
        As for :func:`grad`.
    in_axes : int, None, or tree of them
        Which axis of each positional argument is cut into shards, as for :func:`dualad.vmap`: ``(None, 0, 0)`` for
        ``loss(w, X, y)``. ``f`` is then called with one shard at a time, and its values and gradients are reduced.
        Arguments passed by keyword are shared. The partitions of a Dask array are its shards.
    reduce : {"sum", "mean", None}
        What becomes of the shards: ``f`` is a sum over the rows it is given, or their mean (shards then count by their
        lengths), or values and gradients are stacked, one for each shard. Gradients of arguments that are cut are
        joined in any case. Auxiliary output is a list, one for each shard.
    chunk_size : int, optional
        How many rows a shard has; by default one shard for each worker. Another size may change the last bits.
    executor : Executor, optional
        Whose workers compute the shards, as for :func:`dualad.vmap`.

    Returns
    -------
    callable
        A function of the same arguments that returns ``(value, gradient)``; with ``has_aux``,
        ``((value, aux), gradient)``.

    Raises
    ------
    OutputError, DtypeError
        As for :func:`grad`.
    ArgumentError, TreeError
        If ``in_axes`` does not fit the arguments, or shards have different lengths along it.

    Examples
    --------
    >>> da.value_and_grad(lambda x: x**2)(3.0)
    (9.0, np.float64(6.0))
    >>> loss = lambda w, X: np.sum((X @ w) ** 2)
    >>> both = da.value_and_grad(loss, in_axes=(None, 0), chunk_size=2)
    >>> both(np.ones(2), np.eye(4, 2))
    (np.float64(2.0), array([2., 2.]))
    """
    check_callable(f, "value_and_grad")
    if in_axes is not None or executor is not None or chunk_size is not None or reduce != "sum":
        return _over_shards(
            f, (argnums, argnames), {"has_aux": has_aux, "holomorphic": holomorphic, "allow_int": allow_int}, in_axes,
            reduce, chunk_size, executor,
        )  # fmt: skip
    both = gradients(f, argnums, argnames, has_aux, holomorphic, "value_and_grad", allow_int)
    return Transformed(both, f, "value_and_grad")


def _over_shards(f, selected: tuple, options: dict, in_axes, reduce, chunk_size, executor) -> Callable:
    chunks = Chunking("value_and_grad", chunk_size, None, executor)
    both = value_and_grad(f, *selected, **options)
    return Transformed(over_shards(both, f, selected, options["has_aux"], in_axes, reduce, chunks), f, chunks.where)


def gradients(
    f: Callable, argnums, argnames, has_aux: bool, holomorphic: bool, where: str, allow_int: bool = False,
    value: bool = True,
) -> Callable:  # fmt: skip
    """Make the function that all gradients are computed with, with the value or without.

    It returns ``(value, gradient)``, ``((value, aux), gradient)``, or ``gradient``, ``(gradient, aux)``; ``where`` is
    whose name stands in errors.
    """

    def gradient(*args, **kwargs):
        selection = select(f, args, kwargs, argnums, argnames, where)
        for x in selection.chosen:
            if holomorphic or not is_plainly_real(x):  # then all of them are looked at closely
                check_chosen(selection.chosen, selection.names, holomorphic, where, allow_int)
                break
        out, stage = stage_tangents(selection.function, selection.chosen, has_aux, where, True)
        if stage.out_tree is not LEAF or stage.out_avals[0].shape or stage.out_avals[0].dtype.kind != "f":
            _check_scalar(out, holomorphic, where)
        one = [np.ones(a.shape, a.dtype) if a.shape else a.dtype.type(1) for a in stage.out_avals]
        others = stage.foreign
        if others is not None:  # none of them is zero, so there is nothing to ask of them
            one = [match_library(c, x) for c, x in zip(one, stage.out_foreign, strict=True)]
        seeds = "dead" if others is None else "live"
        full = pull(stage, one, seeds)
        if len(full) != len(stage.in_avals):
            results, leaves = iter(full), flatten(selection.chosen)[0]
            full = [next(results) if a is not None else x for x, a in zip(leaves, stage.in_avals, strict=True)]
        if allow_int:
            full = [
                np.zeros(np.shape(x), float0)[()] if a is None and is_array(x) else x
                for x, a in zip(full, stage.in_avals, strict=True)
            ]
        derivative = selection.arrange(unflatten(stage.in_tree, full))
        if not value:
            return (derivative, stage.aux) if has_aux else derivative
        return ((out, stage.aux) if has_aux else out), derivative

    return gradient


def _check_scalar(out, holomorphic: bool, where: str) -> None:
    leaves, treedef = flatten(out)
    if len(leaves) != 1 or not optree.treespec_is_leaf(treedef):
        raise OutputError(
            f"{where}: the function returned a {type(out).__name__}"
            f"{'' if out is not None else ' (is there no return statement?)'}.",
            "a gradient is the derivative of one number",
            "return a scalar (and other results through has_aux=True), or use jacrev or vjp",
        )
    aval = aval_of(leaves[0])
    if aval.size != 1:
        raise OutputError(
            f"{where}: the function returned an array of shape {aval.shape}.",
            "a gradient is the derivative of one number",
            "reduce it (np.sum, result[0]), or use jacrev or vjp for the derivative of every entry",
        )
    if not is_inexact(aval.dtype):
        raise OutputError(
            f"{where}: the function returned dtype {aval.dtype}.",
            "integers and booleans have no derivative",
            "return a floating-point number",
        )
    if aval.dtype.kind == "c" and not holomorphic:
        raise OutputError(
            f"{where}: the function returned a complex number.",
            "the gradient of a complex number is not one vector",
            "return a real number (np.real, np.abs), or pass holomorphic=True for a complex-differentiable function",
        )


# ── linear_transpose ─────────────────────────────────────────────────────────────────────────────────────────────


@public
def linear_transpose(f: Callable, *examples) -> Transposed:
    """Transpose a linear function.

    Parameters
    ----------
    f : callable
        A linear function, in plain NumPy. Computations that do not depend on its arguments may be anything.
    *examples : trees of arrays
        Sample arguments; only their shapes and dtypes are used.

    Returns
    -------
    callable
        ``transposed(ct)``: one cotangent per argument, such that ⟨ct, f(v)⟩ = ⟨transposed(ct), v⟩ for every v.

    Raises
    ------
    NotLinearError
        If ``f`` is not linear, or is affine (``v + 1``).

    Examples
    --------
    >>> A = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> da.linear_transpose(lambda v: A @ v, np.zeros(2))(np.array([1.0, 0.0]))
    (array([1., 2.]),)
    """
    check_callable(f, "linear_transpose")
    leaves, in_tree = flatten(examples)
    avals = [aval_of(as_primal(x, f"example {i}", "linear_transpose")) for i, x in enumerate(leaves)]
    for i, a in enumerate(avals):
        if not is_inexact(a.dtype):
            raise DtypeError(
                f"linear_transpose: example {i} has dtype {a.dtype}.",
                "linear maps act on real or complex vectors",
                "pass floats; integer arguments belong in the function's closure",
            )
    with StagedLevel("linear_transpose", owning=True, linear=True) as level:
        out = run(f, optree.tree_unflatten(in_tree, [level.new_input(a) for a in avals]), {})
        out_leaves, out_tree = output_leaves(out, "linear_transpose")
        out_avals = [aval_of(x) for x in out_leaves]
        program = level.finish(out_leaves, "linear_transpose")
    check_linear(program)
    return Transposed(program, avals, in_tree, out_avals, out_tree)


class Transposed:
    """The transpose of a linear function: ``transposed(ct)`` returns one cotangent per argument of the function."""

    __slots__ = ("in_avals", "in_tree", "out_avals", "out_tree", "program")

    def __init__(self, program: Program, in_avals: list, in_tree, out_avals: list, out_tree) -> None:
        self.program, self.in_avals, self.in_tree = program, in_avals, in_tree
        self.out_avals, self.out_tree = out_avals, out_tree

    def __reduce__(self):
        args = (self.program, self.in_avals, self.in_tree, self.out_avals, self.out_tree)
        return with_structures(Transposed, args, self.in_tree, self.out_tree)

    @public
    def __call__(self, ct=_MISSING, *more):
        """Apply the transpose to a cotangent of the function's output."""
        _check_one(ct, more, "the transpose")
        leaves = flatten_like(self.out_tree, ct, "the cotangent", "the function's output")
        cts = _check_cotangents(leaves, self.out_avals, ct)
        results = pull_back(self.program, cts)
        return optree.tree_unflatten(self.in_tree, _finish(results, self.in_avals, cts))

    def _repr_html_(self) -> str:
        return self.program._repr_html_(repr(self))

    def __repr__(self) -> str:
        outs, ins = ", ".join(map(repr, self.out_avals)), ", ".join(map(repr, self.in_avals))
        return f"<transpose ({outs}) -> ({ins}) through {len(self.program.recorded)} equations>"
