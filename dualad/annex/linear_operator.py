"""Linear maps as SciPy's ``LinearOperator``: what iterative solvers and eigensolvers want.

For: ``Linear.as_linear_operator`` and ``hessian_operator``. SciPy is imported when one is asked for. Not for: solving.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.arguments import check_callable
from ..base.frames import public
from ..base.tree import is_array, tree_map
from ..errors import ArgumentError
from ..jacobians.call import split_flat
from ..transforms.linearize import Linear, linearize
from ..vjp_via_transpose import gradients, linear_transpose
from ..vmap import vmap

__all__ = ["as_linear_operator", "hessian_operator"]


def as_linear_operator(lin: Linear) -> Any:
    """Return a linear map as an operator between flat vectors: all entries of its arguments to all of its results."""
    try:
        interface = importlib.import_module("scipy.sparse.linalg")
    except ImportError as error:
        raise ArgumentError(
            "as_linear_operator needs SciPy, which can't be imported.", str(error), "install dualad[scipy]"
        ) from error
    flat = _Flat(lin)
    push_many, pull_many = functools.partial(_columns, flat.push), functools.partial(_columns, flat.pull)
    return interface.LinearOperator(
        flat.shape, matvec=flat.push, rmatvec=flat.pull, matmat=push_many, rmatmat=pull_many, dtype=flat.dtype
    )


class _Flat:
    """A linear map between flat vectors, and its adjoint; pickled as the map."""

    def __init__(self, lin: Linear) -> None:
        self.lin = lin
        self.ins, self.outs = [a for a in lin.in_avals if a is not None], lin.out_avals
        self.shape = (sum([a.size for a in self.outs]), sum([a.size for a in self.ins]))
        self.dtype = np.result_type(*[a.dtype for a in (*self.ins, *self.outs)])
        zeros = [np.zeros(a.shape, a.dtype) for a in self.ins]
        self._transposed = linear_transpose(lambda *t: lin.flat(list(t)), *zeros)

    def __reduce__(self):
        return _Flat, (self.lin,)

    def push(self, v: Any) -> Any:
        return self._join(self.lin.flat(split_flat(np.reshape(v, -1), self.ins)))

    def pull(self, c: Any) -> Any:
        # The adjoint, as SciPy's rmatvec is; the transpose itself does not conjugate.
        return np.conj(self._join(self._transposed(split_flat(np.conj(np.reshape(c, -1)), self.outs))))

    def _join(self, parts: Any) -> Any:
        return np.concatenate([np.reshape(p, -1) for p in parts]) if parts else np.zeros(0, self.dtype)


def _columns(function: Callable, x: Any) -> Any:
    return np.moveaxis(vmap(function, randomness="same")(np.moveaxis(x, 1, 0)), 0, 1)


@public
def hessian_operator(f: Callable, x: Any, *args, **kwargs) -> Any:
    """Return the Hessian of a scalar-valued function at a point as a SciPy ``LinearOperator``, without building it.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy; it returns a real scalar. It runs once.
    x : tree of arrays
        Its first argument, the point.
    *args, **kwargs
        Further arguments of ``f``, held constant.

    Returns
    -------
    scipy.sparse.linalg.LinearOperator
        Symmetric, of shape (n, n), n being the number of entries of ``x``, which are taken in the order of its leaves.

    Raises
    ------
    OutputError
        If the result is not a real scalar.
    ArgumentError
        If SciPy is not installed.

    Examples
    --------
    >>> from scipy.sparse.linalg import cg
    >>> H = da.hessian_operator(lambda x: np.sum(x**2) + x[0] * x[1], np.zeros(2))
    >>> cg(H, np.array([3.0, 3.0]))[0]
    array([1., 1.])
    """
    check_callable(f, "hessian_operator")
    point = tree_map(lambda v: np.asarray(v)[()] if is_array(v) else v, x)
    gradient = gradients(lambda y: f(y, *args, **kwargs), None, None, False, False, "hessian_operator", value=False)
    return linearize(gradient, point)[1].as_linear_operator()
