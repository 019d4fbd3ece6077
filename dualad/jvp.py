"""The forward-mode transform: ``jvp``, and ``stop_gradient``.

For: opening a dual level, checking that primals and tangents agree, and taking the result apart again.
Not for: the arithmetic of Duals (``dual.py`` and the rules).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, overload

import numpy as np
import optree

from .base.arguments import check_callable, own_results
from .base.frames import public
from .base.signatures import Args, Aux, Out, Tree
from .base.tree import LeafName, flatten, flatten_like, is_array, tree_map
from .boundary.boundary import run
from .core.aval import aval_of, is_inexact
from .core.constants import foreign
from .core.contexts import active
from .dual import Dual, DualLevel, check_tangent, float0, shown_tangent, split, strip
from .errors import ArgumentTypeError
from .ops.shaping import stop_gradient as stop_gradient_op
from .surface.leaves import as_primal, output_leaves, plain_leaf, split_aux, static_leaf

__all__ = ["jvp", "stop_gradient"]


@overload
def jvp(
    f: Callable[Args, Out], primals: Sequence, tangents: Sequence, *, has_aux: Literal[False] = False
) -> tuple[Out, Out]: ...
@overload
def jvp(
    f: Callable[Args, tuple[Out, Aux]], primals: Sequence, tangents: Sequence, *, has_aux: Literal[True]
) -> tuple[Out, Out, Aux]: ...
@overload
def jvp(f: Callable, primals: Sequence, tangents: Sequence, *, has_aux: bool) -> tuple: ...
@public
def jvp(f: Callable, primals: Sequence, tangents: Sequence, *, has_aux: bool = False) -> tuple:
    """Evaluate a function and its Jacobian-vector product.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy.
    primals : tuple or list
        Its arguments: trees of numbers and arrays. Leaves that are not arrays (strings, callables) are static.
    tangents : tuple or list
        A direction for each of them: same trees, shapes and dtypes. ``None`` means zero; for integers and booleans it
        is ``None``, zeros, or an array of dtype ``dualad.float0``.
    has_aux : bool
        Whether ``f`` returns ``(out, aux)``, of which ``aux`` is handed through without its tangent.

    Returns
    -------
    out : tree
        ``f(*primals)``.
    tangent_out : tree
        ∂f(primals)·tangents, of the same structure, shapes and dtypes; of dtype ``float0`` for integer results.
    aux : tree
        Only with ``has_aux``.

    Raises
    ------
    ArgumentTypeError, TreeError, ShapeError, DtypeError
        If primals and tangents do not agree.
    OutputError
        If ``f`` returns something other than numbers and arrays.

    Examples
    --------
    >>> value, tangent = da.jvp(lambda x: np.sum(x**2), (np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),))
    >>> float(value), float(tangent)
    (5.0, 2.0)
    """
    check_callable(f, "jvp")
    for name, x in (("primals", primals), ("tangents", tangents)):
        if not isinstance(x, (tuple, list)):
            raise ArgumentTypeError(
                f"jvp: {name} is a {type(x).__name__}.",
                "it holds one entry per argument of the function, and an array would be taken apart by mistake",
                f"write ({name[:-1]},) for a function of one argument",
            )
    leaves, treedef = flatten(tuple(primals))
    tangent_leaves = flatten_like(treedef, tuple(tangents), "tangents", "primals")
    with DualLevel("jvp") as level:
        level.function = f
        duals = [_dual(p, t, level, i, tangents) for i, (p, t) in enumerate(zip(leaves, tangent_leaves, strict=True))]
        for i, d in enumerate(duals):
            if type(d) is Dual:
                d._origin = (treedef, i, False)
        out = run(f, optree.tree_unflatten(treedef, duals), {})
        out, aux = split_aux(out, "jvp") if has_aux else (out, None)
        out_leaves, out_tree = output_leaves(out, "jvp", leaves)
        pairs = [split(x, level) for x in out_leaves]
        aux = tree_map(lambda x: strip(x, level), aux)
    if (watch := active()) is not None:
        watch.finished("jvp", [p for p, _ in pairs], [t for _, t in pairs])
    value = optree.tree_unflatten(out_tree, [p for p, _ in pairs])
    shown = own_results([shown_tangent(p, t) for p, t in pairs], tangent_leaves)
    tangent = optree.tree_unflatten(out_tree, shown)
    return (value, tangent, aux) if has_aux else (value, tangent)


def stop_gradient(tree: Tree) -> Tree:
    """Return the same values as constants: every level of differentiation sees a zero tangent.

    Parameters
    ----------
    tree : tree
        Arrays, numbers; anything else passes through.

    Returns
    -------
    tree
        The same values, without tangents at any level.

    Examples
    --------
    >>> value, tangent = da.jvp(lambda v: da.stop_gradient(v) * v, (3.0,), (1.0,))
    >>> float(value), float(tangent)
    (9.0, 3.0)
    """
    return tree_map(_stop, tree)


def _stop(x):
    value = stop_gradient_op(x) if is_array(x) else x
    # The inside of a Dual is nobody else's to write to.
    return value.copy() if isinstance(x, Dual) and isinstance(value, np.ndarray) else value


# ── pieces shared by the transforms ──────────────────────────────────────────────────────────────────────────────


def _dual(primal, tangent, level: DualLevel, i: int, tangents):
    if not is_array(primal):
        return static_leaf(primal, LeafName(tangents, "primals", i), "jvp")
    name = LeafName(tangents, "tangents", i)
    primal = as_primal(primal, f"primals leaf {i}", "jvp")
    inexact = is_inexact(aval_of(primal).dtype)
    if tangent is None:
        return Dual(primal, None, level) if inexact else primal
    tangent = plain_leaf(tangent, name, "jvp")
    if inexact or (aval_of(tangent).dtype != float0 and (foreign(tangent) is not None or np.any(tangent))):
        check_tangent(primal, tangent, name, "jvp")
    if not inexact:
        return primal
    if not hasattr(tangent, "shape") or (type(tangent) is np.ndarray and not tangent.shape):
        tangent = np.asarray(tangent)[()]
    return Dual(primal, tangent, level)
