"""Whole Jacobians and Hessians: ``jacfwd``, ``jacrev``, ``hessian``, ``hvp``.

Made only of transforms: a Jacobian is ``vmap`` of ``jvp`` (or of the pullback) over a basis. The primal is not mapped,
so every transcendental of the function runs once, and only tangent arithmetic carries the extra axis.
Not for: sparse Jacobians.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from .core.aval import Aval, aval_of, is_inexact
from .errors import ArgumentError, DtypeError, OutputError
from .jvp import jvp, named
from .selection import select
from .tree import LeafName, flatten, is_array
from .vjp_via_transpose import check_differentiable, grad, vjp
from .vmap import vmap

__all__ = ["hessian", "hvp", "jacfwd", "jacrev", "standard_basis"]


def jacfwd(
    f: Callable, argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Callable:  # fmt: skip
    """Make the Jacobian function of ``f``, column by column in one batched forward pass.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy, of any trees.
    argnums, argnames
        Which arguments to differentiate, as for :func:`dualad.grad`.
    has_aux : bool
        Whether ``f`` returns ``(out, aux)``; then the result is ``(jacobian, aux)``.
    holomorphic : bool
        Required for complex arguments: states that ``f`` is complex-differentiable.
    chunk_size : int, optional
        How many columns to compute at a time; all by default. Smaller chunks take less memory and run ``f`` once per
        chunk.

    Returns
    -------
    callable
        A function of the same arguments. The result has the structure of the output outside and of the arguments
        inside; each leaf has shape ``out.shape + in.shape`` and the output's dtype.

    Raises
    ------
    DtypeError
        If an argument to differentiate is an integer, or complex without ``holomorphic``.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> da.jacfwd(lambda x: np.sin(x) * x[0])(np.array([1.0, 0.0]))
    array([[1.38177329, 0.        ],
           [0.        , 1.        ]])
    """
    chunk_size = _checked_chunk(chunk_size, "jacfwd")

    def jacobian(*args, **kwargs):
        selection = select(f, args, kwargs, argnums, argnames, "jacfwd")
        for x, name in zip(selection.chosen, selection.names, strict=True):
            check_differentiable(x, name, holomorphic, "jacfwd")
            _check_real(x, name, holomorphic)
        leaves, in_tree = flatten(selection.chosen)
        avals = [aval_of(x) if is_array(x) else None for x in leaves]
        kept: dict[str, Any] = {}

        def push(*tangents):
            moving = iter(tangents)
            directions = optree.tree_unflatten(in_tree, [None if a is None else next(moving) for a in avals])
            value, tangent, *kept["aux"] = jvp(selection.function, selection.chosen, tuple(directions), has_aux=has_aux)
            out_leaves, kept["out_tree"] = flatten(tangent)
            kept["in_dtypes"] = [aval_of(v).dtype for v in flatten(value)[0]]
            return out_leaves

        real = [a for a in avals if a is not None]
        columns = _in_chunks(push, real, chunk_size)
        for i, dtype in enumerate(kept["in_dtypes"]):
            if not is_inexact(dtype):
                name = LeafName(kept["out_tree"].unflatten(columns), "output", i)
                raise OutputError(
                    f"jacfwd: {name} has dtype {dtype}.", "integers and booleans have no derivative",
                    "return it through has_aux=True, or convert it to float",
                )  # fmt: skip
        blocks = []
        for c in columns:
            last = np.moveaxis(c, 0, -1)
            parts = iter(_split_last(last, real))
            inside = [x if a is None else next(parts) for x, a in zip(leaves, avals, strict=True)]
            blocks.append(selection.arrange(optree.tree_unflatten(in_tree, inside)))
        result = optree.tree_unflatten(kept["out_tree"], blocks)
        return (result, kept["aux"][0]) if has_aux else result

    return named(jacobian, f, "jacfwd")


def jacrev(
    f: Callable, argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Callable:  # fmt: skip
    """Make the Jacobian function of ``f``, row by row in one batched reverse pass.

    Parameters
    ----------
    f, argnums, argnames, has_aux
        As for :func:`jacfwd`.
    holomorphic : bool
        Required for complex outputs: states that ``f`` is complex-differentiable.
    chunk_size : int, optional
        How many rows to compute at a time; all by default. ``f`` runs once in any case.

    Returns
    -------
    callable
        As for :func:`jacfwd`, but with the arguments' dtype in each leaf.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> da.jacrev(lambda x: x[1:] * x[0])(np.array([2.0, 3.0, 4.0]))
    array([[3., 2., 0.],
           [4., 0., 2.]])
    """
    chunk_size = _checked_chunk(chunk_size, "jacrev")

    def jacobian(*args, **kwargs):
        selection = select(f, args, kwargs, argnums, argnames, "jacrev")
        for x, name in zip(selection.chosen, selection.names, strict=True):
            check_differentiable(x, name, holomorphic, "jacrev")
        out, pull, *aux = vjp(selection.function, *selection.chosen, has_aux=has_aux)
        out_leaves, out_tree = flatten(out)
        avals = [aval_of(x) for x in out_leaves]
        for i, a in enumerate(avals):
            if not is_inexact(a.dtype) or (a.dtype.kind == "c" and not holomorphic):
                raise OutputError(
                    f"jacrev: {LeafName(out, 'output', i)} has dtype {a.dtype}.",
                    "integers have no derivative, and the derivative of a complex number is not one row",
                    "return it through has_aux=True, take its real and imaginary parts, or pass holomorphic=True if the"
                    " function is complex-differentiable",
                )

        def pull_rows(*cts):
            return flatten(pull(optree.tree_unflatten(out_tree, cts)))[0]

        in_leaves, in_tree = flatten(selection.chosen)
        mapped = [is_array(x) for x in in_leaves]

        def pull_arrays(*cts):
            return [r for r, m in zip(pull_rows(*cts), mapped, strict=True) if m]

        rows = _in_chunks(pull_arrays, avals, chunk_size)
        blocks = []
        start = 0
        for a in avals:
            mine = iter([_scalar(r[start : start + a.size].reshape(a.shape + r.shape[1:])) for r in rows])
            start += a.size
            inside = [next(mine) if m else x for x, m in zip(in_leaves, mapped, strict=True)]
            blocks.append(selection.arrange(optree.tree_unflatten(in_tree, inside)))
        result = optree.tree_unflatten(out_tree, blocks)
        return (result, aux[0]) if has_aux else result

    return named(jacobian, f, "jacrev")


def hessian(
    f: Callable, argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Callable:  # fmt: skip
    """Make the Hessian function of a scalar-valued function: forward over reverse, in one batched pass.

    Parameters
    ----------
    f, argnums, argnames, has_aux, holomorphic
        As for :func:`dualad.grad`.
    chunk_size : int, optional
        How many columns to compute at a time; all by default.

    Returns
    -------
    callable
        A function of the same arguments; each block has shape ``in.shape + in.shape``, and the blocks of several
        arguments are nested as the gradient is, twice.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> da.hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0]))
    array([[6., 4.],
           [4., 0.]])
    """
    gradient = grad(f, argnums, argnames, has_aux=has_aux, holomorphic=holomorphic)
    return named(
        jacfwd(gradient, argnums, argnames, has_aux=has_aux, holomorphic=holomorphic, chunk_size=chunk_size),
        f,
        "hessian",
    )


def hvp(f: Callable, x: Any, v: Any, *args, **kwargs) -> Any:
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

    Returns
    -------
    tree
        H(x)·v, like ``x``.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> da.hvp(lambda x: np.sum(x**3), np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 6., 12.])
    """
    return jvp(grad(lambda y: f(y, *args, **kwargs)), (x,), (v,))[1]


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────────────


