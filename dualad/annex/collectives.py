"""Collectives: operations across the lanes of a mapped axis that has a name, ``vmap(f, axis_name="i")``.

A collective is an operator like any other, with one more rule, ``across``: what to do when the lanes of its own axis
are met. Its result is the same for all lanes and is not mapped any more. Seen by every other level it is a linear map
(``psum``, ``all_gather``) or made of one (``pmax``), so derivatives in both modes follow. Not for: which level a name
means (``core/axes.py``).

    y = Σₖ xₖ in every lane:  the tangent is Σₖ ẋₖ;  x̄ₖ = Σₗ ȳₗ, since lane k is read by all lanes l
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.frames import public
from ..base.tree import is_array, tree_map
from ..batched import Batched
from ..core.aval import Aval
from ..core.axes import axis_level
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import Tracer
from ..errors import ArgumentError
from ..ops.kinds import broadcast_like
from ..surface.arguments import operand

__all__ = ["Collective", "all_gather", "axis_index", "axis_size", "pmax", "pmean", "pmin", "psum"]


class Collective(Primitive):
    """An operator across the lanes of a named axis.

    ``across(level, value, params)`` is what ``Batched`` calls in place of a batching rule. The parameter ``axis`` is
    the name; ``None`` stands for an axis of one lane, which is how such an operator is tested alone. It is linear, but
    for one that has a ``jvp`` of its own.
    """

    __slots__ = ()

    def __init__(self, name: str, reduce: Callable, **fields) -> None:
        def across(level, value, params):
            if params["axis"] is not None and axis_level(params["axis"], "a collective") is level:
                return reduce(value, level, params)
            # The lanes of another axis: for them this is an operator on arrays with one more axis in front.
            moved = {**params, "position": params["position"] + 1} if "position" in params else params
            return Batched(bind(self, (value,), moved), level)

        def jvp(primals, tangents, **params):
            return bind(self, primals, params), bind(self, tangents, params)

        super().__init__(name, across=across, kind="collective", **{"jvp": jvp, **fields})


def _count(axis: str | None, where: str) -> int:
    return 1 if axis is None else int(axis_level(axis, where).size)


def _axis_of_one(specs: list[tuple], **params) -> Callable:
    return lambda: [(*spec, {"axis": None, **params}) for spec in specs]


_SHAPES: list[tuple] = [((),), ((3,),), ((2, 3),)]


# ── the operators ────────────────────────────────────────────────────────────────────────────────────────────────


psum_op = Collective(
    "psum",
    lambda value, level, params: np.sum(value, axis=0, dtype=value.dtype if value.dtype.kind in "iu" else None),
    impl=lambda x, *, axis: x * _count(axis, "psum"),
    abstract_eval=lambda x, *, axis: Aval(x.shape, x.dtype),
    linear_in=(0,),
    transpose=lambda ct, x, *, axis: (bind(psum_op, (ct,), {"axis": axis}),),
    samples=_axis_of_one(_SHAPES),
)


def _extremum(name: str, reduce: Callable) -> Collective:
    def jvp(primals, tangents, *, axis):
        x, params = primals[0], {"axis": axis}
        out = bind(op, (x,), params)
        # Lanes that share the extremum share its derivative evenly, as entries do in np.max.
        mine = np.equal(x, out)
        t = np.where(mine, tangents[0], 0)
        shared = bind(psum_op, (mine.astype(t.dtype),), params)
        return out, broadcast_like(bind(psum_op, (t,), params) / shared, out)

    op = Collective(
        name,
        lambda value, level, params: reduce(value, axis=0),
        impl=lambda x, *, axis: x,
        abstract_eval=lambda x, *, axis: Aval(x.shape, x.dtype),
        jvp=jvp,
        samples=_axis_of_one(_SHAPES),
    )
    return op


pmax_op = _extremum("pmax", np.max)
pmin_op = _extremum("pmin", np.min)


def _gather(x, *, axis, position):
    repeated: Any = np.broadcast_to(np.expand_dims(x, position), _gathered_shape(np.shape(x), axis, position))
    return repeated.copy() if isinstance(repeated, np.ndarray) else repeated


def _gathered_shape(shape: tuple, axis, position: int) -> tuple:
    return (*shape[:position], _count(axis, "all_gather"), *shape[position:])


def _scatter(x, axis, position):
    """Sum over lanes and give each lane its own entry along an axis: the transpose of gathering."""
    params = {"axis": axis, "position": position}
    if axis is not None:
        level = axis_level(axis, "all_gather")
        if not isinstance(x, Tracer) or x.level.number < level.number:
            return _scattered(x, level, params)
    return bind(scatter_op, (x,), params)


def _scattered(x, level, params):
    return Batched(np.moveaxis(x, params["position"], 0) * int(level.size), level)


def _scatter_impl(x, *, axis, position):
    if axis is None:
        return np.take(x, 0, axis=position)
    return _scattered(x, axis_level(axis, "all_gather"), {"position": position})


gather_op = Collective(
    "all_gather",
    lambda value, level, params: np.moveaxis(value, 0, params["position"]),
    impl=_gather,
    abstract_eval=lambda x, *, axis, position: Aval(_gathered_shape(x.shape, axis, position), x.dtype),
    linear_in=(0,),
    transpose=lambda ct, x, *, axis, position: (_scatter(ct, axis, position),),
    samples=_axis_of_one(_SHAPES, position=0),
)

scatter_op = Collective(
    "sum_scatter",
    lambda value, level, params: Batched(np.moveaxis(np.sum(value, axis=0), params["position"], 0), level),
    impl=_scatter_impl,
    abstract_eval=lambda x, *, axis, position: Aval((*x.shape[:position], *x.shape[position + 1 :]), x.dtype),
    linear_in=(0,),
    transpose=lambda ct, x, *, axis, position: (bind(gather_op, (ct,), {"axis": axis, "position": position}),),
    samples=_axis_of_one([((1,),), ((1, 3),)], position=0),
)


# ── for users ────────────────────────────────────────────────────────────────────────────────────────────────────


@public
def psum(x: Any, axis_name: str) -> Any:
    """Sum over the lanes of a named axis.

    Parameters
    ----------
    x : tree of arrays
        Each lane's contribution. A value shared by all lanes counts once per lane.
    axis_name : str
        The name that ``vmap(f, axis_name=...)`` gave the axis.

    Returns
    -------
    tree
        The sums: the same in all lanes, so that ``out_axes=None`` will do.

    Raises
    ------
    ArgumentError
        If no axis has that name here.

    Examples
    --------
    >>> da.vmap(lambda x: x / da.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    return _each(psum_op, x, axis_name, numbers=True)


@public
def pmean(x: Any, axis_name: str) -> Any:
    """Average over the lanes of a named axis.

    Parameters
    ----------
    x : tree of arrays
        What each lane contributes.
    axis_name : str
        The name that ``vmap(f, axis_name=...)`` gave the axis.

    Returns
    -------
    tree
        The averages, the same in all lanes.

    Raises
    ------
    ArgumentError
        If no axis has that name here.

    Examples
    --------
    >>> da.vmap(lambda x: x - da.pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([-1.,  1.])
    """
    count = axis_size(axis_name)
    return tree_map(lambda total: total / count if is_array(total) else total, psum(x, axis_name))


@public
def pmax(x: Any, axis_name: str) -> Any:
    """Take the maximum over the lanes of a named axis; lanes that share it share the derivative.

    Parameters
    ----------
    x : tree of arrays
        What each lane contributes.
    axis_name : str
        The name that ``vmap(f, axis_name=...)`` gave the axis.

    Returns
    -------
    tree
        The maxima, the same in all lanes.

    Raises
    ------
    ArgumentError
        If no axis has that name here.

    Examples
    --------
    >>> da.vmap(lambda x: np.exp(x - da.pmax(x, "i")), axis_name="i")(np.array([0.0, 1000.0]))
    array([0., 1.])
    """
    return _each(pmax_op, x, axis_name)


@public
def pmin(x: Any, axis_name: str) -> Any:
    """Take the minimum over the lanes of a named axis; lanes that share it share the derivative.

    Parameters
    ----------
    x : tree of arrays
        What each lane contributes.
    axis_name : str
        The name that ``vmap(f, axis_name=...)`` gave the axis.

    Returns
    -------
    tree
        The minima, the same in all lanes.

    Raises
    ------
    ArgumentError
        If no axis has that name here.

    Examples
    --------
    >>> da.vmap(lambda x: da.pmin(x, "i"), axis_name="i", out_axes=None)(np.array([4.0, 1.0]))
    np.float64(1.0)
    """
    return _each(pmin_op, x, axis_name)


@public
def all_gather(x: Any, axis_name: str, axis: int = 0) -> Any:
    """Stack what all lanes of a named axis have.

    Parameters
    ----------
    x : tree of arrays
        What each lane contributes.
    axis_name : str
        The name that ``vmap(f, axis_name=...)`` gave the axis.
    axis : int
        Where the lanes' axis goes in the result.

    Returns
    -------
    tree
        The stacked arrays, the same in all lanes.

    Raises
    ------
    ArgumentError
        If no axis has that name here, or there is no such ``axis``.

    Examples
    --------
    >>> da.vmap(lambda x: np.median(da.all_gather(x, "i")), axis_name="i")(np.array([1.0, 5.0, 2.0]))
    array([2., 2., 2.])
    """
    axis_level(axis_name, "all_gather")

    def gather(leaf):
        if not is_array(leaf):
            return leaf
        leaf = operand(leaf)
        ndim = np.ndim(leaf) + 1
        if not -ndim <= axis < ndim:
            raise ArgumentError(
                f"all_gather: axis is {axis}, and the result has {ndim} dimensions.",
                "there is no such place",
                f"choose from {-ndim} to {ndim - 1}",
            )
        return bind(gather_op, (leaf,), {"axis": axis_name, "position": axis % ndim})

    return tree_map(gather, x)


@public
def axis_index(axis_name: str) -> Any:
    """Return which lane this is.

    Parameters
    ----------
    axis_name : str
        The name that ``vmap(f, axis_name=...)`` gave the axis.

    Returns
    -------
    int, scalar
        From 0 to ``axis_size(axis_name) - 1``, different in every lane.

    Raises
    ------
    ArgumentError
        If no axis has that name here.

    Examples
    --------
    >>> da.vmap(lambda x: x * da.axis_index("i"), axis_name="i")(np.ones(3))
    array([0., 1., 2.])
    """
    level: Any = axis_level(axis_name, "axis_index")
    return Batched(np.arange(int(level.size)), level)


@public
def axis_size(axis_name: str) -> int:
    """Return the number of lanes of a named axis.

    Parameters
    ----------
    axis_name : str
        The name that ``vmap(f, axis_name=...)`` gave the axis.

    Returns
    -------
    int
        The number of lanes.

    Raises
    ------
    ArgumentError
        If no axis has that name here.

    Examples
    --------
    >>> da.vmap(lambda x: x / da.axis_size("i"), axis_name="i")(np.ones(4))
    array([0.25, 0.25, 0.25, 0.25])
    """
    return _count(axis_name, "axis_size")


def _each(op: Collective, tree: Any, axis_name: str, numbers: bool = False) -> Any:
    axis_level(axis_name, op.name)

    def one(x):
        if not is_array(x):
            return x
        x = operand(x)
        if numbers and getattr(x, "dtype", np.dtype(type(x))).kind == "b":
            x = x.astype(int) if hasattr(x, "dtype") else int(x)  # truth values are counted
        return bind(op, (x,), {"axis": axis_name})

    return tree_map(one, tree)
