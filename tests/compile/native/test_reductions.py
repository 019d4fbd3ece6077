"""Sums, extrema, their places and running totals along long axes, against NumPy's, bit for bit.

Every length that ends differently, rows, columns, whole arrays, pieces for threads, NaN and infinities. Not for: sums
of a few entries (test_passes.py, test_groups.py).
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import passes, reductions
from dualad.ops.scans import cumprod, recurrence
from tests.compile.native.test_passes import _small_is_large, numbers, same

__all__ = ["_small_is_large"]

pytestmark = pytest.mark.usefixtures("native_backend")

_MORE = [pytest.param(n, marks=pytest.mark.full) for n in (*range(9, 41), 127, 128, 257, 300)]
_SHAPES = [(3, 40), (130, 8), (200, 70), (1, 30), (30, 1)]


@pytest.fixture(autouse=True)
def _alone_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_WORTH", 0)


def totals(x, y):
    return (
        np.sum(x * y), np.max(x - y), np.min(x * 2), np.argmax(x * y), np.argmin(y * 1), np.mean(x + y),
        np.cumsum(x * y), np.cumsum((x * y)[::-1])[::-1], np.any(x > 2 * y), np.all(x * y != x),
        np.any(x != x), np.all(x == x),
    )  # fmt: skip


@pytest.mark.parametrize("n", [8, 15, 129, 1003, 5000, *_MORE])
def test_lengths(n: int) -> None:
    same(totals, numbers(n), numbers(n)[::-1].copy(), whole=False)


@pytest.mark.parametrize(
    "shape", [(9, 9), (40, 3), (8, 130), *[pytest.param(s, marks=pytest.mark.full) for s in _SHAPES]]
)
def test_two_axes(shape: tuple[int, int]) -> None:
    x, y, row = numbers(*shape), numbers(*shape[::-1]).T.copy(), numbers(shape[1])

    def f(x, y, row):
        return (
            np.sum(x * y + row, 0), np.sum(x * row, 1), np.max(x - y, 0), np.min(x * 2, 1, keepdims=True),
            np.sum(x * y), np.argmax(x * row, 1), np.cumsum(x * row, 0), np.cumsum(x * row, 1), np.sum(x * row),
            np.max(x * row), np.any(x > 2 * row, 0), np.all(x < 3 * row, 1), np.any(x * row > 9, 1, keepdims=True),
            np.all(x * row < 9, 0), np.sum(np.concatenate([x, y]) * 2, 0),
            (x * x) / np.sum(x * x, axis=-1, keepdims=True),
        )  # fmt: skip

    same(f, x, y, row, whole=False)


@pytest.mark.parametrize("shape", [(9, 9), (130, 8), (8, 1003), (12001,)])
def test_truth_values_are_counted(shape: tuple[int, ...]) -> None:
    def f(x):
        held = x > 0.3
        rows = held & (x < x.max(axis=-1, keepdims=True))
        return [*(np.sum(held, axis) for axis in range(x.ndim)), np.sum(held), np.sum(rows, -1), np.mean(rows)]

    assert all(["sum(" not in line for line in str(da.jit(f).lower(numbers(*shape)).source).splitlines()])
    same(f, numbers(*shape), whole=False)


def test_three_axes_and_types() -> None:
    f = lambda x: (
        np.sum(x * 2, 0), np.sum(x * 2, 1), np.sum(x * 2, 2), np.cumsum(x * 2, 1), np.sum(x * 2), np.max(x * 2, 1),
        np.argmax(x * 3, 2), np.cumsum(x[:, ::-1] * 2, 1)[:, ::-1], np.sum(x * 2, (1, 2)), np.max(x[..., :5] * 2, 2),
    )  # fmt: skip
    same(f, numbers(5, 12, 9), whole=False)
    i = np.arange(300) * 37 % 41 - 20
    same(lambda i: (np.sum(i * i), np.max(i * 2), np.argmax(i - 1), np.argmin(i - 1), np.cumsum(i * i)), i)
    s = numbers(300).astype(np.float32)
    same(lambda s: (np.sum(s * s), np.max(s * 2), np.argmax(s - 1), np.min(s * 3), np.cumsum(s * s)), s)


@pytest.mark.parametrize("value", [np.nan, *[pytest.param(v, marks=pytest.mark.full) for v in (np.inf, -np.inf)]])
def test_values_that_are_no_numbers(value: float) -> None:
    f = lambda x: (np.sum(x * 2), np.max(x * 2), np.min(x * 2), np.argmax(x * 2), np.argmin(x * 2), np.cumsum(x * 2))
    for places in ([0], [3, 150], [299], range(300)):
        x = numbers(300)
        x[list(places)] = value
        same(f, x)
    zeros = np.full(300, -0.0)
    assert not np.signbit(da.jit(lambda x: np.sum(x * 2.0))(zeros))
    assert np.signbit(da.jit(lambda x: np.cumsum(x * 2.0))(zeros)).all()


def _one_after_the_other(factors, terms, axis, reverse):
    """Each term plus the total so far times a factor: of the entry itself, or from the end of the one before."""
    a, b = [np.moveaxis(x, axis, 0)[:: -1 if reverse else 1] for x in (factors, terms)]
    out = np.array(b)
    for k in range(1, len(b)):
        out[k] += (a[k - 1] if reverse else a[k]) * out[k - 1]
    return np.moveaxis(out[:: -1 if reverse else 1], 0, axis)


@pytest.mark.parametrize("dtype", [float, np.float32, np.int64])
@pytest.mark.parametrize("shape", [(133,), (300, 1), (1, 300), (9, 31), (31, 9), (40, 5), (5, 40), (3, 50, 4)])
def test_recurrences_and_running_products(shape: tuple[int, ...], dtype: type) -> None:
    a, b = [np.round(3 * numbers(*shape)).astype(dtype) if dtype is np.int64 else numbers(*shape).astype(dtype)
            for _ in range(2)]  # fmt: skip
    b = np.roll(b, 7)
    if dtype is not np.int64:
        a.flat[[0, -1]], b.flat[[0, -1]] = np.inf, -0.0  # the factor that is not there is never read
    for axis, reverse in itertools.product(range(len(shape)), (False, True)):
        run = lambda a, b, axis=axis, reverse=reverse: recurrence(a, b, axis=axis, reverse=reverse)
        for f, factors, terms, more in [
            (run, a, b, 0), (lambda x, y, run=run: run(-x, 2 * y) + 1, -a, 2 * b, 1),
            (lambda x, y, run=run: run(a, y * 1), a, b, 0), (lambda x, y, run=run: run(x * 1, b), a, b, 0),
        ]:  # fmt: skip
            with np.errstate(all="ignore"):
                wanted = _one_after_the_other(factors, terms, axis, reverse) + more
                np.testing.assert_array_equal(da.jit(f)(a, b), wanted)
        product = lambda x, axis=axis, reverse=reverse: cumprod(-x, axis=axis, reverse=reverse)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(da.jit(product)(a), product(a))


def test_a_long_recurrence_alone_is_a_loop() -> None:
    f = da.jit(lambda a, b: recurrence(a, b, axis=0))
    assert "_recur" not in str(f.lower(numbers(200), numbers(200)).source)
    (group,) = f._specialised((numbers(200), numbers(200)), {}).program.compiled.groups
    assert "1 loop" in group.about


def test_a_total_is_there_before_it_is_read() -> None:
    x, y, v = numbers(40, 30), numbers(40), numbers(30)
    same(lambda x, y, v: (y * 3, np.sum(x * v, 1) * 2, np.cumsum(y * 2) - y, v * 2, np.max(x * v, 0) + v), x, y, v)


def test_places_are_counted_not_read() -> None:
    n = 400
    f = lambda x: np.sum(np.where(np.arange(n) == np.argmax(x * 2), x, x * 3))
    same(f, numbers(n))
    (group,) = da.jit(f)._specialised((numbers(n),), {}).program.compiled.groups
    assert len(group.reads) == 1


@pytest.mark.parametrize("shape", [(300,), pytest.param((40, 60), marks=pytest.mark.full)])
def test_softmax_and_its_derivatives(shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    f = lambda x: da.scipy.special.logsumexp(x, axis=-1)
    same(f, x, exact=False, whole=False)
    same(lambda x: da.jvp(f, (x,), (x * 2,)), x, exact=False, whole=False)
    same(da.grad(lambda x: np.sum(f(x * 2) ** 2)), x, exact=False, whole=False)


def test_another_order_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "_LEAF", 64)
    with pytest.raises(AssertionError):
        same(lambda x: np.sum(x * x), numbers(5000))


def logistic(w, v, x, y):
    return da.hvp(lambda w: np.sum(np.log1p(np.exp(-y * (x @ w)))) + np.sum(w * w), w, v)


@pytest.mark.parametrize("rows", [131, 136, 139, 144, 150, 203])
def test_loops_through_the_same_rows_are_one(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a matrix are read in pieces, by all loops; the bits are those of loops apart, for any threads."""
    r = np.random.default_rng(rows)
    args = r.normal(size=9), r.normal(size=9), r.normal(size=(rows, 9)), np.sign(r.normal(size=rows))
    monkeypatch.setattr(passes, "_SUMMED", 9)
    found = []
    for count in (1, 3, 7):
        da.threads(count)
        fast = da.jit(logistic)
        found.append(fast(*args))
        texts = [g.text for g in fast._specialised(args, {}).program.compiled.groups]
        assert any(["@region" in t for t in texts]) == (rows % 16 in (0, *range(8, 16)))
    monkeypatch.setattr(passes, "join_loops", lambda kernels: ([], [call for _, own in kernels for call in own]))
    apart = da.jit(logistic)(*args)
    assert all([x.tobytes() == apart.tobytes() for x in found])
    np.testing.assert_allclose(apart, logistic(*args), rtol=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(40, 9), (203, 9), (150, 16), (203, 130)])
