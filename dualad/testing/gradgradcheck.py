"""`gradgradcheck`: second derivatives, as first derivatives of the pullback in the arguments and in the cotangents.

Forward and reverse mode are each run over reverse mode, or over forward mode. Not for the comparison itself
(`gradcheck`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dualad.base.arguments import replace_at
from dualad.base.tree import flatten, flatten_like, is_array
from dualad.core.aval import aval_of, is_inexact
from dualad.jvp import jvp
from dualad.vjp_via_transpose import vjp

from .engine import chosen_mode
from .gradcheck import gradcheck
from .real_function import argument_names, as_arguments

__all__ = ["each_order", "first_derivative", "gradgradcheck", "random_like"]


def gradgradcheck(
    f: Callable,
    args: Any,
    cotangents: Any = None,
    *,
    inner: str = "reverse",
    noncontiguous_cotangents: bool = False,
    seed: int = 0,
    **switches: Any,
) -> bool:
    """Check a function's second derivatives: `gradcheck` of its first ones, in the arguments and in the cotangents.

    Parameters
    ----------
    f, args, seed
        As for :func:`gradcheck`.
    cotangents : tree, optional
        Of the structure of the function's result (with ``inner="forward"``, tangents like the tuple of arguments);
        random by default.
    inner : str
        ``"reverse"``: what is checked is the pullback; ``"forward"``: the tangent. The modes in ``modes`` run over it.
    noncontiguous_cotangents : bool
        Whether the generated cotangents have gaps in memory.
    **switches
        Those of :func:`gradcheck`.

    Returns
    -------
    bool
        As :func:`gradcheck`.

    Raises
    ------
    GradcheckError, UsageError
        As :func:`gradcheck`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import gradgradcheck
    >>> gradgradcheck(lambda x, y: np.sin(x) * y, (np.array([0.3, 1.2]), 2.0), fast_mode=True)
    True
    """
    args = as_arguments(args)
    mode = chosen_mode(inner)
    rng = np.random.default_rng(seed)
    found = first_derivative(f, args, mode, rng, given=cotangents, gaps=noncontiguous_cotangents)
    return True if found is None else gradcheck(*found, seed=seed, **switches)


def first_derivative(
    f: Callable, args: tuple, mode: str, rng: np.random.Generator, *, given: Any = None, gaps: bool = False
) -> tuple[Callable, tuple] | None:
    """Return a function's first derivative as a function of the arguments and the vectors, and where to check it.

    In ``"reverse"`` mode it is (arguments, cotangents) ↦ the pullback, in ``"forward"`` mode (arguments, tangents) ↦
    the tangent. The vectors are ``given``, or random, on request with gaps in memory. There is none (None) if no result
    is floating-point.
    """
    reverse = mode == "reverse"
    like = f(*args) if reverse else args
    leaves, treedef = flatten(like)
    unflatten: Callable[[list], Any] = treedef.unflatten
    places = [i for i, x in enumerate(leaves) if _is_floating(x)]
    if not places:
        return None
    vectors = [random_like(leaves[i], rng, gaps) for i in places]
    if given is not None:
        what, owner = ("the cotangent", "the function's result") if reverse else ("the tangents", "the arguments")
        all_given = flatten_like(treedef, given, what, owner)
        vectors = [np.zeros_like(leaves[i]) if all_given[i] is None else all_given[i] for i in places]

    def derivative(*values: Any) -> list[Any]:
        point = values[: len(args)]
        full = replace_at([None] * len(leaves), places, values[len(args) :])
        if not reverse:
            return _floating(jvp(f, point, unflatten(full))[1])
        out, pull = vjp(f, *point)
        for i, y in enumerate(flatten(out)[0]):
            # Differences are taken in double precision; a function may have casts of its own.
            if full[i] is not None and aval_of(full[i]).dtype != aval_of(y).dtype:
                full[i] = full[i].astype(aval_of(y).dtype)
        return _floating(pull(unflatten(full)))

    word = "cotangent" if reverse else "tangent"
    names = [*argument_names(f, len(args)), *[f"{word}{k}" for k in range(len(places))]]
    named: Any = derivative
    named.__name__ = f"{'pullback' if reverse else 'jvp'} of {getattr(f, '__name__', type(f).__name__)}"
    kind = inspect.Parameter.POSITIONAL_ONLY
    named.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in dict.fromkeys(names)])
    return derivative, (*args, *vectors)


def each_order(
    f: Callable, args: tuple, order: int, modes: Sequence[str], rng: np.random.Generator
) -> Iterator[tuple[Callable, tuple, tuple[str, ...]]]:
    """Yield a function, then its derivatives below an order in every composition of the modes.

    Each comes with the point to check it at, as `first_derivative` has it, and the modes it was taken in.
    """
    yield f, args, ()
    for mode in modes if order > 1 else ():
        found = first_derivative(f, args, mode, rng)
        if found is not None:
            for g, point, over in each_order(*found, order - 1, modes, rng):
                yield g, point, (mode, *over)


def random_like(x: Any, rng: np.random.Generator, gaps: bool = False) -> Any:
    """Return random numbers of an array's shape and dtype, on request with gaps in memory."""
    shape, dtype = np.shape(x), np.asarray(x).dtype
    full = (*shape, 2) if gaps else shape
    values = rng.standard_normal(full)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(full)
    values = np.asarray(values, dtype)
    return values[..., 0] if gaps and shape else values.reshape(-1)[0] if gaps else values[()]


def _is_floating(x: Any) -> bool:
    return is_array(x) and is_inexact(aval_of(x).dtype)


def _floating(tree: Any) -> list[Any]:
    return [x for x in flatten(tree)[0] if _is_floating(x)]
