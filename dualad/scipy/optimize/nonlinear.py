"""A nonlinear problem as functions of x and of numbers, compiled once for the functions that it is made of.

Numbers among the arguments of f(x, *args) and c(x, *args) are inputs of the compiled code, everything else is part of
it, so that a search from another start or for other numbers compiles nothing. What the functions read besides is
guarded as by every ``jit``. Not for: solvers (``ipopt.py``).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import scipy.sparse as ss

from ...base.tree import is_array
from ...core.above import ABOVE
from ...core.aval import aval_of, is_inexact
from ...errors import DualadError, PerformanceNote, ShapeError, SparsityError
from ...guards.places import same
from ...surface.arguments import operand
from ...vjp_via_transpose import grad, value_and_grad
from .problem import compiled, compiled_later, is_jitted
from .stationary import Part

__all__ = ["Curvature", "Matrix", "Model", "Rows", "known_result", "model_of", "one_number"]

#: problems whose compiled functions are kept: those that were solved last
_KEPT = 8
_models: list[Model] = []


def one_number(out: Any, where: str) -> Any:
    """Return an objective's result as a number."""
    out = operand(out)
    if np.size(out) == 1:
        return np.reshape(out, ())
    raise ShapeError(
        f"{where}: the function returned an array of shape {np.shape(out)}.", "it returns one number",
        "minimize a sum, or return the root of one equation",
    )  # fmt: skip


class Matrix:
    """A sparse derivative: where its entries are, and a compiled function that returns them."""

    def __init__(self, prepared: Any, derivative: Any, at: Sequence) -> None:
        self.prepared = prepared
        self.rows, self.columns = derivative.structure()
        self.data = compiled(derivative.data, *at)


class Model:
    """Functions of (x, *numbers) that are made of users' functions and their arguments, compiled at such a point.

    ``functions`` are the objective, which returns a pair if ``pair``, and those of the constraints; ``given`` are the
    arguments of each, and ``known`` are pairs: whether its first and its second derivative are users'. If not
    ``opened``, the numbers among the arguments are constants as well.
    """

    def __init__(
        self, where: str, functions: list, pair: bool, given: list, known: list, x: Any, opened: bool
    ) -> None:  # fmt: skip
        self.functions, self.pair, self.known, self.opened = functions, pair, known, opened
        #: which arguments are inputs: of which function, and which of its
        self.places = places = [
            (k, i) for k, args in enumerate(given) for i, v in enumerate(args) if opened and _is_number(v)
        ]
        self.key = self._forms(given, x)
        self._matrices: dict[str, Matrix] = {}

        def called(k: int, x: Any, numbers: tuple) -> Any:
            args = list(given[k])
            for (owner, i), v in zip(places, numbers, strict=True):
                if owner == k:
                    args[i] = v
            return functions[k](x, *args)

        def value(x: Any, *numbers: Any) -> Any:
            out = called(0, x, numbers)
            return one_number(out[0] if pair else out, where)

        def holding(order: int) -> Callable:
            ours = [k for k in range(1, len(functions)) if not (order and known[k][order - 1])]

            def held(x: Any, *numbers: Any) -> Any:
                return np.concatenate([np.reshape(operand(called(k, x, numbers)), (-1,)) for k in ours])

            return held

        held, bent = holding(0), holding(2)

        def lagrangian(x: Any, multipliers: Any, factor: Any, *numbers: Any) -> Any:
            out = 0.0 if known[0][1] else factor * value(x, *numbers)
            return out + np.sum(multipliers * bent(x, *numbers)) if len(multipliers) else out

        value.__name__ = getattr(functions[0], "__name__", "objective")
        at = x, *self.numbers(given)
        self.value = compiled(value, *at)
        self.held = compiled(held, *at) if len(functions) > 1 else held
        #: whether a function that should be is not compiled
        self.is_plain = self.value is value or (self.held is held and len(functions) > 1)
        self.value_and_gradient, self._slope = compiled_later(value_and_grad(value)), grad(value)
        self._is_slope_compiled = False
        self._derivatives = {
            "jacobian": ABOVE.sparse_jacobian(holding(1)), "hessian": ABOVE.sparse_hessian(lagrangian, triangle="lower")
        }  # fmt: skip

    def gradient(self, *at: Any) -> Callable:
        """Return the gradient of the objective, compiled."""
        if not self._is_slope_compiled:
            self._slope, self._is_slope_compiled = compiled(self._slope, *at), True
        return self._slope

    def numbers(self, given: list) -> list:
        """Return the numbers among arguments."""
        return [given[k][i] for k, i in self.places]

    def fits(self, functions: list, pair: bool, given: list, known: list, x: Any) -> bool:
        """Whether this is the model of these functions and arguments."""
        return (
            (pair, known) == (self.pair, self.known)
            and all([_is_same(f, g) for f, g in zip(functions, self.functions, strict=True)])
            and same(self._forms(given, x), self.key)
        )

    def _forms(self, given: list, x: Any) -> tuple:
        return (x.size, *[tuple([_form(v, self.opened) for v in args]) for args in given])

    def matrix(self, name: str, *at: Any) -> Matrix:
        """Return the ``"jacobian"`` of the constraints, or the lower triangle of the Lagrangian's ``"hessian"``."""
        derivative, known = self._derivatives[name], self._matrices.get(name)
        if known is not None and is_jitted(known.data):
            with suppress(DualadError):  # which is raised below, too
                known.data(*at)  # compares what it reads, sooner than Python does, and finds another pattern
                if derivative.sparsity is known.prepared.sparsity:
                    return known
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerformanceNote)  # that a small matrix is dense is no news here
            prepared = derivative.prepare(*at)
        if known is None or known.prepared is not prepared:
            known = self._matrices[name] = Matrix(prepared, derivative, at)
        return known


