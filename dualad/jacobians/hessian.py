"""Second derivatives: ``hessian``, ``hvp``, their values beside them, the Hessian's diagonal and trace.

A Hessian is forward over reverse, in one batched pass. Not for: first derivatives (``jacobian.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.arguments import check_callable
from ..base.frames import public
from ..base.signatures import Args, Out
from ..base.tree import LeafName, flatten, flatten_like, is_array, tree_map
from ..boundary.transformed import Transformed, transform
from ..dual import check_tangent
from ..errors import DualadError, OutputError
from ..jvp import jvp
from ..surface.leaves import check_differentiable, plain_leaf
from ..transforms.linearize import Linear, linearize
from ..vjp_via_transpose import gradients
from .call import Call, Options, derivative, over_basis, split_last
from .jacobian import forward, reverse

__all__ = ["DIRECTIONS", "from_diagonal", "hessian", "hessian_diag", "hvp", "value_and_hessian", "value_and_hvp"]

#: how many directions are taken at a time where derivatives along them are summed, unless told otherwise
DIRECTIONS = 128


@transform
def hessian(
    f: Callable[Args, Any], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None, progress: bool = False,
) -> Callable[Args, Any]:  # fmt: skip
    """Make the Hessian function of a scalar-valued function: forward over reverse, in one batched pass.

    Parameters
    ----------
    f, argnums, argnames, has_aux, holomorphic
        As for :func:`dualad.grad`.
    chunk_size, max_memory : int, optional
        How many columns, or about how many bytes, to compute at a time; all by default.
    executor : Executor, optional
        Whose workers compute the columns, as for :func:`dualad.jacfwd` of the gradient.
    progress : bool
        Whether to show a bar on a terminal, as for :func:`dualad.jacfwd`.

    Returns
    -------
    callable
        A function of the same arguments; each block has shape ``in.shape + in.shape`` (``out.shape`` in front, where
        ``f`` returns an array, of one entry, too), and the blocks of several arguments are nested as the gradient is,
        twice.

    Raises
    ------
    DtypeError
        If an argument to differentiate is an integer or boolean.
    OutputError
        If a result is complex, without ``holomorphic``.

    Examples
    --------
    >>> da.hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0]))
    array([[6., 4.],
           [4., 0.]])
    """
    options = Options.of("hessian", locals())
    return _second(f, options)


@transform
def value_and_hessian(
    f: Callable[Args, Out], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None, progress: bool = False,
) -> Callable[Args, tuple[Out, Any]]:  # fmt: skip
    """Make a function that returns the value of ``f`` and its Hessian.

    Parameters
    ----------
    f, argnums, argnames, has_aux, holomorphic, chunk_size, max_memory, executor, progress
        As for :func:`hessian`.

    Returns
    -------
    callable
        A function of the same arguments that returns ``(value, hessian)``; with ``has_aux``,
        ``((value, aux), hessian)``.

    Raises
    ------
    DtypeError, OutputError
        As for :func:`hessian`.

    Examples
    --------
    >>> value, second = da.value_and_hessian(lambda x: x**3)(2.0)
    >>> float(value), float(second)
    (8.0, 12.0)
    """
    options = Options.of("value_and_hessian", locals(), with_value=True)
    return _second(f, options)


def _second(f: Callable, options: Options) -> Callable:
    check_callable(f, options.where)
    has_aux, where = options.has_aux, options.where
    columns, rows = replace(options, has_aux=True), replace(options.here(), allows_complex=True)
    first = gradients(f, options.argnums, options.argnames, has_aux, options.holomorphic, where)

    def gradient(*args, **kwargs):
        try:
            value, derivative = first(*args, **kwargs)
            if shape := np.shape(value[0] if has_aux else value):  # of one entry: as of any other array
                derivative = tree_map(lambda d: np.reshape(d, shape + np.shape(d)) if is_array(d) else d, derivative)
        except OutputError:  # not one number: the second derivative of every entry
            value, derivative, aux = reverse(Call(f, args, kwargs, rows))
            if not flatten(value)[0]:
                raise
            value = (value, aux) if has_aux else value
        return derivative, value

    def second(*args, **kwargs):
        _, blocks, value = forward(Call(gradient, args, kwargs, columns))
        value, aux = value if has_aux else (value, None)
        return options.result(value, blocks, aux)

    return Transformed(second, f, where)


@public
def hvp(f: Callable[Args, Any], x: Any, v: Any, *args, has_aux: bool = False, **kwargs) -> Any:
    """Multiply the Hessian of a scalar-valued function with a vector, without building it.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy; it returns a real scalar.
    x : tree
        Its first argument, in which it is differentiated twice.
    v : tree
        The vector: of the structure, shapes and dtypes of ``x``.
    *args, **kwargs
        Further arguments of ``f``, held constant.
    has_aux : bool
        Whether ``f`` returns ``(out, aux)``; then the result is ``(H(x)·v, aux)``.

    Returns
    -------
    tree
        H(x)·v, like ``x``.

    Raises
    ------
    OutputError
        If the result is not a real scalar.
    TreeError, ShapeError, DtypeError
        If ``v`` is not like ``x``.

    Notes
    -----
    One forward pass over the gradient: Pearlmutter, *Fast exact multiplication by the Hessian* (1994).

    Examples
    --------
    >>> da.hvp(lambda x: np.sum(x**3), np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 6., 12.])
    """
    value, product = _value_and_product(f, x, v, args, kwargs, has_aux, "hvp")
    return (product, value[1]) if has_aux else product


@public
def value_and_hvp(f: Callable[Args, Any], x: Any, v: Any, *args, has_aux: bool = False, **kwargs) -> tuple[Any, Any]:
    """Return the value of a scalar-valued function and its Hessian times a vector.

    Parameters
    ----------
    f, x, v, *args, has_aux, **kwargs
        As for :func:`hvp`.

    Returns
    -------
    value : scalar
        ``f(x, *args, **kwargs)``; with ``has_aux``, ``(value, aux)``.
    product : tree
        H(x)·v, like ``x``.

    Raises
    ------
    OutputError, TreeError, ShapeError, DtypeError
        As for :func:`hvp`.

    Examples
    --------
    >>> value, product = da.value_and_hvp(lambda x: x**3, 2.0, 1.0)
    >>> float(value), float(product)
    (8.0, 12.0)
    """
    return _value_and_product(f, x, v, args, kwargs, has_aux, "value_and_hvp")


def _value_and_product(f: Callable, x, v, args: tuple, kwargs: dict, has_aux: bool, where: str) -> tuple[Any, Any]:
    check_callable(f, where)
    check_differentiable(x, "x", False, where)
    first = gradients(lambda y: f(y, *args, **kwargs), None, None, has_aux, False, where)

    def gradient(y):
        value, derivative = first(y)
        return derivative, value

    try:
        _, product, value = jvp(gradient, (x,), (v,), has_aux=True)
    except DualadError:
        leaves, treedef = flatten(x)
        for i, (primal, tangent) in enumerate(zip(leaves, flatten_like(treedef, v, "v", "x"), strict=True)):
            if tangent is not None and is_array(primal):
                name = LeafName(v, "v", i)  # which the direction has here
                check_tangent(primal, plain_leaf(tangent, name, where), name, where)
        raise
    return value, product


@transform
def hessian_diag(
    f: Callable[Args, Any], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None,
) -> Callable[Args, Any]:  # fmt: skip
    """Make the function that gives the diagonal of the Hessian: ∂²f/∂xᵢ² for every entry of the arguments.

    The gradient is linearized once, and its linear program is applied to a batch of unit vectors at a time; the Hessian
    is never built.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy; it returns a real scalar.
    argnums, argnames, has_aux
        As for :func:`dualad.grad`.
    chunk_size : int, optional
        How many unit vectors to take at a time, 128 by default.
    max_memory : int, optional
        About how many bytes to use at a time, in place of ``chunk_size``.
    executor : Executor, optional
        Whose workers take the unit vectors, as for :func:`hessian`.

    Returns
    -------
    callable
        A function of the same arguments; the result is like the gradient.

    Raises
    ------
    DtypeError
        If an argument to differentiate is an integer or boolean.
    OutputError
        If the result is not a real scalar.

    Examples
    --------
    >>> da.hessian_diag(lambda x: np.sum(x**3) + x[0] * x[1])(np.array([1.0, 2.0]))
    array([ 6., 12.])
    """
    options = Options.of("hessian_diag", locals())
    return from_diagonal(lambda diagonal: diagonal, f, options)


def from_diagonal(made: Callable, f: Callable, options: Options) -> Callable:
    """Make a function of the Hessian's diagonal; ``options`` are ``hessian_diag``'s."""
    options = options.or_chunks_of(DIRECTIONS)

    def compute(call: Call) -> tuple[Any, Any, Any]:
        avals = call.avals
        gradient = gradients(
            lambda *values: call.function(*call.with_arrays(values)), tuple(range(len(avals))), None, options.has_aux,
            False, options.where, value=False,
        )  # fmt: skip
        _, product, *aux = linearize(gradient, *call.arrays, has_aux=options.has_aux)
        parts = split_last(over_basis(_Entry(product), avals, options, likes=call.foreign), avals)
        diagonal = [part.astype(a.dtype)[()] for part, a in zip(parts, avals, strict=True)]
        return None, made(call.arrange(diagonal)), aux[0] if aux else None

    return derivative(compute, f, options)


class _Entry:
    """A direction's entry on the diagonal of a linear map: the direction times its image."""

    def __init__(self, product: Linear) -> None:
        self.product = product

    def __call__(self, *direction) -> Any:
        return sum(np.sum(d * h) for d, h in zip(direction, self.product(*direction), strict=True))
