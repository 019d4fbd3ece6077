"""Derivatives of any order along a curve: ``jet``, ``taylor``, ``nth_derivative``.

Each opens one level of power series (``series/``), runs the function once, and takes the coefficients of its result.
Not for: the arithmetic of series, or sums over many directions (``directional.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..base.arguments import check_callable
from ..base.frames import public
from ..base.tree import LeafName, flatten, flatten_like, is_array
from ..boundary.boundary import run
from ..boundary.transformed import Transformed, transform
from ..core.aval import aval_of, is_inexact
from ..core.contexts import active
from ..core.tracer import PLAIN
from ..dual import check_tangent, shown_tangent
from ..errors import ArgumentError, ArgumentTypeError, DtypeError
from ..surface.leaves import as_primal, output_leaves, plain_leaf, static_leaf
from ..vmap import vmap
from . import control  # noqa: F401 - the series of loops are declared there
from .stream import Stream
from .tracer import Series, SeriesLevel

__all__ = ["check_order", "coefficients", "jet", "nth_derivative", "series_of", "taylor"]

#: beyond this order k! is no floating-point number
_LAST_FACTORIAL = 170


@public
def jet(f: Callable, primals: Sequence, series: Sequence, factorial_scaled: bool = True) -> tuple[Any, Any]:
    """Push a curve through a function: all derivatives up to an order, in one run.

    The curve is x(t) = x + x₁ t + x₂ t²/2! + …, given by its derivatives at 0; the result is f(x(t)), given likewise.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy.
    primals : tuple or list
        Its arguments: trees of numbers and arrays, the points of the curve at t = 0.
    series : tuple or list
        For each argument the list of its derivatives x₁, x₂, …: like the argument, in shapes and dtypes; ``None`` is
        zero. All lists have one length, the order.
    factorial_scaled : bool
        Whether terms are derivatives (the k-th is k! times the coefficient of tᵏ), in and out. With ``False`` they are
        the coefficients themselves, which do not overflow at high orders.

    Returns
    -------
    value : tree
        ``f(*primals)``.
    series_out : tree
        The same tree with a list of the derivatives of orders 1, 2, … in place of every array: shapes and dtypes are
        the value's; of dtype ``float0`` for integer results.

    Raises
    ------
    ArgumentError
        If there are no terms, or not the same number for every argument.
    ArgumentTypeError, TreeError, ShapeError, DtypeError
        If a term is not like its argument.

    Notes
    -----
    Coefficients keep their digits to high orders, but not where the function removes a pole (``tanh(x) / x``): there
    errors grow as the pole's own coefficients do, and above about order 40 nothing may be left.

    Propagation of Taylor coefficients: Griewank and Walther, *Evaluating derivatives* (2008), chapter 13.

    Examples
    --------
    >>> value, (first, second, third) = da.jet(np.exp, (0.0,), ([1.0, 0.5, 0.0],))  # exp(t + t²/4)
    >>> float(value), float(first), float(second), float(third)
    (1.0, 1.0, 1.5, 2.5)
    """
    check_callable(f, "jet")
    for name, x in (("primals", primals), ("series", series)):
        if not isinstance(x, (tuple, list)):
            raise ArgumentTypeError(
                f"jet: {name} is a {type(x).__name__}.",
                "it holds one entry per argument of the function, and an array would be taken apart by mistake",
                f"write ({name},) for a function of one argument"
                if name == "series"
                else "write (x,) for one argument",
            )
    order = _common_length(primals, series)
    if factorial_scaled and order > _LAST_FACTORIAL:
        raise ArgumentError(
            f"jet: {order} terms were given with factorial_scaled=True.",
            f"{_LAST_FACTORIAL + 1}! is beyond the largest floating-point number",
            "pass and take true coefficients: factorial_scaled=False",
        )
    leaves, treedef = flatten(tuple(primals))
    given = [tuple([s[k] for s in series]) for k in range(order)]
    terms = [flatten_like(treedef, g, f"the terms of order {k}", "primals") for k, g in enumerate(given, 1)]
    names = [f"the term of order {k + 1} of argument" for k in range(order)]
    with SeriesLevel("jet", order) as level:
        level.function = f
        inputs = []
        for i, x in enumerate(leaves):
            mine = [(row[i], LeafName(g, name, i)) for row, g, name in zip(terms, given, names, strict=True)]
            x = _input(x, LeafName(tuple(primals), "primals", i), mine, level, factorial_scaled)
            if type(x) is Series:
                x._origin = (treedef, i, False)
            inputs.append(x)
        out_leaves, out_tree = output_leaves(run(f, optree.tree_unflatten(treedef, inputs), {}), "jet", leaves)
        found = [coefficients(x, level) for x in out_leaves]
    if factorial_scaled:
        found = [[c * _factorial(k) if k > 1 and is_inexact(aval_of(c).dtype) else c for k, c in enumerate(cs)]
                 for cs in found]  # fmt: skip
    if (watch := active()) is not None:
        watch.finished("jet", [c for cs in found for c in cs])
    value = optree.tree_unflatten(out_tree, [cs[0] for cs in found])
    return value, optree.tree_unflatten(out_tree, [cs[1:] for cs in found])


@public
def taylor(f: Callable, x: Any, v: Any = None, *, order: int) -> Any:
    """Expand a function about a point along a direction: the coefficients of f(x + t v) in powers of t.

    Parameters
    ----------
    f : callable
        A function of one argument, in plain NumPy.
    x : tree
        The point.
    v : tree, optional
        The direction: like ``x``, in shapes and dtypes. Without it ``x`` is a number, and t its increment.
    order : int
        The highest power of t.

    Returns
    -------
    tree
        Like ``f(x)``, with a leading axis of length ``order + 1``: entry k is the coefficient of tᵏ, the k-th
        derivative along ``v`` divided by k!.

    Raises
    ------
    ArgumentError
        If ``order`` is negative or no integer, or ``v`` is missing where ``x`` is no number.
    ArgumentTypeError, TreeError, ShapeError, DtypeError
        If ``v`` is not like ``x``, or ``x`` holds nothing that can move.

    Examples
    --------
    >>> da.taylor(np.exp, 0.0, order=3)
    array([1.        , 1.        , 0.5       , 0.16666667])
    """
    check_callable(f, "taylor")
    check_order(order, "taylor")
    if v is None:
        if not (is_array(x) and np.ndim(x) == 0):
            shown = f"shape {np.shape(x)}" if is_array(x) else f"type {type(x).__name__}"
            raise ArgumentError(
                f"taylor: no direction v was given for an x of {shown}.",
                "a series in one variable needs a line to expand along",
                "pass v, like x: taylor(f, x, v, order=...)",
            )
        v = np.ones((), aval_of(x).dtype)[()]
    point, (leaves, treedef) = x, flatten(x)
    directions = flatten_like(treedef, v, "v", "x")
    with SeriesLevel("taylor", order) as level:
        level.function = f
        inputs = [
            _input(x, LeafName(point, "x", i), [(t, LeafName(v, "v", i))][:order], level)
            for i, (x, t) in enumerate(zip(leaves, directions, strict=True))
        ]
        if not any([type(s) is Series for s in inputs]):
            raise DtypeError(
                f"taylor: x is {x!r}, without a number that can move.",
                "integers and booleans can't be moved by an infinitesimal amount",
                "pass floating-point numbers: 2.0 in place of 2, or x.astype(float)",
            )
        out = run(f, (optree.tree_unflatten(treedef, inputs),), {})
        out_leaves, out_tree = output_leaves(out, "taylor", leaves)
        found = [coefficients(x, level) for x in out_leaves]
    stacked = [np.stack(cs) if is_inexact(aval_of(cs[0]).dtype) else _constant(cs[0], order) for cs in found]
    if (watch := active()) is not None:
        watch.finished("taylor", stacked)
    return optree.tree_unflatten(out_tree, stacked)


@transform
def nth_derivative(f: Callable, n: int) -> Callable:
    """Make the n-th derivative of a function of a number.

    Parameters
    ----------
    f : callable
        A function of one number, in plain NumPy; it may return arrays.
    n : int
        Which derivative; 0 is ``f`` itself.

    Returns
    -------
    callable
        A function of a number, or of an array of them: each entry is an argument of its own, and the result has shape
        ``x.shape + f(x).shape``.

    Raises
    ------
    ArgumentError
        If ``n`` is negative or no integer.
    DtypeError
        If the argument holds integers, which do not move.

    Examples
    --------
    >>> third = da.nth_derivative(lambda x: x**4, 3)
    >>> float(third(2.0)), third(np.array([0.0, 1.0]))
    (48.0, array([ 0., 24.]))
    """
    check_callable(f, "nth_derivative")
    check_order(n, "nth_derivative")
    if n > _LAST_FACTORIAL:
        raise ArgumentError(
            f"nth_derivative: n={n}.",
            f"{n}! is beyond the largest floating-point number",
            "take the coefficient instead: taylor(f, x, order=n)[n] is the derivative divided by n!",
        )

    def derivative_of(x):
        if not is_array(x):
            raise ArgumentTypeError(
                f"nth_derivative: the argument is {x!r} of type {type(x).__name__}.",
                "it is a number, or an array",
                "pass a float, or an array of floats",
            )
        aval = aval_of(x)
        one = np.ones(aval.shape, aval.dtype)[()]
        if not aval.shape:
            return _times(taylor(f, x, one, order=n), n)
        flat = taylor(vmap(f), np.reshape(x, (-1,)), np.reshape(one, (-1,)), order=n)
        return optree.tree_map(lambda c: np.reshape(c, aval.shape + c.shape[1:]), _times(flat, n))

    return Transformed(derivative_of, f, f"nth_derivative[{n}]")


def _times(series: Any, n: int) -> Any:
    return optree.tree_map(lambda c: c[n] * _factorial(n) if n > 1 else c[n], series, namespace="dualad")


# ── pieces shared with what else opens a level of series ─────────────────────────────────────────────────────────


def check_order(order: Any, where: str) -> None:
    """Refuse an invalid order."""
    if isinstance(order, bool) or not hasattr(order, "__index__") or order < 0:
        raise ArgumentError(f"{where}: the order is {order!r}.", "it counts derivatives", "pass an int of at least 0")


def series_of(terms: Sequence, level: SeriesLevel) -> Series:
    """Make a tensor of coefficients of orders 0, 1, …, the last ones of which are not zero; ``None`` is zero."""
    last = max([k for k, c in enumerate(terms) if c is not None])
    terms = list(terms[: last + 1])
    first, aval = terms[0], aval_of(terms[0])
    zero = np.zeros(aval.shape, aval.dtype)
    if all([c is None or type(c) in PLAIN for c in terms]) and level.pick is None and last:
        block = np.stack([np.asarray(zero if c is None else c, aval.dtype) for c in terms])
        stream = Stream(first, None, last, block=block)
        stream.coefs[0] = first  # a Python number stays one
        return Series(stream, level)
    stream = Stream(first, None, last, pick=level.pick)
    stream.coefs += [c if c is None or level.pick is None else level.pick(c, k) for k, c in enumerate(terms) if k]
    return Series(stream, level)


def coefficients(x: Any, level: SeriesLevel) -> list:
    """Return the coefficients of a result, up to the order of the level: zeros where it has none."""
    if not (type(x) is Series and x.level is level):
        return [x, *[shown_tangent(x, None)] * level.order]
    found = x.variable.through(level.order)
    found = [*found, *[None] * (level.order + 1 - len(found))]
    zero = np.zeros(x.shape, x.dtype)[()]
    found = [zero if c is None else c for c in found]
    # In memory of its own: a row of a block would keep the others alive.
    return [c.copy() if type(c) is np.ndarray else c for c in found]


def _constant(value: Any, order: int) -> np.ndarray:
    rest = np.zeros((order, *np.shape(value)), aval_of(value).dtype)
    return np.concatenate([np.asarray(value)[None], rest])


def _factorial(k: int) -> float:
    return float(math.factorial(k))


def _common_length(primals: Sequence, series: Sequence) -> int:
    if len(series) != len(primals):
        raise ArgumentError(
            f"jet: there are {len(primals)} primals and {len(series)} series.",
            "there is one list of terms for each argument",
            "give a constant argument the terms [None, None, ...]",
        )
    lengths = []
    for i, terms in enumerate(series):
        if not isinstance(terms, (tuple, list)):
            raise ArgumentTypeError(
                f"jet: the series of argument {i} is a {type(terms).__name__}.",
                "it is the list of the argument's derivatives along the curve, one for each order",
                "write ([x1, x2, ...],): a direction v alone, to order 3, is ([v, None, None],)",
            )
        lengths.append(len(terms))
    if not lengths or not min(lengths):
        empty = lengths.index(0) if lengths else None
        raise ArgumentError(
            "jet: there are no arguments." if empty is None else f"jet: the series of argument {empty} has no terms.",
            "the number of terms is the order of the derivatives",
            "pass one term at least; for the value alone, call the function",
        )
    if len(set(lengths)) > 1:
        raise ArgumentError(
            f"jet: the series have {', '.join(map(str, lengths))} terms.",
            "all arguments are expanded to the same order",
            "fill the shorter ones up with None, which is zero",
        )
    return lengths[0]


def _input(x: Any, name: object, terms: list[tuple], level: SeriesLevel, scaled: bool = False) -> Any:
    """Return the series of a leaf; its terms come with their names, and may be ``scaled`` by factorials."""
    where = level.transform
    if not is_array(x):
        return static_leaf(x, name, where)
    x = as_primal(x, name, where)
    inexact = is_inexact(aval_of(x).dtype)
    if not inexact and where == "taylor":  # a direction may be like the point, and have integers too
        return x
    kept: list = [x]
    for k, (c, called) in enumerate(terms, 1):
        if c is not None:
            c = plain_leaf(c, called, where)
            if inexact or np.any(c):
                check_tangent(x, c, called, where)
            if type(c) in PLAIN and not np.any(c):
                c = None
        if c is not None and scaled and k > 1:
            c = c / _factorial(k)
        kept.append(c)
    return series_of(kept, level) if inexact else x