def known_result(f: Callable, x: Any, args: Sequence) -> list | None:
    """Return the aval of what a function returns, where it was compiled by itself for such an x and no arguments."""
    for m in () if args else _models:
        alone = m.functions[:1] if _is_same(m.functions[0], f) else m.functions[1:]
        if len(alone) == 1 and _is_same(alone[0], f) and not (m.pair or any(m.key[1:])) and m.key[0] == x.size:
            compiled = m.value if alone[0] is m.functions[0] else m.held
            with suppress(DualadError):  # which the function itself will raise
                return [aval_of(compiled(x))] if is_jitted(compiled) else None
    return None


def _is_same(f: Any, g: Any) -> bool:
    """Whether two functions are one: also a lambda made again, over the same variables, by a function called again."""
    if f is g or type(f) is MethodType:
        return f is g or f == g
    if type(f) is not FunctionType or type(g) is not FunctionType or f.__code__ is not g.__code__:
        return False
    parts = [(h.__globals__, *(h.__closure__ or ()), *(h.__defaults__ or ())) for h in (f, g)]
    more = [h for h in (f, g) if h.__kwdefaults__ or h.__dict__]
    return not more and len(parts[0]) == len(parts[1]) and all([a is b for a, b in zip(*parts, strict=True)])


def _is_number(v: Any) -> bool:
    return is_array(v) and is_inexact(aval_of(v).dtype)


def _form(v: Any, opened: bool) -> Any:
    """Return an argument's part of the key of compiled code."""
    if not is_array(v):
        return v
    a = aval_of(v)
    form = a.shape, a.dtype.str
    return form if opened and _is_number(v) else (*form, type(v).__name__, np.asarray(v).tobytes())


def model_of(where: str, pair: bool, parts: list[Part], x: Any) -> tuple[Model, list]:
    """Return the model of an objective and constraints, and the numbers to call it with."""
    functions, given = [p.function for p in parts], [p.given for p in parts]
    known = [(p.jac is not None, p.hess is not None) for p in parts]
    model = next((m for m in _models if m.fits(functions, pair, given, known, x)), None)
    if model is None:
        model = Model(where, functions, pair, given, known, x, opened=True)
        if model.is_plain and model.places:  # it may branch on one of the numbers
            model = Model(where, functions, pair, given, known, x, opened=False)
        _models[:] = [model, *_models][:_KEPT]
    return model, model.numbers(given)


class _Users:
    """A user's matrix: the entries of a sparse one where it has them first, and all of a dense one.

    Of a ``symmetric`` one they are those of the lower triangle.
    """

    def __init__(self, f: Callable, where: str, symmetric: bool, *at: Any) -> None:
        self._f, self._where, self._symmetric = f, where, symmetric
        self._first = M = self._matrix(*at)
        if ss.issparse(M):
            found = M.tocoo()
            self.rows, self.columns = found.row, found.col
        else:
            keep = np.tril(np.ones(M.shape, bool)) if symmetric else np.ones(M.shape, bool)
            self.rows, self.columns = np.nonzero(keep)

    def _matrix(self, *at: Any) -> Any:
        M = self._f(*at)
        if ss.issparse(M):
            M = (ss.tril(M) if self._symmetric else M).tocsr()
            M.sum_duplicates()
            return M
        if not isinstance(M, np.ndarray) and hasattr(M, "matvec"):  # a LinearOperator
            M = M @ np.eye(at[0].size)
        return np.atleast_2d(np.asarray(M, float))

    def data(self, *at: Any) -> Any:
        """Return the entries."""
        M, first = self._matrix(*at), self._first
        if not ss.issparse(M):
            return M[self.rows, self.columns]
        if np.array_equal(M.indptr, first.indptr) and np.array_equal(M.indices, first.indices):
            return M.data
        raise SparsityError(
            f"{self._where}: a sparse matrix of yours has other entries than at the start.",
            "the solver is told once where entries are",
            "store the zeros among them too, or return a dense matrix",
        )


