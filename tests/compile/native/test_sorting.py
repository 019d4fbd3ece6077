"""Orders of short rows in compiled programs, their loops and large arrays: NumPy's, with ties, NaN and signed zeros.

Not for: what quantiles are (`tests/surface`), or derivatives of sorting outside of compiled programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.core.tables import OPS

pytest.importorskip("llvmlite", reason="orders are machine code where llvmlite is installed")

SIZES = [1, 2, 7, 8, 9, 12, 63, 64, 65]


def entries(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Make numbers with ties, both zeros, infinities and NaN of either sign among them."""
    x = rng.integers(-4, 5, shape) / 2.0
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 5e-324])
    return np.where(rng.random(shape) < 0.2, rng.choice(special, shape), x)


def left(f: Callable, *args: Any) -> str:
    """Return what the report says is left to NumPy and Python."""
    return str(da.jit(f).explain(*args)).partition("left to NumPy and Python:")[2]


def order(x: Any, axis: int) -> Any:
    return np.argsort(x, axis, kind="stable")


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, bool])
@pytest.mark.parametrize("n", SIZES)
def test_orders_are_numpys(n: int, dtype: Any) -> None:
    x = entries(np.random.default_rng(n), n, 5)
    x = (x if np.dtype(dtype).kind == "f" else np.nan_to_num(x, posinf=9, neginf=-9)).astype(dtype)
    for a, axis in ((x, 0), (x.T.copy(), 1), (x[:, 0], 0), (np.repeat(x.T[None], 40, 0), 2)):
        np.testing.assert_array_equal(da.jit(order, static_argnums=1)(a, axis), order(a, axis))
        np.testing.assert_array_equal(da.jit(np.sort, static_argnums=1)(a, axis), np.sort(a, axis))


def test_an_order_of_numpys_choice_is_asked_for_where_entries_are_equal() -> None:
    rng = np.random.default_rng(0)
    f = da.jit(lambda x: np.argsort(x) + 1)
    for x in (rng.normal(size=60), entries(rng, 60), rng.normal(size=60), np.zeros(60)):
        np.testing.assert_array_equal(f(x), np.argsort(x) + 1)
    assert not left(lambda x: np.argsort(x) + 1, rng.normal(size=60))


@pytest.mark.parametrize("n", SIZES)
def test_means_of_runs_are_numpys(n: int) -> None:
    rng = np.random.default_rng(n)
    x, joined = entries(rng, 6, n), rng.random((6, n)) < 0.6
    for axis, (a, b) in enumerate(((x.T, joined.T), (x, joined))):
        f = lambda a, b, axis=axis: OPS["average_groups"](a, b, axis=axis)
        np.testing.assert_array_equal(da.jit(f)(a.copy(), b.copy()), f(a, b))


@pytest.mark.parametrize("lanes", [1, 200])
def test_a_place_that_is_none_raises_as_numpy_does(lanes: int) -> None:
    x, places = np.arange(4.0 * lanes).reshape(lanes, 4), np.zeros((lanes, 4), int)
    f = da.jit(lambda x, p: 2.0 * OPS["permute"](x, p, axis=1))
    places[-1] = 3, -1, -4, 0
    np.testing.assert_array_equal(f(x, places), 2 * np.take_along_axis(x, places, 1))
    for wrong in (4, -5):
        places[-1, 2] = wrong
        with pytest.raises(IndexError):
            f(x, places)


def middle(x: Any) -> Any:
    return np.sum(np.sin(np.median(x, axis=-1)) + np.quantile(np.cos(x), 0.3, axis=-1) ** 2)


@pytest.mark.parametrize("shape", [(12,), (3, 12), (200, 12)])
def test_quantiles_with_derivatives_are_machine_code(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape).round(1)
    for f in (middle, da.grad(middle)):
        np.testing.assert_allclose(da.jit(f)(x), f(x), rtol=1e-12, atol=1e-14)
        assert not left(f, x)


def test_a_loop_that_sorts_is_machine_code() -> None:
    def run(x: Any) -> Any:
        def turn(x: Any, _: None) -> tuple:
            y = np.sort(np.cos(3 * x))
            return y * np.argsort(x), middle(y)

        return np.sum(da.scan(turn, x, None, length=4)[1])

    x = np.random.default_rng(1).normal(size=9)
    for f in (run, da.grad(run), da.hessian(run)):
        np.testing.assert_allclose(da.jit(f)(x), f(x), rtol=1e-9, atol=1e-9)
        assert not left(f, x)
