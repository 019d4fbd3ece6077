"""Systems with one matrix and many right-hand sides, whose factors are kept: ``factored_solve``.

The Jacobian at an answer is asked for by the tangents, by cotangents, by second derivatives and by each pull of a
gradient; all of them solve with one factorization, which belongs to the equation and goes when it goes. LAPACK's
factors are SciPy's; without SciPy systems are solved by NumPy, from scratch each time. Not for: sparse matrices
(``ops/sparse_product.py``), or matrices of users' own (``ops/factorization.py``).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..batched import one_by_one
from ..core.aval import Aval
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..ops.kinds import unbroadcast

__all__ = ["Factors", "LU", "factored_solve", "solve_factored"]

#: bytes of factors kept by one equation; those of one matrix always are
_KEPT = 2**25
#: a row this small relative to the others consists of rounding errors
_ROUNDING = 1e-15


@functools.cache
def _lapack() -> Any:
    """Return SciPy's module of LAPACK's functions, or ``None``."""
    try:
        return importlib.import_module("scipy.linalg.lapack")
    except ImportError:
        return None


class LU:
    """The factors of a matrix, of which rows and columns are scaled to sizes near 1 before.

    Variables and equations may be of any units, so that is what a condition number is about. The scales are powers of
    two: they change no digit.
    """

    __slots__ = ("_letter", "_lu", "_pivots", "_small", "_whole", "columns", "norm", "rows", "singular")

    def __init__(self, J: np.ndarray, rows: bool = True) -> None:
        largest = np.max(np.abs(J), axis=1, initial=0.0)
        self._whole = bool(np.isfinite(largest).all())
        #: whether a row is made of rounding errors
        self._small = self._whole and largest.min(initial=np.inf) < _ROUNDING * largest.max(initial=0.0)
        self.rows = _scale(largest) if rows and self._whole else np.ones(len(J))
        S = J * self.rows[:, None]
        self.columns = _scale(np.max(np.abs(S), axis=0, initial=0.0)) if self._whole else np.ones(len(J))
        S = (S * self.columns).astype(J.dtype)
        self.norm = float(np.max(np.sum(np.abs(S), 0), initial=0.0))
        self._letter = {"f": "s", "d": "d", "F": "c", "D": "z"}[S.dtype.char]
        self._pivots: Any
        factorize = getattr(_lapack(), self._letter + "getrf")
        self._lu, self._pivots, info = factorize(S) if S.size else (S, np.zeros(0, np.int32), 0)
        self.singular = info > 0

    @property
    def condition(self) -> float:
        """The condition number, estimated from the factors."""
        if not self._lu.size:
            return 1.0
        if not self._whole or self._small or self.singular:
            return np.inf
        share = getattr(_lapack(), self._letter + "gecon")(self._lu, self.norm)[0]
        return np.inf if share == 0 else float(1 / share)

    def solve(self, b: np.ndarray, transposed: bool = False) -> np.ndarray:
        """Return x of A x = b, or of Aᵀ x = b, for b of shape (n,) or (n, k)."""
        if self.singular:
            raise np.linalg.LinAlgError("Singular matrix")
        if np.iscomplexobj(b) and self._letter in "sd":
            return self.solve(b.real, transposed) + 1j * self.solve(b.imag, transposed)
        if not b.size:
            return np.zeros(b.shape, self._lu.dtype)
        before, after = (self.columns, self.rows) if transposed else (self.rows, self.columns)
        shape = (-1, *[1] * (b.ndim - 1))
        given = (b * before.reshape(shape)).astype(self._lu.dtype)
        x = getattr(_lapack(), self._letter + "getrs")(self._lu, self._pivots, given, trans=int(transposed))[0]
        return (x * after.reshape(shape)).astype(self._lu.dtype)


def _scale(sizes: np.ndarray) -> np.ndarray:
    """Return powers of two that bring sizes near 1."""
    return np.ldexp(1.0, -np.frexp(np.where(sizes > 0, sizes, 1.0))[1])


class Factors:
    """The factors of the matrices that one equation has met: a parameter of the operator.

    ``sparse`` is what a sparse matrix is made by: the function of its entries, and its pattern.
    """

    __slots__ = ("_kept", "sparse")

    def __init__(self) -> None:
        self._kept: dict[tuple, LU] = {}
        self.sparse: Any = None

    def __repr__(self) -> str:
        return "<factors>"

    def of(self, J: np.ndarray) -> LU:
        """Return the factors of a matrix, made once."""
        key = J.shape, J.dtype.char, J.tobytes()
        found = self._kept.get(key)
        if found is None:
            found, kept = LU(J), self._kept
            if sum([len(k[2]) for k in kept]) + J.nbytes > _KEPT:
                kept = {}
            self._kept = {**kept, key: found}
        return found


def _impl(J, b, *, factors, transposed):
    if _lapack() is None:
        return np.linalg.solve(J.T if transposed else J, b)
    J = np.asarray(J)
    J = J if J.dtype.char in "fdFD" else J.astype(float)
    return factors.of(J).solve(np.asarray(b), transposed).astype(_dtype(J, b))


def _dtype(J: Any, b: Any) -> np.dtype:
    exact = [d for d in (J.dtype, b.dtype) if d.kind not in "fc"]
    return np.result_type(J.dtype, b.dtype, *[np.float64 for _ in exact])


def _shape(J, b, *, factors, transposed):
    if len(J.shape) != 2 or J.shape[0] != J.shape[1] or len(b.shape) != 2 or b.shape[0] != J.shape[0]:
        raise ValueError(f"factored_solve: a matrix of {J.shape} and right-hand sides of {b.shape} do not match")
    return Aval(b.shape, _dtype(J, b))


def _jvp(primals: Sequence, tangents: Sequence, *, factors, transposed) -> tuple:
    J = primals[0]
    moved, right = tangents
    params = {"factors": factors, "transposed": transposed}
    x = bind(factored_solve, primals, params)
    if moved is not None:
        moved = np.swapaxes(moved, -1, -2) if transposed else moved
        right = -(moved @ x) if right is None else right - moved @ x
    return x, bind(factored_solve, (J, right), params)


def _transpose(ct, J, b, *, factors, transposed) -> tuple:
    return None, unbroadcast(bind(factored_solve, (J, ct), {"factors": factors, "transposed": not transposed}), b)


def _batch(size, values, mapped, *, factors, transposed):
    J, b = values
    params = {"factors": factors, "transposed": transposed}
    if mapped[0] or not size:  # each lane has an answer, and a matrix, of its own
        return one_by_one(factored_solve)(size, values, mapped, **params)
    n, k = b.shape[1:]
    x = bind(factored_solve, (J, np.reshape(np.moveaxis(b, 0, 1), (n, size * k))), params)
    return np.moveaxis(np.reshape(x, (n, size, k)), 1, 0)


def _samples() -> list:
    matrix = lambda n: lambda rng: rng.normal(size=(n, n)) + 3 * np.eye(n)
    imaginary = lambda rng: matrix(3)(rng) + 0.5j * rng.normal(size=(3, 3))
    columns = lambda *shape: lambda rng: rng.normal(size=shape) + 1j * rng.normal(size=shape)
    params = lambda transposed: {"factors": Factors(), "transposed": transposed}
    return [
        (matrix(3), (3, 2), params(False)), (matrix(3), (3, 1), params(True)), (matrix(1), (1, 1), params(False)),
        (matrix(2), (2, 0), params(False)), (imaginary, (3, 2), params(True)),
        (matrix(3), columns(3, 2), params(False)),
    ]  # fmt: skip


factored_solve = Primitive(
    "factored_solve",
    impl=_impl,
    abstract_eval=_shape,
    jvp=_jvp,
    linear_in=(1,),
    transpose=_transpose,
    batch=_batch,
    samples=_samples,
    raises=True,
    blocks="one",
)


def solve_factored(J: Any, b: Any, factors: Factors) -> Any:
    """Solve J x = b for a vector, differentiably in both, with factors that are kept."""
    columns = np.reshape(b, (-1, 1))
    return np.reshape(bind(factored_solve, (J, columns), {"factors": factors, "transposed": False}), (-1,))