class Rows:
    """Constraints in their order, and the entries of their Jacobian: ours, users' matrices, those of linear ones.

    ``functions`` are to be those of the model for these numbers, by name.
    """

    def __init__(self, model: Model, parts: list[Part], x: Any, numbers: list, where: str) -> None:
        rows = _rows_of(parts)
        is_linear = [p.function is None for p in parts]
        #: the places of the functions' results
        self.curved = _joined(rows, [not x for x in is_linear])
        self._straight = _joined(rows, is_linear)
        matrices = [ss.csr_array(p.given) for p in parts if p.function is None]
        #: those of linear constraints, if there are any
        self._A = ss.vstack(matrices, format="csr") if matrices else None
        bent = _joined(rows, [p.function is not None and p.jac is None for p in parts])
        #: our matrix
        self.ours = model.matrix("jacobian", x, *numbers) if len(bent) else None
        users = [(r, _Users(p.jac, where, False, x)) for r, p in zip(rows, parts, strict=True) if p.jac is not None]
        self.users = [u for _, u in users]
        made = [(bent, self.ours)] if self.ours is not None else []
        made += users
        rows_at, columns = [r[m.rows] for r, m in made], [m.columns for _, m in made]
        if self._A is not None:
            A = self._A.tocoo()
            rows_at, columns = [*rows_at, self._straight[A.row]], [*columns, A.col]
        self.rows, self.columns = np.concatenate(rows_at), np.concatenate(columns)
        self.functions: dict[str, Callable] = {}
        #: whether the model's functions return all of the values, and all entries
        self.is_curved = not len(self._straight)
        self.is_ours = self.is_curved and not self.users

    def values(self, x: Any) -> Any:
        """Return c(x)."""
        out = np.empty(len(self.curved) + len(self._straight))
        if len(self.curved):
            out[self.curved] = self.functions["constraints"](x)
        if self._A is not None:
            out[self._straight] = self._A @ x
        return out

    def entries(self, x: Any) -> Any:
        """Return the entries of the Jacobian."""
        found = [] if self.ours is None else [self.functions["jacobian"](x)]
        return np.concatenate([*found, *[u.data(x) for u in self.users], *([] if self._A is None else [self._A.data])])


class Curvature:
    """The lower triangle of the Hessian of σ f + Σ μᵢ cᵢ: ours, and users' matrices beside it."""

    def __init__(self, model: Model, objective: Part, parts: list[Part], x: Any, numbers: list, where: str) -> None:
        rows = _rows_of(parts)
        self._bent = _joined(rows, [p.function is not None and p.hess is None for p in parts])
        #: where our matrix is made, which is none where all are users'
        self.at = x, np.ones(len(self._bent)), 1.0, *numbers
        is_needed = objective.hess is None or len(self._bent)
        self.ours = model.matrix("hessian", *self.at) if is_needed else None
        self._first = None if objective.hess is None else _Users(objective.hess, where, True, x)
        self._users = [
            (r, _Users(p.hess, where, True, x, np.ones(len(r))))
            for r, p in zip(rows, parts, strict=True) if p.hess is not None
        ]  # fmt: skip
        self.users = [m for m in (self._first, *[u for _, u in self._users]) if m is not None]
        made = [*([] if self.ours is None else [self.ours]), *self.users]
        self.rows, self.columns = [np.concatenate([getattr(m, side) for m in made]) for side in ("rows", "columns")]
        #: whether the model's function returns all of it
        self.is_ours = not self.users and len(self._bent) == sum([p.size for p in parts])
        self.functions: dict[str, Callable] = {}

    def entries(self, x: Any, multipliers: Any, factor: Any) -> Any:
        """Return the entries."""
        found = [] if self.ours is None else [self.functions["hessian"](x, multipliers[self._bent], factor)]
        if self._first is not None:
            found.append(factor * self._first.data(x))
        return np.concatenate([*found, *[u.data(x, multipliers[r]) for r, u in self._users]])


def _rows_of(parts: list[Part]) -> list:
    """Return the places of each constraint among all."""
    ends = np.cumsum([0, *[p.size for p in parts]])
    return [np.arange(a, b) for a, b in itertools.pairwise(ends)]


def _joined(rows: list, chosen: list) -> Any:
    return np.concatenate([np.zeros(0, int), *itertools.compress(rows, chosen)])