def standard_basis(avals: list[Aval]) -> list[np.ndarray]:
    """Return the standard basis of the product of these spaces.

    Row i of all arrays together is the i-th unit vector; array k has shape ``(n, *avals[k].shape)``, n being the
    total size.
    """
    total = sum(a.size for a in avals)
    basis, start = [], 0
    for a in avals:
        block = np.zeros((total, a.size), a.dtype)
        np.fill_diagonal(block[start : start + a.size], 1)
        basis.append(block.reshape((total, *a.shape)))
        start += a.size
    return basis


def _in_chunks(function: Callable, avals: list[Aval], chunk_size: int | None) -> list:
    """Map ``function`` over the standard basis, ``chunk_size`` vectors at a time."""
    basis = standard_basis(avals)
    total = sum(a.size for a in avals)
    batched = vmap(function, axis_size=None)
    if chunk_size is None or total <= chunk_size:
        return batched(*basis)
    parts = [batched(*[b[i : i + chunk_size] for b in basis]) for i in range(0, total, chunk_size)]
    return [np.concatenate(p) for p in zip(*parts, strict=True)]


def _scalar(x):
    """Return a 0-d array as the scalar NumPy's functions would return."""
    return x[()] if isinstance(x, np.ndarray) and not x.shape else x


def _split_last(block, avals: list[Aval]) -> list:
    """Cut the last axis into pieces of the avals' sizes and give each its aval's shape."""
    if len(avals) == 1:
        return [_scalar(block.reshape(block.shape[:-1] + avals[0].shape))]
    parts, start = [], 0
    for a in avals:
        parts.append(_scalar(block[..., start : start + a.size].reshape(block.shape[:-1] + a.shape)))
        start += a.size
    return parts


def _checked_chunk(chunk_size, where: str) -> int | None:
    if chunk_size is None or (isinstance(chunk_size, (int, np.integer)) and chunk_size > 0):
        return None if chunk_size is None else int(chunk_size)
    raise ArgumentError(
        f"{where}: chunk_size={chunk_size!r}.", "it is a number of columns or rows computed at a time",
        "pass a positive int, or None for all at once",
    )  # fmt: skip


def _check_real(x, name: str, holomorphic: bool) -> None:
    for i, leaf in enumerate(flatten(x)[0]):
        if is_array(leaf) and aval_of(leaf).dtype.kind == "c" and not holomorphic:
            raise DtypeError(
                f"jacfwd: {LeafName(x, name, i)} is complex.",
                "a function of a complex number has two real directions, and one column can't hold both",
                "pass holomorphic=True if the function is complex-differentiable, or differentiate in real and"
                " imaginary parts",
            )
