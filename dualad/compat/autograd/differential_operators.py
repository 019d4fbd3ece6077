"""autograd's transforms: ``operator(fun, argnum=0)(*args)``, with autograd's results where they differ from ours.

A gradient's function may return one number in any shape, integer arrays count as floats, and cotangents of any dtype
are taken. For complex arguments the conventions are the same: ``grad`` of a real function is ∂f/∂a − i ∂f/∂b at a + ib,
and a cotangent is multiplied by the derivative, unconjugated. Not for: rules (``extend.py``).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualad.base.tree import flatten, is_array, tree_map, unflatten
from dualad.core.aval import aval_of, is_inexact
from dualad.errors import ArgumentTypeError, OutputError
from dualad.jacobians.jacobian import jacobian as jacobian_of
from dualad.jvp import jvp
from dualad.rules.checkpoint import checkpoint
from dualad.transforms.linearize import linearize
from dualad.vjp_via_transpose import vjp

__all__ = [
    "as_numbers", "checkpoint", "deriv", "elementwise_grad", "grad", "grad_and_aux", "grad_named", "hessian",
    "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "jacobian", "make_ggnvp", "make_hvp",
    "make_jvp", "make_jvp_reversemode", "make_vjp", "multigrad_dict", "nary", "ones", "tensor_jacobian_product",
    "value_and_grad", "vector_jacobian_product",
]  # fmt: skip


def nary(operator: Callable) -> Callable:
    """Make an operator on functions of one tree, ``operator(fun, x)``, one of ``(fun, argnum=0)`` for any function."""

    @functools.wraps(operator)
    def of_function(fun: Callable, argnum: int | Sequence[int] = 0, *more, **named) -> Callable:
        if type(argnum) not in (int, tuple, list):
            raise ArgumentTypeError(
                f"{operator.__name__} was given argnum={argnum!r}.",
                "it is the position of one argument, or a tuple or list of positions",
                "pass an int; for an argument's name, autograd has grad_named",
            )

        def at(*args, **kwargs):
            def unary(x):
                full = list(args)
                for i, value in [(argnum, x)] if isinstance(argnum, int) else zip(argnum, x, strict=True):
                    full[i] = value
                return fun(*full, **kwargs)

            x = args[argnum] if isinstance(argnum, int) else tuple([args[i] for i in argnum])
            return operator(unary, as_numbers(x), *more, **named)

        at.__name__ = f"{operator.__name__}_of_{getattr(fun, '__name__', '[unknown name]')}_wrt_argnum_{argnum}"
        return at

    return of_function


def as_numbers(x: Any) -> Any:
    """Return a tree whose arrays of integers are arrays of floats: they can be differentiated."""
    return tree_map(
        lambda leaf: leaf.astype(float) if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iub" else leaf, x
    )


def ones(x: Any) -> Any:
    """Return a tree of ones for a tree of arrays; what can't be differentiated has None."""
    return tree_map(lambda leaf: np.ones_like(leaf) if is_array(leaf) and is_inexact(aval_of(leaf).dtype) else None, x)


def _like(cotangent: Any, out: Any) -> Any:
    """Return a cotangent in the dtypes of an output."""
    given, tree = flatten(cotangent)
    outs = flatten(out)[0]
    if len(given) != len(outs):
        return cotangent  # which is refused in words

    def cast(c, o):
        dtype = aval_of(o).dtype if is_array(o) else None
        if dtype is None or not is_inexact(dtype):
            return None
        c = c if hasattr(c, "dtype") else np.asarray(c)
        return c if c.dtype == dtype else c.astype(dtype)

    return unflatten(tree, [cast(c, o) for c, o in zip(given, outs, strict=True)])


def _pullback(fun: Callable, x: Any) -> tuple[Callable, Any]:
    out, pull = vjp(fun, x)
    like = tree_map(lambda leaf: np.zeros((), aval_of(leaf).dtype) if is_array(leaf) else leaf, out)  # keep no array
    return (lambda g: pull(_like(g, like))[0]), out


@nary
def make_vjp(fun: Callable, x: Any) -> tuple[Callable, Any]:
    """Return the pullback, of one cotangent to one argument, and the value."""
    return _pullback(fun, x)


@nary
def make_jvp(fun: Callable, x: Any) -> Callable:
    """Return the function of a tangent that gives the value and its tangent."""

    def push(v):
        out, tangent = jvp(fun, (x,), (_like(v, x),))
        return out, tangent

    return push


@nary
def make_jvp_reversemode(fun: Callable, x: Any) -> Callable:
    """Return the function of a tangent that gives the value's tangent; ``fun`` runs once."""
    push = linearize(fun, x)[1]
    return lambda v: push(_like(v, x))


