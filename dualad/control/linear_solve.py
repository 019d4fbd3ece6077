"""Linear systems solved by code of the user's, and their derivatives: ``custom_linear_solve``.

    A(r) x = b:    A ẋ = ḃ − (∂A · ṙ) x,   and the cotangent of b solves Aᵀ b̄ = x̄

The solver is Python code on plain arrays, called once per lane under ``vmap``. Not for: equations that are not linear
(``implicit.py``), or NumPy's own solvers, which are operators (``ops/factorization.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..base.arguments import check_callable
from ..base.frames import public
from ..base.tree import flatten, flatten_like, is_array, leaf_names, treedef_outline
from ..core.aval import Aval, aval_of, is_inexact
from ..core.constants import foreign
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import Tracer
from ..errors import ArgumentTypeError, CapturedTensorError, DtypeError, RuleMissingError, ShapeError, TreeError
from ..rules.calls import check_result_aval, partition, push_moving
from ..rules.closures import detached
from ..surface.arguments import operand
from ..vjp_via_transpose import linear_transpose
from .subprograms import runner, stage

__all__ = ["LinearSolve", "Unknown", "cast", "custom_linear_solve", "dense_solve", "linear_solve"]


class Unknown:
    """The tree that is solved for: its structure, shapes and dtypes."""

    __slots__ = ("avals", "names", "tree", "where")

    def __init__(self, example: Any, name: str, where: str) -> None:
        leaves, self.tree = flatten(example)
        self.where, self.names = where, leaf_names(example, name)
        self.avals = []
        for x, path in zip(leaves, self.names, strict=True):
            if not is_array(x):
                raise ArgumentTypeError(
                    f"{where}: {path} is {x!r} of type {type(x).__name__}.",
                    "it is solved for as a number or an array",
                    "pass numbers and arrays",
                )
            a = aval_of(x)
            self.avals.append(Aval(a.shape, a.dtype if is_inexact(a.dtype) else np.dtype(float)))

    @property
    def size(self) -> int:
        """How many numbers are solved for."""
        return sum(a.size for a in self.avals)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of all of them in one vector."""
        return np.result_type(*[a.dtype for a in self.avals])

    def start(self, example: Any) -> list:
        """Return the leaves of an example, integers as floats."""
        leaves = [operand(x) if hasattr(x, "shape") else x for x in flatten(example)[0]]
        return [cast(x, a.dtype) for x, a in zip(leaves, self.avals, strict=True)]

    def fill(self, values: Sequence) -> Any:
        """Return leaves as the user's tree."""
        return optree.tree_unflatten(self.tree, list(values))

    def found(self, out: Any, who: str) -> list:
        """Check what a solver returned and return its leaves, in the dtypes of the unknown."""
        leaves, tree = flatten(out)
        if tree != self.tree or not all([is_array(x) for x in leaves]):
            hint = "return sol.x" if hasattr(out, "x") else "return the solution alone, like the example it was given"
            shown = f"a {type(out).__name__}" if hasattr(out, "x") or tree == self.tree else treedef_outline(tree)
            raise TreeError(
                f"{self.where}: {who} returned {shown}; expected {treedef_outline(self.tree)}.",
                "the solution is of the structure of what it started from",
                hint,
            )
        return [self._leaf(x, a, name, who) for x, a, name in zip(leaves, self.avals, self.names, strict=True)]

    def _leaf(self, x, aval: Aval, name: str, who: str):
        if isinstance(x, Tracer):
            raise CapturedTensorError(
                f"{self.where}: {who} returned a {x._kind()} for {name}.",
                "it is called with plain arrays, so it reads a traced value through a closure or a global",
                "use only what it is given, or hand values on with args=",
            )
        a = check_result_aval(
            x, aval, name, f"{self.where}: {who}", "the solution has the shapes of what it started from",
            f"reshape it to {aval.shape}",
        )  # fmt: skip
        if a.dtype.kind == "c" and aval.dtype.kind != "c":
            raise DtypeError(
                f"{self.where}: {who} returned a complex value for {name}, which is real.",
                "the imaginary part would be dropped silently",
                "start from a complex value, or return np.real of it",
            )
        return cast(x, aval.dtype) if foreign(x) is not None else np.asarray(x, aval.dtype)[()]

    def vector(self, leaves: Sequence):
        """Return leaves as one vector."""
        return np.concatenate([np.reshape(x, (-1,)) for x in leaves])

    def leaves(self, vector) -> list:
        """Return one vector as leaves."""
        out, start = [], 0
        for a in self.avals:
            part = np.reshape(vector[start : start + a.size], a.shape) if a.shape else vector[start]
            out.append(cast(part, a.dtype))
            start += a.size
        return out


