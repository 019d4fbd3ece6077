"""Tracing: a function written down as a program, without running it on data.

For: ``trace`` and the transforms made of it (``make_program``, ``eval_shape``). Not for: the tangent of a function
(``linearize.py``); that program is linear, this one need not be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optree

from ..base.arguments import check_callable
from ..base.frames import public
from ..base.signatures import Args
from ..base.tree import flatten, is_array
from ..boundary.boundary import run
from ..boundary.transformed import Transformed, transform
from ..core.aval import aval_of
from ..program.ir import Program
from ..program.variable import Variable
from ..surface.leaves import as_primal, output_leaves
from ..tensors.staged import Staged, StagedLevel

__all__ = ["eval_shape", "make_program", "trace"]


@public
def trace(f: Callable[Args, Any], *args: Args.args, **kwargs: Args.kwargs) -> Program:
    """Write a function down as a program, from the shapes and dtypes of sample arguments.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy; it must not branch on values.
    *args, **kwargs : trees of arrays
        Sample arguments. Only their shapes and dtypes are used; static leaves (strings, ...) become constants.

    Returns
    -------
    Program
        Printable, and callable with arguments like the samples.

    Raises
    ------
    BranchError
        If ``f`` branches on a value, which a program does not know.

    Examples
    --------
    >>> program = da.trace(lambda x: np.sin(x) * 2.0, 1.0)
    >>> [e.op.name for e in program.equations]
    ['sin', 'multiply']
    >>> float(program(0.0))
    0.0
    """
    check_callable(f, "trace")
    leaves, in_tree = flatten((args, kwargs))
    with StagedLevel("trace", owning=True) as level:
        level.function = f
        staged = [
            level.new_input(aval_of(x)) if is_array(x) else x
            for x in [as_primal(x, f"argument leaf {i}", "trace") for i, x in enumerate(leaves)]
        ]
        for i, x in enumerate(staged):
            if type(x) is Staged:
                x._origin = (in_tree, i, True)
        inner_args, inner_kwargs = optree.tree_unflatten(in_tree, staged)
        out = run(f, inner_args, inner_kwargs)
        out_leaves, out_tree = output_leaves(out, "trace", leaves)
        program = level.finish(out_leaves, getattr(f, "__name__", "program"))
    program.in_tree, program.out_tree = in_tree, out_tree
    return program


@transform
def make_program(f: Callable[Args, Any]) -> Callable[Args, Program]:
    """Make a function that writes ``f`` down for the arguments it is called with: ``trace``, unrun.

    Parameters
    ----------
    f : callable
        As of :func:`trace`.

    Returns
    -------
    callable
        A function of the arguments of ``f`` that returns a :class:`Program`.

    Raises
    ------
    BranchError, ...
        By that function, as :func:`trace`.

    Examples
    --------
    >>> float(da.make_program(lambda x: x * 2.0)(1.0)(4.0))
    8.0
    """
    check_callable(f, "")
    return Transformed(lambda *args, **kwargs: trace(f, *args, **kwargs), f, "")


@public
def eval_shape(f: Callable[Args, Any], *args: Args.args, **kwargs: Args.kwargs) -> Any:
    """Return the shapes and dtypes of what ``f`` returns, without computing it.

    Parameters
    ----------
    f, *args, **kwargs
        As of :func:`trace`: only shapes and dtypes of the arguments are used.

    Returns
    -------
    tree of Aval
        Like the result of ``f``; each leaf has ``shape`` and ``dtype``.

    Raises
    ------
    BranchError, ...
        If the function can't be traced, as for :func:`trace`.

    Examples
    --------
    >>> da.eval_shape(lambda x: {"gram": x @ x.T}, np.ones((2, 3)))["gram"].shape
    (2, 2)
    """
    program = trace(f, *args, **kwargs)
    shapes = [x.aval if isinstance(x, Variable) else aval_of(x) if is_array(x) else x for x in program.outputs]
    return optree.tree_unflatten(program.out_tree, shapes)
