"""Implicit derivatives: of solutions that a solver found, by the equation they satisfy and not by its steps.

    f(x, θ) = 0:   ∂ₓf · ẋ = −∂_θf · θ̇        custom_root, and fixed_point with f(x, θ) − x

Solvers are Python code on plain arrays (SciPy's, anything); under ``vmap`` they are called once per lane. A solution
is one operator, whose tangent is a linear solve that reverse mode transposes. What functions read from their closures
is found by writing them down once, as bodies of loops are. Not for: solvers, or linear systems (``linear_solve.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Literal

import numpy as np
import optree

from ..base.arguments import check_callable
from ..base.frames import public
from ..base.terminal import Progress
from ..base.tree import flatten, flatten_like, is_array, treedef_outline
from ..batched import one_by_one
from ..core.above import ABOVE
from ..core.aval import Aval, aval_of
from ..core.dispatch import bind
from ..core.libraries import refuse_lazy
from ..core.primitive import Primitive
from ..core.tracer import Tracer
from ..errors import ArgumentTypeError, CapturedTensorError, ConvergenceError, OutputError, ShapeError, TreeError
from ..jvp import jvp
from ..rules.calls import check_result_aval, has_tensor, partition, push_moving
from ..rules.closures import detached
from ..surface.arguments import operand
from ..vmap import vmap
from .factored_solve import Factors, solve_factored
from .linear_solve import LinearSolve, Unknown, cast, dense_solve, linear_solve
from .subprograms import runner, stage

__all__ = ["Equation", "custom_root", "fixed_point", "root"]

#: the factors of a matrix of fewer rows are not worth keeping
_FEW = 32


def _residual_leaves(out: Any, unknown: Unknown, who: str) -> list:
    """Check what f returned: as many numbers as there are unknowns, in any structure."""
    leaves = [operand(x) if isinstance(x, np.ndarray) else x for x in flatten(out)[0]]
    count = sum([aval_of(x).size for x in leaves if is_array(x)])
    if count != unknown.size or not all([is_array(x) for x in leaves]):
        raise ShapeError(
            f"{unknown.where}: {who} returned {count} numbers for {unknown.size} unknowns.",
            "there are as many equations as unknowns",
            "return one residual for every number in x0",
        )
    return leaves


# ── roots: root(*x0, *parameters) → (*x, *found) ─────────────────────────────────────────────────────────────────


class Equation:
    """An equation, which the user calls ``name``: a parameter of the operator. Functions take and return flat lists.

    ``f(x, parameters)`` is zero at the solution; ``unknown`` names the unknowns. ``solve(x0, parameters)`` is the
    user's code, of plain arrays: it returns x and what else it ``found``, which has no derivative (counts, which
    inequalities are equations) and comes first among the parameters that ``f`` is given. ``tangent_solve`` is as for
    :func:`custom_root`, and ``with_plain(parameters)`` the same with plain values in its closure.
    """

    __slots__ = ("f", "factors", "found", "name", "solve", "tangent_solve", "unknown", "with_plain")
    #: ``solve_lanes(size, mapped, values)``, if there is one, is ``solve`` for lanes at once; the values are x0 and the
    #: parameters
    solve_lanes: Callable | None = None

    def __init__(
        self, name: str, f: Callable, solve: Callable, unknown: Unknown, tangent_solve=None, found: Sequence = (),
        with_plain: Callable | None = None,
    ) -> None:  # fmt: skip
        self.name, self.f, self.solve, self.unknown, self.tangent_solve = name, f, solve, unknown, tangent_solve
        self.with_plain = with_plain or (lambda parameters: tangent_solve)
        self.found, self.factors = tuple(found), Factors()

    def __repr__(self) -> str:
        return f"<equation of {self.name}>"

    def flat(self, v, *parameters):
        """Return the residual at x as one vector."""
        return self.unknown.vector(self.f(self.unknown.leaves(v), list(parameters)))

    def product(self, residuals: Sequence, vectors: Sequence) -> list:
        """Multiply with ∂f/∂x; the residuals are x and the parameters."""
        k = len(self.unknown.avals)
        at, parameters = residuals[:k], residuals[k:]
        moved = jvp(lambda *xs: self.f(list(xs), parameters), tuple(at), tuple(vectors))[1]
        # As a vector first: the residual may have another structure than the unknown.
        return self.unknown.leaves(self.unknown.vector(moved))

    def jacobian(self, residuals: Sequence):
        """Return ∂f/∂x as a matrix, one column per unknown."""
        unknown = self.unknown
        column = lambda e: unknown.vector(self.product(residuals, unknown.leaves(e)))
        return vmap(column, out_axes=1, randomness="same")(np.eye(unknown.size, dtype=unknown.dtype))

    def tangent(self, residuals: Sequence, b):
        """Solve ∂f/∂x·v = b for vectors; the residuals are x and the parameters."""
        unknown = self.unknown
        k = len(unknown.avals)
        if self.tangent_solve == "sparse":
            at = unknown.vector(residuals[:k]), list(residuals[k:])
            return ABOVE.sparse_solve(self.flat, *at, b, self.factors)
        if self.tangent_solve is None:
            J = self.jacobian(residuals)
            return np.linalg.solve(J, b) if unknown.size < _FEW else solve_factored(J, b, self.factors)
        solve = lambda matvec, c, residuals: self.with_plain(residuals[k:])(matvec, c)
        system = LinearSolve(self.name, self.product, solve, solve, unknown)
        return unknown.vector(bind(linear_solve, (*unknown.leaves(b), *residuals), {"call": system}))


class _Lanes(Equation):
    """One equation in lanes, which are solved at once: what is ``mapped`` has one more leading axis."""

    __slots__ = ("base", "mapped", "size")

    def __init__(self, base: Equation, size: int, mapped: Sequence[bool]) -> None:
        self.base, self.size, self.mapped = base, size, tuple(mapped)
        unknown = copy(base.unknown)
        unknown.avals, found = [[Aval((size, *a.shape), a.dtype) for a in part] for part in (unknown.avals, base.found)]
        solve = lambda x0, parameters: base.solve_lanes(size, self.mapped, [*x0, *parameters])
        super().__init__(base.name, self._residual, solve, unknown, None, found)

    def _over_lanes(self, function: Callable, at: Sequence, more: Sequence = ()) -> list:
        known = len(self.unknown.avals) + len(self.found)
        axes = [*[0] * known, *[0 if m else None for m in self.mapped[len(self.unknown.avals) :]], *[0] * len(more)]
        return vmap(function, in_axes=tuple(axes), randomness="same")(*at, *more)

    def _residual(self, x: list, parameters: list) -> list:
        k = len(x)
        return self._over_lanes(lambda *at: self.base.f(list(at[:k]), list(at[k:])), [*x, *parameters])

    def tangent(self, residuals: Sequence, b):
        """Solve ∂f/∂x·v = b, lane by lane."""
        base, count = self.base, len(residuals)

        def one(*at):
            return base.unknown.leaves(base.tangent(list(at[:count]), base.unknown.vector(at[count:])))

        return self.unknown.vector(self._over_lanes(one, residuals, self.unknown.leaves(b)))


def _root_batch(size, values, mapped, *, call):
    if call.solve_lanes is None or not size:
        return one_by_one(root)(size, values, mapped, call=call)
    return bind(root, values, {"call": _Lanes(call, size, mapped)})


def _root_impl(*args, call):
    k = len(call.unknown.avals)
    return tuple(call.solve(list(args[:k]), list(args[k:])))


def _root_jvp(primals, tangents, *, call):
    unknown = call.unknown
    k = len(unknown.avals)
    out = bind(root, primals, {"call": call})
    x, found = out[:k], out[k:]
    if not any([t is not None for t in tangents[k:]]):  # the solution does not depend on where the search for it began
        return out, (None,) * len(out)
    moved = push_moving(lambda *parameters: call.f(list(x), [*found, *parameters]), primals[k:], tangents[k:])[1]
    v = call.tangent([*x, *found, *primals[k:]], -unknown.vector(moved))
    return out, (*unknown.leaves(v), *[None] * len(found))


def _root_samples():
    unknown = Unknown(np.zeros(2), "x0", "samples")

    def f(x, p):
        return [p[0] @ x[0] + np.sin(x[0]) * 0.3 - p[1]]

    def newton(x0, p):
        x = x0[0]
        for _ in range(40):
            x = x - np.linalg.solve(p[0] + np.diag(0.3 * np.cos(x)), f([x], p)[0])
        return [x]

    def dense(matvec, b):
        return dense_solve(matvec, b, ())

    matrix = lambda rng: rng.normal(size=(2, 2)) * 0.4 + 3 * np.eye(2)
    return [
        ((2,), matrix, (2,), {"call": Equation("sample", f, newton, unknown)}),
        ((2,), matrix, (2,), {"call": Equation("sample", f, newton, unknown, dense)}),
    ]


root = Primitive(
    "root",
    impl=_root_impl,
    abstract_eval=lambda *avals, call: (*call.unknown.avals, *call.found),
    jvp=_root_jvp,
    batch=_root_batch,
    samples=_root_samples,
    multiple_results=True,
    given=("solve",),
    raises=True,
    kind="implicit",
)


@public
def custom_root(
    f: Callable, x0: Any, solve: Callable, tangent_solve: Callable | Literal["sparse"] | None = None, *,
    args: tuple = (),
) -> Any:  # fmt: skip
    """Solve f(x) = 0 with code of your own, and differentiate the solution in whatever f depends on.

    Parameters
    ----------
    f : callable
        ``f(x, *args)``: as many residuals as there are unknowns, in plain NumPy. It may read traced values from its
        closure, unless it branches on values.
    x0 : tree of arrays
        Where to start; x has its structure, shapes and dtypes (integers become floats). The solution has no derivative
        in it.
    solve : callable
        ``solve(f, x0) -> x``: any Python code, ``scipy.optimize.root`` for instance; it is given plain arrays, once
        per lane under ``vmap``, and an ``f`` of one plain argument. Traced values in its closure are plain there. The
        derivative is right where f(x) = 0, so solve to a tolerance well below the accuracy asked of the derivative.
    tangent_solve : callable or "sparse", optional
        ``tangent_solve(matvec, b) -> v`` solves ∂f·v = b, on plain arrays; reverse mode calls it with a ``matvec``
        that multiplies with the transpose. By default the matrix is built and factorized; ``"sparse"`` finds its
        pattern and factorizes it as a sparse matrix, which needs SciPy.
    args : tuple of trees
        Further arguments of ``f``, traced or not.

    Returns
    -------
    tree
        x.

    Raises
    ------
    TreeError, ShapeError, DtypeError
        If ``solve`` returns something that is not like ``x0``, or ``f`` returns another number of residuals.
    CapturedTensorError
        If ``solve`` reads a traced value from a global, or ``f`` reads any and branches on values as well.

    Notes
    -----
    The implicit function theorem, as an operator: Blondel et al., *Efficient and modular implicit differentiation*
    (2022).

    Examples
    --------
    >>> def newton(f, x):
    ...     for _ in range(30):
    ...         x = x - f(x) / da.jvp(f, (x,), (1.0,))[1]
    ...     return x
    >>> square_root = lambda a: da.custom_root(lambda x: x**2 - a, 1.0, newton)
    >>> float(da.grad(square_root)(4.0)), float(da.grad(da.grad(square_root))(4.0))
    (0.25, -0.03125)
    """
    check_callable(f, "custom_root", "f")
    check_callable(solve, "custom_root", "solve")

    return _solve(f, x0, solve, args, tangent_solve, "custom_root", lambda x, out: out)


@public
def fixed_point(
    f: Callable, x0: Any, solve: Callable | None = None, *, args: tuple = (), tolerance: float | None = None,
    max_steps: int = 1000, tangent_solve: Callable | Literal["sparse"] | None = None, progress: bool = False,
) -> Any:  # fmt: skip
    """Solve x = f(x), by iterating or with code of your own, and differentiate the solution.

    Parameters
    ----------
    f : callable
        ``f(x, *args)``, like x. It may read traced values from its closure, unless it branches on values.
    x0 : tree of arrays
        Where to start; x has its structure, shapes and dtypes.
    solve : callable, optional
        ``solve(f, x0) -> x``: any Python code on plain arrays. By default x is replaced by f(x) until it stays.
    args : tuple of trees
        Further arguments of ``f``, traced or not.
    tolerance : float, optional
        The iteration ends when no entry changes by more than ``tolerance * (1 + max |x|)``; by default ε^¾ of the
        dtype, 2e-12 for double precision.
    max_steps : int
        How many steps it may take.
    tangent_solve : callable or "sparse", optional
        As for :func:`custom_root`; the matrix is that of v ↦ ∂f·v − v.
    progress : bool
        Whether to count the iterations on a terminal (``solve`` draws none).

    Returns
    -------
    tree
        x.

    Raises
    ------
    ConvergenceError
        If the iteration does not end within ``max_steps``, or leaves the finite numbers.
    TreeError, ShapeError, DtypeError
        If ``f`` or ``solve`` returns something that is not like ``x0``.

    Notes
    -----
    Christianson, *Reverse accumulation and attractive fixed points* (1994), with the linear system solved at once.

    Examples
    --------
    >>> cosine = lambda a: da.fixed_point(lambda x: np.cos(a * x), 1.0)
    >>> float(round(cosine(1.0), 6)), float(da.grad(cosine)(1.0).round(6))
    (0.739085, -0.297474)
    """
    check_callable(f, "fixed_point")

    def minus_x(x, out):
        return [cast(o, aval_of(v).dtype) - v for o, v in zip(out, x, strict=True)]

    def iterate(f: Callable, x: Any) -> Any:
        with Progress(quiet=not progress, of="iterations of fixed_point") as bar:
            return _iterate(bar.counting(f), x, tolerance, max_steps)

    return _solve(f, x0, solve or iterate, args, tangent_solve, "fixed_point", minus_x)


def _iterate(f: Callable, x: Any, tolerance: float | None, max_steps: int) -> Any:
    leaves, tree = flatten(x)
    if tolerance is not None and not isinstance(tolerance, (int, float, np.generic)):
        raise ArgumentTypeError(f"fixed_point: tolerance={tolerance!r}.", "it is a number", "pass a float such as 1e-9")
    dtype = np.result_type(*leaves)
    limit = float(np.finfo(dtype).eps) ** 0.75 if tolerance is None else tolerance
    change = np.inf
    for _ in range(max_steps):
        found, other = flatten(f(optree.tree_unflatten(tree, leaves)))
        if other != tree:
            raise TreeError(
                f"fixed_point: the function returned {treedef_outline(other)} for {treedef_outline(tree)}.",
                "x = f(x) can hold only where f returns what x is",
                "return the new x, in the same nesting of tuples, lists and dicts",
            )
        for y in found:
            refuse_lazy(y, "when fixed_point stops")
        new = [np.asarray(y) for y in found]
        change = max([float(np.max(abs(y - v), initial=0.0)) for y, v in zip(new, leaves, strict=True)])
        size = max([float(np.max(abs(y), initial=0.0)) for y in new])
        leaves = [y.astype(np.asarray(v).dtype)[()] for y, v in zip(new, leaves, strict=True)]
        if not np.isfinite(change):
            break
        if change <= limit * (1 + size):
            return optree.tree_unflatten(tree, leaves)
    raise ConvergenceError(
        f"fixed_point: x still changed by {change:.2g} after {max_steps} steps; the tolerance is {limit:.2g}.",
        "iterating x = f(x) converges only where f contracts",
        "start nearer, raise max_steps or tolerance, or pass solve= (Newton, Anderson acceleration)",
    )


def _solve(f, x0, solve, args, tangent_solve, where: str, residual_of: Callable):
    """Apply the operator: find what f depends on, and hand plain functions to the solver."""
    name = getattr(f, "__name__", type(f).__name__)
    if tangent_solve not in (None, "sparse"):
        check_callable(tangent_solve, where, "tangent_solve")
    unknown = Unknown(x0, "x0", where)
    start = unknown.start(x0)
    template, given = partition(args)
    k = len(start)
    trees: list = [None]

    def flat_f(x, parameters):
        out = f(unknown.fill(x), *template.fill(parameters))
        trees[0] = flatten(out)[1]
        return (_like_unknown if where == "fixed_point" else _residual_leaves)(out, unknown, f"`{name}`")

    captured, function = _close_over(flat_f, k, [*unknown.avals, *[aval_of(x) for x in given]], name, where)
    # The solution does not depend on how it is found: of what the solvers read they need the values.
    held, with_held = detached((solve, tangent_solve))
    m = len(given) + len(captured)

    def plain_solve(x, parameters):
        def plain_f(tree):
            values = flatten_like(unknown.tree, tree, f"{where}: what f was given", "x0")
            if not captured:
                out = f(tree, *template.fill(parameters))
                if not has_tensor(tree):  # a solver may differentiate f by itself
                    _check_plain(out, where, name)
                return out
            return optree.tree_unflatten(trees[0], function(values, parameters))

        parameters, values = parameters[:m], parameters[m:]
        return unknown.found(with_held(values)[0](plain_f, unknown.fill(x)), "solve")

    def residual(x, parameters):
        return residual_of(x, function(x, parameters[:m]))

    with_plain = lambda parameters: with_held(parameters[m:])[1]
    call = Equation(name, residual, plain_solve, unknown, tangent_solve, with_plain=with_plain)
    return unknown.fill(bind(root, (*start, *given, *captured, *held), {"call": call}))


def _close_over(flat_f: Callable, k: int, avals: list, name: str, where: str) -> tuple[list, Callable]:
    """Return the tensors that a function reads from its closure, and the function with those among its parameters.

    To find them it is written down once. A function that can't be (it branches on values, or is not NumPy) is used as
    it is, and noticed later if it reads any.
    """
    try:
        body = stage(lambda *flat: flat_f(list(flat[:k]), list(flat[k:])), avals, name, where)
    except (ShapeError, TreeError, OutputError):
        raise
    except Exception:
        return [], flat_f
    if not body.captured:
        return [], flat_f
    run = runner(body.program)
    return body.captured, lambda x, parameters: run(*x, *parameters)


def _check_plain(out: Any, where: str, name: str) -> None:
    for x in flatten(out)[0]:
        if isinstance(x, Tracer):
            raise CapturedTensorError(
                f"{where}: `{name}` returned a {x._kind()} for plain arguments.",
                "it reads a traced value through a closure, and could not be written down to find out which (it"
                " branches on values, or calls code that is not NumPy)",
                f"pass the value as an argument: {where}(f, x0, ..., args=(value,)) with f(x, value)",
            )


def _like_unknown(out: Any, unknown: Unknown, name: str) -> list:
    leaves = flatten_like(unknown.tree, out, f"{unknown.where}: what {name} returned", "x0")
    for x, a, path in zip(leaves, unknown.avals, unknown.names, strict=True):
        where = f"{unknown.where}: {name}"
        check_result_aval(x, a, path, where, "x = f(x) compares like with like", "return what f was given, changed")
    return leaves