def cast(x, dtype: np.dtype):
    """Return a value in a dtype, the real part where that is real."""
    if not hasattr(x, "dtype"):
        return np.asarray(x, dtype)[()]
    if x.dtype == dtype:
        return x
    return (np.real(x) if x.dtype.kind == "c" and dtype.kind != "c" else x).astype(dtype)


# ── linear solves: linear_solve(*b, *residuals) ──────────────────────────────────────────────────────────────────


class LinearSolve:
    """A linear system: a parameter of the operator.

    ``matvec(residuals, vectors)`` takes and returns flat lists; ``solve(matvec, b, residuals)`` is the user's code, of
    trees of plain arrays. With ``flipped`` the system is the transposed one.
    """

    __slots__ = ("flipped", "matvec", "name", "solve", "transpose_solve", "unknown")

    def __init__(self, name, matvec, solve, transpose_solve, unknown, flipped=False) -> None:
        self.name, self.matvec, self.unknown, self.flipped = name, matvec, unknown, flipped
        self.solve, self.transpose_solve = solve, transpose_solve

    def __repr__(self) -> str:
        return f"<linear system of {self.name}>"

    def times(self, residuals: Sequence, vectors: Sequence) -> list:
        """Multiply with the matrix of the system, transposed if it is flipped."""
        if not self.flipped:
            return self.matvec(residuals, vectors)
        examples = [np.broadcast_to(np.zeros((), a.dtype), a.shape) for a in self.unknown.avals]
        return list(linear_transpose(lambda *v: list(self.matvec(residuals, list(v))), *examples)(list(vectors)))

    def transposed(self) -> LinearSolve:
        """Return the transposed system, whose transpose is this one."""
        return LinearSolve(self.name, self.matvec, self.transpose_solve, self.solve, self.unknown, not self.flipped)


def _count(call: LinearSolve) -> int:
    return len(call.unknown.avals)


def _linear_impl(*args, call):
    k, unknown = _count(call), call.unknown
    b, residuals = list(args[:k]), list(args[k:])

    def matvec(tree):
        vectors = flatten_like(unknown.tree, tree, f"{unknown.where}: what matvec was given", "b")
        # SciPy asks for the dtype of the product with a vector of int8.
        vectors = [
            cast(v if hasattr(v, "dtype") else np.asarray(v)[()], a.dtype)
            for v, a in zip(vectors, unknown.avals, strict=True)
        ]
        return unknown.fill(call.times(residuals, vectors))

    out = call.solve(matvec, unknown.fill(b), residuals)
    return tuple(unknown.found(out, "transpose_solve" if call.flipped else "solve"))


def _linear_jvp(primals, tangents, *, call):
    k = _count(call)
    x = bind(linear_solve, primals, {"call": call})
    b = [
        np.zeros(a.shape, a.dtype)[()] if t is None else t
        for t, a in zip(tangents[:k], call.unknown.avals, strict=True)
    ]
    if any([t is not None for t in tangents[k:]]):
        moved = push_moving(lambda *residuals: call.times(list(residuals), list(x)), primals[k:], tangents[k:])[1]
        b = [s - cast(t, a.dtype) for s, t, a in zip(b, moved, call.unknown.avals, strict=True)]
    return x, bind(linear_solve, (*b, *primals[k:]), {"call": call})


def _linear_transpose(ct, *args, call):
    if call.transpose_solve is None:
        raise RuleMissingError(
            f"reverse mode met the custom_linear_solve of `{call.name}`, which has no transpose_solve.",
            "the cotangent of b solves the transposed system, and solve may rely on more than its matvec",
            "pass transpose_solve= (solve itself, if it uses nothing but matvec and b), or symmetric=True",
        )
    k = _count(call)
    return (*bind(linear_solve, (*ct, *args[k:]), {"call": call.transposed()}), *[None] * (len(args) - k))


def dense_solve(matvec: Callable, b: Any, residuals: Sequence):
    """Solve a system of one vector by building its matrix."""
    n = aval_of(b).size
    return np.linalg.solve(np.stack([matvec(e) for e in np.eye(n)], 1), b)


def _samples():
    unknown = Unknown(np.zeros(3), "b", "samples")
    call = LinearSolve("sample", lambda r, v: [r[0] @ v[0] + np.sum(v[0]) * r[1]], dense_solve, dense_solve, unknown)
    matrix = lambda rng: rng.normal(size=(3, 3)) + 4 * np.eye(3)
    return [((3,), matrix, (3,), {"call": call})]


