"""Products of matrices, of matrices with vectors, and convolutions as loops, against NumPy.

Sizes that end differently, every mode, threads, strong zeros beside infinities. Not for: products of stacks of small
matrices (test_stacks.py), or those written out in registers (test_groups.py).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import code, passes, products
from dualad.errors import CompilerFaultWarning
from tests.compile.native.test_passes import _small_is_large, numbers

__all__ = ["_small_is_large"]

pytestmark = pytest.mark.usefixtures("native_backend")


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_SUMMED", 0)
    monkeypatch.setattr(products, "_FEWEST", 0)


def same(f, *args, whole: bool = True) -> None:
    with np.errstate(all="ignore"):
        expected = [np.asarray(x) for x in da.tree.flatten(f(*args))[0]]
        fast, first = da.jit(f), None
        for count in (1, 2, 7):
            da.threads(count)
            found = [np.asarray(x) for x in da.tree.flatten(fast(*args))[0]]
            for a, b in zip(found, expected, strict=True):
                assert a.shape == b.shape and a.dtype == b.dtype
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)
            first = first or found
            assert all([np.array_equal(a, b, equal_nan=True) for a, b in zip(first, found, strict=True)])
    assert not whole or "NumPy and SciPy" not in fast.lower(*args).kernels


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(("n", "taps"), [(16, 1), (17, 2), (33, 15), (300, 65), (24, 24)])
def test_convolutions(mode: str, n: int, taps: int) -> None:
    if mode == "valid" and n - taps < 15:
        pytest.skip("shorter than two vectors: NumPy's")
    x, k = numbers(n), numbers(taps)
    same(lambda x, k: da.jvp(lambda x, k: np.convolve(x, k, mode), (x, k), (x[::-1] * 2, k + 1)), x, k)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("size", [None, 0])
def test_convolutions_in_lanes(mode: str, axes: tuple, size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of convolutions, with all sizes taken for large, and as they are."""
    if size is not None:
        monkeypatch.setattr(passes, "_LARGE", size)
        monkeypatch.setattr(passes, "_WORTH", size)
    rng = np.random.default_rng(4)
    x, y = [rng.normal(size=(3, n)[a is None :]) for n, a in zip((40, 5), axes, strict=True)]
    lanes = da.vmap(lambda a, b: np.convolve(2 * a, np.sin(b), mode), axes)
    for f in (lanes, da.grad(lambda x, y: np.sum(lanes(x, y) ** 2), argnums=(0, 1))):
        for found, expected in zip(da.tree.flatten(da.jit(f)(x, y))[0], da.tree.flatten(f(x, y))[0], strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    assert size is None or "convolve" not in str(da.jit(lanes).explain(x, y)).partition("left to NumPy")[2]


@pytest.mark.parametrize("rows", [1, 9, *[pytest.param(n, marks=pytest.mark.full) for n in (3, 4, 20)]])
@pytest.mark.parametrize(("inner", "columns"), [(1, 8), (7, 9), (40, 16), (5, 24), (16, 41)])
def test_matrices(rows: int, inner: int, columns: int) -> None:
    x, y = numbers(rows, inner), numbers(inner, columns)
    same(lambda x, y: ((x * 2) @ y + 1, np.tanh(x @ (y + 1))), x, y)


@pytest.mark.parametrize(("rows", "columns"), [(9, 8), (8, 130), (130, 11), (40, 40)])
def test_vectors(rows: int, columns: int) -> None:
    x, v, w = numbers(rows, columns), numbers(columns), numbers(rows)

    def f(x, v, w):
        outer = np.einsum("i,j->ji", v, w) * 2
        return x @ v * 2, w @ x * 3, np.einsum("ji,j->i", x, w) + 1, outer, np.einsum("ij,ij->i", x, outer), v @ v

    same(f, x, v, w)
    loss = lambda v, x: np.mean(np.log1p(np.exp(-(x @ v)))) + np.sum((w @ x) ** 2)
    same(da.grad(loss), v, x)
    same(lambda v, x: da.jvp(da.grad(lambda v: loss(v, x)), (v,), (v * 2,)), v, x)


@pytest.mark.parametrize(("rows", "columns"), [(150, 8), (1000, 37), (513, 64)])
def test_long_columns_in_pieces(rows: int, columns: int) -> None:
    x, w = numbers(rows, columns), numbers(rows)
    same(lambda x, w: (w @ x, np.tanh(w) @ (x * 2), np.sum(x * 2, axis=0), w @ x * 3), x, w)


def test_zeros_win_beside_infinities() -> None:
    def loss(v, x):
        return np.sum(np.sqrt(np.abs(x @ v)))  # at zero its derivative is infinite

    x, v = numbers(20, 8), numbers(8)
    x[3], x[:, 2], v[4] = 0, 0, 0
    same(da.vmap(da.grad(loss), in_axes=(0, None)), np.stack([v, v * 0]), x, whole=False)
    same(da.grad(lambda v: loss(v, x)), v, whole=False)


def test_a_total_is_there_before_it_is_read() -> None:
    x, w, v = numbers(40, 30), numbers(40), numbers(30)
    same(lambda x, w, v: (w * 3, x @ v * 2 + w, v - 1, (w @ x) * v), x, w, v)


def test_large_products_stay_with_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_MOST", 1000)
    x = numbers(20, 20)
    fast = da.jit(lambda x: (x * 2) @ x + 1)
    np.testing.assert_allclose(fast(x), (x * 2) @ x + 1, rtol=1e-12)
    assert "NumPy and SciPy" in fast.lower(x).kernels


def test_another_place_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code.Lanes, "at_most", lambda self, x, bound: "0")
    with pytest.raises((AssertionError, CompilerFaultWarning)):
        same(lambda x, y: (x * 2) @ y, numbers(4, 8), numbers(8, 19))