def _one_number(out: Any, name: str, real: bool = True) -> None:
    if not is_array(out) or np.size(out) != 1 or (real and np.iscomplexobj(out)):
        kind = f"an array of shape {np.shape(out)}, dtype {out.dtype}" if hasattr(out, "dtype") else repr(type(out))
        raise OutputError(
            f"{name} was taken of a function that returned {kind}.",
            "a gradient is of one real number",
            "return a scalar, or take jacobian or elementwise_grad (holomorphic_grad for a complex result)",
        )


@nary
def grad(fun: Callable, x: Any) -> Any:
    """Return the gradient of a function whose result is one real number, of any shape."""
    out, pull = vjp(fun, x)
    _one_number(out, "grad")
    return pull(ones(out))[0]


@nary
def value_and_grad(fun: Callable, x: Any) -> tuple[Any, Any]:
    """Return the value and the gradient."""
    out, pull = vjp(fun, x)
    _one_number(out, "value_and_grad")
    return out, pull(ones(out))[0]


@nary
def grad_and_aux(fun: Callable, x: Any) -> tuple[Any, Any]:
    """Return the gradient of the first of two results, and the second as it is."""
    out, pull, aux = vjp(lambda x: tuple(fun(x)), x, has_aux=True)
    return pull(ones(out))[0], aux


@nary
def elementwise_grad(fun: Callable, x: Any) -> Any:
    """Return the sum of the Jacobian's rows: its diagonal, where the function works entry by entry."""
    out, pull = vjp(fun, x)
    if np.iscomplexobj(out):
        raise OutputError(
            "elementwise_grad was taken of a function with a complex result.",
            "it is the gradient of the sum of all results, which has to be real",
            "take its real or imaginary part first, or holomorphic_grad",
        )
    return pull(ones(out))[0]


@nary
def deriv(fun: Callable, x: Any) -> Any:
    """Return the derivative along all ones, by forward mode."""
    return jvp(fun, (x,), (ones(x),))[1]


@nary
def jacobian(fun: Callable, x: Any) -> Any:
    """Return the Jacobian, of the shape of the result followed by the argument's."""
    return jacobian_of(fun)(x)


@nary
def holomorphic_grad(fun: Callable, x: Any) -> Any:
    """Return the derivative of a holomorphic function, as the gradient of its real part."""
    return grad(lambda x: np.real(fun(x)))(x)


def grad_named(fun: Callable, argname: str) -> Callable:
    """Make the gradient function with respect to a positional argument, given by name."""
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


@nary
def hessian(fun: Callable, x: Any) -> Any:
    """Return the Jacobian of the Jacobian, of the shape of the result followed by the argument's twice."""
    return jacobian_of(jacobian_of(fun))(x)


@nary
def make_hvp(fun: Callable, x: Any) -> tuple[Callable, Any]:
    """Return the Hessian-vector product at a point as a function of the vector, and the gradient there."""
    return _pullback(grad(fun), x)


def hessian_tensor_product(fun: Callable, argnum: int = 0) -> Callable:
    """Make the function of ``(*args, tensor)`` that contracts the Hessian with a tensor of the argument's shape."""

    @nary
    def product(fun, x, tensor):
        return jvp(grad(fun), (x,), (_like(tensor, x),))[1]

    return lambda *args, **kwargs: product(fun, argnum, args[-1])(*args[:-1], **kwargs)


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Callable, argnum: int = 0) -> Callable:
    """Make the function of ``(*args, tensor)`` that contracts a tensor with the leading axes of the Jacobian."""

    @nary
    def product(fun, x, tensor):
        return jacobian_of(lambda x: np.tensordot(tensor, fun(x), axes=np.ndim(tensor)))(x)

    return lambda *args, **kwargs: product(fun, argnum, args[-1])(*args[:-1], **kwargs)


vector_jacobian_product = tensor_jacobian_product


def make_ggnvp(f: Callable, g: Callable = lambda x: 0.5 * np.sum(x**2, axis=-1), f_argnum: int = 0) -> Callable:
    """Make the function of a point that gives the product with the generalized Gauss–Newton matrix Jᵀ(∇²g)J there."""

    @nary
    def product(f, x):
        out, push = linearize(f, x)
        pull = _pullback(f, x)[0]
        return lambda v: pull(jvp(grad(g), (out,), (push(v),))[1])

    return product(f, f_argnum)


def multigrad_dict(fun: Callable) -> Callable:
    """Make the function that gives the gradients with respect to all arguments, by their names."""
    signature = inspect.signature(fun)

    def gradients(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def of_names(named):
            call = inspect.BoundArguments(signature, dict(named))
            return fun(*call.args, **call.kwargs)

        return grad(of_names)(dict(bound.arguments))

    return gradients