linear_solve = Primitive(
    "linear_solve",
    impl=_linear_impl,
    abstract_eval=lambda *avals, call: tuple(call.unknown.avals),
    jvp=_linear_jvp,
    linear_in=lambda count, params: range(_count(params["call"])),
    joint=True,
    transpose=_linear_transpose,
    samples=_samples,
    multiple_results=True,
    given=("solve",),
    raises=True,
    kind="implicit",
)


@public
def custom_linear_solve(
    matvec: Callable, b: Any, solve: Callable, transpose_solve: Callable | None = None, symmetric: bool = False, *,
    args: tuple = (),
) -> Any:  # fmt: skip
    """Solve A x = b with code of your own, and differentiate the solution in b and in whatever A depends on.

    Parameters
    ----------
    matvec : callable
        ``matvec(x, *args)`` multiplies with A, in plain NumPy. It may read traced values from its closure.
    b : tree of floating or complex arrays
        The right-hand side; x has its structure, shapes and dtypes.
    solve : callable
        ``solve(matvec, b, *args) -> x``: any Python code; it is given plain arrays, once per lane under ``vmap``, and
        a ``matvec`` of one plain argument. Traced values in its closure are plain there.
    transpose_solve : callable, optional
        ``transpose_solve(vecmat, c, *args)`` solves Aᵀ x = c, given a function that multiplies with Aᵀ. Reverse mode
        needs it. Pass ``solve`` again if that uses nothing but its matvec (a Krylov method for general matrices).
    symmetric : bool
        Whether A = Aᵀ (for complex matrices too: not Hermitian); then ``solve`` serves both.
    args : tuple of trees
        Values that ``matvec``, ``solve`` and ``transpose_solve`` are all given, traced or not.

    Returns
    -------
    tree
        x.

    Raises
    ------
    NotLinearError
        If ``matvec`` is not linear.
    RuleMissingError
        In reverse mode without ``transpose_solve``.
    TreeError, ShapeError, DtypeError
        If ``solve`` returns something that is not like ``b``.
    CapturedTensorError
        If ``solve`` reads a traced value that it is not given, and that is not found in its closure (but in a global).

    Examples
    --------
    >>> def jacobi(matvec, b):
    ...     x = np.zeros_like(b)
    ...     for _ in range(60):
    ...         x = x + (b - matvec(x)) / 4
    ...     return x
    >>> A = np.array([[4.0, 1.0], [1.0, 4.0]])
    >>> f = lambda a: np.sum(da.custom_linear_solve(lambda x: a @ x, np.ones(2), jacobi, symmetric=True))
    >>> da.grad(f)(A).round(6)
    array([[-0.04, -0.04],
           [-0.04, -0.04]])
    """
    check_callable(matvec, "custom_linear_solve", "matvec")
    check_callable(solve, "custom_linear_solve", "solve")
    where, name = "custom_linear_solve", getattr(matvec, "__name__", type(matvec).__name__)
    unknown = Unknown(b, "b", where)
    values = unknown.start(b)
    template, given = partition(args)

    def flat_matvec(*vectors):
        out = flatten(matvec(unknown.fill(vectors), *args))[0]
        if [np.shape(x) for x in out] != [a.shape for a in unknown.avals]:
            shapes = [a.shape for a in unknown.avals]
            raise ShapeError(
                f"{where}: `{name}` returned shapes {[np.shape(x) for x in out]} for {shapes}.",
                "the matrix is square: what it is multiplied with and the product are like b",
                "return an array like the argument",
            )
        return [cast(x, a.dtype) for x, a in zip(out, unknown.avals, strict=True)]

    body = stage(flat_matvec, unknown.avals, name, where, linear=True)
    # The solution depends on what the solvers read only as far as the matrix does: of that they need the values.
    solvers = (solve, solve if symmetric else transpose_solve)
    held, with_held = detached(solvers)
    product, n, m = runner(body.program), len(given), len(given) + len(held)

    def multiplied(residuals, vectors):
        return product(*vectors, *residuals[m:])

    def with_args(i):
        if solvers[i] is None:
            return None
        return lambda mv, c, residuals: with_held(residuals[n:m])[i](mv, c, *template.fill(residuals[:n]))

    call = LinearSolve(name, multiplied, with_args(0), with_args(1), unknown)
    return unknown.fill(bind(linear_solve, (*values, *given, *held, *body.captured), {"call": call}))
