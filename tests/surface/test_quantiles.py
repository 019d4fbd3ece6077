"""Weighted quantiles: a choice of an entry, whose derivative is that entry's, and none in the weights."""

import numpy as np
import pytest

import dualad as da
from tests.oracles import differences
from tests.oracles.arrays import close

RNG = np.random.default_rng(12)
X, W = RNG.normal(size=(3, 4, 5)), RNG.random((3, 4, 5))
W[0, 1] = W[1, :2, 3] = 0
NAMES = ["quantile", "percentile", "nanquantile", "nanpercentile"]
CALLS = [
    (X, W, None, 0.3),
    (X, W, 0, [0.05, 0.55]),
    (X, W[:, 0] + 0.1, (0, 2), 1.0),
    (X, W[0, 0] + 0.1, -1, np.array([[0.2], [0.9]])),
    (X.astype(np.float32), W, (2, 0), np.float32(0.4)),
]
if not hasattr(np, "unstack"):  # NumPy 2.0 takes the weights of several axes in another order than the entries
    CALLS.pop()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("call", range(len(CALLS)))
def test_weighted(name, call):
    x, w, axis, q = CALLS[call]
    if "nan" in name:
        if w.shape != x.shape:
            pytest.skip("NumPy's nanquantile takes weights of the shape of its operand only")
        x = np.where(X > 1.5, np.nan, x).astype(x.dtype)
    q = np.asarray(q)[()] * (100 if "percent" in name else 1)
    f = lambda x, w: getattr(np, name)(x, q, axis=axis, weights=w, method="inverted_cdf", keepdims=call % 2 == 0)
    t = RNG.normal(size=x.shape).astype(x.dtype)
    value, tangent = da.jvp(f, (x, w), (t, None))
    close(value, f(x, w), "value")
    assert np.shape(tangent) == np.shape(value)
    moving = ~np.isnan(np.asarray(value))
    near = differences.along(lambda x: np.where(moving, f(x, w), 0), (x,), (np.nan_to_num(t) * 1e-3,))
    differences.compare(np.where(moving, tangent, 0) * 1e-3, near, "tangent")
    assert not np.any(da.jvp(f, (x, w), (None, np.ones_like(w)))[1]), "weights have no derivative"
    stacked = np.stack([x, -x])
    close(da.vmap(lambda x: f(x, w))(stacked), np.stack([f(x, w), f(-x, w)]), "lanes")
    close(da.vmap(f)(stacked, np.stack([w, w[..., ::-1]])), np.stack([f(x, w), f(-x, w[..., ::-1])]), "lanes of both")
    close(da.trace(f, x, w)(x, w), f(x, w), "program")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.quantile(x, 0.5, weights=W),
        lambda x: np.quantile(x, 0.5, weights=-W, method="inverted_cdf"),
        lambda x: np.quantile(x, 0.5, weights=W[0], method="inverted_cdf"),
        lambda x: np.quantile(x, 0.5, axis=0, weights=W[0, 0], method="inverted_cdf"),
        lambda x: np.quantile(x, 1.5, weights=W, method="inverted_cdf"),
        lambda x: np.quantile(x, 0.5, weights=np.nan * W, method="inverted_cdf"),
    ],
)
def test_bad_weights_raise(call):
    with pytest.raises((TypeError, ValueError)):
        da.jvp(call, (X,), (X,))
