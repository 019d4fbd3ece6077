"""Detection: the pattern of a Jacobian or Hessian, for all arguments or at one point.

A *global* pattern comes from the traced program of the tangent, in which the arguments are unknown: it holds for all
arguments of these shapes. Where the function can't be traced (a branch, a mask) a *local* one comes from its
linearization at the arguments that are there. Not for: what operators do with patterns (``maps.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.arguments import check_callable
from ..base.frames import public, user_level, users_line_of
from ..core.watch import Watch
from ..errors import ArgumentError, BranchError, DualadError, PerformanceNote, SparsityError
from ..jacobians.call import Options
from ..program.ir import Program
from ..program.variable import Step
from .needs import scipy_sparse
from .problem import Problem
from .structure import Sparsity
from .walk import TooDense, Walk, follow

__all__ = ["MAX_MEMORY", "Names", "Positions", "detect", "hessian_sparsity", "jacobian_sparsity", "pattern_of_program"]

#: bytes that detection may hold, by default
MAX_MEMORY = 1 << 30
#: bytes of an entry while it is followed: its column, its mark, and the copy that sorting makes
_ENTRY = 10
#: a matrix of at most this number of entries counts as small, however dense it is
_SMALL = 1_000_000
#: beyond this share of all entries following them one by one is not worth it
_DENSE = 0.2

Positions = int | Sequence[int] | None
Names = str | Sequence[str] | None


@public
def jacobian_sparsity(
    f: Callable, *args: Any, argnums: Positions = None, argnames: Names = None, scope: str = "auto",
    has_aux: bool = False, holomorphic: bool = False, max_memory: int | None = None, **kwargs: Any,
) -> Sparsity:  # fmt: skip
    """Find which entries of the Jacobian of a function can be other than zero.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy, of any trees.
    *args, **kwargs
        Sample arguments. A global pattern uses their shapes and dtypes alone.
    argnums, argnames
        Which arguments to differentiate, as for :func:`dualad.grad`.
    scope : {"auto", "global", "local"}
        ``"global"`` holds for all arguments of these shapes; ``"local"`` for the sample arguments and all points at
        which the function takes the same branches. ``"auto"`` is global, and local for a function that branches on
        values.
    has_aux, holomorphic : bool
        As for :func:`dualad.jacfwd`.
    max_memory : int, optional
        About how many bytes detection may hold; 1 GiB by default. A pattern that needs more is returned dense, with a
        note that names the line.

    Returns
    -------
    Sparsity
        Of shape (entries of the results, entries of the arguments), both in the order of their leaves.

    Raises
    ------
    BranchError, ...
        With ``scope="global"``, if the function can't be traced.
    SparsityError
        If the pattern is too dense to be held.

    Examples
    --------
    >>> da.jacobian_sparsity(lambda x: x[1:] * x[:-1], np.ones(4)).toarray().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    check_callable(f, "jacobian_sparsity")
    options = Options("jacobian_sparsity", argnums=argnums, argnames=argnames, has_aux=has_aux, holomorphic=holomorphic)
    return detect(Problem(f, args, kwargs, options, second=False), scope, max_memory)


@public
def hessian_sparsity(
    f: Callable, *args: Any, argnums: Positions = None, argnames: Names = None, scope: str = "auto",
    has_aux: bool = False, max_memory: int | None = None, **kwargs: Any,
) -> Sparsity:  # fmt: skip
    """Find which entries of the Hessian of a scalar-valued function can be other than zero.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy; it returns a real scalar.
    *args, **kwargs
        Sample arguments.
    argnums, argnames, scope, has_aux, max_memory
        As for :func:`jacobian_sparsity`.

    Returns
    -------
    Sparsity
        Symmetric, of shape (n, n), n being the number of entries of the chosen arguments.

    Raises
    ------
    OutputError
        If the result is not a real scalar.
    BranchError, SparsityError
        As for :func:`jacobian_sparsity`.

    Examples
    --------
    >>> da.hessian_sparsity(lambda x: x[0] * x[1] + x[2] ** 2 + x[3], np.ones(4)).toarray().astype(int)
    array([[0, 1, 0, 0],
           [1, 0, 0, 0],
           [0, 0, 1, 0],
           [0, 0, 0, 0]])
    """
    check_callable(f, "hessian_sparsity")
    options = Options("hessian_sparsity", argnums=argnums, argnames=argnames, has_aux=has_aux)
    return detect(Problem(f, args, kwargs, options, second=True), scope, max_memory)


