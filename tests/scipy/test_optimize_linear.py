"""Linear least squares, linear programs and assignments: central differences, both modes, two orders; what is refused.

Not for: residuals that are functions (`test_optimize_least_squares.py`).
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import dualad as da
from dualad.errors import ConvergenceError, SingularMatrixError, UnsupportedError
from dualad.scipy import optimize
from dualad.scipy.optimize import linear
from tests.oracles.implicit import verify

RNG = np.random.default_rng(3)
A, D, R = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 3)), RNG.normal(size=6)
B = np.float64(1.3)
COST = np.array([-1.1, -2.0])
ROWS = np.array([[1.0, 1.0], [1.0, 3.0]])


def matrix(b):
    return A + np.sin(b) * D


def test_linear_least_squares() -> None:
    verify(lambda b: optimize.lsq_linear(matrix(b), R * b).x, B,
           exact=lambda b: np.linalg.solve(matrix(b).T @ matrix(b), matrix(b).T @ (R * b)))  # fmt: skip
    inside = lambda b: optimize.lsq_linear(matrix(b), R * b, bounds=(-0.5 * b, 0.25 * b), tol=1e-15)
    assert set(inside(B).active_mask) == {-1, 0, 1}
    verify(lambda b: inside(b).x, B, accuracy=1e-4, compiled=False)
    verify(lambda b: inside(b).cost, B, accuracy=1e-4, second=False, compiled=False)


def test_sparse_matrices() -> None:
    S = scipy.sparse.random_array((40, 10), density=0.3, rng=RNG) + scipy.sparse.eye_array(40, 10)
    b, v = RNG.normal(size=40), RNG.normal(size=40)
    dense = da.jvp(lambda b: optimize.lsq_linear(S.toarray(), b).x, (b,), (v,))[1]
    tangent = da.jvp(lambda b: optimize.lsq_linear(S, b, tol=1e-12, lsmr_tol=1e-13).x, (b,), (v,))[1]
    np.testing.assert_allclose(tangent, dense, rtol=1e-7)


def test_nonnegative_least_squares() -> None:
    target = A @ np.array([1.0, -1.0, 0.5])
    x = optimize.nnls(A, target)[0]
    assert np.count_nonzero(x) in (1, 2)
    verify(lambda b: optimize.nnls(A + 0.1 * np.sin(b) * D, target * b)[0], B, compiled=False)
    verify(lambda b: optimize.nnls(A + 0.1 * np.sin(b) * D, target * b)[1], B, second=False, compiled=False)


@pytest.mark.parametrize("field", ["x", "fun", "slack", "multipliers"])
def test_linear_programs(field) -> None:
    def f(b):
        out = optimize.linprog(COST * np.stack([b, 1 + 0 * b]), ROWS * b, np.array([4.0, 6.0]) * b**2)
        return out.ineqlin.marginals if field == "multipliers" else out[field]

    verify(f, B, compiled=field == "x")


def test_linear_programs_with_equations_and_bounds() -> None:
    def f(b):
        out = optimize.linprog(COST, A_eq=[[1.0, 1.0]], b_eq=[b], bounds=[(b / 5, b / 2), (0, None)])
        return np.concatenate([out.x, out.lower.marginals, out.eqlin.marginals, out.upper.residual[:1]])

    verify(f, B, compiled=False)
    seen = []
    da.jvp(lambda b: seen.append(optimize.linprog(COST, ROWS, np.array([4.0, 6.0]) * b)) or b, (B,), (1.0,))
    plain = scipy.optimize.linprog(COST, ROWS, np.array([4.0, 6.0]) * B)
    assert seen[0].success is True
    assert seen[0].keys() - {"njev", "nhev"} <= plain.keys()
    assert repr(optimize.linprog(COST, ROWS, [4.0, 6.0])) == repr(scipy.optimize.linprog(COST, ROWS, [4.0, 6.0]))


def test_assignments() -> None:
    C, E = RNG.normal(size=(4, 5)), RNG.normal(size=(4, 5))

    def f(b):
        cost = C + b**2 * E
        return np.sum(cost[optimize.linear_sum_assignment(cost)])

    verify(f, B)
    rows, columns = scipy.optimize.linear_sum_assignment(C)
    indicator = np.zeros((4, 5))
    indicator[rows, columns] = 1.0
    np.testing.assert_array_equal(da.grad(lambda C: np.sum(C[optimize.linear_sum_assignment(C)]))(C), indicator)
    both = da.vmap(lambda C: optimize.linear_sum_assignment(C, maximize=True)[1])(np.stack([C, -C]))
    np.testing.assert_array_equal(both[1], columns)


def test_what_has_no_derivative_is_an_error() -> None:
    corner = lambda b: optimize.linprog([-1.0, -1.0], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], np.stack([b, b, 2 * b])).fun
    with pytest.raises(SingularMatrixError, match="degenerate: 3 bounds and constraints are active for 2"):
        da.grad(corner)(1.0)
    edge = lambda b: optimize.linprog([-1.0, -1.0], [[1.0, 1.0]], np.stack([b])).x[0]
    with pytest.raises(SingularMatrixError, match="not the only one"):
        da.grad(edge)(1.0)
    with pytest.raises(SingularMatrixError, match="not the only one"):
        da.jit(da.grad(edge))(1.0)
    inside = lambda b: optimize.linprog([0.0, 0.0], [[1.0, 1.0]], np.stack([b]), method="highs-ipm").x[0]
    with pytest.raises(SingularMatrixError, match="not the only one"):
        da.grad(inside)(1.0)
    with pytest.raises(ConvergenceError, match="infeasible"):
        da.grad(lambda b: optimize.linprog([1.0], [[1.0]], np.stack([-b])).x[0])(1.0)
    with pytest.raises(UnsupportedError, match="integrality"):
        da.grad(lambda b: optimize.linprog([b], [[1.0]], [1.0], integrality=1).x[0])(1.0)
    with pytest.raises(UnsupportedError, match="integers"):
        da.grad(lambda b: optimize.milp(np.stack([b])).fun)(1.0)
    twin = lambda b: optimize.lsq_linear(np.stack([np.ones(3), np.ones(3)], 1) * b, np.ones(3)).x[0]
    with pytest.raises(SingularMatrixError, match="depend on each other"):
        da.grad(twin)(1.0)


def test_a_planted_fault_is_caught(monkeypatch) -> None:
    """Free variables that ignore how those at bounds move do not pass."""
    right = linear._Normal.dense

    def wrong(self, residuals, b):
        return right(self, residuals, b * np.where(residuals[1] == 0, 1.0, 0.0)) + b * np.where(
            residuals[1] == 0, 0.0, 1.0
        )

    monkeypatch.setattr(linear._Normal, "dense", wrong)
    with pytest.raises(AssertionError):
        test_linear_least_squares()
