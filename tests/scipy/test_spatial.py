"""Distances: each metric against SciPy, differences, the dot test, a loop; coincident points; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.spatial.distance as plain

import dualad as da
import dualad.scipy.spatial.distance as ours
from dualad.errors import ConversionError, UnsupportedError
from tests.oracles.calls import check_call

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(4, 3)), RNG.normal(size=(2, 3))
W = np.array([1.0, 2.0, 0.5])
METRICS = [
    "braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "jensenshannon",
    "mahalanobis", "minkowski", "seuclidean", "sqeuclidean",
]  # fmt: skip
OPTIONS = {"mahalanobis": {"VI": np.diag(W)}, "seuclidean": {"V": W}}
WITHOUT_WEIGHTS = ("jensenshannon", "mahalanobis", "seuclidean")


def points(metric: str):
    return (np.abs(X), np.abs(Y)) if metric == "jensenshannon" else (X, Y)


@pytest.mark.parametrize("metric", METRICS)
def test_between_all_pairs(metric: str) -> None:
    x, y = points(metric)
    options = OPTIONS.get(metric, {})
    check_call(f"cdist {metric}", lambda x, y: ours.cdist(x, y, metric, **options), x, y)
    check_call(f"pdist {metric}", lambda x: ours.pdist(x, metric, **options), x)
    if metric not in WITHOUT_WEIGHTS:
        check_call(f"weighted {metric}", lambda x: ours.cdist(x, y, metric, w=W), x)


@pytest.mark.parametrize("metric", METRICS)
def test_of_two_vectors(metric: str) -> None:
    x, y = points(metric)
    more = [np.diag(W)] if metric == "mahalanobis" else [W] if metric == "seuclidean" else []
    check_call(metric, lambda u, v: getattr(ours, metric)(u, v, *more), x[0], y[0])


@pytest.mark.parametrize("metric", ["mahalanobis", "seuclidean"])
def test_what_is_left_out_is_made_of_the_points(metric: str) -> None:
    x, y = RNG.normal(size=(6, 3)), RNG.normal(size=(5, 3))
    check_call(f"pdist {metric} of itself", lambda x: ours.pdist(x, metric), x)
    check_call(f"cdist {metric} of itself", lambda x: ours.cdist(x, y, metric), x)


@pytest.mark.parametrize("p", [1, 1.5, 3, np.inf])
def test_minkowski(p) -> None:
    check_call(f"minkowski {p}", lambda x: ours.cdist(x, Y, "minkowski", p=p), X)
    check_call(f"weighted minkowski {p}", lambda x: ours.pdist(x, "minkowski", p=p, w=W), X)


def test_layouts() -> None:
    check_call("to a matrix", ours.squareform, np.arange(1.0, 7.0))
    check_call("to a vector", lambda m: ours.squareform(m, checks=False), plain.squareform(np.arange(1.0, 7.0)))
    assert da.jvp(ours.squareform, (np.zeros(0),), (np.zeros(0),))[0].shape == plain.squareform(np.zeros(0)).shape
    with pytest.raises(ValueError, match="binomial"):
        da.jvp(ours.squareform, (np.ones(4),), (np.ones(4),))


def test_coincident_points_have_the_subgradient_zero() -> None:
    kernel = lambda x: np.sum(np.exp(-(ours.cdist(x, x) ** 2)))
    same = lambda x: np.sum(np.exp(-ours.cdist(x, x, "sqeuclidean")))
    assert np.allclose(da.grad(kernel)(X), da.grad(same)(X))
    assert not da.grad(lambda u: ours.euclidean(u, X[0]))(X[0]).any()
    assert not da.grad(lambda u: ours.mahalanobis(u, X[0], np.eye(3)))(X[0]).any()


def test_third_derivatives() -> None:
    t = RNG.normal(size=X.shape)
    line = lambda h: np.sum(ours.pdist(X + h * t) ** 3)
    pairs = np.triu_indices(len(X), 1)
    gap, move = X[pairs[0]] - X[pairs[1]], t[pairs[0]] - t[pairs[1]]
    by_hand = lambda h: np.sum(np.sum((gap + h * move) ** 2, axis=1) ** 1.5)
    for _ in range(4):
        assert np.isclose(line(0.0), by_hand(0.0))
        line, by_hand = (lambda h, f=f: da.jvp(f, (h,), (1.0,))[1] for f in (line, by_hand))


def test_single_precision_is_answered_in_double_as_scipy_does() -> None:
    x = X.astype(np.float32)
    value, _ = da.jvp(ours.pdist, (x,), (x,))
    assert value.dtype == plain.pdist(x).dtype == np.float64


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda x: ours.cdist(x, x, "hamming"), "booleans"), (lambda x: ours.pdist(x, "nonsense"), "none of SciPy's"),
        (lambda x: ours.pdist(x, lambda a, b: 1.0), "vmap"),
        (lambda x: ours.pdist(x, out=np.zeros(6)), "use the result"),
        (lambda x: ours.minkowski(X[0], X[1], x[0, 0]), "give p as a number"),
    ],
)  # fmt: skip
def test_what_is_refused(call, word: str) -> None:
    with pytest.raises(UnsupportedError, match=word):
        da.jvp(call, (X,), (X,))


@pytest.mark.plain
def test_scipys_own_error_names_what_to_write() -> None:
    with pytest.raises(ConversionError, match=r"dualad\.scipy\.spatial\.distance\.cdist"):
        da.jvp(lambda x: plain.cdist(x, x), (X,), (X,))
