"""A nonlinear problem as functions of x and of numbers, compiled once for the functions that it is made of.

Numbers among the arguments of f(x, *args) and c(x, *args) are inputs of the compiled code, everything else is part of
it, so that a search from another start or for other numbers compiles nothing. What the functions read besides is
guarded as by every ``jit``. Not for: solvers (``ipopt.py``).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import numpy as np
import scipy.sparse as ss

from ...base.tree import is_array
from ...core.above import ABOVE
from ...core.aval import aval_of, is_inexact
from ...errors import PerformanceNote, ShapeError
from ...guards.places import same
from ...surface.arguments import operand
from ...vjp_via_transpose import grad, value_and_grad
from .problem import compiled, compiled_later

__all__ = ["Matrix", "Model", "Rows", "model_of", "one_number"]

#: problems whose compiled functions are kept: those that were solved last
_KEPT = 8
_models: list[Model] = []


def one_number(out: Any, where: str) -> Any:
    """Return what an objective returned as a number."""
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
    arguments of each. If not ``opened``, the numbers among those are constants as well.
    """

    def __init__(self, where: str, functions: list, pair: bool, given: list, x: Any, opened: bool) -> None:
        self.functions, self.pair, self.opened = functions, pair, opened
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

        def held(x: Any, *numbers: Any) -> Any:
            return np.concatenate([np.reshape(operand(called(k, x, numbers)), (-1,)) for k in range(1, len(functions))])

        def lagrangian(x: Any, multipliers: Any, factor: Any, *numbers: Any) -> Any:
            out = factor * value(x, *numbers)
            return out + np.sum(multipliers * held(x, *numbers)) if len(functions) > 1 else out

        value.__name__ = getattr(functions[0], "__name__", "objective")
        at = x, *self.numbers(given)
        self.value = compiled(value, *at)
        self.held = compiled(held, *at) if len(functions) > 1 else held
        #: whether a function that should be is not compiled
        self.is_plain = self.value is value or (self.held is held and len(functions) > 1)
        self.gradient, self.value_and_gradient = compiled_later(grad(value)), compiled_later(value_and_grad(value))
        self._derivatives = {
            "jacobian": ABOVE.sparse_jacobian(held), "hessian": ABOVE.sparse_hessian(lagrangian, triangle="lower")
        }  # fmt: skip

    def numbers(self, given: list) -> list:
        """Return the numbers among arguments."""
        return [given[k][i] for k, i in self.places]

    def fits(self, functions: list, pair: bool, given: list, x: Any) -> bool:
        """Whether this is the model of these functions and arguments."""
        return (
            (pair, len(functions)) == (self.pair, len(self.functions))
            and all(
                [f is g or (type(f) is MethodType and f == g) for f, g in zip(functions, self.functions, strict=True)]
            )
            and same(self._forms(given, x), self.key)
        )

    def _forms(self, given: list, x: Any) -> tuple:
        return (x.size, *[tuple([_form(v, self.opened) for v in args]) for args in given])

    def matrix(self, name: str, *at: Any) -> Matrix:
        """Return the ``"jacobian"`` of the constraints, or the lower triangle of the Lagrangian's ``"hessian"``."""
        derivative, known = self._derivatives[name], self._matrices.get(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerformanceNote)  # that a small matrix is dense is no news here
            prepared = derivative.prepare(*at)
        if known is None or known.prepared is not prepared:
            known = self._matrices[name] = Matrix(prepared, derivative, at)
        return known


def _is_number(v: Any) -> bool:
    return is_array(v) and is_inexact(aval_of(v).dtype)


def _form(v: Any, opened: bool) -> Any:
    """Return what an argument has to be for the same compiled code."""
    if not is_array(v):
        return v
    a = aval_of(v)
    form = a.shape, a.dtype.str
    return form if opened and _is_number(v) else (*form, type(v).__name__, np.asarray(v).tobytes())


def model_of(where: str, pair: bool, parts: list[tuple[Callable, tuple]], x: Any) -> tuple[Model, list]:
    """Return the model of an objective and constraints, each with its arguments, and the numbers to call it with."""
    functions, given = [f for f, _ in parts], [args for _, args in parts]
    model = next((m for m in _models if m.fits(functions, pair, given, x)), None)
    if model is None:
        model = Model(where, functions, pair, given, x, opened=True)
        if model.is_plain and model.places:  # it may branch on one of the numbers
            model = Model(where, functions, pair, given, x, opened=False)
        _models[:] = [model, *_models][:_KEPT]
    return model, model.numbers(given)


class Rows:
    """Constraints in their order, linear ones as matrices; ``parts`` are those of ``Constraints.apart``."""

    def __init__(self, model: Model, parts: list, x: Any, numbers: list) -> None:
        ends = np.cumsum([0, *[size for size, _, _ in parts]])
        rows = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
        linear = [f is None for _, f, _ in parts]
        #: the places of the functions' results
        self.curved = np.concatenate([np.zeros(0, int), *itertools.compress(rows, [not x for x in linear])])
        self._straight = np.setdiff1d(np.arange(ends[-1]), self.curved)
        matrices = [ss.csr_array(A) for _, f, A in parts if f is None]
        self._A = ss.vstack([ss.csr_array((0, x.size)), *matrices], format="csr")
        A = self._A.tocoo()
        self._model, self._numbers = model, numbers
        self._bent = model.matrix("jacobian", x, *numbers) if len(self.curved) else None
        self.rows, self.columns = self._straight[A.row], A.col
        if self._bent is not None:
            self.rows = np.concatenate([self.curved[self._bent.rows], self.rows])
            self.columns = np.concatenate([self._bent.columns, self.columns])

    def values(self, x: Any) -> Any:
        """Return c(x)."""
        found = self._model.held(x, *self._numbers) if len(self.curved) else np.zeros(0)
        if not len(self._straight):
            return found
        out = np.empty(len(self.curved) + len(self._straight))
        out[self.curved], out[self._straight] = found, self._A @ x
        return out

    def entries(self, x: Any) -> Any:
        """Return the entries of the Jacobian."""
        if self._bent is None:
            return self._A.data
        found = self._bent.data(x, *self._numbers)
        return np.concatenate([found, self._A.data]) if len(self._straight) else found
