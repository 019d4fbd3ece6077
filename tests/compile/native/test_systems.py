"""Small matrices in compiled programs and their loops: against NumPy, with its errors, to second derivatives.

Not for: stacks of matrices (`test_stacks.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.scipy.linalg import solve_triangular

pytest.importorskip("llvmlite", reason="linear systems are machine code where llvmlite is installed")

TURNS = 5


def repeated(solve: Callable) -> Callable:
    """Make a loop in which each turn solves a system that depends on the one before."""

    def run(a: Any, b: Any) -> Any:
        def turn(carry: tuple) -> tuple:
            i, x = carry
            return i + 1, solve(a + 0.01 * np.sum(x) * np.eye(len(a)), b + 0.1 * x)

        return da.while_loop(lambda carry: carry[0] < TURNS, turn, (np.int64(0), 0.0 * b))[1]

    return run


def by_numpy(solve: Callable, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = 0.0 * b
    for _ in range(TURNS):
        x = solve(a + 0.01 * np.sum(x) * np.eye(len(a)), b + 0.1 * x)
    return x


WAYS: dict[str, Callable] = {"solve": np.linalg.solve, "inv": lambda a, b: np.linalg.inv(a) @ b}


@pytest.mark.parametrize("way", WAYS)
def test_the_loop_is_machine_code(way: str) -> None:
    text = da.jit(repeated(WAYS[way])).explain(np.eye(20), np.ones(20))
    assert not text.partition("left to NumPy and Python:")[2]


@pytest.mark.parametrize("columns", [None, 1, 3, 9])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 16, 20, 32, 33])
@pytest.mark.parametrize("way", WAYS)
def test_solutions_are_numpys(way: str, n: int, columns: int | None) -> None:
    rng = np.random.default_rng(n)
    # Rows in another order, and of sizes far apart: without exchanges of rows this is not solved.
    a = (rng.normal(size=(n, n)) + 3 * np.eye(n))[rng.permutation(n)] * 10.0 ** rng.integers(-3, 3, (n, 1))
    b = rng.normal(size=n if columns is None else (n, columns))
    np.testing.assert_allclose(da.jit(repeated(WAYS[way]))(a, b), by_numpy(WAYS[way], a, b), rtol=1e-8, atol=1e-10)


def test_a_zero_on_the_diagonal_is_no_pivot() -> None:
    a = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [4.0, 0.0, 0.0]])
    f = repeated(lambda a, b: np.linalg.solve(a - np.diag(np.diag(a)), b))
    expected = by_numpy(lambda a, b: np.linalg.solve(a - np.diag(np.diag(a)), b), a, np.ones(3))
    np.testing.assert_allclose(da.jit(f)(a, np.ones(3)), expected, rtol=1e-14)


@pytest.mark.parametrize("way", WAYS)
def test_a_singular_matrix_raises_as_numpy_does(way: str) -> None:
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    f = da.jit(lambda a, b: da.fori_loop(0, 3, lambda i, x: WAYS[way](a, b + 0.1 * x), 0.0 * b))
    assert np.isfinite(f(a + np.eye(3), np.ones(3))).all()
    with pytest.raises(np.linalg.LinAlgError):
        f(a, np.ones(3))
    assert np.isfinite(f(a + np.eye(3), np.ones(3))).all()


def test_nan_and_infinity_pass_through() -> None:
    a, b = np.eye(3) + 0.1, np.array([1.0, np.nan, 2.0])
    assert np.isnan(da.jit(repeated(np.linalg.solve))(a, b)).all()


@pytest.mark.parametrize("way", WAYS)
def test_derivatives(way: str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(4, 4)) + 4 * np.eye(4), rng.normal(size=4)

    def f(a: Any) -> Any:
        step = lambda x, _: (WAYS[way](a + 0.1 * np.outer(x, x), b + x), None)
        return np.sum(da.scan(step, 0.0 * b, None, length=3)[0] ** 2)

    unit = rng.normal(size=(4, 4))
    slope = lambda e: (f(a + e * unit) - f(a - e * unit)) / (2 * e)
    expected = (4 * slope(1e-4) - slope(2e-4)) / 3
    assert np.sum(da.jit(da.grad(f))(a) * unit) == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(da.jit(da.grad(f))(a), da.grad(f)(a), rtol=1e-12)
    np.testing.assert_allclose(da.jit(da.hessian(f))(a), da.hessian(f)(a), rtol=1e-9, atol=1e-12)
    lanes = np.stack([a, a + 0.1, 2 * a])
    np.testing.assert_allclose(da.jit(da.vmap(da.grad(f)))(lanes), [da.grad(f)(x) for x in lanes], rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, complex])
def test_other_types_are_left_to_numpy(dtype: Any) -> None:
    a, b = (np.eye(3) * 2 + 0.5).astype(dtype), np.ones(3, dtype)
    f = lambda a, b: da.fori_loop(0, 3, lambda i, x: np.linalg.solve(a, b + x), b)
    out = da.jit(f)(a, b)
    assert out.dtype == dtype
    np.testing.assert_allclose(out, f(a, b), rtol=1e-5)


def _definite(a: Any) -> Any:
    return a @ a.T + np.eye(len(a))


MATRICES: dict[str, Callable] = {
    "det": np.linalg.det,
    "slogdet": lambda a: np.sum(np.array([*np.linalg.slogdet(a)])),
    "cholesky": lambda a: np.sum(np.linalg.cholesky(_definite(a)) * np.cos(a)),
    "lower": lambda a: np.sum(solve_triangular(a, np.cos(a), lower=True) ** 2),
    "upper": lambda a: np.sum(solve_triangular(a, a[0]) ** 2),
    "unit": lambda a: np.sum(solve_triangular(0.1 * a, a[0], lower=True, unit_diagonal=True) ** 2),
}


def _looped(f: Callable) -> Callable:
    def run(a: Any) -> Any:
        turn = lambda c, _: ((s := f(c)), c + 0.01 * np.tanh(s) * np.cos(c))[::-1]
        return np.sum(da.scan(turn, a, None, length=3)[1])

    return run


@pytest.mark.parametrize(("n", "looped"), [(1, False), (3, False), (12, False), (3, True), (9, True)])
@pytest.mark.parametrize("name", MATRICES)
def test_matrices_have_numpys_values_and_derivatives(name: str, n: int, looped: bool) -> None:
    f, rng = (_looped if looped else lambda f: f)(MATRICES[name]), np.random.default_rng(n)
    a = (rng.normal(size=(n, n)) + 3 * np.eye(n))[:, rng.permutation(n) if name in ("det", "slogdet") else slice(None)]
    fast = da.jit(f)
    assert not fast.explain(a).partition("left to NumPy and Python:")[2]
    np.testing.assert_allclose(fast(a), f(a), rtol=1e-9)
    gradient = da.grad(f)(a)
    np.testing.assert_allclose(da.jit(da.grad(f))(a), gradient, rtol=1e-8, atol=1e-9 * np.max(abs(gradient)))
    if n == 3 and not looped:
        hessian = da.hessian(f)(a)
        np.testing.assert_allclose(da.jit(da.hessian(f))(a), hessian, rtol=1e-8, atol=1e-9 * np.max(abs(hessian)))


def test_singular_matrices_have_determinants_with_derivatives() -> None:
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    for x in (a, np.zeros((3, 3)), np.diag([1.0, 1e-9, 1.0])):
        cofactors = np.array([np.cross(x[1], x[2]), np.cross(x[2], x[0]), np.cross(x[0], x[1])])
        np.testing.assert_allclose(da.jit(np.linalg.det)(x), np.linalg.det(x), atol=1e-15)
        np.testing.assert_allclose(da.jit(da.grad(np.linalg.det))(x), cofactors, atol=1e-14)
    assert da.jit(np.linalg.slogdet)(np.zeros((2, 2))) == np.linalg.slogdet(np.zeros((2, 2)))


def test_matrices_that_have_no_factor_raise_as_numpy_does() -> None:
    root, lower = da.jit(np.linalg.cholesky), da.jit(lambda a: solve_triangular(a, a[0], lower=True))
    for f in (root, lower):
        f(np.eye(3))
        with pytest.raises(np.linalg.LinAlgError):
            f(np.diag([1.0, 0.0, 1.0]))
    for bad in (np.diag([1.0, -1e-30]), np.array([[1.0, 5.0], [1.0, 1.0]])):
        with pytest.raises(np.linalg.LinAlgError):
            da.jit(np.linalg.cholesky)(bad)


def test_the_other_triangle_is_not_read() -> None:
    a = np.where(np.tri(5, dtype=bool), np.tri(5) + np.eye(5), np.nan)
    np.testing.assert_allclose(
        da.jit(lambda a: solve_triangular(a, np.ones(5), lower=True))(a), np.linalg.solve(np.nan_to_num(a), np.ones(5))
    )
    definite = np.where(np.tri(5, dtype=bool), 0.1 * np.ones((5, 5)) + np.eye(5), np.nan)
    np.testing.assert_array_equal(np.linalg.cholesky(definite) > 0, da.jit(np.linalg.cholesky)(definite) > 0)