def test_zeros_of_a_matrix_win_against_infinite_cotangents(rows: int, columns: int, monkeypatch) -> None:
    monkeypatch.setattr(passes, "_SUMMED", 9)
    r = np.random.default_rng(rows)
    x, w = r.normal(size=(rows, columns)), r.normal(size=columns)
    x[r.random(x.shape) < 0.3] = 0.0
    x[5] = 0.0
    x[7] = 0.0
    x[7, 2] = np.nan if columns == 16 else 0.0
    f = da.grad(lambda w, x: np.sum(np.sqrt(np.abs(x @ w))))
    with np.errstate(all="ignore"):
        expected = f(w, x)
    assert np.isfinite(expected).all() == (columns != 16)
    for count in (1, 3):
        da.threads(count)
        fast = da.jit(f)
        np.testing.assert_allclose(fast(w, x), expected, rtol=1e-9, equal_nan=True)
    assert any(["fma" in g.text for g in fast._specialised((w, x), {}).program.compiled.groups])


_AXES = {n: [c for k in range(1, n + 1) for c in itertools.combinations(range(n), k)] for n in (2, 3)}


@pytest.mark.parametrize("shape", [(8, 128), (128, 8), (1, 8, 128), pytest.param((9, 10, 12), marks=pytest.mark.full)])
def test_several_totals_along_different_axes(shape: tuple[int, ...]) -> None:
    """The sum of the numbers of axes is the same for (1,) and (0, 1): a key made of that wrote behind a result."""
    x = numbers(*shape)
    for one, other in itertools.combinations_with_replacement(_AXES[len(shape)], 2):
        f = lambda x, one=one, other=other: (
            np.sum(x, one), np.sum(x, other, keepdims=True), np.max(x, one, keepdims=True), np.max(x, other), x * 2,
        )  # fmt: skip
        same(f, x, whole=False, exact=False)
        norm = lambda x, one=one, other=other: (x - x.mean(one, keepdims=True)) / (x.std(other, keepdims=True) + 1)
        np.testing.assert_allclose(da.jit(norm)(x), norm(x), rtol=1e-12, atol=1e-12)


def test_the_place_of_an_extremum_of_one_column() -> None:
    x = numbers(300, 2)
    same(lambda x: (np.argmax(np.max(x, axis=(1,), keepdims=True), axis=0), np.argmin(x[:, :1] * 2, 0)), x, whole=False)
