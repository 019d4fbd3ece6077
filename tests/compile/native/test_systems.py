"""Linear systems in the bodies of compiled loops: against NumPy, with its errors, to second derivatives.

Not for: stacks of matrices (`test_stacks.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualad as da

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