def detect(problem: Problem, scope: str, max_memory: int | None) -> Sparsity:
    """Return the pattern of a problem's matrix."""
    if scope not in ("auto", "global", "local"):
        raise ArgumentError(
            f"{problem.where}: scope={scope!r}.", "a pattern holds everywhere or at a point",
            "use 'auto', 'global' or 'local'",
        )  # fmt: skip
    reason = ""
    if scope != "local":
        try:
            program = problem.traced()
        except DualadError as error:
            if scope == "global":
                raise
            reason = _reason(error)
        else:
            return pattern_of_program(problem, program, "global", "", max_memory)
    program = problem.linearized()[1].program
    return pattern_of_program(problem, program, "local", reason or "local: as asked", max_memory)


def pattern_of_program(problem: Problem, program: Program, scope: str, reason: str, max_memory: int | None) -> Sparsity:
    """Return the pattern of a program's linear map; a traced one has the point as its first inputs."""
    n = problem.n
    skip = len(program.inputs) - len(problem.avals)
    rows = sum([o.aval.size if hasattr(o, "aval") else np.size(o) for o in program.outputs])
    limit = (MAX_MEMORY if max_memory is None else max_memory) // _ENTRY
    most = min(limit, max(_SMALL, int(_DENSE * rows * n)))
    try:
        found, walk = follow(program, problem.sizes, scope == "global", most, skip)
    except TooDense as error:
        again = _walk_with_lines(problem, scope, skip, most)
        return _given_up(problem, (again if isinstance(again, TooDense) else error).step, rows, n, limit, scope)
    names: tuple[str, ...] = ()
    if walk.dense:
        again = _walk_with_lines(problem, scope, skip, most)
        names = tuple([_spell(step) for step in (again if isinstance(again, Walk) else walk).dense])
    if problem.second:
        found = found + found.T.tocsr()
    return Sparsity(found, scope, reason, names, walk.relies, walk.work / max(walk.volume, 1))


def _given_up(problem: Problem, step: Step | None, rows: int, n: int, limit: int, scope: str) -> Sparsity:
    culprit = "its own pattern" if step is None else _spell(step)
    if rows * n > limit:
        raise SparsityError(
            f"{problem.where}: the pattern of {rows} x {n} entries is too dense to be held; it became so at {culprit}.",
            f"more than {limit} entries would have to be followed",
            "pass max_memory= if there is more memory, use jacobian(...) with chunk_size=, or hvp, jvp and vjp, which"
            " need no matrix",
        )
    warnings.warn(
        f"{problem.where}: the pattern became so dense that it is taken as full, at {culprit}; dualad.jacobian or"
        " dualad.hessian is then the better choice.",
        PerformanceNote,
        stacklevel=user_level(),
    )
    return Sparsity(scipy_sparse().csr_array(np.ones((rows, n), bool)), scope, f"taken as full: {culprit}")


def _walk_with_lines(problem: Problem, scope: str, skip: int, limit: int) -> Walk | TooDense | None:
    """Walk once more through a program whose equations know their lines: only for messages."""
    with Watch().on():
        try:
            program = problem.traced() if scope == "global" else problem.linearized()[1].program
            return follow(program, problem.sizes, scope == "global", limit, skip)[1]
        except TooDense as error:
            return error
        except DualadError:
            return None


def _spell(step: Step) -> str:
    name = getattr(step.params.get("call"), "name", None)
    return f"`{step.op.name}`" + (f" of `{name}`" if name else "") + (f" at {step.line}" if step.line else "")


def _reason(error: DualadError) -> str:
    """Say why a pattern can only be local: what could not be traced, and where."""
    line = users_line_of(error)
    at = f" at {line.filename}:{line.lineno}" if line is not None else ""
    what = "branch" if isinstance(error, BranchError) else error.what.splitlines()[0]
    return f"local: {what}{at}"
