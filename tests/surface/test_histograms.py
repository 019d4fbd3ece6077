"""Histograms, functions along axes, and positions in a flat array."""

import numpy as np
import pytest

import dualad as da
from dualad.errors import UnsupportedError
from tests.oracles.calls import check_call

RNG = np.random.default_rng(5)
X, Y, W = RNG.normal(size=30), RNG.normal(size=30), RNG.uniform(1, 2, size=30)
EDGES = np.array([-2.0, -0.7, 0.1, 0.8, 2.5])

CALLS = {
    "weights": (lambda w: np.histogram(X, 5, weights=w)[0], W),
    "weights, density, range": (lambda w: np.histogram(X, 4, (-1, 1), True, w)[0], W),
    "weights, edges": (lambda w: np.histogram(X, EDGES, weights=w)[0], W),
    "edges of data": (lambda x: np.histogram(x, 5)[1], X),
    "edges of edges": (lambda e: np.histogram(X, e, density=True)[0], EDGES),
    "bin edges": (lambda x: np.histogram_bin_edges(x, 4), X),
    "two-dimensional": (lambda w: np.histogram2d(X, Y, (3, 4), weights=w)[0], W),
    "two-dimensional, density": (lambda w: np.histogram2d(X, Y, [EDGES, EDGES], density=True, weights=w)[0], W),
    "many-dimensional": (lambda w: np.histogramdd(np.stack([X, Y, X + Y], 1), 2, weights=w)[0], W),
    "along an axis": (lambda x: np.apply_along_axis(lambda r: np.cumsum(r) * r[0], 1, x), X.reshape(2, 3, 5)),
    "along an axis, to a number": (lambda x: np.apply_along_axis(np.max, 0, x), X.reshape(5, 6)),
    "along an axis, to a matrix": (lambda x: np.apply_along_axis(lambda r: np.outer(r, r), -1, x), X[:6].reshape(2, 3)),
    "over axes": (lambda x: np.apply_over_axes(np.sum, x, [0, -1]), X.reshape(2, 3, 5)),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    check_call(name, *CALLS[name], batch="edges" not in name and "density" not in name, stage=False)


@pytest.mark.parametrize("kwargs", [{}, {"density": True}, {"bins": 3, "range": (-1, 1)}, {"bins": EDGES}])
def test_counts_and_dtypes_are_numpys(kwargs):
    (counts, edges), _ = da.jvp(lambda x: np.histogram(x, **kwargs), (X,), (X,))
    expected_counts, expected_edges = np.histogram(X, **kwargs)
    np.testing.assert_allclose(counts, expected_counts)
    np.testing.assert_allclose(edges, expected_edges)
    assert counts.dtype == expected_counts.dtype


def test_counts_are_batched():
    rows = np.stack([X, Y, X * 0.5])
    counts = da.vmap(lambda x: np.histogram(x, EDGES)[0])(rows)
    np.testing.assert_array_equal(counts, [np.histogram(r, EDGES)[0] for r in rows])


def test_a_rule_for_the_number_of_bins_is_refused():
    with pytest.raises(UnsupportedError, match="auto"):
        da.jvp(lambda x: np.histogram(x, "auto")[0], (X,), (X,))


@pytest.mark.parametrize("order", ["C", "F"])
def test_positions_in_a_flat_array(order):
    flat = np.arange(24)[::5]
    found = da.vmap(lambda i: np.stack(np.unravel_index(i, (2, 3, 4), order)))(flat)
    np.testing.assert_array_equal(found, np.stack(np.unravel_index(flat, (2, 3, 4), order), -1))
    back = da.vmap(lambda i: np.ravel_multi_index((i[0], i[1], i[2]), (2, 3, 4), order=order))(found)
    np.testing.assert_array_equal(back, flat)
    with pytest.raises(ValueError, match="out of bounds"):
        da.vmap(lambda i: np.unravel_index(i, (2, 3, 4)))(np.array([24, 25]))
    with pytest.raises(ValueError, match="invalid entry"):
        da.vmap(lambda i: np.ravel_multi_index((i, i), (2, 3)))(np.array([2, 2]))
