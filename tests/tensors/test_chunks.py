"""Chunks: ranges, sizes chosen from measured lanes, and vmap in chunks.

Not for: Jacobians in chunks (`test_jacobian_values.py`).
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, OutputError, PerformanceNote
from dualad.tensors.chunks import in_chunks


@pytest.mark.parametrize(("total", "size"), [(0, 3), (1, 1), (7, 3), (6, 3), (2, 5)])
def test_ranges_cover_everything_once(total: int, size: int) -> None:
    ranges = in_chunks(lambda a, b: (a, b), total, size, None, "test")
    assert [i for a, b in ranges for i in range(a, b)] == list(range(total))
    assert all(b - a <= size for a, b in ranges)


def test_the_chunk_is_chosen_from_measured_lanes() -> None:
    shared, lane = 400_000, 80_000

    def run(start, stop):
        work = np.ones(shared // 8), np.ones((stop - start, lane // 8))
        return start, stop, work[0][0]

    ranges = in_chunks(run, 50, None, 1_000_000, "test")
    assert ranges[0][:2] == (0, 1) and ranges[1][:2] == (1, 3)
    sizes = [b - a for a, b, _ in ranges[2:-1]]
    assert set(sizes) == {7}  # (1000000 - 400000) / 80000
    assert not tracemalloc.is_tracing()


def test_one_lane_too_many() -> None:
    with pytest.warns(PerformanceNote, match="one lane takes"):
        ranges = in_chunks(lambda a, b: (a, b, np.ones(1000).sum()), 4, None, 100, "test")
    assert ranges[-1][:2] == (3, 4)


@pytest.mark.parametrize("options", [{"chunk_size": 0}, {"chunk_size": True}, {"max_memory": -1}, {"max_memory": 1.5},
                                     {"chunk_size": 2, "max_memory": 10}])  # fmt: skip
@pytest.mark.parametrize("transform", [da.vmap, da.jacfwd, da.jacrev, da.hessian, da.jacobian])
def test_sizes_that_make_no_sense(transform, options: dict) -> None:
    with pytest.raises(ArgumentError, match=r"chunk_size|max_memory"):
        transform(np.sin, **options)


@pytest.mark.parametrize("options", [{"chunk_size": 1}, {"chunk_size": 4}, {"max_memory": 20_000}])
def test_vmap_in_chunks(options: dict, rng) -> None:
    x, w = rng.normal(size=(10, 3)), rng.normal(size=(3, 10))

    def f(x, w, k):
        return {"y": np.sin(x) @ w, "same": k * 2}, x[:2]

    whole = da.vmap(f, (0, 1, None), (0, 1))(x, w, 3.0)
    parts = da.vmap(f, (0, 1, None), (0, 1), **options)(x, w, 3.0)
    for a, b in zip(da.tree.flatten(whole)[0], da.tree.flatten(parts)[0], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(da.vmap(lambda k: 5.0, out_axes=None, **options)(np.arange(10.0)), 5.0)
    np.testing.assert_array_equal(da.vmap(np.sin, **options)(np.zeros((0, 2))), np.zeros((0, 2)))
    derivative = da.grad(lambda x: np.sum(da.vmap(lambda x: x**3, **options)(x)))
    np.testing.assert_allclose(derivative(x), 3 * x**2)


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
def test_branches_that_split_in_some_chunks_only() -> None:
    def f(x):
        if x > 2:
            return 7.0, x * 2
        return 5.0, x

    x = np.arange(6.0)
    constant, value = da.vmap(f, chunk_size=2)(x)
    np.testing.assert_array_equal(constant, np.where(x > 2, 7.0, 5.0))
    np.testing.assert_array_equal(value, np.where(x > 2, 2 * x, x))
    with pytest.raises(OutputError, match="structures"):
        da.vmap(lambda x: (x,) if x > 2 else x, chunk_size=3)(x)


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
def test_constants_that_differ_between_chunks() -> None:
    """Each chunk agrees on a branch, whose result does not depend on the lane: the chunks have one result each."""
    x, f = np.array([1.0, 1.0, -1.0, -1.0]), lambda x: 1.0 if x > 0 else 2.0
    np.testing.assert_array_equal(da.vmap(f, chunk_size=2)(x), [1.0, 1.0, 2.0, 2.0])
    with pytest.raises(OutputError, match="shapes"):
        da.vmap(lambda x: x * np.ones(2 if x > 0 else 3), chunk_size=2)(x)
    with pytest.raises(ArgumentError, match="out_axes is None"):
        da.vmap(f, out_axes=None, chunk_size=2)(x)
    np.testing.assert_array_equal(da.vmap(lambda x: np.nan, out_axes=None, chunk_size=2)(x), np.nan)

    def same_value(w):  # and another derivative
        return np.sum(da.vmap(lambda x: w if x > 0 else da.stop_gradient(w), chunk_size=2)(x))

    assert da.grad(same_value)(3.0) == 2.0
    assert da.grad(lambda w: da.vmap(lambda x: 2 * w, out_axes=None, chunk_size=2)(x))(3.0) == 2.0


def test_peak_memory_is_bounded() -> None:
    x = np.ones((200, 5000))
    f = lambda x: np.sum(np.sin(x) * np.exp(x) ** 2)

    def peak(**options):
        tracemalloc.start()
        da.vmap(f, **options)(x)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    whole = peak()
    assert peak(chunk_size=10) < whole / 10
    assert peak(max_memory=1_000_000) < 1_200_000 < whole / 10
